//! Which broker a certificate belongs to.

use aws_lc_rs::digest;
use rustls::pki_types::CertificateDer;
use sangam_model::BrokerId;

use crate::tls::ed25519_key;

/// The broker with the certificate's key: the first 32 bits of the key's SHA-256. `None` if the
/// key is not an Ed25519 key, which every broker's is.
#[must_use]
pub fn broker_of(certificate: &CertificateDer<'_>) -> Option<BrokerId> {
    let key = ed25519_key(certificate)?;
    let hash = digest::digest(&digest::SHA256, &key);
    let first = hash.as_ref().first_chunk()?;
    Some(BrokerId(u32::from_be_bytes(*first)))
}
