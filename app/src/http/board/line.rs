//! One page at one board: events both ways, until either end is gone.

use std::io;
use std::os::unix::net::UnixStream as Descriptor;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket};
use sangam_client::{
    Buffers, Client, ClientOptions, Received, ReliableError, ReliableEvent, ReliablePublisher,
    Target,
};
use sangam_control::Problem;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::error::ProtocolError;

use super::{Boards, Place, Refused, Rights, State, Ticket};

/// Records of the board that whoever comes is told, at most: all that a topic keeps.
const REPLAY: u32 = 16_384;
/// How long a page may take to say who it is, and to take what it is told.
const GREETING: Duration = Duration::from_secs(10);
const TAKES: Duration = Duration::from_secs(10);
/// How often what is late is looked at, and a page asked whether it is there.
const TICK: Duration = Duration::from_millis(100);
const PING: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(25);
/// Bytes that a page may send each second, and in advance. Every message counts as at least some.
const BYTES_PER_S: f64 = 262_144.0;
const BYTES_LEAST: usize = 512;
const ADVANCE: Duration = Duration::from_secs(4);

/// What a page says in text.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum Word {
    /// Comes in, or shows a newer token.
    Open {
        #[serde(default)]
        token: Option<String>,
    },
    /// Had to refuse what its person or others drew, as the board is full.
    Full,
}

/// The client's descriptor, waited for. It is no socket, and nothing is read or written here: of
/// what tokio has, only this waits for any descriptor without unsafe code.
struct Bell(UnixStream);

struct Line {
    state: Arc<State>,
    place: Place,
    rights: Rights,
    socket: WebSocket,
    client: Client,
    /// Rings when the client has something.
    bell: Bell,
    /// Made with the first event.
    publisher: Option<ReliablePublisher>,
    /// What the topic had no room for; nothing more is read until it has.
    waiting: Option<Bytes>,
    /// Until when what was read is paid for.
    paid: Instant,
    heard: Instant,
    pinged: Instant,
    /// Its place among the lines of this broker and of its member.
    _ticket: Ticket,
}

/// What a page gets by its greeting.
struct Admitted {
    rights: Rights,
    ticket: Ticket,
    client: Client,
    bell: Bell,
}

pub(super) async fn serve(state: Arc<State>, place: Place, mut socket: WebSocket) {
    let boards = Arc::clone(&state.boards);
    let greeted = timeout(GREETING, greeting(&mut socket)).await;
    let word = match greeted {
        Ok(Some(word)) => word,
        // It left.
        Ok(None) => return,
        Err(_) => return boards.counts.refuse(Refused::Silent),
    };
    let admitted = match admit(&state, &place, word) {
        Ok(admitted) => admitted,
        Err((why, problem)) => {
            boards.counts.refuse(why);
            let _ = say(&mut socket, &boards, refusal(problem)).await;
            return;
        }
    };
    let now = Instant::now();
    let mut line = Line {
        state,
        place,
        rights: admitted.rights,
        socket,
        client: admitted.client,
        bell: admitted.bell,
        _ticket: admitted.ticket,
        publisher: None,
        waiting: None,
        paid: now,
        heard: now,
        pinged: now,
    };
    line.run(&boards).await;
    // It may be gone already.
    let _ = timeout(TAKES, line.socket.send(Message::Close(None))).await;
}

/// What a page gets by its greeting. Only who may look on takes the room of others.
fn admit(state: &State, place: &Place, word: Option<Word>) -> Result<Admitted, (Refused, Problem)> {
    let Some(Word::Open { token }) = word else {
        let problem = Problem::bad("this is no greeting").with("code", "malformed");
        return Err((Refused::Malformed, problem));
    };
    let rights = place.rights(&state.access, token.as_deref());
    let rights = rights.map_err(|problem| (Refused::Token, problem))?;
    let busy = |why| {
        let problem = Problem::unavailable(why).with("code", "busy");
        (Refused::Busy, problem)
    };
    let ticket = state.boards.enter(&place.own);
    let ticket = ticket.ok_or_else(|| busy("too many boards are open here"))?;
    let (client, bell) = client(state, place).map_err(|error| {
        tracing::warn!(%error, "a board cannot be opened");
        busy("the board cannot be opened")
    })?;
    Ok(Admitted {
        rights,
        ticket,
        client,
        bell,
    })
}

