//! Many events in little time: bursts of equal packets, as fast as the broker takes them.

use std::thread;
use std::time::Duration;

use sangam_client::{Client, ClientOptions, Outgoing, Publisher, Target};
use sangam_model::limits::BURST_MAX;
use sangam_node::Broker;

use super::{connect_with, counted, eventually, options, publish, udp_of};

/// Events on their way at once, which the broker's socket holds.
const AHEAD: u64 = 1_024;
const LEN: usize = 200;

/// A publisher that fills whatever it may.
pub(crate) struct Torrent {
    publisher: Publisher,
    _client: Client,
}

impl Torrent {
    pub(crate) fn at(broker: &Broker, name: &str) -> Self {
        let options = ClientOptions {
            socket_buffer: 4 << 20,
            ..options()
        };
        let mut client = connect_with(Target::Udp(udp_of(broker)), options);
        let publisher = publish(&mut client, name);
        Self {
            publisher,
            _client: client,
        }
    }

    /// Sends a little until each of these brokers delivers, and nothing is on its way any more.
    #[track_caller]
    pub(crate) fn open(&mut self, brokers: &[&Broker]) {
        for broker in brokers {
            eventually("a path is open", || {
                // A full queue only means that something is on its way.
                let _ = self.publisher.send(Outgoing::new(&[7; LEN]));
                delivered(&[broker]) > 0
            });
        }
        let mut last = 0;
        eventually("nothing is on its way", || {
            thread::park_timeout(Duration::from_millis(50));
            let now = delivered(brokers);
            std::mem::replace(&mut last, now) == now
        });
    }

    /// Sends `count` events and waits until these brokers have delivered each to so many
    /// listeners together.
    #[track_caller]
    pub(crate) fn pour(&mut self, count: u64, (brokers, listeners): (&[&Broker], u64)) {
        let payload = [7; LEN];
        let burst = [Outgoing::new(&payload); BURST_MAX];
        let before = delivered(brokers);
        let mut sent = 0;
        while sent < count {
            for _ in 0..AHEAD / BURST_MAX as u64 {
                eventually("the publisher's queue has room", || {
                    self.publisher.send_burst(&burst).is_ok()
                });
                sent += BURST_MAX as u64;
            }
            let ahead = if sent < count { AHEAD } else { 0 };
            eventually("what is sent is delivered", || {
                delivered(brokers) - before >= (sent - ahead) * listeners
            });
        }
    }
}

/// Events sent to subscribers of these brokers.
pub(crate) fn delivered(brokers: &[&Broker]) -> u64 {
    let of = |broker: &&Broker| counted(broker, "sangam_delivered_packets_total");
    brokers.iter().map(of).sum()
}
