//! Calls of a page that another broker served: `page.brokers` names whose are taken (CORS, and the
//! origin of WebSockets).

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HOST,
    ORIGIN, UPGRADE, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sangam_control::Problem;

use super::page::Page;
use super::{Shared, State};

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static("authorization, content-type");
const EXPOSED: HeaderValue = HeaderValue::from_static("location, etag");
/// How long a browser need not ask again, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// Lets pages of known brokers read what is answered.
pub(super) async fn shared(state: Shared, request: Request, next: Next) -> Response {
    let origin = request.headers().get(ORIGIN).cloned();
    let known = origin.filter(|origin| {
        let text = origin.to_str();
        text.is_ok_and(|text| state.page.knows(text))
    });
    let Some(origin) = known else {
        let mut response = next.run(request).await;
        if state.page.has_brokers() {
            vary(&mut response);
        }
        return response;
    };
    let asks_first = request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match asks_first {
        true => StatusCode::NO_CONTENT.into_response(),
        false => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    if asks_first {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    }
    vary(&mut response);
    response
}

/// Opens WebSockets for no page but those of known brokers: browsers ask nobody before they open
/// one, and only tell whose page it is (RFC 6455 section 10.2).
pub(super) async fn sockets(state: Shared, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if headers.contains_key(UPGRADE) && !is_known(&state, headers) {
        return refused().with("code", "forbidden").into_response();
    }
    next.run(request).await
}

/// Whether a WebSocket is asked for by a page of this broker, of one that it knows, or by no page.
pub(super) fn is_known(state: &State, headers: &HeaderMap) -> bool {
    is_of(&state.page, headers)
}

/// Why it is not opened.
pub(super) fn refused() -> Problem {
    Problem::forbidden("this page is none of this broker's").hint("name its broker in page.brokers")
}

fn is_of(page: &Page, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let Some(origin) = text(ORIGIN) else {
        return true;
    };
    let own = origin.split_once("://").map(|(_, authority)| authority);
    (own.is_some() && own == text(HOST)) || page.knows(origin)
}

/// What a cache keeps of an answer is for this origin alone.
fn vary(response: &mut Response) {
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_for_own_pages_those_of_known_brokers_and_programs() {
        let page = Page::new(None, vec!["https://b.example.org".to_owned()]);
        for (origin, good) in [
            (None, true),
            (Some("http://a.example.org:4680"), true),
            (Some("https://b.example.org"), true),
            (Some("http://b.example.org"), false),
            (Some("https://evil.example"), false),
            (Some("http://a.example.org"), false),
            (Some("null"), false),
            (Some(""), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("a.example.org:4680"));
            if let Some(origin) = origin {
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            assert_eq!(is_of(&page, &headers), good, "{origin:?}");
        }
    }
}
