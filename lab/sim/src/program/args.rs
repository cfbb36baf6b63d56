//! What can be asked for.

use std::path::PathBuf;
use std::thread;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use sangam_sim::trace::{Clocks, Family, Gaps};

use super::brokers;

/// A day of moments.
const ROWS_MAX: u64 = 8_640_000;

/// The laboratory on virtual time: routing and jitter on traces, and networks of brokers.
#[derive(Debug, Parser)]
#[command(name = "sangam sim", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Name every experiment
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Run experiments and report what they show
    Run(RunArgs),
    /// Write the report of what was run into a folder
    Report {
        /// The folder that `run --out` was given
        dir: PathBuf,
        /// Print claims and tables as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write, check or import traces of networks
    #[command(subcommand)]
    Trace(TraceCommand),
    /// Networks of brokers: how fast ways converge and what they cost, or storms of failures until
    /// a rule is broken. Equal arguments give equal histories. Says which goals were reached, and
    /// fails if one was missed
    Brokers(brokers::Arguments),
}

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Names from `list`, `all`, or `replay` with --trace
    #[arg(required = true, value_name = "EXPERIMENT")]
    pub(crate) experiments: Vec<String>,
    /// Networks of each family
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = within(1, 1_000))]
    pub(crate) seeds: u64,
    /// Packets of each session, one every 10 ms
    #[arg(long, default_value_t = 600_000, value_name = "N", value_parser = within(500, ROWS_MAX))]
    pub(crate) packets: u64,
    /// Folder for results and report. What it holds already is not run again
    #[arg(long, value_name = "DIR", default_value = "out/sim")]
    pub(crate) out: PathBuf,
    /// Print claims and tables as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Sessions that run at the same time [default: one for each processor]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Only these families of networks, in this order
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = family)]
    pub(crate) families: Vec<Family>,
    /// A trace to be replayed, instead of generated ones
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

impl RunArgs {
    /// Sessions that run at the same time.
    pub(crate) fn jobs(&self) -> usize {
        let processors = || thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(processors)
    }
}

/// What to do with traces.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Name the families of generated networks
    List,
    /// Generate the trace of a family and a seed
    Write(WriteArgs),
    /// Print the hashes of generated traces, in the form of the committed list
    Hash(HashArgs),
    /// Read a trace to its end; say who is in it and whether it is whole
    Check {
        /// The trace
        file: PathBuf,
    },
    /// Take some sessions out of a trace, and write the delays of each of their links as a table
    /// for emulators
    Export {
        /// The trace
        file: PathBuf,
        /// Which sessions, by their numbers from 1 on [default: all]
        #[arg(long, value_name = "N", value_delimiter = ',')]
        sessions: Vec<usize>,
        /// The folder: trace, network.json, and link-N.csv for each link
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Make measured delays of what brokers report of their links: lines of
    /// `sangam net watch --json`
    Record {
        /// The lines; `-` reads them as they come, until their end
        file: PathBuf,
        /// Who sends to whom by which relays, by names or ids of brokers [default: all that are
        /// linked, by up to four relays]
        #[arg(long = "session", value_name = "FROM:TO[:RELAY...]")]
        sessions: Vec<String>,
        /// The delays, to be imported
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Make a trace of measured delays: docs/spec/traces.md has the form
    Import {
        /// The measurements
        file: PathBuf,
        /// The trace to be written
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// What stands for delays where nothing was measured for more than 5 s
        #[arg(long, default_value = "refuse")]
        gaps: GapsName,
        /// What becomes of delays that rise or fall as where clocks drift
        #[arg(long, default_value = "refuse")]
        clocks: ClocksName,
    },
}

/// A trace to be generated.
#[derive(Args, Debug)]
pub(crate) struct WriteArgs {
    /// A name from `trace list`
    #[arg(value_parser = family)]
    pub(crate) family: Family,
    /// Where chance begins
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Moments of 10 ms
    #[arg(long, default_value_t = 600_000, value_parser = within(1, ROWS_MAX))]
    pub(crate) rows: u64,
    /// The file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

/// Traces whose hashes are wanted.
#[derive(Args, Debug)]
pub(crate) struct HashArgs {
    /// Names from `trace list`; all if none is given
    #[arg(value_parser = family)]
    pub(crate) families: Vec<Family>,
    /// Seeds 1 to N
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) seeds: u64,
    /// Moments of 10 ms
    #[arg(long, default_value_t = 600_000, value_parser = within(1, ROWS_MAX))]
    pub(crate) rows: u64,
}

/// Names of [`Gaps`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum GapsName {
    /// Refuse the recording
    Refuse,
    /// Hold the last delay
    Hold,
    /// Lose every packet
    Lost,
}

impl From<GapsName> for Gaps {
    fn from(name: GapsName) -> Self {
        match name {
            GapsName::Refuse => Self::Refuse,
            GapsName::Hold => Self::Hold,
            GapsName::Lost => Self::Lost,
        }
    }
}

/// Names of [`Clocks`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ClocksName {
    /// Refuse the recording
    Refuse,
    /// Take it as it is
    Trust,
    /// Take the drift out, and an offset that makes delays negative
    Correct,
}

impl From<ClocksName> for Clocks {
    fn from(name: ClocksName) -> Self {
        match name {
            ClocksName::Refuse => Self::Refuse,
            ClocksName::Trust => Self::Trust,
            ClocksName::Correct => Self::Correct,
        }
    }
}

fn within(least: u64, most: u64) -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(least..=most)
}

fn family(name: &str) -> Result<Family, String> {
    Family::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Family::ALL.into_iter().map(Family::name).collect();
        format!("the families are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
