//! One session on one broker: who comes in, what is changed, and when all have heard of it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};

use super::changes::{Asker, Change, ROUNDS, at_once, round};
use super::sound::{Heard, Sound};
use crate::crowd::members::{Door, Ledger, Member, Role, Spread};
use crate::error::Error;
use crate::loopback;
use crate::process::{Broker, Carrier, CpuTimes, Queuing, Setup, own_cpu};
use crate::scenario::Folder;

const TENANT: &str = "bench";
const SESSION: &str = "crowd";
const CHAIR: usize = 0;
/// Members that come in at the same time.
const DOORS: usize = 256;
/// Descriptors of each process besides one for each member.
const FILES: u64 = 256;
/// Of how many members one comes while changes are made.
const LATE_SHARE: usize = 10;
/// Changes that are asked for at the same moment.
const TOGETHER: usize = 36;

/// What is played.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) members: usize,
    /// Those who speak, and those who listen to them.
    pub(super) speakers: usize,
    pub(super) listeners: usize,
    pub(super) shards: usize,
    /// How long changes are made one after the other.
    pub(super) span: Duration,
}

/// What was measured.
pub(super) struct Outcome {
    pub(super) parts: Vec<Part>,
    pub(super) heard: Heard,
    /// Connections that ended though nobody wanted that.
    pub(super) lost: u64,
}

/// A part of the run.
pub(super) struct Part {
    pub(super) name: &'static str,
    /// Members at its end.
    pub(super) members: usize,
    pub(super) took: Duration,
    /// How long each took to come in, in rising order.
    pub(super) joins: Vec<Duration>,
    pub(super) changes: Vec<Told>,
    /// Members that were told the whole session as they did not keep up.
    pub(super) behind: u64,
    pub(super) cpu: CpuTimes,
    pub(super) generator_cpu: Duration,
    /// Of the broker's process, at its end.
    pub(super) resident_bytes: f64,
}

/// How long a change took to the first and to the last member.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) kind: &'static str,
    pub(super) first: Duration,
    pub(super) all: Duration,
}

/// Plays a plan.
///
/// # Errors
/// If the broker does not start or dies, or if members do not get in or are not told.
pub(super) fn play(plan: &Plan) -> Result<Outcome, Error> {
    raise_files(plan.members)?;
    let folder = Folder::new()?;
    let setup = Setup {
        number: 1,
        shards: plan.shards,
        queuing: Queuing::Double,
        neighbours: Vec::new(),
        carrier: Carrier::Udp,
        program: None,
        port: 0,
        site: None,
        webrtc: false,
        clients: false,
        sessions: true,
        routing: None,
    };
    let mut broker = Broker::start(&setup, folder.path())?;
    let session = json!({ "tenant": TENANT, "name": SESSION, "title": "Crowd" });
    broker.post("/v1/sessions", "application/json", &session.to_string())?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::System("the members' thread", error))?;
    let stage = Rc::new(Stage::new(&broker));
    let played = LocalSet::new().block_on(&runtime, stage.play(&broker, plan));
    // Before its members are gone: it would tell each of them of all others.
    broker.kill()?;
    played
}

/// Lets this process and the broker have a descriptor for each member.
fn raise_files(members: usize) -> Result<(), Error> {
    let needed = members as u64 + FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|error| {
        Error::Option(format!(
            "{members} members need {needed} open files: {error}; raise `ulimit -Hn`, or take \
             fewer by --scale"
        ))
    })
}

/// The session and all who are in it. Lives in one thread.
struct Stage {
    door: Door,
    ledger: Rc<Ledger>,
    members: RefCell<BTreeMap<usize, Member>>,
    /// The number of the next one who comes.
    next: Cell<usize>,
    joins: RefCell<Vec<Duration>>,
}

impl Stage {
    fn new(broker: &Broker) -> Self {
        Self {
            door: Door {
                http: broker.http,
                path: format!("/v1/sessions/{TENANT}/{SESSION}"),
            },
            ledger: Rc::default(),
            members: RefCell::default(),
            next: Cell::new(0),
            joins: RefCell::default(),
        }
    }

