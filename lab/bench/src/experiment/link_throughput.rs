//! `link-throughput`: parallel connections between sites 90 ms apart (Fox et al., Figures 1 and
//! 2), as iperf measures it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sangam_emulator::{Emulator, Quality, Rate, Site};
use sangam_io::poll::{Events, Interest, Poller};

use super::{Reports, row_span};
use crate::args::Options;
use crate::error::Error;
use crate::paper;
use crate::process::thread_cpu;
use crate::progress::Progress;
use crate::report::{Plot, Report, Row};

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
/// Of each pair's path: a little more than the paper's instance reached.
const PATH_BITS_PER_S: u64 = 130_000_000;
const QUEUE: Duration = Duration::from_millis(100);
const DELAY: Duration = Duration::from_millis(45);
/// Until windows are open.
const WARM_UP: Duration = Duration::from_secs(4);
const TURN: Duration = Duration::from_millis(50);
const CHUNK: usize = 64 << 10;
const SEED: u64 = 128;

/// What carries the bytes.
#[derive(Clone, Copy)]
enum Transport {
    Tcp,
}

/// One thread at one end of a pair's connections.
type End = JoinHandle<io::Result<()>>;

/// Measures each run with each transport.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let network = network()?;
    let transports = [Transport::Tcp];
    let mut progress = Progress::new(transports.len() * RUNS.len());
    let title = "Throughput between sites 90 ms apart, by connections and by pairs of sites";
    let mut report = Report::new("link-throughput", title);
    for transport in transports {
        for (pairs, connections) in RUNS {
            let name = transport.name();
            progress.at(&format!(
                "{name}, {pairs} pairs, {connections} connections each"
            ));
            let flow = Flow::open(&network, transport, (pairs, connections))
                .map_err(|error| Error::System("connections between sites", error))?;
            report
                .ours
                .push(measure(flow, (pairs, connections), row_span(options))?);
            progress.step();
        }
    }
    report.paper = paper::rows(paper::LINK_THROUGHPUT);
    report.plot = Some(Plot {
        x: "connections",
        y: "throughput_mbps",
        series: Some("pairs"),
    });
    report.notes.push(
        "Each pair has a path of its own of 130 Mb/s and 45 ms each way with a queue of 100 ms, as \
         the paper's instances did not disturb each other. Bytes are those the far ends read."
            .to_owned(),
    );
    report.verdict.conclude();
    Ok(vec![("link-throughput".to_owned(), report)])
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
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
struct Flow {
    transport: Transport,
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    ends: Vec<End>,
}

impl Flow {
    fn open(
        network: &Emulator,
        transport: Transport,
        (pairs, connections): (usize, usize),
    ) -> io::Result<Self> {
        let mut flow = Self {
            transport,
            stop: Arc::new(AtomicBool::new(false)),
            received: Arc::new(AtomicU64::new(0)),
            ends: Vec::new(),
        };
        for pair in network.sites().chunks_exact(2).take(pairs) {
            let (near, far) = match transport {
                Transport::Tcp => tcp(&pair[0], &pair[1], connections)?,
            };
            let (stop, received) = (Arc::clone(&flow.stop), Arc::clone(&flow.received));
            flow.ends
                .push(thread::spawn(move || read(far, (&stop, &received))));
            let stop = Arc::clone(&flow.stop);
            flow.ends.push(thread::spawn(move || write(near, &stop)));
        }
        Ok(flow)
    }

    fn close(self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        for end in self.ends {
            let died = |_| Err(io::Error::other("a thread panicked"));
            let ended = end.join().unwrap_or_else(died);
            ended.map_err(|error| Error::System("a connection between sites", error))?;
        }
        Ok(())
    }
}

fn measure(flow: Flow, (pairs, connections): (usize, usize), span: Duration) -> Result<Row, Error> {
    let name = flow.transport.name();
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
    Ok(Row::default()
        .with("transport", name)
        .with("pairs", pairs)
        .with("connections", connections)
        .with("throughput_mbps", mbps)
        .with(
            "path_percent",
            mbps * 1e8 / (pairs as f64 * PATH_BITS_PER_S as f64),
        )
        .with("emulator_cpu_percent", cpu.as_secs_f64() * 100.0 / seconds))
}

/// Connections from one site to another: the near and the far ends.
fn tcp(near: &Site, far: &Site, count: usize) -> io::Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let listener = far.enter(|| TcpListener::bind((far.v4(), 0)))?;
    let target = listener.local_addr()?;
    let near = near.enter(|| (0..count).map(|_| TcpStream::connect(target)).collect())?;
    let far = (0..count).map(|_| listener.accept().map(|(stream, _)| stream));
    let (near, far): (Vec<_>, Vec<_>) = (near, far.collect::<io::Result<_>>()?);
    for stream in near.iter().chain(&far) {
        stream.set_nonblocking(true)?;
    }
    Ok((near, far))
}

fn write(mut streams: Vec<TcpStream>, stop: &AtomicBool) -> io::Result<()> {
    let chunk = vec![0; CHUNK];
    each_ready(&mut streams, Interest::ReadWrite, stop, |stream| {
        stream.write(&chunk).map(|_| ())
    })
}

fn read(
    mut streams: Vec<TcpStream>,
    (stop, received): (&AtomicBool, &AtomicU64),
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    each_ready(&mut streams, Interest::Read, stop, |stream| {
        let len = stream.read(&mut chunk)?;
        received.fetch_add(len as u64, Ordering::Relaxed);
        Ok(())
    })
}

/// Does something with each stream that is ready for it, until it is time to stop.
fn each_ready(
    streams: &mut [TcpStream],
    interest: Interest,
    stop: &AtomicBool,
    mut what: impl FnMut(&mut TcpStream) -> io::Result<()>,
) -> io::Result<()> {
    let poller = Poller::new()?;
    for (number, stream) in streams.iter().enumerate() {
        poller.add(stream.as_fd(), number as u64, interest)?;
    }
    let mut events = Events::with_capacity(streams.len());
    while !stop.load(Ordering::Relaxed) {
        poller.wait(&mut events, Some(TURN))?;
        for event in events.iter() {
            match what(&mut streams[event.token as usize]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The other end may have stopped first.
                Err(_) if stop.load(Ordering::Relaxed) => return Ok(()),
                done => done?,
            }
        }
    }
    Ok(())
}
