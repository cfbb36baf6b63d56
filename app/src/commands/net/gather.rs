//! Listens until every broker of the network was heard.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sangam_control::monitor::{Aggregate, Heard, Listener, Network, Teller, parse_id};
use sangam_model::{BrokerId, Time};

use crate::cli::NetArgs;
use crate::commands::peer::{connect, failure};
use crate::exit::{Exit, Failure};
use crate::monitor::unix_ms;

/// Who the view is written by, where nobody aggregates.
const NAME: &str = "sangam-net";

/// Listens to reports through one broker.
pub(super) struct Ear {
    listener: Listener,
    aggregate: Aggregate,
    start: Instant,
    asked: BrokerId,
}

/// The network, and the broker that was asked.
pub(super) struct View {
    pub(super) network: Network,
    pub(super) asked: BrokerId,
}

impl Ear {
    /// Connects to the broker and subscribes to reports.
    pub(super) fn open(args: &NetArgs) -> Result<Self, Failure> {
        let (client, _) = connect(&args.broker, &args.peer)?;
        let asked = client.up().and_then(|up| up.broker);
        Ok(Self {
            listener: Listener::new(client, args.reports.into()).map_err(failure)?,
            aggregate: Aggregate::default(),
            start: Instant::now(),
            asked: asked.map_or(BrokerId(0), |(broker, _)| broker),
        })
    }

    /// Listens for so long, or until `enough`.
    pub(super) fn listen(
        &mut self,
        length: Duration,
        enough: impl Fn(&Self) -> bool,
    ) -> Result<(), Failure> {
        let until = Instant::now() + length;
        while !enough(self) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            match self.listener.next(left) {
                Some(Heard::Report(report, via)) => {
                    self.aggregate.merge(self.now(), *report, via.as_deref());
                }
                Some(Heard::Merged(event, head)) => {
                    let now = self.now();
                    match sangam_digest::decode(now, &event) {
                        Ok(merged) => {
                            self.aggregate
                                .merge_digests(now, merged, Teller::Head(&head))
                        }
                        Err(_) => self.aggregate.refuse(),
                    }
                }
                Some(Heard::Nonsense) => self.aggregate.refuse(),
                Some(Heard::Refused(reason)) => {
                    let message = format!("the broker does not let this client listen: {reason}");
                    return Err(Failure::new(Exit::Authentication, message));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What was heard.
    pub(super) fn view(&mut self) -> View {
        let now = self.now();
        self.aggregate.expire(now);
        View {
            network: self.aggregate.network(now, NAME, unix_ms()),
            asked: self.asked,
        }
    }

    /// From a minute on, so that reports may be older than this command.
    fn now(&self) -> Time {
        Time::from_millis(60_000) + self.start.elapsed()
    }
}

/// The network once everybody whom somebody is linked with was heard, or the wait is over.
pub(super) fn view(args: &NetArgs) -> Result<View, Failure> {
    let mut ear = Ear::open(args)?;
    ear.listen(Duration::from_secs(args.wait), is_complete)?;
    let view = ear.view();
    if view.network.brokers.is_empty() {
        let message = format!("no broker reports through {}", args.broker[0]);
        let hint = "its broker is of an older version, or --wait is too short";
        return Err(Failure::new(Exit::Unreachable, message).hint(hint));
    }
    let (heard, told) = (view.network.brokers.len() as u64, ear.aggregate.told());
    if heard < told {
        let round_s = told / 20 + 5;
        tracing::warn!(
            heard,
            told,
            round_s,
            "not every broker was heard; --wait longer"
        );
    }
    Ok(view)
}

/// Whether everybody was heard, in full where full reports are listened to.
fn is_complete(ear: &Ear) -> bool {
    let aggregate = &ear.aggregate;
    let all = aggregate.len() as u64 >= aggregate.told();
    if !ear.listener.is_full() {
        return all && aggregate.told() > 0;
    }
    let known: BTreeSet<_> = aggregate.reports().map(|report| report.broker).collect();
    let links = aggregate.reports().flat_map(|report| &report.links);
    let mut peers = links.filter(|link| link.up).filter_map(|link| link.peer);
    let linked = !known.is_empty() && peers.all(|peer| known.contains(&peer));
    linked && aggregate.is_detailed(ear.now())
}

/// A broker by id or by its name.
pub(super) fn find(network: &Network, name: &str) -> Result<BrokerId, Failure> {
    let reports = || network.brokers.iter().map(|view| &view.report);
    if let Some(id) = parse_id(name).filter(|id| reports().any(|report| report.broker == *id)) {
        return Ok(id);
    }
    let mut named = reports().filter(|report| report.name == name);
    match (named.next(), named.next()) {
        (Some(report), None) => Ok(report.broker),
        (Some(_), Some(_)) => {
            let message = format!("several brokers are named {name:?}");
            Err(Failure::new(Exit::Usage, message).hint("give the id; `sangam net brokers` has it"))
        }
        (None, _) => {
            let message = format!("no broker is named {name:?}");
            Err(Failure::new(Exit::Usage, message).hint("`sangam net brokers` lists them"))
        }
    }
}
