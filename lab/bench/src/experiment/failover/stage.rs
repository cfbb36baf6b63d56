//! A network under load: a broker at each site, and audio and video from each to all.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use sangam_emulator::{Emulator, Quality, Site};
use sangam_io::clock;
use sangam_model::{Filter, Time, Topic};

use super::ways::Topology;
use crate::crowd::{Home, Listener, Publishers, Purpose, Spec};
use crate::error::Error;
use crate::load::{Load, Media};
use crate::measure::{Reception, Window};
use crate::process::{Broker, Carrier, Queuing};
use crate::scenario::{self, Folder, Stand, Venue, World};

const SEED: u64 = 29;
const POLL: Duration = Duration::from_millis(10);

/// One stream at one broker's measured subscriber.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// Where it is published.
    pub(super) publisher: usize,
    /// Where it is received.
    pub(super) subscriber: usize,
    /// What it is.
    pub(super) media: Media,
}

/// Everything that runs. Ends with the value.
pub(super) struct Stage {
    /// One at each site.
    pub(super) brokers: Vec<Broker>,
    /// The measured subscribers, one for each pair.
    pub(super) listener: Listener,
    pairs: Vec<Pair>,
    passive: Vec<Listener>,
    publishers: Vec<Publishers>,
    // Brokers write their logs there until they end.
    _folder: Folder,
    /// Between the sites.
    pub(super) network: Emulator,
}

impl Pair {
    /// Whether one of its ends is this broker.
    pub(super) fn is_at(&self, broker: usize) -> bool {
        self.publisher == broker || self.subscriber == broker
    }
}

impl Stage {
    /// Starts it all, with so many passive subscribers of each stream at each broker, and links by
    /// what the carrier is.
    ///
    /// # Errors
    /// If sites cannot be made, a broker does not start or participants cannot join.
    pub(super) fn new(
        topology: &Topology,
        carrier: Carrier,
        passive: usize,
    ) -> Result<Self, Error> {
        let network = network(topology)?;
        let folder = Folder::new()?;
        let world = world(&network, topology, carrier);
        let brokers = scenario::start(&world, (1, Queuing::Double), &folder)?;
        let window = Arc::new(Window::new());
        window.set(clock::now(), Time::NEVER);
        let mut stage = Self {
            listener: Listener::recording(Arc::clone(&window))?,
            pairs: pairs(topology.brokers),
            brokers,
            passive: Vec::new(),
            publishers: Vec::new(),
            _folder: folder,
            network,
        };
        stage.join(passive)?;
        stage.publish(&window)?;
        let heard = scenario::wait("subscribers heard something", stage.pairs.len(), || {
            stage.silent() == 0
        });
        heard?;
        Ok(stage)
    }

    /// Pairs that got nothing since everything was forgotten.
    fn silent(&self) -> u64 {
        self.listener.tally.silent.load(Ordering::Relaxed)
    }

    /// Every stream at every broker.
    pub(super) fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Waits until no more than so many pairs have got nothing since now; how many have not.
    pub(super) fn wait_served(&self, silent: u64, patience: Duration) -> u64 {
        self.listener.forget();
        let begun = Instant::now();
        while self.silent() > silent && begun.elapsed() < patience {
            thread::sleep(POLL);
        }
        self.silent()
    }

    /// Ends everything; what each pair got.
    ///
    /// # Errors
    /// What ended a thread earlier.
    pub(super) fn finish(self) -> Result<Vec<(Pair, Reception)>, Error> {
        for publishers in self.publishers {
            publishers.finish()?;
        }
        for listener in self.passive {
            listener.finish()?;
        }
        let receptions = self.listener.finish()?;
        Ok(self.pairs.into_iter().zip(receptions).collect())
    }

    fn join(&mut self, passive: usize) -> Result<(), Error> {
        let listen = |pair: &Pair| Spec {
            purpose: Purpose::Listen(filter(pair)),
            broker: self.brokers[pair.subscriber].udp,
            site: self.site(pair.subscriber),
        };
        let measured = self.pairs.iter().map(listen).collect();
        let mut crowds = Vec::new();
        for number in 0..self.brokers.len() {
            let here = |pair: &&Pair| pair.subscriber == number;
            let here = self.pairs.iter().filter(here).map(listen);
            let all = here.flat_map(|spec| vec![spec; passive]).collect();
            let home = Home::new(0, self.site(number).as_ref());
            let mut crowd = Listener::passive(home)?;
            crowd.add(all);
            crowds.push(crowd);
        }
        self.listener.add(measured);
        self.passive = crowds;
        let all = || self.passive.iter().chain([&self.listener]);
        let count: u64 = all().map(|listener| listener.expected).sum();
        scenario::wait("subscribers joined", count as usize, || {
            all().all(Listener::is_ready)
        })
    }

    fn publish(&mut self, window: &Arc<Window>) -> Result<(), Error> {
        for media in [Media::Audio, Media::Video] {
            for number in 0..self.brokers.len() {
                let site = self.site(number);
                let mut publishers = Publishers::new(Arc::clone(window), site.as_ref())?;
                publishers.add(vec![Spec {
                    purpose: Purpose::Publish(topic(media, number), media.info()),
                    broker: self.brokers[number].udp,
                    site,
                }]);
                scenario::wait("publishers joined", 1, || publishers.is_ready())?;
                publishers.begin(Arc::new(Load::of(media)));
                self.publishers.push(publishers);
            }
        }
        Ok(())
    }

    fn site(&self, number: usize) -> Option<Site> {
        self.network.sites().get(number).cloned()
    }
}

fn network(topology: &Topology) -> Result<Emulator, Error> {
    let names: Vec<String> = (1..=topology.brokers)
        .map(|n| format!("site-{n}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let network = Emulator::new(&names, SEED).map_err(Error::Network)?;
    for (a, b, delay) in topology.links {
        let quality = Quality::delayed(Duration::from_millis(*delay));
        let set = network.control().set_both(*a, *b, &quality);
        set.map_err(Error::Network)?;
    }
    Ok(network)
}

fn world(network: &Emulator, topology: &Topology, carrier: Carrier) -> World {
    let stand = |(number, site): (usize, &Site)| Stand {
        site: Some(site.clone()),
        dials: topology.dials(number),
    };
    let venue = |(broker, site): (usize, &Site)| Venue {
        site: Some(site.clone()),
        broker,
    };
    let sites = || network.sites().iter().enumerate();
    World {
        brokers: sites().map(stand).collect(),
        places: sites().map(venue).collect(),
        paths: Some(network.control().clone()),
        carrier,
    }
}

fn pairs(brokers: usize) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for media in [Media::Audio, Media::Video] {
        for publisher in 0..brokers {
            pairs.extend((0..brokers).map(|subscriber| Pair {
                publisher,
                subscriber,
                media,
            }));
        }
    }
    pairs
}

fn name(media: Media, publisher: usize) -> String {
    format!("bench/{}-{publisher}/media", media.name())
}

fn topic(media: Media, publisher: usize) -> Topic {
    let topic = Topic::new(&name(media, publisher));
    topic.unwrap_or_else(|_| unreachable!("a plain name is a topic"))
}

fn filter(pair: &Pair) -> Filter {
    let filter = Filter::new(&name(pair.media, pair.publisher));
    filter.unwrap_or_else(|_| unreachable!("a plain name is a filter"))
}
