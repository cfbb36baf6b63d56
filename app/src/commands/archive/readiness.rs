//! Tells a session whether it is recorded: its page says so, and it may wait for that.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use crate::commands::session::Server;
use crate::exit::Failure;

/// The service that records, in docs/spec/xgsp.md.
const SERVICE: &str = "recorder";
/// When what could not be told is told again.
const AGAIN: Duration = Duration::from_secs(2);

/// A thread of its own: packets do not wait for the session server.
#[derive(Debug)]
pub(super) struct Readiness {
    orders: Sender<bool>,
    thread: JoinHandle<()>,
    told: bool,
}

impl Readiness {
    /// Says that the session with this path is recorded, which must be heard.
    ///
    /// # Errors
    /// What the server answers.
    pub(super) fn begin(server: Server, session: &str) -> Result<Self, Failure> {
        let path = format!("{session}/services/{SERVICE}");
        tell(&server, &path, true)?;
        let (orders, inbox) = mpsc::channel();
        let thread = thread::spawn(move || keep_told(&server, &path, &inbox));
        Ok(Self {
            orders,
            thread,
            told: true,
        })
    }

    /// Whether it is recorded now.
    pub(super) fn tell(&mut self, records: bool) {
        if records != self.told {
            self.told = records;
            // The thread ends with this alone.
            let _ = self.orders.send(records);
        }
    }

    /// It is recorded no more.
    pub(super) fn end(self) {
        drop(self.orders);
        // It panics nowhere; and the recording is whole whatever becomes of it.
        let _ = self.thread.join();
    }
}

fn keep_told(server: &Server, path: &str, inbox: &Receiver<bool>) {
    let (mut wanted, mut known) = (true, true);
    loop {
        let order = match wanted == known {
            true => inbox.recv().map_err(RecvTimeoutError::from),
            false => inbox.recv_timeout(AGAIN),
        };
        match order {
            Ok(order) => wanted = order,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if wanted != known {
            match tell(server, path, wanted) {
                Ok(_) => known = wanted,
                Err(failure) => tracing::warn!(error = %failure.message, "the session is not told"),
            }
        }
    }
    if known && let Err(failure) = tell(server, path, false) {
        tracing::warn!(error = %failure.message, "the session still says that it is recorded");
    }
}

fn tell(server: &Server, path: &str, records: bool) -> Result<Value, Failure> {
    match records {
        true => server.put(path, ""),
        false => server.delete(path),
    }
}
