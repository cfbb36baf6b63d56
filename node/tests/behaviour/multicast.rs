//! Clients of one segment: a real bridge between network namespaces, a real broker on one host,
//! real clients on the others.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use sangam_client::{Client, Outgoing, Received, Target};
use sangam_emulator::{Segment, with_privileges};
use sangam_node::{Broker, BrokerConfig, Multicast, Network};
use sangam_wire::Feedback;
use sangam_wire::feedback::Nack;

use crate::support::shared::{Groups, Shared};
use crate::support::*;

/// What an operator is promised: copies come back within this.
const BACK: Duration = Duration::from_secs(2);
const PORT: u16 = 4_620;
const GROUP: &str = "239.192.46.8";

/// A broker on the first host, and the clients on the others.
struct Lan {
    segment: Segment,
    broker: Broker,
    clients: Vec<Client>,
    source: Client,
}

impl Lan {
    fn new(clients: usize, v6: bool) -> Self {
        Self::with(clients, v6, |_, _| {})
    }

    /// `change` has the last word on the configuration and on the bridge.
    fn with(clients: usize, v6: bool, change: impl Fn(&Segment, &mut BrokerConfig)) -> Self {
        let segment = Segment::new(clients + 1).unwrap_or_else(|error| panic!("{error}"));
        let host = &segment.hosts()[0];
        let own: IpAddr = match v6 {
            true => host.v6().into(),
            false => host.v4().into(),
        };
        let mut config = BrokerConfig {
            udp: vec![SocketAddr::new(own, 0)],
            tcp: Vec::new(),
            multicast: Some(multicast(host.device())),
            ..config(1)
        };
        change(&segment, &mut config);
        let broker = host.enter(|| Ok(start(config))).expect("a broker");
        let target = udp_of(&broker);
        let clients = segment.hosts()[1..].iter().map(|host| {
            let client = host.enter(|| Ok(connect(Target::Udp(target))));
            client.expect("a client")
        });
        let clients = clients.collect();
        let source = door(&broker);
        Self {
            segment,
            broker,
            clients,
            source,
        }
    }

    /// All clients subscribe, and so many hear the group.
    #[track_caller]
    fn flow(&mut self, name: &str, listeners: u64) -> Flow {
        for client in &mut self.clients {
            subscribe(client, name);
        }
        let mut all: Vec<_> = self.clients.iter_mut().collect();
        let flow = Flow::open(&mut self.source, name, &mut all);
        self.heard_by(listeners);
        flow
    }

    #[track_caller]
    fn heard_by(&self, listeners: u64) {
        eventually("so many hear a group", || {
            counted(&self.broker, "sangam_group_listeners") == listeners
        });
    }

    #[track_caller]
    fn pump(&mut self, flow: &mut Flow, count: u32) {
        let mut all: Vec<_> = self.clients.iter_mut().collect();
        flow.pump(count, &mut all);
    }

    fn counted(&self, name: &str) -> u64 {
        settled(|| counted(&self.broker, name))
    }
}

fn multicast(interface: &str) -> Multicast {
    let range = |address: &str, prefix| Network {
        address: address.parse().expect("an address"),
        prefix,
    };
    Multicast {
        interface: interface.to_owned(),
        groups: vec![range(GROUP, 29), range("ff15:4600::", 120)],
        port: PORT,
        ttl: 1,
        clients: 2,
        topics: vec![filter("hall/#")],
        links: false,
    }
}

