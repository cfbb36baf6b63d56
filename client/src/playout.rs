//! The RTP packets of one stream, in order and evenly.

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;

use sangam_io::pool::Packet;
use sangam_jitter::{Config, Discard, Input, Kind, Output, Receiver, RtpClock, Stats};
use sangam_model::Time;
use sangam_wire::rtp;

/// Packets between arrival and playout; more than any receiver keeps.
const WAITING_MAX: usize = 4_096;
/// RTCP packets that wait for the media before them; past it, the first of them goes at once.
const CONTROL_MAX: usize = 64;
/// A source takes over from another that was not heard for so long.
const TAKE_OVER: Duration = Duration::from_millis(500);

/// Holds the packets of a stream until they are to be played.
///
/// One source (SSRC) at a time is played; packets of another one go through as they come until the
/// first has fallen silent.
pub struct Playout {
    receiver: Receiver,
    clock: RtpClock,
    source: Option<Source>,
    /// By the lowest bits of their sequence.
    waiting: Box<[Option<(u64, Packet)>]>,
    /// The highest sequence that came, and the latest that was played.
    newest: u64,
    played: u64,
    /// Each with the sequence that is to be played before it.
    control: VecDeque<(u64, Packet)>,
    ready: VecDeque<Packet>,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    ssrc: u32,
    heard: Time,
}

impl Playout {
    /// For packets with timestamps of this clock rate in Hz. About half a MiB.
    #[must_use]
    pub fn new(kind: Kind, clock_rate: u32) -> Self {
        Self {
            receiver: Receiver::new(kind, &Config::default()),
            clock: RtpClock::new(clock_rate),
            source: None,
            waiting: vec![None; WAITING_MAX].into_boxed_slice(),
            newest: 0,
            played: 0,
            control: VecDeque::with_capacity(CONTROL_MAX),
            ready: VecDeque::with_capacity(WAITING_MAX),
        }
    }

    /// Takes an event whose payload is an RTP packet with this header.
    pub fn packet(&mut self, header: rtp::Header, packet: Packet, now: Time) {
        if !self.is_from_source(header.ssrc, now) {
            return self.hand_on(packet);
        }
        let Some(numbers) = self.clock.packet(header.sequence, header.timestamp) else {
            return;
        };
        let slot = &mut self.waiting[index(numbers.seq)];
        // The copy of a packet that waits already adds nothing.
        if slot.as_ref().is_none_or(|(seq, _)| *seq != numbers.seq) {
            *slot = Some((numbers.seq, packet));
        }
        self.newest = self.newest.max(numbers.seq);
        self.receiver.handle(now, Input::Packet(numbers));
        self.sort();
    }

    /// Takes an event with RTCP: it comes out after the media that came before it.
    pub fn control(&mut self, packet: Packet) {
        if self.control.len() == CONTROL_MAX
            && let Some((_, first)) = self.control.pop_front()
        {
            self.hand_on(first);
        }
        self.control.push_back((self.newest, packet));
        self.pass_control();
    }

    /// The next event to be played, if one is due. At the end of a stream, `Time::NEVER` brings out
    /// what still waits.
    pub fn poll(&mut self, now: Time) -> Option<Packet> {
        while self.ready.is_empty()
            && let Some(at) = self.deadline().filter(|at| *at <= now)
        {
            self.receiver.handle(at, Input::Timer);
            self.sort();
        }
        self.ready.pop_front()
    }

    /// When to poll again, if nothing comes before.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.receiver.deadline()
    }

    /// Counts so far: late loss, delays of release and of playout.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.receiver.stats()
    }

    fn is_from_source(&mut self, ssrc: u32, now: Time) -> bool {
        let heard = Source { ssrc, heard: now };
        match &mut self.source {
            Some(source) if source.ssrc == ssrc => source.heard = now,
            Some(source) if now - source.heard < TAKE_OVER => return false,
            Some(source) => {
                *source = heard;
                self.clock.restart();
            }
            None => self.source = Some(heard),
        }
        true
    }

    /// Does what the receiver says.
    fn sort(&mut self) {
        while let Some(output) = self.receiver.poll() {
            match output {
                Output::Play { seq, .. } => {
                    self.played = self.played.max(seq);
                    if let Some(packet) = self.take(seq) {
                        self.hand_on(packet);
                    }
                    self.pass_control();
                }
                // The copy of a packet that still waits was not kept.
                Output::Discard { seq, reason } => {
                    if reason == Discard::Late || seq <= self.played {
                        self.take(seq);
                    }
                }
                Output::Release { .. } | Output::Conceal { .. } => {}
            }
        }
    }

    fn pass_control(&mut self) {
        let idle = self.deadline().is_none();
        let played = self.played;
        let may_go = |(after, _): &(u64, Packet)| idle || *after <= played;
        while self.control.front().is_some_and(may_go) {
            if let Some((_, packet)) = self.control.pop_front() {
                self.hand_on(packet);
            }
        }
    }

    /// Who does not poll loses what is oldest.
    fn hand_on(&mut self, packet: Packet) {
        if self.ready.len() == WAITING_MAX {
            self.ready.pop_front();
        }
        self.ready.push_back(packet);
    }

    fn take(&mut self, seq: u64) -> Option<Packet> {
        let slot = &mut self.waiting[index(seq)];
        let (_, packet) = slot.take_if(|(held, _)| *held == seq)?;
        Some(packet)
    }
}

impl fmt::Debug for Playout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Playout")
            .field("source", &self.source)
            .field("played", &self.played)
            .finish_non_exhaustive()
    }
}

fn index(seq: u64) -> usize {
    seq as usize % WAITING_MAX
}

#[cfg(test)]
#[path = "playout_tests.rs"]
mod tests;
