//! Signalling: one WebSocket for one member.
//!
//! The client says who it is, then what it wants; it is told everything that changes. When the
//! connection is lost its place is kept for a while, and its resume key brings it back there.

use std::time::{Duration, Instant};

use aws_lc_rs::{digest, rand};
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::response::Response;
use sangam_session::{
    Answer, Caller, Command, Input, Joining, Key, MemberId, Reach, Refusal, SessionId,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::http::{Api, recordings};
use super::hub::{TOLD_MAX, Told};
use super::limit::Bucket;
use super::server::{Failure, unix_ms};
use super::view;
use crate::Problem;

/// Bytes of a message of a client.
const MESSAGE_LEN_MAX: usize = 16_384;
/// Bytes that are read at once. The library keeps such a buffer for each connection and clears it
/// before each read: its own 128 KiB would be 1.3 GB for 10,000 members.
const READ_LEN: usize = 2_048;
/// How long a client may take to say who it is.
const GREETING: Duration = Duration::from_secs(10);
/// How often a client is asked whether it is there, and how long it may be silent.
const PING: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(25);
/// How long a member waits here for a session that is between two servers, and how often it is
/// looked where that is: all its members come at once, and asking again and again costs more.
const MOVING: Duration = Duration::from_millis(1_500);
const LOOK: Duration = Duration::from_millis(200);
/// Messages of one client at once, and how many more each second.
const BURST: f64 = 60.0;
const PER_S: f64 = 20.0;
/// Random bytes of a resume key.
const SECRET_LEN: usize = 16;

/// The first message of a client.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum Greeting {
    /// Comes in.
    Join {
        token: String,
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        capabilities: Vec<String>,
        /// Servers that it could not reach.
        #[serde(default)]
        unreached: Vec<String>,
    },
    /// Comes back.
    Resume {
        member: MemberId,
        key: String,
        /// As above.
        #[serde(default)]
        unreached: Vec<String>,
    },
}

pub(super) async fn upgrade(
    State(api): State<Api>,
    Path((tenant, name)): Path<(String, String)>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let id = SessionId::new(&tenant, &name).map_err(Failure::Refused)?;
    let upgrade = upgrade
        .map_err(Problem::from)?
        .read_buffer_size(READ_LEN)
        .max_message_size(MESSAGE_LEN_MAX)
        .max_frame_size(MESSAGE_LEN_MAX);
    Ok(upgrade.on_upgrade(move |socket| serve(api, id, socket)))
}

async fn serve(api: Api, id: SessionId, mut socket: WebSocket) {
    let number = api.sessions.connection_number();
    let greeted = match tokio::time::timeout(GREETING, greeting(&api, &mut socket)).await {
        Ok(Some(greeting)) => come_in(&api, (&id, number), greeting).await,
        Ok(None) => return,
        Err(_) => Err(Problem::bad("nothing was said in time").with("code", "timeout")),
    };
    let (member, secret, identity) = match greeted {
        Ok(greeted) => greeted,
        Err(problem) => {
            say(&mut socket, refusal(&api, problem)).await;
            return;
        }
    };
    let servers = view::urls(&api.sessions.servers());
    let welcome = json!({
        "type": "welcome", "member": member, "key": secret, "now_ms": unix_ms(),
        "servers": servers,
    });
    let (sink, told) = mpsc::channel(TOLD_MAX);
    let is_there =
        say(&mut socket, welcome).await && api.sessions.connect(&id, member, number, sink).is_ok();
    if !is_there {
        // It may come back with a key that it has from before, or never.
        api.sessions.disconnect(&id, member, number).await;
        return;
    }
    let mut line = Line {
        api: &api,
        id: &id,
        member,
        identity,
        socket,
        bucket: Bucket::new(Instant::now(), BURST, PER_S),
        heard: Instant::now(),
        reach: None,
        servers,
        renew_at_ms: u64::MAX,
    };
    line.run(told).await;
    api.sessions.disconnect(&id, member, number).await;
}

/// The first message; `None` if there is none, or none that is understood.
async fn greeting(api: &Api, socket: &mut WebSocket) -> Option<Greeting> {
    loop {
        match socket.recv().await?.ok()? {
            Message::Text(text) => match serde_json::from_str(&text) {
                Ok(greeting) => return Some(greeting),
                Err(error) => {
                    let problem =
                        Problem::bad(format!("no greeting: {error}")).with("code", "malformed");
                    say(socket, refusal(api, problem)).await;
                    return None;
                }
            },
            Message::Ping(_) | Message::Pong(_) => {}
            _ => return None,
        }
    }
}

