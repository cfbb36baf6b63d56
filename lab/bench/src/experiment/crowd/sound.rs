//! Those of the crowd who speak, and some who listen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sangam_client::{Client, ClientOptions, Outgoing, Publisher, Received, Target};
use sangam_io::clock;
use sangam_model::{Filter, StreamId, Time, Topic};
use sangam_wire::{Event, HEADER_LEN};

use crate::error::Error;
use crate::load::{Load, Media, Packetizer, Stamp};
use crate::measure::{Reception, Window};
use crate::process::Broker;
use crate::scenario::wait;

const PATIENCE: Duration = Duration::from_secs(20);
/// Looks at least this often whether it is over.
const TURN: Duration = Duration::from_millis(10);
/// From the end of the window until what is on its way has come.
const RUN_OUT: Duration = Duration::from_millis(300);

/// What all listeners heard.
pub(super) struct Heard {
    /// Packets published within the window, for each of them.
    pub(super) expected: u64,
    /// Those that came.
    pub(super) reception: Reception,
}

/// Running streams.
pub(super) struct Sound {
    shared: Arc<Shared>,
    speakers: JoinHandle<u64>,
    listeners: Vec<JoinHandle<Reception>>,
    from: Time,
}

struct Shared {
    window: Window,
    over: AtomicBool,
    /// Streams that listeners have heard of.
    live: AtomicU64,
}

/// One member's stream.
struct Stream {
    client: Client,
    publisher: Publisher,
    packetizer: Packetizer,
    due: Time,
    frames: u64,
}

impl Sound {
    /// Lets the members of these topics speak and so many others hear everything below `filter`;
    /// counts from then on.
    ///
    /// # Errors
    /// [`Error::Join`] if a client does not get in, or nothing comes.
    pub(super) fn start(
        broker: &Broker,
        topics: &[String],
        (listeners, filter): (usize, &str),
    ) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            window: Window::new(),
            over: AtomicBool::new(false),
            live: AtomicU64::new(0),
        });
        let filter = Filter::new(filter).map_err(failed)?;
        let mut heard = Vec::new();
        for number in 0..listeners {
            let client = connect(broker, topics.len() + number)?;
            client.subscribe(&filter).map_err(failed)?;
            let own = Arc::clone(&shared);
            heard.push(thread::spawn(move || own.listen(client)));
        }
        let streams = topics
            .iter()
            .enumerate()
            .map(|(number, topic)| Stream::new(broker, (number, topic)));
        let streams = streams.collect::<Result<Vec<_>, Error>>()?;
        let own = Arc::clone(&shared);
        let speakers = thread::spawn(move || own.speak(streams));
        let expected = topics.len() * listeners;
        wait("streams of speakers heard", expected, || {
            shared.live.load(Ordering::Relaxed) == expected as u64
        })?;
        let from = clock::now();
        shared.window.set(from, Time::NEVER);
        Ok(Self {
            shared,
            speakers,
            listeners: heard,
            from,
        })
    }

    /// Ends it; what all listeners heard.
    ///
    /// # Errors
    /// [`Error::Join`] if a thread has ended before.
    pub(super) fn finish(self) -> Result<Heard, Error> {
        self.shared.window.set(self.from, clock::now());
        thread::sleep(RUN_OUT);
        self.shared.over.store(true, Ordering::Relaxed);
        let died = |_| Error::Join("a thread of speakers or listeners died".to_owned());
        let sent = self.speakers.join().map_err(died)?;
        let expected = sent * self.listeners.len() as u64;
        let mut reception = Reception::new();
        for listener in self.listeners {
            reception.merge(&listener.join().map_err(died)?);
        }
        Ok(Heard {
            expected,
            reception,
        })
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Publishes until it is over; packets within the window.
    fn speak(&self, mut streams: Vec<Stream>) -> u64 {
        let load = Load::of(Media::Audio);
        let mut sent = 0;
        while !self.is_over() {
            let now = clock::now();
            for stream in streams.iter_mut().filter(|stream| stream.due <= now) {
                stream.send(&load, now);
                sent += u64::from(self.window.holds(now));
            }
            let next = streams.iter().map(|stream| stream.due).min();
            let pause = next.map_or(TURN, |next| (next - clock::now()).min(TURN));
            thread::sleep(pause);
        }
        sent
    }

    fn listen(&self, mut client: Client) -> Reception {
        let mut streams: BTreeMap<StreamId, Reception> = BTreeMap::new();
        while !self.is_over() {
            let Some(Received::Event(packet)) = client.recv(TURN) else {
                continue;
            };
            let (Some(stamp), Ok(event)) = (Stamp::of_event(&packet), Event::decode(&packet))
            else {
                continue;
            };
            let heard = streams.entry(event.header.stream).or_insert_with(|| {
                self.live.fetch_add(1, Ordering::Relaxed);
                Reception::new()
            });
            if self.window.holds(stamp.sent) {
                heard.take(stamp, clock::now());
            }
        }
        let mut all = Reception::new();
        streams.values().for_each(|one| all.merge(one));
        all
    }
}

impl Stream {
    fn new(broker: &Broker, (number, topic): (usize, &String)) -> Result<Self, Error> {
        let mut client = connect(broker, number)?;
        let topic = Topic::new(topic).map_err(failed)?;
        let publisher = client.publish(&topic, Media::Audio.info(), PATIENCE);
        Ok(Self {
            client,
            publisher: publisher.map_err(failed)?,
            // The publisher writes its own stream into each event.
            packetizer: Packetizer::new(&Load::of(Media::Audio), StreamId::from_bits(0)),
            // Not all at the same moment.
            due: clock::now() + Duration::from_micros(3_571) * number as u32,
            frames: 0,
        })
    }

    fn send(&mut self, load: &Load, now: Time) {
        let burst = self.packetizer.frame(load.frame(self.frames), now);
        for packet in burst.packets() {
            // What does not leave is lost, and counts as that.
            let _ = self.publisher.send(Outgoing::new(&packet[HEADER_LEN..]));
        }
        self.frames += 1;
        self.due += load.interval;
        // Feedback is of no interest, but has to be read.
        while self.client.try_recv().is_some() {}
    }
}

fn connect(broker: &Broker, number: usize) -> Result<Client, Error> {
    let options = ClientOptions {
        seed: number as u64 + 1,
        ..ClientOptions::default()
    };
    let client = Client::connect(Target::Udp(broker.udp), options);
    let mut client = client.map_err(failed)?;
    client.wait_up(PATIENCE).map_err(failed)?;
    Ok(client)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Join(error.to_string())
}
