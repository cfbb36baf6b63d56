//! A member on the command line: frames out, commands in, one JSON object in each line.

use std::io::BufRead;
use std::thread;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{Receiver, channel};
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
/// Years that stand for no end.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

type Socket = WebSocketStream<TcpStream>;

/// Joins, and stays until somebody ends it.
pub(super) fn run(
    server: &Server,
    session: &SessionName,
    (token, name): (&str, Option<&str>),
    (seconds, camera): (Option<u64>, Option<Camera>),
) -> Result<(), Failure> {
    let mut camera = camera;
    let mut greeting = json!({ "type": "join", "token": token });
    if let Some(name) = name {
        greeting["name"] = json!(name);
    }
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(io("cannot start"))?;
    let stay = seconds.map_or(FOREVER, Duration::from_secs);
    let done = runtime.block_on(async {
        let (mut socket, first) = greet(server.clone(), session, &greeting).await?;
        let talk = talk(&mut socket, (first, lines()), camera.as_mut());
        tokio::time::timeout(stay, talk).await.unwrap_or(Ok(()))?;
        if let Some(camera) = &mut camera {
            camera.end()?;
        }
        // Whoever leaves on purpose is not waited for.
        let _ = socket.send(Message::text("{\"do\":\"leave\"}")).await;
        let _ = socket.close(None).await;
        Ok(())
    });
    // A thread may still read standard input.
    runtime.shutdown_background();
    done
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

async fn talk(
    socket: &mut Socket,
    (first, mut lines): (Message, Receiver<String>),
    mut camera: Option<&mut Camera>,
) -> Result<(), Failure> {
    let mut open = true;
    let mut first = Some(first);
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
                    output::json_line(&frame);
                    let asks = camera.as_mut().map(|camera| camera.heed(&frame)).transpose()?;
                    for ask in asks.unwrap_or_default() {
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
            line = lines.recv(), if open => match line {
                Some(line) => socket.send(Message::text(line)).await.map_err(|_| gone())?,
                None => open = false,
            },
        }
    }
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
