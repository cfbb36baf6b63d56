//! What comes by a multicast group, on behalf of the link with who sends it.

use super::Session;

impl Session {
    /// An event of the peer came by a group, of so many bytes. It is measured as
    /// [`Session::received`] does, as the peer has counted it as sent to this end; but it proves no
    /// life: the peer's own datagrams may no longer come.
    #[inline]
    pub fn received_by_group(&mut self, bytes: usize) {
        if let Some(meter) = &mut self.meter {
            meter.received(bytes);
        }
    }
}
