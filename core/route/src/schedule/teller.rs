//! Which trees brokers must be told: those that changed, and each again now and then.

use core::time::Duration;
use std::collections::BTreeMap;

use sangam_model::{BrokerId, Time};

use super::Tree;

/// A tree that does not change is told again after so long, for brokers that are new and for those
/// that missed it.
pub const REFRESH: Duration = Duration::from_secs(30);

/// What was told, and when.
#[derive(Clone, Debug, Default)]
pub struct Teller {
    told: BTreeMap<BrokerId, (Tree, Time)>,
}

/// What is to be told now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Trees that are not what was told before; those without parents are planned no more.
    pub changed: Vec<Tree>,
    /// Some of those that are: a few at a time, those first that were told longest ago.
    pub again: Vec<Tree>,
}

impl Teller {
    /// Takes all trees of the plan; what is to be told of them. Call it once a second.
    pub fn tell(&mut self, now: Time, trees: Vec<Tree>) -> Told {
        let mut told = Told::default();
        let mut before = core::mem::take(&mut self.told);
        for tree in trees {
            let at = match before.remove(&tree.origin) {
                Some((same, at)) if same == tree => at,
                _ => {
                    told.changed.push(tree.clone());
                    now
                }
            };
            self.told.insert(tree.origin, (tree, at));
        }
        told.changed.extend(before.into_keys().map(|origin| Tree {
            origin,
            parents: Vec::new(),
        }));
        told.again = self.again(now);
        told
    }

    fn again(&mut self, now: Time) -> Vec<Tree> {
        let due = self.told.iter().filter(|(_, (_, at))| now - *at >= REFRESH);
        let mut due: Vec<(Time, BrokerId)> = due.map(|(id, (_, at))| (*at, *id)).collect();
        due.sort_unstable();
        // What changed together is told again one after the other.
        due.truncate(self.told.len().div_ceil(REFRESH.as_secs() as usize));
        let mut again = Vec::with_capacity(due.len());
        for (_, origin) in due {
            if let Some((tree, at)) = self.told.get_mut(&origin) {
                *at = now;
                again.push(tree.clone());
            }
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn tree(origin: u32, parent: u32) -> Tree {
        Tree {
            origin: BrokerId(origin),
            parents: vec![(BrokerId(100), BrokerId(parent))],
        }
    }

    fn plan() -> Vec<Tree> {
        (0..45).map(|origin| tree(origin, 1)).collect()
    }

    #[test]
    fn what_changes_is_told_once_and_what_does_not_is_told_seldom() {
        let (mut teller, mut now) = (Teller::default(), Time::ZERO);
        let first = teller.tell(now, plan());
        assert_eq!((first.changed.len(), first.again.len()), (45, 0));
        let mut other = plan();
        other[7] = tree(7, 2);
        now += SECOND;
        let second = teller.tell(now, other.clone());
        assert_eq!(second.changed, [tree(7, 2)]);
        let mut times = vec![0; 45];
        for _ in 0..600 {
            now += SECOND;
            let told = teller.tell(now, other.clone());
            assert_eq!(told.changed, []);
            assert!(told.again.len() <= 2, "{}", told.again.len());
            for tree in told.again {
                times[tree.origin.0 as usize] += 1;
            }
        }
        // Every 30 s or, waiting for others, a little later.
        assert!(times.iter().all(|n| (11..=20).contains(n)), "{times:?}");
    }

    #[test]
    fn what_is_planned_no_more_is_taken_back_once() {
        let (mut teller, mut now) = (Teller::default(), Time::ZERO);
        teller.tell(now, vec![tree(1, 1), tree(2, 1)]);
        now += SECOND;
        let told = teller.tell(now, vec![tree(1, 1)]);
        assert_eq!(told.changed.len(), 1);
        assert_eq!(told.changed[0].origin, BrokerId(2));
        assert!(told.changed[0].parents.is_empty());
        now += SECOND;
        assert_eq!(teller.tell(now, vec![tree(1, 1)]), Told::default());
    }
}
