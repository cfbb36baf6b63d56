//! Keys, certificates and requests as text (RFC 7468).

use pem::{EncodeConfig, LineEnding};

pub(crate) const PRIVATE_KEY: &str = "PRIVATE KEY";
pub(crate) const PUBLIC_KEY: &str = "PUBLIC KEY";
pub(crate) const CERTIFICATE: &str = "CERTIFICATE";
pub(crate) const REQUEST: &str = "CERTIFICATE REQUEST";
pub(crate) const REVOCATION_LIST: &str = "X509 CRL";

/// RFC 8410 section 4: what stands before the 32 bytes of an Ed25519 key in its
/// SubjectPublicKeyInfo.
const ED25519_SPKI: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// What a text holds, in DER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pem {
    /// PKCS#8.
    PrivateKey(Vec<u8>),
    /// SubjectPublicKeyInfo.
    PublicKey(Vec<u8>),
    /// X.509.
    Certificate(Vec<u8>),
    /// PKCS#10.
    Request(Vec<u8>),
    /// X.509.
    RevocationList(Vec<u8>),
    /// Something else.
    Other,
}

/// The first thing in a text; `None` if it is no PEM.
pub(crate) fn first(text: &str) -> Option<Pem> {
    pem::parse(text).ok().map(known)
}

/// Everything in a text; nothing if any of it is damaged.
pub(crate) fn all(text: &str) -> Vec<Pem> {
    let all = pem::parse_many(text).unwrap_or_default();
    all.into_iter().map(known).collect()
}

fn known(one: pem::Pem) -> Pem {
    match one.tag() {
        PRIVATE_KEY => Pem::PrivateKey(one.into_contents()),
        PUBLIC_KEY => Pem::PublicKey(one.into_contents()),
        CERTIFICATE => Pem::Certificate(one.into_contents()),
        REQUEST => Pem::Request(one.into_contents()),
        REVOCATION_LIST => Pem::RevocationList(one.into_contents()),
        _ => Pem::Other,
    }
}

/// The text of something in DER.
pub(crate) fn write(tag: &str, der: &[u8]) -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&pem::Pem::new(tag, der), config)
}

/// The key in a SubjectPublicKeyInfo, if it is Ed25519.
pub(crate) fn ed25519_of(spki: &[u8]) -> Option<[u8; 32]> {
    spki.strip_prefix(&ED25519_SPKI)?.try_into().ok()
}
