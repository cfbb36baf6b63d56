//! A client of RTSP that takes films by datagrams from one node or many, and knows what came.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Bytes of a datagram of a film.
pub(crate) const DATAGRAM: usize = 1_316;
/// A node that numbers nothing says this instead: it sends something again.
const UNCOUNTED: u32 = u32::MAX;
/// How long one packet is waited for before whatever else is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How often lost packets are asked for, and how many at once.
const ASK_EVERY: Duration = Duration::from_millis(100);
const ASK_MAX: usize = 32;

/// An answer: its status, and all of it.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.text.lines();
        lines.find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// A number within a header: `name=NUMBER`.
    #[track_caller]
    pub(crate) fn number(&self, header: &str, name: &str) -> u64 {
        let value = self
            .header(header)
            .unwrap_or_else(|| panic!("{}", self.text));
        let mut parts = value.split(';').filter_map(|part| part.split_once('='));
        let found = parts.find(|(known, _)| known.trim() == name);
        found.unwrap().1.parse().unwrap()
    }
}

/// A packet of a film.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) kind: u8,
    pub(crate) sequence: u16,
    pub(crate) ssrc: u32,
    /// Node and local number.
    pub(crate) local: Option<(u16, u32)>,
    pub(crate) data: Vec<u8>,
    pub(crate) at: Instant,
}

/// A client and its session.
pub(crate) struct Client {
    stream: TcpStream,
    pub(crate) rtp: UdpSocket,
    pub(crate) rtcp: UdpSocket,
    base: String,
    session: String,
    next: u32,
    pub(crate) ssrc: u32,
    /// Of each node: where RTCP goes, and the source of its numbers.
    pub(crate) nodes: BTreeMap<u16, (SocketAddr, u32)>,
}

impl Client {
    pub(crate) fn connect(server: SocketAddr, film: &str) -> Self {
        let stream = TcpStream::connect(server).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let rtp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let rtcp = UdpSocket::bind("127.0.0.1:0").unwrap();
        rtp.set_read_timeout(Some(LOOK)).unwrap();
        rtcp.set_read_timeout(Some(LOOK)).unwrap();
        Self {
            stream,
            rtp,
            rtcp,
            base: format!("rtsp://{server}/archive/{film}"),
            session: String::new(),
            next: 1,
            ssrc: 0,
            nodes: BTreeMap::new(),
        }
    }

    /// Asks, with further headers and a body.
    pub(crate) fn ask(&mut self, method: &str, (url, more): (&str, &str), body: &str) -> Answer {
        let mut text = format!(
            "{method} {}{url} RTSP/1.0\r\nCSeq: {}\r\n",
            self.base, self.next
        );
        self.next += 1;
        if !self.session.is_empty() {
            text += &format!("Session: {}\r\n", self.session);
        }
        text += more;
        if !body.is_empty() {
            text += "Content-Type: text/parameters\r\n";
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text += &format!("\r\n{body}");
        self.stream.write_all(text.as_bytes()).unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            said.push(byte[0]);
        }
        let mut text = String::from_utf8(said).unwrap();
        let mut answer = Answer {
            status: text.split(' ').nth(1).unwrap().parse().unwrap(),
            text: text.clone(),
        };
        if let Some(len) = answer.header("Content-Length") {
            let mut body = vec![0; len.parse().unwrap()];
            self.stream.read_exact(&mut body).unwrap();
            text += &String::from_utf8(body).unwrap();
            answer.text = text;
        }
        answer
    }

    /// Sets up, from all nodes if `is_direct`.
    pub(crate) fn set_up(&mut self, is_direct: bool) -> Answer {
        let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
        // RFC 2326 wants neighbours, but takes any two.
        let ports = format!("{}-{}", port(&self.rtp), port(&self.rtcp));
        let mut more = format!("Transport: RTP/AVPF;unicast;client_port={ports}\r\n");
        if is_direct {
            more += "Require: sangam.nodes\r\n";
        }
        let answer = self.ask("SETUP", ("/trackID=0", &more), "");
        if answer.status != 200 {
            return answer;
        }
        let session = answer.header("Session").unwrap();
        self.session = session.split(';').next().unwrap().to_owned();
        let transport = answer.header("Transport").unwrap();
        let ssrc = transport.rsplit("ssrc=").next().unwrap();
        self.ssrc = u32::from_str_radix(ssrc, 16).unwrap();
        let nodes = answer.header("Sangam-Nodes").unwrap_or_default();
        for node in nodes.split(", ").filter(|node| !node.is_empty()) {
            let field = |name: &str| {
                let rest = node.split_once(&format!(";{name}=")).unwrap().1;
                rest.split(';').next().unwrap().trim_matches('"').to_owned()
            };
            let number = node.split(';').next().unwrap().parse().unwrap();
            let source = u32::from_str_radix(&field("ssrc"), 16).unwrap();
            self.nodes
                .insert(number, (field("rtcp").parse().unwrap(), source));
        }
        answer
    }

