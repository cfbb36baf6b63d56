//! A link by TCP over a path that is much slower than what is published: what waits for it is shed
//! by the rate at which it really leaves.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use common::{Running, sangam};
use sangam_client::{Client, ClientOptions, Outgoing, Publisher, Received, Target};
use sangam_emulator::{Emulator, Quality, Rate, Site, with_privileges};
use sangam_io::clock;
use sangam_model::{Class, Filter, MediaInfo, Topic};
use sangam_wire::{Event, Flags};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);
/// The path carries 1 Mb/s. 25 pictures of 12 packets a second are 3 Mb/s.
const PATH_BITS_PER_S: u64 = 1_000_000;
const PACKETS: usize = 12;
const PAYLOAD: usize = 1_200;
/// Between two pictures; two packets of sound come with each.
const TURN: Duration = Duration::from_millis(40);
/// Until the stream's rate is known, and then while latencies are taken.
const WARM_UP: usize = 100;
const TURNS: usize = 200;

/// A broker at a site: where its clients and neighbours come.
fn serve(site: &Site, more: &[&str]) -> (Running, SocketAddr, SocketAddr) {
    let listen = format!("{}:0", site.v4());
    let args = "serve --json --no-auth --log error --http 127.0.0.1:0 --listen";
    let args: Vec<_> = args.split(' ').chain([listen.as_str()]).collect();
    let mut command = sangam(&args);
    command.args(more).env("SANGAM_LINKS_ACCEPT", "10.0.0.0/8");
    site.place(&mut command);
    let mut running = Running::start(command);
    let ready = running.json_line();
    let address = |value: &Value| value.as_str().unwrap().parse().unwrap();
    (
        running,
        address(&ready["udp"][0]),
        address(&ready["tcp"][0]),
    )
}

/// A client of the broker at its site.
fn client(site: &Site, broker: SocketAddr) -> Client {
    let options = ClientOptions {
        trace_every: 1,
        ..ClientOptions::default()
    };
    let connect = || Client::connect(Target::Udp(broker), options).map_err(io::Error::other);
    let mut client = site.enter(connect).unwrap();
    client.wait_up(PATIENCE).unwrap();
    client
}

fn publish(client: &mut Client, class: Class, name: &str) -> Publisher {
    let media = MediaInfo {
        class,
        payload_type: 96,
        clock_rate: 90_000,
        ..MediaInfo::data()
    };
    let topic = Topic::new(&format!("slow/{name}")).unwrap();
    client.publish(&topic, media, PATIENCE).unwrap()
}

/// One picture, and two packets of sound; every 50th picture decodes by itself.
fn turn(number: usize, [audio, video]: &mut [Publisher; 2]) {
    let payload = [0; PAYLOAD];
    for packet in 0..PACKETS {
        let mut flags = Flags::default();
        for (flag, is) in [
            (Flags::FRAME_START, packet == 0),
            (Flags::FRAME_END, packet + 1 == PACKETS),
            (Flags::KEY, number.is_multiple_of(50)),
        ] {
            flags = if is { flags.with(flag) } else { flags };
        }
        // A client's own queue is not what is looked at.
        let _ = video.send(Outgoing {
            flags,
            layer: 0,
            payload: &payload,
        });
    }
    for _ in 0..2 {
        let _ = audio.send(Outgoing::new(&[0; 80]));
    }
}

/// How long an event was on its way, and whether it is sound.
fn latency(received: &Received) -> Option<(bool, Duration)> {
    let Received::Event(packet) = received else {
        return None;
    };
    let event = Event::decode(packet).unwrap();
    let origin = event.extensions.trace()?.origin_us;
    let took = clock::now().as_micros().saturating_sub(origin);
    let audio = event.header.class == Class::Audio;
    Some((audio, Duration::from_micros(took)))
}

fn median(mut latencies: Vec<Duration>) -> Duration {
    latencies.sort_unstable();
    latencies[latencies.len() / 2]
}

#[test]
fn what_waits_for_a_slow_stream_is_shed_by_its_real_rate() {
    let name = "what_waits_for_a_slow_stream_is_shed_by_its_real_rate";
    with_privileges(name, media_by_a_slow_stream);
}

fn media_by_a_slow_stream() {
    let network = Emulator::new(&["near", "far"], 1).unwrap();
    let path = Quality {
        rate: Some(Rate::with_queue_of(
            PATH_BITS_PER_S,
            Duration::from_millis(100),
        )),
        ..Quality::delayed(Duration::from_millis(10))
    };
    network.control().set_both(0, 1, &path).unwrap();
    let [near, far] = network.sites() else {
        panic!("two sites");
    };
    let (_first, first, link) = serve(near, &[]);
    let link = format!("tcp://{link}");
    let (_second, second, _) = serve(far, &["--link", &link]);
    let mut listener = client(far, second);
    listener.subscribe(&Filter::new("slow/#").unwrap()).unwrap();
    let mut publisher = client(near, first);
    let mut streams = [Class::Audio, Class::Video]
        .map(|class| publish(&mut publisher, class, &format!("{}", class as u8)));
    let sender = thread::spawn(move || {
        let begun = Instant::now();
        for number in 0..WARM_UP + TURNS {
            turn(number, &mut streams);
            let next = TURN * (number as u32 + 1);
            while let Some(left) = next.checked_sub(begun.elapsed()) {
                // Whatever is told in between is of no interest, the time is.
                publisher.recv(left);
            }
        }
    });
    let (mut audio, mut video) = (Vec::new(), Vec::new());
    let until = Instant::now() + TURN * (WARM_UP + TURNS) as u32;
    let counts = Instant::now() + TURN * WARM_UP as u32;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        let received = listener.recv(left);
        let Some((is_audio, latency)) = received.as_ref().and_then(latency) else {
            continue;
        };
        if Instant::now() >= counts {
            if is_audio { &mut audio } else { &mut video }.push(latency);
        }
    }
    sender.join().unwrap();
    assert!(audio.len() > TURNS, "sound passes: {}", audio.len());
    assert!(video.len() > PACKETS, "and some pictures: {}", video.len());
    // At 16 Mb/s 300 kB of video seemed to leave within 150 ms; here they take 2.4 s, and the
    // 128 KiB before them, which nothing overtakes, another second.
    let (audio, video) = (median(audio), median(video));
    assert!(audio < Duration::from_millis(600), "{audio:?}, {video:?}");
    assert!(video < Duration::from_millis(1_200), "{audio:?}, {video:?}");
}
