//! A small certificate authority for brokers.
//!
//! It lives in a folder: its key, its certificate with the list of what it has revoked, and a book
//! of what it has issued. A broker's certificate is for the broker's own identity key, which never
//! leaves the broker's machine.

mod book;
mod names;
mod read;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, NameConstraints, PublicKeyData, RevocationReason, RevokedCertParams,
    SerialNumber,
};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use sangam_model::BrokerId;
use time::OffsetDateTime;

use crate::identity::id_of;
use crate::keep::{self, Readers};
use crate::pem::{self, Pem};

pub(crate) use book::{Book, Entry};
pub(crate) use names::{BROKER_DOMAIN, Name};
pub(crate) use read::{Document, Facts, Request};

/// Files of an authority's folder.
const KEY: &str = "ca.key";
pub(crate) const CERTIFICATE: &str = "ca.crt";
/// How far before its issue a certificate is good, for machines whose clocks are behind.
const BACKDATED: Duration = Duration::from_secs(3_600);
/// Revocation lists replace each other when something is revoked, not when time has passed.
const LIST_GOOD_FOR: Duration = Duration::from_secs(20 * 365 * 86_400);

/// An authority that can sign.
pub(crate) struct Ca {
    folder: PathBuf,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// What a broker's certificate shall say.
#[derive(Debug)]
pub(crate) struct Wish<'a, K> {
    pub(crate) key: &'a K,
    pub(crate) names: Vec<Name>,
    pub(crate) days: u32,
}

/// A certificate that was made.
#[derive(Debug)]
pub(crate) struct Issued {
    pub(crate) pem: String,
    pub(crate) entry: Entry,
}

/// Why there is no certificate.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum CaError {
    /// A file or folder could not be used.
    Io(PathBuf, std::io::Error),
    /// A file holds something else.
    Wrong(PathBuf, &'static str),
    /// The key of a request is of no broker.
    NoBroker,
    /// A name cannot stand in a certificate.
    Name(String),
    /// The library refuses.
    Library(rcgen::Error),
    /// The system gives no randomness.
    Randomness,
}

impl Ca {
    /// Makes an authority in a folder, over another one if there is one.
    ///
    /// # Errors
    /// See [`CaError`].
    pub(crate) fn init(
        folder: &Path,
        organisation: &str,
        (days, only): (u32, &[Name]),
    ) -> Result<Self, CaError> {
        fs::create_dir_all(folder).map_err(at(folder))?;
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished(&format!("{organisation} Sangam CA"));
        params
            .distinguished_name
            .push(DnType::OrganizationName, organisation);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.name_constraints = constraints(only);
        (params.not_before, params.not_after) = validity(days);
        params.serial_number = Some(serial()?);
        let certificate = params.self_signed(&key)?.der().clone();
        let private = pem::write(pem::PRIVATE_KEY, key.serialized_der());
        write(&folder.join(KEY), &private, Readers::Owner)?;
        Book::default().write(folder)?;
        let ca = Self {
            folder: folder.to_owned(),
            certificate,
            issuer: Issuer::new(params, key),
        };
        ca.publish(&Book::default())?;
        Ok(ca)
    }

    /// The files of an authority in this folder.
    pub(crate) fn files(folder: &Path) -> [PathBuf; 3] {
        [KEY, CERTIFICATE, book::FILE].map(|name| folder.join(name))
    }

