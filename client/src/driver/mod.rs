//! The thread of a network client: link frames on one side, the door of the client on the other.

mod groups;
mod inbox;
mod intake;
mod quic;
mod routes;
mod stream;
mod udp;
mod wire;

use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use sangam_io::clock;
use sangam_io::door::{ClientDoor, DoorReceiver, Item, door};
use sangam_io::poll::{Event, Events, Interest, Poller};
use sangam_io::pool::Packet;
use sangam_io::wake::{self, Sleeper};
use sangam_model::Time;
use sangam_wire::Message;

use crate::shared::Shared;
use crate::state::{Link, State};
use crate::way::Way;
use crate::{ClientError, ClientOptions};

use inbox::Inbox;
use routes::{Route, Routes};

const WAKE: u64 = 0;
/// The least room of a client's queues.
const QUEUE_MIN: usize = 64;
/// Requests and events taken from the door before the socket has its turn.
const TURN: usize = 256;
/// Messages that may be unacknowledged while more are taken from the door: half of what ends a
/// link.
const MESSAGES_MAX: usize = 512;

/// Ends when the client's door is closed; dropping waits for that.
#[derive(Debug)]
pub(crate) struct Driver(Option<JoinHandle<()>>);

/// What a network client is made of.
pub(crate) type Parts = (DoorReceiver, Option<Driver>, Arc<Shared>);

struct Worker {
    routes: Routes,
    /// The link in use, or on its way to be.
    route: Route,
    /// A better one that is being tried beside it.
    better: Option<Route>,
    inbox: Inbox,
    shared: Arc<Shared>,
    poller: Poller,
    events: Events,
    sleeper: Sleeper,
    /// Events from the door, until they are sent.
    outgoing: Vec<Packet>,
    closing: bool,
    /// See [`ClientOptions::gather`].
    gather: Duration,
}

/// A client by the first of these ways that works.
pub(crate) fn start(ways: Vec<Way>, options: &ClientOptions) -> Result<Parts, ClientError> {
    if ways.is_empty() {
        return Err(ClientError::NoAddress);
    }
    spawn(ways, options).map_err(ClientError::Local)
}

