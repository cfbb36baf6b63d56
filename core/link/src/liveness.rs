//! Whether the peer lives, and when to ask it.

use core::time::Duration;

use sangam_model::Time;

use crate::timing::Timing;

/// A ping without an answer is repeated up to so many times faster than usual, as three lost
/// pings in a row are too likely on a bad path.
const HASTE: u32 = 4;
/// This share of the patience with the peer may pass by our own lateness before that is forgiven:
/// 25 ms of a broker's 300.
const TOLERANCE: u32 = 12;
/// This share of the patience is left after it, to take what waits in the socket.
const GRACE: u32 = 6;
/// How often in one silence lateness is forgiven: a loop that is always late must end, too.
const FORGIVEN_MAX: u8 = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Liveness {
    ping: Option<Micros>,
    busy_ping: Option<Micros>,
    probe_after: Option<Micros>,
    suspect_after: Option<Micros>,
    dead_after: Micros,
    heard: Time,
    /// Sent last; the first is due at once.
    pinged: Option<Time>,
    /// Nothing answers that yet.
    unanswered: bool,
    ping_at: Time,
    /// When a suspect peer was heard last.
    suspect: Option<Time>,
    forgiven: Forgiven,
}

/// A duration in little room: a broker has many sessions. Up to 71 minutes.
#[derive(Clone, Copy, Debug, Default)]
struct Micros(u32);

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
            heard: now,
            pinged: None,
            unanswered: false,
            ping_at: timing.ping.map_or(Time::NEVER, |_| now),
            suspect: None,
            forgiven: Forgiven::default(),
        }
    }

    #[inline]
    pub(crate) fn heard(&mut self, now: Time) {
        self.heard = now;
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.is_some()
    }

    pub(crate) fn deadline(&self) -> Time {
        let turn = match (self.suspect, self.suspect_after) {
            (Some(since), _) if self.heard > since => self.heard,
            (None, Some(after)) => self.silent_for(after.into()),
            _ => Time::NEVER,
        };
        self.ping_due()
            .min(turn)
            .min(self.silent_for(self.dead_after.into()))
    }

    /// Forgives the peer a silence that is our own lateness: whoever was not there to listen
    /// cannot tell. Call it before [`Liveness::turn`]; whether there was any.
    pub(crate) fn forgive(&mut self, now: Time) -> bool {
        let late = now - self.deadline().max(self.heard);
        let patience = Duration::from(self.dead_after);
        if late <= patience / TOLERANCE {
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
        let least = now + patience / GRACE - (self.heard + patience);
        let slack = Duration::from(self.forgiven.slack) + late;
        self.forgiven.slack = slack.max(least).into();
        self.forgiven.times += 1;
        true
    }

    /// What the silence, or its end, says now.
    pub(crate) fn turn(&mut self, now: Time) -> Option<Turn> {
        if now >= self.silent_for(self.dead_after.into()) {
            return Some(Turn::Dead);
        }
        match (self.suspect, self.suspect_after) {
            (Some(since), _) if self.heard > since => {
                self.suspect = None;
                Some(Turn::Recovered)
            }
            (None, Some(after)) if now >= self.silent_for(after.into()) => {
                self.suspect = Some(self.heard);
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
        if let (true, Some(pinged), Some(interval)) = (self.unanswered, self.pinged, self.ping) {
            self.unanswered = false;
            // Only haste is taken back.
            let interval = self.busy_ping.unwrap_or(interval);
            self.ping_at = self.ping_at.max(pinged + interval.into());
        }
    }

    /// Enough was sent since the last ping to ask what became of it.
    pub(crate) fn busy(&mut self) {
        if let (Some(pinged), Some(interval)) = (self.pinged, self.busy_ping) {
            self.ping_at = self.ping_at.min(pinged + interval.into());
        }
    }

    /// Whether to ping now; the next one is due after `patience` unless this one is answered.
    pub(crate) fn ping(&mut self, now: Time, patience: Duration) -> bool {
        let Some(interval) = self.ping.map(Duration::from) else {
            return false;
        };
        if self.pinged.is_some_and(|pinged| self.heard > pinged) {
            // Something else proved life: no haste.
            self.answered();
        }
        if now < self.ping_due() {
            return false;
        }
        self.pinged = Some(now);
        self.unanswered = true;
        let haste = self
            .probe_after
            .map_or(interval, Duration::from)
            .min(interval);
        self.ping_at = now + patience.clamp(haste / HASTE, haste);
        true
    }

    /// When to ping, early if the peer has fallen silent and nothing asks it yet.
    fn ping_due(&self) -> Time {
        match self.probe_after {
            Some(after) if self.pinged.is_some_and(|pinged| pinged <= self.heard) => {
                self.ping_at.min(self.silent_for(after.into()))
            }
            _ => self.ping_at,
        }
    }

    /// When the peer will have been silent for `time`, but for what is forgiven.
    fn silent_for(&self, time: Duration) -> Time {
        let slack = if self.forgiven.silence == self.heard {
            self.forgiven.slack.into()
        } else {
            Duration::ZERO
        };
        self.heard + time + slack
    }
}
