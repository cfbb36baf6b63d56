//! `sangam publish`: RTP from a port, or from a file through FFmpeg, into a broker.

mod feed;
mod intake;
mod lines;

use std::time::Duration;

use serde_json::json;

use super::peer::Length;
use super::table::{self, Live};
use crate::cli::PublishArgs;
use crate::exit::{Failure, io};
use crate::output;
use crate::stop::Stop;

pub(super) use feed::{Feed, Place};
pub(super) use intake::Sent;

const SECOND: Duration = Duration::from_secs(1);
const HEAD: [&str; 6] = ["TOPIC", "CODEC", "PACKETS", "kb/s", "KEY FRAMES", "DROPPED"];

/// Publishes until the file, the time or the user's patience ends.
pub(super) fn run(args: &PublishArgs, as_json: bool) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(io("cannot wait for signals"))?;
    if args.reliable {
        return lines::run(args, as_json, &stop);
    }
    let mut feed = Feed::open(args)?;
    let length = Length::new(args.seconds);
    let mut live = Live::new();
    let mut before = feed.sent();
    while !stop.is_set() && !length.is_over() && feed.run_for(SECOND, &stop)? {
        let now = feed.sent();
        if as_json {
            output::json_line(&json!({ "event": "second", "streams": streams(&now) }));
        } else {
            live.show(&table::render(&HEAD, &rows(&now, &before)));
        }
        before = now;
    }
    let seconds = length.elapsed().as_secs_f64();
    let sent = feed.finish()?;
    if as_json {
        let streams = streams(&sent);
        output::json_line(&json!({ "event": "summary", "seconds": seconds, "streams": streams }));
    } else {
        let packets: u64 = sent.iter().map(|sent| sent.packets).sum();
        output::line(&format!("published {packets} packets in {seconds:.1} s"));
    }
    Ok(())
}

fn rows(now: &[Sent], before: &[Sent]) -> Vec<Vec<String>> {
    let row = |(now, before): (&Sent, &Sent)| {
        let bits = (now.bytes - before.bytes) as f64 * 8.0;
        vec![
            now.topic.clone(),
            now.encoding.clone(),
            now.packets.to_string(),
            format!("{:.0}", bits / 1_000.0),
            now.key_frames.to_string(),
            now.dropped.to_string(),
        ]
    };
    now.iter().zip(before).map(row).collect()
}

fn streams(sent: &[Sent]) -> Vec<serde_json::Value> {
    let stream = |sent: &Sent| {
        json!({
            "topic": sent.topic,
            "encoding": sent.encoding,
            "packets": sent.packets,
            "bytes": sent.bytes,
            "key_frames": sent.key_frames,
            "dropped": sent.dropped,
        })
    };
    sent.iter().map(stream).collect()
}
