//! How often a link is probed and when it is given up.

use core::time::Duration;

use sangam_model::Random;
use sangam_model::limits::CONTROL_QUEUE_MAX;

/// Control messages that may wait for a neighbour broker: every stream of a broker announced
/// once (65,536) and every filter once (2,048 parts), which is what a link carries when it comes
/// up, and as much again while it does.
const BROKER_QUEUE_MAX: usize = 2 * (65_536 + 2_048);
/// Shorter keep-alive intervals from a peer are taken as this one.
const KEEPALIVE_MIN: Duration = Duration::from_millis(20);

/// Silence after which a client asks its broker whether it lives, with up to a half more at random:
/// the clients of a meeting fall silent together.
const CLIENT_PROBE: Duration = Duration::from_millis(500);
/// A client pings earlier than `keepalive` by up to this part of it, at random. Otherwise a stream
/// that paused once, so that all asked at one moment, would have them ask together for ever.
const PING_SPREAD: u32 = 4;
/// Silence after which a client's broker is dead, if `keepalive` does not say so before.
const CLIENT_DEAD: Duration = Duration::from_secs(2);

/// When a session pings, and what it takes for dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Interval of pings; `None` for an endpoint that only answers.
    pub ping: Option<Duration>,
    /// Interval of pings while much is sent; then pings tell what was sent, so that each answer
    /// is a measurement ([`crate::Sample`]). `None` for an endpoint that does not measure.
    pub busy_ping: Option<Duration>,
    /// Silence after which the peer is asked before its time, and again until it answers; `None`
    /// for an endpoint that does not hurry.
    pub probe_after: Option<Duration>,
    /// Silence after which the peer is suspect; `None` for an endpoint that never suspects.
    pub suspect_after: Option<Duration>,
    /// Silence after which the peer is dead.
    pub dead_after: Duration,
    /// What is lost holds up all that follows, answers to pings among it, until it has come again:
    /// both silences grow with the round trip.
    pub in_order: bool,
    /// Control messages that may be unacknowledged before the session closes.
    pub queue_max: usize,
}

impl Timing {
    /// A neighbour broker, at both ends: pinged every 50 ms, and every 25 while much media flows;
    /// suspect after 150 ms, dead after 300. [`Session::rest`](crate::Session::rest) spares most of
    /// these pings.
    pub const BROKER: Self = Self {
        ping: Some(Duration::from_millis(50)),
        busy_ping: Some(Duration::from_millis(25)),
        probe_after: None,
        suspect_after: Some(Duration::from_millis(150)),
        dead_after: Duration::from_millis(300),
        in_order: false,
        queue_max: BROKER_QUEUE_MAX,
    };

    /// Questions that measure are so far apart where an end may be quiet, unless much is sent: as
    /// often as the laboratory's links are measured.
    pub const MEASURED: Duration = Duration::from_millis(500);

    /// An end that leaves asking to its peer asks by itself when it has heard no question for so
    /// long: one that is late by a fourth is lost, or soon will be.
    pub const UNASKED: Duration = Duration::from_millis(625);

    /// A quiet end may leave a question without an answer so many times as long as a lively one may
    /// be silent, after what its answer may be on its way: as many pings leave in that.
    pub const PATIENCE: u32 = 2;

    /// The same as [`Timing::BROKER`] by a stream (TCP, TLS, WebSocket). Up to 30 ms of round trip
    /// it is as patient; beyond, both silences grow with it, to 750 ms and 1.5 s.
    pub const BROKER_BY_STREAM: Self = Self {
        in_order: true,
        ..Self::BROKER
    };

    /// A client's end: it pings every three quarters to the whole of `keepalive`, and when the
    /// broker has been silent for 500 to 750 ms, both drawn once, and gives up after 2 s of
    /// silence, or three times `keepalive` if that is less.
    #[must_use]
    pub fn dialing(keepalive: Duration, random: &mut Random) -> Self {
        let accepting = Self::accepting(keepalive);
        let keepalive = keepalive.max(KEEPALIVE_MIN);
        Self {
            ping: Some(keepalive - random.time(keepalive / PING_SPREAD)),
            probe_after: Some(CLIENT_PROBE + random.time(CLIENT_PROBE / 2)),
            dead_after: accepting.dead_after.min(CLIENT_DEAD),
            ..accepting
        }
    }

    /// A broker's end towards a client: it answers, and gives up after three times `keepalive`.
    #[must_use]
    pub fn accepting(keepalive: Duration) -> Self {
        Self {
            ping: None,
            busy_ping: None,
            probe_after: None,
            suspect_after: None,
            dead_after: keepalive.max(KEEPALIVE_MIN) * 3,
            in_order: false,
            queue_max: CONTROL_QUEUE_MAX,
        }
    }
}

/// Pauses between attempts: doubled from `first` up to `most`, each with up to a half more at
/// random, so that the clients of a broker that restarts do not come back all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// The longest pause.
    pub most: Duration,
    /// Flap damping: a link that lived shorter flaps, and the pause after it is twice that after
    /// the one before, if that flapped, too, up to as long. Each time a link comes and goes the
    /// whole network hears of it. Zero: no damping.
    pub flap_damping: Duration,
}

impl Backoff {
    /// A neighbour broker's: a link that heals is back within a tenth of a second after a short
    /// cut, and within a second after a long one.
    pub const BROKER: Self = Self {
        first: Duration::from_millis(50),
        most: Duration::from_millis(500),
        flap_damping: Duration::from_secs(10),
    };
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            most: Duration::from_secs(5),
            flap_damping: Duration::from_secs(5),
        }
    }
}

impl Backoff {
    /// The pause after `failures` failures in a row, without its random part.
    pub(crate) fn pause(self, failures: u32) -> Duration {
        self.doubled(failures).min(self.most)
    }

    /// The same after so many links in a row that flapped.
    pub(crate) fn pause_of_flapping(self, flapped: u32) -> Duration {
        match flapped {
            0 => Duration::ZERO,
            _ => self.doubled(flapped - 1).min(self.flap_damping),
        }
    }

    fn doubled(self, times: u32) -> Duration {
        let factor = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor)
    }
}
