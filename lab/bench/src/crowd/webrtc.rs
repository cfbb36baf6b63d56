//! WebRTC peers as load: real ICE, DTLS and SRTP, with the receiver reports, NACKs and transport
//! feedback that a browser sends.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use sangam_io::clock;
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::timer::Wheel;
use str0m::change::SdpAnswer;
use str0m::media::{Direction, MediaKind, Mid};
use str0m::net::{Protocol, Receive};
use str0m::rtp::RtpWrite;
use str0m::{Candidate, Event, Input, Output, Rtc};

use crate::error::Error;
use crate::process::Broker;

/// How long all peers together may take to connect.
const CONNECT_PATIENCE: Duration = Duration::from_secs(60);
/// The clocks of picture and sound (RFC 7741, RFC 7587).
const CLOCKS: [u64; 2] = [90_000, 48_000];

/// What a peer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Sends,
    Watches,
}

/// A stream that is sent: so many packets of so many bytes, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    pub(crate) video: bool,
    pub(crate) packets: usize,
    pub(crate) bytes: usize,
    pub(crate) every: Duration,
}

/// One peer.
pub(crate) struct Peer {
    rtc: Rtc,
    socket: UdpSocket,
    local: SocketAddr,
    mids: [Mid; 2],
    sequence: u64,
    connected: bool,
    /// Packets of media received.
    pub(crate) received: u64,
}

/// Peers in one thread.
pub(crate) struct Peers {
    all: Vec<Peer>,
    poller: Poller,
    events: Events,
    wheel: Wheel<u32>,
    due: Vec<u32>,
    buffer: Vec<u8>,
}

impl Peer {
    /// Joins by WHIP or WHEP; it still has to connect.
    pub(crate) fn join(broker: &Broker, part: Part, topic: &str) -> Result<Self, Error> {
        let failed = |error| Error::System("a socket of a WebRTC peer", error);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        let mut rtc = Rtc::builder()
            .clear_codecs()
            .enable_opus(true, false)
            .enable_vp8(true)
            .set_rtp_mode(true)
            .build(Instant::now());
        let wrong = |what: String| Error::Join(format!("a WebRTC peer: {what}"));
        let candidate = Candidate::host(local, "udp").map_err(|error| wrong(error.to_string()))?;
        rtc.add_local_candidate(candidate);
        let (direction, verb) = match part {
            Part::Sends => (Direction::SendOnly, "whip"),
            Part::Watches => (Direction::RecvOnly, "whep"),
        };
        let mut api = rtc.sdp_api();
        let mids = [MediaKind::Video, MediaKind::Audio]
            .map(|kind| api.add_media(kind, direction, None, None, None));
        let (offer, pending) = api.apply().ok_or_else(|| wrong("no offer".to_owned()))?;
        let path = format!("/v1/{verb}/{topic}");
        let answer = broker.post(&path, "application/sdp", &offer.to_sdp_string())?;
        let answer = SdpAnswer::from_sdp_string(&answer);
        let answer = answer.map_err(|error| wrong(error.to_string()))?;
        let accepted = rtc.sdp_api().accept_answer(pending, answer);
        accepted.map_err(|error| wrong(error.to_string()))?;
        Ok(Self {
            rtc,
            socket,
            local,
            mids,
            sequence: 0,
            connected: false,
            received: 0,
        })
    }

    /// Sends one beat, the `number`-th; how many packets.
    fn beat(&mut self, beat: &Beat, number: u64) -> usize {
        let medium = usize::from(!beat.video);
        let mid = self.mids[medium];
        let Some(pt) = self
            .rtc
            .media(mid)
            .and_then(|media| media.remote_pts().first().copied())
        else {
            return 0;
        };
        let units = CLOCKS[medium] * beat.every.as_millis() as u64 / 1_000;
        let timestamp = (number * units) as u32;
        for packet in 0..beat.packets {
            self.sequence += 1;
            let first = packet == 0;
            let mut payload = vec![0x55; beat.bytes];
            // RFC 7741: a new partition begins; every picture passes as a key frame.
            payload[0] = if first { 0x10 } else { 0 };
            payload[1] = 0;
            let sequence = self.sequence.into();
            let write = RtpWrite::new(pt, sequence, timestamp, Instant::now(), payload)
                .marker(beat.video && packet + 1 == beat.packets)
                .nackable(beat.video);
            let mut api = self.rtc.direct_api();
            if let Some(sender) = api.stream_tx_by_mid(mid, None) {
                sender.write_rtp(write);
            }
        }
        self.turn(None);
        beat.packets
    }

