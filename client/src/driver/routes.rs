//! Which way is used: the first that works, and a better one as soon as it works again.

use core::time::Duration;
use std::io;
use std::sync::Arc;

use sangam_io::clock;
use sangam_io::poll::{Event, Poller};
use sangam_io::pool::Packet;
use sangam_link::{Dialer, DialerConfig};
use sangam_model::{StreamId, Time};
use sangam_wire::{Capabilities, Role};

use super::inbox::Inbox;
use super::intake::{Intake, Line, Trial};
use super::wire::{Wire, datagram_max};
use crate::shared::Shared;
use crate::state::Cause;
use crate::way::Way;
use crate::{ClientOptions, UpInfo};

/// How long datagrams may stay without an answer: five hellos.
const DATAGRAM_PATIENCE: Duration = Duration::from_secs(2);
/// The same for a stream, its opening included.
const STREAM_PATIENCE: Duration = Duration::from_secs(5);
/// How long a better link may take to restore everything; what has no answer then stays away
/// until its answer comes.
const RESTORE: Duration = Duration::from_secs(5);
/// How long a stream that is granted on the new link waits until its events go there: whoever
/// listens finds it meanwhile. And how long both links go on after that: what is on its way by
/// the old one still arrives, and the broker ends no stream whose last events it has not seen.
const SETTLE: Duration = Duration::from_millis(500);
/// The first token of a route; each has another one.
const TOKEN: u64 = 1;

/// Where a route's events go, and what it shares with the application.
pub(super) type Common<'a> = (&'a mut Inbox, &'a Arc<Shared>);

/// All ways, best first, and what is known of trying them.
pub(super) struct Routes {
    ways: Vec<Way>,
    options: ClientOptions,
    token: u64,
    /// Rounds through all ways that failed in a row.
    rounds: u32,
    /// When a better way is tried next, and which.
    climb: Option<Time>,
    next_better: usize,
    /// The route whose broker is about to leave, and how many others were tried instead of it.
    fled: (u64, usize),
}

/// One way as it is being used or tried.
pub(super) struct Route {
    way: usize,
    pub(super) token: u64,
    pub(super) wire: Wire,
    pub(super) line: Line,
    /// When it was last up, or was begun.
    since: Time,
    patience: Duration,
    /// Dialled then; until then it is a pause.
    starts: Option<Time>,
}

impl Routes {
    pub(super) fn new(ways: Vec<Way>, options: ClientOptions) -> Self {
        Self {
            ways,
            options,
            token: TOKEN,
            rounds: 0,
            climb: None,
            next_better: 0,
            fled: (0, 0),
        }
    }

    /// The best way that this machine can begin at all.
    ///
    /// # Errors
    /// Of the last one, if there is none.
    pub(super) fn first(&mut self, poller: &Poller, now: Time) -> io::Result<Route> {
        let mut result = Err(io::ErrorKind::NotFound.into());
        for way in 0..self.ways.len() {
            result = self.open(way, None, poller, now);
            if let Ok(route) = &mut result {
                route.line.start(now);
                break;
            }
        }
        result
    }

    /// Goes to the next way if `route` fails; whether it did.
    pub(super) fn turn(
        &mut self,
        route: &mut Route,
        (poller, shared): (&Poller, &Arc<Shared>),
        now: Time,
    ) -> bool {
        if route.starts.is_some_and(|starts| starts <= now) {
            route.starts = None;
            route.since = now;
            route.line.start(now);
            return true;
        }
        if route.line.is_up() {
            route.since = now;
            self.rounds = 0;
            return false;
        }
        let waits = route.starts.is_some() || route.line.refused;
        if self.ways.len() < 2 || waits || !route.is_failing(now) {
            return false;
        }
        let next = (route.way + 1) % self.ways.len();
        self.rounds += u32::from(next == 0);
        match self.open(next, None, poller, now) {
            Ok(mut opened) => {
                tracing::info!(way = self.name(&opened), "trying another way to the broker");
                opened.starts = Some(now + self.pause(next));
                *route = opened;
            }
            Err(error) => {
                shared.state().set_cause(Cause::from(error.to_string()));
                // Comes here again for the one behind it.
                (route.way, route.since) = (next, now);
            }
        }
        true
    }

