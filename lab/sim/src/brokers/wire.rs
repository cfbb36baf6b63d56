//! What lies between two brokers: delay, loss, a queue for control, and who noticed a silence.

use core::time::Duration;
use std::collections::BTreeMap;

use sangam_broker::LinkId;
use sangam_link::Lively;
use sangam_model::{Measured, Random, Time};
use sangam_wire::Message;

/// IP, UDP and the control frame's header.
const FRAME_OVERHEAD: u64 = 28 + 10;
/// The acknowledgement of a frame with its IP and UDP headers.
const ACK: u64 = 28 + 8;
/// Bytes of messages in one frame.
const FRAME_MAX: u64 = 1_150;
const LENGTH_PREFIX: u64 = 2;
/// The answer to a ping is awaited for at least so long, as by core/link.
const PATIENCE_MIN: Duration = Duration::from_millis(100);

/// How packets get from one broker to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// One way.
    pub delay: Duration,
    /// Each packet takes up to so much longer, at random.
    pub jitter: Duration,
    /// Share of packets lost, in millionths. Lost control comes a retransmission later.
    pub loss_ppm: u32,
    /// What control may use each second, in bits.
    pub bits_per_s: u64,
}

/// Bytes that control sent over one direction of a link, headers and acknowledgements included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Records and digests.
    pub map: u64,
    /// Joins.
    pub joins: u64,
    /// Registrations and answers.
    pub directory: u64,
    /// Announcements of streams.
    pub streams: u64,
    /// Events that brokers publish about themselves; see [`crate::Network::event_bytes`].
    pub monitoring: u64,
}

impl Path {
    /// Nothing lost, 10 Mb/s, a twentieth of jitter.
    #[must_use]
    pub fn of_delay(delay: Duration) -> Self {
        Self {
            delay,
            jitter: delay / 20,
            loss_ppm: 0,
            bits_per_s: 10_000_000,
        }
    }

    pub(crate) fn measured(&self) -> Measured {
        Measured {
            rtt: self.delay * 2,
            jitter: self.jitter / 4,
            loss_ppm: self.loss_ppm,
        }
    }

    fn loses(&self, random: &mut Random) -> bool {
        self.loss_ppm > 0 && random.below(1_000_000) < self.loss_ppm as usize
    }

    fn crossing(&self, random: &mut Random) -> Duration {
        self.delay + random.time(self.jitter)
    }
}

impl Cost {
    /// What the network costs for itself: all but the announcements of streams.
    #[must_use]
    pub const fn upkeep(&self) -> u64 {
        self.map + self.joins + self.directory + self.monitoring
    }

    fn of(&mut self, message: &Message) -> &mut u64 {
        match message {
            Message::LinkState(_) | Message::Digest { .. } => &mut self.map,
            Message::Join(_) => &mut self.joins,
            Message::Register(_) | Message::Sources(_) => &mut self.directory,
            _ => &mut self.streams,
        }
    }
}

/// One link between two brokers.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) ends: [End; 2],
    pub(crate) path: Path,
    /// Whether packets come through.
    pub(crate) open: bool,
    /// Counts the times it came up: what was on its way before is lost.
    pub(crate) session: u32,
    /// Counts changes of what the ends may hear, so that earlier plans are void.
    pub(crate) silence: u32,
    pub(crate) directions: [Direction; 2],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) broker: usize,
    pub(crate) link: LinkId,
    pub(crate) up: bool,
    pub(crate) suspect: bool,
}

/// One way over a wire; number 0 leads from end 0 to end 1.
#[derive(Debug)]
pub(crate) struct Direction {
    /// When its queue is empty.
    free: Time,
    /// Control arrives in order.
    last: Time,
    /// Frames that are sent again and again while nothing comes through.
    pub(crate) held: Vec<Vec<Message>>,
    pub(crate) cost: Cost,
    /// Whether the silence of who sends would be noticed at once.
    pub(crate) lively: Lively,
}

