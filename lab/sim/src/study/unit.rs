//! The pieces of work: a session of a network, of a seed.

use crate::replay::{Outcome, Plan, Replay, Roster};
use crate::trace::{CHUNK_ROWS, Columns, Family, Generator, TraceError};

/// One session on one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unit {
    /// What kind of network.
    pub family: Family,
    /// Which of its sessions.
    pub session: usize,
    /// What the network's chance begins with.
    pub seed: u64,
}

impl Unit {
    /// All sessions of a family with seeds 1 to `seeds`.
    #[must_use]
    pub fn all(family: Family, seeds: u64) -> Vec<Self> {
        let sessions = family.generator(1, 1).overlay().sessions.len();
        let units = (1..=seeds).flat_map(|seed| {
            (0..sessions).map(move |session| Self {
                family,
                session,
                seed,
            })
        });
        units.collect()
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`TraceError::Overlay`] if the family has no such session.
    pub fn run(&self, roster: &Roster, plan: Plan) -> Result<Outcome, TraceError> {
        let made = self.family.generator(self.seed, plan.packets);
        run_on(&made, self.session, roster, plan)
    }
}

/// Runs a session of a generated network.
///
/// # Errors
/// [`TraceError::Overlay`] if there is no such session.
pub fn run_on(
    made: &Generator,
    session: usize,
    roster: &Roster,
    plan: Plan,
) -> Result<Outcome, TraceError> {
    let links = made.overlay().session_links(session)?;
    let mut sources = made.sources_of(&links);
    let mut columns = Columns::new(links.len());
    let mut replay = Replay::new(made.overlay(), session, roster, plan)?;
    let mut left = plan.packets;
    while left > 0 {
        let rows = left.min(CHUNK_ROWS as u64);
        columns.generate(&mut sources, rows as usize);
        replay.chunk(&columns);
        left -= rows;
    }
    Ok(replay.finish())
}
