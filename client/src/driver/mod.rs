//! The thread of a network client: link frames on one side, the door of the client on the other.

mod inbox;
mod intake;
mod tcp;
mod udp;

use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use sangam_io::clock;
use sangam_io::door::{ClientDoor, DoorReceiver, Item, door};
use sangam_io::poll::{Event, Events, Interest, Poller};
use sangam_io::pool::Packet;
use sangam_io::wake::{self, Sleeper};
use sangam_link::{Dialer, DialerConfig};
use sangam_model::Time;
use sangam_wire::{Capabilities, Role};

use crate::shared::Shared;
use crate::state::{Link, State};
use crate::{ClientError, ClientOptions};

use inbox::Inbox;
use intake::{Intake, Order};
use tcp::Tcp;
use udp::Udp;

const WAKE: u64 = 0;
const SOCKET: u64 = 1;
/// The least room of a client's queues.
const QUEUE_MIN: usize = 64;
/// Requests and events taken from the door before the socket has its turn.
const TURN: usize = 256;

/// Ends when the client's door is closed; dropping waits for that.
#[derive(Debug)]
pub(crate) struct Driver(Option<JoinHandle<()>>);

/// What a network client is made of.
pub(crate) type Parts = (DoorReceiver, Option<Driver>, Arc<Shared>);

/// How the bytes travel.
enum Wire {
    Udp(Box<Udp>),
    Tcp(Tcp),
}

struct Worker {
    wire: Wire,
    intake: Intake,
    poller: Poller,
    events: Events,
    sleeper: Sleeper,
    /// Events from the door, until they are sent.
    outgoing: Vec<Packet>,
}

/// A client by datagrams.
pub(crate) fn udp(address: SocketAddr, options: &ClientOptions) -> Result<Parts, ClientError> {
    let datagram_max = udp::datagram_max(address, options);
    let wire = Udp::open(address, options).map_err(ClientError::Local)?;
    start(Wire::Udp(Box::new(wire)), datagram_max, options).map_err(ClientError::Local)
}

/// A client by a byte stream.
pub(crate) fn tcp(address: SocketAddr, options: &ClientOptions) -> Result<Parts, ClientError> {
    let wire = Tcp::new(address, options.queue.max(QUEUE_MIN));
    start(Wire::Tcp(wire), tcp::UNIT_MAX, options).map_err(ClientError::Local)
}

fn start(wire: Wire, datagram_max: u16, options: &ClientOptions) -> io::Result<Parts> {
    let (waker, sleeper) = wake::pair()?;
    let capacity = options.queue.max(QUEUE_MIN);
    let (ClientDoor { sender, receiver }, door) = door(capacity, waker)?;
    let pool = options.send_buffers.pool();
    let state = State::new(Link::Down, options.token.clone());
    let shared = Arc::new(Shared::new(state, sender, pool, options.trace_every));
    let dialer = Dialer::new(DialerConfig {
        role: Role::Client,
        capabilities: Capabilities::OURS,
        datagram_max,
        clock_domain: clock::clock_domain(),
        reliable: matches!(wire, Wire::Tcp(_)),
        seed: options.seed,
        backoff: options.backoff,
    });
    let inbox = Inbox::new(
        door,
        options.receive_buffers.pool(),
        (capacity, shared.clone()),
    );
    let worker = Worker {
        wire,
        intake: Intake::new(dialer, inbox, (shared.clone(), datagram_max)),
        poller: Poller::new()?,
        events: Events::with_capacity(4),
        sleeper,
        outgoing: Vec::with_capacity(TURN),
    };
    let run = move || {
        if let Err(error) = worker.run() {
            tracing::error!(%error, "the client's driver stopped");
        }
    };
    let thread = thread::Builder::new()
        .name("sangam-client".into())
        .spawn(run)?;
    Ok((receiver, Some(Driver(Some(thread))), shared))
}

impl Worker {
    fn run(mut self) -> io::Result<()> {
        self.poller.add(self.sleeper.fd(), WAKE, Interest::Read)?;
        self.wire.register(&self.poller)?;
        self.intake.start(clock::now());
        loop {
            let now = clock::now();
            self.take_from_door(now);
            self.carry_out(now)?;
            if self.intake.is_over() {
                self.wire.finish();
                return Ok(());
            }
            self.wait()?;
        }
    }

