//! `capacity`: the most participants that fare well, against what the machine allows.

mod search;

use std::time::Duration;

use super::{BAD_PERCENT_MAX, Reports};
use crate::args::{Options, Receivers};
use crate::error::Error;
use crate::limit;
use crate::load::{Load, Media};
use crate::machine;
use crate::paper;
use crate::process::Queuing;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use crate::scenario::{self, Meeting, Outcome, Place, Plan, Probe};
use search::Search;

/// The confirming run.
const CONFIRM_SECONDS: u64 = 120;
/// Runs of the search with one number, until one is good.
const SEARCH_TRIES: usize = 2;
/// A run of the search.
const SEARCH_SPAN: Duration = Duration::from_secs(8);
/// Receivers measured at random places besides the first and the last.
const RANDOM_PLACES: usize = 6;
/// What is to be reached of what the machine allows.
const RATIO_MIN: f64 = 0.8;
/// The limit is measured with so many destinations per thread: more than any cache of routes.
const LIMIT_FANOUT: usize = 10_000;
const LIMIT_SPAN: Duration = Duration::from_secs(3);
/// Counts of broker and kernel that differ by more are not the same thing.
const UNRECONCILED_PERCENT_MAX: f64 = 0.5;

struct Subject<'a> {
    options: &'a Options,
    media: Media,
    receivers: Receivers,
}

/// What the machine allows, by all cores and by one thread.
struct Allowed {
    participants: f64,
    saturated_per_s: f64,
    one_thread_per_s: f64,
}

/// Searches for each medium that was asked for.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let chosen = |media: &Media| options.media.is_none_or(|only| only == *media);
    let receivers = options.receivers.unwrap_or(Receivers::Sink);
    let mut reports = Vec::new();
    for media in [Media::Audio, Media::Video, Media::Cloud]
        .into_iter()
        .filter(chosen)
    {
        let report = measure(&Subject {
            options,
            media,
            receivers,
        })?;
        reports.push((
            format!("capacity-{}-{}", media.name(), receivers.name()),
            report,
        ));
    }
    Ok(reports)
}

fn measure(subject: &Subject<'_>) -> Result<Report, Error> {
    let title = format!(
        "The most participants of one {} meeting on one broker with less than 1 % lost or late, \
         {}",
        subject.media.name(),
        match subject.receivers {
            Receivers::Sink => "undelivered: passive participants do not read",
            Receivers::Read => "delivered: every socket is read",
        }
    );
    let mut report = Report::new("capacity", title);
    let mut progress = Progress::new(12);
    progress.at("limit");
    let before = subject.allowed()?;
    progress.step();
    let mut search = Search::coarse(before.participants as usize);
    while let Some(participants) = search.next() {
        progress.at(&format!("{participants} participants"));
        // A stall of the machine is no limit of the broker: a bad run of the search gets a second
        // chance. The confirming run gets none.
        let mut good = false;
        for _ in 0..SEARCH_TRIES {
            good |= subject
                .attempt(&mut report, participants, SEARCH_SPAN)?
                .is_some();
            if good {
                break;
            }
        }
        search.tell(participants, good);
        progress.step();
    }
    let confirmed = subject.confirm(&mut report, search.found(), &mut progress)?;
    let Some((participants, outcome)) = confirmed else {
        report.verdict.check(
            "a confirmed number of participants",
            f64::NAN,
            Bound::AtLeast(1.0),
        );
        return Ok(report);
    };
    let allowed = before.mean(&subject.allowed()?);
    subject.conclude(&mut report, (participants, &outcome), &allowed);
    Ok(report)
}

