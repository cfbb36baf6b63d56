use sangam_io::pool::Pool;

use super::*;

const RATE: u32 = 48_000;

struct Stream {
    pool: Pool,
    playout: Playout,
}

impl Stream {
    fn new() -> Self {
        Self {
            pool: Pool::new(64, 0),
            playout: Playout::new(Kind::Ours, RATE),
        }
    }

    fn event(&self, number: u8) -> Packet {
        self.pool.copy(&[number]).unwrap().freeze()
    }

    /// Packet `number` of 10 ms arrives.
    fn arrives(&mut self, ssrc: u32, number: u8, ms: u64) {
        let header = rtp::Header {
            ssrc,
            sequence: u16::from(number).wrapping_sub(2),
            timestamp: u32::from(number) * 480,
            ..rtp::Header::default()
        };
        let event = self.event(number);
        self.playout.packet(header, event, Time::from_millis(ms));
    }

    fn plays(&mut self, now: Time) -> Vec<u8> {
        core::iter::from_fn(|| self.playout.poll(now))
            .map(|packet| packet[0])
            .collect()
    }
}

#[test]
fn packets_come_out_in_order_and_their_buffers_come_back() {
    let mut stream = Stream::new();
    // 3 comes after 4 and twice; sequences wrap after 1.
    for (number, ms) in [(0, 0), (1, 10), (2, 20), (4, 40), (3, 45), (3, 46), (5, 50)] {
        stream.arrives(7, number, ms);
    }
    assert_eq!(stream.plays(Time::NEVER), [0, 1, 2, 3, 4, 5]);
    stream.arrives(7, 2, 400);
    assert_eq!(stream.plays(Time::NEVER), []);
    assert_eq!(stream.playout.stats().duplicates, 2);
    assert_eq!(stream.pool.free().0, 64);
}

#[test]
fn packets_wait_for_their_time() {
    let mut stream = Stream::new();
    stream.arrives(7, 0, 1_000);
    assert_eq!(stream.plays(Time::from_millis(1_000)), []);
    let due = stream.playout.deadline().unwrap();
    assert!(due < Time::from_millis(1_100));
    assert_eq!(stream.plays(due), [0]);
    assert_eq!(stream.playout.deadline(), None);
}

#[test]
fn control_comes_after_the_media_before_it() {
    let mut stream = Stream::new();
    stream.arrives(7, 0, 0);
    let goodbye = stream.event(99);
    stream.playout.control(goodbye);
    assert_eq!(stream.plays(Time::ZERO), []);
    assert_eq!(stream.plays(Time::NEVER), [0, 99]);
    let alone = stream.event(98);
    stream.playout.control(alone);
    assert_eq!(stream.plays(Time::from_millis(2)), [98]);
}

#[test]
fn another_source_takes_over_once_the_first_is_silent() {
    let mut stream = Stream::new();
    stream.arrives(7, 0, 0);
    stream.arrives(8, 100, 10);
    assert_eq!(stream.plays(Time::from_millis(10)), [100], "goes through");
    stream.arrives(8, 101, 600);
    assert_eq!(stream.plays(Time::from_millis(600)), [0], "is held now");
    stream.arrives(8, 102, 610);
    assert_eq!(stream.plays(Time::NEVER), [101, 102]);
}
