//! What players ask of a topic: DESCRIBE, SETUP, PLAY and PAUSE.

use rtsp_types::headers;
use rtsp_types::{Method, StatusCode};
use sangam_model::{Class, Time, Topic};
use sangam_wire::Refusal;

use super::track::Now;
use super::watch::Watch;
use super::{Live, Seat};
use crate::egress::Onset;
use crate::limits::{ASKERS_PER_ADDRESS, WATCHES_MAX};
use crate::message::{Answer, Request};
use crate::play::infos;
use crate::player::State;
use crate::range;
use crate::sdp::{self, About};
use crate::session::Show;
use crate::turn::Engine;

impl Engine {
    /// Lets a connection wait until it is known what is published on a topic; at once, if it asks
    /// in vain.
    pub(crate) fn watch(&mut self, number: u64, topic: &str, now: Time) -> Result<(), StatusCode> {
        let live = self.live.as_ref().ok_or(StatusCode::NotFound)?;
        let topic = Topic::new(topic).map_err(|_| StatusCode::NotFound)?;
        if topic.is_system() {
            return Err(StatusCode::NotFound);
        }
        let peer = |number: &u64| {
            let connection = self.connections.get(number);
            connection.map(|connection| connection.peer.ip().to_canonical())
        };
        let own = peer(&number);
        let waiting = live.watches.values().flat_map(|watch| &watch.askers);
        if waiting.filter(|asker| peer(asker) == own).count() >= ASKERS_PER_ADDRESS {
            return Err(StatusCode::ServiceUnavailable);
        }
        let mut watches = live.watches.iter();
        let known = watches.find(|(_, watch)| watch.topic == topic);
        let key = match known.map(|(key, _)| *key) {
            Some(key) => key,
            None => self.subscribe(topic, now)?,
        };
        let watches = self.live.as_mut().map(|live| &mut live.watches);
        if let Some(watch) = watches.and_then(|watches| watches.get_mut(&key)) {
            watch.askers.push(number);
        }
        Ok(())
    }

    fn subscribe(&mut self, topic: Topic, now: Time) -> Result<u64, StatusCode> {
        let key = self.number();
        let live = self.live.as_mut().ok_or(StatusCode::NotFound)?;
        if live.watches.len() >= WATCHES_MAX {
            return Err(StatusCode::ServiceUnavailable);
        }
        let mut watch = Watch::new(topic, now);
        if let Err(error) = live.client.subscribe(&watch.filter) {
            tracing::warn!(%error, topic = %watch.topic, "a topic is not watched");
            return Err(StatusCode::ServiceUnavailable);
        }
        // Those that other subscriptions brought are not announced again.
        for (stream, (topic, media)) in &live.announced {
            if let Some((number, _)) = watch.announced(*stream, (topic, media), now) {
                live.places.entry(*stream).or_default().push((key, number));
            }
        }
        live.watches.insert(key, watch);
        self.counts.live_topics.one();
        self.set_timers();
        Ok(key)
    }

    /// Answers all who wait for what is known by now.
    pub(crate) fn tell_askers(&mut self, now: Time) {
        let Some(live) = &mut self.live else {
            return;
        };
        let mut told = Vec::new();
        for (key, watch) in &mut live.watches {
            if watch.settles.is_none_or(|at| at <= now) {
                watch.settles = None;
                told.extend(watch.askers.drain(..).map(|asker| (*key, asker)));
            }
        }
        for (key, asker) in &told {
            let connection = self.connections.get_mut(asker);
            let Some(request) = connection.and_then(|one| one.pending.take()) else {
                continue;
            };
            let answer = match request.method {
                Method::Describe => self.describe_live(*asker, &request, *key),
                _ => self.open_live(*asker, &request, (*key, now)),
            };
            let answer = answer.unwrap_or_else(Answer::new);
            self.answer(*asker, &request, answer);
            self.roused.push(*asker);
        }
        for (key, _) in told {
            self.leave_silent(key, now);
        }
    }

    /// Ends the subscription to a topic where nothing is: whoever asks for many such costs little.
    fn leave_silent(&mut self, key: u64, now: Time) {
        let Some(live) = &mut self.live else {
            return;
        };
        let Some(watch) = live.watches.get_mut(&key) else {
            return;
        };
        watch.left = now;
        if watch.tracks.is_empty() && watch.askers.is_empty() && watch.sessions.is_empty() {
            live.drop_watch(key);
        }
    }

