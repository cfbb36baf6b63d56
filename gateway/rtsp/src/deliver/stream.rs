//! One film on its way from this node to one client.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sangam_archive::films::{Curve, DATAGRAM, Film, PACKETS, View};
use sangam_model::Time;
use sangam_wire::rtcp::{self, SenderInfo};

use super::Key;
use super::order::{Moment, Play};
use super::outbox::{Destination, Outbox};
use super::packet::{Numbers, UNCOUNTED};
use super::reads::Wanted;
use super::runs::Runs;
use crate::limits::{LATE_MAX, REPORT_EVERY};

/// Datagrams that leave at once, as one message for the kernel.
const BURST: usize = 8;
/// Of a film of which eight last no longer than two turns of the wheel (21 Mb/s) twice as many do:
/// eight in each would be 42 Mb/s at most, and a film of 45 Mb/s is to be had 1.5 times as fast.
const QUICK: Duration = Duration::from_millis(4);
/// None leaves earlier than so.
const EARLY: Duration = Duration::from_millis(16);
/// A block is read so long before its first datagram is due.
const AHEAD: Duration = Duration::from_secs(1);
/// A block that could not be read is tried once more after so long: its node may just have failed.
const AGAIN: Duration = Duration::from_millis(400);
const CLOCK_RATE: u128 = 90_000;

/// What was shared out before, so that nothing is sent twice.
#[derive(Debug)]
struct Before {
    nodes: Vec<u32>,
    view: Arc<View>,
    /// This node had sent its part up to here.
    until: u64,
    /// From here on it is shared out anew; what this node had not sent before it sends late.
    since: u64,
}

/// A film for a client.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) play: Play,
    pub(super) film: Arc<Film>,
    pub(super) to: Destination,
    from: Option<IpAddr>,
    curve: Arc<Curve>,
    view: Arc<View>,
    /// This node.
    pub(super) node: u32,
    /// A moment, and the place on the curve that is due then.
    base: (Time, Duration),
    rate: f64,
    /// The next datagram of this node, and the first of its next block.
    next: u64,
    coming: u64,
    before: Option<Before>,
    /// The last that was asked whose it is.
    known: Option<(u64, bool)>,
    blocks: Vec<(u64, Arc<Vec<u8>>)>,
    asked: Option<u64>,
    /// A block that could not be read, and when to try again.
    failed: Option<(u64, Time)>,
    pub(super) runs: Runs,
    pub(crate) is_paused: bool,
    /// It is to have its turn once the line is free.
    pub(super) waits: bool,
    is_over: bool,
    reported: Time,
    sent: (u32, u32),
}

/// What came of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// A block is wanted, and when its first datagram is due.
    pub(crate) wants: Option<(u64, Time)>,
    /// It came late.
    pub(crate) late: bool,
    /// The client is to be told that it ended.
    pub(crate) ended: bool,
}

impl Stream {
    /// Begins as ordered, at `now`.
    pub(crate) fn new(
        play: Play,
        (film, curve, view): (Arc<Film>, Arc<Curve>, Arc<View>),
        (node, from): (u32, Option<IpAddr>),
        now: Time,
    ) -> Self {
        let mut stream = Self {
            to: Destination::new(play.to, from),
            from,
            film,
            curve,
            view,
            node,
            base: (now, Duration::ZERO),
            rate: 1.0,
            next: 0,
            coming: 0,
            before: None,
            known: None,
            blocks: Vec::new(),
            asked: None,
            failed: None,
            runs: Runs::default(),
            is_paused: false,
            waits: false,
            is_over: false,
            reported: Time::ZERO,
            sent: (0, 0),
            play,
        };
        stream.begin(now);
        stream
    }

    /// Goes on as ordered: elsewhere, or with other nodes.
    pub(crate) fn change(
        &mut self,
        play: Play,
        (film, curve, view): (Arc<Film>, Arc<Curve>, Arc<View>),
        now: Time,
    ) {
        let goes_on = play.gsn == self.play.gsn && !self.is_paused && play.since.is_some();
        let nodes = std::mem::take(&mut self.play.nodes);
        let before = Before {
            nodes,
            view: std::mem::replace(&mut self.view, view),
            until: self.next,
            since: play.since.unwrap_or(0),
        };
        self.before = goes_on.then_some(before);
        (self.film, self.curve) = (film, curve);
        self.to = Destination::new(play.to, self.from);
        self.play = play;
        self.begin(now);
    }

