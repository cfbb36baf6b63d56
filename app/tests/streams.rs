//! Real media over TLS and WebSockets, between processes: certificates, proxies, other people's
//! WebSocket clients.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/proxy.rs"]
mod proxy;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Running, clip, run, sangam, text};
use proxy::Proxy;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use sangam_wire::{Capabilities, Frame, Hello, Role, VERSION};
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

/// A folder with an authority's certificate, a broker's, and its key.
struct Files {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Files {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        let files = Self { folder, authority };
        files.certify(|_| {});
        files
    }

    /// Writes a certificate for this machine, and its key.
    fn certify(&self, change: impl Fn(&mut CertificateParams)) {
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        fs::write(self.path("broker.pem"), certificate.pem()).unwrap();
        fs::write(self.path("broker.key"), key.serialize_pem()).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// A broker that serves every kind of stream at both families.
struct Broker {
    process: Running,
    ready: Value,
}

impl Broker {
    fn start(files: &Files) -> Self {
        let args = "serve --dev --json --log error --listen 127.0.0.1:0 --http 127.0.0.1:0";
        let mut command = sangam(&args.split(' ').collect::<Vec<_>>());
        for kind in ["TLS", "WS", "WSS"] {
            command.env(format!("SANGAM_LISTEN_{kind}"), "127.0.0.1:0,[::1]:0");
        }
        command.env("SANGAM_TLS_CERTIFICATE", files.path("broker.pem"));
        command.env("SANGAM_TLS_KEY", files.path("broker.key"));
        let mut process = Running::start(command);
        let ready = process.json_line();
        Self { process, ready }
    }

    fn socket(&self, scheme: &str, place: usize) -> SocketAddr {
        self.ready[scheme][place].as_str().unwrap().parse().unwrap()
    }

    fn address(&self, scheme: &str, place: usize) -> String {
        format!("{scheme}://{}", self.socket(scheme, place))
    }
}

/// A client's process, which no proxy of this machine's environment disturbs.
fn client(args: &[&str]) -> Command {
    let mut command = sangam(args);
    for name in ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"] {
        command.env_remove(name);
    }
    command
}

fn play(files: &Files, address: &str, more: &[&str]) -> Running {
    let ca = files.text("ca.pem");
    let mut args = vec![
        "play", "--json", "--broker", address, "--ca", &ca, "--topic", "test/#",
    ];
    args.extend(more);
    Running::start(client(&args))
}

fn publish(files: &Files, address: &str, clip: &Path) -> Running {
    let (ca, file) = (files.text("ca.pem"), clip.display().to_string());
    let args = [
        "publish",
        "--json",
        "--loop",
        "--broker",
        address,
        "--ca",
        &ca,
        "--topic",
        "test/clip",
        "--file",
        &file,
    ];
    let mut running = Running::start(client(&args));
    assert_eq!(running.json_line()["event"], "second");
    running
}

/// Reads lines until audio and video come.
fn until_it_plays(player: &mut Running) {
    for _ in 0..30 {
        let line = player.json_line();
        let streams = line["streams"].as_array().unwrap();
        let playing = |stream: &&Value| stream["packets"].as_u64() > Some(0);
        if streams.iter().filter(playing).count() == 2 {
            return;
        }
    }
    panic!("nothing came");
}

/// What a client says that cannot connect, and its exit code.
fn complaint(args: &[&str]) -> (i32, String) {
    let output = client(args).output().unwrap();
    (output.status.code().unwrap(), text(&output.stderr))
}

#[test]
fn audio_and_video_cross_by_every_kind_of_stream() {
    let files = Files::new("a");
    let clip = clip(files.folder.path());
    let broker = Broker::start(&files);
    let _publisher = publish(&files, &broker.address("wss", 0), &clip);
    let ways = [
        ("tls", 0),
        ("tls", 1),
        ("ws", 0),
        ("ws", 1),
        ("wss", 1),
        ("tcp", 0),
    ];
    for (scheme, place) in ways {
        let mut player = play(&files, &broker.address(scheme, place), &[]);
        until_it_plays(&mut player);
        player.signal("INT");
        assert_eq!(player.end().0, 0, "{scheme}");
    }
}

#[test]
fn the_first_address_that_works_is_used() {
    let files = Files::new("a");
    let clip = clip(files.folder.path());
    let broker = Broker::start(&files);
    let _publisher = publish(&files, &broker.address("tls", 0), &clip);
    // Nobody is there: the port is held without listening.
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = format!("udp://{}", nobody.local_addr().unwrap());
    let better = broker.address("ws", 0);
    let mut player = play(&files, &nobody, &["--broker", &better]);
    until_it_plays(&mut player);
}

#[test]
fn a_certificate_that_is_refused_has_its_exit_code_and_says_why() {
    let (files, others) = (Files::new("a"), Files::new("b"));
    let broker = Broker::start(&files);
    let address = broker.address("wss", 0);
    let ask = |more: &[&str]| {
        let all = [&["play", "--broker", &address, "--topic", "a"], more].concat();
        complaint(&all)
    };
    let (ca, other) = (files.text("ca.pem"), others.text("ca.pem"));
    for (more, word) in [
        (&["--ca", &other][..], "--ca FILE"),
        (
            &["--ca", &ca, "--server-name", "example.org"],
            "--server-name",
        ),
    ] {
        let (code, said) = ask(more);
        assert_eq!(code, 5, "{said}");
        assert!(
            said.contains(word) && said.contains("certificate"),
            "{said}"
        );
    }
    files.certify(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let late = Broker::start(&files);
    let args = [
        "play",
        "--broker",
        &late.address("tls", 0),
        "--ca",
        &ca,
        "--topic",
        "a",
    ];
    let (code, said) = complaint(&args);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("expired"), "{said}");
}

#[test]
fn a_broker_that_cannot_be_reached_is_told_from_one_that_is_not_believed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("wss://{}", listener.local_addr().unwrap());
    drop(listener);
    let args = [
        "play",
        "--insecure",
        "--connect-timeout",
        "1",
        "--topic",
        "a",
        "--broker",
    ];
    let (code, said) = complaint(&[&args[..], &[&address]].concat());
    assert_eq!(code, 4, "{said}");
    let (code, said) = complaint(&[&args[..], &["wss://192.0.2.1"]].concat());
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("not on this machine"), "{said}");
}

