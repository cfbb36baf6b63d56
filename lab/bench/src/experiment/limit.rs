//! `limit`: what the machine allows.

use std::time::Duration;

use super::Reports;
use crate::args::{Options, Receivers};
use crate::error::Error;
use crate::limit::{Plan, measure, participants_allowed};
use crate::load::{Load, Media};
use crate::machine;
use crate::progress::Progress;
use crate::report::{Plot, Report, Row};

/// Destinations per sending thread; the largest stands for a single meeting.
const FANOUTS: [usize; 5] = [5, 20, 200, 800, 10_000];

struct Cell {
    media: Media,
    receivers: Receivers,
    segmented: bool,
    threads: usize,
    fanout: usize,
}

/// Measures every combination of load, call, receivers, threads and fan-out.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let cells = cells(options);
    let mut progress = Progress::new(cells.len());
    let mut report = Report::new(
        "limit",
        "Raw sends on the loopback interface of this machine",
    );
    let span = Duration::from_secs(options.seconds.unwrap_or(1));
    for cell in &cells {
        progress.at(&cell.title());
        report.ours.push(cell.measure(span)?);
        progress.step();
    }
    report.notes = notes();
    report.plot = Some(Plot {
        x: "threads",
        y: "packets_per_s",
        series: Some("what"),
    });
    report.verdict.conclude();
    Ok(vec![("limit".to_owned(), report)])
}

fn cells(options: &Options) -> Vec<Cell> {
    let chosen = |media: &Media| options.media.is_none_or(|only| only == *media);
    let mut cells = Vec::new();
    for receivers in [Receivers::Sink, Receivers::Read] {
        if options.receivers.is_some_and(|only| only != receivers) {
            continue;
        }
        for media in [Media::Audio, Media::Video, Media::Cloud]
            .into_iter()
            .filter(chosen)
        {
            // Only video frames are bursts.
            let calls: &[bool] = if media == Media::Video {
                &[false, true]
            } else {
                &[false]
            };
            for &segmented in calls {
                for threads in threads() {
                    for fanout in FANOUTS {
                        cells.push(Cell {
                            media,
                            receivers,
                            segmented,
                            threads,
                            fanout,
                        });
                    }
                }
            }
        }
    }
    cells
}

fn threads() -> Vec<usize> {
    let mut threads = vec![1, machine::cores()];
    threads.dedup();
    threads
}

impl Cell {
    fn title(&self) -> String {
        let call = if self.segmented {
            "UDP_SEGMENT"
        } else {
            "sendmmsg"
        };
        format!("{} {call} {}", self.media.name(), self.receivers.name())
    }

    fn measure(&self, span: Duration) -> Result<Row, Error> {
        let load = Load::of(self.media);
        let plan = Plan {
            load: &load,
            fanout: self.fanout,
            audiences: 1,
            threads: self.threads,
            receivers: self.receivers,
            segmented: self.segmented,
            span,
        };
        let rate = measure(&plan)?;
        let allowed = participants_allowed(&load, &rate.costs);
        Ok(Row::default()
            .with("what", self.title())
            .with("media", self.media.name())
            .with(
                "call",
                if self.segmented {
                    "segment"
                } else {
                    "sendmmsg"
                },
            )
            .with("receivers", self.receivers.name())
            .with("threads", self.threads)
            .with("fanout", self.fanout)
            .with("packets_per_s", rate.packets_per_s.round())
            .with("cpu_us_per_packet", rate.cpu_us_per_packet)
            .with("participants", u64::from(allowed))
            .with("read_percent", rate.read as f64 * 100.0 / rate.sent as f64))
    }
}

fn notes() -> Vec<String> {
    [
        "A sink is a socket that is never read: the kernel drops what comes, so the figure is \
         that of sending, undelivered by design.",
        "With `read` every socket is read by a thread on the same machine; the CPU per packet \
         then includes the reader.",
        "The fan-out is per sending thread. Video has the burst shapes of the clip: \
         packet by packet with sendmmsg, frame by frame with UDP_SEGMENT.",
        "`participants` is the largest single meeting that such a loop serves with less than \
         1 % of the packets later than 100 ms, by a queue in virtual time.",
    ]
    .map(str::to_owned)
    .to_vec()
}