    fn begin(&mut self, now: Time) {
        (self.is_paused, self.is_over) = (false, false);
        (self.known, self.failed, self.asked) = (None, None, None);
        self.set_pace(self.play.now, self.play.rate, now);
        let first = self.play.since.unwrap_or(self.play.first);
        let unsent = self.before.as_ref().map_or(first, |before| before.until);
        let first = first.min(unsent);
        self.next = self.advance(first.max(self.play.first));
        self.look_ahead();
        self.reported = Time::ZERO;
    }

    /// From this moment on it goes so much faster than its curve.
    pub(crate) fn set_pace(&mut self, moment: Moment, rate: f64, now: Time) {
        let ahead = Duration::from_micros(moment.ahead.unsigned_abs());
        let due = match moment.ahead < 0 {
            true => Time::from_micros(now.as_micros().saturating_sub(ahead.as_micros() as u64)),
            false => now + ahead,
        };
        self.base = (due, Duration::from_nanos(moment.at));
        self.rate = rate.clamp(0.05, 20.0);
    }

    /// The address that its client knows this node by, if that is known.
    pub(super) const fn from(&self) -> Option<IpAddr> {
        self.from
    }

    /// Bits in a second that this node sends of it, on average.
    pub(super) fn share(&self) -> u64 {
        match self.is_paused || self.is_over {
            true => 0,
            false => super::bits_of(&self.film) / self.play.nodes.len().max(1) as u64,
        }
    }

    /// When a datagram is due.
    pub(super) fn time(&self, datagram: u64) -> Time {
        let (due, at) = self.base;
        let place = self.curve.at(datagram);
        // What stands before that place comes at once.
        due + place.saturating_sub(at).div_f64(self.rate)
    }

    /// When the next datagram of this node is due.
    pub(super) fn due(&self) -> Time {
        self.time(self.next)
    }

    pub(super) fn block_of(&self, datagram: u64) -> u64 {
        datagram / self.film.in_block()
    }

    /// Whether this node sends a block.
    fn is_mine(&mut self, block: u64) -> bool {
        if !self.play.is_direct() {
            return true;
        }
        if let Some((known, mine)) = self.known
            && known == block
        {
            return mine;
        }
        let mine = self.view.sender(&self.film, block, &self.play.nodes) == self.node;
        self.known = Some((block, mine));
        mine
    }

    fn was_mine(&self, block: u64) -> Option<u64> {
        let Before {
            nodes, view, until, ..
        } = self.before.as_ref()?;
        let mine = nodes.is_empty() || view.sender(&self.film, block, nodes) == self.node;
        mine.then_some(*until)
    }

    /// The first datagram from here on that this node sends and has not sent.
    fn advance(&mut self, from: u64) -> u64 {
        let in_block = self.film.in_block();
        let mut at = from;
        while at < self.play.until {
            let block = at / in_block;
            let end = (block + 1) * in_block;
            let since = self.before.as_ref().map_or(0, |before| before.since);
            match self.was_mine(block) {
                Some(sent) if at < sent => at = end.min(sent),
                Some(_) if at < since => return at,
                None if at < since => at = end.min(since),
                _ if self.is_mine(block) => return at,
                _ => at = end,
            }
        }
        self.play.until
    }

    fn look_ahead(&mut self) {
        // Each datagram of the present block is asked about; the next block only here.
        let known = self.known;
        let block = self.block_of(self.next);
        self.coming = match self.next < self.play.until {
            true => self.advance((block + 1) * self.film.in_block()),
            false => self.play.until,
        };
        let coming = self.block_of(self.coming);
        self.blocks
            .retain(|(kept, _)| *kept == block || *kept == coming);
        self.known = known;
    }