impl Default for Direction {
    fn default() -> Self {
        Self {
            free: Time::ZERO,
            last: Time::ZERO,
            held: Vec::new(),
            cost: Cost::default(),
            lively: Lively::new(Time::ZERO),
        }
    }
}

impl Wire {
    pub(crate) fn new(ends: [(usize, LinkId); 2], path: Path) -> Self {
        let ends = ends.map(|(broker, link)| End {
            broker,
            link,
            up: false,
            suspect: false,
        });
        Self {
            ends,
            path,
            open: true,
            session: 0,
            silence: 0,
            directions: Default::default(),
        }
    }

    /// What the answer to a ping may take.
    pub(crate) fn patience(&self) -> Duration {
        PATIENCE_MIN.max(self.path.delay * 2 + self.path.jitter * 4)
    }

    pub(crate) const fn end_of(&self, broker: usize) -> usize {
        if self.ends[0].broker == broker { 0 } else { 1 }
    }

    pub(crate) const fn is_up(&self) -> bool {
        self.ends[0].up && self.ends[1].up
    }

    /// A new session: nothing of the former one arrives any more.
    pub(crate) fn renew(&mut self, now: Time) {
        self.session += 1;
        self.silence += 1;
        for direction in &mut self.directions {
            *direction = Direction {
                cost: direction.cost,
                lively: Lively::new(now),
                ..Direction::default()
            };
        }
    }

    /// When an event sent now arrives; `None` if it is lost.
    pub(crate) fn event_arrives(&self, now: Time, random: &mut Random) -> Option<Time> {
        let comes = self.open && !self.path.loses(random);
        comes.then(|| now + self.path.crossing(random))
    }

    /// When a frame of control sent now is handled by an end that is so slow: in order, even when
    /// it gets faster.
    pub(crate) fn frame_arrives(
        &mut self,
        now: Time,
        way: usize,
        (bytes, slowness): (u64, Duration),
        random: &mut Random,
    ) -> Time {
        let path = self.path;
        let direction = &mut self.directions[way];
        let airtime = Duration::from_micros(bytes * 8 * 1_000_000 / path.bits_per_s.max(1));
        direction.free = direction.free.max(now) + airtime;
        let mut at = direction.free + path.crossing(random);
        while path.loses(random) {
            at += path.delay * 3 + Duration::from_millis(20);
        }
        direction.last = direction.last.max(at + slowness);
        direction.last
    }

    /// Counts a frame; its bytes.
    pub(crate) fn count(&mut self, way: usize, messages: &[Message]) -> u64 {
        let mut bytes = FRAME_OVERHEAD;
        let mut overhead = FRAME_OVERHEAD;
        for message in messages {
            let len = LENGTH_PREFIX + len(message);
            *self.directions[way].cost.of(message) += len + core::mem::take(&mut overhead);
            bytes += len;
        }
        if let Some(first) = messages.first() {
            *self.directions[1 - way].cost.of(first) += ACK;
        }
        bytes
    }
}

/// The frames these messages leave in, by link, each as full as it gets.
pub(crate) fn frames(messages: Vec<(LinkId, Message)>) -> Vec<(LinkId, Vec<Message>)> {
    let mut open: BTreeMap<LinkId, (u64, Vec<Message>)> = BTreeMap::new();
    let mut done = Vec::new();
    for (link, message) in messages {
        let len = LENGTH_PREFIX + len(&message);
        let (bytes, frame) = open.entry(link).or_default();
        if *bytes + len > FRAME_MAX {
            done.push((link, core::mem::take(frame)));
            *bytes = 0;
        }
        *bytes += len;
        frame.push(message);
    }
    done.extend(open.into_iter().map(|(link, (_, frame))| (link, frame)));
    done
}

fn len(message: &Message) -> u64 {
    let mut bytes = Vec::with_capacity(256);
    // What cannot be written is not sent either.
    let _ = message.encode(&mut bytes);
    bytes.len() as u64
}
