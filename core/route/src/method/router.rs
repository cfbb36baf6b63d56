//! One session's choices, by whichever method, and what they cost.

use sangam_model::Time;

use super::link_state::LinkState;
use super::live::Live;
use super::report::{Feedback, Probe};
use super::thompson::{Draw, Memory, Thompson};
use super::via::Via;
use super::{Method, Settings, history};
use crate::Paths;

/// What becomes of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The number of the path it takes.
    pub path: u16,
    /// Another path that carries a copy, if the router is uncertain.
    pub duplicate: Option<u16>,
}

/// What a method costs beside the packets themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Packets that were given a path.
    pub packets: u64,
    /// Packets whose path was not their predecessor's.
    pub path_changes: u64,
    /// Routing plans that a central scheduler sent, the first included; none of other methods.
    pub plans: u64,
    /// Bytes of those plans.
    pub plan_bytes: u64,
    /// Probes this router heard of. They are shared by all sessions over the same links, so a
    /// sum over sessions counts them too often.
    pub probes: u64,
    /// Bytes of those probes and their answers.
    pub probe_bytes: u64,
    /// Copies on a second path.
    pub duplicates: u64,
    /// Bytes of those copies.
    pub duplicate_bytes: u64,
    /// Reports and probes that made no sense: an unknown path or link, an absurd delay.
    pub ignored: u64,
}

/// Bytes of a plan on the wire: IP and UDP headers, a control frame's, a stream and a path.
const PLAN_BYTES: u64 = 64;
/// Bytes of a probe and its answer: IP and UDP headers, a heartbeat each way.
const PROBE_BYTES: u64 = 128;

/// Chooses the path of each packet of one session.
#[derive(Clone, Debug)]
pub struct Router {
    method: Method,
    paths: Paths,
    policy: Policy,
    last: Option<u16>,
    costs: Costs,
    packet_bytes: u32,
}

#[derive(Clone, Debug)]
enum Policy {
    Fixed(u16),
    Oracle,
    Via(Box<Via>),
    Thompson(Box<Thompson>),
    LinkState(Box<LinkState>),
    Live(Box<Live>),
}

impl Policy {
    fn new(method: Method, paths: &Paths, settings: &Settings) -> Self {
        let thompson = |draw, memory| {
            let thompson = Thompson::new(draw, memory, paths, settings);
            Self::Thompson(Box::new(thompson))
        };
        match method {
            Method::Direct => Self::Fixed(0),
            Method::BestStatic => {
                let known = settings.history.len().min(paths.len());
                Self::Fixed(history::best(&settings.history[..known]))
            }
            Method::Via => Self::Via(Box::new(Via::new(settings, paths.len()))),
            Method::VcRoute | Method::VcRouteProbed => thompson(Draw::Mean, Memory::All),
            Method::VcRouteLiteral => thompson(Draw::Latency, Memory::All),
            Method::SlidingThompson => thompson(Draw::Mean, Memory::window(settings.window)),
            Method::DiscountedThompson => {
                let keep = settings.discount.clamp(0.0, 1.0);
                thompson(Draw::Mean, Memory::Discount(keep))
            }
            Method::Ours => Self::LinkState(Box::new(LinkState::new(settings, paths))),
            Method::Oracle => Self::Oracle,
            Method::LinkStateLive | Method::ViaLive | Method::VcRouteLive => {
                Self::Live(Box::new(Live::new(method, settings, paths)))
            }
        }
    }
}

impl Router {
    /// A router over these paths that has heard nothing yet.
    #[must_use]
    pub fn new(method: Method, paths: Paths, settings: &Settings) -> Self {
        Self {
            method,
            policy: Policy::new(method, &paths, settings),
            paths,
            last: None,
            costs: Costs::default(),
            packet_bytes: settings.packet_bytes,
        }
    }

    /// The path of the packet that is sent now. `truth` tells a path's one-way delay at this
    /// moment in microseconds, none if it loses the packet; only [`Method::Oracle`] asks it.
    pub fn choose(&mut self, now: Time, truth: impl Fn(u16) -> Option<i64>) -> Choice {
        let only = |path| Choice {
            path,
            duplicate: None,
        };
        let choice = match &mut self.policy {
            Policy::Fixed(path) => only(*path),
            Policy::Oracle => {
                let all = (0..self.paths.len() as u16).map(|path| (truth(path), path));
                let open = all.filter_map(|(delay, path)| Some((delay?, path)));
                only(open.min().map_or(0, |(_, path)| path))
            }
            Policy::Via(via) => only(via.choose(now)),
            Policy::Thompson(thompson) => only(thompson.choose(now)),
            Policy::LinkState(link_state) => link_state.choose(now, &self.paths),
            Policy::Live(live) => only(live.choose(now)),
        };
        self.account(choice);
        choice
    }

    /// The path that every packet takes until history changes or a method explores, if nothing
    /// else is worth trying.
    #[must_use]
    pub fn certain(&self) -> Option<u16> {
        let top = match &self.policy {
            Policy::Fixed(path) => return Some(*path),
            Policy::Via(via) => via.top(),
            Policy::Thompson(thompson) => thompson.top(),
            Policy::Oracle | Policy::LinkState(_) | Policy::Live(_) => return None,
        };
        match top {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Takes what the sender learns now of a packet.
    pub fn feedback(&mut self, now: Time, feedback: &Feedback) {
        let Feedback { path, report, .. } = feedback;
        if usize::from(*path) >= self.paths.len() || !report.is_plausible() {
            self.costs.ignored += 1;
            return;
        }
        match &mut self.policy {
            Policy::Fixed(_) | Policy::Oracle | Policy::Live(_) => {}
            Policy::Via(via) => via.feedback(*path, report),
            Policy::Thompson(thompson) => thompson.feedback(*path, report),
            Policy::LinkState(link_state) => {
                link_state.feedback(now, *path, &self.paths, report);
            }
        }
    }

    /// Takes what the sender learns now of a link. Methods that need no probes ignore it.
    pub fn probe(&mut self, now: Time, probe: &Probe) {
        if !self.method.probes() {
            return;
        }
        self.costs.probes += 1;
        self.costs.probe_bytes += PROBE_BYTES;
        if usize::from(probe.link) >= self.paths.links() || !probe.is_plausible() {
            self.costs.ignored += 1;
            return;
        }
        match &mut self.policy {
            Policy::Thompson(thompson) => thompson.probe(&self.paths, probe),
            Policy::LinkState(link_state) => link_state.probe(now, probe),
            Policy::Live(live) => live.probe(now, probe),
            Policy::Fixed(_) | Policy::Oracle | Policy::Via(_) => {}
        }
    }

    /// The end-to-end latency in milliseconds that was predicted for the last packet, by methods
    /// that predict it.
    #[must_use]
    pub fn predicted_ms(&self) -> Option<f32> {
        match &self.policy {
            Policy::Thompson(thompson) => thompson.predicted_ms,
            _ => None,
        }
    }

    /// What it cost until now.
    #[must_use]
    pub const fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The paths it chooses from.
    #[must_use]
    pub const fn paths(&self) -> &Paths {
        &self.paths
    }

    fn account(&mut self, choice: Choice) {
        let costs = &mut self.costs;
        costs.packets += 1;
        if self.last != Some(choice.path) {
            costs.path_changes += u64::from(self.last.is_some());
            if self.method.central() {
                costs.plans += 1;
                costs.plan_bytes += PLAN_BYTES;
            }
        }
        self.last = Some(choice.path);
        if choice.duplicate.is_some() {
            costs.duplicates += 1;
            costs.duplicate_bytes += u64::from(self.packet_bytes);
        }
    }
}
