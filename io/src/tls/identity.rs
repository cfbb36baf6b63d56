//! Certificates and keys from PEM (RFC 7468).

use std::fs;
use std::path::Path;
use std::sync::Arc;

use core::time::Duration;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, RootCertStore};

use super::TlsError;

/// Certificates of one chain or file, at most; a system's own list of authorities has some 150.
const CERTIFICATES_MAX: usize = 1_024;
/// How an Ed25519 public key begins in a certificate (RFC 8410 section 4); 32 bytes follow.
const ED25519_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// A certificate chain, its own certificate first, and the key of that one.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// Where chain and key came from, for messages.
    pub(super) sources: (String, String),
}

/// Certificate authorities that are trusted.
#[derive(Clone, Debug)]
pub struct Roots {
    pub(super) store: Arc<RootCertStore>,
    /// What these authorities have revoked.
    pub(super) revoked: Vec<CertificateRevocationListDer<'static>>,
}

impl Identity {
    /// Reads a chain and a key; they may lie in one file.
    ///
    /// # Errors
    /// With the name of the file in the message. Whether they belong together is seen when a
    /// configuration is made of them.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let names = (name(certificate), name(key));
        Self::parse((&read(certificate)?, &read(key)?), names)
    }

    /// The same from texts in memory.
    ///
    /// # Errors
    /// As [`Identity::load`].
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Self::parse((certificate, key), (memory(), memory()))
    }

    /// A chain and a key that are there already.
    #[must_use]
    pub fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Self {
        Self {
            chain,
            key,
            sources: (memory(), memory()),
        }
    }

    /// The chain, the holder's own certificate first.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// From when until when the holder's certificate is valid, since the Unix epoch; `None` if it
    /// cannot be read.
    #[must_use]
    pub fn validity(&self) -> Option<(Duration, Duration)> {
        let own = ParsedCertificate::try_from(self.chain.first()?).ok()?;
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        // Validity is the first thing that is verified, and a refusal names its bounds.
        let verdict = |seconds| {
            let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            let (roots, known) = (RootCertStore::empty(), algorithms.all);
            match verify_server_cert_signed_by_trust_anchor(&own, &roots, &[], at, known) {
                Err(rustls::Error::InvalidCertificate(bad)) => Some(bad),
                _ => None,
            }
        };
        let since = |time: UnixTime| Duration::from_secs(time.as_secs());
        match (verdict(0)?, verdict(u64::MAX)?) {
            (
                CertificateError::NotValidYetContext { not_before, .. },
                CertificateError::ExpiredContext { not_after, .. },
            ) => Some((since(not_before), since(not_after))),
            _ => None,
        }
    }

    pub(super) fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }

    fn parse(
        (certificate, key): (&[u8], &[u8]),
        sources: (String, String),
    ) -> Result<Self, TlsError> {
        let chain = certificates(certificate, &sources.0)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => TlsError::NoKey(sources.1.clone()),
            error => TlsError::Pem {
                source: sources.1.clone(),
                error,
            },
        })?;
        Ok(Self {
            chain,
            key,
            sources,
        })
    }
}

impl Roots {
    /// Reads the authorities of a file, and the lists of what they have revoked if there are any.
    ///
    /// # Errors
    /// With the name of the file in the message.
    pub fn load(path: &Path) -> Result<Self, TlsError> {
        Self::collect(&read(path)?, &name(path))
    }

    /// The same from a text in memory.
    ///
    /// # Errors
    /// As [`Roots::load`].
    pub fn from_pem(pem: &[u8]) -> Result<Self, TlsError> {
        Self::collect(pem, &memory())
    }

    /// What this machine trusts: the system's list, or the one that `SSL_CERT_FILE` names.
    ///
    /// # Errors
    /// [`TlsError::NoSystemRoots`].
    pub fn system() -> Result<Self, TlsError> {
        let found = rustls_native_certs::load_native_certs();
        let mut store = RootCertStore::empty();
        // Some of a system's many may be of kinds that nobody needs.
        let (added, _) = store.add_parsable_certificates(found.certs);
        if added > 0 {
            return Ok(Self {
                store: Arc::new(store),
                revoked: Vec::new(),
            });
        }
        let why = found.errors.first().map(ToString::to_string);
        Err(TlsError::NoSystemRoots(
            why.unwrap_or_else(|| "its list is empty".to_owned()),
        ))
    }

    fn collect(pem: &[u8], source: &str) -> Result<Self, TlsError> {
        let mut store = RootCertStore::empty();
        for certificate in certificates(pem, source)? {
            store.add(certificate).map_err(|error| TlsError::Root {
                source: source.to_owned(),
                error,
            })?;
        }
        let revoked: Result<_, _> = CertificateRevocationListDer::pem_slice_iter(pem)
            .take(CERTIFICATES_MAX)
            .collect();
        Ok(Self {
            store: Arc::new(store),
            revoked: revoked.map_err(|error| TlsError::Pem {
                source: source.to_owned(),
                error,
            })?,
        })
    }
}

/// The Ed25519 public key of a certificate; `None` if it has a key of another kind or cannot be
/// read.
#[must_use]
pub fn ed25519_key(certificate: &CertificateDer<'_>) -> Option<[u8; 32]> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let info = parsed.subject_public_key_info();
    let key = info.as_ref().strip_prefix(&ED25519_PREFIX)?;
    key.try_into().ok()
}

fn certificates(pem: &[u8], source: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem)
        .take(CERTIFICATES_MAX)
        .collect();
    let found = found.map_err(|error| TlsError::Pem {
        source: source.to_owned(),
        error,
    })?;
    if found.is_empty() {
        return Err(TlsError::NoCertificate(source.to_owned()));
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| TlsError::Io {
        source: name(path),
        error,
    })
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn memory() -> String {
    "memory".to_owned()
}
