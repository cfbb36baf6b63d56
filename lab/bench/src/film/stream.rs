//! A transport stream with the rates of a trace (ISO/IEC 13818-1): tables, clock and frames stand
//! where they do in a film; pictures and sound are noise, which nobody decodes.

use std::io::{self, Write};

use sangam_model::Random;

use super::trace::{FRAME, Frame, Trace};

/// Bytes of a packet.
pub(crate) const PACKET: usize = 188;
/// Frames from one key frame, and the tables before it, to the next.
pub(super) const KEY_EVERY: u64 = 12;
/// Packets of tables.
pub(super) const TABLES: u32 = 2;

const PROGRAM: u16 = 0x1000;
const PICTURE: u16 = 0x100;
const SOUND: u16 = 0x101;
/// The program clock's ticks in a frame: 27 MHz.
const TICKS: u64 = 27_000 * FRAME.as_millis() as u64;
/// The clock's first reading: decoding is behind it by a second.
const BEGIN: u64 = 27_000_000;
const DELAY: u64 = 90_000;

/// Bytes behind a packet's header.
const ROOM: usize = PACKET - 4;
/// Of those, the ones that the clock takes: length, flags, six bytes.
const CLOCK: usize = 8;
/// Bytes before a frame's own: start code, length, flags, one time stamp.
const HEAD: usize = 14;

/// Packets of a frame with this number in its film.
pub(super) fn packets(number: u64, frame: Frame) -> u32 {
    let sound = match frame.sound {
        0 => 0,
        bytes => (HEAD + bytes as usize).div_ceil(ROOM),
    };
    let picture = (HEAD + CLOCK + frame.picture as usize).div_ceil(ROOM);
    let tables = if number.is_multiple_of(KEY_EVERY) {
        TABLES
    } else {
        0
    };
    (picture + sound) as u32 + tables
}

/// Bytes of a picture that fills so many packets.
pub(super) const fn picture_bytes(packets: u32) -> u32 {
    packets * ROOM as u32 - (HEAD + CLOCK) as u32
}

/// Writes so many frames of a film, from one of the trace's on.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write(
    trace: &Trace,
    (first, frames): (u64, u64),
    seed: u64,
    out: &mut impl Write,
) -> io::Result<u64> {
    let mut writer = Writer {
        random: Random::new(seed),
        counters: [0; 4],
        written: 0,
        out,
    };
    for number in 0..frames {
        writer.frame(number, trace.frame(first + number))?;
    }
    Ok(writer.written)
}

struct Writer<'a, W> {
    random: Random,
    /// Of each PID, the four bits that tell packets apart.
    counters: [u8; 4],
    written: u64,
    out: &'a mut W,
}

impl<W: Write> Writer<'_, W> {
    fn frame(&mut self, number: u64, frame: Frame) -> io::Result<()> {
        let is_key = number.is_multiple_of(KEY_EVERY);
        if is_key {
            self.table(0, &programs())?;
            self.table(PROGRAM, &streams())?;
        }
        let clock = BEGIN + number * TICKS;
        let stamp = clock / 300 + DELAY;
        let head = head(0xe0, stamp, 0);
        self.unit((PICTURE, &head), frame.picture, Some((clock, is_key)))?;
        if frame.sound > 0 {
            let head = self::head(0xc0, stamp, frame.sound as usize);
            self.unit((SOUND, &head), frame.sound, None)?;
        }
        Ok(())
    }

    fn table(&mut self, pid: u16, section: &[u8]) -> io::Result<()> {
        let mut packet = [0xff; PACKET];
        self.header(&mut packet, pid, (true, 0x10));
        packet[4] = 0;
        packet[5..5 + section.len()].copy_from_slice(section);
        self.put(&packet)
    }

    /// A frame in packets, the last of them stuffed.
    fn unit(
        &mut self,
        (pid, head): (u16, &[u8]),
        bytes: u32,
        clock: Option<(u64, bool)>,
    ) -> io::Result<()> {
        let mut left = head.len() + bytes as usize;
        let mut is_first = true;
        while left > 0 {
            let mut packet = [0; PACKET];
            let clock = clock.filter(|_| is_first);
            let taken = if clock.is_some() { CLOCK } else { 0 };
            let payload = left.min(ROOM - taken);
            let stuffed = ROOM - payload;
            let control = if stuffed > 0 { 0x30 } else { 0x10 };
            self.header(&mut packet, pid, (is_first, control));
            adapt(&mut packet[4..4 + stuffed], clock);
            let body = &mut packet[4 + stuffed..];
            noise(&mut self.random, body);
            if is_first {
                body[..head.len()].copy_from_slice(head);
            }
            self.put(&packet)?;
            left -= payload;
            is_first = false;
        }
        Ok(())
    }

    /// Section 2.4.3.2.
    fn header(&mut self, packet: &mut [u8; PACKET], pid: u16, (begins, control): (bool, u8)) {
        let [high, low] = pid.to_be_bytes();
        let counter = &mut self.counters[usize::from(pid == PROGRAM)
            + 2 * usize::from(pid & 0xf00 > 0)
            + usize::from(pid == SOUND)];
        packet[..4].copy_from_slice(&[
            0x47,
            u8::from(begins) << 6 | high,
            low,
            control | *counter & 0xf,
        ]);
        *counter = counter.wrapping_add(1);
    }

    fn put(&mut self, packet: &[u8]) -> io::Result<()> {
        self.written += packet.len() as u64;
        self.out.write_all(packet)
    }
}

