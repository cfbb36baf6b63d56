//! What the demonstration says.

use std::path::Path;

use sangam_model::Class;

use super::Outcome;
use super::broker::DemoBroker;
use crate::commands::play::Summary;
use crate::ffmpeg::Probe;

const NEXT: &str = "
Try next
  sangam demo --clip your-film.mp4            the same with a clip of yours
  sangam serve --dev                          a broker to play with; then, elsewhere:
  sangam publish --topic demo/me --file your-film.mp4
  sangam play --topic 'demo/#' --sdp live.sdp
  sangam bench list                           what this machine can carry
  sangam config example                       a network of brokers
";

/// What will happen.
pub(super) fn hello(seconds: u64) -> String {
    format!(
        "Sangam demo: a real clip through a network of four brokers on this machine, {seconds} s.\n\
         At half time the broker that carries it is killed.\n\n"
    )
}

/// The meeting is open.
pub(super) fn meeting(
    [first, second]: &[String; 2],
    (process, seconds): (u32, Option<u64>),
) -> String {
    let end = match seconds {
        Some(seconds) => format!("It stays open for {seconds} s (--seconds N for longer)."),
        None => "Ctrl-c ends it.".to_owned(),
    };
    format!(
        "A meeting is open, with two guests whose pictures and sound are really encoded.\n\
         Join it:\n\n\
         \x20   {first}\n\n\
         or by the other broker, where one of the guests is:\n\n\
         \x20   {second}\n\n\
         Then kill that broker, `kill -9 {process}`: who came by it goes on through the first.\n\
         {end}\n\n"
    )
}

/// The clip that is shown.
pub(super) fn clip(clip: &Path, probe: &Probe) -> String {
    let codecs: Vec<_> = probe
        .codecs
        .iter()
        .map(|codec| codec.name.as_str())
        .collect();
    let (path, codecs, seconds) = (clip.display(), codecs.join(" and "), probe.seconds);
    format!("clip    {path}: {codecs}, {seconds:.0} s, played in a loop\n")
}

/// Where the brokers are.
pub(super) fn brokers(brokers: [&DemoBroker; 4]) -> String {
    let line = |broker: &DemoBroker| {
        let (name, udp, http) = (broker.name, broker.udp, broker.http);
        format!(
            "{name}  udp {udp}, http://{http}/metrics, process {}\n",
            broker.child.id()
        )
    };
    let lines: String = brokers.into_iter().map(line).collect();
    lines
        + "
                 demo-b
               /        \\
  FFmpeg - demo-a        demo-d - player
               \\        /
                 demo-c
"
}

/// How to look at the stream while it runs.
pub(super) fn watch(sdp: &Path) -> String {
    let path = std::path::absolute(sdp).unwrap_or_else(|_| sdp.to_owned());
    let path = path.display();
    format!(
        "\nWatch and listen while it runs, with one of\n\
         \x20 ffplay -protocol_whitelist file,udp,rtp {path}\n\
         \x20 gst-launch-1.0 playbin uri=sdp://{path}\n\n"
    )
}

/// The live table, and what was done to the network.
pub(super) fn live(table: &str, killed: Option<&str>) -> String {
    match killed {
        Some(name) => format!("{table}{name}, which carried the clip, was killed (SIGKILL).\n"),
        None => table.to_owned(),
    }
}

/// What happened, in plain words.
pub(super) fn outcome(outcome: &Outcome, problems: &[String]) -> String {
    let mut text = String::from("\nWhat happened\n");
    text += &way(outcome);
    text += &kill(outcome);
    text += &latency(&outcome.received).unwrap_or_default();
    text += &recording(outcome);
    if problems.is_empty() {
        text + "  All is well.\n" + NEXT
    } else {
        text + &format!("  Not well: {}.\n", problems.join("; "))
    }
}

fn way(outcome: &Outcome) -> String {
    let report = &outcome.received.report;
    let topics: Vec<_> = outcome
        .sent
        .iter()
        .map(|sent| sent.topic.as_str())
        .collect();
    let published: u64 = outcome.sent.iter().map(|sent| sent.packets).sum();
    format!(
        "  FFmpeg sent {published} packets of {} to demo-a.\n\
         \x20 demo-a sent {} over its links, RTCP included: each once.\n\
         \x20 {} media packets arrived behind demo-d in {:.0} s, {} were lost ({:.2} %).\n",
        topics.join(" and "),
        outcome.relayed,
        report.packets(),
        report.seconds,
        report.lost(),
        report.loss_percent(),
    )
}

fn kill(outcome: &Outcome) -> String {
    let Some(name) = outcome.killed else {
        return String::new();
    };
    format!(
        "  {name} carried the clip and was killed. The stream took the other way; the longest\n\
         \x20 pause of the run was {:.0} ms.\n",
        outcome.received.report.longest_pause_ms(),
    )
}

fn latency(received: &Summary) -> Option<String> {
    let lines = received.report.lines.iter();
    let known = lines.filter_map(|line| Some((line, line.reading.latency_ms?)));
    let (line, (p50, p99)) = known.max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
    Some(format!(
        "  Through three brokers a packet of {} took {p50:.2} ms in the median, and 99 of 100\n\
         \x20 took less than {p99:.2} ms.\n",
        line.topic,
    ))
}

fn recording(outcome: &Outcome) -> String {
    let (Some(path), Some(probe)) = (&outcome.received.recording, &outcome.recording) else {
        return "  Nothing was recorded.\n".to_owned();
    };
    let packets = |class| probe.first(class).map_or(0, |codec| codec.packets);
    let (video, audio) = (packets(Class::Video), packets(Class::Audio));
    format!(
        "  What arrived is in {}: {:.1} s, {video} pictures and {audio} packets of sound;\n\
         \x20 ffprobe reads all of it.\n",
        path.display(),
        probe.seconds,
    )
}
