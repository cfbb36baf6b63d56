//! Live media of each kind, a little at a time, so that none of it grows old on the way.

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use sangam_client::{Client, Outgoing, Publisher, Target};
use sangam_model::limits::BURST_MAX;
use sangam_model::{MediaInfo, StreamId};
use sangam_node::{Broker, LegReceive, LegSpec, RtcpPort};
use sangam_wire::{Flags, rtcp, rtp};

use super::torrent::delivered;
use super::*;

/// Bursts on their way at once: fewer bytes than a queue holds from which video is shed.
const BURSTS: usize = 4;

/// Sends one kind of media, with a trace in one event of sixteen.
pub(crate) struct Source {
    pub(crate) name: &'static str,
    way: Way,
    bursts: u64,
}

enum Way {
    Events {
        publisher: Publisher,
        _client: Client,
        len: usize,
    },
    Rtcp {
        publisher: Publisher,
        _client: Client,
        compound: Vec<u8>,
    },
    Leg {
        camera: UdpSocket,
        to: SocketAddr,
    },
}

impl Source {
    pub(crate) fn audio(broker: &Broker) -> Self {
        Self::events(broker, ("audio", audio()), 160)
    }

    /// A frame in each burst, and a key frame in every fourth.
    pub(crate) fn video(broker: &Broker) -> Self {
        Self::events(broker, ("video", video()), 1_200)
    }

    fn events(broker: &Broker, (name, media): (&'static str, MediaInfo), len: usize) -> Self {
        let (publisher, _client) = publisher(broker, name, media);
        let way = Way::Events {
            publisher,
            _client,
            len,
        };
        let bursts = 0;
        Self { name, way, bursts }
    }

    pub(crate) fn rtcp(broker: &Broker) -> Self {
        let (publisher, _client) = publisher(broker, "rtcp", audio());
        let mut compound = Vec::new();
        rtcp::sender_report(&mut compound, &rtcp::SenderInfo::default(), &[]);
        let way = Way::Rtcp {
            publisher,
            _client,
            compound,
        };
        let (name, bursts) = ("RTCP", 0);
        Self { name, way, bursts }
    }

    /// A camera at an RTP leg.
    pub(crate) fn leg(broker: &Broker) -> Self {
        let receive = LegReceive {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            topic: topic("hall/leg"),
            media: video(),
        };
        let leg = broker.add_leg(LegSpec {
            name: "camera".to_owned(),
            receive: Some(receive),
            send: None,
            rtcp: RtcpPort::Mux,
        });
        let way = Way::Leg {
            camera: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket"),
            to: leg.expect("a leg").local,
        };
        let (name, bursts) = ("leg", 0);
        Self { name, way, bursts }
    }

    /// The stream's id, but of a leg.
    pub(crate) fn stream(&self) -> Option<StreamId> {
        match &self.way {
            Way::Events { publisher, .. } | Way::Rtcp { publisher, .. } => publisher.stream(),
            Way::Leg { .. } => None,
        }
    }

    /// Events sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.bursts * BURST_MAX as u64
    }

    fn burst(&mut self) {
        let key = self.bursts.is_multiple_of(4);
        let first = self.bursts as usize * BURST_MAX;
        self.bursts += 1;
        match &mut self.way {
            Way::Events { publisher, len, .. } => {
                let payload = vec![7; *len];
                let mut burst = [Outgoing::new(&payload); BURST_MAX];
                if publisher.media().class == Class::Video {
                    for event in burst.iter_mut().filter(|_| key) {
                        event.flags = Flags::KEY;
                    }
                    burst[0].flags = burst[0].flags.with(Flags::FRAME_START);
                    burst[BURST_MAX - 1].flags = burst[1].flags.with(Flags::FRAME_END);
                }
                eventually("the queue has room", || {
                    publisher.send_burst(&burst).is_ok()
                });
            }
            Way::Rtcp {
                publisher,
                compound,
                ..
            } => {
                for _ in 0..BURST_MAX {
                    eventually("the queue has room", || {
                        publisher.send_rtcp(compound).is_ok()
                    });
                }
            }
            Way::Leg { camera, to } => {
                for place in 0..BURST_MAX {
                    let header = rtp::Header {
                        marker: place == BURST_MAX - 1,
                        payload_type: video().payload_type,
                        sequence: (first + place) as u16,
                        timestamp: first as u32,
                        ssrc: 9,
                    };
                    // RFC 6184 section 5.2: a slice of a key frame or of another.
                    let mut packet = header.encode().to_vec();
                    packet.push(if key { 5 } else { 1 });
                    packet.resize(1_000, 7);
                    camera.send_to(&packet, *to).expect("sent");
                }
            }
        }
    }

    /// Sends until these brokers deliver to so many listeners together, and nothing is on its way.
    #[track_caller]
    pub(crate) fn open(&mut self, (brokers, listeners): (&[&Broker], u64)) {
        eventually("all listeners are reached", || {
            let before = delivered(brokers);
            self.burst();
            settled(|| delivered(brokers)) - before == BURST_MAX as u64 * listeners
        });
    }

    /// Sends `count` events, which these brokers deliver to so many listeners together. Whether
    /// they delivered all: on a machine that stands still some grow too old.
    #[track_caller]
    pub(crate) fn pour(&mut self, count: u64, (brokers, listeners): (&[&Broker], u64)) -> bool {
        let lost = || {
            let of = |broker: &&Broker| counted(broker, "sangam_dropped_total");
            brokers.iter().map(of).sum::<u64>()
        };
        let (before, lost_before) = (delivered(brokers), lost());
        let mut sent = 0;
        while sent < count {
            (0..BURSTS).for_each(|_| self.burst());
            sent += (BURSTS * BURST_MAX) as u64;
            eventually("what is sent is delivered or given up", || {
                let now = delivered(brokers);
                let whole = now - before >= sent * listeners;
                whole
                    || lost() > lost_before && {
                        thread::park_timeout(Duration::from_millis(50));
                        delivered(brokers) == now
                    }
            });
        }
        delivered(brokers) - before == sent * listeners
    }
}

fn publisher(broker: &Broker, name: &str, media: MediaInfo) -> (Publisher, Client) {
    let options = ClientOptions {
        trace_every: 16,
        ..options()
    };
    let mut client = connect_with(Target::Udp(udp_of(broker)), options);
    let publisher = publish_media(&mut client, &format!("hall/{name}"), media);
    (publisher, client)
}