    /// The authority in a folder.
    ///
    /// # Errors
    /// See [`CaError`].
    pub(crate) fn open(folder: &Path) -> Result<Self, CaError> {
        let (key, certificate) = (folder.join(KEY), folder.join(CERTIFICATE));
        let Some(Pem::PrivateKey(pkcs8)) = pem::first(&text(&key)?) else {
            return Err(CaError::Wrong(key, "no private key"));
        };
        let Some(Pem::Certificate(der)) = pem::first(&text(&certificate)?) else {
            return Err(CaError::Wrong(certificate, "no certificate"));
        };
        let pkcs8 = PrivatePkcs8KeyDer::from(pkcs8);
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &rcgen::PKCS_ED25519)
            .map_err(|_| CaError::Wrong(key, "a private key that is not Ed25519"))?;
        let der = CertificateDer::from(der);
        let issuer = Issuer::from_ca_cert_der(&der, pair)
            .map_err(|_| CaError::Wrong(certificate, "a damaged certificate"))?;
        Ok(Self {
            folder: folder.to_owned(),
            certificate: der,
            issuer,
        })
    }

    /// What brokers need: the authority's own certificate and what it has revoked, in PEM.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn published(&self) -> Result<String, CaError> {
        text(&self.folder.join(CERTIFICATE))
    }

    /// Makes a certificate and writes it into the book.
    ///
    /// # Errors
    /// See [`CaError`].
    pub(crate) fn issue(&self, wish: Wish<'_, impl PublicKeyData>) -> Result<Issued, CaError> {
        let broker = broker_of(wish.key)?;
        let names = names::with_broker(wish.names, broker);
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished(&format!("Sangam broker {broker}"));
        params.subject_alt_names = names.iter().map(Name::subject).collect::<Result<_, _>>()?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = validity(wish.days);
        let serial = serial()?;
        params.serial_number = Some(serial.clone());
        let certificate = params.signed_by(wish.key, &self.issuer)?;
        let entry = Entry {
            serial: serial.to_string(),
            broker: broker.to_string(),
            names: names.iter().map(ToString::to_string).collect(),
            until: params.not_after.unix_timestamp(),
            revoked: None,
        };
        let mut book = Book::read(&self.folder)?;
        book.add(entry.clone());
        // Before the certificate is anywhere: what is not in the book cannot be revoked.
        book.write(&self.folder)?;
        Ok(Issued {
            pem: pem::write(pem::CERTIFICATE, certificate.der()),
            entry,
        })
    }

    /// Revokes what `which` selects, and says what that was.
    ///
    /// # Errors
    /// See [`CaError`].
    pub(crate) fn revoke(&self, which: impl Fn(&Entry) -> bool) -> Result<Vec<Entry>, CaError> {
        let mut book = Book::read(&self.folder)?;
        let revoked = book.revoke(now().unix_timestamp(), which);
        self.publish(&book)?;
        book.write(&self.folder)?;
        Ok(revoked)
    }

    /// Writes the certificate, and behind it the list of what is revoked (RFC 5280 section 5).
    fn publish(&self, book: &Book) -> Result<(), CaError> {
        let (mut revoked_certs, now) = (Vec::new(), now());
        for (entry, when) in book.revoked() {
            let serial = entry.serial_bytes();
            let serial =
                serial.ok_or_else(|| CaError::Wrong(self.folder.join(book::FILE), "no serial"))?;
            revoked_certs.push(RevokedCertParams {
                serial_number: SerialNumber::from_slice(&serial),
                revocation_time: OffsetDateTime::from_unix_timestamp(when).unwrap_or(now),
                reason_code: Some(RevocationReason::CessationOfOperation),
                invalidity_date: None,
            });
        }
        // Rises with every list, as RFC 5280 section 5.2.3 asks.
        let number = now.unix_timestamp().to_be_bytes();
        let list = CertificateRevocationListParams {
            this_update: now - BACKDATED,
            next_update: now + LIST_GOOD_FOR,
            crl_number: SerialNumber::from_slice(&number),
            issuing_distribution_point: None,
            revoked_certs,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer)?;
        let list = pem::write(pem::REVOCATION_LIST, list.der());
        let both = pem::write(pem::CERTIFICATE, &self.certificate) + &list;
        write(&self.folder.join(CERTIFICATE), &both, Readers::All)
    }
}

/// The request of a broker for a certificate, in PEM.
///
/// # Errors
/// See [`CaError`].
pub(crate) fn request(key: &KeyPair, names: Vec<Name>) -> Result<String, CaError> {
    let broker = broker_of(key)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished(&format!("Sangam broker {broker}"));
    params.subject_alt_names = names::with_broker(names, broker)
        .iter()
        .map(Name::subject)
        .collect::<Result<_, _>>()?;
    let request = params.serialize_request(key)?;
    Ok(pem::write(pem::REQUEST, request.der()))
}

/// The broker whose key this is.
fn broker_of(key: &impl PublicKeyData) -> Result<BrokerId, CaError> {
    let raw = pem::ed25519_of(&key.subject_public_key_info()).ok_or(CaError::NoBroker)?;
    Ok(id_of(&raw))
}

fn distinguished(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// RFC 5280 section 4.2.1.10: the names the authority may vouch for, if they are limited.
fn constraints(only: &[Name]) -> Option<NameConstraints> {
    if only.is_empty() {
        return None;
    }
    let mut permitted_subtrees: Vec<_> = only.iter().map(Name::subtree).collect();
    permitted_subtrees.push(GeneralSubtree::DnsName(BROKER_DOMAIN.to_owned()));
    Some(NameConstraints {
        permitted_subtrees,
        excluded_subtrees: Vec::new(),
    })
}

fn validity(days: u32) -> (OffsetDateTime, OffsetDateTime) {
    let now = now();
    let days = Duration::from_secs(u64::from(days) * 86_400);
    (now - BACKDATED, now + days)
}

fn now() -> OffsetDateTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    let seconds = i64::try_from(seconds).unwrap_or_default();
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// RFC 5280 section 4.1.2.2: positive and unique; 127 random bits are.
fn serial() -> Result<SerialNumber, CaError> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| CaError::Randomness)?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

fn text(path: &Path) -> Result<String, CaError> {
    fs::read_to_string(path).map_err(at(path))
}

fn write(path: &Path, text: &str, readers: Readers) -> Result<(), CaError> {
    keep::write(path, text.as_bytes(), readers).map_err(at(path))
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> CaError {
    let path = path.to_owned();
    move |error| CaError::Io(path, error)
}

impl From<rcgen::Error> for CaError {
    fn from(error: rcgen::Error) -> Self {
        Self::Library(error)
    }
}

impl std::fmt::Display for CaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Wrong(path, holds) => write!(f, "{} holds {holds}", path.display()),
            Self::NoBroker => f.write_str("the key is not Ed25519, and so of no broker"),
            Self::Name(name) => write!(
                f,
                "{name:?} is neither an address nor a host name such as broker.example.org"
            ),
            Self::Library(error) => write!(f, "the certificate cannot be made: {error}"),
            Self::Randomness => f.write_str("the system gives no random numbers"),
        }
    }
}

impl std::error::Error for CaError {}
