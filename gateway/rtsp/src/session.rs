//! Who plays what, and how it comes there.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rtsp_types::Version;
use rtsp_types::headers;
use sangam_model::{Class, Time};
use sangam_wire::Flags;

use crate::deliver::Delivery;
use crate::egress::{Onset, Stream};
use crate::film::Film;
use crate::limits::{OUTBOUND_HIGH, REPORT_EVERY};
use crate::live::{Seat, Valve};
use crate::message::Answer;
use crate::player::{Player, State};
use crate::range::{self, Way, way};

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
    pub(crate) show: Show,
    /// The name of that in URLs, with its folder.
    pub(crate) name: String,
    /// The URL of that, with a slash at its end.
    pub(crate) base: String,
    /// Whose it is, and the address that he knows us by.
    pub(crate) peer: IpAddr,
    pub(crate) local: IpAddr,
    /// The version in which it was set up.
    pub(crate) version: Version,
    /// The number of the request by which it plays.
    pub(crate) played: Option<String>,
    /// It was asked to begin somewhere.
    pub(crate) sought: bool,
    /// Who set it up.
    pub(crate) connection: u64,
    /// Who waits for its film to begin.
    pub(crate) asker: Option<u64>,
    pub(crate) carrier: Carrier,
    pub(crate) outlets: Vec<Outlet>,
    /// It ends if it is not heard of for so long.
    pub(crate) timeout: Duration,
    /// When it was heard of.
    pub(crate) heard: Time,
    /// When it was reported on.
    pub(crate) reported: Time,
    /// Whether it waits for its client.
    pub(crate) stalled: bool,
}

/// What is played.
#[derive(Debug)]
pub(crate) enum Show {
    /// A recording.
    Film(Box<Reel>),
    /// What is published now.
    Live(Seat),
    /// A film in blocks, sent by datagrams.
    Sent(Box<Delivery>),
}

/// A recording and where it is.
#[derive(Debug)]
pub(crate) struct Reel {
    pub(crate) film: Arc<Film>,
    pub(crate) player: Player,
    /// What it is when it is not wound, if it then goes by datagrams from another thread.
    pub(crate) sent: Option<Box<Delivery>>,
}

/// One track of a session.
#[derive(Debug)]
pub(crate) struct Outlet {
    /// Its number in URLs.
    pub(crate) number: usize,
    /// Its place in the recording; of what is live its number.
    pub(crate) track: usize,
    /// Ports or channels, for RTP and RTCP.
    pub(crate) pair: (u16, u16),
    pub(crate) stream: Stream,
    /// Of what is live: from where on it is let through.
    pub(crate) valve: Valve,
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

/// Where a film begins, and where each of its tracks goes on, by its number.
pub(crate) type Begun = (Duration, Vec<(usize, Option<Onset>)>);

impl Session {
    /// What it does.
    pub(crate) fn state(&self) -> State {
        match &self.show {
            Show::Film(reel) => reel.player.state,
            Show::Live(seat) => seat.state,
            Show::Sent(sent) => sent.state,
        }
    }

    /// Its film, if it is one.
    pub(crate) fn reel(&mut self) -> Option<&mut Reel> {
        match &mut self.show {
            Show::Film(reel) => Some(reel),
            Show::Live(_) | Show::Sent(_) => None,
        }
    }

    /// The same, be it what is played now or not.
    pub(crate) fn any_reel(&mut self) -> Option<&mut Reel> {
        match &mut self.show {
            Show::Film(reel) => Some(reel),
            Show::Sent(sent) => sent.wound.as_deref_mut(),
            Show::Live(_) => None,
        }
    }

    /// An answer about it.
    pub(crate) fn spoken(&self, answer: Answer) -> Answer {
        let timeout = self.timeout.as_secs();
        answer.with(headers::SESSION, format!("{};timeout={timeout}", self.id))
    }

    /// Lets a film begin: where, and where its tracks go on.
    pub(crate) fn begin(&mut self, now: Time) -> Option<Begun> {
        let Show::Film(reel) = &mut self.show else {
            return None;
        };
        let start = reel.player.begin(now, reel.film.zero);
        self.reported = Time::ZERO;
        let player = &reel.player;
        let outlets = self.outlets.iter_mut();
        let onsets = outlets.map(|outlet| {
            let packets = player.ahead(outlet.track);
            let begin = (start, player.wish().scale);
            (
                outlet.number,
                outlet.stream.begin(begin, packets, player.clocks()),
            )
        });
        Some((start, onsets.collect()))
    }

