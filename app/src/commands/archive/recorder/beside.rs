//! A recorder in the process of a broker that hosts sessions: `sessions.archive`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sangam_client::Address;
use tokio::time::timeout;

use super::{Options, Orders, Service, name};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::stop::Stop;

/// How long what is recorded may take to be put down once the broker is to end.
const GRACE: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT_S: u64 = 5;

/// The recorder, if there is one.
#[derive(Debug)]
pub(crate) struct Beside(Option<(Service, Stop)>);

impl Beside {
    /// Starts it if the configuration names a folder. It reaches the broker by UDP, and its
    /// sessions by HTTP, as any other would.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(
        config: &Config,
        (http, udp): (SocketAddr, &[SocketAddr]),
        needs_tokens: bool,
    ) -> Result<Self, Failure> {
        let folder = config.sessions.archive.clone();
        let hosts = config.sessions.enabled;
        let folder = folder.filter(|folder| hosts && !folder.as_os_str().is_empty());
        let Some(archive) = folder else {
            return Ok(Self(None));
        };
        let Some(udp) = udp.first().filter(|_| !needs_tokens) else {
            tracing::warn!(
                "sessions.archive: clients of this broker show tokens, or reach it by other ways \
                 than UDP; `sangam archive recorder` records its sessions"
            );
            return Ok(Self(None));
        };
        let broker = format!("udp://{}", near(*udp)).parse::<Address>();
        let broker = broker.map_err(|error| Failure::new(Exit::Failure, error.to_string()))?;
        let peer = crate::cli::Peer {
            connect_timeout: CONNECT_TIMEOUT_S,
            ..Default::default()
        };
        let stop = Stop::default();
        let options = Options {
            name: name(),
            servers: vec![format!("http://{}", near(http))],
            api_token: config.api.token.clone(),
            brokers: vec![broker],
            peer,
            archive,
            takes_orders: true,
        };
        Ok(Self(Some((Service::start(options, &stop)?, stop))))
    }

    /// Takes orders to record topics, if there is a recorder.
    pub(crate) fn orders(&self) -> Option<Arc<Orders>> {
        self.0.as_ref().and_then(|(service, _)| service.orders())
    }

    /// Ends it while the caller serves on: its last words are for this very server.
    pub(crate) async fn end(self) {
        let Some((service, stop)) = self.0 else {
            return;
        };
        stop.set();
        let joined = tokio::task::spawn_blocking(move || service.join());
        if timeout(GRACE, joined).await.is_err() {
            tracing::warn!("what is recorded is cut off");
        }
    }
}

/// How this machine reaches an address that it listens on.
pub(crate) fn near(address: SocketAddr) -> SocketAddr {
    let local = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        other => other,
    };
    SocketAddr::new(local, address.port())
}
