//! Addresses of 127.0.0.0/8, every one of which is local: one for each participant.

use std::net::Ipv4Addr;

/// Region 0 begins at 127.16.0.1, so that no participant has 127.0.0.1.
const FIRST: u32 = 0x7f10_0001;
/// Participants of one region.
const REGION_BITS: u32 = 20;

/// Regions of listeners that only count; one thread each.
pub(crate) const LISTENERS_MAX: usize = 8;
/// Region of members of sessions.
pub(crate) const MEMBERS: u32 = 11;
/// Region of measured receivers.
pub(crate) const PROBES: u32 = 12;
/// Region of publishers.
pub(crate) const PUBLISHERS: u32 = 13;

/// The address of a region's participant.
pub(crate) fn address(region: u32, number: u32) -> Ipv4Addr {
    Ipv4Addr::from(FIRST + (region << REGION_BITS) + number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_do_not_overlap_and_stay_on_loopback() {
        for region in [0, 7, MEMBERS, PROBES, PUBLISHERS] {
            for participant in [0, 299, (1 << REGION_BITS) - 1] {
                let address = address(region, participant);
                assert!(address.is_loopback() && !address.is_broadcast());
            }
        }
        assert!(address(0, (1 << REGION_BITS) - 1) < address(1, 0));
    }
}
