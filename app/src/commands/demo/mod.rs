//! `sangam demo`: the main job on real input, in front of your eyes.

mod broker;
pub(super) mod guests;
mod meeting;
mod square;
mod words;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use sangam_client::{Address, Scheme};
use sangam_model::{Filter, Topic};
use serde_json::json;

use super::peer::Length;
use super::play::{Player, Summary};
use super::publish::{Feed, Sent};
use super::table::Live;
use crate::cli::{DemoArgs, FilmPace, Jitter, Peer, PlayArgs, PublishArgs};

use crate::exit::{Exit, Failure, io};
use crate::ffmpeg::{self, Probe};
use crate::output;
use crate::stop::Stop;
use broker::DemoBroker;
use square::Square;

const SECOND: Duration = Duration::from_secs(1);
/// How long the network is shown unless somebody says otherwise.
const SECONDS: u64 = 20;
const LAST_PACKETS: Duration = Duration::from_millis(300);
/// Percent of lost packets that even a busy machine does not explain,
const LOSS_MAX: f64 = 5.0;
/// and how many seconds of the stream the killed broker may take with it besides.
const LOST_WITH_BROKER_S: f64 = 0.6;
const CONNECT_TIMEOUT: u64 = 10;
/// A pause that even a busy machine does not explain: a broker that dies costs up to 400 ms.
const PAUSE_MAX_MS: f64 = 1_500.0;

/// How the run is shown, and what is done to it.
struct Show {
    seconds: u64,
    as_json: bool,
    killed: Option<&'static str>,
}

/// What the whole run yielded.
struct Outcome {
    sent: Vec<Sent>,
    /// Packets that left the first broker for another, by its own count.
    relayed: u64,
    /// The broker that was killed on the way.
    killed: Option<&'static str>,
    received: Summary,
    recording: Option<Probe>,
    /// Whether the other brokers ended in good order.
    stopped: bool,
}

/// Runs the demonstration.
pub(super) fn run(args: &DemoArgs, as_json: bool) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(io("cannot wait for signals"))?;
    let say = |text: String| {
        if !as_json {
            output::text(&text);
        }
    };
    std::fs::create_dir_all(&args.out).map_err(io(args.out.display()))?;
    if args.meeting {
        return meeting::run(args, as_json, &stop);
    }
    let seconds = args.seconds.unwrap_or(SECONDS);
    say(words::hello(seconds));
    let clip = match &args.clip {
        Some(clip) => clip.clone(),
        None => ffmpeg::clip(&args.out, ffmpeg::CLOCK, &stop)?,
    };
    say(words::clip(&clip, &ffmpeg::probe(&clip, false)?));
    let mut square = Square::start()?;
    say(words::brokers(square.brokers()));
    let mut show = Show {
        seconds,
        as_json,
        killed: None,
    };
    let (sent, received) = watch(args, &clip, &mut square, (&mut show, &stop))?;
    let recording = received
        .recording
        .as_deref()
        .map(|file| ffmpeg::probe(file, true));
    let recording = recording.transpose()?;
    let relayed = square.first.count("sangam_relayed_packets_total", "")?;
    let stopped = square.stop(show.killed);
    let outcome = Outcome {
        sent,
        relayed,
        killed: show.killed,
        received,
        recording,
        stopped,
    };
    if as_json {
        output::json_line(&facts(&outcome));
    }
    let problems = outcome.problems(seconds);
    say(words::outcome(&outcome, &problems));
    if problems.is_empty() || stop.is_set() {
        return Ok(());
    }
    Err(Failure::new(Exit::Failure, problems.join("; "))
        .hint("`sangam doctor` looks for what troubles a broker on this machine"))
}

/// Publishes through the first broker and plays from the last, with a live table.
fn watch(
    args: &DemoArgs,
    clip: &Path,
    square: &mut Square,
    (show, stop): (&mut Show, &Stop),
) -> Result<(Vec<Sent>, Summary), Failure> {
    let play = play_args(args, &square.last)?;
    let mut player = Player::open(&play)?;
    let mut feed = Feed::open(&publish_args(args, clip, &square.first)?)?;
    let done = Stop::default();
    let feeder = {
        let done = done.clone();
        thread::spawn(move || -> Result<Vec<Sent>, Failure> {
            while !done.is_set() && feed.run_for(SECOND, &done)? {}
            feed.finish()
        })
    };
    let shown = show.run(&mut player, &play, square, stop);
    done.set();
    let sent = feeder
        .join()
        .map_err(|_| Failure::new(Exit::Failure, "the publisher failed"))?;
    shown?;
    // What was published last is still on its way.
    player.run_for(LAST_PACKETS, &Stop::default())?;
    Ok((sent?, player.finish()?))
}

