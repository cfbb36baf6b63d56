//! What a broker is asked over HTTP beside its sessions, and the document that describes it all.

mod shapes;

use std::sync::Arc;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use sangam_control::openapi::{Answer, Body, Routes, Who, delete, document, get, post, put};

use super::{State, broker, health, legs, links, metrics, network, recordings};

/// The OpenAPI document as it is served.
#[derive(Clone, Debug)]
struct Document(Arc<str>);

/// The same, with the document that describes what is served.
pub(super) fn described<S: Clone + Send + Sync + 'static>(routes: Routes<S>) -> Router<S> {
    let written = Answer::new(200, "The document.", Body::free());
    let asked = get("/v1/openapi.json", "getOpenApi")
        .about("This document: what this server serves, and nothing else.")
        .gives(written);
    let routes = routes.on(asked, openapi);
    let text = document(routes.operations(), shapes::SHAPES).to_string();
    let layer = Extension(Document(text.into()));
    routes.into_router().layer(layer)
}

async fn openapi(Extension(Document(text)): Extension<Document>) -> Response {
    ([(CONTENT_TYPE, "application/json")], text.to_string()).into_response()
}

/// What operators ask of a broker.
pub(super) fn routes() -> Routes<Arc<State>> {
    let all = probes().merge(facts()).merge(rules());
    all.merge(legs_asked()).merge(recordings_ordered())
}

/// What probes and Prometheus ask.
fn probes() -> Routes<Arc<State>> {
    let alive = get("/healthz", "isAlive")
        .about("Whether the process runs and answers.")
        .gives(Answer::new(200, "It does.", Body::json("alive")));
    let ready = get("/readyz", "isReady")
        .about("Whether the broker's threads answer: whether clients may be sent here.")
        .gives(Answer::new(200, "They do.", Body::json("ready")))
        .fails(&[503]);
    let told = Body::of(&["text/plain; version=0.0.4; charset=utf-8"]);
    let metrics = get("/metrics", "getMetrics")
        .about("Everything the broker counts, in Prometheus' text format.")
        .gives(Answer::new(200, "The counters.", told));
    Routes::new()
        .on(alive, health::alive)
        .on(ready, health::ready)
        .on(metrics, metrics::all)
}

/// What a broker is, and its network.
fn facts() -> Routes<Arc<State>> {
    let broker = get("/v1/broker", "getBroker")
        .about("What the broker is: identity, addresses, links.")
        .gives(Answer::new(200, "It.", Body::json("broker")));
    let streams = get("/v1/streams", "listStreams")
        .about("Every stream the broker knows.")
        .gives(Answer::new(200, "Them.", Body::json("streams")));
    let map = get("/v1/map", "getMap")
        .about("Every broker of the network, with its links and their weights.")
        .gives(Answer::new(200, "The map.", Body::json("map")))
        .fails(&[503]);
    let best = get("/v1/locate", "locate")
        .about("The best brokers for a client of a session.")
        .asks(&[
            ("session!", "Tenant and session, such as acme/weekly"),
            (
                "region",
                "Where the client is; where this broker is if not said",
            ),
            ("count", "How many to name, up to 16; 3 if not said"),
        ])
        .gives(Answer::new(
            200,
            "Them, the best first.",
            Body::json("located"),
        ))
        .fails(&[400, 503]);
    let drain = post("/v1/drain", "drain")
        .about(
            "From now on streams go around this broker and nobody is sent here; it still serves \
             who is here.",
        )
        .by(Who::Operator)
        .gives(Answer::new(200, "So it is.", Body::json("draining")))
        .fails(&[401, 403]);
    Routes::new()
        .on(broker, broker::facts)
        .on(streams, broker::streams)
        .on(map, network::map)
        .on(best, network::best)
        .on(drain, network::drain)
}

