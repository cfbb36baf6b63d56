//! Requests for films by datagrams, and what happens to them meanwhile.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError};

use rtsp_types::StatusCode;
use rtsp_types::headers::{self, HeaderName};
use sangam_io::clock;
use sangam_model::Time;

use super::order::{Order, Pace, local_source};
use super::show::Wish;
use super::{Booked, Delivery, News, Place, bits_of};
use crate::film::Film;
use crate::message::{Answer, Request};
use crate::play::{infos, wanted_part};
use crate::player::State;
use crate::range::{self, Way};
use crate::session::{Carrier, Session, Show};
use crate::turn::Engine;

/// What is asked for by name.
pub(crate) const FEATURE: &str = "sangam.nodes";
/// Bytes that every player takes ahead of time.
pub(crate) const BUFFER: u64 = 512 << 10;
/// Buffers that a client may name.
const BUFFERS: core::ops::RangeInclusive<u64> = 1_316..=1 << 30;
/// Bytes in a second that it may name.
const CONSTANTS: core::ops::RangeInclusive<u32> = 10_000..=20_000_000;
/// RFC 2326 section 12.22, and its parameter.
const PARAMETERS: &str = "text/parameters";
const RATE: &str = "rate";

fn name(text: &'static str) -> HeaderName {
    HeaderName::from_static_str(text).expect("names of headers here are ASCII")
}

/// Whether a client wants each block from the node that has it.
pub(crate) fn wants_nodes(request: &Request) -> bool {
    let required = request.header(&headers::REQUIRE).unwrap_or_default();
    required.split(',').any(|feature| feature.trim() == FEATURE)
}

/// Whether a client wants to hear how packets are asked for again.
pub(crate) fn wants_feedback(request: &Request) -> bool {
    let profile = request.header(&name("Sangam-Profile"));
    let is_named = profile.is_some_and(|profile| profile.trim() == "AVPF");
    let query = request.url.split_once('?').map_or("", |(_, query)| query);
    let is_in_url = query.split('&').any(|pair| pair == "profile=avpf");
    wants_nodes(request) || is_named || is_in_url
}

/// A pace that a client names; `None` if it is none.
fn pace(text: &str) -> Option<Pace> {
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next()?;
    let (mut buffer, mut constant) = (BUFFER, None);
    for part in parts {
        match part.split_once('=')? {
            ("buffer", value) => buffer = value.parse().ok()?,
            ("bytes-per-second", value) => constant = Some(value.parse().ok()?),
            _ => {}
        }
    }
    match (kind, constant) {
        ("clock", _) => Some(Pace::Clock),
        ("average", None) => Some(Pace::Average),
        ("average", Some(rate)) => CONSTANTS.contains(&rate).then_some(Pace::Constant(rate)),
        ("smooth", _) => BUFFERS.contains(&buffer).then_some(Pace::Smooth(buffer)),
        _ => None,
    }
}

/// The datagram from which on a client wants a film.
fn datagram(text: &str) -> Option<u64> {
    let (name, number) = text.split_once('=')?;
    let number = number.trim().parse().ok()?;
    (name.trim() == "datagram").then_some(number)
}

impl Engine {
    /// Makes a film that goes by datagrams one that is sent.
    pub(crate) fn deliver(
        &self,
        show: Show,
        request: &Request,
        (carrier, is_avpf): (Carrier, bool),
        sequence: u16,
    ) -> Result<Show, StatusCode> {
        let is_direct = wants_nodes(request);
        let film = match &show {
            Show::Film(reel) if carrier == Carrier::Udp => Some(reel.film.clone()),
            _ => None,
        };
        let by_rtx = is_avpf && !is_direct;
        let sent = film.and_then(|film| Delivery::new(film, (is_direct, by_rtx), sequence));
        match sent {
            Some(mut sent) => {
                sent.nodes = match is_direct {
                    true => self.alive(),
                    false => Vec::new(),
                };
                Ok(Show::Sent(Box::new(sent)))
            }
            None if is_direct => Err(StatusCode::UnsupportedTransport),
            None => Ok(show),
        }
    }

