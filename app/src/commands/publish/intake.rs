//! One stream on its way in: RTP and RTCP sockets on one side, a publisher on the other.

use std::io;
use std::net::SocketAddr;

use sangam_client::{Numbering, Outgoing, Publisher};
use sangam_io::poll::{Interest, Poller};
use sangam_io::udp::{RecvBatch, UdpOptions, UdpSocket};
use sangam_model::limits::BURST_MAX;
use sangam_model::{Class, MediaInfo};
use sangam_wire::rtp::{Encoding, FrameMarker, Packet};
use sangam_wire::{Flags, rtcp};

/// Kernel buffer for what arrives while this thread sleeps: more than a large key frame.
const RECV_BUFFER: usize = 1 << 20;

/// The sockets of one stream.
#[derive(Debug)]
pub(super) struct Sockets {
    /// RTP, and RTCP if that comes on the same port.
    pub(super) rtp: UdpSocket,
    /// RTCP on a port of its own.
    pub(super) rtcp: UdpSocket,
}

/// What was published of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::commands) struct Sent {
    /// Its topic.
    pub(in crate::commands) topic: String,
    /// Its SDP encoding name.
    pub(in crate::commands) encoding: String,
    /// RTP packets taken.
    pub(in crate::commands) packets: u64,
    /// Bytes of those packets.
    pub(in crate::commands) bytes: u64,
    /// Frames that decode by themselves.
    pub(in crate::commands) key_frames: u64,
    /// Packets that were not sent, or were no RTP of this stream.
    pub(in crate::commands) dropped: u64,
}

/// One stream from socket to publisher.
#[derive(Debug)]
pub(super) struct Intake {
    sockets: Sockets,
    publisher: Publisher,
    marker: FrameMarker,
    media: MediaInfo,
    pub(super) sent: Sent,
}

/// The packets of a frame, as far as they are there.
struct Burst<'a> {
    packets: [Outgoing<'a>; BURST_MAX],
    count: usize,
}

impl Sockets {
    /// Sockets on two ports that the kernel chooses.
    pub(super) fn any() -> io::Result<Self> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Ok(Self {
            rtp: bind(any)?,
            rtcp: bind(any)?,
        })
    }

    /// Sockets on a given port for RTP and the next for RTCP.
    pub(super) fn at(address: SocketAddr) -> io::Result<Self> {
        let rtp = bind(address)?;
        let mut next = rtp.local_addr();
        next.set_port(next.port().wrapping_add(1));
        Ok(Self {
            rtp,
            rtcp: bind(next)?,
        })
    }
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    UdpSocket::bind(
        address,
        &UdpOptions {
            recv_buffer: RECV_BUFFER,
            ..UdpOptions::default()
        },
    )
}

impl Intake {
    /// Joins sockets and publisher.
    pub(super) fn new(sockets: Sockets, mut publisher: Publisher) -> Self {
        publisher.set_numbering(Numbering::Rtp);
        let media = publisher.media().clone();
        let sent = Sent {
            topic: publisher.topic().to_string(),
            encoding: media.encoding.clone(),
            ..Sent::default()
        };
        let marker = FrameMarker::new(Encoding::from_name(&media.encoding));
        Self {
            sockets,
            publisher,
            marker,
            media,
            sent,
        }
    }

    /// Watches both sockets under two tokens from `token` on.
    pub(super) fn watch(&self, poller: &Poller, token: u64) -> io::Result<()> {
        poller.add(self.sockets.rtp.fd(), token, Interest::Read)?;
        poller.add(self.sockets.rtcp.fd(), token + 1, Interest::Read)
    }

    /// Takes what has arrived on the RTP socket, or the RTCP socket.
    pub(super) fn take(&mut self, on_rtcp: bool, batch: &mut RecvBatch) -> io::Result<()> {
        let socket = if on_rtcp {
            &self.sockets.rtcp
        } else {
            &self.sockets.rtp
        };
        if socket.recv(batch)? == 0 {
            return Ok(());
        }
        let mut burst = Burst {
            packets: [Outgoing::default(); BURST_MAX],
            count: 0,
        };
        for datagram in batch.datagrams() {
            self.datagram(datagram.bytes, &mut burst);
        }
        self.flush(&mut burst);
        Ok(())
    }

    fn datagram<'a>(&mut self, bytes: &'a [u8], burst: &mut Burst<'a>) {
        if rtcp::is_rtcp(bytes) {
            if let Err(error) = self.publisher.send_rtcp(bytes) {
                tracing::debug!(%error, "RTCP not sent");
            }
            return;
        }
        let packet = match Packet::decode(bytes) {
            Ok(packet) if packet.header.payload_type == self.media.payload_type => packet,
            _ => {
                self.sent.dropped += 1;
                return;
            }
        };
        let flags = match self.media.class {
            Class::Video => self.marker.flags(&packet),
            _ => Flags::NONE,
        };
        self.sent.packets += 1;
        self.sent.bytes += bytes.len() as u64;
        // A key frame is known at the latest at its end.
        self.sent.key_frames += u64::from(flags.contains(Flags::KEY.with(Flags::FRAME_END)));
        burst.packets[burst.count] = Outgoing {
            flags,
            layer: 0,
            payload: bytes,
        };
        burst.count += 1;
        if burst.count == BURST_MAX || flags.contains(Flags::FRAME_END) {
            self.flush(burst);
        }
    }

    fn flush(&mut self, burst: &mut Burst<'_>) {
        let packets = &burst.packets[..burst.count];
        if packets.is_empty() {
            return;
        }
        if let Err(error) = self.publisher.send_burst(packets) {
            tracing::debug!(%error, "a burst was not sent whole");
            self.sent.dropped += packets.len() as u64;
        }
        burst.count = 0;
    }
}
