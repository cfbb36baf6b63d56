//! Brokers that leave in good order: nobody loses an event, and nobody gets one twice.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sangam_client::{Client, Outgoing, Publisher, Received, Target};
use sangam_model::{Incarnation, MediaInfo};
use sangam_node::{Broker, BrokerConfig};
use sangam_wire::Flags;

use crate::support::*;

/// Between two events of a stream.
const TICK: Duration = Duration::from_millis(5);
/// As long as `sangam serve` goes on once it is to end.
const DRAIN: Duration = Duration::from_millis(1_500);
/// Numbers of the events of one stream.
const SPAN: u32 = 1_000_000;
/// Each set of one frame: nothing depends on what is shed.
const FRAME: Flags = Flags::FRAME_START.with(Flags::FRAME_END).with(Flags::KEY);

/// Streams of one publisher, of each class.
pub(super) struct Show {
    streams: Vec<Publisher>,
    /// Of the next events, and of the first ones that count.
    next: u32,
    begin: u32,
    due: Instant,
}

/// Somebody who must hear all of it, once.
pub(super) struct Listener {
    client: Client,
    heard: BTreeSet<u32>,
}

impl Show {
    pub(super) fn new(client: &mut Client) -> Self {
        let media = [("audio", audio()), ("video", video())];
        let media = media.into_iter().chain([("data", MediaInfo::data())]);
        let streams = media.map(|(name, media)| {
            let name = format!("hall/stage/{name}");
            publish_media(client, &name, media)
        });
        Self {
            streams: streams.collect(),
            next: 0,
            begin: 0,
            due: Instant::now(),
        }
    }

    /// Sends events at their pace while listeners receive, until it is so.
    #[track_caller]
    pub(super) fn go_on(
        &mut self,
        listeners: &mut [Listener],
        mut until: impl FnMut(&[Listener]) -> bool,
    ) {
        let patience = Instant::now() + Duration::from_secs(30);
        while !until(listeners) {
            assert!(Instant::now() < patience, "it does not come about");
            if Instant::now() >= self.due {
                self.due += TICK;
                self.send();
            }
            listeners.iter_mut().for_each(Listener::listen);
        }
    }

    #[track_caller]
    fn send(&mut self) {
        for (place, stream) in (0..).zip(&mut self.streams) {
            let payload = numbered(place * SPAN + self.next, 200);
            let event = Outgoing {
                flags: FRAME,
                ..Outgoing::new(&payload)
            };
            stream.send(event).expect("a way for every event");
        }
        self.next += 1;
    }

    /// Sends until everybody hears every stream; what was sent until then does not count.
    pub(super) fn open(&mut self, listeners: &mut [Listener]) {
        let classes = self.streams.len();
        self.go_on(listeners, |all| {
            let hears = |one: &Listener| {
                let streams: BTreeSet<u32> = one.heard.iter().map(|n| n / SPAN).collect();
                streams.len() == classes
            };
            all.iter().all(hears)
        });
        // What is on its way must not be mistaken for what counts.
        self.next += 1;
        let begin = self.next;
        self.go_on(listeners, |all| {
            all.iter().all(|one| one.newest(classes as u32) >= begin)
        });
        for listener in listeners {
            listener.heard.retain(|number| number % SPAN >= begin);
        }
        self.begin = begin;
    }

    /// Everything sent since it was opened has come to everybody.
    #[track_caller]
    pub(super) fn is_complete(&self, listeners: &mut [Listener]) {
        let streams = 0..self.streams.len() as u32;
        let all: BTreeSet<u32> = streams
            .flat_map(|stream| (self.begin..self.next).map(move |n| stream * SPAN + n))
            .collect();
        let patience = Instant::now() + Duration::from_secs(5);
        for (place, listener) in listeners.iter_mut().enumerate() {
            while !listener.heard.is_superset(&all) && Instant::now() < patience {
                listener.listen();
            }
            let lost: Vec<_> = all.difference(&listener.heard).collect();
            assert!(lost.is_empty(), "listener {place} lost {lost:?}");
        }
    }
}

impl Listener {
    pub(super) fn new(mut client: Client) -> Self {
        subscribe(&mut client, "hall/#");
        Self {
            client,
            heard: BTreeSet::new(),
        }
    }

    #[track_caller]
    fn listen(&mut self) {
        while let Some(received) = self.client.recv(Duration::from_millis(1)) {
            match received {
                Received::Event(packet) => {
                    let number = number_of(&packet);
                    assert!(self.heard.insert(number), "event {number} came twice");
                }
                Received::Down(reason) => panic!("a link went down: {reason}"),
                _ => {}
            }
        }
    }

    /// The number up to which every stream was heard.
    fn newest(&self, streams: u32) -> u32 {
        let newest = |stream: u32| {
            let of = self.heard.range(stream * SPAN..(stream + 1) * SPAN);
            of.last().map_or(0, |number| number % SPAN)
        };
        (0..streams).map(newest).min().unwrap_or(0)
    }
}

/// A client that knows these brokers, best first.
fn knows(brokers: &[&Broker]) -> Client {
    let ways = brokers
        .iter()
        .map(|broker| format!("udp://{}", udp_of(broker)).parse());
    let ways = ways.collect::<Result<_, _>>().expect("addresses");
    connect(Target::Addresses(ways))
}

