//! Every request that goes out is counted, and those that the store failed.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

static REQUESTS: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);

/// What this process asked of stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketCounts {
    /// Requests, with those that were made again.
    pub requests: u64,
    /// Requests without an answer, or answered by 5xx or 429: those that may be made again.
    pub failed: u64,
}

/// What this process asked of stores so far.
#[must_use]
pub fn bucket_counts() -> BucketCounts {
    BucketCounts {
        requests: REQUESTS.load(Ordering::Relaxed),
        failed: FAILED.load(Ordering::Relaxed),
    }
}

/// Makes clients that count.
#[derive(Debug)]
pub(super) struct Counting;

#[derive(Debug)]
struct Counted(HttpClient);

impl HttpConnector for Counting {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Counted(client)))
    }
}

impl HttpService for Counted {
    // As `async_trait` writes it.
    fn call<'a, 'f>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            REQUESTS.fetch_add(1, Ordering::Relaxed);
            let answer = self.0.execute(request).await;
            let is_failed = answer.as_ref().map_or(true, |answer| {
                let status = answer.status();
                status.is_server_error() || status.as_u16() == 429
            });
            FAILED.fetch_add(u64::from(is_failed), Ordering::Relaxed);
            answer
        })
    }
}
