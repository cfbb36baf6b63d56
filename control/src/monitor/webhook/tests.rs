//! Who posts, who receives, and whom the postman believes.

use std::net::TcpListener as Listener;
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use reqwest::Certificate;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

async fn receiver() -> (TcpListener, Url) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (
        listener,
        format!("http://{address}/alerts?of=sangam")
            .parse()
            .unwrap(),
    )
}

/// Takes one request and answers it.
async fn answer(listener: &TcpListener, status: &str) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = vec![0; 4_096];
    let mut len = 0;
    while !request[..len].ends_with(b"}") {
        len += stream.read(&mut request[len..]).await.unwrap();
    }
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8_lossy(&request[..len]).into_owned()
}

#[tokio::test]
async fn an_alert_is_posted_and_tried_again_where_it_was_not_taken() {
    let (listener, url) = receiver().await;
    let (hooks, postman) = webhooks();
    let running = tokio::spawn(postman.run());
    hooks.post(&url, "{\"raised\":true}".to_owned());
    let first = answer(&listener, "503 Not Now").await;
    assert!(
        first.starts_with("POST /alerts?of=sangam HTTP/1.1\r\n"),
        "{first}"
    );
    let plain = first.to_lowercase();
    assert!(plain.contains("content-length: 15\r\n"), "{first}");
    assert!(
        plain.contains("content-type: application/json\r\n"),
        "{first}"
    );
    let second = answer(&listener, "204 No Content").await;
    assert_eq!(first, second);
    assert_eq!(hooks.dropped(), 0);
    drop(hooks);
    running.await.unwrap();
}

#[tokio::test]
async fn who_posts_never_waits_and_what_is_too_much_is_counted() {
    let (_deaf, url) = receiver().await;
    let (hooks, postman) = webhooks();
    for _ in 0..QUEUE + 3 {
        hooks.post(&url, "{}".to_owned());
    }
    assert_eq!(hooks.dropped(), 3);
    drop(postman);
    hooks.post(&url, "{}".to_owned());
    assert_eq!(hooks.dropped(), 4);
}

#[test]
fn urls_are_understood_or_refused() {
    for (text, whole) in [
        ("http://hooks.example.org", "http://hooks.example.org/"),
        ("http://[::1]:8080/a/b", "http://[::1]:8080/a/b"),
        ("http://10.0.0.1:81/", "http://10.0.0.1:81/"),
        (
            "https://hooks.example.org/x?y",
            "https://hooks.example.org/x?y",
        ),
    ] {
        assert_eq!(text.parse::<Url>().unwrap().to_string(), whole);
    }
    for wrong in [
        "ftp://x/",
        "https:/x/",
        "https://a b/",
        "http://",
        "http://a:x/",
        "http://a/\r\nX: y",
        "http://u@h/",
    ] {
        assert!(wrong.parse::<Url>().is_err(), "{wrong}");
    }
}

fn letter(url: Url, json: &str) -> Letter {
    Letter {
        url,
        json: json.to_owned(),
        signature: None,
    }
}

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn believing(issuer: &Issuer) -> Client {
    let root = Certificate::from_der(issuer.der()).unwrap();
    Client::builder().tls_certs_only([root]).build().unwrap()
}

/// Answers one request by TLS, with a certificate for this name.
fn secure_receiver(issuer: &Issuer, name: &str) -> (u16, thread::JoinHandle<String>) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap().der().clone();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = move || {
        let (stream, _) = listener.accept().unwrap();
        let connection = ServerConnection::new(Arc::new(config)).unwrap();
        let mut tls = StreamOwned::new(connection, stream);
        let mut request = vec![0; 4_096];
        let mut len = 0;
        while !request[..len].ends_with(b"}") {
            match std::io::Read::read(&mut tls, &mut request[len..]) {
                Ok(more) if more > 0 => len += more,
                _ => return String::new(),
            }
        }
        let answer = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n";
        std::io::Write::write_all(&mut tls, answer).unwrap();
        String::from_utf8_lossy(&request[..len]).into_owned()
    };
    (port, thread::spawn(answer))
}

#[tokio::test]
async fn an_alert_goes_by_tls_to_whom_the_certificate_names() {
    let issuer = authority();
    let (port, receiver) = secure_receiver(&issuer, "localhost");
    let url: Url = format!("https://localhost:{port}/alerts").parse().unwrap();
    let status = post(&letter(url, "{}"), &believing(&issuer)).await.unwrap();
    assert_eq!(status, 204);
    let request = receiver.join().unwrap();
    assert!(
        request.starts_with("POST /alerts HTTP/1.1\r\n"),
        "{request}"
    );
}

#[tokio::test]
async fn an_alert_is_told_to_nobody_whose_certificate_is_not_believed() {
    let issuer = authority();
    for (name, trust, word) in [
        (
            "elsewhere.example.org",
            believing(&issuer),
            "not valid for name",
        ),
        ("localhost", believing(&authority()), "BadSignature"),
    ] {
        let (port, receiver) = secure_receiver(&issuer, name);
        let url: Url = format!("https://localhost:{port}/").parse().unwrap();
        let letter = letter(url, "{\"secret\":1}");
        let error = post(&letter, &trust).await.unwrap_err();
        let error = web::cause(&error);
        assert!(error.contains(word), "{error}");
        assert_eq!(receiver.join().unwrap(), "", "nothing was said");
    }
}