/// Lets a client in: its member, its resume key, and who it is.
async fn come_in(
    api: &Api,
    (id, number): (&SessionId, u64),
    greeting: Greeting,
) -> Result<(MemberId, String, String), Problem> {
    let (answer, secret, identity) = match greeting {
        Greeting::Join {
            token,
            name,
            capabilities,
            unreached,
        } => {
            let pass = api.keeper.read(&token)?;
            pass.may_join(id)?;
            settled(api, id, &unreached).await;
            let secret = secret()?;
            let named = name.or(pass.name).unwrap_or_else(|| pass.identity.clone());
            let joining = Joining {
                identity: pass.identity.clone(),
                name: named,
                role: pass.video.member_role(),
                capabilities: capabilities.into_iter().collect(),
                rights: pass.video.rights(),
                key: Some(key_of(&secret)),
            };
            let answer = api.sessions.join(id, joining, number).await?;
            (answer, secret, pass.identity)
        }
        Greeting::Resume {
            member,
            key,
            unreached,
        } => {
            settled(api, id, &unreached).await;
            let identity = api.sessions.read(id, move |session| {
                session.member(member).map(|one| one.identity.clone())
            });
            // Whoever is not there any more has no key either.
            let identity = identity.await?;
            let identity = identity.ok_or(Failure::Refused(Refusal::WrongKey))?;
            let input = Input::Resume(member, key_of(&key));
            (api.sessions.input(id, input).await?, key, identity)
        }
    };
    match answer {
        Answer::Joined(member) => Ok((member, secret, identity)),
        _ => Err(Problem::internal("the session did not answer")),
    }
}

