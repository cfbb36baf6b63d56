//! Requests and their answers (RFC 2326 section 10).

use std::sync::Arc;
use std::time::Duration;

use rtsp_types::headers::{self, HeaderName};
use rtsp_types::{Method, StatusCode, Version};
use sangam_model::Time;

use crate::egress::Onset;
use crate::film::Film;
use crate::message::{Answer, Request};
use crate::player::{State, Wish};
use crate::range::{self, Part};
use crate::reading::Done;
use crate::sdp;
use crate::session::{Carrier, Session};
use crate::turn::Engine;

const PUBLIC: &str =
    "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";
/// What stands before the names of recordings.
const FOLDER: &str = "archive/";
/// What stands before the number of a track.
const TRACK: &str = "/trackID=";

impl Engine {
    /// Answers a request, or lets it wait for a disk.
    pub(crate) fn request(&mut self, number: u64, request: Request, now: Time) {
        self.counts.requests.one();
        if let Some(answer) = self.turn_away(number, &request, now) {
            return self.answer(number, &request, answer);
        }
        if let Some(session) = self.named(&request)
            && let Some(session) = self.sessions.get_mut(&session)
        {
            session.heard = now;
        }
        let answer = match self.check(&request) {
            Err(status) => Some(Answer::new(status)),
            Ok(()) => self.perform(number, &request, now),
        };
        if let Some(answer) = answer {
            return self.answer(number, &request, answer);
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.pending = Some(request);
        }
        // What it waits for may have been there.
        if let Some(session) = self.waits_for(number) {
            self.begin(session, now);
        }
    }

