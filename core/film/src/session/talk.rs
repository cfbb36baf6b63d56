//! What a session says to its server and hears of it, and how it goes on by another one.

use core::time::Duration;
use std::net::SocketAddr;

use rtsp_types::Method;
use rtsp_types::headers::{self, HeaderName};
use sangam_model::Time;

use super::{Session, Stage};
use crate::answers::{Place, Setup};
use crate::dialog::{Answer, Dialog, DialogError, Said, at_front};
use crate::failure::Failure;
use crate::options::Pace;
use crate::order::Order;

/// A front that fails so often is left for another one each time; then the film ends.
const MOVES_MAX: u64 = 64;
/// The option that asks for packets from the nodes themselves.
const NODES: &str = "sangam.nodes";
/// 551 Option not supported: an old server.
const NOT_SUPPORTED: u16 = 551;

impl<P> Session<P> {
    pub(super) fn describe(&mut self) -> Result<(), DialogError> {
        let headers = match self.wants_nodes {
            true => vec![(profile(), "AVPF".to_owned()), accept()],
            false => vec![accept()],
        };
        self.wait_for(Method::Describe);
        self.dialog.ask(Method::Describe, &headers, &[])
    }

    fn wait_for(&mut self, method: Method) {
        if self.moving.is_none() {
            self.stage = Stage::Asking(method.clone());
        }
        self.awaited = Some(method);
    }

    /// Nothing more is to be had of this front.
    pub(super) fn broken(&mut self, now: Time, why: Failure) {
        match self.stage {
            Stage::Ended | Stage::Failed(_) => {}
            Stage::Playing => self.move_on(now, why),
            Stage::Asking(_) => self.stage = Stage::Failed(why),
        }
    }

    /// Goes on by way of another front, if there is one.
    pub(super) fn move_on(&mut self, now: Time, why: Failure) {
        self.awaited = None;
        let (next, _) = self.order.resume();
        let is_all_there = self.setup.datagrams.is_some_and(|all| next >= all);
        // Elsewhere the packets are known by the datagrams that they are.
        let may_move = self.place.datagram.is_some() && self.counts.moves < MOVES_MAX;
        let has_to = may_move && !is_all_there;
        while let Some(front) = self.fronts.next().filter(|_| has_to) {
            self.moving = Some(now);
            if self.turn_to(front).is_ok() {
                self.wanted = Some(front);
                // What said goodbye was the front, not the film.
                self.order.go_on();
                return;
            }
        }
        self.moving = None;
        let is_cut_short = self
            .setup
            .datagrams
            .is_some_and(|all| self.order.end_of() < all);
        self.cut_short = is_cut_short.then(|| why.clone());
        match is_all_there || self.order.is_playing() || self.order.bytes() > 0 {
            // Datagrams may still be on their way, too.
            true => self.order.end(),
            false => self.stage = Stage::Failed(why),
        }
    }

    fn turn_to(&mut self, front: SocketAddr) -> Result<(), DialogError> {
        let url = at_front(&self.options.url, front)?;
        self.dialog = Dialog::new(&url, self.options.login.clone())?;
        (self.base, self.wants_nodes) = (None, self.options.direct);
        self.describe()
    }

    pub(super) fn listen(&mut self, now: Time, bytes: &[u8]) -> Result<(), DialogError> {
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
        if self.awaited.as_ref() != Some(&answer.method) {
            // The answer to a rate or to a sign of life: nothing depends on it.
            return Ok(());
        }
        if !answer.is_ok() {
            if answer.status == NOT_SUPPORTED && self.wants_nodes {
                self.wants_nodes = false;
                return self.set_up();
            }
            let method: &str = (&answer.method).into();
            let (method, reason) = (method.to_owned(), answer.reason.clone());
            self.broken(now, Failure::Refused(method, answer.status, reason));
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
                self.coming = Setup::read(answer);
                self.wants_nodes = !self.coming.nodes.is_empty();
                self.play()
            }
            Method::Play => {
                self.begin(now, answer);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn set_up(&mut self) -> Result<(), DialogError> {
        let (rtp, rtcp) = self.options.ports;
        let profile = if self.wants_nodes {
            "RTP/AVPF"
        } else {
            "RTP/AVP"
        };
        let transport = format!("{profile};unicast;client_port={rtp}-{rtcp}");
        let mut headers = vec![(headers::TRANSPORT, transport)];
        if self.wants_nodes {
            headers.push((headers::REQUIRE, NODES.to_owned()));
        }
        self.wait_for(Method::Setup);
        self.dialog
            .set_up(&self.control, self.base.as_deref(), &headers)
    }

    fn play(&mut self) -> Result<(), DialogError> {
        let (next, at) = match self.moving {
            Some(_) => self.order.resume(),
            None => (0, self.options.from),
        };
        let range = format!("npt={:.3}-", at.as_secs_f64());
        let mut headers = vec![(headers::RANGE, range)];
        if self.moving.is_some() {
            headers.push((header("Sangam-From"), format!("datagram={next}")));
        }
        if self.wants_nodes {
            let pace = match self.options.pace {
                Pace::Clock => "clock".to_owned(),
                Pace::Average => "average".to_owned(),
                Pace::Smooth(bytes) => format!("smooth;buffer={bytes}"),
            };
            headers.push((header("Sangam-Pace"), pace));
        }
        self.wait_for(Method::Play);
        self.dialog.ask(Method::Play, &headers, &[])
    }

    fn begin(&mut self, now: Time, answer: &Answer) {
        let place = Place::read(answer);
        if self.moving.is_some() && place.datagram.is_none() {
            self.move_on(
                now,
                Failure::broken("the server does not say where it begins"),
            );
            return;
        }
        (self.awaited, self.heard) = (None, now);
        self.place = place;
        self.setup = core::mem::take(&mut self.coming);
        self.is_direct = self.wants_nodes;
        self.fronts.answered(&self.setup.nodes);
        let first = self.place.gsn.unwrap_or(0);
        self.highest = first;
        self.shift = (first, self.place.datagram.unwrap_or(first));
        self.clock = (self.place.at, self.place.timestamp.unwrap_or(0));
        self.losses.begin(first);
        if let Some(flow) = &mut self.flow {
            flow.restart();
        }
        match self.moving.take() {
            Some(_) => self.counts.moves += 1,
            None => self.order = self.empty(),
        }
        self.stage = Stage::Playing;
    }

    /// A buffer in which nothing is, and from when on it is played.
    fn empty(&self) -> Order<P> {
        let span = self.options.buffer.mul_f64(self.options.begin);
        let bytes = self
            .capacity()
            .map_or(u64::MAX, |capacity| (capacity * self.options.begin) as u64);
        let begin = match self.options.pace {
            // Where little is needed, much time fits into few bytes, and the other way about.
            Pace::Average | Pace::Smooth(_) if self.is_direct => (Duration::MAX, bytes),
            _ => (span, u64::MAX),
        };
        Order::new(self.shift.1, begin)
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
