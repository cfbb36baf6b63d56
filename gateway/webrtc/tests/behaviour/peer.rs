//! A peer as a browser is one: full ICE, DTLS, SRTP, by the same library in its other role.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use sangam_wire::red::{self, Block};
use str0m::change::{SdpAnswer, SdpPendingOffer};
use str0m::channel::ChannelId;
use str0m::media::{Direction, MediaKind, Mid, Pt, Rid, Simulcast, SimulcastLayer};
use str0m::net::{Protocol, Receive, TcpType, Transmit};
use str0m::rtp::{ExtensionValues, RtpPacket, RtpWrite};
use str0m::{Candidate, Event, Input, Output, Rtc, RtcError};

use crate::bottleneck::Bottleneck;
use crate::stage::PATIENCE;

/// What a peer offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sends,
    Receives,
    /// VP8 in so many layers.
    SendsLayers(usize),
}

pub(crate) const RIDS: [&str; 3] = ["q", "h", "f"];
/// Pixels of the lowest layer; each has twice those of the one below.
pub(crate) const LOWEST_HEIGHT: u16 = 180;
/// Bytes of what is sent as a picture.
const PICTURE: usize = 600;
/// Units of the clock of what is sent as one packet of sound.
pub(crate) const SOUND: u16 = 960;

pub(crate) struct Peer {
    rtc: Rtc,
    way: Way,
    local: SocketAddr,
    offer: String,
    pending: Option<SdpPendingOffer>,
    /// Where it has moved to.
    fresh: Option<Candidate>,
    audio: Mid,
    video: Mid,
    channel: ChannelId,
    /// Of sound, and of each layer of the picture.
    sequences: [u64; 4],
    /// Pictures of each layer.
    shown: [u16; 3],
    timestamp: u32,
    pub(crate) connected: bool,
    pub(crate) closed: bool,
    pub(crate) received: Vec<RtpPacket>,
    pub(crate) key_requests: usize,
    /// The next so many datagrams of media are lost on their way here.
    pub(crate) loses: usize,
    /// One in so many datagrams of media is lost on its way from here; none if 0.
    pub(crate) drops: usize,
    /// One in so many datagrams of media is lost on its way here; none if 0.
    pub(crate) misses: usize,
    /// What all that comes here has to pass.
    pub(crate) path: Option<Bottleneck>,
    /// Datagrams of media on their way from here, and to here.
    media: [usize; 2],
}

enum Way {
    Udp(UdpSocket),
    /// Open once the answer has told where to; and what has come of the next unit.
    Tcp(Option<TcpStream>, Vec<u8>),
}

impl Peer {
    pub(crate) fn new(kind: Kind) -> Self {
        let (way, candidate) = udp();
        Self::by(way, candidate, (kind, false))
    }

    /// Prefers sound with the packet before in each.
    pub(crate) fn redundant(kind: Kind) -> Self {
        let (way, candidate) = udp();
        Self::by(way, candidate, (kind, true))
    }

    /// For a network that lets no UDP pass.
    pub(crate) fn by_tcp(kind: Kind) -> Self {
        // RFC 6544 section 4.5: an active candidate names the discard port.
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        let builder = Candidate::builder().tcp().host(local);
        let candidate = builder.tcptype(TcpType::Active).build().unwrap();
        Self::by(Way::Tcp(None, Vec::new()), candidate, (kind, false))
    }

    fn by(way: Way, candidate: Candidate, (kind, red): (Kind, bool)) -> Self {
        let local = candidate.addr();
        let mut rtc = Rtc::builder()
            .clear_codecs()
            .enable_opus(true, red)
            .enable_vp8(true)
            .set_rtp_mode(true)
            .build(Instant::now());
        rtc.add_local_candidate(candidate);
        let direction = match kind {
            Kind::Receives => Direction::RecvOnly,
            _ => Direction::SendOnly,
        };
        let layers = |count: usize| Simulcast {
            send: RIDS[..count]
                .iter()
                .map(|rid| SimulcastLayer::new(rid))
                .collect(),
            recv: Vec::new(),
        };
        let simulcast = match kind {
            Kind::SendsLayers(count) => Some(layers(count)),
            _ => None,
        };
        let mut api = rtc.sdp_api();
        let audio = api.add_media(MediaKind::Audio, direction, None, None, None);
        let video = api.add_media(MediaKind::Video, direction, None, None, simulcast);
        let channel = api.add_channel("chat".to_owned());
        let (offer, pending) = api.apply().unwrap();
        Self {
            rtc,
            way,
            local,
            offer: offer.to_sdp_string(),
            pending: Some(pending),
            fresh: None,
            audio,
            video,
            channel,
            sequences: [100; 4],
            shown: [0; 3],
            timestamp: 90_000,
            connected: false,
            closed: false,
            received: Vec::new(),
            key_requests: 0,
            loses: 0,
            drops: 0,
            misses: 0,
            path: None,
            media: [0; 2],
        }
    }

