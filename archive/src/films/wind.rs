//! A film wound on or back: its key frames alone, one after the other, as a transport stream with
//! a clock of its own that runs on at its pace whichever way the pictures go.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use super::packets::{CLOCK_WRAP, Codec, Fields, PACKET, PAT, SYNC, TICKS, program, streams};
use super::play::{Play, packet_of};
use super::{DATAGRAM, PACKETS};
use crate::replay::Replayed;

/// From one key frame to the next at least: five in a second show where one is, and have no more
/// bytes than the film had.
const SPACING: Duration = Duration::from_millis(200);
/// A key frame's datagrams are spread over so long before it is shown.
const SPREAD: Duration = Duration::from_millis(100);
/// From the clock of a key frame to its presentation: it has come by then, by any network.
const DELAY: u64 = TICKS * 2 / 5;
/// Packets in which a key frame is looked for, and that it may have: 7.5 MB.
const PICTURE_MAX: u64 = 40_000;
/// Packets in which a film's tables are looked for: they come twice in a second.
const TABLES_MAX: u64 = 40_000;
/// Of a packet's head (ISO/IEC 13818-1 section 2.4.3.2): it has an adaptation field, a payload.
const HAS_ADAPTATION: u8 = 0x20;
/// Of an adaptation field: another clock begins, there is a clock.
const IS_NEW_CLOCK: u8 = 0x80;
const HAS_CLOCK: u8 = 0x10;

type Packet = [u8; PACKET];

/// How a film is wound.
#[derive(Debug)]
pub(super) struct Wind {
    /// How much faster; below 0: back.
    scale: f64,
    /// No key frame beyond this.
    until: Option<Duration>,
    /// Where it began, on the film's clock.
    origin: Duration,
    /// The packet where the next key frame is looked for; `None` at the end.
    next: Option<u64>,
    /// The key frame before, if there was one.
    before: Option<Duration>,
    tables: Tables,
    /// The last continuity counter of each PID.
    counters: BTreeMap<u16, u8>,
    ready: VecDeque<Replayed>,
}

/// What stands before a key frame so that it is understood.
#[derive(Clone, Debug, Default)]
struct Tables {
    programs: Vec<Packet>,
    /// The PID of the first program's table, and the table.
    place: Option<u16>,
    streams: Vec<Packet>,
    clock: Option<u16>,
    video: Option<(u16, Codec)>,
}

impl Tables {
    /// Takes a packet if it is of a table.
    fn take(&mut self, fields: &Fields<'_>, packet: &Packet) {
        if fields.pid == PAT && fields.begins {
            self.programs = vec![*packet];
            self.place = self.place.or_else(|| program(fields.payload));
        } else if Some(fields.pid) == self.place {
            if fields.begins {
                self.streams.clear();
                if let Some((clock, video)) = streams(fields.payload) {
                    (self.clock, self.video) = (Some(clock), video);
                }
            }
            self.streams.push(*packet);
        }
    }
}

impl Play {
    /// Goes to a key frame at or before `to`, and on from there by key frames alone, up to one at
    /// `until`, `scale` times as fast; below 0 back. Where that is; `None`, and nothing changed, if
    /// the film has no pictures that are known.
    ///
    /// # Errors
    /// A block is lost.
    pub fn wind(
        &mut self,
        to: Duration,
        until: Option<Duration>,
        scale: f64,
    ) -> io::Result<Option<Duration>> {
        let start = self.film.index.start(to);
        let tables = self.tables(start)?;
        if tables.video.is_none() {
            return Ok(None);
        }
        let at = self.film.index.at(start);
        let counters = self.wind.take().map(|wind| wind.counters);
        self.wind = Some(Box::new(Wind {
            scale,
            until,
            origin: at,
            next: Some(start),
            before: None,
            tables,
            counters: counters.unwrap_or_default(),
            ready: VecDeque::new(),
        }));
        Ok(Some(at))
    }

    /// The next datagram of a film that is wound; `None` at its end or its begin.
    pub(super) fn pull_wound(&mut self, wind: &mut Wind) -> io::Result<Option<Replayed>> {
        while wind.ready.is_empty() {
            let Some(start) = wind.next else {
                return Ok(None);
            };
            let at = self.film.index.at(start);
            if wind.is_beyond(at) {
                wind.next = None;
                return Ok(None);
            }
            let (tables, picture) = self.key_frame(start, &wind.tables)?;
            wind.tables = tables;
            if !picture.is_empty() {
                wind.show(at, &picture);
            }
            wind.next = self
                .film
                .index
                .step(start, SPACING.mul_f64(wind.scale.abs()), wind.scale);
        }
        Ok(wind.ready.pop_front())
    }

