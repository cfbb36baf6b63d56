//! A link that rests while little happens.

use sangam_model::Time;
use sangam_wire::Traffic;

use super::Session;

impl Session {
    /// Lets either end be quiet from now on, as both understand it
    /// ([`Capabilities::QUIET`](sangam_wire::Capabilities::QUIET)). Only of an endpoint that
    /// measures its link.
    pub fn rest(&mut self, now: Time) {
        if self.meter.is_some() {
            self.liveness.rest(now);
        }
    }

    /// Something leaves for the peer by the link itself.
    #[inline]
    pub(super) fn spoke(&mut self, now: Time) {
        if let Some(quiet) = self.liveness.quiet() {
            quiet.spoke(now);
        }
    }

    /// What pongs tell of this end.
    pub(super) fn is_quiet(&mut self, traffic: Option<Traffic>) -> bool {
        let quiet = self.liveness.quiet();
        traffic.is_some() && quiet.is_some_and(|quiet| quiet.is_quiet())
    }

    /// The peer has told what it measures, and whether it is quiet, at this time of its clock.
    pub(super) fn peer_says(&mut self, (traffic, quiet): (Option<Traffic>, bool), peer_us: u64) {
        if let (Some(_), Some(it)) = (traffic, self.liveness.quiet()) {
            it.says(quiet, peer_us);
        }
    }
}
