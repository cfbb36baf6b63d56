//! `sangam play --reliable`: events of reliable topics, each a line.

use std::time::Duration;

use sangam_client::{Client, Received, ReliableEvent};
use sangam_model::Topic;
use serde_json::json;

use crate::cli::PlayArgs;
use crate::commands::peer::{self, Length};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::stop::Stop;

/// How long the loop sleeps at most before it looks at its end.
const NAP: Duration = Duration::from_millis(100);

/// What came so far.
#[derive(Debug, Default)]
struct Count {
    events: u64,
    gaps: u64,
}

/// Prints events until there were enough, the time is over or the user's patience ends.
pub(super) fn run(args: &PlayArgs, as_json: bool, stop: &Stop) -> Result<(), Failure> {
    let (mut client, mut pass) = peer::connect(&args.from, &args.peer)?;
    for topic in topics(args)? {
        subscribe(&client, &topic, args.replay)?;
    }
    let length = Length::new(args.seconds);
    let mut count = Count::default();
    let enough = |count: &Count| args.events.is_some_and(|most| count.events >= most);
    while !stop.is_set() && !length.is_over() && !enough(&count) {
        pass.renew(&client);
        match client.recv(NAP) {
            Some(Received::Reliable(event)) => show(event, as_json, &mut count)?,
            Some(Received::Token(verdict)) => pass.judge(verdict)?,
            Some(Received::Down(reason)) => tracing::warn!(%reason, "the link is down"),
            _ => {}
        }
    }
    if as_json {
        let Count { events, gaps } = count;
        output::json_line(&json!({ "event": "summary", "events": events, "gaps": gaps }));
    }
    if args.events.is_some() && !enough(&count) {
        let message = format!("{} of the events asked for came", count.events);
        return Err(Failure::new(Exit::Threshold, message));
    }
    client.close();
    Ok(())
}

fn topics(args: &PlayArgs) -> Result<Vec<Topic>, Failure> {
    let topic = |filter: &sangam_model::Filter| {
        Topic::new(filter.as_str()).map_err(|_| {
            let message = format!("{filter}: reliable topics are asked for by name");
            Failure::new(Exit::Usage, message).hint("leave + and # out; repeat --topic")
        })
    };
    args.topic.iter().map(topic).collect()
}

fn subscribe(client: &Client, topic: &Topic, replay: u32) -> Result<(), Failure> {
    let failed = |error: sangam_client::ReliableError| {
        Failure::new(Exit::Failure, format!("{topic}: {error}"))
    };
    client.subscribe_reliable(topic, replay).map_err(failed)
}

fn show(event: ReliableEvent, as_json: bool, count: &mut Count) -> Result<(), Failure> {
    match event {
        ReliableEvent::Received {
            topic,
            publisher,
            sequence,
            payload,
        } => {
            count.events += 1;
            let text = String::from_utf8_lossy(&payload);
            if as_json {
                output::json_line(&json!({
                    "event": "received",
                    "topic": topic.as_str(),
                    "publisher": publisher.to_string(),
                    "sequence": sequence,
                    "text": text,
                }));
            } else {
                output::line(&text);
            }
        }
        ReliableEvent::Gap {
            topic,
            publisher,
            first,
            through,
        } => {
            count.gaps += 1;
            if as_json {
                output::json_line(&json!({
                    "event": "gap",
                    "topic": topic.as_str(),
                    "publisher": publisher.to_string(),
                    "first": first,
                    "through": through,
                }));
            } else {
                tracing::warn!(%topic, %publisher, first, through, "records are kept no more");
            }
        }
        ReliableEvent::SubscriptionEnded(topic, reason) => {
            let message = format!("the broker ends the subscription of {topic}: {reason}");
            return Err(peer::refused(message, reason));
        }
        _ => {}
    }
    Ok(())
}
