//! Brokers that are linked by streams, and links that change their ways.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sangam_broker::DropReason;
use sangam_emulator::{Emulator, Loss, Quality, Site, with_privileges};
use sangam_io::quic::broker_of;
use sangam_io::stream::WebSocket;
use sangam_io::tls::Identity;
use sangam_model::{BrokerId, Incarnation, MediaInfo};
use sangam_node::{Broker, BrokerConfig, LinkWay, Neighbour, Network, StreamWay, Transport};
use sangam_wire::{Capabilities, Hello, Refusal, Role};

use crate::links::{answer_to_hello, is_refused};
use crate::support::cable::Cable;
use crate::support::certificates::Authority;
use crate::support::raw::hello;
use crate::support::relay::Relay;
use crate::support::*;

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A broker that listens by everything there is, believes an authority and dials these.
fn member(own: &Arc<Identity>, believes: &Authority, neighbours: Vec<Neighbour>) -> BrokerConfig {
    let encrypted = [Transport::Tls, Transport::Ws, Transport::Wss];
    BrokerConfig {
        id: broker_of(&own.chain()[0]).expect("an Ed25519 key"),
        streams: encrypted.map(|one| (one, loopback())).to_vec(),
        quic_links: vec![loopback()],
        authorities: Some(believes.roots()),
        identity: Some(own.clone()),
        neighbours,
        ..config(1)
    }
}

fn stream(transport: Transport, address: SocketAddr) -> LinkWay {
    let websocket = matches!(transport, Transport::Ws | Transport::Wss);
    LinkWay::Stream(StreamWay {
        transport,
        address,
        proxy: None,
        name: address.ip().to_string(),
        websocket: websocket.then(|| WebSocket {
            authority: address.to_string(),
            path: "/v1/connect".to_owned(),
        }),
    })
}

fn by_quic(broker: &Broker) -> LinkWay {
    let address = broker.addresses().quic_links[0];
    let name = address.ip().to_string();
    LinkWay::Quic { address, name }
}

fn by_tls(broker: &Broker) -> LinkWay {
    by(broker, Transport::Tls)
}

fn by(broker: &Broker, transport: Transport) -> LinkWay {
    stream(transport, broker.addresses().of(transport)[0])
}

fn over(ways: Vec<LinkWay>) -> Vec<Neighbour> {
    vec![Neighbour { ways }]
}

fn transports(broker: &Broker) -> Vec<&'static str> {
    let links = broker.links();
    let up = links.iter().filter(|link| link.up);
    up.map(|link| link.transport).collect()
}

#[track_caller]
fn until_by(broker: &Broker, transport: &'static str) {
    eventually(transport, || transports(broker) == [transport]);
}

/// A flow from one broker to the other, and who receives it.
fn across(
    (from, to): (&Broker, &Broker),
    (name, media): (&str, MediaInfo),
) -> (Flow, [sangam_client::Client; 2]) {
    let (mut publisher, mut subscriber) = (udp(from), udp(to));
    subscribe(&mut subscriber, name);
    let mut flow = Flow::new(publish_media(&mut publisher, name, media));
    flow.reach(&mut [&mut subscriber]);
    (flow, [subscriber, publisher])
}

#[test]
fn media_crosses_a_link_by_each_kind_of_stream_once() {
    let authority = Authority::new();
    for transport in Transport::ALL {
        let far = start(member(&authority.sign(), &authority, Vec::new()));
        let ways = over(vec![by(&far, transport)]);
        let near = start(member(&authority.sign(), &authority, ways));
        until_by(&near, transport.name());
        until_by(&far, transport.name());
        for ends in [(&near, &far), (&far, &near)] {
            for (len, media) in [(100, audio()), (1_400, video()), (9_000, video())] {
                let name = format!("across/{len}");
                let (mut flow, [mut subscriber, _publisher]) = across(ends, (&name, media));
                flow.len = len;
                flow.pump(200, &mut [&mut subscriber]);
                silent(&mut subscriber);
            }
        }
        for broker in [&near, &far] {
            assert_eq!(dropped(broker, DropReason::LinkDown), 0);
            assert_eq!(dropped(broker, DropReason::ControlOverflow), 0);
        }
    }
}

