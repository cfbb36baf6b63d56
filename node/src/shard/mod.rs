//! A delivery shard: it owns subscribers, their ports and its sockets, and serves them in order
//! of urgency.
//!
//! The loop fits in [`Shard::run`]: commands, one slice of delivery, descriptors, timers, sleep.

mod access;
mod ahead;
mod allowance;
mod announcements;
mod audience;
mod guard;
mod job;
mod linger;
mod reliable;
mod requests;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use sangam_broker::{Admit, DropReason, FeedbackGate, PacketCache};
use sangam_io::clock;
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::pool::{Packet, Pool};
use sangam_io::port::{Action, Context, Delivery, Port};
use sangam_io::wake::{Sleeper, Waker};
use sangam_model::{Class, StreamId, Time, limits};
use sangam_wire::{Flags, Header};

use crate::authority::Question;
use crate::bucket::Bucket;
use crate::command::{ControlEvent, Entry, Outlet, ShardCommand};
use crate::config::Network;
use crate::counters::Counters;
use crate::reliable::ReliableEvent;
use access::Access;
use allowance::Allowances;
use announcements::Announcements;
use audience::Audience;
pub(crate) use audience::Subscriber;
use job::{Job, SLICE};

/// Entries of one class that may wait for a shard.
pub(crate) const RING: usize = 8_192;
/// How long delivery may go on before descriptors are looked at.
const IO_EVERY: Duration = Duration::from_micros(500);
/// How long to wait when the kernel takes no more.
const BLOCKED: Duration = Duration::from_micros(500);
/// Poll token of the sleeper; those of the ports start at 1 << 32.
const WAKE: u64 = 0;

/// The lane's ends of a shard's rings, one for each class.
pub(crate) type Inlets = [Producer<Entry>; Class::ALL.len()];

/// Rings from the lane to a shard, one for each class.
pub(crate) fn rings() -> (Inlets, [Consumer<Entry>; Class::ALL.len()]) {
    let mut inlets = Vec::new();
    let inbound = Class::ALL.map(|_| {
        let (producer, consumer) = RingBuffer::new(RING);
        inlets.push(producer);
        consumer
    });
    let mut inlets = inlets.into_iter();
    let inlets = Class::ALL.map(|_| inlets.next().expect("one producer for each class"));
    (inlets, inbound)
}

/// What a shard is made of.
pub(crate) struct Parts {
    pub(crate) number: u16,
    pub(crate) pool: Pool,
    /// Events kept to answer NACKs of this shard's subscribers.
    pub(crate) cache: usize,
    pub(crate) sleeper: Sleeper,
    pub(crate) inbound: [Consumer<Entry>; Class::ALL.len()],
    pub(crate) commands: Receiver<ShardCommand>,
    pub(crate) control: Outlet<ControlEvent>,
    pub(crate) reliable: Outlet<ReliableEvent>,
    pub(crate) to_lane: Producer<Packet>,
    pub(crate) lane: Waker,
    pub(crate) ports: Vec<Box<dyn Port>>,
    /// Networks from which brokers may link.
    pub(crate) trusted: Vec<Network>,
    /// Where clients' tokens are verified; `None` if nobody needs one.
    pub(crate) verifier: Option<SyncSender<Question>>,
    pub(crate) counters: Arc<Counters>,
}

/// One delivery shard.
pub(crate) struct Shard {
    number: u16,
    pool: Pool,
    poller: Poller,
    /// Away while they are handled.
    events: Option<Events>,
    sleeper: Sleeper,
    inbound: [Consumer<Entry>; Class::ALL.len()],
    /// Waiting entries of each class for which [`Shard::look_ahead`] has been done.
    ahead: [usize; Class::ALL.len()],
    commands: Receiver<ShardCommand>,
    control: Outlet<ControlEvent>,
    reliable: Outlet<ReliableEvent>,
    /// Clients that have said something about reliable topics, and how much lately.
    speakers: HashMap<Subscriber, Bucket>,
    to_lane: Producer<Packet>,
    lane: Waker,
    ports: Vec<Box<dyn Port>>,
    trusted: Vec<Network>,
    audience: Audience,
    announcements: Announcements,
    allowances: Allowances,
    access: Access,
    /// Audio and RTCP; then data and video.
    jobs: [Job; 2],
    cache: PacketCache<Packet>,
    gate: FeedbackGate,
    actions: Vec<Action>,
    added: Vec<StreamId>,
    counters: Arc<Counters>,
    last_io: Time,
    blocked: bool,
    stopping: bool,
}

