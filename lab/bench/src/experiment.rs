//! The experiments, one file each.

mod audio_single_broker;
mod capacity;
mod chain;
mod cloud_voip;
mod columns;
mod crowd;
mod disk_change;
mod double_queue;
mod emulator;
mod failover;
mod fanout;
mod film_repair;
mod film_smoothing;
mod hop;
mod limit;
mod link_throughput;
mod live_routing;
mod loaded;
mod meetings;
mod meetings_single_broker;
mod node_kill;
mod placement;
mod planner;
mod quic_loss;
mod receivers;
mod recorder;
mod reliable;
mod routers;
mod single_meeting;
mod smoke;
mod stability;
mod topologies;
mod upgrade;
mod vod_one_node;
mod vod_scale_up;
mod webrtc_fanout;
mod wide_area;

use std::time::Duration;

use crate::args::{Options, Receivers};
use crate::error::Error;
use crate::report::Report;
use crate::scenario::Meeting;

/// Reports by file name.
pub(crate) type Reports = Vec<(String, Report)>;

/// Something that can be measured.
pub(crate) struct Experiment {
    /// Name on the command line and in reports.
    pub(crate) name: &'static str,
    /// What it measures and whence it comes.
    pub(crate) about: &'static str,
    /// Measures.
    pub(crate) run: fn(&Options) -> Result<Reports, Error>,
}

/// Every experiment, in the order `all` runs them.
pub(crate) const ALL: &[Experiment] = &[
    Experiment {
        name: "smoke",
        about: "a few seconds over two linked brokers: nothing lost, every send accounted for",
        run: smoke::run,
    },
    Experiment {
        name: "limit",
        about: "what raw sendmmsg and UDP_SEGMENT reach on this machine",
        run: limit::run,
    },
    Experiment {
        name: "routers",
        about: "what a packet costs in each method that chooses paths",
        run: routers::run,
    },
    Experiment {
        name: "planner",
        about: "what a central scheduler costs for 48 brokers: time of a plan, bytes of plans",
        run: planner::run,
    },
    Experiment {
        name: "placement",
        about: "what moves, how evenly blocks lie and what a lookup costs while disks change",
        run: placement::run,
    },
    Experiment {
        name: "fanout",
        about: "CPU per packet from a fan-out of 5 to 3,200, against raw sends in the same run",
        run: fanout::run,
    },
    Experiment {
        name: "webrtc-fanout",
        about: "one sender to 100 to 800 WebRTC subscribers and over four brokers: CPU per packet, \
                loss, links, joins",
        run: webrtc_fanout::run,
    },
    Experiment {
        name: "emulator",
        about: "what the emulator itself adds to a packet's way",
        run: emulator::run,
    },
    Experiment {
        name: "receivers",
        about: "what a packet costs in each receiver that evens out jitter",
        run: receivers::run,
    },
    Experiment {
        name: "audio-single-broker",
        about: "one audio meeting on one broker (Wu et al., Table 1)",
        run: audio_single_broker::run,
    },
    Experiment {
        name: "meetings-single-broker",
        about: "one video meeting of N against meetings of 20 (Wu et al., Figure 4)",
        run: meetings_single_broker::run,
    },
    Experiment {
        name: "double-queue",
        about: "neighbours in their own queue or not (Uyar & Fox, Tables 1 to 3)",
        run: double_queue::run,
    },
    Experiment {
        name: "single-meeting",
        about: "one video meeting over four brokers (Uyar & Fox, Tables 4 and 5)",
        run: single_meeting::run,
    },
    Experiment {
        name: "meetings-20",
        about: "video meetings of 20 over four brokers (Uyar & Fox, Tables 6 to 9)",
        run: meetings::run_20,
    },
    Experiment {
        name: "meetings-40",
        about: "video meetings of 40 over four brokers (Uyar & Fox, Tables 10 to 13)",
        run: meetings::run_40,
    },
    Experiment {
        name: "audio-chain",
        about: "one audio conference of 6,400 over four brokers (Wu et al., section 4.1)",
        run: chain::run_audio,
    },
    Experiment {
        name: "chain-10",
        about: "one video meeting over ten brokers (Uyar & Fox, section 3.1)",
        run: chain::run_ten,
    },
    Experiment {
        name: "cloud-voip",
        about: "meetings of 200 with 1 KB every 12.5 ms (Fox et al., Table 1)",
        run: cloud_voip::run,
    },
    Experiment {
        name: "cloud-voip-90ms",
        about: "the same with the broker 90 ms of round trip away (Fox et al., Table 1)",
        run: cloud_voip::run_across,
    },
    Experiment {
        name: "link-throughput",
        about: "1 to 128 connections and 1 to 4 pairs of sites 90 ms apart (Fox et al., Figures 1 \
                and 2)",
        run: link_throughput::run,
    },
    Experiment {
        name: "stability",
        about: "a long ping over a loaded link (Fox et al., message-level measurement)",
        run: stability::run,
    },
    Experiment {
        name: "wide-area",
        about: "one video meeting at four sites, a broker at one or at each (Uyar & Fox, \
                Tables 14 to 16)",
        run: wide_area::run,
    },
    Experiment {
        name: "topologies",
        about: "meetings of 20 and 40 over a chain, ring, star, mesh and hierarchy of brokers",
        run: topologies::run,
    },
    Experiment {
        name: "failover",
        about: "links cut and silent, brokers killed and frozen: how long media stops",
        run: failover::run,
    },
    Experiment {
        name: "live-routing",
        about: "networks t2 and t3 of the simulator by real brokers: direct, link state and plans, \
                beside the simulator's figures",
        run: live_routing::run,
    },
    Experiment {
        name: "hop",
        about: "what a broker loaded to 80 % adds to the way of an event that only crosses it",
        run: hop::run,
    },
    Experiment {
        name: "quic-loss",
        about: "a 4 Mb/s camera and audio by QUIC at 1 % loss and 100 ms of round trip",
        run: quic_loss::run,
    },
    Experiment {
        name: "upgrade",
        about: "brokers replaced one by one, from the previous release to this, under load",
        run: upgrade::run,
    },
    Experiment {
        name: "reliable",
        about: "a million reliable events over three brokers, links cut and the broker between \
                killed: none lost, none twice, in order",
        run: reliable::run,
    },
    Experiment {
        name: "recorder",
        about: "what a recorder costs per packet with 500 tracks, and that all of them are safe",
        run: recorder::run,
    },
    Experiment {
        name: "crowd",
        about: "a session of 10,000 members over WebSockets: how long until all know of a change",
        run: crowd::run,
    },
    Experiment {
        name: "vod-one-node",
        about: "DVD viewers of one archive node until films falter, behind 100 Mb/s and without, \
                beside gst-rtsp-server (Zimmermann et al., Figure 3)",
        run: vod_one_node::run,
    },
    Experiment {
        name: "vod-scale-up",
        about: "the most DVD viewers of one, two, four and eight archive nodes behind 100 Mb/s \
                each (Zimmermann et al., Figure 4)",
        run: vod_scale_up::run,
    },
    Experiment {
        name: "disk-change",
        about: "an archive node with streams to 70 % of what it holds, while a disk leaves and one \
                comes: blocks moved, time, streams that starved",
        run: disk_change::run,
    },
    Experiment {
        name: "node-kill",
        about: "an archive node of two, three and four killed while streams run: how long nothing \
                comes to each client",
        run: node_kill::run,
    },
    Experiment {
        name: "film-smoothing",
        about: "how evenly a film of variable rate is sent, by its client's buffer (Zimmermann et \
                al., section 2.5)",
        run: film_smoothing::run,
    },
    Experiment {
        name: "film-repair",
        about: "lost packets of a film that are there again in time, at 1 and 5 % loss (Zimmermann \
                et al., section 2.6)",
        run: film_repair::run,
    },
    Experiment {
        name: "capacity",
        about: "the most participants with less than 1 % lost or late, against the limit",
        run: capacity::run,
    },
];