/// The best way fails, and comes back while media flows.
fn falls_and_climbs(lower: impl Fn(&Broker) -> LinkWay, name: &'static str, silently: bool) {
    let authority = Authority::new();
    let far = start(member(&authority.sign(), &authority, Vec::new()));
    let relay = Relay::to(far.addresses().of(Transport::Tls)[0]);
    let ways = over(vec![stream(Transport::Tls, relay.address), lower(&far)]);
    let near = start(member(&authority.sign(), &authority, ways));
    until_by(&near, "tls");
    let there = across((&near, &far), ("hall/there", audio()));
    let back = across((&far, &near), ("hall/back", video()));
    let mut flows = [there, back];
    let pump = |flows: &mut [(Flow, [sangam_client::Client; 2])]| {
        for (flow, [subscriber, _]) in flows {
            flow.pump(32, &mut [subscriber]);
        }
    };
    pump(&mut flows);

    let since = Instant::now();
    match silently {
        true => relay.pause(true),
        false => relay.cut(true),
    }
    until_by(&near, name);
    assert!(
        since.elapsed() < Duration::from_secs(3),
        "{:?}",
        since.elapsed()
    );
    for (flow, [subscriber, _]) in &mut flows {
        flow.reach(&mut [subscriber]);
    }

    relay.pause(false);
    relay.cut(false);
    let gone = [&near, &far].map(|broker| dropped(broker, DropReason::LinkDown));
    // Every event comes, once and in order, while the link moves.
    eventually("the link climbs up", || {
        pump(&mut flows);
        transports(&near) == ["tls"]
    });
    let moved = Instant::now();
    eventually("the old way is left", || {
        pump(&mut flows);
        moved.elapsed() > Duration::from_millis(1_500)
    });
    assert_eq!(transports(&near), ["tls"]);
    assert_eq!(transports(&far), ["tls"]);
    assert_eq!(
        [&near, &far].map(|broker| dropped(broker, DropReason::LinkDown)),
        gone
    );
    // What is asked for after the move finds its way, too.
    Witness::between(&near, &far).is_unharmed();
    Witness::between(&far, &near).is_unharmed();
}

#[test]
fn a_stream_that_is_cut_gives_way_to_another_and_takes_over_again_without_a_loss() {
    falls_and_climbs(|far| by(far, Transport::Tcp), "tcp", false);
}

#[test]
fn a_stream_that_falls_silent_gives_way_to_datagrams_and_takes_over_again_without_a_loss() {
    falls_and_climbs(|far| LinkWay::Udp(udp_of(far)), "udp", true);
}

#[test]
fn a_stream_that_is_cut_gives_way_to_quic_and_takes_over_again_without_a_loss() {
    falls_and_climbs(by_quic, "quic", false);
}

#[test]
fn a_certificate_of_another_authority_is_refused_and_counted() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let broker = start(member(&ours.sign(), &ours, Vec::new()));
    let mut friend = Witness::of(&broker);
    for transport in [Transport::Tls, Transport::Wss] {
        let ways = over(vec![by(&broker, transport)]);
        let other = start(member(&theirs.sign(), &theirs, ways));
        eventually("it is counted", || {
            dropped(&other, DropReason::LinkIdentity) > 0
        });
        friend.is_unharmed();
        assert_eq!(transports(&other), [] as [&str; 0]);
        assert_eq!(transports(&broker), [] as [&str; 0]);
    }
}

#[test]
fn who_says_to_be_another_broker_than_the_certificate_is_refused_and_counted() {
    let authority = Authority::new();
    let broker = start(member(&authority.sign(), &authority, Vec::new()));
    for transport in [Transport::Tls, Transport::Wss] {
        let own = authority.sign();
        let honest = member(&own, &authority, over(vec![by(&broker, transport)]));
        let id = BrokerId(honest.id.0 ^ 1);
        let before = dropped(&broker, DropReason::LinkIdentity);
        let liar = start(BrokerConfig { id, ..honest });
        eventually("the caller is refused", || {
            dropped(&broker, DropReason::LinkIdentity) > before
        });
        // Likewise one that is dialled and is not whose key it has.
        let ways = over(vec![by(&liar, transport)]);
        let dialler = start(member(&authority.sign(), &authority, ways));
        eventually("the one dialled is refused", || {
            dropped(&dialler, DropReason::LinkIdentity) > 0
        });
        // Who was dialled takes the link for one until it sees that it was closed.
        for broker in [&broker, &liar, &dialler] {
            eventually("no link stays", || transports(broker).is_empty());
        }
    }
}

#[test]
fn a_plain_stream_links_from_trusted_networks_only() {
    let elsewhere = Network {
        address: [192, 0, 2, 0].into(),
        prefix: 24,
    };
    let authority = Authority::new();
    let far = start(BrokerConfig {
        accept_links: vec![elsewhere],
        ..member(&authority.sign(), &authority, Vec::new())
    });
    let ways = vec![by(&far, Transport::Tcp), by(&far, Transport::Tls)];
    let near = start(member(&authority.sign(), &authority, over(ways)));
    until_by(&near, "tls");
}

