//! Options of the commands that record, keep, export and replay.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use sangam_archive::NAME_LEN_MAX;
use sangam_client::Address;
use sangam_model::{Filter, Topic};
use sangam_session::limits::WORD_LEN_MAX;

use super::ConfigFile;
use super::client::{LOCAL, Peer};
use super::net::Api;
use super::session::{Name, SERVER};

/// Where recordings are.
#[derive(Args, Clone, Debug)]
pub(crate) struct Place {
    /// Folder of the archive
    #[arg(
        long = "archive",
        value_name = "DIR",
        env = "SANGAM_ARCHIVE",
        default_value = "archive",
        global = true
    )]
    pub(crate) folder: PathBuf,
}

/// Options of `sangam record`.
#[derive(Args, Debug)]
pub(crate) struct RecordArgs {
    /// Topics or filters to record, such as 'demo/#'
    #[arg(
        value_name = "TOPIC",
        value_parser = Filter::new,
        required_unless_present_any = ["reliable", "session"]
    )]
    pub(crate) topics: Vec<Filter>,
    /// A reliable topic to record as well, such as chat; may be repeated
    #[arg(long, value_name = "TOPIC", value_parser = Topic::new)]
    pub(crate) reliable: Vec<Topic>,
    #[command(flatten)]
    pub(crate) place: Place,
    /// Broker to record from: HOST:PORT, or with quic://, tcp://, tls://, ws:// or wss:// in
    /// front; repeat it for other ways to the same broker, best first
    #[arg(long, visible_alias = "broker", value_name = "ADDRESS", default_value = LOCAL)]
    pub(crate) from: Vec<Address>,
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// Name of the recording [default: the first topic]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,
    /// Stop after so many seconds
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// Session that is recorded, all of it where no topic is named: it is told so, and its page
    /// says it to everybody
    #[arg(long, value_name = "TENANT/NAME", value_parser = super::session::name)]
    pub(crate) session: Option<Name>,
    #[command(flatten)]
    pub(crate) api: Api,
}

impl RecordArgs {
    /// What is recorded: what was named, or all of the session.
    pub(crate) fn filters(&self) -> Vec<Filter> {
        let none = self.topics.is_empty() && self.reliable.is_empty();
        let session = self.session.as_ref().filter(|_| none);
        // Tenant and name are levels of topics.
        let all = session
            .and_then(|Name { tenant, name }| Filter::new(&format!("{tenant}/{name}/#")).ok());
        self.topics.iter().cloned().chain(all).collect()
    }
}

/// Options of `sangam replay`.
#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    /// Recording: its number or the begin of it, or its name; see `sangam archive list`
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: String,
    #[command(flatten)]
    pub(crate) place: Place,
    /// Broker to publish through: HOST:PORT, or with quic://, tcp://, tls://, ws:// or wss:// in
    /// front; repeat it for other ways to the same broker, best first
    #[arg(long, visible_alias = "broker", value_name = "ADDRESS", default_value = LOCAL)]
    pub(crate) to: Vec<Address>,
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// Publish below this topic instead of where it was: PREFIX/and/so/on
    #[arg(long, value_name = "PREFIX", value_parser = Topic::new)]
    pub(crate) below: Option<Topic>,
}

/// Options of `sangam archive`.
#[derive(Args, Debug)]
pub(crate) struct ArchiveArgs {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) command: ArchiveCommand,
}

