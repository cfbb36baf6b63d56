//! The numbers of a packet: docs/spec/film-delivery.md, "Packets".

/// The one-byte form of RFC 8285.
const PROFILE: u16 = 0xbede;
/// Of the element, and its length less one (RFC 8285 section 4.2).
const ELEMENT: u8 = 1 << 4 | 5;
/// A packet that another node repeats has no local number.
const NO_LSN: u32 = u32::MAX;

/// Which node sent a packet, and the how manyth of it that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The node.
    pub node: u16,
    /// Its local sequence number; `None` if the packet was repeated by its global one.
    pub lsn: Option<u32>,
}

impl Numbers {
    /// Out of a header extension: its profile and its content. `None` if it has no such element.
    #[must_use]
    pub fn read(extension: Option<(u16, &[u8])>) -> Option<Self> {
        let (PROFILE, [ELEMENT, n0, n1, l0, l1, l2, l3, ..]) = extension? else {
            return None;
        };
        let lsn = u32::from_be_bytes([*l0, *l1, *l2, *l3]);
        Some(Self {
            node: u16::from_be_bytes([*n0, *n1]),
            lsn: (lsn != NO_LSN).then_some(lsn),
        })
    }
}

/// The number nearest to `near` that ends with these 16 bits.
#[must_use]
pub const fn extend(near: u64, low: u16) -> u64 {
    let ahead = low.wrapping_sub(near as u16) as i16;
    match near.checked_add_signed(ahead as i64) {
        Some(number) => number,
        // Before the first: it cannot be nearer than one round on.
        None => near + (low.wrapping_sub(near as u16)) as u64,
    }
}
