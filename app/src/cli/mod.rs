//! The command line: what can be asked for, and the words that explain it.

mod archive;
mod ca;
mod client;
mod lifetime;
mod net;
mod serve;
mod session;
mod token;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use archive::{
    AddArgs, ArchiveArgs, ArchiveCommand, ArchiveServeArgs, CareArgs, DiskCommand, NodeCommand,
    Place, RecordArgs, RecorderArgs, ReplayArgs,
};
pub(crate) use ca::{CaCommand, CaIssueArgs, InitArgs, RequestArgs, RevokeArgs, SignArgs};
pub(crate) use client::{DemoArgs, FilmPace, Jitter, Peer, PlayArgs, PublishArgs};
pub(crate) use lifetime::Lifetime;
pub(crate) use net::{Api, MonitorArgs, NetArgs, NetCommand};
pub(crate) use serve::ServeArgs;
pub(crate) use session::{Name as SessionName, SessionArgs, SessionCommand};
pub(crate) use token::{IssueArgs, KeyArgs, ShowArgs, TokenCommand};

/// Carries live media between people: one broker, or a network of them.
#[derive(Debug, Parser)]
#[command(
    name = "sangam",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Try it:
  sangam demo                                        four brokers, a clip, a kill
  sangam demo --meeting                              two guests, and a link for your browser
  sangam serve --dev                                 this machine only, with such a meeting
  sangam publish --topic demo/anna --file clip.mp4   a file into it
  sangam play --topic 'demo/#' --sdp live.sdp        and out again, for any player

Exit codes: 0 ok, 1 failure, 2 usage, 3 configuration, 4 unreachable, 5 authentication,
10 threshold missed.";

/// Options that every command takes.
#[derive(Args, Debug)]
pub(crate) struct Common {
    /// Print JSON on standard output instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Form of log lines on standard error [default: text on a terminal, else json]
    #[arg(long, global = true, value_name = "FORMAT", env = "SANGAM_LOG_FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// What to log: error, warn, info, debug, trace, or a filter such as info,sangam_node=debug
    #[arg(long, global = true, value_name = "FILTER", env = "SANGAM_LOG")]
    pub(crate) log: Option<String>,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// For machines, one object per line.
    Json,
}

/// One command each.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a broker
    Serve(ServeArgs),
    /// Publish RTP from a port, or a file through FFmpeg
    Publish(PublishArgs),
    /// Receive streams: to ports, to an SDP file for players, or to a file
    Play(PlayArgs),
    /// Record topics into an archive, as they are
    Record(RecordArgs),
    /// Publish a recording again, with the timing it came with
    Replay(ReplayArgs),
    /// List, export and check recordings
    Archive(ArchiveArgs),
    /// Show the main job: four linked brokers, a real clip, one of them killed, a live table
    Demo(DemoArgs),
    /// Show the network: map, links, brokers, the ways of a topic
    Net(NetArgs),
    /// Make sessions, invite people, join and lead
    Session(SessionArgs),
    /// Run an aggregation node: the network as JSON, XML, XPath and metrics
    Monitor(MonitorArgs),
    /// Measure this machine and repeat the papers' experiments (needs sangam-bench)
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Bench {
        /// Handed to sangam-bench as they are
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "ARGS"
        )]
        args: Vec<OsString>,
    },
    /// Repeat a paper's simulations of routing and jitter on traces (needs sangam-sim)
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Sim {
        /// Handed to sangam-sim as they are
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "ARGS"
        )]
        args: Vec<OsString>,
    },
    /// Look for what would trouble a broker on this machine
    Doctor(ConfigFile),
    /// Make certificates for brokers
    #[command(subcommand)]
    Ca(CaCommand),
    /// Make keys and tokens for clients
    #[command(subcommand)]
    Token(TokenCommand),
    /// Check, show or write a configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one page per command to a folder
    Man {
        /// Folder for sangam.1, sangam-serve.1 and so on
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

/// What to do with a configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the file and the SANGAM_* variables
    Validate(ConfigFile),
    /// Print what a broker would use: file, variables and defaults together
    Show(ConfigFile),
    /// Print a commented example that holds every key with its default
    Example,
}

/// A word that may stand in topics, logs and metrics.
fn name(text: &str) -> Result<String, String> {
    crate::config::check_name(text).map(|()| text.to_owned())
}

/// Where the configuration is.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ConfigFile {
    /// Configuration file (TOML); see `sangam config example`
    #[arg(long, value_name = "FILE", env = "SANGAM_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bench_hands_everything_on() {
        let cli = Cli::try_parse_from(["sangam", "bench", "run", "limit", "--help", "--json"]);
        let Command::Bench { args } = cli.unwrap().command else {
            panic!("not bench");
        };
        assert_eq!(args, ["run", "limit", "--help", "--json"]);
    }
}
