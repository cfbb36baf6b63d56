//! Films without pictures, and a client.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use sangam_archive::record::{Kind, Record, TrackInfo};
use sangam_archive::{Archive, Log, RecordingId};
use sangam_model::{Class, MediaInfo, Topic};
use sangam_rtsp::{Links, Rtsp, Settings};
use sangam_wire::Flags;
use sangam_wire::rtp::Header;
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
const MS: u64 = 1_000_000;
/// When the recording began.
const BEGIN: u64 = 1_700_000_000_000 * MS;

/// A server with one film, `film`: video with a packet every 20 ms, the first of each second a
/// key frame, and sound with a packet every 20 ms.
pub(crate) struct Stage {
    pub(crate) server: Rtsp,
    pub(crate) url: String,
    pub(crate) folder: TempDir,
}

/// A client.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    sequence: u32,
    /// The version that it speaks, such as "1.0".
    pub(crate) version: &'static str,
    /// Packets that came, with their channels.
    pub(crate) packets: Vec<(u8, Vec<u8>)>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// By their names in lower case; the first line has none.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

fn track(recording: RecordingId, class: Class, encoding: &str) -> TrackInfo {
    let is_video = class == Class::Video;
    TrackInfo {
        reliable: false,
        recording,
        topic: Topic::new(&format!("test/{}", class.name())).unwrap(),
        media: MediaInfo {
            class,
            payload_type: if is_video { 96 } else { 111 },
            channels: if is_video { 0 } else { 2 },
            clock_rate: if is_video { 90_000 } else { 48_000 },
            encoding: encoding.to_owned(),
            fmtp: String::new(),
        },
    }
}

impl Stage {
    /// A film of so many packets of each track.
    pub(crate) fn new(packets: u64) -> Self {
        Self::with(packets, 100, Settings::default())
    }

    /// The same with packets of so many bytes in the picture.
    pub(crate) fn with(packets: u64, len: usize, settings: Settings) -> Self {
        let folder = TempDir::new().unwrap();
        let archive = Archive::new(folder.path());
        let mut log = Log::new(archive.medium().unwrap(), (BEGIN / MS, 1)).unwrap();
        let id = RecordingId(0xabcd << 48);
        log.begin(id, "film", BEGIN).unwrap();
        let video = log.track(track(id, Class::Video, "H264"));
        let audio = log.track(track(id, Class::Audio, "opus"));
        for number in 0..packets {
            // The first comes a second after the begin.
            let time = BEGIN + 1_000 * MS + number * 20 * MS;
            let key = Flags::KEY.with(Flags::FRAME_START).bits();
            let flags = if number % 50 == 0 { key } else { 0 };
            for (track, (payload_type, tick), len) in
                [(video, (96, 1_800), len), (audio, (111, 960), 50)]
            {
                let header = Header {
                    marker: false,
                    payload_type,
                    sequence: (65_500 + number) as u16,
                    timestamp: (number * tick) as u32,
                    ssrc: track,
                };
                let body = [&header.encode()[..], &vec![number as u8; len]].concat();
                let record = Record::new(Kind::Packet, time, &body);
                log.packet(&Record {
                    track,
                    flags,
                    ..record
                });
            }
            log.tick(time);
        }
        let end = BEGIN + (1_000 + packets * 20) * MS;
        log.end(id, end);
        log.close(end);
        let settings = Settings {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            archive: folder.path().to_owned(),
            ..settings
        };
        let server = Rtsp::start(settings, Links::default());
        let server = server.unwrap();
        let url = format!("rtsp://{}/archive/film", server.addresses()[0]);
        Self {
            server,
            url,
            folder,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.server.addresses()[0])
    }

    /// A client that has set up both tracks within its connection, and the session's header.
    pub(crate) fn set_up(&self) -> (Client, String) {
        let mut client = self.client();
        let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1";
        let video = format!("{}/trackID=0", self.url);
        let answer = client.ask("SETUP", &video, &[transport]);
        assert_eq!(answer.status, 200, "{answer:?}");
        let session = answer.headers["session"].split(';').next().unwrap();
        let session = format!("Session: {session}");
        let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=2-3";
        let audio = format!("{}/trackID=1", self.url);
        let answer = client.ask("SETUP", &audio, &[transport, &session]);
        assert_eq!(answer.status, 200, "{answer:?}");
        (client, session)
    }

    pub(crate) fn count(&self, wanted: &str) -> u64 {
        count(&self.server, wanted)
    }

    /// Waits until something was counted so often.
    #[track_caller]
    pub(crate) fn counts(&self, wanted: &str, least: u64) {
        counts(&self.server, wanted, least);
    }
}

/// What a server counts.
pub(crate) fn count(server: &Rtsp, wanted: &str) -> u64 {
    let counts = server.counts();
    let found = counts.iter().find(|(name, _, _)| *name == wanted);
    found.unwrap().2
}

/// Waits until a server has counted something so often.
#[track_caller]
pub(crate) fn counts(server: &Rtsp, wanted: &str, least: u64) {
    let until = std::time::Instant::now() + PATIENCE;
    while count(server, wanted) < least {
        assert!(std::time::Instant::now() < until, "{:?}", server.counts());
        std::thread::yield_now();
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream: BufReader::new(stream),
            sequence: 0,
            version: "1.0",
            packets: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&mut self, method: &str, url: &str, headers: &[&str]) -> Answer {
        self.sequence += 1;
        let (version, sequence) = (self.version, self.sequence);
        let mut text = format!("{method} {url} RTSP/{version}\r\nCSeq: {sequence}\r\n");
        for header in headers {
            text += &format!("{header}\r\n");
        }
        self.send(format!("{text}\r\n").as_bytes());
        let answer = self.answer().unwrap();
        assert_eq!(answer.headers["cseq"], self.sequence.to_string());
        answer
    }

    /// The next answer; packets before it are kept. `None` if the server hung up.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        loop {
            match self.stream.fill_buf().ok()?.first()? {
                b'$' => {
                    let packet = self.read_packet()?;
                    self.packets.push(packet);
                }
                _ => return self.read_answer(),
            }
        }
    }

    /// The next packet.
    pub(crate) fn packet(&mut self) -> Option<(u8, Vec<u8>)> {
        match self.stream.fill_buf().ok()?.first()? {
            b'$' => self.read_packet(),
            _ => panic!("{:?}", self.read_answer()),
        }
    }

    fn read_packet(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head).ok()?;
        let len = u16::from_be_bytes([head[2], head[3]]);
        let mut bytes = vec![0; len.into()];
        self.stream.read_exact(&mut bytes).ok()?;
        Some((head[1], bytes))
    }

    fn read_answer(&mut self) -> Option<Answer> {
        let mut line = String::new();
        self.stream.read_line(&mut line).ok()?;
        // What the server asks has no status.
        let status = line.strip_prefix("RTSP/").map_or(0, |line| {
            let status = line.split(' ').nth(1).unwrap();
            status.parse().unwrap()
        });
        let mut headers = BTreeMap::from([(String::new(), line.trim().to_owned())]);
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim().split_once(": ") else {
                break;
            };
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        let len = headers.get("content-length");
        let len = len.map_or(0, |len| len.parse().unwrap());
        let mut body = vec![0; len];
        self.stream.read_exact(&mut body).ok()?;
        Some(Answer {
            status,
            headers,
            body: String::from_utf8(body).unwrap(),
        })
    }
}