    /// Takes a block that was read, or could not be; whether that lost it.
    pub(crate) fn take(&mut self, block: u64, bytes: Option<Arc<Vec<u8>>>, now: Time) -> bool {
        if self.asked == Some(block) {
            self.asked = None;
        }
        let is_wanted = block == self.block_of(self.next) || block == self.block_of(self.coming);
        if !is_wanted {
            return false;
        }
        match bytes {
            Some(bytes) => {
                self.failed = None;
                if self.bytes(block).is_none() {
                    self.blocks.push((block, bytes));
                }
                false
            }
            None if self.failed.is_none_or(|(failed, _)| failed != block) => {
                self.failed = Some((block, now + AGAIN));
                false
            }
            None => {
                self.failed = None;
                if block == self.block_of(self.next) {
                    self.next = self.coming;
                    self.look_ahead();
                }
                true
            }
        }
    }

    /// A block that is in memory.
    pub(super) fn bytes(&self, block: u64) -> Option<&Arc<Vec<u8>>> {
        let mut blocks = self.blocks.iter();
        blocks
            .find(|(kept, _)| *kept == block)
            .map(|(_, bytes)| bytes)
    }

    /// The bytes of a datagram.
    pub(super) fn data<'a>(&self, block: &'a [u8], datagram: u64) -> &'a [u8] {
        let place = (datagram % self.film.in_block()) as usize * DATAGRAM;
        let rest = block.get(place..).unwrap_or_default();
        &rest[..rest.len().min(DATAGRAM)]
    }

    pub(super) fn numbers(&self, datagram: u64, gsn: u32, local: Option<u32>) -> Numbers {
        Numbers {
            ssrc: self.play.ssrc,
            sequence: gsn.wrapping_add(datagram as u32) as u16,
            timestamp: self.timestamp(datagram),
            local: self
                .play
                .is_direct()
                .then_some((self.node as u16, local.unwrap_or(UNCOUNTED))),
        }
    }

    fn timestamp(&self, datagram: u64) -> u32 {
        let at = self.film.index.at(datagram * PACKETS as u64);
        (at.as_nanos() * CLOCK_RATE / 1_000_000_000) as u32
    }

    /// Sends what is due.
    pub(crate) fn turn(&mut self, now: Time, out: &mut Outbox) -> Turn {
        let mut turn = Turn::default();
        if self.is_paused || self.is_over {
            return turn;
        }
        for count in 0..self.burst() {
            let datagram = self.next;
            if datagram >= self.play.until {
                break;
            }
            let due = self.time(datagram);
            let latest = if count == 0 { now } else { now + EARLY };
            let block = self.block_of(datagram);
            let Some(bytes) = self.bytes(block).cloned().filter(|_| due <= latest) else {
                break;
            };
            turn.late |= self.wait_for(due, now);
            let local = self.runs.push(datagram, self.play.gsn);
            let numbers = self.numbers(datagram, self.play.gsn, Some(local));
            let data = self.data(&bytes, datagram);
            out.packet(self.to, &numbers, data);
            self.sent.0 = self.sent.0.wrapping_add(1);
            self.sent.1 = self.sent.1.wrapping_add(data.len() as u32);
            self.next = self.advance(datagram + 1);
            let is_caught_up = |before: &Before| self.next >= before.until.max(before.since);
            if self.before.as_ref().is_some_and(is_caught_up) {
                self.before = None;
            }
            if self.block_of(self.next) != block {
                self.look_ahead();
                break;
            }
        }
        turn.wants = self.wants(now);
        if self.play.leads && now >= self.time(self.play.until) && self.has_sent_all() {
            (self.is_over, turn.ended) = (true, true);
        }
        turn
    }

    /// How many may leave at once.
    fn burst(&self) -> usize {
        let behind = (self.next + BURST as u64).min(self.play.until);
        let lasts = self.time(behind).since(self.time(self.next));
        match lasts < QUICK && behind > self.next {
            true => 2 * BURST,
            false => BURST,
        }
    }

    const fn has_sent_all(&self) -> bool {
        self.next >= self.play.until
    }

    /// One that is sent by this node alone waits for its disk, rather than to send all that is late
    /// at once; whether it had to.
    fn wait_for(&mut self, due: Time, now: Time) -> bool {
        let late = now.since(due);
        let waits = !self.play.is_direct() && late > LATE_MAX && self.sent.0 > 0;
        if waits {
            self.base.0 += late;
        }
        waits
    }

    /// The block that is to be read now.
    fn wants(&mut self, now: Time) -> Option<(u64, Time)> {
        if self.asked.is_some() || self.failed.is_some_and(|(_, again)| now < again) {
            return None;
        }
        let wanted = [self.next, self.coming].into_iter().find_map(|datagram| {
            let block = self.block_of(datagram);
            let due = self.time(datagram);
            let is_wanted =
                datagram < self.play.until && self.bytes(block).is_none() && due <= now + AHEAD;
            is_wanted.then_some((block, due))
        });
        self.asked = wanted.map(|(block, _)| block);
        wanted
    }

    /// A wish for a block of it.
    pub(crate) fn wish(&self, (key, block): (Key, u64), due: Time) -> Wanted {
        Wanted {
            key,
            film: self.film.clone(),
            block,
            disk: self.view.disk(&self.film, block),
            due,
        }
    }

    /// It could not be asked for.
    pub(crate) const fn unask(&mut self) {
        self.asked = None;
    }

    /// When there is something to be done again.
    pub(crate) fn wakes(&self) -> Time {
        if self.is_paused || self.is_over {
            return Time::NEVER;
        }
        let mut at = Time::NEVER;
        for datagram in [self.next, self.coming] {
            if datagram >= self.play.until {
                continue;
            }
            let (block, due) = (self.block_of(datagram), self.time(datagram));
            let early = due.as_micros().saturating_sub(AHEAD.as_micros() as u64);
            at = at.min(match self.bytes(block) {
                Some(_) => due,
                // Whoever reads it wakes this.
                None if self.asked == Some(block) => Time::NEVER,
                None => Time::from_micros(early),
            });
        }
        if let Some((_, again)) = self.failed {
            at = at.max(again);
        }
        if self.play.leads {
            at = at.min(self.reported + REPORT_EVERY);
        }
        if self.play.leads && self.has_sent_all() {
            at = at.min(self.time(self.play.until));
        }
        at
    }

    /// A report for its client, if it is time for one; `ntp` is now.
    pub(crate) fn report(&mut self, now: Time, ntp: u64) -> Option<Vec<u8>> {
        let is_due = self.reported == Time::ZERO || now.since(self.reported) >= REPORT_EVERY;
        if !self.play.leads || self.is_paused || self.is_over || !is_due {
            return None;
        }
        self.reported = now;
        Some(self.compound(now, ntp))
    }

    /// The same with its end (RFC 3550 section 6.6).
    pub(crate) fn bye(&self, now: Time, ntp: u64) -> Vec<u8> {
        let mut compound = self.compound(now, ntp);
        rtcp::bye(&mut compound, self.play.ssrc);
        compound
    }

    fn compound(&self, now: Time, ntp: u64) -> Vec<u8> {
        let datagram = self.latest(now);
        let info = SenderInfo {
            ssrc: self.play.ssrc,
            ntp,
            timestamp: self.timestamp(datagram),
            packets: self.sent.0,
            bytes: self.sent.1,
        };
        let mut compound = Vec::new();
        rtcp::sender_report(&mut compound, &info, &[]);
        rtcp::source_name(&mut compound, self.play.ssrc, "sangam");
        compound
    }

    /// The datagram that is due now, whoever sends it.
    pub(super) fn latest(&self, now: Time) -> u64 {
        if !self.play.is_direct() {
            return self.next;
        }
        let (due, at) = self.base;
        let place = match now >= due {
            true => at + now.since(due).mul_f64(self.rate),
            false => at.saturating_sub(due.since(now).mul_f64(self.rate)),
        };
        let place = self.curve.datagram(place, self.play.until);
        place.clamp(self.play.first, self.play.until)
    }
}
