//! Sessions over a trace: every method sends every packet, every receiver hears every method.
//!
//! A packet leaves every 10 ms. Its sender knows what became of it when it has arrived and the
//! same time has passed again; a link's probe is answered likewise. Methods choose once, and all
//! receivers listen to the same arrivals. Memory does not grow with packets, except for a sum
//! every 20 s ([`Sent`], [`Block`]), which the intervals are estimated from.

mod audience;
mod changes;
mod delays;
mod histogram;
mod lane;
mod outcome;
mod roster;
mod tally;
mod wheel;

use core::time::Duration;

use sangam_route::method::Past;
use sangam_route::{Paths, Router};

use crate::trace::{Columns, Overlay, TraceError};
use audience::Audience;
use delays::{Delays, Probing};
pub use histogram::Histogram;
use lane::Lane;
pub use lane::Watched;
pub use outcome::{Costs, Outcome, Sent, Stream};
pub use roster::{Entry, Listener, Roster};
use tally::Span;
pub use tally::{Block, Tally};

/// After the last packet: three links of 10 s each, and what receivers wait.
const END: Duration = Duration::from_secs(120);

/// Packets that receivers take at once. What each remembers is large, and has to come into the
/// processor's cache for each batch.
const BATCH: usize = 8_000;

/// How a session is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Packets sent, one every 10 ms.
    pub packets: u64,
    /// Packets at the begin that do not count.
    pub warm_up: u64,
    /// Packets of a block.
    pub block: u64,
    /// What methods draw chance from.
    pub seed: u64,
    /// Nanoseconds since any moment: what decisions take. The laboratory has no clock of its own.
    pub clock: fn() -> u64,
}

impl Plan {
    /// The study's: a minute of warm-up, or a fifth of a short session; blocks of 20 s.
    #[must_use]
    pub fn study(packets: u64, seed: u64, clock: fn() -> u64) -> Self {
        Self {
            packets,
            warm_up: (packets / 5).min(6_000),
            block: 2_000,
            seed,
            clock,
        }
    }
}

/// A session under way.
#[derive(Debug)]
pub struct Replay {
    plan: Plan,
    paths: Paths,
    lanes: Vec<Lane>,
    audience: Audience,
    delays: Delays,
    probing: Probing,
    sent: u64,
    /// By the clock.
    begun_ns: u64,
}

impl Replay {
    /// All methods of a roster before their first packet.
    ///
    /// # Errors
    /// [`TraceError::Overlay`] if there is no such session.
    pub fn new(
        overlay: &Overlay,
        session: usize,
        roster: &Roster,
        plan: Plan,
    ) -> Result<Self, TraceError> {
        let links = overlay.session_links(session)?;
        let relays = overlay.sessions[session].relays.len();
        let paths = lane::paths(overlay.is_parallel(session), links.len(), relays);
        let history = past(overlay, &links, &paths);
        let counted = plan.packets.saturating_sub(plan.warm_up);
        let span = Span {
            warm_up: plan.warm_up,
            block: plan.block.max(1),
            blocks: counted.div_ceil(plan.block.max(1)) as usize,
        };
        let lanes = roster.entries.iter().map(|entry| {
            let mut settings = entry.settings.clone();
            settings.seed = plan.seed;
            settings.history.clone_from(&history);
            Lane::new(
                entry,
                Router::new(entry.method, paths.clone(), &settings),
                span,
            )
        });
        Ok(Self {
            lanes: lanes.collect(),
            audience: Audience::new(roster, span),
            delays: Delays::new(paths.len()),
            probing: Probing::new(links.len()),
            paths,
            begun_ns: (plan.clock)(),
            plan,
            sent: 0,
        })
    }

    /// Sends the packets of the next moments; `columns` are the session's links in the order of
    /// [`Overlay::session_links`].
    pub fn chunk(&mut self, columns: &Columns) {
        self.delays.fill(&self.paths, columns);
        let left = self.plan.packets.saturating_sub(self.sent);
        let rows = (columns.rows() as u64).min(left);
        for lane in &mut self.lanes {
            let begin = (self.plan.clock)();
            for row in 0..rows {
                let seq = self.sent + row;
                lane.probe(seq, self.probing.at(seq), columns, row as usize);
                lane.send(seq, self.delays.at(row as usize));
            }
            lane.spent_ns += (self.plan.clock)().saturating_sub(begin);
        }
        self.sent += rows;
        let waiting = self.lanes.iter().map(|lane| lane.arrived().len()).max();
        if waiting.is_some_and(|packets| packets >= BATCH) {
            self.deliver();
        }
    }

    /// Receivers take what has arrived.
    fn deliver(&mut self) {
        let arrived: Vec<_> = self.lanes.iter().map(Lane::arrived).collect();
        self.audience.deliver(&arrived, self.plan.clock);
        self.lanes.iter_mut().for_each(Lane::clear);
    }

    /// Keeps, of every packet from now on, what predictors can be judged by.
    pub fn watch(&mut self) {
        self.lanes.iter_mut().for_each(Lane::watch);
    }

    /// What was kept, by method.
    pub fn watched(&mut self) -> Vec<Vec<Watched>> {
        self.lanes.iter_mut().map(Lane::watched).collect()
    }

    /// Lets everything arrive.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        self.lanes.iter_mut().for_each(Lane::end);
        self.deliver();
        let tallies = self.audience.finish(lane::departure(self.sent) + END);
        let lanes = self.lanes.into_iter().zip(tallies);
        Outcome {
            streams: lanes.map(|(lane, own)| lane.finish(own)).collect(),
            runs: 1,
            spent_ns: (self.plan.clock)().saturating_sub(self.begun_ns),
        }
    }
}

/// What is known of each path beforehand: means add up, and so do variances.
fn past(overlay: &Overlay, links: &[usize], paths: &Paths) -> Vec<Past> {
    let of = |path: &sangam_route::Path| {
        let crossed = path.links().iter();
        let crossed = crossed.map(|link| overlay.links[links[usize::from(*link)]]);
        let (mean, variance) = crossed.fold((0.0, 0.0), |(mean, variance), link| {
            let deviation = f64::from(link.deviation_us);
            (
                mean + f64::from(link.mean_us),
                variance + deviation * deviation,
            )
        });
        Past {
            mean_ms: mean / 1e3,
            deviation_ms: f64::sqrt(variance) / 1e3,
            samples: overlay.history,
        }
    };
    paths.iter().map(of).collect()
}
