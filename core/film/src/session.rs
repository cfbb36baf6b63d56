//! One client and one film.

mod talk;

use core::time::Duration;
use std::net::SocketAddr;

use rtsp_types::Method;
use rtsp_types::headers;
use sangam_model::Time;
use sangam_wire::rtcp;
use sangam_wire::rtp::Packet;

use crate::answers::{Node, Place, Setup};
use crate::dialog::{Dialog, DialogError};
use crate::failure::Failure;
use crate::flow::Flow;
use crate::fronts::Fronts;
use crate::losses::{Ask, Losses};
use crate::nack;
use crate::numbers::{Numbers, extend};
use crate::options::{Options, Pace};
use crate::order::{Held, Order, Played};

/// How often [`Session::tick`] wants to be called.
pub const TICK: Duration = Duration::from_millis(20);
/// How often the buffer is looked at for the rate.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// A session whose server hears nothing ends after a minute.
const ALIVE_EVERY: Duration = Duration::from_secs(20);
/// Where nothing comes for so long the front is asked whether it is there, again and again,
const QUIET: Duration = Duration::from_secs(1);
/// and after so long it is not; so long it may take to begin at another one as well.
const PATIENCE: Duration = Duration::from_secs(3);
/// Bytes of the film in a datagram.
const DATAGRAM: usize = 1_316;
/// Of the film's clock, in a second (RFC 2250).
const CLOCK_RATE: u32 = 90_000;

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits for the answer to this.
    Asking(Method),
    /// Packets come.
    Playing,
    /// Everything was played.
    Ended,
    /// It does not play, or no more.
    Failed(Failure),
}

/// What a session counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets of the film that came, those that came again among them.
    pub packets: u64,
    /// Their bytes of the film.
    pub bytes: u64,
    /// Packets of before the last PLAY, or of elsewhere, or that are none.
    pub strays: u64,
    /// Rates asked for.
    pub rate_changes: u64,
    /// Packets missed when the next one came.
    pub missed: u64,
    /// Packets asked for, each time.
    pub asked: u64,
    /// Packets that came after that.
    pub repaired: u64,
    /// How often the film went on by way of another node.
    pub moves: u64,
    /// What became of those that were held.
    pub played: Played,
}

/// One client, one film, no socket.
#[derive(Debug)]
pub struct Session<P> {
    options: Options,
    dialog: Dialog,
    stage: Stage,
    /// What the server has to answer before it sends.
    awaited: Option<Method>,
    fronts: Fronts,
    /// Since when it is set up anew by another front, while what is held is played.
    moving: Option<Time>,
    /// A connection that is to be made.
    wanted: Option<SocketAddr>,
    /// Why not all of the film came, once what came is played.
    cut_short: Option<Failure>,
    base: Option<String>,
    control: String,
    setup: Setup,
    /// Of SETUP, until PLAY is answered; and whether nodes are asked for.
    coming: Setup,
    wants_nodes: bool,
    place: Place,
    /// Its packets have the numbers of datagrams where those are known, else global ones.
    order: Order<P>,
    /// A global number and what that is there.
    shift: (u64, u64),
    losses: Losses,
    flow: Option<Flow>,
    /// The highest global number, and the latest time of the film with its timestamp.
    highest: u64,
    clock: (Duration, u32),
    /// Local numbers are there.
    is_direct: bool,
    sampled: Time,
    spoken: Time,
    /// When something came last.
    heard: Time,
    counts: Counts,
    outgoing: Vec<(SocketAddr, Vec<u8>)>,
    ssrc: u32,
}

impl<P> Session<P> {
    /// Begins: what is to be said is there at once, for the server to which there is a connection.
    ///
    /// # Errors
    /// [`DialogError::Url`].
    pub fn new(
        options: Options,
        server: Option<SocketAddr>,
        ssrc: u32,
    ) -> Result<Self, DialogError> {
        let dialog = Dialog::new(&options.url, options.login.clone())?;
        let flow = options.thresholds.map(Flow::new);
        let mut session = Self {
            is_direct: options.direct,
            wants_nodes: options.direct,
            order: Order::new(0, (options.buffer.mul_f64(options.begin), u64::MAX)),
            fronts: Fronts::new(server, options.fronts.clone()),
            options,
            dialog,
            stage: Stage::Asking(Method::Describe),
            awaited: None,
            moving: None,
            wanted: None,
            cut_short: None,
            base: None,
            control: String::new(),
            setup: Setup::default(),
            coming: Setup::default(),
            place: Place::default(),
            shift: (0, 0),
            losses: Losses::new(0),
            flow,
            highest: 0,
            clock: (Duration::ZERO, 0),
            sampled: Time::ZERO,
            spoken: Time::ZERO,
            heard: Time::ZERO,
            counts: Counts::default(),
            outgoing: Vec::new(),
            ssrc,
        };
        session.describe()?;
        Ok(session)
    }