impl Show {
    /// The live table, how to watch as soon as that is possible, and the kill at half time.
    fn run(
        &mut self,
        player: &mut Player,
        play: &PlayArgs,
        square: &mut Square,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let length = Length::new(Some(self.seconds));
        let half = Length::new(Some(self.seconds / 2));
        let mut live = Live::new();
        let mut told = false;
        while !stop.is_set() && !length.is_over() {
            player.run_for(SECOND, stop)?;
            let report = player.report();
            if half.is_over() && self.killed.is_none() && report.packets() > 0 {
                self.killed = Some(square.kill_the_carrier()?);
            }
            if self.as_json {
                output::json_line(&report.json("second"));
                continue;
            }
            let sdp = play.sdp.as_deref().filter(|sdp| !told && sdp.exists());
            if let Some(sdp) = sdp {
                output::text(&words::watch(sdp));
                told = true;
            }
            if told {
                live.show(&words::live(&report.text(), self.killed));
            }
        }
        Ok(())
    }
}

fn play_args(args: &DemoArgs, broker: &DemoBroker) -> Result<PlayArgs, Failure> {
    let path = |name: &str| -> Result<PathBuf, Failure> {
        let path = args.out.join(name);
        // So that nothing of an earlier run is taken for this one's.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(io(path.display())(error))
            }
            _ => Ok(path),
        }
    };
    let filter = Filter::new("demo/#").map_err(|error| wrong(&error))?;
    Ok(PlayArgs {
        from: vec![address(broker)],
        peer: Peer {
            connect_timeout: CONNECT_TIMEOUT,
            ..Peer::default()
        },
        topic: vec![filter],
        film: None,
        start: 0,
        pace: FilmPace::default(),
        buffer: 4,
        relay: false,
        front: Vec::new(),
        credentials: None,
        reliable: false,
        replay: 0,
        events: None,
        rtp: None,
        sdp: Some(path("demo.sdp")?),
        out: Some(path("demo.mkv")?),
        seconds: None,
        max_loss: None,
        max_latency: None,
        jitter: Jitter::default(),
    })
}

fn publish_args(args: &DemoArgs, clip: &Path, broker: &DemoBroker) -> Result<PublishArgs, Failure> {
    Ok(PublishArgs {
        to: vec![address(broker)],
        peer: Peer {
            connect_timeout: CONNECT_TIMEOUT,
            ..Peer::default()
        },
        topic: Topic::new("demo/clip").map_err(|error| wrong(&error))?,
        rtp: None,
        media: None,
        reliable: false,
        file: Some(clip.to_owned()),
        // Our own clip is encoded for this already.
        copy: args.clip.is_none(),
        repeat: true,
        seconds: None,
    })
}

fn address(broker: &DemoBroker) -> Address {
    Address {
        scheme: Scheme::Udp,
        host: broker.udp.ip().to_string(),
        port: broker.udp.port(),
        path: String::new(),
    }
}

fn wrong(error: &sangam_model::TopicError) -> Failure {
    Failure::new(Exit::Failure, error.to_string())
}

impl Outcome {
    /// What did not go as it should; nothing if all is well.
    fn problems(&self, seconds: u64) -> Vec<String> {
        let report = &self.received.report;
        let mut problems = Vec::new();
        if report.lines.len() < self.sent.len() {
            let (came, went) = (report.lines.len(), self.sent.len());
            problems.push(format!("{went} streams were published, but {came} arrived"));
        }
        for line in report.lines.iter().filter(|line| line.reading.packets == 0) {
            problems.push(format!("nothing of {} arrived", line.topic));
        }
        let lost_with_broker = match self.killed {
            Some(_) => LOST_WITH_BROKER_S * 100.0 / seconds.max(1) as f64,
            None => 0.0,
        };
        if report.loss_percent() > LOSS_MAX + lost_with_broker {
            problems.push(format!(
                "{:.2} % of the packets were lost",
                report.loss_percent()
            ));
        }
        let paused = report.longest_pause_ms();
        if paused > PAUSE_MAX_MS {
            problems.push(format!("the stream paused for {paused:.0} ms"));
        }
        match &self.recording {
            None => problems.push("nothing was recorded".to_owned()),
            // A recording begins with the first key frame after the start.
            Some(probe) if probe.seconds < seconds as f64 * 0.5 => {
                problems.push(format!("the recording holds only {:.1} s", probe.seconds));
            }
            Some(_) => {}
        }
        if !self.stopped {
            problems.push("a broker did not end when asked to and was killed".to_owned());
        }
        problems
    }
}

fn facts(outcome: &Outcome) -> serde_json::Value {
    let mut facts = outcome.received.json();
    facts["event"] = json!("demo");
    facts["relayed"] = json!(outcome.relayed);
    facts["killed"] = json!(outcome.killed);
    facts["published"] = json!(outcome.sent.iter().map(|sent| sent.packets).sum::<u64>());
    facts["recorded_s"] = json!(outcome.recording.as_ref().map(|probe| probe.seconds));
    facts
}
