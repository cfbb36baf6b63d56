//! A link on which little happens rests: one of its ends asks the other now and then to measure it,
//! and silence is no sign of death unless it follows a question.
//!
//! An end is **lively** while events leave it, and for a moment after. Then it is heard every
//! 50 ms, by events or by echoes between them, so that who receives from it notices at once when
//! nothing comes any more. Otherwise it is **quiet**: it says so in an echo, and once that was
//! heard it speaks only to measure or to answer.

use core::time::Duration;

use sangam_model::Time;

/// So many events in [`COUNTED`] make an end lively: with fewer, most of what a lively end sends
/// would be pings. Reports of brokers about themselves are fewer; 15 pictures a second are not.
const LIVELY_EVENTS: u64 = 12;
/// Events are counted anew after so long.
const COUNTED: Duration = Duration::from_secs(1);
/// An end is lively for so long after it was found to be, and after the link came up: a stream
/// that pauses for a second does not change anything.
const LIVELY: Duration = Duration::from_secs(2);
/// A lively end is heard at least so often.
const BEAT: Duration = Duration::from_millis(50);

/// Whether enough events leave one end of a link for its silence to mean something.
#[derive(Clone, Copy, Debug)]
pub struct Lively {
    until: Time,
    /// Since when events are counted, and how many left.
    events: (Time, u64),
}

/// What both ends hold for each other's state. Only where both understand it.
#[derive(Debug)]
pub(crate) struct Quiet {
    lively: Lively,
    /// When anything left last.
    spoke: Time,
    /// The first echo that said that this end is quiet.
    told: Option<Time>,
    /// The peer knows.
    resting: bool,
    /// What the peer said last of itself, and when by its own clock.
    peer: (bool, u64),
    /// The first question that nothing followed, and how long its answer may be on its way.
    asked: Option<(Time, Duration)>,
}

impl Lively {
    /// The end of a link that has come up now.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self {
            until: now + LIVELY,
            events: (now, 0),
        }
    }

    /// Takes that events leave; whether they are many.
    #[inline]
    pub fn sent(&mut self, now: Time, events: u64) -> bool {
        if now - self.events.0 >= COUNTED {
            self.events = (now, 0);
        }
        self.events.1 += events;
        let many = self.events.1 >= LIVELY_EVENTS;
        if many {
            self.until = now + LIVELY;
        }
        many
    }

    /// Whether the end is lively now.
    #[must_use]
    pub fn is_so(&self, now: Time) -> bool {
        now < self.until
    }
}

impl Quiet {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            lively: Lively::new(now),
            spoke: now,
            told: None,
            resting: false,
            peer: (false, 0),
            asked: None,
        }
    }

    /// Events left this end; whether the peer has to hear that it is quiet no more.
    #[inline]
    pub(crate) fn sent(&mut self, now: Time, events: u64) -> bool {
        if !self.lively.sent(now, events) {
            return false;
        }
        self.resting = false;
        self.told.take().is_some()
    }

    /// Anything left for the peer by the link itself.
    #[inline]
    pub(crate) fn spoke(&mut self, now: Time) {
        self.spoke = now;
    }

    /// When to be heard, if nothing else is said before.
    pub(crate) fn beat_at(&self) -> Time {
        match self.resting {
            true => Time::NEVER,
            false => self.spoke + BEAT,
        }
    }

    /// An echo leaves; whether it tells that this end is quiet.
    pub(crate) fn tells(&mut self, now: Time) -> bool {
        if !self.lively.is_so(now) {
            self.told.get_or_insert(now);
        }
        self.told.is_some()
    }

    /// The echo that left at `echo` was heard.
    pub(crate) fn answered(&mut self, echo: Time) {
        self.resting |= self.told.is_some_and(|told| echo >= told);
    }

    /// The peer said of itself, at this time of its clock, whether it is quiet. What was overtaken
    /// counts no more.
    pub(crate) fn says(&mut self, quiet: bool, peer_us: u64) {
        if peer_us >= self.peer.1 {
            self.peer = (quiet, peer_us);
        }
    }

    /// Something left that the peer answers within `patience`, if it lives.
    pub(crate) fn asks(&mut self, now: Time, heard: Time, patience: Duration) {
        if self.asked.is_none_or(|(at, _)| at < heard) {
            self.asked = Some((now, patience));
        }
    }

    /// If the peer is quiet: since when its silence counts, [`Time::NEVER`] while nothing was
    /// asked.
    /// `heard`: when anything of it was heard last.
    pub(crate) fn silent_since(&self, heard: Time) -> Option<Time> {
        let (true, _) = self.peer else {
            return None;
        };
        let open = self.asked.filter(|(at, _)| *at >= heard);
        Some(open.map_or(Time::NEVER, |(at, patience)| at + patience))
    }
}
