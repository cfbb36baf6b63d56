//! Which path a packet takes: one [`Router`] for each session and [`Method`].
//!
//! A router is asked for a path with each packet ([`Router::choose`]) and told what became of it
//! as soon as the sender can know ([`Router::feedback`]: arrival plus the way back). Methods that
//! look at links are told of probes as well ([`Router::probe`]). Nothing here waits for any of
//! this: a router that hears nothing more goes on choosing.

use core::time::Duration;

use crate::predictor::Predictor;

mod history;
mod link_state;
mod live;
mod report;
mod router;
mod thompson;
mod via;

pub(crate) use history::Moments;
pub use history::Past;
pub use link_state::LinkStateSettings;
pub use report::{Arrival, Feedback, Probe, Report};
pub use router::{Choice, Costs, Router};

/// A way to choose paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Always the direct path.
    Direct,
    /// Always the path with the smallest mean in the history that is given.
    BestStatic,
    /// Jiang et al., 2016: a bandit with upper confidence bounds over the best k paths.
    Via,
    /// Xiao et al., section IV: Thompson sampling on the predicted end-to-end latency, drawing
    /// from the posterior of the mean, which is how often the paper changes paths.
    VcRoute,
    /// The same to the letter: drawing from the posterior predictive distribution.
    VcRouteLiteral,
    /// [`Method::VcRoute`] which also hears the probes that [`Method::Ours`] hears.
    VcRouteProbed,
    /// Thompson sampling over the last observations.
    SlidingThompson,
    /// Thompson sampling that forgets by a factor.
    DiscountedThompson,
    /// Link states with risk, hysteresis, change detection and duplicates while uncertain.
    Ours,
    /// The path that is fastest for this very packet: only a simulator can know.
    Oracle,
    /// Link state as brokers have it: weights that rest, ways that are kept.
    LinkStateLive,
    /// Brokers that follow [`crate::schedule::Scheduler`] by [`Method::Via`].
    ViaLive,
    /// The same by [`Method::VcRoute`].
    VcRouteLive,
}

/// What a router is made with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What chance is drawn from.
    pub seed: u64,
    /// By path number; missing ones are unknown.
    pub history: Vec<Past>,
    /// How long a choice of the best k paths stands: `T` of Via, swept from a minute to a day.
    pub refresh: Duration,
    /// How the methods that reward end-to-end latency predict it.
    pub predictor: Predictor,
    /// Packets that [`Method::SlidingThompson`] remembers, `1..=WINDOW_MAX`.
    pub window: usize,
    /// What [`Method::DiscountedThompson`] keeps of an observation from packet to packet, below 1.
    pub discount: f64,
    /// How [`Method::Ours`] weighs.
    pub link_state: LinkStateSettings,
    /// Bytes of a media packet on the wire: what a duplicate costs.
    pub packet_bytes: u32,
}

/// Packets that [`Method::SlidingThompson`] can remember: ten minutes of 10 ms packets.
pub const WINDOW_MAX: usize = 65_536;

impl Method {
    /// Those of the study, in the order of reports.
    pub const ALL: [Self; 10] = [
        Self::Direct,
        Self::BestStatic,
        Self::Via,
        Self::VcRoute,
        Self::VcRouteLiteral,
        Self::VcRouteProbed,
        Self::SlidingThompson,
        Self::DiscountedThompson,
        Self::Ours,
        Self::Oracle,
    ];

    /// Those that do what a live network does: where a trace is set beside one.
    pub const LIVE: [Self; 3] = [Self::LinkStateLive, Self::ViaLive, Self::VcRouteLive];

    /// Its name in commands and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::BestStatic => "best-static",
            Self::Via => "via",
            Self::VcRoute => "vcroute",
            Self::VcRouteLiteral => "vcroute-literal",
            Self::VcRouteProbed => "vcroute-probed",
            Self::SlidingThompson => "sliding-thompson",
            Self::DiscountedThompson => "discounted-thompson",
            Self::Ours => "ours",
            Self::Oracle => "oracle",
            Self::LinkStateLive => "link-state-live",
            Self::ViaLive => "via-live",
            Self::VcRouteLive => "vcroute-live",
        }
    }

    /// The method of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter().chain(Self::LIVE);
        all.find(|method| method.name() == name)
    }

    /// Whether it needs [`Router::probe`]: two probes a second of every link.
    #[must_use]
    pub const fn probes(self) -> bool {
        matches!(
            self,
            Self::VcRouteProbed
                | Self::Ours
                | Self::LinkStateLive
                | Self::ViaLive
                | Self::VcRouteLive
        )
    }

    /// Whether a central scheduler computes it, so that every change of path is a plan to send.
    #[must_use]
    pub const fn central(self) -> bool {
        matches!(
            self,
            Self::Via
                | Self::VcRoute
                | Self::VcRouteLiteral
                | Self::VcRouteProbed
                | Self::SlidingThompson
                | Self::DiscountedThompson
                | Self::ViaLive
                | Self::VcRouteLive
        )
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            history: Vec::new(),
            refresh: Duration::from_secs(600),
            predictor: Predictor::Rule,
            window: 6_000,
            discount: 0.9995,
            link_state: LinkStateSettings::default(),
            packet_bytes: 200,
        }
    }
}
