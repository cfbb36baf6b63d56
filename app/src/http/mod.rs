//! The HTTP side of a broker: health, metrics and API. Media never waits for it.

mod access;
mod api;
mod aside;
mod board;
mod broker;
mod health;
mod ice;
mod keeper;
mod legs;
mod links;
mod metrics;
mod network;
mod origins;
mod page;
mod recordings;
mod sent;
mod webrtc;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::serve::ListenerExt;
use sangam_control::login::{self, Login};
use sangam_control::monitor::http::{View, routes};
use sangam_control::monitor::xpath::Evaluator;
use sangam_control::monitor::{BrokerView, Network};
use sangam_control::session::{self, Api};
use sangam_control::{Problem, Refusals};
use sangam_node::Broker;
use sangam_webrtc::WebRtc;

use crate::beside;
use crate::commands::Orders;
use crate::monitor::{Latest, unix_ms};
use crate::turn::Relays;

pub(crate) use access::Access;
pub(crate) use aside::Aside;
pub(crate) use board::Boards;
pub(crate) use keeper::Keeper;
pub(crate) use metrics::resident_bytes;
pub(crate) use page::Page;

/// Bytes of a request body; a leg with all its texts has less than 2,000.
const BODY_LEN_MAX: usize = 16_384;

/// What the handlers see.
pub(crate) struct State {
    /// The running broker.
    pub(crate) broker: Arc<Broker>,
    /// Its WebRTC gateway, if it has one.
    pub(crate) webrtc: Option<Arc<WebRtc>>,
    /// The relays that peers are told, if there are any.
    pub(crate) relays: Option<Relays>,
    /// Its name.
    pub(crate) name: String,
    /// Who may do what.
    pub(crate) access: Access,
    /// Where HTTP listens in truth.
    pub(crate) address: SocketAddr,
    /// Neighbours by configuration.
    pub(crate) neighbours: usize,
    /// When the broker started.
    pub(crate) started: Instant,
    /// Its newest report.
    pub(crate) latest: Latest,
    /// The sessions it hosts, if it does.
    pub(crate) sessions: Option<Api>,
    /// The way in for people without a token, if there is one.
    pub(crate) login: Option<Arc<Login>>,
    /// The meeting page.
    pub(crate) page: Page,
    /// The whiteboards of rooms.
    pub(crate) boards: Arc<Boards>,
    /// Recordings of topics that are ordered, if there is a recorder.
    pub(crate) orders: Option<Arc<Orders>>,
    /// What was refused.
    pub(crate) refusals: Arc<Refusals>,
}

type Shared = axum::extract::State<Arc<State>>;

/// Serves until `stop` is ready.
///
/// # Errors
/// The listener fails.
pub(crate) async fn serve(
    listener: tokio::net::TcpListener,
    state: Arc<State>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let app = router(state).into_make_service_with_connect_info::<SocketAddr>();
    // What a member is told comes in small frames that follow each other: none waits for the
    // acknowledgement of the one before.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "small answers may wait");
        }
    });
    axum::serve(listener, app)
        .with_graceful_shutdown(stop)
        .await
}

fn router(state: Arc<State>) -> Router {
    let sessions = state.sessions.clone().map(|api| {
        let sockets = from_fn_with_state(Arc::clone(&state), origins::sockets);
        session::routes(api).map(|router| router.layer(sockets))
    });
    let login = state.login.clone().map(login::routes);
    let short = api::routes()
        .merge(routes(view(&state)))
        .merge(sessions.unwrap_or_default())
        .merge(login.unwrap_or_default());
    let all = short
        .map(|router| {
            router
                .fallback(nothing_here)
                .method_not_allowed_fallback(not_so)
                .layer(DefaultBodyLimit::max(BODY_LEN_MAX))
        })
        .merge(webrtc::routes())
        .merge(board::routes())
        .merge(ice::routes())
        .merge(page::routes());
    api::described(all)
        .layer(from_fn_with_state(Arc::clone(&state), origins::shared))
        .layer(from_fn_with_state(Arc::clone(&state), counted))
        .with_state(state)
}

/// Counts what is refused.
async fn counted(state: Shared, request: Request, next: Next) -> Response {
    let answer = next.run(request).await;
    state.refusals.see(&answer);
    answer
}

/// The broker's own part of the network.
fn view(state: &Arc<State>) -> View {
    let (name, latest) = (state.name.clone(), Arc::clone(&state.latest));
    let network = move || {
        let report = latest.lock().ok().and_then(|latest| latest.clone());
        let view = |report| BrokerView {
            report,
            ..BrokerView::default()
        };
        Network::new(&name, unix_ms(), report.map(view).into_iter().collect())
    };
    View {
        network: Arc::new(network),
        may_query: state.access.clone().may_query(),
        xpath: evaluator(),
    }
}

/// Evaluates XPath by the program that is installed for it.
pub(crate) fn evaluator() -> Evaluator {
    Evaluator::new(beside::program("sangam-xpath"))
}

/// Asks the broker, whose answer may take a moment, without holding up other requests.
async fn ask<T: Send + 'static>(
    state: &Arc<State>,
    question: impl FnOnce(&Broker) -> T + Send + 'static,
) -> Result<T, Problem> {
    let broker = Arc::clone(&state.broker);
    waited(move || question(&broker)).await
}

/// What takes a moment, done where no other request waits for it.
async fn waited<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::internal(format!("it came to no end: {error}")))
}

async fn nothing_here() -> Problem {
    Problem::not_found("there is nothing here").hint(
        "there are /m/TENANT/SESSION (the meeting page), /v1/page, /healthz, /readyz, \
         /metrics, /v1/broker, /v1/streams, /v1/map, /v1/locate, \
         /v1/links, /v1/legs, /v1/ice, /v1/boards/TENANT/SESSION/ROOM/MEMBER (a WebSocket), \
         /v1/network, /v1/network.xml, /v1/network.xsd, /v1/xpath, /v1/whip/TOPIC and \
         /v1/whep/TOPIC; /v1/openapi.json describes them all; where sessions are hosted, \
         /v1/sessions, /v1/xgsp.xsd and, where people log in, /v1/login?to=/m/TENANT/SESSION",
    )
}

async fn not_so() -> Problem {
    Problem::method("this method is not for this path").hint(
        "GET everywhere; POST /v1/legs adds a leg, DELETE /v1/legs/NAME ends one, POST \
             /v1/drain lets the broker leave, PUT and DELETE /v1/links/BROKER/weight and \
             /v1/links/BROKER/forbidden rule links, POST /v1/whip/TOPIC publishes and POST \
             /v1/whep/TOPIC plays by WebRTC",
    )
}
