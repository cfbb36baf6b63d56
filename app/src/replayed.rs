//! The board of a recording while that is watched: whatever was drawn comes again on a reliable
//! topic of its own, beside the board that people draw on.
//!
//! A topic keeps what came before somebody paused the recording or went elsewhere in it. So in
//! front of each event stands which turn of which replay it belongs to.

use sangam_model::{Topic, TopicError};

/// Bytes in front of an event.
pub(crate) const TURN_LEN: usize = 16;

/// A turn of a replay: from one order of people to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Since when the recording is watched, in milliseconds since 1970.
    pub(crate) since_ms: u64,
    /// The number of the order.
    pub(crate) order: u64,
}

impl Turn {
    /// An event of the board, as it stands on the topic.
    pub(crate) fn event(self, event: &[u8]) -> Vec<u8> {
        [&self.bytes(), event].concat()
    }

    /// The event of the board, if it is one of this turn.
    pub(crate) fn part_of(self, event: &[u8]) -> Option<&[u8]> {
        event.strip_prefix(&self.bytes())
    }

    fn bytes(self) -> [u8; TURN_LEN] {
        let whole = u128::from(self.since_ms) << 64 | u128::from(self.order);
        whole.to_be_bytes()
    }
}

/// Where the board of what is watched in a room comes.
///
/// # Errors
/// The names are no levels of a topic.
pub(crate) fn topic([tenant, session, room]: [&str; 3]) -> Result<Topic, TopicError> {
    Topic::new(&format!("{tenant}/{session}/{room}/replay"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_of_one_turn_of_one_replay() {
        let turn = |since_ms, order| Turn { since_ms, order };
        let event = turn(7, 1 << 40).event(b"a line");
        assert_eq!(turn(7, 1 << 40).part_of(&event), Some(&b"a line"[..]));
        for other in [turn(7, 2), turn(8, 1 << 40), turn(1 << 40, 7)] {
            assert_eq!(other.part_of(&event), None);
        }
        assert_eq!(turn(7, 1 << 40).part_of(&event[..TURN_LEN - 1]), None);
    }
}