#[test]
fn two_brokers_that_dial_each_other_by_streams_have_one_link() {
    let authority = Authority::new();
    let free = || SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (first_at, second_at) = (free(), free());
    let both = [(first_at, second_at), (second_at, first_at)].map(|(own, other)| {
        let ways = over(vec![stream(Transport::Tls, other)]);
        let mut config = member(&authority.sign(), &authority, ways);
        config.streams = vec![(Transport::Tls, own)];
        start(config)
    });
    let [first, second] = &both;
    links_up(first, 1);
    links_up(second, 1);
    let mut witness = Witness::between(first, second);
    let since = Instant::now();
    eventually("the other call was refused again", || {
        witness.is_unharmed();
        since.elapsed() > Duration::from_secs(1)
    });
}

#[test]
fn a_neighbour_whose_own_call_stands_is_left_alone() {
    let authority = Authority::new();
    let at = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
    let relays = at.map(Relay::to);
    let both = [(at[0], relays[1].address), (at[1], relays[0].address)].map(|(own, other)| {
        let ways = over(vec![stream(Transport::Tls, other)]);
        let mut config = member(&authority.sign(), &authority, ways);
        config.streams = vec![(Transport::Tls, own)];
        start(config)
    });
    let [first, second] = &both;
    links_up(first, 1);
    links_up(second, 1);
    let calls = || relays.iter().map(Relay::calls).max();
    let before = calls();
    let mut witness = Witness::between(first, second);
    eventually("the other call is refused", || {
        witness.is_unharmed();
        calls() > before
    });
    let since = Instant::now();
    eventually("it could have been refused often", || {
        witness.is_unharmed();
        since.elapsed() > Duration::from_secs(4)
    });
    assert!(calls() <= before.map(|calls| calls + 2), "{:?}", calls());
    links_up(first, 1);
    links_up(second, 1);
}

#[test]
fn a_link_with_a_certificate_is_not_handed_over_to_a_caller_without() {
    let authority = Authority::new();
    let far = start(member(&authority.sign(), &authority, Vec::new()));
    for way in [by(&far, Transport::Tls), by_quic(&far)] {
        let near = start(member(&authority.sign(), &authority, over(vec![way])));
        links_up(&near, 1);
        links_up(&far, 1);
        let name = transports(&near);
        let peer = far.links()[0].peer.expect("a neighbour");
        let asking = Capabilities::OURS.with(Capabilities::SECOND_WAY);
        let later = Incarnation(peer.1.0 + 1);
        for (capabilities, life) in [(asking, peer.1), (Capabilities::OURS, later)] {
            let hello = Hello {
                role: Role::Broker(peer.0, life),
                capabilities,
                ..hello(5, None)
            };
            is_refused(&answer_to_hello(&far, &hello), Refusal::Invalid);
        }
        Witness::between(&near, &far).is_unharmed();
        assert_eq!([transports(&near), transports(&far)], [name.clone(), name]);
        drop(near);
        links_up(&far, 0);
    }
}

#[test]
fn a_link_with_a_certificate_climbs_to_datagrams_for_its_own_neighbour() {
    let authority = Authority::new();
    for lower in [by_tls as fn(&Broker) -> LinkWay, by_quic] {
        let far = start(member(&authority.sign(), &authority, Vec::new()));
        let cable = Cable::to(udp_of(&far));
        cable.cut();
        let ways = over(vec![LinkWay::Udp(cable.near), lower(&far)]);
        let near = start(member(&authority.sign(), &authority, ways));
        links_up(&near, 1);
        assert_ne!(transports(&near), ["udp"]);
        let (mut flow, [mut subscriber, _publisher]) = across((&near, &far), ("hall", audio()));
        cable.mend();
        // Every event comes, once and in order, while the link moves.
        eventually("the link climbs", || {
            flow.pump(32, &mut [&mut subscriber]);
            transports(&near) == ["udp"] && transports(&far) == ["udp"]
        });
        for broker in [&near, &far] {
            assert_eq!(dropped(broker, DropReason::LinkDown), 0);
        }
    }
}

/// Brokers that name each other by datagrams, while only streams work, which the first has, too.
fn both_ways(ids: [u32; 2]) {
    let hosts = [[127, 9, 7, 1], [127, 9, 7, 2]];
    let at = hosts.map(|host| SocketAddr::from((host, free_port())));
    // The first sees the second behind the cable's near end, and is seen behind its far end.
    let cable = Cable::between(at[1], Some(at[0]));
    cable.cut();
    let of_first = vec![LinkWay::Udp(cable.near), stream(Transport::Tcp, at[1])];
    let of_second = vec![LinkWay::Udp(cable.far)];
    let mut ways = [of_first, of_second].into_iter();
    let [first, second] = [0, 1].map(|own| {
        start(BrokerConfig {
            udp: vec![at[own]],
            tcp: vec![at[own]],
            neighbours: ways.next().map(over).unwrap_or_default(),
            ..config(ids[own])
        })
    });
    until_by(&first, "tcp");
    until_by(&second, "tcp");
    let (mut flow, [mut subscriber, _publisher]) = across((&first, &second), ("hall", audio()));
    cable.mend();
    eventually("the link climbs", || {
        flow.pump(32, &mut [&mut subscriber]);
        transports(&first) == ["udp"] && transports(&second) == ["udp"]
    });
    eventually(
        "the old way is left, and the neighbour is ours to dial",
        || {
            flow.pump(32, &mut [&mut subscriber]);
            second.links().iter().any(|link| !link.up)
        },
    );
    assert_eq!(transports(&second), ["udp"]);
}

