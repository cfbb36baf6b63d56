//! Where sessions have their sources.
//!
//! The two brokers that a session's name hashes to (highest random weight) are its directory.
//! Brokers with publishers or subscribers in the session register there; subscribers are told
//! which brokers publish. Everything here is soft: registered again from time to time, and
//! forgotten otherwise. Joins do not depend on it once they stand, so media outlives it.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use sangam_model::{BrokerId, Scope, Time, hash};
use sangam_route::rendezvous;
use sangam_wire::{BROKERS_MAX, Message, Register, Route, Sources};

use super::ORIGINS_MAX;

/// Brokers that keep the directory of one session: while one dies the other answers.
const HOMES: usize = 2;
/// Brokers that a registration or an answer may cross. Far more than events may: a session whose
/// directory is far away can have its sources near.
const HOPS: u8 = 64;
/// Registrations one broker keeps for others.
const REGISTRATIONS_MAX: usize = 262_144;
/// Brokers that publish in one session: all on a full map, and this one.
const SOURCES_MAX: usize = ORIGINS_MAX + 1;
/// A registration is told again so often, by each broker at a time of its own,
const REFRESH: Duration = Duration::from_secs(60);
/// or, while the directory has not answered, after this, doubling up to that.
const RETRY: Duration = Duration::from_millis(300);
const RETRY_MAX: Duration = Duration::from_secs(20);
/// A broker that did not register for so long is forgotten: three refreshes and some slack.
const EXPIRY: Duration = Duration::from_secs(200);
/// A source that is told no more is left at the first answer after so long: by then sources and
/// homes that can reach each other have told each other anew.
const LINGER: Duration = Duration::from_secs(30);
const SWEEP: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Directory {
    id: BrokerId,
    /// Brokers that may keep a directory, by rising id.
    suitors: Vec<BrokerId>,
    /// Sessions this broker takes part in.
    members: BTreeMap<Scope, Membership>,
    due: BTreeSet<(Time, Scope)>,
    /// Sessions this broker keeps the directory of.
    sessions: BTreeMap<Scope, BTreeMap<BrokerId, Registration>>,
    registrations: usize,
    sweep: Time,
}

#[derive(Debug)]
struct Membership {
    part: Part,
    homes: Vec<BrokerId>,
    /// Homes that have not answered the last registration.
    awaited: BTreeSet<BrokerId>,
    retries: u32,
    due: Time,
    answers: BTreeMap<BrokerId, BTreeSet<BrokerId>>,
    /// Sources that no home tells any more, and since when. A home that is new hears of them
    /// later than of us, and one that was cut off may return: to leave too early costs a gap, too
    /// late nothing.
    lingering: BTreeMap<BrokerId, Time>,
    /// Answers of which not all parts came.
    partial: BTreeMap<BrokerId, BTreeSet<BrokerId>>,
}

/// What a broker does in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) source: bool,
    pub(super) sink: bool,
}

#[derive(Debug)]
struct Registration {
    part: Part,
    heard: Time,
    /// It was told of a change since, which may have been lost.
    told: bool,
}

/// What became of a registration.
pub(super) enum Registered {
    /// These answers are due.
    Answers(Vec<Message>),
    /// Past the bound.
    Full,
}

impl Directory {
    pub(super) fn new(id: BrokerId) -> Self {
        Self {
            id,
            suitors: vec![id],
            members: BTreeMap::new(),
            due: BTreeSet::new(),
            sessions: BTreeMap::new(),
            registrations: 0,
            sweep: Time::NEVER,
        }
    }

    /// Takes part in a session as `part` says from now on; what is to be told.
    pub(super) fn enroll(&mut self, now: Time, scope: &Scope, part: Part) -> Vec<Message> {
        if part == Part::default() {
            return self.leave(scope);
        }
        let homes = homes(scope, self.suitors.iter());
        let member = self.members.entry(scope.clone()).or_insert(Membership {
            part,
            homes: homes.clone(),
            awaited: BTreeSet::new(),
            retries: 0,
            due: Time::NEVER,
            answers: BTreeMap::new(),
            lingering: BTreeMap::new(),
            partial: BTreeMap::new(),
        });
        member.part = part;
        member.homes = homes;
        self.register(now, scope, true)
    }

