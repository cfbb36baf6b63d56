//! A certificate authority for one test.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PKCS_ED25519};
use sangam_io::quic::broker_of;
use sangam_io::tls::{Identity, Roots};

/// Whoever trusts it believes what it has signed.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// A certificate for loopback addresses and the broker's id, with a new Ed25519 key.
    pub(crate) fn sign(&self) -> Arc<Identity> {
        let mut names = ["127.0.0.1", "::1", "localhost"]
            .map(str::to_owned)
            .to_vec();
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let signed = |names: &[String]| {
            let params = CertificateParams::new(names.to_vec()).expect("names");
            params.signed_by(&key, &self.0).expect("a signature")
        };
        let id = broker_of(signed(&names).der()).expect("an Ed25519 key");
        names.push(format!("{id}.sangam.internal"));
        let certificate = signed(&names);
        let (chain, key) = (certificate.pem(), key.serialize_pem());
        let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes());
        Arc::new(identity.expect("key and certificate"))
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots::from_pem(self.0.pem().as_bytes()).expect("an authority")
    }
}
