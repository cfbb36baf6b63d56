//! Runs the simulation from a command line: storms that must not break a rule, or figures.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use sangam_sim::study::{Figures, Gaps};
use sangam_sim::{Fault, Plan, Shape};

/// Disturbances of one storm.
const DISTURBANCES: usize = 100;
/// Brokers and sessions of the worlds in which gaps are measured.
const GAP_WORLD: (usize, usize) = (120, 200);

/// The core of many brokers on virtual time. Measures how fast ways converge after a partition,
/// what the network costs its links, what brokers keep, and how long media is interrupted; or,
/// with --storms, runs random failures until a rule is broken. Equal arguments give equal
/// histories.
#[derive(Debug, Parser)]
#[command(name = "sangam-sim", version)]
struct Arguments {
    /// How brokers are linked.
    #[arg(long, default_value = "regions")]
    shape: Name,
    /// How many there are.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(2..=4_096))]
    brokers: u32,
    /// Sessions among them.
    #[arg(long, default_value_t = 10_000)]
    sessions: u32,
    /// Where chance begins.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Measure gaps over so many seeds; 0 leaves them out.
    #[arg(long, default_value_t = 10)]
    gap_seeds: u64,
    /// Run so many storms instead, each with the next seed; stops at the first broken rule.
    #[arg(long, value_name = "N")]
    storms: Option<u64>,
    /// Print figures as JSON.
    #[arg(long)]
    json: bool,
}

/// Names of [`Shape`]s.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    Chain,
    Ring,
    Star,
    Mesh,
    Tree,
    Cyclic,
    Geometric,
    Regions,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.storms {
        Some(storms) => run_storms(&arguments, storms),
        None => measure(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("sangam-sim: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run_storms(arguments: &Arguments, storms: u64) -> Result<(), Fault> {
    for seed in arguments.seed..arguments.seed.saturating_add(storms) {
        let history = arguments.plan(seed).storm(DISTURBANCES)?;
        note(&format!(
            "seed {seed}: all rules hold, history {history:016x}"
        ));
    }
    Ok(())
}

fn measure(arguments: &Arguments) -> Result<(), Fault> {
    let figures = Figures::measure(&arguments.plan(arguments.seed), note)?;
    let (brokers, sessions) = GAP_WORLD;
    let seeds = arguments.seed..arguments.seed.saturating_add(arguments.gap_seeds);
    let plan = |seed| Plan {
        brokers,
        sessions,
        ..arguments.plan(seed)
    };
    let plans: Vec<Plan> = seeds.map(plan).collect();
    let gaps = Gaps::measure(&plans, 10, note);
    let text = if arguments.json {
        let json = serde_json::json!({
            "seed": arguments.seed,
            "shape": arguments.shape.shape().to_string(),
            "figures": figures,
            "gap_brokers": brokers,
            "gap_sessions": sessions,
            "gap_seeds": arguments.gap_seeds,
            "gaps": gaps.gaps,
        });
        format!("{json:#}")
    } else {
        sangam_sim::study::table(&figures, &gaps)
    };
    writeln!(io::stdout(), "{text}").map_err(|error| Fault(format!("writing figures: {error}")))
}

/// What goes on, for whoever waits.
fn note(text: &str) {
    // Nothing is left to do if nobody reads.
    let _ = writeln!(io::stderr(), "{text}");
}

impl Arguments {
    const fn plan(&self, seed: u64) -> Plan {
        Plan {
            shape: self.shape.shape(),
            brokers: self.brokers as usize,
            sessions: self.sessions as usize,
            seed,
        }
    }
}

impl Name {
    const fn shape(self) -> Shape {
        match self {
            Self::Chain => Shape::Chain,
            Self::Ring => Shape::Ring,
            Self::Star => Shape::Star,
            Self::Mesh => Shape::Mesh,
            Self::Tree => Shape::Tree,
            Self::Cyclic => Shape::Cyclic,
            Self::Geometric => Shape::Geometric,
            Self::Regions => Shape::Regions,
        }
    }
}