    /// The tables of the first program from a packet on.
    fn tables(&mut self, start: u64) -> io::Result<Tables> {
        let mut tables = Tables::default();
        for number in start..start.saturating_add(TABLES_MAX) {
            let Some(packet) = self.packet(number)? else {
                break;
            };
            if let Some(fields) = Fields::of(&packet) {
                tables.take(&fields, &packet);
                if tables.clock.is_some() && fields.pid != PAT && Some(fields.pid) != tables.place {
                    break;
                }
            }
        }
        Ok(tables)
    }

    /// The packets of the first key frame from a packet on, with the tables there; none if it has
    /// no end.
    fn key_frame(&mut self, start: u64, known: &Tables) -> io::Result<(Tables, Vec<Packet>)> {
        let (mut tables, mut picture) = (known.clone(), Vec::new());
        for number in start..start.saturating_add(PICTURE_MAX) {
            let Some(packet) = self.packet(number)? else {
                return Ok((tables, picture));
            };
            let Some(fields) = Fields::of(&packet) else {
                continue;
            };
            match tables.video {
                Some((pid, codec)) if pid == fields.pid => {
                    if fields.begins && !picture.is_empty() {
                        return Ok((tables, picture));
                    }
                    let is_key = fields.is_random_access || codec.is_key(fields.payload);
                    if fields.begins && is_key || !picture.is_empty() {
                        picture.push(packet);
                    }
                }
                _ if picture.is_empty() => tables.take(&fields, &packet),
                _ => {}
            }
        }
        Ok((tables, Vec::new()))
    }

    fn packet(&mut self, number: u64) -> io::Result<Option<Packet>> {
        let datagram = number / PACKETS as u64;
        if datagram >= self.film.datagrams() {
            return Ok(None);
        }
        let block = datagram / self.film.in_block();
        let bytes = match &self.block {
            Some((known, bytes)) if *known == block => bytes.clone(),
            _ => self.fetch(block)?.0,
        };
        let place = (number - block * self.film.in_block() * PACKETS as u64) as usize * PACKET;
        let packet = bytes.get(place..).and_then(|rest| rest.first_chunk());
        Ok(packet.copied())
    }
}

impl Wind {
    fn is_beyond(&self, at: Duration) -> bool {
        let is_beyond = |until| match self.scale < 0.0 {
            true => at < until,
            false => at > until,
        };
        self.until.is_some_and(is_beyond)
    }

    /// Lets a key frame at `at` be the next that comes.
    fn show(&mut self, at: Duration, picture: &[Packet]) {
        let passed = at.abs_diff(self.origin).div_f64(self.scale.abs());
        let ticks = self.origin.as_nanos() + passed.as_nanos();
        let clock = (ticks * u128::from(TICKS) / 1_000_000_000) as u64 % CLOCK_WRAP;
        let before = self.before.replace(at);
        let is_first = before.is_none();
        let mut packets = [&self.tables.programs[..], &self.tables.streams].concat();
        if let Some(pid) = self.tables.clock {
            packets.push(clock_packet(pid, (clock, is_first)));
        }
        let tables = packets.len();
        packets.extend(picture);
        for (place, packet) in packets.iter_mut().enumerate() {
            self.count(packet);
            set_clock(packet, (clock, is_first));
            if place == tables {
                set_times(packet, (clock + DELAY) % CLOCK_WRAP / 300);
            }
        }
        let bytes = packets.as_flattened();
        let datagrams = bytes.chunks(DATAGRAM);
        let count = datagrams.len();
        let mut spread = SPREAD.mul_f64(self.scale.abs());
        if let Some(before) = before {
            // The last one may be nearer to it than others.
            spread = spread.min(at.abs_diff(before) / 2);
        }
        for (place, data) in datagrams.enumerate() {
            // The last comes when the film is there, the others before it.
            let early = spread.mul_f64((count - 1 - place) as f64 / count as f64);
            let at = match self.scale < 0.0 {
                true => at + early,
                false => at.saturating_sub(early),
            };
            self.ready.push_back(packet_of(at, place as u64, data));
        }
    }