    async fn play(self: &Rc<Self>, broker: &Broker, plan: &Plan) -> Result<Outcome, Error> {
        self.let_in(1 + plan.speakers, None).await?;
        let sound = self.speak(broker, plan).await?;
        let late = plan.members / LATE_SHARE;
        let early = plan.members - late - 1 - plan.speakers;
        let mut parts = Vec::new();
        let measure = Measure::begin(self, broker);
        self.let_in(early, None).await?;
        parts.push(measure.end("joining", Vec::new())?);

        let measure = Measure::begin(self, broker);
        let told = self.while_others_come(late, plan.span).await?;
        parts.push(measure.end("while others come", told)?);

        let measure = Measure::begin(self, broker);
        let told = self.one_by_one(plan).await?;
        parts.push(measure.end("one by one", told)?);

        let measure = Measure::begin(self, broker);
        let told = self.at_once().await?;
        parts.push(measure.end("at once", told)?);
        Ok(Outcome {
            parts,
            heard: sound.finish()?,
            lost: self.ledger.lost(),
        })
    }

    /// Gives the floor to those who speak; they do so from now on.
    async fn speak(&self, broker: &Broker, plan: &Plan) -> Result<Sound, Error> {
        let mut topics = Vec::new();
        for number in 1..=plan.speakers {
            let id = self.id(number);
            let request = Change {
                kind: "floor asked",
                asker: Asker::Member,
                command: json!({ "do": "request", "medium": "audio" }),
                mark: "\"event\":\"granted\"".to_owned(),
            };
            self.make(&request, number).await?;
            topics.push(format!("{TENANT}/{SESSION}/main/audio/{id}"));
        }
        let filter = format!("{TENANT}/{SESSION}/main/#");
        Sound::start(broker, &topics, (plan.listeners, &filter))
    }

    /// Lets so many in: some at a time, or at even intervals over a time.
    async fn let_in(self: &Rc<Self>, count: usize, over: Option<Duration>) -> Result<(), Error> {
        let (first, begun) = (self.next.get(), Instant::now());
        let each = over.map_or(Duration::ZERO, |over| over / count.max(1) as u32);
        let workers: Vec<_> = (0..DOORS.min(count))
            .map(|_| {
                let stage = Rc::clone(self);
                spawn_local(async move {
                    while stage.next.get() < first + count {
                        let number = stage.next.replace(stage.next.get() + 1);
                        let due = begun + each * (number - first) as u32;
                        tokio::time::sleep_until(due.into()).await;
                        stage.come(number).await?;
                    }
                    Ok(())
                })
            })
            .collect();
        for worker in workers {
            let died = |_| Error::Join("a task of members panicked".to_owned());
            worker.await.map_err(died)??;
        }
        Ok(())
    }

    /// Lets one in.
    async fn come(&self, number: usize) -> Result<(), Error> {
        let role = match number {
            CHAIR => Role::Chair,
            _ => Role::Participant,
        };
        let begun = Instant::now();
        let identity = format!("p{number}");
        let from = loopback::address(loopback::MEMBERS, number as u32);
        let who = (identity.as_str(), role);
        let member = self.door.join(from, who, &self.ledger).await?;
        self.joins.borrow_mut().push(begun.elapsed());
        self.members.borrow_mut().insert(number, member);
        Ok(())
    }

    /// Lines of chat, while so many come at even intervals.
    async fn while_others_come(
        self: &Rc<Self>,
        count: usize,
        span: Duration,
    ) -> Result<Vec<Told>, Error> {
        let stage = Rc::clone(self);
        let coming = spawn_local(async move { stage.let_in(count, Some(span)).await });
        let mut told = Vec::new();
        let pause = span / TOGETHER as u32;
        while !coming.is_finished() {
            let text = format!("welcome {}.", told.len());
            let change = Change {
                kind: "chat",
                asker: Asker::Member,
                command: json!({ "do": "chat", "text": text }),
                mark: text,
            };
            told.push(self.make(&change, CHAIR).await?);
            tokio::time::sleep(pause).await;
        }
        let died = |_| Error::Join("a task of members panicked".to_owned());
        coming.await.map_err(died)??;
        Ok(told)
    }