fn each_event_leaves_once(v6: bool) {
    const EVENTS: u32 = 1_000;
    let mut lan = Lan::new(3, v6);
    let mut flow = lan.flow("hall/stage", 3);
    flow.len = 1_000;
    let shared = |lan: &Lan| settled(|| Shared::of(&lan.broker, Groups::Clients));
    let sent = |lan: &Lan| lan.segment.hosts()[0].sent().expect("a counter");
    let heard = |lan: &Lan| -> u64 { lan.clients.iter().map(|c| c.counters().by_group).sum() };
    let (bytes, shared) = loop {
        let before = (shared(&lan), sent(&lan), heard(&lan));
        // Every client must get each of them once and in order.
        lan.pump(&mut flow, EVENTS);
        let came = heard(&lan) - before.2;
        comes_to(came, || shared(&lan).since(before.0).deliveries);
        let shared = shared(&lan).since(before.0);
        // A machine that stood still says nothing; groups are believed again after 5 s.
        if shared.falls == 0 {
            break (sent(&lan) - before.1, shared);
        }
        lan.heard_by(3);
    };
    shared.is_each_once(EVENTS.into(), 3);
    let payload = u64::from(EVENTS) * flow.len as u64;
    assert!(bytes >= payload, "{bytes} bytes left the host");
    assert!(bytes < payload * 5 / 4, "{bytes} bytes for {payload}");
    assert_eq!(drops(&lan.broker), []);
}

#[test]
fn an_event_leaves_once_for_all_on_a_segment() {
    with_privileges(
        "multicast::an_event_leaves_once_for_all_on_a_segment",
        || {
            each_event_leaves_once(false);
        },
    );
}

#[test]
fn an_event_leaves_once_for_all_on_a_segment_by_ipv6() {
    with_privileges(
        "multicast::an_event_leaves_once_for_all_on_a_segment_by_ipv6",
        || each_event_leaves_once(true),
    );
}

#[test]
fn events_of_many_datagrams_go_to_a_group_as_well() {
    with_privileges(
        "multicast::events_of_many_datagrams_go_to_a_group_as_well",
        || {
            let mut lan = Lan::new(2, false);
            let mut flow = lan.flow("hall/stage", 2);
            flow.len = 9_000;
            lan.pump(&mut flow, 50);
            assert!(lan.counted("sangam_group_packets_total") >= 50);
        },
    );
}

#[test]
fn who_hears_no_group_keeps_its_copy() {
    with_privileges("multicast::who_hears_no_group_keeps_its_copy", || {
        let mut lan = Lan::with(3, false, |segment, _| {
            segment.pass_groups(3, false).expect("a bridge");
        });
        let mut flow = lan.flow("hall/stage", 2);
        lan.pump(&mut flow, 300);
        assert_eq!(lan.clients[2].counters().by_group, 0);
        assert_eq!(lan.counted("sangam_group_listeners"), 2);
    });
}

#[test]
fn who_wants_no_groups_and_what_may_not_go_there_stays_apart() {
    with_privileges(
        "multicast::who_wants_no_groups_and_what_may_not_go_there_stays_apart",
        || {
            let mut lan = Lan::new(2, false);
            let target = udp_of(&lan.broker);
            let options = sangam_client::ClientOptions {
                multicast: false,
                ..options()
            };
            let old = lan.segment.hosts()[1].enter(|| {
                let target = Target::Udp(target);
                Ok(connect_with(target, options))
            });
            lan.clients.push(old.expect("a client"));
            let mut flow = lan.flow("hall/stage", 2);
            lan.pump(&mut flow, 50);
            let packets = lan.counted("sangam_group_packets_total");
            let mut other = lan.flow("lobby", 2);
            lan.pump(&mut other, 50);
            assert_eq!(lan.counted("sangam_group_packets_total"), packets);
            assert_eq!(lan.counted("sangam_groups"), 1);
        },
    );
}

/// The numbers of events that arrive while `send` goes on until `done`; each client's apart.
fn watch(
    lan: &mut Lan,
    flow: &mut Flow,
    numbers: &mut std::ops::RangeFrom<u32>,
    done: impl Fn(&Lan, &[Vec<(Instant, u32)>]) -> bool,
) -> Vec<Vec<(Instant, u32)>> {
    let mut seen: Vec<Vec<(Instant, u32)>> = vec![Vec::new(); lan.clients.len()];
    let until = Instant::now() + PATIENCE;
    while !done(lan, &seen) {
        assert!(Instant::now() < until, "{seen:?}");
        if let Some(number) = numbers.next() {
            let event = numbered(number, 100);
            flow.publisher.send(Outgoing::new(&event)).expect("room");
        }
        for (client, seen) in lan.clients.iter_mut().zip(&mut seen) {
            while let Some(received) = client.recv(Duration::from_millis(2)) {
                if let Received::Event(packet) = received {
                    seen.push((Instant::now(), number_of(&packet)));
                }
            }
        }
    }
    seen
}

