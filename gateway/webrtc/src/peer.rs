//! One peer: the library's machine for it, what it publishes and what it receives.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use sangam_io::port::{Action, Context, PeerKey};
use sangam_model::{StreamId, Time};
use sangam_wire::{Message, Refusal};
use str0m::bwe::{Bitrate, BweKind};
use str0m::change::SdpOffer;
use str0m::net::Receive;
use str0m::{Event, IceConnectionState, Input, Output, Rtc};

use crate::clock::Clock;
use crate::counts::Counts;
use crate::credentials::{self, Ufrag};
use crate::egress::Egress;
use crate::end::End;
use crate::ingest::{Ingest, Means};
use crate::item::Item;
use crate::outbox::Outbox;
use crate::shown::{Pace, Shown};
use crate::signalling::{Arrival, Description, JoinError, PeerId, Restart, with_credentials};
use crate::slot::{LAYER_REQUEST, Wishes, Written};

/// How long a peer that is not heard may take to come back, for instance by a restart of ICE.
const RETURN_WITHIN: Duration = Duration::from_secs(30);
/// How long after a restart of ICE key frames are asked for once more: of those that came first,
/// amid all that is repeated then, two in fourteen were of no use to a browser.
const REFRESH_AGAIN: Duration = Duration::from_millis(500);
/// Addresses of one peer that are remembered: those of its candidates.
const ADDRESSES: usize = 8;
/// Rounds of one call: with a pacer each packet needs one.
const ROUNDS: usize = 128;
/// What the pacer calls at once. It lets one packet go for each look at the clock, and would have
/// the clock move between them; but what is late by as little is not late.
const AT_ONCE: Duration = Duration::from_micros(1);
/// What the library wants to do for a peer that can wait, it may do so much later: mostly it looks
/// at an estimate that nobody uses, 40 times a second. Its reports are due each second.
const SLACK: Duration = Duration::from_millis(100);
/// How often layers are judged by an estimate: the library tells only of changes.
const JUDGE: Duration = Duration::from_millis(500);
/// Candidates of a peer that are taken behind its offer, restarts included: the library keeps all
/// of them, and where a peer is the checks tell as well.
const TRICKLED_MAX: usize = 256;
/// The request number of a peer's token; others are counted from 1.
const TOKEN: u32 = 0;

/// A peer and everything that is its own.
pub(crate) struct Peer {
    pub(crate) id: PeerId,
    pub(crate) ufrag: Ufrag,
    rtc: Rtc,
    offer: String,
    holder: Option<String>,
    ingest: Ingest,
    egress: Egress,
    /// Where it was heard, and in which shard.
    addresses: Vec<(SocketAddr, u16)>,
    asking: Option<Asking>,
    connected: bool,
    /// When it is given up unless something changes.
    give_up: Option<Time>,
    /// When key frames are asked for once more.
    again: Option<Time>,
    /// When the library, having said all, wanted to be called again.
    next: Time,
    desired: u64,
    /// Candidates that it told behind its offer.
    trickled: usize,
    /// What its path carries, and when layers were judged by that.
    judged: Option<(Bitrate, Time)>,
    /// Of what it tells about its layout.
    pace: Pace,
}

/// Until the broker has answered everything, so does nobody else.
struct Asking {
    open: usize,
    answer: SyncSender<Result<(), Refusal>>,
}

/// What a peer is driven with.
pub(crate) struct Hands<'a, 'b> {
    pub(crate) key: PeerKey,
    pub(crate) cx: &'a mut Context<'b>,
    pub(crate) out: &'a mut Outbox,
    pub(crate) counts: &'a Counts,
    pub(crate) clock: Clock,
}

impl<'b> Hands<'_, 'b> {
    fn wishes(&mut self) -> Wishes<'_, 'b> {
        Wishes {
            peer: self.key,
            cx: self.cx,
            counts: self.counts,
        }
    }
}

