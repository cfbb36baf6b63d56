//! `receivers`: what a packet costs in each receiver of `core/jitter`, without its payload.

use std::hint::black_box;
use std::time::Duration;

use sangam_jitter::{Config, Input, Kind, Packet, Receiver};
use sangam_model::Time;

use super::Reports;
use crate::args::Options;
use crate::error::Error;
use crate::process::this_thread_cpu;
use crate::report::{Bound, Report, Row};

/// What routing and jitter may cost together leaves so much to a receiver.
const US_PER_PACKET_MAX: f64 = 0.3;
const PACKETS: u64 = 200_000;
/// The best of so many runs is told: the others were disturbed.
const RUNS: u64 = 5;

/// Spread of the delay in milliseconds, and packets in 10,000 that are lost.
const NETWORKS: [(&str, u64, u64); 3] = [("calm", 1, 0), ("mixed", 60, 100), ("wild", 300, 500)];

/// Measures every receiver behind every network.
pub(super) fn run(_options: &Options) -> Result<Reports, Error> {
    let mut report = Report::new("receivers", "A packet's cost in each receiver, one core");
    for (network, spread_ms, lost) in NETWORKS {
        let arrivals = arrivals(spread_ms, lost);
        for kind in Kind::ALL {
            let us = (0..RUNS)
                .map(|_| us_per_packet(kind, &arrivals))
                .fold(f64::INFINITY, f64::min);
            let row = Row::default()
                .with("receiver", kind.name())
                .with("network", network)
                .with("us_per_packet", us);
            report.ours.push(row);
            let name = format!("us per packet, {kind}, {network}");
            report
                .verdict
                .check(name, us, Bound::AtMost(US_PER_PACKET_MAX));
        }
    }
    report.notes.push(format!(
        "{PACKETS} packets of 10 ms, outputs polled after each, best of {RUNS} runs; calm: in \
         order; mixed: delays of up to 60 ms more and 1 % lost; wild: up to 300 ms and 5 %"
    ));
    Ok(vec![("receivers".to_owned(), report)])
}

fn us_per_packet(kind: Kind, arrivals: &[(Time, Packet)]) -> f64 {
    let mut receiver = Receiver::new(kind, &Config::default());
    let begin = this_thread_cpu();
    for (now, packet) in arrivals {
        receiver.handle(*now, Input::Packet(*packet));
        while let Some(output) = receiver.poll() {
            black_box(output);
        }
    }
    (this_thread_cpu() - begin).as_secs_f64() * 1e6 / arrivals.len() as f64
}

fn arrivals(spread_ms: u64, lost: u64) -> Vec<(Time, Packet)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = move || {
        // Marsaglia: Xorshift RNGs (2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut arrivals = Vec::new();
    for seq in 0..PACKETS {
        let (luck, late_us) = (draw() % 10_000, draw() % (spread_ms * 1_000));
        let sent = Time::from_millis(10 * seq);
        if luck >= lost {
            let at = sent + Duration::from_micros(50_000 + late_us);
            arrivals.push((at, Packet { seq, sent }));
        }
    }
    arrivals.sort_unstable_by_key(|(at, packet)| (*at, packet.seq));
    arrivals
}