    /// The next packet, if there is one soon.
    pub(crate) fn receive(&self) -> Option<Packet> {
        let mut bytes = [0; 2_000];
        let len = self.rtp.recv(&mut bytes).ok()?;
        let bytes = &bytes[..len];
        let long = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let has_extension = bytes[0] & 0x10 != 0;
        let local = has_extension.then(|| {
            assert_eq!(bytes[12..17], [0xbe, 0xde, 0, 2, 0x15]);
            (u16::from_be_bytes([bytes[17], bytes[18]]), long(19))
        });
        Some(Packet {
            kind: bytes[1] & 0x7f,
            sequence: u16::from_be_bytes([bytes[2], bytes[3]]),
            ssrc: long(8),
            local,
            data: bytes[if has_extension { 24 } else { 12 }..].to_vec(),
            at: Instant::now(),
        })
    }

    /// Packets until the end. A node is asked again for what its own numbers say was lost, as any
    /// client would: a socket that is not read for a moment drops packets. What a node that died
    /// never sent has none of its numbers and is not asked for.
    pub(crate) fn receive_all(&self, mut look: impl FnMut(&Packet)) -> Vec<Packet> {
        let mut next: BTreeMap<u16, u32> = BTreeMap::new();
        let mut missing: BTreeSet<(u16, u32)> = BTreeSet::new();
        let mut asked = Instant::now();
        self.receive_until_goodbye(|packet| {
            look(packet);
            if let Some((node, local)) = packet.local.filter(|(_, local)| *local != UNCOUNTED) {
                missing.remove(&(node, local));
                let next = next.entry(node).or_default();
                missing.extend((*next..local).map(|lost| (node, lost)));
                *next = (*next).max(local + 1);
            }
            if asked.elapsed() >= ASK_EVERY {
                asked = Instant::now();
                for (node, local) in missing.iter().take(ASK_MAX) {
                    let (to, source) = self.nodes[node];
                    self.report_lost(to, source, *local as u16);
                }
            }
        })
    }

    /// Packets until the server says goodbye, or nothing came for five seconds.
    fn receive_until_goodbye(&self, mut look: impl FnMut(&Packet)) -> Vec<Packet> {
        let mut all = Vec::new();
        let mut last = Instant::now();
        while last.elapsed() < Duration::from_secs(5) {
            match self.receive() {
                Some(packet) => {
                    last = Instant::now();
                    look(&packet);
                    all.push(packet);
                }
                None if self.is_over() => break,
                None => {}
            }
        }
        all
    }

    /// Whether a goodbye (RFC 3550 section 6.6) has come.
    fn is_over(&self) -> bool {
        let mut bytes = [0; 2_000];
        while let Ok(len) = self.rtcp.recv(&mut bytes) {
            let mut rest = &bytes[..len];
            while let [_, kind, high, low, ..] = *rest {
                if kind == 203 {
                    return true;
                }
                let words = usize::from(u16::from_be_bytes([high, low]));
                rest = rest.get(4 + 4 * words..).unwrap_or_default();
            }
        }
        false
    }

    /// Says that a packet of a source was lost (RFC 4585 section 6.2.1).
    pub(crate) fn report_lost(&self, to: SocketAddr, source: u32, number: u16) {
        let mut nack = vec![0x81, 205, 0, 3];
        nack.extend(9_u32.to_be_bytes());
        nack.extend(source.to_be_bytes());
        nack.extend(number.to_be_bytes());
        nack.extend([0, 0]);
        self.rtcp.send_to(&nack, to).unwrap();
    }

    /// The packet that is sent again.
    #[track_caller]
    pub(crate) fn again(&self, is_it: impl Fn(&Packet) -> bool) -> Packet {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(5) {
            if let Some(packet) = self.receive().filter(&is_it) {
                return packet;
            }
        }
        panic!("nothing is sent again");
    }
}

/// The datagrams of a film by their numbers, where the first has the number `first` there and
/// `sequence` in packets; those that came twice are counted.
pub(crate) fn in_order(
    packets: &[Packet],
    (first, sequence): (u64, u16),
) -> (BTreeMap<u64, &Packet>, usize) {
    let mut found = BTreeMap::new();
    let (mut twice, mut high) = (0, first);
    for packet in packets {
        let low = sequence.wrapping_add((high - first) as u16);
        let ahead = i64::from(packet.sequence.wrapping_sub(low) as i16);
        let number = high.checked_add_signed(ahead).unwrap();
        high = high.max(number);
        twice += usize::from(found.insert(number, packet).is_some());
    }
    (found, twice)
}
