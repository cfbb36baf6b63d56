//! The receivers behind lanes: as long as two lanes' packets arrive alike, one set serves both.
//!
//! On calm networks most methods choose the same paths all the time, and what a receiver makes of
//! the same arrivals is the same.

use super::Tally;
use super::lane::Arrived;
use super::roster::{Listener, Roster};
use super::tally::{Sink, Span};

/// The receivers of all lanes.
#[derive(Debug)]
pub(super) struct Audience {
    /// By lane, in the order of the roster.
    wanted: Vec<Vec<Listener>>,
    groups: Vec<Group>,
}

/// Lanes whose packets have arrived alike from the begin.
#[derive(Clone, Debug)]
struct Group {
    lanes: Vec<usize>,
    /// Each receiver that one of them has.
    seats: Vec<(Listener, Sink)>,
}

impl Audience {
    pub(super) fn new(roster: &Roster, span: Span) -> Self {
        let wanted: Vec<Vec<Listener>> = roster
            .entries
            .iter()
            .map(|entry| entry.receivers.clone())
            .collect();
        let mut seats: Vec<(Listener, Sink)> = Vec::new();
        for listener in wanted.iter().flatten() {
            if seats.iter().all(|(known, _)| !alike(known, listener)) {
                seats.push((
                    listener.clone(),
                    Sink::new(listener.kind, &listener.config, span),
                ));
            }
        }
        Self {
            groups: vec![Group {
                lanes: (0..wanted.len()).collect(),
                seats,
            }],
            wanted,
        }
    }

    /// Hands on what has arrived, by lane.
    pub(super) fn deliver(&mut self, arrived: &[&[Arrived]], clock: fn() -> u64) {
        self.part(arrived);
        for group in &mut self.groups {
            let Some(packets) = group.lanes.first().map(|lane| arrived[*lane]) else {
                continue;
            };
            for (_, sink) in &mut group.seats {
                let begin = clock();
                for (at, seq) in packets {
                    sink.arrive(*at, *seq);
                }
                sink.tally.spent_ns += clock().saturating_sub(begin);
            }
        }
    }

    /// Parts lanes whose packets do not arrive alike any more.
    fn part(&mut self, arrived: &[&[Arrived]]) {
        for number in 0..self.groups.len() {
            let lanes = core::mem::take(&mut self.groups[number].lanes);
            let mut parts: Vec<Vec<usize>> = Vec::new();
            for lane in lanes {
                let same = |part: &&mut Vec<usize>| arrived[part[0]] == arrived[lane];
                match parts.iter_mut().find(same) {
                    Some(part) => part.push(lane),
                    None => parts.push(vec![lane]),
                }
            }
            let mut parts = parts.into_iter();
            self.groups[number].lanes = parts.next().unwrap_or_default();
            let others: Vec<Group> = parts
                .map(|lanes| self.group_of(lanes, &self.groups[number].seats))
                .collect();
            if others.is_empty() {
                continue;
            }
            // Who stays no longer needs what only the others had.
            let Group { lanes, seats } = &self.groups[number];
            self.groups[number] = self.group_of(lanes.clone(), seats);
            self.groups.extend(others);
        }
    }

    /// These lanes with the receivers that they have.
    fn group_of(&self, lanes: Vec<usize>, seats: &[(Listener, Sink)]) -> Group {
        let wanted = seats
            .iter()
            .filter(|(listener, _)| self.is_wanted(&lanes, listener));
        Group {
            seats: wanted.cloned().collect(),
            lanes,
        }
    }

    fn is_wanted(&self, lanes: &[usize], listener: &Listener) -> bool {
        let mut all = lanes.iter().flat_map(|lane| &self.wanted[*lane]);
        all.any(|wanted| alike(wanted, listener))
    }

    /// What became of each lane's packets, by receiver, once no more arrive.
    pub(super) fn finish(mut self, end: sangam_model::Time) -> Vec<Vec<Tally>> {
        let mut tallies: Vec<Vec<Tally>> = self.wanted.iter().map(|_| Vec::new()).collect();
        for group in &mut self.groups {
            for (_, sink) in &mut group.seats {
                sink.end(end);
            }
            for lane in &group.lanes {
                for wanted in &self.wanted[*lane] {
                    let mut seats = group.seats.iter();
                    let seat = seats.find(|(listener, _)| alike(listener, wanted));
                    tallies[*lane].extend(seat.map(|(_, sink)| sink.tally.clone()));
                }
            }
        }
        tallies
    }
}

/// Whether two receivers do the same, whatever they are called.
fn alike(one: &Listener, other: &Listener) -> bool {
    one.kind == other.kind && one.config == other.config
}
