//! A broker, a camera that publishes without pictures, and a server that is the broker's client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sangam_client::{Client, ClientOptions, Outgoing, Publisher, Received, Target};
use sangam_model::{BrokerId, Class, MediaInfo, Topic};
use sangam_node::{Broker, BrokerConfig};
use sangam_rtsp::{Links, Rtsp, Settings};
use sangam_wire::rtp::Header;
use sangam_wire::{Feedback, Flags};
use tempfile::TempDir;

use crate::stage::{self, Answer, Client as Player, PATIENCE};

/// The first byte of a key frame's payload, and of that of any other picture.
pub(crate) const KEY: u8 = 1;
const PICTURE: u8 = 2;
const SOUND: u8 = 3;
const PAUSE: Duration = Duration::from_millis(20);

/// What a camera sends: a picture and a sound each 20 ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habit {
    /// Every so many pictures a key frame; 0: the first, and when one is asked for.
    pub(crate) keys: u32,
    /// Packets of a picture, and bytes of each.
    pub(crate) packets: u16,
    pub(crate) len: usize,
}

pub(crate) const USUAL: Habit = Habit {
    keys: 10,
    packets: 1,
    len: 100,
};

/// A thread that publishes until it is dropped.
pub(crate) struct Camera {
    stop: Arc<AtomicBool>,
    /// Key frames that it was asked for.
    asked: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

/// A broker and a server.
pub(crate) struct Set {
    pub(crate) broker: Broker,
    pub(crate) server: Rtsp,
    _folder: TempDir,
}

impl Set {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let broker = Broker::start(BrokerConfig {
            id: BrokerId(1),
            secret: [1; 16],
            shards: 2,
            pool_small: 8_192,
            pool_large: 64,
            ..BrokerConfig::default()
        });
        let broker = broker.unwrap();
        let (server, folder) = server(broker.addresses().tcp[0], settings);
        stage::counts(&server, "live_links", 1);
        Self {
            broker,
            server,
            _folder: folder,
        }
    }

    pub(crate) fn url(&self, topic: &str) -> String {
        format!("rtsp://{}/live/{topic}", self.server.addresses()[0])
    }

    pub(crate) fn player(&self) -> Player {
        Player::new(self.server.addresses()[0])
    }

    /// A camera whose streams the broker knows.
    pub(crate) fn camera(&self, topic: &str, habit: Habit) -> Camera {
        Camera::start(self.broker.addresses().tcp[0], topic, habit)
    }

    /// A player that has set up picture (channel 0) and sound (2) of a topic within its connection,
    /// and the header of its session.
    pub(crate) fn set_up(&self, topic: &str) -> (Player, String) {
        let mut player = self.player();
        let url = self.url(topic);
        let described = player.ask("DESCRIBE", &url, &[]);
        assert_eq!(described.status, 200, "{described:?}");
        let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1";
        let answer = player.ask("SETUP", &control(&described, "video"), &[transport]);
        assert_eq!(answer.status, 200, "{answer:?}");
        let session = answer.headers["session"].split(';').next().unwrap();
        let session = format!("Session: {session}");
        let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=2-3";
        let audio = control(&described, "audio");
        let answer = player.ask("SETUP", &audio, &[transport, &session]);
        assert_eq!(answer.status, 200, "{answer:?}");
        (player, session)
    }

    /// The same that plays, and the answer.
    pub(crate) fn play(&self, topic: &str) -> (Player, String, Answer) {
        let (mut player, session) = self.set_up(topic);
        let answer = player.ask("PLAY", &self.url(topic), &[&session]);
        assert_eq!(answer.status, 200, "{answer:?}");
        (player, session, answer)
    }

    pub(crate) fn count(&self, wanted: &str) -> u64 {
        stage::count(&self.server, wanted)
    }

    #[track_caller]
    pub(crate) fn counts(&self, wanted: &str, least: u64) {
        stage::counts(&self.server, wanted, least);
    }
}

