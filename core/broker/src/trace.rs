//! Traces: sampled events note the brokers they cross.
//!
//! Wu et al., section 3.1 (2): as an event flows through the system, its trace shows how it was
//! disseminated. Here only samples carry one, in an extension with room for every hop.

use sangam_model::{BrokerId, Time};
use sangam_wire::{Event, Flags, trace_hop};

/// What a broker writes into traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The broker.
    pub broker: BrokerId,
    /// Its clock: delays are known only where the origin's clock is the same.
    pub clock_domain: u32,
}

impl Stamp {
    /// Adds this broker to the trace of an encoded event, in place; false, and nothing done, if it
    /// carries none or the trace is full. Looks at one byte of an event without extensions.
    #[inline]
    pub fn mark(&self, now: Time, event: &mut [u8]) -> bool {
        let flags = Flags::from_bits(event.get(1).copied().unwrap_or(0));
        flags.contains(Flags::EXTENDED) && self.mark_extended(now, event)
    }

    #[cold]
    fn mark_extended(&self, now: Time, event: &mut [u8]) -> bool {
        let domain = Event::decode(event)
            .ok()
            .and_then(|event| event.extensions.trace())
            .map(|trace| trace.clock_domain);
        domain.is_some_and(|domain| {
            let same = domain == self.clock_domain;
            let now_us = if same { now.as_micros() } else { u64::MAX };
            trace_hop(event, self.broker, now_us)
        })
    }
}

/// Chooses the events that carry a trace: every nth.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    every: u32,
    left: u32,
}

impl Sampler {
    /// One event of `every`, the first included; none if 0.
    #[must_use]
    pub const fn new(every: u32) -> Self {
        Self { every, left: 0 }
    }

    /// Whether the next event is one of them.
    #[inline]
    pub const fn take(&mut self) -> bool {
        if self.every == 0 {
            return false;
        }
        let taken = self.left == 0;
        self.left = if taken { self.every } else { self.left } - 1;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sangam_model::{Class, Incarnation, StreamId};
    use sangam_wire::{ExtensionBlock, Extensions, Header};

    fn event(extensions: Extensions<'_>) -> Vec<u8> {
        let header = Header {
            class: Class::Audio,
            flags: Flags::NONE,
            stream: StreamId::new(BrokerId(1), Incarnation(0), 1),
            sequence: 0,
            hop_limit: 15,
            layer: 0,
        };
        let event = Event {
            header,
            extensions,
            payload: b"sound",
        };
        let mut bytes = vec![0; event.encoded_len()];
        event.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn brokers_write_themselves_in_order_and_delays_only_by_the_same_clock() {
        let mut block = ExtensionBlock::new();
        block.trace(7, 1_000);
        let mut bytes = event(block.extensions());
        for (broker, clock_domain, at) in [(1, 7, 1_010), (2, 8, 5), (3, 7, 1_900)] {
            let stamp = Stamp {
                broker: BrokerId(broker),
                clock_domain,
            };
            assert!(stamp.mark(Time::from_micros(at), &mut bytes));
        }
        let decoded = Event::decode(&bytes).unwrap();
        let hops = decoded.extensions.trace().unwrap().hops();
        let hops: Vec<_> = hops.map(|hop| (hop.broker.0, hop.delay_us)).collect();
        assert_eq!(hops, [(1, 10), (2, u32::MAX), (3, 900)]);
        assert_eq!(decoded.payload, b"sound");
    }

    #[test]
    fn an_event_without_a_trace_stays_as_it_is() {
        let plain = event(Extensions::NONE);
        let mut marked = plain.clone();
        let stamp = Stamp {
            broker: BrokerId(1),
            clock_domain: 7,
        };
        assert!(!stamp.mark(Time::ZERO, &mut marked));
        assert_eq!(marked, plain);
        assert!(!stamp.mark(Time::ZERO, &mut []));
    }

    #[test]
    fn every_nth_event_is_sampled() {
        let mut sampler = Sampler::new(3);
        let taken: Vec<_> = (0..7).map(|_| sampler.take()).collect();
        assert_eq!(taken, [true, false, false, true, false, false, true]);
        assert!(!Sampler::new(0).take());
    }
}