    /// Appends what is due of a film and reports; `ntp` is now. At most `max` packets, and so many
    /// bytes that a connection with room for packets has room for these.
    pub(crate) fn turn(
        &mut self,
        (now, ntp): (Time, u64),
        max: usize,
        out: &mut Vec<Sent>,
    ) -> Turn {
        let mut turn = Turn::default();
        let Show::Film(reel) = &mut self.show else {
            return turn;
        };
        let Reel { film, player, .. } = &mut **reel;
        if player.state != State::Playing {
            return turn;
        }
        if self.reported == Time::ZERO || now.since(self.reported) >= REPORT_EVERY {
            self.reported = now;
            let at = player.at(now);
            let begun = self.outlets.iter();
            let begun = begun.filter(|outlet| outlet.stream.has_begun());
            out.extend(begun.map(|outlet| outlet.report(at, ntp)));
        }
        let scale = player.wish().scale;
        let mut bytes = 0;
        for _ in 0..max {
            if bytes >= OUTBOUND_HIGH / 2 {
                break;
            }
            let Some(mut next) = player.due(now) else {
                break;
            };
            let mut outlets = self.outlets.iter_mut();
            // A track that the client did not set up.
            let Some(outlet) = outlets.find(|outlet| outlet.track == next.track) else {
                continue;
            };
            if !is_shown(film.class(outlet.track), next.flags, scale) {
                continue;
            }
            let is_first = !outlet.stream.has_begun();
            if !outlet.stream.rewrite(&mut next.payload, next.at) {
                turn.unreadable += 1;
                continue;
            }
            if is_first {
                out.push(outlet.report(player.at(now), ntp));
            }
            bytes += next.payload.len();
            out.push(outlet.packet(next.payload));
        }
        if player.is_over(now) {
            turn.ended = true;
            // Until now it was heard of by what it took.
            self.heard = now;
            let at = player.at(now);
            player.state = State::Ended;
            out.extend(self.outlets.iter().map(|outlet| outlet.bye(at, ntp)));
        }
        turn
    }

    /// What is answered when its film plays from here on.
    pub(crate) fn playing(&self, at: Duration) -> Answer {
        let (range, scale, speed) = match &self.show {
            Show::Film(reel) => {
                let wish = reel.player.wish();
                (reel.range(at), wish.scale, wish.speed)
            }
            Show::Sent(sent) => (sent.range(at), 1.0, sent.speed),
            Show::Live(_) => return self.live(),
        };
        let mut answer = self.spoken(Answer::ok());
        if self.sought && self.version == Version::V2_0 {
            // RFC 7826 section 4.7.1: with the key frame before.
            answer = answer.with(headers::SEEK_STYLE, "RAP");
        }
        answer
            .with(headers::RANGE, range)
            // RFC 2326 section 12.34: what is not possible is answered with what is.
            .with(headers::SCALE, format!("{scale}"))
            .with(headers::SPEED, format!("{speed}"))
    }

    /// What is answered when it plays what is live: that has one place and one pace.
    pub(crate) fn live(&self) -> Answer {
        self.spoken(Answer::ok())
            .with(headers::RANGE, range::NOW)
            .with(headers::SCALE, "1")
            .with(headers::SPEED, "1")
    }
}

impl Reel {
    /// The scale nearest to a wish: what has no picture has one scale, and a transport stream has
    /// no slow one, as that would take another clock in all of its packets.
    pub(crate) fn scale(&self, outlets: &[Outlet], wanted: f64) -> f64 {
        let mut outlets = outlets.iter();
        let has_pictures =
            outlets.any(|outlet| self.film.class(outlet.track) == Some(Class::Video));
        match has_pictures {
            true if self.film.blocks.is_some() => of_stream(wanted),
            true => wanted,
            false => 1.0,
        }
    }

    /// What is played from here on.
    pub(crate) fn range(&self, at: Duration) -> String {
        let (zero, wish) = (self.film.zero, self.player.wish());
        let until = wish.until.map(|until| until.saturating_sub(zero));
        let until = until.unwrap_or(match way(wish.scale) {
            Way::On => self.film.length,
            Way::Back => Duration::ZERO,
        });
        range::npt(at.saturating_sub(zero), until)
    }
}

/// The scale of a transport stream nearest to a wish.
pub(crate) fn of_stream(wanted: f64) -> f64 {
    match (0.0..1.0).contains(&wanted) {
        true => 1.0,
        false => wanted,
    }
}

impl Outlet {
    /// A report on it: it is now `ntp`, and what is played is at `at`.
    pub(crate) fn report(&self, at: Duration, ntp: u64) -> Sent {
        Sent {
            to: self.pair.1,
            is_rtcp: true,
            bytes: self.stream.report(at, ntp),
        }
    }

    /// The same with its end.
    pub(crate) fn bye(&self, at: Duration, ntp: u64) -> Sent {
        Sent {
            to: self.pair.1,
            is_rtcp: true,
            bytes: self.stream.bye(at, ntp),
        }
    }

    /// A packet of it.
    pub(crate) fn packet(&self, bytes: Vec<u8>) -> Sent {
        Sent {
            to: self.pair.0,
            is_rtcp: false,
            bytes,
        }
    }
}

/// Whether a packet of an event with these flags belongs to a film at this scale: faster, or back,
/// its key frames; slower, its pictures; sound is for the pace at which it was spoken.
fn is_shown(class: Option<Class>, flags: u8, scale: f64) -> bool {
    let is_video = class == Some(Class::Video);
    let is_key = Flags::from_bits(flags).contains(Flags::KEY);
    scale == 1.0 || is_video && (is_key || (0.0..1.0).contains(&scale))
}
