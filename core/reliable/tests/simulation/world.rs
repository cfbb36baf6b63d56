//! Brokers, links, clients and what happens to them.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use sangam_model::{BrokerId, Time, Topic};
use sangam_reliable::{ClientId, Input, Keeper, KeeperConfig, Limits, Output, Peer};
use sangam_wire::Reliable;

use crate::client::Client;
use crate::disk::Disk;
use crate::pause::Pauses;

/// How long faults happen.
const STORM: Duration = Duration::from_secs(25);
/// How long everything may take to settle afterwards.
const SETTLE: Duration = Duration::from_secs(60);
const PUBLISH_EVERY: Duration = Duration::from_millis(7);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Faults {
    None,
    /// The next one comes when all is well again.
    OneAtATime,
    Any,
    /// Two links in a row, with a publisher at one end and a listener at the other, and the broker
    /// between them; the next failure comes before the last one is forgotten.
    Chain,
    /// All brokers lose power at once, and have written what they acknowledged.
    Blackout,
}

pub(crate) struct Broker {
    pub(crate) keeper: Option<Keeper>,
    pub(crate) life: u64,
    disk: Disk,
}

#[derive(Debug)]
enum Happening {
    ToBroker {
        from: usize,
        to: usize,
        life: u64,
        changes: u64,
        message: Reliable,
    },
    FromClient(usize, ClientId, Reliable),
    ToClient(usize, ClientId, Reliable),
    /// A broker learns what it can reach.
    Learn(usize),
    /// A client notices that its broker is gone, or goes elsewhere.
    Move(usize),
    Heal(usize, usize),
    Restart(usize),
    Fault,
}

pub(crate) struct World {
    pub(crate) seed: u64,
    random: u64,
    pub(crate) now: Time,
    limits: Limits,
    faults: Faults,
    pub(crate) brokers: Vec<Broker>,
    pub(crate) links: BTreeSet<(usize, usize)>,
    pub(crate) cut: BTreeSet<(usize, usize)>,
    /// How often the ways have changed.
    changes: u64,
    pub(crate) clients: Vec<Client>,
    next_client: u64,
    agenda: BTreeMap<(Time, u64), Happening>,
    order: u64,
    /// Nothing overtakes what went the same way before.
    last_on: BTreeMap<(usize, usize), Time>,
    publish_at: Time,
    pub(crate) pauses: Pauses,
}

fn homes(_: &Topic, brokers: &[BrokerId]) -> Vec<BrokerId> {
    // Any order will do that all agree on.
    let mut all = brokers.to_vec();
    all.sort_by_key(|id| id.0.wrapping_mul(0x9e37_79b9).rotate_left(7));
    all.truncate(2);
    all
}

impl World {
    pub(crate) fn new(seed: u64, limits: Limits, faults: Faults) -> Self {
        let topic = Topic::new("lab/chat").unwrap();
        let mut world = Self {
            seed,
            random: seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1,
            now: Time::from_millis(1),
            limits,
            faults,
            brokers: Vec::new(),
            links: BTreeSet::new(),
            cut: BTreeSet::new(),
            changes: 0,
            clients: Vec::new(),
            next_client: 1,
            agenda: BTreeMap::new(),
            order: 0,
            last_on: BTreeMap::new(),
            publish_at: Time::from_millis(900),
            pauses: Pauses::default(),
        };
        let chain = faults == Faults::Chain;
        let count = if chain {
            3
        } else {
            3 + world.below(4) as usize
        };
        for index in 0..count {
            world.brokers.push(Broker {
                keeper: None,
                life: 0,
                disk: Disk::default(),
            });
            if index > 0 {
                // A chain, with shortcuts.
                world.links.insert((index - 1, index));
                if index > 1 && !chain && world.below(3) == 0 {
                    let other = world.below(index as u64 - 1) as usize;
                    world.links.insert((other, index));
                }
            }
        }
        for index in 0..count {
            world.start(index);
        }
        let (publishers, subscribers) = match chain {
            true => (1, 1),
            false => (1 + world.below(4), 1 + world.below(5)),
        };
        for _ in 0..publishers {
            let client = Client::publisher(world.next(), &topic);
            world.clients.push(client);
        }
        for _ in 0..subscribers {
            let replay = if world.below(2) == 0 { 0 } else { u32::MAX };
            let client = Client::subscriber(world.next(), &topic, replay);
            world.clients.push(client);
        }
        for client in 0..world.clients.len() {
            let at = world.now + Duration::from_millis(world.below(300));
            world.at(at, Happening::Move(client));
        }
        if faults != Faults::None {
            world.at(Time::from_millis(1_500), Happening::Fault);
        }
        world
    }

    pub(crate) fn slow_readers(&mut self) {
        for client in &mut self.clients {
            client.slow = true;
        }
    }

