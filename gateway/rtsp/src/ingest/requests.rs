//! What publishers ask: ANNOUNCE, SETUP, RECORD, PAUSE and TEARDOWN.

use rtsp_types::headers;
use rtsp_types::{Method, StatusCode};
use sangam_model::limits::STREAMS_PER_CLIENT;
use sangam_model::{Class, Time, Topic};

use super::feed::{Feed, Inlet, State};
use super::{Announcement, LEAVE_WAIT, below, sdp};
use crate::message::{Answer, Request};
use crate::path::{Named, named};
use crate::session::Carrier;
use crate::setup::random;
use crate::transport::{Asker, Granted, Mode, Offer, choose};
use crate::turn::Engine;

const SDP: &str = "application/sdp";

impl Engine {
    /// RFC 2326 section 10.3: what will be published, before it is.
    pub(crate) fn announce(
        &mut self,
        number: u64,
        request: &Request,
    ) -> Result<Answer, StatusCode> {
        let ingest = self.ingest.as_ref();
        let ingest = ingest.ok_or(StatusCode::MethodNotAllowed)?;
        if self.feeds.values().any(|feed| feed.connection == number) {
            return Err(StatusCode::MethodNotValidInThisState);
        }
        let kind = request.header(&headers::CONTENT_TYPE).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case(SDP) {
            return Err(StatusCode::UnsupportedMediaType);
        }
        let path = request.path.trim_end_matches('/').to_owned();
        topic(&path)?;
        let tracks = sdp::read(&request.body)?;
        if ingest.client.up().is_none() {
            return Err(StatusCode::ServiceUnavailable);
        }
        let connection = self.connections.get_mut(&number);
        let connection = connection.ok_or(StatusCode::InternalServerError)?;
        connection.announced = Some(Box::new(Announcement { path, tracks }));
        Ok(Answer::ok())
    }

    /// The publication that a request of a connection is about.
    pub(crate) fn feed(&self, number: u64, request: &Request) -> Option<u64> {
        let id = request.session()?;
        let mut feeds = self.feeds.iter();
        let found = feeds.find(|(_, feed)| feed.id == id && feed.connection == number);
        found.map(|(key, _)| *key)
    }

    /// Whether a request sets up what its connection has announced.
    pub(crate) fn sets_up_feed(&self, number: u64, request: &Request) -> bool {
        let connection = self.connections.get(&number);
        let announced = connection.and_then(|one| one.announced.as_ref());
        let is_own = announced.is_some_and(|one| request.path.starts_with(&one.path));
        request.method == Method::Setup && is_own
    }

    /// Answers what a publisher asks; `None`: the answer comes later.
    pub(crate) fn perform_feed(
        &mut self,
        (number, key): (u64, u64),
        request: &Request,
        now: Time,
    ) -> Option<Answer> {
        let answer = match &request.method {
            Method::Setup => self.set_up_feed(number, request, now),
            Method::Record => match self.record(key, now) {
                Ok(None) => return None,
                Ok(Some(answer)) => Ok(answer),
                Err(status) => Err(status),
            },
            Method::Pause => self.rest(key),
            Method::Teardown => {
                let answer = self.spoken(key, Answer::ok());
                self.remove_feed(key);
                Ok(answer)
            }
            Method::GetParameter | Method::SetParameter if !request.has_body() => {
                Ok(self.spoken(key, Answer::ok()))
            }
            Method::GetParameter | Method::SetParameter => Err(StatusCode::ParameterNotUnderstood),
            _ => Err(StatusCode::MethodNotValidInThisState),
        };
        Some(answer.unwrap_or_else(Answer::new))
    }

    /// RFC 2326 section 10.4, of a track that was announced.
    pub(crate) fn set_up_feed(
        &mut self,
        number: u64,
        request: &Request,
        now: Time,
    ) -> Result<Answer, StatusCode> {
        let missing = StatusCode::NotFound;
        let connection = self.connections.get(&number).ok_or(missing)?;
        let announced = connection.announced.as_ref().ok_or(missing)?;
        let place = announced.place(request.path.trim_end_matches('/'));
        let place = place.ok_or(missing)?;
        let what = what(announced, place).ok_or(missing)?;
        let asker = Asker {
            peer: connection.peer.ip().to_canonical(),
            is_secure: connection.is_secure(),
            mode: Mode::Record,
        };
        let local = connection.local.ip().to_canonical();
        let header = request.header(&headers::TRANSPORT);
        let offer = header.and_then(|header| choose(header, asker));
        let offer = offer.ok_or(StatusCode::UnsupportedTransport)?;
        let own = self.datagrams.ports(asker.peer);
        let (known, is_new) = match request.session() {
            Some(_) => (self.feed(number, request), false),
            None => (self.begin_feed((number, local), (asker, offer), now)?, true),
        };
        let key = known.ok_or(StatusCode::SessionNotFound)?;
        let answer = self.add_inlet(key, (place, what), (offer, own));
        match answer.is_ok() {
            true => self.counts.sessions.add(u64::from(is_new)),
            false if is_new => self.remove_feed(key),
            false => {}
        }
        answer
    }

