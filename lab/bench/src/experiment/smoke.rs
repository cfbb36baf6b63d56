//! `smoke`: a few seconds over two linked brokers, on loopback and at two sites of the emulator,
//! to WebRTC peers, in a session, films to viewers while disks and nodes go, over three brokers of
//! which one is killed, then over a network of the simulator. Correctness only, nothing is timed.

use std::time::Duration;

use sangam_emulator::{Emulator, Quality};

use super::{
    Reports, columns, crowd, disk_change, failover, live_routing, node_kill, one_meeting,
    vod_one_node, vod_scale_up, webrtc_fanout,
};
use crate::args::{Options, Receivers};
use crate::error::Error;
use crate::load::Media;
use crate::process::Queuing;
use crate::progress::Progress;
use crate::report::{Bound, Report, Row};
use crate::scenario::{self, Outcome, Plan, World};

/// Events that brokers count besides: digests to the heads of their cells (ADR 0051), one from each
/// broker every five seconds and one merged from each head.
const DIGESTS_MAX: f64 = 5.0;

const BROKERS: usize = 2;
const USERS: usize = 12;
const SECONDS: u64 = 2;

/// Between the two sites, one way.
const DELAY: Duration = Duration::from_millis(10);
const SEED: u64 = 2;

/// One run.
struct Part {
    name: &'static str,
    media: Media,
    world: World,
}

/// Sends audio, then video, then video between sites, and counts.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let mut report = Report::new("smoke", "Audio and video over two linked brokers");
    let chain = |media: Media| Part {
        name: media.name(),
        media,
        world: World::chain(BROKERS),
    };
    let mut parts = vec![chain(Media::Audio), chain(Media::Video)];
    // Lives until all parts have run.
    let network = Emulator::new(&["near", "far"], SEED);
    match &network {
        Ok(network) => parts.push(apart(network)?),
        Err(error) => report.notes.push(format!("Without sites: {error}")),
    }
    let mut progress = Progress::new(parts.len() + 6);
    for Part { name, media, world } in parts {
        progress.at(name);
        let plan = Plan {
            media,
            brokers: BROKERS,
            shards: options.shards.unwrap_or(2),
            queuing: Queuing::Double,
            meetings: one_meeting(vec![USERS; BROKERS]),
            receivers: Receivers::Read,
            span: Duration::from_secs(options.seconds.unwrap_or(SECONDS)),
        };
        let outcome = scenario::run_in(&world, &plan)?;
        check(&mut report, name, &outcome);
        progress.step();
    }
    progress.at("WebRTC");
    webrtc_fanout::smoke(&mut report)?;
    progress.step();
    progress.at("a session");
    crowd::smoke(&mut report)?;
    progress.step();
    progress.at("films");
    vod_one_node::smoke(&mut report)?;
    vod_scale_up::smoke(&mut report)?;
    progress.step();
    progress.at("disks and nodes that go");
    disk_change::smoke(&mut report)?;
    node_kill::smoke(&mut report)?;
    progress.step();
    if network.is_ok() {
        progress.at("a broker killed");
        failover::smoke(&mut report)?;
        progress.step();
        progress.at("a network of the simulator");
        live_routing::smoke(&mut report)?;
    }
    Ok(vec![("smoke".to_owned(), report)])
}

/// Two brokers at two sites.
fn apart(network: &Emulator) -> Result<Part, Error> {
    let paths = network.control();
    let delayed = paths.set_both(0, 1, &Quality::delayed(DELAY));
    delayed.map_err(Error::Network)?;
    let mut world = World::chain(BROKERS);
    for (number, site) in network.sites().iter().enumerate() {
        world.brokers[number].site = Some(site.clone());
        world.places[number].site = Some(site.clone());
    }
    world.paths = Some(paths.clone());
    Ok(Part {
        name: "video at two sites",
        media: Media::Video,
        world,
    })
}

fn check(report: &mut Report, part: &'static str, outcome: &Outcome) {
    let mut check = |what: &str, value: f64, bound| {
        report
            .verdict
            .check(format!("{part}: {what}"), value, bound);
    };
    for broker in 0..BROKERS {
        let seen = outcome.among(|probe| probe.broker == broker);
        let (received, lost, again) = seen.map_or((0.0, f64::NAN, f64::NAN), |seen| {
            let received = seen.reception.received;
            let lost = seen.expected.saturating_sub(received);
            (
                received as f64,
                lost as f64,
                seen.reception.duplicates as f64,
            )
        });
        let at = format!("broker {}", broker + 1);
        check(&format!("received at {at}"), received, Bound::AtLeast(1.0));
        check(&format!("lost at {at}"), lost, Bound::AtMost(0.0));
        check(
            &format!("received twice at {at}"),
            again,
            Bound::AtMost(0.0),
        );
    }
    let missing = outcome.due as f64 - outcome.delivered_in_all();
    check(
        "events published but not counted as sent",
        missing.max(0.0),
        Bound::AtMost(0.0),
    );
    check(
        "events counted as sent besides",
        (-missing).max(0.0),
        Bound::AtMost(DIGESTS_MAX),
    );
    let unread = outcome.due_to_passive as f64 - outcome.counted as f64;
    check(
        "events not read by passive receivers",
        unread.abs(),
        Bound::AtMost(0.0),
    );
    let dropped = outcome
        .drops_in_all()
        .values()
        .fold(0.0, |sum, count| sum + count);
    check("dropped by the brokers", dropped, Bound::AtMost(0.0));
    check("links that died", outcome.deaths as f64, Bound::AtMost(0.0));
    let mut row = Row::default().with("part", part);
    if let Some(all) = outcome.among(|_| true) {
        columns::quality(&mut row, &all);
    }
    columns::cost(&mut row, outcome);
    report.ours.push(row);
}