/// The experiments of these names; `all` stands for all.
///
/// # Errors
/// [`Error::Unknown`] with the first unknown name.
pub(crate) fn choose(names: &[String]) -> Result<Vec<&'static Experiment>, Error> {
    let mut chosen = Vec::new();
    for name in names {
        if name == "all" {
            chosen.extend(ALL);
        } else {
            let found = ALL.iter().find(|experiment| experiment.name == name);
            chosen.push(found.ok_or_else(|| Error::Unknown(name.clone()))?);
        }
    }
    Ok(chosen)
}

/// Seconds a row of a table is measured unless told otherwise.
const ROW_SECONDS: u64 = 10;
/// The paper's bound on lost and late packets, in percent (Uyar & Fox, section 2).
const BAD_PERCENT_MAX: f64 = 1.0;

/// How long a row is measured.
fn row_span(options: &Options) -> Duration {
    Duration::from_secs(options.seconds.unwrap_or(ROW_SECONDS))
}

/// A number of the paper at the scale asked for, at least one of each measured kind.
fn scaled(count: usize, options: &Options) -> usize {
    ((count as f64 * options.scale).round() as usize).max(2)
}

/// What passive participants of a paper's table do unless told otherwise: they read.
fn receivers(options: &Options) -> Receivers {
    options.receivers.unwrap_or(Receivers::Read)
}

/// `count` users over `brokers`, as evenly as it goes.
fn spread(count: usize, brokers: usize) -> Vec<usize> {
    (0..brokers)
        .map(|broker| count / brokers + usize::from(broker < count % brokers))
        .collect()
}

/// One meeting published at the first broker, first and last of each broker measured.
fn one_meeting(users: Vec<usize>) -> Vec<Meeting> {
    vec![Meeting::measured(0, users)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_all_selects_each() {
        let all = choose(&["all".to_owned()]).expect("all is known");
        assert_eq!(all.len(), ALL.len());
        for experiment in ALL {
            let same = ALL
                .iter()
                .filter(|other| other.name == experiment.name)
                .count();
            assert_eq!(same, 1, "{}", experiment.name);
        }
        assert!(matches!(
            choose(&["nothing".to_owned()]),
            Err(Error::Unknown(_))
        ));
    }

    #[test]
    fn users_are_spread_evenly() {
        assert_eq!(spread(10, 4), [3, 3, 2, 2]);
        assert_eq!(spread(20, 4), [5, 5, 5, 5]);
    }
}
