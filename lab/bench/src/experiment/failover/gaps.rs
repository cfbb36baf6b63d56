//! What one subscriber noticed of a failure, by what arrived when.

use std::collections::BTreeSet;
use std::time::Duration;

use sangam_model::Time;

use crate::measure::Arrival;

/// A stream's arrivals at one subscriber, in the order they came.
pub(super) struct Log<'a> {
    arrivals: &'a [Arrival],
    /// When something came that had come before.
    again: Vec<Time>,
    /// From one frame to the next.
    interval: Duration,
}

impl<'a> Log<'a> {
    pub(super) fn new(arrivals: &'a [Arrival], interval: Duration) -> Self {
        let mut known = BTreeSet::new();
        let again = arrivals.iter().filter(|a| !known.insert(a.stamp.number));
        Self {
            again: again.map(|arrival| arrival.at).collect(),
            arrivals,
            interval,
        }
    }

    /// The longest time without an event that ended within the span, the stream's own interval
    /// taken off. Silence that outlasts the span counts until its end.
    pub(super) fn gap(&self, from: Time, until: Time) -> Duration {
        let before = self.arrivals.iter().take_while(|arrival| arrival.at < from);
        let mut last = before.last().map_or(from, |arrival| arrival.at);
        let mut longest = Duration::ZERO;
        let ends = self.within(from, until).map(|arrival| arrival.at);
        for at in ends.chain([until]) {
            longest = longest.max(at - last);
            last = at;
        }
        longest.saturating_sub(self.interval)
    }

    /// Packets sent within the span that never came; `None` if nothing came from before or from
    /// after it, so that nobody can tell.
    pub(super) fn lost(&self, from: Time, until: Time) -> Option<u64> {
        let all = || self.arrivals.iter().map(|arrival| arrival.stamp);
        let before = all().filter(|stamp| stamp.sent < from);
        let first = before.map(|stamp| stamp.number).max()?;
        let after = all().filter(|stamp| stamp.sent >= until);
        let last = after.map(|stamp| stamp.number).min()?;
        let numbers = all().map(|stamp| stamp.number);
        let came: BTreeSet<u32> = numbers.filter(|n| (first + 1..last).contains(n)).collect();
        Some(u64::from(last.saturating_sub(first + 1)).saturating_sub(came.len() as u64))
    }

    /// Packets that came again within the span.
    pub(super) fn again(&self, from: Time, until: Time) -> u64 {
        let within = self.again.iter().filter(|at| (from..until).contains(at));
        within.count() as u64
    }

    /// The shortest latency of what arrived within the span, which is the way's; zero if nothing
    /// did.
    pub(super) fn latency(&self, from: Time, until: Time) -> Duration {
        let latencies = self.within(from, until).map(latency);
        latencies.min().unwrap_or_default()
    }

    /// From a moment until the first arrival of something sent after it that took no longer than
    /// `most`.
    pub(super) fn back_after(&self, from: Time, most: Duration) -> Option<Duration> {
        let later = self.arrivals.iter().filter(|a| a.stamp.sent >= from);
        let mut good = later.filter(|arrival| latency(arrival) <= most);
        good.next().map(|arrival| arrival.at - from)
    }

    fn within(&self, from: Time, until: Time) -> impl Iterator<Item = &Arrival> {
        let span = from..until;
        let arrivals = self.arrivals.iter();
        arrivals.filter(move |arrival| span.contains(&arrival.at))
    }
}

fn latency(arrival: &Arrival) -> Duration {
    arrival.at - arrival.stamp.sent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Stamp;

    const MS: Duration = Duration::from_millis(1);

    /// Every 30 ms a packet that takes 10, but for `lost` numbers.
    fn arrivals(lost: core::ops::Range<u32>) -> Vec<Arrival> {
        let numbers = (0..100).filter(|number| !lost.contains(number));
        let arrival = |number: u32| {
            let sent = Time::from_millis(u64::from(number) * 30);
            Arrival {
                stamp: Stamp { sent, number },
                at: sent + MS * 10,
            }
        };
        numbers.map(arrival).collect()
    }

    #[test]
    fn gaps_and_losses_are_those_of_the_span() {
        let arrivals = arrivals(50..60);
        let log = Log::new(&arrivals, MS * 30);
        let at = Time::from_millis;
        assert_eq!(log.gap(at(1_400), at(2_500)), MS * 300);
        assert_eq!(log.lost(at(1_400), at(2_500)), Some(10));
        assert_eq!(log.gap(at(300), at(1_400)), Duration::ZERO);
        assert_eq!(log.lost(at(300), at(1_400)), Some(0));
        assert_eq!(log.lost(at(300), at(4_000)), None);
    }

    #[test]
    fn silence_to_the_end_of_the_span_counts() {
        let arrivals = arrivals(50..100);
        let log = Log::new(&arrivals, MS * 30);
        let at = Time::from_millis;
        assert_eq!(log.gap(at(1_400), at(2_480)), MS * (2_480 - 1_480 - 30));
    }

    #[test]
    fn a_packet_that_comes_twice_is_seen() {
        let mut arrivals = arrivals(0..0);
        arrivals.insert(50, arrivals[49]);
        let log = Log::new(&arrivals, MS * 30);
        assert_eq!(log.again(Time::ZERO, Time::NEVER), 1);
        assert_eq!(log.again(Time::ZERO, Time::from_millis(500)), 0);
    }

    #[test]
    fn the_way_before_is_told_by_its_latency() {
        let arrivals = arrivals(0..0);
        let log = Log::new(&arrivals, MS * 30);
        assert_eq!(log.latency(Time::ZERO, Time::NEVER), MS * 10);
        let from = Time::from_millis(601);
        assert_eq!(log.back_after(from, MS * 12), Some(MS * 39));
        assert_eq!(log.back_after(from, MS * 9), None);
    }
}
