//! The receiving and asking half.

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use sangam_io::clock;
use sangam_io::door::{ClientDoor, DoorReceiver, DoorState, Item};
use sangam_link::ClockOffset;
use sangam_model::limits::{EVENT_LEN_MAX, HOP_LIMIT};
use sangam_model::{Class, Filter, MediaInfo, StreamId, Time, Topic};
use sangam_wire::{Event, Extensions, Feedback, Flags, Header, Refusal};

use crate::driver::{self, Driver};
use crate::shared::Shared;
use crate::state::{Link, Standing, State};
use crate::{ClientCounters, ClientError, ClientOptions, Publisher, Received, SendError};
use crate::{Target, UpInfo};

/// Longer waits than this are cut into pieces.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// One client of one broker. Closed when it is dropped; its publishers end with it.
pub struct Client {
    shared: Arc<Shared>,
    door: DoorReceiver,
    /// Of a network link; it owns the link's state, otherwise the client does.
    driver: Option<Driver>,
    target: String,
    /// What came while something else was waited for.
    pending: VecDeque<Received>,
    pending_max: usize,
    /// A caller may sleep on the descriptor.
    armed: bool,
    end_told: bool,
}

impl Client {
    /// Begins to connect and returns at once.
    ///
    /// # Errors
    /// [`ClientError::Local`] if this machine has no socket or thread for it.
    pub fn connect(target: Target, options: ClientOptions) -> Result<Self, ClientError> {
        let name = target.to_string();
        let pending_max = options.queue;
        let (door, driver, shared) = match target {
            Target::Door(ClientDoor { sender, receiver }) => {
                let info = beyond_the_door();
                let state = State::new(Link::Up(info));
                let pool = options.send_buffers.pool();
                let shared = Shared::new(state, sender, pool, options.trace_every);
                shared.measures.set_local(info.datagram_max);
                (receiver, None, Arc::new(shared))
            }
            Target::Udp(address) => driver::udp(address, &options)?,
            Target::Tcp(address) => driver::tcp(address, &options)?,
        };
        Ok(Self {
            shared,
            door,
            driver,
            target: name,
            pending: VecDeque::new(),
            pending_max,
            armed: false,
            end_told: false,
        })
    }

    /// Waits until the link is up.
    ///
    /// # Errors
    /// [`ClientError::NoAnswer`], [`ClientError::Refused`], [`ClientError::Closed`]: with what to
    /// check.
    pub fn wait_up(&mut self, timeout: Duration) -> Result<UpInfo, ClientError> {
        let answer = self.wait_for(timeout, |state| match state.link() {
            Link::Up(info) => Some(Ok(info)),
            Link::Refused { reason, again: false } => Some(Err(reason)),
            Link::Refused { again: true, .. } | Link::Down | Link::Closed => None,
        });
        match answer {
            Some(Ok(info)) => Ok(info),
            Some(Err(reason)) => Err(self.refused(reason)),
            None => Err(self.not_up(timeout)),
        }
    }

    /// Asks to publish and waits for the broker's leave; also while the link is not up yet.
    ///
    /// # Errors
    /// [`ClientError::Publication`] with the broker's reason; [`ClientError::Media`],
    /// [`ClientError::Streams`], [`ClientError::Busy`] at once; [`ClientError::Unanswered`], or
    /// why the link is not up, in the end.
    pub fn publish(
        &mut self,
        topic: &Topic,
        media: MediaInfo,
        timeout: Duration,
    ) -> Result<Publisher, ClientError> {
        let publication = {
            let mut state = self.shared.state();
            let (publication, message) = state.publish(topic, media)?;
            if state.is_up()
                && let Err(error) = self.shared.tell(message)
            {
                state.unpublish(&publication);
                return Err(error);
            }
            publication
        };
        // From here on the publication ends with its publisher.
        let publisher = Publisher::new(self.shared.clone(), publication.clone());
        let standing = self.wait_for(timeout, |state| match state.standing(&publication) {
            Standing::Waiting => None,
            standing => Some(standing),
        });
        match standing {
            Some(Standing::Refused(reason)) => {
                Err(ClientError::Publication { topic: topic.to_string(), reason })
            }
            Some(_) => Ok(publisher),
            None if self.shared.state().is_up() => Err(ClientError::Unanswered(timeout)),
            None => Err(self.not_up(timeout)),
        }
    }