    /// What cannot be answered otherwise.
    pub(crate) fn nonsense(&mut self, number: u64) {
        self.counts.malformed.one();
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.answer(Answer::new(StatusCode::BadRequest), None);
            // Where the next request would begin is not known.
            connection.is_closing = true;
        }
    }

    /// Takes what was read.
    pub(crate) fn finish(&mut self, done: Done, now: Time) {
        match done {
            Done::Opened(number, film) => {
                let connection = self.connections.get_mut(&number);
                let Some(request) = connection.and_then(|one| one.pending.take()) else {
                    return;
                };
                let answer = match film {
                    Ok(Some(film)) if request.method == Method::Describe => {
                        self.describe(number, &request, &film)
                    }
                    Ok(Some(film)) => self.open(number, &request, (film, now)),
                    Ok(None) => Err(StatusCode::NotFound),
                    Err(error) => {
                        tracing::warn!(%error, "the archive cannot be read");
                        Err(StatusCode::InternalServerError)
                    }
                };
                let answer = answer.unwrap_or_else(Answer::new);
                self.answer(number, &request, answer);
                self.roused.push(number);
            }
            Done::Read(number, reader, chunk) => {
                let Some(session) = self.sessions.get_mut(&number) else {
                    return;
                };
                if let Err(error) = &chunk {
                    tracing::warn!(%error, "a film cannot be read");
                    // Whoever asked to begin is answered so, and counted with it.
                    let is_asked = session.asker.is_some();
                    self.counts.failed.add(u64::from(!is_asked));
                }
                session.player.take(reader, chunk.ok());
                self.begin(number, now);
                self.pace(number, now);
            }
        }
    }

    fn check(&self, request: &Request) -> Result<(), StatusCode> {
        if request.sequence.is_none() {
            return Err(StatusCode::BadRequest);
        }
        if request.version != Version::V1_0 {
            return Err(StatusCode::RTSPVersionNotSupported);
        }
        match request.header(&headers::REQUIRE) {
            Some(_) => Err(StatusCode::OptionNotSupported),
            None => Ok(()),
        }
    }

    /// `None`: the answer comes later.
    fn perform(&mut self, number: u64, request: &Request, now: Time) -> Option<Answer> {
        let answer = match &request.method {
            Method::Options => Ok(Answer::ok().with(headers::PUBLIC, PUBLIC)),
            Method::Describe => return self.look_up(number, request),
            Method::Setup if request.session().is_none() => return self.look_up(number, request),
            Method::Setup => self.setup(number, request),
            Method::Play => match self.play(number, request, now) {
                Ok(None) => return None,
                Ok(Some(answer)) => Ok(answer),
                Err(status) => Err(status),
            },
            Method::Pause => self.pause(request, now),
            Method::Teardown => self.tear_down(request),
            Method::GetParameter | Method::SetParameter => self.parameter(request),
            _ => Err(StatusCode::NotImplemented),
        };
        Some(answer.unwrap_or_else(Answer::new))
    }

    fn answer(&mut self, number: u64, request: &Request, mut answer: Answer) {
        let counts = &self.counts;
        let count = match answer.status {
            StatusCode::BadRequest => Some(&counts.malformed),
            StatusCode::NotFound => Some(&counts.not_found),
            StatusCode::ParameterNotUnderstood => Some(&counts.unknown_parameter),
            StatusCode::NotEnoughBandwidth => Some(&counts.sessions_refused),
            StatusCode::SessionNotFound => Some(&counts.no_session),
            StatusCode::MethodNotValidInThisState | StatusCode::AggregateOperationNotAllowed => {
                Some(&counts.wrong_state)
            }
            StatusCode::InvalidRange => Some(&counts.wrong_range),
            StatusCode::UnsupportedTransport => Some(&counts.wrong_transport),
            StatusCode::InternalServerError => Some(&counts.failed),
            StatusCode::ServiceUnavailable => Some(&counts.busy),
            StatusCode::NotImplemented => Some(&counts.unknown_method),
            StatusCode::RTSPVersionNotSupported => Some(&counts.unknown_version),
            StatusCode::OptionNotSupported => Some(&counts.unknown_option),
            _ => None,
        };
        if let Some(count) = count {
            count.one();
        }
        match answer.status {
            StatusCode::OptionNotSupported => {
                let options = request.header(&headers::REQUIRE).unwrap_or_default();
                answer = answer.with(headers::UNSUPPORTED, options);
            }
            StatusCode::NotImplemented => answer = answer.with(headers::PUBLIC, PUBLIC),
            _ => {}
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.answer(answer, request.sequence.as_deref());
        }
    }

    fn look_up(&mut self, number: u64, request: &Request) -> Option<Answer> {
        let Some((name, _)) = film_and_track(&request.path) else {
            return Some(Answer::new(StatusCode::NotFound));
        };
        if self.readers.is_full() {
            return Some(Answer::new(StatusCode::ServiceUnavailable));
        }
        self.readers.open(number, name.to_owned());
        None
    }

    fn describe(
        &mut self,
        number: u64,
        request: &Request,
        film: &Film,
    ) -> Result<Answer, StatusCode> {
        let base = base(&request.url);
        let connection = self.connections.get(&number);
        let host = connection
            .ok_or(StatusCode::InternalServerError)?
            .local
            .ip();
        let text = sdp::describe(film, &base, host.to_canonical());
        let mut answer = Answer::ok().with(headers::CONTENT_BASE, base);
        answer.body = Some(("application/sdp", text));
        Ok(answer)
    }

    /// RFC 2326 section 10.5: PLAY.
    fn play(
        &mut self,
        number: u64,
        request: &Request,
        now: Time,
    ) -> Result<Option<Answer>, StatusCode> {
        let is_busy = self.readers.is_full();
        let (key, session) = self.known(request)?;
        if is_busy {
            return Err(StatusCode::ServiceUnavailable);
        }
        if session.asker.is_some() {
            return Err(StatusCode::MethodNotValidInThisState);
        }
        let header = request.header(&headers::RANGE);
        let part = match header {
            Some(header) => range::part(header, session.film.length),
            None => Some(Part {
                from: None,
                until: None,
            }),
        };
        let part = part.ok_or(StatusCode::InvalidRange)?;
        let speed = range::speed(request.header(&headers::SPEED));
        let scale = session.scale(range::scale(request.header(&headers::SCALE)));
        if session.player.state == State::Playing && header.is_none() && !is_faster(request) {
            // RFC 2326 section 10.5: it plays on.
            let answer = session.playing(session.player.at(now));
            return Ok(Some(answer));
        }
        let zero = session.film.zero;
        let from = match (part.from, session.player.state) {
            (Some(from), _) => Some(zero + from),
            (None, State::Ready | State::Ended) => Some(zero),
            // Pictures between key frames can only be shown from one on.
            (None, _) if scale != session.player.wish().scale => Some(session.player.at(now)),
            (None, _) => None,
        };
        session.asker = Some(number);
        session.player.start(Wish {
            from,
            until: part.until.map(|until| zero + until),
            speed,
            scale,
        });
        if let Some(job) = session.player.job() {
            self.readers.read(key, job);
        }
        Ok(None)
    }

    /// The session whose film a connection waits for.
    fn waits_for(&self, number: u64) -> Option<u64> {
        let mut sessions = self.sessions.iter();
        let found = sessions.find(|(_, session)| session.asker == Some(number));
        found.map(|(key, _)| *key)
    }

    /// Begins to play, if all is there, and says so.
    fn begin(&mut self, key: u64, now: Time) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        if !session.player.is_set() {
            return;
        }
        let asker = session.asker.take();
        if session.player.is_broken() {
            session.player.state = State::Ready;
            return self.settle(asker, Answer::new(StatusCode::InternalServerError));
        }
        let (start, onsets) = session.begin(now);
        let info: Vec<_> = onsets
            .into_iter()
            .filter_map(|(number, onset)| Some(info(&session.base, number, onset?)))
            .collect();
        let mut answer = session.playing(start);
        if !info.is_empty() {
            answer = answer.with(headers::RTP_INFO, info.join(","));
        }
        self.counts.plays.one();
        self.settle(asker, answer);
        self.pace(key, now);
    }

    /// Answers the request for which a connection waits.
    pub(crate) fn settle(&mut self, asker: Option<u64>, answer: Answer) {
        let Some(asker) = asker else {
            return;
        };
        let connection = self.connections.get_mut(&asker);
        if let Some(request) = connection.and_then(|connection| connection.pending.take()) {
            self.answer(asker, &request, answer);
            self.roused.push(asker);
        }
    }

    /// RFC 2326 section 10.6: PAUSE.
    fn pause(&mut self, request: &Request, now: Time) -> Result<Answer, StatusCode> {
        let (_, session) = self.known(request)?;
        match session.player.state {
            State::Playing => session.player.pause(),
            State::Paused | State::Ended => {}
            State::Ready | State::Starting => return Err(StatusCode::MethodNotValidInThisState),
        }
        let at = session.player.at(now);
        Ok(session
            .spoken(Answer::ok())
            .with(headers::RANGE, session.range(at)))
    }

    /// RFC 2326 section 10.7: TEARDOWN.
    fn tear_down(&mut self, request: &Request) -> Result<Answer, StatusCode> {
        let (key, session) = self.known(request)?;
        let answer = session.spoken(Answer::ok());
        let track = film_and_track(&request.path).and_then(|(_, track)| track);
        if let Some(track) = track {
            session.outlets.retain(|outlet| outlet.number != track);
        }
        if track.is_none() || session.outlets.is_empty() {
            self.remove(key);
        }
        Ok(answer)
    }

    /// RFC 2326 sections 10.8 and 10.9: there are no parameters, but a question keeps a session.
    fn parameter(&mut self, request: &Request) -> Result<Answer, StatusCode> {
        if request.has_body {
            return Err(StatusCode::ParameterNotUnderstood);
        }
        match request.session() {
            None => Ok(Answer::ok()),
            Some(_) => self
                .known(request)
                .map(|(_, session)| session.spoken(Answer::ok())),
        }
    }

    fn named(&self, request: &Request) -> Option<u64> {
        let id = request.session()?;
        let mut sessions = self.sessions.iter();
        let found = sessions.find(|(_, session)| session.id == id);
        found.map(|(key, _)| *key)
    }

    /// The session that a request names.
    pub(crate) fn known(&mut self, request: &Request) -> Result<(u64, &mut Session), StatusCode> {
        let key = self.named(request).ok_or(StatusCode::SessionNotFound)?;
        let session = self.sessions.get_mut(&key);
        session
            .map(|session| (key, session))
            .ok_or(StatusCode::SessionNotFound)
    }
}