    fn leave(&mut self, scope: &Scope) -> Vec<Message> {
        let Some(member) = self.members.remove(scope) else {
            return Vec::new();
        };
        self.due.remove(&(member.due, scope.clone()));
        let told = member.homes.iter();
        told.map(|home| self.message(*home, scope, (Part::default(), false)))
            .collect()
    }

    /// Moves sessions whose homes have changed; what is to be told.
    pub(super) fn move_homes(&mut self, now: Time, suitors: Vec<BrokerId>) -> Vec<Message> {
        if suitors == self.suitors {
            return Vec::new();
        }
        let come = |id: &&BrokerId| self.suitors.binary_search(id).is_err();
        let come: Vec<BrokerId> = suitors.iter().filter(come).copied().collect();
        let mut moved = Vec::new();
        for (scope, member) in &mut self.members {
            let mut stay = member.homes.iter();
            let homes = if stay.all(|home| suitors.binary_search(home).is_ok()) {
                homes(scope, member.homes.iter().chain(&come))
            } else {
                homes(scope, suitors.iter())
            };
            if homes != member.homes {
                // Those that stay know us: after a partition all sessions move at once.
                member.awaited.retain(|home| homes.contains(home));
                let fresh = homes.iter().filter(|home| !member.homes.contains(home));
                member.awaited.extend(fresh);
                member.retries = 0;
                member.homes = homes;
                moved.push(scope.clone());
            }
        }
        self.suitors = suitors;
        let told = moved
            .iter()
            .flat_map(|scope| self.register(now, scope, false));
        told.collect()
    }

    /// There is a way to these brokers, by rising id, or none any more. Sources that were cut off
    /// and told no more linger from now on: homes hear of their return later than of ours.
    pub(super) fn returned(&mut self, now: Time, brokers: &[BrokerId]) {
        for member in self.members.values_mut() {
            let lingering = member.lingering.iter_mut();
            let back = lingering.filter(|(id, _)| brokers.binary_search(id).is_ok());
            back.for_each(|(_, since)| *since = now);
        }
    }

    /// A broker begins another life: it keeps the directory, but has forgotten us.
    pub(super) fn reborn(&mut self, now: Time, home: BrokerId) -> Vec<Message> {
        let mut forgotten = Vec::new();
        for (scope, member) in &mut self.members {
            if member.homes.contains(&home) {
                member.awaited.insert(home);
                member.retries = 0;
                forgotten.push(scope.clone());
            }
        }
        let told = forgotten
            .iter()
            .flat_map(|scope| self.register(now, scope, false));
        told.collect()
    }

    /// What is to be told again by now.
    pub(super) fn repeat(&mut self, now: Time) -> Vec<Message> {
        let mut out = Vec::new();
        while let Some((due, scope)) = self.due.first().cloned()
            && due <= now
        {
            out.extend(self.register(now, &scope, false));
        }
        out
    }

    fn register(&mut self, now: Time, scope: &Scope, anew: bool) -> Vec<Message> {
        let refreshed = self.refreshed_at(now);
        let Some(member) = self.members.get_mut(scope) else {
            return Vec::new();
        };
        let quiet = !anew && member.is_settled();
        if anew || member.awaited.is_empty() {
            member.awaited = member.homes.iter().copied().collect();
            member.retries = 0;
        }
        let told = member.awaited.clone();
        self.due.remove(&(member.due, scope.clone()));
        if quiet {
            member.awaited.clear();
            member.due = refreshed;
        } else {
            member.due = now + (RETRY * (1 << member.retries.min(6))).min(RETRY_MAX);
            member.retries += 1;
        }
        self.due.insert((member.due, scope.clone()));
        let part = member.part;
        let told = told.into_iter();
        told.map(|home| self.message(home, scope, (part, quiet)))
            .collect()
    }

    fn message(&self, home: BrokerId, scope: &Scope, (part, quiet): (Part, bool)) -> Message {
        Message::Register(Register {
            route: self.route(home),
            scope: scope.clone(),
            source: part.source,
            sink: part.sink,
            quiet,
        })
    }

    /// When all that stands now is told again: brokers that began together do not go on in step,
    /// while what one tells at once shares frames.
    fn refreshed_at(&self, now: Time) -> Time {
        let period = REFRESH.as_micros() as u64;
        let own = hash::fold(u64::from(self.id.0), hash::KEY) % period;
        let wait = (own + period - now.as_micros() % period) % period;
        let wait = Duration::from_micros(wait);
        let soon = wait < REFRESH / 2;
        now + if soon { wait + REFRESH } else { wait }
    }