    /// Whether there is room for a film more.
    pub(crate) fn has_room(&self, show: &Show) -> bool {
        let none: BTreeMap<u32, Place> = BTreeMap::new();
        let (wanted, others) = match show {
            Show::Sent(sent) if sent.is_direct => (sent.bits(), &self.nodes),
            Show::Sent(sent) => (sent.bits(), &none),
            Show::Film(reel) => (bits_of_film(&reel.film), &none),
            Show::Live(_) => return true,
        };
        let own = self.booked();
        let booked = Booked { own, wanted };
        self.admission
            .admits(booked, &self.sending.totals, others.values())
    }

    /// Bits in a second that this node sends to players of its own front.
    fn booked(&self) -> u64 {
        let shares = self.sessions.values().map(|session| match &session.show {
            Show::Sent(sent) => sent.bits(),
            Show::Film(reel) => bits_of_film(&reel.film),
            Show::Live(_) => 0,
        });
        shares.sum()
    }

    /// This node and those that are there.
    fn alive(&self) -> Vec<u32> {
        let mut alive = vec![self.films.own_node()];
        alive.extend(self.nodes.keys());
        alive.sort_unstable();
        alive
    }

    /// What a client of many nodes is told when it set up.
    pub(crate) fn introduced(&self, key: u64, answer: Answer) -> Answer {
        let Some(session) = self.sessions.get(&key) else {
            return answer;
        };
        let (Show::Sent(sent), Some(outlet)) = (&session.show, session.outlets.first()) else {
            return answer;
        };
        if !sent.is_direct {
            return answer;
        }
        let ssrc = outlet.stream.ssrc();
        let own = (self.films.own_node(), self.place(session.local));
        let others = self
            .nodes
            .iter()
            .map(|(node, place)| (*node, place.clone()));
        let mut all: Vec<_> = std::iter::once(own).chain(others).collect();
        all.sort_by_key(|(node, _)| *node);
        let is_v6 = session.peer.is_ipv6();
        let texts = all.iter().filter_map(|(node, place)| {
            let mut pairs = place.udp.iter();
            let (rtp, rtcp) = pairs.find(|(rtp, _)| rtp.is_ipv6() == is_v6)?;
            let mut rtsp = place.rtsp.iter();
            let rtsp = rtsp.find(|address| address.is_ipv6() == is_v6);
            let rtsp = rtsp.map_or_else(String::new, |rtsp| format!(";rtsp=\"{rtsp}\""));
            let source = local_source(ssrc, *node);
            Some(format!(
                "{node};rtp=\"{rtp}\";rtcp=\"{rtcp}\"{rtsp};ssrc={source:08X}"
            ))
        });
        let texts: Vec<_> = texts.collect();
        answer
            .with(name("Sangam-Nodes"), texts.join(", "))
            .with(name("Sangam-Film"), sent.about())
    }

    /// Where this node is for a client that knows it by an address.
    fn place(&self, local: IpAddr) -> Place {
        let mut place = self.place.lock().map_or_else(
            |poisoned| poisoned.into_inner().clone(),
            |place| place.clone(),
        );
        let settle = |address: &mut SocketAddr| {
            if address.ip().is_unspecified() && address.is_ipv6() == local.is_ipv6() {
                address.set_ip(local);
            }
        };
        for (rtp, rtcp) in &mut place.udp {
            settle(rtp);
            settle(rtcp);
        }
        place.rtsp.iter_mut().for_each(settle);
        place
    }

