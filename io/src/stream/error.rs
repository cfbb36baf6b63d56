//! Why a stream ends, or a unit could not be queued.

use core::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError};
use sangam_model::limits::EVENT_LEN_MAX;

/// Why a stream cannot go on, or a unit could not be queued.
#[derive(Debug)]
#[non_exhaustive]
pub enum FramedError {
    /// The peer announced a unit of this many bytes.
    Oversized(usize),
    /// The peer announced a unit of no bytes.
    Empty,
    /// The peer does not read: its queue is full. The stream itself is well.
    Full,
    /// The connection failed.
    Io(io::Error),
    /// TLS failed: what the peer shows is not believed, or is no TLS.
    Tls(rustls::Error),
    /// The peer breaks the WebSocket protocol (RFC 6455).
    WebSocket(&'static str),
    /// The HTTP in front of a WebSocket, or the answer of a proxy, is not as it should be.
    Http(String),
}

impl FramedError {
    /// Whether one side does not believe the other's certificate. Trying again helps nobody.
    #[must_use]
    pub fn is_certificate(&self) -> bool {
        use AlertDescription as Alert;
        match self {
            Self::Tls(rustls::Error::AlertReceived(alert)) => matches!(
                alert,
                Alert::BadCertificate
                    | Alert::UnsupportedCertificate
                    | Alert::CertificateRevoked
                    | Alert::CertificateExpired
                    | Alert::CertificateUnknown
                    | Alert::CertificateRequired
                    | Alert::UnknownCA
                    | Alert::AccessDenied
            ),
            Self::Tls(
                rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented,
            ) => true,
            _ => false,
        }
    }
}

impl From<io::Error> for FramedError {
    fn from(error: io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
        match tls {
            Some(tls) => Self::Tls(rustls::Error::clone(tls)),
            None => Self::Io(error),
        }
    }
}

impl From<rustls::Error> for FramedError {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error)
    }
}

impl fmt::Display for FramedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oversized(len) => write!(
                f,
                "a unit of {len} bytes; at most {EVENT_LEN_MAX} are allowed"
            ),
            Self::Empty => f.write_str("a unit of no bytes"),
            Self::Full => f.write_str("the peer does not read what is sent to it"),
            Self::Io(error) => write!(f, "the connection failed: {error}"),
            Self::Tls(error) => tls(error, f),
            Self::WebSocket(what) => write!(f, "the peer breaks the WebSocket protocol: {what}"),
            Self::Http(what) => f.write_str(what),
        }
    }
}

/// What went wrong, and what to do about it.
fn tls(error: &rustls::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use CertificateError as Bad;
    let advice = match error {
        rustls::Error::InvalidCertificate(bad) => match bad {
            Bad::Expired | Bad::ExpiredContext { .. } => {
                "it has expired: renew it, and check this machine's clock"
            }
            Bad::NotValidYet | Bad::NotValidYetContext { .. } => {
                "it is not valid yet: check this machine's clock"
            }
            Bad::UnknownIssuer => "nobody trusted here has issued it: name its authority's file",
            Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
                "it is for another name: dial that name, or say which name to expect"
            }
            Bad::Revoked => "it has been revoked",
            _ => "it is not valid",
        },
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            return f.write_str("the peer wants a certificate of its authority from this side");
        }
        rustls::Error::InvalidMessage(_) => {
            return write!(f, "the peer does not speak TLS 1.3 here: {error}");
        }
        _ => return write!(f, "TLS failed: {error}"),
    };
    write!(f, "the peer's certificate is refused; {advice} ({error})")
}

impl core::error::Error for FramedError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Tls(error) => Some(error),
            _ => None,
        }
    }
}
