//! Which congestion control the kernel uses for a stream between brokers, where the host's is BBR.
//!
//! Every ten seconds BBR keeps four segments in flight for 200 ms and a round trip, to see the
//! path empty (draft-ietf-ccwg-bbr, "ProbeRTT"). At 90 ms of round trip that is 0.5 Mb/s: media of
//! a busy link stands still. Where a path loses segments BBR is worth that, as CUBIC and
//! Reno carry little there; where it loses none, they do not stop.

use std::net::TcpStream;
use std::time::Duration;

use sangam_io::tcp;
use sangam_link::{Losses, Segments};
use sangam_model::Time;

/// How a host's congestion control begins that stops to see its path.
const STOPS: &str = "bbr";
/// What is used instead, the first that the process may use; Reno it always may.
const STEADY: [&str; 2] = ["cubic", "reno"];
/// Segments are looked at so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A stream that the host would have use BBR.
#[derive(Debug)]
pub(super) struct Kernel {
    /// The host's choice.
    host: String,
    steady: &'static str,
    losses: Losses,
    look_at: Time,
    /// Whether the host's choice is in use.
    probes: bool,
}

impl Kernel {
    /// Begins with a steady one; `None` if the host's is, and so there is nothing to choose.
    pub(super) fn steady(socket: &TcpStream, now: Time) -> Option<Self> {
        let host = tcp::congestion_control(socket).ok();
        let host = host.filter(|host| host.starts_with(STOPS))?;
        let may = |name: &&str| tcp::set_congestion_control(socket, name).is_ok();
        Some(Self {
            host,
            steady: STEADY.into_iter().find(may)?,
            losses: Losses::new(now),
            look_at: now + LOOK_EVERY,
            probes: false,
        })
    }

    /// Chooses anew, once a second: the host's while the path loses segments.
    pub(super) fn look(&mut self, socket: &TcpStream, now: Time) {
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        let Ok((sent, again)) = tcp::segments(socket) else {
            return;
        };
        let segments = Segments {
            sent: sent.into(),
            again: again.into(),
        };
        self.losses.note(now, segments);
        if self.losses.persist() != self.probes {
            self.probes = !self.probes;
            let name = if self.probes { &self.host } else { self.steady };
            if let Err(error) = tcp::set_congestion_control(socket, name) {
                tracing::debug!(%error, name, "the kernel keeps its congestion control");
            }
        }
    }
}
