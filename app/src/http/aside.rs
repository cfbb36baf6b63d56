//! The HTTP side of `sangam archive serve`: health and metrics of the RTSP server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use sangam_control::Problem;
use sangam_node::Sample;
use sangam_rtsp::Rtsp;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::metrics;
use crate::exit::{Exit, Failure, io};

/// A thread of its own; it ends with the process.
#[derive(Debug)]
pub(crate) struct Aside {
    address: SocketAddr,
}

/// What the handlers see.
struct Seen {
    server: Arc<Rtsp>,
    started: Instant,
}

type Shared = State<Arc<Seen>>;

impl Aside {
    /// Serves from now on.
    ///
    /// # Errors
    /// The address is in use or not of this host.
    pub(crate) fn start(address: SocketAddr, server: Arc<Rtsp>) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(io("cannot start the HTTP side"))?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind(address));
        let listener = listener.map_err(|error| {
            let message = format!("HTTP cannot listen on {address}: {error}");
            let hint = "stop the program that holds the port, or choose another by --http";
            Failure::new(Exit::Configuration, message).hint(hint)
        })?;
        let address = listener.local_addr().map_err(io("HTTP"))?;
        let app = router(server);
        let thread = thread::Builder::new().name("http".to_owned());
        let served = thread.spawn(move || {
            if let Err(error) = runtime.block_on(async { axum::serve(listener, app).await }) {
                tracing::error!(%error, "health and metrics end");
            }
        });
        served.map_err(io("cannot start the HTTP side"))?;
        Ok(Self { address })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }
}

fn router(server: Arc<Rtsp>) -> Router {
    let seen = Seen {
        server,
        started: Instant::now(),
    };
    Router::new()
        .route("/healthz", get(super::health::alive))
        .route("/readyz", get(ready))
        .route("/metrics", get(all))
        .fallback(nothing_here)
        .with_state(Arc::new(seen))
}

/// The server's thread goes round. A broker that is not reached does not make it unready: what is
/// recorded is still played, and restarting would not help.
async fn ready(seen: Shared) -> Result<Json<Value>, Problem> {
    if !seen.server.is_well() {
        return Err(
            Problem::unavailable("the RTSP server's thread does not answer")
                .hint("look at its log and at the load of the machine; restart it if this stays"),
        );
    }
    Ok(Json(json!({ "status": "ready" })))
}

async fn all(seen: Shared) -> impl IntoResponse {
    let uptime = seen.started.elapsed().as_secs_f64();
    let uptime = metrics::gauge(
        "sangam_uptime_seconds",
        "Time since the start",
        Vec::new(),
        uptime,
    );
    let mut samples = vec![uptime];
    samples.extend(seen.server.metrics().into_iter().map(|metric| Sample {
        name: metric.name,
        help: metric.help,
        counter: metric.is_counter,
        labels: Vec::new(),
        value: metric.value as f64,
    }));
    samples.extend(metrics::process());
    (
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        metrics::text(&samples),
    )
}

async fn nothing_here() -> Problem {
    Problem::not_found("there is nothing here").hint("there are /healthz, /readyz and /metrics")
}
