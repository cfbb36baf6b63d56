//! What the demonstration says.

use std::fmt::Write;
use std::path::Path;

use super::Outcome;
use super::broker::DemoBroker;
use crate::commands::play::Summary;
use crate::ffmpeg::Probe;
use sangam_model::Class;

pub(super) fn hello(seconds: u64) -> String {
    format!("Sangam demo: a real clip through two linked brokers on this machine, {seconds} s.\n\n")
}

pub(super) fn clip(clip: &Path, probe: &Probe) -> String {
    let codecs: Vec<_> = probe
        .codecs
        .iter()
        .map(|codec| codec.name.as_str())
        .collect();
    let (path, codecs, seconds) = (clip.display(), codecs.join(" and "), probe.seconds);
    format!("clip       {path}: {codecs}, {seconds:.0} s, played in a loop\n")
}

pub(super) fn brokers(first: &DemoBroker, second: &DemoBroker) -> String {
    let line = |broker: &DemoBroker| {
        let DemoBroker {
            name,
            udp,
            http,
            child,
        } = broker;
        format!(
            "{name}     udp {udp}, http://{http}/metrics, process {}\n",
            child.id()
        )
    };
    format!("{}{}", line(first), line(second))
}

/// How to look at the stream while it runs.
pub(super) fn watch(sdp: &Path) -> String {
    let path = sdp.display();
    format!(
        "\nWatch or listen while it runs:\n\
         \x20 ffplay -protocol_whitelist file,udp,rtp {path}\n\
         \x20 gst-launch-1.0 filesrc location={path} ! sdpdemux ! decodebin ! autovideosink\n\n"
    )
}

/// What happened, in plain words.
pub(super) fn outcome(outcome: &Outcome, problems: &[String]) -> String {
    let mut text = String::from("\nWhat happened\n");
    // Writing to a String cannot fail.
    let _ = write!(text, "{}", way(outcome));
    if let Some(latency) = latency(&outcome.received) {
        let _ = writeln!(text, "  {latency}");
    }
    match (&outcome.received.recording, &outcome.recording) {
        (Some(path), Some(probe)) => {
            let packets = |class| probe.first(class).map_or(0, |codec| codec.packets);
            let (path, seconds) = (path.display(), probe.seconds);
            let (video, audio) = (packets(Class::Video), packets(Class::Audio));
            let _ = writeln!(
                text,
                "  What arrived is in {path}: {seconds:.1} s, {video} pictures and {audio} packets \
                 of sound; ffprobe reads all of it."
            );
        }
        _ => text += "  Nothing was recorded.\n",
    }
    if problems.is_empty() {
        text += "  All is well.\n";
        text += NEXT;
    } else {
        let _ = writeln!(text, "  Not well: {}.", problems.join("; "));
    }
    text
}

const NEXT: &str = "
Try next
  sangam demo --clip your-film.mp4            the same with a clip of yours
  sangam serve --dev                          a broker to play with; then, elsewhere:
  sangam publish --topic demo/me --file your-film.mp4
  sangam play --topic 'demo/#' --sdp live.sdp
  sangam bench list                           what this machine can carry
  sangam config example                       a network of brokers
";

fn way(outcome: &Outcome) -> String {
    let report = &outcome.received.report;
    let [first, second] = &outcome.brokers;
    let streams: Vec<_> = outcome
        .sent
        .iter()
        .map(|sent| sent.topic.as_str())
        .collect();
    format!(
        "  FFmpeg published {} through {}; each packet crossed the link to {} once.\n\
         \x20 {} packets arrived there in {:.0} s, {} were lost ({:.2} %).\n",
        streams.join(" and "),
        first.name,
        second.name,
        report.packets(),
        report.seconds,
        report.lost(),
        report.loss_percent(),
    )
}

fn latency(received: &Summary) -> Option<String> {
    let all = received
        .report
        .lines
        .iter()
        .filter_map(|line| line.reading.latency_ms);
    let worst = all.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (p50, p99) = worst;
    Some(format!(
        "From publisher to player through both brokers a packet took {p50:.2} ms in the median; \
         99 of 100 took less than {p99:.2} ms."
    ))
}