/// Section 2.4.3.5: the clock, and what fills a packet.
fn adapt(field: &mut [u8], clock: Option<(u64, bool)>) {
    let Some((len, rest)) = field.split_first_mut() else {
        return;
    };
    *len = rest.len() as u8;
    let Some((flags, rest)) = rest.split_first_mut() else {
        return;
    };
    *flags = 0;
    rest.fill(0xff);
    if let Some((clock, is_key)) = clock {
        *flags = 0x10 | u8::from(is_key) << 6;
        let (base, extension) = (clock / 300, clock % 300);
        rest[..4].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
        rest[4] = (base << 7) as u8 | 0x7e | (extension >> 8) as u8;
        rest[5] = extension as u8;
    }
}

/// What stands before a frame (section 2.4.3.6): its stream and when it is to be shown. A picture's
/// length is not told, as it may be too long.
fn head(stream: u8, stamp: u64, bytes: usize) -> [u8; HEAD] {
    let [high, low] = match bytes {
        0 => [0, 0],
        bytes => ((bytes + HEAD - 6) as u16).to_be_bytes(),
    };
    let bits = |shift: u32| (stamp >> shift) as u8;
    [
        0,
        0,
        1,
        stream,
        high,
        low,
        0x80,
        0x80,
        5,
        0x21 | (bits(29) & 0x0e),
        bits(22),
        bits(14) | 1,
        bits(7),
        bits(0) << 1 | 1,
    ]
}

/// Section 2.4.4.3: one program.
fn programs() -> Vec<u8> {
    let [high, low] = PROGRAM.to_be_bytes();
    section(&[0, 0xb0, 13, 0, 1, 0xc1, 0, 0, 0, 1, 0xe0 | high, low])
}

/// Section 2.4.4.8: MPEG-2 with the clock, and MPEG-1 sound.
fn streams() -> Vec<u8> {
    let ([high, low], [sound_high, sound_low]) = (PICTURE.to_be_bytes(), SOUND.to_be_bytes());
    let (picture, sound) = (
        [2, 0xe0 | high, low, 0xf0, 0],
        [3, 0xe0 | sound_high, sound_low],
    );
    let begin = [2, 0xb0, 23, 0, 1, 0xc1, 0, 0, 0xe0 | high, low, 0xf0, 0];
    section(&[&begin[..], &picture, &sound, &[0xf0, 0]].concat())
}

/// With its checksum (annex A).
fn section(bytes: &[u8]) -> Vec<u8> {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte) << 24;
        for _ in 0..8 {
            sum = match sum >> 31 {
                1 => sum << 1 ^ 0x04c1_1db7,
                _ => sum << 1,
            };
        }
    }
    [bytes, &sum.to_be_bytes()].concat()
}

fn noise(random: &mut Random, body: &mut [u8]) {
    for bytes in body.chunks_mut(8) {
        let noise = random.bits().to_be_bytes();
        bytes.copy_from_slice(&noise[..bytes.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::film::Kind;

    #[test]
    fn a_film_has_the_packets_of_its_trace() {
        for kind in [Kind::Dvd, Kind::High, Kind::Small] {
            let trace = kind.trace();
            let mut out = Vec::new();
            let written = write(&trace, (40, 100), 1, &mut out).expect("memory");
            assert_eq!(written, out.len() as u64);
            assert!(
                out.chunks(PACKET)
                    .all(|packet| packet.len() == PACKET && packet[0] == 0x47)
            );
            let bits: u64 = trace.bits(40, 100).sum();
            assert_eq!(bits, written * 8, "{}", kind.name());
        }
    }

    #[test]
    fn counters_of_each_stream_go_on_by_one() {
        let mut out = Vec::new();
        write(&Kind::Dvd.trace(), (0, 50), 1, &mut out).expect("memory");
        let mut last = std::collections::HashMap::new();
        for packet in out.chunks(PACKET) {
            let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
            let counter = packet[3] & 0xf;
            if let Some(before) = last.insert(pid, counter) {
                assert_eq!(counter, (before + 1) & 0xf, "{pid:x}");
            }
        }
        assert_eq!(last.len(), 4);
    }
}
