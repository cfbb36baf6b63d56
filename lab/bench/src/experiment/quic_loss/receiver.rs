//! One client that receives a camera and its audio, and may ask for what it misses.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sangam_client::{Client, Received};
use sangam_io::clock;
use sangam_model::{Class, StreamId, Time};
use sangam_wire::{Event, Feedback};

use super::missing::Missing;
use super::stage::{MEDIA, filter, topic};
use crate::error::Error;
use crate::load::{Media, Stamp};
use crate::measure::{Reception, Window};

const PATIENCE: Duration = Duration::from_secs(20);
const TURN: Duration = Duration::from_millis(5);

/// What came of one stream.
pub(super) struct Stream {
    /// What it is.
    pub(super) media: Media,
    /// Packets published within the window.
    pub(super) expected: u64,
    /// Those that came.
    pub(super) reception: Reception,
    missing: Missing,
}

/// What a receiver heard.
pub(super) struct Heard {
    /// In the order of [`MEDIA`].
    pub(super) streams: Vec<Stream>,
    /// Requests for packets it sent.
    pub(super) nacks: u64,
}

/// A client and what it hears.
pub(super) struct Receiver {
    client: Client,
    repair: bool,
    heard: Heard,
    known: BTreeMap<StreamId, usize>,
}

impl Receiver {
    /// Subscribes.
    ///
    /// # Errors
    /// [`Error::Join`] if the broker does not answer.
    pub(super) fn new(mut client: Client, repair: bool) -> Result<Self, Error> {
        let asked = client.subscribe(&filter()?);
        asked.map_err(|error| Error::Join(error.to_string()))?;
        let begun = Instant::now();
        while !matches!(client.recv(TURN), Some(Received::Subscribed(_))) {
            if begun.elapsed() > PATIENCE {
                return Err(Error::Join("the subscription is not answered".to_owned()));
            }
        }
        let stream = |media| Stream {
            media,
            expected: 0,
            reception: Reception::new(),
            missing: Missing::default(),
        };
        Ok(Self {
            client,
            repair,
            heard: Heard {
                streams: MEDIA.into_iter().map(stream).collect(),
                nacks: 0,
            },
            known: BTreeMap::new(),
        })
    }

    /// Receives until it is over; `live` counts the streams of which something has come.
    pub(super) fn run(mut self, window: &Window, (live, over): (&AtomicU64, &AtomicBool)) -> Heard {
        let mut begun = [false; MEDIA.len()];
        while !over.load(Ordering::Relaxed) {
            match self.client.recv(TURN) {
                Some(Received::Announce { stream, topic, .. }) => self.announced(stream, &topic),
                Some(Received::Event(packet)) => {
                    if let Some(number) = self.take(&packet, window)
                        && !std::mem::replace(&mut begun[number], true)
                    {
                        live.fetch_add(1, Ordering::Relaxed);
                    }
                }
                _ => {}
            }
            if self.repair {
                self.ask(clock::now());
            }
        }
        self.heard
    }

    fn announced(&mut self, stream: StreamId, said: &sangam_model::Topic) {
        let is_it = |number: &usize| topic(*number).is_ok_and(|topic| topic == *said);
        if let Some(number) = (0..MEDIA.len()).find(is_it) {
            self.known.insert(stream, number);
        }
    }

    /// The number of the stream that a packet is of.
    fn take(&mut self, packet: &[u8], window: &Window) -> Option<usize> {
        let now = clock::now();
        let stamp = Stamp::of_event(packet)?;
        let event = Event::decode(packet).ok()?;
        let number = *self.known.get(&event.header.stream)?;
        let stream = &mut self.heard.streams[number];
        stream.missing.take(stamp.number, now);
        if window.holds(stamp.sent) {
            stream.reception.take(stamp, now);
        }
        Some(number)
    }

    fn ask(&mut self, now: Time) {
        // Brokers answer for video only.
        let video = |(_, number): &(&StreamId, &usize)| MEDIA[**number].class() == Class::Video;
        for (id, number) in self.known.iter().filter(video) {
            for nack in self.heard.streams[*number].missing.due(now) {
                self.heard.nacks += 1;
                // One that does not leave is sent again.
                let _ = self.client.feedback(*id, 0, &Feedback::Nack(nack));
            }
        }
    }
}
