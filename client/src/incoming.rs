//! What comes through the door, and waiting for it.

use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use sangam_io::clock;
use sangam_io::door::{DoorReceiver, DoorState, Item};
use sangam_model::limits::EVENT_LEN_MAX;
use sangam_model::{Class, Time};
use sangam_wire::{Message, Refusal};

use crate::shared::Shared;
use crate::state::{Link, State};
use crate::{Received, UpInfo};

/// Longer waits than this are cut into pieces.
const WAIT_MAX: Duration = Duration::from_secs(3_600);
/// How long reliable topics wait at least for room towards the broker.
const BUSY: Duration = Duration::from_millis(1);

pub(crate) struct Incoming {
    door: DoorReceiver,
    shared: Arc<Shared>,
    /// A driver owns the state of the link; otherwise we do.
    driven: bool,
    /// What came while something else was waited for.
    pending: VecDeque<Received>,
    pending_max: usize,
    /// A caller may sleep on the descriptor.
    armed: bool,
    end_told: bool,
    /// Reliable topics may have something for the application, and for the broker.
    fed: bool,
}

/// All that is known of a broker behind a door.
pub(crate) fn beyond_the_door() -> UpInfo {
    UpInfo {
        broker: None,
        clock_domain: clock::clock_domain(),
        datagram_max: EVENT_LEN_MAX as u16,
        keepalive: None,
    }
}

impl Incoming {
    pub(crate) fn new(door: DoorReceiver, driven: bool, link: (Arc<Shared>, usize)) -> Self {
        let (shared, pending_max) = link;
        Self {
            door,
            shared,
            driven,
            pending: VecDeque::new(),
            pending_max,
            armed: false,
            end_told: false,
            fed: false,
        }
    }

    pub(crate) fn recv(&mut self, timeout: Duration) -> Option<Received> {
        let until = clock::now() + timeout;
        self.disarm();
        loop {
            let received = self.take();
            if received.is_some() || !self.sleep(until) {
                return received;
            }
        }
    }

    /// After `None` the descriptor tells of the next.
    pub(crate) fn try_recv(&mut self) -> Option<Received> {
        self.disarm();
        let received = self.take();
        if received.is_some() {
            return received;
        }
        // Nobody sleeps here until it is due.
        let due = self.shared.member().deadline();
        if due.is_some_and(|due| due <= clock::now()) {
            self.shared.pump();
        }
        self.door.sleeper().arm();
        self.armed = true;
        // What came before the arming rings no bell.
        self.take()
    }

    pub(crate) fn fd(&mut self) -> BorrowedFd<'_> {
        self.door.sleeper().fd()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.end_told && self.pending.is_empty()
    }

    /// Receives, and keeps what is not waited for, until `done` says something.
    pub(crate) fn wait_for<T>(
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

    /// The next thing for the application.
    fn take(&mut self) -> Option<Received> {
        let mut received = self.pending.pop_front();
        while received.is_none() {
            received = self.next()?;
        }
        if let Some(Received::Event(packet)) = &received {
            self.shared.counters.received.add(1);
            self.shared.counters.received_bytes.add(packet.len() as u64);
        }
        received
    }

    /// The next item from the door: what it means to the application, if anything.
    fn next(&mut self) -> Option<Option<Received>> {
        if self.fed {
            let event = self.shared.member().next_event();
            if event.is_some() {
                return Some(event.map(Received::Reliable));
            }
            self.fed = false;
            self.shared.pump();
        }
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
        match item {
            Item::Event(packet) => {
                let received = Received::event(packet);
                if received.is_none() {
                    self.shared.counters.dropped_malformed.add(1);
                }
                received
            }
            Item::Message(Message::Reliable(message)) => {
                self.shared.member().take(clock::now(), message);
                self.fed = true;
                None
            }
            Item::Message(message) => self.message(message),
            Item::State(DoorState::Up) => {
                self.shared.member().link_up(clock::now());
                self.fed = true;
                self.came_up()
            }
            Item::State(DoorState::Down(reason)) => {
                if !self.driven {
                    self.shared.state().down(Link::Down);
                }
                self.shared.member().link_down();
                Some(Received::Down(reason))
            }
        }
    }

    fn message(&self, message: Message) -> Option<Received> {
        let mut state = self.shared.state();
        if !self.driven {
            state.apply(&message, |reply| {
                // A broker that takes nothing from us finds out by itself.
                let _ = self.shared.tell(reply);
            });
        }
        state.read(message)
    }

    fn came_up(&self) -> Option<Received> {
        let mut state = self.shared.state();
        if !self.driven {
            self.shared.counters.ups.add(1);
            if !state.is_up() {
                let mut taken = true;
                state.up(beyond_the_door(), |message| {
                    taken &= self.shared.tell(message).is_ok();
                });
                if !taken {
                    tracing::warn!("the broker in this process did not take every request");
                }
            }
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
            let header = packet.header();
            let counters = &self.shared.counters;
            let count = match header.map(|header| header.class) {
                Ok(Class::Video) => &counters.dropped_video,
                _ => &counters.dropped_other,
            };
            return count.add(1);
        }
        self.pending.push_back(received);
    }

    /// Waits for the next item; false if the time is over or nothing can come.
    fn sleep(&mut self, until: Time) -> bool {
        let now = clock::now();
        if now >= until || self.end_told {
            return false;
        }
        let due = self.shared.member().deadline().unwrap_or(Time::NEVER);
        if due <= now {
            self.shared.pump();
        }
        // What is due and has no room yet goes soon.
        let pause = (due - now).max(BUSY).min(until - now).min(WAIT_MAX);
        match self.door.wait(Some(pause)) {
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
}