/// What to do with an archive.
#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveCommand {
    /// Show the recordings and films
    List,
    /// Put a film onto the archive's disks: a transport stream as it is, anything else put into one
    /// by FFmpeg, without encoding
    Add(AddArgs),
    /// Write a recording to a file that players open: .mkv, .webm or .mp4
    Export {
        /// Recording: its number or the begin of it, or its name
        #[arg(value_name = "RECORDING")]
        recording: String,
        /// File to write; its ending says the format. It is replaced if it exists
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Remove a recording or a film for good; one that is being recorded stays
    Remove {
        /// Recording or film: its name, its number or the begin of it
        #[arg(value_name = "NAME")]
        name: String,
        /// Ask nothing
        #[arg(long)]
        yes: bool,
    },
    /// Keep what is recorded in an S3-compatible store: segments go there when they are whole.
    /// Without a place, show it
    Store {
        /// Bucket, with a prefix: s3://BUCKET/PREFIX. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
        /// AWS_REGION and AWS_ENDPOINT_URL stand in the environment
        #[arg(value_name = "PLACE")]
        place: Option<String>,
        /// Move nothing there any more; what is there stays, and is played from there
        #[arg(long, conflicts_with = "place")]
        off: bool,
    },
    /// Read everything, compare checksums, end what a crash interrupted, and make again what is
    /// damaged of films
    Scrub,
    /// Show the disks, how full they are, and what is missing of films
    Status,
    /// Add, remove and show the disks on which films are
    #[command(subcommand)]
    Disk(DiskCommand),
    /// Add, remove and show the nodes of the archive: machines with disks that keep and send its
    /// films together
    #[command(subcommand)]
    Node(NodeCommand),
    /// Bring the blocks of films to where they belong since disks came or went, and whole segments
    /// of recordings to the archive's store; `sangam archive serve` does so by itself
    Settle {
        /// MiB that are moved in a second at most [default: as fast as it goes]
        #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
        rate: Option<u64>,
    },
    /// Serve the recordings by RTSP, rtsp://HOST:PORT/archive/RECORDING, and with --broker what is
    /// published now, rtsp://HOST:PORT/live/TOPIC
    Serve(Box<ArchiveServeArgs>),
    /// Record sessions when their chairs, programs or plans want it, and replay them there
    Recorder(Box<RecorderArgs>),
}

/// Options of `sangam archive recorder`.
#[derive(Args, Debug)]
pub(crate) struct RecorderArgs {
    /// Session server whose sessions are recorded, http://HOST:PORT; repeat it for all that share
    /// sessions
    #[arg(long, value_name = "URL", default_value = SERVER)]
    pub(crate) server: Vec<String>,
    /// The operator's token of those servers; not needed on the same machine where none is
    /// configured
    #[arg(
        long,
        value_name = "TOKEN",
        env = "SANGAM_API_TOKEN",
        hide_env_values = true
    )]
    pub(crate) api_token: Option<String>,
    /// Broker to record from and to replay through: HOST:PORT, or with quic://, tcp://, tls://,
    /// ws:// or wss:// in front; repeat it for other ways to the same broker, best first
    #[arg(long, visible_alias = "broker", value_name = "ADDRESS", default_value = LOCAL)]
    pub(crate) from: Vec<Address>,
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// Its name among recorders, of a-z, A-Z, 0-9, '-', '_' and '.' [default: a new one]
    #[arg(long, value_name = "NAME", value_parser = recorder)]
    pub(crate) name: Option<String>,
}

/// What to do with disks.
#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// Show the disks
    List,
    /// Add a disk: its share of the blocks goes to it
    Add {
        /// Folder on the disk, which is made, or a bucket of an S3-compatible store,
        /// s3://BUCKET/PREFIX: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and
        /// AWS_ENDPOINT_URL stand in the environment
        #[arg(value_name = "PLACE")]
        place: String,
        /// Its share against the others' [default: its size in GiB; of a bucket, that of the
        /// largest other]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
        weight: Option<u32>,
    },
    /// Let a disk go, be it well or dead: its blocks go to the others, or are made again from them
    Remove {
        /// Its number or folder
        #[arg(value_name = "DISK")]
        disk: String,
    },
}

/// What to do with nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Show the nodes
    List,
    /// Make this archive's folder a node, which `sangam archive serve` runs: the first of its
    /// archive, or with --join one of another's
    Add {
        /// Where the other nodes reach it, HOST:PORT
        #[arg(value_name = "ADDRESS")]
        address: String,
        /// A node of the archive, which must be running
        #[arg(long, value_name = "ADDRESS", requires = "key")]
        join: Option<String>,
        /// The archive's key: nodes.key of the first node's folder
        #[arg(long, value_name = "FILE", requires = "join")]
        key: Option<PathBuf>,
    },
    /// Let a node go, be it well or dead: its blocks go to the others, or are made again from them
    Remove {
        /// Its number or address
        #[arg(value_name = "NODE")]
        node: String,
    },
}

/// Options of `sangam archive add`.
#[derive(Args, Debug)]
pub(crate) struct AddArgs {
    /// File with the film
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What it is called [default: the file's name without its ending]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,
    /// Keep so many copies of each block, on as many disks [default: 2 where there are two or three
    /// disks]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u8).range(1..=8),
        conflicts_with = "parity"
    )]
    pub(crate) copies: Option<u8>,
    /// Keep one block of parity with so many: any one of them may be lost [default: 3 where there
    /// are four disks or more]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=32))]
    pub(crate) parity: Option<u8>,
}

