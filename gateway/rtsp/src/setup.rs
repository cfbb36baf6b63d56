//! SETUP (RFC 2326 section 10.4): sessions, and the tracks of them.

use aws_lc_rs::rand;
use rtsp_types::StatusCode;
use rtsp_types::headers;
use sangam_model::Time;

use crate::egress::Stream;
use crate::features::takes_ranges;
use crate::limits::TRACKS_MAX;
use crate::live::Valve;
use crate::message::{Answer, Request};
use crate::path::{base, name_and_track};
use crate::player::State;
use crate::session::{Carrier, Outlet, Session, Show};
use crate::transport::{Asker, Granted, Mode, Offer, choose};
use crate::turn::Engine;

impl Engine {
    /// The first track of a new session.
    pub(crate) fn open(
        &mut self,
        number: u64,
        request: &Request,
        (show, now): (Show, Time),
    ) -> Result<Answer, StatusCode> {
        let (name, _) = name_and_track(&request.path).ok_or(StatusCode::NotFound)?;
        if !takes_ranges(request) {
            return Err(StatusCode::HeaderFieldNotValidForResource);
        }
        let connection = self.connections.get(&number);
        let connection = connection.ok_or(StatusCode::InternalServerError)?;
        let peer = connection.peer.ip().to_canonical();
        let local = connection.local.ip().to_canonical();
        let own = self
            .sessions
            .values()
            .filter(|session| session.peer == peer);
        let is_full = self.sessions.len() >= self.settings.sessions_max;
        if is_full || own.count() >= self.settings.per_address {
            return Err(StatusCode::NotEnoughBandwidth);
        }
        let (carrier, is_avpf) = match self.offer(number, request)? {
            Offer::Udp(ports) => (Carrier::Udp, ports.is_avpf),
            Offer::Interleaved(_) => (Carrier::Interleaved, false),
        };
        let show = self.admit(show, request, (carrier, is_avpf))?;
        let watch = match &show {
            Show::Film(_) | Show::Sent(_) => None,
            Show::Live(seat) => Some(seat.watch),
        };
        let session = Session {
            id: format!("{:016x}", u64::from_be_bytes(random()?)),
            name: name.to_owned(),
            base: base(&request.url),
            peer,
            local,
            connection: number,
            version: request.spoken(),
            played: None,
            sought: false,
            asker: None,
            carrier,
            outlets: Vec::new(),
            show,
            timeout: self.settings.timeout,
            heard: now,
            reported: now,
            stalled: false,
        };
        let key = self.number();
        self.sessions.insert(key, session);
        if let Some(watch) = watch {
            self.sit_down(watch, key);
        }
        let answer = self.add(number, request, key);
        let answer = answer.map(|answer| self.introduced(key, answer));
        match answer.is_ok() {
            true => {
                self.counts.sessions.one();
                self.remember(number, request, key);
            }
            false => self.remove(key),
        }
        answer
    }

    /// Lets a film go by datagrams if it is to, and in if there is room for it.
    fn admit(
        &self,
        show: Show,
        request: &Request,
        way: (Carrier, bool),
    ) -> Result<Show, StatusCode> {
        let sequence = u16::from_be_bytes(random()?);
        let show = self.deliver(show, request, way, sequence)?;
        if !self.has_room(&show) {
            self.counts.not_admitted.one();
            return Err(StatusCode::NotEnoughBandwidth);
        }
        Ok(show)
    }

