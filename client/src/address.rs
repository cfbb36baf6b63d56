//! How a broker is named: `tls://broker.example.org:4601`.

use core::fmt;
use core::str::FromStr;

/// Where WebSockets connect unless an address says otherwise.
const PATH: &str = "/v1/connect";

/// What is spoken to a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scheme {
    /// Datagrams: for media within trusted networks.
    Udp,
    /// A byte stream within trusted networks.
    Tcp,
    /// A byte stream through TLS.
    Tls,
    /// A WebSocket within trusted networks.
    Ws,
    /// A WebSocket through TLS: what passes where only HTTPS does.
    Wss,
    /// QUIC: encrypted datagrams and streams, for media over networks that nobody trusts.
    Quic,
}

/// A broker's address as people write it. Without `scheme://` it is UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// What is spoken there.
    pub scheme: Scheme,
    /// Name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Of WebSockets: path and query. Otherwise empty.
    pub path: String,
}

/// A proxy for streams (CONNECT): `http://[user:password@]host:port`.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyAddress {
    /// Name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// `user:password`, if any.
    pub credentials: Option<String>,
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    text: String,
    rule: &'static str,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Udp,
        Self::Tcp,
        Self::Tls,
        Self::Ws,
        Self::Wss,
        Self::Quic,
    ];

    /// As addresses begin.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Ws => "ws",
            Self::Wss => "wss",
            Self::Quic => "quic",
        }
    }

    /// Whether the broker shows a certificate.
    #[must_use]
    pub const fn is_encrypted(self) -> bool {
        matches!(self, Self::Tls | Self::Wss | Self::Quic)
    }

    /// Whether units are messages of a WebSocket.
    #[must_use]
    pub const fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }

    /// RFC 6455 section 3; other schemes have no port of their own.
    const fn port(self) -> Option<u16> {
        match self {
            Self::Ws => Some(80),
            Self::Wss => Some(443),
            _ => None,
        }
    }
}

impl Address {
    /// `host:port`, with brackets around an IPv6 address.
    #[must_use]
    pub fn authority(&self) -> String {
        authority(&self.host, self.port)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = |rule| AddressError {
            text: text.to_owned(),
            rule,
        };
        let (scheme, rest) = match text.split_once("://") {
            Some((word, rest)) => {
                let mut known = Scheme::ALL.into_iter();
                let scheme = known.find(|scheme| word.eq_ignore_ascii_case(scheme.name()));
                let rule = "begin with quic://, udp://, tcp://, tls://, ws:// or wss://";
                (scheme.ok_or_else(|| wrong(rule))?, rest)
            }
            None => (Scheme::Udp, text),
        };
        let (authority, path) = match rest.find('/') {
            Some(place) => rest.split_at(place),
            None => (rest, ""),
        };
        if !scheme.is_websocket() && !path.is_empty() {
            return Err(wrong("only ws:// and wss:// have a path"));
        }
        if path.contains(|c: char| c.is_control() || c.is_whitespace()) {
            return Err(wrong("a path has no blanks"));
        }
        let rule = "write host:port, such as broker.example.org:4600";
        let (host, port) = host_port(authority, scheme.port()).ok_or_else(|| wrong(rule))?;
        let path = match (scheme.is_websocket(), path) {
            (true, "" | "/") => PATH,
            (_, path) => path,
        };
        Ok(Self {
            scheme,
            host,
            port,
            path: path.to_owned(),
        })
    }
}

impl FromStr for ProxyAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError {
            // A password does not belong into messages.
            text: text.rsplit('@').next().unwrap_or_default().to_owned(),
            rule: "write http://host:port; other kinds of proxies are not known",
        };
        let rest = text.strip_prefix("http://").ok_or_else(wrong)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (credentials, authority) = match rest.rsplit_once('@') {
            Some((credentials, authority)) => (Some(credentials.to_owned()), authority),
            None => (None, rest),
        };
        let (host, port) = host_port(authority, Some(80)).ok_or_else(wrong)?;
        Ok(Self {
            host,
            port,
            credentials,
        })
    }
}

fn host_port(text: &str, port: Option<u16>) -> Option<(String, u16)> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(digits) => digits.parse().ok().filter(|port| *port != 0)?,
        None if rest.is_empty() => port?,
        None => return None,
    };
    let odd = |c: char| c.is_whitespace() || c.is_control() || "@/?#[]".contains(c);
    (!host.is_empty() && !host.contains(odd)).then(|| (host.to_owned(), port))
}

fn authority(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}://{}{}",
            self.scheme.name(),
            self.authority(),
            self.path
        )
    }
}

impl fmt::Display for ProxyAddress {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", authority(&self.host, self.port))
    }
}

impl fmt::Debug for ProxyAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.text, self.rule)
    }
}

impl core::error::Error for AddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_they_are_read() {
        for (text, whole) in [
            ("broker:4600", "udp://broker:4600"),
            ("TCP://[::1]:4600", "tcp://[::1]:4600"),
            ("tls://192.0.2.1:443", "tls://192.0.2.1:443"),
            ("quic://b:4601", "quic://b:4601"),
            ("ws://b", "ws://b:80/v1/connect"),
            ("wss://b/", "wss://b:443/v1/connect"),
            ("wss://[2001:db8::1]/x?y=z", "wss://[2001:db8::1]:443/x?y=z"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), whole);
            assert_eq!(whole.parse::<Address>().unwrap().to_string(), whole);
        }
    }

    #[test]
    fn what_is_no_address_says_why() {
        for (text, word) in [
            ("", "host:port"),
            ("broker", "host:port"),
            ("broker:0", "host:port"),
            ("broker:70000", "host:port"),
            ("::1:4600", "host:port"),
            ("tls://broker", "host:port"),
            ("tls://broker:1/path", "path"),
            ("ws://a@b", "host:port"),
            ("wss://b/a b", "blanks"),
            ("http://b", "wss://"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_proxy_keeps_its_password_to_itself() {
        let proxy: ProxyAddress = "http://anna:secret@[::1]:3128/".parse().unwrap();
        assert_eq!(proxy.credentials.as_deref(), Some("anna:secret"));
        assert_eq!(
            format!("{proxy} {proxy:?}"),
            "http://[::1]:3128 http://[::1]:3128"
        );
        let error = "socks5://anna:secret@b:1"
            .parse::<ProxyAddress>()
            .unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
