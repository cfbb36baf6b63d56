//! `emulator`: what the emulator itself adds to a packet's way, against loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sangam_emulator::{Emulator, Quality, Site};
use sangam_io::clock;
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::udp::{Outgoing, RecvBatch, SendBatch, SendReport, UdpOptions, UdpSocket};

use super::Reports;
use crate::args::Options;
use crate::error::Error;
use crate::load::Stamp;
use crate::measure::Reception;
use crate::process::thread_cpu;
use crate::progress::Progress;
use crate::report::{Plot, Report, Row};

/// Packets each second.
const RATES: [u32; 3] = [1_000, 10_000, 100_000];
/// Bytes of a packet's payload: the papers' video packets have about so many.
const BYTES: usize = 750;
/// The sender's turn: what is due within it leaves together.
const TURN: Duration = Duration::from_micros(100);
/// One-way delay of the third way, to see whether packets that wait are as punctual.
const DELAY: Duration = Duration::from_millis(20);
const SECONDS: u64 = 3;
/// Until the last packets are in.
const RUN_OUT: Duration = Duration::from_millis(200);
const BUFFER: usize = 16 << 20;
const SEED: u64 = 1;

/// What lies between sender and receiver.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Loopback,
    Perfect,
    Delayed,
}

/// Measures each rate over each way.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let network = Emulator::new(&["here", "there"], SEED).map_err(Error::Network)?;
    let span = Duration::from_secs(options.seconds.unwrap_or(SECONDS));
    let ways = [Way::Loopback, Way::Perfect, Way::Delayed];
    let mut progress = Progress::new(ways.len() * RATES.len());
    let mut report = Report::new("emulator", "What the emulator adds to a packet's way");
    for rate in RATES {
        for way in ways {
            progress.at(&format!("{}, {rate} packets/s", way.name()));
            report.ours.push(measure(&network, way, (rate, span))?);
            progress.step();
        }
    }
    report.plot = Some(Plot {
        x: "packets_per_s",
        y: "latency_p50_ms",
        series: Some("way"),
    });
    report.notes = [
        "Latency is from the sender's stamp to the receiver's read, less the delay that was asked \
         for. What the emulator adds is its row less that of loopback at the same rate, which \
         has the same sender and receiver inside one of the sites.",
        "cpu_us_per_packet is the emulating thread's, the network stack of the far site included.",
    ]
    .map(str::to_owned)
    .to_vec();
    report.verdict.conclude();
    Ok(vec![("emulator".to_owned(), report)])
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Perfect => "emulator",
            Self::Delayed => "emulator, 20 ms",
        }
    }

    fn delay(self) -> Duration {
        match self {
            Self::Delayed => DELAY,
            Self::Loopback | Self::Perfect => Duration::ZERO,
        }
    }
}

fn measure(network: &Emulator, way: Way, (rate, span): (u32, Duration)) -> Result<Row, Error> {
    let quality = Quality::delayed(way.delay());
    network
        .control()
        .set(0, 1, quality)
        .map_err(Error::Network)?;
    let [here, there] = network.sites() else {
        return Err(Error::Network(sangam_emulator::Error::NoSite(1)));
    };
    let target = if way == Way::Loopback { here } else { there };
    let (near, far) = (open(here, here.host(1))?, open(target, target.host(2))?);
    let to = far.local_addr();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let reader = thread::spawn(move || receive(&far, (way.delay(), &stopped)));
    let cpu = thread_cpu("emulator");
    let sent = send(&near, to, (rate, span))?;
    thread::sleep(way.delay() + RUN_OUT);
    let cpu = thread_cpu("emulator").saturating_sub(cpu);
    stop.store(true, Ordering::Relaxed);
    let died = |_| Err(Error::Join("the receiving thread died".to_owned()));
    let reception = reader.join().unwrap_or_else(died)?;
    let mut row = Row::default()
        .with("way", way.name())
        .with("packets_per_s", u64::from(rate))
        .with("latency_avg_ms", reception.mean_ms())
        .with("latency_p50_ms", reception.percentile_ms(50.0))
        .with("latency_p99_ms", reception.percentile_ms(99.0))
        .with("latency_max_ms", reception.max_ms())
        .with("loss_percent", reception.loss_percent(sent));
    if way != Way::Loopback {
        row.set("cpu_us_per_packet", cpu.as_secs_f64() * 1e6 / sent as f64);
    }
    Ok(row)
}

fn open(site: &Site, address: Ipv4Addr) -> Result<UdpSocket, Error> {
    let options = UdpOptions {
        recv_buffer: BUFFER,
        ..UdpOptions::default()
    };
    let bind = || UdpSocket::bind(SocketAddr::from((address, 0)), &options);
    let opened = site.enter(bind);
    opened.map_err(|error| Error::System("a socket inside a site", error))
}

/// Sends at an even rate; how many packets left.
fn send(socket: &UdpSocket, to: SocketAddr, (rate, span): (u32, Duration)) -> Result<u64, Error> {
    let poller = Poller::new().map_err(|error| Error::System("epoll", error))?;
    let mut events = Events::with_capacity(1);
    let (mut batch, mut report) = (SendBatch::new(), SendReport::default());
    let mut packet = [0; BYTES];
    let mut number = 0_u32;
    let begun = clock::now();
    while clock::now() - begun < span {
        let due = ((clock::now() - begun).as_secs_f64() * f64::from(rate)) as u32;
        while number < due {
            let sent = clock::now();
            Stamp { sent, number }.write(&mut packet);
            let outgoing = Outgoing {
                to: to.into(),
                from: None,
                bytes: &packet,
            };
            batch.send(socket, std::iter::once(outgoing), &mut report);
            number += 1;
        }
        poller
            .wait(&mut events, Some(TURN))
            .map_err(|error| Error::System("epoll", error))?;
    }
    Ok(report.packets)
}

/// Reads until told to stop; times are taken as if the asked delay were none.
fn receive(socket: &UdpSocket, (delay, stop): (Duration, &AtomicBool)) -> Result<Reception, Error> {
    let failed = |error| Error::System("epoll", error);
    let poller = Poller::new().map_err(failed)?;
    poller.add(socket.fd(), 0, Interest::Read).map_err(failed)?;
    let mut events = Events::with_capacity(1);
    let mut batch = RecvBatch::new(64, BYTES);
    let mut reception = Reception::new();
    while !stop.load(Ordering::Relaxed) {
        poller
            .wait(&mut events, Some(RUN_OUT / 2))
            .map_err(failed)?;
        let count = socket
            .recv(&mut batch)
            .map_err(|error| Error::System("recvmmsg", error))?;
        let now = clock::now();
        for datagram in batch.datagrams().take(count) {
            if let Some(Stamp { sent, number }) = Stamp::of_payload(datagram.bytes) {
                let sent = sent + delay;
                reception.take(Stamp { sent, number }, now);
            }
        }
    }
    Ok(reception)
}