impl Peer {
    /// A new peer; what it asks of the broker is queued.
    pub(crate) fn new(arrival: Arrival, ufrag: Ufrag, hands: &mut Hands<'_, '_>) -> Self {
        let mut open = 0;
        let (peer, actions) = (hands.key, &mut hands.cx.actions);
        if let Some(token) = arrival.token {
            open += 1;
            actions.push(Self::shows(peer, (token, arrival.address)));
        }
        for (request, input) in (1..).zip(arrival.ingest.inputs()) {
            open += 1;
            actions.push(Action::Publish {
                peer,
                request,
                topic: input.topic.clone(),
                media: input.media.clone(),
                source: None,
            });
        }
        for (request, filter) in (1..).zip(arrival.filters) {
            open += 1;
            actions.push(Action::Subscribe {
                peer,
                request,
                filter,
            });
        }
        Self {
            id: arrival.id,
            ufrag,
            rtc: arrival.rtc,
            offer: arrival.offer,
            holder: arrival.holder,
            ingest: arrival.ingest,
            egress: arrival.egress,
            addresses: Vec::new(),
            asking: Some(Asking {
                open,
                answer: arrival.answer,
            }),
            connected: false,
            give_up: Some(hands.cx.now + arrival.connect_within),
            again: None,
            next: Time::ZERO,
            desired: 0,
            trickled: 0,
            judged: None,
            pace: Pace::new(hands.cx.now),
        }
    }

    /// Shows the broker the token that a peer has, or has now.
    pub(crate) fn shows(peer: PeerKey, (token, address): (String, IpAddr)) -> Action {
        Action::Authenticate {
            peer,
            request: TOKEN,
            token,
            address,
        }
    }

    /// Whether this is a datagram that the peer has signed.
    pub(crate) fn accepts(&self, receive: &Input<'_>) -> bool {
        self.rtc.accepts(receive)
    }

    /// Where the peer is heard, and by which shard.
    pub(crate) fn addresses(&self) -> &[(SocketAddr, u16)] {
        &self.addresses
    }

    /// Remembers an address of the peer; the one that is given up for it, if there are too many.
    pub(crate) fn heard_at(&mut self, address: SocketAddr, via: u16) -> Option<(SocketAddr, u16)> {
        if self.addresses.iter().any(|(known, _)| *known == address) {
            return None;
        }
        self.addresses.push((address, via));
        (self.addresses.len() > ADDRESSES).then(|| self.addresses.remove(0))
    }

    /// Lets time pass, with or without a datagram; when to be called again.
    pub(crate) fn turn(
        &mut self,
        input: Option<Receive<'_>>,
        hands: &mut Hands<'_, '_>,
    ) -> Result<Time, End> {
        let now = hands.clock.instant(hands.cx.now);
        self.rtc.handle_input(match input {
            Some(receive) => Input::Receive(now, receive),
            None => Input::Timeout(now),
        })?;
        if self.again.is_some_and(|at| at <= hands.cx.now) {
            self.again = None;
            self.refresh(hands);
        }
        self.rounds(None, hands)
    }

    /// Lets the library say what it has to say; when to be called again. With `last`, and if the
    /// peer can wait, only until that has left: the library would like to be called once more after
    /// each packet, but has nothing to do then that is due before what it waited for already.
    fn rounds(&mut self, last: Option<Written>, hands: &mut Hands<'_, '_>) -> Result<Time, End> {
        let now = hands.cx.now;
        if let Some(last) = last
            && self.burst(last, hands)?
            && self.can_wait()
            && self.next + SLACK > now
        {
            return self.patience(self.next, now);
        }
        let mut next = self.drain(hands)?;
        for _ in 0..ROUNDS {
            if next > now + AT_ONCE {
                break;
            }
            let before = hands.out.len();
            self.look(hands)?;
            next = self.drain(hands)?;
            if hands.out.len() == before {
                break;
            }
        }
        self.next = next;
        self.patience(next, now)
    }

    /// Lets the library look at the clock.
    fn look(&mut self, hands: &Hands<'_, '_>) -> Result<(), End> {
        let at = hands.clock.instant(hands.cx.now);
        Ok(self.rtc.handle_input(Input::Timeout(at))?)
    }

    /// Takes the packets of a burst up to `last`; whether that was among them. The pacer gives one
    /// for each look at the clock, so nobody asks in between when it wants to be called again.
    fn burst(&mut self, last: Written, hands: &mut Hands<'_, '_>) -> Result<bool, End> {
        for _ in 0..ROUNDS {
            match self.rtc.poll_output()? {
                Output::Timeout(_) if self.rtc.is_alive() => return Ok(false),
                Output::Timeout(_) => return Err(End::Left),
                Output::Transmit(transmit) => {
                    let left = last.is(&transmit.contents);
                    hands.out.push(transmit);
                    if left {
                        return Ok(true);
                    }
                    self.look(hands)?;
                }
                Output::Event(event) => self.event(event, hands)?,
            }
        }
        Ok(false)
    }

