//! All sessions of one kind of network.

use super::bootstrap::{Drawn, Sums, draw};
use crate::replay::{Costs, Outcome, Roster, Stream, Tally};

/// What was found on one kind of network.
#[derive(Clone, Debug)]
pub struct Results {
    /// The family's name, or the trace's.
    pub name: String,
    /// What it is, in words.
    pub about: String,
    /// Who took part.
    pub roster: Roster,
    /// Links of a network, and sessions that share its probes.
    pub links: usize,
    /// Each session, its seeds in a row.
    pub sessions: Vec<Session>,
    /// All sessions.
    pub whole: Session,
    /// Runs that the study has of them, all seeds counted.
    pub wanted: u64,
}

/// One session, or several together.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// `Athens>Kampala`.
    pub name: String,
    /// Sums and sizes; blocks are gone once they were drawn.
    pub outcome: Outcome,
    /// By method and receiver.
    pub drawn: Vec<Vec<Drawn>>,
    /// Links of its paths.
    pub links: usize,
}

/// One method and receiver.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// What the method cost.
    pub costs: &'a Costs,
    /// What the method sent.
    pub stream: &'a Stream,
    /// What the receiver made of it.
    pub tally: &'a Tally,
    /// With intervals.
    pub drawn: &'a Drawn,
}

impl Results {
    /// Nothing yet, for sessions of these names.
    #[must_use]
    pub fn new(name: &str, about: &str, roster: Roster, sessions: &[(String, usize)]) -> Self {
        let session = |(name, links): &(String, usize)| Session {
            name: name.clone(),
            links: *links,
            ..Session::default()
        };
        Self {
            name: name.to_owned(),
            about: about.to_owned(),
            roster,
            links: 0,
            sessions: sessions.iter().map(session).collect(),
            whole: Session {
                name: "all".to_owned(),
                ..Session::default()
            },
            wanted: 0,
        }
    }

    /// What it is called: its name, and how much of it is there if that is not all.
    #[must_use]
    pub fn label(&self) -> String {
        let (there, wanted) = (self.whole.outcome.runs, self.wanted);
        if there >= wanted {
            return self.name.clone();
        }
        format!("{} ({there} of {wanted} sessions)", self.name)
    }

    /// What is to be said if not all of it is there.
    #[must_use]
    pub fn lacking(&self) -> Option<String> {
        let (there, wanted) = (self.whole.outcome.runs, self.wanted);
        (there < wanted).then(|| {
            format!(
                "Incomplete: only {there} of the {wanted} sessions of {} have been run; all that \
                 follows is of those.",
                self.name
            )
        })
    }

    /// Adds a session of one seed.
    pub fn add(&mut self, session: usize, outcome: Outcome) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.outcome.append(outcome);
        }
    }

    /// Draws intervals, once everything was added.
    pub fn finish(&mut self) {
        self.sessions
            .retain(|session| !session.outcome.streams.is_empty());
        for (number, session) in self.sessions.iter_mut().enumerate() {
            session.drawn = draw(&session.outcome, number as u64);
            session.outcome.forget_blocks();
            let whole = &mut self.whole;
            if whole.drawn.is_empty() {
                whole.drawn = session.drawn.clone();
            } else {
                let all = whole.drawn.iter_mut().flatten();
                let more = session.drawn.iter().flatten();
                all.zip(more).for_each(|(mine, theirs)| mine.merge(theirs));
            }
            whole.outcome.append(session.outcome.clone());
        }
    }

    /// A method and a receiver over all sessions.
    #[must_use]
    pub fn cell(&self, method: &str, receiver: &str) -> Option<Cell<'_>> {
        self.cell_of(&self.whole, method, receiver)
    }

    /// A method and a receiver in one session.
    #[must_use]
    pub fn cell_of<'a>(
        &self,
        session: &'a Session,
        method: &str,
        receiver: &str,
    ) -> Option<Cell<'a>> {
        let (entry, listener) = self.roster.find(method, receiver)?;
        session.cell(entry, listener)
    }

    /// The same receiver kind with other settings behind a method: points of a curve.
    #[must_use]
    pub fn curve<'a>(&self, session: &'a Session, method: &str, kind: &str) -> Vec<&'a Drawn> {
        let Some(entry) = self.roster.entries.iter().position(|e| e.name == method) else {
            return Vec::new();
        };
        let listeners = self.roster.entries[entry].receivers.iter().enumerate();
        let same = listeners.filter(|(_, listener)| listener.kind.name() == kind);
        let cells = same.filter_map(|(place, _)| session.cell(entry, place));
        cells.map(|cell| cell.drawn).collect()
    }

    /// Bytes that a method sent beside the packets, as a share of these. Probes are shared by all
    /// sessions of a network.
    #[must_use]
    pub fn extra_bytes(&self, costs: &Costs, packet_bytes: u64) -> f64 {
        let crossed: usize = self.sessions.iter().map(|session| session.links).sum();
        let shared = self.links as f64 / crossed.max(1) as f64;
        let probes = costs.probe_bytes as f64 * shared.min(1.0);
        let rest = (costs.plan_bytes + costs.duplicate_bytes) as f64;
        (probes + rest) / (costs.packets * packet_bytes).max(1) as f64
    }
}

impl Session {
    /// The cell of a method and a receiver by their places in the roster.
    #[must_use]
    pub fn cell(&self, entry: usize, listener: usize) -> Option<Cell<'_>> {
        let stream = self.outcome.streams.get(entry)?;
        Some(Cell {
            costs: &stream.costs,
            stream,
            tally: stream.tallies.get(listener)?,
            drawn: self.drawn.get(entry)?.get(listener)?,
        })
    }
}

impl Cell<'_> {
    /// Mean release delay in ms.
    #[must_use]
    pub fn release_ms(&self) -> f64 {
        self.drawn.whole.release()
    }

    /// The share that came too late, 0 to 1.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.drawn.whole.loss()
    }

    /// Change of the mean release delay from another's: -0.2 is 20 % less.
    #[must_use]
    pub fn release_change(&self, from: &Cell<'_>) -> f64 {
        self.drawn.change(from.drawn, Sums::release).value
    }
}
