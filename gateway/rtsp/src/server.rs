//! The thread, and the handle of it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sangam_archive::films::Films;
use sangam_archive::nodes::Desk;
use sangam_client::{Client, Token};
use sangam_io::clock;
use sangam_io::tls::{self, Clients, Identity, TlsError};
use sangam_io::wake::{Waker, pair};
use sangam_model::Time;

use crate::accept::Certificate;
use crate::auth::Credentials;
use crate::counts::{Counted, Counts, Levels, Metric};
use crate::deliver::{Totals, processor};
use crate::ingest::Ingest;
use crate::limits::BLOCKS_MAX;
use crate::live::Live;
use crate::token::NewToken;
use crate::turn::Engine;

/// A thread that did not sweep for so long hangs; it does each second.
const WELL: Duration = Duration::from_secs(5);

/// What the server is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens, by TCP; by UDP it sends from ports that the kernel chooses.
    pub listen: Vec<SocketAddr>,
    /// The same with TLS, once there is a certificate: [`Rtsp::show`].
    pub listen_tls: Vec<SocketAddr>,
    /// The folder of the archive.
    pub archive: PathBuf,
    /// Who may watch; `None`: whoever reaches it.
    pub credentials: Option<Credentials>,
    /// Who may publish; `None`: whoever reaches it, where there is a link for it.
    pub publishers: Option<Credentials>,
    /// Connections at once.
    pub connections_max: usize,
    /// Sessions at once.
    pub sessions_max: usize,
    /// Of each of both, those of one address.
    pub per_address: usize,
    /// Sessions and connections that are not heard of for so long end, to a second. RFC 2326
    /// section 12.37 has a minute where nothing is said.
    pub timeout: Duration,
    /// A client that reads nothing for so long of what it asked for is closed, to a second.
    pub patience: Duration,
    /// Bits of films that are sent in a second, on average, by this node; beyond, sessions are
    /// refused. `None`: as many as processor and disks carry.
    pub bits_max: Option<u64>,
    /// Sessions are not refused for what they would need, for experiments.
    pub admits_all: bool,
    /// Blocks of films in memory, of 1 MiB each, for all who play them; those that somebody plays
    /// stay beyond.
    pub blocks_max: usize,
}

impl Default for Settings {
    /// Nowhere; a thousand players, a quarter of them from one address.
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            listen_tls: Vec::new(),
            archive: PathBuf::from("archive"),
            credentials: None,
            publishers: None,
            connections_max: 1_024,
            sessions_max: 1_024,
            per_address: 256,
            timeout: Duration::from_secs(60),
            patience: Duration::from_secs(15),
            bits_max: None,
            admits_all: false,
            blocks_max: BLOCKS_MAX,
        }
    }
}

/// How a server's process and its memory of films fare.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Processor seconds of the process, without the kernel's.
    pub user: f64,
    /// Those of the kernel for it.
    pub system: f64,
    /// Blocks of films in memory.
    pub cache_blocks: usize,
    /// How often a block was there when it was wanted.
    pub cache_hits: u64,
    /// Bytes of blocks that were read from disks, or from other nodes.
    pub disk_bytes: u64,
}

/// The clients of a broker: two, as a publisher does not hear itself.
#[derive(Debug, Default)]
pub struct Links {
    /// Watches what is published, for players.
    pub live: Option<Client>,
    /// Publishes what cameras and encoders send.
    pub ingest: Option<Client>,
}

/// What the thread shares with its handle.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) counts: Arc<Counts>,
    pub(crate) levels: Arc<Levels>,
    pub(crate) certificate: Certificate,
}

/// A running server. Dropping it ends all sessions.
pub struct Rtsp {
    /// Without and with TLS.
    addresses: [Vec<SocketAddr>; 2],
    certificate: Certificate,
    counts: Arc<Counts>,
    levels: Arc<Levels>,
    films: Arc<Films>,
    desk: Arc<dyn Desk>,
    totals: Arc<Totals>,
    tokens: [NewToken; 2],
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl core::fmt::Debug for Rtsp {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let addresses = &self.addresses;
        f.debug_struct("Rtsp")
            .field("addresses", addresses)
            .finish_non_exhaustive()
    }
}

