//! The thread that keeps reliable topics: messages of clients and neighbours on one side,
//! `sangam_reliable` in the middle, the ways to both on the other.
//!
//! It has a thread of its own so that a flood of chat delays neither routing nor media. What its
//! queue does not take is dropped and counted: whoever sent it sends it again.

mod desk;
mod store;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sangam_broker::{LinkId, Owner};
use sangam_io::clock;
use sangam_io::wake::{Sleeper, Waker};
use sangam_model::{BrokerId, Scope, Topic};
use sangam_reliable::{ClientId, Counters, Input, Keeper, KeeperConfig, Limits, Output, Peer, Way};
use sangam_route::rendezvous;
use sangam_wire::{Message, Reliable, Route};

use crate::command::{LaneCommand, ShardCommand};
pub(crate) use desk::Desk;
pub(crate) use store::{Store, StoreError};

/// Events handled before what follows from them is said.
const BATCH: usize = 256;
/// The longest sleep: a bound for whatever forgets to set a deadline.
const REST: Duration = Duration::from_secs(1);
/// Brokers that keep a topic.
const HOMES: usize = 2;
/// Brokers that a message may cross, as for registrations.
const HOPS: u8 = 64;

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum ReliableEvent {
    Ways(Ways),
    /// A neighbour passes something on.
    Carried(Route, Reliable),
    /// A client says something that it may say.
    Client(Owner, Reliable),
    Gone(Owner),
    Stop,
}

/// Who can be reached, and how.
#[derive(Debug)]
pub(crate) struct Ways {
    /// All that can be reached, by rising id; `None` while this broker takes no part yet.
    pub(crate) ways: Option<Vec<Way>>,
    /// By which link the way to each broker begins.
    pub(crate) links: BTreeMap<BrokerId, LinkId>,
}

/// What the thread counts, for whoever wants to know.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) counters: Mutex<Counters>,
    /// Messages for brokers to which there was no way.
    pub(crate) lost: AtomicU64,
    /// Changes that could not be written, yet.
    pub(crate) unwritten: AtomicU64,
}

/// What the thread is made of.
pub(crate) struct Parts {
    pub(crate) id: BrokerId,
    /// Drawn at random.
    pub(crate) seed: u64,
    pub(crate) limits: Limits,
    pub(crate) store: Option<Store>,
    pub(crate) events: Receiver<ReliableEvent>,
    pub(crate) sleeper: Sleeper,
    pub(crate) lane: (SyncSender<LaneCommand>, Waker),
    pub(crate) shards: Vec<(SyncSender<ShardCommand>, Waker)>,
    pub(crate) report: Arc<Report>,
}

/// The thread.
pub(crate) struct Reliables {
    parts: Parts,
    keeper: Keeper,
    links: BTreeMap<BrokerId, LinkId>,
    stopping: bool,
}

impl Reliables {
    pub(crate) fn new(mut parts: Parts) -> Self {
        let mut keeper = Keeper::new(KeeperConfig {
            id: parts.id,
            seed: parts.seed,
            homes,
            limits: parts.limits,
            durable: parts.store.is_some(),
        });
        if let Some(store) = &mut parts.store {
            let now = clock::now();
            for restored in store.take_restored() {
                keeper.handle(now, restored);
            }
        }
        Self {
            parts,
            keeper,
            links: BTreeMap::new(),
            stopping: false,
        }
    }

    /// Runs until the broker stops.
    pub(crate) fn run(mut self) {
        while !self.stopping {
            self.turn();
            self.parts.sleeper.arm();
            let worked = self.take_events();
            let now = clock::now();
            let due = self.keeper.deadline().map_or(REST, |at| at - now);
            let timeout = if worked {
                Duration::ZERO
            } else {
                due.min(REST)
            };
            if let Err(error) = self.parts.sleeper.wait(Some(timeout)) {
                tracing::error!(%error, "reliable topics cannot wait for events");
            }
            self.parts.sleeper.disarm();
        }
    }

