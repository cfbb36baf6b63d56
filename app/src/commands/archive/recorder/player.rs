//! A recording that people watch together: its packets on the topics of those who stand for the
//! recorded, in the time that the session says.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sangam_archive::Replayed;
use sangam_client::{Client, Numbering, Publisher};
use sangam_model::Topic;
use sangam_session::{Medium, Replay, Said};
use serde_json::{Value, json};

use super::drawing::Drawing;
use super::past::{Part, Past};
use super::{Id, Options};
use crate::commands::archive::replay::publish;
use crate::commands::peer::{self, Pass};
use crate::commands::session::Server;
use crate::exit::{Exit, Failure, io};
use crate::replayed::{self, Turn};
use crate::stop::Stop;

/// How soon an order is heeded.
const NAP: Duration = Duration::from_millis(20);
/// Whoever watches hears of the streams before their first packets.
const MARGIN: Duration = Duration::from_millis(300);
/// How long the broker may take to let streams begin.
const LEAVE: Duration = Duration::from_secs(3);
/// A picture that began so long before is not waited for: sound goes on, it follows.
const BEFORE_MAX: Duration = Duration::from_secs(8);
/// Between two attempts to tell what must be known.
const AGAIN: Duration = Duration::from_secs(1);
/// Lines of chat that are told at once.
const SAID_MAX: usize = sangam_session::limits::SAID_MAX;
/// Annotations that are.
const RECALLED_MAX: usize = sangam_session::limits::RECALLED_MAX;
/// Attempts to tell them: servers of before do not understand it, and a replay goes on without.
const ATTEMPTS: u32 = 5;

/// The way to the thread that plays.
pub(super) struct Player {
    recording: String,
    wanted: Arc<Mutex<Replay>>,
    order: Arc<AtomicU64>,
    stop: Stop,
    thread: JoinHandle<()>,
}

impl Player {
    /// Begins to look for what is to be replayed.
    pub(super) fn start(
        id: &Id,
        replay: &Value,
        (options, server): (&Arc<Options>, &Server),
    ) -> Result<Self, Failure> {
        let replay = read(replay)?;
        let wanted = Arc::new(Mutex::new(replay.clone()));
        let order = Arc::new(AtomicU64::new(0));
        let (news, inbox) = mpsc::channel();
        let stop = Stop::default();
        let stage = Stage {
            id: id.clone(),
            options: Arc::clone(options),
            wanted: Arc::clone(&wanted),
            order: Arc::clone(&order),
            stop: stop.clone(),
            news,
        };
        let teller = Teller {
            server: server.clone(),
            path: format!("/v1/recorders/{}", options.name),
            id: id.clone(),
            stop: stop.clone(),
        };
        let begin = |name: &str| thread::Builder::new().name(name.to_owned());
        let told = begin("sangam-teller").spawn(move || teller.run(&inbox));
        told.map_err(io("no thread to replay"))?;
        let thread = begin("sangam-player").spawn(move || stage.run());
        Ok(Self {
            recording: replay.recording,
            wanted,
            order,
            stop,
            thread: thread.map_err(io("no thread to replay"))?,
        })
    }

    /// Whether this is what it plays.
    pub(super) fn plays(&self, replay: &Value) -> bool {
        replay["recording"] == self.recording.as_str() && !self.thread.is_finished()
    }

    /// The order that it follows; 0 before it does.
    pub(super) fn order(&self) -> u64 {
        self.order.load(Ordering::Relaxed)
    }

    /// Goes where it is told to.
    pub(super) fn heed(&self, replay: &Value) {
        if let Ok(replay) = read(replay) {
            *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = replay;
        }
    }

    /// Ends it.
    pub(super) fn end(self) -> JoinHandle<()> {
        self.stop.set();
        self.thread
    }
}

fn read(replay: &Value) -> Result<Replay, Failure> {
    serde_json::from_value(replay.clone()).map_err(|error| {
        let message = format!("the session server tells of no replay: {error}");
        Failure::new(Exit::Failure, message)
    })
}

/// Tells the session server what comes of it; packets do not wait for that.
struct Teller {
    server: Server,
    path: String,
    id: Id,
    stop: Stop,
}

impl Teller {
    fn run(self, inbox: &Receiver<Value>) {
        for mut news in inbox {
            news["tenant"] = json!(self.id.0);
            news["name"] = json!(self.id.1);
            let beat = json!({ "places": 0, "replays": [news] }).to_string();
            // Without what was found there is no replay; the rest is worth nothing later.
            let must = news["length_ms"].is_u64() || news["failed"] == true;
            let mut left = match news["recalled"].is_array() {
                true => ATTEMPTS,
                false => u32::from(!must),
            };
            while let Err(error) = self.server.put(&self.path, &beat) {
                tracing::warn!(error = %error.message, "the session does not hear of its replay");
                left = left.saturating_sub(1);
                if (!must && left == 0) || self.stop.is_set() {
                    break;
                }
                thread::park_timeout(AGAIN);
            }
        }
    }
}