    fn describe_live(
        &self,
        number: u64,
        request: &Request,
        key: u64,
    ) -> Result<Answer, StatusCode> {
        let live = self.live.as_ref().ok_or(StatusCode::NotFound)?;
        let watch = live.watches.get(&key).ok_or(StatusCode::NotFound)?;
        if watch.published().next().is_none() {
            return Err(live.silence(watch));
        }
        let about = About {
            id: (key, watch.version),
            name: watch.topic.as_str(),
            range: range::NOW.to_owned(),
            repeats: false,
            nodes: false,
        };
        let tracks = watch.published().map(|track| (track.number, &track.media));
        self.described(number, request, |base, host| {
            sdp::describe(&about, tracks, base, host)
        })
    }

    fn open_live(
        &mut self,
        number: u64,
        request: &Request,
        (key, now): (u64, Time),
    ) -> Result<Answer, StatusCode> {
        let live = self.live.as_ref().ok_or(StatusCode::NotFound)?;
        let watch = live.watches.get(&key).ok_or(StatusCode::NotFound)?;
        if watch.published().next().is_none() {
            return Err(live.silence(watch));
        }
        let seat = Seat {
            watch: key,
            state: State::Ready,
        };
        self.open(number, request, (Show::Live(seat), now))
    }

    /// The session with this key plays at a topic from now on.
    pub(crate) fn sit_down(&mut self, watch: u64, session: u64) {
        let watches = self.live.as_mut().map(|live| &mut live.watches);
        if let Some(watch) = watches.and_then(|watches| watches.get_mut(&watch)) {
            watch.sessions.push(session);
        }
    }

    /// The number and the clock rate of a track of a topic; without a number that of its only one.
    pub(crate) fn live_track(&self, watch: u64, number: Option<usize>) -> Option<(usize, u32)> {
        let watch = self.live.as_ref()?.watches.get(&watch)?;
        let track = match number {
            Some(number) => watch.track(number)?,
            None => {
                let mut all = watch.published();
                all.next().filter(|_| all.next().is_none())?
            }
        };
        Some((track.number, track.media.clock_rate))
    }

    /// PLAY: whatever range is asked for, the answer is the present.
    pub(crate) fn play_live(&mut self, key: u64, now: Time) -> Result<Answer, StatusCode> {
        let gone = StatusCode::SessionNotFound;
        let session = self.sessions.get_mut(&key).ok_or(gone)?;
        let Show::Live(seat) = &mut session.show else {
            return Err(gone);
        };
        let watch = seat.watch;
        if seat.state == State::Playing {
            return Ok(session.live());
        }
        seat.state = State::Playing;
        let now = Now { time: now, ntp: 0 };
        let known = self.live.as_ref().and_then(|live| live.watches.get(&watch));
        let mut onsets: Vec<(usize, Onset)> = Vec::new();
        let mut pictures = Vec::new();
        for outlet in &mut session.outlets {
            let track = known.and_then(|watch| watch.track(outlet.number));
            let is_video = track.is_some_and(|track| track.media.class == Class::Video);
            if let Some(track) = track {
                outlet.meet(track.life, now.time, is_video);
            }
            outlet.begin(now.time, is_video);
            if let Some(moment) = track.and_then(|track| track.moment()) {
                onsets.push((outlet.number, outlet.stream.onset(now.at(), moment)));
            }
            if is_video {
                pictures.push(outlet.number);
            }
        }
        let mut answer = session.live();
        if let Some(infos) = infos(session, onsets.into_iter()) {
            answer = answer.with(headers::RTP_INFO, infos);
        }
        self.counts.plays.one();
        for number in pictures {
            self.ask(watch, number, now.time);
        }
        Ok(answer)
    }
}

impl Live {
    /// Why nothing is published on a topic: nobody does, this server may not hear it, or it cannot
    /// be told at present.
    fn silence(&self, watch: &Watch) -> StatusCode {
        match watch.refused {
            _ if self.client.up().is_none() => StatusCode::ServiceUnavailable,
            Some(Refusal::Forbidden | Refusal::Unauthenticated | Refusal::Expired) => {
                StatusCode::Forbidden
            }
            Some(_) => StatusCode::ServiceUnavailable,
            None => StatusCode::NotFound,
        }
    }
}
