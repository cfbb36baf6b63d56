//! What a packet costs a delivery shard by UDP, QUIC and TCP: the same load, one transport after
//! the other, in one run. `cargo run --release -p sangam-node --example cost_of_quic`.

use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sangam_client::{Client, ClientOptions, Outgoing, Publisher, Target};
use sangam_io::tls::{Identity, Roots, Trust};
use sangam_model::{Class, Filter, MediaInfo, Topic};
use sangam_node::{Broker, BrokerConfig};
use sangam_wire::Flags;

const SUBSCRIBERS: usize = 20;
/// Bytes of an RTP packet of video, and packets of a frame.
const PACKET: usize = 1_100;
const BURST: usize = 8;
/// Frames of one measurement, each so long after the other: 800 packets a second.
const FRAMES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(10);
const RUNS: usize = 3;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let (identity, roots) = certificates()?;
    println!("transport  us/packet of the shard  delivered  to each of {SUBSCRIBERS}");
    for _ in 0..RUNS {
        for scheme in ["udp", "quic", "tcp"] {
            let (cost, share) = measure(scheme, &identity, &roots)?;
            println!("{scheme:9}  {cost:22.2}  {:8.2} %", share * 100.0);
        }
    }
    Ok(())
}

fn certificates() -> Outcome<(Arc<Identity>, Roots)> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &authority)?;
    let identity = Identity::from_pem(own.pem().as_bytes(), key.serialize_pem().as_bytes())?;
    Ok((
        Arc::new(identity),
        Roots::from_pem(authority.pem().as_bytes())?,
    ))
}

/// Microseconds of the shard for each delivered packet, and the part that was delivered.
fn measure(scheme: &str, identity: &Arc<Identity>, roots: &Roots) -> Outcome<(f64, f64)> {
    let broker = Broker::start(BrokerConfig {
        quic: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        identity: Some(identity.clone()),
        shards: 1,
        ..BrokerConfig::default()
    })?;
    let address = match scheme {
        "udp" => broker.addresses().udp[0],
        "quic" => broker.addresses().quic[0],
        _ => broker.addresses().tcp[0],
    };
    let mut options = ClientOptions::default();
    options.stream.trust = Some(Trust::Roots(roots.clone()));
    let mut subscribers = Vec::new();
    for seed in 0..SUBSCRIBERS as u64 {
        let target = Target::Addresses(vec![format!("{scheme}://{address}").parse()?]);
        let options = ClientOptions {
            seed,
            ..options.clone()
        };
        let mut client = Client::connect(target, options)?;
        client.wait_up(PATIENCE)?;
        client.subscribe(&Filter::new("cost/video")?)?;
        subscribers.push(thread::spawn(move || drain(&mut client)));
    }
    let mut client = Client::connect(Target::Udp(broker.addresses().udp[0]), options)?;
    client.wait_up(PATIENCE)?;
    let media = MediaInfo {
        class: Class::Video,
        payload_type: 96,
        channels: 0,
        clock_rate: 90_000,
        encoding: "H264".to_owned(),
        fmtp: String::new(),
    };
    let mut publisher = client.publish(&Topic::new("cost/video")?, media, PATIENCE)?;
    send(&mut publisher, 200);
    let (before, cpu) = (delivered(&broker), shard_cpu()?);
    send(&mut publisher, FRAMES);
    thread::park_timeout(Duration::from_millis(300));
    let packets = delivered(&broker) - before;
    let cpu = shard_cpu()? - cpu;
    drop(broker);
    drop(client);
    for subscriber in subscribers {
        let _ = subscriber.join();
    }
    let offered = f64::from(FRAMES) * (BURST * SUBSCRIBERS) as f64;
    Ok((cpu.as_secs_f64() * 1e6 / packets, packets / offered))
}

fn send(publisher: &mut Publisher, frames: u32) {
    let payload = [0x80; PACKET];
    let start = Instant::now();
    for frame in 0..frames {
        for packet in 0..BURST {
            let mut flags = Flags::NONE;
            if packet == 0 {
                flags = flags.with(Flags::FRAME_START).with(Flags::KEY);
            }
            if packet == BURST - 1 {
                flags = flags.with(Flags::FRAME_END);
            }
            // What is lost shows in the share.
            let _ = publisher.send(Outgoing {
                flags,
                layer: 0,
                payload: &payload,
            });
        }
        let due = start + PAUSE * (frame + 1);
        while let Some(left) = due.checked_duration_since(Instant::now()) {
            thread::park_timeout(left);
        }
    }
}

fn drain(client: &mut Client) {
    let mut silence = 0;
    while silence < 10 {
        match client.recv(Duration::from_millis(500)) {
            Some(_) => silence = 0,
            None => silence += 1,
        }
    }
}

fn delivered(broker: &Broker) -> f64 {
    let samples = broker.samples();
    let of_name = samples
        .iter()
        .filter(|sample| sample.name == "sangam_delivered_packets_total");
    of_name.map(|sample| sample.value).sum()
}

/// What the newest shard thread of this process has used.
fn shard_cpu() -> Outcome<Duration> {
    let mut newest = (0, 0);
    for task in fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        let name = fs::read_to_string(path.join("comm"))?;
        if !name.starts_with("sangam-shard0") {
            continue;
        }
        let number: u64 = path
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or("a task has a number")?
            .parse()?;
        let used = fs::read_to_string(path.join("schedstat"))?;
        let used: u64 = used
            .split(' ')
            .next()
            .ok_or("schedstat begins with nanoseconds")?
            .parse()?;
        newest = newest.max((number, used));
    }
    Ok(Duration::from_nanos(newest.1))
}
