//! Posts alerts to URLs, as JSON over plain HTTP/1.1.
//!
//! The queue is bounded and nobody waits for it: a receiver that does not answer loses alerts,
//! which are counted, and never holds up who watches.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Alerts that may wait.
const QUEUE: usize = 256;
/// Attempts for one alert.
const ATTEMPTS: u32 = 5;
/// The first pause; each further one is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer that are read: its status stands in the first.
const ANSWER_LEN: usize = 1_024;

/// Where alerts are posted: `http://host[:port]/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    host: String,
    port: u16,
    path: String,
}

/// The near end of the queue.
#[derive(Clone, Debug)]
pub struct Webhooks {
    queue: Sender<(Url, String)>,
    dropped: Arc<AtomicU64>,
}

/// The far end: posts what comes.
#[derive(Debug)]
pub struct Postman {
    queue: Receiver<(Url, String)>,
    dropped: Arc<AtomicU64>,
}

/// Both ends of a queue.
#[must_use]
pub fn webhooks() -> (Webhooks, Postman) {
    let (sender, receiver) = channel(QUEUE);
    let dropped = Arc::new(AtomicU64::new(0));
    let near = Webhooks {
        queue: sender,
        dropped: Arc::clone(&dropped),
    };
    let far = Postman {
        queue: receiver,
        dropped,
    };
    (near, far)
}

impl Webhooks {
    /// Queues an alert; dropped and counted if the queue is full. Never waits.
    pub fn post(&self, url: &Url, json: String) {
        if self.queue.try_send((url.clone(), json)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%url, "an alert was dropped: the queue is full");
        }
    }

    /// Alerts that were dropped, or given up after all attempts.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Postman {
    /// Posts what is queued, one after the other, until the near end is gone.
    pub async fn run(mut self) {
        while let Some((url, json)) = self.queue.recv().await {
            if !deliver(&url, &json).await {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Tries until it is taken; false if it never was.
async fn deliver(url: &Url, json: &str) -> bool {
    let mut pause = PAUSE;
    for attempt in 1..=ATTEMPTS {
        let posted = tokio::time::timeout(PATIENCE, post(url, json)).await;
        match posted {
            Ok(Ok(200..=299)) => return true,
            // The receiver understood and does not want it: it will not want it later.
            Ok(Ok(status @ 400..=499)) => {
                tracing::warn!(%url, status, "an alert was refused");
                return false;
            }
            Ok(Ok(status)) => tracing::warn!(%url, status, attempt, "an alert was not taken"),
            Ok(Err(error)) => tracing::warn!(%url, %error, attempt, "an alert was not taken"),
            Err(_) => tracing::warn!(%url, attempt, "an alert was not taken in time"),
        }
        if attempt < ATTEMPTS {
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
    false
}

/// One POST; the status of its answer.
async fn post(url: &Url, json: &str) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect((url.host.as_str(), url.port)).await?;
    let request = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{json}",
        url.path,
        url.authority(),
        json.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream
        .take(ANSWER_LEN as u64)
        .read_to_end(&mut answer)
        .await?;
    let status = String::from_utf8_lossy(&answer);
    let status = status
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.get(2..5));
    let status = status.and_then(|digits| digits.parse().ok());
    status.ok_or_else(|| std::io::Error::other("the answer is no HTTP"))
}

impl Url {
    fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: write http://host:port/path (https is not spoken yet)");
        let rest = text.strip_prefix("http://").ok_or_else(wrong)?;
        let clean = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let slash = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(slash);
        if !clean(rest) || authority.contains('@') {
            return Err(wrong());
        }
        let bracketed = authority
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'));
        let (host, port) = match bracketed {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = port.map_or(Ok(80), |port| port.parse().map_err(|_| wrong()))?;
        if host.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            path: if path.is_empty() { "/" } else { path }.to_owned(),
        })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn receiver() -> (TcpListener, Url) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (
            listener,
            format!("http://{address}/alerts?of=sangam")
                .parse()
                .unwrap(),
        )
    }

    /// Takes one request and answers it.
    async fn answer(listener: &TcpListener, status: &str) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4_096];
        let mut len = 0;
        while !request[..len].ends_with(b"}") {
            len += stream.read(&mut request[len..]).await.unwrap();
        }
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8_lossy(&request[..len]).into_owned()
    }

    #[tokio::test]
    async fn an_alert_is_posted_and_tried_again_where_it_was_not_taken() {
        let (listener, url) = receiver().await;
        let (hooks, postman) = webhooks();
        let running = tokio::spawn(postman.run());
        hooks.post(&url, "{\"raised\":true}".to_owned());
        let first = answer(&listener, "503 Not Now").await;
        assert!(
            first.starts_with("POST /alerts?of=sangam HTTP/1.1\r\n"),
            "{first}"
        );
        assert!(first.contains("Content-Length: 15\r\n"), "{first}");
        let second = answer(&listener, "204 No Content").await;
        assert_eq!(first, second);
        assert_eq!(hooks.dropped(), 0);
        drop(hooks);
        running.await.unwrap();
    }

    #[tokio::test]
    async fn who_posts_never_waits_and_what_is_too_much_is_counted() {
        let (_deaf, url) = receiver().await;
        let (hooks, postman) = webhooks();
        for _ in 0..QUEUE + 3 {
            hooks.post(&url, "{}".to_owned());
        }
        assert_eq!(hooks.dropped(), 3);
        drop(postman);
        hooks.post(&url, "{}".to_owned());
        assert_eq!(hooks.dropped(), 4);
    }

    #[test]
    fn urls_are_understood_or_refused() {
        for (text, host, port, path) in [
            ("http://hooks.example.org", "hooks.example.org", 80, "/"),
            ("http://[::1]:8080/a/b", "::1", 8_080, "/a/b"),
            ("http://10.0.0.1:81/", "10.0.0.1", 81, "/"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!(
                (url.host.as_str(), url.port, url.path.as_str()),
                (host, port, path)
            );
        }
        for wrong in [
            "https://x/",
            "http://",
            "http://a:x/",
            "http://a/\r\nX: y",
            "http://u@h/",
        ] {
            assert!(wrong.parse::<Url>().is_err(), "{wrong}");
        }
    }
}
