//! Which simulcast layer a subscriber's path carries.

use std::time::Duration;

use sangam_model::Time;

use crate::offer::LAYERS_MAX;

/// Rates are measured over so long.
const WINDOW: Duration = Duration::from_secs(1);
/// How much more the next layer needs as long as nobody has measured it.
const STEP: u64 = 3;
/// A part of the estimate stays free for repetitions and what the estimate errs by.
const SHARE_PERCENT: u64 = 85;
/// A layer is left only if it is too much for so long: one bad estimate is no reason.
const PATIENCE: Duration = Duration::from_millis(800);
/// The wait before a layer is tried; it doubles with every failure.
const WAIT: Duration = Duration::from_secs(2);
const WAIT_MAX: Duration = Duration::from_secs(60);
/// A layer that was held so long was no failure.
const HELD: Duration = Duration::from_secs(10);
/// Pixels that the lowest layer is thought to be high until one has told; each has twice those of
/// the one below.
const LOWEST_HEIGHT: u16 = 180;
/// A layer that is subscribed to and does not come within this is not there.
const COMES_WITHIN: Duration = Duration::from_secs(2);

/// The layers of one video, and the place of one subscriber on them.
#[derive(Debug)]
pub(crate) struct Ladder {
    /// What is sent, and since when.
    at: u8,
    since: Time,
    wanted: u8,
    /// Bits per second of each layer when it was last sent; 0 if unknown.
    rates: [u64; LAYERS_MAX],
    meter: Meter,
    /// Since when the present layer is too much.
    scarce: Option<Time>,
    wait: Duration,
    /// When the wanted layer was subscribed to.
    tried: Option<Time>,
    /// Layers from here up are not there; until when that is believed.
    absent: Option<(u8, Time)>,
    /// Pixels that the picture of each layer is high; 0 if unknown.
    heights: [u16; LAYERS_MAX],
    /// How high it is shown: the lowest layer that is as high is enough.
    shown: u16,
}

#[derive(Debug)]
struct Meter {
    since: Time,
    bytes: u64,
    rate: u64,
}

