//! The wish to end: ctrl-c, SIGTERM, or whatever else sets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// 128 + SIGINT, as shells count it.
const INTERRUPTED: i32 = 130;

/// Set once somebody wants the command to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that ctrl-c and SIGTERM set. A second signal ends the process at once.
    ///
    /// # Errors
    /// The system gives no thread or signal handler.
    pub(crate) fn on_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        let flag = stop.clone();
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let mut signals = {
            let _within = runtime.enter();
            Signals::catch()?
        };
        let watch = async move {
            signals.next().await;
            flag.set();
            signals.next().await;
            std::process::exit(INTERRUPTED);
        };
        let thread = thread::Builder::new().name("signals".to_owned());
        thread.spawn(move || runtime.block_on(watch))?;
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

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// SIGINT, SIGTERM.
    End,
    /// SIGHUP.
    Reload,
}

/// SIGINT, SIGTERM and SIGHUP, caught from the moment this is made.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Within a tokio runtime.
    ///
    /// # Errors
    /// The system gives no signal handler.
    pub(crate) fn catch() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.interrupt.recv() => Wish::End,
            _ = self.terminate.recv() => Wish::End,
            _ = self.hang_up.recv() => Wish::Reload,
        }
    }
}