/// A server that looks for a broker there.
pub(crate) fn server(broker: SocketAddr, settings: Settings) -> (Rtsp, TempDir) {
    let folder = TempDir::new().unwrap();
    let settings = Settings {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        archive: folder.path().to_owned(),
        ..settings
    };
    let client = || Client::connect(Target::Tcp(broker), ClientOptions::default()).unwrap();
    let links = Links {
        live: Some(client()),
        ingest: Some(client()),
    };
    (Rtsp::start(settings, links).unwrap(), folder)
}

/// The URL of the first track of a kind in a description.
pub(crate) fn control(described: &Answer, kind: &str) -> String {
    let lines = described.body.lines();
    let mut own = lines.skip_while(|line| !line.starts_with(&format!("m={kind} ")));
    let control = own.find_map(|line| line.strip_prefix("a=control:"));
    control.unwrap().to_owned()
}

/// The number of that track.
pub(crate) fn track(described: &Answer, kind: &str) -> usize {
    let control = control(described, kind);
    control.split_once("trackID=").unwrap().1.parse().unwrap()
}

impl Camera {
    fn start(broker: SocketAddr, topic: &str, habit: Habit) -> Self {
        let mut client = Client::connect(Target::Tcp(broker), ClientOptions::default()).unwrap();
        client.wait_up(PATIENCE).unwrap();
        let [video, audio] = [Class::Video, Class::Audio].map(|class| {
            let topic = Topic::new(&format!("{topic}/{}", class.name())).unwrap();
            client.publish(&topic, media(class), PATIENCE).unwrap()
        });
        let (stop, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
        let flags = (stop.clone(), asked.clone());
        let thread = thread::spawn(move || film(client, [video, audio], habit, &flags));
        Self {
            stop,
            asked,
            thread: Some(thread),
        }
    }

    /// Key frames that it was asked for.
    pub(crate) fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn media(class: Class) -> MediaInfo {
    let is_video = class == Class::Video;
    MediaInfo {
        class,
        payload_type: if is_video { 96 } else { 111 },
        channels: if is_video { 0 } else { 2 },
        clock_rate: if is_video { 90_000 } else { 48_000 },
        encoding: if is_video { "H264" } else { "opus" }.to_owned(),
        fmtp: String::new(),
    }
}

fn film(
    mut client: Client,
    [mut video, mut audio]: [Publisher; 2],
    habit: Habit,
    (stop, asked): &(Arc<AtomicBool>, Arc<AtomicU32>),
) {
    let mut sequence = 65_500_u16;
    for number in 0_u32.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let mut is_key = number == 0 || habit.keys > 0 && number.is_multiple_of(habit.keys);
        while let Some(received) = client.try_recv() {
            if let Received::Feedback { feedback, .. } = received
                && matches!(feedback, Feedback::KeyFrame)
            {
                asked.fetch_add(1, Ordering::Relaxed);
                is_key = true;
            }
        }
        for place in 0..habit.packets {
            let kind = if is_key { KEY } else { PICTURE };
            let header = Header {
                marker: place + 1 == habit.packets,
                payload_type: 96,
                sequence,
                timestamp: number.wrapping_mul(1_800),
                ssrc: 1,
            };
            let mut flags = if is_key { Flags::KEY } else { Flags::NONE };
            if place == 0 {
                flags = flags.with(Flags::FRAME_START);
            }
            send(&mut video, (header, flags), &vec![kind; habit.len]);
            sequence = sequence.wrapping_add(1);
        }
        let header = Header {
            marker: false,
            payload_type: 111,
            sequence: number as u16,
            timestamp: number.wrapping_mul(960),
            ssrc: 2,
        };
        send(&mut audio, (header, Flags::FRAME_START), &[SOUND; 50]);
        // Its pace, not something that is waited for.
        thread::park_timeout(PAUSE);
    }
}

fn send(to: &mut Publisher, (header, flags): (Header, Flags), body: &[u8]) {
    let payload = [&header.encode()[..], body].concat();
    let event = Outgoing {
        flags,
        ..Outgoing::new(&payload)
    };
    // What a full link drops is the test's affair.
    let _ = to.send(event);
}
