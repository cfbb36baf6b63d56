//! What the packets of a transport stream say about time and places to begin (ISO/IEC 13818-1,
//! section 2.4).

use super::index::{Index, Point, SPACING};

/// Bytes of a packet.
pub(crate) const PACKET: usize = 188;
/// The first byte of each.
pub(crate) const SYNC: u8 = 0x47;
/// Section 2.4.3.5: what counts the program clock's 27 MHz wraps after 2^33 * 300.
pub(super) const CLOCK_WRAP: u64 = (1 << 33) * 300;
/// A clock that goes on by more was set anew: section 2.7.2 wants it told each 100 ms.
const JUMP: u64 = 10 * TICKS;
/// Of the program clock in a second.
pub(super) const TICKS: u64 = 27_000_000;
/// The PID of the program association table.
pub(super) const PAT: u16 = 0;

/// Learns from packets, one after the other, where in time they are.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    packets: u64,
    broken: u64,
    /// PIDs of the first program: its table, its clock, its picture.
    table: Option<u16>,
    clock: Option<u16>,
    video: Option<(u16, Codec)>,
    /// Where the tables stood last: who begins there understands what follows.
    tables_at: Option<u64>,
    /// The last clock: the packet, what it showed, ticks since the first.
    last: Option<(u64, u64, u64)>,
    /// Ticks of a thousand packets between the last two.
    pace: u64,
    points: Vec<Point>,
    starts: Vec<u64>,
}

/// A picture's codec, as far as its key frames are known by their first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Mpeg2,
    H264,
    H265,
    /// Known by its random access indicator only.
    Other,
}

impl Scanner {
    /// Takes the next packet.
    pub(super) fn push(&mut self, packet: &[u8]) {
        let at = self.packets;
        self.packets += 1;
        let Some(fields) = Fields::of(packet) else {
            self.broken += 1;
            return;
        };
        if let Some(clock) = fields.clock
            && Some(fields.pid) == self.clock
        {
            self.tick(at, clock, fields.is_new_clock);
        }
        match fields.pid {
            PAT if fields.begins => {
                self.tables_at = Some(at);
                self.table = self.table.or_else(|| program(fields.payload));
                // Without pictures any place will do.
                if self.video.is_none() && self.clock.is_some() {
                    self.start(at);
                }
            }
            pid if fields.begins && Some(pid) == self.table => self.program(fields.payload),
            pid => {
                let video = self.video.filter(|(video, _)| *video == pid);
                if let Some((_, codec)) = video
                    && fields.begins
                    && (fields.is_random_access || codec.is_key(fields.payload))
                {
                    self.start(self.tables_at.unwrap_or(at));
                }
            }
        }
    }

    /// What was learned; `None` if there is no clock.
    pub(super) fn finish(mut self) -> Option<Index> {
        if let Some((packet, _, ticks)) = self.last
            && self
                .points
                .last()
                .is_some_and(|point| point.packet < packet)
        {
            self.points.push(Point { packet, ticks });
        }
        let index = Index {
            packets: self.packets,
            broken: self.broken,
            points: self.points,
            starts: self.starts,
        };
        (index.points.len() > 1).then_some(index)
    }

    fn program(&mut self, section: &[u8]) {
        if self.clock.is_none()
            && let Some((clock, video)) = streams(section)
        {
            self.clock = Some(clock);
            self.video = video;
        }
    }

    fn tick(&mut self, packet: u64, clock: u64, is_new: bool) {
        let ticks = match self.last {
            None => 0,
            Some((before, known, ticks)) => {
                let passed = (clock + CLOCK_WRAP - known) % CLOCK_WRAP;
                let packets = packet - before;
                // Another clock goes on at the pace of the one before.
                let passed = match is_new || passed > JUMP {
                    true => self.pace * packets / 1_000,
                    false => passed,
                };
                self.pace = passed * 1_000 / packets.max(1);
                ticks + passed
            }
        };
        self.last = Some((packet, clock, ticks));
        let last = self.points.last().map(|point| point.ticks);
        if last.is_none_or(|last| ticks >= last + SPACING) {
            self.points.push(Point { packet, ticks });
        }
        // Places to begin that came before the first clock.
        if self.starts.is_empty() && self.points.len() == 1 {
            self.starts.push(0);
        }
    }

