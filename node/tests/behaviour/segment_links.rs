//! Neighbours of one segment: a real bridge between network namespaces, a real broker on each host,
//! all linked with all, and a subscriber at each but the first.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use sangam_broker::DropReason;
use sangam_client::{Client, Outgoing, Received};
use sangam_emulator::{Segment, with_privileges};
use sangam_model::BrokerId;
use sangam_node::{Broker, BrokerConfig, Multicast, Network, PinnedBy};

use crate::support::shared::{Groups, Shared};
use crate::support::*;

const PORT: u16 = 4_620;
const BROKERS: usize = 4;
/// Every way to send at the pace of a camera.
const PAUSE: Duration = Duration::from_millis(4);

struct Lan {
    segment: Segment,
    brokers: Vec<Broker>,
    subscribers: Vec<Client>,
    source: Client,
}

impl Lan {
    fn new(v6: bool) -> Self {
        Self::with(v6, |_, _, _| {})
    }

    /// `change` has the last word on the bridge and on the configuration of each.
    fn with(v6: bool, change: impl Fn(&Segment, usize, &mut BrokerConfig)) -> Self {
        let segment = Segment::new(BROKERS).unwrap_or_else(|error| panic!("{error}"));
        let mut brokers: Vec<Broker> = Vec::new();
        for (number, host) in segment.hosts().iter().enumerate() {
            let own: IpAddr = match v6 {
                true => host.v6().into(),
                false => host.v4().into(),
            };
            let prefix = if v6 { 64 } else { 24 };
            let mut config = BrokerConfig {
                udp: vec![SocketAddr::new(own, 0)],
                tcp: Vec::new(),
                links: brokers.iter().map(udp_of).collect(),
                accept_links: vec![Network {
                    address: own,
                    prefix,
                }],
                multicast: Some(multicast(host.device())),
                ..config(number as u32 + 1)
            };
            change(&segment, number, &mut config);
            let broker = host.enter(|| Ok(start(config)));
            brokers.push(broker.expect("a broker"));
        }
        for broker in &brokers {
            links_up(broker, BROKERS - 1);
            // A first measurement that a busy machine has disturbed would make a way by two links
            // the shortest for a minute.
            for peer in 1..=BROKERS as u32 {
                broker.weigh(BrokerId(peer), PinnedBy::Configuration, Some(5));
            }
        }
        let subscribers = brokers[1..].iter().map(door).collect();
        let source = door(&brokers[0]);
        Self {
            segment,
            brokers,
            subscribers,
            source,
        }
    }

    /// All subscribe, events flow, and so many neighbours of the first broker hear its group.
    #[track_caller]
    fn flow(&mut self, name: &str, listeners: u64) -> Flow {
        for subscriber in &mut self.subscribers {
            subscribe(subscriber, name);
        }
        let mut all: Vec<_> = self.subscribers.iter_mut().collect();
        let mut flow = Flow::open(&mut self.source, name, &mut all);
        routed(&self.brokers[0], name, BROKERS - 1);
        flow.len = 1_000;
        self.shares(&mut flow, listeners);
        flow
    }

    /// Sends until so many neighbours have events by a group.
    #[track_caller]
    fn shares(&mut self, flow: &mut Flow, listeners: u64) {
        eventually("so many hear an event by a group", || {
            let before = self.shared();
            self.pump(flow, 5);
            self.shared().since(before).listeners() == listeners
        });
    }

    fn shared(&self) -> Shared {
        settled(|| Shared::of(&self.brokers[0], Groups::Links))
    }

    /// One after another; each subscriber gets each once and in order.
    #[track_caller]
    fn pump(&mut self, flow: &mut Flow, count: u32) {
        let mut all: Vec<_> = self.subscribers.iter_mut().collect();
        for _ in 0..count {
            flow.pump(1, &mut all);
        }
    }

    fn counted(&self, broker: usize, name: &str) -> u64 {
        settled(|| counted(&self.brokers[broker], name))
    }

    /// Each link counts so many bytes by groups as its own, and as lost next to none of them.
    #[track_caller]
    fn links_count(&self, bytes: u64) {
        // Links are shown once a second, and losses that were none are forgotten after four.
        eventually(
            "each link counts what went by the group, and no loss",
            || {
                let links = self.brokers[0].links();
                links.iter().all(|link| {
                    let lost = link
                        .measured
                        .is_none_or(|measured| measured.loss_ppm > 10_000);
                    link.sent.bytes > bytes && !lost
                })
            },
        );
    }

    /// Bytes that left the host of the first broker.
    fn bytes(&self) -> u64 {
        self.segment.hosts()[0].sent().expect("a counter")
    }

    /// Sends until `done`, a number each time, and says what came of which number at each.
    fn watch(&mut self, flow: &mut Flow, mut done: impl FnMut(&Self, u32) -> bool) -> Seen {
        let mut seen = Seen {
            numbers: vec![Vec::new(); self.subscribers.len()],
            last: 0,
        };
        let until = Instant::now() + 2 * PATIENCE;
        while !done(self, seen.last) {
            assert!(Instant::now() < until, "{} events", seen.last);
            let event = numbered(seen.last, 200);
            flow.publisher.send(Outgoing::new(&event)).expect("room");
            seen.last += 1;
            self.take(&mut seen, PAUSE / 3);
        }
        let until = Instant::now() + PATIENCE;
        while !seen.is_complete() && Instant::now() < until {
            self.take(&mut seen, PAUSE);
        }
        self.take(&mut seen, 10 * PAUSE);
        seen
    }