    /// Takes a registration as the session's directory.
    pub(super) fn registered(&mut self, now: Time, register: &Register) -> Registered {
        let (from, scope) = (register.route.from, &register.scope);
        let part = Part {
            source: register.source,
            sink: register.sink,
        };
        let known = self.sessions.get(scope).and_then(|known| known.get(&from));
        let kept = register.quiet && known.is_some_and(|known| known.part == part && !known.told);
        let before = known.map(|known| known.part);
        if before.is_none() && self.registrations >= REGISTRATIONS_MAX {
            return Registered::Full;
        }
        let session = self.sessions.entry(scope.clone()).or_default();
        if part == Part::default() {
            self.registrations -= usize::from(session.remove(&from).is_some());
        } else {
            let told = false;
            let heard = now;
            session.insert(from, Registration { part, heard, told });
            self.registrations += usize::from(before.is_none());
            self.sweep = self.sweep.min(now + SWEEP);
        }
        let sources_changed = before.is_some_and(|part| part.source) != part.source;
        let mut answers = if sources_changed {
            self.answer_sinks(scope, Some(from))
        } else {
            Vec::new()
        };
        if part != Part::default() && !kept {
            answers.extend(self.answer(scope, from));
        }
        if self.sessions.get(scope).is_some_and(BTreeMap::is_empty) {
            self.sessions.remove(scope);
        }
        Registered::Answers(answers)
    }

    fn answer_sinks(&mut self, scope: &Scope, but: Option<BrokerId>) -> Vec<Message> {
        let session = self.sessions.get_mut(scope).into_iter().flatten();
        let sinks = session.filter(|(id, known)| known.part.sink && Some(**id) != but);
        let tell = |(id, known): (&BrokerId, &mut Registration)| {
            known.told = true;
            *id
        };
        let told: Vec<BrokerId> = sinks.map(tell).collect();
        let told = told.into_iter();
        told.flat_map(|id| self.answer(scope, id)).collect()
    }

    /// The session's sources in as many parts as it takes; none for who only publishes, which
    /// with a thousand publishers would cost more than their registrations.
    fn answer(&self, scope: &Scope, to: BrokerId) -> Vec<Message> {
        let session = self.sessions.get(scope);
        let listens = session.and_then(|known| known.get(&to)?.part.sink.then_some(known));
        let sources = listens.into_iter().flatten();
        let sources = sources.filter(|(_, known)| known.part.source);
        let sources: Vec<BrokerId> = sources.map(|(id, _)| *id).collect();
        let parts = sources.len().div_ceil(BROKERS_MAX).max(1);
        let part = |part: usize| {
            let rest = &sources[part * BROKERS_MAX..];
            Message::Sources(Sources {
                route: self.route(to),
                scope: scope.clone(),
                // The map holds 4,096 brokers: 21 parts.
                part: part as u8,
                parts: parts as u8,
                brokers: rest[..rest.len().min(BROKERS_MAX)].to_vec(),
            })
        };
        (0..parts).map(part).collect()
    }

    /// Takes an answer; the brokers by which the session's sources have changed, `None` if its
    /// sender was not asked or names more brokers than there are. `cut_off` tells which brokers
    /// are on the map and cannot be reached.
    pub(super) fn answered(
        &mut self,
        now: Time,
        answer: &Sources,
        cut_off: impl Fn(&BrokerId) -> bool,
    ) -> Option<BTreeSet<BrokerId>> {
        let home = answer.route.from;
        let refreshed = self.refreshed_at(now);
        let Some(member) = self.members.get_mut(&answer.scope) else {
            // We may have left meanwhile.
            return Some(BTreeSet::new());
        };
        // A former home counts until all new ones have answered.
        if !member.homes.contains(&home) && !member.answers.contains_key(&home) {
            return None;
        }
        if answer.part == 0 {
            member.partial.remove(&home);
        }
        let mut brokers = member.partial.remove(&home).unwrap_or_default();
        brokers.extend(&answer.brokers);
        if brokers.len() > SOURCES_MAX {
            return None;
        }
        if answer.part + 1 < answer.parts {
            member.partial.insert(home, brokers);
            return Some(BTreeSet::new());
        }
        let before = member.sources();
        member.answers.insert(home, brokers);
        member.awaited.remove(&home);
        if member.awaited.is_empty() {
            let homes = &member.homes;
            member.answers.retain(|home, _| homes.contains(home));
            member.partial.retain(|home, _| homes.contains(home));
            self.due.remove(&(member.due, answer.scope.clone()));
            member.due = refreshed;
            self.due.insert((member.due, answer.scope.clone()));
        }
        let told: BTreeSet<BrokerId> = member.answers.values().flatten().copied().collect();
        for id in before.difference(&told) {
            member.lingering.entry(*id).or_insert(now);
        }
        member
            .lingering
            .retain(|id, since| !told.contains(id) && (now - *since < LINGER || cut_off(id)));
        let after = member.sources();
        Some(before.symmetric_difference(&after).copied().collect())
    }

