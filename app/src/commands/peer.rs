//! What the commands that are clients of a broker share: the connection, and time in seconds.

use std::env;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sangam_client::{
    Address, Client, ClientError, ClientOptions, ProxyAddress, Scheme, StreamOptions, Target, Token,
};
use sangam_io::tls::{Roots, Trust};
use sangam_wire::Refusal;

use crate::cli::Peer;
use crate::exit::{Exit, Failure, io};

/// How long a broker may take to answer a request once the link is up.
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// Connects by the first address that works, and waits until the link is up and the token, if
/// there is one, is accepted.
pub(super) fn connect(addresses: &[Address], peer: &Peer) -> Result<(Client, Pass), Failure> {
    let (mut client, pass) = begin(addresses, peer, ClientOptions::default())?;
    let patience = Duration::from_secs(peer.connect_timeout) * addresses.len() as u32;
    client.wait_up(patience).map_err(failure)?;
    Ok((client, pass))
}

/// Begins to connect by the first address that works, and returns at once.
pub(super) fn begin(
    addresses: &[Address],
    peer: &Peer,
    options: ClientOptions,
) -> Result<(Client, Pass), Failure> {
    let mut addresses = addresses.to_vec();
    if peer.tcp {
        let plain = addresses
            .iter_mut()
            .filter(|address| address.scheme == Scheme::Udp);
        plain.for_each(|address| address.scheme = Scheme::Tcp);
    }
    let pass = Pass::of(peer)?;
    let options = ClientOptions {
        token: pass.token.clone(),
        stream: streams(&addresses, peer)?,
        ..options
    };
    let client = Client::connect(Target::Addresses(addresses), options).map_err(failure)?;
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
        let Some(token) = self.newer() else {
            return;
        };
        match client.set_token(token.clone()) {
            Ok(()) => self.token = Some(token),
            Err(error) => tracing::warn!(%error, "the newer token is shown later"),
        }
    }

    /// The same for whoever has handed the client over: the newer token, once.
    pub(super) fn renewed(&mut self) -> Option<Token> {
        self.token = Some(self.newer()?);
        self.token.clone()
    }

    fn newer(&self) -> Option<Token> {
        // Whoever writes it may be at it just now.
        let token = read(self.file.as_ref()?).ok()?;
        (self.token.as_ref() != Some(&token)).then_some(token)
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

fn streams(addresses: &[Address], peer: &Peer) -> Result<StreamOptions, Failure> {
    let trust = match &peer.ca {
        Some(file) => {
            Some(Trust::Roots(Roots::load(file).map_err(|error| {
                Failure::new(Exit::Configuration, error.to_string())
            })?))
        }
        None => peer.insecure.then_some(Trust::Anybody),
    };
    let proxy = match &peer.proxy {
        Some(proxy) => Some(proxy.clone()),
        None => environment_proxy(addresses)?,
    };
    Ok(StreamOptions {
        trust,
        server_name: peer.server_name.clone(),
        proxy,
        ..StreamOptions::default()
    })
}

/// The proxy that `HTTPS_PROXY` names, unless one of the brokers is on this machine or in
/// `NO_PROXY`.
fn environment_proxy(addresses: &[Address]) -> Result<Option<ProxyAddress>, Failure> {
    let variable = |names: [&str; 2]| {
        let mut found = names.iter().filter_map(|name| env::var(name).ok());
        found.find(|value| !value.is_empty())
    };
    let Some(proxy) = variable(["HTTPS_PROXY", "https_proxy"]) else {
        return Ok(None);
    };
    let exempt = variable(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    // No proxy carries datagrams.
    let datagrams = [Scheme::Udp, Scheme::Quic];
    let streams = |address: &&Address| !datagrams.contains(&address.scheme);
    if addresses
        .iter()
        .filter(streams)
        .any(|address| is_exempt(&address.host, &exempt))
    {
        return Ok(None);
    }
    let wrong = |error| Failure::new(Exit::Configuration, format!("HTTPS_PROXY: {error}"));
    proxy.parse().map(Some).map_err(wrong)
}

/// Whether `host` is this machine, or is or ends with a word of the list.
fn is_exempt(host: &str, list: &str) -> bool {
    let local = host
        .parse()
        .map_or(host == "localhost", |ip: std::net::IpAddr| ip.is_loopback());
    let mut words = list.split(',').map(|word| word.trim());
    local
        || words.any(|word| {
            let bare = word.trim_start_matches('.');
            let inner = host
                .strip_suffix(bare)
                .is_some_and(|rest| rest.ends_with('.'));
            word == "*" || !bare.is_empty() && (host == bare || inner)
        })
}

/// The exit code of what a client reports.
pub(super) fn failure(error: ClientError) -> Failure {
    let exit = match &error {
        ClientError::NoAnswer { .. }
        | ClientError::Unanswered(_)
        | ClientError::Name { .. }
        | ClientError::Closed => Exit::Unreachable,
        ClientError::Certificate { .. } => Exit::Authentication,
        ClientError::Tls(_) | ClientError::Insecure(_) => Exit::Configuration,
        ClientError::Refused { reason, .. }
        | ClientError::Publication { reason, .. }
        | ClientError::Token(reason) => return refused(error.to_string(), *reason),
        _ => Exit::Failure,
    };
    let failure = Failure::new(exit, error.to_string());
    match &error {
        ClientError::Certificate { .. } => {
            failure.hint("name the authority by --ca FILE, or the name to expect by --server-name")
        }
        _ => failure,
    }
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

#[cfg(test)]
mod tests {
    use super::is_exempt;

    #[test]
    fn some_hosts_need_no_proxy() {
        for host in [
            "localhost",
            "127.0.0.1",
            "::1",
            "a.example.org",
            "example.org",
            "10.0.0.1",
        ] {
            assert!(is_exempt(host, "10.0.0.1, .example.org"), "{host}");
        }
        for host in ["badexample.org", "192.0.2.1", "example.com"] {
            assert!(!is_exempt(host, "10.0.0.1, .example.org,"), "{host}");
        }
        assert!(is_exempt("anything", "*"));
    }
}
