//! One player of what is live: from where on it hears each track, and what it does not take.

use sangam_model::Time;

use super::track::Relayed;
use crate::limits::{KEY_FRAME_WAIT, REPORT_EVERY, SLOW_WAIT};
use crate::player::State;
use crate::session::{Carrier, Outlet, Sent, Session, Show};

/// A session's place at a topic.
#[derive(Debug)]
pub(crate) struct Seat {
    /// What it watches.
    pub(crate) watch: u64,
    pub(crate) state: State,
}

/// Lets a track through to one player, from where it can be understood.
#[derive(Debug, Default)]
pub(crate) struct Valve {
    /// It waits for a key frame.
    closed: Option<Closed>,
    /// The publisher whose packets it let through.
    life: Option<u32>,
    /// When the track was reported on.
    reported: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Closed {
    since: Time,
    /// From when on a key frame is asked for.
    asks: Time,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes to the player.
    Sent,
    /// The player did not ask for it.
    Unwanted,
    /// It is no RTP.
    Malformed,
    /// It stands before the key frame with which the player begins; whether it is time to ask for
    /// one.
    Early(bool),
    /// The player's connection has no room.
    Full,
}

impl Session {
    /// Appends a packet of what it watches, with a report if one is due.
    pub(crate) fn relay(
        &mut self,
        packet: &Relayed<'_>,
        has_room: bool,
        out: &mut Vec<Sent>,
    ) -> Fate {
        let is_playing = matches!(&self.show, Show::Live(seat) if seat.state == State::Playing);
        let mut outlets = self.outlets.iter_mut();
        let outlet = outlets.find(|outlet| outlet.number == packet.number);
        let Some(outlet) = outlet.filter(|_| is_playing) else {
            return Fate::Unwanted;
        };
        let fate = outlet.relay(packet, has_room, out);
        // Who takes what is sent within a connection is there.
        if fate == Fate::Sent && self.carrier == Carrier::Interleaved {
            self.heard = packet.now;
        }
        fate
    }
}

impl Outlet {
    /// Begins with the present.
    pub(crate) fn begin(&mut self, now: Time, is_video: bool) {
        self.stream.resume();
        self.valve.restart(now, is_video);
    }

    /// Takes note of whose packets come: another publisher's are understood from a key frame on.
    pub(crate) fn meet(&mut self, life: u32, now: Time, is_video: bool) {
        let known = self.valve.life.replace(life);
        if known.is_some_and(|known| known != life) {
            self.stream.part();
            self.valve.restart(now, is_video);
        }
    }

    fn relay(&mut self, packet: &Relayed<'_>, has_room: bool, out: &mut Vec<Sent>) -> Fate {
        self.meet(packet.life, packet.now, packet.is_video);
        if let Some(closed) = self.valve.closed
            && !closed.opens(packet)
        {
            return Fate::Early(packet.now >= closed.asks);
        }
        if !has_room {
            if packet.is_video {
                self.valve.close(packet.now);
            }
            return Fate::Full;
        }
        let mut bytes = packet.bytes.to_vec();
        if !self.stream.rewrite(&mut bytes, packet.at) {
            return Fate::Malformed;
        }
        self.valve.closed = None;
        let is_due = |reported: Time| packet.now.since(reported) >= REPORT_EVERY;
        if self.valve.reported.is_none_or(is_due) {
            self.valve.reported = Some(packet.now);
            if let Some(moment) = packet.moment {
                self.stream.mark(moment);
            }
            out.push(self.report(packet.at, packet.ntp));
        }
        out.push(self.packet(bytes));
        Fate::Sent
    }
}

impl Valve {
    /// Begins anew: video with a key frame, which is asked for at once.
    fn restart(&mut self, now: Time, is_video: bool) {
        self.reported = None;
        self.closed = is_video.then_some(Closed {
            since: now,
            asks: now,
        });
    }

