//! `sangam publish --reliable`: lines of standard input, each an event.

use std::io::BufRead;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use sangam_client::{Received, ReliableError, ReliableEvent};
use serde_json::json;

use crate::cli::PublishArgs;
use crate::commands::peer::{self, Length};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::stop::Stop;

/// Lines read ahead.
const AHEAD: usize = 256;
/// How long the broker is listened to before the next line is looked for.
const NAP: Duration = Duration::from_millis(10);

/// Publishes until the input, the time or the user's patience ends, and then waits until the
/// network holds everything.
pub(super) fn run(args: &PublishArgs, as_json: bool, stop: &Stop) -> Result<(), Failure> {
    let (mut client, mut pass) = peer::connect(&args.to, &args.peer)?;
    let failed = |error: ReliableError| Failure::new(Exit::Failure, error.to_string());
    let publisher = client.publish_reliable(&args.topic).map_err(failed)?;
    let lines = read_lines();
    let length = Length::new(args.seconds);
    let (mut waiting, mut sent, mut ended) = (None, 0_u64, false);
    while !stop.is_set() {
        pass.renew(&client);
        ended |= length.is_over();
        while !ended || waiting.is_some() {
            let line = match waiting.take() {
                Some(line) => line,
                None => match lines.try_recv() {
                    Ok(line) => line,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        ended = true;
                        break;
                    }
                },
            };
            match publisher.send(line.as_bytes()) {
                Ok(_) => sent += 1,
                Err(ReliableError::Full) => {
                    waiting = Some(line);
                    break;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        if ended && waiting.is_none() && publisher.unheld() == 0 {
            break;
        }
        match client.recv(NAP) {
            Some(Received::Reliable(ReliableEvent::PublisherEnded(_, reason))) => {
                let message = format!("the broker ends the publication: {reason}");
                return Err(peer::refused(message, reason));
            }
            Some(Received::Token(verdict)) => pass.judge(verdict)?,
            Some(Received::Down(reason)) => tracing::warn!(%reason, "the link is down"),
            _ => {}
        }
    }
    let unheld = publisher.unheld();
    if as_json {
        output::json_line(&json!({ "event": "summary", "sent": sent, "unheld": unheld }));
    }
    if unheld > 0 || waiting.is_some() {
        let message = format!("the network does not hold the last {unheld} records yet");
        return Err(Failure::new(Exit::Unreachable, message));
    }
    client.close();
    Ok(())
}

/// Lines without their ends, by a thread of their own: reading them may take any time.
fn read_lines() -> Receiver<String> {
    let (sender, lines) = sync_channel(AHEAD);
    // It ends with the input or with the process.
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            match line {
                Ok(line) => {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "standard input cannot be read");
                    return;
                }
            }
        }
    });
    lines
}
