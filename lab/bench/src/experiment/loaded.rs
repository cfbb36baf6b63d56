//! A broker at 80 % of its capacity: how many participants that is, by search.

use super::BAD_PERCENT_MAX;
use crate::error::Error;
use crate::load::Load;
use crate::report::{Bound, Row, Verdict};
use crate::scenario::Outcome;

/// How far a broker is loaded, as a share of the participants it can serve.
const LOADED: f64 = 0.8;
/// What still counts as that, in percent: of those it served, and of those it did not serve.
const NEAR: [f64; 2] = [70.0, 90.0];
/// The search ends when a number that was too many is within this factor of one that was served.
const NEAR_ENOUGH: f64 = 1.1;
/// Participants the search begins with.
const FIRST: usize = 1_000;
/// More take longer to join than they are worth.
const USERS_MAX: usize = 120_000;
const STEPS: usize = 12;
/// What many participants share makes few look dear, and a broker that is late is not always busy:
/// as far as one step goes.
const GROWTH: [f64; 2] = [1.2, 4.0];

/// What a broker did with a number of participants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tried {
    /// What its busiest thread took of a core, in percent.
    pub(super) busiest_percent: f64,
    /// It dropped, or was late or lost for more than 1 % of what somebody was to receive.
    pub(super) is_over: bool,
}

impl Tried {
    /// Judges a short run of `load` at a broker, from 0.
    pub(super) fn of(outcome: &Outcome, broker: usize, load: &Load) -> Self {
        let dropped: f64 = outcome.drops().values().sum();
        Self {
            busiest_percent: busiest_percent(outcome, broker),
            is_over: dropped > 0.0 || outcome.worst_percent_of(load) > BAD_PERCENT_MAX,
        }
    }
}

/// Between which numbers of participants a broker's capacity lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Capacity {
    /// The most that it served.
    served: usize,
    /// The fewest that were too many, twice; none if it served all that were tried.
    over: Option<usize>,
}

impl Capacity {
    /// The participants with which a broker is at 80 % of it.
    pub(super) fn loaded(&self) -> usize {
        let over = self.over.unwrap_or(self.served);
        let middle = usize::midpoint(self.served, over) as f64;
        ((middle * LOADED) as usize).max(1)
    }

    /// Writes both numbers into the row of a loaded run.
    pub(super) fn tell(&self, row: &mut Row) {
        row.set("served_users", self.served);
        if let Some(over) = self.over {
            row.set("overloading_users", over);
        }
    }

    /// Holds a run with `users` participants to having been at 80 %.
    pub(super) fn check(&self, verdict: &mut Verdict, what: &str, users: usize) {
        let percent =
            |of: Option<usize>| of.map_or(f64::NAN, |of| users as f64 * 100.0 / of as f64);
        let name = format!("{what}: in percent of the participants that overload it");
        verdict.check(name, percent(self.over), Bound::AtLeast(NEAR[0]));
        let name = format!("{what}: in percent of the participants that it serves");
        let served = Some(self.served).filter(|&served| served > 0);
        verdict.check(name, percent(served), Bound::AtMost(NEAR[1]));
    }
}

/// Finds a broker's capacity by what it does with a number of participants. What was too much once
/// is tried again: a standstill of the machine is no limit of the broker.
///
/// # Errors
/// Those of `load`, and [`Error::Broker`] if the CPU time cannot be read.
pub(super) fn find(mut load: impl FnMut(usize) -> Result<Tried, Error>) -> Result<Capacity, Error> {
    let mut capacity = Capacity {
        served: 0,
        over: None,
    };
    let mut users = FIRST;
    for _ in 0..STEPS {
        let mut tried = load(users)?;
        if tried.is_over {
            tried = load(users)?;
        }
        if tried.busiest_percent.is_nan() || tried.busiest_percent <= 0.0 {
            let unread = "the broker's CPU time could not be read";
            return Err(Error::Broker(unread.to_owned()));
        }
        match tried.is_over {
            true => capacity.over = Some(users),
            false => capacity.served = users,
        }
        let next = match capacity.over {
            Some(over) => usize::midpoint(capacity.served, over),
            None => {
                let factor = (100.0 / tried.busiest_percent).clamp(GROWTH[0], GROWTH[1]);
                ((users as f64 * factor) as usize).min(USERS_MAX)
            }
        };
        let is_near = |over: usize| over as f64 <= capacity.served as f64 * NEAR_ENOUGH;
        if next == users || capacity.over.is_some_and(is_near) {
            break;
        }
        users = next;
    }
    Ok(capacity)
}

