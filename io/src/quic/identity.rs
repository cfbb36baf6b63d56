//! Which broker a certificate belongs to.

use aws_lc_rs::digest;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use sangam_model::BrokerId;

/// How an Ed25519 public key begins in a certificate (RFC 8410 section 4); 32 bytes follow.
const ED25519: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// The broker with the certificate's key: the first 32 bits of the key's SHA-256. `None` if the
/// key is not an Ed25519 key, which every broker's is.
#[must_use]
pub fn broker_of(certificate: &CertificateDer<'_>) -> Option<BrokerId> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let info = parsed.subject_public_key_info();
    let key = info.as_ref().strip_prefix(&ED25519)?;
    let hash = digest::digest(&digest::SHA256, key);
    let first = hash.as_ref().first_chunk()?;
    Some(BrokerId(u32::from_be_bytes(*first)))
}
