//! What a client, its publishers and its driver have in common.

use core::sync::atomic::{AtomicI64, AtomicU16, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sangam_io::clock;
use sangam_io::door::{DoorError, DoorSender, Item};
use sangam_io::pool::{Packet, Pool};
use sangam_link::{ClockOffset, Session};
use sangam_model::Time;
use sangam_reliable::Member;
use sangam_wire::Message;

use crate::counters::{Count, Counters};
use crate::state::State;
use crate::{ClientError, SendError};

/// Places in the queue towards the broker that only messages may take.
const MESSAGE_ROOM: usize = 16;

/// Locks are taken in the order of the fields.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    member: Mutex<Member>,
    /// `None` once the client is closed.
    outlet: Mutex<Option<DoorSender>>,
    /// Buffers for what is published.
    pub(crate) pool: Pool,
    pub(crate) counters: Counters,
    pub(crate) measures: Measures,
    pub(crate) trace_every: u32,
    /// Items the client took from its door.
    pub(crate) taken: Count,
}

/// What the driver measures of the link.
#[derive(Debug)]
pub(crate) struct Measures {
    rtt_us: AtomicU64,
    offset_us: AtomicI64,
    uncertainty_us: AtomicU64,
    datagram_max: AtomicU16,
}

const UNKNOWN: u64 = u64::MAX;

impl Shared {
    pub(crate) fn new(
        state: State,
        outlet: DoorSender,
        pool: Pool,
        (trace_every, seed): (u32, u64),
    ) -> Self {
        Self {
            state: Mutex::new(state),
            member: Mutex::new(Member::new(seed)),
            outlet: Mutex::new(Some(outlet)),
            pool,
            counters: Counters::default(),
            measures: Measures::default(),
            trace_every,
            taken: Count::default(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reliable topics; call [`Self::pump`] after a change.
    pub(crate) fn member(&self) -> MutexGuard<'_, Member> {
        self.member.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what reliable topics have to say, as far as there is room; the rest, when something
    /// comes back.
    pub(crate) fn pump(&self) {
        let mut member = self.member();
        let mut outlet = self.outlet();
        let Some(sender) = outlet.as_mut() else {
            return;
        };
        let now = clock::now();
        while sender.room() > MESSAGE_ROOM
            && let Some(message) = member.poll(now)
        {
            if sender
                .queue(Item::Message(Message::Reliable(message)))
                .is_err()
            {
                return;
            }
        }
        sender.wake();
    }

    /// Sends a message; hold the state it follows from.
    pub(crate) fn tell(&self, message: Message) -> Result<(), ClientError> {
        let mut outlet = self.outlet();
        let sender = outlet.as_mut().ok_or(ClientError::Closed)?;
        sender
            .send(Item::Message(message))
            .map_err(|error| match error {
                DoorError::Full(_) => ClientError::Busy,
                DoorError::Closed(_) => ClientError::Closed,
            })
    }

    /// Queues events, in a row, until the first that cannot be, and wakes the other side once.
    /// What is not queued of `count` events is counted.
    pub(crate) fn emit(
        &self,
        count: usize,
        events: impl Iterator<Item = Result<Packet, SendError>>,
    ) -> Result<(), SendError> {
        let mut outlet = self.outlet();
        let Some(sender) = outlet.as_mut() else {
            return Err(self.dropped(count, SendError::Closed));
        };
        let mut room = sender.room().saturating_sub(MESSAGE_ROOM);
        let mut queued = 0;
        let mut result = Ok(());
        for event in events {
            result = event.and_then(|packet| self.queue(sender, &mut room, packet));
            if result.is_err() {
                break;
            }
            queued += 1;
        }
        sender.wake();
        result.map_err(|error| self.dropped(count - queued, error))
    }

    /// Counts what was not sent, and why.
    pub(crate) fn dropped(&self, events: usize, error: SendError) -> SendError {
        let counters = &self.counters;
        let count = match error {
            SendError::Down | SendError::Refused(_) | SendError::Closed => &counters.dropped_down,
            SendError::Full => &counters.dropped_send_queue,
            SendError::Exhausted => &counters.dropped_pool,
            SendError::Oversized | SendError::Foreign => &counters.dropped_malformed,
        };
        count.add(events as u64);
        error
    }

    /// No event or message leaves any more; the other side notices.
    pub(crate) fn close(&self) {
        *self.outlet() = None;
    }

    fn queue(
        &self,
        sender: &mut DoorSender,
        room: &mut usize,
        packet: Packet,
    ) -> Result<(), SendError> {
        *room = room.checked_sub(1).ok_or(SendError::Full)?;
        let bytes = packet.len() as u64;
        sender
            .queue(Item::Event(packet))
            .map_err(|error| match error {
                DoorError::Full(_) => SendError::Full,
                DoorError::Closed(_) => SendError::Closed,
            })?;
        self.counters.published.add(1);
        self.counters.published_bytes.add(bytes);
        Ok(())
    }

    fn outlet(&self) -> MutexGuard<'_, Option<DoorSender>> {
        self.outlet.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Measures {
    fn default() -> Self {
        Self {
            rtt_us: AtomicU64::new(UNKNOWN),
            offset_us: AtomicI64::new(0),
            uncertainty_us: AtomicU64::new(UNKNOWN),
            datagram_max: AtomicU16::new(0),
        }
    }
}

impl Measures {
    /// A broker in this process: no way, no other clock, no datagrams.
    pub(crate) fn set_local(&self, event_len_max: u16) {
        self.rtt_us.store(0, Ordering::Relaxed);
        self.uncertainty_us.store(0, Ordering::Relaxed);
        self.set_datagram_max(event_len_max);
    }

    pub(crate) fn take(&self, session: &Session, now: Time) {
        if let Some(rtt) = session.rtt() {
            self.rtt_us.store(micros(rtt), Ordering::Relaxed);
        }
        if let Some(clock) = session.clock_offset(now) {
            self.offset_us.store(clock.offset_us, Ordering::Relaxed);
            self.uncertainty_us
                .store(micros(clock.uncertainty), Ordering::Relaxed);
        }
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        known(&self.rtt_us).map(Duration::from_micros)
    }

    pub(crate) fn clock_offset(&self) -> Option<ClockOffset> {
        known(&self.uncertainty_us).map(|uncertainty| ClockOffset {
            offset_us: self.offset_us.load(Ordering::Relaxed),
            uncertainty: Duration::from_micros(uncertainty),
        })
    }

    pub(crate) fn datagram_max(&self) -> usize {
        self.datagram_max.load(Ordering::Relaxed).into()
    }

    pub(crate) fn set_datagram_max(&self, bytes: u16) {
        self.datagram_max.store(bytes, Ordering::Relaxed);
    }
}

fn known(value: &AtomicU64) -> Option<u64> {
    Some(value.load(Ordering::Relaxed)).filter(|&value| value != UNKNOWN)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(UNKNOWN - 1)
}
