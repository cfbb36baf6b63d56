//! The sending half of the control channel: frames in order, repeated until acknowledged.
//!
//! Acknowledgements are cumulative. A frame that others overtook is repeated alone; after a
//! timeout all in flight are: control messages are few, and patience would cost more than bytes.

use core::time::Duration;
use std::collections::VecDeque;

use sangam_model::Time;
use sangam_wire::{CONTROL_ROOM, FRAME_LEN_MAX, Message, WireError};

use crate::rtt::Rtt;

/// Frames in flight.
pub(crate) const WINDOW: usize = 32;
/// Acknowledgements of one number that tell of a lost frame, as in RFC 5681 section 3.2.
const DUPLICATE_ACKS: u8 = 3;
/// How long a peer may leave control frames unacknowledged though it is heard.
const STALL: Duration = Duration::from_secs(10);

/// What waits for the peer. Nothing is allocated while nothing does.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) rtt: Rtt,
    /// Bytes of messages in one frame.
    room: u16,
    /// Number of the oldest frame that is not acknowledged.
    base: u16,
    /// The transport repeats what is lost, so no timer has to.
    reliable: bool,
    work: Option<Box<Work>>,
}

#[derive(Debug)]
struct Work {
    /// First those in flight, then those still open for more messages.
    frames: VecDeque<Batch>,
    /// How many of `frames` are in flight.
    sent: usize,
    /// The next frame in flight to repeat; equal to `sent` if there is none.
    repeat: usize,
    /// When to repeat all in flight.
    repeat_at: Time,
    timeouts: u32,
    duplicate_acks: u8,
    /// The oldest frame in flight seems lost.
    hole: bool,
    /// Messages in `frames`.
    messages: usize,
    /// When the peer last took something, or the first frame was sent.
    progress: Time,
}

#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    messages: usize,
    sent: Time,
    repeated: bool,
}

/// A frame to send now.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) sequence: u16,
    pub(crate) messages: &'a [u8],
    pub(crate) repeated: bool,
}

/// What an acknowledgement said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acked {
    /// Nothing new.
    Nothing,
    /// Frames were taken; the round trip of the newest unless it was sent twice.
    Taken(Option<Duration>),
    /// It acknowledges what was never sent, or what was acknowledged before.
    Invalid,
}

impl Sender {
    pub(crate) fn new(datagram_max: u16, reliable: bool) -> Self {
        let overhead = FRAME_LEN_MAX - CONTROL_ROOM;
        let frame = usize::from(datagram_max).min(FRAME_LEN_MAX);
        Self {
            rtt: Rtt::default(),
            room: frame.saturating_sub(overhead) as u16,
            base: 0,
            reliable,
            work: None,
        }
    }

    /// Queues a message; a message alone may exceed the room of a frame.
    pub(crate) fn push(&mut self, message: &Message) -> Result<(), WireError> {
        let room = usize::from(self.room);
        match &mut self.work {
            Some(work) => work.push(message, room),
            none => {
                let mut work = Box::new(Work::new());
                work.push(message, room)?;
                *none = Some(work);
                Ok(())
            }
        }
    }

    /// Messages that are not acknowledged.
    pub(crate) fn len(&self) -> usize {
        self.work.as_ref().map_or(0, |work| work.messages)
    }

    /// When to poll if nothing else happens: at once while a frame may leave that has not.
    pub(crate) fn deadline(&self) -> Time {
        match &self.work {
            None => Time::NEVER,
            Some(work) if work.may_send() => Time::ZERO,
            Some(work) => work.repeat_at.min(work.stalled_at()),
        }
    }

    pub(crate) fn is_stalled(&self, now: Time) -> bool {
        self.work
            .as_ref()
            .is_some_and(|work| now >= work.stalled_at())
    }

    /// Takes the number the peer expects next. `bare`: its frame carried no messages.
    pub(crate) fn acknowledge(&mut self, now: Time, ack: u16, bare: bool) -> Acked {
        let count = usize::from(ack.wrapping_sub(self.base));
        let Some(work) = self.work.as_mut().filter(|work| count <= work.sent) else {
            return if count == 0 {
                Acked::Nothing
            } else {
                Acked::Invalid
            };
        };
        if count == 0 {
            work.duplicate_ack(bare);
            return Acked::Nothing;
        }
        self.base = ack;
        let sample = work.take(now, count);
        work.repeat_at = Time::NEVER;
        if work.sent > 0 && !self.reliable {
            work.repeat_at = now + self.rtt.timeout(0);
        }
        if work.frames.is_empty() {
            self.work = None;
        }
        Acked::Taken(sample)
    }

