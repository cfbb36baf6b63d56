//! Handshakes that overtook the word of whose they are.
//!
//! A peer of another shard is known here once that shard has told; its first DTLS flight follows
//! its first STUN request at once, and is said again after a second at the earliest.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use sangam_io::pool::Packet;
use sangam_model::Time;

/// Datagrams that wait at once; a flight has one or two.
const WAITING: usize = 64;
/// Shards answer each other within a millisecond or two, unless they are overloaded.
const WAIT: Duration = Duration::from_millis(250);

/// One that waits.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) packet: Packet,
}

/// Those that wait, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Early(VecDeque<(Time, Flight)>);

impl Early {
    /// Keeps a datagram; how many went for it that nobody claimed.
    pub(crate) fn keep(&mut self, now: Time, flight: Flight) -> u64 {
        let mut gone = 0;
        while let Some((since, _)) = self.0.front()
            && (self.0.len() >= WAITING || now - *since > WAIT)
        {
            self.0.pop_front();
            gone += 1;
        }
        self.0.push_back((now, flight));
        gone
    }

    /// What came from an address that now belongs to somebody.
    pub(crate) fn take(&mut self, now: Time, from: SocketAddr) -> Vec<Flight> {
        let mut theirs = Vec::new();
        for (since, flight) in std::mem::take(&mut self.0) {
            if flight.from != from {
                self.0.push_back((since, flight));
            } else if now - since <= WAIT {
                theirs.push(flight);
            }
        }
        theirs
    }
}

#[cfg(test)]
mod tests {
    use sangam_io::pool::Pool;

    use super::*;

    fn pool() -> Pool {
        Pool::new(256, 1)
    }

    fn flight(port: u16, pool: &Pool) -> Flight {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Flight {
            from: address(port),
            to: address(1),
            packet: pool.copy(b"hello").unwrap().freeze(),
        }
    }

    fn ports(flights: &[Flight]) -> Vec<u16> {
        flights.iter().map(|one| one.from.port()).collect()
    }

    #[test]
    fn what_waits_is_handed_over_once_and_only_while_it_is_fresh() {
        let (pool, mut early) = (pool(), Early::default());
        let at = |ms: u64| Time::from_millis(1_000 + ms);
        for (ms, port) in [(0, 7), (10, 8), (20, 7)] {
            assert_eq!(early.keep(at(ms), flight(port, &pool)), 0);
        }
        let seven = flight(7, &pool).from;
        assert_eq!(ports(&early.take(at(30), seven)), [7, 7]);
        assert_eq!(ports(&early.take(at(30), seven)), [0; 0]);
        let eight = flight(8, &pool).from;
        assert_eq!(ports(&early.take(at(300), eight)), [0; 0], "too late");
    }

    #[test]
    fn beyond_the_bound_the_oldest_goes_and_is_counted() {
        let (pool, mut early) = (pool(), Early::default());
        let now = Time::from_millis(1_000);
        let gone: u64 = (0..=WAITING as u16)
            .map(|port| early.keep(now, flight(port, &pool)))
            .sum();
        assert_eq!(gone, 1);
        assert!(early.take(now, flight(0, &pool).from).is_empty());
        let later = now + 2 * WAIT;
        assert_eq!(early.keep(later, flight(9, &pool)), WAITING as u64);
    }
}