impl Session {
    /// An answer about it.
    pub(crate) fn spoken(&self, answer: Answer) -> Answer {
        let timeout = self.timeout.as_secs();
        answer.with(headers::SESSION, format!("{};timeout={timeout}", self.id))
    }

    fn playing(&self, at: Duration) -> Answer {
        self.spoken(Answer::ok())
            .with(headers::RANGE, self.range(at))
            // RFC 2326 section 12.34: what is not possible is answered with what is.
            .with(headers::SCALE, format!("{}", self.player.wish().scale))
            .with(headers::SPEED, format!("{}", self.player.wish().speed))
    }

    fn range(&self, at: Duration) -> String {
        let zero = self.film.zero;
        let until = self
            .player
            .wish()
            .until
            .map_or(self.film.length, |until| until - zero);
        range::npt(at.saturating_sub(zero), until)
    }

    /// By what its packets go, in the words of a Transport header.
    pub(crate) fn transport(&self, (rtp, rtcp): (u16, u16), ssrc: u32, own: (u16, u16)) -> String {
        match self.carrier {
            Carrier::Udp => format!(
                "RTP/AVP;unicast;client_port={rtp}-{rtcp};server_port={}-{};ssrc={ssrc:08X}",
                own.0, own.1
            ),
            Carrier::Interleaved => {
                format!("RTP/AVP/TCP;unicast;interleaved={rtp}-{rtcp};ssrc={ssrc:08X}")
            }
        }
    }
}

/// RFC 2326 section 12.33.
fn info(base: &str, number: usize, onset: Onset) -> String {
    let Onset {
        sequence,
        timestamp,
    } = onset;
    let url = sdp::control(base, number);
    format!("url={url};seq={sequence};rtptime={timestamp}")
}

fn is_faster(request: &Request) -> bool {
    let asks = |name: &HeaderName| request.header(name).is_some();
    asks(&headers::SPEED) || asks(&headers::SCALE)
}

/// The name of a film in a path, and a track of it.
pub(crate) fn film_and_track(path: &str) -> Option<(&str, Option<usize>)> {
    let rest = path.strip_prefix(FOLDER)?;
    let (name, track) = match rest.rsplit_once(TRACK) {
        Some((name, track)) => (name, Some(track.trim_end_matches('/').parse().ok()?)),
        None => (rest, None),
    };
    let name = name.trim_end_matches('/');
    (!name.is_empty()).then_some((name, track))
}

/// A film's URL, without the track, with a slash at its end.
pub(crate) fn base(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let url = url.rsplit_once(TRACK).map_or(url, |(base, _)| base);
    format!("{}/", url.trim_end_matches('/'))
}

/// A film as a request names it, with the present.
pub(crate) type Opened = (Arc<Film>, Time);