    /// Gives a packet the next number of its PID (section 2.4.3.3): one without payload has that
    /// of the one before.
    fn count(&mut self, packet: &mut Packet) {
        let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
        let counter = self.counters.entry(pid).or_insert(0x0f);
        if packet[3] & 0x10 != 0 {
            *counter = (*counter + 1) & 0x0f;
        }
        packet[3] = packet[3] & 0xf0 | *counter;
    }
}

/// A packet with nothing but a clock.
fn clock_packet(pid: u16, (clock, is_new): (u64, bool)) -> Packet {
    let mut packet = [0xff; PACKET];
    let [high, low] = pid.to_be_bytes();
    packet[..6].copy_from_slice(&[SYNC, high, low, HAS_ADAPTATION, 183, HAS_CLOCK]);
    set_clock(&mut packet, (clock, is_new));
    packet
}

/// Sets the clock that a packet has, if it has one.
fn set_clock(packet: &mut Packet, (clock, is_new): (u64, bool)) {
    let [_, _, _, control, len, rest @ ..] = packet;
    if *control & HAS_ADAPTATION == 0 || *len == 0 {
        return;
    }
    if is_new {
        rest[0] |= IS_NEW_CLOCK;
    }
    if rest[0] & HAS_CLOCK != 0 && *len >= 7 {
        let (base, extension) = (clock / 300, clock % 300);
        rest[1..5].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
        rest[5] = ((base & 1) << 7) as u8 | 0x7e | (extension >> 8) as u8;
        rest[6] = extension as u8;
    }
}

/// Sets when the picture that begins in a packet is shown, and decoded (section 2.4.3.6): 90 kHz.
fn set_times(packet: &mut Packet, time: u64) {
    let start = match packet[3] & HAS_ADAPTATION {
        0 => 4,
        _ => 5 + usize::from(packet[4]),
    };
    let Some([0, 0, 1, _, _, _, _, flags, _, fields @ ..]) = packet.get_mut(start..) else {
        return;
    };
    let (has_shown, has_decoded) = (*flags & 0x80 != 0, *flags & 0x40 != 0);
    for place in [
        has_shown.then_some(0),
        (has_shown && has_decoded).then_some(5),
    ] {
        let field = place.and_then(|place| fields.get_mut(place..place + 5));
        if let Some([a, b, c, d, e]) = field {
            *a = *a & 0xf0 | ((time >> 30) as u8 & 7) << 1 | 1;
            (*b, *c) = ((time >> 22) as u8, (time >> 14) as u8 | 1);
            (*d, *e) = ((time >> 7) as u8, (time << 1) as u8 | 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_and_times_are_those_that_were_set() {
        for clock in [0, 299, 300 * 12_345_678 + 7, CLOCK_WRAP - 1] {
            let packet = clock_packet(0x101, (clock, true));
            let fields = Fields::of(&packet).unwrap();
            assert_eq!((fields.pid, fields.clock), (0x101, Some(clock)));
            assert!(fields.is_new_clock && fields.payload.is_empty());
        }
        let mut packet = [0; PACKET];
        packet[..13].copy_from_slice(&[SYNC, 0x41, 1, 0x10, 0, 0, 1, 0xe0, 0, 0, 0x80, 0xc0, 10]);
        (packet[13], packet[18]) = (0x31, 0x11);
        set_times(&mut packet, 0x1_2345_6789);
        // The fields of ISO/IEC 13818-1 table 2-21, marker bits among them.
        let expected = [0x39, 0x8d, 0x15, 0xcf, 0x13];
        assert_eq!(packet[13..18], expected);
        assert_eq!(packet[18..23], [&[0x19], &expected[1..]].concat());
    }

    #[test]
    fn what_has_no_room_for_a_clock_or_times_is_left_alone() {
        for control in [0x10, 0x20, 0x30] {
            for len in [0, 1, 6, 183, 255] {
                let mut packet = [0xff; PACKET];
                (packet[0], packet[3], packet[4]) = (SYNC, control, len);
                set_clock(&mut packet, (5, false));
                set_times(&mut packet, 5);
                assert_eq!((packet[0], packet[3]), (SYNC, control));
            }
        }
    }
}
