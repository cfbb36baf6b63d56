//! Addresses of 127.0.0.0/8, every one of which is local: one for each participant.

use std::net::{IpAddr, Ipv4Addr};

/// Region 0 begins at 127.16.0.1, so that no participant has 127.0.0.1.
const FIRST: u32 = 0x7f10_0001;
/// Participants of one region.
const REGION_BITS: u32 = 20;

/// Regions of listeners that only count; one thread each.
pub(crate) const LISTENERS_MAX: usize = 8;
/// Region of measured receivers.
pub(crate) const PROBES: u32 = 12;
/// Region of publishers.
pub(crate) const PUBLISHERS: u32 = 13;

/// The address of a region's participant.
pub(crate) fn address(region: u32, number: u32) -> Ipv4Addr {
    Ipv4Addr::from(FIRST + (region << REGION_BITS) + number)
}

/// The participant of a region that has an address; past the region's end for a foreign one.
pub(crate) fn number(region: u32, address: Option<IpAddr>) -> usize {
    match address {
        Some(IpAddr::V4(v4)) => {
            u32::from(v4).wrapping_sub(FIRST + (region << REGION_BITS)) as usize
        }
        _ => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_do_not_overlap_and_stay_on_loopback() {
        for region in [0, 7, PROBES, PUBLISHERS] {
            for participant in [0, 299, (1 << REGION_BITS) - 1] {
                let address = address(region, participant);
                assert!(address.is_loopback() && !address.is_broadcast());
                assert_eq!(number(region, Some(address.into())), participant as usize);
            }
        }
        assert!(number(1, Some(address(0, 5).into())) > 1 << REGION_BITS);
    }
}
