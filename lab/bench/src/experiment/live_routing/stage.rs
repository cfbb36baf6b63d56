//! One network with one way of routing: brokers at all places, a stream for each session.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sangam_emulator::{Emulator, Site};
use sangam_io::clock;
use sangam_model::{Filter, Time, Topic};

use super::Routing;
use super::heard::STEP;
use super::network::{Network, Session};
use crate::crowd::{Listener, Publishers, Purpose, Spec};
use crate::error::Error;
use crate::load::{Frame, Load, Media};
use crate::measure::{Arrival, Window};
use crate::process::{Broker, Carrier, Metrics, Queuing, Scheduler, Setup};
use crate::scenario::{self, Folder};

/// RTP payload of a packet that has 200 bytes on the wire, as the simulator takes it.
const PAYLOAD_LEN: u16 = 146;
/// Until weights follow from what was measured, and links that carry nothing are quiet.
const SETTLE: Duration = Duration::from_secs(15);
/// How long a scheduler may take to its first plan, and its brokers to follow it.
const PLAN_PATIENCE: Duration = Duration::from_secs(30);
const FOLLOW: Duration = Duration::from_secs(3);
/// How long the network is watched without a stream, for what it says of itself.
const CALM: Duration = Duration::from_secs(5);
/// After the last packet: the slowest path takes so long.
const RUN_OUT: Duration = Duration::from_secs(10);
/// What each link costs where streams shall take the direct one.
const EVEN_WEIGHT: u16 = 100;
const POLL: Duration = Duration::from_millis(100);
/// Bytes of headers of each event on a link.
const IP_UDP: f64 = 28.0;

/// Everything that runs. Ends with the value.
pub(super) struct Stage<'a> {
    network: &'a Network,
    listener: Listener,
    publishers: Vec<Publishers>,
    scheduler: Option<Scheduler>,
    brokers: Vec<Broker>,
    window: Arc<Window>,
    emulator: Emulator,
    // Brokers write their logs there until they end.
    folder: Folder,
}

/// What came of it.
pub(super) struct Outcome {
    /// What each session's subscriber got, in order.
    pub(super) arrivals: Vec<Vec<Arrival>>,
    /// What crossed links without a stream and with all of them.
    pub(super) calm: Traffic,
    /// With all streams.
    pub(super) busy: Traffic,
    /// What plans cost meanwhile, by the scheduler's count, if there is one.
    pub(super) plans: Option<Metrics>,
    /// The scheduler's share of a processor meanwhile, in percent.
    pub(super) scheduler_percent: f64,
}

/// What crossed all links together, each second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    /// IP packets.
    pub(super) packets: f64,
    /// Their bytes, IP headers included.
    pub(super) bytes: f64,
    /// Events that brokers sent to each other.
    pub(super) events: f64,
    /// Their bytes, IP headers included.
    pub(super) event_bytes: f64,
}

impl<'a> Stage<'a> {
    /// Starts it all, up to the first packet of media.
    ///
    /// # Errors
    /// If sites cannot be made, a broker does not start or participants cannot join.
    pub(super) fn new(network: &'a Network, routing: Routing) -> Result<Self, Error> {
        let emulator = network.emulate()?;
        let folder = Folder::new()?;
        let brokers = brokers(network, routing, (&emulator, &folder))?;
        let window = Arc::new(Window::new());
        let mut stage = Self {
            network,
            listener: Listener::recording(Arc::clone(&window))?,
            publishers: Vec::new(),
            scheduler: None,
            brokers,
            window,
            emulator,
            folder,
        };
        if routing == Routing::Direct {
            stage.weigh_evenly()?;
        }
        stage.join()?;
        thread::sleep(SETTLE);
        if let Some(method) = routing.scheduled() {
            stage.schedule(method)?;
        }
        Ok(stage)
    }

    /// Lets links do what the trace says while all publish so many packets.
    ///
    /// # Errors
    /// If a broker or the emulator ends.
    pub(super) fn play(mut self, packets: u64) -> Result<Outcome, Error> {
        let calm = self.traffic_over(CALM)?;
        let scheduler = self.scheduler.as_ref();
        let before = scheduler.map(|one| (one.metrics(), one.cpu().total));
        self.window.set(clock::now(), Time::NEVER);
        self.network.begin(&self.emulator)?;
        let load = Arc::new(load());
        for publishers in &self.publishers {
            publishers.begin(Arc::clone(&load));
        }
        let length = STEP * packets as u32;
        let busy = self.traffic_over(length)?;
        for publishers in &self.publishers {
            publishers.pause();
        }
        let scheduler = self.scheduler.as_ref();
        let after = scheduler.map(|one| (one.metrics(), one.cpu().total));
        thread::sleep(RUN_OUT);
        for publishers in std::mem::take(&mut self.publishers) {
            publishers.finish()?;
        }
        let receptions = self.listener.finish()?;
        let (plans, scheduler_percent) = match before.zip(after) {
            Some(((Some(before), cpu_before), (Some(after), cpu_after))) => (
                Some(after.since(&before)),
                (cpu_after - cpu_before).as_secs_f64() * 100.0 / length.as_secs_f64(),
            ),
            _ => (None, 0.0),
        };
        let arrivals = receptions.into_iter();
        Ok(Outcome {
            arrivals: arrivals
                .map(|got| got.arrivals.unwrap_or_default())
                .collect(),
            calm,
            busy,
            plans,
            scheduler_percent,
        })
    }

