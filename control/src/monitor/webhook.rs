//! Posts alerts to URLs, as JSON over HTTP/1.1, by TLS where the URL says https: the certificate
//! has to be for the URL's host and of an authority that this system trusts.
//!
//! The queue is bounded and nobody waits for it: a receiver that does not answer loses alerts,
//! which are counted, and never holds up who watches.

mod tls;

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::ClientConfig;
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

/// Where alerts are posted: `http://host[:port]/path`, or `https://...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    secure: bool,
    host: String,
    port: u16,
    path: String,
}

/// What is posted, and to whom.
#[derive(Debug)]
struct Letter {
    url: Url,
    json: String,
    /// The value of `Sangam-Signature`, if it is signed.
    signature: Option<String>,
}

/// The near end of the queue.
#[derive(Clone, Debug)]
pub struct Webhooks {
    queue: Sender<Letter>,
    dropped: Arc<AtomicU64>,
}

/// The far end: posts what comes.
#[derive(Debug)]
pub struct Postman {
    queue: Receiver<Letter>,
    dropped: Arc<AtomicU64>,
    trust: Trust,
}

/// Whom to believe; what the system trusts is read when it is first needed.
type Trust = OnceLock<Arc<ClientConfig>>;

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
        trust: Trust::new(),
    };
    (near, far)
}

impl Webhooks {
    /// Queues an alert; dropped and counted if the queue is full. Never waits.
    pub fn post(&self, url: &Url, json: String) {
        self.queue(url, json, None);
    }

    /// The same with a signature, which its receiver finds in the header `Sangam-Signature`.
    pub fn post_signed(&self, url: &Url, json: String, signature: String) {
        self.queue(url, json, Some(signature));
    }

    fn queue(&self, url: &Url, json: String, signature: Option<String>) {
        let letter = Letter {
            url: url.clone(),
            json,
            signature,
        };
        if self.queue.try_send(letter).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%url, "a webhook was dropped: the queue is full");
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
        while let Some(letter) = self.queue.recv().await {
            if !deliver(&letter, &self.trust).await {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Tries until it is taken; false if it never was.
async fn deliver(letter: &Letter, trust: &Trust) -> bool {
    let url = &letter.url;
    let mut pause = PAUSE;
    for attempt in 1..=ATTEMPTS {
        let posted = tokio::time::timeout(PATIENCE, post(letter, trust)).await;
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
async fn post(letter: &Letter, trust: &Trust) -> io::Result<u16> {
    let url = &letter.url;
    let request = request(letter);
    if url.secure {
        let config = Arc::clone(trust.get_or_init(tls::of_system));
        let (host, port) = (url.host.clone(), url.port);
        let exchange = move || tls::exchange((&host, port), config, request.as_bytes());
        let answer = tokio::task::spawn_blocking(exchange).await;
        return status(&answer.map_err(io::Error::other)??);
    }
    let mut stream = TcpStream::connect((url.host.as_str(), url.port)).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream
        .take(ANSWER_LEN as u64)
        .read_to_end(&mut answer)
        .await?;
    status(&answer)
}

fn request(letter: &Letter) -> String {
    let Letter { url, json, .. } = letter;
    let signature = letter.signature.as_ref();
    let signature = signature.map_or_else(String::new, |value| {
        format!("Sangam-Signature: {value}\r\n")
    });
    format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{signature}\
         Content-Length: {}\r\nConnection: close\r\n\r\n{json}",
        url.path,
        url.authority(),
        json.len()
    )
}

fn status(answer: &[u8]) -> io::Result<u16> {
    let status = String::from_utf8_lossy(answer);
    let status = status
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.get(2..5));
    let status = status.and_then(|digits| digits.parse().ok());
    status.ok_or_else(|| io::Error::other("the answer is no HTTP"))
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
        let wrong = || format!("{text:?}: write https://host:port/path or http://host:port/path");
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let secure = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(wrong()),
        };
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
        let usual = if secure { 443 } else { 80 };
        let port = port.map_or(Ok(usual), |port| port.parse().map_err(|_| wrong()))?;
        if host.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            secure,
            host: host.to_owned(),
            port,
            path: if path.is_empty() { "/" } else { path }.to_owned(),
        })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests;