    fn take(&mut self, seen: &mut Seen, patience: Duration) {
        for (subscriber, numbers) in self.subscribers.iter_mut().zip(&mut seen.numbers) {
            while let Some(received) = subscriber.recv(patience) {
                if let Received::Event(packet) = received {
                    numbers.push(number_of(&packet));
                }
            }
        }
    }
}

/// What each subscriber got.
struct Seen {
    numbers: Vec<Vec<u32>>,
    last: u32,
}

impl Seen {
    fn is_complete(&self) -> bool {
        let all = |numbers: &Vec<u32>| numbers.len() as u32 >= self.last;
        self.numbers.iter().all(all)
    }

    /// Each got each, and nothing twice.
    #[track_caller]
    fn is_all(&self) {
        for (place, numbers) in self.numbers.iter().enumerate() {
            let distinct: BTreeSet<u32> = numbers.iter().copied().collect();
            let missing: Vec<u32> = (0..self.last).filter(|n| !distinct.contains(n)).collect();
            assert_eq!(missing, [], "subscriber {place}");
            assert_eq!(numbers.len(), distinct.len(), "subscriber {place}");
        }
    }
}

fn multicast(interface: &str) -> Multicast {
    let range = |address: &str, prefix| Network {
        address: address.parse().expect("an address"),
        prefix,
    };
    Multicast {
        interface: interface.to_owned(),
        groups: vec![range("239.192.46.0", 24), range("ff15:4600::", 120)],
        port: PORT,
        ttl: 1,
        clients: 2,
        topics: vec![filter("#")],
        links: true,
    }
}

/// Most bytes that leave for so many events if each leaves once: headers of 60 bytes at most, and
/// what links say of themselves.
fn once(events: u32, len: usize) -> u64 {
    u64::from(events) * (len as u64 + 60) * 5 / 4
}

fn each_event_leaves_once(v6: bool) {
    const EVENTS: u32 = 1_000;
    let mut lan = Lan::new(v6);
    let mut flow = lan.flow("hall/stage", 3);
    let received = |lan: &Lan| -> u64 {
        let of = |broker| lan.counted(broker, "sangam_link_group_received_total");
        (1..BROKERS).map(of).sum()
    };
    let (bytes, shared) = loop {
        let before = (lan.shared(), lan.bytes(), received(&lan));
        lan.pump(&mut flow, EVENTS);
        let bytes = lan.bytes() - before.1;
        let shared = lan.shared().since(before.0);
        assert_eq!(shared.deliveries, received(&lan) - before.2);
        // A machine that stood still says nothing; groups are believed again after 5 s.
        if shared.falls == 0 {
            break (bytes, shared);
        }
        lan.shares(&mut flow, 3);
    };
    shared.is_each_once(EVENTS.into(), 3);
    let payload = u64::from(EVENTS) * flow.len as u64;
    assert!(bytes >= payload, "{bytes} bytes left the host");
    assert!(bytes < once(EVENTS, flow.len), "{bytes} for {payload}");
    lan.links_count(payload);
    assert_eq!(drops(&lan.brokers[0]), []);
}

#[test]
fn an_event_leaves_once_for_all_neighbours_on_a_segment() {
    with_privileges(
        "segment_links::an_event_leaves_once_for_all_neighbours_on_a_segment",
        || each_event_leaves_once(false),
    );
}

#[test]
fn an_event_leaves_once_for_all_neighbours_on_a_segment_by_ipv6() {
    with_privileges(
        "segment_links::an_event_leaves_once_for_all_neighbours_on_a_segment_by_ipv6",
        || each_event_leaves_once(true),
    );
}

#[test]
fn events_of_many_datagrams_go_to_neighbours_by_their_group_as_well() {
    with_privileges(
        "segment_links::events_of_many_datagrams_go_to_neighbours_by_their_group_as_well",
        || {
            let mut lan = Lan::new(false);
            let mut flow = lan.flow("hall/stage", 3);
            flow.len = 6_000;
            let before = lan.bytes();
            lan.pump(&mut flow, 100);
            let bytes = lan.bytes() - before;
            assert!(bytes < 2 * 100 * 6_000, "{bytes}");
            lan.links_count(100 * 6_000);
        },
    );
}

/// Whether, from the 200th event on, so many neighbours have events by a group.
fn until_shared_by(listeners: u64) -> impl FnMut(&Lan, u32) -> bool {
    let mut before = Shared::default();
    move |lan, sent| {
        let now = Shared::of(&lan.brokers[0], Groups::Links);
        let shared = now.since(std::mem::replace(&mut before, now));
        sent > 200 && shared.listeners() == listeners
    }
}

