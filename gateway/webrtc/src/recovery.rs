//! Sound that was lost on its way from a publisher, taken from the redundancy of what came after
//! it (RFC 2198).
//!
//! A redundant block says how much older it is, and not which packet it was. So packets that came
//! are remembered: a block becomes a packet only where one is missing, and only if its time lies
//! between those of its neighbours.

use sangam_wire::red::{Block, Blocks};

/// Packets that are remembered, and so the largest hole that is looked into. A block is at most
/// 2^14 units older, which is 341 ms of Opus or 35 packets of 10 ms.
const WINDOW: u16 = 64;
/// Blocks of one packet that may become packets, the nearest first. Browsers send one.
const TAKEN_MAX: usize = 8;

/// What came of one stream, as far as it matters for what did not.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// Under which payload type redundancy comes.
    pub(crate) payload_type: u8,
    newest: Option<u16>,
    /// At `sequence % WINDOW`.
    seen: [Option<Seen>; WINDOW as usize],
}

/// A packet that came, or was recovered.
#[derive(Clone, Copy, Debug)]
struct Seen {
    sequence: u16,
    timestamp: u32,
}

/// A packet that did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost<'a> {
    pub(crate) sequence: u16,
    pub(crate) timestamp: u32,
    pub(crate) payload: &'a [u8],
}

impl Recovery {
    /// For a stream whose redundancy comes under this payload type.
    pub(crate) fn new(payload_type: u8) -> Self {
        Self {
            payload_type,
            newest: None,
            seen: [None; WINDOW as usize],
        }
    }

    /// Forgets everything, as the stream starts anew.
    pub(crate) fn restart(&mut self) {
        *self = Self::new(self.payload_type);
    }

    /// Notes a packet that came; `false` if it is there already.
    pub(crate) fn came(&mut self, sequence: u16, timestamp: u32) -> bool {
        if self.at(sequence).is_some() {
            return false;
        }
        self.note(sequence, timestamp);
        true
    }

    /// The packets that are missing and stand in `blocks` of a packet that came, oldest first.
    /// `payload_type` is what they have to be.
    pub(crate) fn lost<'a>(
        &mut self,
        (sequence, timestamp): (u16, u32),
        payload_type: u8,
        blocks: Blocks<'a>,
    ) -> impl Iterator<Item = Lost<'a>> + use<'a> {
        let mut lost = [None; TAKEN_MAX];
        let mut nearest = None;
        for (place, block) in lost.iter_mut().zip(blocks) {
            let nearest = *nearest.get_or_insert(block.offset);
            let Some(distance) = distance(block.offset, nearest) else {
                continue;
            };
            let found = Lost {
                sequence: sequence.wrapping_sub(distance),
                timestamp: timestamp.wrapping_sub(block.offset.into()),
                payload: block.payload,
            };
            if is_sound(&block, payload_type) && self.fits(&found) {
                self.note(found.sequence, found.timestamp);
                *place = Some(found);
            }
        }
        lost.into_iter().rev().flatten()
    }

    /// Whether a packet is missing, and its time is between those of the packets around it. What
    /// is older than everything that came is not missing: the stream began later.
    fn fits(&self, found: &Lost<'_>) -> bool {
        if self.at(found.sequence).is_some() {
            return false;
        }
        let behind = |step| self.at(found.sequence.wrapping_sub(step));
        let ahead = |step| self.at(found.sequence.wrapping_add(step));
        let before = (1..WINDOW).find_map(behind);
        let after = (1..WINDOW).find_map(ahead);
        before.is_some_and(|before| is_after(found.timestamp, before.timestamp))
            && after.is_some_and(|after| is_after(after.timestamp, found.timestamp))
    }

    fn at(&self, sequence: u16) -> Option<Seen> {
        let behind = self.newest?.wrapping_sub(sequence);
        let seen = self.seen[usize::from(sequence % WINDOW)];
        seen.filter(|seen| seen.sequence == sequence && behind < WINDOW)
    }

    fn note(&mut self, sequence: u16, timestamp: u32) {
        let newest = self.newest.unwrap_or(sequence.wrapping_sub(1));
        // RFC 1982 section 3.2, for 16 bits.
        let ahead = sequence.wrapping_sub(newest);
        if ahead < 0x8000 {
            self.newest = Some(sequence);
        } else if newest.wrapping_sub(sequence) >= WINDOW {
            return;
        }
        self.seen[usize::from(sequence % WINDOW)] = Some(Seen {
            sequence,
            timestamp,
        });
    }
}

/// How many packets back a block belongs. The nearest is the packet before (RFC 2198 section 2
/// leaves it open, but all senders do so) and tells how long a packet is; of a sender that changes
/// that between two packets, what lies farther back is left out.
fn distance(offset: u16, nearest: u16) -> Option<u16> {
    let whole = nearest > 0 && offset.is_multiple_of(nearest);
    whole
        .then(|| offset / nearest)
        .filter(|distance| *distance > 0 && *distance < WINDOW)
}

fn is_sound(block: &Block<'_>, payload_type: u8) -> bool {
    block.payload_type == payload_type && !block.payload.is_empty()
}

/// Whether one time is later than another, modulo 2^32.
fn is_after(one: u32, other: u32) -> bool {
    let ahead = one.wrapping_sub(other);
    ahead != 0 && ahead < 0x8000_0000
}

