//! A network with sessions on it, drawn from a seed, and what happens to it by chance.

use core::fmt;
use core::time::Duration;

use sangam_model::{Filter, Random, Topic};

use super::check::{self, Checked, Fault};
use super::network::Network;
use super::sessions::Sessions;
use super::topology::{Shape, Topology};

/// After the last disturbance: soft state that nobody tells again is gone by then.
const CALM: Duration = Duration::from_secs(300);
/// Time for the maps of a network that starts.
const START: Duration = Duration::from_secs(5);

/// What a world is made from. Equal plans make equal histories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How brokers are linked.
    pub shape: Shape,
    /// How many there are.
    pub brokers: usize,
    /// Sessions among them.
    pub sessions: usize,
    /// Where chance begins.
    pub seed: u64,
}

/// A network with sessions.
#[derive(Debug)]
pub struct World {
    /// How it is linked.
    pub topology: Topology,
    /// The brokers.
    pub network: Network,
    /// The sessions.
    pub sessions: Sessions,
    /// Chance.
    pub random: Random,
    sequence: u16,
}

impl Plan {
    /// The one command that replays its figures.
    #[must_use]
    pub fn command(&self) -> String {
        let Self {
            shape,
            brokers,
            sessions,
            seed,
        } = self;
        format!(
            "cargo run --release -p sangam-sim -- brokers --shape {shape} --brokers {brokers} \
             --sessions {sessions} --seed {seed}"
        )
    }

    /// Runs so many random disturbances over the network of this plan, lets it calm down, and
    /// checks everything that must hold. A number that is the same whenever the history is.
    ///
    /// # Errors
    /// What did not hold, and the command that replays it.
    pub fn storm(&self, disturbances: usize) -> Result<u64, Fault> {
        let mut world = World::new(self);
        let result = world.storm(disturbances);
        match result {
            Ok(()) => Ok(world.network.history()),
            Err(Fault(fault)) => {
                let command = self.command();
                let storm = format!("--storms 1 --disturbances {disturbances}");
                Err(Fault(format!("{fault}\nreplay: {command} {storm}")))
            }
        }
    }
}

