//! What is worth being told before its turn.

use crate::digest::{BROKER, Digest, Link, broker, link};

/// How much of a change something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum News {
    /// As it was told, within tolerance.
    None,
    /// A figure left its tolerance.
    Figures,
    /// The whole was not told for long, whatever it is.
    Due,
    /// A link came, went, or is in doubt; a broker began another life or leaves.
    State,
}

/// Figures that change for themselves: place, and what they may move besides a share of themselves.
type Tolerances = &'static [(usize, u64)];

/// Below these a change is noise: 2 ms, 1 %, what a voice call takes, 20 ms of queue.
const LINK: Tolerances = &[
    (link::WEIGHT, 20),
    (link::RTT_US, 2_000),
    (link::JITTER_US, 2_000),
    (link::LOSS_PPM, 10_000),
    (link::BANDWIDTH_BPS, 1_000_000),
    (link::IN_BPS, 100_000),
    (link::OUT_BPS, 100_000),
    (link::QUEUE_US, 20_000),
    (link::DROPPED_PACKETS, 0),
];
const BROKER_FIGURES: Tolerances = &[
    (broker::CLIENTS, 10),
    (broker::CPU_SHARE, 150),
    (broker::DROPPED_PER_S, 0),
];
/// Of what was told: a third may be noise.
const SHARE: u64 = 3;

/// What a link has to tell since it was told.
pub(crate) fn of_link(told: &Link, known: &Link) -> News {
    let state = |at: usize| told.figures[at] != known.figures[at];
    if state(link::UP) || state(link::SUSPECT) {
        return News::State;
    }
    figures(LINK, (&told.figures, &known.figures))
}

/// What a broker has to tell as a whole, besides what its links tell for themselves.
pub(crate) fn of_broker(told: &Digest, known: &Digest) -> News {
    let none = [None; BROKER];
    let pair = (
        told.figures.as_ref().unwrap_or(&none),
        known.figures.as_ref().unwrap_or(&none),
    );
    let links = |one: &Digest, other: &Digest| {
        let there = |link: &Link| other.links.iter().any(|other| link.is_same(other));
        one.links.iter().all(there)
    };
    let state = told.incarnation != known.incarnation
        || pair.0[broker::DRAINING] != pair.1[broker::DRAINING]
        || !links(told, known)
        || !links(known, told);
    if state {
        return News::State;
    }
    figures(BROKER_FIGURES, (pair.0, pair.1))
}

fn figures(of: Tolerances, (told, known): (&[Option<u64>], &[Option<u64>])) -> News {
    let left = of.iter().any(|(at, floor)| match (told[*at], known[*at]) {
        (Some(told), Some(known)) => {
            let share = if *floor == 0 { 0 } else { told / SHARE };
            told.abs_diff(known) > share.max(*floor)
        }
        (told, known) => told != known,
    });
    if left { News::Figures } else { News::None }
}

#[cfg(test)]
mod tests {
    use sangam_model::{BrokerId, Time};

    use super::*;
    use crate::digest::LINK as FIGURES;

    fn of(at: usize, value: u64) -> Link {
        let mut figures = [Some(30_000); FIGURES];
        figures[link::UP] = Some(1);
        figures[at] = Some(value);
        Link {
            peer: Some(BrokerId(1)),
            way: Default::default(),
            at: Time::ZERO,
            figures,
        }
    }

    #[test]
    fn noise_is_no_news_and_a_link_that_goes_is() {
        let told = of(link::RTT_US, 30_000);
        let news = |known: Link| of_link(&told, &known);
        assert_eq!(news(of(link::RTT_US, 39_000)), News::None);
        assert_eq!(news(of(link::RTT_US, 41_000)), News::Figures);
        assert_eq!(news(of(link::DROPPED_PACKETS, 30_001)), News::Figures);
        assert_eq!(news(of(link::QUEUE_BYTES, 1)), News::None);
        assert_eq!(news(of(link::UP, 0)), News::State);
    }

    #[test]
    fn a_link_more_or_less_is_news_of_the_broker() {
        let told = Digest::new(BrokerId(7), Time::ZERO);
        let mut known = told.clone();
        known.links.push(of(link::UP, 1));
        assert_eq!(of_broker(&told, &known), News::State);
        assert_eq!(of_broker(&known, &told), News::State);
        assert_eq!(of_broker(&known, &known), News::None);
    }
}
