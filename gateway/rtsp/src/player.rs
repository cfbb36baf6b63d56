//! When each packet of a film is due, and when more is to be read.

use std::collections::VecDeque;
use std::time::Duration;

use rtsp_types::StatusCode;
use sangam_archive::{Replayed, Timeline};
use sangam_model::Time;

use crate::limits::{AHEAD, AHEAD_MAX, LATE_MAX};
use crate::range::{Way, way};
use crate::reading::{Chunk, Job, Reader, Seek};

/// The end is told so long after the last packet. GStreamer's players know where the end is and
/// stop with the packet that reaches it; one that is told the same at that moment may do neither.
const LINGER: Duration = Duration::from_millis(200);

/// What a client asked for; places count from the begin of the recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wish {
    /// Where from; `None`: where it stopped.
    pub(crate) from: Option<Duration>,
    /// Where it ends, if before the film does; back, if before its begin.
    pub(crate) until: Option<Duration>,
    /// How much faster than it is to be shown it is sent.
    pub(crate) speed: f64,
    /// How much faster it is to be shown; below 0: back.
    pub(crate) scale: f64,
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has not begun.
    Ready,
    /// It waits for the first packets.
    Starting,
    /// It plays.
    Playing,
    /// It stopped, and may go on.
    Paused,
    /// It came to the end.
    Ended,
}

/// One film for one player.
#[derive(Debug)]
pub(crate) struct Player {
    pub(crate) state: State,
    /// `None` while it reads.
    reader: Option<Box<Reader>>,
    /// Where it is to read from next, if not on.
    seek: Option<Seek>,
    ahead: VecDeque<Replayed>,
    bytes: usize,
    /// Nothing follows what was read ahead.
    is_last: bool,
    /// What would follow could not be read.
    failure: Option<StatusCode>,
    wish: Wish,
    /// When what senders sent is to be shown.
    clocks: Option<Box<Timeline>>,
    /// Where it played from last, and when that was.
    from: Duration,
    origin: Time,
    /// Since when all was sent.
    all_sent: Option<Time>,
}

impl Player {
    /// A player that has not begun.
    pub(crate) fn new(reader: Reader) -> Self {
        Self {
            state: State::Ready,
            reader: Some(Box::new(reader)),
            seek: None,
            ahead: VecDeque::new(),
            bytes: 0,
            is_last: false,
            failure: None,
            wish: Wish {
                from: None,
                until: None,
                speed: 1.0,
                scale: 1.0,
            },
            clocks: None,
            from: Duration::ZERO,
            origin: Time::ZERO,
            all_sent: None,
        }
    }

    /// Begins, goes on, or jumps.
    pub(crate) fn start(&mut self, wish: Wish) {
        if let Some(from) = wish.from {
            self.seek = Some(Seek {
                to: from,
                until: wish.until,
                scale: wish.scale,
            });
            self.from = from;
            self.clear();
        } else if let Some(next) = self.ahead.front() {
            self.from = next.at;
        }
        (self.wish, self.all_sent) = (wish, None);
        self.state = State::Starting;
    }

    /// Does nothing, at this place.
    pub(crate) fn rest(&mut self, state: State, at: Duration) {
        self.clear();
        (self.state, self.from, self.seek) = (state, at, None);
        // Whatever was asked for before, what comes next is looked for.
        self.wish.scale = 1.0;
    }

    /// Stops where it is.
    pub(crate) fn pause(&mut self) {
        self.state = State::Paused;
    }

    /// What is to be read now, if something is.
    pub(crate) fn job(&mut self) -> Option<Job> {
        let span = match (self.ahead.front(), self.ahead.back()) {
            (Some(first), Some(last)) => last.at.abs_diff(first.at),
            _ => Duration::ZERO,
        };
        let wanted = AHEAD.mul_f64(self.pace().max(1.0));
        let is_low = span < wanted && self.bytes < AHEAD_MAX && !self.is_last;
        let reads = matches!(self.state, State::Starting | State::Playing) && is_low;
        if !reads && self.seek.is_none() {
            return None;
        }
        let reader = self.reader.take()?;
        Some((reader, self.seek.take()))
    }

