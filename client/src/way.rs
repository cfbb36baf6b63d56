//! From addresses to what the driver dials.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use sangam_io::stream::{self, Dial, Proxy, WebSocket};
use sangam_io::tls::{self, ALPN_HTTP, ALPN_UNITS, Roots, ServerName, TlsError, Trust};

use crate::{Address, ClientError, Scheme, StreamOptions};

/// One way to the broker.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    Udp(SocketAddr),
    Stream(Arc<stream::Way>),
    Quic(Arc<QuicWay>),
}

/// A way by QUIC.
#[derive(Clone, Debug)]
pub(crate) struct QuicWay {
    pub(crate) address: SocketAddr,
    /// What the broker's certificate must be for.
    pub(crate) name: String,
    pub(crate) tls: Arc<tls::ClientConfig>,
}

impl Way {
    pub(crate) fn tcp(address: SocketAddr) -> Self {
        Self::Stream(Arc::new(stream::Way {
            addresses: vec![address],
            proxy: None,
            dial: Dial::default(),
        }))
    }

    /// Looks up names and reads what the system trusts.
    ///
    /// # Errors
    /// [`ClientError::Name`], [`ClientError::Tls`], [`ClientError::Insecure`].
    pub(crate) fn resolve(address: &Address, options: &StreamOptions) -> Result<Self, ClientError> {
        if address.scheme == Scheme::Udp {
            // The system's first choice.
            return Ok(Self::Udp(lookup(&address.host, address.port)?[0]));
        }
        if address.scheme == Scheme::Quic {
            return Self::quic(address, options);
        }
        let addresses = match &options.proxy {
            Some(proxy) => lookup(&proxy.host, proxy.port)?,
            None => lookup(&address.host, address.port)?,
        };
        let proxy = options.proxy.as_ref().map(|proxy| Proxy {
            authority: address.authority(),
            credentials: proxy.credentials.clone(),
        });
        let near = addresses.iter().all(|address| address.ip().is_loopback());
        refuse_anybody(address, near && proxy.is_none(), options)?;
        let dial = Dial {
            tls: tls(address, options)?,
            websocket: address.scheme.is_websocket().then(|| WebSocket {
                authority: address.authority(),
                path: address.path.clone(),
            }),
        };
        Ok(Self::Stream(Arc::new(stream::Way {
            addresses,
            proxy,
            dial,
        })))
    }

    /// Proxies carry no datagrams, so none is used.
    fn quic(address: &Address, options: &StreamOptions) -> Result<Self, ClientError> {
        // The system's first choice.
        let found = lookup(&address.host, address.port)?[0];
        refuse_anybody(address, found.ip().is_loopback(), options)?;
        let (tls, name) = encrypted(address, ALPN_UNITS, options)?;
        Ok(Self::Quic(Arc::new(QuicWay {
            address: found,
            name: name.to_str().into_owned(),
            tls,
        })))
    }
}

/// Only a broker on this machine may have any certificate it likes.
fn refuse_anybody(
    address: &Address,
    near: bool,
    options: &StreamOptions,
) -> Result<(), ClientError> {
    let insecure = matches!(options.trust, Some(Trust::Anybody));
    if address.scheme.is_encrypted() && insecure && !near {
        return Err(ClientError::Insecure(address.to_string()));
    }
    Ok(())
}

type TlsDial = (Arc<tls::ClientConfig>, ServerName<'static>);

fn tls(address: &Address, options: &StreamOptions) -> Result<Option<TlsDial>, ClientError> {
    let alpn = match address.scheme {
        Scheme::Tls => ALPN_UNITS,
        Scheme::Wss => ALPN_HTTP,
        _ => return Ok(None),
    };
    encrypted(address, alpn, options).map(Some)
}

fn encrypted(
    address: &Address,
    alpn: &[u8],
    options: &StreamOptions,
) -> Result<TlsDial, ClientError> {
    let name = options.server_name.as_deref().unwrap_or(&address.host);
    let name = ServerName::try_from(name.to_owned()).map_err(|_| {
        let why = format!("{name:?} is neither a host name nor an address");
        ClientError::Tls(TlsError::Config(why))
    })?;
    let config = || {
        let trust = match &options.trust {
            Some(trust) => trust.clone(),
            None => Trust::Roots(Roots::system()?),
        };
        tls::client(trust, options.identity.as_deref(), &[alpn])
    };
    Ok((config().map_err(ClientError::Tls)?, name))
}

/// All addresses of a name; at least one.
fn lookup(host: &str, port: u16) -> Result<Vec<SocketAddr>, ClientError> {
    let failed = |why: String| ClientError::Name {
        host: host.to_owned(),
        why,
    };
    let found = (host, port).to_socket_addrs();
    let found: Vec<_> = found.map_err(|error| failed(error.to_string()))?.collect();
    if found.is_empty() {
        return Err(failed("it has no address".to_owned()));
    }
    Ok(found)
}
