//! Queries as their callers make them: by HTTP, answered by real workers.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use std::path::PathBuf;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use sangam_control::Problem;
use sangam_control::monitor::http::{View, routes};
use sangam_control::monitor::xpath::{Evaluator, QUERY_LEN_MAX, XPathError};
use sangam_control::monitor::{BrokerReport, BrokerView, LinkReport, Network, xml};
use sangam_model::BrokerId;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Runs for as long as it may.
const LOOP: &str = "count(for $a in 1 to 30000, $b in 1 to 30000 return ())";

fn evaluator() -> Evaluator {
    Evaluator::new(PathBuf::from(env!("CARGO_BIN_EXE_sangam-xpath")))
}

fn network() -> Network {
    let link = |peer, loss_ppm| LinkReport {
        peer: Some(BrokerId(peer)),
        up: true,
        loss_ppm: Some(loss_ppm),
        ..LinkReport::default()
    };
    let view = |broker, name: &str, links: Vec<LinkReport>| BrokerView {
        report: BrokerReport {
            broker: BrokerId(broker),
            name: name.to_owned(),
            links,
            ..BrokerReport::default()
        },
        ..BrokerView::default()
    };
    let brokers = vec![
        view(1, "oslo", vec![link(2, 35_000), link(3, 0)]),
        view(2, "paris", vec![link(1, 120)]),
    ];
    Network::new("test", 0, brokers)
}

async fn evaluate(query: &str) -> Result<Value, XPathError> {
    let answer = evaluator()
        .evaluate(query, &xml::document(&network()))
        .await?;
    Ok(serde_json::from_str(&answer).unwrap())
}

#[tokio::test]
async fn links_that_lose_are_found() {
    let query = "//broker[link/@loss_ppm > 20000]/@name";
    let answer = evaluate(query).await.unwrap();
    assert_eq!(answer["items"][0]["value"], "oslo", "{answer}");
    assert_eq!(answer["total"], 1);
    let answer = evaluate("//link[@loss_ppm > 20000]").await.unwrap();
    let found = answer["items"][0]["xml"].as_str().unwrap();
    assert!(found.contains("peer=\"00000002\""), "{found}");
    let answer = evaluate("sum(//link/@loss_ppm)").await.unwrap();
    assert_eq!(answer["items"][0]["value"], "35120", "{answer}");
}

#[tokio::test]
async fn a_wrong_query_is_answered_with_its_place() {
    let wrong = evaluate("//link[@loss_ppm >").await.unwrap_err();
    let XPathError::Query { code, at, .. } = &wrong else {
        panic!("{wrong}");
    };
    assert_eq!((code.as_str(), *at), ("XPST0003", Some((18, 18))));
    let wrong = evaluate("no-such-function()").await.unwrap_err();
    assert!(wrong.to_string().contains("XPST0017"), "{wrong}");
}

#[tokio::test]
async fn a_query_that_never_ends_is_ended() {
    assert_eq!(evaluate(LOOP).await, Err(XPathError::Time));
}

#[tokio::test]
async fn a_query_that_eats_memory_dies_alone() {
    let greedy = "count(for $a in 1 to 20000, $b in 1 to 20000 return concat($a, '-', $b))";
    let end = evaluate(greedy).await.unwrap_err();
    assert!(
        matches!(end, XPathError::Memory | XPathError::Time),
        "{end}"
    );
    let double = "let $f := function($f, $s) { $f($f, concat($s, $s)) } return $f($f, 'x')";
    assert!(evaluate(double).await.is_err());
    // Parsers are recursive: so many brackets take all its stack, or all its time.
    let nested = format!("{}1{}", "(".repeat(2_000), ")".repeat(2_000));
    assert!(evaluate(&nested).await.is_err());
    let long = "1 + ".repeat(QUERY_LEN_MAX);
    assert_eq!(evaluate(&long).await, Err(XPathError::QueryTooLong));
}

#[tokio::test]
async fn files_are_out_of_reach() {
    for query in ["doc('file:///etc/passwd')", "doc('/proc/self/environ')"] {
        let refused = evaluate(query).await.unwrap_err();
        assert!(matches!(refused, XPathError::Query { .. }), "{refused}");
    }
    let answer = evaluate("environment-variable('PATH')").await.unwrap();
    assert_eq!(answer["total"], 0, "{answer}");
}

#[tokio::test]
async fn an_answer_is_bounded_and_says_how_much_there_is() {
    let answer = evaluate("(1 to 300000) ! 'abcdefghij'").await.unwrap();
    assert_eq!(answer["total"], 300_000);
    let items = answer["items"].as_array().unwrap().len();
    assert!((10_000..100_000).contains(&items), "{items}");
}

/// A server whose token is `secret`.
async fn server() -> std::net::SocketAddr {
    let may_query = |headers: &HeaderMap| {
        let given = headers
            .get(AUTHORIZATION)
            .map(axum::http::HeaderValue::as_bytes);
        match given {
            Some(b"Bearer secret") => Ok(()),
            _ => Err(Problem::unauthorized("a token is needed")),
        }
    };
    let view = View {
        network: Arc::new(network),
        may_query: Arc::new(may_query),
        xpath: evaluator(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = routes::<()>(view).into_router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn request(to: std::net::SocketAddr, head: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let (line, headers) = head.split_once('\n').unwrap_or((head, ""));
    let headers = headers.replace('\n', "\r\n");
    let request = format!(
        "{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\
         {headers}\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[tokio::test]
async fn only_whoever_has_the_token_may_query() {
    let server = server().await;
    for (method, body) in [("GET /v1/xpath?q=1", ""), ("POST /v1/xpath", "1")] {
        assert_eq!(request(server, method, body).await.0, 401, "{method}");
        let wrong = format!("{method}\nAuthorization: Bearer guess\n");
        assert_eq!(request(server, &wrong, body).await.0, 401, "{method}");
        let right = format!("{method}\nAuthorization: Bearer secret\n");
        let (status, body) = request(server, &right, body).await;
        assert_eq!(status, 200, "{body}");
        assert!(body.contains("\"value\":\"1\""), "{body}");
    }
}

#[tokio::test]
async fn errors_reach_the_caller_with_a_status_of_their_own() {
    let server = server().await;
    let head = "POST /v1/xpath\nAuthorization: Bearer secret\n";
    let (status, body) = request(server, head, "//link[").await;
    assert_eq!(status, 400, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&body["code"], &body["start"]),
        (&"XPST0003".into(), &7.into())
    );
    assert_eq!(request(server, head, LOOP).await.0, 422);
    assert_eq!(request(server, head, &"x".repeat(5_000)).await.0, 413);
    let get = "GET /v1/xpath\nAuthorization: Bearer secret\n";
    assert_eq!(request(server, get, "").await.0, 400, "no query at all");
}
