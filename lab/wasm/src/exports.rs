//! What the page calls.
//!
//! The last run is kept here: a page has one thread. Receivers are numbered as in [`RECEIVERS`].
#![allow(
    unsafe_code,
    reason = "a name that the page can call; there is no block of it"
)]

use core::cell::{Cell, RefCell};

use crate::network::{Network, PACKETS_MAX};
use crate::timeline::{Fate, RECEIVERS, Timeline};

thread_local! {
    static RUN: RefCell<Vec<Timeline>> = const { RefCell::new(Vec::new()) };
    static ROUTE: Cell<(u32, f64)> = const { Cell::new((0, 0.0)) };
}

/// Who chooses the path of each packet, as numbered in [`METHODS`](crate::METHODS), and how many
/// milliseconds congestion adds to a path; for the next [`run`].
#[unsafe(no_mangle)]
pub extern "C" fn route(method: u32, congestion_ms: f64) {
    ROUTE.set((method, congestion_ms));
}

/// Runs all receivers behind one network; loss in percent. Returns the number of packets.
#[unsafe(no_mangle)]
pub extern "C" fn run(seed: u32, jitter_ms: f64, loss: f64, paths: u32, packets: u32) -> u32 {
    let (method, congestion_ms) = ROUTE.get();
    let network = Network {
        seed: u64::from(seed),
        jitter_ms,
        loss: loss / 100.0,
        paths,
        packets: packets.min(PACKETS_MAX),
        congestion_ms,
        method,
    };
    let timelines = RECEIVERS.map(|kind| Timeline::of(kind, &network));
    RUN.with_borrow_mut(|run| *run = timelines.into());
    network.packets
}

/// A moment of a packet in milliseconds since the first was sent: 0 when it came, 1 when it was
/// released, 2 when it was played. Not a number if it never was.
#[unsafe(no_mangle)]
pub extern "C" fn moment(receiver: u32, packet: u32, which: u32) -> f64 {
    let read = |fate: &Fate| match which {
        0 => fate.arrived,
        1 => fate.released,
        _ => fate.played,
    };
    RUN.with_borrow(|run| {
        let timeline = run.get(receiver as usize)?;
        let us = read(timeline.fates.get(packet as usize)?)?;
        Some(us as f64 / 1_000.0)
    })
    .unwrap_or(f64::NAN)
}

/// A number of a receiver's run: 0 mean release delay in ms, 1 mean playout delay in ms, 2 late
/// packets in percent, 3 concealed time in ms.
#[unsafe(no_mangle)]
pub extern "C" fn summary(receiver: u32, which: u32) -> f64 {
    RUN.with_borrow(|run| {
        let timeline = run.get(receiver as usize)?;
        let [release, playout, late] = timeline.summary();
        Some(match which {
            0 => release,
            1 => playout,
            2 => late * 100.0,
            _ => timeline.concealed_us as f64 / 1_000.0,
        })
    })
    .unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_what_it_ran_and_nothing_else() {
        assert_eq!(run(1, 5.0, 0.0, 2, 200), 200);
        assert!(moment(3, 0, 0) >= 40.0);
        let released = |packet: &u32| !moment(3, *packet, 1).is_nan();
        let all: Vec<_> = (0..200).filter(released).collect();
        assert!(all.len() > 150, "{}", all.len());
        assert!(
            all.iter()
                .all(|packet| moment(3, *packet, 2) >= moment(3, *packet, 1))
        );
        assert!(summary(3, 1) >= summary(3, 0));
        assert!(moment(4, 0, 0).is_nan() && moment(0, 200, 0).is_nan() && summary(9, 0).is_nan());
    }
}