/// Options of `sangam archive serve`; they go over the file and the variables.
#[derive(Args, Debug)]
pub(crate) struct ArchiveServeArgs {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Address to listen on by TCP, such as 0.0.0.0:8554; repeat it for IPv6. Whoever reaches it
    /// may see every recording, and every topic that the broker grants this command [default:
    /// 127.0.0.1:8554]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<SocketAddr>,
    /// The same by TLS, rtsps://HOST:PORT
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen_tls: Vec<SocketAddr>,
    /// Certificate for TLS (PEM); see `sangam ca`. It is read again when it changes
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// Key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
    /// HTTP address for health and metrics
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,
    /// Broker whose topics are played, too: HOST:PORT, or with quic://, tcp://, tls://, ws:// or
    /// wss:// in front; repeat it for other ways to the same broker, best first
    #[arg(long, visible_alias = "from", value_name = "ADDRESS")]
    pub(crate) broker: Vec<Address>,
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// File with NAME:PASSWORD in its first line, without which nothing is shown
    #[arg(long, value_name = "FILE")]
    pub(crate) credentials: Option<PathBuf>,
    /// Let cameras and encoders publish to the broker: rtsp://HOST:PORT/live/TOPIC
    #[arg(long)]
    pub(crate) ingest: bool,
    /// File with NAME:PASSWORD in its first line, without which nothing is published [default: that
    /// of --credentials]
    #[arg(long, value_name = "FILE")]
    pub(crate) ingest_credentials: Option<PathBuf>,
    /// Connections at once, and sessions at once [default: 1024]
    #[arg(long, value_name = "N")]
    pub(crate) players: Option<usize>,
    /// Of each, those of one address [default: 256]
    #[arg(long, value_name = "N")]
    pub(crate) players_per_address: Option<usize>,
    /// Mbit of films that this machine sends in a second, on average; beyond, players are refused.
    /// At any moment a tenth more leaves at most, so 90 is right for a line of 100 [default: as
    /// many as its processor and disks carry]
    #[arg(long, value_name = "MBIT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) bandwidth: Option<u64>,
    /// Refuse no player for what a film needs: for experiments
    #[arg(long)]
    pub(crate) no_admission: bool,
    /// File to which a line of JSON is added every two seconds: players, bytes, blocks, processor
    #[arg(long, value_name = "FILE")]
    pub(crate) statistics: Option<PathBuf>,
    /// MiB of blocks of films in memory [default: 256]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub(crate) cache: Option<u64>,
    /// Address to listen on for other nodes [default: the one of `sangam archive node add`]
    #[arg(long, value_name = "ADDR")]
    pub(crate) node_listen: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) care: CareArgs,
}

/// How a server takes care of the blocks of films.
#[derive(Clone, Debug, Args)]
pub(crate) struct CareArgs {
    /// MiB of films that are moved between disks in a second at most, when disks came or went; 0
    /// leaves that to `sangam archive settle`
    #[arg(long, value_name = "MIB", default_value_t = 16)]
    pub(crate) move_rate: u64,
    /// MiB of films that are looked at in a second at most, one after the other, and mended; 0
    /// leaves that to `sangam archive scrub`
    #[arg(long, value_name = "MIB", default_value_t = 8,
        value_parser = clap::value_parser!(u64).range(..=65_536))]
    pub(crate) scrub_rate: u64,
    /// Days in which all films are looked at, if that rate allows
    #[arg(long, value_name = "DAYS", default_value_t = 7.0, value_parser = days)]
    pub(crate) scrub_days: f64,
    /// Seconds after which a disk that is away is let go of, and made again elsewhere, if every
    /// film can be whole without it; 0 leaves that to `sangam archive disk remove`
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) rebuild_after: u64,
}

/// Days of a round: a second to ten years.
fn days(text: &str) -> Result<f64, String> {
    let days = text.parse::<f64>().map_err(|error| error.to_string())?;
    match (0.000_01..=3_650.0).contains(&days) {
        true => Ok(days),
        false => Err("0.00001 to 3650 days".to_owned()),
    }
}

/// A name of a recorder.
fn recorder(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || text.len() > WORD_LEN_MAX || !text.bytes().all(plain) {
        return Err(format!(
            "a recorder's name has 1 to {WORD_LEN_MAX} letters and digits"
        ));
    }
    Ok(text.to_owned())
}

/// A name that fits a recording.
fn name(text: &str) -> Result<String, String> {
    if text.len() > NAME_LEN_MAX {
        return Err(format!("a name has at most {NAME_LEN_MAX} bytes"));
    }
    Ok(text.to_owned())
}
