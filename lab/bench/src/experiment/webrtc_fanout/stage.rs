//! Brokers in a chain, a sender at the first, and those who watch at all of them.

use std::thread;
use std::time::{Duration, Instant};

use crate::crowd::webrtc::{Audience, Beat, Medium, Part, Peer, Peers, Sender};
use crate::error::Error;
use crate::process::{Broker, Carrier, Metrics, Queuing, Setup, own_cpu};
use crate::scenario::Folder;

const TOPIC: &str = "bench/sender";
/// Before counting begins: key frames have come, estimates have settled.
const WARM_UP: Duration = Duration::from_secs(3);
/// After the last packet, until what is on its way and what is asked for again has come.
const RUN_OUT: Duration = Duration::from_secs(1);
/// How long the last one who joins may take.
const JOIN_PATIENCE: Duration = Duration::from_secs(60);

/// What is played.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    pub(super) beats: &'a [Beat],
    pub(super) brokers: usize,
    /// Of each broker.
    pub(super) shards: usize,
    /// Spread evenly over the brokers.
    pub(super) subscribers: usize,
    /// Threads that serve them.
    pub(super) threads: usize,
    /// How many join each second; `None`: one as soon as the one before is answered.
    pub(super) joins_per_s: Option<f64>,
    pub(super) span: Duration,
}

/// What was measured. Video stands before audio.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) took: Duration,
    /// Packets sent within the window, and received of them.
    pub(super) sent: [u64; 2],
    pub(super) received: [u64; 2],
    /// Packets sent from the first to the last.
    pub(super) sent_in_all: u64,
    pub(super) brokers: Vec<Usage>,
    pub(super) generator_cpu: Duration,
    /// From when each was due to join until its first packet, in rising order.
    pub(super) joins: Vec<Duration>,
}

/// One broker's part.
#[derive(Debug)]
pub(super) struct Usage {
    /// Counted within the window.
    pub(super) window: Metrics,
    pub(super) cpu: Duration,
    /// Counted from its start to the end.
    pub(super) whole: Metrics,
}

impl Outcome {
    /// CPU of all brokers.
    pub(super) fn cpu(&self) -> Duration {
        self.brokers.iter().map(|broker| broker.cpu).sum()
    }

    /// Packets that the brokers delivered within the window.
    pub(super) fn delivered(&self) -> f64 {
        let of = |broker: &Usage| broker.window.sum("sangam_delivered_packets_total", "");
        self.brokers.iter().map(of).sum()
    }

    /// What did not come of a medium, in percent; `None` if none was sent.
    pub(super) fn loss_percent(&self, medium: Medium, subscribers: usize) -> Option<f64> {
        let place = medium as usize;
        let due = (self.sent[place] * subscribers as u64) as f64;
        let came = self.received[place] as f64;
        (due > 0.0).then(|| (1.0 - came / due).max(0.0) * 100.0)
    }

    /// How often a packet left each broker for another one.
    pub(super) fn crossings(&self) -> impl Iterator<Item = f64> {
        let sent = self.sent_in_all.max(1) as f64;
        let relayed = |broker: &Usage| broker.whole.sum("sangam_relayed_packets_total", "");
        self.brokers
            .iter()
            .map(move |broker| relayed(broker) / sent)
    }

    /// The time within which so many percent had joined.
    pub(super) fn joined_ms(&self, percent: usize) -> Option<f64> {
        let last = self.joins.len().checked_sub(1)?;
        let at = self.joins[(self.joins.len() * percent / 100).min(last)];
        Some(at.as_secs_f64() * 1e3)
    }
}