    /// PLAY of a film that is sent.
    pub(crate) fn play_sent(
        &mut self,
        key: u64,
        request: &Request,
        now: Time,
    ) -> Result<Answer, StatusCode> {
        let shared_out = (self.alive(), self.changes());
        let session = self.sessions.get_mut(&key);
        let session = session.ok_or(StatusCode::SessionNotFound)?;
        let Show::Sent(sent) = &mut session.show else {
            return Err(StatusCode::InternalServerError);
        };
        let header = request.header(&headers::RANGE);
        let part = wanted_part(request, (sent.film.length, Way::On))?;
        let pace = match request.header(&name("Sangam-Pace")) {
            Some(text) => Some(pace(text).ok_or(StatusCode::ParameterNotUnderstood)?),
            None => None,
        };
        let speed = request.header(&headers::SPEED);
        let first = match request.header(&name("Sangam-From")) {
            Some(text) => Some(datagram(text).ok_or(StatusCode::ParameterNotUnderstood)?),
            None => None,
        };
        session.played.clone_from(&request.sequence);
        session.sought = header.is_some();
        let plays_on = header.is_none() && pace.is_none() && speed.is_none();
        if sent.state == State::Playing && plays_on {
            let at = sent.at(now);
            return Ok(session.playing(at));
        }
        let from = match (part.from, sent.state) {
            (None, State::Ready | State::Ended) => Some(std::time::Duration::ZERO),
            (from, _) => from,
        };
        let shared_out = match sent.is_direct {
            true => shared_out,
            false => (Vec::new(), shared_out.1),
        };
        let wish = Wish {
            from,
            first,
            until: part.until,
            speed: range::speed(speed),
            pace,
        };
        sent.start(wish, shared_out, now);
        let (start, onset, numbers) = (sent.begins(), sent.onsets().0, sent.numbers());
        self.counts.plays.one();
        self.order_play((key, None), now);
        let session = self.sessions.get(&key);
        let session = session.ok_or(StatusCode::SessionNotFound)?;
        let mut answer = session.playing(start);
        let onsets = session.outlets.iter().map(|outlet| (outlet.number, onset));
        if let Some(infos) = infos(session, onsets) {
            answer = answer.with(headers::RTP_INFO, infos);
        }
        Ok(answer.with(name("Sangam-Play"), numbers))
    }

    /// Tells all who send that they are to.
    fn order_play(&mut self, (key, since): (u64, Option<u64>), now: Time) {
        let own = self.films.own_node();
        let Some(session) = self.sessions.get(&key) else {
            return;
        };
        let Show::Sent(sent) = &session.show else {
            return;
        };
        let order = |leads| sent.order(session, (key, leads), (since, now));
        let (Some(lead), Some(follow)) = (order(true), order(false)) else {
            return;
        };
        let follow = Arc::new(follow);
        for node in sent.nodes.iter().filter(|node| **node != own) {
            if !self.peers.order(*node, &follow) {
                tracing::warn!(node, "it does not take orders");
            }
        }
        self.sending.mailbox.order(own, session.local, lead);
    }

    /// Tells all who send something else.
    pub(crate) fn order_all(&self, session: &Session, order: &Order) {
        let own = self.films.own_node();
        let Show::Sent(sent) = &session.show else {
            return;
        };
        let shared = Arc::new(order.clone());
        for node in sent.nodes.iter().filter(|node| **node != own) {
            self.peers.order(*node, &shared);
        }
        let order = order.clone();
        self.sending.mailbox.order(own, session.local, order);
    }

    /// PAUSE of a film that is sent; its range.
    pub(crate) fn pause_sent(&mut self, key: u64, now: Time) -> Option<String> {
        let session = self.sessions.get_mut(&key)?;
        let Show::Sent(sent) = &mut session.show else {
            return None;
        };
        let was_playing = sent.state == State::Playing;
        if was_playing {
            sent.pause(now);
        }
        let range = sent.range(sent.at(now));
        session.heard = now;
        if was_playing {
            let session = self.sessions.get(&key)?;
            self.order_all(session, &Order::Pause { session: key });
        }
        Some(range)
    }

    /// GET_PARAMETER and SET_PARAMETER with a body: the rate of a film that is sent.
    pub(crate) fn rate(
        &mut self,
        request: &Request,
        is_set: bool,
        now: Time,
    ) -> Result<Answer, StatusCode> {
        let unknown = StatusCode::ParameterNotUnderstood;
        let text = std::str::from_utf8(&request.body).map_err(|_| unknown)?;
        let (wanted, value) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        let (key, session) = self.known(request)?;
        let Show::Sent(sent) = &mut session.show else {
            return Err(unknown);
        };
        if !wanted.trim().eq_ignore_ascii_case(RATE) {
            return Err(unknown);
        }
        let mut rate = sent.rate;
        let mut moment = None;
        if is_set {
            let wanted: f64 = value.trim().parse().map_err(|_| unknown)?;
            if !wanted.is_finite() {
                return Err(unknown);
            }
            rate = sent.set_rate(wanted, now);
            moment = (sent.state == State::Playing).then(|| sent.moment(now));
        }
        let speed = sent.speed;
        let mut answer = session.spoken(Answer::ok());
        answer.body = Some((PARAMETERS, format!("{RATE}: {rate:.3}\r\n")));
        if let Some(now) = moment {
            self.counts.rate_changes.one();
            let order = Order::Rate {
                session: key,
                now,
                rate: rate * speed,
            };
            if let Some(session) = self.sessions.get(&key) {
                self.order_all(session, &order);
            }
        }
        Ok(answer)
    }

