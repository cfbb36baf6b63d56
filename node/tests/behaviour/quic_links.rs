//! Brokers that are linked by QUIC, with certificates at both ends.

use std::net::SocketAddr;
use std::sync::Arc;

use sangam_io::quic::broker_of;
use sangam_io::tls::Identity;
use sangam_model::BrokerId;
use sangam_node::{Broker, BrokerConfig, LinkWay, Neighbour};

use crate::support::certificates::Authority;
use crate::support::*;

fn id_of(own: &Arc<Identity>) -> BrokerId {
    broker_of(&own.chain()[0]).expect("an Ed25519 key")
}

/// A broker that shows a certificate, believes an authority, and dials these.
fn member(own: &Arc<Identity>, believes: &Authority, neighbours: Vec<Neighbour>) -> BrokerConfig {
    BrokerConfig {
        id: id_of(own),
        quic_links: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        neighbours,
        authorities: Some(believes.roots()),
        identity: Some(own.clone()),
        ..config(1)
    }
}

fn to(broker: &Broker) -> Neighbour {
    at(broker.addresses().quic_links[0])
}

fn at(address: SocketAddr) -> Neighbour {
    let name = address.ip().to_string();
    let way = LinkWay::Quic { address, name };
    Neighbour { ways: vec![way] }
}

fn transports(broker: &Broker) -> Vec<&'static str> {
    let links = broker.links();
    let up = links.iter().filter(|link| link.up);
    up.map(|link| link.transport).collect()
}

#[test]
fn events_of_any_length_cross_a_link_by_quic() {
    let authority = Authority::new();
    let far = start(member(&authority.sign(), &authority, Vec::new()));
    let near = start(member(&authority.sign(), &authority, vec![to(&far)]));
    links_up(&near, 1);
    links_up(&far, 1);
    assert_eq!(transports(&near), ["quic"]);
    for (from, at) in [(&near, &far), (&far, &near)] {
        for len in [100, 1_400, 9_000] {
            let (mut publisher, mut subscriber) = (udp(from), udp(at));
            let name = format!("across/{len}");
            subscribe(&mut subscriber, &name);
            let mut flow = Flow::open(&mut publisher, &name, &mut [&mut subscriber]);
            flow.len = len;
            flow.pump(100, &mut [&mut subscriber]);
            let mut film = Flow::new(publish_media(&mut publisher, &name, video()));
            film.len = len;
            film.reach(&mut [&mut subscriber]);
            film.pump(100, &mut [&mut subscriber]);
        }
    }
}

#[test]
fn a_neighbour_of_another_authority_stays_out() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let broker = start(member(&ours.sign(), &ours, Vec::new()));
    let other = start(member(&theirs.sign(), &theirs, vec![to(&broker)]));
    // It believes us, and still has no certificate that we believe.
    let own = theirs.sign();
    let trusting = start(member(&own, &ours, vec![to(&broker)]));
    let mut friend = Witness::of(&broker);
    for _ in 0..5 {
        friend.is_unharmed();
    }
    for broker in [&broker, &other, &trusting] {
        assert_eq!(transports(broker), [] as [&str; 0]);
    }
}

#[test]
fn who_claims_to_be_another_broker_is_refused() {
    let authority = Authority::new();
    let broker = start(member(&authority.sign(), &authority, Vec::new()));
    let own = authority.sign();
    let liar = start(BrokerConfig {
        id: BrokerId(id_of(&own).0 ^ 1),
        ..member(&own, &authority, vec![to(&broker)])
    });
    // Likewise a broker that is dialled and is not whose key it has.
    let dialler = start(member(&authority.sign(), &authority, vec![to(&liar)]));
    let honest = start(member(&authority.sign(), &authority, vec![to(&broker)]));
    links_up(&honest, 1);
    let mut friend = Witness::between(&honest, &broker);
    friend.is_unharmed();
    assert_eq!(transports(&liar), [] as [&str; 0]);
    assert_eq!(transports(&dialler), [] as [&str; 0]);
    assert_eq!(transports(&broker), ["quic"]);
}

#[test]
fn a_neighbour_that_comes_back_is_linked_again() {
    let authority = Authority::new();
    let (own, other) = (authority.sign(), authority.sign());
    let first = start(member(&own, &authority, Vec::new()));
    let address = first.addresses().quic_links[0];
    let near = start(member(&other, &authority, vec![to(&first)]));
    links_up(&near, 1);
    drop(first);
    links_up(&near, 0);
    let mut again = member(&own, &authority, Vec::new());
    again.quic_links = vec![address];
    again.incarnation.0 += 1;
    let again = start(again);
    links_up(&near, 1);
    Witness::between(&near, &again).is_unharmed();
}

#[test]
fn two_brokers_that_dial_each_other_have_one_link() {
    let authority = Authority::new();
    let (one, two) = (authority.sign(), authority.sign());
    let free = || SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (first_at, second_at) = (free(), free());
    let mut first = member(&one, &authority, vec![at(second_at)]);
    first.quic_links = vec![first_at];
    let mut second = member(&two, &authority, vec![at(first_at)]);
    second.quic_links = vec![second_at];
    let (first, second) = (start(first), start(second));
    links_up(&first, 1);
    links_up(&second, 1);
    Witness::between(&first, &second).is_unharmed();
    assert_eq!(transports(&first), ["quic"]);
}

#[test]
fn datagrams_stand_in_for_quic_until_it_gets_through() {
    let authority = Authority::new();
    let (own, other) = (authority.sign(), authority.sign());
    // A port at which nobody answers yet.
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut far = member(&own, &authority, Vec::new());
    far.quic_links = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let deaf = start(far.clone());
    let mut neighbour = at(address);
    neighbour.ways.push(LinkWay::Udp(udp_of(&deaf)));
    let near = start(member(&other, &authority, vec![neighbour]));
    links_up(&near, 1);
    assert_eq!(transports(&near), ["udp"]);
    Witness::between(&near, &deaf).is_unharmed();

    let public = udp_of(&deaf);
    drop(deaf);
    far.udp = vec![public];
    far.quic_links = vec![address];
    far.incarnation.0 += 1;
    let hearing = start(far);
    eventually("the link climbs up", || transports(&near) == ["quic"]);
    Witness::between(&near, &hearing).is_unharmed();
    assert_eq!(transports(&hearing), ["quic"]);
}
