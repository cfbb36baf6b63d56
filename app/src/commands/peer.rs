//! What the commands that are clients of a broker share: the connection, and time in seconds.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sangam_client::{Client, ClientError, ClientOptions, Target, Token};
use sangam_wire::Refusal;

use crate::assemble::resolve;
use crate::cli::Peer;
use crate::config::HostPort;
use crate::exit::{Exit, Failure, io};

/// How long a broker may take to answer a request once the link is up.
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// Connects and waits until the link is up and the token, if there is one, is accepted.
pub(super) fn connect(address: &HostPort, peer: &Peer) -> Result<(Client, Pass), Failure> {
    let to = resolve(address)?;
    let pass = Pass::of(peer)?;
    let options = ClientOptions {
        token: pass.token.clone(),
        ..ClientOptions::default()
    };
    let target = if peer.tcp {
        Target::Tcp(to)
    } else {
        Target::Udp(to)
    };
    let mut client = Client::connect(target, options).map_err(failure)?;
    client
        .wait_up(Duration::from_secs(peer.connect_timeout))
        .map_err(failure)?;
    Ok((client, pass))
}

/// The token of a client, and the file from which newer ones come.
#[derive(Debug)]
pub(super) struct Pass {
    token: Option<Token>,
    file: Option<PathBuf>,
    /// The broker has refused it, and a newer one may come.
    waits: bool,
}

impl Pass {
    fn of(peer: &Peer) -> Result<Self, Failure> {
        let token = match &peer.token_file {
            Some(path) => Some(read(path)?),
            None => peer.token.clone(),
        };
        Ok(Self {
            token,
            file: peer.token_file.clone(),
            waits: false,
        })
    }

    /// Shows the broker a newer token if there is one. To be called every second or so.
    pub(super) fn renew(&mut self, client: &Client) {
        let Some(path) = &self.file else {
            return;
        };
        // Whoever writes it may be at it just now.
        let Ok(token) = read(path) else {
            return;
        };
        if self.token.as_ref() == Some(&token) {
            return;
        }
        match client.set_token(token.clone()) {
            Ok(()) => self.token = Some(token),
            Err(error) => tracing::warn!(%error, "the newer token is shown later"),
        }
    }

    /// Takes what the broker says of the token.
    ///
    /// # Errors
    /// It refuses, and no file may bring a newer one.
    pub(super) fn judge(&mut self, verdict: Result<(), Refusal>) -> Result<(), Failure> {
        self.waits = verdict.is_err();
        match (verdict, &self.file) {
            (Err(reason), None) => Err(failure(ClientError::Token(reason))),
            (Err(reason), Some(path)) => {
                tracing::warn!(%reason, file = %path.display(), "waiting for a newer token");
                Ok(())
            }
            (Ok(()), _) => Ok(()),
        }
    }

    /// Whether a refusal only follows from that of the token.
    pub(super) fn excuses(&self, reason: Refusal) -> bool {
        self.waits && is_about_rights(reason)
    }
}

fn read(path: &Path) -> Result<Token, Failure> {
    let text = std::fs::read_to_string(path).map_err(io(path.display()))?;
    Token::new(&text)
        .map_err(|error| Failure::new(Exit::Authentication, format!("{}: {error}", path.display())))
}

fn is_about_rights(reason: Refusal) -> bool {
    matches!(
        reason,
        Refusal::Forbidden | Refusal::Unauthenticated | Refusal::Expired
    )
}

/// The failure of a command whose request the broker refuses.
pub(super) fn refused(message: String, reason: Refusal) -> Failure {
    let exit = match reason {
        reason if is_about_rights(reason) => Exit::Authentication,
        Refusal::Full | Refusal::Leaving => Exit::Unreachable,
        _ => Exit::Failure,
    };
    let hint = match reason {
        Refusal::Forbidden => {
            "give a token that grants it by --token-file, --token or SANGAM_TOKEN; \
             `sangam token show` tells what a token grants"
        }
        Refusal::Expired => "`sangam token issue` makes a newer one",
        _ => "",
    };
    Failure::new(exit, message).hint(hint)
}

/// The exit code of what a client reports.
pub(super) fn failure(error: ClientError) -> Failure {
    let exit = match &error {
        ClientError::NoAnswer { .. } | ClientError::Unanswered(_) | ClientError::Closed => {
            Exit::Unreachable
        }
        ClientError::Refused { reason, .. }
        | ClientError::Publication { reason, .. }
        | ClientError::Token(reason) => return refused(error.to_string(), *reason),
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
