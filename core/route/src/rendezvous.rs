//! Choosing brokers by a name, the same everywhere.

use sangam_model::{BrokerId, hash};

/// The `count` brokers that suit a name best, best first.
///
/// Highest random weight (Thaler & Ravishankar, 1998): whoever knows the same brokers chooses the
/// same, and when one comes or goes only the names that it had, or gets, move.
#[must_use]
pub fn rendezvous(
    name: &str,
    brokers: impl IntoIterator<Item = BrokerId>,
    count: usize,
) -> Vec<BrokerId> {
    let name = name.bytes().fold(0, |hash, byte| {
        hash::fold(hash ^ u64::from(byte), hash::KEY)
    });
    let weight = |id: BrokerId| hash::fold(name, hash::KEY ^ u64::from(id.0));
    let mut best: Vec<(u64, BrokerId)> = Vec::with_capacity(count + 1);
    for id in brokers {
        best.push((weight(id), id));
        best.sort_unstable_by(|a, b| b.cmp(a));
        best.truncate(count);
    }
    best.into_iter().map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> impl Iterator<Item = String> {
        (0..1_000).map(|n| format!("acme/session-{n}"))
    }

    #[test]
    fn names_are_spread_evenly() {
        let mut share = [0; 10];
        for name in names() {
            let chosen = rendezvous(&name, (0..10).map(BrokerId), 1);
            share[chosen[0].0 as usize] += 1;
        }
        assert!(share.iter().all(|n| (60..140).contains(n)), "{share:?}");
    }

    #[test]
    fn only_the_names_of_a_broker_that_goes_move() {
        for name in names() {
            let before = rendezvous(&name, (0..10).map(BrokerId), 2);
            let after = rendezvous(&name, (1..10).map(BrokerId), 2);
            if !before.contains(&BrokerId(0)) {
                assert_eq!(before, after);
            }
        }
    }
}