/// The first message, if there is one, and its word, if it is understood.
async fn greeting(socket: &mut WebSocket) -> Option<Option<Word>> {
    loop {
        match socket.recv().await?.ok()? {
            Message::Text(text) => return Some(serde_json::from_str(&text).ok()),
            Message::Binary(_) => return Some(None),
            Message::Ping(_) | Message::Pong(_) => {}
            Message::Close(_) => return None,
        }
    }
}

impl Bell {
    /// Waits until the client has something.
    async fn rung(&self) -> bool {
        let ready = self.0.readable().await;
        // The client takes what rang; this only forgets it.
        let heard = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = self.0.try_io(Interest::READABLE, heard);
        ready.is_ok()
    }
}

/// Whether the page broke a rule, instead of just leaving.
fn is_wrong(error: axum::Error) -> bool {
    let error = error.into_inner();
    match error.downcast_ref::<tungstenite::Error>() {
        Some(tungstenite::Error::Protocol(error)) => {
            *error != ProtocolError::ResetWithoutClosingHandshake
        }
        Some(tungstenite::Error::Capacity(_) | tungstenite::Error::Utf8(_)) => true,
        _ => false,
    }
}

fn client(state: &State, place: &Place) -> io::Result<(Client, Bell)> {
    let options = ClientOptions {
        queue: 1_024,
        // For media only, of which there is none.
        send_buffers: Buffers { small: 1, large: 1 },
        trace_every: 0,
        ..ClientOptions::default()
    };
    let door = Target::Door(state.broker.door()?);
    let mut client = Client::connect(door, options).map_err(io::Error::other)?;
    let asked = client.subscribe_reliable(&place.board, REPLAY);
    asked.map_err(|error| io::Error::other(error.to_string()))?;
    let bell = Descriptor::from(client.fd().try_clone_to_owned()?);
    Ok((client, Bell(UnixStream::from_std(bell)?)))
}

