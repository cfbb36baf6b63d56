//! Links to those members that are nearest by measurement, besides the planned ones.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sangam_model::{BrokerId, Time};
use sangam_route::nearest;

/// The nearest of the region that a broker is linked with.
const NEAR: usize = 2;
/// The nearest of the heads of other regions that a head is linked with.
const FAR: usize = 1;
/// Brokers asked for one after another, before control looks again.
pub(super) const AT_ONCE: usize = 8;
/// A measurement is repeated after so long.
const FRESH: Duration = Duration::from_secs(600);

/// What a broker has measured of others.
#[derive(Debug, Default)]
pub(super) struct Nearest {
    /// Round trips and when they were measured; `None` where nobody answered.
    rtts: BTreeMap<BrokerId, (Option<Duration>, Time)>,
    /// Asked for, and not answered yet.
    asked: BTreeSet<BrokerId>,
    /// Linked with as they are near: in the region, and of other regions.
    chosen: [BTreeSet<BrokerId>; 2],
}

impl Nearest {
    /// Whom to measure now, of these: whom nobody has measured first, and nobody twice at once. The
    /// caller says what became of each.
    pub(super) fn due(&mut self, now: Time, candidates: &BTreeSet<BrokerId>) -> Vec<BrokerId> {
        self.rtts.retain(|id, _| candidates.contains(id));
        self.asked.retain(|id| candidates.contains(id));
        if !self.asked.is_empty() {
            return Vec::new();
        }
        let measured = |id: &BrokerId| self.rtts.get(id).map(|(_, at)| *at);
        let is_due = |id: &&BrokerId| measured(id).is_none_or(|at| now - at >= FRESH);
        let mut due: Vec<BrokerId> = candidates.iter().filter(is_due).copied().collect();
        due.sort_by_key(measured);
        due.truncate(AT_ONCE);
        self.asked.extend(&due);
        due
    }

    /// It could not be asked for: it is due again.
    pub(super) fn not_asked(&mut self, id: BrokerId) {
        self.asked.remove(&id);
    }

    /// The answer; `None` if the broker did not.
    pub(super) fn measured(&mut self, now: Time, id: BrokerId, rtt: Option<Duration>) {
        if self.asked.remove(&id) {
            self.rtts.insert(id, (rtt, now));
        }
    }

    /// Those to be linked with besides the planned ones, of the candidates in the region and of
    /// those in others. Nobody is chosen before every planned one is measured.
    pub(super) fn choose(
        &mut self,
        planned: &BTreeSet<BrokerId>,
        candidates: &[BTreeSet<BrokerId>; 2],
    ) -> BTreeSet<BrokerId> {
        let mut all = BTreeSet::new();
        let kinds = self.chosen.iter_mut().zip(candidates).zip([NEAR, FAR]);
        for ((chosen, candidates), count) in kinds {
            chosen.retain(|id| candidates.contains(id));
            let planned: BTreeSet<BrokerId> = planned.intersection(candidates).copied().collect();
            if planned.iter().all(|id| self.rtts.contains_key(id)) {
                let known = candidates.iter().filter_map(|id| {
                    let (rtt, _) = self.rtts.get(id)?;
                    Some((*id, (*rtt)?))
                });
                *chosen = nearest(&known.collect(), &planned, chosen, count);
            }
            all.extend(chosen.iter());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(all: impl IntoIterator<Item = u32>) -> BTreeSet<BrokerId> {
        all.into_iter().map(BrokerId).collect()
    }

    fn after(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// Answers what is due until nothing is: each broker is as many milliseconds away as its id
    /// says, and odd ones do not answer above 100.
    fn measure(nearest: &mut Nearest, now: Time, candidates: &BTreeSet<BrokerId>) -> usize {
        let mut count = 0;
        loop {
            let due = nearest.due(now, candidates);
            assert!(due.len() <= AT_ONCE);
            if due.is_empty() {
                return count;
            }
            assert!(
                nearest.due(now, candidates).is_empty(),
                "they are under way"
            );
            count += due.len();
            for id in due {
                let rtt = Duration::from_millis(id.0.into());
                let answers = id.0 < 100 || id.0.is_multiple_of(2);
                nearest.measured(now, id, answers.then_some(rtt));
            }
        }
    }

    #[test]
    fn everybody_is_measured_once_and_again_when_that_is_old() {
        let mut nearest = Nearest::default();
        let some = ids(1..=20);
        assert_eq!(measure(&mut nearest, after(1), &some), 20);
        let more = ids(1..=22);
        assert_eq!(measure(&mut nearest, after(300), &more), 2);
        assert_eq!(measure(&mut nearest, after(601), &more), 20);
        assert_eq!(measure(&mut nearest, after(602), &more), 0);
    }

    #[test]
    fn the_nearest_of_the_region_and_of_other_heads_are_chosen() {
        let mut nearest = Nearest::default();
        let candidates = [ids(10..30), ids(60..70)];
        let planned = ids([25, 28, 66, 69]);
        assert_eq!(nearest.choose(&planned, &candidates), ids([]));
        let all: BTreeSet<_> = candidates.iter().flatten().copied().collect();
        measure(&mut nearest, after(1), &all);
        assert_eq!(nearest.choose(&planned, &candidates), ids([10, 11]));
        let distant = [ids([]), ids([40, 66, 69])];
        measure(&mut nearest, after(2), &ids([40, 66, 69]));
        assert_eq!(nearest.choose(&planned, &distant), ids([40]));
    }

    #[test]
    fn a_planned_one_that_nobody_could_measure_is_no_obstacle() {
        let mut nearest = Nearest::default();
        let candidates = [ids([10, 90, 101]), ids([])];
        measure(&mut nearest, after(1), &candidates[0]);
        let chosen = nearest.choose(&ids([90, 101]), &candidates);
        assert_eq!(chosen, ids([10]));
    }

    #[test]
    fn who_could_not_be_asked_for_is_due_again() {
        let mut nearest = Nearest::default();
        let candidates = ids([1, 2]);
        assert_eq!(nearest.due(after(1), &candidates).len(), 2);
        nearest.not_asked(BrokerId(1));
        nearest.measured(after(1), BrokerId(2), None);
        assert_eq!(nearest.due(after(2), &candidates), [BrokerId(1)]);
    }

    #[test]
    fn an_answer_that_nobody_waits_for_is_not_kept() {
        let mut nearest = Nearest::default();
        let candidates = [ids([1, 2]), ids([])];
        nearest.due(after(1), &candidates[0]);
        // It left before it answered.
        nearest.due(after(1), &ids([2]));
        nearest.measured(after(1), BrokerId(1), Some(Duration::ZERO));
        assert!(!nearest.rtts.contains_key(&BrokerId(1)));
    }
}
