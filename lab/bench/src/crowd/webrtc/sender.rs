//! What is sent, and the thread that does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Medium;
use super::peers::Peers;

/// Beats of video from one key frame to the next that nobody asked for: ten seconds of 25.
const KEY_EVERY: u64 = 250;

/// A stream: so many packets of so many bytes, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    /// Of what.
    pub(crate) medium: Medium,
    /// Packets of one frame.
    pub(crate) packets: usize,
    /// Bytes of each payload, at least two.
    pub(crate) bytes: usize,
    /// Between frames; whole milliseconds.
    pub(crate) every: Duration,
}

/// A peer that sends until it is stopped.
pub(crate) struct Sender {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    sent: [AtomicU64; 2],
}

impl Beat {
    /// A packet's payload: VP8 (RFC 7741) or silence.
    pub(super) fn payload(&self, first: bool, key: bool) -> Vec<u8> {
        const PARTITION_BEGINS: u8 = 0x10;
        const NO_KEY_FRAME: u8 = 0x01;
        let mut payload = vec![0x55; self.bytes];
        if let (Medium::Video, [descriptor, header, ..]) = (self.medium, &mut payload[..]) {
            *descriptor = if first { PARTITION_BEGINS } else { 0 };
            *header = if key { 0 } else { NO_KEY_FRAME };
        }
        payload
    }
}

impl Sender {
    /// Sends these streams by peers that are connected.
    pub(crate) fn start(peers: Peers, beats: Vec<Beat>) -> Self {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let thread = thread::spawn(move || own.send(peers, &beats));
        Self {
            shared,
            thread: Some(thread),
        }
    }

    /// Packets of each medium so far.
    pub(crate) fn sent(&self) -> [u64; 2] {
        self.shared.sent.each_ref().map(|sent| sent.load(Relaxed))
    }

    /// Sends nothing more.
    pub(crate) fn stop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn send(&self, mut peers: Peers, beats: &[Beat]) {
        let begun = Instant::now();
        let mut numbers = vec![0_u64; beats.len()];
        while !self.stop.load(Relaxed) {
            let due = |place: &usize| begun + beats[*place].every * numbers[*place] as u32;
            let Some(first) = (0..beats.len()).min_by_key(due) else {
                return;
            };
            let ahead = due(&first).saturating_duration_since(Instant::now());
            if !ahead.is_zero() {
                peers.pass(ahead);
                continue;
            }
            let (beat, number) = (&beats[first], numbers[first]);
            let video = beat.medium == Medium::Video;
            let wanted = video && std::mem::take(&mut peers.tally().key_wanted);
            let key = wanted || number.is_multiple_of(KEY_EVERY);
            let packets = peers.beat(beat, (number, key));
            self.sent[beat.medium as usize].fetch_add(packets as u64, Relaxed);
            numbers[first] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_frame_shows_in_its_first_packet() {
        let beat = Beat {
            medium: Medium::Video,
            packets: 2,
            bytes: 10,
            every: Duration::from_millis(40),
        };
        assert_eq!(beat.payload(true, true)[..2], [0x10, 0]);
        assert_eq!(beat.payload(true, false)[..2], [0x10, 1]);
        assert_eq!(beat.payload(false, false)[0], 0);
        let sound = Beat {
            medium: Medium::Audio,
            ..beat
        };
        assert_eq!(sound.payload(true, true), [0x55; 10]);
    }
}
