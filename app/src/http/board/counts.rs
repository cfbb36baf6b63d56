//! What happens on boards, counted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sangam_node::Sample;

/// Why something was not published, or nobody let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The page of somebody else.
    Origin,
    /// Too many boards are open.
    Busy,
    /// A token that does not grant it.
    Token,
    /// The member does not hold the floor.
    Floor,
    /// Not what is said here, or more than an event has.
    Malformed,
    /// The page's own word: the board is full.
    Full,
    /// A page that said nothing in time.
    Silent,
    /// A page that took nothing in time.
    Slow,
}

const REASONS: [(Refused, &str); 8] = [
    (Refused::Origin, "origin"),
    (Refused::Busy, "busy"),
    (Refused::Token, "token"),
    (Refused::Floor, "floor"),
    (Refused::Malformed, "malformed"),
    (Refused::Full, "full"),
    (Refused::Silent, "silent"),
    (Refused::Slow, "slow"),
];

/// Counters of all boards of a broker.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Open now.
    pub(super) open: AtomicUsize,
    taken: AtomicU64,
    told: AtomicU64,
    refused: [AtomicU64; REASONS.len()],
}

impl Counts {
    /// An event of a page was published.
    pub(super) fn take(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// An event went to a page.
    pub(super) fn tell(&self) {
        self.told.fetch_add(1, Ordering::Relaxed);
    }

    /// Something was refused.
    pub(super) fn refuse(&self, why: Refused) {
        let place = REASONS.iter().position(|(reason, _)| *reason == why);
        if let Some(count) = place.and_then(|place| self.refused.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn samples(&self) -> Vec<Sample> {
        let one = |name, help, value: u64| Sample {
            name,
            help,
            counter: true,
            labels: Vec::new(),
            value: value as f64,
        };
        let mut samples = vec![
            Sample {
                counter: false,
                ..one(
                    "sangam_boards",
                    "Whiteboards that pages have open",
                    self.open.load(Ordering::Relaxed) as u64,
                )
            },
            one(
                "sangam_board_taken_total",
                "Events of pages that were published on whiteboards",
                self.taken.load(Ordering::Relaxed),
            ),
            one(
                "sangam_board_told_total",
                "Events of whiteboards that went to pages",
                self.told.load(Ordering::Relaxed),
            ),
        ];
        let refused = REASONS.iter().zip(&self.refused);
        samples.extend(refused.map(|((_, reason), count)| Sample {
            labels: vec![("reason", (*reason).to_owned())],
            ..one(
                "sangam_board_refused_total",
                "What pages wanted of whiteboards and did not get",
                count.load(Ordering::Relaxed),
            )
        }));
        samples
    }
}