/// Waits while a session is between two servers, or with one that a member could not reach and
/// that may be gone.
async fn settled(api: &Api, id: &SessionId, unreached: &[String]) {
    let until = Instant::now() + MOVING;
    while Instant::now() < until {
        match api.sessions.read(id, |_| ()).await {
            Err(Failure::Moving(_) | Failure::Unknown(_)) => {}
            Err(Failure::Elsewhere(url)) if unreached.contains(&url) => {}
            _ => return,
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// A connection at work.
struct Line<'a> {
    api: &'a Api,
    id: &'a SessionId,
    member: MemberId,
    identity: String,
    socket: WebSocket,
    bucket: Bucket,
    heard: Instant,
    reach: Option<Reach>,
    /// Where else it may ask, as it was told.
    servers: Vec<String>,
    /// When its token for brokers has to be renewed.
    renew_at_ms: u64,
}

impl Line<'_> {
    /// Until either end is gone.
    async fn run(&mut self, mut told: mpsc::Receiver<Told>) {
        let mut ping = tokio::time::interval(PING);
        loop {
            let goes_on = tokio::select! {
                message = self.socket.recv() => match message {
                    Some(Ok(message)) => self.take(message).await,
                    _ => false,
                },
                told = told.recv() => match told {
                    Some(Told::Frame(frame)) => self.pass(frame).await,
                    Some(Told::Reach(reach)) => {
                        self.reach = reach;
                        self.tell_media().await
                    }
                    Some(Told::Bye(why)) => {
                        say(&mut self.socket, json!({ "type": "bye", "why": why })).await;
                        false
                    }
                    // The server stops, or goes back to what it has kept.
                    None => false,
                },
                _ = ping.tick() => self.tick().await,
            };
            if !goes_on {
                // It may be gone already.
                let _ = self.socket.send(Message::Close(None)).await;
                return;
            }
        }
    }

    async fn pass(&mut self, frame: Utf8Bytes) -> bool {
        self.socket.send(Message::Text(frame)).await.is_ok()
    }

    async fn tick(&mut self) -> bool {
        if self.heard.elapsed() > SILENCE {
            return false;
        }
        if unix_ms() >= self.renew_at_ms && !self.tell_media().await {
            return false;
        }
        if !self.tell_servers().await {
            return false;
        }
        let ping = Message::Ping(Default::default());
        self.socket.send(ping).await.is_ok()
    }

    async fn take(&mut self, message: Message) -> bool {
        self.heard = Instant::now();
        let text = match message {
            Message::Text(text) => text,
            Message::Close(_) => return false,
            _ => return true,
        };
        if let Some(number) = asks_recordings(&text) {
            return self.tell_recordings(number).await;
        }
        let (number, command) = match command(&text) {
            Ok(command) => command,
            Err((number, problem)) => return self.answer(number, Err(problem)).await,
        };
        if !self.bucket.take(self.heard) {
            return self.answer(number, Err(too_many())).await;
        }
        let input = Input::Command(Caller::Member(self.member), command);
        let done = self.api.sessions.input(self.id, input).await;
        self.answer(number, done.map(drop).map_err(Problem::from))
            .await
    }

    async fn tell_recordings(&mut self, number: Value) -> bool {
        let found = if self.reach.is_none() {
            Err(Problem::forbidden("not while waiting in the lobby").with("code", "forbidden"))
        } else if self.bucket.take(self.heard) {
            recordings(self.api, self.id).await.map_err(Problem::from)
        } else {
            Err(too_many())
        };
        match found {
            Ok(mut told) => {
                told["type"] = json!("done");
                told["id"] = number;
                say(&mut self.socket, told).await
            }
            Err(problem) => self.answer(number, Err(problem)).await,
        }
    }

    async fn answer(&mut self, number: Value, done: Result<(), Problem>) -> bool {
        let mut text = match done {
            Ok(()) => json!({ "type": "done" }),
            Err(problem) => refusal(self.api, problem),
        };
        text["id"] = number;
        say(&mut self.socket, text).await
    }

    /// Tells the client where else it may ask, if that is not as it was.
    async fn tell_servers(&mut self) -> bool {
        let urls = view::urls(&self.api.sessions.servers());
        if self.servers == urls {
            return true;
        }
        self.servers = urls;
        let told = json!({ "type": "servers", "servers": self.servers });
        say(&mut self.socket, told).await
    }

    /// Tells the client what it may publish and receive, and what it proves that with.
    async fn tell_media(&mut self) -> bool {
        let Some(reach) = self.reach.clone() else {
            self.renew_at_ms = u64::MAX;
            return say(&mut self.socket, json!({ "type": "lobby" })).await;
        };
        match self
            .api
            .keeper
            .media(&self.id.tenant, &self.identity, reach)
        {
            Ok(pass) => {
                let left = pass.expires_ms.saturating_sub(unix_ms());
                self.renew_at_ms = pass.expires_ms.saturating_sub(left / 2);
                let told = json!({
                    "type": "media", "token": pass.token, "expires_ms": pass.expires_ms,
                    "publish": pass.reach.publish, "subscribe": pass.reach.subscribe,
                });
                say(&mut self.socket, told).await
            }
            Err(fault) => say(&mut self.socket, refusal(self.api, fault.into())).await,
        }
    }
}

/// What a client asks, and the number it gave to that.
fn command(text: &str) -> Result<(Value, Command), (Value, Problem)> {
    let wrong = |error: serde_json::Error| {
        Problem::bad(format!("no command: {error}")).with("code", "malformed")
    };
    let mut value: Value = serde_json::from_str(text).map_err(|e| (Value::Null, wrong(e)))?;
    let number = match value.as_object_mut().and_then(|fields| fields.remove("id")) {
        // What is sent back is no larger than a number.
        Some(Value::Number(number)) => Value::Number(number),
        _ => Value::Null,
    };
    match serde_json::from_value(value) {
        Ok(command) => Ok((number, command)),
        Err(error) => Err((number, wrong(error))),
    }
}

fn too_many() -> Problem {
    let text = "too many messages at once; 20 a second are served";
    Problem::new(axum::http::StatusCode::TOO_MANY_REQUESTS, text).with("code", "rate")
}

/// The number of a question for the recordings of the session, which changes nothing.
fn asks_recordings(text: &str) -> Option<Value> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Question {
        id: u64,
        ask: String,
    }
    let question: Question = serde_json::from_str(text).ok()?;
    (question.ask == "recordings").then(|| Value::from(question.id))
}

/// What is said of a problem, which is counted.
fn refusal(api: &Api, problem: Problem) -> Value {
    api.refusals.problem(&problem);
    let (_, mut value) = problem.into_parts();
    value["type"] = json!("refused");
    value
}

async fn say(socket: &mut WebSocket, value: Value) -> bool {
    let text = value.to_string().into();
    socket.send(Message::Text(text)).await.is_ok()
}

fn secret() -> Result<String, Problem> {
    let mut bytes = [0; SECRET_LEN];
    let filled = rand::fill(&mut bytes);
    filled.map_err(|_| Problem::internal("the system gives no random numbers"))?;
    Ok(hex(&bytes))
}

/// What is kept of a secret: who reads the log cannot come back in another's name.
fn key_of(secret: &str) -> Key {
    Key(hex(
        digest::digest(&digest::SHA256, secret.as_bytes()).as_ref()
    ))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
