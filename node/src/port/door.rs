//! Clients in this process: each behind a door of two rings.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use sangam_broker::{Admit, DropReason, Shedder};
use sangam_io::door::{BrokerDoor, DoorState, Item};
use sangam_io::pool::Packet;
use sangam_io::port::{Action, Context, Delivery, PeerKey, Peers, Port};
use sangam_model::{Class, StreamId, Time};
use sangam_wire::{Message, Refusal};

use super::request;
use crate::counters::Counters;

/// Items taken from one door before others have their turn: as many as it holds, so that whatever
/// is left came after the shard had asked to be woken.
const ITEMS_PER_TURN: usize = crate::broker::DOOR;

/// Where clients in this process are.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Places of a door's ring that video leaves free, and that all events do.
const VIDEO_RESERVE: usize = 1_024;
const EVENT_RESERVE: usize = 256;

/// All in-process clients of one shard.
pub(crate) struct DoorPort {
    arrivals: Receiver<Arrival>,
    counters: Arc<Counters>,
    doors: Peers<Door>,
}

/// A door that was just opened.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) end: BrokerDoor,
    /// Whether its client may publish on system topics.
    pub(crate) system: bool,
}

struct Door {
    end: BrokerDoor,
    system: bool,
    shedders: HashMap<StreamId, Shedder>,
}

impl DoorPort {
    pub(crate) fn new(arrivals: Receiver<Arrival>, counters: Arc<Counters>) -> Self {
        Self {
            arrivals,
            counters,
            doors: Peers::default(),
        }
    }

    fn take(&mut self, peer: PeerKey, item: Item, cx: &mut Context<'_>) {
        let unexpected = DropReason::ControlUnexpected;
        let action = match item {
            Item::Message(message) => {
                request::action(peer, message, (HERE, None)).ok_or(unexpected)
            }
            Item::Event(packet) => request::event(peer, packet).map_err(DropReason::from),
            Item::State(_) => Err(unexpected),
        };
        match action {
            Ok(action) => cx.actions.push(action),
            Err(reason) => self.counters.dropped(reason),
        }
    }

    /// Control items matter more than room: a client that cannot take one is gone.
    fn say(&mut self, peer: PeerKey, item: Item, cx: &mut Context<'_>) {
        let Some(door) = self.doors.get_mut(peer) else {
            return;
        };
        if door.end.send(item).is_err() {
            self.counters.dropped(DropReason::ControlOverflow);
            self.doors.remove(peer);
            cx.actions.push(Action::Gone { peer });
        }
    }
}

impl Door {
    /// Queues one packet, or sheds it: the last places are left to what matters more.
    fn push(&mut self, packet: &Packet) -> bool {
        let Ok(header) = packet.header() else {
            return false;
        };
        let room = self.end.room();
        let full = match header.class {
            Class::Video => room <= VIDEO_RESERVE,
            _ => room <= EVENT_RESERVE,
        };
        let shedder = self.shedders.entry(header.stream).or_default();
        let admitted = shedder.admit(&header, Duration::ZERO, full) == Admit::Deliver;
        admitted && self.end.queue(Item::Event(packet.clone())).is_ok()
    }
}

impl Port for DoorPort {
    fn name(&self) -> &'static str {
        "door"
    }

    fn is_trusted(&self) -> bool {
        true
    }

    fn start(&mut self, _: &mut Context<'_>) -> io::Result<()> {
        Ok(())
    }

    fn ready(&mut self, _: u32, _: &mut Context<'_>) {}

    fn woken(&mut self, cx: &mut Context<'_>) {
        while let Ok(Arrival { end, system }) = self.arrivals.try_recv() {
            let shedders = HashMap::new();
            let peer = self.doors.insert(Door {
                end,
                system,
                shedders,
            });
            self.say(peer, Item::State(DoorState::Up), cx);
        }
        for peer in 0..self.doors.slots() {
            for _ in 0..ITEMS_PER_TURN {
                let Some(item) = self.doors.get_mut(peer).and_then(|door| door.end.recv()) else {
                    break;
                };
                self.take(peer, item, cx);
            }
            if self
                .doors
                .get(peer)
                .is_some_and(|door| door.end.is_closed())
            {
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
                if door.push(packet) {
                    done.packets += 1;
                    done.bytes += packet.len() as u64;
                } else {
                    done.peer_full += 1;
                }
            }
            done.messages += 1;
            door.end.wake();
        }
        done
    }

    fn tell(&mut self, peer: PeerKey, message: Message, cx: &mut Context<'_>) {
        if let Message::Retire { stream } = &message
            && let Some(door) = self.doors.get_mut(peer)
        {
            door.shedders.remove(stream);
        }
        self.say(peer, Item::Message(message), cx);
    }

    fn is_system(&self, peer: PeerKey) -> bool {
        self.doors.get(peer).is_some_and(|door| door.system)
    }

    fn room(&self, peer: PeerKey) -> usize {
        self.doors
            .get(peer)
            .map_or(usize::MAX, |door| door.end.room())
    }

    fn feedback(&mut self, peer: PeerKey, packet: &Packet, _: &mut Context<'_>) {
        let Some(door) = self.doors.get_mut(peer) else {
            return;
        };
        if door.end.send(Item::Event(packet.clone())).is_err() {
            self.counters.dropped(DropReason::DoorFull);
        }
    }

    fn deadline(&self) -> Option<Time> {
        // What a turn left behind is due at once.
        let left = self.doors.iter().any(|door| !door.end.is_empty());
        left.then_some(Time::ZERO)
    }

    fn timeout(&mut self, _: &mut Context<'_>) {}

    fn peers(&self) -> usize {
        // The broker's own parts are no clients.
        self.doors.iter().filter(|door| !door.system).count()
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        for peer in self.doors.keys() {
            self.say(peer, Item::State(DoorState::Down(Refusal::Leaving)), cx);
        }
    }
}