    /// Changes of all kinds, each when all have heard of the one before and a pause later.
    async fn one_by_one(&self, plan: &Plan) -> Result<Vec<Told>, Error> {
        let first = 1 + plan.speakers;
        let rounds: Vec<_> = (0..ROUNDS)
            .map(|number| (first + number, round(number, &self.id(first + number))))
            .collect();
        let all: usize = rounds.iter().map(|(_, changes)| changes.len()).sum();
        let mut told = Vec::new();
        for (member, changes) in rounds {
            for change in &changes {
                told.push(self.make(change, member).await?);
                tokio::time::sleep(plan.span / all as u32).await;
            }
        }
        Ok(told)
    }

    /// Changes by members who know nothing of each other, asked for at the same moment.
    async fn at_once(&self) -> Result<Vec<Told>, Error> {
        let numbers: Vec<usize> = self.members.borrow().keys().rev().copied().collect();
        let mut changes = Vec::new();
        for (turn, number) in numbers.into_iter().take(TOGETHER).enumerate() {
            let change = at_once(turn, &self.id(number));
            let place = self.ledger.want(&change.mark);
            changes.push((number, change, place));
        }
        let asked = Instant::now();
        for (number, change, _) in &changes {
            self.ask(*number, &change.command);
        }
        let mut told = Vec::new();
        for (_, change, place) in &changes {
            let spread = self.ledger.heard(*place).await?;
            told.push(Told::of(change.kind, asked, spread));
        }
        Ok(told)
    }

    /// Makes a change and waits until all have heard of it; `member` is who asks, where it is of
    /// no account who.
    async fn make(&self, change: &Change, member: usize) -> Result<Told, Error> {
        let place = self.ledger.want(&change.mark);
        let asked = Instant::now();
        let mut since = asked;
        match change.asker {
            Asker::Chair => self.ask(CHAIR, &change.command),
            Asker::Member => self.ask(member, &change.command),
            Asker::Operator => {
                let from = loopback::address(loopback::MEMBERS, CHAIR as u32);
                self.door.command(from, &change.command).await?;
            }
            Asker::Leaver => {
                if let Some((_, leaver)) = self.members.borrow_mut().pop_last() {
                    leaver.ask_last(change.command.to_string());
                }
            }
            Asker::Newcomer => {
                self.come(self.next.replace(self.next.get() + 1)).await?;
                // It has heard the last of all, perhaps.
                since = Instant::now();
            }
        }
        let spread = self.ledger.heard(place).await?;
        let spread = match change.asker {
            Asker::Newcomer => Spread {
                last: spread.last.max(since),
                ..spread
            },
            _ => spread,
        };
        Ok(Told::of(change.kind, asked, spread))
    }

    fn ask(&self, number: usize, command: &Value) {
        if let Some(member) = self.members.borrow().get(&number) {
            member.ask(command.to_string());
        }
    }

    fn id(&self, number: usize) -> String {
        let members = self.members.borrow();
        members
            .get(&number)
            .map_or_else(String::new, |member| member.id.clone())
    }
}

impl Told {
    fn of(kind: &'static str, asked: Instant, spread: Spread) -> Self {
        Self {
            kind,
            first: spread.first - asked,
            all: spread.last - asked,
        }
    }
}

/// A part that is being measured.
struct Measure<'a> {
    stage: &'a Stage,
    broker: &'a Broker,
    begun: Instant,
    cpu: CpuTimes,
    generator_cpu: Duration,
}

impl<'a> Measure<'a> {
    fn begin(stage: &'a Stage, broker: &'a Broker) -> Self {
        stage.ledger.forget();
        stage.joins.borrow_mut().clear();
        Self {
            stage,
            broker,
            begun: Instant::now(),
            cpu: broker.cpu(),
            generator_cpu: own_cpu(),
        }
    }

    fn end(self, name: &'static str, changes: Vec<Told>) -> Result<Part, Error> {
        let took = self.begun.elapsed();
        let mut joins = self.stage.joins.take();
        joins.sort();
        Ok(Part {
            name,
            members: self.stage.members.borrow().len(),
            took,
            joins,
            changes,
            behind: self.stage.ledger.behind(),
            cpu: self.broker.cpu().since(&self.cpu),
            generator_cpu: own_cpu().saturating_sub(self.generator_cpu),
            resident_bytes: self
                .broker
                .metrics()?
                .sum("process_resident_memory_bytes", ""),
        })
    }
}
