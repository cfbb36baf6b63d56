//! What goes first under overload: video, by whole frames until the next key frame; then audio.

use core::time::Duration;

use sangam_model::Class;
use sangam_model::limits::{AUDIO_AGE_MAX, VIDEO_AGE_MAX};
use sangam_wire::{Flags, Header};

use crate::DropReason;

/// Decides for one stream and one consumer. Four bytes; counting is left to the caller's
/// [`crate::Drops`].
///
/// A frame once begun is finished however late it is, as its first half alone is of no use; only
/// a full ring cuts it. After a cut or a late frame nothing passes until a frame that decodes by
/// itself starts in time. A stream whose frames were never marked as key frames resumes with the
/// next frame, one without frame marks with the next event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shedder {
    state: State,
    /// The stream marks the starts of its frames.
    has_starts: bool,
    /// The stream marks its key frames.
    has_keys: bool,
}

/// The decision on one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// Deliver it.
    Deliver,
    /// Let it go, for this reason.
    Drop(DropReason),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Between frames.
    #[default]
    Between,
    /// In a frame that is delivered.
    Begun,
    /// In a frame that is not, and that no other needs.
    Skipping,
    /// Waiting for a frame to resume with.
    Shedding,
}

impl Shedder {
    /// A shedder that has dropped nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: State::Between,
            has_starts: false,
            has_keys: false,
        }
    }

    /// Decides on the next event, which has waited for `age`; `full` if there is no room for it.
    #[inline]
    pub fn admit(&mut self, header: &Header, age: Duration, full: bool) -> Admit {
        match header.class {
            Class::Video => self.video(header.flags, age, full),
            _ if full => Admit::Drop(DropReason::ring_full(header.class)),
            Class::Audio if age > AUDIO_AGE_MAX => Admit::Drop(DropReason::AudioLate),
            _ => Admit::Deliver,
        }
    }

    /// Whether only a key frame ends the shedding: the time to ask the publisher for one.
    #[must_use]
    pub const fn wants_key_frame(&self) -> bool {
        matches!(self.state, State::Shedding) && self.has_keys
    }

    fn video(&mut self, flags: Flags, age: Duration, full: bool) -> Admit {
        let starts = flags.contains(Flags::FRAME_START);
        self.has_starts |= starts;
        self.has_keys |= flags.contains(Flags::KEY);
        let admit = if starts || !self.has_starts {
            self.begin(flags, age > VIDEO_AGE_MAX)
        } else {
            self.go_on()
        };
        if admit == Admit::Deliver && full {
            self.drop_frame(flags);
            return Admit::Drop(DropReason::RingFullVideo);
        }
        if flags.contains(Flags::FRAME_END) && self.state != State::Shedding {
            self.state = State::Between;
        }
        admit
    }

    /// At the start of a frame, or at any event of a stream that does not mark frames.
    fn begin(&mut self, flags: Flags, late: bool) -> Admit {
        let resumes = flags.contains(Flags::KEY) || !self.has_keys;
        if self.state == State::Shedding && !resumes {
            return Admit::Drop(DropReason::VideoShed);
        }
        if late {
            self.drop_frame(flags);
            return Admit::Drop(DropReason::VideoLate);
        }
        self.state = State::Begun;
        Admit::Deliver
    }

    /// Within a frame, or in one whose start was lost on the way: its receiver can tell better.
    const fn go_on(&self) -> Admit {
        match self.state {
            State::Between | State::Begun => Admit::Deliver,
            State::Skipping | State::Shedding => Admit::Drop(DropReason::VideoShed),
        }
    }

    const fn drop_frame(&mut self, flags: Flags) {
        let harmless = flags.contains(Flags::DISCARDABLE);
        self.state = match self.state {
            State::Between | State::Begun | State::Skipping if harmless => State::Skipping,
            _ => State::Shedding,
        };
    }
}

#[cfg(test)]
#[path = "shed_tests.rs"]
mod tests;
