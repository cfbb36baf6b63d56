//! A broker at 80 %: how many participants that takes, and whether a run was there.

use super::BAD_PERCENT_MAX;
use crate::error::Error;
use crate::load::Load;
use crate::report::{Bound, Verdict};
use crate::scenario::Outcome;

/// How far a broker is loaded, in percent of a core for its busiest thread.
const LOADED: f64 = 80.0;
/// What still counts as that.
const NEAR: [f64; 2] = [70.0, 90.0];
/// The search ends so near.
const NEAR_ENOUGH: f64 = 4.0;
/// How a broker counts that is loaded with more than it can do, at least.
const OVER: f64 = 110.0;
/// Participants the search begins with.
const FIRST: usize = 1_000;
/// More take longer to join than they are worth.
const USERS_MAX: usize = 120_000;
const STEPS: usize = 6;
/// What many participants share makes few look dear: no further in one step.
const GROWTH_MAX: f64 = 4.0;

/// Finds the participants that load a broker to 80 %, by what its busiest thread takes, in percent
/// of a core, with a number of them.
///
/// # Errors
/// Those of `load`, and [`Error::Broker`] if the CPU time cannot be read.
pub(super) fn find(mut load: impl FnMut(usize) -> Result<f64, Error>) -> Result<usize, Error> {
    let mut users = FIRST;
    let mut nearest = (f64::INFINITY, users);
    let mut least_over = usize::MAX;
    for _ in 0..STEPS {
        let percent = load(users)?;
        if percent.is_nan() || percent <= 0.0 {
            let unread = "the broker's CPU time could not be read";
            return Err(Error::Broker(unread.to_owned()));
        }
        let off = (percent - LOADED).abs();
        if off < nearest.0 {
            nearest = (off, users);
        }
        let factor = (LOADED / percent).min(GROWTH_MAX);
        let mut next = ((users as f64 * factor) as usize).clamp(1, USERS_MAX);
        if percent >= OVER {
            least_over = least_over.min(users);
        } else if users < least_over {
            // It may be late before it is loaded so far: as near to that as it goes.
            next = next.min(usize::midpoint(users, least_over));
        }
        if off <= NEAR_ENOUGH || next == users {
            break;
        }
        users = next;
    }
    Ok(nearest.1)
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

/// The same for a search in short runs of `load`: a broker that drops, or is late, is beyond its
/// capacity, however little of a core others on the machine leave to it.
pub(super) fn load_percent(outcome: &Outcome, broker: usize, load: &Load) -> f64 {
    let dropped: f64 = outcome.drops().values().sum();
    let is_over = dropped > 0.0 || outcome.worst_percent_of(load) > BAD_PERCENT_MAX;
    beyond(busiest_percent(outcome, broker), is_over)
}

fn beyond(busiest: f64, is_over: bool) -> f64 {
    match is_over {
        true => busiest.max(OVER),
        false => busiest,
    }
}

/// Holds a run to having been where it was to be.
pub(super) fn check(verdict: &mut Verdict, what: &str, percent: f64) {
    let name = format!("{what}: its busiest thread, in percent of a core");
    verdict.check(name.clone(), percent, Bound::AtLeast(NEAR[0]));
    verdict.check(name, percent, Bound::AtMost(NEAR[1]));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A broker with a cost of its own, and one that falls as participants share more.
    fn cost(users: usize) -> f64 {
        4.0 + 0.6 * (users as f64).powf(0.5)
    }

    #[test]
    fn the_load_is_found_though_many_cost_less_than_few() {
        let users = find(|users| Ok(cost(users))).expect("it is found");
        assert!((cost(users) - LOADED).abs() <= 10.0, "{users}");
    }

    #[test]
    fn a_broker_that_cannot_be_loaded_gets_as_many_as_there_are() {
        let users = find(|users| Ok(users as f64 / 1e5)).expect("it ends");
        assert_eq!(users, USERS_MAX);
    }

    #[test]
    fn a_broker_that_few_overload_gets_fewer() {
        let users = find(|users| Ok(users as f64)).expect("it is found");
        assert_eq!(users, 80);
    }

    #[test]
    fn a_broker_that_gets_too_little_of_a_core_is_not_loaded_ever_more() {
        // Others leave it 70 %: from 10,000 on it drops, and its share says nothing any more.
        let share = |users: usize| (users as f64 / 10_000.0 * 70.0).min(70.0);
        let users = find(|users| Ok(beyond(share(users), users > 10_000)));
        let users = users.expect("it ends");
        assert!((7_000..=10_000).contains(&users), "{users}");
    }

    #[test]
    fn a_broker_that_is_late_below_the_load_gets_nearly_as_many_as_it_serves_in_time() {
        // At 75 % of a core it begins to be late.
        let share = |users: usize| users as f64 / 200.0;
        let users = find(|users| Ok(beyond(share(users), users > 15_000))).expect("it ends");
        assert!((14_000..=15_000).contains(&users), "{users}");
    }

    #[test]
    fn time_that_cannot_be_read_is_an_error() {
        assert!(find(|_| Ok(f64::NAN)).is_err());
    }

    #[test]
    fn a_broker_that_idled_fails_the_verdict() {
        for (percent, passed) in [
            (17.8, false),
            (78.0, true),
            (99.0, false),
            (f64::NAN, false),
        ] {
            let mut verdict = Verdict::default();
            check(&mut verdict, "a loaded broker", percent);
            assert_eq!(verdict.passed, passed, "{percent}");
        }
    }
}
