//! Plans of a central scheduler: by which neighbour a broker gets what enters the network at
//! another. They are payloads of events on `$sangam/plan/<scheduler>`; `docs/spec/plans.md`.

use sangam_model::BrokerId;
use sangam_model::limits::BROKERS_PLANNED;

use crate::WireError;
use crate::codec::{Put, Reader};

/// Bytes of one message: with the headers of an event it fits a datagram on every path.
pub const PLAN_LEN_MAX: usize = 1_100;

/// The version of the form.
const VERSION: u8 = 1;

/// By which method a plan was made. Brokers follow those of the one they are configured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanMethod {
    /// Xiao et al., section IV: Thompson sampling on the predicted end-to-end latency.
    VcRoute,
    /// Jiang et al., 2016: a bandit with upper confidence bounds on the transmit latency.
    Via,
}

/// One message of a scheduler. One without trees says that all it told before still stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How it was made.
    pub method: PlanMethod,
    /// Counts the messages of this scheduler, modulo 2^32.
    pub number: u32,
    /// Each in place of the one before for the same origin.
    pub trees: Vec<PlanTree>,
}

/// The way of what enters the network at one broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanTree {
    /// That broker.
    pub origin: BrokerId,
    /// Brokers, by rising id, and the neighbour by which each gets it; at most
    /// [`BROKERS_PLANNED`], none if nothing is planned any more.
    pub parents: Vec<(BrokerId, BrokerId)>,
}

impl PlanMethod {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::VcRoute, Self::Via];

    /// Its name in configurations and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::VcRoute => "vcroute",
            Self::Via => "via",
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::VcRoute => 1,
            Self::Via => 2,
        }
    }
}

impl Plan {
    /// Reads a message.
    ///
    /// # Errors
    /// It is too long, ends too early, or contradicts itself: a broker that stands there twice, or
    /// is its own parent; an origin with a parent, or twice.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        if bytes.len() > PLAN_LEN_MAX {
            return Err(WireError::Oversized);
        }
        let mut from = Reader::new(bytes);
        if from.u8()? != VERSION {
            return Err(WireError::Version);
        }
        let method = from.u8()?;
        let method = PlanMethod::ALL.into_iter().find(|one| one.bits() == method);
        let method = method.ok_or(WireError::Kind)?;
        let number = from.u32()?;
        let mut trees: Vec<PlanTree> = Vec::new();
        while !from.rest().is_empty() {
            let tree = PlanTree::read(&mut from)?;
            if trees.iter().any(|other| other.origin == tree.origin) {
                return Err(WireError::Value);
            }
            trees.push(tree);
        }
        Ok(Self {
            method,
            number,
            trees,
        })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// It is longer than [`PLAN_LEN_MAX`], or a tree has too many brokers.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let start = out.len();
        out.put_u8(VERSION);
        out.put_u8(self.method.bits());
        out.put_u32(self.number);
        for tree in &self.trees {
            tree.write(out)?;
        }
        match out.len() - start {
            0..=PLAN_LEN_MAX => Ok(()),
            _ => Err(WireError::Oversized),
        }
    }

    /// How many of these trees, from the first on, fit one message.
    #[must_use]
    pub fn room_for(trees: &[PlanTree]) -> usize {
        let mut len = HEAD_LEN;
        let fits = trees.iter().take_while(|tree| {
            len += tree.encoded_len();
            len <= PLAN_LEN_MAX
        });
        fits.count()
    }
}

/// Version, method and number.
const HEAD_LEN: usize = 6;

