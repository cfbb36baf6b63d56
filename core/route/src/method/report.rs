//! What routers are told: packets' fates and links' probes.

use sangam_model::Time;

/// Delays further from zero than this are no measurements: they are counted and ignored. Negative
/// ones within it are: the clocks of sender and receiver may differ, by the same for every path.
const DELAY_US_MAX: u64 = 60_000_000;
/// What a lost packet counts as where only latency counts.
pub(super) const LOST_MS: f64 = 1_000.0;

/// What the sender learns of one packet. Each copy of a packet is reported for its own path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The path it took.
    pub path: u16,
    /// When it was sent.
    pub sent: Time,
    /// What became of it.
    pub report: Report,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It arrived.
    Arrived(Arrival),
    /// It was released to the player: what predictors learn from.
    Released {
        /// As when it arrived.
        arrival: Arrival,
        /// Release minus departure, in microseconds.
        end_to_end_us: i64,
    },
    /// It never arrived.
    Lost,
}

/// How a packet arrived, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival minus departure, by both ends' clocks.
    pub transit_us: i64,
    /// The jitter that the receiver calculated for it.
    pub jitter_us: i64,
    /// How long the receiver lets packets wait for stragglers now.
    pub lag_us: i64,
}

/// What a probe of a link found, told when it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The link's number, as [`Paths`](crate::Paths) numbers them.
    pub link: u16,
    /// When the probe was sent.
    pub sent: Time,
    /// One-way delay in microseconds; none if it got lost.
    pub delay_us: Option<i64>,
}

impl Report {
    pub(super) const fn is_plausible(&self) -> bool {
        match *self {
            Self::Arrived(arrival) => arrival.is_plausible(),
            Self::Released {
                arrival,
                end_to_end_us,
            } => arrival.is_plausible() && plausible(end_to_end_us),
            Self::Lost => true,
        }
    }
}

impl Arrival {
    const fn is_plausible(&self) -> bool {
        plausible(self.transit_us) && plausible(self.jitter_us) && plausible(self.lag_us)
    }

    pub(super) fn state(&self) -> crate::predictor::State {
        crate::predictor::State {
            transit_ms: ms(self.transit_us),
            jitter_ms: ms(self.jitter_us),
            lag_ms: ms(self.lag_us),
        }
    }
}

impl Probe {
    pub(super) fn is_plausible(&self) -> bool {
        self.delay_us.is_none_or(plausible)
    }
}

const fn plausible(delay_us: i64) -> bool {
    delay_us.unsigned_abs() <= DELAY_US_MAX
}

/// Plausible delays lose less than 4 us as `f32`, below a second less than 0.1.
pub(super) fn ms(delay_us: i64) -> f32 {
    delay_us as f32 / 1_000.0
}
