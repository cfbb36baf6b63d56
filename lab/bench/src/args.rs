//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::error::Error;
use crate::film::Kind;
use crate::load::Media;

/// Measures Sangam against the papers and against the machine.
#[derive(Debug, Parser)]
#[command(name = "sangam bench", version, about)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Names every experiment.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Runs experiments and prints the paper's table beside ours.
    Run {
        /// Names from `list`, or `all`.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// How.
        #[command(flatten)]
        options: Options,
    },
    /// Becomes a command that ends with the bench.
    #[command(hide = true)]
    Exec {
        /// The command.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
}

/// How to run experiments.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Participants as a multiple of the paper's.
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    pub(crate) scale: f64,
    /// Seconds each row is measured; for `capacity` the confirming run.
    #[arg(long, value_name = "T")]
    pub(crate) seconds: Option<u64>,
    /// Where reports are written; nothing is written without it.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Prints the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The load of `capacity`, `limit` and `fanout`; each one after the other if absent.
    #[arg(long, value_enum)]
    pub(crate) media: Option<Media>,
    /// Whether passive participants read what they get. An unread socket counts as undelivered.
    #[arg(long, value_enum)]
    pub(crate) receivers: Option<Receivers>,
    /// The film of `vod-one-node` and `vod-scale-up`; without it a DVD, and of the first the others
    /// beside it.
    #[arg(long, value_enum)]
    pub(crate) film: Option<Kind>,
    /// Streams that a node holds, of which `disk-change` has 70 %; measured before if absent.
    #[arg(long, value_name = "N")]
    pub(crate) capacity: Option<usize>,
    /// Delivery shards of each broker; by default one per core where one broker runs, else one.
    #[arg(long, value_name = "N")]
    pub(crate) shards: Option<usize>,
}

impl Options {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`Error::Option`] with the range that does not hold.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let wrong = if !(0.001..=100.0).contains(&self.scale) {
            "--scale lies between 0.001 and 100"
        } else if self
            .seconds
            .is_some_and(|seconds| !(1..=3_600).contains(&seconds))
        {
            "--seconds lies between 1 and 3600"
        } else if self
            .shards
            .is_some_and(|shards| !(1..=64).contains(&shards))
        {
            "--shards lies between 1 and 64"
        } else if self
            .capacity
            .is_some_and(|streams| !(1..=10_000).contains(&streams))
        {
            "--capacity lies between 1 and 10000"
        } else {
            return Ok(());
        };
        Err(Error::Option(wrong.to_owned()))
    }
}

/// What passive participants do with what they get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Receivers {
    /// Sockets that are never read: the kernel drops what comes. Undelivered by design.
    Sink,
    /// Every socket is read, and what overflows is counted.
    Read,
}

impl Receivers {
    /// As options and reports name it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sink => "sink",
            Self::Read => "read",
        }
    }
}