/// What the busiest thread of a broker, from 0, took of a core within the window, in percent; no
/// number if that could not be read.
pub(super) fn busiest_percent(outcome: &Outcome, broker: usize) -> f64 {
    let usage = outcome.usage.get(broker);
    let busiest = usage.and_then(|usage| usage.cpu.threads.values().max());
    busiest.map_or(f64::NAN, |cpu| {
        cpu.as_secs_f64() * 100.0 / outcome.took.as_secs_f64()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A broker that is late from `limit` participants on, and busy by `share` with so many.
    fn broker(limit: usize, share: f64) -> impl FnMut(usize) -> Result<Tried, Error> {
        move |users| {
            Ok(Tried {
                busiest_percent: (users as f64 / limit as f64 * share).clamp(1.0, 99.0),
                is_over: users > limit,
            })
        }
    }

    fn verdict(capacity: &Capacity, users: usize) -> bool {
        let mut verdict = Verdict::default();
        capacity.check(&mut verdict, "a loaded broker", users);
        verdict.passed
    }

    #[test]
    fn the_load_is_found_however_busy_the_broker_is_at_its_limit() {
        for (limit, share) in [
            (15_000, 55.0),
            (30_000, 100.0),
            (200, 100.0),
            (90_000, 20.0),
        ] {
            let capacity = find(broker(limit, share)).expect("it is found");
            let percent = capacity.loaded() as f64 * 100.0 / limit as f64;
            assert!((75.0..=85.0).contains(&percent), "{limit}: {percent}");
            assert!(verdict(&capacity, capacity.loaded()), "{capacity:?}");
        }
    }

    #[test]
    fn a_standstill_is_no_limit() {
        let mut good = broker(20_000, 90.0);
        let mut tried = 0;
        let capacity = find(|users| {
            tried += 1;
            let it = good(users)?;
            let is_over = it.is_over || tried % 3 == 0;
            Ok(Tried { is_over, ..it })
        });
        let loaded = capacity.expect("it is found").loaded();
        assert!((15_000..=17_000).contains(&loaded), "{loaded}");
    }

    #[test]
    fn a_broker_that_cannot_be_loaded_is_not_said_to_be() {
        let capacity = find(broker(1_000_000, 100.0)).expect("it ends");
        assert_eq!(capacity.served, USERS_MAX);
        assert!(!verdict(&capacity, capacity.loaded()));
    }

    #[test]
    fn a_broker_that_serves_nobody_is_not_said_to_be_loaded() {
        let over = |_| {
            Ok(Tried {
                busiest_percent: 50.0,
                is_over: true,
            })
        };
        let capacity = find(over).expect("it ends");
        assert!(!verdict(&capacity, capacity.loaded()), "{capacity:?}");
    }

    #[test]
    fn a_run_with_too_few_or_too_many_fails_the_verdict() {
        let capacity = Capacity {
            served: 10_000,
            over: Some(11_000),
        };
        for (users, passed) in [(7_600, false), (8_400, true), (9_100, false)] {
            assert_eq!(verdict(&capacity, users), passed, "{users}");
        }
    }

    #[test]
    fn time_that_cannot_be_read_is_an_error() {
        let unread = |_| {
            Ok(Tried {
                busiest_percent: f64::NAN,
                is_over: false,
            })
        };
        assert!(find(unread).is_err());
    }
}
