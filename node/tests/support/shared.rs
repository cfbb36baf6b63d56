//! What left for multicast groups, and for how many receivers that was.

use sangam_node::Broker;

use super::counted;

/// A broker that the machine lets wait has an event as a copy, and a group that it lets wait for
/// 250 ms falls: few events may have left otherwise.
const COPIES_PERCENT: u64 = 5;

/// Groups of clients, or of neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Groups {
    Clients,
    Links,
}

/// What a broker has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shared {
    pub(crate) packets: u64,
    pub(crate) deliveries: u64,
    /// Receivers that stopped hearing a group.
    pub(crate) falls: u64,
}

impl Shared {
    pub(crate) fn of(broker: &Broker, groups: Groups) -> Self {
        let [packets, deliveries, falls] = match groups {
            Groups::Clients => [
                "sangam_group_packets_total",
                "sangam_group_deliveries_total",
                "sangam_group_falls_total",
            ],
            Groups::Links => [
                "sangam_link_group_packets_total",
                "sangam_link_group_deliveries_total",
                "sangam_link_group_falls_total",
            ],
        }
        .map(|name| counted(broker, name));
        Self {
            packets,
            deliveries,
            falls,
        }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets - before.packets,
            deliveries: self.deliveries - before.deliveries,
            falls: self.falls - before.falls,
        }
    }

    /// How many receivers each packet was for; zero unless they agree.
    pub(crate) fn listeners(self) -> u64 {
        match self.deliveries.checked_rem(self.packets) {
            Some(0) => self.deliveries / self.packets,
            _ => 0,
        }
    }

    /// Each of so many events left once for so many receivers, but for the few that a busy
    /// machine makes copies of.
    #[track_caller]
    pub(crate) fn is_each_once(self, events: u64, listeners: u64) {
        let least = events * (100 - COPIES_PERCENT) / 100;
        assert!((least..=events).contains(&self.packets), "{self:?}");
        assert!(self.deliveries >= listeners * least, "{self:?}");
    }
}
