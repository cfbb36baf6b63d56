//! Clients in this process: each behind a door of two rings.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use sangam_broker::DropReason;
use sangam_io::door::{BrokerDoor, DoorState, Item};
use sangam_io::pool::Packet;
use sangam_io::port::{Action, Context, Delivery, PeerKey, Port};
use sangam_model::{Class, Time};
use sangam_wire::{Message, Refusal};

use super::peers::Peers;
use super::request;
use crate::counters::Counters;

/// Items taken from one door before others have their turn: as many as it holds, so that whatever
/// is left came after the shard had asked to be woken.
const ITEMS_PER_TURN: usize = crate::broker::DOOR;

/// All in-process clients of one shard.
pub(crate) struct DoorPort {
    arrivals: Receiver<BrokerDoor>,
    counters: Arc<Counters>,
    doors: Peers<BrokerDoor>,
}

impl DoorPort {
    pub(crate) fn new(arrivals: Receiver<BrokerDoor>, counters: Arc<Counters>) -> Self {
        Self {
            arrivals,
            counters,
            doors: Peers::default(),
        }
    }

    fn take(&mut self, peer: PeerKey, item: Item, cx: &mut Context<'_>) {
        let action = match item {
            Item::Message(message) => request::action(peer, message, None),
            Item::Event(packet) => match packet.header() {
                Ok(header) if header.class == Class::Feedback => {
                    Some(Action::Feedback { peer, packet })
                }
                Ok(_) => Some(Action::Ingest { peer, packet }),
                Err(_) => None,
            },
            Item::State(_) => None,
        };
        match action {
            Some(action) => cx.actions.push(action),
            None => self.counters.dropped(DropReason::ControlUnexpected),
        }
    }

    /// Control items matter more than room: a client that cannot take one is gone.
    fn say(&mut self, peer: PeerKey, item: Item, cx: &mut Context<'_>) {
        let Some(door) = self.doors.get_mut(peer) else {
            return;
        };
        if door.send(item).is_err() {
            self.counters.dropped(DropReason::ControlOverflow);
            self.doors.remove(peer);
            cx.actions.push(Action::Gone { peer });
        }
    }
}

impl Port for DoorPort {
    fn name(&self) -> &'static str {
        "door"
    }

    fn start(&mut self, _: &mut Context<'_>) -> io::Result<()> {
        Ok(())
    }

    fn ready(&mut self, _: u32, _: &mut Context<'_>) {}

    fn woken(&mut self, cx: &mut Context<'_>) {
        while let Ok(door) = self.arrivals.try_recv() {
            let peer = self.doors.insert(door);
            self.say(peer, Item::State(DoorState::Up), cx);
        }
        for peer in 0..self.doors.slots() {
            for _ in 0..ITEMS_PER_TURN {
                let Some(item) = self.doors.get_mut(peer).and_then(BrokerDoor::recv) else {
                    break;
                };
                self.take(peer, item, cx);
            }
            if self.doors.get(peer).is_some_and(BrokerDoor::is_closed) {
                self.doors.remove(peer);
                cx.actions.push(Action::Gone { peer });
            }
        }
    }

    fn deliver(&mut self, burst: &[Packet], peers: &[PeerKey], _: &mut Context<'_>) -> Delivery {
        let mut done = Delivery {
            peers: peers.len(),
            ..Delivery::default()
        };
        for peer in peers {
            let Some(door) = self.doors.get_mut(*peer) else {
                continue;
            };
            for packet in burst {
                match door.queue(Item::Event(packet.clone())) {
                    Ok(()) => {
                        done.packets += 1;
                        done.messages += 1;
                        done.bytes += packet.len() as u64;
                    }
                    Err(_) => done.peer_full += 1,
                }
            }
            door.wake();
        }
        done
    }

    fn tell(&mut self, peer: PeerKey, message: Message, cx: &mut Context<'_>) {
        self.say(peer, Item::Message(message), cx);
    }

    fn room(&self, peer: PeerKey) -> usize {
        self.doors.get(peer).map_or(usize::MAX, BrokerDoor::room)
    }

    fn feedback(&mut self, peer: PeerKey, packet: &Packet, _: &mut Context<'_>) {
        let Some(door) = self.doors.get_mut(peer) else {
            return;
        };
        if door.send(Item::Event(packet.clone())).is_err() {
            self.counters.dropped(DropReason::DoorFull);
        }
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn timeout(&mut self, _: &mut Context<'_>) {}

    fn peers(&self) -> usize {
        self.doors.len()
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        for peer in self.doors.keys() {
            self.say(peer, Item::State(DoorState::Down(Refusal::Leaving)), cx);
        }
    }
}
