//! Why there is no TLS configuration, and what to do about it.

use core::fmt;
use std::io;

use rustls::pki_types::pem;

/// Why certificates or keys cannot be used. `source` is the name of a file, or `memory`.
#[derive(Debug)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    Io {
        /// The file.
        source: String,
        /// What the system says.
        error: io::Error,
    },
    /// A file is no PEM.
    Pem {
        /// The file.
        source: String,
        /// What is wrong with it.
        error: pem::Error,
    },
    /// A file holds no certificate.
    NoCertificate(String),
    /// A file holds no private key.
    NoKey(String),
    /// A certificate authority cannot be used.
    Root {
        /// The file.
        source: String,
        /// What is wrong with its certificate.
        error: rustls::Error,
    },
    /// The key is not that of the certificate, or of a kind that is not known.
    Key {
        /// The certificate's file.
        certificate: String,
        /// The key's file.
        key: String,
        /// What is wrong.
        error: rustls::Error,
    },
    /// The system has no certificate authorities.
    NoSystemRoots(String),
    /// The parts do not fit together.
    Config(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { source, error } => write!(f, "{source}: {error}"),
            Self::Pem { source, error } => write!(
                f,
                "{source} is no PEM file: {error}; give text with -----BEGIN ...----- lines"
            ),
            Self::NoCertificate(source) => write!(
                f,
                "{source} holds no certificate; give the file with -----BEGIN CERTIFICATE-----, \
                 the server's own first"
            ),
            Self::NoKey(source) => write!(
                f,
                "{source} holds no private key; give the file with -----BEGIN PRIVATE KEY-----"
            ),
            Self::Root { source, error } => {
                write!(f, "the authority in {source} cannot be used: {error}")
            }
            Self::Key {
                certificate,
                key,
                error: rustls::Error::InconsistentKeys(_),
            } => write!(
                f,
                "the key in {key} is not that of the certificate in {certificate}; give the key \
                 with which the certificate was requested"
            ),
            Self::Key { key, error, .. } => write!(
                f,
                "the key in {key} cannot be used: {error}; give an Ed25519, ECDSA or RSA key, \
                 not encrypted"
            ),
            Self::NoSystemRoots(why) => write!(
                f,
                "this machine knows no certificate authorities ({why}); install \
                 `ca-certificates`, or name the authority's file"
            ),
            Self::Config(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for TlsError {}
