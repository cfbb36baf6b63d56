//! What the lane does when another broker has this one's id.

use sangam_model::Incarnation;
use sangam_wire::Refusal;

use super::Lane;

impl Lane {
    /// Ends all links, and neither dials nor takes any from now on.
    pub(super) fn step_aside(&mut self) {
        self.aside = true;
        self.forget_ladders();
        for id in self.links.ids() {
            self.drop_link(id, Refusal::Identity);
        }
    }
}

/// Lives of a broker are counted modulo 256.
pub(super) fn is_later_life(a: Incarnation, b: Incarnation) -> bool {
    a != b && a.0.wrapping_sub(b.0) < 1 << 7
}