#[test]
fn a_new_certificate_is_shown_after_sighup() {
    let (files, new) = (Files::new("a"), Files::new("b"));
    let broker = Broker::start(&files);
    let address = broker.address("tls", 0);
    let answers = |files: &Files| {
        let ca = files.text("ca.pem");
        let args = [
            "play",
            "--seconds",
            "0",
            "--topic",
            "a",
            "--ca",
            &ca,
            "--broker",
            &address,
        ];
        complaint(&args).0
    };
    assert_eq!((answers(&files), answers(&new)), (0, 5));
    for name in ["broker.pem", "broker.key"] {
        fs::copy(new.path(name), files.path(name)).unwrap();
    }
    broker.process.signal("HUP");
    let until = Instant::now() + PATIENCE;
    while answers(&new) != 0 {
        assert!(Instant::now() < until, "the old certificate stays");
    }
    assert_eq!(answers(&files), 5);
}

#[test]
fn a_configuration_that_lacks_something_says_what() {
    let serve = |variables: &[(&str, &str)]| {
        let mut command = sangam(&["serve", "--dev", "--log", "error"]);
        command.envs(variables.iter().copied());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        text(&output.stderr)
    };
    let wss = ("SANGAM_LISTEN_WSS", "127.0.0.1:0");
    let (certificate, key) = ("SANGAM_TLS_CERTIFICATE", "SANGAM_TLS_KEY");
    for (variables, word) in [
        (&[wss][..], "need a certificate"),
        (&[wss, (certificate, "/nowhere.pem")], "tls.key"),
        (
            &[wss, (certificate, "/nowhere.pem"), (key, "/nowhere.key")],
            "/nowhere.pem",
        ),
        (&[("SANGAM_LISTEN_WS", "127.0.0.1:4600")], "its own port"),
    ] {
        let said = serve(variables);
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn the_doctor_looks_at_the_certificate() {
    let files = Files::new("a");
    let doctor = || {
        let mut command = sangam(&["doctor", "--json"]);
        command.env("SANGAM_TLS_CERTIFICATE", files.path("broker.pem"));
        command.env("SANGAM_TLS_KEY", files.path("broker.key"));
        let found: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        let checks = found["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == "certificate");
        check.unwrap()["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(doctor(), "good");
    files.certify(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    assert_eq!(doctor(), "bad");
    fs::copy(Files::new("b").path("broker.key"), files.path("broker.key")).unwrap();
    assert_eq!(doctor(), "bad");
}

/// A hello without a cookie, as a client sends it first.
fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    Frame::Hello(Hello {
        version_min: VERSION,
        version_max: VERSION,
        nonce: 77,
        capabilities: Capabilities::OURS,
        datagram_max: 1_200,
        clock_domain: 1,
        role: Role::Client,
        cookie: None,
    })
    .encode(&mut bytes);
    bytes
}

#[test]
fn somebody_elses_websocket_client_is_welcome() {
    const SCRIPT: &str = "
import asyncio, ssl, sys, websockets
async def main(url, ca, hello):
    context = ssl.create_default_context(cafile=ca) if url.startswith('wss') else None
    async with websockets.connect(url, ssl=context, subprotocols=['sangam']) as socket:
        assert socket.subprotocol == 'sangam'
        # A fragmented message, and a ping behind it.
        await socket.send([hello[:10], hello[10:20], hello[20:]])
        await (await socket.ping(b'there?'))
        print((await socket.recv()).hex())
asyncio.run(main(sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3])))
";
    let files = Files::new("a");
    let broker = Broker::start(&files);
    let hello: String = hello().iter().map(|byte| format!("{byte:02x}")).collect();
    for scheme in ["ws", "wss"] {
        let url = format!(
            "{scheme}://localhost:{}/v1/connect",
            broker.socket(scheme, 0).port()
        );
        // Debian's, whatever else is in the path.
        let output = Command::new("/usr/bin/python3")
            .args(["-c", SCRIPT, &url, &files.text("ca.pem"), &hello])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let answer = text(&output.stdout);
        let bytes: Vec<u8> = (0..answer.trim().len() / 2)
            .map(|at| u8::from_str_radix(&answer[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        let frame = Frame::decode(&bytes).unwrap();
        let Frame::Welcome(welcome) = frame else {
            panic!("{frame:?}");
        };
        assert_eq!(welcome.nonce, 77);
    }
}

#[test]
fn media_crosses_a_proxy() {
    let files = Files::new("a");
    let clip = clip(files.folder.path());
    let broker = Broker::start(&files);
    let _publisher = publish(&files, &broker.address("tcp", 0), &clip);
    for scheme in ["wss", "tls", "tcp"] {
        let port = broker.socket(scheme, 0).port();
        let proxy = Proxy::start(files.folder.path(), port, Some("anna secret"));
        // The proxy resolves the name.
        let address = format!("{scheme}://localhost:{port}");
        let url = proxy.url.replace("://", "://anna:secret@");
        let mut player = play(&files, &address, &["--proxy", &url]);
        until_it_plays(&mut player);
        drop(player);
        drop(proxy.process);
    }
}

#[test]
fn what_a_proxy_says_is_passed_on() {
    let files = Files::new("a");
    let broker = Broker::start(&files);
    let address = broker.address("tls", 0);
    let ca = files.text("ca.pem");
    let ask = |proxy: &Proxy| {
        let args = [
            "play",
            "--topic",
            "a",
            "--connect-timeout",
            "2",
            "--ca",
            &ca,
        ];
        complaint(&[&args[..], &["--broker", &address, "--proxy", &proxy.url]].concat())
    };
    let port = broker.socket("tls", 0).port();
    let (code, said) = ask(&Proxy::start(files.folder.path(), 1, None));
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("403"), "{said}");
    let (code, said) = ask(&Proxy::start(
        files.folder.path(),
        port,
        Some("anna secret"),
    ));
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("USER:PASSWORD"), "{said}");
}

#[test]
fn addresses_that_make_no_sense_are_refused() {
    for (address, word) in [
        ("http://a", "wss://"),
        ("tls://a", "host:port"),
        ("a", "host:port"),
    ] {
        let output = run(&["play", "--topic", "a", "--broker", address]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            text(&output.stderr).contains(word),
            "{}",
            text(&output.stderr)
        );
    }
}