    /// Lets time pass, with or without a datagram; when to come back.
    fn turn(&mut self, datagram: Option<(&[u8], SocketAddr)>) -> Option<Instant> {
        let now = Instant::now();
        let input = match datagram {
            None => Input::Timeout(now),
            Some((bytes, from)) => {
                let receive = Receive::new(Protocol::Udp, from, self.local, bytes);
                Input::Receive(now, receive.ok()?)
            }
        };
        self.rtc.handle_input(input).ok()?;
        loop {
            match self.rtc.poll_output().ok()? {
                Output::Timeout(at) => return Some(at),
                Output::Transmit(transmit) => {
                    // What the kernel does not take is lost on the way.
                    let _ = self
                        .socket
                        .send_to(&transmit.contents, transmit.destination);
                }
                Output::Event(Event::Connected) => self.connected = true,
                Output::Event(Event::RtpPacket(_)) => self.received += 1,
                Output::Event(_) => {}
            }
        }
    }
}

impl Peers {
    /// Takes peers that have joined, and waits until they are connected.
    pub(crate) fn connect(all: Vec<Peer>) -> Result<Self, Error> {
        let failed = |error| Error::System("polling WebRTC peers", error);
        let poller = Poller::new().map_err(failed)?;
        for (number, peer) in (0..).zip(&all) {
            poller
                .add(peer.socket.as_fd(), number, Interest::Read)
                .map_err(failed)?;
        }
        let mut peers = Self {
            due: (0..all.len() as u32).collect(),
            all,
            poller,
            events: Events::with_capacity(256),
            wheel: Wheel::new(clock::now()),
            buffer: vec![0; 2_048],
        };
        let end = Instant::now() + CONNECT_PATIENCE;
        while !peers.all.iter().all(|peer| peer.connected) {
            if Instant::now() > end {
                let missing = peers.all.iter().filter(|peer| !peer.connected).count();
                return Err(Error::Join(format!(
                    "{missing} WebRTC peers did not connect"
                )));
            }
            peers.pass(Duration::from_millis(10));
        }
        Ok(peers)
    }

    /// Serves all peers for at most so long.
    pub(crate) fn pass(&mut self, most: Duration) {
        let now = clock::now();
        let wait = self
            .wheel
            .deadline()
            .map_or(most, |at| (at - now).min(most));
        let wait = if self.due.is_empty() {
            wait
        } else {
            Duration::ZERO
        };
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        // An interrupted wait is a short one.
        let _ = self.poller.wait(&mut events, Some(wait));
        for event in events.iter() {
            self.read(event.token as u32);
        }
        self.events = events;
        self.wheel.expired(clock::now(), &mut self.due);
        for number in std::mem::take(&mut self.due) {
            let next = self.all[number as usize].turn(None);
            self.wake_at(number, next);
        }
    }

    /// Packets of media that all have received.
    pub(crate) fn received(&self) -> u64 {
        self.all.iter().map(|peer| peer.received).sum()
    }

    /// Sends one beat by every peer; how many packets.
    pub(crate) fn beat(&mut self, beat: &Beat, number: u64) -> usize {
        self.all
            .iter_mut()
            .map(|peer| peer.beat(beat, number))
            .sum()
    }

    fn read(&mut self, number: u32) {
        let mut next = None;
        loop {
            let peer = &mut self.all[number as usize];
            match peer.socket.recv_from(&mut self.buffer) {
                Ok((len, from)) => next = peer.turn(Some((&self.buffer[..len], from))).or(next),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => break,
            }
        }
        self.wake_at(number, next);
    }

    fn wake_at(&mut self, number: u32, at: Option<Instant>) {
        if let Some(at) = at {
            let ahead = at.saturating_duration_since(Instant::now());
            self.wheel.set(number, clock::now() + ahead);
        }
    }
}
