//! Storms that must not break a rule, or figures of a network of brokers.

use core::time::Duration;

use clap::Args;
use sangam_sim::brokers::study::{
    Figures, Gaps, Goal, Monitored, Swing, goal_lines, goals, monitoring_table, share_goals, table,
};
use sangam_sim::brokers::{Fault, Plan, Shape};

use super::{Failure, note, print};

/// Brokers and sessions of the worlds in which gaps are measured.
const GAP_WORLD: (usize, usize) = (120, 200);
/// The most that links jitter while it is counted how often streams move, and for how long.
const SWING: (Duration, Duration) = (Duration::from_millis(3), Duration::from_secs(120));

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How brokers are linked.
    #[arg(long, default_value = "regions")]
    shape: Shape,
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
    /// Random things that happen in each storm.
    #[arg(long, default_value_t = 100)]
    disturbances: usize,
    /// Measure what monitoring costs, and nothing else.
    #[arg(long, conflicts_with = "storms")]
    monitoring: bool,
    /// Print figures as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs what the arguments ask for.
///
/// # Errors
/// The rule that broke, or the goals that were missed.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let result = match arguments.storms {
        Some(storms) => run_storms(arguments, storms),
        None if arguments.monitoring => monitor(arguments),
        None => measure(arguments),
    };
    result.map_err(|fault| Failure(fault.to_string()))
}

fn run_storms(arguments: &Arguments, storms: u64) -> Result<(), Fault> {
    for seed in arguments.seed..arguments.seed.saturating_add(storms) {
        let history = arguments.plan(seed).storm(arguments.disturbances)?;
        note(&format!(
            "seed {seed}: all rules hold, history {history:016x}"
        ));
    }
    Ok(())
}

fn monitor(arguments: &Arguments) -> Result<(), Fault> {
    let (steady, monitored) = Monitored::of(&arguments.plan(arguments.seed), note)?;
    let goals = share_goals(&steady, &monitored);
    let text = if arguments.json {
        let json = serde_json::json!({
            "seed": arguments.seed,
            "brokers": arguments.brokers,
            "sessions": arguments.sessions,
            "shape": arguments.shape.to_string(),
            "steady": steady,
            "monitored": monitored,
            "goals": goals,
        });
        format!("{json:#}")
    } else {
        format!(
            "{}\n{}",
            monitoring_table(&steady, &monitored),
            goal_lines(&goals)
        )
    };
    tell(&text, &goals)
}

/// Prints, and fails if a goal was missed.
fn tell(text: &str, goals: &[Goal]) -> Result<(), Fault> {
    print(text).map_err(|error| Fault(error.to_string()))?;
    let missed = goals.iter().filter(|goal| !goal.reached);
    let missed: Vec<&str> = missed.map(|goal| goal.name).collect();
    if missed.is_empty() {
        return Ok(());
    }
    let (some, all) = (missed.len(), goals.len());
    let names = missed.join("; ");
    Err(Fault(format!("missed {some} of {all} goals: {names}")))
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
    note("swings");
    let swing = Swing::measure(arguments.seed, SWING.0, SWING.1);
    let goals = goals(&figures);
    let text = if arguments.json {
        let json = serde_json::json!({
            "seed": arguments.seed,
            "shape": arguments.shape.to_string(),
            "figures": figures,
            "gap_brokers": brokers,
            "gap_sessions": sessions,
            "gap_seeds": arguments.gap_seeds,
            "gaps": gaps.gaps,
            "swing": swing,
            "goals": goals,
        });
        format!("{json:#}")
    } else {
        format!("{}\n{}", table(&figures, &gaps, &swing), goal_lines(&goals))
    };
    tell(&text, &goals)
}

impl Arguments {
    const fn plan(&self, seed: u64) -> Plan {
        Plan {
            shape: self.shape,
            brokers: self.brokers as usize,
            sessions: self.sessions as usize,
            seed,
        }
    }
}