/// What the thread works with.
struct Stage {
    id: Id,
    options: Arc<Options>,
    wanted: Arc<Mutex<Replay>>,
    order: Arc<AtomicU64>,
    stop: Stop,
    news: Sender<Value>,
}

/// What goes on, from where and since when.
struct Run {
    base: Duration,
    start: Instant,
    publishers: Vec<Option<Publisher>>,
    next: Option<Replayed>,
    /// The next line of chat.
    line: usize,
    over: bool,
}

impl Stage {
    fn run(self) {
        let session = format!("{}/{}", self.id.0, self.id.1);
        let first = self.wanted();
        let past = Past::open(&self.options.archive, &first.recording, &self.id);
        let past = match past {
            Ok(Some(past)) => past,
            Ok(None) => return self.fail(&session, &"it is not there"),
            Err(error) => return self.fail(&session, &error),
        };
        let length = u64::try_from(past.length().as_millis()).unwrap_or(u64::MAX);
        self.order.store(first.order, Ordering::Relaxed);
        self.tell(json!({
            "order": first.order, "length_ms": length.max(1), "people": past.people,
        }));
        for recalled in past.annotations.chunks(RECALLED_MAX) {
            self.tell(json!({ "order": first.order, "recalled": recalled }));
        }
        match peer::connect(&self.options.brokers, &self.options.peer) {
            Ok((client, pass)) => {
                if let Err(error) = self.play(past, client, pass) {
                    self.fail(&session, &error);
                }
            }
            Err(error) => self.fail(&session, &error),
        }
    }

    fn fail(&self, session: &str, why: &dyn std::fmt::Display) {
        tracing::warn!(session, error = %why, "the recording is not replayed");
        let order = self.wanted().order;
        self.tell(json!({ "order": order, "failed": true }));
    }

    fn tell(&self, news: Value) {
        // The teller ends with this alone.
        let _ = self.news.send(news);
    }

    fn wanted(&self) -> Replay {
        let wanted = self.wanted.lock();
        wanted.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn play(&self, mut past: Past, mut client: Client, mut pass: Pass) -> Result<(), Failure> {
        let mut heeded = 0;
        let mut run: Option<Run> = None;
        let mut drawing = None;
        // Where people went last: the board is there at once, the picture at the key frame before.
        let mut place = Duration::ZERO;
        while !self.stop.is_set() {
            let wanted = self.wanted();
            // Until they are members there is nowhere to publish.
            if wanted.order != heeded && wanted.length_ms.is_some() {
                heeded = wanted.order;
                self.order.store(heeded, Ordering::Relaxed);
                drop(run.take());
                place = Duration::from_millis(wanted.position_ms);
                if drawing.is_none() {
                    drawing = self.drawing(&past, &mut client, &wanted);
                }
                if let Some(drawing) = &mut drawing {
                    drawing.turn(turn(&wanted), &past.strokes, place);
                }
                if wanted.playing {
                    run = Some(self.begin(&mut past, &mut client, &wanted)?);
                }
            }
            if let Some(drawing) = &mut drawing {
                let now = run.as_ref().map_or(place, |run| place.max(run.now()));
                drawing.draw(&past.strokes, now);
            }
            let wait = match &mut run {
                Some(run) if !run.over => self.step(&mut past, run)?,
                _ => NAP,
            };
            self.listen(&mut client, &mut pass, wait)?;
        }
        Ok(())
    }

    /// The board of the recording, if something was drawn on it.
    fn drawing(&self, past: &Past, client: &mut Client, wanted: &Replay) -> Option<Drawing> {
        if past.strokes.is_empty() {
            return None;
        }
        let topic = replayed::topic([&self.id.0, &self.id.1, &wanted.room]).ok()?;
        let drawing = Drawing::new(client, &topic);
        let told = |error: &_| tracing::warn!(%error, "the board of a recording is not shown");
        drawing.inspect_err(told).ok()
    }

    /// Publishes anew, so that receivers know that what comes does not follow what came.
    fn begin(&self, past: &mut Past, client: &mut Client, wanted: &Replay) -> Result<Run, Failure> {
        let publishers = self.publish(past, client, wanted)?;
        let position = wanted.position_ms;
        let base = seek(past, Duration::from_millis(position))?;
        let until = Instant::now() + MARGIN;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            client.recv(left.min(NAP));
        }
        let base_ms = u64::try_from(base.as_millis()).unwrap_or(u64::MAX);
        self.tell(json!({ "order": wanted.order, "position_ms": base_ms }));
        Ok(Run {
            base,
            start: Instant::now(),
            publishers,
            next: None,
            line: past.lines.partition_point(|line| line.at < base),
            over: false,
        })
    }

