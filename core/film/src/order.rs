//! Packets by their global numbers, from their arrival until they are played.

use core::time::Duration;
use std::collections::VecDeque;

use sangam_model::Time;

/// Packets from the one that is played next to the furthest one: a minute of 45 Mb/s.
const PLACES_MAX: usize = 1 << 18;
/// Nothing is played for so long behind what is played: then it is starving, and no matter of one
/// late packet. Three frames.
const PATIENCE: Duration = Duration::from_millis(120);

/// A packet that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held<P> {
    /// When it is to be played, by the film's clock.
    pub at: Duration,
    /// Bytes of the film in it.
    pub bytes: u32,
    /// What the caller needs for that.
    pub payload: P,
}

/// What was played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Packets in time.
    pub played: u64,
    /// Packets that had not come when they were to be played.
    pub lost: u64,
    /// Packets that came after they were to be played, or far ahead of what is held.
    pub late: u64,
    /// Packets that came more than once.
    pub duplicates: u64,
    /// How often there was nothing left to play.
    pub starved: u64,
    /// For how long, all together, in microseconds.
    pub starved_us: u64,
}

/// A client's buffer. Playing begins when enough is held, goes on by the clock, stops when nothing
/// is left, and begins again when enough is held.
#[derive(Debug)]
pub struct Order<P> {
    /// Enough to begin: so much of the film, or so many bytes.
    begin: (Duration, u64),
    /// The global number of the first place.
    next: u64,
    places: VecDeque<Option<Held<P>>>,
    held: usize,
    bytes: u64,
    /// The latest time of the film that is held, or was.
    newest: Duration,
    /// What was played last.
    at: Duration,
    /// When playing began, and where in the film that was.
    origin: Option<(Time, Duration)>,
    /// Since when nothing is left; `None` before the first begin.
    hungry: Option<Time>,
    is_ending: bool,
    played: Played,
}

impl<P> Order<P> {
    /// Begins with the packet `next`, once so much of the film or so many bytes are held.
    #[must_use]
    pub const fn new(next: u64, begin: (Duration, u64)) -> Self {
        Self {
            begin,
            next,
            places: VecDeque::new(),
            held: 0,
            bytes: 0,
            newest: Duration::ZERO,
            at: Duration::ZERO,
            origin: None,
            hungry: None,
            is_ending: false,
            played: Played {
                played: 0,
                lost: 0,
                late: 0,
                duplicates: 0,
                starved: 0,
                starved_us: 0,
            },
        }
    }

    /// Takes a packet; whether it was wanted.
    pub fn arrive(&mut self, gsn: u64, packet: Held<P>) -> bool {
        let Some(place) = gsn.checked_sub(self.next) else {
            self.played.late += 1;
            return false;
        };
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        if place >= PLACES_MAX {
            self.played.late += 1;
            return false;
        }
        if place >= self.places.len() {
            self.places.resize_with(place + 1, || None);
        }
        if self.places[place].is_some() {
            self.played.duplicates += 1;
            return false;
        }
        self.held += 1;
        self.bytes += u64::from(packet.bytes);
        self.newest = self.newest.max(packet.at);
        self.places[place] = Some(packet);
        true
    }

    /// Nothing more is sent: what is held is played to its end.
    pub const fn end(&mut self) {
        self.is_ending = true;
    }

    /// Plays what is due; each packet goes to `play`, in order.
    pub fn advance(&mut self, now: Time, mut play: impl FnMut(Held<P>)) {
        if self.origin.is_none() && !self.set_out(now) {
            return;
        }
        let head = self.head(now);
        while let Some(first) = self.places.front() {
            let due = match first {
                Some(first) => first.at <= head,
                // Whatever it was, it was to be played before what follows it.
                None => self.behind().is_some_and(|at| at <= head),
            };
            if !due {
                break;
            }
            self.next += 1;
            match self.places.pop_front().flatten() {
                Some(packet) => {
                    self.held -= 1;
                    self.bytes -= u64::from(packet.bytes);
                    self.played.played += 1;
                    self.at = packet.at;
                    play(packet);
                }
                None => self.played.lost += 1,
            }
        }
        let is_empty = self.held == 0 && !self.is_ending;
        if is_empty && head > self.at + PATIENCE {
            self.played.starved += 1;
            self.hungry = Some(now);
            self.origin = None;
        }
    }

    /// Where in the film it plays, or will begin.
    #[must_use]
    pub fn head(&self, now: Time) -> Duration {
        match self.origin {
            Some((since, from)) => from + now.since(since),
            None => self.at,
        }
    }

    /// Whether it plays now.
    #[must_use]
    pub const fn is_playing(&self) -> bool {
        self.origin.is_some()
    }

    /// Whether it played to the end.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_ending && self.held == 0
    }

    /// Bytes held.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How much of the film is held, from what is played to the newest packet.
    #[must_use]
    pub fn ahead(&self, now: Time) -> Duration {
        match self.held {
            0 => Duration::ZERO,
            _ => {
                let first = self.places.iter().flatten().next();
                let from = first.map_or(self.at, |first| first.at);
                let from = if self.is_playing() {
                    self.head(now)
                } else {
                    from
                };
                self.newest.saturating_sub(from)
            }
        }
    }

    /// The number that is played next.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Whether this packet is still to come.
    #[must_use]
    pub fn is_missing(&self, gsn: u64) -> bool {
        let place = gsn.checked_sub(self.next);
        let place = place.and_then(|place| usize::try_from(place).ok());
        place.is_some_and(|place| self.places.get(place).is_none_or(Option::is_none))
    }

    /// Where somebody else is to go on: the first number that is still to come, and where in the
    /// film that is, as far as what stands before it tells.
    #[must_use]
    pub fn resume(&self) -> (u64, Duration) {
        let held = self.places.iter().map_while(Option::as_ref);
        let (count, last) = held.fold((0, None), |(count, _), held| (count + 1, Some(held.at)));
        (self.next + count, last.unwrap_or(self.at))
    }

    /// The number behind the furthest one that came.
    #[must_use]
    pub fn end_of(&self) -> u64 {
        self.next + self.places.len() as u64
    }

    /// It is not the end yet: somebody else goes on.
    pub const fn go_on(&mut self) {
        self.is_ending = false;
    }

    /// Whether it was said that nothing more is sent.
    #[must_use]
    pub const fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// What was played so far.
    #[must_use]
    pub const fn played(&self) -> Played {
        self.played
    }

    /// Begins if enough is held.
    fn set_out(&mut self, now: Time) -> bool {
        let first = self.places.iter().flatten().next();
        let Some(first) = first.map(|first| first.at) else {
            return false;
        };
        let span = self.newest.saturating_sub(first);
        let is_enough = span >= self.begin.0 || self.bytes >= self.begin.1 || self.is_ending;
        if !is_enough {
            return false;
        }
        if let Some(since) = self.hungry.take() {
            self.played.starved_us += now.since(since).as_micros() as u64;
        }
        self.origin = Some((now, first));
        true
    }

    /// When the first packet that is held is due.
    fn behind(&self) -> Option<Duration> {
        self.places.iter().flatten().next().map(|first| first.at)
    }
}
