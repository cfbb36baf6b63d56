//! Echoes: one frame by which ends of a link that may be quiet ask, answer and measure.
//!
//! One end asks every [`Timing::MEASURED`], the other answers at once; each frame tells of the last
//! one of the other end, and how long ago that came. So either end has a measurement for each
//! question, whoever asked, and the link carries half of what two ends that ping would.

use core::time::Duration;

use sangam_model::Time;
use sangam_wire::{Echo, Frame};

use super::{Output, Session, encode};
use crate::measure::{Answer, Echoes};
use crate::timing::Timing;

/// A longer round trip is no round trip but an old or forged answer.
const RTT_MAX: Duration = Duration::from_secs(10);

/// Which end of a link asks, so that the other need not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// The end that dialled does.
    First,
    /// The end that was dialled does where it hears no question for longer than usual.
    Otherwise,
}

impl Session {
    /// Lets either end be quiet from now on, as both understand it
    /// ([`Capabilities::QUIET`](sangam_wire::Capabilities::QUIET)). Only of an endpoint that
    /// measures its link.
    pub fn rest(&mut self, now: Time, asks: Asks) {
        if let Some(meter) = &mut self.meter {
            meter.echoes = Some(Echoes::default());
            self.liveness.rest(now, asks.interval());
        }
    }

    /// Something leaves for the peer by the link itself.
    #[inline]
    pub(super) fn spoke(&mut self, now: Time) {
        if let Some(quiet) = self.liveness.quiet() {
            quiet.spoke(now);
        }
    }

    /// Whether both ends ask and answer by echoes.
    pub(super) fn echoes(&self) -> bool {
        let meter = self.meter.as_ref();
        meter.is_some_and(|meter| meter.echoes.is_some())
    }

    /// An echo came, and may tell of one of ours.
    pub(super) fn echoed(&mut self, now: Time, echo: Echo) {
        let Echo {
            now_us: peer_us,
            asks,
            quiet,
            heard,
            ..
        } = echo;
        let (Some(meter), Some(it)) = (&mut self.meter, self.liveness.quiet()) else {
            self.counters.foreign += 1;
            return;
        };
        it.says(quiet, peer_us);
        // What is told of twice, or late, says nothing new.
        let answer = heard.and_then(|heard| {
            let echo = meter.stamped(heard.echo_us)?;
            let held = Duration::from_micros(heard.held_us.into());
            Some(Answer {
                echo,
                peer_us: peer_us.saturating_sub(heard.held_us.into()),
                held: held.min(now - echo),
                received: Some(heard.into()),
            })
        });
        if let Some(answer) = &answer {
            it.answered(answer.echo);
        }
        let received = meter.received;
        if let Some(echoes) = &mut meter.echoes {
            echoes.came(now, peer_us, (asks, received));
        }
        if asks {
            self.liveness.asked(now);
        }
        if let Some(answer) = answer {
            self.answered(now, &answer);
        }
    }

    /// A ping or an echo was answered.
    pub(super) fn answered(&mut self, now: Time, answer: &Answer) {
        let echo = answer.echo;
        if !self.liveness.pings() || echo > now || now - echo > RTT_MAX {
            self.counters.invalid += 1;
            return;
        }
        if self.judge_path(now, echo, answer.received.is_none()) {
            return;
        }
        let weight = self.meter.as_ref().map_or(1, |meter| meter.weight(echo));
        for _ in 0..weight {
            self.round_trip(answer.rtt(now));
        }
        self.clock
            .sample(echo, answer.peer_us, echo + answer.rtt(now));
        self.liveness.answered();
        if let (Some(meter), Some(received)) = (&mut self.meter, answer.received) {
            meter.answered(now, answer, received);
        }
    }

    /// The echo that is due: a question, an answer, or both.
    pub(super) fn poll_echo(&mut self, now: Time, asks: bool) -> Option<Output> {
        let meter = self.meter.as_mut()?;
        let echoes = meter.echoes.as_mut()?;
        if !echoes.pays() && !asks {
            return None;
        }
        let quiet = self.liveness.quiet().is_some_and(|it| it.tells(now));
        let echo = Frame::Echo(Echo {
            session: self.number,
            now_us: now.as_micros(),
            asks,
            quiet,
            heard: echoes.heard(now),
        });
        // The meter counts it.
        meter.ping(now, echo.encoded_len(), asks);
        Some(encode(&echo))
    }
}

impl Asks {
    fn interval(self) -> Duration {
        match self {
            Self::First => Timing::MEASURED,
            Self::Otherwise => Timing::UNASKED,
        }
    }
}