fn are_distinct(seen: &[(Instant, u32)]) -> bool {
    let numbers: BTreeSet<u32> = seen.iter().map(|(_, number)| *number).collect();
    numbers.len() == seen.len()
}

#[test]
fn copies_come_back_when_a_group_falls_silent_and_end_when_it_is_heard_again() {
    let name =
        "multicast::copies_come_back_when_a_group_falls_silent_and_end_when_it_is_heard_again";
    with_privileges(name, || {
        let mut lan = Lan::new(3, false);
        let mut flow = lan.flow("hall/stage", 3);
        let mut numbers = 1_000..;
        lan.segment.pass_groups(2, false).expect("a bridge");
        let cut = Instant::now();
        let seen = watch(&mut lan, &mut flow, &mut numbers, |lan, seen| {
            seen[1].len() > 20 && counted(&lan.broker, "sangam_group_listeners") == 2
        });
        let back = seen[1][0].0 - cut;
        assert!(back < BACK, "silent for {back:?}");
        assert!(seen.iter().all(|one| are_distinct(one)), "{seen:?}");
        for other in [0, 2] {
            // Who still hears the group has lost nothing.
            let first = seen[other][0].1;
            let complete = seen[other].iter().zip(first..).all(|(one, n)| one.1 == n);
            assert!(complete, "client {other}: {:?}", seen[other]);
        }
        assert!(lan.counted("sangam_group_falls_total") >= 1);

        lan.segment.pass_groups(2, true).expect("a bridge");
        let seen = watch(&mut lan, &mut flow, &mut numbers, |lan, _| {
            counted(&lan.broker, "sangam_group_listeners") == 3
        });
        assert!(seen.iter().all(|one| are_distinct(one)), "{seen:?}");
    });
}

#[test]
fn datagrams_of_others_to_a_group_are_dropped() {
    with_privileges(
        "multicast::datagrams_of_others_to_a_group_are_dropped",
        || {
            let mut lan = Lan::new(3, false);
            let mut flow = lan.flow("hall/stage", 3);
            lan.pump(&mut flow, 10);
            // A real event of the stream, but for its number.
            let event = numbered(77, 100);
            flow.publisher.send(Outgoing::new(&event)).expect("room");
            let mut forged = None;
            for client in &mut lan.clients {
                let last = wait_for(client, "it comes", |r| matches!(r, Received::Event(_)));
                if let Received::Event(packet) = last {
                    forged = Some(packet.to_vec());
                }
            }
            let mut forged = forged.expect("an event");
            let sequence = u16::from_be_bytes([forged[10], forged[11]]).wrapping_add(5);
            forged[10..12].copy_from_slice(&sequence.to_be_bytes());
            // From a neighbour, which the kernel of each client knows not to take; and from another
            // port of the broker's host, for which that is left to the client.
            for host in [3, 0] {
                let host = &lan.segment.hosts()[host];
                let own = SocketAddr::from((host.v4(), 0));
                let sent = host.enter(|| {
                    let group: Vec<_> = (8..16).map(|n| format!("239.192.46.{n}:{PORT}")).collect();
                    let socket = UdpSocket::bind(own)?;
                    group
                        .iter()
                        .try_for_each(|to| socket.send_to(&forged, to).map(drop))
                });
                sent.expect("datagrams");
            }
            for client in &mut lan.clients {
                eventually("a forged datagram is counted", || {
                    client.counters().dropped_forged == 1
                });
                silent(client);
            }
            lan.pump(&mut flow, 10);
        },
    );
}