impl Shard {
    /// Puts a shard together and registers its ports.
    ///
    /// # Errors
    /// The kernel gives no epoll descriptor or refuses one of the ports'.
    pub(crate) fn new(parts: Parts) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(parts.sleeper.fd(), WAKE, Interest::Read)?;
        let mut shard = Self {
            number: parts.number,
            pool: parts.pool,
            poller,
            events: Some(Events::with_capacity(256)),
            sleeper: parts.sleeper,
            inbound: parts.inbound,
            ahead: [0; Class::ALL.len()],
            commands: parts.commands,
            control: parts.control,
            reliable: parts.reliable,
            speakers: HashMap::new(),
            to_lane: parts.to_lane,
            lane: parts.lane,
            audience: Audience::new(parts.ports.len()),
            announcements: Announcements::default(),
            allowances: Allowances::default(),
            access: Access::new(parts.number, parts.verifier),
            ports: parts.ports,
            trusted: parts.trusted,
            jobs: [Job::default(), Job::default()],
            cache: PacketCache::new(parts.cache),
            gate: FeedbackGate::default(),
            actions: Vec::new(),
            added: Vec::new(),
            counters: parts.counters,
            last_io: Time::ZERO,
            blocked: false,
            stopping: false,
        };
        for port in 0..shard.ports.len() {
            shard.try_with_port(port, |port, cx| port.start(cx))?;
        }
        Ok(shard)
    }

    /// Serves until the broker stops.
    pub(crate) fn run(mut self) {
        while !self.stopping {
            if !self.turn() {
                self.sleep();
            }
        }
        self.close();
    }

    /// Says goodbye to every peer.
    pub(crate) fn close(&mut self) {
        for port in 0..self.ports.len() {
            self.with_port(port, |port, cx| port.close(cx));
        }
    }

    /// One round without sleeping; whether there was something to deliver.
    pub(crate) fn turn(&mut self) -> bool {
        let now = clock::now();
        self.take_commands();
        let worked = self.serve(now);
        if worked && now - self.last_io >= IO_EVERY {
            self.look_at_descriptors(Some(Duration::ZERO));
        }
        worked && !self.blocked
    }

    /// The descriptor that becomes readable when something waits for this shard.
    pub(crate) fn poller(&self) -> &Poller {
        &self.poller
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stopping
    }

    fn sleep(&mut self) {
        if self.blocked {
            self.blocked = false;
            self.look_at_descriptors(Some(BLOCKED));
            return;
        }
        let timeout = self.before_sleep();
        self.look_at_descriptors(timeout);
        self.after_sleep();
    }

    /// Asks to be woken, looks once more for what came before that, and tells how long the
    /// thread may sleep. [`Shard::after_sleep`] follows.
    pub(crate) fn before_sleep(&mut self) -> Option<Duration> {
        self.sleeper.arm();
        self.take_commands();
        self.ask_ports();
        if self.stopping || self.inbound.iter().any(|ring| !ring.is_empty()) {
            return Some(Duration::ZERO);
        }
        self.counters.sleeps.add(1);
        if !self.control.flush() || !self.reliable.flush() || self.announcements.len() > 0 {
            return Some(Duration::from_millis(1));
        }
        let ports = self.ports.iter().filter_map(|port| port.deadline());
        let own = [
            self.gate.deadline(),
            self.access.deadline(),
            self.lingers_until(),
        ];
        let deadline = ports.chain(own.into_iter().flatten()).min();
        deadline.map(|at| at - clock::now())
    }

    pub(crate) fn after_sleep(&mut self) {
        self.sleeper.disarm();
    }

    pub(crate) fn look_at_descriptors(&mut self, timeout: Option<Duration>) {
        let Some(mut events) = self.events.take() else {
            return;
        };
        if let Err(error) = self.poller.wait(&mut events, timeout) {
            tracing::error!(%error, "epoll failed; the shard goes on without this round");
        }
        for event in events.iter() {
            if event.token != WAKE {
                let port = (event.token >> 32) as usize - 1;
                self.with_port(port, |port, cx| port.ready(event.token as u32, cx));
            }
        }
        self.events = Some(events);
        self.last_io = clock::now();
        self.ask_ports();
        self.pass_feedback(self.last_io);
        self.expire_grants(self.last_io);
        self.make_announcements();
        let due = |port: &dyn Port| port.deadline().is_some_and(|at| at <= self.last_io);
        let due: u64 = (0..)
            .zip(&self.ports)
            .filter(|(_, p)| due(p.as_ref()))
            .map(|(i, _)| 1 << i)
            .sum();
        for port in (0..self.ports.len()).filter(|i| due & (1 << i) != 0) {
            self.with_port(port, |port, cx| port.timeout(cx));
        }
        let peers: usize = self.ports.iter().map(|port| port.peers()).sum();
        self.counters.peers.set(peers as u64);
        self.control.flush();
        self.reliable.flush();
    }

    /// Lets every port look into its own queue: whoever filled it woke this thread, if it slept.
    fn ask_ports(&mut self) {
        for port in 0..self.ports.len() {
            self.with_port(port, |port, cx| port.woken(cx));
        }
    }

    /// Delivers one slice of the most urgent burst.
    fn serve(&mut self, now: Time) -> bool {
        if self.jobs[0].is_idle() {
            let _ = self.load(0, Class::Audio, now) || self.load(0, Class::Rtcp, now);
        }
        self.take_feedback();
        if !self.jobs[0].is_idle() {
            self.deliver(0);
            return true;
        }
        self.flush();
        let ready = self.load_bulk(now);
        if ready {
            self.deliver(1);
        }
        ready
    }

    /// Takes the next burst of a class: consecutive events of one stream that wait already.
    fn load(&mut self, job: usize, class: Class, now: Time) -> bool {
        self.look_ahead(class);
        loop {
            let Ok(entry) = self.inbound[class as usize].peek() else {
                return !self.jobs[job].is_idle();
            };
            let at = entry.at;
            let header = Header::decode(&entry.packet);
            if let Ok(header) = &header
                && !self.jobs[job].accepts(header.stream, entry.packet.len())
            {
                self.jobs[job].close();
                return true;
            }
            let Ok(Entry { packet, .. }) = self.inbound[class as usize].pop() else {
                return false;
            };
            self.passed(class);
            let Ok(header) = header else {
                // The lane has read it before; left in its place, it would block its class.
                self.counters.dropped(DropReason::Malformed);
                continue;
            };
            if !self.audience.knows(header.stream) {
                // The lane's snapshot may be newer than what this shard has read so far.
                self.take_commands();
            }
            let Some(stream) = self.audience.stream_mut(header.stream) else {
                self.counters.dropped(DropReason::UnknownStream);
                continue;
            };
            match stream.shedder.admit(&header, now - at, false) {
                Admit::Deliver => {
                    if header.flags.contains(Flags::KEY) {
                        self.gate.key_frame_seen(header.stream, header.layer);
                        if header.flags.contains(Flags::FRAME_START) {
                            stream.rotate();
                        }
                    }
                    if is_kept(class, packet.len()) {
                        self.cache
                            .insert(header.stream, header.sequence, packet.clone());
                    }
                    self.jobs[job].push(&header, at, packet);
                }
                Admit::Drop(reason) => {
                    let wants_key_frame = stream.shedder.wants_key_frame();
                    self.counters.dropped(reason);
                    if wants_key_frame {
                        self.request_key_frame(header);
                    }
                }
            }
        }
    }

    fn deliver(&mut self, job: usize) {
        let mut current = std::mem::take(&mut self.jobs[job]);
        let port = self.deliver_slice(&mut current);
        // Back in its place first: it must follow when a receiver is removed.
        self.jobs[job] = current;
        if let Some(port) = port.filter(|_| !self.actions.is_empty()) {
            self.perform(port);
        }
    }

    /// Serves the next receivers of a burst; on which port, if there are any.
    fn deliver_slice(&mut self, job: &mut Job) -> Option<usize> {
        let stream = self.audience.stream(job.stream());
        let rest = stream.and_then(|stream| job.rest(stream, self.ports.len()));
        let (Some(stream), Some(rest)) = (stream, rest) else {
            job.clear();
            return None;
        };
        let slice = &rest[..rest.len().min(SLICE)];
        let port = job.port;
        let mut cx = Context {
            now: clock::now(),
            pool: &self.pool,
            poller: &self.poller,
            token: token(port),
            actions: &mut self.actions,
        };
        let done = self.ports[port].deliver(job.burst(), slice, &mut cx);
        job.cursor += done.peers;
        self.blocked = done.peers < slice.len();
        self.counters.delivery(&done);
        if job.rest(stream, self.ports.len()).is_none() {
            job.clear();
        }
        Some(port)
    }

    /// Nothing urgent waits any more: what ports have gathered goes out.
    fn flush(&mut self) {
        let mut done = Delivery::default();
        for port in &mut self.ports {
            self.blocked |= !port.flush(&mut done);
        }
        self.counters.delivery(&done);
    }

    /// Feedback from the lane for publishers of this shard.
    fn take_feedback(&mut self) {
        while let Ok(entry) = self.inbound[Class::Feedback as usize].pop() {
            let Ok(header) = Header::decode(&entry.packet) else {
                continue;
            };
            let stream = self.audience.stream(header.stream);
            if let Some(owner) = stream.and_then(|stream| stream.owner) {
                self.with_port(usize::from(owner.port), |port, cx| {
                    port.feedback(owner.peer, &entry.packet, cx);
                });
            }
        }
    }

    fn with_port(&mut self, port: usize, f: impl FnOnce(&mut dyn Port, &mut Context<'_>)) {
        let done = self.try_with_port(port, |port, cx| {
            f(port, cx);
            Ok(())
        });
        debug_assert!(done.is_ok(), "infallible calls cannot fail");
    }

    fn try_with_port(
        &mut self,
        index: usize,
        f: impl FnOnce(&mut dyn Port, &mut Context<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(port) = self.ports.get_mut(index) else {
            return Ok(());
        };
        let mut cx = Context {
            now: clock::now(),
            pool: &self.pool,
            poller: &self.poller,
            token: token(index),
            actions: &mut self.actions,
        };
        f(port.as_mut(), &mut cx)?;
        self.perform(index);
        Ok(())
    }
}

/// Whether an event is kept to answer NACKs. Audio is not: a repetition comes after its playout,
/// and keeping it would cost every packet of it two cold cache lines. Nor is what fills a large
/// buffer, as those are few.
pub(crate) fn is_kept(class: Class, len: usize) -> bool {
    matches!(class, Class::Video | Class::Data) && len <= limits::EVENT_LEN_SMALL
}

fn token(port: usize) -> u64 {
    (port as u64 + 1) << 32
}

#[cfg(test)]
mod tests;