    /// Takes what was read, or what a client is told of that it could not be.
    pub(crate) fn take(&mut self, reader: Box<Reader>, chunk: Result<Chunk, StatusCode>) {
        self.reader = Some(reader);
        // It jumped meanwhile.
        if self.seek.is_some() {
            return;
        }
        self.failure = chunk.as_ref().err().copied();
        let Ok(chunk) = chunk else {
            self.is_last = true;
            return;
        };
        if let Some(start) = chunk.start {
            self.from = start;
            self.clocks = chunk.clocks;
        }
        if let Some(scale) = chunk.scale {
            if way(scale) != way(self.wish.scale) {
                self.wish.until = None;
            }
            self.wish.scale = scale;
        }
        self.is_last = chunk.is_last;
        self.bytes += chunk
            .packets
            .iter()
            .map(|one| one.payload.len())
            .sum::<usize>();
        self.ahead.extend(chunk.packets);
    }

    /// Whether it waits for nothing but its begin.
    pub(crate) fn is_set(&self) -> bool {
        let has_some = !self.ahead.is_empty() || self.is_last;
        self.state == State::Starting && self.seek.is_none() && has_some
    }

    /// Why there is nothing to begin or to go on with, if it could not be read.
    pub(crate) fn failure(&self) -> Option<StatusCode> {
        self.failure.filter(|_| self.ahead.is_empty())
    }

    /// Begins now: where, not before `zero`.
    pub(crate) fn begin(&mut self, now: Time, zero: Duration) -> Duration {
        if self.wish.from.is_none()
            && let Some(next) = self.ahead.front()
        {
            // It was read since it was to go on.
            self.from = next.at;
        }
        self.from = self.from.max(zero);
        self.origin = now;
        self.state = State::Playing;
        self.from
    }

    /// What was read ahead of one track.
    pub(crate) fn ahead(&self, track: usize) -> impl Iterator<Item = &Replayed> {
        self.ahead
            .iter()
            .filter(move |packet| packet.track == track)
    }

    /// What is known of senders' clocks.
    pub(crate) fn clocks(&self) -> Option<&Timeline> {
        self.clocks.as_deref()
    }

    /// Where it is.
    pub(crate) fn at(&self, now: Time) -> Duration {
        let passed = now.since(self.origin).mul_f64(self.pace());
        match self.state {
            State::Playing if self.goes_back() => self.from.saturating_sub(passed),
            State::Playing => self.from.saturating_add(passed),
            _ => self.ahead.front().map_or(self.from, |next| next.at),
        }
    }

    /// What it was asked for last.
    pub(crate) const fn wish(&self) -> &Wish {
        &self.wish
    }

    /// Seconds of film in each second.
    fn pace(&self) -> f64 {
        self.wish.speed * self.wish.scale.abs()
    }

    fn goes_back(&self) -> bool {
        way(self.wish.scale) == Way::Back
    }

    /// The next packet if it is due.
    pub(crate) fn due(&mut self, now: Time) -> Option<Replayed> {
        let next = self.ahead.front()?;
        if self.time(next.at) > now || self.is_beyond(next.at) {
            return None;
        }
        let next = self.ahead.pop_front()?;
        self.bytes -= next.payload.len();
        Some(next)
    }

    /// When the next packet is due, or that was all; [`Time::NEVER`] if it is not known.
    pub(crate) fn next(&self) -> Time {
        if self.state != State::Playing {
            return Time::NEVER;
        }
        let all_sent = self.all_sent.map(|at| at + LINGER);
        let next = self.ahead.front().map(|next| self.time(next.at));
        all_sent.or(next).unwrap_or(Time::NEVER)
    }

    /// Whether all was sent that was asked for, and a moment passed since.
    pub(crate) fn is_over(&mut self, now: Time) -> bool {
        if !self.has_sent_all() {
            self.all_sent = None;
            return false;
        }
        now >= *self.all_sent.get_or_insert(now) + LINGER
    }

    fn has_sent_all(&self) -> bool {
        self.state == State::Playing
            && match self.ahead.front() {
                Some(next) => self.is_beyond(next.at),
                None => self.is_last,
            }
    }