    /// Waits for a key frame, and asks for one in a while. One that waits goes on waiting.
    fn close(&mut self, now: Time) {
        self.closed.get_or_insert(Closed {
            since: now,
            asks: now + SLOW_WAIT,
        });
    }
}

impl Closed {
    /// Whether a player can begin with this packet.
    fn opens(&self, packet: &Relayed<'_>) -> bool {
        let is_long = packet.now.since(self.since) >= KEY_FRAME_WAIT;
        packet.is_entry || packet.is_start && (is_long || !packet.shows_keys)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sangam_wire::rtp::{Header, Packet};

    use super::*;
    use crate::egress::Stream;

    fn bytes(sequence: u16, timestamp: u32) -> Vec<u8> {
        let header = Header {
            marker: false,
            payload_type: 96,
            sequence,
            timestamp,
            ssrc: 1,
        };
        [&header.encode()[..], b"x"].concat()
    }

    fn relayed(bytes: &[u8], ms: u64) -> Relayed<'_> {
        Relayed {
            number: 0,
            life: 0,
            bytes,
            now: Time::from_millis(ms),
            at: Duration::from_millis(ms),
            ntp: 0,
            is_video: true,
            is_entry: false,
            is_start: true,
            shows_keys: true,
            is_wanted: false,
            moment: None,
        }
    }

    fn outlet() -> Outlet {
        let mut outlet = Outlet {
            number: 0,
            track: 0,
            pair: (0, 1),
            stream: Stream::new(7, 1_000, 100),
            valve: Valve::default(),
        };
        outlet.begin(Time::from_millis(0), true);
        outlet
    }

    #[test]
    fn a_player_begins_with_a_key_frame_and_one_that_was_slow_begins_again() {
        let mut outlet = outlet();
        let mut out = Vec::new();
        let mut at = |ms: u64, is_entry, has_room| {
            let bytes = bytes((ms / 20) as u16, ms as u32);
            let packet = Relayed {
                is_entry,
                ..relayed(&bytes, ms)
            };
            outlet.relay(&packet, has_room, &mut out)
        };
        let fates = [
            at(20, false, true),
            at(40, true, true),
            at(60, false, true),
            at(80, false, false),
            at(100, false, true),
            at(120, true, false),
            at(3_140, false, true),
            at(3_160, true, true),
        ];
        let expected = [
            Fate::Early(true),
            Fate::Sent,
            Fate::Sent,
            Fate::Full,
            Fate::Early(false),
            Fate::Full,
            Fate::Early(true),
            Fate::Sent,
        ];
        assert_eq!(fates, expected);
        let packets = out.iter().filter(|sent| !sent.is_rtcp);
        let sequences = packets.map(|sent| Packet::decode(&sent.bytes).unwrap().header.sequence);
        // What it did not take is lost to it, and it is told.
        assert_eq!(sequences.collect::<Vec<_>>(), [100, 101, 256]);
    }

    #[test]
    fn pictures_of_which_none_is_a_key_frame_come_at_last() {
        let mut first = outlet();
        let mut out = Vec::new();
        let bytes = bytes(1, 1);
        let early = relayed(&bytes, 9_999);
        assert_eq!(first.relay(&early, true, &mut out), Fate::Early(true));
        let late = relayed(&bytes, 10_000);
        assert_eq!(first.relay(&late, true, &mut out), Fate::Sent);
        // And at once if the encoding does not show them.
        let packet = Relayed {
            shows_keys: false,
            ..relayed(&bytes, 20)
        };
        assert_eq!(outlet().relay(&packet, true, &mut out), Fate::Sent);
    }

    #[test]
    fn who_plays_again_after_a_pause_waits_for_a_key_frame_anew() {
        let mut outlet = outlet();
        let mut out = Vec::new();
        let bytes = bytes(1, 1);
        let first = relayed(&bytes, 20);
        assert_eq!(outlet.relay(&first, true, &mut out), Fate::Early(true));
        outlet.begin(Time::from_millis(60_000), true);
        let later = relayed(&bytes, 60_020);
        assert_eq!(outlet.relay(&later, true, &mut out), Fate::Early(true));
    }

    #[test]
    fn another_publisher_begins_with_a_key_frame() {
        let mut outlet = outlet();
        let mut out = Vec::new();
        let mut at = |ms: u64, life, is_entry| {
            let bytes = bytes((ms / 20) as u16, ms as u32);
            let packet = Relayed {
                life,
                is_entry,
                ..relayed(&bytes, ms)
            };
            outlet.relay(&packet, true, &mut out)
        };
        assert_eq!(at(20, 3, true), Fate::Sent);
        assert_eq!(at(40, 4, false), Fate::Early(true));
        assert_eq!(at(60, 4, true), Fate::Sent);
        // A report stands before the first packet of each.
        let kinds: Vec<_> = out.iter().map(|sent| sent.is_rtcp).collect();
        assert_eq!(kinds, [true, false, true, false]);
    }
}
