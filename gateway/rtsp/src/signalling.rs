//! Requests and their answers (RFC 2326 section 10).

use std::net::IpAddr;
use std::sync::Arc;

use rtsp_types::headers;
use rtsp_types::{Method, StatusCode, Version};
use sangam_model::Time;

use crate::deliver::{wants_feedback, wants_nodes};
use crate::features::{dress, missing};
use crate::film::Film;
use crate::message::{Answer, Request};
use crate::path::{Named, base, name_and_track, named};
use crate::player::Player;
use crate::reading::{Done, Reader, status_of};
use crate::sdp::{self, About};
use crate::session::{Reel, Session, Show};
use crate::turn::Engine;

const PUBLIC: &str =
    "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";

impl Engine {
    /// Answers a request, or lets it wait for a disk.
    pub(crate) fn request(&mut self, number: u64, mut request: Request, now: Time) {
        self.counts.requests.one();
        self.follow(number, &mut request);
        if let Some(answer) = self.turn_away(number, &request, now) {
            return self.answer(number, &request, answer);
        }
        if let Some(session) = self.named(&request)
            && let Some(session) = self.sessions.get_mut(&session)
        {
            session.heard = now;
        }
        if let Some(feed) = self.feed(number, &request)
            && let Some(feed) = self.feeds.get_mut(&feed)
        {
            feed.heard = now;
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
        self.tell_askers(now);
    }

    /// RFC 7826 section 18.33: a request behind a SETUP that was not answered yet is about its
    /// session.
    fn follow(&self, number: u64, request: &mut Request) {
        if request.session.is_some() {
            return;
        }
        let pipeline = request.header(&headers::PIPELINED_REQUESTS);
        let connection = self.connections.get(&number);
        let session = pipeline.and_then(|pipeline| connection?.pipelined(pipeline));
        request.session = session.map(str::to_owned);
    }

    /// What cannot be answered otherwise.
    pub(crate) fn nonsense(&mut self, number: u64) {
        self.counts.malformed.one();
        if let Some(connection) = self.connections.get_mut(&number) {
            let to = (Version::V1_0, None);
            connection.answer(Answer::new(StatusCode::BadRequest), to);
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
                    Ok(Some(film)) => {
                        let show = self.show(film);
                        self.open(number, &request, (show, now))
                    }
                    Ok(None) => Err(StatusCode::NotFound),
                    Err(error) => {
                        tracing::warn!(%error, "the archive cannot be read");
                        Err(status_of(&error))
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
                let is_asked = session.asker.is_some();
                let Some(reel) = session.any_reel() else {
                    return;
                };
                if let Err(error) = &chunk {
                    tracing::warn!(%error, "a film cannot be read");
                    // Whoever asked to begin is answered so, and counted with it.
                    self.counts.failed.add(u64::from(!is_asked));
                }
                reel.player
                    .take(reader, chunk.map_err(|error| status_of(&error)));
                self.begin(number, now);
                self.pace(number, now);
            }
        }
    }

    fn check(&self, request: &Request) -> Result<(), StatusCode> {
        if request.sequence.is_none() {
            return Err(StatusCode::BadRequest);
        }
        if request.version.is_none() {
            return Err(StatusCode::RTSPVersionNotSupported);
        }
        match missing(request).is_empty() {
            true => Ok(()),
            false => Err(StatusCode::OptionNotSupported),
        }
    }

    /// `None`: the answer comes later.
    fn perform(&mut self, number: u64, request: &Request, now: Time) -> Option<Answer> {
        if request.method != Method::Options
            && let Some(key) = self.feed(number, request)
        {
            return self.perform_feed((number, key), request, now);
        }
        let answer = match &request.method {
            Method::Options => Ok(Answer::ok().with(headers::PUBLIC, self.public(request))),
            // RFC 7826 has neither.
            Method::Announce if !request.is_second() => self.announce(number, request),
            Method::Record if self.ingest.is_some() && !request.is_second() => {
                Err(StatusCode::SessionNotFound)
            }
            Method::Setup if self.sets_up_feed(number, request) => {
                self.set_up_feed(number, request, now)
            }
            Method::Describe => return self.look_up(number, request, now),
            Method::Setup if request.session().is_none() => {
                return self.look_up(number, request, now);
            }
            Method::Setup => self.setup(number, request),
            Method::Play => match self.play(number, request, now) {
                Ok(None) => return None,
                Ok(Some(answer)) => Ok(answer),
                Err(status) => Err(status),
            },
            Method::Pause => self.pause(request, now),
            Method::Teardown => self.tear_down(request),
            Method::GetParameter | Method::SetParameter => self.parameter(request, now),
            _ => Err(StatusCode::NotImplemented),
        };
        Some(answer.unwrap_or_else(Answer::new))
    }

    /// The methods that there are.
    fn public(&self, request: &Request) -> String {
        match self.ingest.is_some() && !request.is_second() {
            true => format!("{PUBLIC}, ANNOUNCE, RECORD"),
            false => PUBLIC.to_owned(),
        }
    }

    /// Sends an answer, and counts it if it is a refusal.
    pub(crate) fn answer(&mut self, number: u64, request: &Request, mut answer: Answer) {
        let counts = &self.counts;
        let count = match answer.status {
            StatusCode::BadRequest => Some(&counts.malformed),
            StatusCode::Forbidden => Some(&counts.forbidden),
            StatusCode::NotFound => Some(&counts.not_found),
            StatusCode::MethodNotAllowed => Some(&counts.not_allowed),
            StatusCode::RequestMessageBodyTooLarge | StatusCode::UnsupportedMediaType => {
                Some(&counts.wrong_description)
            }
            StatusCode::ParameterNotUnderstood => Some(&counts.unknown_parameter),
            StatusCode::NotEnoughBandwidth => Some(&counts.sessions_refused),
            StatusCode::SessionNotFound => Some(&counts.no_session),
            StatusCode::MethodNotValidInThisState | StatusCode::AggregateOperationNotAllowed => {
                Some(&counts.wrong_state)
            }
            StatusCode::InvalidRange | StatusCode::HeaderFieldNotValidForResource => {
                Some(&counts.wrong_range)
            }
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
                answer = answer.with(headers::UNSUPPORTED, missing(request).join(", "));
            }
            StatusCode::NotImplemented => {
                answer = answer.with(headers::PUBLIC, self.public(request));
            }
            // RFC 2326 section 12.4.
            StatusCode::MethodNotAllowed => {
                answer = answer.with(headers::ALLOW, self.public(request));
            }
            // RFC 2326 section 10.3: what it could have been.
            StatusCode::UnsupportedMediaType => {
                answer = answer.with(headers::ACCEPT, "application/sdp");
            }
            _ => {}
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            let answer = dress(request, answer);
            connection.answer(answer, (request.spoken(), request.sequence.as_deref()));
        }
    }

