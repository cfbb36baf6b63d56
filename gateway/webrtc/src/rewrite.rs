//! One clean stream out of several: sequence, timestamps and picture ids go on where the stream
//! before ended.

use std::time::Duration;

use sangam_model::Time;
use str0m::rtp::{Vp8Descriptor, Vp8Patch};

/// Extended sequences begin here, so that what came before the first packet has a number, too.
const FIRST: u64 = 1 << 32;
/// The longest gap between two streams that is shown as time; a clock must not run away.
const PAUSE_MAX: Duration = Duration::from_secs(60);
const PICTURE_ID_MASK: u16 = 0x7fff;
/// So many packets missing before a picture that decodes by itself were let go: what a network
/// reorders or loses at once is less, and nobody needs it any more.
const GAP_MAX: i16 = 8;

/// The numbers of an outgoing stream.
#[derive(Debug)]
pub(crate) struct Rewrite {
    /// The newest packet of the present stream, extended.
    newest_in: u64,
    /// Where the present stream began, in its numbers and in ours.
    begin: (u64, u64),
    highest_out: u64,
    timestamp_shift: u32,
    last_timestamp: u32,
    last_at: Time,
    pictures: Pictures,
}

/// RFC 7741 section 4.2: ids of pictures and of the lowest temporal layer's.
#[derive(Debug, Default)]
struct Pictures {
    shift: (u16, u8),
    last: Option<(u16, u8)>,
    /// The next packet begins a stream.
    fresh: bool,
}

/// What a VP8 payload says of its picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picture {
    id: u16,
    /// Index of the lowest temporal layer.
    base: Option<u8>,
    descriptor: Vp8Descriptor,
}

impl Picture {
    /// RFC 7741 section 4.2; `None` without a picture id.
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        const EXTENDED: u8 = 0x80;
        let descriptor = Vp8Descriptor::parse(payload).ok()?;
        let (first, control) = (*payload.first()?, *payload.get(1)?);
        if first & EXTENDED == 0 || control & 0x80 == 0 {
            return None;
        }
        let short = *payload.get(2)?;
        let (id, after) = match short & 0x80 {
            0 => (u16::from(short), 3),
            _ => (u16::from_be_bytes([short & 0x7f, *payload.get(3)?]), 4),
        };
        let base = (control & 0x40 != 0).then(|| payload.get(after).copied());
        Some(Self {
            id,
            base: base.flatten(),
            descriptor,
        })
    }
}

/// A packet's place in the outgoing stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Extended; the lower 16 bits are sent.
    pub(crate) sequence: u64,
    pub(crate) timestamp: u32,
}

impl Rewrite {
    /// The first packet will have this number.
    pub(crate) fn new(first: u16) -> Self {
        Self {
            newest_in: FIRST,
            begin: (FIRST, 0),
            // SRTP counts from below 2^15, so that nobody mistakes an early loss for a wrap
            // (RFC 3711 section 3.3.1).
            highest_out: u64::from(first & 0x7fff),
            timestamp_shift: 0,
            last_timestamp: 0,
            last_at: Time::NEVER,
            pictures: Pictures::default(),
        }
    }

    /// A stream takes over with the packet of this sequence and timestamp.
    pub(crate) fn begin(&mut self, (sequence, timestamp): (u16, u32), clock_rate: u32, now: Time) {
        self.newest_in = FIRST + u64::from(sequence);
        self.begin = (self.newest_in, self.highest_out + 1);
        self.pictures.fresh = true;
        if self.last_at == Time::NEVER {
            return;
        }
        let pause = now.since(self.last_at).min(PAUSE_MAX);
        let units = pause.as_micros() as u64 * u64::from(clock_rate) / 1_000_000;
        let next = self.last_timestamp.wrapping_add((units as u32).max(1));
        self.timestamp_shift = next.wrapping_sub(timestamp);
    }

    /// A picture that decodes by itself begins with the packet of this sequence. If much is missing
    /// before it, that was shed: the numbers go on as if it had never been, so that receivers have
    /// nothing to ask for; in vain, and all of them at the moment in which there is too much to do.
    pub(crate) fn resume(&mut self, sequence: u16) {
        let ahead = sequence.wrapping_sub(self.newest_in as u16) as i16;
        if ahead > GAP_MAX {
            self.newest_in = self.newest_in.saturating_add_signed(ahead.into());
            self.begin = (self.newest_in, self.highest_out + 1);
        }
    }

    /// Where a packet of the present stream goes; `None` if it is older than its beginning.
    pub(crate) fn place(&mut self, (sequence, timestamp): (u16, u32), now: Time) -> Option<Place> {
        // RFC 1982 section 3.2: nearer ahead or nearer behind.
        let ahead = sequence.wrapping_sub(self.newest_in as u16) as i16;
        let extended = self.newest_in.saturating_add_signed(ahead.into());
        let (first_in, first_out) = self.begin;
        let sequence = extended.checked_sub(first_in)? + first_out;
        let timestamp = timestamp.wrapping_add(self.timestamp_shift);
        if extended >= self.newest_in {
            self.newest_in = extended;
            self.last_timestamp = timestamp;
            self.last_at = now;
        }
        self.highest_out = self.highest_out.max(sequence);
        Some(Place {
            sequence,
            timestamp,
        })
    }

