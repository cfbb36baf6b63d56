//! One client that publishes a camera and its audio.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sangam_client::{Client, Numbering, Outgoing, Publisher};
use sangam_io::clock;
use sangam_model::{StreamId, Time};
use sangam_wire::{Event, HEADER_LEN};

use super::stage::{MEDIA, topic};
use crate::error::Error;
use crate::load::{Load, Packetizer};
use crate::measure::Window;

const PATIENCE: Duration = Duration::from_secs(20);
/// Looks at least this often whether it is over.
const TURN: Duration = Duration::from_millis(5);

/// One stream.
struct Stream {
    publisher: Publisher,
    packetizer: Packetizer,
    load: Load,
    due: Time,
    frames: u64,
    /// Packets sent within the window.
    sent: u64,
}

/// A client and its streams.
pub(super) struct Sender {
    streams: Vec<Stream>,
    client: Client,
}

impl Sender {
    /// Asks for the streams, in the order of [`MEDIA`].
    ///
    /// # Errors
    /// [`Error::Join`] if one is not granted.
    pub(super) fn new(mut client: Client) -> Result<Self, Error> {
        let mut streams = Vec::new();
        for (number, media) in MEDIA.into_iter().enumerate() {
            let granted = client.publish(&topic(number)?, media.info(), PATIENCE);
            let mut publisher = granted.map_err(|error| Error::Join(error.to_string()))?;
            // So that a packet's number in its stamp names it in a NACK.
            publisher.set_numbering(Numbering::Rtp);
            let load = Load::of(media);
            streams.push(Stream {
                publisher,
                packetizer: Packetizer::new(&load, StreamId::from_bits(0)),
                load,
                // Streams do not all begin at the same moment.
                due: clock::now() + Duration::from_micros(3_571) * number as u32,
                frames: 0,
                sent: 0,
            });
        }
        Ok(Self { streams, client })
    }

    /// Publishes until it is over; packets of each stream within the window.
    pub(super) fn run(mut self, window: &Window, over: &AtomicBool) -> Vec<u64> {
        while !over.load(Ordering::Relaxed) {
            let now = clock::now();
            for stream in &mut self.streams {
                if stream.due <= now {
                    stream.send(now, window);
                }
            }
            // Feedback is of no interest, but has to be read.
            while self.client.try_recv().is_some() {}
            let next = self.streams.iter().map(|stream| stream.due).min();
            let pause = next.map_or(TURN, |next| (next - clock::now()).min(TURN));
            std::thread::sleep(pause);
        }
        self.streams.iter().map(|stream| stream.sent).collect()
    }
}

impl Stream {
    fn send(&mut self, now: Time, window: &Window) {
        let frame = self.load.frame(self.frames);
        let burst = self.packetizer.frame(frame, now);
        let events = burst.packets().map(|packet| Outgoing {
            flags: Event::decode(packet).map_or_else(|_| Default::default(), |e| e.header.flags),
            layer: 0,
            payload: &packet[HEADER_LEN..],
        });
        let events: Vec<Outgoing<'_>> = events.collect();
        // What does not leave is lost, and counts as that.
        let _ = self.publisher.send_burst(&events);
        if window.holds(now) {
            self.sent += events.len() as u64;
        }
        self.frames += 1;
        self.due += self.load.interval;
    }
}