impl Rtsp {
    /// Listens and serves: recordings, and by the clients of a broker, if there are any, what is
    /// published now, and what comes in. Their links may come up later, and are asked again when
    /// they were down.
    ///
    /// # Errors
    /// An address is in use or not of this host, or the machine has no thread or descriptor left.
    pub fn start(settings: Settings, links: Links) -> io::Result<Self> {
        let (waker, sleeper) = pair()?;
        let counts = Arc::new(Counts::default());
        let tokens: [NewToken; 2] = Default::default();
        let live = links
            .live
            .map(|client| Live::new(client, tokens[0].clone()));
        let ingest = links.ingest.map(|client| Ingest {
            client,
            token: tokens[1].clone(),
            has_more: true,
        });
        let stop = Arc::new(AtomicBool::new(false));
        let certificate = Certificate::default();
        let levels = Arc::<Levels>::default();
        let shared = Shared {
            counts: counts.clone(),
            levels: levels.clone(),
            certificate: certificate.clone(),
        };
        let films = Arc::new(Films::new(&settings.archive, settings.blocks_max));
        let mut engine = Engine::new(settings, (live, ingest), sleeper, (shared, &films))?;
        let addresses = engine.addresses()?;
        let (desk, totals) = engine.desk();
        let thread = thread::Builder::new().name("sangam-rtsp".to_owned());
        let flag = stop.clone();
        let thread = thread.spawn(move || {
            while !flag.load(Ordering::Acquire) {
                if let Err(error) = engine.turn() {
                    tracing::error!(%error, "the RTSP server ends");
                    return;
                }
            }
        })?;
        Ok(Self {
            addresses,
            certificate,
            counts,
            levels,
            films,
            desk,
            totals,
            tokens,
            stop,
            waker,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses[0]
    }

    /// Where it listens with TLS.
    #[must_use]
    pub fn addresses_tls(&self) -> &[SocketAddr] {
        &self.addresses[1]
    }

    /// Shows this certificate to whoever comes by TLS from now on.
    ///
    /// # Errors
    /// Its key does not fit; then nothing changes.
    pub fn show(&self, identity: &Identity) -> Result<(), TlsError> {
        let config = tls::server(identity, Clients::Anonymous, &[])?;
        let shown = self.certificate.lock();
        *shown.unwrap_or_else(PoisonError::into_inner) = Some(config);
        Ok(())
    }

    /// Shows the broker a newer token, within a second.
    pub fn set_token(&self, token: Token) {
        for next in &self.tokens {
            next.set(token.clone());
        }
    }

    /// Whether its thread goes round.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let swept = Duration::from_micros(self.levels.swept.load(Ordering::Relaxed));
        clock::now().since(Time::ZERO + swept) < WELL
    }

    /// What it counts and what there is now, as Prometheus wants it.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let levels = self.levels.metrics().into_iter();
        let levels = levels.chain(self.totals.metrics());
        let patrolled = self.films.patrolled().all().into_iter();
        let patrolled = patrolled.map(|(_, name, help, value)| Metric {
            name,
            help,
            is_counter: true,
            value,
        });
        let streams = Metric {
            name: "sangam_rtsp_film_streams",
            help: "Films that this node sends by datagrams now",
            is_counter: false,
            value: self.totals.streams.load(Ordering::Relaxed),
        };
        let levels = levels.chain(patrolled).chain([streams]);
        levels.chain(self.counts.metrics()).collect()
    }

    /// Name, explanation and value of all that is counted.
    #[must_use]
    pub fn counts(&self) -> Vec<Counted> {
        let mut all = self.counts.all();
        all.extend(self.totals.all());
        let patrolled = self.films.patrolled().all().into_iter();
        all.extend(patrolled.map(|(name, _, help, value)| (name, help, value)));
        all
    }

    /// How its process and its memory of films fare.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let (user, system) = processor();
        let cache = self.films.cache();
        let (cache_blocks, cache_hits) = cache.counts();
        Standing {
            user,
            system,
            cache_blocks,
            cache_hits,
            disk_bytes: cache.bytes_read(),
        }
    }

    /// The films that it serves.
    #[must_use]
    pub const fn films(&self) -> &Arc<Films> {
        &self.films
    }

    /// What it does for other nodes of the archive.
    #[must_use]
    pub fn desk(&self) -> Arc<dyn Desk> {
        self.desk.clone()
    }
}

impl Drop for Rtsp {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the RTSP server had panicked");
        }
    }
}
