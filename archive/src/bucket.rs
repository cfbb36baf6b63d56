//! A bucket of an S3-compatible store: whole objects that never change, read by ranges.
//!
//! The library that speaks to it is asynchronous, the archive's threads are not: one thread of the
//! process runs all requests, and whoever asked waits for the answer no longer than he says.

mod counting;
mod runtime;

use core::fmt;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, RetryConfig};
use tokio::sync::Semaphore;

pub use counting::{BucketCounts, bucket_counts};

/// What the place of a bucket begins with.
pub const SCHEME: &str = "s3://";
/// Requests of one bucket at the same time; more wait.
const REQUESTS_MAX: usize = 16;
/// A store that does not let anybody in says so sooner.
const CONNECT: Duration = Duration::from_secs(3);
/// One request with its body: 32 MiB at 5 Mb/s.
const REQUEST: Duration = Duration::from_secs(60);
/// A request that failed by the store's fault (5xx, no answer) is made again so often at most,
const RETRIES: usize = 6;
/// and no more after so long. A player has about 4 s in hand.
const RETRYING: Duration = Duration::from_secs(8);
/// What is read is waited for so long,
const READING: Duration = Duration::from_secs(15);
/// what is written or listed so long.
const WRITING: Duration = Duration::from_secs(120);

/// Buckets that stay open; more are opened whenever they are used.
const OPEN_MAX: usize = 64;

/// Buckets of this process, whose environment stays as it is.
static OPEN: Mutex<Vec<Bucket>> = Mutex::new(Vec::new());

/// A bucket and the prefix below which everything of it lies.
#[derive(Clone)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    place: String,
    permits: Arc<Semaphore>,
}

impl Bucket {
    /// The bucket at a place such as `s3://bucket/prefix`, by the settings that stand in the
    /// environment: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`,
    /// `AWS_REGION`, `AWS_ENDPOINT_URL` and others of the AWS command line. Nothing is asked yet.
    ///
    /// # Errors
    /// The place is none, or a setting is wrong.
    pub fn open(place: &str) -> io::Result<Self> {
        // A client has connections and certificates: one for all who use the bucket.
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = open.iter().find(|bucket| bucket.place == place) {
            return Ok(bucket.clone());
        }
        let settings = std::env::vars().filter(|(name, _)| name.starts_with("AWS_"));
        let bucket = Self::with(place, settings)?;
        if open.len() < OPEN_MAX {
            open.push(bucket.clone());
        }
        Ok(bucket)
    }

    /// The same by settings that are given.
    ///
    /// # Errors
    /// The place is none, or a setting is wrong.
    pub fn with(
        place: &str,
        settings: impl IntoIterator<Item = (String, String)>,
    ) -> io::Result<Self> {
        let wrong = |message: &dyn fmt::Display| {
            io::Error::new(ErrorKind::InvalidInput, format!("{place}: {message}"))
        };
        let (bucket, prefix) = parts(place)
            .ok_or_else(|| wrong(&"a bucket's place is s3://BUCKET or s3://BUCKET/PREFIX"))?;
        let mut builder = AmazonS3Builder::new().with_bucket_name(bucket);
        let mut is_plain = false;
        for (name, value) in settings {
            let name = name.to_ascii_lowercase();
            is_plain |= name.contains("endpoint_url") && value.starts_with("http://");
            // What the library does not know is not for it.
            if let Ok(key) = name.parse::<AmazonS3ConfigKey>() {
                builder = builder.with_config(key, value);
            }
        }
        let options = ClientOptions::new()
            .with_connect_timeout(CONNECT)
            .with_timeout(REQUEST)
            // Whoever names such an endpoint wants it; requests are signed all the same.
            .with_allow_http(is_plain);
        let backoff = BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        };
        let store = builder
            .with_client_options(options)
            .with_http_connector(counting::Counting)
            .with_retry(RetryConfig {
                backoff,
                max_retries: RETRIES,
                retry_timeout: RETRYING,
            })
            .build()
            .map_err(|error| wrong(&error))?;
        Ok(Self {
            store: Arc::new(store),
            prefix: Path::parse(prefix).map_err(|error| wrong(&error))?,
            place: format!("{SCHEME}{}", place[SCHEME.len()..].trim_end_matches('/')),
            permits: Arc::new(Semaphore::new(REQUESTS_MAX)),
        })
    }

    /// Where it is, without a slash at its end.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Keeps an object, whole or not at all.
    ///
    /// # Errors
    /// Of the store.
    pub fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        let (store, path) = (self.store.clone(), self.path(name));
        self.ask(WRITING, async move {
            store.put(&path, bytes.into()).await.map(drop)
        })
    }

    /// A whole object.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], or of the store.
    pub fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        let (store, path) = (self.store.clone(), self.path(name));
        self.ask(READING, async move {
            let found = store.get(&path).await?;
            found.bytes().await.map(Vec::from)
        })
    }

    /// `len` bytes of an object from `offset` on, which it must have.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], or of the store.
    pub fn range(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let (store, path) = (self.store.clone(), self.path(name));
        let range = offset..offset + len as u64;
        let bytes = self.ask(READING, async move {
            store.get_range(&path, range).await.map(Vec::from)
        })?;
        match bytes.len() == len {
            true => Ok(bytes),
            false => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Bytes of an object.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], or of the store.
    pub fn len_of(&self, name: &str) -> io::Result<u64> {
        let (store, path) = (self.store.clone(), self.path(name));
        self.ask(READING, async move {
            store.head(&path).await.map(|found| found.size)
        })
    }

    /// Lets go of an object; one that is not there is no error.
    ///
    /// # Errors
    /// Of the store.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let (store, path) = (self.store.clone(), self.path(name));
        let removed = self.ask(WRITING, async move { store.delete(&path).await });
        removed.or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })
    }

    /// Names below the prefix, and lengths, in any order.
    ///
    /// # Errors
    /// Of the store.
    pub fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let (store, prefix) = (self.store.clone(), self.prefix.clone());
        self.ask(WRITING, async move {
            let found = store.list(Some(&prefix)).map_ok(|found| {
                let parts = found.location.prefix_match(&prefix);
                let parts = parts.map(|parts| parts.map(|part| part.as_ref().to_owned()));
                let name = parts.map(|parts| parts.collect::<Vec<_>>().join("/"));
                (name.unwrap_or_default(), found.size)
            });
            found.try_collect().await
        })
    }

    fn path(&self, name: &str) -> Path {
        let parts = self.prefix.parts();
        parts.chain(Path::from(name).parts()).collect()
    }

    /// Waits for a request, which is given up after so long.
    fn ask<T: Send + 'static>(
        &self,
        patience: Duration,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        let permits = self.permits.clone();
        let answer = runtime::wait(patience, async move {
            // The semaphore is never closed.
            let _permit = permits.acquire_owned().await;
            request.await
        });
        answer?.map_err(|error| self.failure(&error))
    }

    /// What a user should know: neither headers nor what the store repeats of them.
    fn failure(&self, error: &object_store::Error) -> io::Error {
        use object_store::Error;
        let message = error.to_string();
        // Not every request's failure has a name of its own.
        let denied = ["status code: 401", "status code: 403"];
        let kind = match error {
            Error::NotFound { .. } => ErrorKind::NotFound,
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                ErrorKind::PermissionDenied
            }
            _ if denied.iter().any(|status| message.contains(status)) => {
                ErrorKind::PermissionDenied
            }
            _ => ErrorKind::HostUnreachable,
        };
        let place = &self.place;
        let hint = match kind {
            ErrorKind::PermissionDenied => {
                ": are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY right?"
            }
            _ => "",
        };
        let reason = reason(&message);
        io::Error::new(kind, format!("{place}: {reason}{hint}"))
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The store would show its settings.
        f.debug_tuple("Bucket").field(&self.place).finish()
    }
}

