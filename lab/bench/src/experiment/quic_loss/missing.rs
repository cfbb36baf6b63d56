//! What a receiver misses of a stream, and when it asks for it.

use std::collections::BTreeMap;
use std::time::Duration;

use sangam_model::Time;
use sangam_wire::feedback::Nack;

/// A round trip, and half of one.
const AGAIN: Duration = Duration::from_millis(150);
/// Nobody waits longer for a packet.
const OLD: Duration = Duration::from_secs(1);
/// A jump by more is no loss but another beginning.
const JUMP_MAX: u32 = 1_000;

/// Packets of one stream that have not come, by number.
#[derive(Debug, Default)]
pub(super) struct Missing {
    next: Option<u32>,
    packets: BTreeMap<u32, Wanted>,
}

#[derive(Debug)]
struct Wanted {
    since: Time,
    asked: Option<Time>,
}

impl Missing {
    /// A packet of this number has come.
    pub(super) fn take(&mut self, number: u32, now: Time) {
        self.packets.remove(&number);
        let next = *self.next.get_or_insert(number);
        if number < next {
            return;
        }
        if number - next <= JUMP_MAX {
            let wanted = || Wanted {
                since: now,
                asked: None,
            };
            self.packets
                .extend((next..number).map(|missed| (missed, wanted())));
        }
        self.next = Some(number + 1);
    }

    /// What is to be asked for now; each packet again after [`AGAIN`].
    pub(super) fn due(&mut self, now: Time) -> Vec<Nack> {
        self.packets.retain(|_, wanted| now - wanted.since < OLD);
        let mut nacks: Vec<(u32, Nack)> = Vec::new();
        for (number, wanted) in &mut self.packets {
            if wanted.asked.is_some_and(|asked| now - asked < AGAIN) {
                continue;
            }
            wanted.asked = Some(now);
            match nacks.last_mut() {
                Some((first, nack)) if number - *first <= 16 => {
                    nack.also |= 1 << (number - *first - 1);
                }
                _ => nacks.push((
                    *number,
                    Nack {
                        first: *number as u16,
                        also: 0,
                    },
                )),
            }
        }
        nacks.into_iter().map(|(_, nack)| nack).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn what_is_missed_is_asked_for_again_until_it_comes_or_is_old() {
        let mut missing = Missing::default();
        for number in [65_530, 65_531, 65_538, 65_560] {
            missing.take(number, at(10));
        }
        missing.take(65_537, at(11));
        let first = missing.due(at(12));
        let numbers: Vec<u16> = first.iter().map(|nack| nack.first).collect();
        assert_eq!(
            numbers,
            [65_532, 13],
            "sixteen behind the first, then the rest"
        );
        assert_eq!(first[0].also, 0b1111 | 0xffc0, "not 65,537 and 65,538");
        assert_eq!(missing.due(at(100)), [], "an answer takes a round trip");
        assert_eq!(missing.due(at(162)), first);
        assert_eq!(missing.due(at(1_010)), [], "too old");
    }

    #[test]
    fn nothing_is_missed_before_the_first_packet_or_over_a_new_beginning() {
        let mut missing = Missing::default();
        missing.take(500, at(1));
        missing.take(9_000, at(2));
        missing.take(499, at(3));
        assert_eq!(missing.due(at(4)), []);
    }
}