    /// A publication without tracks.
    fn begin_feed(
        &mut self,
        (number, local): (u64, std::net::IpAddr),
        (asker, offer): (Asker, Offer),
        now: Time,
    ) -> Result<Option<u64>, StatusCode> {
        let sessions = self.sessions.values().map(|session| session.peer);
        let all = sessions.chain(self.feeds.values().map(|feed| feed.peer));
        let own = all.clone().filter(|peer| *peer == asker.peer).count();
        let is_full = all.count() >= self.settings.sessions_max;
        if is_full || own >= self.settings.per_address {
            return Err(StatusCode::NotEnoughBandwidth);
        }
        if self.feeds.values().any(|feed| feed.connection == number) {
            return Err(StatusCode::MethodNotValidInThisState);
        }
        let feed = Feed {
            id: format!("{:016x}", u64::from_be_bytes(random()?)),
            connection: number,
            peer: asker.peer,
            local,
            carrier: match offer {
                Offer::Udp(_) => Carrier::Udp,
                Offer::Interleaved(_) => Carrier::Interleaved,
            },
            inlets: Vec::new(),
            state: State::Ready,
            heard: now,
            reported: now,
            ssrc: u32::from_be_bytes(random()?),
        };
        let key = self.number();
        self.feeds.insert(key, feed);
        Ok(Some(key))
    }

    fn add_inlet(
        &mut self,
        key: u64,
        (place, what): (usize, (Topic, sangam_model::MediaInfo)),
        (offer, own): (Offer, Option<(u16, u16)>),
    ) -> Result<Answer, StatusCode> {
        let wrong = StatusCode::UnsupportedTransport;
        let inlets: usize = self.feeds.values().map(|feed| feed.inlets.len()).sum();
        let feed = self.feeds.get_mut(&key);
        let feed = feed.ok_or(StatusCode::SessionNotFound)?;
        let is_again = feed.inlets.iter().any(|inlet| inlet.place == place);
        if is_again || feed.state != State::Ready {
            return Err(StatusCode::MethodNotValidInThisState);
        }
        // What one client of a broker may publish.
        if inlets >= STREAMS_PER_CLIENT {
            return Err(StatusCode::NotEnoughBandwidth);
        }
        let (pair, own) = match (offer, feed.carrier) {
            (Offer::Udp(ports), Carrier::Udp) => ((ports.rtp, ports.rtcp), own.ok_or(wrong)?),
            (Offer::Interleaved(wanted), Carrier::Interleaved) => {
                let connection = self.connections.get_mut(&feed.connection).ok_or(wrong)?;
                let (rtp, rtcp) = connection.channels(wanted, key).ok_or(wrong)?;
                let pair = (rtp.into(), rtcp.into());
                (pair, pair)
            }
            _ => return Err(wrong),
        };
        feed.inlets.push(Inlet::new(place, pair, what));
        let granted = Granted {
            offer,
            own,
            hosts: (feed.peer, feed.local),
            ssrc: None,
        };
        let answer = Answer::ok().with(headers::TRANSPORT, granted.to_string());
        Ok(self.spoken(key, answer))
    }

    /// RFC 2326 section 10.11. `None`: the broker is asked.
    fn record(&mut self, key: u64, now: Time) -> Result<Option<Answer>, StatusCode> {
        let wrong = StatusCode::MethodNotValidInThisState;
        let feed = self.feeds.get_mut(&key).ok_or(wrong)?;
        let ingest = self.ingest.as_ref().ok_or(wrong)?;
        match feed.state {
            State::Opening(_) => return Err(wrong),
            State::Recording | State::Paused => feed.state = State::Recording,
            State::Ready => {
                if let Err(error) = feed.publish(&ingest.client, now + LEAVE_WAIT) {
                    tracing::warn!(%error, "a publication is not begun");
                    feed.withdraw();
                    return Err(StatusCode::ServiceUnavailable);
                }
                return Ok(None);
            }
        }
        Ok(Some(self.spoken(key, Answer::ok())))
    }

    /// RFC 2326 section 10.6.
    fn rest(&mut self, key: u64) -> Result<Answer, StatusCode> {
        let feed = self.feeds.get_mut(&key);
        let feed = feed.filter(|feed| matches!(feed.state, State::Recording | State::Paused));
        feed.ok_or(StatusCode::MethodNotValidInThisState)?.state = State::Paused;
        Ok(self.spoken(key, Answer::ok()))
    }

    /// An answer about a publication.
    pub(super) fn spoken(&self, key: u64, answer: Answer) -> Answer {
        let timeout = self.settings.timeout.as_secs();
        let id = self.feeds.get(&key).map(|feed| feed.id.as_str());
        let id = id.unwrap_or_default();
        answer.with(headers::SESSION, format!("{id};timeout={timeout}"))
    }

    /// Ends a publication.
    pub(crate) fn remove_feed(&mut self, key: u64) {
        let Some(feed) = self.feeds.remove(&key) else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(&feed.connection) {
            connection.channels.retain(|_, owner| *owner != key);
            connection.announced = None;
        }
        if matches!(feed.state, State::Opening(_)) {
            let gone = Answer::new(StatusCode::SessionNotFound);
            self.settle(Some(feed.connection), gone);
        }
    }
}

/// The topic that is announced by a path.
fn topic(path: &str) -> Result<Topic, StatusCode> {
    let missing = StatusCode::NotFound;
    let Some(Named::Live(topic)) = named(path) else {
        return Err(missing);
    };
    let topic = Topic::new(topic).map_err(|_| missing)?;
    match topic.is_system() {
        true => Err(missing),
        false => Ok(topic),
    }
}

/// Where a track that was announced is published, and what it is.
fn what(announced: &Announcement, place: usize) -> Option<(Topic, sangam_model::MediaInfo)> {
    let track = announced.tracks.get(place)?;
    let class = track.media.class;
    let is_same = |other: &&sdp::Announced| other.media.class == class;
    let number = announced
        .tracks
        .iter()
        .take(place + 1)
        .filter(is_same)
        .count();
    let name = match class {
        Class::Audio => "audio",
        _ => "video",
    };
    let topic = below(&topic(&announced.path).ok()?, name, number)?;
    Some((topic, track.media.clone()))
}
