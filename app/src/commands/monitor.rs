//! `sangam monitor`: an aggregation node. No media crosses it, so nothing happens if it dies.

mod schedule;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use sangam_client::{Address, Buffers, Client, ClientOptions};
use sangam_control::monitor::http::{View, routes};
use sangam_control::monitor::threshold::{Action, Rule, Thresholds};
use sangam_control::monitor::{
    Aggregate, BrokerReport, Clocks, Heard, Listener, Network, PlanCounts, Reporter, Reports,
    Teller, parts, prometheus,
};
use sangam_model::{BrokerId, Time};
use serde_json::json;
use tokio::runtime::Builder;

use super::config;
use super::peer::{self, Pass, failure};
use super::serve::listen;
use crate::cli::MonitorArgs;
use crate::config::{Api, Config};
use crate::exit::{Exit, Failure, io};
use crate::http::{Access, evaluator};
use crate::monitor::{Follow, follow, unix_ms};
use crate::output;
use crate::stop::Signals;

/// How often a thread looks whether it shall end.
const LOOK: Duration = Duration::from_millis(200);
/// How often part of the view is passed on.
const PASS_EVERY: Duration = Duration::from_secs(1);
/// How often a newer token is looked for.
const RENEW_EVERY: Duration = Duration::from_secs(1);
/// How often thresholds and clocks are checked.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Bytes passed on each time: 48 kb/s, half of what map, interest and monitoring may take of a
/// link of 10 Mb/s. The larger the network, the older what the node above sees.
const PASS_LEN: usize = 6_000;

/// Runs an aggregation node.
pub(super) fn run(args: &MonitorArgs, json: bool) -> Result<(), Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(io("cannot start HTTP"))?;
    runtime.block_on(serve(args, json))
}

async fn serve(args: &MonitorArgs, json: bool) -> Result<(), Failure> {
    let listener = listen(args.http).await?;
    let address = listener.local_addr().map_err(io("HTTP"))?;
    let node = Arc::new(Node::new(&args.name));
    let thresholds = thresholds(args)?;
    let mut threads = Threads::start(&node, args)?;
    let (watching, follow) = (Arc::clone(&node), follow(None));
    let watch = move || watching.watch(thresholds, follow);
    threads.threads.push(thread::spawn(watch));
    let mut signals = Signals::catch().map_err(io("cannot wait for signals"))?;
    tracing::info!(name = args.name, http = %address, "ready");
    if json {
        output::json_line(&json!({ "event": "ready", "name": args.name, "http": address }));
    }
    let app = router(&node, args.api_token.clone());
    let served = axum::serve(listener, app).with_graceful_shutdown(async move {
        signals.next().await;
    });
    served.await.map_err(io("HTTP"))
}

/// What is watched over the whole network. Links and brokers belong to others, so only words
/// follow.
fn thresholds(args: &MonitorArgs) -> Result<Thresholds, Failure> {
    let rules = config::read(&args.file, &Config::default())?.rules();
    let words = |rule: &Rule| matches!(rule.action, Action::Alert | Action::Webhook);
    if rules.iter().all(words) {
        return Ok(Thresholds::new(rules));
    }
    let message = "an aggregation node cannot change links or brokers";
    let hint = "action = \"alert\" or \"webhook\" here, the others in each broker's configuration";
    Err(Failure::new(Exit::Configuration, message).hint(hint))
}

fn router(node: &Arc<Node>, token: Option<String>) -> axum::Router {
    let (viewed, measured) = (Arc::clone(node), Arc::clone(node));
    let access = Access {
        api: Api {
            token,
            ..Api::default()
        },
        tokens: None,
    };
    let view = View {
        network: Arc::new(move || viewed.network()),
        may_query: access.may_query(),
        xpath: evaluator(),
    };
    let metrics = move || async move {
        let mut text = prometheus::text(&measured.network());
        let plans = measured.plans.lock().ok().and_then(|counts| *counts);
        text.extend(plans.map(|counts| prometheus::plans(&counts)));
        ([(CONTENT_TYPE, prometheus::CONTENT_TYPE)], text)
    };
    routes(view)
        .into_router()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || Json(json!({ "status": "ok" }))))
}

/// What the threads share.
struct Node {
    name: String,
    aggregate: Mutex<Aggregate>,
    start: Instant,
    stop: AtomicBool,
    /// What plans cost, if it makes any.
    plans: Mutex<Option<PlanCounts>>,
}

