//! The paper's findings.

use core::ops::Range;

use super::super::tables::overhead::overhead;
use super::super::{Cell, Results, Session};
use super::{Claim, Evidence, Verdict, each, median, range};

const VCR_WM: (&str, &str) = ("vcroute", "wmjitter");
const VIA_WM: (&str, &str) = ("via", "wmjitter");
const VIA_BF: (&str, &str) = ("via", "neteq");
const DRT_WM: (&str, &str) = ("direct", "wmjitter");
const DRT_BF: (&str, &str) = ("direct", "neteq");
/// Users whose links are dynamic in the paper.
const DYNAMIC: [&str; 3] = [">Jakarta", ">Kampala", ">NewYork"];

pub(super) fn claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    let cities = evidence.some(&["t7", "t1", "t2"]);
    let cloud = evidence.some(&["t5", "t5-spikes"]);
    let mut all = vec![
        Claim::over(
            "VCRoute+WMJitter is 4 to 13 % below Via+buffer in the mean (WonderProxy, VI-C1)",
            &cities,
            |results| less(results, |_| true, (VCR_WM, VIA_BF), mean, 0.04..0.13),
        ),
        Claim::over(
            "Medians of VCRoute+WMJitter are 0 to 16 % below Direct+WMJitter (Tencent, VI-C2)",
            &cloud,
            |results| less(results, |_| true, (VCR_WM, DRT_WM), middle, 0.0..0.16),
        ),
        Claim::over(
            "Medians of VCRoute+WMJitter are 6 to 18 % below Via+WMJitter (Tencent, VI-C2)",
            &cloud,
            |results| less(results, |_| true, (VCR_WM, VIA_WM), middle, 0.06..0.18),
        ),
        Claim::over(
            "WMJitter is 8 to 16 % below the buffer with direct routing, on dynamic pairs (VI-C1)",
            &cities,
            |results| less(results, dynamic, (DRT_WM, DRT_BF), mean, 0.08..0.16),
        ),
        Claim::over(
            "WMJitter is 2 to 13 % below the buffer with Via, on dynamic pairs (VI-C1)",
            &cities,
            |results| less(results, dynamic, (VIA_WM, VIA_BF), mean, 0.02..0.13),
        ),
        Claim::over(
            "WMJitter loses 2 to 4 % of packets less than the buffer (WonderProxy, VI-C3)",
            &cities,
            fewer_lost,
        ),
    ];
    for (name, paper) in [("t4-9", 0.27), ("t4-90", 0.29), ("t4-900", 0.29)] {
        let claim = format!(
            "VCRoute+WMJitter is {:.0} % below Via+buffer on {} paths (VI-D)",
            100.0 * paper,
            &name[3..]
        );
        all.push(Claim::over(&claim, &evidence.some(&[name]), |results| {
            less(
                results,
                |_| true,
                (VCR_WM, VIA_BF),
                mean,
                0.8 * paper..paper,
            )
        }));
    }
    all.extend([changes(evidence), plans(evidence), most(evidence)]);
    all.extend(predictions(evidence));
    all
}

fn dynamic(session: &str) -> bool {
    DYNAMIC.iter().any(|user| session.ends_with(user))
}

fn mean(cell: &Cell<'_>) -> f64 {
    cell.release_ms()
}

fn middle(cell: &Cell<'_>) -> f64 {
    cell.tally.release.quantile_ms(0.5)
}

type Solution = (&'static str, &'static str);

