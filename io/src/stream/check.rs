//! What must hold for any bytes whatever at the beginning of a stream and in its frames: shared by
//! the property tests and the fuzz target. A failed assertion is a bug of this crate, never the
//! peer's.

use sangam_model::limits::EVENT_LEN_MAX;

use super::http;
use super::websocket::{Piece, Receiver, Side, announced};

/// Reads `bytes` as everything they could be.
///
/// # Panics
/// If something does not hold.
pub fn all(bytes: &[u8]) {
    heads(bytes);
    for side in [Side::Server, Side::Client] {
        frames(bytes, side, bytes.len());
        // A peer may send them one by one.
        frames(bytes, side, 1);
    }
}

/// Requests and answers: each has an answer, whatever it says, and its end is where it was looked
/// for from any place before.
fn heads(bytes: &[u8]) {
    let end = http::end(bytes, 0);
    for searched in 0..end.unwrap_or(0).min(64) {
        assert_eq!(http::end(bytes, searched), end);
    }
    let head = &bytes[..end.unwrap_or(bytes.len())];
    match http::upgrade(head, &[]) {
        Ok(answer) => assert!(answer.starts_with(b"HTTP/1.1 101 ")),
        Err(denial) => assert!(denial.answer().starts_with(b"HTTP/1.1 4")),
    }
    // Whether they are believed is not for a random answer to tell.
    let _ = http::check_answer(head, "accept");
    let _ = http::check_tunnel(head);
}

/// Frames that come so many bytes at a time: no more is taken than has come, and no unit is empty
/// or too long.
fn frames(bytes: &[u8], side: Side, step: usize) {
    let mut receiver = Receiver::new(side);
    let mut input = Vec::new();
    for chunk in bytes.chunks(step.max(1)) {
        input.extend_from_slice(chunk);
        loop {
            let there = input.len();
            let told = announced(&input);
            let size = match receiver.next(&mut input) {
                Ok(Some((size, piece))) => {
                    if let Piece::Unit(unit) = piece {
                        assert!((1..=EVENT_LEN_MAX).contains(&unit.len()));
                    }
                    assert!((2..=there).contains(&size));
                    assert_eq!(told, Some(size), "its head told where it ends");
                    size
                }
                Ok(None) => break,
                Err(_) => return,
            };
            input.drain(..size);
        }
    }
}
