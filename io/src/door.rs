//! The door of a client: two rings that carry the same, in process or towards a link's driver.
//!
//! The broker side is served by a thread that has other work too (a delivery shard, or the
//! driver of a network link), so it brings its own waker; the client side sleeps by itself.

use core::fmt;
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::io;

use rtrb::{Consumer, Producer, PushError, RingBuffer};
use sangam_wire::{Message, Refusal};

use crate::pool::Packet;
use crate::wake::{self, Sleeper, Waker};

/// What passes a door, both ways.
#[derive(Clone, Debug)]
pub enum Item {
    /// A control message.
    Message(Message),
    /// An event: header, extensions, payload.
    Event(Packet),
    /// The link behind the door changed. Only towards the client.
    State(DoorState),
}

/// Whether a broker is behind the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorState {
    /// It is; nothing of an earlier link is known to it.
    Up,
    /// It is not, and why.
    Down(Refusal),
}

/// Why an item did not pass. It comes back.
#[derive(Debug)]
pub enum DoorError {
    /// The other side does not keep up.
    Full(Item),
    /// The other side is gone for good.
    Closed(Item),
}

/// The side of the client. Its halves may live in different threads.
#[derive(Debug)]
pub struct ClientDoor {
    /// Towards the broker.
    pub sender: DoorSender,
    /// From the broker.
    pub receiver: DoorReceiver,
}

/// The side of the broker, or of the driver of a link to one.
#[derive(Debug)]
pub struct BrokerDoor {
    sender: DoorSender,
    receiver: Consumer<Item>,
}

/// Puts items through a door.
#[derive(Debug)]
pub struct DoorSender {
    // Dropped in this order: when the other side is woken, it finds the ring abandoned.
    ring: Producer<Item>,
    waker: WakeAtEnd,
}

/// Takes items from a door, and can wait for them.
#[derive(Debug)]
pub struct DoorReceiver {
    ring: Consumer<Item>,
    sleeper: Sleeper,
}

#[derive(Debug)]
struct WakeAtEnd(Waker);

/// Opens a door with room for `capacity` items each way. `broker` wakes the thread that serves
/// the broker's side.
///
/// # Errors
/// When the process has no descriptor left.
pub fn door(capacity: usize, broker: Waker) -> io::Result<(ClientDoor, BrokerDoor)> {
    let (client, sleeper) = wake::pair()?;
    let (to_broker, from_client) = RingBuffer::new(capacity);
    let (to_client, from_broker) = RingBuffer::new(capacity);
    let client_door = ClientDoor {
        sender: DoorSender::new(to_broker, broker),
        receiver: DoorReceiver {
            ring: from_broker,
            sleeper,
        },
    };
    let broker_door = BrokerDoor {
        sender: DoorSender::new(to_client, client),
        receiver: from_client,
    };
    Ok((client_door, broker_door))
}

impl DoorSender {
    fn new(ring: Producer<Item>, waker: Waker) -> Self {
        let waker = WakeAtEnd(waker);
        Self { ring, waker }
    }

    /// Puts an item through and wakes the other side.
    ///
    /// # Errors
    /// The item, if the other side is full or gone.
    pub fn send(&mut self, item: Item) -> Result<(), DoorError> {
        self.queue(item)?;
        self.wake();
        Ok(())
    }

    /// Puts an item through without waking; call [`DoorSender::wake`] after the last.
    ///
    /// # Errors
    /// The item, if the other side is full or gone.
    pub fn queue(&mut self, item: Item) -> Result<(), DoorError> {
        if self.is_closed() {
            return Err(DoorError::Closed(item));
        }
        self.ring
            .push(item)
            .map_err(|PushError::Full(item)| DoorError::Full(item))
    }

    /// Wakes the other side if it sleeps.
    pub fn wake(&self) {
        self.waker.0.wake();
    }

    /// How many items there is room for.
    #[must_use]
    pub fn room(&self) -> usize {
        self.ring.slots()
    }

    /// Whether the other side is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.ring.is_abandoned()
    }
}

impl DoorReceiver {
    /// The next item, if one is there.
    pub fn recv(&mut self) -> Option<Item> {
        self.ring.pop().ok()
    }

    /// Waits until an item is there, the other side is gone or `timeout` has passed (`None`: for
    /// ever). It may also end early.
    ///
    /// # Errors
    /// Only what the kernel reports as a mistake of ours.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.sleeper.arm();
        let ready = self.ring.is_abandoned() || !self.ring.is_empty();
        let result = if ready {
            Ok(())
        } else {
            self.sleeper.wait(timeout)
        };
        self.sleeper.disarm();
        result
    }

    /// Whether the other side is gone and every item taken.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        ended(&self.ring)
    }

    /// For a caller with a poller of its own instead of [`DoorReceiver::wait`].
    pub fn sleeper(&mut self) -> &mut Sleeper {
        &mut self.sleeper
    }
}

impl BrokerDoor {
    /// Puts an item through and wakes the client.
    ///
    /// # Errors
    /// The item, if the client does not keep up or is gone.
    pub fn send(&mut self, item: Item) -> Result<(), DoorError> {
        self.sender.send(item)
    }

    /// Puts an item through without waking; call [`BrokerDoor::wake`] after the last.
    ///
    /// # Errors
    /// The item, if the client does not keep up or is gone.
    pub fn queue(&mut self, item: Item) -> Result<(), DoorError> {
        self.sender.queue(item)
    }

    /// Wakes the client if it sleeps.
    pub fn wake(&self) {
        self.sender.wake();
    }

    /// The next item from the client, if one is there.
    pub fn recv(&mut self) -> Option<Item> {
        self.receiver.pop().ok()
    }

    /// How many items the client has room for.
    #[must_use]
    pub fn room(&self) -> usize {
        self.sender.room()
    }

    /// Whether nothing waits to be taken; look here again after arming a sleeper.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    /// Whether the client is gone and every item taken.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        ended(&self.receiver)
    }
}

/// Whether the producer is gone and everything it left is taken.
fn ended(ring: &Consumer<Item>) -> bool {
    if !ring.is_abandoned() {
        return false;
    }
    // The ring looks at its count without ordering; its last items were pushed before.
    fence(Ordering::Acquire);
    ring.is_empty()
}

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.0.wake();
    }
}

impl fmt::Display for DoorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the other side does not keep up; try again or drop it",
            Self::Closed(_) => "the other side is gone",
        })
    }
}

impl core::error::Error for DoorError {}
