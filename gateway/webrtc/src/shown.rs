//! How high a peer shows the videos that it receives, which tells the layer it has use for.

use std::time::Duration;

use sangam_model::Time;

/// The highest picture that somebody may tell of, in pixels: 8K.
pub const SHOWN_MAX: u16 = 4_320;
/// Media that a peer may tell of at once.
pub const SHOWN_MEDIA_MAX: usize = 64;
/// How often a peer may tell it within [`PERIOD`]: pages do with every change of layout.
const TIMES: u8 = 10;
const PERIOD: Duration = Duration::from_secs(1);

/// A medium that is received, and how high it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Which one, by its `mid` in SDP.
    pub mid: String,
    /// Pixels of the screen, at most [`SHOWN_MAX`]; 0 while it is not shown: then nothing is sent.
    pub height: u16,
}

/// How often a peer has told its heights.
#[derive(Debug)]
pub(crate) struct Pace {
    since: Time,
    times: u8,
}

impl Pace {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            since: now,
            times: 0,
        }
    }

    /// Whether it may once more.
    pub(crate) fn takes(&mut self, now: Time) -> bool {
        if now - self.since >= PERIOD {
            *self = Self::new(now);
        }
        let room = self.times < TIMES;
        self.times += u8::from(room);
        room
    }
}

/// The height of a key frame's picture in pixels, of the payload with which it begins (RFC 7741
/// section 4.2, RFC 6386 section 9.1); `None` if it is no VP8.
pub(crate) fn height_of(payload: &[u8]) -> Option<u16> {
    const START_CODE: [u8; 3] = [0x9d, 0x01, 0x2a];
    // The two bits above are a scale for who shows it.
    const HEIGHT: u16 = 0x3fff;
    let header = payload.get(descriptor(payload)?..)?.first_chunk::<10>()?;
    let (key, start) = (header[0] & 0x01 == 0, header[3..6] == START_CODE);
    let height = u16::from_le_bytes([header[8], header[9]]) & HEIGHT;
    (key && start && height > 0).then_some(height)
}

/// Bytes of the payload descriptor.
fn descriptor(payload: &[u8]) -> Option<usize> {
    const EXTENDED: u8 = 0x80;
    if payload.first()? & EXTENDED == 0 {
        return Some(1);
    }
    let control = payload.get(1)?;
    let mut len = 2;
    if control & 0x80 != 0 {
        len += if payload.get(2)? & 0x80 != 0 { 2 } else { 1 };
    }
    Some(len + usize::from(control & 0x40 != 0) + usize::from(control & 0x30 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A descriptor with a picture id, and the header of a key frame of 640 x 360.
    const KEY: [u8; 14] = [
        0x90, 0x80, 0x80, 0x07, 0x10, 0x02, 0x00, 0x9d, 0x01, 0x2a, 0x80, 0x02, 0x68, 0x01,
    ];

    #[test]
    fn key_frames_of_vp8_tell_their_height_and_nothing_else_does() {
        assert_eq!(height_of(&KEY), Some(360));
        let mut inter = KEY;
        inter[4] |= 1;
        assert_eq!(height_of(&inter), None);
        let mut other = KEY;
        other[7] = 0;
        assert_eq!(height_of(&other), None);
        for len in 0..KEY.len() {
            assert_eq!(height_of(&KEY[..len]), None, "{len}");
        }
    }

    #[test]
    fn ten_times_a_second_are_enough() {
        let mut pace = Pace::new(Time::from_millis(0));
        let at = |ms| Time::from_millis(ms);
        assert!((0..10).all(|n| pace.takes(at(n))));
        assert!(!pace.takes(at(999)));
        assert!(pace.takes(at(1_000)));
    }
}