fn spawn(ways: Vec<Way>, options: &ClientOptions) -> io::Result<Parts> {
    let (waker, sleeper) = wake::pair()?;
    let capacity = options.queue.max(QUEUE_MIN);
    let (ClientDoor { sender, receiver }, door) = door(capacity, waker)?;
    let pool = options.send_buffers.pool();
    let state = State::new(Link::Down, options.token.clone());
    // Another number than the link's nonces begin with.
    let numbers = (options.trace_every, options.seed.rotate_left(32));
    let shared = Arc::new(Shared::new(state, sender, pool, numbers));
    let inbox = Inbox::new(
        door,
        options.receive_buffers.pool(),
        (capacity, shared.clone()),
    );
    let poller = Poller::new()?;
    let mut routes = Routes::new(ways, options.clone());
    let route = routes.first(&poller, clock::now())?;
    let worker = Worker {
        routes,
        route,
        better: None,
        inbox,
        shared: shared.clone(),
        poller,
        events: Events::with_capacity(4),
        sleeper,
        outgoing: Vec::with_capacity(TURN),
        closing: false,
        gather: options.gather,
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
        loop {
            let now = clock::now();
            self.take_from_door(now);
            self.carry_out(now)?;
            if self.closing {
                self.give_up_trial(now)?;
                self.route.wire.finish();
                return Ok(());
            }
            self.choose(now)?;
            self.wait()?;
        }
    }

    /// Takes what the client and its publishers left at the door.
    fn take_from_door(&mut self, now: Time) {
        for _ in 0..TURN {
            if self.is_loaded() {
                break;
            }
            match self.inbox.door.recv() {
                Some(Item::Event(packet)) => self.outgoing.push(packet),
                Some(Item::Message(message)) => self.tell(now, message),
                Some(Item::State(_)) => {}
                None => break,
            }
        }
        self.send_events();
        if self.inbox.door.is_closed() {
            self.route.line.close(now);
            self.closing = true;
        }
    }

    /// Whether so many messages wait to be acknowledged that more of them have to wait here.
    fn is_loaded(&self) -> bool {
        self.route.line.unacknowledged() >= MESSAGES_MAX
    }

    /// A request goes to the link that stays.
    fn tell(&mut self, now: Time, message: Message) {
        let restored = self.better.as_mut().filter(|better| better.line.is_up());
        let Some(better) = restored else {
            return self.route.line.send(now, message);
        };
        let here = match &message {
            Message::Unpublish { stream } => better.has_moved(*stream),
            _ => true,
        };
        let route = if here { better } else { &mut self.route };
        route.line.send(now, message);
    }

    fn send_events(&mut self) {
        if let Some(better) = &mut self.better {
            // What is published there already goes there.
            let moved = |packet: &mut Packet| {
                let stream = packet.header().map(|header| header.stream);
                stream.is_ok_and(|stream| better.has_moved(stream))
            };
            let there: Vec<_> = self.outgoing.extract_if(.., moved).collect();
            better.send(&there, &mut self.inbox, &self.shared);
        }
        if self.route.line.is_up() {
            let outgoing = &self.outgoing;
            self.route.send(outgoing, &mut self.inbox, &self.shared);
        } else {
            let lost = self.outgoing.len() as u64;
            self.shared.counters.dropped_down.add(lost);
        }
        self.outgoing.clear();
    }

    /// Does what the links want, until they want no more, and hands over what came.
    fn carry_out(&mut self, now: Time) -> io::Result<()> {
        let (inbox, poller) = (&mut self.inbox, &self.poller);
        for route in [Some(&mut self.route), self.better.as_mut()]
            .into_iter()
            .flatten()
        {
            route.carry_out(now, (&mut *inbox, &self.shared), poller)?;
        }
        self.route.line.measure(now, &self.shared);
        self.inbox.hand_over();
        Ok(())
    }

    /// Goes to another way where this one fails, and back up where a better one works.
    fn choose(&mut self, now: Time) -> io::Result<()> {
        let trial = self.better.as_ref();
        if trial.is_some_and(|better| better.is_hopeless(now)) && self.give_up_trial(now)? {
            // Some streams had moved already: only a fresh start knows what is where.
            self.route
                .restart(now, (&mut self.inbox, &self.shared), &self.poller)?;
        }
        if !self.route.line.is_up() {
            // What has moved is lost with the link it came from.
            self.give_up_trial(now)?;
        }
        let restored = self.better.as_mut();
        if let Some(better) = restored.filter(|better| better.may_switch(now)) {
            better.switch(now, (&mut self.inbox, &self.shared));
        }
        if self
            .better
            .as_ref()
            .is_some_and(|better| better.may_take_over(now))
        {
            return self.move_over(now);
        }
        if self.better.is_none() {
            self.better = self.routes.climb(&self.route, &self.poller, now);
            if self.better.is_some() {
                return self.carry_out(now);
            }
        }
        if self
            .routes
            .turn(&mut self.route, (&self.poller, &self.shared), now)
        {
            return self.carry_out(now);
        }
        Ok(())
    }

    /// Ends the trial of a better link; whether that one was up.
    fn give_up_trial(&mut self, now: Time) -> io::Result<bool> {
        let Some(mut better) = self.better.take() else {
            return Ok(false);
        };
        self.inbox.end_overlap(now);
        let was_up = better.was_up();
        better.leave(now, (&mut self.inbox, &self.shared), &self.poller)?;
        Ok(was_up)
    }

    /// The better link takes over; the one there was says goodbye.
    fn move_over(&mut self, now: Time) -> io::Result<()> {
        let Some(mut better) = self.better.take() else {
            return Ok(());
        };
        if let Some(info) = better.settle() {
            self.shared.state().moved(info);
            self.shared.measures.set_datagram_max(info.datagram_max);
        }
        self.shared.counters.moves.add(1);
        let mut left = core::mem::replace(&mut self.route, better);
        left.leave(now, (&mut self.inbox, &self.shared), &self.poller)?;
        self.inbox.end_overlap(now);
        tracing::info!(way = self.routes.name(&self.route), "moved to a better way");
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        self.sleeper.arm();
        let works = self.has_work();
        let timeout = if works {
            Some(Duration::ZERO)
        } else {
            self.timeout()
        };
        let mut result = self.poller.wait(&mut self.events, timeout).map(drop);
        if result.is_ok() && !works && self.may_gather() {
            // What the application says does not wait.
            result = self.sleeper.wait(Some(self.gather));
        }
        self.sleeper.disarm();
        result?;
        let now = clock::now();
        let (inbox, shared, poller) = (&mut self.inbox, &self.shared, &self.poller);
        for route in [Some(&mut self.route), self.better.as_mut()]
            .into_iter()
            .flatten()
        {
            let token = route.token;
            for event in self.events.iter().filter(|event| event.token == token) {
                route.ready(event, (&mut *inbox, shared), poller)?;
            }
            route.expire(now, (&mut *inbox, shared));
        }
        Ok(())
    }

    /// Whether what has come may wait for what comes after it.
    fn may_gather(&self) -> bool {
        let arrived = |event: Event| event.token == self.route.token;
        !self.gather.is_zero() && self.route.wire.may_gather() && self.events.iter().any(arrived)
    }

    /// Whether something can be done without waiting. Ask after arming the sleeper.
    fn has_work(&self) -> bool {
        let door = &self.inbox.door;
        let better = self.better.as_ref();
        !door.is_empty() && !self.is_loaded()
            || door.is_closed()
            || self.route.has_orders()
            || better.is_some_and(Route::has_orders)
    }

    fn timeout(&self) -> Option<Duration> {
        let route = self.route.deadline();
        let better = self.better.as_ref().and_then(Route::deadline);
        let change = self.routes.deadline(&self.route, self.better.is_some());
        let deadline = [route, better, change].into_iter().flatten().min()?;
        Some(deadline - clock::now())
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
