//! `film-smoothing`: how much smoother a film of variable rate is sent when its client controls the
//! flow (Zimmermann et al., section 2.5: 81 % less deviation at best), by the depth of the buffer.
//! The client's code is the real one, its server and time are virtual.

use std::collections::VecDeque;
use std::time::Duration;

use sangam_film::{Flow, Held, Order, THRESHOLDS};
use sangam_model::Time;

use super::Reports;
use crate::args::Options;
use crate::error::Error;
use crate::film::{FRAME, Kind, Trace};
use crate::report::{Bound, Plot, Report, Row};

/// Buffers, in seconds of the mean rate: that of archive.md, and up to the paper's 32 MB.
const BUFFERS: [u64; 7] = [4, 8, 12, 16, 24, 32, 48];
/// The film is played so many times over.
const ROUNDS: u64 = 2;
/// How often a client looks at its buffer, in frames.
const LOOK_EVERY: u64 = 3;
const BEGIN: f64 = 0.5;
/// The paper's best.
const REDUCTION_MIN: f64 = 81.0;
/// Rates are those of so many frames: 200 ms.
const BIN: usize = 5;

/// What one depth of buffer did.
#[derive(Debug, Default)]
struct Outcome {
    /// Of the rate at which the server sent, in megabits per second.
    deviation: f64,
    starved: u64,
    changes: u64,
    /// The fullest that the buffer was, of its size.
    fullest: f64,
    seconds: f64,
}

/// Plays the film from all buffers.
pub(super) fn run(_options: &Options) -> Result<Reports, Error> {
    let title = "The rate at which a film of variable rate is sent, by its client's buffer";
    let mut report = Report::new("film-smoothing", title);
    let mut best: f64 = 0.0;
    let mut starved = 0;
    for kind in [Kind::Dvd, Kind::Small] {
        let trace = kind.trace();
        let frames = trace.frames.len() as u64 * ROUNDS;
        let bits: Vec<u64> = trace.bits(0, frames).collect();
        let plain = deviation(&bits);
        for buffer in BUFFERS {
            let outcome = play(&trace, frames, Duration::from_secs(buffer));
            let reduction = 100.0 * (1.0 - outcome.deviation / plain);
            if kind == Kind::Dvd && outcome.starved == 0 {
                best = best.max(reduction);
            }
            starved += outcome.starved;
            let mean = trace.mbps(0, frames);
            report.ours.push(
                Row::default()
                    .with("film", kind.name())
                    .with("buffer_s", buffer)
                    .with("buffer_mbyte", mean * buffer as f64 / 8.0)
                    .with("deviation_mbps", outcome.deviation)
                    .with("plain_deviation_mbps", plain)
                    .with("reduction_percent", reduction)
                    .with("starved", outcome.starved)
                    .with(
                        "rate_changes_per_s",
                        outcome.changes as f64 / outcome.seconds,
                    )
                    .with("fullest_percent", 100.0 * outcome.fullest),
            );
        }
    }
    report.headline.set("best_reduction_percent", best);
    report.headline.set("starved_in_all", starved);
    let check = "deviation less than by the film's clock, in percent, no client starving, DVD";
    report
        .verdict
        .check(check, best, Bound::AtLeast(REDUCTION_MIN));
    report.plot = Some(Plot {
        x: "buffer_s",
        y: "deviation_mbps",
        series: Some("film"),
    });
    report.notes.push(format!(
        "Deviation of the rate in pieces of {} ms over the whole film, {ROUNDS} times; `plain` is \
         that of the film sent by its own clock. The server sends at the film's mean rate times \
         what the client asked for last; {THRESHOLDS} thresholds; playing begins with half of the \
         buffer filled. The check takes the deepest buffers, as the paper's best does: its \
         clients had up to 32 MB.",
        BIN as u128 * FRAME.as_millis()
    ));
    Ok(vec![("film-smoothing".to_owned(), report)])
}

/// The film from one buffer, until all is sent.
fn play(trace: &Trace, frames: u64, buffer: Duration) -> Outcome {
    let bits: Vec<u64> = trace.bits(0, frames).collect();
    let total: u64 = bits.iter().sum();
    let mean = total as f64 / frames as f64;
    let capacity = mean * buffer.as_secs_f64() / FRAME.as_secs_f64() / 8.0;
    let mut waiting: VecDeque<Held<()>> = (0..)
        .zip(&bits)
        .map(|(number, bits): (u32, &u64)| Held {
            at: FRAME * number,
            bytes: (bits / 8) as u32,
            payload: (),
        })
        .collect();
    let mut order = Order::new(0, (Duration::MAX, (capacity * BEGIN) as u64));
    let mut flow = Flow::new(THRESHOLDS);
    let mut outcome = Outcome::default();
    let mut sent = Vec::new();
    let (mut credit, mut next) = (0.0, 0);
    for tick in 0.. {
        let now = Time::ZERO + FRAME * tick;
        credit += mean * flow.rate();
        let mut now_sent = 0;
        // A frame is there once its last bit is.
        while let Some(frame) = waiting.front()
            && credit >= f64::from(frame.bytes) * 8.0
        {
            credit -= f64::from(frame.bytes) * 8.0;
            if let Some(frame) = waiting.pop_front() {
                order.arrive(next, frame);
                next += 1;
            }
        }
        now_sent += (mean * flow.rate()) as u64;
        if waiting.is_empty() {
            break;
        }
        sent.push(now_sent);
        order.advance(now, drop);
        let held = order.bytes() as f64 + credit / 8.0;
        outcome.fullest = outcome.fullest.max(held / capacity);
        if order.is_playing() && u64::from(tick).is_multiple_of(LOOK_EVERY) {
            flow.sample(held / capacity, 1.0);
        }
    }
    outcome.deviation = deviation(&sent);
    outcome.starved = order.played().starved;
    outcome.changes = flow.changes();
    outcome.seconds = sent.len() as f64 * FRAME.as_secs_f64();
    outcome
}

/// Of the rate, in megabits per second, of bits in each frame.
fn deviation(bits: &[u64]) -> f64 {
    let span = BIN as f64 * FRAME.as_secs_f64();
    let rate = |bin: &[u64]| bin.iter().sum::<u64>() as f64 / span / 1e6;
    let rates: Vec<f64> = bits.chunks_exact(BIN).map(rate).collect();
    let count = rates.len().max(1) as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let square = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
    square.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_film_is_sent_as_it_is() {
        let trace = Kind::High.trace();
        let frames = trace.frames.len() as u64 * 300;
        let outcome = play(&trace, frames, Duration::from_secs(4));
        assert_eq!((outcome.starved, outcome.changes), (0, 0));
        assert!(outcome.deviation < 0.01, "{outcome:?}");
    }

    #[test]
    fn a_deeper_buffer_smooths_a_dvd_more_and_nobody_starves() {
        let trace = Kind::Dvd.trace();
        let frames = trace.frames.len() as u64;
        let play = |seconds| play(&trace, frames, Duration::from_secs(seconds));
        let (shallow, deep) = (play(16), play(48));
        assert!(deep.deviation < shallow.deviation, "{shallow:?} {deep:?}");
        assert_eq!(deep.starved, 0);
        assert!(deep.fullest <= 1.0, "{deep:?}");
    }
}
