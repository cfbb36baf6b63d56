//! One client and one film.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use rtsp_types::Method;
use rtsp_types::headers::{self, HeaderName};
use sangam_model::Time;
use sangam_wire::rtcp;
use sangam_wire::rtp::Packet;

use crate::answers::{Node, Place, Setup};
use crate::dialog::{Answer, Dialog, DialogError, Said};
use crate::flow::Flow;
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
/// Bytes of the film in a datagram.
const DATAGRAM: usize = 1_316;
/// Of the film's clock, in a second (RFC 2250).
const CLOCK_RATE: u32 = 90_000;
/// The option that asks for packets from the nodes themselves.
const NODES: &str = "sangam.nodes";
/// 551 Option not supported: an old server.
const NOT_SUPPORTED: u16 = 551;

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits for the answer to this.
    Asking(Method),
    /// Packets come.
    Playing,
    /// Everything was played.
    Ended,
    /// The server said no, or nonsense: in words.
    Failed(String),
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
    /// What became of those that were held.
    pub played: Played,
}

/// One client, one film, no socket.
#[derive(Debug)]
pub struct Session<P> {
    options: Options,
    dialog: Dialog,
    stage: Stage,
    base: Option<String>,
    control: String,
    setup: Setup,
    place: Place,
    order: Order<P>,
    losses: Losses,
    flow: Option<Flow>,
    /// The highest global number, and the latest time of the film with its timestamp.
    highest: u64,
    clock: (Duration, u32),
    /// Local numbers are there.
    is_direct: bool,
    sampled: Time,
    spoken: Time,
    counts: Counts,
    outgoing: Vec<(SocketAddr, Vec<u8>)>,
    server: Option<IpAddr>,
    ssrc: u32,
}