impl Subject<'_> {
    fn allowed(&self) -> Result<Allowed, Error> {
        let load = Load::of(self.media);
        let raw = |threads: usize| {
            limit::measure(&limit::Plan {
                load: &load,
                fanout: LIMIT_FANOUT,
                audiences: 1,
                threads,
                receivers: self.receivers,
                segmented: self.media == Media::Video,
                span: LIMIT_SPAN,
            })
        };
        let (one, all) = (raw(1)?, raw(machine::cores())?);
        // Where readers share the cores, one sending thread may reach more than all.
        let best = if one.packets_per_s > all.packets_per_s {
            &one
        } else {
            &all
        };
        Ok(Allowed {
            participants: f64::from(limit::participants_allowed(&load, &best.costs)),
            saturated_per_s: best.packets_per_s,
            one_thread_per_s: one.packets_per_s,
        })
    }

    /// Long runs around what the short ones found; the largest that was good, if any.
    fn confirm(
        &self,
        report: &mut Report,
        found: usize,
        progress: &mut Progress,
    ) -> Result<Option<(usize, Outcome)>, Error> {
        let seconds = self.options.seconds.unwrap_or(CONFIRM_SECONDS);
        let span = Duration::from_secs(seconds);
        let mut search = Search::fine(found);
        let mut best: Option<(usize, Outcome)> = None;
        while let Some(participants) = search.next() {
            progress.at(&format!("{participants} participants for {seconds} s"));
            let outcome = self.attempt(report, participants, span)?;
            search.tell(participants, outcome.is_some());
            // Later numbers that are good are larger.
            best = outcome.map(|outcome| (participants, outcome)).or(best);
        }
        Ok(best)
    }

    /// One run; the outcome if everybody measured fares well.
    fn attempt(
        &self,
        report: &mut Report,
        participants: usize,
        span: Duration,
    ) -> Result<Option<Outcome>, Error> {
        let outcome = scenario::run(&Plan {
            media: self.media,
            brokers: 1,
            shards: self.options.shards.unwrap_or_else(machine::cores),
            queuing: Queuing::Double,
            meetings: vec![meeting(participants)],
            receivers: self.receivers,
            span,
        })?;
        // Eight seconds have one of the three largest frames: as it is, one late frame would be
        // 3 % of their packets.
        let worst = outcome.worst_percent_of(&Load::of(self.media));
        let good = worst < BAD_PERCENT_MAX;
        let mut row = Row::default()
            .with("participants", participants)
            .with("seconds", span.as_secs())
            .with("good", good)
            .with("worst_bad_percent", worst)
            .with("worst_in_run_percent", outcome.worst_percent());
        if let Some(all) = outcome.among(|_| true) {
            super::columns::quality(&mut row, &all);
        }
        super::columns::cost(&mut row, &outcome);
        row.set("unreconciled_percent", outcome.unreconciled_percent());
        row.set(
            "generator_behind_max_ms",
            outcome.behind_max.as_secs_f64() * 1e3,
        );
        report.ours.push(row);
        Ok(good.then_some(outcome))
    }

    fn conclude(
        &self,
        report: &mut Report,
        (participants, outcome): (usize, &Outcome),
        allowed: &Allowed,
    ) {
        let per_s = Load::of(self.media).packets_per_s();
        let packets_per_s = outcome.delivered() / outcome.took.as_secs_f64();
        let limit_per_s = allowed.participants * per_s;
        let ratio = packets_per_s / limit_per_s;
        report
            .headline
            .set("media", self.media.name())
            .set("receivers", self.receivers.name())
            .set("participants", participants)
            .set("packets_per_s", packets_per_s.round())
            .set("cpu_us_per_packet", outcome.cpu_us_per_packet())
            .set("limit_packets_per_s", limit_per_s.round())
            .set("ratio_to_limit", ratio)
            .set(
                "limit_saturated_packets_per_s",
                allowed.saturated_per_s.round(),
            )
            .set(
                "limit_one_thread_packets_per_s",
                allowed.one_thread_per_s.round(),
            )
            .set("unreconciled_percent", outcome.unreconciled_percent())
            .set("undelivered_by_design", self.receivers == Receivers::Sink);
        report
            .verdict
            .check("ratio to the limit", ratio, Bound::AtLeast(RATIO_MIN));
        let name = "sends of broker and kernel apart, in percent";
        let apart = outcome.unreconciled_percent().abs();
        report
            .verdict
            .check(name, apart, Bound::AtMost(UNRECONCILED_PERCENT_MAX));
        report.paper = paper::rows(paper::CAPACITY);
        report.plot = Some(Plot {
            x: "participants",
            y: "worst_bad_percent",
            series: None,
        });
        report.notes = notes();
    }
}

impl Allowed {
    fn mean(&self, other: &Self) -> Self {
        Self {
            participants: (self.participants + other.participants) / 2.0,
            saturated_per_s: (self.saturated_per_s + other.saturated_per_s) / 2.0,
            one_thread_per_s: (self.one_thread_per_s + other.one_thread_per_s) / 2.0,
        }
    }
}

/// One meeting, measured at both ends and at random places.
fn meeting(participants: usize) -> Meeting {
    let mut meeting = Meeting::measured(0, vec![participants]);
    let mut random = sangam_io::clock::now().as_micros() | 1;
    for _ in 0..RANDOM_PLACES {
        // Xorshift64: any number in (0, 1) will do, and another one in the next run.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let share = (random >> 11) as f64 / (1_u64 << 53) as f64;
        meeting.probes.push(Probe {
            broker: 0,
            place: Place::Inside(share),
        });
    }
    meeting
}

fn notes() -> Vec<String> {
    [
        "Participants join by the real hello and keep alive. Measured are the first, the last and \
         six at random places in the order of subscription; each must have less than 1 % of its \
         packets lost or later than 100 ms. Runs of a few seconds have other shares of large \
         frames than the load: `worst_bad_percent` weighs each kind of frame by its share of it, \
         `worst_in_run_percent` is the plain share.",
        "`limit_packets_per_s` is what raw sends would serve in time on all cores with the same \
         kind of receivers (until they have read it, where they read) and the same frames, mean of \
         before and after; \
         `limit_saturated_packets_per_s` is their rate without the frames' times.",
        "With `sink` passive participants never read: sent, and undelivered by design. With \
         `read` every socket is read and `passive_overflow` counts what found no room.",
        "The load generator shares the processors with the broker.",
    ]
    .map(str::to_owned)
    .to_vec()
}