impl Line {
    async fn run(&mut self, boards: &Boards) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let open = json!({ "type": "open", "draws": self.rights.draws });
        if !say(&mut self.socket, boards, open).await {
            return;
        }
        loop {
            if !self.tell(boards).await {
                return;
            }
            if self.rights.are_over() {
                return self.expire(boards).await;
            }
            if let Some(event) = self.waiting.take()
                && !self.publish(boards, event).await
            {
                return;
            }
            let reads = self.waiting.is_none() && self.paid < Instant::now() + ADVANCE;
            let goes_on = tokio::select! {
                rung = self.bell.rung() => rung,
                message = self.socket.recv(), if reads => match message {
                    Some(Ok(message)) => self.take(boards, message).await,
                    Some(Err(error)) => {
                        if is_wrong(error) {
                            boards.counts.refuse(Refused::Malformed);
                        }
                        false
                    }
                    None => false,
                },
                _ = tick.tick() => self.tick(boards).await,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Tells the page what has come, for as long as it may look on.
    async fn tell(&mut self, boards: &Boards) -> bool {
        while !self.rights.are_over()
            && let Some(received) = self.client.try_recv()
        {
            let message = match received {
                Received::Reliable(ReliableEvent::Received { payload, .. }) => {
                    let Some(event) = self.place.shown(payload) else {
                        continue;
                    };
                    boards.counts.tell();
                    Message::Binary(event)
                }
                Received::Reliable(ReliableEvent::Live(_)) => text(json!({ "type": "live" })),
                Received::Reliable(ReliableEvent::Gap { .. }) => text(json!({ "type": "gap" })),
                // The page opens it again, by a new line, and tells anew what did not come back:
                // of an ended publisher that is what was accepted and is not held.
                Received::Reliable(
                    ReliableEvent::PublisherEnded(..) | ReliableEvent::SubscriptionEnded(..),
                )
                | Received::Down(_) => return false,
                _ => continue,
            };
            if !hand(&mut self.socket, boards, message).await {
                return false;
            }
        }
        !self.client.is_closed()
    }

    async fn take(&mut self, boards: &Boards, message: Message) -> bool {
        self.heard = Instant::now();
        let bytes = len(&message).max(BYTES_LEAST) as f64;
        let cost = Duration::from_secs_f64(bytes / BYTES_PER_S);
        self.paid = self.paid.max(self.heard) + cost;
        match message {
            Message::Binary(event) => self.publish(boards, event).await,
            Message::Text(word) => match serde_json::from_str(&word) {
                Ok(Word::Open { token }) => self.renew(boards, token.as_deref()).await,
                Ok(Word::Full) => {
                    boards.counts.refuse(Refused::Full);
                    true
                }
                Err(_) => {
                    boards.counts.refuse(Refused::Malformed);
                    let problem = Problem::bad("this is not understood").with("code", "malformed");
                    say(&mut self.socket, boards, refusal(problem)).await
                }
            },
            Message::Close(_) => false,
            _ => true,
        }
    }

    async fn renew(&mut self, boards: &Boards, token: Option<&str>) -> bool {
        match self.place.rights(&self.state.access, token) {
            Ok(rights) => {
                self.rights = rights;
                true
            }
            Err(problem) => {
                boards.counts.refuse(Refused::Token);
                let _ = say(&mut self.socket, boards, refusal(problem)).await;
                false
            }
        }
    }

    /// Publishes an event of the page, or keeps it until there is room.
    async fn publish(&mut self, boards: &Boards, event: Bytes) -> bool {
        if !boards.is_open(&self.place.own, self.rights) {
            boards.counts.refuse(Refused::Floor);
            let problem = Problem::forbidden("you may look at the board and not draw");
            let problem = problem.with("code", "floor");
            return say(&mut self.socket, boards, refusal(problem)).await;
        }
        match self.send(&event) {
            Ok(()) => boards.counts.take(),
            Err(ReliableError::Full) => self.waiting = Some(event),
            // The publisher has ended.
            Err(ReliableError::Unknown) => return false,
            Err(error) => {
                tracing::debug!(%error, "an event of a board is refused");
                boards.counts.refuse(Refused::Malformed);
            }
        }
        true
    }

    fn send(&mut self, event: &[u8]) -> Result<(), ReliableError> {
        let publisher = match &mut self.publisher {
            Some(publisher) => publisher,
            none => none.insert(self.client.publish_reliable(&self.place.board)?),
        };
        publisher.send(event).map(drop)
    }

    async fn expire(&mut self, boards: &Boards) {
        boards.counts.refuse(Refused::Token);
        let problem = Problem::unauthorized("the token has expired").with("code", "expired");
        let _ = say(&mut self.socket, boards, refusal(problem)).await;
    }

    async fn tick(&mut self, boards: &Boards) -> bool {
        let now = Instant::now();
        // While nothing is read, nothing is heard.
        let reads = self.waiting.is_none() && self.paid < now + ADVANCE;
        if reads && now - self.heard > SILENCE {
            boards.counts.refuse(Refused::Silent);
            return false;
        }
        if now - self.pinged < PING {
            return true;
        }
        self.pinged = now;
        hand(&mut self.socket, boards, Message::Ping(Bytes::new())).await
    }
}

fn len(message: &Message) -> usize {
    match message {
        Message::Text(word) => word.len(),
        Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len(),
        Message::Close(_) => 0,
    }
}

fn text(value: Value) -> Message {
    Message::Text(value.to_string().into())
}

fn refusal(problem: Problem) -> Value {
    let (_, mut value) = problem.into_parts();
    value["type"] = json!("refused");
    value
}

async fn say(socket: &mut WebSocket, boards: &Boards, value: Value) -> bool {
    hand(socket, boards, text(value)).await
}

/// Sends the page a message; false if it is gone, or takes nothing.
async fn hand(socket: &mut WebSocket, boards: &Boards, message: Message) -> bool {
    let sent = timeout(TAKES, socket.send(message)).await;
    if sent.is_err() {
        boards.counts.refuse(Refused::Slow);
    }
    matches!(sent, Ok(Ok(())))
}