/// What an operator says of links.
fn rules() -> Routes<Arc<State>> {
    const WEIGHT: &str = "/v1/links/{broker}/weight";
    const FORBIDDEN: &str = "/v1/links/{broker}/forbidden";
    let now = Answer::new(200, "What holds now.", Body::json("linkRules"));
    let rules = get("/v1/links", "listLinkRules")
        .about("Fixed weights and forbidden links, and who said so.")
        .gives(now);
    let weigh = put(WEIGHT, "fixWeight")
        .about("Fixes what crossing the link to a broker costs.")
        .by(Who::Operator)
        .takes(Body::json("weight"))
        .gives(now)
        .fails(&[400, 401, 403, 413, 503]);
    let unweigh = delete(WEIGHT, "measureWeight")
        .about("Takes that back: the weight is measured again.")
        .by(Who::Operator)
        .gives(now)
        .fails(&[400, 401, 403]);
    let forbid = put(FORBIDDEN, "forbidLink")
        .about("Has no link with a broker from now on.")
        .by(Who::Operator)
        .gives(now)
        .fails(&[400, 401, 403, 503]);
    let allow = delete(FORBIDDEN, "allowLink")
        .about("Allows links with it again.")
        .by(Who::Operator)
        .gives(now)
        .fails(&[400, 401, 403, 503]);
    Routes::new()
        .on(rules, links::rules)
        .on(weigh, links::weigh)
        .on(unweigh, links::unweigh)
        .on(forbid, links::forbid)
        .on(allow, links::allow)
}

/// What is asked of RTP legs.
fn legs_asked() -> Routes<Arc<State>> {
    const ALL: &str = "/v1/legs";
    const ONE: &str = "/v1/legs/{name}";
    const LEG: Body = Body::json("leg");
    let list = get(ALL, "listLegs")
        .about("RTP legs: sockets that take RTP from, or send it to, programs without signalling.")
        .gives(Answer::new(200, "Them.", Body::json("legs")));
    let add = post(ALL, "addLeg")
        .about("Makes a leg, as [[leg]] in the configuration does.")
        .by(Who::Holder)
        .takes(Body::json("wantedLeg"))
        .gives(Answer::new(201, "The leg.", LEG))
        .fails(&[400, 401, 403, 409, 413]);
    let sdp = "The leg; the name with `.sdp` behind it answers SDP for players.";
    let shown = Answer::new(200, sdp, LEG.or("application/sdp"));
    let one = get(ONE, "getLeg")
        .about("One leg.")
        .gives(shown)
        .fails(&[400, 404]);
    let remove = delete(ONE, "removeLeg")
        .about("Ends a leg.")
        .by(Who::Holder)
        .gives(Answer::empty(204, "It is gone."))
        .fails(&[401, 403, 404]);
    Routes::new()
        .on(list, legs::list)
        .on(add, legs::add)
        .on(one, legs::one)
        .on(remove, legs::remove)
}

/// What is said of recordings of topics.
fn recordings_ordered() -> Routes<Arc<State>> {
    const ALL: &str = "/v1/recordings";
    const ONE: &str = "/v1/recordings/{name}";
    let list = get(ALL, "listOrders")
        .about("Recordings of topics that are ordered: those that go on, and those to come.")
        .by(Who::Operator)
        .gives(Answer::new(200, "Them.", Body::json("orders")))
        .fails(&[401, 403, 404, 409]);
    let add = post(ALL, "orderRecording")
        .about("Has topics recorded, from now on or for a time to come.")
        .by(Who::Operator)
        .takes(Body::json("wantedOrder"))
        .gives(Answer::new(201, "The order.", Body::json("order")))
        .fails(&[400, 401, 403, 404, 409, 413]);
    let remove = delete(ONE, "endRecording")
        .about("Ends it, or takes the order back. What was recorded stays.")
        .by(Who::Operator)
        .gives(Answer::empty(204, "So it is."))
        .fails(&[401, 403, 404, 409]);
    Routes::new()
        .on(list, recordings::list)
        .on(add, recordings::add)
        .on(remove, recordings::remove)
}