    /// Takes what the client and its publishers left at the door.
    fn take_from_door(&mut self, now: Time) {
        for _ in 0..TURN {
            match self.intake.inbox.door.recv() {
                Some(Item::Event(packet)) => self.outgoing.push(packet),
                Some(Item::Message(message)) => self.intake.send(now, message),
                Some(Item::State(_)) => {}
                None => break,
            }
        }
        if self.intake.is_up() {
            self.wire.send(&self.outgoing, &self.intake);
        } else {
            let counters = &self.intake.shared.counters;
            counters.dropped_down.add(self.outgoing.len() as u64);
        }
        self.outgoing.clear();
        if self.intake.inbox.door.is_closed() {
            self.intake.close(now);
        }
    }

    /// Does what the link wants, until it wants no more, and hands over what came.
    fn carry_out(&mut self, now: Time) -> io::Result<()> {
        loop {
            self.intake.drain(now);
            match self.intake.orders.pop_front() {
                Some(order) => self.wire.perform(order, &mut self.intake, &self.poller)?,
                None => {
                    self.wire.flush(&mut self.intake, &self.poller)?;
                    self.intake.drain(now);
                    if self.intake.orders.is_empty() {
                        break;
                    }
                }
            }
        }
        self.intake.measure(now);
        self.intake.inbox.hand_over();
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        self.sleeper.arm();
        let timeout = if self.intake.has_work() {
            Some(Duration::ZERO)
        } else {
            self.timeout()
        };
        let result = self.poller.wait(&mut self.events, timeout);
        self.sleeper.disarm();
        result?;
        for event in self.events.iter().filter(|event| event.token == SOCKET) {
            self.wire.ready(event, &mut self.intake, &self.poller)?;
        }
        self.wire
            .expire(clock::now(), &mut self.intake, &self.poller)
    }

    fn timeout(&self) -> Option<Duration> {
        let link = self.intake.deadline();
        let deadline = link.into_iter().chain(self.wire.deadline()).min()?;
        Some(deadline - clock::now())
    }
}

impl Wire {
    fn register(&self, poller: &Poller) -> io::Result<()> {
        match self {
            Self::Udp(udp) => udp.register(poller),
            Self::Tcp(_) => Ok(()),
        }
    }

    /// Something can be read or written.
    fn ready(&mut self, event: Event, intake: &mut Intake, poller: &Poller) -> io::Result<()> {
        match self {
            Self::Udp(udp) => udp.read(intake),
            Self::Tcp(tcp) => tcp.ready(event, intake, poller),
        }
    }

    fn perform(&mut self, order: Order, intake: &mut Intake, poller: &Poller) -> io::Result<()> {
        match self {
            Self::Udp(udp) => {
                udp.perform(order, intake);
                Ok(())
            }
            Self::Tcp(tcp) => tcp.perform(order, intake, poller),
        }
    }

    /// Sends events, or drops and counts them.
    fn send(&mut self, events: &[Packet], intake: &Intake) {
        match self {
            Self::Udp(udp) => udp.send(events, intake),
            Self::Tcp(tcp) => tcp.send(events, intake),
        }
    }

    fn flush(&mut self, intake: &mut Intake, poller: &Poller) -> io::Result<()> {
        match self {
            Self::Udp(_) => Ok(()),
            Self::Tcp(tcp) => tcp.flush(intake, poller),
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Udp(_) => None,
            Self::Tcp(tcp) => tcp.deadline(),
        }
    }

    fn expire(&mut self, now: Time, intake: &mut Intake, poller: &Poller) -> io::Result<()> {
        match self {
            Self::Udp(_) => Ok(()),
            Self::Tcp(tcp) => tcp.expire(now, intake, poller),
        }
    }

    /// Gives what was sent last a chance to leave.
    fn finish(&mut self) {
        if let Self::Tcp(tcp) = self {
            tcp.finish();
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take()
            && thread.join().is_err()
        {
            tracing::error!("the client's driver panicked");
        }
    }
}
