//! Options of the commands that record, keep, export and replay.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use sangam_archive::NAME_LEN_MAX;
use sangam_client::Address;
use sangam_model::{Filter, Topic};

use super::ConfigFile;
use super::client::{LOCAL, Peer};
use super::net::Api;
use super::session::Name;

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
    /// Read everything, compare checksums, end what a crash interrupted, and make again what is
    /// damaged of films
    Scrub,
    /// Show the disks, how full they are, and what is missing of films
    Status,
    /// Add, remove and show the disks on which films are
    #[command(subcommand)]
    Disk(DiskCommand),
    /// Bring the blocks of films to where they belong since disks came or went; `sangam archive
    /// serve` does so by itself
    Settle {
        /// MiB that are moved in a second at most [default: as fast as it goes]
        #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
        rate: Option<u64>,
    },
    /// Serve the recordings by RTSP, rtsp://HOST:PORT/archive/RECORDING, and with --broker what is
    /// published now, rtsp://HOST:PORT/live/TOPIC
    Serve(Box<ArchiveServeArgs>),
}

/// What to do with disks.
#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// Show the disks
    List,
    /// Add a disk: its share of the blocks goes to it
    Add {
        /// Folder on the disk, which is made
        #[arg(value_name = "DIR")]
        place: String,
        /// Its share against the others' [default: its size in GiB]
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
    /// MiB of films that are moved between disks in a second at most, when disks came or went; 0
    /// leaves that to `sangam archive settle`
    #[arg(long, value_name = "MIB", default_value_t = 16)]
    pub(crate) move_rate: u64,
}

/// A name that fits a recording.
fn name(text: &str) -> Result<String, String> {
    if text.len() > NAME_LEN_MAX {
        return Err(format!("a name has at most {NAME_LEN_MAX} bytes"));
    }
    Ok(text.to_owned())
}
