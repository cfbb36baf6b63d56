//! What a live network's brokers report of their links, as a recording that can be imported.
//!
//! `sangam net watch --json` tells the whole network on a line each second. Half of a link's round
//! trip stands for its delay; a link that is down loses what is sent.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::BufRead;

use serde_json::Value;

use super::Failure;

/// Measurements of one recording.
const SAMPLES_MAX: usize = 50_000_000;
/// Brokers that relay for a session: their paths grow with the square.
const RELAYS_MAX: usize = 4;

/// Two brokers, by number.
type Ends = (usize, usize);

/// A network as it was watched.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// By broker id, its number.
    numbers: BTreeMap<String, usize>,
    /// By number.
    names: Vec<String>,
    /// By link: moments in ms, delays in ms, none where it was down.
    links: BTreeMap<Ends, Vec<(u64, Option<f64>)>>,
    begin_ms: Option<u64>,
    samples: usize,
}

impl Watched {
    /// Takes all lines, a network each.
    ///
    /// # Errors
    /// The first line that is none, or that is too much.
    pub(super) fn read(input: impl BufRead) -> Result<Self, Failure> {
        let mut watched = Self::default();
        for (number, line) in input.lines().enumerate() {
            let wrong = |text: String| Failure(format!("line {}: {text}", number + 1));
            let line = line.map_err(|error| wrong(error.to_string()))?;
            if line.trim().is_empty() {
                continue;
            }
            let network: Value =
                serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
            watched.take(&network).ok_or_else(|| {
                wrong("this is no network as `sangam net watch --json` prints it".to_owned())
            })?;
            if watched.samples > SAMPLES_MAX {
                return Err(wrong(format!(
                    "more than {SAMPLES_MAX} measurements: split it"
                )));
            }
        }
        Ok(watched)
    }

    fn take(&mut self, network: &Value) -> Option<()> {
        let now_ms = network["at_unix_ms"].as_u64()?;
        let begin_ms = *self.begin_ms.get_or_insert(now_ms);
        for broker in network["brokers"].as_array()? {
            let own = self.number(broker["broker"].as_str()?);
            if let Some(name) = broker["name"].as_str().filter(|name| !name.is_empty()) {
                self.names[own] = name.split_whitespace().collect::<Vec<_>>().join("-");
            }
            if broker["stale"].as_bool() == Some(true) {
                continue;
            }
            for link in broker["links"].as_array().into_iter().flatten() {
                let Some(peer) = link["peer"].as_str() else {
                    continue;
                };
                let peer = self.number(peer);
                let age_ms = [broker, link].map(|one| one["age_ms"].as_u64().unwrap_or_default());
                let at = now_ms.saturating_sub(age_ms.iter().sum());
                let Some(at) = at.checked_sub(begin_ms) else {
                    continue;
                };
                let up = link["up"].as_bool().unwrap_or_default();
                let rtt_us = link["rtt_us"].as_f64();
                if up && rtt_us.is_none() {
                    // It is too young to have been measured.
                    continue;
                }
                let delay_ms = rtt_us.filter(|_| up).map(|us| us / 2e3);
                let samples = self.links.entry((own, peer)).or_default();
                // What was told before is not told twice.
                if samples.last().is_none_or(|(before, _)| *before < at) {
                    samples.push((at, delay_ms));
                    self.samples += 1;
                }
            }
        }
        Some(())
    }

    fn number(&mut self, id: &str) -> usize {
        if let Some(number) = self.numbers.get(id) {
            return *number;
        }
        let number = self.names.len();
        self.numbers.insert(id.to_owned(), number);
        self.names.push(id.to_owned());
        number
    }

    /// The recording as text, of these sessions: names or ids of brokers, `a:b` or
    /// `a:b:relay:relay`; none stands for all pairs that are linked.
    ///
    /// # Errors
    /// If a wanted session is not of brokers that were heard of, or nothing was measured.
    pub(super) fn text(mut self, wanted: &[String]) -> Result<String, Failure> {
        self.mirror();
        let sessions = if wanted.is_empty() {
            self.all_sessions()
        } else {
            let sessions = wanted.iter().map(|text| self.session(text));
            sessions.collect::<Result<Vec<_>, _>>()?
        };
        if sessions.is_empty() {
            return Err(Failure(
                "no link between two brokers was measured: `sangam net watch --json` tells of them \
                 where brokers are linked"
                    .to_owned(),
            ));
        }
        let mut text = "sangam-delays 1\nname recorded\n".to_owned();
        for name in unique(&self.names) {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(text, "node {name}");
        }
        for (from, to) in self.links.keys() {
            let _ = writeln!(text, "link {from} {to}");
        }
        for session in sessions {
            let ends: Vec<String> = session.iter().map(usize::to_string).collect();
            let _ = writeln!(text, "session {}", ends.join(" "));
        }
        text.push('\n');
        for (link, samples) in self.links.values().enumerate() {
            for (at, delay_ms) in samples {
                let _ = match delay_ms {
                    Some(ms) => writeln!(text, "{at},{link},{ms}"),
                    None => writeln!(text, "{at},{link},lost"),
                };
            }
        }
        Ok(text)
    }

    /// Where one end alone reports, its round trips stand for both directions.
    fn mirror(&mut self) {
        let lone: Vec<Ends> = self
            .links
            .keys()
            .filter(|(a, b)| !self.links.contains_key(&(*b, *a)))
            .copied()
            .collect();
        for (a, b) in lone {
            let samples = self.links[&(a, b)].clone();
            self.links.insert((b, a), samples);
        }
    }

    /// Every pair that is linked, in both directions, by the brokers that are linked with both and
    /// with each other.
    fn all_sessions(&self) -> Vec<Vec<usize>> {
        let linked = |a: usize, b: usize| self.links.contains_key(&(a, b));
        let of = |(from, to): &Ends| {
            let mut session = vec![*from, *to];
            for relay in (0..self.names.len()).filter(|relay| ![*from, *to].contains(relay)) {
                let all = session.iter().all(|other| linked(*other, relay));
                if all && session.len() < 2 + RELAYS_MAX {
                    session.push(relay);
                }
            }
            session
        };
        self.links.keys().map(of).collect()
    }

    fn session(&self, text: &str) -> Result<Vec<usize>, Failure> {
        let find = |name: &str| {
            let number = self.names.iter().position(|known| known == name);
            let number = number.or_else(|| self.numbers.get(name).copied());
            number.ok_or_else(|| Failure(format!("`{name}` in `{text}` is no broker's name or id")))
        };
        let ends: Vec<usize> = text.split(':').map(find).collect::<Result<_, _>>()?;
        if ends.len() < 2 {
            return Err(Failure(format!("`{text}` is not FROM:TO[:RELAY...]")));
        }
        Ok(ends)
    }
}

/// Names with their numbers where two are the same.
fn unique(names: &[String]) -> Vec<String> {
    let twice = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
    let named = names.iter().enumerate().map(|(number, name)| {
        if twice(name) {
            format!("{name}-{number}")
        } else {
            name.clone()
        }
    });
    named.collect()
}
