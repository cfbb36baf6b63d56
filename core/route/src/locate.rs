//! Where a client should go.

use sangam_model::BrokerId;

use crate::rendezvous;

/// Percent of load above which a broker takes clients only if there is no other.
const BUSY: u8 = 80;

/// A broker that may take a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Who.
    pub id: BrokerId,
    /// Where, as its operator calls the place.
    pub region: &'a str,
    /// How busy it is, in percent.
    pub load: u8,
}

/// The best brokers for a client of `session` in `region`, best first, at most `count`.
///
/// Near before far, and those with room before those without. Among equals the session's name
/// decides, so that people of one meeting and region meet at one broker, which each stream then
/// reaches once: Uyar & Fox, section 5, measured what scattering a small meeting costs.
#[must_use]
pub fn locate(
    session: &str,
    region: &str,
    candidates: &[Candidate<'_>],
    count: usize,
) -> Vec<BrokerId> {
    let rank = |one: &Candidate<'_>| (one.load > BUSY, one.region != region);
    let mut best = Vec::new();
    for class in [(false, false), (false, true), (true, false), (true, true)] {
        let of_class = candidates.iter().filter(|one| rank(one) == class);
        best.extend(rendezvous(session, of_class.map(|one| one.id), count));
    }
    best.truncate(count);
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: u32, region: &str, load: u8) -> Candidate<'_> {
        let id = BrokerId(id);
        Candidate { id, region, load }
    }

    #[test]
    fn people_of_one_meeting_and_region_meet_at_one_broker() {
        let all: Vec<_> = (0..8).map(|id| candidate(id, "eu", 10)).collect();
        let mut backwards = all.clone();
        backwards.reverse();
        assert_eq!(
            locate("a/b", "eu", &all, 1),
            locate("a/b", "eu", &backwards, 1)
        );
        let other = (0..50)
            .any(|n| locate(&format!("a/{n}"), "eu", &all, 1) != locate("a/b", "eu", &all, 1));
        assert!(other, "other meetings go elsewhere");
    }

    #[test]
    fn near_comes_before_far_and_room_before_near() {
        let all = [
            candidate(1, "eu", 95),
            candidate(2, "us", 10),
            candidate(3, "eu", 80),
            candidate(4, "us", 99),
        ];
        let order = locate("a/b", "eu", &all, 9);
        assert_eq!(order, [3, 2, 1, 4].map(BrokerId));
        assert_eq!(locate("a/b", "eu", &all, 2).len(), 2);
        assert_eq!(locate("a/b", "eu", &[], 2), []);
    }
}
