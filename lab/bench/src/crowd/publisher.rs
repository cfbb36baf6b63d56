//! The thread of participants that publish.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sangam_emulator::Site;
use sangam_io::clock;
use sangam_model::Time;
use sangam_wire::Event;
use sangam_wire::feedback::Feedback;

use super::home::Home;
use super::peer::Spec;
use super::station::{Sockets, Station, Tally, hurry};
use crate::error::Error;
use crate::load::{Load, Packetizer};
use crate::loopback;
use crate::measure::Window;

/// Room for what brokers answer publishers.
const BUFFER: usize = 4 << 20;

/// Publishers that are due within this time send together where there are many: a generator that
/// wakes for every few packets takes the processor from the brokers that it measures.
const TOGETHER: Duration = Duration::from_micros(500);
/// Packets per second of all together, from which on that is done.
const MANY: f64 = 30_000.0;

/// The running thread.
pub(crate) struct Publishers {
    commands: Sender<Command>,
    thread: JoinHandle<Result<Published, Error>>,
    /// What it counts.
    pub(crate) tally: Arc<Tally>,
    expected: u64,
}

/// What was published.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    /// Packets of each publisher, from begin to pause.
    pub(crate) packets: Vec<u64>,
    /// Packets of each publisher within the window.
    pub(crate) in_window: Vec<u64>,
    /// The furthest a frame left behind its time: how late the generator itself was.
    pub(crate) behind_max: Duration,
}

enum Command {
    Add(Vec<Spec>),
    Begin(Arc<Load>),
    Pause,
    Finish,
}

/// One publisher's place in its load.
struct Source {
    peer: usize,
    packetizer: Packetizer,
    frame: u64,
}

struct Studio {
    station: Station,
    window: Arc<Window>,
    load: Option<Arc<Load>>,
    sources: Vec<Source>,
    due: BinaryHeap<Reverse<(Time, usize)>>,
    /// When somebody was last looked after.
    turned: Time,
    published: Published,
    /// Publishers that were asked for a key frame.
    asked: Vec<usize>,
}

impl Publishers {
    /// Starts the thread; all publishers live in one place.
    ///
    /// # Errors
    /// [`Error::System`] if the socket cannot be opened.
    pub(crate) fn new(window: Arc<Window>, site: Option<&Site>) -> Result<Self, Error> {
        let tally = Arc::new(Tally::default());
        let own = Arc::clone(&tally);
        let home = Home::new(loopback::PUBLISHERS, site);
        let station = Station::new(home, Sockets::Shared, BUFFER, own)?;
        let (commands, inbox) = mpsc::channel();
        let studio = Studio {
            station,
            window,
            load: None,
            sources: Vec::new(),
            due: BinaryHeap::new(),
            turned: Time::ZERO,
            published: Published::default(),
            asked: Vec::new(),
        };
        let thread = thread::spawn(move || studio.run(&inbox));
        Ok(Self {
            commands,
            thread,
            tally,
            expected: 0,
        })
    }

    /// Lets publishers join.
    pub(crate) fn add(&mut self, specs: Vec<Spec>) {
        self.expected += specs.len() as u64;
        self.tell(Command::Add(specs));
    }

    /// Whether everybody may publish.
    pub(crate) fn is_ready(&self) -> bool {
        self.tally.ready.load(Ordering::Relaxed) == self.expected
    }

    /// Begins the load at every publisher, each at its own place within the interval.
    pub(crate) fn begin(&self, load: Arc<Load>) {
        self.tell(Command::Begin(load));
    }

    /// Stops the load; the publishers stay.
    pub(crate) fn pause(&self) {
        self.tell(Command::Pause);
    }

    /// Ends it.
    ///
    /// # Errors
    /// What ended it earlier.
    pub(crate) fn finish(self) -> Result<Published, Error> {
        self.tell(Command::Finish);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(Error::Join("the publishing thread died".into())))
    }

    fn tell(&self, command: Command) {
        // A thread that has ended tells why when it is finished.
        let _ = self.commands.send(command);
    }
}