    /// Begins to try another way than `route`, whose broker is about to leave: each of them once.
    fn flee(&mut self, route: &Route, poller: &Poller, now: Time) -> Option<Route> {
        if self.fled.0 != route.token {
            self.fled = (route.token, 0);
        }
        while self.fled.1 + 1 < self.ways.len() {
            self.fled.1 += 1;
            let way = (route.way + self.fled.1) % self.ways.len();
            if let Ok(mut other) = self.open(way, Some(Trial::default()), poller, now) {
                other.line.start(now);
                return Some(other);
            }
        }
        None
    }

    /// Begins to try a better way than `route`, once it is time, or any other one if its broker
    /// is about to leave.
    pub(super) fn climb(&mut self, route: &Route, poller: &Poller, now: Time) -> Option<Route> {
        if route.line.leaving && route.line.is_up() {
            return self.flee(route, poller, now);
        }
        if route.way == 0 || !route.line.is_up() {
            self.climb = None;
            return None;
        }
        let due = *self.climb.get_or_insert(now + self.options.climb_after);
        if now < due {
            return None;
        }
        self.climb = Some(now + self.options.climb_after);
        let way = self.next_better % route.way;
        self.next_better = way + 1;
        let mut better = self.open(way, Some(Trial::default()), poller, now).ok()?;
        better.line.start(now);
        Some(better)
    }

    /// When [`Routes::turn`] or [`Routes::climb`] may have something to do.
    pub(super) fn deadline(&self, route: &Route, climbing: bool) -> Option<Time> {
        if route.line.is_up() {
            return self.climb.filter(|_| !climbing);
        }
        let turns = self.ways.len() > 1 && !route.line.refused;
        let patience = turns.then(|| route.since + route.patience);
        route.starts.or(patience)
    }

    /// A way in words, for logs.
    pub(super) fn name(&self, route: &Route) -> String {
        match &self.ways[route.way] {
            Way::Udp(address) => format!("udp {address}"),
            Way::Stream(way) => format!("stream {:?}", way.addresses),
            Way::Quic(way) => format!("quic {}", way.address),
        }
    }

    fn open(
        &mut self,
        way: usize,
        trial: Option<Trial>,
        poller: &Poller,
        now: Time,
    ) -> io::Result<Route> {
        self.token += 1;
        let (token, known) = (self.token, &self.ways[way]);
        let wire = Wire::open(known, &self.options, poller, token)?;
        let datagram_max = datagram_max(known, &self.options);
        let reliable = !matches!(known, Way::Udp(_));
        let dialer = Dialer::new(DialerConfig {
            role: Role::Client,
            capabilities: capabilities(known, &self.options),
            datagram_max,
            clock_domain: clock::clock_domain(),
            reliable,
            in_order: false,
            // Each its own nonces.
            seed: self.options.seed.wrapping_add(token - TOKEN - 1),
            backoff: self.options.backoff,
        });
        Ok(Route {
            way,
            token,
            wire,
            line: Line::new(dialer, datagram_max, trial),
            since: now,
            patience: if reliable {
                STREAM_PATIENCE
            } else {
                DATAGRAM_PATIENCE
            },
            starts: None,
        })
    }

    /// Before the first way is tried again.
    fn pause(&self, next: usize) -> Duration {
        if next > 0 {
            return Duration::ZERO;
        }
        let backoff = self.options.backoff;
        let factor = 1_u32.checked_shl(self.rounds).unwrap_or(u32::MAX);
        backoff.first.saturating_mul(factor).min(backoff.most)
    }
}

/// Groups reach who is reached by datagrams.
fn capabilities(way: &Way, options: &ClientOptions) -> Capabilities {
    match way {
        Way::Udp(_) if options.multicast => Capabilities::OURS.with(Capabilities::MULTICAST),
        _ => Capabilities::OURS,
    }
}

impl Route {
    pub(super) fn ready(
        &mut self,
        event: Event,
        common: Common<'_>,
        poller: &Poller,
    ) -> io::Result<()> {
        let (wire, mut intake) = self.parts(common);
        wire.ready(event, &mut intake, poller)
    }

    pub(super) fn expire(&mut self, now: Time, common: Common<'_>) {
        let (wire, mut intake) = self.parts(common);
        wire.expire(now, &mut intake);
    }

