//! The wish to end: ctrl-c, SIGTERM, or a time that has passed.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Set once somebody wants the command to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that ctrl-c and SIGTERM set. A second signal ends the process at once.
    ///
    /// # Errors
    /// The system gives no thread or no signal handler.
    pub(crate) fn on_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        let flag = stop.clone();
        let runtime = Builder::new_current_thread().enable_io().build()?;
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    signalled().await;
                    flag.set();
                    signalled().await;
                    // 128 + SIGINT, as shells count it.
                    std::process::exit(130);
                });
            })?;
        Ok(stop)
    }

    /// Asks the command to end.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the command should end.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ready at the next SIGINT or SIGTERM; never, if the system gives no handler.
pub(crate) async fn signalled() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        tracing::warn!("no signal handler; the process ends without saying goodbye");
        return std::future::pending().await;
    };
    std::future::poll_fn(|cx| {
        let interrupted = interrupt.poll_recv(cx).is_ready();
        if interrupted || terminate.poll_recv(cx).is_ready() {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}

/// Ready when one of the two is.
pub(crate) async fn either(
    mut one: impl Future<Output = ()> + Unpin,
    mut other: impl Future<Output = ()> + Unpin,
) {
    std::future::poll_fn(|cx| {
        let done =
            Pin::new(&mut one).poll(cx).is_ready() || Pin::new(&mut other).poll(cx).is_ready();
        if done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