    /// The medium of its sound.
    pub(crate) fn audio(&self) -> Mid {
        self.audio
    }

    /// The medium of its picture.
    pub(crate) fn video(&self) -> Mid {
        self.video
    }

    pub(crate) fn offer(&self) -> String {
        self.offer.clone()
    }

    pub(crate) fn answer(&mut self, answer: &str) {
        let sdp = SdpAnswer::from_sdp_string(answer).unwrap();
        let pending = self.pending.take().unwrap();
        if let Way::Tcp(stream, _) = &mut self.way {
            let line = answer
                .lines()
                .find(|line| line.contains("tcptype passive"))
                .unwrap();
            let candidate = Candidate::from_sdp_string(&line[2..]).unwrap();
            let open = TcpStream::connect(candidate.addr()).unwrap();
            open.set_nodelay(true).unwrap();
            *stream = Some(open);
        }
        self.rtc.sdp_api().accept_answer(pending, sdp).unwrap();
    }

    /// Writes to a data channel; whether there is room for it.
    pub(crate) fn write_data(&mut self, bytes: &[u8]) -> bool {
        let channel = self.rtc.channel(self.channel);
        channel.is_some_and(|mut channel| channel.write(true, bytes).unwrap())
    }

    /// Another address, as when a telephone changes networks; the new offer restarts ICE.
    pub(crate) fn move_away(&mut self) -> String {
        let (way, candidate) = udp();
        self.local = candidate.addr();
        self.way = way;
        let mut api = self.rtc.sdp_api();
        api.ice_restart(false);
        let (offer, pending) = api.apply().unwrap();
        self.pending = Some(pending);
        self.fresh = Some(candidate);
        offer.to_sdp_string()
    }

    /// The new answer is the old one with other credentials.
    pub(crate) fn moved(&mut self, answer: &str, fragment: &str) {
        let value = |name: &str| {
            let line = fragment.lines().find(|line| line.starts_with(name));
            line.unwrap().to_owned()
        };
        let (ufrag, pass) = (value("a=ice-ufrag:"), value("a=ice-pwd:"));
        let lines = answer.lines().map(|line| match line {
            line if line.starts_with("a=ice-ufrag:") => ufrag.clone(),
            line if line.starts_with("a=ice-pwd:") => pass.clone(),
            // Candidates name the credentials that they belong to.
            line => line.split(" ufrag ").next().unwrap_or_default().to_owned(),
        });
        self.answer(&lines.map(|line| line + "\r\n").collect::<String>());
        // Only now has the library forgotten the old ones.
        let fresh = self.fresh.take().unwrap();
        self.rtc.add_local_candidate(fresh);
    }

    /// Sends a packet of sound, so loud.
    pub(crate) fn speak(&mut self, below: i8) {
        let values = ExtensionValues {
            audio_level: Some(-below),
            voice_activity: Some(true),
            ..ExtensionValues::default()
        };
        let pt = self.payload_type(self.audio);
        self.sound(pt, &[7; 80], values);
    }

    /// Sends a packet of sound that holds its number; and the one before it, if that was agreed on.
    pub(crate) fn count(&mut self) {
        let plain = self.payload_type(self.audio);
        let number = self.sequences[0] + 1;
        let (this, before) = (numbered(number), numbered(number - 1));
        let Some(red) = self.red() else {
            return self.sound(plain, &this, ExtensionValues::default());
        };
        let block = Block {
            payload_type: *plain,
            offset: SOUND,
            payload: &before,
        };
        let mut wrapped = [0; 128];
        let len = red::write(&[block], (*plain, &this), &mut wrapped).unwrap();
        self.sound(red, &wrapped[..len], ExtensionValues::default());
    }

    /// The payload type of redundant sound, if it was agreed on.
    pub(crate) fn red(&self) -> Option<Pt> {
        let mut known = self.rtc.codec_config().params().iter();
        known.find_map(|one| one.red())
    }