    /// Whether its timers are not urgent, and nobody needs to know what its path carries: a
    /// publisher's ask for what was lost, and where there are layers the path decides on them.
    pub(crate) fn can_wait(&self) -> bool {
        self.connected && self.ingest.inputs().is_empty() && !self.egress.is_layered()
    }

    /// When to be called again, unless the peer is given up.
    fn patience(&self, next: Time, now: Time) -> Result<Time, End> {
        let next = if self.can_wait() { next + SLACK } else { next };
        let next = self.again.map_or(next, |at| next.min(at));
        match self.give_up {
            Some(at) if at <= now && self.connected => Err(End::Lost),
            Some(at) if at <= now => Err(End::Unconnected),
            Some(at) => Ok(next.min(at)),
            None => Ok(next),
        }
    }

    /// Sends a burst; when to be called again, if anything was sent.
    pub(crate) fn send(
        &mut self,
        burst: &mut [Item],
        hands: &mut Hands<'_, '_>,
    ) -> Result<Option<Time>, End> {
        let at = hands.clock.instant(hands.cx.now);
        let last = self
            .egress
            .write(burst, (&mut self.rtc, at), &mut hands.wishes());
        if last.is_none() {
            return Ok(None);
        }
        if let Some((estimate, at)) = self.judged
            && hands.cx.now - at >= JUDGE
        {
            self.estimated(estimate, hands);
        }
        self.rtc.handle_input(Input::Timeout(at))?;
        self.rounds(last, hands).map(Some)
    }

    /// The broker tells something.
    pub(crate) fn told(&mut self, message: Message, hands: &mut Hands<'_, '_>) -> Result<(), End> {
        match message {
            Message::Published { request, stream } => {
                self.ingest
                    .published(request.saturating_sub(1) as usize, stream);
                self.answered();
            }
            Message::Accepted { request } if request != LAYER_REQUEST => self.answered(),
            Message::Refused { request, reason } if request != LAYER_REQUEST => {
                if let Some(asking) = self.asking.take() {
                    let _ = asking.answer.send(Err(reason));
                }
                return Err(End::Refused(reason));
            }
            Message::Announce {
                stream,
                topic,
                media,
            } => self
                .egress
                .announced((stream, topic, media), &mut hands.wishes()),
            Message::Retire { stream } if !self.ingest.retired(stream) => {
                self.egress.retired(stream, &mut hands.wishes());
            }
            _ => {}
        }
        Ok(())
    }

    /// Feedback about a stream that the peer publishes: a wish for a key frame. What is lost on its
    /// way here the library asks for itself, and what was lost behind is in the broker's caches.
    pub(crate) fn asked_for_key_frame(&mut self, stream: StreamId) -> Result<(), End> {
        self.ingest.ask_key_frame(stream, &mut self.rtc);
        Ok(())
    }

    /// Candidates that the peer found later.
    pub(crate) fn trickle(&mut self, candidates: Vec<str0m::Candidate>) -> Result<(), End> {
        let room = TRICKLED_MAX.saturating_sub(self.trickled);
        for candidate in candidates.into_iter().take(room) {
            self.rtc.add_remote_candidate(candidate);
            self.trickled += 1;
        }
        Ok(())
    }

    /// How high the peer shows its videos.
    pub(crate) fn show(
        &mut self,
        shown: &[Shown],
        hands: &mut Hands<'_, '_>,
    ) -> Result<(), JoinError> {
        let told = match self.pace.takes(hands.cx.now) {
            false => Err(JoinError::TooOften),
            true if self.egress.show(shown, &mut hands.wishes()) => Ok(()),
            true => Err(JoinError::Shown),
        };
        match told.is_ok() {
            true => hands.counts.shown.one(),
            false => hands.counts.shown_refused.one(),
        }
        told
    }

    /// Starts ICE anew.
    pub(crate) fn restart(
        &mut self,
        restart: Restart,
        hands: &mut Hands<'_, '_>,
    ) -> Result<(), End> {
        let offer = with_credentials(&self.offer, &restart.theirs);
        let failed = |error: String| End::Failed(error);
        let sdp = SdpOffer::from_sdp_string(&offer).map_err(|error| failed(error.to_string()))?;
        self.rtc.sdp_api().accept_offer(sdp)?;
        self.ufrag = credentials::ufrag(&restart.ours.ufrag)
            .ok_or_else(|| failed("credentials of another make".to_owned()))?;
        self.rtc
            .direct_api()
            .set_local_ice_credentials(restart.ours);
        self.trickle(restart.candidates)?;
        self.give_up = Some(hands.cx.now + RETURN_WITHIN);
        self.offer = offer;
        // The path before may work again, long before the browser has found another one.
        self.refresh(hands);
        self.again = Some(hands.cx.now + REFRESH_AGAIN);
        Ok(())
    }

