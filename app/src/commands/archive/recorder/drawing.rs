//! The board of a recording, drawn again where it is watched.

use std::time::{Duration, Instant};

use sangam_client::{Client, ReliableError, ReliablePublisher};
use sangam_model::Topic;

use super::past::Stroke;
use crate::replayed::{TURN_LEN, Turn};

/// Records that a topic keeps at least, and bytes of one: docs/spec/reliable.md, section 4. Whoever
/// draws tells the whole board again before so many have passed (docs/spec/board.md), so the last
/// of them before a moment are the board at that moment.
const RECORDS: usize = 1_000;
const RECORD_LEN: usize = 800;
/// Topics forget what is an hour old, also while a recording is paused.
const AGAIN: Duration = Duration::from_secs(15 * 60);

/// Draws on the topic of one room.
pub(super) struct Drawing {
    publisher: ReliablePublisher,
    turn: Turn,
    /// The next stroke.
    next: usize,
    /// When the board was drawn from its beginning last.
    drawn: Instant,
}

impl Drawing {
    /// Ready to draw.
    pub(super) fn new(client: &mut Client, topic: &Topic) -> Result<Self, ReliableError> {
        let none = Turn {
            since_ms: 0,
            order: 0,
        };
        Ok(Self {
            publisher: client.publish_reliable(topic)?,
            turn: none,
            next: 0,
            drawn: Instant::now(),
        })
    }

    /// Begins a turn, with the board as it was then.
    pub(super) fn turn(&mut self, turn: Turn, strokes: &[Stroke], at: Duration) {
        self.turn = turn;
        self.anew(strokes, at);
        self.draw(strokes, at);
    }

    /// Draws what was drawn until then, as far as the topic has room; the rest the next time.
    pub(super) fn draw(&mut self, strokes: &[Stroke], now: Duration) {
        if self.drawn.elapsed() >= AGAIN {
            self.anew(strokes, now);
        }
        while let Some(stroke) = strokes.get(self.next)
            && stroke.at <= now
        {
            match self.publisher.send(&self.turn.event(&stroke.event)) {
                Err(ReliableError::Full) => return,
                // Pages make none that is so long; and of a publisher that the broker has ended
                // nothing comes any more.
                Err(error) => tracing::debug!(%error, "something of a board is not drawn"),
                Ok(_) => {}
            }
            self.next += 1;
        }
    }

    fn anew(&mut self, strokes: &[Stroke], at: Duration) {
        self.next = first(strokes, at);
        self.drawn = Instant::now();
    }
}

/// The first stroke of those that make up the board at a moment.
fn first(strokes: &[Stroke], at: Duration) -> usize {
    let mut left = RECORDS;
    let mut first = strokes.partition_point(|stroke| stroke.at <= at);
    while let Some(before) = first.checked_sub(1) {
        let records = (TURN_LEN + strokes[before].event.len()).div_ceil(RECORD_LEN);
        let Some(rest) = left.checked_sub(records) else {
            break;
        };
        (left, first) = (rest, before);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_what_a_topic_would_have_kept_of_it() {
        let stroke = |second, len| Stroke {
            at: Duration::from_secs(second),
            event: vec![1; len],
        };
        let small: Vec<_> = (0..3_000).map(|second| stroke(second, 100)).collect();
        let at = |second| first(&small, Duration::from_secs(second));
        assert_eq!((at(0), at(500), at(999)), (0, 0, 0));
        assert_eq!((at(1_000), at(2_000), at(9_000)), (1, 1_001, 2_000));
        // Two records each.
        let large: Vec<_> = (0..1_000).map(|second| stroke(second, 800)).collect();
        assert_eq!(first(&large, Duration::from_secs(999)), 500);
        assert_eq!(first(&[], Duration::from_secs(9)), 0);
    }
}
