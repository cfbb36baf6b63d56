//! Which kinds of frames were late: a short run has few large ones, and each weighs much.

use std::collections::BTreeMap;

use sangam_model::Time;

use crate::load::Load;

/// Packets of one kind of frame.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    received: u64,
    late: u64,
}

/// A receiver's packets by the number of packets that their frames have.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    /// The frame that is coming: when it was sent, and what has come of it.
    coming: Option<(Time, Kind)>,
    kinds: BTreeMap<u64, Kind>,
}

impl Frames {
    /// Takes a packet. All packets of a frame were sent at one moment.
    pub(super) fn take(&mut self, sent: Time, is_late: bool) {
        if self.coming.is_none_or(|(at, _)| at != sent) {
            self.end();
        }
        let (_, kind) = self.coming.get_or_insert((sent, Kind::default()));
        kind.received += 1;
        kind.late += u64::from(is_late);
    }

    /// Joins what another receiver found.
    pub(super) fn merge(&mut self, other: &Self) {
        self.end();
        let mut other = other.clone();
        other.end();
        for (packets, kind) in other.kinds {
            self.add(packets, kind);
        }
    }

    /// The share of late packets in percent if the frames had come as often as in a whole round
    /// of `load`. A kind that did not come is taken to have fared as the next larger one that
    /// did, or as the largest.
    pub(super) fn late_percent_of(&self, load: &Load) -> f64 {
        let mut all = self.clone();
        all.end();
        let (mut late, mut packets) = (0.0, 0.0);
        for frame in &load.frames {
            let size = u64::from(frame.packets);
            let like = all.kinds.range(size..).next();
            let Some((_, kind)) = like.or_else(|| all.kinds.last_key_value()) else {
                return 0.0;
            };
            packets += size as f64;
            late += size as f64 * kind.late as f64 / kind.received as f64;
        }
        late * 100.0 / packets
    }

    fn end(&mut self) {
        if let Some((_, kind)) = self.coming.take() {
            self.add(kind.received, kind);
        }
    }

    fn add(&mut self, packets: u64, kind: Kind) {
        let known = self.kinds.entry(packets).or_default();
        known.received += kind.received;
        known.late += kind.late;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Media;

    fn round(load: &Load, frames: usize, late: impl Fn(u16) -> bool) -> Frames {
        let mut seen = Frames::default();
        for (number, frame) in (0..).zip(&load.frames[..frames]) {
            for _ in 0..frame.packets {
                seen.take(Time::from_millis(number * 66), late(frame.packets));
            }
        }
        seen
    }

    #[test]
    fn a_whole_round_is_what_it_is() {
        let load = Load::of(Media::Video);
        let large = |packets| packets > 5;
        let (late, all) = load.frames.iter().fold((0.0, 0.0), |(late, all), frame| {
            let packets = f64::from(frame.packets);
            let is_late = large(frame.packets);
            (late + if is_late { packets } else { 0.0 }, all + packets)
        });
        let seen = round(&load, load.frames.len(), large);
        assert!((seen.late_percent_of(&load) - late * 100.0 / all).abs() < 1e-9);
    }

    #[test]
    fn one_large_frame_in_a_short_run_weighs_as_in_a_round() {
        let load = Load::of(Media::Video);
        // The largest frame comes once in the first eight seconds, and three times in a round.
        let seen = round(&load, 120, |packets| packets > 10);
        assert!(seen.late_percent_of(&load) < 0.6);
        let even = Load::of(Media::Audio);
        let seen = round(&even, 1, |_| true);
        assert_eq!(seen.late_percent_of(&even), 100.0);
    }

    #[test]
    fn receivers_are_added_up() {
        let load = Load::of(Media::Audio);
        let mut seen = round(&load, 1, |_| true);
        seen.merge(&round(&load, 1, |_| false));
        assert_eq!(seen.late_percent_of(&load), 50.0);
    }
}
