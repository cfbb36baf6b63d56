//! Peers whose tokens end, and are renewed.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use sangam_model::{Filter, Grants, Time, Topic};
use sangam_node::{AuthError, Authority};
use sangam_webrtc::{Join, Wish};

use crate::peer::{Kind, Peer};
use crate::stage::{Stage, settings, until};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Believes tokens that are a number: so many milliseconds everything of `demo` is granted.
#[derive(Debug)]
struct Countdown;

impl Authority for Countdown {
    fn verify(&self, token: &str, now: Time) -> Result<Grants, AuthError> {
        let left = token.parse().map_err(|_| AuthError::Expired)?;
        let all = vec![Filter::new("demo/#").map_err(|_| AuthError::Expired)?];
        Ok(Grants {
            tenant: "demo".to_owned(),
            publish: all.clone(),
            subscribe: all,
            gated: false,
            expires: now + Duration::from_millis(left),
        })
    }
}

fn publisher(stage: &Stage, topic: &str, token: &str) -> (Peer, sangam_webrtc::PeerId) {
    let mut peer = Peer::new(Kind::Sends);
    let joined = stage.gateway.join(Join {
        wish: Wish::Publish(Topic::new(topic).unwrap()),
        offer: peer.offer(),
        token: Some(token.to_owned()),
        address: LOCAL,
        holder: None,
    });
    let joined = joined.unwrap();
    peer.answer(&joined.answer);
    peer.until("it is connected", |peer| peer.connected);
    (peer, joined.id)
}

#[test]
fn a_renewed_token_keeps_a_peer_and_an_old_one_ends_it() {
    let stage = Stage::guarded(1, &[], settings(), Some(Arc::new(Countdown)));
    let (_anna, kept) = publisher(&stage, "demo/anna", "3000");
    let (_bert, ended) = publisher(&stage, "demo/bert", "3000");
    let renewed = stage.gateway.renew(kept, "60000".to_owned(), LOCAL);
    renewed.unwrap();
    until("its time is over", || {
        stage.gateway.describe(ended).is_err()
    });
    until("its streams are gone", || stage.broker.streams().len() == 2);
    assert!(stage.gateway.describe(kept).unwrap().connected);
    assert!(stage.gateway.renew(ended, "1".to_owned(), LOCAL).is_err());
}