impl<P> Session<P> {
    /// Begins: what is to be said is there at once.
    ///
    /// # Errors
    /// [`DialogError::Url`].
    pub fn new(options: Options, server: Option<IpAddr>, ssrc: u32) -> Result<Self, DialogError> {
        let mut dialog = Dialog::new(&options.url)?;
        let headers = match options.direct {
            true => vec![(profile(), "AVPF".to_owned()), accept()],
            false => vec![accept()],
        };
        dialog.ask(Method::Describe, &headers, &[])?;
        let flow = options.thresholds.map(Flow::new);
        Ok(Self {
            is_direct: options.direct,
            order: Order::new(0, (options.buffer.mul_f64(options.begin), u64::MAX)),
            options,
            dialog,
            stage: Stage::Asking(Method::Describe),
            base: None,
            control: String::new(),
            setup: Setup::default(),
            place: Place::default(),
            losses: Losses::new(0),
            flow,
            highest: 0,
            clock: (Duration::ZERO, 0),
            sampled: Time::ZERO,
            spoken: Time::ZERO,
            counts: Counts::default(),
            outgoing: Vec::new(),
            server,
            ssrc,
        })
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

    /// Bytes to be sent by the connection.
    pub fn said(&mut self) -> Vec<u8> {
        self.dialog.outgoing()
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

    /// Takes bytes of the connection; none are its end.
    pub fn hear(&mut self, now: Time, bytes: &[u8]) {
        if bytes.is_empty() {
            self.hung_up();
            return;
        }
        if let Err(error) = self.listen(now, bytes) {
            self.stage = Stage::Failed(error.to_string());
        }
    }

    fn hung_up(&mut self) {
        match self.stage {
            // Datagrams may still be on their way.
            Stage::Playing if self.order.is_playing() => self.order.end(),
            Stage::Ended | Stage::Failed(_) => {}
            _ => self.stage = Stage::Failed("the server closed the connection".to_owned()),
        }
    }

    fn listen(&mut self, now: Time, bytes: &[u8]) -> Result<(), DialogError> {
        self.dialog.push(bytes)?;
        while let Some(said) = self.dialog.heard()? {
            match said {
                Said::Answer(answer) => self.answered(now, &answer)?,
                Said::Asked(Method::PlayNotify) => self.order.end(),
                Said::Asked(_) | Said::Packet(..) => {}
            }
        }
        Ok(())
    }

    fn answered(&mut self, now: Time, answer: &Answer) -> Result<(), DialogError> {
        self.spoken = now;
        let is_awaited = self.stage == Stage::Asking(answer.method.clone());
        if !is_awaited {
            // The answer to a rate or to a sign of life: nothing depends on it.
            return Ok(());
        }
        if !answer.is_ok() {
            if answer.status == NOT_SUPPORTED && self.is_direct {
                self.is_direct = false;
                return self.set_up();
            }
            let method: &str = (&answer.method).into();
            let text = format!("{method}: {} {}", answer.status, answer.reason);
            self.stage = Stage::Failed(text);
            return Ok(());
        }
        match answer.method {
            Method::Describe => {
                let base = answer.header("Content-Base").map(str::to_owned);
                self.base = base.or_else(|| self.base.take());
                self.control = control(&answer.body);
                self.set_up()
            }
            Method::Setup => {
                self.setup = Setup::read(answer);
                self.is_direct = !self.setup.nodes.is_empty();
                self.play()
            }
            Method::Play => {
                self.begin(answer);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn set_up(&mut self) -> Result<(), DialogError> {
        let (rtp, rtcp) = self.options.ports;
        let profile = if self.is_direct {
            "RTP/AVPF"
        } else {
            "RTP/AVP"
        };
        let transport = format!("{profile};unicast;client_port={rtp}-{rtcp}");
        let mut headers = vec![(headers::TRANSPORT, transport)];
        if self.is_direct {
            headers.push((headers::REQUIRE, NODES.to_owned()));
        }
        self.stage = Stage::Asking(Method::Setup);
        self.dialog
            .set_up(&self.control, self.base.as_deref(), &headers)
    }

    fn play(&mut self) -> Result<(), DialogError> {
        let range = format!("npt={:.3}-", self.options.from.as_secs_f64());
        let mut headers = vec![(headers::RANGE, range)];
        if self.is_direct {
            let pace = match self.options.pace {
                Pace::Clock => "clock".to_owned(),
                Pace::Average => "average".to_owned(),
                Pace::Smooth(bytes) => format!("smooth;buffer={bytes}"),
            };
            headers.push((header("Sangam-Pace"), pace));
        }
        self.stage = Stage::Asking(Method::Play);
        self.dialog.ask(Method::Play, &headers, &[])
    }

    fn begin(&mut self, answer: &Answer) {
        self.place = Place::read(answer);
        let first = self.place.gsn.unwrap_or(0);
        self.highest = first;
        self.clock = (self.place.at, self.place.timestamp.unwrap_or(0));
        let span = self.options.buffer.mul_f64(self.options.begin);
        let bytes = self
            .capacity()
            .map_or(u64::MAX, |capacity| (capacity * self.options.begin) as u64);
        self.order = match self.options.pace {
            Pace::Clock => Order::new(first, (span, u64::MAX)),
            // Where little is needed, much time fits into few bytes, and the other way about.
            _ => Order::new(first, (Duration::MAX, bytes)),
        };
        if !self.is_direct {
            self.order = Order::new(first, (span, u64::MAX));
        }
        self.losses = Losses::new(first);
        if let Some(flow) = &mut self.flow {
            flow.restart();
        }
        self.stage = Stage::Playing;
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
        let at = self.film_time(packet.header.timestamp);
        let numbers = Numbers::read(packet.extension);
        if self.options.repair && self.is_direct {
            self.losses.arrive(now, gsn, numbers, at);
        }
        let bytes = packet.payload.len() as u32;
        self.counts.packets += 1;
        self.counts.bytes += u64::from(bytes);
        let payload = keep(packet.payload);
        self.order.arrive(gsn, Held { at, bytes, payload });
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
        if packets.any(|packet| matches!(packet, rtcp::Packet::Bye(_))) {
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
            return;
        }
        if self.options.repair && self.is_direct {
            self.repair(now);
        }
        if now.since(self.sampled) >= SAMPLE_EVERY {
            self.sampled = now;
            self.sample(now);
        }
        if now.since(self.spoken) >= ALIVE_EVERY {
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
        let front = || Some(SocketAddr::new(self.server?, port?));
        node.rtcp.or_else(front)
    }
}

/// The control of the first track that a description has.
fn control(description: &[u8]) -> String {
    let text = String::from_utf8_lossy(description);
    let mut lines = text.lines().skip_while(|line| !line.starts_with("m="));
    let found = lines.find_map(|line| line.strip_prefix("a=control:"));
    found.unwrap_or_default().trim().to_owned()
}

fn accept() -> (HeaderName, String) {
    (headers::ACCEPT, "application/sdp".to_owned())
}

fn profile() -> HeaderName {
    header("Sangam-Profile")
}

/// The library knows headers by names that it checks.
fn header(name: &'static str) -> HeaderName {
    HeaderName::from_static_str(name).unwrap_or(headers::USER_AGENT)
}