#[test]
fn a_repair_goes_to_nobody_but_who_asked() {
    with_privileges("multicast::a_repair_goes_to_nobody_but_who_asked", || {
        let mut lan = Lan::new(2, false);
        let mut flow = lan.flow("hall/stage", 2);
        lan.pump(&mut flow, 10);
        let event = numbered(99, 100);
        let sequence = flow.publisher.send(Outgoing::new(&event)).expect("room");
        for client in &mut lan.clients {
            wait_for(client, "it comes", |r| matches!(r, Received::Event(_)));
        }
        let packets = lan.counted("sangam_group_packets_total");
        // Copies and group overlap for a moment when a client goes over to the group.
        let twice = |lan: &Lan, at: usize| lan.clients[at].counters().dropped_twice;
        let before = [twice(&lan, 0), twice(&lan, 1)];
        let stream = flow.publisher.stream().expect("a stream");
        let nack = Feedback::Nack(Nack {
            first: sequence,
            also: 0,
        });
        lan.clients[0].feedback(stream, 0, &nack).expect("room");
        // It has the event, so the repair comes twice.
        eventually("the repair comes", || twice(&lan, 0) == before[0] + 1);
        assert_eq!(twice(&lan, 1), before[1]);
        assert_eq!(lan.counted("sangam_group_packets_total"), packets);
    });
}

#[test]
fn streams_beyond_the_groups_there_are_go_by_copies() {
    with_privileges(
        "multicast::streams_beyond_the_groups_there_are_go_by_copies",
        || {
            let mut lan = Lan::with(2, false, |_, config| {
                if let Some(multicast) = &mut config.multicast {
                    multicast.groups[0].prefix = 31;
                }
            });
            let mut flows: Vec<Flow> = (1..=3)
                .map(|n| lan.flow(&format!("hall/{n}"), 2 * n.min(2)))
                .collect();
            for flow in &mut flows {
                lan.pump(flow, 40);
            }
            assert_eq!(lan.counted("sangam_groups"), 2);
            assert!(lan.counted("sangam_group_refusals_total") > 0);
            // Who leaves gives its group back.
            drop(flows);
            eventually("no group is left", || {
                counted(&lan.broker, "sangam_groups") == 0
            });
            assert_eq!(lan.counted("sangam_group_listeners"), 0);
        },
    );
}

#[test]
fn a_client_that_goes_hears_no_more_and_the_others_do() {
    with_privileges(
        "multicast::a_client_that_goes_hears_no_more_and_the_others_do",
        || {
            let mut lan = Lan::new(3, false);
            let mut flow = lan.flow("hall/stage", 3);
            drop(lan.clients.pop());
            lan.heard_by(2);
            lan.pump(&mut flow, 100);
            let wanted = filter("hall/stage");
            lan.clients[1].unsubscribe(&wanted).expect("room");
            lan.heard_by(1);
            let mut left = lan.clients.remove(1);
            while left.recv(Duration::from_millis(50)).is_some() {}
            lan.pump(&mut flow, 100);
            silent(&mut left);
        },
    );
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let refused = |change: &dyn Fn(&mut Multicast)| {
        let mut multicast = multicast("lo");
        change(&mut multicast);
        let config = BrokerConfig {
            multicast: Some(multicast),
            ..config(1)
        };
        let Err(error) = Broker::start(config) else {
            panic!("it started");
        };
        error.to_string()
    };
    let said = refused(&|multicast| multicast.interface = "eth99".to_owned());
    assert!(said.contains("\"eth99\"") && said.contains("lo"), "{said}");
    let said = refused(&|multicast| multicast.groups[0].address = [224, 0, 0, 0].into());
    assert!(
        said.contains("224.0.0.0/29 leaves the organisation"),
        "{said}"
    );
    let said = refused(&|_| {});
    assert!(said.contains("lo takes no part in multicast"), "{said}");
}