impl Node {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            aggregate: Mutex::default(),
            start: Instant::now(),
            stop: AtomicBool::new(false),
            plans: Mutex::default(),
        }
    }

    /// From a minute on, so that reports may be older than this process.
    fn now(&self) -> Time {
        Time::from_millis(60_000) + self.start.elapsed()
    }

    fn aggregate(&self) -> MutexGuard<'_, Aggregate> {
        // What one thread left behind is whole: each change is one call.
        self.aggregate
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn network(&self) -> Network {
        let now = self.now();
        let mut aggregate = self.aggregate();
        aggregate.expire(now);
        aggregate.network(now, &self.name, unix_ms())
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Listens through one broker until the end; the client dials again by itself.
    fn listen(&self, mut listener: Listener, mut pass: Pass, broker: &str) {
        let mut renew = Instant::now();
        while !self.stops() {
            if Instant::now() >= renew {
                renew = Instant::now() + RENEW_EVERY;
                pass.renew(listener.client());
            }
            match listener.next(LOOK) {
                Some(Heard::Report(report, via)) => {
                    let now = self.now();
                    self.aggregate().merge(now, *report, via.as_deref());
                }
                Some(Heard::Merged(event, head)) => self.merge(&event, Teller::Head(&head)),
                Some(Heard::Measured(event, broker)) => self.merge(&event, Teller::Broker(broker)),
                Some(Heard::Nonsense) => self.aggregate().refuse(),
                Some(Heard::Up) => tracing::info!(broker, "listening"),
                Some(Heard::Down(reason)) => tracing::warn!(broker, %reason, "not listening"),
                Some(Heard::Refused(reason)) => {
                    tracing::error!(broker, %reason, "the broker does not let this node listen");
                }
                _ => {}
            }
        }
    }

    fn merge(&self, event: &[u8], teller: Teller<'_>) {
        let now = self.now();
        match sangam_digest::decode(now, event) {
            Ok(merged) => self.aggregate().merge_digests(now, merged, teller),
            Err(error) => {
                tracing::debug!(?teller, %error, "digests cannot be read");
                self.aggregate().refuse();
            }
        }
    }

    /// Checks every broker's newest report and clock each second.
    fn watch(&self, mut thresholds: Thresholds, mut follow: Follow) {
        let (mut known, mut due) = (Vec::<BrokerReport>::new(), Instant::now());
        let mut clocks = Clocks::default();
        while !self.stops() {
            if Instant::now() < due {
                thread::sleep(LOOK);
                continue;
            }
            due += WATCH_EVERY;
            let now = self.now();
            let network = self.network();
            clocks.watch(&network);
            let reports = network.brokers.into_iter().map(|view| view.report);
            let reports: Vec<_> = reports.collect();
            // Both in the order of brokers.
            let here = |old: &BrokerReport| {
                reports
                    .binary_search_by_key(&old.broker, |new| new.broker)
                    .is_ok()
            };
            known
                .iter()
                .filter(|old| !here(old))
                .for_each(|gone| thresholds.forget(gone));
            reports
                .iter()
                .for_each(|report| thresholds.handle(now, report));
            known = reports;
            while let Some(alert) = thresholds.poll() {
                follow.act(&thresholds, &alert);
            }
        }
    }

    /// Passes reports on, a few each second, round and round.
    fn pass_on(&self, mut reporter: Reporter) {
        let (mut last, mut due) = (None, Instant::now());
        while !self.stops() && reporter.is_heard() {
            if Instant::now() < due {
                thread::sleep(LOOK);
                continue;
            }
            due += PASS_EVERY;
            last = self.pass_some(&mut reporter, last);
        }
    }

    /// The next reports behind `last`; the last of them.
    fn pass_some(&self, reporter: &mut Reporter, last: Option<BrokerId>) -> Option<BrokerId> {
        let now = self.now();
        let (mut reached, mut len) = (None, 0);
        let reports: Vec<_> = {
            let aggregate = self.aggregate();
            let fits = |report: &_| {
                len += parts::cut(report).iter().map(Vec::len).sum::<usize>();
                len <= PASS_LEN || len == 0
            };
            aggregate.after(now, last).take_while(fits).collect()
        };
        for report in &reports {
            reached = Some(report.broker);
            reporter.report(now, report);
        }
        reached
    }
}

/// One thread for each broker, one that passes on, and one that plans.
struct Threads {
    node: Arc<Node>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    fn start(node: &Arc<Node>, args: &MonitorArgs) -> Result<Self, Failure> {
        let mut threads = Vec::new();
        for broker in &args.broker {
            let (client, pass) = connect(broker, args)?;
            let listener = Listener::new(client, reports(args)).map_err(failure)?;
            let (node, broker) = (Arc::clone(node), broker.to_string());
            threads.push(thread::spawn(move || node.listen(listener, pass, &broker)));
        }
        if let (true, Some(broker)) = (args.publish, args.broker.first()) {
            let ((client, _), name) = (connect(broker, args)?, args.name.clone());
            let node = Arc::clone(node);
            threads.push(thread::spawn(move || {
                match Reporter::of_aggregate(client, &name) {
                    Ok(reporter) => node.pass_on(reporter),
                    Err(error) => tracing::error!(%error, "the view cannot be passed on"),
                }
            }));
        }
        if let Some(method) = args.schedule {
            threads.push(schedule::start(node, args, method.into())?);
        }
        let node = Arc::clone(node);
        Ok(Self { node, threads })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.node.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the aggregation node had panicked");
            }
        }
    }
}

/// A scheduler wants links' figures each second and nothing else, unless it is told otherwise or
/// passes reports on.
fn reports(args: &MonitorArgs) -> Reports {
    match (args.reports.into(), args.schedule) {
        (Reports::Auto, Some(_)) if !args.publish => Reports::Measured,
        (reports, _) => reports,
    }
}

fn connect(to: &Address, args: &MonitorArgs) -> Result<(Client, Pass), Failure> {
    let options = ClientOptions {
        // A thousand brokers may report at once.
        queue: 4_096,
        receive_buffers: Buffers {
            small: 6_144,
            large: 1_024,
        },
        trace_every: 0,
        ..ClientOptions::default()
    };
    peer::begin(std::slice::from_ref(to), &args.peer, options)
}
