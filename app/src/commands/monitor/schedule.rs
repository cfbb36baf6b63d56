//! An aggregation node that plans: it has every link's figures at hand, and brokers do without it.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sangam_client::{Client, ClientOptions};
use sangam_control::monitor::{Planner, Reporter};
use sangam_wire::PlanMethod;

use super::{LOOK, Node};
use crate::cli::MonitorArgs;
use crate::commands::peer::{self, Pass};
use crate::exit::Failure;
use crate::monitor::unix_ms;

/// How often brokers are told something.
const PLAN_EVERY: Duration = Duration::from_secs(1);
/// How long a stream of plans is there before they are told by it, as what changed is told once:
/// brokers must join it first, and leave the one before, which they follow for 5 s.
const INTRODUCED: Duration = Duration::from_secs(6);

/// Starts to plan, by whichever of the brokers can be reached: one of them may die.
pub(super) fn start(
    node: &Arc<Node>,
    args: &MonitorArgs,
    method: PlanMethod,
) -> Result<JoinHandle<()>, Failure> {
    let options = ClientOptions {
        trace_every: 0,
        ..ClientOptions::default()
    };
    let (client, mut pass) = peer::begin(&args.broker, &args.peer, options)?;
    let node = Arc::clone(node);
    Ok(thread::spawn(move || {
        let Some(client) = node.reach(client, &mut pass) else {
            return;
        };
        match Reporter::of_scheduler(client, &node.name) {
            Ok(reporter) => node.plan((reporter, pass), method),
            Err(error) => tracing::error!(%error, "plans cannot be published"),
        }
    }))
}

impl Node {
    /// Waits until a broker takes this client; `None` if the node is to end before.
    fn reach(&self, mut client: Client, pass: &mut Pass) -> Option<Client> {
        let mut told = false;
        while let Err(error) = client.wait_up(LOOK) {
            if self.stops() {
                return None;
            }
            if !told {
                tracing::warn!(%error, "no broker to publish plans by yet");
                told = true;
            }
            // Some refusals are known without waiting.
            thread::sleep(LOOK);
            pass.renew(&client);
        }
        Some(client)
    }

    /// Plans each second, and publishes what brokers must be told.
    fn plan(&self, (mut reporter, mut pass): (Reporter, Pass), method: PlanMethod) {
        tracing::info!(method = method.name(), "planning");
        let mut planner = Planner::new(method, unix_ms());
        let (mut stream, mut introduced) = (None, Instant::now());
        let mut due = Instant::now();
        while !self.stops() && reporter.is_heard() {
            if Instant::now() < due {
                thread::sleep(LOOK);
                continue;
            }
            due = (due + PLAN_EVERY).max(Instant::now());
            pass.renew(reporter.client());
            let speaks_by = reporter.stream();
            if speaks_by != stream {
                (stream, introduced) = (speaks_by, Instant::now() + INTRODUCED);
                planner.begin_anew();
            }
            let messages = if Instant::now() < introduced {
                planner.beat()
            } else {
                planner.plan(self.now(), &self.network())
            };
            messages.iter().for_each(|one| reporter.tell(one));
            if let Ok(mut counts) = self.plans.lock() {
                *counts = Some(planner.counts());
            }
        }
    }
}
