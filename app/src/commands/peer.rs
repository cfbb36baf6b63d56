//! What the commands that are clients of a broker share: the connection, and time in seconds.

use std::time::{Duration, Instant};

use sangam_client::{Client, ClientError, ClientOptions, Target};
use sangam_wire::Refusal;

use crate::assemble::resolve;
use crate::cli::Peer;
use crate::config::HostPort;
use crate::exit::{Exit, Failure};

/// How long a broker may take to answer a request once the link is up.
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// Connects and waits until the link is up.
pub(super) fn connect(address: &HostPort, peer: &Peer) -> Result<Client, Failure> {
    let to = resolve(address)?;
    let target = if peer.tcp {
        Target::Tcp(to)
    } else {
        Target::Udp(to)
    };
    let mut client = Client::connect(target, ClientOptions::default()).map_err(failure)?;
    client
        .wait_up(Duration::from_secs(peer.connect_timeout))
        .map_err(failure)?;
    Ok(client)
}

/// The exit code of what a client reports.
pub(super) fn failure(error: ClientError) -> Failure {
    let exit = match &error {
        ClientError::NoAnswer { .. } | ClientError::Unanswered(_) | ClientError::Closed => {
            Exit::Unreachable
        }
        ClientError::Refused { reason, .. } | ClientError::Publication { reason, .. } => {
            match reason {
                Refusal::Forbidden => Exit::Authentication,
                Refusal::Full | Refusal::Leaving => Exit::Unreachable,
                _ => Exit::Failure,
            }
        }
        _ => Exit::Failure,
    };
    Failure::new(exit, error.to_string())
}

/// The end of a run that has a length, if it has one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    start: Instant,
    seconds: Option<u64>,
}

impl Length {
    /// Begins now.
    pub(super) fn new(seconds: Option<u64>) -> Self {
        Self {
            start: Instant::now(),
            seconds,
        }
    }

    /// Time since the begin.
    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Whether it is over.
    pub(super) fn is_over(&self) -> bool {
        self.seconds
            .is_some_and(|seconds| self.elapsed() >= Duration::from_secs(seconds))
    }
}