    /// Asks for what a filter selects, now and after every reconnection.
    /// [`Received::Subscribed`] or [`Received::Refused`] answers.
    ///
    /// # Errors
    /// [`ClientError::Filters`], [`ClientError::Busy`], [`ClientError::Closed`].
    pub fn subscribe(&self, filter: &Filter) -> Result<(), ClientError> {
        let mut state = self.shared.state();
        let message = state.subscribe(filter)?;
        let Some(message) = message.filter(|_| state.is_up()) else {
            return Ok(());
        };
        self.shared.tell(message).inspect_err(|_| {
            state.unsubscribe(filter);
        })
    }

    /// Asks for no more of what a filter selects. Nothing happens if it was not subscribed.
    ///
    /// # Errors
    /// [`ClientError::Busy`], [`ClientError::Closed`].
    pub fn unsubscribe(&self, filter: &Filter) -> Result<(), ClientError> {
        let mut state = self.shared.state();
        let message = state.unsubscribe(filter);
        message.filter(|_| state.is_up()).map_or(Ok(()), |message| self.shared.tell(message))
    }

    /// Asks or tells the publisher of a stream something; it may be merged with what others say.
    ///
    /// # Errors
    /// Why it was dropped.
    pub fn feedback(
        &self,
        stream: StreamId,
        layer: u8,
        feedback: &Feedback,
    ) -> Result<(), SendError> {
        let mut payload = Vec::with_capacity(16);
        feedback.encode(&mut payload);
        let flags = Flags::NONE;
        let class = Class::Feedback;
        let event = Event {
            header: Header { class, flags, stream, sequence: 0, hop_limit: HOP_LIMIT, layer },
            extensions: Extensions::NONE,
            payload: &payload,
        };
        let pool = &self.shared.pool;
        let packet = pool.take(event.encoded_len()).ok_or(SendError::Exhausted);
        let packet = packet.and_then(|mut packet| {
            event.write(&mut packet).map_err(|_| SendError::Oversized)?;
            Ok(packet.freeze())
        });
        self.shared.emit(1, core::iter::once(packet))
    }

    /// The next thing, waited for up to `timeout`. `None` also when the client is closed.
    pub fn recv(&mut self, timeout: Duration) -> Option<Received> {
        let until = clock::now() + timeout;
        self.disarm();
        loop {
            let received = self.take();
            if received.is_some() || !self.sleep(until) {
                return received;
            }
        }
    }

    /// The next thing, if it is there. After `None` the client's descriptor tells of the next.
    pub fn try_recv(&mut self) -> Option<Received> {
        self.disarm();
        let received = self.take();
        if received.is_some() {
            return received;
        }
        self.door.sleeper().arm();
        self.armed = true;
        // What came before the arming rings no bell.
        self.take()
    }

