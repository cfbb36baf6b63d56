//! What becomes of each packet in each receiver.

use sangam_jitter::{Config, Input, Kind, Output, Packet, Receiver};
use sangam_model::Time;

use crate::network::{Arrival, Network, PACKETS_MAX, SPACING_US};

/// The receivers of the page, in its order.
pub const RECEIVERS: [Kind; 4] = [Kind::Fixed, Kind::NetEq, Kind::WmJitter, Kind::Ours];

/// After the last packet, until all of them are out.
const END_US: u64 = 10_000_000;

/// One packet, in microseconds since the first was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// When it came, if it did.
    pub arrived: Option<u64>,
    /// When it was handed on, if it was.
    pub released: Option<u64>,
    /// When it was played, if it was.
    pub played: Option<u64>,
}

/// All packets in one receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// By sequence.
    pub fates: Vec<Fate>,
    /// Media time for which there was nothing to play, in microseconds.
    pub concealed_us: u64,
}

impl Timeline {
    /// Runs a receiver behind a network.
    #[must_use]
    pub fn of(kind: Kind, network: &Network) -> Self {
        let arrivals = network.arrivals();
        let mut receiver = Receiver::new(kind, &Config::default());
        let mut timeline = Self {
            fates: vec![Fate::default(); network.packets.min(PACKETS_MAX) as usize],
            concealed_us: 0,
        };
        for arrival in &arrivals {
            timeline.arrive(&mut receiver, *arrival);
        }
        let last = arrivals.last().map_or(0, |arrival| arrival.at_us);
        receiver.handle(Time::from_micros(last + END_US), Input::Timer);
        timeline.read(&mut receiver);
        timeline.concealed_us = receiver.stats().concealed.as_micros() as u64;
        timeline
    }

    /// Mean time from sending to release and to playout of the packets that were, in
    /// milliseconds, and the share of those that came and were not released.
    #[must_use]
    pub fn summary(&self) -> [f64; 3] {
        let came = self
            .fates
            .iter()
            .filter(|fate| fate.arrived.is_some())
            .count();
        let released = self
            .fates
            .iter()
            .filter(|fate| fate.released.is_some())
            .count();
        let late = (came - released) as f64 / came.max(1) as f64;
        [
            self.mean_ms(|fate| fate.released),
            self.mean_ms(|fate| fate.played),
            late,
        ]
    }

    fn mean_ms(&self, moment: impl Fn(&Fate) -> Option<u64>) -> f64 {
        let delay =
            |(seq, fate): (u64, &Fate)| Some(moment(fate)?.saturating_sub(seq * SPACING_US));
        let delays: Vec<u64> = (0..).zip(&self.fates).filter_map(delay).collect();
        delays.iter().sum::<u64>() as f64 / delays.len().max(1) as f64 / 1_000.0
    }

    fn arrive(&mut self, receiver: &mut Receiver, arrival: Arrival) {
        if let Some(fate) = self.fates.get_mut(arrival.seq as usize) {
            fate.arrived = Some(arrival.at_us);
        }
        let packet = Packet {
            seq: arrival.seq,
            sent: Time::from_micros(arrival.seq * SPACING_US),
        };
        receiver.handle(Time::from_micros(arrival.at_us), Input::Packet(packet));
        self.read(receiver);
    }

    fn read(&mut self, receiver: &mut Receiver) {
        while let Some(output) = receiver.poll() {
            let (seq, at, moment): (_, _, fn(&mut Fate) -> &mut Option<u64>) = match output {
                Output::Release { seq, at } => (seq, at, |fate| &mut fate.released),
                Output::Play { seq, at } => (seq, at, |fate| &mut fate.played),
                Output::Conceal { .. } | Output::Discard { .. } => continue,
            };
            if let Some(fate) = self.fates.get_mut(seq as usize) {
                *moment(fate) = Some(at.as_micros());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_receiver_has_its_own_timeline_of_the_same_network() {
        let network = Network {
            seed: 6,
            jitter_ms: 10.0,
            loss: 0.01,
            paths: 2,
            packets: 3_000,
            congestion_ms: 0.0,
            method: 0,
        };
        let timelines = RECEIVERS.map(|kind| Timeline::of(kind, &network));
        let arrived = |timeline: &Timeline| -> Vec<_> {
            timeline.fates.iter().map(|fate| fate.arrived).collect()
        };
        for timeline in &timelines {
            assert_eq!(arrived(timeline), arrived(&timelines[0]));
            let [release, playout, late] = timeline.summary();
            assert!(
                release <= playout && late < 0.2,
                "{release} {playout} {late}"
            );
        }
        let release = |index: usize| timelines[index].summary()[0];
        assert!(release(3) < release(2), "ours releases before WMJitter");
    }
}
