//! Brokers for the tests, and what is waited for.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sangam_client::{Client, ClientOptions, Received, Target};
use sangam_model::{BrokerId, Filter, Topic};
use sangam_node::{Authority, Broker, BrokerConfig, Sample};
use sangam_webrtc::{Join, JoinError, Joined, Settings, WebRtc, Wish};

use crate::peer::Peer;

/// Longer than anything here takes on a busy machine; nothing waits for it to pass.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A broker with a gateway.
pub(crate) struct Stage {
    pub(crate) broker: Broker,
    pub(crate) gateway: Arc<WebRtc>,
}

pub(crate) fn settings() -> Settings {
    Settings {
        listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
        peers_max: 64,
        socket_buffer: 1 << 20,
        ..Settings::default()
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(1, &[], settings())
    }

    /// A second broker that links with this one.
    pub(crate) fn beside(&self) -> Self {
        let stage = Self::with(2, &[self.broker.addresses().udp[0]], settings());
        until("the link is up", || {
            stage.broker.links().iter().any(|link| link.up)
        });
        stage
    }

    /// More than one shard, so that most peers are heard by a shard that does not own them.
    pub(crate) fn with(id: u32, links: &[SocketAddr], settings: Settings) -> Self {
        Self::guarded(id, links, settings, None)
    }

    /// The same, where clients need tokens if there is somebody who knows them.
    pub(crate) fn guarded(
        id: u32,
        links: &[SocketAddr],
        settings: Settings,
        authority: Option<Arc<dyn Authority>>,
    ) -> Self {
        let gateway = Arc::new(WebRtc::new(settings).unwrap());
        let broker = Broker::start(BrokerConfig {
            id: BrokerId(id),
            secret: [id as u8; 16],
            links: links.to_vec(),
            shards: 3,
            pool_small: 8_192,
            pool_large: 64,
            gateways: vec![gateway.clone()],
            authority,
            ..BrokerConfig::default()
        });
        let broker = broker.unwrap();
        Self { broker, gateway }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.gateway.addresses()[0]
    }

    pub(crate) fn join(&self, wish: Wish, offer: &str) -> Result<Joined, JoinError> {
        self.gateway.join(Join {
            wish,
            offer: offer.to_owned(),
            token: None,
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            holder: None,
        })
    }

    /// Lets a peer publish, and waits until it is connected.
    pub(crate) fn publish(&self, peer: &mut Peer, topic: &str) -> Joined {
        self.connect(peer, Wish::Publish(Topic::new(topic).unwrap()))
    }

    /// Lets a peer play, and waits until it is connected.
    pub(crate) fn play(&self, peer: &mut Peer, filter: &str) -> Joined {
        self.connect(peer, Wish::Play(Filter::new(filter).unwrap()))
    }

    fn connect(&self, peer: &mut Peer, wish: Wish) -> Joined {
        let joined = self.join(wish, &peer.offer()).unwrap();
        peer.answer(&joined.answer);
        peer.until("it is connected", |peer| peer.connected);
        joined
    }

    /// A native client that listens.
    pub(crate) fn native(&self, filter: &str) -> Client {
        let mut client = Client::connect(
            Target::Udp(self.broker.addresses().udp[0]),
            ClientOptions::default(),
        )
        .unwrap();
        client.wait_up(PATIENCE).unwrap();
        client.subscribe(&Filter::new(filter).unwrap()).unwrap();
        client
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        let name = format!("sangam_webrtc_{name}_total");
        let counts = self.gateway.counts();
        counts
            .iter()
            .find(|counted| counted.name == name)
            .unwrap()
            .value
    }

    /// Packets of video that the broker left out, for all, as the machine was too busy for them.
    pub(crate) fn shed(&self) -> u64 {
        let samples = self.broker.samples();
        let reasons = ["video_late", "video_shed"];
        let of = |sample: &&Sample| {
            let mut labels = sample.labels.iter();
            sample.name == "sangam_dropped_total"
                && labels.any(|(_, value)| reasons.contains(&value.as_str()))
        };
        let shed = samples.iter().filter(of).map(|sample| sample.value as u64);
        shed.sum()
    }
}

/// Events that a native client receives from now on, and announcements before them.
pub(crate) fn next(client: &mut Client) -> Option<Received> {
    client.recv(Duration::from_millis(20))
}

#[track_caller]
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::yield_now();
    }
}