/// How much less one solution's latency is than the other's, session by session.
fn reductions(
    results: &Results,
    sessions: impl Fn(&str) -> bool,
    (mine, theirs): (Solution, Solution),
    of: fn(&Cell<'_>) -> f64,
) -> Vec<f64> {
    each(results, sessions, |session| {
        let mine = results.cell_of(session, mine.0, mine.1)?;
        let theirs = results.cell_of(session, theirs.0, theirs.1)?;
        Some(1.0 - of(&mine) / of(&theirs))
    })
}

fn less(
    results: &Results,
    sessions: impl Fn(&str) -> bool,
    pair: (Solution, Solution),
    of: fn(&Cell<'_>) -> f64,
    paper: Range<f64>,
) -> Option<(String, bool)> {
    let values = reductions(results, &sessions, pair, of);
    // The paper's range is met if its low end is in the middle and half of its high end is reached.
    let holds = median(&values) >= paper.start && *values.last()? >= paper.end / 2.0;
    let mut words = format!("{} less", range(&values)?);
    for (letter, name) in LETTER.iter().zip(LETTER_WORDS) {
        let pair = (letter(pair.0), letter(pair.1));
        let literal = reductions(results, &sessions, pair, of);
        if let Some(found) = range(&literal) {
            words += &format!(" ({name}: {found})");
        }
    }
    Some((words, holds))
}

/// The same solutions to the letter of the paper: with jitter of all history, and of the window.
const LETTER: [fn(Solution) -> Solution; 2] = [
    |solution| literal(solution, "wmjitter-literal"),
    |solution| literal(solution, "wmjitter-literal-window"),
];
const LETTER_WORDS: [&str; 2] = ["to the letter", "with its window"];

fn literal((method, receiver): Solution, wmjitter: &'static str) -> Solution {
    let method = match method {
        "vcroute" => "vcroute-literal",
        other => other,
    };
    let receiver = match receiver {
        "wmjitter" => wmjitter,
        other => other,
    };
    (method, receiver)
}

fn fewer_lost(results: &Results) -> Option<(String, bool)> {
    let of = |session: &Session, mine: Solution, theirs: Solution| {
        let mine = results.cell_of(session, mine.0, mine.1)?;
        let theirs = results.cell_of(session, theirs.0, theirs.1)?;
        Some(theirs.loss() - mine.loss())
    };
    let fewer = |mine: Solution, theirs| each(results, |_| true, |s| of(s, mine, theirs));
    let (direct, via) = (fewer(DRT_WM, DRT_BF), fewer(VIA_WM, VIA_BF));
    let mut words = format!(
        "direct {} of packets less lost, Via {}",
        range(&direct)?,
        range(&via)?
    );
    for (letter, name) in LETTER.iter().zip(LETTER_WORDS) {
        let (direct, via) = (fewer(letter(DRT_WM), DRT_BF), fewer(letter(VIA_WM), VIA_BF));
        if let (Some(direct), Some(via)) = (range(&direct), range(&via)) {
            words += &format!(" ({name}: direct {direct}, Via {via})");
        }
    }
    Some((words, median(&direct) >= 0.02 && median(&via) >= 0.02))
}

fn changes(evidence: &Evidence<'_>) -> Claim {
    let all = evidence.some(&["t5", "t5-spikes", "t7", "t2"]);
    let claim = "VCRoute changes path 447 times in 30,000 packets (15 in 1,000), Via 34,020 times \
                 in 600,000 (57 in 1,000); on different streams (IV-A, VI-C3)";
    Claim::over(claim, &all, |results| {
        let rate = |method: &str| {
            let costs = results.cell(method, "wmjitter")?.costs;
            Some(1e3 * costs.path_changes as f64 / costs.packets.max(1) as f64)
        };
        let (vcr, literal, via) = (rate("vcroute")?, rate("vcroute-literal")?, rate("via")?);
        let words = format!("VCRoute {vcr:.1}, to the letter {literal:.1}, Via {via:.1} in 1,000");
        Some((words, vcr < via && vcr <= 30.0))
    })
}

fn plans(evidence: &Evidence<'_>) -> Claim {
    let all = evidence.some(&["t7", "t1", "t2", "t5", "t5-spikes"]);
    let claim = "Sending plans costs a packet 9.1 ms at worst and less than 1 % of its latency \
                 (VI-C5; 9.1 ms are 1.2 % of that session's 755 ms)";
    Claim::over(claim, &all, |results| {
        let worst = |solution: Solution| {
            let of = |s: &Session| overhead(results, s, solution);
            let ms = each(results, |_| true, |s| Some(of(s)?.ms));
            let share = each(results, |_| true, |s| Some(of(s)?.share));
            Some((*ms.last()?, *share.last()?))
        };
        let (ms, share) = worst(VCR_WM)?;
        let mut words = format!("{ms:.1} ms at worst, {:.2} % at worst", 100.0 * share);
        if let Some((ms, share)) = worst(LETTER[0](VCR_WM)) {
            words += &format!(" (to the letter: {ms:.1} ms, {:.2} %)", 100.0 * share);
        }
        Some((words, share < 0.01))
    })
}

fn most(evidence: &Evidence<'_>) -> Claim {
    let names = [
        "t1",
        "t2-quarter",
        "t2-half",
        "t2",
        "t2-double",
        "t3",
        "t5",
        "t5-spikes",
        "t7",
    ];
    let all = evidence.some(&names);
    let claim = "End-to-end latency is reduced by up to 44 % against the state of the art \
                 (abstract; no result in the paper says so)";
    Claim::over(claim, &all, |results| {
        let values = reductions(results, |_| true, (VCR_WM, VIA_BF), mean);
        let best = values.last()?;
        let mut words = format!(
            "at most {:.1} % below Via+buffer in any session",
            100.0 * best
        );
        let literal = reductions(results, |_| true, (LETTER[0](VCR_WM), VIA_BF), mean);
        if let Some(best) = literal.last() {
            words += &format!(" (to the letter: {:.1} %)", 100.0 * best);
        }
        Some((words, *best >= 0.44))
    })
}

fn predictions(evidence: &Evidence<'_>) -> Vec<Claim> {
    let near = evidence.predictions.iter();
    let near = near.filter(|found| found.place[1] == "CapeTown>Jakarta");
    let near: Vec<(String, f64)> = near
        .map(|found| (found.place[0].clone(), found.live[0].within_tenth()))
        .collect();
    let words = near
        .iter()
        .map(|(name, share)| format!("{name}: {:.1} %", 100.0 * share));
    let holding = near.iter().filter(|(_, share)| *share > 0.8).count();
    let verdict = match (holding, near.len()) {
        (_, 0) => Verdict::Open,
        (holding, all) if holding == all => Verdict::Holds,
        (0, _) => Verdict::Fails,
        _ => Verdict::Partly,
    };
    let live = Claim {
        claim: "Over 80 % of predictions between Cape Town and Jakarta are within 10 % (VI-C4)"
            .to_owned(),
        found: words.collect::<Vec<_>>().join("; "),
        verdict,
    };
    let set = evidence.collected.map(|[network, linear, rule]| {
        let found = format!(
            "network RMSE {:.1} ms, R2 {:.3}; linear regression {:.1} ms, {:.3}; transit plus lag \
             {:.1} ms, {:.3}",
            network.rmse_ms(),
            network.r2(),
            linear.rmse_ms(),
            linear.r2(),
            rule.rmse_ms(),
            rule.r2()
        );
        let holds = network.r2() >= 0.985 && network.rmse_ms() < linear.rmse_ms();
        (
            found,
            if holds {
                Verdict::Holds
            } else {
                Verdict::Partly
            },
        )
    });
    let (found, verdict) = set.unwrap_or((String::new(), Verdict::Open));
    let set = Claim {
        claim: "On a set split 80 to 20 the network's RMSE is 43.6 ms and its R2 0.985; linear \
                regression is worse (IV-B2)"
            .to_owned(),
        found,
        verdict,
    };
    vec![live, set]
}
