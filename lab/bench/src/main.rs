//! The papers' experiments against real broker processes, beside what this machine allows.
//!
//! A run starts `sangam serve` as child processes, lets participants join by the real hello,
//! publishes the papers' loads and measures at chosen receivers. [`experiment`] holds one file per
//! experiment, [`scenario`] what they share, [`crowd`] the participants, [`process`] the brokers,
//! [`limit`] the tightest send loop, [`paper`] the printed tables and [`report`] the results.

mod args;
mod crowd;
mod error;
mod experiment;
mod film;
mod limit;
mod load;
mod loopback;
mod machine;
mod measure;
mod paper;
mod process;
mod progress;
mod report;
mod scenario;
mod vod;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, Options};
use error::Error;
use report::write_summary;

/// Some threshold was missed.
const THRESHOLD_MISSED: u8 = 10;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::List { json } => list(json),
        Command::Run { names, options } => run(&names, &options),
        Command::Exec { command } => process::exec(&command).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        // Nothing is left to do if nobody reads.
        let _ = writeln!(io::stderr(), "sangam bench: {error}");
        ExitCode::from(error.exit_code())
    })
}

fn list(json: bool) -> Result<ExitCode, Error> {
    if json {
        let all = experiment::ALL.iter();
        let all: Vec<_> = all
            .map(|e| serde_json::json!({"name": e.name, "about": e.about}))
            .collect();
        return print(&serde_json::Value::from(all).to_string()).map(|()| ExitCode::SUCCESS);
    }
    for experiment in experiment::ALL {
        print(&format!("{:24} {}", experiment.name, experiment.about))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run(names: &[String], options: &Options) -> Result<ExitCode, Error> {
    options.validate()?;
    let mut reports = Vec::new();
    for experiment in experiment::choose(names)? {
        for (name, report) in (experiment.run)(options)? {
            print(&if options.json {
                report.to_json()?
            } else {
                report.to_markdown()
            })?;
            if let Some(folder) = &options.out {
                report.write(folder, &name)?;
            }
            reports.push((name, report));
        }
    }
    if let Some(folder) = &options.out {
        write_summary(folder, &reports)?;
    }
    let passed = reports.iter().all(|(_, report)| report.verdict.passed);
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(THRESHOLD_MISSED)
    })
}

fn print(text: &str) -> Result<(), Error> {
    writeln!(io::stdout(), "{text}").map_err(|error| Error::System("writing the result", error))
}
