//! A certificate authority in a folder, and the brokers it has signed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PKCS_ED25519};

/// Signs for whoever asks.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    /// Writes `ca.pem` into the folder.
    pub(crate) fn new(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
        let folder = folder.to_owned();
        Self { issuer, folder }
    }

    pub(crate) fn file(&self) -> String {
        self.folder.join("ca.pem").display().to_string()
    }

    /// The data folder of a broker: its key, and a certificate for the address.
    pub(crate) fn broker(&self, name: &str, address: &str) -> PathBuf {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder).unwrap();
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let params = CertificateParams::new(vec![address.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(folder.join("broker.key"), key.serialize_der()).unwrap();
        fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
        fs::write(folder.join("certificate.pem"), certificate.pem()).unwrap();
        folder
    }

    /// Tells a `sangam serve` to be the broker of this folder.
    pub(crate) fn equip(&self, command: &mut Command, folder: &Path) {
        command
            .env("SANGAM_BROKER_DATA_DIR", folder)
            .env("SANGAM_TLS_CERTIFICATE", folder.join("certificate.pem"))
            .env("SANGAM_TLS_KEY", folder.join("key.pem"))
            .env("SANGAM_TLS_CA", self.folder.join("ca.pem"));
    }
}
