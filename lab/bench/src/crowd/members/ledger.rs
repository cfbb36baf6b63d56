//! Who has heard how much, and when.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::error::Error;

/// How long all members may take to hear of a change before the run is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// What all members of a session were told. Changed by one thread.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Members that a frame brought from one number to another.
    steps: RefCell<BTreeMap<(u64, u64), Step>>,
    /// How many members have heard up to each number.
    standing: RefCell<BTreeMap<u64, usize>>,
    /// Changes that somebody waits for.
    wanted: RefCell<Vec<Wanted>>,
    /// The number up to which frames were searched for these.
    searched: Cell<u64>,
    behind: Cell<u64>,
    lost: Cell<u64>,
    refusal: RefCell<Option<String>>,
    news: Notify,
}

/// Those who went the same step.
#[derive(Clone, Copy, Debug)]
struct Step {
    first: Instant,
    last: Instant,
}

/// A change that somebody waits for.
#[derive(Debug)]
struct Wanted {
    /// Text that only its event has.
    mark: String,
    /// The number of the frame that told it.
    number: Option<u64>,
}

/// When a change was known to the first and to the last of all members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// To the first.
    pub(crate) first: Instant,
    /// To the last.
    pub(crate) last: Instant,
}

impl Ledger {
    /// Forgets who heard of what is known to all.
    pub(crate) fn forget(&self) {
        self.steps.borrow_mut().clear();
        self.wanted.borrow_mut().clear();
        self.behind.set(0);
    }

    /// Waits for a change from now on: the event with this text in it. Its place in the ledger.
    pub(crate) fn want(&self, mark: &str) -> usize {
        let mut wanted = self.wanted.borrow_mut();
        wanted.push(Wanted {
            mark: mark.to_owned(),
            number: None,
        });
        wanted.len() - 1
    }

    /// Waits until every member that is in has heard of a change.
    ///
    /// # Errors
    /// [`Error::Join`] if something was refused, or if it takes too long.
    pub(crate) async fn heard(&self, place: usize) -> Result<Spread, Error> {
        let wait = async {
            loop {
                if let Some(refusal) = self.refusal.borrow_mut().take() {
                    return Err(Error::Join(format!("the session refuses: {refusal}")));
                }
                if let Some(spread) = self.spread(place) {
                    return Ok(spread);
                }
                self.news.notified().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        waited.unwrap_or_else(|_| Err(self.incomplete(place)))
    }

    /// Members that did not keep up and were told the whole session instead, so far.
    pub(crate) fn behind(&self) -> u64 {
        self.behind.get()
    }

    /// Connections that ended though nobody wanted that.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.get()
    }

    /// A member was let in and told the session up to a number.
    pub(super) fn enter(&self, at: u64) {
        *self.standing.borrow_mut().entry(at).or_default() += 1;
    }

    /// A member that has heard up to a number does not count any more.
    pub(super) fn leave(&self, at: u64) {
        let mut standing = self.standing.borrow_mut();
        if let Some(members) = standing.get_mut(&at) {
            *members -= 1;
            if *members == 0 {
                standing.remove(&at);
            }
        }
        self.news.notify_one();
    }

    /// A frame brought a member from one number to another.
    pub(super) fn step(&self, from: u64, to: u64) {
        let now = Instant::now();
        let mut steps = self.steps.borrow_mut();
        let step = steps.entry((from, to)).or_insert(Step {
            first: now,
            last: now,
        });
        step.last = now;
        self.enter(to);
        self.leave(from);
    }

    /// Events that may be new to all: looks for what is waited for.
    pub(super) fn search(&self, number: u64, text: &str) {
        if number <= self.searched.get() {
            return;
        }
        self.searched.set(number);
        let mut wanted = self.wanted.borrow_mut();
        let open = wanted.iter_mut().filter(|one| one.number.is_none());
        for one in open.filter(|one| text.contains(&one.mark)) {
            one.number = Some(number);
        }
    }

    /// A member was told everything anew.
    pub(super) fn fell_behind(&self) {
        self.behind.set(self.behind.get() + 1);
    }

    /// A connection ended.
    pub(super) fn lose(&self) {
        self.lost.set(self.lost.get() + 1);
    }

    /// A command was not done.
    pub(super) fn refuse(&self, text: &str) {
        *self.refusal.borrow_mut() = Some(text.to_owned());
        self.news.notify_one();
    }

    fn spread(&self, place: usize) -> Option<Spread> {
        let number = self.wanted.borrow().get(place)?.number?;
        let standing = self.standing.borrow();
        if standing.keys().next().is_some_and(|last| *last < number) {
            return None;
        }
        let steps = self.steps.borrow();
        let across = steps
            .iter()
            .filter(|((from, to), _)| (*from + 1..=*to).contains(&number));
        let across = across.map(|(_, step)| Spread {
            first: step.first,
            last: step.last,
        });
        across.reduce(|one, other| Spread {
            first: one.first.min(other.first),
            last: one.last.max(other.last),
        })
    }

    fn incomplete(&self, place: usize) -> Error {
        let wanted = self.wanted.borrow();
        let mark = wanted.get(place).map_or("", |one| &one.mark);
        Error::Join(format!(
            "not all members heard of {mark} within {} s; {} connections ended",
            PATIENCE.as_secs(),
            self.lost.get()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_known_when_the_last_member_has_passed_it() {
        let ledger = Ledger::default();
        (0..2).for_each(|_| ledger.enter(4));
        let lock = ledger.want("locked");
        ledger.search(5, r#"{"event":"locked"}"#);
        ledger.search(6, r#"{"event":"chat"}"#);
        ledger.step(4, 5);
        ledger.step(5, 6);
        assert!(ledger.spread(lock).is_none(), "one has not heard");
        // Who comes later was told with the rest.
        ledger.enter(6);
        assert!(ledger.spread(lock).is_none(), "still");
        // Both events in one frame.
        ledger.step(4, 6);
        let spread = ledger.spread(lock).expect("all have heard");
        assert!(spread.first <= spread.last);
    }

    #[test]
    fn nobody_waits_for_who_has_left() {
        let ledger = Ledger::default();
        (0..2).for_each(|_| ledger.enter(4));
        let leaving = ledger.want("left");
        ledger.leave(4);
        ledger.search(5, r#"{"event":"left"}"#);
        ledger.step(4, 5);
        assert!(ledger.spread(leaving).is_some());
    }
}