#[test]
fn a_group_that_falls_silent_for_one_neighbour_costs_nobody_an_event() {
    with_privileges(
        "segment_links::a_group_that_falls_silent_for_one_neighbour_costs_nobody_an_event",
        || {
            let mut lan = Lan::new(false);
            let mut flow = lan.flow("hall/stage", 3);
            lan.segment.pass_groups(2, false).expect("a bridge");
            lan.watch(&mut flow, until_shared_by(2)).is_all();
            assert!(lan.counted(0, "sangam_link_group_falls_total") >= 1);
            assert!(lan.counted(0, "sangam_link_group_resent_total") >= 1);
            // The others hear it still, and it hears it again once the bridge lets it pass.
            let packets = lan.counted(0, "sangam_link_group_packets_total");
            lan.segment.pass_groups(2, true).expect("a bridge");
            lan.watch(&mut flow, until_shared_by(3)).is_all();
            assert!(lan.counted(0, "sangam_link_group_packets_total") > packets);
            for broker in &lan.brokers {
                links_up(broker, BROKERS - 1);
            }
        },
    );
}

#[test]
fn a_segment_that_stops_passing_groups_costs_nobody_an_event() {
    with_privileges(
        "segment_links::a_segment_that_stops_passing_groups_costs_nobody_an_event",
        || {
            let mut lan = Lan::new(false);
            let mut flow = lan.flow("hall/stage", 3);
            for host in 1..BROKERS {
                lan.segment.pass_groups(host, false).expect("a bridge");
            }
            let none = |lan: &Lan, sent| {
                sent > 200 && counted(&lan.brokers[0], "sangam_link_group_listeners") == 0
            };
            lan.watch(&mut flow, none).is_all();
            let packets = lan.counted(0, "sangam_link_group_packets_total");
            lan.pump(&mut flow, 100);
            assert_eq!(lan.counted(0, "sangam_link_group_packets_total"), packets);
        },
    );
}

#[test]
fn a_neighbour_that_never_hears_the_group_or_does_not_want_it_has_copies() {
    with_privileges(
        "segment_links::a_neighbour_that_never_hears_the_group_or_does_not_want_it_has_copies",
        || {
            let mut lan = Lan::with(false, |segment, number, config| {
                segment.pass_groups(3, false).expect("a bridge");
                if let (1, Some(multicast)) = (number, &mut config.multicast) {
                    multicast.links = false;
                }
            });
            let mut flow = lan.flow("hall/stage", 0);
            // Two remain that could, and one of them does not: a group is for at least two.
            eventually("one hears it", || {
                lan.pump(&mut flow, 1);
                counted(&lan.brokers[0], "sangam_link_group_listeners") == 1
            });
            lan.pump(&mut flow, 200);
            assert_eq!(lan.counted(0, "sangam_link_group_packets_total"), 0);
            assert_eq!(lan.counted(1, "sangam_link_group_received_total"), 0);
        },
    );
}

#[test]
fn a_neighbour_that_goes_takes_nothing_from_the_others() {
    with_privileges(
        "segment_links::a_neighbour_that_goes_takes_nothing_from_the_others",
        || {
            let mut lan = Lan::new(false);
            let mut flow = lan.flow("hall/stage", 3);
            drop(lan.subscribers.pop());
            drop(lan.brokers.pop());
            links_up(&lan.brokers[0], BROKERS - 2);
            // The two have a group of their own.
            lan.shares(&mut flow, 2);
        },
    );
}

#[test]
fn datagrams_of_others_to_a_group_of_neighbours_are_dropped() {
    with_privileges(
        "segment_links::datagrams_of_others_to_a_group_of_neighbours_are_dropped",
        || {
            let mut lan = Lan::new(false);
            let mut flow = lan.flow("hall/stage", 3);
            lan.pump(&mut flow, 10);
            let unknown = |broker: &Broker| dropped(broker, DropReason::UnknownPeer);
            let before: Vec<u64> = lan.brokers[1..].iter().map(unknown).collect();
            let stream = flow.publisher.stream().expect("a stream").bits();
            let mut forged = vec![0x53, 0];
            forged.extend(stream.to_be_bytes());
            forged.extend([0xff, 0, 15, 0, 1, 2, 3, 4]);
            // From another host, which the kernel of each knows not to take; and from another port
            // of the broker's host, for which that is left to the broker.
            for host in [3, 0] {
                let host = &lan.segment.hosts()[host];
                let own = SocketAddr::from((host.v4(), 0));
                let sent = host.enter(|| {
                    let socket = UdpSocket::bind(own)?;
                    let mut groups = (240..=255).map(|n| format!("239.192.46.{n}:{PORT}"));
                    groups.try_for_each(|to| socket.send_to(&forged, to).map(drop))
                });
                sent.expect("datagrams");
            }
            for (broker, before) in lan.brokers[1..].iter().zip(before) {
                // One for each of the groups that it has joined.
                eventually("a forged datagram is counted", || {
                    dropped(broker, DropReason::UnknownPeer) > before
                });
            }
            for subscriber in &mut lan.subscribers {
                silent(subscriber);
            }
            lan.pump(&mut flow, 10);
        },
    );
}