pub(super) fn time_passes(time: Duration) -> impl FnMut(&[Listener]) -> bool {
    let until = Instant::now() + time;
    move |_| Instant::now() >= until
}

#[test]
fn a_broker_on_the_way_that_drains_and_stops_costs_nobody_an_event() {
    let first = start(config(1));
    let mut ways = vec![start(linked(2, &[&first])), start(linked(3, &[&first]))];
    let last = start(linked(4, &[&ways[0], &ways[1]]));
    [&first, &last]
        .iter()
        .for_each(|broker| links_up(broker, 2));
    let mut publisher = udp(&first);
    let mut listeners = [Listener::new(udp(&last)), Listener::new(udp(&last))];
    let mut show = Show::new(&mut publisher);
    show.open(&mut listeners);
    let relays = |broker: &Broker| counted(broker, "sangam_relayed_packets_total");
    let before: Vec<u64> = ways.iter().map(relays).collect();
    show.go_on(&mut listeners, time_passes(Duration::from_millis(200)));
    let carrier = usize::from(relays(&ways[1]) > before[1]);
    assert!(relays(&ways[carrier]) > before[carrier], "one carries them");

    ways[carrier].drain();
    show.go_on(&mut listeners, time_passes(DRAIN));
    drop(ways.remove(carrier));
    show.go_on(&mut listeners, time_passes(Duration::from_millis(500)));
    show.is_complete(&mut listeners);
}

#[test]
fn clients_of_a_broker_that_drains_go_to_another_one_and_lose_nothing() {
    let home = start(config(1));
    let first = start(linked(2, &[&home]));
    let second = start(linked(3, &[&home, &first]));
    [&home, &first, &second]
        .iter()
        .for_each(|broker| links_up(broker, 2));
    let mut publisher = knows(&[&first, &second]);
    let mut listeners = [
        Listener::new(knows(&[&first, &second])),
        Listener::new(knows(&[&first, &home])),
        Listener::new(udp(&home)),
    ];
    let mut show = Show::new(&mut publisher);
    show.open(&mut listeners);

    first.drain();
    show.go_on(&mut listeners, |all| {
        let moved = |client: &Client| client.counters().moves == 1;
        moved(&publisher) && all[..2].iter().all(|one| moved(&one.client))
    });
    drop(first);
    show.go_on(&mut listeners, time_passes(Duration::from_millis(500)));
    show.is_complete(&mut listeners);
    let home_of = |client: &Client| client.up().and_then(|up| up.broker).map(|(id, _)| id);
    assert_eq!(home_of(&publisher), Some(second.id()));
    assert_eq!(home_of(&listeners[1].client), Some(home.id()));
}

/// A broker that can be started once more where it was.
struct Place {
    config: BrokerConfig,
    broker: Option<Broker>,
}

impl Place {
    fn new(config: BrokerConfig) -> Self {
        let broker = start(config.clone());
        let addresses = broker.addresses();
        let config = BrokerConfig {
            udp: addresses.udp.clone(),
            tcp: addresses.tcp.clone(),
            ..config
        };
        Self {
            config,
            broker: Some(broker),
        }
    }

    fn broker(&self) -> &Broker {
        self.broker.as_ref().expect("it runs")
    }

    fn restart(&mut self) {
        self.broker = None;
        self.config.incarnation = Incarnation(self.config.incarnation.0 + 1);
        self.broker = Some(start(self.config.clone()));
    }
}

#[test]
fn brokers_that_are_replaced_one_by_one_cost_nobody_an_event() {
    let mut places: Vec<Place> = Vec::new();
    for id in 1..=3 {
        let earlier: Vec<&Broker> = places.iter().map(Place::broker).collect();
        let config = BrokerConfig {
            udp: vec![([127, 9, 40, id], 0).into()],
            tcp: vec![([127, 9, 40, id], 0).into()],
            ..linked(id.into(), &earlier)
        };
        places.push(Place::new(config));
    }
    let linked_up = |places: &[Place]| places.iter().for_each(|it| links_up(it.broker(), 2));
    linked_up(&places);
    let around = |at: usize| {
        let in_turn = (0..3).map(|n| places[(at + n) % 3].broker());
        knows(&in_turn.collect::<Vec<_>>())
    };
    let mut publisher = around(0);
    let mut listeners = [0, 1, 2].map(|at| Listener::new(around(at)));
    let mut show = Show::new(&mut publisher);
    show.open(&mut listeners);
    for at in 0..3 {
        let id = places[at].broker().id();
        let away = move |client: &Client| {
            client
                .up()
                .is_some_and(|up| up.broker.is_some_and(|(at, _)| at != id))
        };
        places[at].broker().drain();
        show.go_on(&mut listeners, |all| {
            away(&publisher) && all.iter().all(|one| away(&one.client))
        });
        show.go_on(&mut listeners, time_passes(DRAIN));
        places[at].restart();
        show.go_on(&mut listeners, |_| {
            let up = |it: &Place| it.broker().links().iter().filter(|link| link.up).count();
            places.iter().all(|it| up(it) == 2)
        });
        show.go_on(&mut listeners, time_passes(Duration::from_millis(300)));
    }
    show.is_complete(&mut listeners);
}
