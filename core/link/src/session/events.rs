//! Events that come and go: by the link itself, or by a multicast group on its behalf.

use sangam_model::Time;

use super::Session;

impl Session {
    /// An event of the peer came, of so many bytes: [`Session::heard`], and measured.
    #[inline]
    pub fn received(&mut self, now: Time, bytes: usize) {
        self.heard(now);
        if let Some(meter) = &mut self.meter {
            meter.received(bytes);
        }
    }

    /// So many events of so many bytes in all left for the peer. Frames are counted here.
    #[inline]
    pub fn sent(&mut self, now: Time, packets: u64, bytes: u64) {
        self.sent_by_group(now, packets, bytes);
        self.spoke(now);
    }

    /// An event of the peer came by a group, of so many bytes. It is measured as
    /// [`Session::received`] does, as the peer has counted it as sent to this end; but it proves no
    /// life: the peer's own datagrams may no longer come.
    #[inline]
    pub fn received_by_group(&mut self, bytes: usize) {
        if let Some(meter) = &mut self.meter {
            meter.received(bytes);
        }
    }

    /// So many events of so many bytes in all left for the peer by a group: [`Session::sent`], but
    /// the peer takes them for no sign of life.
    #[inline]
    pub fn sent_by_group(&mut self, now: Time, packets: u64, bytes: u64) {
        self.liveness.sent(now, packets);
        if let Some(meter) = &mut self.meter
            && meter.sent(packets, bytes)
        {
            self.liveness.busy();
        }
    }
}
