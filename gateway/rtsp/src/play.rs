//! PLAY and PAUSE of films (RFC 2326 sections 10.5 and 10.6, RFC 7826 sections 13.4 and 13.6).

use std::time::Duration;

use rtsp_types::headers::{self, HeaderName};
use rtsp_types::{StatusCode, Version};
use sangam_model::Time;

use crate::egress::Onset;
use crate::message::{Answer, Request};
use crate::player::{State, Wish};
use crate::range::{self, Part, Way};
use crate::sdp;
use crate::session::{Session, Show};
use crate::turn::Engine;

impl Engine {
    /// RFC 2326 section 10.5: PLAY.
    pub(crate) fn play(
        &mut self,
        number: u64,
        request: &Request,
        now: Time,
    ) -> Result<Option<Answer>, StatusCode> {
        let (key, _) = self.known(request)?;
        self.wind(key, request, now);
        let (key, session) = self.known(request)?;
        match &session.show {
            Show::Sent(_) => self.play_sent(key, request, now).map(Some),
            Show::Live(_) => {
                session.played.clone_from(&request.sequence);
                self.play_live(key, now).map(Some)
            }
            Show::Film(_) => self.play_film((number, key), request, now),
        }
    }

    fn play_film(
        &mut self,
        (number, key): (u64, u64),
        request: &Request,
        now: Time,
    ) -> Result<Option<Answer>, StatusCode> {
        let gone = StatusCode::SessionNotFound;
        let is_busy = self.readers.is_full();
        let session = self.sessions.get_mut(&key).ok_or(gone)?;
        let Show::Film(reel) = &mut session.show else {
            return Err(gone);
        };
        if is_busy {
            return Err(StatusCode::ServiceUnavailable);
        }
        if session.asker.is_some() {
            return Err(StatusCode::MethodNotValidInThisState);
        }
        let header = request.header(&headers::RANGE);
        let speed = range::speed(request.header(&headers::SPEED));
        let wanted = range::scale(request.header(&headers::SCALE));
        let scale = reel.scale(&session.outlets, wanted);
        let part = wanted_part(request, (reel.film.length, range::way(scale)))?;
        if reel.player.state == State::Playing && header.is_none() && !is_faster(request) {
            // RFC 2326 section 10.5: it plays on.
            let at = reel.player.at(now);
            session.sought = false;
            return Ok(Some(session.playing(at)));
        }
        let zero = reel.film.zero;
        let begin = match range::way(scale) {
            Way::On => zero,
            Way::Back => zero + reel.film.length,
        };
        let from = match (part.from, reel.player.state) {
            (Some(from), _) => Some(zero + from),
            (None, State::Ready | State::Ended) => Some(begin),
            // Pictures between key frames can only be shown from one on.
            (None, _) if scale != reel.player.wish().scale => Some(reel.player.at(now)),
            (None, _) => None,
        };
        session.asker = Some(number);
        (session.played, session.sought) = (request.sequence.clone(), header.is_some());
        reel.player.start(Wish {
            from,
            until: part.until.map(|until| zero + until),
            speed,
            scale,
        });
        if let Some(job) = reel.player.job() {
            self.readers.read(key, job);
        }
        Ok(None)
    }

    /// The session whose film a connection waits for.
    pub(crate) fn waits_for(&self, number: u64) -> Option<u64> {
        let mut sessions = self.sessions.iter();
        let found = sessions.find(|(_, session)| session.asker == Some(number));
        found.map(|(key, _)| *key)
    }

    /// Begins to play, if all is there, and says so.
    pub(crate) fn begin(&mut self, key: u64, now: Time) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let Some(reel) = session.reel().filter(|reel| reel.player.is_set()) else {
            return;
        };
        let failure = reel.player.failure();
        if failure.is_some() {
            reel.player.state = State::Ready;
        }
        let asker = session.asker.take();
        let begun = match failure {
            Some(_) => None,
            None => session.begin(now),
        };
        let Some((start, onsets)) = begun else {
            let status = failure.unwrap_or(StatusCode::InternalServerError);
            return self.settle(asker, Answer::new(status));
        };
        let onsets = onsets.into_iter();
        let onsets = onsets.filter_map(|(number, onset)| Some((number, onset?)));
        let mut answer = session.playing(start);
        if let Some(infos) = infos(session, onsets) {
            answer = answer.with(headers::RTP_INFO, infos);
        }
        self.counts.plays.one();
        self.settle(asker, answer);
        self.pace(key, now);
    }

    /// RFC 2326 section 10.6: PAUSE.
    pub(crate) fn pause(&mut self, request: &Request, now: Time) -> Result<Answer, StatusCode> {
        let (key, session) = self.known(request)?;
        let may_pause = session.state() != State::Ready || request.is_second();
        let range = match &mut session.show {
            Show::Sent(_) if !may_pause => return Err(StatusCode::MethodNotValidInThisState),
            Show::Sent(_) => {
                let range = self.pause_sent(key, now);
                range.ok_or(StatusCode::SessionNotFound)?
            }
            Show::Film(reel) => {
                match reel.player.state {
                    State::Playing => reel.player.pause(),
                    State::Paused | State::Ended => {}
                    // RFC 7826 section 13.6: it says where it would begin.
                    State::Ready if request.is_second() => {}
                    State::Ready | State::Starting => {
                        return Err(StatusCode::MethodNotValidInThisState);
                    }
                }
                reel.range(reel.player.at(now))
            }
            Show::Live(seat) if seat.state == State::Ready && !request.is_second() => {
                return Err(StatusCode::MethodNotValidInThisState);
            }
            Show::Live(seat) => {
                if seat.state != State::Ready {
                    seat.state = State::Paused;
                }
                session.heard = now;
                range::NOW.to_owned()
            }
        };
        let (_, session) = self.known(request)?;
        Ok(session.spoken(Answer::ok()).with(headers::RANGE, range))
    }
}

/// Where tracks of a session go on (RFC 2326 section 12.33, RFC 7826 section 18.45); `None` if no
/// track does.
pub(crate) fn infos(
    session: &Session,
    onsets: impl Iterator<Item = (usize, Onset)>,
) -> Option<String> {
    let is_second = session.version == Version::V2_0;
    let infos = onsets.filter_map(|(number, onset)| {
        let Onset {
            sequence,
            timestamp,
        } = onset;
        let url = sdp::control(&session.base, number);
        let mut outlets = session.outlets.iter();
        let outlet = outlets.find(|outlet| outlet.number == number)?;
        let ssrc = outlet.stream.ssrc();
        Some(match is_second {
            true => {
                format!("url=\"{url}\" ssrc={ssrc:08X}:seq={sequence};rtptime={timestamp}")
            }
            false => format!("url={url};seq={sequence};rtptime={timestamp}"),
        })
    });
    let infos: Vec<_> = infos.collect();
    (!infos.is_empty()).then(|| infos.join(","))
}

/// The part of a film of this length, played this way, that a request asks for.
pub(crate) fn wanted_part(
    request: &Request,
    (length, way): (Duration, Way),
) -> Result<Part, StatusCode> {
    let Some(header) = request.header(&headers::RANGE) else {
        return Ok(Part {
            from: None,
            until: None,
        });
    };
    if request.is_second() && !range::is_known(header) {
        return Err(StatusCode::HeaderFieldNotValidForResource);
    }
    range::part(header, (length, way)).ok_or(StatusCode::InvalidRange)
}

/// Whether a request says how fast it is to be.
pub(crate) fn is_faster(request: &Request) -> bool {
    let asks = |name: &HeaderName| request.header(name).is_some();
    asks(&headers::SPEED) || asks(&headers::SCALE)
}
