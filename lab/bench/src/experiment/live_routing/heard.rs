//! What receivers make of packets that came: the same code as in `sangam play` and the simulator.

use std::time::Duration;

use sangam_jitter::{Config, Input, Kind, Output, Packet, Receiver};
use sangam_model::Time;

use crate::measure::Arrival;

/// From one packet to the next, as in the simulator.
pub(super) const STEP: Duration = Duration::from_millis(10);
/// After the last packet, for what receivers still hold.
const END: Duration = Duration::from_secs(60);

/// Means over packets, in milliseconds from departure, and what was never released.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    /// To the subscriber.
    pub(super) transit_ms: f64,
    /// To the decoder.
    pub(super) release_ms: f64,
    /// To the ear.
    pub(super) playout_ms: f64,
    /// Packets that never came or came too late, in percent.
    pub(super) lost_percent: f64,
}

/// Packets that count: from this number to below that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The first.
    pub(super) from: u64,
    /// The one after the last.
    pub(super) until: u64,
}

/// Sums of one receiver over all sessions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    expected: u64,
    transits: (u64, u64),
    releases: (u64, u64),
    playouts: (u64, u64),
}

impl Span {
    fn holds(self, seq: u64) -> bool {
        (self.from..self.until).contains(&seq)
    }
}

impl Sums {
    /// Adds a session that a receiver of this kind heard.
    pub(super) fn listen(&mut self, kind: Kind, arrivals: &[Arrival], span: Span) {
        self.expected += span.until - span.from;
        let Some(first) = arrivals.first() else {
            return;
        };
        // The receiver's clock begins with the media's.
        let before = Time::ZERO + media_time(first.stamp.number.into());
        let origin = Time::ZERO + (first.stamp.sent - before);
        let mut sent = vec![None; span.until as usize];
        let mut receiver = Receiver::new(kind, &Config::default());
        let mut now = Time::ZERO;
        for arrival in arrivals {
            let seq = u64::from(arrival.stamp.number);
            let place = sent.get_mut(seq as usize);
            if let Some(place @ None) = place {
                *place = Some(Time::ZERO + (arrival.stamp.sent - origin));
                if span.holds(seq) {
                    add(&mut self.transits, arrival.at - arrival.stamp.sent);
                }
            }
            now = now.max(Time::ZERO + (arrival.at - origin));
            let packet = Packet {
                seq,
                sent: Time::ZERO + media_time(seq),
            };
            receiver.handle(now, Input::Packet(packet));
            self.drain(&mut receiver, (&sent, span));
        }
        receiver.handle(now + END, Input::Timer);
        self.drain(&mut receiver, (&sent, span));
    }

    fn drain(&mut self, receiver: &mut Receiver, (sent, span): (&[Option<Time>], Span)) {
        while let Some(output) = receiver.poll() {
            let (sum, seq, at) = match output {
                Output::Release { seq, at } => (&mut self.releases, seq, at),
                Output::Play { seq, at } => (&mut self.playouts, seq, at),
                Output::Conceal { .. } | Output::Discard { .. } => continue,
            };
            if let Some(Some(sent)) = sent.get(seq as usize).filter(|_| span.holds(seq)) {
                add(sum, at - *sent);
            }
        }
    }

    /// The means.
    pub(super) fn figures(&self) -> Figures {
        let mean = |(us, count): (u64, u64)| us as f64 / count.max(1) as f64 / 1e3;
        let released = self.releases.1.min(self.expected);
        Figures {
            transit_ms: mean(self.transits),
            release_ms: mean(self.releases),
            playout_ms: mean(self.playouts),
            lost_percent: (self.expected - released) as f64 * 100.0 / self.expected.max(1) as f64,
        }
    }
}

fn media_time(seq: u64) -> Duration {
    Duration::from_micros(seq * STEP.as_micros() as u64)
}

fn add((us, count): &mut (u64, u64), delay: Duration) {
    *us += delay.as_micros() as u64;
    *count += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Stamp;

    /// Packets that leave every 10 ms, 7 s after the clock's origin, and take so many ms.
    fn session(delays: &[Option<u64>]) -> Vec<Arrival> {
        let arrival = |(number, delay): (usize, &Option<u64>)| {
            let sent = Time::from_millis(7_000 + 10 * number as u64);
            let number = number as u32;
            let at = sent + Duration::from_millis((*delay)?);
            Some(Arrival {
                stamp: Stamp { sent, number },
                at,
            })
        };
        let mut all: Vec<Arrival> = delays.iter().enumerate().filter_map(arrival).collect();
        all.sort_by_key(|arrival| arrival.at);
        all
    }

    #[test]
    fn a_calm_session_is_released_as_it_comes_and_a_lost_packet_counts() {
        let mut delays = vec![Some(50); 1_000];
        delays[700] = None;
        delays[100] = None;
        let mut sums = Sums::default();
        let span = Span {
            from: 200,
            until: 1_000,
        };
        sums.listen(Kind::Ours, &session(&delays), span);
        let found = sums.figures();
        assert_eq!(found.transit_ms, 50.0);
        assert!((50.0..51.0).contains(&found.release_ms), "{found:?}");
        assert!(found.playout_ms >= found.release_ms, "{found:?}");
        assert_eq!(found.lost_percent, 0.125);
    }

    #[test]
    fn nothing_heard_is_all_lost() {
        let mut sums = Sums::default();
        sums.listen(Kind::NetEq, &[], Span { from: 0, until: 10 });
        assert_eq!(sums.figures().lost_percent, 100.0);
    }
}