    /// Brokers that publish in a session, as far as is known; empty unless we listen in it.
    pub(super) fn sources(&self, scope: &Scope) -> BTreeSet<BrokerId> {
        let member = self.members.get(scope).filter(|member| member.part.sink);
        member.map(Membership::sources).unwrap_or_default()
    }

    /// Whether a broker publishes in a session, as far as is known.
    pub(super) fn is_source(&self, scope: &Scope, id: BrokerId) -> bool {
        let member = self.members.get(scope).filter(|member| member.part.sink);
        member.is_some_and(|member| {
            let told = member.answers.values().any(|known| known.contains(&id));
            told || member.lingering.contains_key(&id)
        })
    }

    /// Forgets registrations that nobody told again, and tells those who listen.
    pub(super) fn expire(&mut self, now: Time) -> Vec<Message> {
        if now < self.sweep {
            return Vec::new();
        }
        let mut changed = Vec::new();
        for (scope, session) in &mut self.sessions {
            let before = session.len();
            let old = |known: &Registration| now - known.heard >= EXPIRY;
            if session
                .values()
                .any(|known| old(known) && known.part.source)
            {
                changed.push(scope.clone());
            }
            session.retain(|_, known| !old(known));
            self.registrations -= before - session.len();
        }
        self.sessions.retain(|_, session| !session.is_empty());
        self.sweep = if self.sessions.is_empty() {
            Time::NEVER
        } else {
            now + SWEEP
        };
        let told = changed.iter();
        told.flat_map(|scope| self.answer_sinks(scope, None))
            .collect()
    }

    /// Sessions kept for others.
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn bytes(&self) -> usize {
        let member = |(scope, member): (&Scope, &Membership)| {
            let answers = member.answers.values().chain(member.partial.values());
            let ids = member.homes.len() + answers.map(BTreeSet::len).sum::<usize>();
            size_of::<(Scope, Membership)>() + scope.as_str().len() + ids * size_of::<BrokerId>()
        };
        let session = |(scope, known): (&Scope, &BTreeMap<_, _>)| {
            let entries = known.len() * size_of::<(BrokerId, Registration)>();
            size_of::<Scope>() + scope.as_str().len() + entries
        };
        let members: usize = self.members.iter().map(member).sum();
        members + self.sessions.iter().map(session).sum::<usize>()
    }

    pub(super) fn deadline(&self) -> Time {
        let due = self.due.first().map_or(Time::NEVER, |(at, _)| *at);
        due.min(self.sweep)
    }

    const fn route(&self, to: BrokerId) -> Route {
        Route {
            to,
            from: self.id,
            hop_limit: HOPS,
        }
    }
}

impl Membership {
    /// All homes have answered, and they alone, and nobody waits for anything.
    fn is_settled(&self) -> bool {
        let answered = |home| self.answers.contains_key(home);
        self.awaited.is_empty()
            && self.lingering.is_empty()
            && self.answers.len() == self.homes.len()
            && self.homes.iter().all(answered)
    }

    fn sources(&self) -> BTreeSet<BrokerId> {
        let told = self.answers.values().flatten();
        told.chain(self.lingering.keys()).copied().collect()
    }
}

/// The brokers that keep a session's directory.
fn homes<'a>(scope: &Scope, suitors: impl Iterator<Item = &'a BrokerId>) -> Vec<BrokerId> {
    rendezvous(scope.as_str(), suitors.copied(), HOMES)
}
