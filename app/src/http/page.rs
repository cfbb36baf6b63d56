//! The meeting page: the files that were built in, or those of a folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use axum::Json;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use sangam_control::Problem;
use sangam_control::openapi::{Answer, Body, Routes, get};
use serde_json::{Value, json};

use super::{Shared, State, waited};

/// Name and content of every file, if the page was there when this program was built.
const BUILT_IN: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));
const INDEX: &str = "index.html";
/// Said instead of a page that was not built.
const UNBUILT: &str = include_str!("unbuilt.html");

const KINDS: [(&str, &str); 8] = [
    (".html", "text/html; charset=utf-8"),
    (".js", "text/javascript; charset=utf-8"),
    (".css", "text/css; charset=utf-8"),
    (".svg", "image/svg+xml"),
    (".png", "image/png"),
    (".woff2", "font/woff2"),
    (".json", "application/json"),
    (".wasm", "application/wasm"),
];

/// What the meeting page may use of a browser, and nobody whom it embeds.
const PERMISSIONS: &str = "camera=(self), microphone=(self), display-capture=(self), \
                           fullscreen=(self), geolocation=(), payment=(), usb=()";
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");

/// The page: where its files come from, and where it may go.
#[derive(Debug)]
pub(crate) struct Page {
    folder: Option<PathBuf>,
    brokers: Vec<String>,
    policy: String,
    /// Files that were asked for and are not there.
    missing: AtomicU64,
}

impl Page {
    /// The files of `folder`, or those built in; other `brokers`, by origin, where it may go on.
    pub(crate) fn new(folder: Option<PathBuf>, brokers: Vec<String>) -> Self {
        let policy = policy(&brokers);
        Self {
            folder,
            brokers,
            policy,
            missing: AtomicU64::new(0),
        }
    }

    /// Files that were asked for and are not there: pages that are older than this program do.
    pub(super) fn missing(&self) -> u64 {
        self.missing.load(Relaxed)
    }

    /// Whether the page of this origin may call here.
    pub(super) fn knows(&self, origin: &str) -> bool {
        self.brokers.iter().any(|known| known == origin)
    }

    /// Whether pages of other brokers may call here.
    pub(super) fn has_brokers(&self) -> bool {
        !self.brokers.is_empty()
    }

    /// Whether there is one to be served.
    pub(crate) fn is_there(&self) -> bool {
        self.folder.is_some() || !BUILT_IN.is_empty()
    }

    async fn file(&self, name: &str) -> Option<Vec<u8>> {
        let Some(folder) = &self.folder else {
            let found = BUILT_IN.iter().find(|(known, _)| *known == name)?;
            return Some(found.1.to_vec());
        };
        let path = folder.join(name);
        waited(move || std::fs::read(path)).await.ok()?.ok()
    }
}

pub(super) fn routes() -> Routes<Arc<State>> {
    const HTML: Body = Body::of(&["text/html; charset=utf-8"]);
    let html = Answer::new(200, "The page.", HTML);
    let unbuilt = Answer::new(404, "This program was built without it.", HTML);
    let home = get("/", "getPage").about("The meeting page.");
    let home = home.gives(html).gives(unbuilt);
    let meeting = get("/m/{tenant}/{session}", "getMeeting")
        .about("The same, for a meeting; the token of an invitation is in the fragment.")
        .gives(html)
        .gives(unbuilt);
    let file = Answer::new(200, "The file.", Body::of(&["application/octet-stream"]));
    let asset = get("/assets/{*name}", "getAsset")
        .about("A file of the page, of its own media type; the name may have slashes.")
        .gives(file)
        .fails(&[404]);
    let facts = get("/v1/page", "getPageFacts")
        .about("What the page has to know before anything else.")
        .gives(Answer::new(200, "It.", Body::json("page")));
    Routes::new()
        .on(home, index)
        .on(meeting, index)
        .on(asset, self::asset)
        .on(facts, self::facts)
}

/// What the page has to know before anything else.
async fn facts(state: Shared) -> Json<Value> {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "brokers": state.page.brokers,
        "sessions": state.sessions.is_some(),
        "webrtc": state.webrtc.is_some(),
        // Whose meetings open to who logs in; null where nobody can.
        "login": state.login.as_ref().map(|login| login.tenant()),
    }))
}

async fn index(state: Shared) -> Response {
    let (status, body) = match state.page.file(INDEX).await {
        Some(body) => (StatusCode::OK, body),
        None => (StatusCode::NOT_FOUND, UNBUILT.into()),
    };
    let headers = [
        (CONTENT_TYPE, kind(INDEX)),
        (CONTENT_SECURITY_POLICY, &state.page.policy),
        // A new version of the server brings a new page.
        (CACHE_CONTROL, "no-cache"),
        // The link holds the token: nobody else is told it.
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (PERMISSIONS_POLICY, PERMISSIONS),
    ];
    (status, headers, body).into_response()
}

/// A file whose name changes with its content.
async fn asset(state: Shared, Path(name): Path<String>) -> Result<Response, Problem> {
    let missing = || Problem::not_found("the page has no such file").hint("load it again");
    if !is_plain(&name) {
        return Err(missing());
    }
    let body = state.page.file(&format!("assets/{name}")).await;
    let headers = [
        (CONTENT_TYPE, kind(&name)),
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    let Some(body) = body else {
        state.page.missing.fetch_add(1, Relaxed);
        return Err(missing());
    };
    Ok((headers, body).into_response())
}

/// A name that leads nowhere else.
fn is_plain(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let plain =
        |level: &str| !level.is_empty() && !level.starts_with('.') && level.bytes().all(good);
    name.split('/').all(plain)
}

fn kind(name: &str) -> &'static str {
    let known = KINDS.iter().find(|(ending, _)| name.ends_with(ending));
    known.map_or("application/octet-stream", |(_, kind)| kind)
}

/// Nothing but what this broker serves, and calls of the other brokers.
fn policy(brokers: &[String]) -> String {
    let mut connect = String::from("'self'");
    for origin in brokers {
        // CSP 3 section 6.7.2.8 lets `http:` stand for `ws:` only in `'self'`.
        let socket = origin.replacen("http", "ws", 1);
        connect += &format!(" {origin} {socket}");
    }
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
         font-src 'self'; media-src 'self' blob:; connect-src {connect}; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        assert!(is_plain("index-B1x_y.js"));
        assert!(is_plain("fonts/Excalifont/Excalifont-Regular.woff2"));
        for name in [
            "..", ".env", "a/../b", "a//b", "/etc", "a/", "a\\b", "%2e", "é.js",
        ] {
            assert!(!is_plain(name), "{name}");
        }
    }

    #[test]
    fn the_policy_names_other_brokers_for_both_kinds_of_calls() {
        let policy = policy(&["https://b.example.org".to_owned()]);
        let connect = "connect-src 'self' https://b.example.org wss://b.example.org;";
        assert!(policy.contains(connect), "{policy}");
        assert!(policy.starts_with("default-src 'none';"));
    }
}