    fn turn(&mut self) {
        self.take_events();
        let now = clock::now();
        if let Some(store) = &self.parts.store {
            let safe = store.safe();
            self.keeper.handle(now, Input::Written(safe));
            let behind = store.behind();
            self.parts.report.unwritten.store(behind, Ordering::Relaxed);
        }
        self.keeper.handle(now, Input::Tick);
        self.carry_out();
        if let Ok(mut counters) = self.parts.report.counters.lock() {
            *counters = self.keeper.counters();
        }
    }

    /// Takes what waits, up to a batch; whether there was anything.
    fn take_events(&mut self) -> bool {
        for count in 0..BATCH {
            let Ok(event) = self.parts.events.try_recv() else {
                return count > 0;
            };
            self.handle(event);
        }
        true
    }

    fn handle(&mut self, event: ReliableEvent) {
        let now = clock::now();
        match event {
            ReliableEvent::Ways(ways) => {
                self.links = ways.links;
                if let Some(ways) = ways.ways {
                    self.keeper.handle(now, Input::Ways(ways));
                }
            }
            ReliableEvent::Carried(route, message) if route.to == self.parts.id => {
                let from = Peer::Broker(route.from);
                self.keeper.handle(now, Input::Message(from, message));
            }
            ReliableEvent::Carried(mut route, message) => {
                route.hop_limit = route.hop_limit.saturating_sub(1);
                if route.hop_limit == 0 {
                    self.parts.report.lost.fetch_add(1, Ordering::Relaxed);
                } else {
                    self.pass_on(route, message);
                }
            }
            ReliableEvent::Client(owner, message) => {
                let from = Peer::Client(client(owner));
                self.keeper.handle(now, Input::Message(from, message));
            }
            ReliableEvent::Gone(owner) => self.keeper.handle(now, Input::Gone(client(owner))),
            ReliableEvent::Stop => self.stopping = true,
        }
    }

    fn carry_out(&mut self) {
        let mut woken = 0_u64;
        let mut carried = false;
        while let Some(output) = self.keeper.poll() {
            match output {
                Output::Send(Peer::Broker(to), message) => {
                    let route = Route {
                        to,
                        from: self.parts.id,
                        hop_limit: HOPS,
                    };
                    self.pass_on(route, message);
                    carried = true;
                }
                Output::Send(Peer::Client(to), message) => {
                    let owner = owner(to);
                    if let Some((shard, _)) = self.parts.shards.get(usize::from(owner.shard)) {
                        // A shard has stopped only when the whole broker stops.
                        let _ = shard.send(ShardCommand::Tell {
                            to: owner.peer.into(),
                            message: Message::Reliable(message),
                        });
                        woken |= 1 << owner.shard;
                    }
                }
                Output::Write(change) => {
                    if let Some(store) = &mut self.parts.store {
                        store.write(change);
                    }
                }
            }
        }
        if carried {
            self.parts.lane.1.wake();
        }
        for (shard, (_, waker)) in self.parts.shards.iter().enumerate() {
            if woken & (1 << shard) != 0 {
                waker.wake();
            }
        }
    }

    fn pass_on(&self, route: Route, message: Reliable) {
        let Some(link) = self.links.get(&route.to).copied() else {
            self.parts.report.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let message = Message::Carried(route, message);
        // The lane has stopped only when the whole broker stops.
        let _ = self.parts.lane.0.send(LaneCommand::Carry { link, message });
        self.parts.lane.1.wake();
    }
}

/// The two brokers that a session's name hashes to, as for its directory.
fn homes(topic: &Topic, brokers: &[BrokerId]) -> Vec<BrokerId> {
    let scope = Scope::of_topic(topic);
    rendezvous(scope.as_str(), brokers.iter().copied(), HOMES)
}

fn client(owner: Owner) -> ClientId {
    ClientId(u64::from(owner.shard) << 32 | u64::from(owner.peer))
}

/// The way back from [`client`].
const fn owner(client: ClientId) -> Owner {
    Owner {
        shard: (client.0 >> 32) as u16,
        peer: client.0 as u32,
    }
}
