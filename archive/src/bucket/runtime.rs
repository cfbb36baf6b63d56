//! The one thread in which requests to stores run.

use std::io::{self, ErrorKind};
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};

/// Of the process; there is none before the first request.
static RUNTIME: OnceLock<Option<Handle>> = OnceLock::new();

/// Runs something and waits for it; what takes longer than `patience` is given up.
///
/// # Errors
/// [`ErrorKind::TimedOut`], or this machine has no thread for it.
pub(super) fn wait<T: Send + 'static>(
    patience: Duration,
    work: impl Future<Output = T> + Send + 'static,
) -> io::Result<T> {
    let handle = RUNTIME.get_or_init(start).as_ref();
    let handle = handle.ok_or_else(|| io::Error::other("no thread for requests to a store"))?;
    let (outbox, inbox) = sync_channel(1);
    let task = handle.spawn(async move {
        // Whoever asked may have gone.
        let _ = outbox.send(work.await);
    });
    inbox.recv_timeout(patience).map_err(|error| {
        task.abort();
        match error {
            RecvTimeoutError::Timeout => io::Error::new(
                ErrorKind::TimedOut,
                format!("the store did not answer for {} s", patience.as_secs()),
            ),
            RecvTimeoutError::Disconnected => io::Error::other("a request to a store has panicked"),
        }
    })
}

fn start() -> Option<Handle> {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build();
    let started = runtime.and_then(|runtime| {
        let handle = runtime.handle().clone();
        let thread = thread::Builder::new().name("sangam-store".to_owned());
        // It ends with the process.
        thread.spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(handle)
    });
    let started = started.inspect_err(|error| tracing::error!(%error, "stores are not reached"));
    started.ok()
}