    pub(super) fn send(&mut self, events: &[Packet], inbox: &mut Inbox, shared: &Arc<Shared>) {
        let (wire, intake) = self.parts((inbox, shared));
        wire.send(events, &intake);
    }

    /// Does what the link wants, until it wants no more.
    pub(super) fn carry_out(
        &mut self,
        now: Time,
        common: Common<'_>,
        poller: &Poller,
    ) -> io::Result<()> {
        let (wire, mut intake) = self.parts(common);
        loop {
            intake.drain(now);
            match intake.line.orders.pop_front() {
                Some(order) => wire.perform(order, &mut intake, poller)?,
                None => {
                    wire.flush(&mut intake, poller)?;
                    intake.drain(now);
                    if intake.line.orders.is_empty() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Drops the connection; the link dials anew.
    pub(super) fn restart(
        &mut self,
        now: Time,
        common: Common<'_>,
        poller: &Poller,
    ) -> io::Result<()> {
        let (_, mut intake) = self.parts((&mut *common.0, common.1));
        intake.lost(now, "a change of ways failed half-way".to_owned());
        self.carry_out(now, common, poller)
    }

    /// Says goodbye without waiting for anything.
    pub(super) fn leave(
        &mut self,
        now: Time,
        common: Common<'_>,
        poller: &Poller,
    ) -> io::Result<()> {
        // Nobody is told that this one ends.
        self.line.trial = Some(Trial::default());
        self.line.close(now);
        self.carry_out(now, common, poller)?;
        self.wire.leave();
        Ok(())
    }

    pub(super) fn has_orders(&self) -> bool {
        !self.line.orders.is_empty()
    }

    pub(super) fn has_moved(&self, stream: StreamId) -> bool {
        let trial = self.line.trial.as_ref();
        trial.is_some_and(|trial| trial.has_moved(stream))
    }

    pub(super) fn was_up(&self) -> bool {
        self.since_up().is_some()
    }

    /// Whether a trial will not come to anything.
    pub(super) fn is_hopeless(&self, now: Time) -> bool {
        self.line.failed || !self.was_up() && self.is_failing(now)
    }

    /// Whether a trial has restored everything, or all that can be, and may take what is
    /// published.
    pub(super) fn may_switch(&self, now: Time) -> bool {
        !self.has_switched() && self.switches().is_some_and(|at| now >= at)
    }

    /// What is published goes by this trial's link from now on.
    pub(super) fn switch(&mut self, now: Time, common: Common<'_>) {
        let (_, mut intake) = self.parts(common);
        intake.switch(now);
    }

    /// Whether the link there was is not needed any more.
    pub(super) fn may_take_over(&self, now: Time) -> bool {
        self.takes_over().is_some_and(|at| now >= at)
    }

    /// The trial is over: this is the link in use from now on.
    pub(super) fn settle(&mut self) -> Option<UpInfo> {
        Some(self.line.trial.take()?.up?.1)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let fails = self.line.trial.as_ref().map(|_| self.since + self.patience);
        let pending = self.switches().filter(|_| !self.has_switched());
        let trial = pending.or(self.takes_over()).or(fails);
        let all = [self.line.deadline(), self.wire.deadline(), trial];
        all.into_iter().flatten().min()
    }

    /// When a trial that is up takes what is published.
    fn switches(&self) -> Option<Time> {
        let restored = self.line.trial.as_ref()?.restored;
        let at_last = self.since_up()? + RESTORE;
        Some(restored.map_or(at_last, |since| (since + SETTLE).min(at_last)))
    }

    /// When it becomes the link in use.
    fn takes_over(&self) -> Option<Time> {
        Some(self.switches()? + SETTLE)
    }

    fn has_switched(&self) -> bool {
        let trial = self.line.trial.as_ref();
        trial.is_some_and(Trial::has_switched)
    }

    fn since_up(&self) -> Option<Time> {
        Some(self.line.trial.as_ref()?.up?.0)
    }

    fn is_failing(&self, now: Time) -> bool {
        self.line.failed || now >= self.since + self.patience
    }

    fn parts<'a>(&'a mut self, (inbox, shared): Common<'a>) -> (&'a mut Wire, Intake<'a>) {
        let line = &mut self.line;
        let intake = Intake {
            line,
            inbox,
            shared,
        };
        (&mut self.wire, intake)
    }
}
