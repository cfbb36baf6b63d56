//! How brokers start and stop, and how clients come back or are given up.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use sangam_client::{Client, Received, Target};
use sangam_model::{Incarnation, MediaInfo};
use sangam_node::{Broker, BrokerConfig, LegReceive, LegSpec, RtcpPort, StartError};
use sangam_wire::{Frame, Refusal};

use crate::support::raw::*;
use crate::support::*;

#[track_caller]
fn cannot_bind(config: BrokerConfig, transport: &str, port: u16) {
    match Broker::start(config) {
        Err(error @ StartError::Bind { .. }) => {
            let text = error.to_string();
            let address = format!("{transport} port 127.0.0.1:{port} is in use");
            assert!(text.starts_with(&address), "{text}");
            assert!(text.contains("choose another port"), "{text}");
        }
        other => panic!("no error about the port: {other:?}"),
    }
}

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let at = |port| vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))];
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let port = socket.local_addr().expect("an address").port();
    cannot_bind(
        BrokerConfig {
            udp: at(port),
            ..config(1)
        },
        "udp",
        port,
    );

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    cannot_bind(
        BrokerConfig {
            tcp: at(port),
            ..config(1)
        },
        "tcp",
        port,
    );

    // Its own shards share a TCP port; another broker may not.
    let broker = start(config(1));
    let port = tcp_of(&broker).port();
    cannot_bind(
        BrokerConfig {
            tcp: at(port),
            ..config(2)
        },
        "tcp",
        port,
    );
}

#[test]
fn a_configuration_that_contradicts_itself_is_refused() {
    let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let broken = [
        BrokerConfig {
            udp: Vec::new(),
            ..config(1)
        },
        BrokerConfig {
            udp: vec![loopback(0), loopback(0)],
            ..config(1)
        },
        BrokerConfig {
            shards: 0,
            ..config(1)
        },
        BrokerConfig {
            shards: 65,
            ..config(1)
        },
    ];
    for config in broken {
        let started = Broker::start(config);
        assert!(matches!(started, Err(StartError::Config(_))), "{started:?}");
    }
    let taken = UdpSocket::bind(loopback(0)).expect("a socket");
    let leg = LegSpec {
        name: "stage".to_owned(),
        receive: Some(LegReceive {
            listen: taken.local_addr().expect("an address"),
            topic: topic("hall/stage"),
            media: MediaInfo::data(),
        }),
        send: None,
        rtcp: RtcpPort::Mux,
    };
    let started = Broker::start(BrokerConfig {
        legs: vec![leg],
        ..config(1)
    });
    let text = started.expect_err("the leg's port is taken").to_string();
    assert!(text.starts_with("leg `stage`: cannot use UDP"), "{text}");
}

#[test]
fn a_broker_that_stops_says_so_to_its_clients() {
    let mut broker = start(config(1));
    let mut clients = [udp(&broker), tcp(&broker), door(&broker)];
    let began = Instant::now();
    broker.shutdown();
    for client in &mut clients {
        wait_for(client, "a goodbye", |received| {
            matches!(received, Received::Down(Refusal::Leaving))
        });
    }
    // Well before keep-alives would tell.
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(broker.streams().is_empty() && broker.legs().is_empty());
    assert!(broker.door().is_err());
}

#[test]
fn clients_come_back_to_a_broker_that_restarts_and_find_everything_restored() {
    let broker = start(config(1));
    let (at_udp, at_tcp) = (udp_of(&broker), tcp_of(&broker));
    let mut publisher = udp(&broker);
    let (mut by_udp, mut by_tcp) = (udp(&broker), tcp(&broker));
    subscribe(&mut by_udp, "hall/#");
    subscribe(&mut by_tcp, "hall/#");
    let mut subscribers = [&mut by_udp, &mut by_tcp];
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut subscribers);
    flow.pump(20, &mut subscribers);

    drop(broker);
    let again = start(BrokerConfig {
        udp: vec![at_udp],
        tcp: vec![at_tcp],
        incarnation: Incarnation(2),
        ..config(1)
    });
    let [by_udp, by_tcp] = &subscribers;
    for client in [&publisher, by_udp, by_tcp] {
        eventually("the client is back", || {
            client
                .up()
                .is_some_and(|up| up.broker == Some((again.id(), Incarnation(2))))
        });
    }
    flow.reach(&mut subscribers);
    flow.pump(20, &mut subscribers);
}

