//! Who is let in: as many as network, processor and disks carry.

use std::fs;
use std::sync::atomic::Ordering;
use std::thread::available_parallelism;
use std::time::Duration;

use sangam_model::Time;

use super::{Place, Totals};

/// How often is measured.
const EVERY: Duration = Duration::from_secs(2);
/// Of all processor time, beyond which nobody more is let in.
const BUSY: f64 = 0.9;
/// Ticks of the kernel's clock in a second (`USER_HZ`, which is 100 everywhere on Linux).
const USER_HZ: f64 = 100.0;

/// What was measured last.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Bits in a second that this node sends at most; `None`: whatever goes.
    limit: Option<u64>,
    /// Everybody is let in, for experiments.
    is_off: bool,
    measured: Time,
    /// Processor seconds of this process, and lateness, when that was.
    used: (f64, u64),
    /// Of all processor time, what this process used since; whether films came late.
    pub(crate) busy: f64,
    is_late: bool,
}

/// What is promised to players of this front.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Booked {
    /// Bits in a second that this node sends of them.
    pub(crate) own: u64,
    /// What is asked for now: from this node, and from each other that takes part.
    pub(crate) wanted: u64,
}

impl Admission {
    /// With a limit in bits per second.
    pub(crate) fn new(limit: Option<u64>, is_off: bool) -> Self {
        Self {
            limit,
            is_off,
            measured: Time::ZERO,
            used: (used(), 0),
            busy: 0.0,
            is_late: false,
        }
    }

    /// Measures, every two seconds.
    pub(crate) fn measure(&mut self, totals: &Totals, now: Time) {
        let passed = now.since(self.measured);
        if passed < EVERY {
            return;
        }
        let (seconds, late) = (used(), totals.late.get() + totals.failed.get());
        if self.measured != Time::ZERO {
            let all = available_parallelism().map_or(1, usize::from) as f64;
            self.busy = (seconds - self.used.0) / passed.as_secs_f64() / all;
            self.is_late = late > self.used.1;
        }
        (self.measured, self.used) = (now, (seconds, late));
    }

    /// Whether a player more is carried here and by others.
    pub(crate) fn admits<'a>(
        &self,
        booked: Booked,
        totals: &Totals,
        mut others: impl Iterator<Item = &'a Place>,
    ) -> bool {
        if self.is_off || booked.wanted == 0 {
            return true;
        }
        let own = booked.own + totals.foreign.load(Ordering::Relaxed) + booked.wanted;
        let fits = self.limit.is_none_or(|limit| own <= limit);
        let others_fit = others.all(|place| {
            let all = place.booked + booked.wanted;
            !place.is_full && place.limit.is_none_or(|limit| all <= limit)
        });
        fits && others_fit && !self.is_full()
    }

    /// What other nodes are told.
    pub(crate) fn tell(&self, place: &mut Place, booked: u64) {
        place.limit = self.limit.filter(|_| !self.is_off);
        place.is_full = self.is_full() && !self.is_off;
        place.booked = booked;
    }

    fn is_full(&self) -> bool {
        self.busy > BUSY || self.is_late
    }
}

fn used() -> f64 {
    let (user, system) = processor();
    user + system
}

/// Processor seconds of this process so far, its own and the kernel's for it (proc(5): fields 14
/// and 15).
pub(crate) fn processor() -> (f64, f64) {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = text.rsplit(')').next().unwrap_or_default();
    let mut fields = rest.split_whitespace().skip(11);
    let mut seconds = || {
        let ticks = fields.next().and_then(|field| field.parse::<u64>().ok());
        ticks.unwrap_or(0) as f64 / USER_HZ
    };
    (seconds(), seconds())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_let_in(admission: &Admission, own: u64, others: &[Place]) -> bool {
        let booked = Booked {
            own,
            wanted: 5_000_000,
        };
        admission.admits(booked, &Totals::default(), others.iter())
    }

    #[test]
    fn nobody_is_let_in_beyond_the_limit_of_any_node() {
        let admission = Admission::new(Some(100_000_000), false);
        assert!(is_let_in(&admission, 95_000_000, &[]));
        assert!(!is_let_in(&admission, 95_000_001, &[]));
        let place = |booked| Place {
            booked,
            limit: Some(20_000_000),
            ..Place::default()
        };
        assert!(is_let_in(&admission, 0, &[place(15_000_000), place(0)]));
        assert!(!is_let_in(&admission, 0, &[place(0), place(15_000_001)]));
        let off = Admission::new(Some(100_000_000), true);
        assert!(is_let_in(&off, u64::MAX / 2, &[place(u64::MAX / 2)]));
    }

    #[test]
    fn a_busy_processor_and_late_films_keep_players_out() {
        let mut admission = Admission::new(None, false);
        let totals = Totals::default();
        admission.measure(&totals, Time::ZERO + EVERY);
        assert!(is_let_in(&admission, u64::MAX / 2, &[]));
        totals.late.one();
        admission.measure(&totals, Time::ZERO + EVERY * 2);
        assert!(!is_let_in(&admission, 0, &[]));
        admission.measure(&totals, Time::ZERO + EVERY * 3);
        assert!(is_let_in(&admission, 0, &[]));
        admission.busy = 0.95;
        assert!(!is_let_in(&admission, 0, &[]));
    }
}