    /// `None`: it is being looked for.
    fn look_up(&mut self, number: u64, request: &Request, now: Time) -> Option<Answer> {
        let name = name_and_track(&request.path);
        let watched = match name.and_then(|(name, _)| named(name)) {
            None => Err(StatusCode::NotFound),
            Some(Named::Film(_)) if self.readers.is_full() => Err(StatusCode::ServiceUnavailable),
            Some(Named::Film(name)) => {
                self.readers.open(number, name.to_owned());
                Ok(())
            }
            Some(Named::Live(topic)) => self.watch(number, topic, now),
        };
        watched.err().map(Answer::new)
    }

    fn show(&self, film: Arc<Film>) -> Show {
        let reader = Reader::new(&self.settings.archive, &film);
        let player = Player::new(reader);
        Show::Film(Box::new(Reel {
            film,
            player,
            sent: None,
        }))
    }

    fn describe(
        &mut self,
        number: u64,
        request: &Request,
        film: &Film,
    ) -> Result<Answer, StatusCode> {
        let recording = &film.recording;
        let about = About {
            id: (recording.id.0, recording.end),
            name: &recording.name,
            range: format!("npt=0-{:.3}", film.length.as_secs_f64()),
            repeats: film.blocks.is_some() && wants_feedback(request),
            nodes: wants_nodes(request),
        };
        let tracks = (0..film.tracks.len())
            .filter_map(|number| Some((number, &film.track(number)?.info.media)));
        self.described(number, request, |base, host| {
            sdp::describe(&about, tracks, base, host)
        })
    }

    /// The answer to DESCRIBE, whose body is made of the URL and our address.
    pub(crate) fn described(
        &self,
        number: u64,
        request: &Request,
        text: impl FnOnce(&str, IpAddr) -> String,
    ) -> Result<Answer, StatusCode> {
        let base = base(&request.url);
        let connection = self.connections.get(&number);
        let connection = connection.ok_or(StatusCode::InternalServerError)?;
        let text = text(&base, connection.local.ip().to_canonical());
        let mut answer = Answer::ok().with(headers::CONTENT_BASE, base);
        answer.body = Some(("application/sdp", text));
        Ok(answer)
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

    /// RFC 2326 section 10.7: TEARDOWN.
    fn tear_down(&mut self, request: &Request) -> Result<Answer, StatusCode> {
        let (key, session) = self.known(request)?;
        let answer = session.spoken(Answer::ok());
        let track = name_and_track(&request.path).and_then(|(_, track)| track);
        if let Some(track) = track {
            session.outlets.retain(|outlet| outlet.number != track);
        }
        if track.is_none() || session.outlets.is_empty() {
            self.remove(key);
        }
        Ok(answer)
    }

    /// RFC 2326 sections 10.8 and 10.9: films by datagrams have a rate; a question without any
    /// keeps a session.
    fn parameter(&mut self, request: &Request, now: Time) -> Result<Answer, StatusCode> {
        if request.has_body() {
            let is_set = request.method == Method::SetParameter;
            return match request.session() {
                Some(_) => self.rate(request, is_set, now),
                None => Err(StatusCode::ParameterNotUnderstood),
            };
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
