//! Who is in a trace: places, the links whose delays are recorded, and who talks to whom.

use std::collections::BTreeSet;

use super::TraceError;

/// Places of one overlay.
pub const NODES_MAX: usize = 4_096;
/// Links of one overlay.
pub const LINKS_MAX: usize = 16_384;
/// Sessions of one overlay.
pub const SESSIONS_MAX: usize = 4_096;

/// A network whose links' delays are recorded every 10 ms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlay {
    /// What it is called: a family's name, or whatever its owner chose.
    pub name: String,
    /// What chance was drawn from; 0 if it was recorded.
    pub seed: u64,
    /// Moments recorded.
    pub rows: u64,
    /// Independent measurements behind what is known of links beforehand; 0 if nothing is known.
    pub history: u32,
    /// The names of places.
    pub nodes: Vec<String>,
    /// From one place to another, one way.
    pub links: Vec<Link>,
    /// Who talks to whom.
    pub sessions: Vec<Session>,
}

/// One way between two places, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where it begins.
    pub from: u16,
    /// Where it ends.
    pub to: u16,
    /// What is known of it beforehand: the mean of its delay, in microseconds.
    pub mean_us: u32,
    /// And the deviation.
    pub deviation_us: u32,
}

/// One direction of a meeting: an endpoint sends to a user, others may relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Who sends.
    pub from: u16,
    /// Who receives.
    pub to: u16,
    /// Who may relay, in the order in which paths are numbered.
    pub relays: Vec<u16>,
}

impl Overlay {
    /// A session's name, such as `Athens>Kampala`.
    #[must_use]
    pub fn session_name(&self, session: usize) -> String {
        self.sessions.get(session).map_or_else(String::new, |s| {
            format!("{}>{}", self.node(s.from), self.node(s.to))
        })
    }

    /// A link's name, such as `Athens>Kampala`.
    #[must_use]
    pub fn link_name(&self, link: usize) -> String {
        self.links.get(link).map_or_else(String::new, |l| {
            format!("{}>{}", self.node(l.from), self.node(l.to))
        })
    }

    fn node(&self, number: u16) -> &str {
        self.nodes
            .get(usize::from(number))
            .map_or("?", String::as_str)
    }

    /// The numbers of the links that a session may use, as core/route numbers them: those that
    /// lead straight to its receiver if there are several, which are then its paths; else those
    /// of all paths by at most two relays.
    ///
    /// # Errors
    /// [`TraceError::Overlay`] if there is no such session or a link that it needs is missing.
    pub fn session_links(&self, session: usize) -> Result<Vec<usize>, TraceError> {
        let of = self
            .sessions
            .get(session)
            .ok_or_else(|| TraceError::Overlay(format!("there is no session {session}")))?;
        let straight = self.between(of.from, of.to);
        if straight.len() > 1 {
            return Ok(straight);
        }
        let relays = &of.relays;
        let mut pairs = vec![(of.from, of.to)];
        pairs.extend(relays.iter().map(|relay| (of.from, *relay)));
        pairs.extend(relays.iter().map(|relay| (*relay, of.to)));
        for first in relays {
            pairs.extend(relays.iter().filter(|r| *r != first).map(|r| (*first, *r)));
        }
        let found = pairs.into_iter().map(|(from, to)| {
            self.between(from, to).first().copied().ok_or_else(|| {
                let (from, to) = (self.node(from), self.node(to));
                TraceError::Overlay(format!(
                    "session {} needs a link {from}>{to}, and the trace has none",
                    self.session_name(session)
                ))
            })
        });
        found.collect()
    }

    /// These sessions alone with the places and links that they use, and the numbers that those
    /// links have here.
    ///
    /// # Errors
    /// As [`Self::session_links`].
    pub fn part(&self, sessions: &[usize]) -> Result<(Self, Vec<usize>), TraceError> {
        let (mut nodes, mut links) = (BTreeSet::new(), BTreeSet::new());
        for session in sessions {
            links.extend(self.session_links(*session)?);
            let of = &self.sessions[*session];
            nodes.extend([of.from, of.to].into_iter().chain(of.relays.clone()));
        }
        let place = |node: u16| nodes.range(..node).count() as u16;
        let part = Self {
            name: self.name.clone(),
            nodes: nodes.iter().map(|n| self.node(*n).to_owned()).collect(),
            links: (links.iter().map(|number| self.links[*number]))
                .map(|link| Link {
                    from: place(link.from),
                    to: place(link.to),
                    ..link
                })
                .collect(),
            sessions: (sessions.iter().map(|number| &self.sessions[*number]))
                .map(|of| Session {
                    from: place(of.from),
                    to: place(of.to),
                    relays: of.relays.iter().map(|relay| place(*relay)).collect(),
                })
                .collect(),
            ..*self
        };
        Ok((part, links.into_iter().collect()))
    }

    /// Whether a session's links are its paths, one each.
    #[must_use]
    pub fn is_parallel(&self, session: usize) -> bool {
        let of = self.sessions.get(session);
        of.is_some_and(|of| self.between(of.from, of.to).len() > 1)
    }

    fn between(&self, from: u16, to: u16) -> Vec<usize> {
        let all = self.links.iter().enumerate();
        let fitting = all.filter(|(_, link)| (link.from, link.to) == (from, to));
        fitting.map(|(number, _)| number).collect()
    }

    /// Checks numbers and names.
    ///
    /// # Errors
    /// [`TraceError::Overlay`] with what does not fit.
    pub fn check(&self) -> Result<(), TraceError> {
        let wrong = |text: String| Err(TraceError::Overlay(text));
        let sizes = [
            ("node", self.nodes.len(), NODES_MAX),
            ("link", self.links.len(), LINKS_MAX),
            ("session", self.sessions.len(), SESSIONS_MAX),
        ];
        for (what, count, most) in sizes {
            if count == 0 || count > most {
                return wrong(format!("{count} {what}s: a trace has 1 to {most}"));
            }
        }
        let bad = |name: &String| name.is_empty() || name.contains(char::is_whitespace);
        if bad(&self.name) || self.nodes.iter().any(bad) {
            return wrong("names are one word each".to_owned());
        }
        let ends = self.links.iter().flat_map(|link| [link.from, link.to]);
        let people = self.sessions.iter();
        let people = people.flat_map(|s| [s.from, s.to].into_iter().chain(s.relays.clone()));
        if let Some(none) = ends
            .chain(people)
            .find(|node| usize::from(*node) >= self.nodes.len())
        {
            return wrong(format!("there is no node {none}"));
        }
        (0..self.sessions.len()).try_for_each(|session| self.session_links(session).map(drop))
    }
}
