//! How fast a connection may send: the controller of all media links, fed by acknowledgements.

use core::any::Any;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};
use sangam_link::{AckFeed, RateController};
use sangam_model::Time;

/// Bytes under way before the path is known: a video's first key frame should not wait for it.
const WINDOW_START: u64 = 32_000;
/// RFC 9002 section 7.2: a window of fewer than two packets could not even be probed.
const PACKETS_MIN: u64 = 2;

/// Makes one controller for each path of a connection.
#[derive(Debug)]
pub(super) struct Factory;

#[derive(Clone, Debug)]
struct ByDelay {
    start: Instant,
    feed: AckFeed,
    /// None until the path has answered: a guess at its round trip would be taken for the truth.
    rate: Option<RateController>,
    mtu: u64,
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(ByDelay {
            start: now,
            feed: AckFeed::new(Time::ZERO),
            rate: None,
            mtu: mtu.into(),
        })
    }
}

impl ByDelay {
    fn time(&self, now: Instant) -> Time {
        Time::ZERO + now.saturating_duration_since(self.start)
    }
}

impl Controller for ByDelay {
    fn on_sent(&mut self, _: Instant, bytes: u64, _: u64) {
        self.feed.on_sent(bytes);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _: bool, _: &RttEstimator) {
        self.feed.on_ack(bytes, now.saturating_duration_since(sent));
    }

    fn on_end_acks(&mut self, now: Instant, _: u64, _: bool, _: Option<u64>) {
        let now = self.time(now);
        if let Some(sample) = self.feed.sample(now) {
            let rate = self.rate.get_or_insert_with(|| {
                let rtt = sample.rtt.max(Duration::from_micros(1));
                RateController::new(now, rtt)
            });
            rate.handle(now, sample);
        }
    }

    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, lost_bytes: u64) {
        // Told once for all packets that an acknowledgement shows to be lost.
        for _ in 0..lost_bytes.div_ceil(self.mtu) {
            self.feed.on_loss();
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = mtu.into();
    }

    fn window(&self) -> u64 {
        let window = self.rate.as_ref().map(RateController::window_bytes);
        window.unwrap_or(WINDOW_START).max(PACKETS_MIN * self.mtu)
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        WINDOW_START
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1_200;

    /// Windows after some seconds of sending all that is allowed to a path of 100 ms and 8 Mb/s
    /// which loses every `lost`th packet.
    fn after(seconds: u32, lost: u64) -> u64 {
        let start = Instant::now();
        let mut path = Factory.boxed(start);
        // When the bottleneck is free, and what is under way: when it left and arrives.
        let mut free = start;
        let mut way: Vec<(Instant, Instant)> = Vec::new();
        let mut number = 0;
        for tick in 0..seconds * 1_000 {
            let now = start + Duration::from_millis(tick.into());
            while way.len() as u64 * PACKET < path.window() {
                path.on_sent(now, PACKET, number);
                number += 1;
                free = free.max(now) + Duration::from_micros(PACKET);
                way.push((now, free + Duration::from_millis(100)));
            }
            let due = way.iter().take_while(|(_, at)| *at <= now).count();
            for (index, (sent, _)) in way.drain(..due).enumerate() {
                if (number + index as u64) % lost == 0 {
                    path.on_congestion_event(now, sent, false, PACKET);
                } else {
                    path.feed.on_ack(PACKET, now - sent);
                }
            }
            path.on_end_acks(now, 0, false, None);
        }
        path.window()
    }

    impl Factory {
        fn boxed(&self, now: Instant) -> ByDelay {
            let made = Arc::new(Self).build(now, PACKET as u16);
            *made.into_any().downcast().expect("what the factory makes")
        }
    }

    #[test]
    fn a_path_is_filled_and_its_queue_stays_short() {
        let window = after(20, u64::MAX);
        // 100 kB are under way without any queue.
        assert!((90_000..300_000).contains(&window), "{window}");
    }

    #[test]
    fn loss_alone_starves_nothing() {
        let (clean, lossy) = (after(20, u64::MAX), after(20, 50));
        assert!(lossy > clean / 2, "{lossy} instead of {clean}");
    }
}
