//! Whether the peer lives, and when to ask it.

use core::time::Duration;

use sangam_model::Time;

use crate::quiet::Quiet;
use crate::timing::Timing;

/// A ping without an answer is repeated up to so many times faster than usual, as three lost
/// pings in a row are too likely on a bad path.
const HASTE: u32 = 5;
/// This share of the patience with the peer may pass by our own lateness before that is forgiven:
/// 25 ms of a broker's 300.
const TOLERANCE: u32 = 12;
/// This share of the patience is left after it, to take what waits in the socket.
const GRACE: u32 = 6;
/// Up to this round trip a stream that has lost a segment is heard again in time: fast retransmit
/// takes a round trip and a quarter (RFC 8985 section 6.2) after the next ping shows the gap.
const NEAR: Duration = Duration::from_millis(30);
/// Beyond, a peer by a stream is suspect later by half as much again. 100 ms of round trip give
/// 255 ms until suspicion, of which one loss takes 200, and 510 until death: a repetition that is
/// lost, too, comes after the kernel's timeout of a round trip and 200 ms, in all 500.
const FURTHER: (u128, u128) = (3, 2);
/// But by no more than this.
const FURTHER_MAX_MS: u16 = 600;
/// So long an end may wait for its peer's first word, if that is longer than for any other: an end
/// that accepts a call hears nothing for a round trip, and does not know yet how long that is.
const FIRST_WORD: Duration = Duration::from_secs(3);
/// How often in one silence lateness is forgiven: a loop that is always late must end, too.
const FORGIVEN_MAX: u8 = 8;

#[derive(Debug)]
pub(crate) struct Liveness {
    ping: Option<Micros>,
    busy_ping: Option<Micros>,
    probe_after: Option<Micros>,
    suspect_after: Option<Micros>,
    dead_after: Micros,
    in_order: bool,
    /// By what a suspicion comes later on a long path, in milliseconds; a death by twice that.
    further_ms: u16,
    heard: Time,
    /// Something has come since the session began.
    met: bool,
    /// Sent last; the first is due at once.
    pinged: Maybe,
    /// Nothing answers that yet.
    unanswered: bool,
    ping_at: Time,
    /// Ping at the busy interval, as much was sent.
    busy: bool,
    /// When a suspect peer was heard last.
    suspect: Maybe,
    forgiven: Forgiven,
    /// Where both ends may be quiet.
    quiet: Option<Box<Quiet>>,
}

/// A duration in little room: a broker has many sessions. Up to 71 minutes.
#[derive(Clone, Copy, Debug, Default)]
struct Micros(u32);

/// A moment that may not have been yet: then it is [`Time::NEVER`].
#[derive(Clone, Copy, Debug)]
struct Maybe(Time);

impl Maybe {
    const NEVER: Self = Self(Time::NEVER);

    fn get(self) -> Option<Time> {
        (self.0 != Time::NEVER).then_some(self.0)
    }
}

impl From<Duration> for Micros {
    fn from(time: Duration) -> Self {
        Self(u32::try_from(time.as_micros()).unwrap_or(u32::MAX))
    }
}

impl From<Micros> for Duration {
    fn from(Micros(us): Micros) -> Self {
        Self::from_micros(us.into())
    }
}

/// What of a silence was our own.
#[derive(Clone, Copy, Debug, Default)]
struct Forgiven {
    /// The silence since then.
    silence: Time,
    slack: Micros,
    times: u8,
}

/// A change of mind about the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Suspect,
    Recovered,
    Dead,
}

impl Liveness {
    pub(crate) fn new(timing: &Timing, now: Time) -> Self {
        Self {
            ping: timing.ping.map(Micros::from),
            busy_ping: timing.busy_ping.map(Micros::from),
            probe_after: timing.probe_after.map(Micros::from),
            suspect_after: timing.suspect_after.map(Micros::from),
            dead_after: timing.dead_after.into(),
            in_order: timing.in_order,
            further_ms: 0,
            heard: now,
            met: false,
            pinged: Maybe::NEVER,
            unanswered: false,
            ping_at: timing.ping.map_or(Time::NEVER, |_| now),
            busy: false,
            suspect: Maybe::NEVER,
            forgiven: Forgiven::default(),
            quiet: None,
        }
    }

    /// From now on either end may be quiet, and this one asks after `interval`.
    pub(crate) fn rest(&mut self, now: Time, interval: Duration) {
        self.ping = Some(interval.into());
        self.quiet = Some(Box::new(Quiet::new(now)));
    }

    pub(crate) fn quiet(&mut self) -> Option<&mut Quiet> {
        self.quiet.as_deref_mut()
    }

    /// Events left for the peer.
    #[inline]
    pub(crate) fn sent(&mut self, now: Time, events: u64) {
        if let Some(quiet) = &mut self.quiet
            && quiet.sent(now, events)
        {
            self.ping_at = now;
        }
    }

    /// Something left that the peer answers within `patience`, if it lives.
    pub(crate) fn asks(&mut self, now: Time, patience: Duration) {
        if let Some(quiet) = &mut self.quiet {
            quiet.asks(now, self.heard, patience);
        }
    }

    /// The path's round trip, smoothed.
    pub(crate) fn measured(&mut self, rtt: Duration) {
        if self.in_order {
            let (share, of) = FURTHER;
            let further = rtt.saturating_sub(NEAR).as_millis() * share / of;
            self.further_ms = further.min(FURTHER_MAX_MS.into()) as u16;
        }
    }

    #[inline]
    pub(crate) fn heard(&mut self, now: Time) {
        self.heard = now;
        self.met = true;
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.get().is_some()
    }