    /// Sends whatever as a packet of sound.
    pub(crate) fn sound(&mut self, pt: Pt, payload: &[u8], values: ExtensionValues) {
        self.sequences[0] += 1;
        self.timestamp = self.timestamp.wrapping_add(SOUND.into());
        let (mid, sequence, timestamp) = (self.audio, self.sequences[0], self.timestamp);
        let write = RtpWrite::new(pt, sequence.into(), timestamp, Instant::now(), payload);
        let mut api = self.rtc.direct_api();
        let sender = api.stream_tx_by_mid(mid, None).unwrap();
        sender.write_rtp(write.ext_vals(values));
        self.pass();
    }

    /// Sends a picture of one packet.
    pub(crate) fn show(&mut self, key: bool) {
        self.show_layer(None, key, PICTURE);
    }

    /// The same in a layer, so large.
    pub(crate) fn show_layer(&mut self, layer: Option<usize>, key: bool, size: usize) {
        self.timestamp = self.timestamp.wrapping_add(3_600);
        self.picture(layer, key, (1, size));
        self.pass();
    }

    /// Shows a picture in layers, if there are several; in each of so many packets of so many
    /// bytes.
    pub(crate) fn film(&mut self, layers: &[(usize, usize)], key: bool) {
        self.timestamp = self.timestamp.wrapping_add(3_600);
        for (layer, packets) in layers.iter().enumerate() {
            self.picture((layers.len() > 1).then_some(layer), key, *packets);
        }
        self.pass();
    }

    /// The number of the picture that was shown last.
    pub(crate) fn filmed(&self) -> u16 {
        self.shown[0]
    }

    /// Datagrams of media that came, lost ones and repetitions among them.
    pub(crate) fn media(&self) -> usize {
        self.media[1]
    }

    fn picture(&mut self, layer: Option<usize>, key: bool, (packets, size): (usize, usize)) {
        let (place, mid) = (layer.unwrap_or(0), self.video);
        self.shown[place] += 1;
        let pt = self.payload_type(mid);
        let [high, low] = (0x8000 | self.shown[place]).to_be_bytes();
        for packet in 0..packets {
            // RFC 7741: start of a partition, a picture id; then the inverse key frame bit.
            let begins = if packet == 0 { 0x90 } else { 0x80 };
            let mut payload = vec![begins, 0x80, high, low, u8::from(!key)];
            if key && packet == 0 {
                // RFC 6386 section 9.1: the rest of the frame tag, the start code, width and
                // height.
                let height: u16 = LOWEST_HEIGHT << place;
                let width = height / 9 * 16;
                payload.extend([0, 0, 0x9d, 0x01, 0x2a]);
                payload.extend([width.to_le_bytes(), height.to_le_bytes()].as_flattened());
            }
            payload.resize(size, 0x55);
            self.sequences[1 + place] += 1;
            let (sequence, now) = (self.sequences[1 + place].into(), Instant::now());
            let write = RtpWrite::new(pt, sequence, self.timestamp, now, payload);
            let write = write.marker(packet + 1 == packets).nackable(true);
            let rid = layer.map(|layer| Rid::from(RIDS[layer]));
            let mut api = self.rtc.direct_api();
            api.stream_tx_by_mid(mid, rid).unwrap().write_rtp(write);
        }
    }

    /// Pictures and sounds that were received.
    pub(crate) fn pictures(&self) -> Vec<&RtpPacket> {
        self.received
            .iter()
            .filter(|packet| packet.payload.len() >= 100)
            .collect()
    }

