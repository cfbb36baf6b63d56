//! `sangam play`: streams out of a broker, to ports, to players and to files; films of an archive.

mod film;
mod forward;
mod lines;
mod meter;
mod player;
mod report;
mod setup;

use std::time::Duration;

use super::peer::Length;
use super::table::Live;
use crate::cli::PlayArgs;
use crate::exit::{Exit, Failure, io};
use crate::output;
use crate::stop::Stop;

pub(super) use player::Player;
pub(super) use report::{Report, Summary};

const SECOND: Duration = Duration::from_secs(1);

/// Receives until the time or the user's patience ends.
pub(super) fn run(args: &PlayArgs, json: bool) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(io("cannot wait for signals"))?;
    if args.film.is_some() {
        return film::run(args, json, &stop);
    }
    if args.reliable {
        return lines::run(args, json, &stop);
    }
    let mut player = Player::open(args)?;
    let length = Length::new(args.seconds);
    let mut live = Live::new();
    while !stop.is_set() && !length.is_over() {
        player.run_for(SECOND, &stop)?;
        let report = player.report();
        if json {
            output::json_line(&report.json("second"));
        } else {
            live.show(&report.text());
        }
    }
    let summary = player.finish()?;
    if json {
        output::json_line(&summary.json());
    } else {
        output::text(&summary.text());
    }
    judge(args, &summary.report)
}

/// Whether the thresholds of the command line were met.
fn judge(args: &PlayArgs, report: &Report) -> Result<(), Failure> {
    let missed = |message: String| Err(Failure::new(Exit::Threshold, message));
    let wants_any = args.max_loss.is_some() || args.max_latency.is_some();
    if wants_any && report.packets() == 0 {
        return missed("nothing arrived, so no threshold was met".to_owned());
    }
    let loss = report.loss_percent();
    if let Some(max) = args.max_loss.filter(|max| loss > *max) {
        return missed(format!(
            "{loss:.2} % of the packets were lost; at most {max} % was asked"
        ));
    }
    let Some(max) = args.max_latency else {
        return Ok(());
    };
    match report.latency_p99_ms() {
        Some(p99) if p99 > max => missed(format!(
            "latency p99 is {p99:.1} ms; at most {max} ms was asked"
        )),
        Some(_) => Ok(()),
        None => missed("latency is unknown: publisher and player share no clock".to_owned()),
    }
}
