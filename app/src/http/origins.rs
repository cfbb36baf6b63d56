//! Calls of a page that another broker served: `page.brokers` names whose are taken (CORS).

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
    VARY,
};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Shared;

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

/// What a cache keeps of an answer is for this origin alone.
fn vary(response: &mut Response) {
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("origin"));
}