impl Studio {
    fn run(mut self, inbox: &Receiver<Command>) -> Result<Published, Error> {
        hurry();
        loop {
            match inbox.try_recv() {
                Ok(Command::Add(specs)) => {
                    for spec in specs {
                        self.station.add(spec)?;
                    }
                }
                Ok(Command::Begin(load)) => self.begin(load),
                Ok(Command::Pause) => self.due.clear(),
                Ok(Command::Finish) | Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {}
            }
            self.station.wait(self.next_turn())?;
            self.turned = clock::now();
            self.send_due();
            self.answer()?;
            self.station.tend(|_, _| None);
        }
        self.station.close();
        Ok(self.published)
    }

    /// Spreads the publishers over one interval and over the load's frames, so that meetings do
    /// not beat in step and their key frames do not meet.
    fn begin(&mut self, load: Arc<Load>) {
        let count = self.station.peers.len();
        if self.sources.is_empty() {
            self.sources = self.open(&load, count);
        }
        let now = clock::now();
        for number in 0..self.sources.len() {
            let phase = load.interval.mul_f64(number as f64 / count as f64);
            self.due.push(Reverse((now + phase, number)));
        }
        self.published.packets = vec![0; self.sources.len()];
        self.published.in_window = vec![0; self.sources.len()];
        self.load = Some(load);
    }

    /// Does what an encoder does when it is asked for a key frame: the next frame is one.
    fn answer(&mut self) -> Result<(), Error> {
        let asked = &mut self.asked;
        self.station.receive(|peer, event, _| {
            let feedback = Event::payload_of(event).and_then(Feedback::decode);
            if feedback == Ok(Feedback::KeyFrame) {
                asked.push(peer);
            }
        })?;
        let Some(load) = &self.load else {
            return Ok(());
        };
        for peer in self.asked.drain(..) {
            if let Some(source) = self.sources.iter_mut().find(|source| source.peer == peer) {
                source.frame = load.next_key_frame(source.frame);
            }
        }
        Ok(())
    }

    fn open(&self, load: &Load, count: usize) -> Vec<Source> {
        let source = |number: usize| {
            let stream = self.station.peers.get(number)?.stream?;
            let share = number as f64 / count as f64;
            Some(Source {
                peer: number,
                packetizer: Packetizer::new(load, stream),
                frame: (share * load.frames.len() as f64) as u64,
            })
        };
        (0..count).filter_map(source).collect()
    }

    /// When somebody is due, or later where many are.
    fn next_turn(&self) -> Time {
        let next = self.due.peek().map_or(Time::NEVER, |Reverse((at, _))| *at);
        let each = self.load.as_ref().map_or(0.0, |load| load.packets_per_s());
        let all = each * self.sources.len() as f64;
        if all < MANY {
            return next;
        }
        next.max(self.turned + TOGETHER)
    }

    fn send_due(&mut self) {
        let Some(load) = self.load.clone() else {
            return;
        };
        while let Some(Reverse((at, number))) = self.due.peek().copied() {
            let now = clock::now();
            if at > now {
                return;
            }
            self.due.pop();
            self.due.push(Reverse((at + load.interval, number)));
            let source = &mut self.sources[number];
            if let Some(stream) = self.station.peers.get(source.peer).and_then(|p| p.stream) {
                // Its broker may have begun a new life, and granted another.
                source.packetizer.publish_as(stream);
            }
            let frame = load.frame(source.frame);
            source.frame += 1;
            let burst = source.packetizer.frame(frame, now);
            let left = self.station.publish(source.peer, burst.packets());
            self.published.packets[number] += left;
            if self.window.holds(now) {
                self.published.in_window[number] += left;
                self.published.behind_max = self.published.behind_max.max(now - at);
            }
        }
    }
}
