//! The `sangam` binary: configuration, command line, wiring and shutdown.
//!
//! `cli` says what can be asked for, `commands` does it, one file or folder per command.
//! `assemble` turns a configuration into a broker, `http` is what operators see of it, and
//! `ffmpeg` runs the children that read, encode and record files. `auth` knows whose tokens to
//! believe, `ca` makes brokers' certificates, `sessions` hosts meetings, `plans` hears schedulers.
//! Media itself is moved by the other crates.

mod assemble;
mod auth;
mod beside;
mod ca;
mod cli;
mod commands;
mod config;
mod exit;
mod ffmpeg;
mod http;
mod identity;
mod keep;
mod logs;
mod monitor;
mod network;
mod output;
mod pem;
mod plans;
mod replayed;
mod sdp;
mod sessions;
mod stop;
mod turn;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let json = cli.common.json;
    // Older kernels have no call for it; what they leave to children is what we were left.
    let _ = sangam_io::child::keep_descriptors();
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}
