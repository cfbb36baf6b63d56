//! A member on the command line: frames out, commands in, one JSON object in each line.

use std::io::BufRead;
use std::thread;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::interval;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::call::Server;
use super::camera::Camera;
use crate::cli::SessionName;
use crate::exit::{Exit, Failure, io};
use crate::output;

/// From one server to another, at most.
const SENT_ON_MAX: usize = 4;
/// Lines that may wait to be sent.
const LINES: usize = 64;
/// How often it is looked whether the camera still shows something.
const LOOK: Duration = Duration::from_secs(1);
/// Years that stand for no end.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

type Socket = WebSocketStream<TcpStream>;

/// A member as this program plays it.
pub(in crate::commands) struct Visit {
    /// Which server is asked first.
    pub(in crate::commands) server: Server,
    /// Of which session.
    pub(in crate::commands) session: SessionName,
    /// Who it is.
    pub(in crate::commands) token: String,
    /// The name it takes instead of its token's.
    pub(in crate::commands) name: Option<String>,
    /// How long it stays; as long as it can, if nothing is said.
    pub(in crate::commands) stay: Option<Duration>,
    /// What it shows.
    pub(in crate::commands) camera: Option<Camera>,
    /// What it says to the session server, one object of JSON each.
    pub(in crate::commands) lines: Receiver<String>,
    /// Hears what that says.
    pub(in crate::commands) heard: fn(&Value),
}

/// Joins on the command line, and stays until somebody ends it.
pub(super) fn run(
    server: &Server,
    session: &SessionName,
    (token, name): (&str, Option<&str>),
    (seconds, camera): (Option<u64>, Option<Camera>),
) -> Result<(), Failure> {
    let visit = Visit {
        server: server.clone(),
        session: session.clone(),
        token: token.to_owned(),
        name: name.map(str::to_owned),
        stay: seconds.map(Duration::from_secs),
        camera,
        lines: lines(),
        heard: |frame| output::json_line(frame),
    };
    visit.pay()
}

impl Visit {
    /// Joins, and stays until it is over.
    ///
    /// # Errors
    /// It is not let in, is sent away, or has nothing to show any more.
    pub(in crate::commands) fn pay(mut self) -> Result<(), Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(io("cannot start"))?;
        let done = runtime.block_on(self.stay());
        // A thread may still read standard input.
        runtime.shutdown_background();
        done
    }

    async fn stay(&mut self) -> Result<(), Failure> {
        let mut greeting = json!({ "type": "join", "token": self.token });
        if let Some(name) = &self.name {
            greeting["name"] = json!(name);
        }
        let (mut socket, first) = greet(self.server.clone(), &self.session, &greeting).await?;
        let stay = self.stay.unwrap_or(FOREVER);
        let talk = tokio::time::timeout(stay, self.talk(&mut socket, first)).await;
        let shown = self.camera.as_mut().map_or(Ok(()), Camera::end);
        talk.unwrap_or(Ok(()))?;
        shown?;
        // Whoever leaves on purpose is not waited for.
        let _ = socket.send(Message::text("{\"do\":\"leave\"}")).await;
        let _ = socket.close(None).await;
        Ok(())
    }

    async fn talk(&mut self, socket: &mut Socket, first: Message) -> Result<(), Failure> {
        let (mut open, mut first) = (true, Some(first));
        let mut look = interval(LOOK);
        loop {
            let message = async {
                match first.take() {
                    Some(first) => Some(Ok(first)),
                    None => socket.next().await,
                }
            };
            tokio::select! {
                message = message => match message {
                    Some(Ok(Message::Text(text))) => {
                        let frame: Value = serde_json::from_str(&text).unwrap_or_default();
                        (self.heard)(&frame);
                        let asks = self.camera.as_mut().map(|camera| camera.heed(&frame));
                        for ask in asks.transpose()?.unwrap_or_default() {
                            let sent = socket.send(Message::text(ask.to_string())).await;
                            sent.map_err(|_| gone())?;
                        }
                        if let Some(end) = end(&frame) {
                            return end;
                        }
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(gone()),
                    Some(Ok(_)) => {}
                },
                line = self.lines.recv(), if open => match line {
                    Some(line) => socket.send(Message::text(line)).await.map_err(|_| gone())?,
                    None => open = false,
                },
                _ = look.tick() => self.camera.as_mut().map_or(Ok(()), Camera::check)?,
            }
        }
    }
}

/// A socket to whoever has the session, and what that says first.
async fn greet(
    mut server: Server,
    session: &SessionName,
    greeting: &Value,
) -> Result<(Socket, Message), Failure> {
    for _ in 0..SENT_ON_MAX {
        let stream = server.connect()?;
        stream.set_nonblocking(true).map_err(io("the connection"))?;
        let stream = TcpStream::from_std(stream).map_err(io("the connection"))?;
        let url = format!("ws://{}{}/signal", server.authority, session.path());
        let opened = client_async(url, stream).await;
        let (mut socket, _) = opened
            .map_err(|error| Failure::new(Exit::Unreachable, format!("no signalling: {error}")))?;
        let greeted = socket.send(Message::text(greeting.to_string())).await;
        greeted.map_err(|_| gone())?;
        let first = socket.next().await.and_then(Result::ok).ok_or_else(gone)?;
        let said: Value =
            serde_json::from_str(first.to_text().unwrap_or_default()).unwrap_or_default();
        match said["at"].as_str().filter(|_| said["code"] == "elsewhere") {
            Some(at) => server = Server::new(at, None)?,
            None => return Ok((socket, first)),
        }
    }
    Err(Failure::new(Exit::Failure, "one session server sends to another").hint("try again"))
}

/// Whether a frame is the last one, and what that means.
fn end(frame: &Value) -> Option<Result<(), Failure>> {
    // A refusal without a number answers the greeting.
    if frame["type"] == "refused" && frame.get("id").is_none() {
        let said = frame["error"].as_str().unwrap_or_default();
        let hint = frame["hint"].as_str().unwrap_or_default();
        return Some(Err(Failure::new(Exit::Authentication, said).hint(hint)));
    }
    if frame["type"] != "bye" {
        return None;
    }
    match frame["why"].as_str().unwrap_or_default() {
        "left" | "ended" => Some(Ok(())),
        why => {
            let message = format!("not in the session any more: {why}");
            Some(Err(Failure::new(Exit::Failure, message)))
        }
    }
}

fn gone() -> Failure {
    Failure::new(Exit::Unreachable, "the session server is gone")
}

/// Lines of standard input, from a thread, as reading it cannot be called off.
fn lines() -> Receiver<String> {
    let (sender, lines) = channel(LINES);
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if !line.trim().is_empty() && sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