    /// What clients lost is sent again.
    pub(crate) fn send_again(&self, lost: Vec<(IpAddr, u32, Vec<u16>)>) {
        for (peer, source, numbers) in lost {
            self.sending.lost(peer, source, numbers);
        }
    }

    /// Takes what the sender and the other nodes say.
    pub(crate) fn heed_nodes(&mut self) {
        let now = clock::now();
        while let Ok(ended) = self.sending.ended.try_recv() {
            let key = ended.session;
            let Some(session) = self.sessions.get_mut(&key) else {
                continue;
            };
            if let Show::Sent(sent) = &mut session.show
                && sent.state == State::Playing
            {
                sent.end();
                session.heard = now;
                self.counts.ended.one();
                self.end_of_stream(key, now);
            }
        }
        while let Ok(news) = self.peers.news.try_recv() {
            match news {
                News::Up(node, place) => {
                    if self.nodes.insert(node, place).is_none() {
                        tracing::info!(node, "a node is there");
                        self.share_out(now);
                    }
                }
                News::Down(node) => {
                    if self.nodes.remove(&node).is_some() {
                        self.counts.nodes_lost.one();
                        self.share_out(now);
                    }
                }
                News::Refused(node, session, why) => {
                    tracing::info!(node, %why, "a node does not send a film");
                    if let Some(session) = self.sessions.get_mut(&session)
                        && let Show::Sent(sent) = &mut session.show
                    {
                        sent.refuse(node, now);
                    }
                    self.share_out(now);
                }
            }
        }
    }

    fn changes(&self) -> u64 {
        self.view.as_ref().map_or(0, |view| view.changes())
    }

    /// Looks at disks and nodes, and at how this node fares. To be called every second.
    pub(crate) fn sweep_nodes(&mut self, now: Time) {
        match self.films.view() {
            Ok(view) => {
                self.peers.follow(&self.films, &view);
                let nodes = view.nodes();
                self.nodes
                    .retain(|node, _| nodes.iter().any(|known| known.id == *node));
                self.view = Some(view);
            }
            Err(error) => tracing::warn!(%error, "the disks are not known"),
        }
        self.admission.measure(&self.sending.totals, now);
        let foreign = &self.sending.totals.foreign;
        let booked = self.booked() + foreign.load(std::sync::atomic::Ordering::Relaxed);
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        self.admission.tell(&mut place, booked);
        drop(place);
        self.share_out(now);
    }

    /// Lets those send that are there, where others were to.
    fn share_out(&mut self, now: Time) {
        let (alive, changes) = (self.alive(), self.changes());
        let mut again = Vec::new();
        for (key, session) in &mut self.sessions {
            let Show::Sent(sent) = &mut session.show else {
                continue;
            };
            if !sent.is_direct || sent.state != State::Playing {
                continue;
            }
            let willing = sent.willing(&alive, now);
            if willing != sent.nodes || changes != sent.changes {
                let gone = sent.nodes.iter().filter(|node| !willing.contains(node));
                let gone: Vec<_> = gone.copied().collect();
                let since = sent.share_out((willing, changes), now);
                again.push((*key, since, gone));
            }
        }
        for (key, since, gone) in again {
            let stop = Arc::new(Order::Stop { session: key });
            for node in gone {
                self.peers.order(node, &stop);
            }
            self.order_play((key, Some(since)), now);
        }
    }
}

fn bits_of_film(film: &Film) -> u64 {
    film.blocks
        .as_ref()
        .map_or(0, |blocks| bits_of(&blocks.film))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_within_bounds() {
        for (text, expected) in [
            ("clock", Some(Pace::Clock)),
            ("average", Some(Pace::Average)),
            (
                "average; bytes-per-second=100000",
                Some(Pace::Constant(100_000)),
            ),
            ("smooth", Some(Pace::Smooth(BUFFER))),
            ("smooth;buffer=4194304", Some(Pace::Smooth(4 << 20))),
            ("smooth;buffer=1", None),
            ("average;bytes-per-second=1", None),
            ("average;bytes-per-second=x", None),
            ("quick", None),
            ("", None),
        ] {
            assert_eq!(pace(text), expected, "{text}");
        }
    }
}