    pub(crate) fn run(&mut self) {
        let storm = self.now + STORM;
        let end = storm + SETTLE;
        while self.now < end {
            let publishing = self.now < storm;
            if !publishing && self.is_settled() {
                return;
            }
            let next = self.next_moment(publishing).min(end);
            self.now = self.now.max(next);
            if publishing && self.now >= self.publish_at {
                self.publish_at = self.now + PUBLISH_EVERY;
                for client in &mut self.clients {
                    client.publish();
                }
            }
            while let Some((at, _)) = self.agenda.first_key_value().map(|(key, _)| *key)
                && at <= self.now
            {
                if let Some((_, happening)) = self.agenda.pop_first() {
                    self.happen(happening, publishing);
                }
            }
            self.turn();
            if publishing {
                self.note_pauses();
            }
        }
    }

    fn next_moment(&self, publishing: bool) -> Time {
        let agenda = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let keepers = self
            .brokers
            .iter()
            .filter_map(|broker| broker.keeper.as_ref());
        let keepers = keepers.filter_map(Keeper::deadline).min();
        let disks = self
            .brokers
            .iter()
            .filter_map(|broker| broker.disk.deadline());
        let members = self
            .clients
            .iter()
            .filter_map(|client| client.member.deadline());
        let reads = self.clients.iter().filter(|client| client.slow);
        let reads = reads.map(|client| client.read_at).min();
        let publish = publishing.then_some(self.publish_at);
        let all = [agenda, keepers, disks.min(), members.min(), reads, publish];
        all.into_iter().flatten().min().unwrap_or(Time::NEVER)
    }

    fn happen(&mut self, happening: Happening, publishing: bool) {
        let word = matches!(
            happening,
            Happening::ToBroker { .. } | Happening::FromClient(..) | Happening::ToClient(..)
        );
        if !word {
            self.pauses.disturbed(self.now);
        }
        match happening {
            Happening::ToBroker {
                from,
                to,
                life,
                changes,
                message,
            } => {
                let changed = changes != self.changes;
                let lost = !self.reachable(from).contains(&to) || changed && self.below(2) == 0;
                let peer = Peer::Broker(id(from));
                let now = self.now;
                if !lost
                    && self.brokers[to].life == life
                    && let Some(keeper) = &mut self.brokers[to].keeper
                {
                    keeper.handle(now, Input::Message(peer, message));
                }
            }
            Happening::FromClient(client, number, message) => {
                if let Some((broker, known)) = self.clients[client].session
                    && known == number
                    && let Some(keeper) = &mut self.brokers[broker].keeper
                {
                    let peer = Peer::Client(number);
                    keeper.handle(self.now, Input::Message(peer, message));
                }
            }
            Happening::ToClient(client, number, message) => {
                let client = &mut self.clients[client];
                if client.session.is_some_and(|(_, known)| known == number) {
                    client.member.take(self.now, message);
                }
            }
            Happening::Learn(broker) => self.learn(broker),
            Happening::Move(client) => self.move_client(client),
            Happening::Heal(a, b) => {
                self.cut.remove(&(a, b));
                self.changed();
            }
            Happening::Restart(broker) => self.start(broker),
            Happening::Fault => {
                if publishing {
                    self.fault();
                }
            }
        }
    }

    /// One thing goes wrong; when the next does.
    fn fault(&mut self) {
        let outage = Duration::from_millis(50 + self.below(2_950));
        if self.faults == Faults::Blackout {
            for broker in 0..self.brokers.len() {
                let outage = outage + Duration::from_millis(self.below(500));
                self.kill(broker, outage);
            }
            return self.at(self.now + Duration::from_secs(8), Happening::Fault);
        }
        if self.faults == Faults::Chain {
            let outage = Duration::from_millis(200 + self.below(1_300));
            match self.below(3) {
                0 => self.kill(1, outage),
                first => self.cut((first as usize - 1, first as usize), outage),
            }
            let pause = outage + Duration::from_millis(500 + self.below(2_500));
            return self.at(self.now + pause, Happening::Fault);
        }
        match self.below(3) {
            0 => {
                let links: Vec<_> = self.links.difference(&self.cut).copied().collect();
                if !links.is_empty() {
                    let link = links[self.below(links.len() as u64) as usize];
                    self.cut(link, outage);
                }
            }
            1 => {
                let alive: Vec<usize> = (0..self.brokers.len())
                    .filter(|index| self.brokers[*index].keeper.is_some())
                    .collect();
                if alive.len() > 1 {
                    let broker = alive[self.below(alive.len() as u64) as usize];
                    self.kill(broker, outage);
                }
            }
            _ => {
                let client = self.below(self.clients.len() as u64) as usize;
                self.leave(client);
                self.at(self.now + outage, Happening::Move(client));
            }
        }
        let pause = match self.faults {
            // Those of a broker that died take up to a second more to come elsewhere.
            Faults::OneAtATime => outage + Duration::from_millis(4_000),
            _ => Duration::from_millis(self.below(2_000)),
        };
        self.at(self.now + pause, Happening::Fault);
    }

    fn cut(&mut self, link: (usize, usize), outage: Duration) {
        self.cut.insert(link);
        self.changed();
        self.at(self.now + outage, Happening::Heal(link.0, link.1));
    }

