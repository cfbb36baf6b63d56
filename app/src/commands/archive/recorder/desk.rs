//! Speaks with one session server: says what is done, and hears what is to be done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use super::catalogue::Catalogue;
use super::player::Player;
use super::scribe::Scribe;
use super::take::Take;
use super::{Id, Options};
use crate::commands::session::Server;
use crate::exit::Failure;
use crate::stop::Stop;

/// Sessions that are recorded at once: each has a log of its own, of up to 64 MiB in memory.
const TAKES_MAX: usize = 16;
/// What the server could not be told is told again.
const AGAIN: Duration = Duration::from_secs(1);
/// While a recording begins: people wait for that.
const SOON: Duration = Duration::from_millis(100);

/// What is done for one server.
pub(super) struct Desk {
    options: Arc<Options>,
    server: Server,
    catalogue: Arc<Catalogue>,
    takes: BTreeMap<Id, Take>,
    players: BTreeMap<Id, Player>,
    scribe: Scribe,
    /// Threads that put down what they have.
    ending: Vec<JoinHandle<()>>,
    /// The revision of what it heard last.
    known: Option<u64>,
    /// The version of the list that the server knows.
    listed: u64,
    /// Whether the server was reached the last time.
    reached: bool,
}

impl Desk {
    pub(super) fn new(
        options: &Arc<Options>,
        server: Server,
        (catalogue, stop): (&Arc<Catalogue>, &Stop),
    ) -> Result<Self, Failure> {
        Ok(Self {
            options: Arc::clone(options),
            server,
            catalogue: Arc::clone(catalogue),
            takes: BTreeMap::new(),
            players: BTreeMap::new(),
            scribe: Scribe::start(&options.archive, catalogue, stop)?,
            ending: Vec::new(),
            known: None,
            listed: 0,
            reached: true,
        })
    }

    /// Works until it is told to stop.
    pub(super) fn run(mut self, stop: &Stop) {
        let path = format!("/v1/recorders/{}", self.options.name);
        while !stop.is_set() {
            let version = self.catalogue.version();
            let beat = self.beat(version);
            match self.server.put(&path, &beat.to_string()) {
                Ok(work) => {
                    self.reached = true;
                    self.listed = match work["listed"].as_bool() {
                        Some(true) => version,
                        _ => 0,
                    };
                    self.known = work["revision"].as_u64();
                    self.heed(&work);
                }
                // What is recorded goes on: the server may come back.
                Err(error) => {
                    if std::mem::replace(&mut self.reached, false) {
                        let server = &self.server.authority;
                        tracing::warn!(error = %error.message, server, "no word from sessions");
                    }
                    self.known = None;
                    thread::park_timeout(AGAIN);
                }
            }
            if self.begins() {
                thread::park_timeout(SOON);
            }
        }
        let takes = std::mem::take(&mut self.takes).into_values().map(Take::end);
        let players = std::mem::take(&mut self.players).into_values();
        let players = players.map(Player::end);
        let scribe = std::iter::once(self.scribe.end());
        for thread in takes.chain(players).chain(scribe).chain(self.ending) {
            // It has said so itself.
            let _ = thread.join();
        }
    }

    /// Whether a recording begins, or something else is to be told without waiting for news.
    fn begins(&self) -> bool {
        let takes = self.takes.values().any(|take| !take.works());
        takes || self.scribe.is_busy() || self.listed != self.catalogue.version()
    }

    fn beat(&mut self, version: u64) -> Value {
        let records = self.takes.iter().map(|((tenant, name), take)| {
            json!({
                "tenant": tenant, "name": name, "after": take.after(), "begun": take.works(),
            })
        });
        let replays = self.players.iter().map(|((tenant, name), player)| {
            json!({ "tenant": tenant, "name": name, "order": player.order() })
        });
        let mut beat = json!({
            "places": TAKES_MAX.saturating_sub(self.takes.len()),
            "records": records.collect::<Vec<_>>(), "replays": replays.collect::<Vec<_>>(),
        });
        let kept = self.scribe.kept();
        if !kept.is_empty() {
            beat["kept"] = json!(kept);
        }
        if version != self.listed {
            beat["lists"] = json!(true);
            beat["recordings"] = json!(self.catalogue.list());
        }
        if let Some(known) = self.known.filter(|_| !self.begins()) {
            beat["known"] = json!(known);
        }
        beat
    }

    fn heed(&mut self, work: &Value) {
        self.ending.retain(|thread| !thread.is_finished());
        let mut takes = std::mem::take(&mut self.takes);
        for task in items(work, "records") {
            let id = id(task);
            match takes.remove(&id) {
                Some(take) if take.is_over() => {}
                Some(mut take) => {
                    take.tell(task);
                    self.takes.insert(id, take);
                }
                None if task["session"].is_object() && self.takes.len() < TAKES_MAX => {
                    let shared = (&self.options, &self.catalogue);
                    match Take::start(&id, task, shared) {
                        Ok(take) => drop(self.takes.insert(id, take)),
                        Err(error) => tracing::warn!(%error, "a session is not recorded"),
                    }
                }
                None => {}
            }
        }
        self.ending.extend(takes.into_values().map(Take::end));
        let mut players = std::mem::take(&mut self.players);
        for task in items(work, "replays") {
            let id = id(task);
            let player = match players.remove(&id) {
                Some(player) if player.plays(&task["replay"]) => Ok(player),
                other => {
                    self.ending.extend(other.map(Player::end));
                    Player::start(&id, &task["replay"], (&self.options, &self.server))
                }
            };
            match player {
                Ok(player) => {
                    player.heed(&task["replay"]);
                    self.players.insert(id, player);
                }
                Err(error) => tracing::warn!(%error, "a recording is not replayed"),
            }
        }
        self.ending.extend(players.into_values().map(Player::end));
        for task in items(work, "annotations") {
            self.scribe.take(&id(task), &task["annotation"]);
        }
    }
}

fn id(task: &Value) -> Id {
    let text = |key: &str| task[key].as_str().unwrap_or_default().to_owned();
    (text("tenant"), text("name"))
}

fn items<'a>(value: &'a Value, list: &str) -> &'a [Value] {
    value[list].as_array().map_or(&[], Vec::as_slice)
}
