//! One peer: the library's machine and a socket.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use sangam_io::udp::{Address, RecvBatch, SendBatch, SendReport, UdpOptions, UdpSocket};
use str0m::change::SdpAnswer;
use str0m::media::{Direction, Frequency, MediaKind, Mid};
use str0m::net::{Protocol, Receive, Transmit};
use str0m::rtp::RtpWrite;
use str0m::{Candidate, Event, Input, Output, Rtc};

use super::Medium;
use super::sender::Beat;
use crate::error::Error;
use crate::process::Broker;

/// A burst of sound and picture of some ten frames; what a reader that is late may have to hold.
const RECV_BUFFER: usize = 512 << 10;

/// What a peer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Publishes.
    Sends,
    /// Plays, and has joined with the first packet of this.
    Watches(Medium),
}

/// One peer.
pub(crate) struct Peer {
    rtc: Rtc,
    pub(super) socket: UdpSocket,
    mids: [Mid; 2],
    sequences: [u64; 2],
    part: Part,
    /// When it was due to join.
    since: Instant,
    joined: bool,
}

/// What the peers of one thread have in common.
pub(super) struct Hub {
    pub(super) tally: Tally,
    sender: SendBatch,
    outbox: Vec<Transmit>,
}

/// What happened to the peers of one thread.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Peers whose ICE and DTLS came to an end.
    pub(super) connected: usize,
    /// Packets of each medium, each once.
    pub(super) received: [u64; 2],
    /// From when a peer was due to join until its first packet.
    pub(super) joins: Vec<Duration>,
    /// Somebody needs a picture that decodes by itself.
    pub(super) key_wanted: bool,
}

impl Peer {
    /// Joins by WHIP or WHEP, as was due at `since`; it still has to connect.
    ///
    /// # Errors
    /// [`Error::Broker`] if the broker refuses, [`Error::Join`] if it says what cannot be used.
    pub(crate) fn join(
        broker: &Broker,
        part: Part,
        (topic, since): (&str, Instant),
    ) -> Result<Self, Error> {
        let options = UdpOptions {
            recv_buffer: RECV_BUFFER,
            gro: true,
            ..UdpOptions::default()
        };
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into(), &options);
        let socket = socket.map_err(|error| Error::System("a WebRTC peer's socket", error))?;
        let mut rtc = Rtc::builder()
            .clear_codecs()
            .enable_opus(true, false)
            .enable_vp8(true)
            .set_rtp_mode(true)
            .build(Instant::now());
        let wrong = |what: String| Error::Join(format!("a WebRTC peer: {what}"));
        let candidate = Candidate::host(socket.local_addr(), "udp");
        rtc.add_local_candidate(candidate.map_err(|error| wrong(error.to_string()))?);
        let (direction, verb) = match part {
            Part::Sends => (Direction::SendOnly, "whip"),
            Part::Watches(_) => (Direction::RecvOnly, "whep"),
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
            mids,
            sequences: [0; 2],
            part,
            since,
            joined: false,
        })
    }

    /// Sends one beat, the `number`-th; how many packets.
    pub(super) fn beat(&mut self, beat: &Beat, (number, key): (u64, bool), hub: &mut Hub) -> usize {
        let place = beat.medium as usize;
        let mid = self.mids[place];
        let media = self.rtc.media(mid);
        let Some(pt) = media.and_then(|media| media.remote_pts().first().copied()) else {
            return 0;
        };
        let units = beat.medium.clock_rate() * beat.every.as_millis() as u64 / 1_000;
        let timestamp = (number * units) as u32;
        let video = beat.medium == Medium::Video;
        for packet in 0..beat.packets {
            self.sequences[place] += 1;
            let payload = beat.payload(packet == 0, key);
            let sequence = self.sequences[place].into();
            let write = RtpWrite::new(pt, sequence, timestamp, Instant::now(), payload)
                .marker(video && packet + 1 == beat.packets)
                .nackable(video);
            if let Some(sender) = self.rtc.direct_api().stream_tx_by_mid(mid, None) {
                sender.write_rtp(write);
            }
        }
        self.turn(hub);
        beat.packets
    }

    /// Takes what has arrived; when to come back.
    pub(super) fn read(&mut self, batch: &mut RecvBatch, hub: &mut Hub) -> Option<Instant> {
        // What a socket that fails would have brought is lost on the way.
        let _ = self.socket.recv(batch);
        let now = Instant::now();
        let to = self.socket.local_addr();
        for datagram in batch.datagrams() {
            let from = datagram.source;
            let receive = Receive::new(Protocol::Udp, from, to, datagram.bytes);
            let input = receive.map(|receive| Input::Receive(now, receive));
            if !input.is_ok_and(|input| self.rtc.handle_input(input).is_ok()) {
                continue;
            }
            // A packet of media waits in the library until it is taken, and no other may come
            // before; what else there is to say may wait for the end of the batch.
            while let Ok(output) = self.rtc.poll_output() {
                let media = matches!(output, Output::Event(Event::RtpPacket(_)));
                if self.take(output, hub).is_some() || media {
                    break;
                }
            }
        }
        self.drain(hub)
    }

    /// Lets time pass; when to come back.
    pub(super) fn turn(&mut self, hub: &mut Hub) -> Option<Instant> {
        self.rtc.handle_input(Input::Timeout(Instant::now())).ok()?;
        self.drain(hub)
    }

    /// Takes all that the library has to say; when to come back.
    fn drain(&mut self, hub: &mut Hub) -> Option<Instant> {
        let next = loop {
            let output = self.rtc.poll_output().ok()?;
            if let Some(at) = self.take(output, hub) {
                break at;
            }
        };
        hub.flush(&self.socket);
        Some(next)
    }

    /// Takes one thing that the library says; when to come back, if it has said all.
    fn take(&mut self, output: Output, hub: &mut Hub) -> Option<Instant> {
        match output {
            Output::Timeout(at) => return Some(at),
            Output::Transmit(transmit) => hub.outbox.push(transmit),
            Output::Event(event) => self.event(&event, &mut hub.tally),
        }
        None
    }

    fn event(&mut self, event: &Event, tally: &mut Tally) {
        match event {
            Event::Connected => tally.connected += 1,
            Event::KeyframeRequest(_) => tally.key_wanted = true,
            Event::RtpPacket(packet) => {
                let sound = packet.time.frequency() == Frequency::FORTY_EIGHT_KHZ;
                let medium = if sound { Medium::Audio } else { Medium::Video };
                tally.received[medium as usize] += 1;
                if !self.joined && self.part == Part::Watches(medium) {
                    self.joined = true;
                    tally.joins.push(self.since.elapsed());
                }
            }
            _ => {}
        }
    }
}

impl Hub {
    pub(super) fn new() -> Self {
        Self {
            tally: Tally::default(),
            sender: SendBatch::new(),
            outbox: Vec::new(),
        }
    }

    fn flush(&mut self, socket: &UdpSocket) {
        if self.outbox.is_empty() {
            return;
        }
        let packets = self.outbox.iter();
        let packets = packets.map(|one| (Address::from(one.destination), &one.contents[..]));
        // What the kernel does not take is lost on the way.
        self.sender
            .send(socket, packets, &mut SendReport::default());
        self.outbox.clear();
    }
}
