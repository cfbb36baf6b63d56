//! `sangam net trace`: the way that sampled events really took.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sangam_client::{Client, Received};
use sangam_control::monitor::{Graph, Network};
use sangam_io::clock;
use sangam_io::pool::Packet;
use sangam_model::{BrokerId, Filter, StreamId, Topic};
use sangam_wire::Event;
use serde::Serialize;

use super::route::{Verdict, judge};
use crate::cli::NetArgs;
use crate::commands::peer::{connect, failure};
use crate::exit::{Exit, Failure};
use crate::output;

/// How many traces, and for how long.
#[derive(Clone, Copy)]
pub(super) struct Length {
    pub(super) count: u64,
    pub(super) seconds: u64,
}

/// One event's way.
#[derive(Serialize)]
struct Trace {
    topic: Option<String>,
    stream: String,
    sequence: u16,
    hops: Vec<Hop>,
    /// Until this command had it, in microseconds; absent where the clocks differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    here_us: Option<u64>,
    verdict: Verdict,
}

#[derive(Serialize)]
struct Hop {
    broker: String,
    name: String,
    /// Since the origin took the event, in microseconds; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_us: Option<u32>,
}

/// Prints traces as they come.
pub(super) fn run(
    args: &NetArgs,
    network: &Network,
    (filter, length): (&Filter, Length),
    json: bool,
) -> Result<(), Failure> {
    let (mut client, _) = connect(&args.broker, &args.peer)?;
    client.subscribe(filter).map_err(failure)?;
    let graph = Graph::of(network);
    let mut topics = HashMap::<StreamId, Topic>::new();
    let until = Instant::now() + Duration::from_secs(length.seconds);
    let (mut traces, mut events) = (0, 0_u64);
    while traces < length.count {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match next(&mut client, left, &mut topics) {
            Some(packet) => {
                events += 1;
                let Some(trace) = read(&packet, (network, &graph), &topics) else {
                    continue;
                };
                traces += 1;
                if json {
                    output::json_line(&trace);
                } else {
                    output::line(&trace.to_string());
                }
            }
            None => continue,
        }
    }
    if traces > 0 {
        return Ok(());
    }
    let message = format!(
        "no traced event of {filter} in {} s ({events} events)",
        length.seconds
    );
    let hint = "one event in sixteen carries a trace; is anything published there?";
    Err(Failure::new(Exit::Unreachable, message).hint(hint))
}

/// The next event; notes what streams are called.
fn next(
    client: &mut Client,
    left: Duration,
    topics: &mut HashMap<StreamId, Topic>,
) -> Option<Packet> {
    match client.recv(left)? {
        Received::Event(packet) => return Some(packet),
        Received::Announce { stream, topic, .. } => {
            topics.insert(stream, topic);
        }
        Received::Retired(stream) => {
            topics.remove(&stream);
        }
        _ => {}
    }
    None
}

fn read(
    packet: &Packet,
    (network, graph): (&Network, &Graph),
    topics: &HashMap<StreamId, Topic>,
) -> Option<Trace> {
    let event = Event::decode(packet).ok()?;
    let trace = event.extensions.trace()?;
    let stream = event.header.stream;
    let way: Vec<BrokerId> = trace.hops().map(|hop| hop.broker).collect();
    let hops = trace.hops().map(|hop| Hop {
        broker: hop.broker.to_string(),
        name: network.label(hop.broker),
        delay_us: (hop.delay_us != u32::MAX).then_some(hop.delay_us),
    });
    let same_clock = trace.clock_domain == clock::clock_domain();
    let since = || clock::now().as_micros().saturating_sub(trace.origin_us);
    Some(Trace {
        topic: topics.get(&stream).map(ToString::to_string),
        stream: stream.to_string(),
        sequence: event.header.sequence,
        hops: hops.collect(),
        here_us: same_clock.then(since),
        verdict: judge(graph, stream, &way),
    })
}

impl std::fmt::Display for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let topic = self.topic.as_deref().unwrap_or(&self.stream);
        write!(f, "{topic} #{}:", self.sequence)?;
        let mut before = 0;
        for hop in &self.hops {
            match hop.delay_us {
                Some(at) => {
                    let more = f64::from(at.saturating_sub(before)) / 1e3;
                    write!(f, " {} +{more:.2} ms →", hop.name)?;
                    before = at;
                }
                None => write!(f, " {} ? →", hop.name)?,
            }
        }
        match self.here_us {
            Some(at) => {
                let more = at.saturating_sub(before.into()) as f64 / 1e3;
                write!(f, " here +{more:.2} ms")?;
            }
            None => f.write_str(" here")?,
        }
        write!(f, "  [{}]", self.verdict)
    }
}
