//! Numbers that are recorded, one event each, and what is found of them.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::Path;
use std::time::{Duration, Instant};

use sangam_archive::Archive;
use sangam_client::{Client, ClientOptions, Outgoing, Publisher, Target};
use sangam_model::{MediaInfo, Topic};
use serde_json::Value;

use super::common::Broker;

const PATIENCE: Duration = Duration::from_secs(30);
/// Data comes so fast at most.
const PACE: Duration = Duration::from_millis(2);

/// The lines of JSON that a recorder printed, without one that was cut short.
pub(crate) fn lines(said: &str) -> Vec<Value> {
    let whole = said.lines().filter(|line| line.ends_with('}'));
    whole
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Numbers on a topic, one event each.
pub(crate) struct Numbers {
    client: Client,
    publisher: Publisher,
    pub(crate) next: u64,
}

impl Numbers {
    pub(crate) fn new(broker: &Broker) -> Self {
        let target = Target::Udp(broker.udp);
        let mut client = Client::connect(target, ClientOptions::default()).unwrap();
        let topic = Topic::new("test/numbers").unwrap();
        let publisher = client.publish(&topic, MediaInfo::data(), PATIENCE).unwrap();
        Self {
            client,
            publisher,
            next: 0,
        }
    }

    pub(crate) fn send_for(&mut self, time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time {
            let number = self.next.to_be_bytes();
            self.publisher.send(Outgoing::new(&number)).unwrap();
            self.next += 1;
            self.client.recv(PACE);
        }
    }
}

/// The numbers of the latest recording, which follow each other, and whether it was ended in
/// order.
pub(crate) fn latest(folder: &Path) -> (Vec<u64>, bool) {
    let archive = Archive::new(folder);
    let recording = archive.recordings().unwrap().pop().unwrap();
    let mut numbers = Vec::new();
    recording
        .read(&archive.medium().unwrap(), |_, record| {
            numbers.push(u64::from_be_bytes(record.body.try_into().unwrap()));
            true
        })
        .unwrap();
    (numbers, recording.whole)
}