    fn kill(&mut self, broker: usize, outage: Duration) {
        self.brokers[broker].keeper = None;
        self.brokers[broker].disk.crash();
        self.changed();
        self.at(self.now + outage, Happening::Restart(broker));
        for client in 0..self.clients.len() {
            if self.clients[client]
                .session
                .is_some_and(|(at, _)| at == broker)
            {
                let pause = Duration::from_millis(100 + self.below(900));
                self.clients[client].session = None;
                self.clients[client].member.link_down();
                self.at(self.now + pause, Happening::Move(client));
            }
        }
    }

    fn start(&mut self, broker: usize) {
        let life = self.brokers[broker].life + 1;
        let config = KeeperConfig {
            id: id(broker),
            seed: self.next(),
            homes,
            limits: self.limits,
            durable: self.faults == Faults::Blackout,
        };
        let mut keeper = Keeper::new(config);
        for restored in self.brokers[broker].disk.restored() {
            keeper.handle(self.now, restored);
        }
        self.brokers[broker].keeper = Some(keeper);
        self.brokers[broker].life = life;
        self.changed();
    }

    fn leave(&mut self, client: usize) {
        let one = &mut self.clients[client];
        one.member.link_down();
        if let Some((broker, number)) = one.session.take()
            && let Some(keeper) = &mut self.brokers[broker].keeper
        {
            keeper.handle(self.now, Input::Gone(number));
        }
    }

    fn move_client(&mut self, client: usize) {
        if self.clients[client].session.is_some() {
            return;
        }
        let publishes = self.clients[client].publishes.is_some();
        let broker = match self.faults {
            Faults::Chain if publishes => 0,
            Faults::Chain => 2,
            _ => self.below(self.brokers.len() as u64) as usize,
        };
        if self.brokers[broker].keeper.is_none() {
            let pause = Duration::from_millis(50);
            return self.at(self.now + pause, Happening::Move(client));
        }
        let number = ClientId(self.next_client);
        self.next_client += 1;
        let one = &mut self.clients[client];
        one.session = Some((broker, number));
        one.member.link_up(self.now);
    }

    /// The ways are others: every broker learns of it after a while.
    fn changed(&mut self) {
        self.changes += 1;
        self.last_on.clear();
        for broker in 0..self.brokers.len() {
            let pause = Duration::from_millis(5 + self.below(400));
            self.at(self.now + pause, Happening::Learn(broker));
        }
    }

    fn learn(&mut self, broker: usize) {
        let ways = self.ways(broker);
        if let Some(keeper) = &mut self.brokers[broker].keeper {
            keeper.handle(self.now, Input::Ways(ways));
        }
    }

    /// Lets all say what they have to say.
    fn turn(&mut self) {
        let now = self.now;
        for from in 0..self.brokers.len() {
            let broker = &mut self.brokers[from];
            if let Some(keeper) = &mut broker.keeper {
                if let Some(safe) = broker.disk.sync(now) {
                    keeper.handle(now, Input::Written(safe));
                }
                keeper.handle(now, Input::Tick);
            }
            while let Some(output) = self.brokers[from].keeper.as_mut().and_then(Keeper::poll) {
                match output {
                    Output::Send(Peer::Broker(to), message) => {
                        assert_ne!(to, id(from), "seed {}: said to itself", self.seed);
                        self.send(from, to.0 as usize - 1, message);
                    }
                    Output::Send(Peer::Client(number), message) => {
                        let owner = |client: &Client| client.session == Some((from, number));
                        if let Some(client) = self.clients.iter().position(owner) {
                            let at = now + Duration::from_millis(1);
                            self.at(at, Happening::ToClient(client, number, message));
                        }
                    }
                    Output::Write(change) => self.brokers[from].disk.write(now, change),
                }
            }
        }
        for client in 0..self.clients.len() {
            self.read(client);
            while let Some(message) = self.clients[client].member.poll(now) {
                if let Some((_, number)) = self.clients[client].session {
                    let at = now + Duration::from_millis(1);
                    self.at(at, Happening::FromClient(client, number, message));
                }
            }
        }
    }

    fn read(&mut self, client: usize) {
        let (now, seed) = (self.now, self.seed);
        let client = &mut self.clients[client];
        if !client.slow {
            client.read(seed);
        } else if now >= client.read_at {
            client.read_at = now + Duration::from_millis(100);
            client.read(seed);
        }
    }

    fn send(&mut self, from: usize, to: usize, message: Reliable) {
        let delay = Duration::from_micros(500 + self.below(20_000));
        let last = self.last_on.entry((from, to)).or_insert(Time::ZERO);
        let at = (*last).max(self.now + delay);
        *last = at;
        let (life, changes) = (self.brokers[to].life, self.changes);
        let happening = Happening::ToBroker {
            from,
            to,
            life,
            changes,
            message,
        };
        self.at(at, happening);
    }

    fn at(&mut self, at: Time, happening: Happening) {
        self.order += 1;
        self.agenda.insert((at, self.order), happening);
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn next(&mut self) -> u64 {
        // xorshift64* (Marsaglia, 2003; Vigna, 2016).
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

pub(crate) fn id(index: usize) -> BrokerId {
    BrokerId(index as u32 + 1)
}
