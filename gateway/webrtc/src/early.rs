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
    /// Keeps a datagram; how many went that nobody claimed.
    pub(crate) fn keep(&mut self, now: Time, flight: Flight) -> u64 {
        let mut gone = self.expire(now);
        if self.0.len() >= WAITING {
            self.0.pop_front();
            gone += 1;
        }
        self.0.push_back((now, flight));
        gone
    }

    /// What came from an address that now belongs to somebody, and how many went that nobody
    /// claimed.
    pub(crate) fn take(&mut self, now: Time, from: SocketAddr) -> (Vec<Flight>, u64) {
        let gone = self.expire(now);
        let mut theirs = Vec::new();
        for (since, flight) in std::mem::take(&mut self.0) {
            match flight.from == from {
                true => theirs.push(flight),
                false => self.0.push_back((since, flight)),
            }
        }
        (theirs, gone)
    }

    fn expire(&mut self, now: Time) -> u64 {
        let mut gone = 0;
        while let Some((since, _)) = self.0.front()
            && now - *since > WAIT
        {
            self.0.pop_front();
            gone += 1;
        }
        gone
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
        let mut take = |ms, port| {
            let (theirs, gone) = early.take(at(ms), flight(port, &pool).from);
            (ports(&theirs), gone)
        };
        assert_eq!(take(30, 7), (vec![7, 7], 0));
        assert_eq!(take(30, 7), (Vec::new(), 0));
        assert_eq!(take(300, 8), (Vec::new(), 1), "too late, and counted");
        assert_eq!(take(300, 8), (Vec::new(), 0));
    }

    #[test]
    fn beyond_the_bound_the_oldest_goes_and_is_counted() {
        let (pool, mut early) = (pool(), Early::default());
        let now = Time::from_millis(1_000);
        let gone: u64 = (0..=WAITING as u16)
            .map(|port| early.keep(now, flight(port, &pool)))
            .sum();
        assert_eq!(gone, 1);
        assert!(early.take(now, flight(0, &pool).from).0.is_empty());
        let later = now + 2 * WAIT;
        assert_eq!(early.keep(later, flight(9, &pool)), WAITING as u64);
    }
}
