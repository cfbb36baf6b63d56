//! The certificate that listeners and links show: replaced as a whole, so that connections under
//! way keep theirs and new ones get the new one.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use sangam_io::stream::Accept;
use sangam_io::tls::{
    self, ALPN_HTTP, ALPN_UNITS, ClientConfig, Clients, Identity, Roots, ServerConfig, TlsError,
    Trust,
};

use crate::config::Transport;

/// One for all listeners and links of a broker.
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
    links: Option<Links>,
}

/// What links need, where authorities say whom to believe: both ends show a certificate.
#[derive(Debug)]
struct Links {
    /// For QUIC, where nobody but neighbours calls.
    called: Arc<ServerConfig>,
    /// For calls by QUIC and TLS.
    units: Arc<ClientConfig>,
    http: Arc<ClientConfig>,
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
            links: authorities
                .map(|roots| Links::new(identity, roots))
                .transpose()?,
        })));
        Ok(())
    }

    /// What calls to a neighbour's listener of this kind begin with; `None` without TLS.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn call(
        &self,
        transport: Transport,
    ) -> Result<Option<Arc<ClientConfig>>, &'static str> {
        let shown = self.shown.load();
        let links = shown.as_ref().and_then(|shown| shown.links.as_ref());
        let links = links.ok_or("it needs a certificate and the authority of the neighbour's");
        match transport {
            Transport::Tcp | Transport::Ws => Ok(None),
            Transport::Tls => links.map(|links| Some(links.units.clone())),
            Transport::Wss => links.map(|links| Some(links.http.clone())),
        }
    }

    /// What endpoints for links by QUIC show.
    pub(crate) fn quic_links(&self) -> Option<(Arc<ServerConfig>, Arc<ClientConfig>)> {
        let shown = self.shown.load();
        let links = shown.as_ref()?.links.as_ref()?;
        Some((links.called.clone(), links.units.clone()))
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

impl Links {
    fn new(identity: &Identity, roots: &Roots) -> Result<Self, TlsError> {
        let called = Clients::Required(roots.clone());
        let call = |alpn| tls::client(Trust::Roots(roots.clone()), Some(identity), &[alpn]);
        Ok(Self {
            called: tls::server(identity, called, &[ALPN_UNITS])?,
            units: call(ALPN_UNITS)?,
            http: call(ALPN_HTTP)?,
        })
    }
}