    /// How far it is.
    #[must_use]
    pub const fn stage(&self) -> &Stage {
        &self.stage
    }

    /// What SETUP gave.
    #[must_use]
    pub const fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Where playing began.
    #[must_use]
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// What is held.
    #[must_use]
    pub const fn order(&self) -> &Order<P> {
        &self.order
    }

    /// The rate that was asked for last.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.flow.as_ref().map_or(1.0, Flow::rate)
    }

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            rate_changes: self.flow.as_ref().map_or(0, Flow::changes),
            missed: self.losses.missed(),
            asked: self.losses.asked(),
            repaired: self.losses.repaired(),
            played: self.order.played(),
            ..self.counts
        }
    }

    /// Bytes to be sent by the connection; none before one that is wanted is asked for.
    pub fn said(&mut self) -> Vec<u8> {
        match self.wanted {
            Some(_) => Vec::new(),
            None => self.dialog.outgoing(),
        }
    }

    /// Datagrams to be sent from the RTCP port.
    pub fn datagrams(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        core::mem::take(&mut self.outgoing)
    }

    /// Ends the session; what is to be said is the last.
    pub fn leave(&mut self) {
        if self.dialog.session().is_some() {
            // Nobody waits for the answer.
            let _ = self.dialog.ask(Method::Teardown, &[], &[]);
        }
        if !matches!(self.stage, Stage::Failed(_)) {
            self.stage = Stage::Ended;
        }
    }

    /// Where a connection is wanted, once, in place of the one that is there: what is said from now
    /// on goes there. If there is none to be had, [`Session::hear`] is told of its end.
    pub const fn wants(&mut self) -> Option<SocketAddr> {
        self.wanted.take()
    }

    /// Takes bytes of the connection; none are its end.
    pub fn hear(&mut self, now: Time, bytes: &[u8]) {
        if bytes.is_empty() {
            self.broken(now, Failure::broken("the server closed the connection"));
            return;
        }
        self.heard = now;
        if let Err(error) = self.listen(now, bytes) {
            self.broken(now, Failure::broken(error));
        }
    }

    /// Bytes that the buffer holds, if the film's rate is known.
    fn capacity(&self) -> Option<f64> {
        let rate = self.setup.bytes_per_s(DATAGRAM)?;
        Some(rate * self.options.buffer.as_secs_f64())
    }

    /// Takes a datagram of the RTP port; `keep` makes of the film's bytes what is held of them.
    pub fn packet(&mut self, now: Time, datagram: &[u8], keep: impl FnOnce(&[u8]) -> P) {
        let packet = match (&self.stage, Packet::decode(datagram)) {
            (Stage::Playing, Ok(packet)) => packet,
            _ => {
                self.counts.strays += 1;
                return;
            }
        };
        let gsn = extend(self.highest, packet.header.sequence);
        let is_ours = self
            .setup
            .ssrc
            .is_none_or(|ssrc| ssrc == packet.header.ssrc);
        if !is_ours || self.place.gsn.is_some_and(|first| gsn < first) {
            self.counts.strays += 1;
            return;
        }
        self.highest = self.highest.max(gsn);
        self.heard = now;
        let at = self.film_time(packet.header.timestamp);
        let numbers = Numbers::read(packet.extension);
        if self.options.repair && self.is_direct {
            self.losses.arrive(now, gsn, numbers, at);
        }
        let bytes = packet.payload.len() as u32;
        self.counts.packets += 1;
        self.counts.bytes += u64::from(bytes);
        let payload = keep(packet.payload);
        let (known, number) = self.shift;
        let number = gsn.wrapping_sub(known).wrapping_add(number);
        self.order.arrive(number, Held { at, bytes, payload });
    }

    /// The time of the film at a timestamp, which wraps after 13 hours.
    fn film_time(&mut self, timestamp: u32) -> Duration {
        let (at, known) = self.clock;
        let ticks = timestamp.wrapping_sub(known) as i32;
        let apart = Duration::from_nanos(
            u64::from(ticks.unsigned_abs()) * 1_000_000_000 / u64::from(CLOCK_RATE),
        );
        if ticks >= 0 {
            let later = at + apart;
            // From here on, so that long films do not wrap.
            if apart > Duration::from_secs(3_600) {
                self.clock = (later, timestamp);
            }
            return later;
        }
        at.saturating_sub(apart)
    }

    /// Takes a datagram of the RTCP port.
    pub fn report(&mut self, datagram: &[u8]) {
        let mut packets = rtcp::packets(datagram).map_while(Result::ok);
        let ssrc = self.setup.ssrc;
        // That of a front that was left says nothing of the film.
        let is_end = |packet| match packet {
            rtcp::Packet::Bye(sources) => {
                ssrc.is_none_or(|ssrc| sources.iter().any(|source| source == ssrc))
            }
            _ => false,
        };
        if packets.any(is_end) {
            self.order.end();
        }
    }

    /// Plays what is due, asks for what is lost, and for another rate. To be called each [`TICK`].
    pub fn tick(&mut self, now: Time, play: impl FnMut(Held<P>)) {
        if self.stage != Stage::Playing {
            return;
        }
        self.order.advance(now, play);
        if self.order.is_over() {
            self.leave();
            if let Some(why) = self.cut_short.take() {
                self.stage = Stage::Failed(why);
            }
            return;
        }
        if self.options.repair && self.is_direct {
            self.repair(now);
        }
        match self.moving {
            Some(since) if now.since(since) >= PATIENCE => {
                self.move_on(now, Failure::broken("no server answers"))
            }
            Some(_) => {}
            None => self.talk(now),
        }
    }

    /// Says what there is to say to a front that is there, or leaves it.
    fn talk(&mut self, now: Time) {
        if now.since(self.sampled) >= SAMPLE_EVERY {
            self.sampled = now;
            self.sample(now);
        }
        let (silent, is_watched) = (now.since(self.heard), self.fronts.has_other());
        if silent >= PATIENCE && is_watched && !self.order.is_ending() {
            self.move_on(now, Failure::broken("the server is silent"));
            return;
        }
        let is_quiet = silent >= QUIET && is_watched;
        let every = if is_quiet { QUIET } else { ALIVE_EVERY };
        if now.since(self.spoken) >= every {
            self.spoken = now;
            // A server that answers nothing is found out by what it sends.
            let _ = self.dialog.ask(Method::GetParameter, &[], &[]);
        }
    }

    fn sample(&mut self, now: Time) {
        if !self.is_direct || !self.order.is_playing() {
            return;
        }
        let Some(capacity) = self.capacity() else {
            return;
        };
        let held = self.order.bytes() as f64;
        let ahead = self.order.ahead(now).as_secs_f64();
        let filled = match self.options.pace {
            Pace::Clock => ahead / self.options.buffer.as_secs_f64(),
            _ => held / capacity,
        };
        let Some(flow) = &mut self.flow else {
            return;
        };
        if let Some(rate) = flow.sample(filled, 1.0) {
            let body = format!("rate: {rate:.3}\r\n");
            let kind = [(headers::CONTENT_TYPE, "text/parameters".to_owned())];
            // A server that answers nothing is found out by what it sends.
            let _ = self
                .dialog
                .ask(Method::SetParameter, &kind, body.as_bytes());
            self.spoken = now;
        }
    }

    fn repair(&mut self, now: Time) {
        let head = self.order.head(now);
        let mut asks = Vec::new();
        self.losses.asks(now, head, |ask| asks.push(ask));
        for ask in asks {
            self.ask(&ask);
        }
    }

    /// Puts a request into datagrams for who can answer it.
    fn ask(&mut self, ask: &Ask) {
        let nodes = &self.setup.nodes;
        let known = ask.node.and_then(|number| {
            let mut nodes = nodes.iter();
            nodes.find(|node| node.number == number)
        });
        // By its global number any node sends it again: another one each time.
        let any = || nodes.get(self.losses.asked() as usize % nodes.len().max(1));
        let (to, media) = match (ask.node, known) {
            (Some(_), Some(node)) => (self.rtcp_of(node), node.ssrc),
            _ => (
                any().and_then(|node| self.rtcp_of(node)),
                self.setup.ssrc.unwrap_or(0),
            ),
        };
        let Some(to) = to else {
            return;
        };
        let target = rtcp::Target {
            sender: self.ssrc,
            media,
        };
        let requests = nack::requests(target, &ask.numbers);
        self.outgoing.extend(requests.map(|bytes| (to, bytes)));
    }

    fn rtcp_of(&self, node: &Node) -> Option<SocketAddr> {
        let port = self.setup.server_ports.map(|(_, rtcp)| rtcp);
        let front = || Some(SocketAddr::new(self.fronts.own()?.ip(), port?));
        node.rtcp.or_else(front)
    }
}