    fn publish(
        &self,
        past: &Past,
        client: &mut Client,
        wanted: &Replay,
    ) -> Result<Vec<Option<Publisher>>, Failure> {
        let mut publishers = Vec::new();
        for (track, part) in past.replay.recording().tracks.iter().zip(&past.tracks) {
            let topic = part.as_ref().and_then(|part| self.topic(part, wanted));
            let media = track.info.media.clone();
            let publisher = topic.map(|topic| client.begin_publish(&topic, media));
            let mut publisher = publisher.transpose().map_err(peer::failure)?;
            if let Some(publisher) = &mut publisher {
                publisher.set_numbering(Numbering::Rtp);
            }
            publishers.push(publisher);
        }
        let until = Instant::now() + LEAVE;
        let waits = |one: &Option<Publisher>| {
            one.as_ref()
                .is_some_and(|one| matches!(one.is_live(), Ok(false)))
        };
        while publishers.iter().any(waits) && Instant::now() < until && !self.stop.is_set() {
            client.recv(NAP);
        }
        Ok(publishers)
    }

    /// Where the one who stands for somebody publishes.
    fn topic(&self, part: &Part, wanted: &Replay) -> Option<Topic> {
        let member = wanted.stands_for(part.source)?;
        let (tenant, name) = &self.id;
        let (room, medium) = (&wanted.room, part.medium.name());
        let topic = format!("{tenant}/{name}/{room}/{medium}/{member}{}", part.rest);
        Topic::new(&topic).ok()
    }

    /// Sends what is due; how long nothing is.
    fn step(&self, past: &mut Past, run: &mut Run) -> Result<Duration, Failure> {
        let wrong = || io(self.options.archive.display());
        loop {
            let now = run.now();
            self.say(past, run, now);
            let next = match run.next.take() {
                Some(next) => next,
                None => match past.replay.pull().map_err(wrong())? {
                    Some(next) => next,
                    None => {
                        run.over = now > past.length();
                        return Ok(NAP);
                    }
                },
            };
            if next.at > now {
                let wait = (next.at - now).min(NAP);
                run.next = Some(next);
                return Ok(wait);
            }
            if let Some(Some(publisher)) = run.publishers.get_mut(next.track) {
                publish(publisher, &next);
            }
            // A recording of a crowd must not keep orders waiting.
            if self.wanted().order != self.order.load(Ordering::Relaxed) {
                return Ok(Duration::ZERO);
            }
        }
    }

    /// Says what was said by then.
    fn say(&self, past: &Past, run: &mut Run, now: Duration) {
        let due = past.lines[run.line..]
            .iter()
            .take_while(|line| line.at <= now);
        let said: Vec<_> = due
            .take(SAID_MAX)
            .map(|line| Said {
                source: line.source,
                text: line.text.clone(),
            })
            .collect();
        if !said.is_empty() {
            run.line += said.len();
            let order = self.order.load(Ordering::Relaxed);
            self.tell(json!({ "order": order, "said": said }));
        }
    }

    fn listen(&self, client: &mut Client, pass: &mut Pass, wait: Duration) -> Result<(), Failure> {
        match client.recv(wait) {
            Some(sangam_client::Received::Token(verdict)) => pass.judge(verdict)?,
            Some(_) => {}
            None if client.is_closed() => {
                return Err(Failure::new(Exit::Unreachable, "the broker has stopped"));
            }
            None => pass.renew(client),
        }
        Ok(())
    }
}

impl Run {
    /// Where it is.
    fn now(&self) -> Duration {
        self.base + self.start.elapsed()
    }
}

/// The turn that an order begins.
const fn turn(wanted: &Replay) -> Turn {
    Turn {
        since_ms: wanted.since_ms,
        order: wanted.order,
    }
}

/// Goes to a place from which it can be decoded; where that is.
fn seek(past: &mut Past, to: Duration) -> Result<Duration, Failure> {
    let of = |wanted: &dyn Fn(Medium) -> bool| {
        let parts = past.tracks.iter().enumerate();
        let fits = parts.filter(|(_, part)| part.as_ref().is_some_and(|one| wanted(one.medium)));
        fits.map(|(place, _)| place).collect::<Vec<_>>()
    };
    let (all, sound) = (of(&|_| true), of(&|medium| medium == Medium::Audio));
    let wrong = || io("the recording");
    let found = past.replay.seek(to, &all).map_err(wrong())?;
    if to.saturating_sub(found) <= BEFORE_MAX || sound.is_empty() {
        return Ok(found);
    }
    past.replay.seek(to, &sound).map_err(wrong())
}