    /// The next frame to send.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Outgoing<'_>> {
        let work = self.work.as_mut()?;
        if now >= work.repeat_at {
            work.repeat = 0;
            work.timeouts += 1;
            work.repeat_at = now + self.rtt.timeout(work.timeouts);
        }
        let index = if core::mem::take(&mut work.hole) {
            0
        } else {
            work.repeat
        };
        let repeated = index < work.sent;
        let first = work.sent == 0;
        if !repeated && work.sent == WINDOW {
            return None;
        }
        let batch = work.frames.get_mut(index)?;
        batch.sent = now;
        batch.repeated = repeated;
        work.repeat = work.repeat.max(index + 1);
        work.sent = work.sent.max(work.repeat);
        if first {
            work.progress = now;
        }
        if work.repeat_at == Time::NEVER && !self.reliable {
            work.repeat_at = now + self.rtt.timeout(work.timeouts);
        }
        Some(Outgoing {
            // The window is far below 2^16.
            sequence: self.base.wrapping_add(index as u16),
            messages: &batch.bytes,
            repeated,
        })
    }
}

impl Work {
    fn new() -> Self {
        Self {
            frames: VecDeque::new(),
            sent: 0,
            repeat: 0,
            repeat_at: Time::NEVER,
            timeouts: 0,
            duplicate_acks: 0,
            hole: false,
            messages: 0,
            progress: Time::NEVER,
        }
    }

    /// Whether there is a frame that was not sent, and room for it in flight.
    fn may_send(&self) -> bool {
        self.sent < WINDOW && self.sent < self.frames.len()
    }

    fn stalled_at(&self) -> Time {
        if self.sent == 0 {
            Time::NEVER
        } else {
            self.progress + STALL
        }
    }

    /// Appends to the last frame if that is open and has room, else to a new one.
    fn push(&mut self, message: &Message, room: usize) -> Result<(), WireError> {
        let open = self.frames.len() > self.sent;
        if let Some(last) = self.frames.back_mut().filter(|_| open) {
            let before = last.bytes.len();
            message.push(&mut last.bytes)?;
            if last.bytes.len() <= room {
                last.messages += 1;
            } else {
                let bytes = last.bytes.split_off(before);
                self.frames.push_back(Batch {
                    bytes,
                    messages: 1,
                    ..Batch::default()
                });
            }
        } else {
            let mut bytes = Vec::new();
            message.push(&mut bytes)?;
            self.frames.push_back(Batch {
                bytes,
                messages: 1,
                ..Batch::default()
            });
        }
        self.messages += 1;
        Ok(())
    }

    /// Removes `count` frames. RFC 6298 section 3 (Karn): a frame that was sent twice says
    /// nothing about the round trip.
    fn take(&mut self, now: Time, count: usize) -> Option<Duration> {
        let mut sample = None;
        for batch in self.frames.drain(..count) {
            self.messages -= batch.messages;
            sample = (!batch.repeated).then(|| now - batch.sent);
        }
        self.sent -= count;
        self.repeat = self.repeat.saturating_sub(count);
        self.timeouts = 0;
        self.duplicate_acks = 0;
        self.hole = false;
        self.progress = now;
        sample
    }

    fn duplicate_ack(&mut self, bare: bool) {
        if bare && self.sent > 0 {
            self.duplicate_acks = self.duplicate_acks.saturating_add(1);
            self.hole |= self.duplicate_acks == DUPLICATE_ACKS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Duration = Duration::from_millis(10);

    /// A sender with `count` frames in flight and more waiting.
    fn flying(count: usize) -> Sender {
        let mut sender = Sender::new(0, false);
        for request in 0..count as u32 {
            sender.push(&Message::Accepted { request }).unwrap();
        }
        assert_eq!(sequences(&mut sender, Time::ZERO).len(), count.min(WINDOW));
        sender
    }

    fn sequences(sender: &mut Sender, now: Time) -> Vec<u16> {
        core::iter::from_fn(|| sender.poll(now).map(|outgoing| outgoing.sequence)).collect()
    }

    #[test]
    fn at_most_a_window_of_frames_is_in_flight() {
        let mut sender = flying(40);
        let now = Time::ZERO + ROUND;
        assert_eq!(sender.acknowledge(now, 2, true), Acked::Taken(Some(ROUND)));
        assert_eq!(sequences(&mut sender, now), [32, 33]);
    }

    #[test]
    fn a_frame_that_three_others_overtook_is_repeated_alone_and_once() {
        let mut sender = flying(10);
        let now = Time::ZERO + ROUND;
        for _ in 0..9 {
            assert_eq!(sender.acknowledge(now, 0, true), Acked::Nothing);
        }
        assert_eq!(sequences(&mut sender, now), [0]);
        assert_eq!(sequences(&mut sender, now), []);
    }

    #[test]
    fn a_timeout_repeats_all_in_flight() {
        let mut sender = flying(3);
        let due = sender.deadline();
        assert_eq!(
            sequences(&mut sender, Time::from_micros(due.as_micros() - 1)),
            []
        );
        assert_eq!(sequences(&mut sender, due), [0, 1, 2]);
        assert_eq!(sender.acknowledge(due + ROUND, 3, true), Acked::Taken(None));
    }

    #[test]
    fn nothing_is_kept_once_all_is_acknowledged() {
        let mut sender = flying(3);
        sender.acknowledge(Time::ZERO, 3, true);
        assert!(sender.work.is_none());
        assert_eq!((sender.len(), sender.deadline()), (0, Time::NEVER));
        assert_eq!(sender.acknowledge(Time::ZERO, 4, true), Acked::Invalid);
    }
}
