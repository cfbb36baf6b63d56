//! The certificate that listeners show: replaced as a whole, so that connections under way keep
//! theirs and new ones get the new one.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use sangam_io::stream::Accept;
use sangam_io::tls::{
    self, ALPN_HTTP, ALPN_UNITS, Clients, Identity, Roots, ServerConfig, TlsError,
};

use crate::config::Transport;

/// One for all listeners of a broker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificate {
    shown: Arc<ArcSwapOption<Shown>>,
    /// Whose pages may open WebSockets.
    origins: Arc<[String]>,
}

/// The same certificate for each protocol within TLS.
#[derive(Debug)]
struct Shown {
    units: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
}

impl Certificate {
    /// None yet; pages of these origins may open WebSockets.
    pub(crate) fn new(origins: &[String]) -> Self {
        Self {
            shown: Arc::default(),
            origins: origins.into(),
        }
    }

    /// Shows `identity` from now on.
    ///
    /// # Errors
    /// Its key does not fit; then nothing changes.
    pub(crate) fn show(
        &self,
        identity: &Identity,
        authorities: Option<&Roots>,
    ) -> Result<(), TlsError> {
        let clients =
            authorities.map_or(Clients::Anonymous, |roots| Clients::Optional(roots.clone()));
        let config = |alpn| tls::server(identity, clients.clone(), &[alpn]);
        self.shown.store(Some(Arc::new(Shown {
            units: config(ALPN_UNITS)?,
            http: config(ALPN_HTTP)?,
        })));
        Ok(())
    }

    /// What QUIC shows; the same as streams of units.
    pub(crate) fn quic(&self) -> Option<Arc<ServerConfig>> {
        self.shown.load().as_ref().map(|shown| shown.units.clone())
    }

    /// How a connection to a listener of this kind begins; `None` without a certificate where one
    /// is needed.
    pub(crate) fn opening(&self, transport: Transport) -> Option<Accept> {
        let websocket = matches!(transport, Transport::Ws | Transport::Wss);
        let tls = match transport {
            Transport::Tcp | Transport::Ws => None,
            Transport::Tls => Some(self.shown.load().as_ref()?.units.clone()),
            Transport::Wss => Some(self.shown.load().as_ref()?.http.clone()),
        };
        Some(Accept {
            tls,
            websocket,
            origins: self.origins.clone(),
        })
    }
}