impl PlanTree {
    fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let origin = BrokerId(from.u32()?);
        let count = usize::from(from.u8()?);
        if count > BROKERS_PLANNED {
            return Err(WireError::Oversized);
        }
        let mut parents: Vec<(BrokerId, BrokerId)> = Vec::with_capacity(count);
        for _ in 0..count {
            let (broker, parent) = (BrokerId(from.u32()?), BrokerId(from.u32()?));
            let rises = parents.last().is_none_or(|(last, _)| *last < broker);
            if !rises || broker == parent || broker == origin {
                return Err(WireError::Value);
            }
            parents.push((broker, parent));
        }
        Ok(Self { origin, parents })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let count = self.parents.len();
        if count > BROKERS_PLANNED {
            return Err(WireError::Oversized);
        }
        out.put_u32(self.origin.0);
        out.put_u8(count as u8);
        for (broker, parent) in &self.parents {
            out.put_u32(broker.0);
            out.put_u32(parent.0);
        }
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        5 + 8 * self.parents.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(origin: u32, parents: &[(u32, u32)]) -> PlanTree {
        let parents = parents.iter();
        PlanTree {
            origin: BrokerId(origin),
            parents: parents.map(|(a, b)| (BrokerId(*a), BrokerId(*b))).collect(),
        }
    }

    fn encoded(trees: Vec<PlanTree>) -> Vec<u8> {
        let plan = Plan {
            method: PlanMethod::Via,
            number: 0x0102_0304,
            trees,
        };
        let mut bytes = Vec::new();
        plan.encode(&mut bytes).unwrap();
        assert_eq!(Plan::decode(&bytes).unwrap(), plan);
        bytes
    }

    #[test]
    fn the_bytes_of_a_plan_are_as_specified() {
        let bytes = encoded(vec![tree(7, &[(8, 7), (9, 8)]), tree(8, &[])]);
        let expected = [
            &[1_u8, 2, 1, 2, 3, 4][..],
            &[
                0, 0, 0, 7, 2, 0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 8,
            ],
            &[0, 0, 0, 8, 0],
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(encoded(Vec::new()).len(), HEAD_LEN);
    }

    #[test]
    fn a_plan_that_contradicts_itself_is_refused() {
        for trees in [
            vec![tree(7, &[(8, 8)])],
            vec![tree(7, &[(7, 8)])],
            vec![tree(7, &[(9, 7), (8, 7)])],
            vec![tree(7, &[(8, 7), (8, 9)])],
            vec![tree(7, &[(8, 7)]), tree(7, &[])],
        ] {
            let (method, number) = (PlanMethod::VcRoute, 1);
            let plan = Plan {
                method,
                number,
                trees,
            };
            let mut bytes = Vec::new();
            plan.encode(&mut bytes).unwrap();
            assert_eq!(Plan::decode(&bytes), Err(WireError::Value), "{plan:?}");
        }
    }

    #[test]
    fn what_is_cut_short_or_too_long_is_refused() {
        let bytes = encoded(vec![tree(7, &[(8, 7), (9, 8)])]);
        for len in 0..bytes.len() {
            // Without its only tree it is whole.
            assert_eq!(
                Plan::decode(&bytes[..len]).is_ok(),
                len == HEAD_LEN,
                "{len}"
            );
        }
        assert_eq!(
            Plan::decode(&[0; PLAN_LEN_MAX + 1]),
            Err(WireError::Oversized)
        );
        assert_eq!(Plan::decode(&[2, 1, 0, 0, 0, 0]), Err(WireError::Version));
        assert_eq!(Plan::decode(&[1, 9, 0, 0, 0, 0]), Err(WireError::Kind));
        let crowd = [1, 1, 0, 0, 0, 0, 0, 0, 0, 7, 255];
        assert_eq!(Plan::decode(&crowd), Err(WireError::Oversized));
    }

    #[test]
    fn the_largest_trees_fit_a_message_two_at_a_time() {
        let parents: Vec<_> = (1..=BROKERS_PLANNED as u32).map(|id| (id, 0)).collect();
        let trees = [0, 0, 0].map(|origin| tree(origin, &parents));
        assert_eq!(Plan::room_for(&trees), 2);
        assert_eq!(Plan::room_for(&trees[..1]), 1);
        assert_eq!(Plan::room_for(&[]), 0);
    }
}
