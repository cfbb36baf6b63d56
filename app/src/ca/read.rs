//! What stands in certificates, requests and revocation lists.

use std::net::IpAddr;
use std::path::Path;

use rcgen::{CertificateSigningRequestParams, PublicKey, SanType};
use rustls_pki_types::CertificateSigningRequestDer;
use sangam_model::BrokerId;
use serde::Serialize;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::{CaError, Name, broker_of, text};
use crate::identity::id_of;
use crate::pem::{self, Pem};

/// What a file holds.
#[derive(Debug)]
pub(crate) enum Document {
    /// A certificate, the first if there are several, and what a list behind it revokes.
    Certificate(Facts, Vec<String>),
    /// A request for one.
    Request(Request),
    /// Serial numbers of revoked certificates.
    Revoked(Vec<String>),
}

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Facts {
    pub(crate) subject: String,
    pub(crate) issuer: String,
    pub(crate) serial: String,
    /// Seconds since 1970.
    pub(crate) from: i64,
    /// Seconds since 1970.
    pub(crate) until: i64,
    pub(crate) names: Vec<String>,
    pub(crate) authority: bool,
    /// Whose key it is for, if the key could be a broker's.
    pub(crate) broker: Option<String>,
}

/// A request whose signature is good: who made it holds the key.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) key: PublicKey,
    pub(crate) names: Vec<Name>,
    pub(crate) broker: BrokerId,
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or holds something else.
    pub(crate) fn read(path: &Path) -> Result<Self, CaError> {
        let wrong = |what| CaError::Wrong(path.to_owned(), what);
        let all = pem::all(&text(path)?);
        let mut revoked = Vec::new();
        for one in &all {
            if let Pem::RevocationList(der) = one {
                revoked.extend(serials(der).ok_or_else(|| wrong("a damaged list"))?);
            }
        }
        Ok(match all.into_iter().next() {
            Some(Pem::Certificate(der)) => {
                let facts = Facts::of(&der).ok_or_else(|| wrong("a damaged certificate"))?;
                Self::Certificate(facts, revoked)
            }
            Some(Pem::Request(_)) => Self::Request(Request::read(path)?),
            Some(Pem::RevocationList(_)) => Self::Revoked(revoked),
            Some(Pem::PrivateKey(_)) => return Err(wrong("a private key; show it to nobody")),
            _ => return Err(wrong("no certificate, request or revocation list in PEM")),
        })
    }
}

impl Request {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is not signed with its own key, or is of no broker.
    pub(crate) fn read(path: &Path) -> Result<Self, CaError> {
        let Some(Pem::Request(der)) = pem::first(&text(path)?) else {
            return Err(CaError::Wrong(path.to_owned(), "no certificate request"));
        };
        let der = CertificateSigningRequestDer::from(der);
        let request = CertificateSigningRequestParams::from_der(&der).map_err(|_| {
            CaError::Wrong(
                path.to_owned(),
                "a damaged request, or one not signed with its own key",
            )
        })?;
        // The names alone are taken over: what else the request asks for, such as to be an
        // authority, is not the broker's to decide.
        let names = request.params.subject_alt_names.iter().filter_map(name);
        Ok(Self {
            broker: broker_of(&request.public_key)?,
            names: names.collect(),
            key: request.public_key,
        })
    }
}

impl Facts {
    fn of(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let alternatives = certificate.subject_alternative_name().ok().flatten();
        let names = alternatives.map(|names| &names.value.general_names);
        let key = pem::ed25519_of(certificate.public_key().raw);
        let authority = certificate.is_ca();
        Some(Self {
            subject: certificate.subject().to_string(),
            issuer: certificate.issuer().to_string(),
            serial: certificate.raw_serial_as_string(),
            from: certificate.validity().not_before.timestamp(),
            until: certificate.validity().not_after.timestamp(),
            names: names.into_iter().flatten().map(general).collect(),
            authority,
            broker: key
                .filter(|_| !authority)
                .map(|key| id_of(&key).to_string()),
        })
    }
}

fn serials(list: &[u8]) -> Option<Vec<String>> {
    let (_, list) = CertificateRevocationList::from_der(list).ok()?;
    let serials = list.iter_revoked_certificates();
    Some(serials.map(|one| one.raw_serial_as_string()).collect())
}

fn name(name: &SanType) -> Option<Name> {
    match name {
        SanType::DnsName(host) => host.as_str().parse().ok(),
        SanType::IpAddress(address) => Some(Name::Address(*address)),
        _ => None,
    }
}

fn general(name: &GeneralName<'_>) -> String {
    let address = |bytes: &[u8]| -> Option<IpAddr> {
        let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
        v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
            .ok()
    };
    match name {
        GeneralName::DNSName(host) => (*host).to_owned(),
        GeneralName::IPAddress(bytes) => {
            address(bytes).map_or_else(|| "a damaged address".to_owned(), |ip| ip.to_string())
        }
        other => other.to_string(),
    }
}
