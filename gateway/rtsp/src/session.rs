//! Who plays what, and how it comes there.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sangam_model::{Class, Time};
use sangam_wire::Flags;

use crate::egress::{Onset, Stream};
use crate::film::Film;
use crate::limits::{OUTBOUND_HIGH, REPORT_EVERY};
use crate::player::{Player, State};

/// By what packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// Datagrams.
    Udp,
    /// The connection that set the session up.
    Interleaved,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its name.
    pub(crate) id: String,
    /// What it plays.
    pub(crate) film: Arc<Film>,
    /// The name of the film in URLs.
    pub(crate) name: String,
    /// The film's URL, with a slash at its end.
    pub(crate) base: String,
    /// Whose it is, and the address that he knows us by.
    pub(crate) peer: IpAddr,
    pub(crate) local: IpAddr,
    /// Who set it up.
    pub(crate) connection: u64,
    /// Who waits for its film to begin.
    pub(crate) asker: Option<u64>,
    pub(crate) carrier: Carrier,
    pub(crate) outlets: Vec<Outlet>,
    pub(crate) player: Player,
    /// It ends if it is not heard of for so long.
    pub(crate) timeout: Duration,
    /// When it was heard of.
    pub(crate) heard: Time,
    /// When it was reported on.
    pub(crate) reported: Time,
    /// Whether it waits for its client.
    pub(crate) stalled: bool,
}

/// One track of a session.
#[derive(Debug)]
pub(crate) struct Outlet {
    /// Its number in URLs.
    pub(crate) number: usize,
    /// Its place in the recording.
    pub(crate) track: usize,
    /// Ports or channels, for RTP and RTCP.
    pub(crate) pair: (u16, u16),
    pub(crate) stream: Stream,
}

/// What is to be sent.
#[derive(Debug)]
pub(crate) struct Sent {
    /// To which port or channel.
    pub(crate) to: u16,
    pub(crate) is_rtcp: bool,
    pub(crate) bytes: Vec<u8>,
}

/// What came of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// Recorded packets that are no RTP.
    pub(crate) unreadable: u64,
    /// It came to its end.
    pub(crate) ended: bool,
}

impl Session {
    /// The scale nearest to a wish: what has no picture has one scale.
    pub(crate) fn scale(&self, wanted: f64) -> f64 {
        let mut outlets = self.outlets.iter();
        match outlets.any(|outlet| self.film.class(outlet.track) == Some(Class::Video)) {
            true => wanted,
            false => 1.0,
        }
    }

    /// Begins to play: where, and where its tracks go on.
    pub(crate) fn begin(&mut self, now: Time) -> (Duration, Vec<(usize, Option<Onset>)>) {
        let start = self.player.begin(now, self.film.zero);
        self.reported = Time::ZERO;
        let player = &self.player;
        let outlets = self.outlets.iter_mut();
        let onsets = outlets.map(|outlet| {
            let packets = player.ahead(outlet.track);
            let begin = (start, player.wish().scale);
            (outlet.number, outlet.stream.begin(begin, packets))
        });
        (start, onsets.collect())
    }

    /// Appends what is due and reports; `ntp` is now. At most `max` packets, and so many bytes
    /// that a connection with room for packets has room for these.
    pub(crate) fn turn(
        &mut self,
        (now, ntp): (Time, u64),
        max: usize,
        out: &mut Vec<Sent>,
    ) -> Turn {
        let mut turn = Turn::default();
        if self.player.state != State::Playing {
            return turn;
        }
        if self.reported == Time::ZERO || now.since(self.reported) >= REPORT_EVERY {
            self.reported = now;
            let at = self.player.at(now);
            let begun = self.outlets.iter();
            let begun = begun.filter(|outlet| outlet.stream.has_begun());
            out.extend(begun.map(|outlet| outlet.report(at, ntp)));
        }
        let scale = self.player.wish().scale;
        let mut bytes = 0;
        for _ in 0..max {
            if bytes >= OUTBOUND_HIGH / 2 {
                break;
            }
            let Some(mut next) = self.player.due(now) else {
                break;
            };
            let mut outlets = self.outlets.iter_mut();
            // A track that the client did not set up.
            let Some(outlet) = outlets.find(|outlet| outlet.track == next.track) else {
                continue;
            };
            if !is_shown(self.film.class(outlet.track), next.flags, scale) {
                continue;
            }
            let is_first = !outlet.stream.has_begun();
            if !outlet.stream.rewrite(&mut next.payload, next.at) {
                turn.unreadable += 1;
                continue;
            }
            if is_first {
                out.push(outlet.report(self.player.at(now), ntp));
            }
            bytes += next.payload.len();
            out.push(Sent {
                to: outlet.pair.0,
                is_rtcp: false,
                bytes: next.payload,
            });
        }
        if self.player.is_over() {
            turn.ended = true;
            // Until now it was heard of by what it took.
            self.heard = now;
            let at = self.player.at(now);
            self.player.state = State::Ended;
            let byes = self.outlets.iter().map(|outlet| Sent {
                to: outlet.pair.1,
                is_rtcp: true,
                bytes: outlet.stream.bye(at, ntp),
            });
            out.extend(byes);
        }
        turn
    }
}

impl Outlet {
    /// A report on it: it is now `ntp`, and the film is at `at`.
    fn report(&self, at: Duration, ntp: u64) -> Sent {
        Sent {
            to: self.pair.1,
            is_rtcp: true,
            bytes: self.stream.report(at, ntp),
        }
    }
}

/// Whether a packet of an event with these flags belongs to a film at this scale: faster, its key
/// frames; slower, its pictures; sound is for the pace at which it was spoken.
fn is_shown(class: Option<Class>, flags: u8, scale: f64) -> bool {
    let is_video = class == Some(Class::Video);
    let is_key = Flags::from_bits(flags).contains(Flags::KEY);
    scale == 1.0 || is_video && (is_key || scale < 1.0)
}