#[test]
fn a_neighbour_that_climbs_to_where_we_dial_stays_ours_to_dial() {
    both_ways([1, 2]);
    both_ways([2, 1]);
}

#[test]
fn a_slow_neighbour_loses_video_before_audio_and_delays_no_other() {
    let authority = Authority::new();
    let [slow, quick] = [(); 2].map(|()| start(member(&authority.sign(), &authority, Vec::new())));
    let relay = Relay::to(tcp_of(&slow));
    relay.slow_down(Some(2_000_000));
    let mut ways = over(vec![stream(Transport::Tcp, relay.address)]);
    ways.extend(over(vec![by(&quick, Transport::Tcp)]));
    let near = start(member(&authority.sign(), &authority, ways));
    links_up(&near, 2);
    let (mut publisher, mut viewer, mut listener) = (udp(&near), udp(&quick), udp(&quick));
    let (mut far_viewer, mut far_listener) = (udp(&slow), udp(&slow));
    for viewer in [&mut viewer, &mut far_viewer] {
        subscribe(viewer, "hall/film");
    }
    for listener in [&mut listener, &mut far_listener] {
        subscribe(listener, "hall/voice");
    }
    let mut film = Flow::new(publish_media(&mut publisher, "hall/film", video()));
    let mut voice = Flow::new(publish_media(&mut publisher, "hall/voice", audio()));
    film.reach(&mut [&mut viewer, &mut far_viewer]);
    voice.reach(&mut [&mut listener, &mut far_listener]);
    film.len = 1_400;
    let mut voices = 0;
    while dropped(&near, DropReason::VideoLate) + dropped(&near, DropReason::VideoShed) < 500 {
        film.pump(200, &mut [&mut viewer]);
        voice.pump(1, &mut [&mut listener]);
        voices += 1;
        assert!(voices < 200, "nothing is shed: {:?}", drops(&near));
    }
    voice.pump(20, &mut [&mut listener]);
    let got = receive_until(&mut far_listener, voice.sent() - 1);
    assert!(
        got.len() as u32 >= voices + 20,
        "audio was lost: {} of {voices}",
        got.len()
    );
    assert_eq!(dropped(&near, DropReason::AudioLate), 0);
    assert_eq!(dropped(&near, DropReason::LinkDown), 0);
    links_up(&near, 2);
}

#[test]
fn a_long_stream_that_loses_one_packet_in_a_hundred_is_not_in_doubt_for_it() {
    let name =
        "stream_links::a_long_stream_that_loses_one_packet_in_a_hundred_is_not_in_doubt_for_it";
    with_privileges(name, || {
        let network = Emulator::new(&["near", "far"], 7).unwrap_or_else(|error| panic!("{error}"));
        let path = Quality {
            loss: Loss::Random(0.01),
            ..Quality::delayed(Duration::from_millis(50))
        };
        network.control().set_both(0, 1, &path).expect("two sites");
        let [near, far] = network.sites() else {
            panic!("two sites");
        };
        let at = |site: &Site, id, neighbours| {
            let own: IpAddr = site.v4().into();
            let prefix = 8;
            let config = BrokerConfig {
                udp: vec![SocketAddr::new(own, 0)],
                tcp: vec![SocketAddr::new(own, 0)],
                accept_links: vec![Network {
                    address: own,
                    prefix,
                }],
                neighbours,
                ..config(id)
            };
            site.enter(|| Ok(start(config))).expect("a broker")
        };
        let far = at(far, 1, Vec::new());
        let near = at(near, 2, over(vec![by(&far, Transport::Tcp)]));
        links_up(&near, 1);
        // A link that dies begins to count anew.
        let (mut sent, mut doubted, mut doubts) = ([0; 2], [false; 2], 0);
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until {
            for (end, broker) in [&near, &far].into_iter().enumerate() {
                let link = &broker.links()[0];
                assert!(
                    link.up && link.sent.packets >= sent[end],
                    "it died: {link:?}"
                );
                doubts += u32::from(link.suspect && !doubted[end]);
                (sent[end], doubted[end]) = (link.sent.packets, link.suspect);
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
        assert!(sent.iter().all(|sent| *sent > 100), "{sent:?}");
        // 25 losses, each a silence of 200 ms; only a repetition that is lost, too, is a doubt.
        assert!(doubts < 6, "{doubts}");
    });
}