#[test]
fn a_client_that_falls_silent_is_given_up_and_wanted_nowhere_any_more() {
    let first = start(config(1));
    let second = start(BrokerConfig {
        keepalive_ms: 50,
        ..linked(2, &[&first])
    });
    links_up(&first, 1);
    let mut publisher = udp(&first);
    let _flow = Flow::new(publish(&mut publisher, "hall/stage"));
    let mut by_udp = Raw::udp(udp_of(&second));
    by_udp.subscribe("hall/#");
    routed(&first, "hall/stage", 1);
    eventually("the silent client is given up", || second.peers() == 0);
    routed(&first, "hall/stage", 0);

    let mut by_tcp = Raw::tcp(tcp_of(&second));
    by_tcp.subscribe("hall/#");
    routed(&first, "hall/stage", 1);
    assert!(by_tcp.is_dismissed());
    assert_eq!(by_tcp.bye, Some(Refusal::Silent));
    routed(&first, "hall/stage", 0);
}

#[test]
fn a_client_that_only_pings_is_kept() {
    let broker = start(BrokerConfig {
        keepalive_ms: 50,
        ..config(1)
    });
    let mut client = udp(&broker);
    subscribe(&mut client, "hall/#");
    let mut publisher = udp(&broker);
    // Four times what the broker waits for.
    let until = Instant::now() + Duration::from_millis(600);
    while Instant::now() < until {
        if let Some(received) = client.recv(Duration::from_millis(100)) {
            panic!("not a quiet link: {received:?}");
        }
    }
    Flow::open(&mut publisher, "hall/stage", &mut [&mut client]).pump(5, &mut [&mut client]);
    assert!(client.rtt().is_some());
}

#[test]
fn a_frame_of_an_earlier_session_does_nothing() {
    let broker = start(config(1));
    let mut witness = Witness::of(&broker);
    let mut client = Raw::udp(udp_of(&broker));
    let session = client.welcome.session.wrapping_add(1);
    client.send(&bytes_of(&Frame::Bye {
        session,
        reason: Refusal::Goodbye,
    }));
    // It still is served: the goodbye was not its own.
    client.subscribe("hall/#");
    witness.is_unharmed();
    client.send(&bytes_of(&Frame::Bye {
        session: client.welcome.session,
        reason: Refusal::Goodbye,
    }));
    eventually("the client has left", || broker.peers() == 2);
}

#[test]
fn a_hello_that_is_repeated_makes_no_second_client() {
    let broker = start(config(1));
    let socket = socket_beside(udp_of(&broker));
    let say = |cookie| {
        let bytes = bytes_of(&Frame::Hello(hello(5, cookie)));
        socket.send_to(&bytes, udp_of(&broker)).expect("sent");
        datagram(&socket)
    };
    let retry = say(None);
    let Ok(Frame::Retry { cookie, .. }) = Frame::decode(&retry) else {
        panic!("no cookie");
    };
    let first = say(Some(cookie));
    let second = say(Some(cookie));
    assert!(matches!(Frame::decode(&first), Ok(Frame::Welcome(_))));
    assert_eq!(first, second);
    eventually("one client", || broker.peers() == 1);
}

#[test]
fn an_address_where_nobody_listens_is_reported_with_what_to_check() {
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    for target in [Target::Udp(nobody), Target::Tcp(nobody)] {
        let mut client = Client::connect(target, options()).expect("a client");
        let error = client
            .wait_up(Duration::from_millis(300))
            .expect_err("nobody is there");
        let text = error.to_string();
        assert!(
            text.contains(&nobody.to_string()) && text.contains("check the address"),
            "{text}"
        );
    }
}