    pub(crate) fn sounds(&self) -> Vec<&RtpPacket> {
        self.received
            .iter()
            .filter(|packet| packet.payload.len() < 100)
            .collect()
    }

    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        self.until_with(what, done, || {});
    }

    /// The same, while others do something.
    #[track_caller]
    pub(crate) fn until_with(
        &mut self,
        what: &str,
        done: impl Fn(&Self) -> bool,
        mut meanwhile: impl FnMut(),
    ) {
        let end = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(Instant::now() < end, "in vain: {what}");
            meanwhile();
            self.pass();
        }
    }

    /// Lets some milliseconds pass.
    pub(crate) fn pass(&mut self) {
        self.rtc
            .handle_input(Input::Timeout(Instant::now()))
            .unwrap();
        self.drain();
        let mut buffer = [0; 65_536];
        while let Some((len, from)) = self.read(&mut buffer) {
            let bytes = &buffer[..len];
            if is_media(bytes) && self.is_missed() {
                continue;
            }
            match &mut self.path {
                Some(path) => path.enter(bytes, from),
                None => self.take(bytes, from),
            }
            self.take_late();
        }
        self.take_late();
    }

    /// Whether the next datagram of media is lost on its way here.
    fn is_missed(&mut self) -> bool {
        self.media[1] += 1;
        if self.loses > 0 {
            self.loses -= 1;
            return true;
        }
        self.misses > 0 && self.media[1].is_multiple_of(self.misses)
    }

    /// Takes what has passed the narrowest place of its path.
    fn take_late(&mut self) {
        while let Some((from, bytes)) = self.path.as_mut().and_then(Bottleneck::leave) {
            self.take(&bytes, from);
        }
    }

    fn take(&mut self, bytes: &[u8], from: SocketAddr) {
        let proto = match self.way {
            Way::Udp(_) => Protocol::Udp,
            Way::Tcp(..) => Protocol::Tcp,
        };
        if let Ok(receive) = Receive::new(proto, from, self.local, bytes) {
            let input = Input::Receive(Instant::now(), receive);
            self.rtc.handle_input(input).unwrap();
            self.drain();
        }
    }

    fn drain(&mut self) {
        loop {
            let output = match self.rtc.poll_output() {
                // The end came before the data channel was open, which the library holds an error.
                Err(RtcError::Sctp(_)) => return self.closed = true,
                output => output.unwrap(),
            };
            match output {
                Output::Timeout(_) => return,
                Output::Transmit(transmit) => self.write(&transmit),
                Output::Event(Event::Connected) => self.connected = true,
                Output::Event(Event::Closed) => self.closed = true,
                Output::Event(Event::RtpPacket(packet)) => self.received.push(packet),
                Output::Event(Event::KeyframeRequest(_)) => self.key_requests += 1,
                Output::Event(_) => {}
            }
        }
    }

    fn write(&mut self, transmit: &Transmit) {
        if is_media(&transmit.contents) {
            self.media[0] += 1;
            if self.drops > 0 && self.media[0].is_multiple_of(self.drops) {
                return;
            }
        }
        match &mut self.way {
            Way::Udp(socket) => {
                let _ = socket.send_to(&transmit.contents, transmit.destination);
            }
            Way::Tcp(stream, _) => {
                let len = (transmit.contents.len() as u16).to_be_bytes();
                let unit = [&len[..], &transmit.contents].concat();
                stream.as_mut().unwrap().write_all(&unit).unwrap();
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
        const WAIT: Duration = Duration::from_millis(2);
        match &mut self.way {
            Way::Udp(socket) => {
                socket.set_read_timeout(Some(WAIT)).unwrap();
                socket.recv_from(buffer).ok()
            }
            Way::Tcp(stream, begun) => {
                let stream = stream.as_mut()?;
                stream.set_read_timeout(Some(WAIT)).unwrap();
                let mut piece = [0; 4_096];
                match stream.read(&mut piece) {
                    Ok(len) => begun.extend(&piece[..len]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => panic!("{error}"),
                }
                let len = usize::from(u16::from_be_bytes(*begun.first_chunk()?));
                let unit = begun.get(2..2 + len)?;
                buffer[..len].copy_from_slice(unit);
                begun.drain(..2 + len);
                Some((len, stream.peer_addr().unwrap()))
            }
        }
    }

    fn payload_type(&self, mid: Mid) -> Pt {
        self.rtc.media(mid).unwrap().remote_pts()[0]
    }
}

/// A packet of sound that holds its number; shorter than any picture, twice as well.
fn numbered(number: u64) -> [u8; 40] {
    let mut payload = [7; 40];
    payload[..8].copy_from_slice(&number.to_be_bytes());
    payload
}

/// The number that such a packet holds.
pub(crate) fn number(payload: &[u8]) -> u64 {
    u64::from_be_bytes(*payload.first_chunk().unwrap())
}

/// RFC 7983 section 7, and RFC 5761 section 4 for RTCP.
pub(crate) fn is_media(bytes: &[u8]) -> bool {
    matches!(bytes, [128..=191, second, ..] if !(192..=223).contains(second))
}

fn udp() -> (Way, Candidate) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let local = socket.local_addr().unwrap();
    (Way::Udp(socket), Candidate::host(local, "udp").unwrap())
}
