//! `quic-loss`: a camera and its audio over a QUIC link that loses one packet in a hundred, 100 ms
//! of round trip away. A controller that takes loss for congestion would carry 1.5 Mb/s there.

use std::time::Duration;

use sangam_emulator::{Emulator, Loss, Quality};

use super::{Reports, columns, row_span};
use crate::args::{Options, Receivers};
use crate::error::Error;
use crate::load::{Load, Media};
use crate::process::{Carrier, Queuing};
use crate::progress::Progress;
use crate::report::{Bound, Report, Row};
use crate::scenario::{self, Meeting, Plan, World};

/// One way.
const DELAY: Duration = Duration::from_millis(50);
const LOSS: f64 = 0.01;
const SEED: u64 = 41;
/// Deviations of the number of packets that a path of this loss may lose by chance.
const CHANCE: f64 = 4.0;
/// Pairs of them, so that a row holds enough packets of audio.
const AUDIOS: usize = 8;

/// Measures the camera and the audio by each carrier.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let title = "A 4 Mb/s camera, and audio, between two sites: 100 ms of round trip, 1 % loss";
    let mut report = Report::new("quic-loss", title);
    let cases = [
        (Carrier::Quic, Media::Camera, 1),
        (Carrier::Quic, Media::Audio, AUDIOS),
        (Carrier::Udp, Media::Camera, 1),
    ];
    let mut progress = Progress::new(cases.len());
    for (carrier, media, streams) in cases {
        progress.at(&format!("{} by {}", media.name(), carrier.name()));
        measure(&mut report, (carrier, media, streams), options)?;
        progress.step();
    }
    report.notes = notes();
    Ok(vec![("quic-loss".to_owned(), report)])
}

fn measure(
    report: &mut Report,
    (carrier, media, streams): (Carrier, Media, usize),
    options: &Options,
) -> Result<(), Error> {
    let network = Emulator::new(&["near", "far"], SEED).map_err(Error::Network)?;
    let quality = Quality {
        loss: Loss::Random(LOSS),
        ..Quality::delayed(DELAY)
    };
    let set = network.control().set_both(0, 1, &quality);
    set.map_err(Error::Network)?;
    let plan = Plan {
        media,
        brokers: 2,
        shards: 1,
        queuing: Queuing::Double,
        meetings: vec![Meeting::measured_once(0, vec![0, 1]); streams],
        receivers: Receivers::Read,
        span: row_span(options),
    };
    let outcome = scenario::run_in(&world(&network, carrier), &plan)?;
    let mut row = Row::default()
        .with("transport", carrier.name())
        .with("media", media.name())
        .with(
            "out_mbps",
            streams as f64 * Load::of(media).bits_per_s() / 1e6,
        );
    let all = outcome.among(|_| true);
    let (expected, lost) = all.as_ref().map_or((0, f64::NAN), |all| {
        columns::quality(&mut row, all);
        let lost = all.expected.saturating_sub(all.reception.received);
        (all.expected, lost as f64)
    });
    columns::cost(&mut row, &outcome);
    report.ours.push(row);
    let mean = expected as f64 * LOSS;
    let most = mean + CHANCE * (mean * (1.0 - LOSS)).sqrt();
    let name = format!("{} by {}: packets lost", media.name(), carrier.name());
    report.verdict.check(name, lost, Bound::AtMost(most.ceil()));
    Ok(())
}

fn world(network: &Emulator, carrier: Carrier) -> World {
    let mut world = World::chain(2);
    for (number, site) in network.sites().iter().enumerate() {
        world.brokers[number].site = Some(site.clone());
        world.places[number].site = Some(site.clone());
    }
    world.paths = Some(network.control().clone());
    world.carrier = carrier;
    world
}

fn notes() -> Vec<String> {
    [
        "The publisher is at one site, its subscriber at the other; the link between their \
         brokers is the only thing that loses. Receivers of the bench send no NACKs, so what is \
         lost is the link's own loss: at most what a path of 1 % loses, and four deviations.",
    ]
    .map(str::to_owned)
    .to_vec()
}