    /// Reading can start here. The first is where the film begins.
    fn start(&mut self, at: u64) {
        let Some(last) = self.starts.last() else {
            return;
        };
        let apart = self.pace * at.saturating_sub(*last) / 1_000;
        if apart >= SPACING {
            self.starts.push(at);
        }
    }
}

/// What is read of a packet (section 2.4.3.2).
pub(super) struct Fields<'a> {
    pub(super) pid: u16,
    /// A section or a picture begins in it.
    pub(super) begins: bool,
    pub(super) is_random_access: bool,
    /// What the program clock shows.
    pub(super) clock: Option<u64>,
    /// The clock is another than before.
    pub(super) is_new_clock: bool,
    pub(super) payload: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(packet: &'a [u8]) -> Option<Self> {
        let [SYNC, high, low, control, rest @ ..] = packet else {
            return None;
        };
        let has_adaptation = control & 0x20 != 0;
        let has_payload = control & 0x10 != 0;
        let (adaptation, payload) = match (has_adaptation, rest) {
            (true, [len, rest @ ..]) => rest.split_at_checked(usize::from(*len))?,
            _ => (&[][..], rest),
        };
        let flags = adaptation.first().copied().unwrap_or(0);
        let clock = match adaptation {
            [_, a, b, c, d, e, f, ..] if flags & 0x10 != 0 => {
                let high = u64::from(u32::from_be_bytes([*a, *b, *c, *d]));
                let base = high << 1 | u64::from(e >> 7);
                let extension = u64::from(e & 1) << 8 | u64::from(*f);
                Some(base * 300 + extension)
            }
            _ => None,
        };
        Some(Self {
            pid: u16::from_be_bytes([high & 0x1f, *low]),
            begins: high & 0x40 != 0,
            is_random_access: flags & 0x40 != 0,
            clock,
            is_new_clock: flags & 0x80 != 0,
            payload: if has_payload { payload } else { &[] },
        })
    }
}

/// A table's section behind its pointer field (section 2.4.4.2), without its checksum.
fn section(payload: &[u8]) -> Option<&[u8]> {
    let (pointer, rest) = payload.split_first()?;
    let section = rest.get(usize::from(*pointer)..)?;
    let len = usize::from(u16::from_be_bytes([*section.get(1)?, *section.get(2)?]) & 0xfff);
    // Longer ones go on in further packets: what stands here is enough.
    let end = (3 + len).saturating_sub(4).min(section.len());
    section.get(..end)
}

/// The PID of the first program's table (section 2.4.4.4).
pub(super) fn program(payload: &[u8]) -> Option<u16> {
    let programs = section(payload)?.get(8..)?.chunks_exact(4);
    let mut programs = programs.filter(|one| one[..2] != [0, 0]);
    programs.next().map(|one| pid(one[2], one[3]))
}

/// The PIDs of a program's clock and of its picture (section 2.4.4.9).
pub(super) fn streams(payload: &[u8]) -> Option<(u16, Option<(u16, Codec)>)> {
    let section = section(payload)?;
    let clock = pid(*section.get(8)?, *section.get(9)?);
    let about = usize::from(pid(*section.get(10)?, *section.get(11)?) & 0xfff);
    let mut rest = section.get(12 + about..).unwrap_or_default();
    while let [kind, a, b, c, d, more @ ..] = rest {
        if let Some(codec) = Codec::of(*kind) {
            return Some((clock, Some((pid(*a, *b), codec))));
        }
        let about = usize::from(u16::from_be_bytes([*c, *d]) & 0xfff);
        rest = more.get(about..).unwrap_or_default();
    }
    Some((clock, None))
}

const fn pid(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high & 0x1f, low])
}

impl Codec {
    /// Stream types of table 2-34.
    const fn of(kind: u8) -> Option<Self> {
        match kind {
            0x01 | 0x02 => Some(Self::Mpeg2),
            0x1b => Some(Self::H264),
            0x24 => Some(Self::H265),
            0x10 | 0x33 => Some(Self::Other),
            _ => None,
        }
    }

