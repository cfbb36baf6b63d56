//! `sangam ca`, from nothing to two brokers that believe each other and nobody else.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::{run, text};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use serde_json::Value;
use tempfile::TempDir;

/// A folder with an authority and brokers.
struct Stage(TempDir);

/// The clock of a test, so many days from now.
#[derive(Debug)]
struct Later(u64);

impl TimeProvider for Later {
    fn current_time(&self) -> Option<UnixTime> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let later = Duration::from_secs(self.0 * 86_400);
        now.ok().map(|now| UnixTime::since_unix_epoch(now + later))
    }
}

#[track_caller]
fn sangam(args: &[&str]) -> String {
    let output = run(args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[track_caller]
fn sangam_json(args: &[&str]) -> Value {
    let mut all = vec!["--json"];
    all.extend(args);
    serde_json::from_str(&sangam(&all)).unwrap()
}

impl Stage {
    fn new() -> Self {
        let stage = Self(tempfile::tempdir().unwrap());
        sangam(&[
            "ca",
            "init",
            "--dir",
            &stage.at("ca"),
            "--name",
            "Example Ltd",
        ]);
        stage
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Issues for the broker in this folder; its id.
    fn issue(&self, folder: &str, name: &str) -> String {
        let (ca, out) = (self.at("ca"), self.at(folder));
        let made = sangam_json(&[
            "ca", "issue", "--dir", &ca, "--out", &out, "--name", name, "--days", "30",
        ]);
        made["broker"].as_str().unwrap().to_owned()
    }

    fn certificates(&self, folder: &str) -> Vec<CertificateDer<'static>> {
        let path = self.0.path().join(folder).join("broker.crt");
        let all = CertificateDer::pem_file_iter(path).unwrap();
        all.collect::<Result<_, _>>().unwrap()
    }

    fn key(&self, folder: &str) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_file(self.0.path().join(folder).join("broker.key")).unwrap()
    }

    fn roots(&self, folder: &str) -> Arc<RootCertStore> {
        let path = self.0.path().join(folder).join("ca.crt");
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(path).unwrap())
            .unwrap();
        Arc::new(roots)
    }

    fn revoked(&self) -> CertificateRevocationListDer<'static> {
        CertificateRevocationListDer::from_pem_file(self.0.path().join("ca/ca.crt")).unwrap()
    }

    /// Whether the broker of one folder, as a client, and that of another believe each other,
    /// so many days from now.
    fn shake_hands(
        &self,
        (client, server): (&str, &str),
        name: &str,
        days: u64,
    ) -> Result<(), String> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let (provider, time) = (Arc::new(default_provider()), Arc::new(Later(days)));
        let verifier =
            WebPkiServerVerifier::builder_with_provider(self.roots(client), provider.clone())
                .with_crls([self.revoked()])
                .build()
                .unwrap();
        let dialing = ClientConfig::builder_with_details(provider.clone(), time.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_webpki_verifier(verifier)
            .with_client_auth_cert(self.certificates(client), self.key(client))
            .map_err(|error| said(&error))?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(self.roots(server), provider.clone())
                .with_crls([self.revoked()])
                .build()
                .unwrap();
        let accepting = ServerConfig::builder_with_details(provider, time)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.certificates(server), self.key(server))
            .map_err(|error| said(&error))?;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = ClientConnection::new(dialing.into(), name).unwrap();
        let mut server = ServerConnection::new(accepting.into()).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut flight = Vec::new();
            client.write_tls(&mut flight).unwrap();
            server.read_tls(&mut flight.as_slice()).unwrap();
            server.process_new_packets().map_err(|error| said(&error))?;
            let mut flight = Vec::new();
            server.write_tls(&mut flight).unwrap();
            client.read_tls(&mut flight.as_slice()).unwrap();
            client.process_new_packets().map_err(|error| said(&error))?;
        }
        Ok(())
    }

    #[track_caller]
    fn is_refused(&self, peers: (&str, &str), name: &str, word: &str) {
        let error = self.shake_hands(peers, name, 0).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn brokers_of_one_authority_believe_each_other_by_every_name_they_have() {
    let stage = Stage::new();
    stage.issue("a", "a.example.org");
    let b = stage.issue("b", "192.0.2.7");
    for name in ["192.0.2.7", &format!("{b}.sangam.internal")] {
        stage.shake_hands(("a", "b"), name, 0).unwrap();
    }
    stage.shake_hands(("b", "a"), "a.example.org", 0).unwrap();
}

#[test]
fn a_certificate_is_for_the_brokers_own_key_and_nobody_elses() {
    let stage = Stage::new();
    let a = stage.issue("a", "a.example.org");
    stage.issue("b", "b.example.org");
    let shown = sangam_json(&["ca", "show", &stage.at("a/broker.crt")]);
    assert_eq!(shown["certificate"]["broker"], a.as_str());
    // One broker passes neither under the other's id nor with the other's certificate.
    let other = format!("{a}.sangam.internal");
    stage.is_refused(("a", "b"), &other, "not valid for name");
    fs::copy(stage.at("a/broker.crt"), stage.at("b/broker.crt")).unwrap();
    stage.is_refused(("a", "b"), "a.example.org", "key");
    // What a broker serves under is what the certificate is for.
    let args = [
        "serve",
        "--dev",
        "--json",
        "--log",
        "error",
        "--listen",
        "127.0.0.1:0",
    ];
    let data_dir = stage.at("a");
    let mut command = common::sangam(&args);
    command.args(["--http", "127.0.0.1:0", "--data-dir", &data_dir]);
    assert_eq!(
        common::Running::start(command).json_line()["id"],
        a.as_str()
    );
}

#[test]
fn strangers_wrong_names_and_old_certificates_are_refused() {
    let stage = Stage::new();
    stage.issue("a", "a.example.org");
    stage.issue("b", "b.example.org");
    stage.is_refused(("a", "b"), "c.example.org", "not valid for name");
    stage.shake_hands(("a", "b"), "b.example.org", 29).unwrap();
    let error = stage
        .shake_hands(("a", "b"), "b.example.org", 31)
        .unwrap_err();
    assert!(error.contains("expired"), "{error}");

    let other = Stage::new();
    other.issue("x", "x.example.org");
    for file in ["broker.crt", "broker.key"] {
        fs::create_dir_all(stage.at("x")).unwrap();
        fs::copy(
            other.at(&format!("x/{file}")),
            stage.at(&format!("x/{file}")),
        )
        .unwrap();
    }
    // It trusts our brokers, and they do not trust it: its authority has but the same name.
    fs::copy(stage.at("ca/ca.crt"), stage.at("x/ca.crt")).unwrap();
    stage.is_refused(("x", "b"), "b.example.org", "BadSignature");
    stage.is_refused(("b", "x"), "x.example.org", "BadSignature");
}

#[test]
fn a_revoked_certificate_is_refused_and_its_successor_is_not() {
    let stage = Stage::new();
    stage.issue("a", "a.example.org");
    let b = stage.issue("b", "b.example.org");
    let ca = stage.at("ca");
    let revoked = sangam_json(&["ca", "revoke", "--dir", &ca, "--broker", &b]);
    assert_eq!(revoked["revoked"].as_array().unwrap().len(), 1);
    stage.is_refused(("a", "b"), "b.example.org", "Revoked");
    stage.is_refused(("b", "a"), "a.example.org", "Revoked");
    let again = run(&["ca", "revoke", "--dir", &ca, "--broker", &b]);
    assert_eq!(again.status.code(), Some(1));

    let b = stage.at("b");
    sangam(&[
        "ca",
        "issue",
        "--dir",
        &ca,
        "--out",
        &b,
        "--name",
        "b.example.org",
        "--force",
    ]);
    stage.shake_hands(("a", "b"), "b.example.org", 0).unwrap();
    let shown = sangam(&["ca", "show", &stage.at("ca/ca.crt")]);
    let serial = revoked["revoked"][0].as_str().unwrap();
    assert!(shown.contains(serial), "{shown}");
}

#[test]
fn a_request_carries_no_secret_and_brings_a_good_certificate() {
    let stage = Stage::new();
    stage.issue("a", "a.example.org");
    let (data_dir, request) = (stage.at("far"), stage.at("far.csr"));
    let name = ["--name", "far.example.org"];
    sangam(&[
        "ca",
        "request",
        "--data-dir",
        &data_dir,
        "--out",
        &request,
        name[0],
        name[1],
    ]);
    assert!(!fs::read_to_string(&request).unwrap().contains("PRIVATE"));
    let shown = sangam(&["ca", "show", &request]);
    assert!(shown.contains("far.example.org"), "{shown}");

    let (ca, out) = (stage.at("ca"), stage.at("far/broker.crt"));
    let said = sangam(&[
        "ca",
        "sign",
        "--dir",
        &ca,
        "--request",
        &request,
        "--out",
        &out,
    ]);
    assert!(
        said.contains("far.example.org") && said.contains("next:"),
        "{said}"
    );
    fs::copy(stage.at("ca/ca.crt"), stage.at("far/ca.crt")).unwrap();
    stage
        .shake_hands(("a", "far"), "far.example.org", 0)
        .unwrap();

    // A request that somebody changed on its way is not signed with its key any more.
    let text = fs::read_to_string(&request).unwrap();
    let middle = text.len() / 2;
    let other = if &text[middle..=middle] == "A" {
        "B"
    } else {
        "A"
    };
    let forged = format!("{}{other}{}", &text[..middle], &text[middle + 1..]);
    fs::write(&request, forged).unwrap();
    let output = run(&[
        "ca",
        "sign",
        "--dir",
        &ca,
        "--request",
        &request,
        "--out",
        &stage.at("x"),
    ]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_authority_for_some_names_only_is_believed_for_no_others() {
    let stage = Stage(tempfile::tempdir().unwrap());
    let ca = stage.at("ca");
    sangam(&[
        "ca",
        "init",
        "--dir",
        &ca,
        "--name",
        "Example",
        "--only",
        "example.org",
    ]);
    stage.issue("a", "a.example.org");
    stage.issue("b", "b.example.com");
    stage.shake_hands(("a", "a"), "a.example.org", 0).unwrap();
    stage.is_refused(("a", "b"), "b.example.com", "NameConstraint");
}

#[test]
fn secrets_are_for_their_owner_and_nothing_is_overwritten_by_mistake() {
    use std::os::unix::fs::PermissionsExt;

    let stage = Stage::new();
    stage.issue("a", "a.example.org");
    for secret in ["ca/ca.key", "a/broker.key"] {
        let mode = Path::new(&stage.at(secret))
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{secret}");
    }
    let (ca, a) = (stage.at("ca"), stage.at("a"));
    let before = fs::read(stage.at("ca/ca.key")).unwrap();
    for args in [
        vec!["ca", "init", "--dir", &ca, "--name", "Again"],
        vec!["ca", "issue", "--dir", &ca, "--out", &a],
    ] {
        let output = run(&args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("exists already") && said.contains("--force"),
            "{said}"
        );
    }
    assert_eq!(fs::read(stage.at("ca/ca.key")).unwrap(), before);
    let key = fs::read(stage.at("a/broker.key")).unwrap();
    sangam(&["ca", "issue", "--dir", &ca, "--out", &a, "--force"]);
    assert_eq!(
        fs::read(stage.at("a/broker.key")).unwrap(),
        key,
        "a new key is a new broker"
    );
}

#[test]
fn what_goes_wrong_says_what_to_do() {
    let stage = Stage::new();
    let (gone, ca) = (stage.at("gone"), stage.at("ca"));
    let key = stage.at("ca/ca.key");
    for (args, code, word) in [
        (
            vec!["ca", "issue", "--dir", &gone, "--out", &gone],
            1,
            "sangam ca init",
        ),
        (
            vec!["ca", "issue", "--dir", &ca, "--out", &gone, "--name", "a b"],
            2,
            "host name",
        ),
        (
            vec!["ca", "issue", "--dir", &ca, "--out", &gone, "--days", "0"],
            2,
            "1..=",
        ),
        (vec!["ca", "show", &key], 1, "private key"),
        (
            vec!["ca", "revoke", "--dir", &ca, "--broker", "xyz"],
            2,
            "hexadecimal",
        ),
        (
            vec!["ca", "revoke", "--dir", &ca, "--serial", "00"],
            1,
            "sangam ca show",
        ),
    ] {
        let output = run(&args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(word), "{args:?}: {said}");
    }
}

#[test]
fn a_broker_serves_with_what_was_issued_until_it_is_revoked() {
    let stage = Stage::new();
    let broker = stage.issue("a", "127.0.0.1");
    let config = format!(
        "[listen]\ntls = [\"127.0.0.1:0\"]\n\
         [tls]\ncertificate = \"{}\"\nkey = \"{}\"\nca = \"{}\"\n",
        stage.at("a/broker.crt"),
        stage.at("a/broker.key"),
        stage.at("a/ca.crt"),
    );
    let path = stage.at("sangam.toml");
    fs::write(&path, config).unwrap();
    let mut command = common::sangam(&["serve", "--dev", "--json", "--log", "error"]);
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--config",
        &path,
    ]);
    let mut serving = common::Running::start(command);
    let ready = serving.json_line();
    let from = format!("tls://{}", ready["tls"][0].as_str().unwrap());
    let play = |ca: &str| {
        let ca = stage.at(ca);
        let mut args = vec!["play", "--json", "--from", &from, "--topic", "a/#"];
        args.extend(["--seconds", "1", "--ca", &ca]);
        run(&args)
    };
    let output = play("a/ca.crt");
    assert!(output.status.success(), "{}", text(&output.stderr));

    let ca = stage.at("ca");
    sangam(&["ca", "revoke", "--dir", &ca, "--broker", &broker]);
    let output = play("ca/ca.crt");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
}
