//! A certificate authority for one test.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PKCS_ED25519};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Whoever trusts it believes what it has signed.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate, its key, and the broker id that follows from it.
pub(crate) struct Certified {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    key: KeyPair,
}

impl Certified {
    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::try_from(self.key.serialize_der()).expect("a PKCS#8 key")
    }

    /// The raw public key.
    pub(crate) fn public_key(&self) -> &[u8] {
        self.key.public_key_raw()
    }
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Signs a new Ed25519 key for loopback addresses.
    pub(crate) fn sign(&self) -> Certified {
        let names = ["127.0.0.1", "::1", "localhost"].map(str::to_owned);
        let params = CertificateParams::new(names.to_vec()).expect("names");
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a signature");
        let chain = vec![certificate.der().clone()];
        Certified { chain, key }
    }

    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("an authority");
        roots
    }

    /// A server that asks nobody for a certificate.
    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        let own = self.sign();
        let config = ServerConfig::builder_with_provider(default_provider().into())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(own.chain.clone(), own.key());
        Arc::new(config.expect("key and certificate belong together"))
    }

    /// A server that lets in only those whom this authority has signed.
    pub(crate) fn mutual_server(&self, own: &Certified) -> Arc<ServerConfig> {
        let provider = Arc::new(default_provider());
        let roots = Arc::new(self.roots());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_client_cert_verifier(verifier.build().expect("an authority"))
            .with_single_cert(own.chain.clone(), own.key());
        Arc::new(config.expect("key and certificate belong together"))
    }

    /// A client that believes this authority.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        let config = ClientConfig::builder_with_provider(default_provider().into())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(self.roots())
            .with_no_client_auth();
        Arc::new(config)
    }

    /// A client that also shows some certificate.
    pub(crate) fn client_with(&self, own: &Certified) -> Arc<ClientConfig> {
        let config = ClientConfig::builder_with_provider(default_provider().into())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(self.roots())
            .with_client_auth_cert(own.chain.clone(), own.key());
        Arc::new(config.expect("key and certificate belong together"))
    }
}