    /// Whether a picture begins that needs no other. Not all who write transport streams set the
    /// random access indicator; parameter sets stand before key frames.
    pub(super) fn is_key(self, payload: &[u8]) -> bool {
        let starts = payload.windows(4).filter(|bytes| bytes[..3] == [0, 0, 1]);
        let mut kinds = starts.map(|bytes| bytes[3]);
        match self {
            // ISO/IEC 13818-2 table 6-1: a sequence header.
            Self::Mpeg2 => kinds.any(|kind| kind == 0xb3),
            // H.264 table 7-1: a sequence parameter set, or a picture of its own.
            Self::H264 => kinds.any(|kind| matches!(kind & 0x1f, 5 | 7)),
            // H.265 table 7-1: pictures of their own, parameter sets. Above are the streams' ids.
            Self::H265 => kinds.any(|kind| kind < 0x80 && matches!(kind >> 1, 16..=21 | 32 | 33)),
            Self::Other => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// Tables of one program: its table at 0x100, clock and H.264 at 0x101.
    fn tables() -> [Vec<u8>; 2] {
        let table = |pid: u16, section: &[u8]| {
            let [high, low] = pid.to_be_bytes();
            let mut packet = vec![SYNC, 0x40 | high, low, 0x10, 0];
            packet.extend(section);
            packet.resize(PACKET, 0xff);
            packet
        };
        let programs = [0, 0xb0, 13, 0, 1, 0xc1, 0, 0, 0, 1, 0xe1, 0, 0, 0, 0, 0];
        let streams = [
            2, 0xb0, 18, 0, 1, 0xc1, 0, 0, 0xe1, 1, 0xf0, 0, 0x1b, 0xe1, 1, 0xf0, 0, 0, 0, 0, 0,
        ];
        [table(PAT, &programs), table(0x100, &streams)]
    }

    /// A packet of the picture with the clock, and perhaps a key frame.
    fn picture(clock: u64, is_key: bool) -> Vec<u8> {
        let (base, extension) = (clock / 300, clock % 300);
        let flags = if is_key { 0x50 } else { 0x10 };
        let mut packet = vec![SYNC, 0x41, 1, 0x30, 7, flags];
        packet.extend(((base >> 1) as u32).to_be_bytes());
        packet.push((base << 7) as u8 | 0x7e | (extension >> 8) as u8);
        packet.push(extension as u8);
        packet.resize(PACKET, 0);
        packet
    }

    fn scan(packets: &[Vec<u8>]) -> Option<Index> {
        let mut scanner = Scanner::default();
        packets.iter().for_each(|packet| scanner.push(packet));
        scanner.finish()
    }

    /// Ten pictures a second, each behind tables, the first of each second a key frame, by a clock
    /// that shows this first.
    fn film(seconds: u64, first: u64) -> Vec<Vec<u8>> {
        let pictures = (0..seconds * 10).flat_map(|number| {
            let clock = (first + number * TICKS / 10) % CLOCK_WRAP;
            let [programs, streams] = tables();
            [programs, streams, picture(clock, number % 10 == 0)]
        });
        pictures.collect()
    }

    #[test]
    fn time_and_key_frames_are_found_over_the_wrap_of_the_clock() {
        let near = CLOCK_WRAP - 2 * TICKS - 7;
        for first in [0, 12_345_678, near] {
            let index = scan(&film(5, first)).unwrap();
            assert_eq!((index.packets, index.broken), (150, 0));
            assert_eq!(index.at(2 + 3 * 25), Duration::from_millis(2_500));
            // From the tables before the key frame.
            assert_eq!(index.start(Duration::from_millis(2_500)), 3 * 20);
            assert_eq!(index.starts(), 5);
        }
    }

    #[test]
    fn a_clock_that_is_set_anew_stops_nothing() {
        let all = [film(3, 50 * TICKS), film(3, TICKS), film(3, 900 * TICKS)].concat();
        let index = scan(&all).unwrap();
        let length = index.length().as_secs_f64();
        assert!((8.9..9.1).contains(&length), "{length}");
    }

    #[test]
    fn what_has_no_clock_is_no_film() {
        assert_eq!(scan(&tables()), None);
        assert_eq!(scan(&[vec![0; PACKET], vec![]]), None);
    }

    proptest! {
        #[test]
        fn no_packet_is_too_strange(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
            cut in 0_usize..200,
        ) {
            let [programs, streams] = tables();
            let mut all = vec![programs, streams[..streams.len().min(cut)].to_vec()];
            all.extend(packets.into_iter().map(|mut packet| {
                if let [sync, high, low, ..] = &mut packet[..] {
                    (*sync, *high) = (SYNC, *high & 0x41);
                    *low &= 1;
                }
                packet
            }));
            let _ = scan(&all);
        }
    }
}