    pub(crate) fn deadline(&self) -> Time {
        let turn = match (self.suspect.get(), self.suspect_after()) {
            (Some(since), _) if self.heard > since => self.heard,
            (None, Some(after)) => self.silent_for(after),
            _ => Time::NEVER,
        };
        self.ping_due()
            .min(turn)
            .min(self.silent_for(self.dead_after()))
    }

    /// Forgives the peer a silence that is our own lateness: whoever was not there to listen
    /// cannot tell. Call it before [`Liveness::turn`]; whether there was any.
    pub(crate) fn forgive(&mut self, now: Time) -> bool {
        let late = now - self.deadline().max(self.heard);
        let patience = self.dead_after();
        let death = self.silent_unforgiven(patience);
        if late <= patience / TOLERANCE || death == Time::NEVER {
            return false;
        }
        if self.forgiven.silence != self.heard {
            self.forgiven = Forgiven {
                silence: self.heard,
                ..Forgiven::default()
            };
        }
        if self.forgiven.times == FORGIVEN_MAX {
            return false;
        }
        let least = now + patience / GRACE - death;
        let slack = Duration::from(self.forgiven.slack) + late;
        self.forgiven.slack = slack.max(least).into();
        self.forgiven.times += 1;
        true
    }

    /// What the silence, or its end, says now.
    pub(crate) fn turn(&mut self, now: Time) -> Option<Turn> {
        if now >= self.silent_for(self.dead_after()) {
            return Some(Turn::Dead);
        }
        match (self.suspect.get(), self.suspect_after()) {
            (Some(since), _) if self.heard > since => {
                self.suspect = Maybe::NEVER;
                Some(Turn::Recovered)
            }
            (None, Some(after)) if now >= self.silent_for(after) => {
                self.suspect = Maybe(self.heard);
                Some(Turn::Suspect)
            }
            _ => None,
        }
    }

    /// Whether this end pings, so that answers make sense.
    pub(crate) fn pings(&self) -> bool {
        self.ping.is_some()
    }

    /// The last ping was answered.
    pub(crate) fn answered(&mut self) {
        if let (true, Some(pinged), Some(interval)) =
            (self.unanswered, self.pinged.get(), self.ping)
        {
            self.unanswered = false;
            // Only haste is taken back.
            self.ping_at = self.ping_at.max(pinged + interval.into());
        }
    }

    /// The peer asks, which is as good as a question of ours.
    pub(crate) fn asked(&mut self, now: Time) {
        if let Some(interval) = self.ping {
            self.unanswered = false;
            self.ping_at = now + interval.into();
        }
    }

    /// Enough was sent since the last ping to ask what became of it.
    pub(crate) fn busy(&mut self) {
        self.busy = true;
    }

    /// Whether to ping now; the next one is due after `patience` unless this one is answered.
    pub(crate) fn ping(&mut self, now: Time, patience: Duration) -> bool {
        let Some(interval) = self.ping.map(Duration::from) else {
            return false;
        };
        if self.pinged.get().is_some_and(|pinged| self.heard > pinged) {
            // Something else proved life: no haste.
            self.answered();
        }
        if now < self.ping_due() {
            return false;
        }
        self.pinged = Maybe(now);
        self.unanswered = true;
        self.busy = false;
        self.asks(now, patience);
        let haste = self
            .probe_after
            .map_or(interval, Duration::from)
            .min(interval);
        self.ping_at = now + patience.clamp(haste / HASTE, haste);
        true
    }

    /// When to ping, early if the peer has fallen silent and nothing asks it yet.
    fn ping_due(&self) -> Time {
        let beat = self.quiet.as_ref().map_or(Time::NEVER, |it| it.beat_at());
        let busy = match (self.busy, self.pinged.get(), self.busy_ping) {
            (true, Some(pinged), Some(interval)) => pinged + interval.into(),
            _ => Time::NEVER,
        };
        let due = self.ping_at.min(busy).min(beat);
        match self.probe_after {
            Some(after) if self.pinged.get().is_some_and(|pinged| pinged <= self.heard) => {
                due.min(self.silent_for(after.into()))
            }
            _ => due,
        }
    }

    fn suspect_after(&self) -> Option<Duration> {
        let after = self.suspect_after.map(Duration::from)?;
        let after = after + self.further();
        Some(match self.awaits_first_word() {
            true => after.max(FIRST_WORD / 2),
            false => after,
        })
    }

    fn dead_after(&self) -> Duration {
        let after = Duration::from(self.dead_after) + self.further() * 2;
        match self.awaits_first_word() {
            true => after.max(FIRST_WORD),
            false => after,
        }
    }

    /// Of an end that suspects, which is a broker's: nothing has come since the session began.
    fn awaits_first_word(&self) -> bool {
        !self.met && self.suspect_after.is_some()
    }

    fn further(&self) -> Duration {
        Duration::from_millis(self.further_ms.into())
    }

    /// When the peer will have been silent for `time`, but for what is forgiven.
    fn silent_for(&self, time: Duration) -> Time {
        let slack = if self.forgiven.silence == self.heard {
            self.forgiven.slack.into()
        } else {
            Duration::ZERO
        };
        self.silent_unforgiven(time) + slack
    }

    /// The same without what is forgiven. A quiet peer is given twice the time, from a question on
    /// that nothing answers; never, while there is none.
    fn silent_unforgiven(&self, time: Duration) -> Time {
        let quiet = self.quiet.as_ref();
        match quiet.and_then(|quiet| quiet.silent_since(self.heard)) {
            Some(since) => since + time * Timing::PATIENCE,
            None => self.heard + time,
        }
    }
}
