//! Identities that travel on the wire.

use core::fmt;

/// A broker: the first 32 bits of the SHA-256 of its public key.
///
/// With a thousand brokers two share an id with a probability of about 1 in 8,600; a broker
/// refuses a neighbour that carries its own id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerId(pub u32);

/// Which start of a broker this is, modulo 256, so that streams of an earlier life are not
/// mistaken for new ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u8);

/// A publisher on a reliable topic, drawn at random for each start of each publisher: its events
/// are numbered from 1 and never again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublisherId(pub u64);

impl fmt::Display for PublisherId {
    /// 16 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A self-describing stream id: origin broker (32 bits), its incarnation (8), local number (24).
///
/// It names the origin by itself, so nothing returns to its sender and a stream that takes
/// another way needs no handshake there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

impl StreamId {
    /// The largest local number, 2^24 - 1.
    pub const LOCAL_MAX: u32 = 0x00ff_ffff;

    /// Joins the three parts. Bits of `local` above the 24th are ignored.
    #[must_use]
    pub const fn new(broker: BrokerId, incarnation: Incarnation, local: u32) -> Self {
        Self(
            ((broker.0 as u64) << 32)
                | ((incarnation.0 as u64) << 24)
                | (local & Self::LOCAL_MAX) as u64,
        )
    }

    /// The id whose big-endian wire form is `bits`. Every value is a valid id.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The id as it stands on the wire (big-endian).
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The broker through which the stream entered the network.
    #[must_use]
    pub const fn broker(self) -> BrokerId {
        BrokerId((self.0 >> 32) as u32)
    }

    /// Which life of that broker.
    #[must_use]
    pub const fn incarnation(self) -> Incarnation {
        Incarnation((self.0 >> 24) as u8)
    }

    /// The stream's number at its origin, `0..=LOCAL_MAX`.
    #[must_use]
    pub const fn local(self) -> u32 {
        (self.0 as u32) & Self::LOCAL_MAX
    }
}

impl fmt::Display for BrokerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Display for StreamId {
    /// `broker.incarnation.local`, for example `1f2e3d4c.7.12`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{}.{}",
            self.broker(),
            self.incarnation().0,
            self.local()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_id_returns_its_parts() {
        let id = StreamId::new(BrokerId(0x1f2e_3d4c), Incarnation(7), 12);
        assert_eq!(id.broker(), BrokerId(0x1f2e_3d4c));
        assert_eq!(id.incarnation(), Incarnation(7));
        assert_eq!(id.local(), 12);
        assert_eq!(StreamId::from_bits(id.bits()), id);
        assert_eq!(id.to_string(), "1f2e3d4c.7.12");
    }

    #[test]
    fn local_number_cannot_spill_into_the_incarnation() {
        let id = StreamId::new(BrokerId(1), Incarnation(2), u32::MAX);
        assert_eq!(id.incarnation(), Incarnation(2));
        assert_eq!(id.local(), StreamId::LOCAL_MAX);
    }
}
