//! Figures as a table in Markdown.

use super::*;

/// Everything measured, a line each.
#[must_use]
pub fn table(figures: &Figures, gaps: &Gaps, swing: &Swing) -> String {
    let Figures {
        reach, heal, state, ..
    } = figures;
    let mut out = format!(
        "| Measured | Value |\n|---|---|\n\
         | Brokers, links, sessions, streams | {}, {}, {}, {} |\n\
         | Listening brokers, longest way, past the hop limit | {}, {} links, {} |\n\
         | A partition of {} links heals: up, maps equal, all media (listeners that are too far by \
         then) | {} ms, {} ms, {} ms ({}) |\n",
        figures.brokers,
        figures.links,
        figures.sessions,
        figures.streams,
        reach.pairs,
        reach.longest,
        reach.too_far,
        heal.links,
        heal.links_up_ms,
        heal.maps_ms,
        heal.media_ms,
        heal.too_far,
    );
    out += &format!(
        "| Share of 10 Mb/s while it heals: worst second of the worst link | {:.3} % |\n",
        heal.worst_second,
    );
    out += &shares(figures);
    out += &format!(
        "| Six brokers, links that jitter by up to {} ms for {} s: ways changed, copies for each \
         crossing that a tree takes | {}, {:.3} |\n",
        swing.jitter_ms, swing.seconds, swing.ways_changed, swing.copies,
    );
    out += &format!(
        "| Bytes a broker keeps, mean and most: records | {}, {} |\n\
         | Joins | {}, {} |\n| Directory | {}, {} |\n\n\
         | Failure | Trials | Listeners hit | Median ms | p99 ms | Max ms | Others' max ms |\n\
         |---|---|---|---|---|---|---|\n",
        state.records.0,
        state.records.1,
        state.joins.0,
        state.joins.1,
        state.directory.0,
        state.directory.1,
    );
    for gap in &gaps.gaps {
        out += &format!(
            "| {} | {} | {} | {} | {} | {} | {} |\n",
            gap.failure,
            gap.trials,
            gap.listeners,
            gap.median_ms,
            gap.p99_ms,
            gap.max_ms,
            gap.others_max_ms,
        );
    }
    out
}

/// What monitoring costs, and the network without it.
#[must_use]
pub fn monitoring(steady: &Share, monitored: &Monitored) -> String {
    let mut out = "| Measured | Value |\n|---|---|\n".to_owned();
    out += &lines("steady", steady);
    out + &monitored_lines(monitored)
}

fn monitored_lines(monitored: &Monitored) -> String {
    let mut out = String::new();
    if let Some(full) = &monitored.full {
        out += &lines("all reports to one broker", full);
    }
    out += &lines("what cells merge to one broker", &monitored.merged);
    let ages = &monitored.ages;
    out + &format!(
        "| There: brokers known, age of their figures in the median, of the oldest \
         | {} of {}, {:.1} s, {:.1} s |\n\
         | A link that goes down is seen there at both ends: median, worst of 20 | {} s, {} s |\n",
        ages.known,
        ages.brokers,
        ages.median_s,
        ages.oldest_s,
        ages.down_median_s,
        ages.down_worst_s,
    )
}

/// What the network costs its links, two lines for each state of it.
fn shares(figures: &Figures) -> String {
    let mut out = lines("steady", &figures.steady);
    out += &lines("churn", &figures.churn);
    out + &monitored_lines(&figures.monitored)
}

fn lines(name: &str, share: &Share) -> String {
    format!(
        "| Share of 10 Mb/s, {name}: mean (map, joins, directory, reports) \
         | {:.3} % ({:.3}, {:.3}, {:.3}, {:.3}) |\n\
         | Share of 10 Mb/s, {name}: busiest link, worst second of any, without reports \
         | {:.3} %, {:.3} %, {:.3} % |\n",
        share.mean,
        share.map,
        share.joins,
        share.directory,
        share.monitoring,
        share.busiest,
        share.worst_second,
        share.worst_second_unmonitored,
    )
}