#[cfg(test)]
mod tests {
    use sangam_wire::red::{self, Payload};

    use super::*;

    const OPUS: u8 = 111;
    /// Units of 20 ms.
    const STEP: u32 = 960;
    const NOTHING: [(u16, u32); 0] = [];

    fn at(sequence: u16) -> (u16, u32) {
        (sequence, u32::from(sequence) * STEP)
    }

    /// Lets a packet come with blocks of so many units before; which others come with it.
    fn came(recovery: &mut Recovery, sequence: u16, offsets: &[u16]) -> Vec<(u16, u32)> {
        let block = |offset: &u16| Block {
            payload_type: OPUS,
            offset: *offset,
            payload: b"older",
        };
        let blocks: Vec<_> = offsets.iter().map(block).collect();
        let mut bytes = [0; 1_024];
        let len = red::write(&blocks, (OPUS, b"now"), &mut bytes).unwrap();
        let payload = Payload::decode(&bytes[..len]).unwrap();
        let (sequence, timestamp) = at(sequence);
        assert!(recovery.came(sequence, timestamp));
        let lost = recovery.lost((sequence, timestamp), OPUS, payload.blocks());
        lost.map(|lost| (lost.sequence, lost.timestamp)).collect()
    }

    #[test]
    fn a_lost_packet_comes_with_the_next_and_once() {
        let mut recovery = Recovery::new(63);
        for sequence in [65_534, 65_535] {
            assert_eq!(came(&mut recovery, sequence, &[960]), NOTHING);
        }
        let (sequence, timestamp) = (1, at(65_535).1.wrapping_add(2 * STEP));
        assert!(recovery.came(sequence, timestamp));
        let mut bytes = [0; 32];
        let block = Block {
            payload_type: OPUS,
            offset: 960,
            payload: b"older",
        };
        let len = red::write(&[block], (OPUS, b"now"), &mut bytes).unwrap();
        let blocks = Payload::decode(&bytes[..len]).unwrap().blocks();
        let lost = recovery.lost((sequence, timestamp), OPUS, blocks.clone());
        let expected = Lost {
            sequence: 0,
            timestamp: timestamp - STEP,
            payload: b"older",
        };
        assert_eq!(lost.collect::<Vec<_>>(), [expected]);
        let again = recovery.lost((sequence, timestamp), OPUS, blocks);
        assert_eq!(again.count(), 0);
        assert!(!recovery.came(0, timestamp - STEP), "it comes late");
    }

    #[test]
    fn several_lost_packets_come_oldest_first() {
        let mut recovery = Recovery::new(63);
        came(&mut recovery, 10, &[]);
        let lost = came(&mut recovery, 14, &[2_880, 1_920, 960]);
        assert_eq!(lost, [at(11), at(12), at(13)]);
        // Patterns that leave packets out are known by their time.
        let lost = came(&mut recovery, 20, &[4_800, 2_880, 960]);
        assert_eq!(lost, [at(15), at(17), at(19)]);
    }

    #[test]
    fn a_block_of_another_time_fills_no_hole() {
        let mut recovery = Recovery::new(63);
        came(&mut recovery, 10, &[]);
        // As old as what was there before the hole, older, or as young as the packet itself.
        for (sequence, offset) in [(12, 1_920), (15, 9_000), (18, 0)] {
            assert_eq!(
                came(&mut recovery, sequence, &[offset]),
                NOTHING,
                "{offset}"
            );
        }
        // The nearest block does not tell how long packets are.
        assert_eq!(came(&mut recovery, 22, &[2_000, 960]), [at(21)]);
    }

    #[test]
    fn nothing_is_taken_from_before_the_beginning_or_beyond_the_window() {
        let mut recovery = Recovery::new(63);
        assert_eq!(came(&mut recovery, 100, &[1_920, 960]), NOTHING);
        assert_eq!(came(&mut recovery, 100 + WINDOW + 1, &[960]), NOTHING);
        let sequence = 100 + WINDOW + 3;
        assert_eq!(came(&mut recovery, sequence, &[960]), [at(sequence - 1)]);
        recovery.restart();
        assert_eq!(came(&mut recovery, sequence + 2, &[960]), NOTHING);
    }

    #[test]
    fn of_many_blocks_few_are_taken_and_of_other_encodings_none() {
        let mut recovery = Recovery::new(63);
        came(&mut recovery, 10, &[]);
        let offsets: Vec<u16> = (1..=17).rev().map(|n| n * 960).collect();
        let lost = came(&mut recovery, 30, &offsets);
        assert_eq!(lost.len(), TAKEN_MAX);
        assert_eq!((lost[0], lost[7]), (at(22), at(29)));

        let mut bytes = [0; 64];
        let noise = Block {
            payload_type: 13,
            offset: 960,
            payload: b"noise",
        };
        let empty = Block {
            payload_type: OPUS,
            offset: 1_920,
            payload: b"",
        };
        let len = red::write(&[empty, noise], (OPUS, b"now"), &mut bytes).unwrap();
        let blocks = Payload::decode(&bytes[..len]).unwrap().blocks();
        let (sequence, timestamp) = at(33);
        assert!(recovery.came(sequence, timestamp));
        assert_eq!(recovery.lost(at(33), OPUS, blocks).count(), 0);
        assert!(recovery.came(31, at(31).1), "it is late, and was not there");
    }
}
