//! The `sangam` binary: configuration, command line, wiring and shutdown.
//!
//! `cli` says what can be asked for, `commands` does it, one file per command. Everything that
//! touches media lives in other crates; here is only what joins them, and what carries HTTP.

mod cli;
mod config;
mod exit;
mod identity;
mod logs;
mod network;
mod output;
mod sdp;

fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
