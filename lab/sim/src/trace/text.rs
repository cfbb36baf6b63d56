//! The words at the head of a trace: who is in it.

use std::fmt::Write as _;
use std::str::{FromStr, SplitAsciiWhitespace};

use super::overlay::{LINKS_MAX, NODES_MAX, SESSIONS_MAX};
use super::{Link, Overlay, Session, TraceError};

/// Bytes of a head; what claims more is no trace.
pub(super) const HEAD_MAX: usize = 4 << 20;

/// The head without its first line, an empty line at the end.
pub(super) fn write(overlay: &Overlay) -> String {
    let mut text = format!(
        "name {}\nseed {}\nstep-us 10000\nrows {}\nhistory {}\n",
        overlay.name, overlay.seed, overlay.rows, overlay.history
    );
    for node in &overlay.nodes {
        text += &format!("node {node}\n");
    }
    for link in &overlay.links {
        let Link {
            from,
            to,
            mean_us,
            deviation_us,
        } = link;
        text += &format!("link {from} {to} {mean_us} {deviation_us}\n");
    }
    for session in &overlay.sessions {
        text += &format!("session {} {}", session.from, session.to);
        for relay in &session.relays {
            // Writing to a string cannot fail.
            let _ = write!(text, " {relay}");
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// Reads a head line by line, the first line of the file being gone.
#[derive(Debug, Default)]
pub(super) struct Head {
    overlay: Overlay,
    line: usize,
}

impl Head {
    pub(super) fn new() -> Self {
        Self {
            overlay: Overlay::default(),
            line: 1,
        }
    }

    /// Takes the next line; true if it was the empty one.
    pub(super) fn line(&mut self, line: &str) -> Result<bool, TraceError> {
        self.line += 1;
        let mut words = line.split_ascii_whitespace();
        let Some(key) = words.next() else {
            return Ok(true);
        };
        let overlay = &mut self.overlay;
        let done = match key {
            "name" => words.next().map(|name| overlay.name = name.to_owned()),
            "seed" => number(&mut words).map(|seed| overlay.seed = seed),
            "rows" => number(&mut words).map(|rows| overlay.rows = rows),
            "history" => number(&mut words).map(|count| overlay.history = count),
            "step-us" => number::<u64>(&mut words)
                .filter(|step| *step == 10_000)
                .map(drop),
            "node" => words
                .next()
                .filter(|_| overlay.nodes.len() < NODES_MAX)
                .map(|name| overlay.nodes.push(name.to_owned())),
            "link" => link(&mut words)
                .filter(|_| overlay.links.len() < LINKS_MAX)
                .map(|link| overlay.links.push(link)),
            "session" => session(&mut words)
                .filter(|_| overlay.sessions.len() < SESSIONS_MAX)
                .map(|session| overlay.sessions.push(session)),
            _ => None,
        };
        match (done, words.next()) {
            (Some(()), None) => Ok(false),
            _ => Err(TraceError::Line {
                line: self.line,
                text: format!(
                    "`{}` is not understood: docs/spec/traces.md has the keys",
                    line.trim()
                ),
            }),
        }
    }

    /// The line that was taken last.
    pub(super) const fn line_number(&self) -> usize {
        self.line
    }

    /// What was read, if it fits together.
    pub(super) fn finish(self) -> Result<Overlay, TraceError> {
        self.overlay.check()?;
        Ok(self.overlay)
    }
}

fn number<T: FromStr>(words: &mut SplitAsciiWhitespace<'_>) -> Option<T> {
    words.next()?.parse().ok()
}

fn link(words: &mut SplitAsciiWhitespace<'_>) -> Option<Link> {
    let (from, to) = (number(words)?, number(words)?);
    // What is known beforehand may be left out, both figures or none.
    let (mean_us, deviation_us) = match number(words) {
        Some(mean) => (mean, number(words)?),
        None => (0, 0),
    };
    Some(Link {
        from,
        to,
        mean_us,
        deviation_us,
    })
}

fn session(words: &mut SplitAsciiWhitespace<'_>) -> Option<Session> {
    let (from, to) = (number(words)?, number(words)?);
    let relays = words
        .map(str::parse)
        .collect::<Result<Vec<u16>, _>>()
        .ok()?;
    Some(Session { from, to, relays })
}