    /// Waits so long; what crossed links meanwhile.
    fn traffic_over(&self, span: Duration) -> Result<Traffic, Error> {
        let (begun, before) = (Instant::now(), self.traffic()?);
        thread::sleep(span);
        let after = self.traffic()?;
        let took = begun.elapsed().as_secs_f64();
        let per_s = |after: f64, before: f64| (after - before) / took;
        Ok(Traffic {
            packets: per_s(after.packets, before.packets),
            bytes: per_s(after.bytes, before.bytes),
            events: per_s(after.events, before.events),
            event_bytes: per_s(after.event_bytes, before.event_bytes),
        })
    }

    /// All that crossed links so far.
    fn traffic(&self) -> Result<Traffic, Error> {
        let mut all = Traffic::default();
        for (from, to) in self.network.ways() {
            let counters = self.emulator.control().counters(from, to);
            let counters = counters.map_err(Error::Network)?;
            all.packets += counters.packets as f64;
            all.bytes += counters.bytes as f64;
        }
        for broker in &self.brokers {
            let metrics = broker.metrics()?;
            let events = metrics.sum("sangam_relayed_packets_total", "");
            all.events += events;
            all.event_bytes += metrics.sum("sangam_relayed_bytes_total", "") + IP_UDP * events;
        }
        Ok(all)
    }

    /// Fixes all weights to one, so that a way has as few links as can be.
    fn weigh_evenly(&self) -> Result<(), Error> {
        let mut ways = self.network.ways();
        ways.try_for_each(|(from, to)| self.brokers[from].weigh(&self.brokers[to], EVEN_WEIGHT))
    }

    fn join(&mut self) -> Result<(), Error> {
        let sessions = self.network.sessions();
        let listen = |session: &Session| Spec {
            purpose: Purpose::Listen(filter(session.from)),
            broker: self.brokers[session.to].udp,
            site: self.site(session.to),
        };
        let listeners = sessions.iter().map(listen).collect();
        self.listener.add(listeners);
        scenario::wait("subscribers joined", sessions.len(), || {
            self.listener.is_ready()
        })?;
        let senders: BTreeSet<usize> = sessions.iter().map(|session| session.from).collect();
        for place in senders {
            let site = self.site(place);
            let mut publishers = Publishers::new(Arc::clone(&self.window), site.as_ref())?;
            publishers.add(vec![Spec {
                purpose: Purpose::Publish(topic(place), Media::Audio.info()),
                broker: self.brokers[place].udp,
                site,
            }]);
            scenario::wait("publishers joined", 1, || publishers.is_ready())?;
            self.publishers.push(publishers);
        }
        Ok(())
    }

    /// Starts a scheduler where the first broker is, and waits until its plans are followed.
    fn schedule(&mut self, method: &'static str) -> Result<(), Error> {
        let site = self.site(0);
        let place = (&self.brokers[0], site.as_ref());
        let scheduler = Scheduler::start(method, place, self.folder.path())?;
        let begun = Instant::now();
        while scheduler.metrics().is_none() {
            if begun.elapsed() > PLAN_PATIENCE {
                let said = scheduler.said();
                return Err(Error::Broker(format!(
                    "the scheduler made no plan; it said:\n{said}"
                )));
            }
            thread::sleep(POLL);
        }
        self.scheduler = Some(scheduler);
        thread::sleep(FOLLOW);
        Ok(())
    }

    fn site(&self, place: usize) -> Option<Site> {
        self.emulator.sites().get(place).cloned()
    }
}

/// A broker at each place, each dialling its neighbours that started before.
fn brokers(
    network: &Network,
    routing: Routing,
    (emulator, folder): (&Emulator, &Folder),
) -> Result<Vec<Broker>, Error> {
    let mut brokers: Vec<Broker> = Vec::new();
    for (place, site) in emulator.sites().iter().enumerate() {
        let neighbours = network.neighbours(place);
        let earlier = neighbours.iter().filter_map(|place| brokers.get(*place));
        let setup = Setup {
            number: place + 1,
            shards: 1,
            queuing: Queuing::Double,
            neighbours: earlier.map(|broker| broker.udp).collect(),
            carrier: Carrier::Udp,
            program: None,
            port: 0,
            site: Some(site.clone()),
            webrtc: false,
            clients: false,
            sessions: false,
            routing: routing.scheduled(),
        };
        brokers.push(Broker::start(&setup, folder.path())?);
    }
    Ok(brokers)
}

/// A packet every 10 ms.
fn load() -> Load {
    Load {
        media: Media::Audio,
        interval: STEP,
        frames: vec![Frame {
            packets: 1,
            bytes: PAYLOAD_LEN,
            padding: 0,
            key: false,
        }],
    }
}

fn name(place: usize) -> String {
    format!("bench/place-{place}/audio")
}

fn topic(place: usize) -> Topic {
    let topic = Topic::new(&name(place));
    topic.unwrap_or_else(|_| unreachable!("a plain name is a topic"))
}

fn filter(place: usize) -> Filter {
    let filter = Filter::new(&name(place));
    filter.unwrap_or_else(|_| unreachable!("a plain name is a filter"))
}
