//! Calls to brokers that were there and cannot be reached: from time to time, until one answers.
//!
//! When a network is cut each part believes the other gone. Both call, a few at once, for a
//! moment, and rest longer each time, each broker at moments of its own: however large the parts
//! are, nobody is called by more than those who would be its neighbours.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use sangam_model::{BrokerId, Time, hash};

use crate::command::LaneCommand;
use crate::config::Neighbour;

/// Brokers that are called at once.
const AT_ONCE: usize = 4;
/// A call takes so long for each way: as long as the lane is patient with a connection.
const EACH_WAY: Duration = Duration::from_secs(3);
/// The pause after the first call; it doubles with each.
const PAUSE: Duration = Duration::from_secs(2);
/// And is never longer.
const PAUSE_MAX: Duration = Duration::from_secs(32);

/// Brokers to call, by their first address.
#[derive(Debug)]
pub(super) struct Calls {
    own: BrokerId,
    calls: BTreeMap<SocketAddr, Call>,
}

#[derive(Debug)]
struct Call {
    /// The lane dials.
    under_way: bool,
    /// When that, or the pause, is over.
    until: Time,
    /// Calls that nobody took, in a row.
    failed: u32,
}

impl Calls {
    pub(super) fn new(own: BrokerId) -> Self {
        Self {
            own,
            calls: BTreeMap::new(),
        }
    }

    /// A link has come up; whether it was called for.
    pub(super) fn answered(&mut self, home: SocketAddr) -> bool {
        let call = self.calls.remove(&home);
        call.is_some_and(|call| call.under_way)
    }

    /// What the lane shall do now that these are to be called, and nobody else.
    pub(super) fn plan(&mut self, now: Time, lost: &[Neighbour]) -> Vec<LaneCommand> {
        let lost = lost.iter().filter_map(|one| Some((one.home()?, one)));
        let lost: BTreeMap<SocketAddr, &Neighbour> = lost.collect();
        let mut commands = self.forget_all_but(&lost);
        let own = self.own;
        for (home, call) in &mut self.calls {
            if call.under_way && now >= call.until {
                call.under_way = false;
                call.until = now + pause(own, *home, call.failed);
                call.failed = call.failed.saturating_add(1);
                commands.push(LaneCommand::HangUp(*home));
            }
        }
        for home in lost.keys() {
            self.calls.entry(*home).or_insert(Call {
                under_way: false,
                until: now,
                failed: 0,
            });
        }
        let under_way = self.calls.values().filter(|call| call.under_way).count();
        let idle = self.calls.iter_mut().filter(|(_, call)| !call.under_way);
        let mut due: Vec<_> = idle.filter(|(_, call)| now >= call.until).collect();
        // Whoever waits longest comes first.
        due.sort_by_key(|(_, call)| call.until);
        for (home, call) in due.into_iter().take(AT_ONCE.saturating_sub(under_way)) {
            let Some(neighbour) = lost.get(home) else {
                continue;
            };
            let ways = u32::try_from(neighbour.ways.len()).unwrap_or(u32::MAX);
            call.under_way = true;
            call.until = now + EACH_WAY.saturating_mul(ways);
            commands.push(LaneCommand::Dial((*neighbour).clone()));
        }
        commands
    }

    fn forget_all_but(&mut self, lost: &BTreeMap<SocketAddr, &Neighbour>) -> Vec<LaneCommand> {
        let mut over = Vec::new();
        self.calls.retain(|home, call| {
            let stays = lost.contains_key(home);
            if !stays && call.under_way {
                over.push(LaneCommand::HangUp(*home));
            }
            stays
        });
        over
    }
}

/// The pause after so many calls before: three quarters to five quarters of what is doubled, so
/// that brokers that lost each other at one moment do not call at one moment.
fn pause(own: BrokerId, home: SocketAddr, failed: u32) -> Duration {
    let whole = PAUSE.saturating_mul(1 << failed.min(8)).min(PAUSE_MAX);
    let key = u64::from(own.0) << 32 | u64::from(home.port()) << 8 | u64::from(failed & 0xff);
    let part = hash::fold(key, hash::KEY) % 512;
    whole.mul_f64(0.75 + part as f64 / 1_024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(count: u16) -> Vec<Neighbour> {
        let at = |n: u16| Neighbour::from(SocketAddr::from(([192, 0, 2, 1], 4_600 + n)));
        (0..count).map(at).collect()
    }

    fn homes(lost: &[Neighbour]) -> Vec<SocketAddr> {
        lost.iter().filter_map(Neighbour::home).collect()
    }

    /// Every call there is in so many seconds: when, and whom.
    fn dialled(calls: &mut Calls, lost: &[Neighbour], seconds: u64) -> Vec<(u64, SocketAddr)> {
        let mut all = Vec::new();
        let mut open: Vec<SocketAddr> = Vec::new();
        for second in 0..seconds {
            for command in calls.plan(Time::from_micros(second * 1_000_000), lost) {
                match command {
                    LaneCommand::Dial(neighbour) => {
                        let home = neighbour.home().expect("a way");
                        open.push(home);
                        all.push((second, home));
                    }
                    LaneCommand::HangUp(home) => open.retain(|one| *one != home),
                    other => panic!("{other:?}"),
                }
                assert!(open.len() <= AT_ONCE);
            }
        }
        all
    }

    #[test]
    fn who_does_not_answer_is_called_ever_more_rarely_and_never_given_up() {
        let lost = lost(1);
        let all = dialled(&mut Calls::new(BrokerId(7)), &lost, 3_600);
        assert!((80..=160).contains(&all.len()), "{}", all.len());
        let gaps = all.windows(2).map(|pair| pair[1].0 - pair[0].0);
        assert!(gaps.clone().all(|gap| gap <= 45));
        assert!(gaps.take(2).all(|gap| gap <= 10));
    }

    #[test]
    fn of_many_a_few_are_called_at_once_and_all_in_turn() {
        let lost = lost(100);
        let all = dialled(&mut Calls::new(BrokerId(7)), &lost, 300);
        let mut called: Vec<SocketAddr> = all.into_iter().map(|(_, home)| home).collect();
        assert!(called.len() <= 300 / 3 * AT_ONCE + AT_ONCE);
        called.sort_unstable();
        called.dedup();
        assert_eq!(called, homes(&lost));
    }

    #[test]
    fn who_is_there_again_is_called_no_more() {
        let (lost, now) = (lost(2), Time::ZERO);
        let homes = homes(&lost);
        let mut calls = Calls::new(BrokerId(7));
        assert_eq!(calls.plan(now, &lost).len(), 2);
        assert!(calls.answered(homes[0]));
        // The other one came by itself.
        let commands = calls.plan(now, &[]);
        assert!(matches!(commands[..], [LaneCommand::HangUp(home)] if home == homes[1]));
        assert!(!calls.answered(homes[1]));
    }
}
