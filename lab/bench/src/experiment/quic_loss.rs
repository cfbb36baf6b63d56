//! `quic-loss`: a camera and its audio at once over a path that loses one packet in a hundred, 100
//! ms of round trip away, with and without repair. A controller that takes loss for congestion
//! would carry 1.5 Mb/s there.

mod missing;
mod receiver;
mod sender;
mod stage;

use std::time::Duration;

use sangam_model::Class;

use super::{Reports, columns, row_span};
use crate::args::Options;
use crate::error::Error;
use crate::load::{Load, Media};
use crate::process::Carrier;
use crate::progress::Progress;
use crate::report::{Bound, Report, Row};
use crate::scenario::{Place, Probe, Seen};
use receiver::Heard;

/// One way.
const DELAY: Duration = Duration::from_millis(50);
const LOSS: f64 = 0.01;
/// Deviations of the number of packets that a path of this loss may lose by chance.
const CHANCE: f64 = 4.0;
/// What repair may leave, in percent: a packet is asked for again until it is too old.
const UNREPAIRED_PERCENT_MAX: f64 = 0.1;
/// With one camera, so that a row holds enough packets of audio.
const AUDIOS: usize = 8;

/// Where the loss is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    /// Between two brokers; the receiver is beside its own.
    Link(Carrier),
    /// Between the receiver, a client by QUIC, and its broker.
    Client,
}

/// Measures each path without repair and with it.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let title = "A 4 Mb/s camera and its audio at once: 100 ms of round trip, 1 % loss";
    let mut report = Report::new("quic-loss", title);
    let paths = [
        Path::Link(Carrier::Quic),
        Path::Link(Carrier::Udp),
        Path::Client,
    ];
    let mut progress = Progress::new(paths.len() * 2);
    for path in paths {
        for repair in [false, true] {
            let how = if repair { "with" } else { "without" };
            progress.at(&format!("{}, {how} repair", path.name()));
            let heard = stage::run(path, repair, row_span(options))?;
            for (media, streams) in [(Media::Camera, 1), (Media::Audio, AUDIOS)] {
                add(&mut report, (path, repair), (media, streams), &heard);
            }
            progress.step();
        }
    }
    report.notes = notes();
    Ok(vec![("quic-loss".to_owned(), report)])
}

fn add(
    report: &mut Report,
    (path, repair): (Path, bool),
    (media, streams): (Media, usize),
    heard: &Heard,
) {
    let seen = seen(media, heard);
    let lost = seen.expected.saturating_sub(seen.reception.received);
    let mut row = Row::default()
        .with("way", path.name())
        .with("transport", path.transport())
        .with("media", media.name())
        .with("repair", repair)
        .with(
            "out_mbps",
            streams as f64 * Load::of(media).bits_per_s() / 1e6,
        )
        .with("probes", seen.expected)
        .with("lost", lost)
        .with("duplicates", seen.reception.duplicates)
        .with("nacks", heard.nacks);
    columns::quality(&mut row, &seen);
    report.ours.push(row);
    let how = if repair { "with" } else { "without" };
    // Brokers keep no audio to answer from: by the time an answer came it would be too late.
    let repaired = repair && media.class() == Class::Video;
    let (name, most) = (path.name(), allowed(seen.expected, repaired));
    let name = format!("{} over {name} {how} repair: packets lost", media.name());
    // Where nothing was sent, nothing was measured.
    let lost = if seen.expected == 0 {
        f64::NAN
    } else {
        lost as f64
    };
    report.verdict.check(name, lost, Bound::AtMost(most));
}

/// The most packets that may be lost.
fn allowed(expected: u64, repair: bool) -> f64 {
    if repair {
        return (expected as f64 * UNREPAIRED_PERCENT_MAX / 100.0).ceil();
    }
    let mean = expected as f64 * LOSS;
    (mean + CHANCE * (mean * (1.0 - LOSS)).sqrt()).ceil()
}

/// All streams of a medium as one.
fn seen(media: Media, heard: &Heard) -> Seen {
    let mut all = Seen {
        probe: Probe {
            broker: 1,
            place: Place::Last,
        },
        expected: 0,
        reception: crate::measure::Reception::new(),
    };
    for stream in heard.streams.iter().filter(|stream| stream.media == media) {
        all.expected += stream.expected;
        all.reception.merge(&stream.reception);
    }
    all
}

impl Path {
    /// As reports name it.
    const fn name(self) -> &'static str {
        match self {
            Self::Link(Carrier::Quic) => "a link by QUIC",
            Self::Link(Carrier::Tls) => "a link by TLS",
            Self::Link(Carrier::Udp) => "a link by UDP",
            Self::Client => "a client's way by QUIC",
        }
    }

    const fn transport(self) -> &'static str {
        match self {
            Self::Link(carrier) => carrier.name(),
            Self::Client => Carrier::Quic.name(),
        }
    }
}

fn notes() -> Vec<String> {
    [
        "The camera and eight audio streams of one publisher cross the path at the same time. \
         The path between the brokers is the only thing that loses, or the one between the \
         receiver and its broker.",
        "Without repair what is lost is the path's own loss: at most what a path of 1 % loses, and \
         four deviations. With repair the receiver asks for video that it misses (NACK) at once \
         and each 150 ms, until it is a second old; what comes so took more than 100 ms \
         (late_percent). Brokers keep no audio to answer from, so nobody asks for it: beside \
         repaired video it must fare as without.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repair_may_leave_a_tenth_of_what_chance_takes() {
        assert_eq!(allowed(4_200, false), 68.0);
        assert_eq!(allowed(4_200, true), 5.0);
    }
}