    /// A descriptor for a poller of the caller's own: readable when something came after
    /// [`Client::try_recv`] said `None`.
    pub fn fd(&mut self) -> BorrowedFd<'_> {
        self.door.sleeper().fd()
    }

    /// Whether nothing can come any more, as the broker in this process has stopped.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.pending.is_empty() && self.door.is_closed()
    }

    /// The link, if it is up.
    #[must_use]
    pub fn up(&self) -> Option<UpInfo> {
        match self.shared.state().link() {
            Link::Up(info) => Some(info),
            _ => None,
        }
    }

    /// The smoothed round trip to the broker, once measured.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        self.shared.measures.rtt()
    }

    /// The broker's clock against this machine's, once measured.
    #[must_use]
    pub fn clock_offset(&self) -> Option<ClockOffset> {
        self.shared.measures.clock_offset()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> ClientCounters {
        self.shared.counters.read()
    }

    /// Says goodbye after what is queued has left. Dropping does the same.
    pub fn close(self) {}

    /// Receives, and keeps what is not waited for, until `done` says something.
    fn wait_for<T>(
        &mut self,
        timeout: Duration,
        done: impl Fn(&State) -> Option<T>,
    ) -> Option<T> {
        let until = clock::now() + timeout;
        self.disarm();
        loop {
            let result = done(&self.shared.state());
            if result.is_some() {
                return result;
            }
            match self.next() {
                Some(Some(received)) => self.postpone(received),
                Some(None) => {}
                None if self.sleep(until) => {}
                // The answer may have come with the last moment.
                None => return done(&self.shared.state()),
            }
        }
    }

    fn take(&mut self) -> Option<Received> {
        if let Some(received) = self.pending.pop_front() {
            return Some(received);
        }
        loop {
            if let Some(received) = self.next()? {
                return Some(received);
            }
        }
    }

    /// The next item from the door: what it means to the application, if anything.
    fn next(&mut self) -> Option<Option<Received>> {
        if let Some(item) = self.door.recv() {
            self.shared.taken.add(1);
            return Some(self.digest(item));
        }
        if self.end_told || !self.door.is_closed() {
            return None;
        }
        self.end_told = true;
        self.shared.state().down(Link::Closed);
        Some(Some(Received::Down(Refusal::Leaving)))
    }

    fn digest(&mut self, item: Item) -> Option<Received> {
        let received = match item {
            Item::Event(packet) => {
                let counters = &self.shared.counters;
                counters.received.add(1);
                counters.received_bytes.add(packet.len() as u64);
                return Received::event(packet).or_else(|| {
                    counters.dropped_malformed.add(1);
                    None
                });
            }
            Item::Message(message) => {
                let mut state = self.shared.state();
                if self.driver.is_none()
                    && let Some(reply) = state.apply(&message)
                {
                    // Only if the broker takes nothing from us, which it finds out by itself.
                    let _ = self.shared.tell(reply);
                }
                return state.read(message);
            }
            Item::State(DoorState::Up) => self.came_up()?,
            Item::State(DoorState::Down(reason)) => {
                if self.driver.is_none() {
                    self.shared.state().down(Link::Down);
                }
                Received::Down(reason)
            }
        };
        Some(received)
    }

    fn came_up(&mut self) -> Option<Received> {
        let mut state = self.shared.state();
        if self.driver.is_none() {
            if !state.is_up() {
                let mut busy = false;
                state.up(beyond_the_door(), |message| busy |= self.shared.tell(message).is_err());
                if busy {
                    tracing::warn!("the broker in this process did not take every request");
                }
            }
            self.shared.counters.ups.add(1);
        }
        match state.link() {
            Link::Up(info) => Some(Received::Up(info)),
            // It went down again since; that follows.
            _ => None,
        }
    }

    /// Keeps what came while something else was waited for; events only up to a bound.
    fn postpone(&mut self, received: Received) {
        if let Received::Event(packet) = &received
            && self.pending.len() >= self.pending_max
        {
            let video = packet.header().is_ok_and(|header| header.class == Class::Video);
            let counters = &self.shared.counters;
            let count = if video { &counters.dropped_video } else { &counters.dropped_other };
            return count.add(1);
        }
        self.pending.push_back(received);
    }

    /// Waits for the next item; false if the time is over or nothing can come.
    fn sleep(&mut self, until: Time) -> bool {
        let now = clock::now();
        if now >= until || self.door.is_closed() {
            return false;
        }
        match self.door.wait(Some((until - now).min(WAIT_MAX))) {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(%error, "waiting for the client's door failed");
                false
            }
        }
    }

    fn disarm(&mut self) {
        if self.armed {
            self.armed = false;
            self.door.sleeper().disarm();
        }
    }

    fn not_up(&self, waited: Duration) -> ClientError {
        let state = self.shared.state();
        match state.link() {
            Link::Refused { reason, .. } => self.refused(reason),
            Link::Closed => ClientError::Closed,
            Link::Up(_) | Link::Down => {
                let cause = state.cause();
                ClientError::NoAnswer { target: self.target.clone(), waited, cause }
            }
        }
    }

    fn refused(&self, reason: Refusal) -> ClientError {
        ClientError::Refused { target: self.target.clone(), reason }
    }
}

/// All that is known of a broker behind a door.
fn beyond_the_door() -> UpInfo {
    UpInfo {
        broker: None,
        clock_domain: clock::clock_domain(),
        datagram_max: EVENT_LEN_MAX as u16,
        keepalive: None,
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.close();
        // The driver says goodbye first.
        drop(self.driver.take());
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("target", &self.target)
            .field("up", &self.up())
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}