impl Ladder {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            at: 0,
            since: now,
            wanted: 0,
            rates: [0; LAYERS_MAX],
            meter: Meter {
                since: now,
                bytes: 0,
                rate: 0,
            },
            scarce: None,
            wait: WAIT,
            tried: None,
            absent: None,
            heights: [0; LAYERS_MAX],
            shown: u16::MAX,
        }
    }

    /// The layer to be sent.
    pub(crate) fn wanted(&self) -> u8 {
        self.wanted
    }

    /// Its picture is shown so high, in pixels.
    pub(crate) fn show(&mut self, height: u16) {
        self.shown = height;
        self.limit();
    }

    /// The picture of a layer is so high, in pixels.
    pub(crate) fn learn(&mut self, layer: u8, height: u16) {
        if let Some(known) = self.heights.get_mut(usize::from(layer)) {
            *known = height;
            self.limit();
        }
    }

    /// The highest layer that there is use for.
    fn top(&self) -> u8 {
        let (mut below, mut top) = (LOWEST_HEIGHT / 2, 0);
        for (layer, known) in (0..).zip(self.heights) {
            let height = match known {
                0 => below.saturating_mul(2),
                known => known,
            };
            top = layer;
            if height >= self.shown {
                break;
            }
            below = height;
        }
        top
    }

    /// Goes down at once from a layer that is more than there is use for; not a failure of it.
    fn limit(&mut self) {
        let top = self.top();
        if self.wanted > top {
            self.wanted = top;
            self.scarce = None;
            self.tried = None;
        }
    }

    /// Nothing is sent any more; if anything is again, it begins with the lowest layer.
    pub(crate) fn rest(&mut self, now: Time) {
        self.reached(0, now);
        self.meter.rate = 0;
        self.wanted = 0;
        self.tried = None;
    }

    /// A layer is there to be sent.
    pub(crate) fn came(&mut self, layer: u8) {
        if layer == self.wanted {
            self.tried = None;
        }
    }

    /// A layer has ended.
    pub(crate) fn went(&mut self, layer: u8) {
        if layer > 0 && layer <= self.wanted {
            self.wanted = layer - 1;
        }
    }

    /// A layer is sent from now on.
    pub(crate) fn reached(&mut self, layer: u8, now: Time) {
        self.at = layer;
        self.since = now;
        self.scarce = None;
        self.meter = Meter {
            since: now,
            bytes: 0,
            rate: self.known(layer),
        };
    }

    /// So many bytes of the present layer were sent.
    pub(crate) fn sent(&mut self, bytes: usize, now: Time) {
        self.meter.bytes += bytes as u64;
        let passed = now - self.meter.since;
        if passed >= WINDOW {
            self.meter.rate = self.meter.bytes * 8_000_000 / passed.as_micros().max(1) as u64;
            self.meter.bytes = 0;
            self.meter.since = now;
            if let Some(known) = self.rates.get_mut(usize::from(self.at)) {
                *known = self.meter.rate;
            }
        }
    }

    /// Bits per second of what is sent; 0 if that has stopped.
    pub(crate) fn rate(&self, now: Time) -> u64 {
        if now - self.meter.since > 2 * WINDOW {
            return 0;
        }
        self.meter.rate
    }

    /// Bits per second that the next layer needs, and some more to find out whether it fits.
    pub(crate) fn desired(&self, now: Time) -> u64 {
        let next = self.next(now).map_or(0, |layer| self.expected(layer));
        next.max(self.meter.rate) * 3 / 2
    }

    /// The path carries so many bits per second for this video: decides what is wanted.
    pub(crate) fn available(&mut self, bits_per_s: u64, now: Time) {
        let usable = bits_per_s / 100 * SHARE_PERCENT;
        if self.wanted > self.at {
            self.give_up_if_absent(now);
            if bits_per_s < self.expected(self.at) {
                self.fall(now);
            }
            return;
        }
        if self.wanted < self.at {
            return;
        }
        if self.at > 0 && bits_per_s < self.meter.rate {
            let since = *self.scarce.get_or_insert(now);
            if now - since >= PATIENCE {
                self.fall(now);
            }
            return;
        }
        self.scarce = None;
        if now - self.since >= HELD {
            self.wait = WAIT;
        }
        let rested = now - self.since >= self.wait;
        if let Some(next) = self.next(now).filter(|_| rested && self.meter.rate > 0)
            && usable >= self.expected(next)
        {
            self.wanted = next;
        }
    }

    /// Whether the wanted layer is to be subscribed to now.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        if self.tried.is_some() {
            return false;
        }
        self.tried = Some(now);
        true
    }

    fn give_up_if_absent(&mut self, now: Time) {
        if self.tried.is_some_and(|tried| now - tried >= COMES_WITHIN) {
            self.absent = Some((self.wanted, now + WAIT_MAX / 2));
            self.tried = None;
            self.wanted = self.at;
        }
    }

    fn fall(&mut self, now: Time) {
        self.wanted = self.at.saturating_sub(u8::from(self.wanted <= self.at));
        self.wait = (self.wait * 2).min(WAIT_MAX);
        self.scarce = None;
        self.tried = None;
        self.since = now;
    }

    /// The layer above, if it may be there.
    fn next(&self, now: Time) -> Option<u8> {
        let next = self.at + 1;
        let there = match self.absent {
            Some((from, until)) => next < from || now >= until,
            None => true,
        };
        (there && next <= self.top()).then_some(next)
    }

    fn known(&self, layer: u8) -> u64 {
        self.rates.get(usize::from(layer)).copied().unwrap_or(0)
    }

    fn expected(&self, layer: u8) -> u64 {
        match self.known(layer) {
            0 if layer > 0 => self.expected(layer - 1) * STEP,
            rate => rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KBIT: u64 = 1_000;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// A ladder on which this layer was sent at `kbps` for three seconds, until 3,000 ms.
    fn ladder(layer: u8, kbps: u64) -> Ladder {
        let mut ladder = Ladder::new(at(0));
        ladder.wanted = layer;
        ladder.reached(layer, at(0));
        send(&mut ladder, kbps, 0..3_000);
        ladder
    }

    fn send(ladder: &mut Ladder, kbps: u64, ms: std::ops::Range<u64>) {
        for ms in ms.step_by(100) {
            ladder.sent((kbps * 100 / 8) as usize, at(ms + 100));
        }
    }

    #[test]
    fn a_path_with_room_leads_up_and_a_narrow_one_does_not() {
        let mut wide = ladder(0, 150);
        wide.available(1_000 * KBIT, at(3_000));
        assert_eq!(wide.wanted(), 1);
        assert!(wide.is_due(at(3_000)) && !wide.is_due(at(3_001)));
        let mut narrow = ladder(0, 150);
        narrow.available(500 * KBIT, at(3_000));
        assert_eq!(narrow.wanted(), 0, "three times 150 and a reserve are more");
    }

    #[test]
    fn a_layer_that_is_not_there_is_given_up_for_a_while() {
        let mut ladder = ladder(0, 150);
        ladder.available(9_000 * KBIT, at(3_000));
        assert!(ladder.is_due(at(3_000)));
        ladder.available(9_000 * KBIT, at(5_100));
        assert_eq!(ladder.wanted(), 0);
        send(&mut ladder, 150, 3_000..40_000);
        ladder.available(9_000 * KBIT, at(20_000));
        assert_eq!(ladder.wanted(), 0, "still believed");
        ladder.available(9_000 * KBIT, at(40_000));
        assert_eq!(ladder.wanted(), 1, "tried again");
    }

    #[test]
    fn one_bad_estimate_is_no_reason_and_a_bad_second_is() {
        let mut ladder = ladder(1, 600);
        ladder.available(300 * KBIT, at(3_000));
        ladder.available(2_000 * KBIT, at(3_100));
        ladder.available(300 * KBIT, at(3_200));
        ladder.available(300 * KBIT, at(3_900));
        assert_eq!(ladder.wanted(), 1);
        ladder.available(300 * KBIT, at(4_000));
        assert_eq!(ladder.wanted(), 0);
    }

    #[test]
    fn every_failure_doubles_the_wait() {
        let mut ladder = ladder(1, 600);
        ladder.available(300 * KBIT, at(3_000));
        ladder.available(300 * KBIT, at(3_900));
        ladder.reached(0, at(4_000));
        send(&mut ladder, 150, 4_000..9_000);
        ladder.available(2_000 * KBIT, at(7_900));
        assert_eq!(ladder.wanted(), 0, "not before four seconds");
        ladder.available(2_000 * KBIT, at(8_000));
        assert_eq!(ladder.wanted(), 1);
    }

    #[test]
    fn what_is_shown_small_needs_no_high_layer() {
        let mut ladder = ladder(2, 2_000);
        ladder.show(300);
        assert_eq!(ladder.wanted(), 1, "360 lines, as long as nobody knows");
        ladder.reached(1, at(3_000));
        send(&mut ladder, 500, 3_000..9_000);
        ladder.available(90_000 * KBIT, at(9_000));
        assert_eq!((ladder.wanted(), ladder.next(at(9_000))), (1, None));
        ladder.learn(1, 270);
        ladder.available(90_000 * KBIT, at(9_100));
        assert_eq!(ladder.wanted(), 2, "and 540 once it is known");
        ladder.learn(0, 300);
        assert_eq!(ladder.wanted(), 0);
    }

    #[test]
    fn pictures_higher_than_all_layers_are_shown_by_the_highest() {
        let mut ladder = ladder(1, 500);
        ladder.show(u16::MAX);
        ladder.learn(0, u16::MAX / 2 + 1);
        assert_eq!(usize::from(ladder.top()), 1);
        ladder.learn(0, 10);
        assert_eq!(usize::from(ladder.top()), LAYERS_MAX - 1);
    }

    #[test]
    fn a_layer_that_ends_leaves_the_one_below() {
        let mut ladder = ladder(2, 2_000);
        ladder.went(2);
        assert_eq!(ladder.wanted(), 1);
        ladder.went(0);
        assert_eq!(ladder.wanted(), 1, "the lowest comes again or all end");
    }
}
