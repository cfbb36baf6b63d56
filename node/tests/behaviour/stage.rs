//! A camera and a player that speak plain RTP, and the legs between them.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use sangam_model::{MediaInfo, Topic};
use sangam_node::{Broker, LegInfo, LegReceive, LegSend, LegSpec, RtcpPort};
use sangam_wire::{rtcp, rtp};

use crate::support::*;

pub(crate) const SSRC: u32 = 0xcafe_0001;
const PAYLOAD_TYPE: u8 = 96;

/// A plain RTP endpoint: a camera or a player.
pub(crate) struct Endpoint {
    pub(crate) rtp: UdpSocket,
    /// With RTCP on a port of its own.
    pub(crate) rtcp: Option<UdpSocket>,
}

impl Endpoint {
    pub(crate) fn new() -> Self {
        let rtp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        rtp.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self { rtp, rtcp: None }
    }

    /// RTP on one port, RTCP on the next.
    pub(crate) fn pair() -> Self {
        for _ in 0..50 {
            let rtp = Self::new().rtp;
            let mut next = rtp.local_addr().expect("an address");
            next.set_port(next.port().saturating_add(1));
            if let Ok(rtcp) = UdpSocket::bind(next) {
                rtcp.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                return Self {
                    rtp,
                    rtcp: Some(rtcp),
                };
            }
        }
        panic!("no two neighbouring ports are free");
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.rtp.local_addr().expect("an address")
    }

    pub(crate) fn control(&self) -> &UdpSocket {
        self.rtcp.as_ref().unwrap_or(&self.rtp)
    }

    /// Where this endpoint sends RTCP that is meant for a leg.
    fn control_of(&self, leg: &LegInfo) -> SocketAddr {
        let mut to = loopback(leg.local);
        to.set_port(to.port() + u16::from(self.rtcp.is_some()));
        to
    }

    pub(crate) fn send(&self, packet: &[u8], leg: &LegInfo) {
        self.rtp.send_to(packet, loopback(leg.local)).expect("sent");
    }

    pub(crate) fn send_control(&self, compound: &[u8], leg: &LegInfo) {
        self.control()
            .send_to(compound, self.control_of(leg))
            .expect("sent");
    }
}

/// A leg that only sends is bound to any address.
pub(crate) fn loopback(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip([127, 0, 0, 1].into());
    }
    address
}

#[track_caller]
pub(crate) fn receive(socket: &UdpSocket) -> Vec<u8> {
    crate::support::raw::datagram(socket)
}

/// RTP packets within some time, RTCP left out.
pub(crate) fn receive_rtcp(socket: &UdpSocket, within: Duration) -> Vec<Vec<u8>> {
    socket.set_read_timeout(Some(within)).expect("a timeout");
    let mut bytes = vec![0; 2_048];
    let mut all = Vec::new();
    while let Ok((len, _)) = socket.recv_from(&mut bytes) {
        if rtcp::is_rtcp(&bytes[..len]) {
            all.push(bytes[..len].to_vec());
        }
    }
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    all
}

pub(crate) fn packet(sequence: u16, payload: &[u8]) -> Vec<u8> {
    let header = rtp::Header {
        marker: sequence.is_multiple_of(3),
        payload_type: PAYLOAD_TYPE,
        sequence,
        timestamp: u32::from(sequence / 3) * 3_000,
        ssrc: SSRC,
    };
    [&header.encode()[..], payload].concat()
}

pub(crate) fn incoming(name: &str, topic: Topic, media: MediaInfo) -> LegSpec {
    let listen = "127.0.0.1:0".parse().expect("an address");
    let receive = Some(LegReceive {
        listen,
        topic,
        media,
    });
    LegSpec {
        name: name.to_owned(),
        receive,
        send: None,
        rtcp: RtcpPort::Mux,
    }
}

pub(crate) fn outgoing(name: &str, to: SocketAddr, text: &str) -> LegSpec {
    let send = Some(LegSend {
        to,
        filter: filter(text),
    });
    LegSpec {
        name: name.to_owned(),
        receive: None,
        send,
        rtcp: RtcpPort::Mux,
    }
}

/// A camera at the first broker and a player at the last.
pub(crate) struct Stage {
    pub(crate) brokers: Vec<Broker>,
    pub(crate) camera: Endpoint,
    pub(crate) player: Endpoint,
    pub(crate) into: LegInfo,
    pub(crate) out: LegInfo,
}

impl Stage {
    pub(crate) fn set(count: u32, rtcp: RtcpPort) -> Self {
        Self::set_with(count, rtcp, video())
    }

    /// With media of the payload type that [`packet`] has.
    pub(crate) fn set_with(count: u32, rtcp: RtcpPort, media: MediaInfo) -> Self {
        let brokers = chain(count);
        let endpoint = || match rtcp {
            RtcpPort::Mux => Endpoint::new(),
            RtcpPort::Next => Endpoint::pair(),
        };
        let (camera, player) = (endpoint(), endpoint());
        let into = LegSpec {
            rtcp,
            ..incoming("camera", topic("hall/camera"), media)
        };
        let out = LegSpec {
            rtcp,
            ..outgoing("player", player.address(), "hall/#")
        };
        let into = brokers[0].add_leg(into).expect("a leg");
        let out = brokers[count as usize - 1].add_leg(out).expect("a leg");
        let stage = Self {
            brokers,
            camera,
            player,
            into,
            out,
        };
        stage.open();
        stage
    }

    /// Sends until something arrives, and takes what is on its way.
    pub(crate) fn open(&self) {
        self.player
            .rtp
            .set_read_timeout(Some(Duration::from_millis(20)))
            .expect("a timeout");
        let mut bytes = [0; 2_048];
        let mut probes = 0;
        eventually("the way from camera to player is open", || {
            probes += 1;
            self.camera.send(&packet(probes, b"probe"), &self.into);
            self.player.rtp.recv(&mut bytes).is_ok()
        });
        self.camera.send(&packet(1_000, b"last"), &self.into);
        self.player
            .rtp
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout");
        while receive(&self.player.rtp) != packet(1_000, b"last") {}
    }

    /// Sends packets with these numbers; all must arrive as they are.
    #[track_caller]
    pub(crate) fn play(&self, numbers: impl Iterator<Item = u16>) {
        for sequence in numbers {
            let sent = packet(sequence, &numbered(sequence.into(), 1_000));
            self.camera.send(&sent, &self.into);
            assert_eq!(receive(&self.player.rtp), sent);
        }
    }
}
