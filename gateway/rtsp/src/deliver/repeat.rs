//! Lost packets are sent again (RFC 4585 section 6.2.1, RFC 4588).

use std::collections::VecDeque;
use std::time::Duration;

use sangam_model::Time;

use super::outbox::Outbox;
use super::stream::Stream;

/// Packets repeated within [`WINDOW`], for one client: a lie costs no more.
const REPEATS_MAX: u32 = 256;
const WINDOW: Duration = Duration::from_millis(100);
/// What was due before is of no use to anybody.
const AGE_MAX: Duration = Duration::from_secs(10);
/// Packets that wait until their block was read.
const WAITING_MAX: usize = 512;

/// What a client says that it lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The low 16 bits of a local number.
    Local(u16),
    /// The low 16 bits of a global number.
    Global(u16),
}

/// A packet that is to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Again {
    datagram: u64,
    gsn: u32,
    local: Option<u32>,
}

/// Repeats for one client.
#[derive(Debug)]
pub(crate) struct Repeats {
    window: (Time, u32),
    waiting: VecDeque<Again>,
    /// Of RFC 4588.
    sequence: u16,
}

/// What came of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeated {
    /// It was sent.
    Sent,
    /// This block is wanted first.
    Wants(u64),
    /// Too many, too old, or never sent.
    Refused,
}

impl Repeats {
    /// None yet.
    pub(crate) const fn new(sequence: u16) -> Self {
        Self {
            window: (Time::ZERO, 0),
            waiting: VecDeque::new(),
            sequence,
        }
    }

    /// Sends again what was lost, or waits for its block.
    pub(crate) fn repeat(
        &mut self,
        stream: &Stream,
        lost: Lost,
        (now, out): (Time, &mut Outbox),
    ) -> Repeated {
        if now.since(self.window.0) >= WINDOW {
            self.window = (now, 0);
        }
        let again = find(stream, lost, now);
        let Some(again) = again.filter(|_| self.window.1 < REPEATS_MAX) else {
            return Repeated::Refused;
        };
        self.window.1 += 1;
        let block = stream.block_of(again.datagram);
        if let Some(bytes) = stream.bytes(block) {
            let bytes = bytes.clone();
            self.send(stream, again, (&bytes, out));
            return Repeated::Sent;
        }
        if self.waiting.len() == WAITING_MAX {
            return Repeated::Refused;
        }
        self.waiting.push_back(again);
        Repeated::Wants(block)
    }

    /// Sends what waited for a block; how many.
    pub(crate) fn take(
        &mut self,
        stream: &Stream,
        (block, bytes): (u64, Option<&[u8]>),
        out: &mut Outbox,
    ) -> u64 {
        let waiting = std::mem::take(&mut self.waiting);
        let (here, others): (VecDeque<_>, VecDeque<_>) = waiting
            .into_iter()
            .partition(|again| stream.block_of(again.datagram) == block);
        self.waiting = others;
        let Some(bytes) = bytes else {
            return 0;
        };
        let count = here.len() as u64;
        for again in here {
            self.send(stream, again, (bytes, out));
        }
        count
    }

    fn send(&mut self, stream: &Stream, again: Again, (block, out): (&[u8], &mut Outbox)) {
        let Again {
            datagram,
            gsn,
            local,
        } = again;
        let numbers = stream.numbers(datagram, gsn, local);
        let data = stream.data(block, datagram);
        if stream.play.by_rtx {
            out.rtx(stream.to, &numbers, (self.sequence, data));
            self.sequence = self.sequence.wrapping_add(1);
        } else {
            out.packet(stream.to, &numbers, data);
        }
    }
}

/// The datagram that was lost, if it was sent not long ago.
fn find(stream: &Stream, lost: Lost, now: Time) -> Option<Again> {
    let play = &stream.play;
    let again = match lost {
        Lost::Local(low) => {
            let (local, datagram, gsn) = stream.runs.find(low)?;
            Again {
                datagram,
                gsn,
                local: Some(local),
            }
        }
        Lost::Global(low) => {
            let latest = stream.latest(now);
            let behind = (play.gsn.wrapping_add(latest as u32) as u16).wrapping_sub(low) as i16;
            // What others send a little early is sent as well.
            let datagram = latest.checked_add_signed(-i64::from(behind))?;
            Again {
                datagram,
                gsn: play.gsn,
                local: None,
            }
        }
    };
    // Of before a seek nobody wants anything.
    let is_of_now = again.gsn == play.gsn && again.datagram >= play.first;
    let is_sent = again.datagram < play.until && stream.time(again.datagram) <= now + WINDOW;
    let is_late = now.since(stream.time(again.datagram)) > AGE_MAX;
    (is_of_now && is_sent && !is_late).then_some(again)
}