    /// Lets what is late come now, and the rest behind it; whether something was.
    pub(crate) fn catch_up(&mut self, now: Time) -> bool {
        let Some(next) = self.ahead.front() else {
            return false;
        };
        let is_late = self.state == State::Playing && now.since(self.time(next.at)) > LATE_MAX;
        if is_late {
            (self.from, self.origin) = (next.at, now);
        }
        is_late
    }

    fn is_beyond(&self, at: Duration) -> bool {
        let is_beyond = |until| match self.goes_back() {
            true => at < until,
            false => at > until,
        };
        self.wish.until.is_some_and(is_beyond)
    }

    fn time(&self, at: Duration) -> Time {
        let ahead = match self.goes_back() {
            true => self.from.saturating_sub(at),
            false => at.saturating_sub(self.from),
        };
        self.origin + ahead.div_f64(self.pace())
    }

    fn clear(&mut self) {
        self.ahead.clear();
        self.bytes = 0;
        self.is_last = false;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sangam_archive::record::TrackInfo;
    use sangam_archive::{Recording, RecordingId, Track};
    use sangam_model::{Class, MediaInfo, Topic};

    use super::*;
    use crate::film::Film;

    const MS: Duration = Duration::from_millis(1);

    fn player() -> Player {
        let info = TrackInfo {
            reliable: false,
            recording: RecordingId(1),
            topic: Topic::new("test/audio").unwrap(),
            media: MediaInfo {
                class: Class::Audio,
                payload_type: 111,
                channels: 2,
                clock_rate: 48_000,
                encoding: "opus".to_owned(),
                fmtp: String::new(),
            },
        };
        let track = Track {
            number: 1,
            info,
            packets: 2,
            bytes: 2,
            first: 0,
            last: 5_000_000_000,
        };
        let recording = Recording {
            id: RecordingId(1),
            name: "film".to_owned(),
            begin: 0,
            end: 5_000_000_000,
            whole: true,
            tracks: vec![track],
            segments: Vec::new(),
        };
        let film = Film::new(recording).unwrap();
        Player::new(Reader::new(Path::new("nowhere"), &film))
    }

    fn wish(from: Option<Duration>) -> Wish {
        Wish {
            from,
            until: None,
            speed: 1.0,
            scale: 1.0,
        }
    }

    fn read(player: &mut Player, at: Duration) {
        let (reader, seek) = player.job().unwrap();
        let packet = Replayed {
            at,
            track: 0,
            is_rtcp: false,
            flags: 0,
            layer: 0,
            payload: b"packet".to_vec(),
        };
        let chunk = Chunk {
            start: seek.map(|seek| seek.to),
            clocks: None,
            scale: None,
            packets: vec![packet],
            is_last: false,
        };
        player.take(reader, Ok(chunk));
    }

    #[test]
    fn a_film_that_stopped_with_nothing_ahead_goes_on_with_what_comes() {
        let mut player = player();
        player.start(wish(Some(Duration::ZERO)));
        read(&mut player, MS * 20);
        let now = Time::ZERO + MS * 1_000;
        player.begin(now, Duration::ZERO);
        assert_eq!(player.due(now + MS * 40).unwrap().at, MS * 20);
        player.pause();
        player.start(wish(None));
        assert!(!player.is_set());
        read(&mut player, MS * 5_000);
        let later = now + MS * 9_000;
        assert_eq!(player.begin(later, Duration::ZERO), MS * 5_000);
        assert_eq!(player.due(later).unwrap().at, MS * 5_000);
    }
    #[test]
    fn the_end_is_told_a_moment_after_the_last_packet_and_not_when_it_goes_on() {
        let mut player = player();
        let until = Some(MS * 20);
        player.start(Wish {
            until,
            ..wish(Some(Duration::ZERO))
        });
        read(&mut player, MS * 40);
        let now = Time::ZERO + MS * 1_000;
        player.begin(now, Duration::ZERO);
        assert!(!player.is_over(now));
        assert_eq!(player.next(), now + LINGER);
        assert!(!player.is_over(now + (LINGER - MS)) && player.is_over(now + LINGER));
        player.start(wish(None));
        player.begin(now + LINGER, Duration::ZERO);
        assert!(!player.is_over(now + LINGER * 2), "there is more");
        assert_eq!(player.next(), now + LINGER, "at once");
    }
}
