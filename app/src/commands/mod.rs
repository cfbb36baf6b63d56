//! What each command does.

mod about;
mod archive;
mod ca;
mod config;
mod demo;
mod doctor;
mod lab;
mod monitor;
mod net;
mod peer;
mod play;
mod publish;
mod serve;
mod session;
mod table;
mod token;

use clap::CommandFactory;
use time::OffsetDateTime;

use crate::cli::{Cli, Command, LogFormat};
use crate::exit::Failure;
use crate::{exit, logs};

pub(crate) use archive::{Order, Orders};

/// Does what the command line asks for.
///
/// # Errors
/// What went wrong, with the exit code.
pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
    start_logs(&cli)?;
    let json = cli.common.json;
    match cli.command {
        Command::Serve(args) => serve::run(&args, json),
        Command::Publish(args) => publish::run(&args, json),
        Command::Play(args) => play::run(&args, json),
        Command::Record(args) => archive::record(&args, json),
        Command::Replay(args) => archive::replay(&args, json),
        Command::Archive(args) => archive::run(&args, json),
        Command::Demo(args) => demo::run(&args, json),
        Command::Session(args) => session::run(&args, json),
        Command::Net(args) => net::run(&args, json),
        Command::Monitor(args) => monitor::run(&args, json),
        Command::Bench { args } => Err(lab::run("sangam-bench", &args, json)),
        Command::Sim { args } => Err(lab::run("sangam-sim", &args, json)),
        Command::Doctor(file) => doctor::run(&file, json),
        Command::Ca(command) => ca::run(&command, json),
        Command::Token(command) => token::run(&command, json),
        Command::Config(command) => config::run(&command, json),
        Command::Completions { shell } => about::completions(shell, json),
        Command::Man { out } => about::man(Cli::command(), out.as_deref(), json),
    }
}

/// Brokers log what they do; the other commands only what is wrong, as their output is the table.
fn start_logs(cli: &Cli) -> Result<(), Failure> {
    let (level, dev) = match &cli.command {
        Command::Serve(args) => ("info", args.dev),
        Command::Monitor(_) => ("info", false),
        _ => ("warn", false),
    };
    let level = cli.common.log.as_deref().unwrap_or(level);
    let format = cli.common.log_format.or(dev.then_some(LogFormat::Text));
    let wrong = |message: String| Failure::new(exit::Exit::Usage, message);
    logs::start(format, level).map_err(wrong)
}

/// A moment in seconds since 1970 as people write it.
fn moment(seconds: i64) -> String {
    let Ok(time) = OffsetDateTime::from_unix_timestamp(seconds) else {
        return "no date".to_owned();
    };
    let (hour, minute, second) = time.to_hms();
    format!("{} {hour:02}:{minute:02}:{second:02} UTC", time.date())
}