impl World {
    /// The world of a plan, all links up and sessions open, settled.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let mut random = Random::new(plan.seed);
        let topology = Topology::new(plan.shape, plan.brokers, &mut random);
        let mut network = topology.build(plan.seed);
        network.run(START);
        let mut sessions = Sessions::default();
        let members = topology.members();
        sessions.add(&mut network, &members, plan.sessions, &mut random);
        network.run(START);
        Self {
            topology,
            network,
            sessions,
            random,
            sequence: 0,
        }
    }

    /// One event of each stream, spread over `time`.
    pub fn emit(&mut self, time: Duration) {
        let sequence = self.next_sequence();
        let streams = self.sessions.published.len().max(1);
        for each in &self.sessions.published {
            if self.network.brokers[each.broker].alive {
                self.network.emit(each.broker, each.stream, sequence);
            }
            self.network.run(time / streams as u32);
        }
    }

    /// The next event's number.
    pub const fn next_sequence(&mut self) -> u16 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Disturbs the network so often, while media flows; then checks.
    fn storm(&mut self, disturbances: usize) -> Checked {
        for _ in 0..disturbances {
            self.disturb();
            let pause = self.random.time(Duration::from_millis(400));
            self.emit(pause);
            self.network.traffic.forget();
            check::nothing_twice(&self.network)?;
        }
        self.calm_down();
        self.check()
    }

    /// Slow brokers recover; in two of three worlds links and brokers return, too.
    fn calm_down(&mut self) {
        let all_return = !self.random.chance(0.33);
        for broker in 0..self.network.brokers.len() {
            self.network.slow(broker, Duration::ZERO);
            if all_return && !self.network.brokers[broker].alive {
                self.restart(broker);
            }
        }
        let links: Vec<_> = self.network.links().collect();
        for (a, b, open) in links {
            if all_return && !open {
                self.network.heal(a, b);
            }
        }
        self.network.run(CALM);
    }

    /// Everything that must hold of a network that has been left alone.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&mut self) -> Checked {
        let sequence = self.next_sequence();
        let (network, sessions) = (&mut self.network, &self.sessions);
        let alive: Vec<_> = sessions
            .published
            .iter()
            .filter(|each| network.brokers[each.broker].alive)
            .cloned()
            .collect();
        check::maps_agree(network)?;
        for source in alive.iter().map(|each| each.broker) {
            check::parents_form_a_tree(network, source)?;
        }
        check::everyone_is_served(network, &alive, sequence)?;
        check::nothing_twice(network)?;
        check::no_stream_outlives_its_publisher(network, &alive)?;
        self.leave_all();
        check::nothing_remote_is_left(&self.network)
    }

    fn leave_all(&mut self) {
        for broker in 0..self.network.brokers.len() {
            let filters: Vec<Filter> = self.network.brokers[broker].filters().cloned().collect();
            for filter in filters {
                self.network.unsubscribe(broker, &filter);
            }
        }
        self.network.run(START);
    }

    /// One thing happens.
    pub fn disturb(&mut self) {
        match self.random.below(10) {
            0 => self.on_link(|network, (a, b)| network.blackhole(a, b)),
            1 => self.on_link(|network, (a, b)| network.unlink(a, b)),
            2 | 3 => self.heal_one(),
            4 => self.kill_or_restart(),
            5 => {
                let broker = self.random.below(self.network.brokers.len());
                let slow = self.random.chance(0.5);
                let by = Duration::from_millis(if slow { 80 } else { 0 });
                self.network.slow(broker, by);
            }
            6 | 7 => self.subscribe_or_not(),
            8 => self.publish_or_not(),
            _ => {
                let members = self.topology.members();
                self.sessions
                    .add(&mut self.network, &members, 1, &mut self.random);
            }
        }
    }

    fn on_link(&mut self, act: impl Fn(&mut Network, (usize, usize))) {
        let at = self.random.below(self.topology.links.len());
        if let Some((link, _)) = self.topology.links.iter().nth(at) {
            act(&mut self.network, *link);
        }
    }

    fn heal_one(&mut self) {
        let closed = self.network.links().filter(|(_, _, open)| !open);
        let closed: Vec<_> = closed.collect();
        if let Some((a, b, _)) = self.random.pick(&closed) {
            self.network.heal(*a, *b);
        }
    }

    fn kill_or_restart(&mut self) {
        let brokers = 0..self.network.brokers.len();
        let dead = brokers.filter(|broker| !self.network.brokers[*broker].alive);
        let dead: Vec<usize> = dead.collect();
        if self.random.chance(0.6) && !dead.is_empty() {
            let again = dead[self.random.below(dead.len())];
            self.restart(again);
        } else {
            let broker = self.random.below(self.network.brokers.len());
            self.kill(broker);
        }
    }

    /// A broker dies with its clients.
    pub fn kill(&mut self, broker: usize) {
        self.network.kill(broker);
        self.sessions.lose(broker);
    }

    /// It returns, and one of its clients with it.
    pub fn restart(&mut self, broker: usize) {
        self.sessions.lose(broker);
        self.network.restart(broker);
        if let Some(each) = self.random.pick(&self.sessions.published).cloned() {
            self.subscribe_to(broker, &each.topic);
        }
    }

    fn subscribe_to(&mut self, broker: usize, topic: &Topic) {
        let session = topic.as_str().rsplitn(3, '/').last();
        if let Some(filter) = session.and_then(|name| Filter::new(&format!("{name}/#")).ok()) {
            self.network.subscribe(broker, &filter);
        }
    }

    fn subscribe_or_not(&mut self) {
        let broker = self.random.below(self.network.brokers.len());
        let it = &self.network.brokers[broker];
        if !it.alive {
            return;
        }
        let filters: Vec<Filter> = it.filters().cloned().collect();
        match self.random.pick(&filters).cloned() {
            Some(filter) if self.random.chance(0.5) => self.network.unsubscribe(broker, &filter),
            _ => {
                if let Some(each) = self.random.pick(&self.sessions.published).cloned() {
                    self.subscribe_to(broker, &each.topic);
                }
            }
        }
    }

    fn publish_or_not(&mut self) {
        let published = &mut self.sessions.published;
        if published.is_empty() {
            return;
        }
        let at = self.random.below(published.len());
        if self.random.chance(0.5) {
            let gone = published.swap_remove(at);
            self.network.unpublish(gone.broker, gone.stream);
        } else {
            let topic = published[at].topic.clone();
            let broker = self.random.below(self.network.brokers.len());
            self.sessions.publish(&mut self.network, broker, &topic);
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chain => "chain",
            Self::Ring => "ring",
            Self::Star => "star",
            Self::Mesh => "mesh",
            Self::Tree => "tree",
            Self::Cyclic => "cyclic",
            Self::Geometric => "geometric",
            Self::Regions => "regions",
        })
    }
}
