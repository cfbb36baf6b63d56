//! What the packets of a transport stream say about time and places to begin (ISO/IEC 13818-1,
//! section 2.4).

use super::index::{Index, Point, SPACING};

/// Bytes of a packet.
pub(crate) const PACKET: usize = 188;
/// The first byte of each.
pub(crate) const SYNC: u8 = 0x47;
/// Section 2.4.3.5: what counts the program clock's 27 MHz wraps after 2^33 * 300.
const CLOCK_WRAP: u64 = (1 << 33) * 300;
/// A clock that goes on by more was set anew: section 2.7.2 wants it told each 100 ms.
const JUMP: u64 = 10 * TICKS;
/// Of the program clock in a second.
pub(super) const TICKS: u64 = 27_000_000;
/// The PID of the program association table.
const PAT: u16 = 0;

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
enum Codec {
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
struct Fields<'a> {
    pid: u16,
    /// A section or a picture begins in it.
    begins: bool,
    is_random_access: bool,
    /// What the program clock shows.
    clock: Option<u64>,
    /// The clock is another than before.
    is_new_clock: bool,
    payload: &'a [u8],
}

impl<'a> Fields<'a> {
    fn of(packet: &'a [u8]) -> Option<Self> {
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
fn program(payload: &[u8]) -> Option<u16> {
    let programs = section(payload)?.get(8..)?.chunks_exact(4);
    let mut programs = programs.filter(|one| one[..2] != [0, 0]);
    programs.next().map(|one| pid(one[2], one[3]))
}

/// The PIDs of a program's clock and of its picture (section 2.4.4.9).
fn streams(payload: &[u8]) -> Option<(u16, Option<(u16, Codec)>)> {
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
    fn is_key(self, payload: &[u8]) -> bool {
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
