//! `link-throughput`: parallel connections between sites 90 ms apart (Fox et al., Figures 1 and
//! 2): plain sockets, as iperf measures them, and clients of a broker by each transport.

mod clients;
mod sockets;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sangam_client::Scheme;
use sangam_emulator::{Emulator, Quality, Rate};

use super::{Reports, row_span};
use crate::args::Options;
use crate::error::Error;
use crate::paper;
use crate::process::{Broker, thread_cpu};
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use crate::scenario::Folder;

/// Pairs of sites and connections of each.
const RUNS: [(usize, usize); 11] = [
    (1, 1),
    (1, 2),
    (1, 4),
    (1, 8),
    (1, 16),
    (1, 32),
    (1, 64),
    (1, 128),
    (2, 64),
    (3, 64),
    (4, 64),
];
const PAIRS_MAX: usize = 4;
/// Where the paper has its 126 Mb/s, and what of that each transport has to carry besides headers,
/// encryption and what is shed.
const PAPER_AT: (usize, usize) = (1, 128);
const MBPS_MIN: f64 = 100.0;
/// Of each pair's path: a little more than the paper's instance reached.
const PATH_BITS_PER_S: u64 = 130_000_000;
const QUEUE: Duration = Duration::from_millis(100);
const DELAY: Duration = Duration::from_millis(45);
/// Until windows are open.
const WARM_UP: Duration = Duration::from_secs(4);
const SEED: u64 = 128;
const TRANSPORTS: [Transport; 6] = [
    Transport::Sockets,
    Transport::Clients(Scheme::Udp),
    Transport::Clients(Scheme::Quic),
    Transport::Clients(Scheme::Tcp),
    Transport::Clients(Scheme::Tls),
    Transport::Clients(Scheme::Ws),
];

/// What carries the bytes.
#[derive(Clone, Copy)]
enum Transport {
    /// TCP as it is, without a broker.
    Sockets,
    /// A broker and its clients.
    Clients(Scheme),
}

/// One thread at one end of a pair's connections.
type End = JoinHandle<io::Result<()>>;

/// Measures each run with each transport.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let network = network()?;
    let mut progress = Progress::new(TRANSPORTS.len() * RUNS.len());
    let title = "Throughput between sites 90 ms apart, by connections and by pairs of sites";
    let mut report = Report::new("link-throughput", title);
    for transport in TRANSPORTS {
        for (pairs, connections) in RUNS {
            let name = transport.name();
            progress.at(&format!(
                "{name}, {pairs} pairs, {connections} connections each"
            ));
            let flow = match transport {
                Transport::Sockets => sockets::open(&network, (pairs, connections))?,
                Transport::Clients(scheme) => {
                    clients::open(&network, scheme, (pairs, connections))?
                }
            };
            let (row, mbps) = measure(flow, (name, pairs, connections), row_span(options))?;
            report.ours.push(row);
            if (pairs, connections) == PAPER_AT {
                let check = format!("Mb/s by {connections} connections, {name}");
                report.verdict.check(check, mbps, Bound::AtLeast(MBPS_MIN));
            }
            progress.step();
        }
    }
    report.paper = paper::rows(paper::LINK_THROUGHPUT);
    report.plot = Some(Plot {
        x: "connections",
        y: "throughput_mbps",
        series: Some("pairs"),
    });
    report.notes = notes();
    report.verdict.conclude();
    Ok(vec![("link-throughput".to_owned(), report)])
}

fn notes() -> Vec<String> {
    [
        "Each pair has a path of its own of 130 Mb/s and 45 ms each way with a queue of 100 ms, as \
         the paper's instances did not disturb each other.",
        "\"tcp sockets\" is TCP without a broker; bytes are those the far ends read. All others \
         are clients of a broker at the other site, each of which receives one stream; together \
         the streams are a fifth more than the path carries, in events of 1,200 bytes that need \
         no other. Bytes are the payload that clients got, so headers, TLS and what was sent in \
         vain count against a transport. The broker paces and sheds; by plain UDP it does not \
         know the path, and what finds the queue full is lost.",
    ]
    .map(str::to_owned)
    .to_vec()
}

impl Transport {
    const fn name(self) -> &'static str {
        match self {
            Self::Sockets => "tcp sockets",
            Self::Clients(scheme) => scheme.name(),
        }
    }
}

/// Sites 2n and 2n + 1 are a pair.
fn network() -> Result<Emulator, Error> {
    let names = [
        "us-1", "eu-1", "us-2", "eu-2", "us-3", "eu-3", "us-4", "eu-4",
    ];
    let network = Emulator::new(&names, SEED).map_err(Error::Network)?;
    let quality = Quality {
        rate: Some(Rate::with_queue_of(PATH_BITS_PER_S, QUEUE)),
        ..Quality::delayed(DELAY)
    };
    for pair in 0..PAIRS_MAX {
        let set = network.control().set_both(2 * pair, 2 * pair + 1, &quality);
        set.map_err(Error::Network)?;
    }
    Ok(network)
}

/// Bytes on their way through all connections of a run.
#[derive(Default)]
struct Flow {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    ends: Vec<End>,
    brokers: Vec<Broker>,
    /// Where those have their files.
    folder: Option<Folder>,
}

impl Flow {
    fn close(self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        for end in self.ends {
            let died = |_| Err(io::Error::other("a thread panicked"));
            let ended = end.join().unwrap_or_else(died);
            ended.map_err(|error| Error::System("a connection between sites", error))?;
        }
        drop((self.brokers, self.folder));
        Ok(())
    }
}

fn measure(
    flow: Flow,
    (name, pairs, connections): (&'static str, usize, usize),
    span: Duration,
) -> Result<(Row, f64), Error> {
    thread::sleep(WARM_UP);
    let emulator = || thread_cpu("emulator");
    let (at, before, cpu) = (
        Instant::now(),
        flow.received.load(Ordering::Relaxed),
        emulator(),
    );
    thread::sleep(span);
    let bytes = flow.received.load(Ordering::Relaxed) - before;
    let seconds = at.elapsed().as_secs_f64();
    let cpu = emulator().saturating_sub(cpu);
    flow.close()?;
    let mbps = bytes as f64 * 8.0 / 1e6 / seconds;
    let row = Row::default()
        .with("transport", name)
        .with("pairs", pairs)
        .with("connections", connections)
        .with("throughput_mbps", mbps)
        .with(
            "path_percent",
            mbps * 1e8 / (pairs as f64 * PATH_BITS_PER_S as f64),
        )
        .with("emulator_cpu_percent", cpu.as_secs_f64() * 100.0 / seconds);
    Ok((row, mbps))
}
