//! A session server with keys that need no cryptography.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, Request, StatusCode};
use sangam_control::Problem;
use sangam_control::session::gates::Word;
use sangam_control::session::{
    Api, ControlStore, Embedded, Gatekeeper, MediaPass, Pass, Server, ServerOptions, Sessions,
    TokenFault, VideoGrant, routes, unix_ms,
};
use sangam_session::{Reach, SessionId, Way};
use serde_json::Value;
use tower::ServiceExt;

/// Believes what a token says: `TENANT:IDENTITY:GRANT`, where the grant is JSON.
#[derive(Debug)]
pub(crate) struct Trusting;

impl Gatekeeper for Trusting {
    fn read(&self, token: &str) -> Result<Pass, TokenFault> {
        if token == "expired" {
            return Err(TokenFault::Expired);
        }
        let mut parts = token.splitn(3, ':');
        let mut part = || parts.next().ok_or(TokenFault::Invalid(String::new()));
        let (tenant, identity) = (part()?.to_owned(), part()?.to_owned());
        let video: VideoGrant = serde_json::from_str(part()?)
            .map_err(|error| TokenFault::Invalid(error.to_string()))?;
        Ok(Pass {
            tenant,
            identity,
            name: None,
            video,
            operator: false,
        })
    }

    fn caller(&self, _: SocketAddr, headers: &HeaderMap) -> Result<Pass, Problem> {
        let Some(token) = headers.get(AUTHORIZATION) else {
            return Ok(Pass::operator());
        };
        let token = token.to_str().unwrap_or_default();
        Ok(self.read(token.trim_start_matches("Bearer "))?)
    }

    fn issue(&self, pass: &Pass, ttl_s: u64) -> Result<(String, u64), TokenFault> {
        let grant = serde_json::to_string(&pass.video).unwrap();
        let token = format!("{}:{}:{grant}", pass.tenant, pass.identity);
        Ok((token, unix_ms() + ttl_s * 1_000))
    }

    fn media(&self, _: &str, _: &str, reach: Reach) -> Result<MediaPass, TokenFault> {
        Ok(MediaPass {
            token: None,
            expires_ms: u64::MAX,
            reach,
        })
    }
}

/// What brokers were told last, by prefix.
pub(crate) type Gates = Arc<Mutex<BTreeMap<String, Word>>>;

/// A server, and what is seen of it.
pub(crate) struct Stage {
    _server: Server,
    pub(crate) sessions: Sessions,
    pub(crate) gates: Gates,
    pub(crate) router: Router,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::over(Box::new(Embedded::in_memory().unwrap()))
    }

    pub(crate) fn over(store: Box<dyn ControlStore>) -> Self {
        let gates = Gates::default();
        let told = Arc::clone(&gates);
        let server = Server::start(ServerOptions {
            store,
            gates: Box::new(move |words| {
                let mut told = told.lock().unwrap();
                told.extend(words.iter().map(|word| (word.at.clone(), word.clone())));
            }),
            heard: Box::new(|_, _| {}),
            herald: None,
            sessions_max: 10,
            ways: ways(),
            clock: unix_ms,
        });
        let server = server.unwrap();
        let link = "https://meet.example.org/".to_owned();
        let api = Api::new(server.sessions(), Arc::new(Trusting), link);
        Self {
            sessions: server.sessions(),
            _server: server,
            gates,
            router: routes(api).into_router(),
        }
    }

    /// One request; `form` is both sent and asked for.
    pub(crate) async fn ask(
        &self,
        (method, path): (&str, &str),
        form: &str,
        (token, body): (Option<&str>, &str),
    ) -> Answer {
        let from: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, form)
            .header(ACCEPT, form)
            .extension(ConnectInfo(from));
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        let kind = answer.headers().get(CONTENT_TYPE);
        let kind = kind.map_or("", |kind| kind.to_str().unwrap()).to_owned();
        let bytes = to_bytes(answer.into_body(), 8 << 20).await.unwrap();
        Answer {
            status,
            kind,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.ask(("GET", path), JSON, (None, "")).await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
        answer.json()
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.ask(("POST", path), JSON, (None, body)).await
    }

    /// What is open below a prefix.
    pub(crate) fn open_to(&self, prefix: &str) -> Vec<String> {
        let gates = self.gates.lock().unwrap();
        let word = gates.get(prefix);
        word.and_then(|word| word.open.clone()).unwrap_or_default()
    }
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const XML: &str = "application/xml";

/// Ways into all sessions.
fn ways() -> Vec<Way> {
    vec![Way {
        label: "Room system".to_owned(),
        uri: "sip:{session}.{tenant}@sip.example.org".to_owned(),
    }]
}

pub(crate) fn weekly() -> SessionId {
    SessionId::new("acme", "weekly").unwrap()
}

pub(crate) const WEEKLY: &str = r#"{"tenant": "acme", "name": "weekly", "title": "Weekly"}"#;
pub(crate) const PATH: &str = "/v1/sessions/acme/weekly";
