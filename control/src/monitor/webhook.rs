//! Posts alerts to URLs, as JSON over HTTP, by TLS where the URL says https: the certificate has
//! to be for the URL's host and of an authority that this system trusts.
//!
//! The queue is bounded and nobody waits for it: a receiver that does not answer loses alerts,
//! which are counted, and never holds up who watches.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::Client;
use reqwest::header::CONTENT_TYPE;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::web;

/// Alerts that may wait.
const QUEUE: usize = 256;
/// Attempts for one alert.
const ATTEMPTS: u32 = 5;
/// The first pause; each further one is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where alerts are posted: `http://host[:port]/path`, or `https://...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url(reqwest::Url);

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
        // What the system trusts is read when there is something to post.
        let mut client = None;
        while let Some(letter) = self.queue.recv().await {
            let client = client.get_or_insert_with(|| web::client(PATIENCE));
            if !deliver(&letter, client).await {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Tries until it is taken; false if it never was.
async fn deliver(letter: &Letter, client: &Client) -> bool {
    let url = &letter.url;
    let mut pause = PAUSE;
    for attempt in 1..=ATTEMPTS {
        match post(letter, client).await {
            Ok(200..=299) => return true,
            // The receiver understood and does not want it: it will not want it later.
            Ok(status @ 400..=499) => {
                tracing::warn!(%url, status, "an alert was refused");
                return false;
            }
            Ok(status) => tracing::warn!(%url, status, attempt, "an alert was not taken"),
            Err(error) => {
                let error = web::cause(&error);
                tracing::warn!(%url, error, attempt, "an alert was not taken");
            }
        }
        if attempt < ATTEMPTS {
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
    false
}

/// One POST; the status of its answer.
async fn post(letter: &Letter, client: &Client) -> reqwest::Result<u16> {
    let Letter { url, json, .. } = letter;
    let mut request = client.post(url.0.clone());
    request = request.header(CONTENT_TYPE, "application/json");
    if let Some(signature) = &letter.signature {
        request = request.header("Sangam-Signature", signature);
    }
    let answer = request.body(json.clone()).send().await?;
    Ok(answer.status().as_u16())
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: write https://host:port/path or http://host:port/path");
        let url = reqwest::Url::parse(text).map_err(|_| wrong())?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        // Parsing mends what is written otherwise; an address is better written right.
        let is_clean = text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_web = text.starts_with("http://") || text.starts_with("https://");
        (is_plain && is_clean && is_web)
            .then_some(Self(url))
            .ok_or_else(wrong)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests;