/// Bucket and prefix of a place.
fn parts(place: &str) -> Option<(&str, &str)> {
    let rest = place.strip_prefix(SCHEME)?.trim_end_matches('/');
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    // Section "Bucket naming rules" of the S3 user guide; what is left, the store judges.
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_bucket = !bucket.is_empty() && bucket.bytes().all(fits);
    is_bucket.then_some((bucket, prefix))
}

/// The store's own word for what is wrong (S3 API, "Error responses"), or else the status, or else
/// the innermost reason.
fn reason(message: &str) -> String {
    let code = message
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"));
    let status = message.split_once("status code: ");
    let status = status.map(|(_, rest)| rest.split([':', '<']).next().unwrap_or(rest).trim());
    match (code, status) {
        (Some((code, _)), _) => format!("the store says {code}"),
        (None, Some(status)) => format!("the store says {status}"),
        (None, None) => {
            let last = message.rsplit(" - ").next().unwrap_or(message);
            last.chars().take(200).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_apart() {
        for (place, expected) in [
            ("s3://films", Some(("films", ""))),
            ("s3://films/", Some(("films", ""))),
            ("s3://films/a/b/", Some(("films", "a/b"))),
            ("s3:///a", None),
            ("s3://", None),
            ("s3://fi lms/a", None),
            ("http://films", None),
        ] {
            assert_eq!(parts(place), expected, "{place}");
        }
    }

    #[test]
    fn what_a_store_says_is_told_without_what_it_repeats() {
        let body = "Generic S3 error: Error performing GET http://a/b in 1ms - Server returned \
                    non-2xx status code: 503 Service Unavailable: <?xml version=\"1.0\"?><Error>\
                    <Code>SlowDown</Code><AWSAccessKeyId>key</AWSAccessKeyId></Error>";
        assert_eq!(reason(body), "the store says SlowDown");
        let bare = "Error performing GET - Server returned non-2xx status code: 502 Bad Gateway: ";
        assert_eq!(reason(bare), "the store says 502 Bad Gateway");
        assert_eq!(reason("in 3s - operation timed out"), "operation timed out");
    }

    #[test]
    fn nothing_of_the_settings_is_shown() {
        let settings = [
            ("AWS_SECRET_ACCESS_KEY", "geheim"),
            ("AWS_ACCESS_KEY_ID", "wer"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let bucket = Bucket::with("s3://films/a/", settings).unwrap();
        assert_eq!(format!("{bucket:?}"), "Bucket(\"s3://films/a\")");
        assert_eq!(bucket.path("b/c").as_ref(), "a/b/c");
    }
}
