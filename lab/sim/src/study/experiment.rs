//! What can be run, named after the paper's figures and tables.

use crate::replay::Roster;
use crate::trace::Family;

const CLOUD: [Family; 2] = [Family::T5(false), Family::T5(true)];
const CITIES: [Family; 3] = [Family::T7, Family::T1, Family::T2(4)];
const BOTH: [Family; 5] = [
    Family::T7,
    Family::T1,
    Family::T2(4),
    Family::T5(false),
    Family::T5(true),
];

/// Something that can be run by name.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// As the paper names it.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// On which networks.
    pub families: &'static [Family],
    /// What is done there.
    pub part: Part,
}

/// What is done on the networks of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Delays of links are described.
    Networks,
    /// One session is looked at moment by moment.
    Series,
    /// Predictions are compared with what happened.
    Predictions,
    /// Sessions run with all methods and receivers.
    Sessions,
    /// Sessions run with single changes of methods and receivers.
    Ablation,
}

impl Experiment {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 11] = [
        Self {
            name: "fig4",
            about: "one session moment by moment: transmitting, reordering, end to end",
            families: &[Family::T5(true)],
            part: Part::Series,
        },
        Self {
            name: "fig8",
            about: "the networks: mean and deviation of every link",
            families: &[
                Family::T1,
                Family::T2(4),
                Family::T5(false),
                Family::T5(true),
            ],
            part: Part::Networks,
        },
        Self {
            name: "fig9-11",
            about: "end-to-end latency between ten cities (WonderProxy)",
            families: &CITIES,
            part: Part::Sessions,
        },
        Self {
            name: "fig12-13",
            about: "end-to-end latency in a cloud (the paper: Tencent, here: Google)",
            families: &CLOUD,
            part: Part::Sessions,
        },
        Self {
            name: "fig14",
            about: "relative errors of predicted latency, Cape Town to Jakarta",
            families: &[Family::T7, Family::T2(4)],
            part: Part::Predictions,
        },
        Self {
            name: "fig15",
            about: "loss by endpoint",
            families: &BOTH,
            part: Part::Sessions,
        },
        Self {
            name: "fig16",
            about: "overhead of sending plans",
            families: &BOTH,
            part: Part::Sessions,
        },
        Self {
            name: "fig17",
            about: "9, 90 and 900 parallel paths",
            families: &[Family::T4(9), Family::T4(90), Family::T4(900)],
            part: Part::Sessions,
        },
        Self {
            name: "table3-4",
            about: "errors of predicted latency by session, and on a set split 80 to 20",
            families: &BOTH,
            part: Part::Predictions,
        },
        Self {
            name: "ablation",
            about: "single changes of methods and receivers; Via's T from a minute to a day",
            families: &[Family::T2(4), Family::T3],
            part: Part::Ablation,
        },
        Self {
            name: "ours",
            about: "all methods and receivers on all networks; ours at matched loss",
            families: &Family::ALL,
            part: Part::Sessions,
        },
    ];

    /// The experiment of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|experiment| experiment.name == name)
    }

    /// Who takes part, if sessions are run.
    #[must_use]
    pub fn roster(&self) -> Option<Roster> {
        match self.part {
            Part::Sessions => Some(Roster::study()),
            Part::Ablation => Some(Roster::ablation()),
            Part::Networks | Part::Series | Part::Predictions => None,
        }
    }
}
