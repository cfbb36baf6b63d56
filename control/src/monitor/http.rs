//! The merged view over HTTP.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::network::Network;
use super::xml;
use super::xpath::{Evaluator, QUERY_LEN_MAX, XPathError};
use crate::Problem;
use crate::openapi::{Answer, Body, Routes, Who, get, post};

/// Says whether a request with these headers may query.
pub type MayQuery = Arc<dyn Fn(&HeaderMap) -> Result<(), Problem> + Send + Sync>;

/// Where the view comes from, and who may query it.
#[derive(Clone)]
pub struct View {
    /// The view now.
    pub network: Arc<dyn Fn() -> Network + Send + Sync>,
    /// Whether a request with these headers may evaluate XPath: always by a token.
    pub may_query: MayQuery,
    /// Evaluates XPath.
    pub xpath: Evaluator,
}

/// `/v1/network`, `/v1/network.xml`, `/v1/network.xsd` and `/v1/xpath`.
pub fn routes<S: Clone + Send + Sync + 'static>(view: View) -> Routes<S> {
    let limit = DefaultBodyLimit::max(QUERY_LEN_MAX);
    table().map(|router| router.layer(limit).with_state(view))
}

fn table() -> Routes<View> {
    const XML: Body = Body::of(&["application/xml"]);
    const VIEW: &str = "The view: docs/spec/monitoring.md.";
    let view = get("/v1/network", "getNetwork")
        .about("The network as its brokers report it; of a broker its own part.")
        .gives(Answer::new(200, VIEW, Body::free()));
    let document = get("/v1/network.xml", "getNetworkXml")
        .about("The same as XML of docs/spec/monitor.xsd.")
        .gives(Answer::new(200, VIEW, XML));
    let schema = get("/v1/network.xsd", "getNetworkSchema")
        .about("Its XML schema.")
        .gives(Answer::new(200, "The schema.", XML));
    let found = Answer::new(
        200,
        "What it amounts to: docs/spec/monitoring.md.",
        Body::free(),
    );
    let query = get("/v1/xpath", "queryNetwork")
        .about("Evaluates XPath on that document. Needs api.token, or a token for the API.")
        .by(Who::Holder)
        .asks(&[("q!", "The expression")])
        .gives(found)
        .fails(&[400, 401, 403, 422, 501, 503]);
    let posted = post("/v1/xpath", "queryNetworkByPost")
        .about("The same for longer expressions.")
        .by(Who::Holder)
        .takes(Body::of(&["text/plain"]))
        .gives(found)
        .fails(&[400, 401, 403, 413, 422, 501, 503]);
    Routes::new()
        .on(view, json)
        .on(document, self::document)
        .on(schema, self::schema)
        .on(query, self::query)
        .on(posted, posted_query)
}

async fn json(State(view): State<View>) -> Result<Response, Problem> {
    let text = rendered(&view, |network| network.to_json()).await?;
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

async fn document(State(view): State<View>) -> Result<Response, Problem> {
    let text = rendered(&view, xml::document).await?;
    Ok(([(CONTENT_TYPE, "application/xml")], text).into_response())
}

async fn schema() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/xml")], xml::XSD)
}

#[derive(Deserialize)]
struct Asked {
    q: String,
}

async fn query(
    State(view): State<View>,
    headers: HeaderMap,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    (view.may_query)(&headers)?;
    let Query(Asked { q }) = asked.map_err(|_| {
        Problem::bad("no query").hint("GET /v1/xpath?q=EXPRESSION, or POST the expression")
    })?;
    evaluate(&view, &q).await
}

async fn posted_query(
    State(view): State<View>,
    headers: HeaderMap,
    query: String,
) -> Result<Response, Problem> {
    (view.may_query)(&headers)?;
    evaluate(&view, &query).await
}

async fn evaluate(view: &View, query: &str) -> Result<Response, Problem> {
    let document = rendered(view, xml::document).await?;
    let answer = view
        .xpath
        .evaluate(query, &document)
        .await
        .map_err(problem)?;
    Ok(([(CONTENT_TYPE, "application/json")], answer).into_response())
}

/// Text of the view, made where it does not hold up other requests.
async fn rendered(view: &View, text: fn(&Network) -> String) -> Result<String, Problem> {
    let network = Arc::clone(&view.network);
    let made = tokio::task::spawn_blocking(move || text(&network())).await;
    made.map_err(|_| Problem::internal("the view could not be written"))
}

fn problem(error: XPathError) -> Problem {
    let text = error.to_string();
    match error {
        XPathError::Query { code, at, .. } => {
            let problem = Problem::bad(text).with("code", code);
            match at {
                Some((start, end)) => problem.with("start", start).with("end", end),
                None => problem,
            }
        }
        XPathError::QueryTooLong => Problem::bad(text),
        XPathError::Busy => Problem::unavailable(text).hint("try again in a moment"),
        XPathError::Time | XPathError::Memory | XPathError::DocumentTooLong => {
            let hint = "ask for less, such as the links of one broker";
            Problem::too_dear(text).hint(hint)
        }
        XPathError::NotInstalled(_) => Problem::new(StatusCode::NOT_IMPLEMENTED, text)
            .hint("build it with `cargo build --release -p sangam-xpath` and put it beside sangam"),
        XPathError::Worker(_) => Problem::internal(text),
    }
}
