//! What the figures are held to.

use core::fmt::Write as _;

use super::*;

/// Two halves are one network again, in ms.
const HEALED_MS: f64 = 2_000.0;
/// What the network takes of its busiest link for its own sake in the mean, in percent of 10 Mb/s.
const SHARE_PERCENT: f64 = 1.0;

/// A figure and what it must not exceed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// What it is, with its unit.
    pub name: &'static str,
    /// What was found.
    pub value: f64,
    /// What it must not exceed.
    pub at_most: f64,
    /// Whether it does not.
    pub reached: bool,
    /// The worst second of the worst link, where the goal is about a mean; nothing is asked of it.
    pub worst_second: Option<f64>,
}

/// What a whole run is held to: how fast it heals, and what it costs.
#[must_use]
pub fn goals(figures: &Figures) -> Vec<Goal> {
    let Heal {
        links_up_ms,
        maps_ms,
        media_ms,
        ..
    } = figures.heal;
    let healed = links_up_ms.max(maps_ms).max(media_ms) as f64;
    let name = "a partition heals: links, maps and media, in ms";
    let mut goals = vec![Goal::new(name, healed, HEALED_MS)];
    goals.extend(shares(&figures.steady, &figures.monitored));
    goals
}

/// What the cost of a network at rest is held to, without monitoring and with it.
#[must_use]
pub fn shares(steady: &Share, monitored: &Monitored) -> [Goal; 2] {
    let goal = |name, share: &Share| Goal {
        worst_second: Some(share.worst_second),
        ..Goal::new(name, share.busiest, SHARE_PERCENT)
    };
    [
        goal("steady: mean of the busiest link, in percent", steady),
        goal(
            "what cells merge to one broker: mean of the busiest link, in percent",
            &monitored.merged,
        ),
    ]
}

/// Goals, a line each, as a list in Markdown.
#[must_use]
pub fn goal_lines(goals: &[Goal]) -> String {
    let mut out = String::new();
    for goal in goals {
        let mark = if goal.reached { "reached" } else { "MISSED" };
        let Goal {
            name,
            value,
            at_most,
            ..
        } = goal;
        // Writing to a string does not fail.
        let _ = write!(out, "- {mark}: {name} = {value:.3} (at most {at_most}");
        if let Some(worst) = goal.worst_second {
            let _ = write!(out, "; worst second of any link {worst:.3}");
        }
        out += ")\n";
    }
    out
}

impl Goal {
    fn new(name: &'static str, value: f64, at_most: f64) -> Self {
        Self {
            name,
            value,
            at_most,
            reached: value <= at_most,
            worst_second: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(media_ms: u64, steady: f64, merged: f64) -> Figures {
        let share = |busiest| Share {
            busiest,
            worst_second: 5.0,
            ..Share::default()
        };
        Figures {
            brokers: 2,
            links: 1,
            sessions: 1,
            streams: 1,
            reach: Reach::default(),
            heal: Heal {
                links: 1,
                links_up_ms: 100,
                maps_ms: 200,
                media_ms,
                too_far: 0,
                worst_second: 15.0,
            },
            steady: share(steady),
            churn: share(9.0),
            monitored: Monitored {
                full: None,
                merged: share(merged),
                ages: Ages::default(),
            },
            state: State::default(),
        }
    }

    #[test]
    fn what_is_too_slow_or_too_dear_is_missed() {
        for (figures, reached) in [
            (figures(2_000, 1.0, 0.5), [true, true, true]),
            (figures(2_010, 0.1, 0.5), [false, true, true]),
            (figures(150, 1.01, 0.5), [true, false, true]),
            (figures(150, 0.1, f64::NAN), [true, true, false]),
        ] {
            let found: Vec<bool> = goals(&figures).iter().map(|goal| goal.reached).collect();
            assert_eq!(found, reached);
        }
    }

    #[test]
    fn lines_show_the_worst_second_beside_the_mean() {
        let lines = goal_lines(&goals(&figures(2_500, 0.1, 0.5)));
        assert!(lines.starts_with("- MISSED: a partition heals"), "{lines}");
        let steady = "link, in percent = 0.100 (at most 1; worst second of any link 5.000)\n";
        assert!(lines.contains(steady), "{lines}");
    }
}