    /// The picture ids of a placed packet, if they have to change.
    pub(crate) fn picture(&mut self, picture: &Picture) -> Option<Vp8Patch> {
        let base = picture.base.unwrap_or(0);
        let pictures = &mut self.pictures;
        if core::mem::take(&mut pictures.fresh)
            && let Some((last_id, last_base)) = pictures.last
        {
            let next = last_id.wrapping_add(1);
            pictures.shift.0 = next.wrapping_sub(picture.id) & PICTURE_ID_MASK;
            pictures.shift.1 = last_base.wrapping_add(1).wrapping_sub(base);
        }
        let id = picture.id.wrapping_add(pictures.shift.0) & PICTURE_ID_MASK;
        let base = base.wrapping_add(pictures.shift.1);
        pictures.last = Some((id, base));
        if pictures.shift == (0, 0) {
            return None;
        }
        let mut patch = picture.descriptor.patch().picture_id(id);
        if picture.base.is_some() {
            patch = patch.tl0_pic_idx(base);
        }
        // A short id cannot hold the number: then the receiver sees a jump, as after a loss.
        patch.build().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn a_stream_that_takes_over_goes_on_where_the_other_ended() {
        let mut out = Rewrite::new(7);
        out.begin((65_534, 1_000), 90_000, at(0));
        let places: Vec<_> = [(65_534, 1_000), (65_535, 1_000), (0, 4_000)]
            .into_iter()
            .map(|packet| out.place(packet, at(40)).unwrap())
            .collect();
        let sequences = places.iter().map(|place| place.sequence);
        assert_eq!(Vec::from_iter(sequences), [8, 9, 10]);
        assert_eq!(places[2].timestamp, 4_000);

        out.begin((500, 77), 90_000, at(140));
        let next = out.place((500, 77), at(140)).unwrap();
        assert_eq!((next.sequence, next.timestamp), (11, 4_000 + 9_000));
        assert_eq!(out.place((499, 0), at(141)), None, "before the change");
        assert_eq!(out.place((503, 77), at(141)).unwrap().sequence, 14);
        assert_eq!(out.place((501, 77), at(142)).unwrap().sequence, 12, "late");
    }

    #[test]
    fn a_gap_of_the_source_stays_a_gap() {
        let mut out = Rewrite::new(0);
        out.begin((10, 0), 90_000, at(0));
        assert_eq!(out.place((10, 0), at(0)).unwrap().sequence, 1);
        assert_eq!(out.place((13, 0), at(0)).unwrap().sequence, 4);
    }

    #[test]
    fn what_was_shed_before_a_key_frame_leaves_no_gap() {
        let mut out = Rewrite::new(0);
        out.begin((65_530, 0), 90_000, at(0));
        assert_eq!(out.place((65_530, 0), at(0)).unwrap().sequence, 1);
        // 20 packets later, over the wrap.
        out.resume(14);
        let next = out.place((14, 9_000), at(100)).unwrap();
        assert_eq!((next.sequence, next.timestamp), (2, 9_000));
        assert_eq!(out.place((13, 9_000), at(101)), None, "it was let go");
        assert_eq!(out.place((15, 9_000), at(101)).unwrap().sequence, 3);
        // A few that are missing may still come.
        out.resume(19);
        assert_eq!(out.place((19, 18_000), at(140)).unwrap().sequence, 7);
        assert_eq!(out.place((17, 9_000), at(141)).unwrap().sequence, 5);
        // Nor is what came late a beginning.
        out.resume(15);
        assert_eq!(out.place((20, 18_000), at(142)).unwrap().sequence, 8);
    }

    #[test]
    fn a_clock_does_not_run_away_over_a_long_pause() {
        let mut out = Rewrite::new(0);
        out.begin((1, 0), 1_000, at(0));
        out.place((1, 0), at(0)).unwrap();
        out.begin((9, 0), 1_000, at(3_600_000));
        let next = out.place((9, 0), at(3_600_000)).unwrap();
        assert_eq!(next.timestamp, 60_000);
    }

    /// A VP8 payload with a long picture id and the index of the lowest layer.
    fn vp8(id: u16, base: u8) -> Vec<u8> {
        let [high, low] = id.to_be_bytes();
        vec![0x90, 0xe0, 0x80 | high, low, base, 0x20, 0, 0, 0]
    }

    #[test]
    fn picture_ids_go_on_over_a_change() {
        let mut out = Rewrite::new(0);
        let show = |id, base| Picture::read(&vp8(id, base)).unwrap();
        out.begin((1, 0), 90_000, at(0));
        let first = show(0x7ffe, 255);
        assert!(out.picture(&first).is_none(), "nothing to change yet");
        out.begin((9, 0), 90_000, at(40));
        let next = show(5, 9);
        let patch = out.picture(&next);
        let expected = next
            .descriptor
            .patch()
            .picture_id(0x7fff)
            .tl0_pic_idx(0)
            .build();
        assert_eq!(patch, expected.ok());
    }
}
