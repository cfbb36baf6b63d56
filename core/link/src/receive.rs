//! The receiving half of the control channel.

use std::collections::VecDeque;

use sangam_model::Time;
use sangam_wire::{Message, messages};

use crate::channel::WINDOW;
use crate::rtt::ACK_DELAY;

/// Frames that come without an acknowledgement before one is due at once.
const ACK_EVERY: u8 = 4;
/// Messages that wait for the caller; while there are more, further frames are left to be
/// repeated by the peer.
const INBOX_MAX: usize = 256;
/// Bytes of frames kept for later though an earlier one is missing: enough for a window of
/// ordinary ones, little enough for a broker with 262,144 peers.
const EARLY_BYTES_MAX: usize = 16 * 1_024;

/// Messages in order, and what is owed to the peer.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Number of the next frame.
    expected: u16,
    /// Frames taken since the last acknowledgement.
    unacknowledged: u8,
    /// When to acknowledge at the latest; [`Time::NEVER`] if nothing is owed.
    ack_at: Time,
    inbox: VecDeque<Message>,
    /// Messages that may wait in the inbox before frames are left to be repeated.
    inbox_max: usize,
    /// Frames that overtook the expected one, by number.
    early: Vec<(u16, Box<[u8]>)>,
}

/// What became of a control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Its messages wait in the inbox; so many could not be read and were passed over.
    Yes { malformed: u32 },
    /// It was taken before.
    Duplicate,
    /// An earlier one is missing, or the inbox is full.
    Early,
}

impl Receiver {
    /// `reliable`: nothing is repeated. Then every frame is taken; the peer's window bounds them,
    /// as it moves on only when the caller polls.
    pub(crate) fn new(reliable: bool) -> Self {
        Self {
            inbox_max: if reliable { usize::MAX } else { INBOX_MAX },
            expected: 0,
            unacknowledged: 0,
            ack_at: Time::NEVER,
            inbox: VecDeque::new(),
            early: Vec::new(),
        }
    }

    pub(crate) fn take(&mut self, now: Time, sequence: u16, bytes: &[u8]) -> Taken {
        let distance = sequence.wrapping_sub(self.expected);
        if distance != 0 || self.inbox.len() > self.inbox_max {
            // At once, so that the peer learns soon that a frame is missing.
            self.ack_at = now;
            return self.keep(distance, sequence, bytes);
        }
        let mut malformed = self.read(bytes);
        while self.inbox.len() <= self.inbox_max
            && let Some(next) = self
                .early
                .iter()
                .position(|(number, _)| *number == self.expected)
        {
            let (_, bytes) = self.early.swap_remove(next);
            malformed += self.read(&bytes);
        }
        if self.early.is_empty() {
            // An idle session holds no memory.
            self.early = Vec::new();
        }
        let latest = if self.unacknowledged >= ACK_EVERY {
            now
        } else {
            now + ACK_DELAY
        };
        self.ack_at = self.ack_at.min(latest);
        Taken::Yes { malformed }
    }

    pub(crate) fn pop(&mut self) -> Option<Message> {
        let message = self.inbox.pop_front();
        if self.inbox.is_empty() && self.inbox.capacity() > 0 {
            self.inbox = VecDeque::new();
        }
        message
    }

    /// The number to put into a frame that leaves now.
    pub(crate) fn acknowledge(&mut self) -> u16 {
        self.unacknowledged = 0;
        self.ack_at = Time::NEVER;
        self.expected
    }

    pub(crate) fn ack_at(&self) -> Time {
        self.ack_at
    }

    /// Keeps a frame that came too early, as far as there is room.
    fn keep(&mut self, distance: u16, sequence: u16, bytes: &[u8]) -> Taken {
        let known = self.early.iter().any(|(number, _)| *number == sequence);
        if known || distance >= 0x8000 {
            return Taken::Duplicate;
        }
        let kept: usize = self.early.iter().map(|(_, bytes)| bytes.len()).sum();
        if (1..WINDOW as u16).contains(&distance) && kept + bytes.len() <= EARLY_BYTES_MAX {
            self.early.push((sequence, bytes.into()));
        }
        Taken::Early
    }

    /// Reads the messages of the expected frame; tells how many were malformed.
    fn read(&mut self, bytes: &[u8]) -> u32 {
        self.expected = self.expected.wrapping_add(1);
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        let mut malformed = 0;
        for message in messages(bytes) {
            match message {
                Ok(message) => self.inbox.push_back(message),
                Err(_) => malformed += 1,
            }
        }
        malformed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;

    fn accepted(request: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        Message::Accepted { request }.push(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn frames_that_overtook_one_another_are_put_in_order() {
        let mut receiver = Receiver::new(false);
        for sequence in [2, 1, 2, 0] {
            receiver.take(NOW, sequence, &accepted(sequence.into()));
        }
        let requests: Vec<_> = core::iter::from_fn(|| receiver.pop()).collect();
        assert_eq!(
            requests,
            [0, 1, 2].map(|request| Message::Accepted { request })
        );
        assert_eq!(receiver.acknowledge(), 3);
        assert_eq!(receiver.take(NOW, 2, &accepted(2)), Taken::Duplicate);
        assert_eq!(
            (receiver.early.capacity(), receiver.inbox.capacity()),
            (0, 0)
        );
    }

    #[test]
    fn early_frames_are_kept_within_bounds() {
        let mut receiver = Receiver::new(false);
        for sequence in 1..u16::MAX {
            receiver.take(NOW, sequence, &[0; 1_200]);
        }
        assert_eq!(receiver.early.len(), EARLY_BYTES_MAX / 1_200);
    }

    #[test]
    fn nothing_is_left_to_be_repeated_where_nothing_is() {
        let mut receiver = Receiver::new(true);
        let many = accepted(1).repeat(100);
        for sequence in 0..WINDOW as u16 {
            let taken = receiver.take(NOW, sequence, &many);
            assert_eq!(taken, Taken::Yes { malformed: 0 });
        }
    }

    #[test]
    fn a_caller_that_does_not_poll_stops_the_peer() {
        let mut receiver = Receiver::new(false);
        let many = accepted(1).repeat(100);
        let taken = (0..10)
            .filter(|&n| receiver.take(NOW, n, &many) != Taken::Early)
            .count();
        assert_eq!(taken, 3);
        while receiver.pop().is_some() {}
        assert_ne!(receiver.take(NOW, 3, &many), Taken::Early);
    }
}