/// Plays a plan.
///
/// # Errors
/// If a broker does not start or dies, or if peers cannot join.
pub(super) fn play(plan: &Plan<'_>) -> Result<Outcome, Error> {
    let folder = Folder::new()?;
    let brokers = start(plan, &folder)?;
    let mut voice = Peers::new()?;
    let now = Instant::now();
    voice.add(Peer::join(&brokers[0], Part::Sends, (TOPIC, now))?)?;
    voice.connect()?;
    let mut sender = Sender::start(voice, plan.beats.to_vec());
    let mut audience = Audience::new(plan.threads)?;
    fill(plan, &brokers, &mut audience)?;
    audience.wait_joined(JOIN_PATIENCE)?;
    thread::sleep(WARM_UP);
    let before = Reading::take(&brokers, (&sender, &audience))?;
    thread::sleep(plan.span);
    let after = Reading::take(&brokers, (&sender, &audience))?;
    sender.stop();
    thread::sleep(RUN_OUT);
    let received = audience.received();
    let [video, audio] = sender.sent();
    let usage = |(place, broker): (usize, &Broker)| {
        let ((metrics, cpu), (old, spent)) = (&after.brokers[place], &before.brokers[place]);
        Ok(Usage {
            window: metrics.since(old),
            cpu: cpu.saturating_sub(*spent),
            whole: broker.metrics()?,
        })
    };
    let late = less(sender.sent(), after.sent);
    let counted = plan.subscribers as u64;
    let came = less(received, before.received);
    Ok(Outcome {
        took: after.at - before.at,
        sent: less(after.sent, before.sent),
        // What was sent after the window is taken to have come.
        received: less(came, late.map(|sent| sent * counted)),
        sent_in_all: video + audio,
        brokers: brokers
            .iter()
            .enumerate()
            .map(usage)
            .collect::<Result<_, Error>>()?,
        generator_cpu: after.generator_cpu - before.generator_cpu,
        joins: audience.joins(),
    })
}

/// What was counted at a moment.
struct Reading {
    at: Instant,
    sent: [u64; 2],
    received: [u64; 2],
    brokers: Vec<(Metrics, Duration)>,
    generator_cpu: Duration,
}

impl Reading {
    fn take(brokers: &[Broker], (sender, audience): (&Sender, &Audience)) -> Result<Self, Error> {
        let reading = |broker: &Broker| Ok((broker.metrics()?, broker.cpu().total));
        Ok(Self {
            brokers: brokers.iter().map(reading).collect::<Result<_, Error>>()?,
            generator_cpu: own_cpu(),
            at: Instant::now(),
            received: audience.received(),
            sent: sender.sent(),
        })
    }
}

fn less(after: [u64; 2], before: [u64; 2]) -> [u64; 2] {
    [0, 1].map(|place| after[place].saturating_sub(before[place]))
}

/// Each broker dials the one before it.
fn start(plan: &Plan<'_>, folder: &Folder) -> Result<Vec<Broker>, Error> {
    let mut brokers: Vec<Broker> = Vec::new();
    for number in 1..=plan.brokers.max(1) {
        let setup = Setup {
            number,
            shards: plan.shards,
            queuing: Queuing::Double,
            neighbours: brokers
                .last()
                .map(|broker| broker.udp)
                .into_iter()
                .collect(),
            port: 0,
            site: None,
            carrier: Carrier::Udp,
            program: None,
            webrtc: true,
            clients: false,
            sessions: false,
            routing: None,
        };
        brokers.push(Broker::start(&setup, folder.path())?);
    }
    Ok(brokers)
}

/// Lets all who watch in, at the pace of the plan.
fn fill(plan: &Plan<'_>, brokers: &[Broker], audience: &mut Audience) -> Result<(), Error> {
    let pictures = plan.beats.iter().any(|beat| beat.medium == Medium::Video);
    let awaited = if pictures {
        Medium::Video
    } else {
        Medium::Audio
    };
    let begun = Instant::now();
    for number in 0..plan.subscribers {
        let due = match plan.joins_per_s {
            Some(rate) => begun + Duration::from_secs_f64(number as f64 / rate),
            None => Instant::now(),
        };
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let broker = &brokers[number % brokers.len()];
        audience.enter(Peer::join(broker, Part::Watches(awaited), (TOPIC, due))?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        Outcome {
            took: Duration::from_secs(1),
            sent: [200, 0],
            received: [990, 0],
            sent_in_all: 300,
            brokers: Vec::new(),
            generator_cpu: Duration::ZERO,
            joins: (1..=100).map(Duration::from_millis).collect(),
        }
    }

    #[test]
    fn loss_is_what_did_not_come_to_all() {
        let outcome = outcome();
        let percent = outcome.loss_percent(Medium::Video, 5);
        assert!((percent.expect("sent") - 1.0).abs() < 1e-9, "{percent:?}");
        assert_eq!(outcome.loss_percent(Medium::Audio, 5), None);
    }

    #[test]
    fn the_time_of_joining_is_that_of_the_slowest_of_a_share() {
        assert_eq!(outcome().joined_ms(95), Some(96.0));
        assert_eq!(outcome().joined_ms(100), Some(100.0));
        let nobody = Outcome {
            joins: Vec::new(),
            ..outcome()
        };
        assert_eq!(nobody.joined_ms(95), None);
    }
}
