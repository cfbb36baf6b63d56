//! Films that go by datagrams, wound on or back.
//!
//! The thread that sends films sends each datagram as it lies on the disks, by its number, from
//! whichever node has it. Of a film that is wound no datagram is as it lies there, so the front
//! makes and sends them like those of a recording, and hands the film back when it is to be played
//! at its pace.

use rtsp_types::headers;
use sangam_model::Time;

use crate::deliver::Order;
use crate::message::Request;
use crate::play::is_faster;
use crate::player::{Player, State};
use crate::range;
use crate::reading::Reader;
use crate::session::{Reel, Show, of_stream};
use crate::turn::Engine;

impl Engine {
    /// Lets those play a session's film who can at the scale that a PLAY asks for.
    pub(crate) fn wind(&mut self, key: u64, request: &Request, now: Time) {
        let wanted = of_stream(range::scale(request.header(&headers::SCALE)));
        let Some(session) = self.sessions.get(&key) else {
            return;
        };
        match &session.show {
            Show::Sent(sent) if wanted != 1.0 && !sent.is_direct => {
                self.order_all(session, &Order::Stop { session: key });
                self.take_over(key, now);
            }
            Show::Film(reel) if wanted == 1.0 && reel.sent.is_some() => {
                let asks = request.header(&headers::RANGE).is_some() || is_faster(request);
                let plays_on = session.state() == State::Playing && !asks;
                if !plays_on && session.asker.is_none() {
                    self.hand_back(key, now);
                }
            }
            _ => {}
        }
    }

    /// From the thread that sends films.
    fn take_over(&mut self, key: u64, now: Time) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let Show::Sent(sent) = &mut session.show else {
            return;
        };
        let (at, sequence, state) = (sent.at(now), sent.next(now), sent.state);
        let film = sent.film.clone();
        let mut reel = sent.wound.take().unwrap_or_else(|| {
            let player = Player::new(Reader::new(&self.settings.archive, &film));
            Box::new(Reel {
                film,
                player,
                sent: None,
            })
        });
        reel.player.rest(stopped(state), at);
        for outlet in &mut session.outlets {
            outlet.stream.number_on(sequence);
        }
        let before = std::mem::replace(&mut session.show, Show::Film(reel));
        if let (Show::Sent(sent), Show::Film(reel)) = (before, &mut session.show) {
            reel.sent = Some(sent);
        }
    }

    /// To the thread that sends films.
    fn hand_back(&mut self, key: u64, now: Time) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let Show::Film(reel) = &mut session.show else {
            return;
        };
        let Some(mut sent) = reel.sent.take() else {
            return;
        };
        let at = reel.player.at(now);
        let sequence = session.outlets.first().map(|one| one.stream.end(at));
        let sequence = sequence.map_or(0, |onset| onset.sequence);
        sent.rest(stopped(reel.player.state), (at, sequence));
        reel.player.rest(State::Paused, at);
        let before = std::mem::replace(&mut session.show, Show::Sent(sent));
        if let (Show::Film(reel), Show::Sent(sent)) = (before, &mut session.show) {
            sent.wound = Some(reel);
        }
    }
}

/// What a film does that was not begun elsewhere yet.
const fn stopped(state: State) -> State {
    match state {
        State::Ready | State::Starting => State::Ready,
        State::Playing | State::Paused => State::Paused,
        State::Ended => State::Ended,
    }
}