    /// Goes on with key frames in both directions. What was sent while a path was cut nobody has
    /// any more to send again; browsers would wait two to three seconds before they ask for one.
    fn refresh(&mut self, hands: &mut Hands<'_, '_>) {
        self.ingest.ask_key_frames(&mut self.rtc);
        self.egress.refresh(&mut hands.wishes());
    }

    /// Says goodbye as far as the peer can be reached.
    pub(crate) fn close(&mut self, hands: &mut Hands<'_, '_>) {
        if self.rtc.close().is_ok() {
            let _ = self.drain(hands);
        }
    }

    pub(crate) fn describe(&self) -> Description {
        let inputs = self.ingest.inputs().iter();
        Description {
            connected: self.connected,
            publishes: inputs.map(|input| input.topic.clone()).collect(),
            plays: self.egress.shown(),
            holder: self.holder.clone(),
            generation: String::from_utf8_lossy(&self.ufrag).into_owned(),
        }
    }

    fn answered(&mut self) {
        let Some(asking) = &mut self.asking else {
            return;
        };
        asking.open = asking.open.saturating_sub(1);
        if asking.open == 0
            && let Some(asking) = self.asking.take()
        {
            // Whoever asked may have given up waiting.
            let _ = asking.answer.send(Ok(()));
        }
    }

    /// Takes everything that the library has to say now; when it wants to be called again.
    fn drain(&mut self, hands: &mut Hands<'_, '_>) -> Result<Time, End> {
        loop {
            match self.rtc.poll_output()? {
                Output::Timeout(at) if self.rtc.is_alive() => return Ok(hands.clock.time(at)),
                Output::Timeout(_) => return Err(End::Left),
                Output::Transmit(transmit) => hands.out.push(transmit),
                Output::Event(event) => self.event(event, hands)?,
            }
        }
    }

    fn event(&mut self, event: Event, hands: &mut Hands<'_, '_>) -> Result<(), End> {
        let peer = hands.key;
        match event {
            Event::Connected => {
                hands.counts.connected.one();
                self.connected = true;
                self.give_up = None;
                self.egress.connected(&mut hands.wishes());
            }
            Event::IceConnectionStateChange(IceConnectionState::Disconnected) => {
                self.give_up = Some(hands.cx.now + RETURN_WITHIN);
            }
            Event::IceConnectionStateChange(
                IceConnectionState::Connected | IceConnectionState::Completed,
            ) if self.connected && self.give_up.take().is_some() => self.refresh(hands),
            Event::RtpPacket(packet) => {
                let means = Means {
                    pool: hands.cx.pool,
                    now: hands.cx.now,
                    counts: hands.counts,
                };
                let actions = &mut hands.cx.actions;
                let give = |packet| actions.push(Action::Ingest { peer, packet });
                self.ingest.events(&packet, &mut self.rtc, means, give);
            }
            Event::SenderFeedback(report) => {
                let event = self.ingest.report(&report, hands.cx.pool);
                let action = event.map(|packet| Action::Ingest { peer, packet });
                hands.cx.actions.extend(action);
            }
            Event::KeyframeRequest(request) => {
                self.egress
                    .key_frame_wanted(request.mid, &mut hands.wishes());
            }
            Event::EgressBitrateEstimate(BweKind::Twcc { estimate, .. }) => {
                self.estimated(estimate, hands);
            }
            Event::ChannelData(_) => hands.counts.channel_data.one(),
            Event::Closed => return Err(End::Left),
            _ => {}
        }
        Ok(())
    }

    fn estimated(&mut self, estimate: Bitrate, hands: &mut Hands<'_, '_>) {
        let now = hands.cx.now;
        self.judged = Some((estimate, now));
        tracing::trace!(peer = %self.id, %estimate, "the path is estimated");
        self.egress
            .estimated(estimate.as_u64(), &mut hands.wishes());
        let desired = self.egress.desired(now).unwrap_or(0);
        if desired != self.desired {
            self.desired = desired;
            self.rtc
                .bwe()
                .set_bitrate(Bitrate::ZERO, Bitrate::bps(desired));
        }
    }
}