    /// What follows in the same pipeline is about this session (RFC 7826 section 18.33).
    fn remember(&mut self, number: u64, request: &Request, key: u64) {
        let pipeline = request.header(&headers::PIPELINED_REQUESTS);
        let (Some(pipeline), Some(session)) = (pipeline, self.sessions.get(&key)) else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.pipeline(pipeline, &session.id);
        }
    }

    /// A further track of a session.
    pub(crate) fn setup(&mut self, number: u64, request: &Request) -> Result<Answer, StatusCode> {
        let (key, session) = self.known(request)?;
        if session.state() != State::Ready {
            return Err(StatusCode::MethodNotValidInThisState);
        }
        self.add(number, request, key)
    }

    fn add(&mut self, number: u64, request: &Request, key: u64) -> Result<Answer, StatusCode> {
        let gone = StatusCode::SessionNotFound;
        let offer = self.offer(number, request)?;
        let (name, track) = name_and_track(&request.path).ok_or(StatusCode::NotFound)?;
        let (track, place, rate) = self.find_track(key, (name, track))?;
        let session = self.sessions.get_mut(&key).ok_or(gone)?;
        let is_again = session.outlets.iter().any(|outlet| outlet.number == track);
        if is_again || session.outlets.len() == TRACKS_MAX {
            return Err(StatusCode::MethodNotValidInThisState);
        }
        let wrong = StatusCode::UnsupportedTransport;
        let own = self.datagrams.ports(session.peer);
        let (pair, own) = match (offer, session.carrier) {
            (Offer::Udp(ports), Carrier::Udp) => ((ports.rtp, ports.rtcp), own.ok_or(wrong)?),
            (Offer::Interleaved(wanted), Carrier::Interleaved) if session.connection == number => {
                let connection = self.connections.get_mut(&number).ok_or(gone)?;
                let (rtp, rtcp) = connection.channels(wanted, key).ok_or(wrong)?;
                let pair = (rtp.into(), rtcp.into());
                (pair, pair)
            }
            _ => return Err(wrong),
        };
        let [a, b, c, d, e, f] = random()?;
        let ssrc = u32::from_be_bytes([a, b, c, d]);
        session.outlets.push(Outlet {
            number: track,
            track: place,
            pair,
            stream: Stream::new(ssrc, rate, u16::from_be_bytes([e, f])),
            valve: Valve::default(),
        });
        let granted = Granted {
            offer,
            own,
            hosts: (session.peer, session.local),
            ssrc: Some(ssrc),
        };
        let answer = session
            .spoken(Answer::ok())
            .with(headers::TRANSPORT, granted.to_string());
        Ok(session.properties(answer))
    }

    /// How a client wants its packets, as far as it can have them so.
    fn offer(&self, number: u64, request: &Request) -> Result<Offer, StatusCode> {
        let connection = self.connections.get(&number);
        let connection = connection.ok_or(StatusCode::InternalServerError)?;
        let asker = Asker {
            peer: connection.peer.ip().to_canonical(),
            is_secure: connection.is_secure(),
            mode: Mode::Play,
        };
        let header = request.header(&headers::TRANSPORT);
        let offer = header.and_then(|header| choose(header, asker));
        offer.ok_or(StatusCode::UnsupportedTransport)
    }

    /// The number of a track in URLs, its place in what the session plays, and its clock rate.
    fn find_track(
        &self,
        key: u64,
        (name, track): (&str, Option<usize>),
    ) -> Result<(usize, usize, u32), StatusCode> {
        let session = self.sessions.get(&key);
        let session = session.ok_or(StatusCode::SessionNotFound)?;
        if name != session.name {
            return Err(StatusCode::AggregateOperationNotAllowed);
        }
        // What has one track may be named as a whole.
        let missing = match track {
            Some(_) => StatusCode::NotFound,
            None => StatusCode::AggregateOperationNotAllowed,
        };
        let film = match &session.show {
            Show::Film(reel) => Some(&reel.film),
            Show::Sent(sent) => Some(&sent.film),
            Show::Live(_) => None,
        };
        match (&session.show, film) {
            (_, Some(film)) => {
                let number = track.or((film.tracks.len() == 1).then_some(0));
                let number = number.ok_or(missing)?;
                let place = *film.tracks.get(number).ok_or(missing)?;
                let rate = film
                    .track(number)
                    .map_or(0, |one| one.info.media.clock_rate);
                Ok((number, place, rate))
            }
            (Show::Live(seat), None) => {
                let found = self.live_track(seat.watch, track);
                let (number, rate) = found.ok_or(missing)?;
                Ok((number, number, rate))
            }
            (_, None) => Err(missing),
        }
    }
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], StatusCode> {
    let mut bytes = [0; N];
    let filled = rand::fill(&mut bytes);
    filled.map_err(|_| StatusCode::InternalServerError)?;
    Ok(bytes)
}
