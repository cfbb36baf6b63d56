//! Which topics are open, as brokers are told it: events of class data on `$sangam/gate/SERVER`.
//!
//! An event is a JSON array of [`Word`]s. Words are repeated, so that a broker that missed one, or
//! came later, knows soon; a broker keeps the newest by epoch and revision.

use std::time::Duration;

use sangam_client::{Client, ClientError, Outgoing, Publisher, Received};
use sangam_model::{Class, Filter, MediaInfo, Topic};
use sangam_session::Session;
use sangam_wire::Event;
use serde::{Deserialize, Serialize};

/// Topic of the gates, without the server that speaks.
pub const GATES: &str = "$sangam/gate";
/// Bytes of an event up to which words are put together, so that it fits one datagram.
const TOGETHER: usize = 1_100;
/// Bytes of one word at most; it fits an event.
const WORD_LEN_MAX: usize = 15_000;
/// How long the broker may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// What may be published below one prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// The prefix.
    pub at: String,
    /// Which holder of the session says so.
    pub epoch: u64,
    /// Which of its words this is.
    pub revision: u64,
    /// The next levels that are open; everything, if there is no list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Vec<String>>,
    /// What may be published there, `audio` or `video`; anything, if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

impl Word {
    /// What may be published there; anything, if none is said.
    #[must_use]
    pub fn class(&self) -> Option<Class> {
        let named = |class: &Class| Some(class.name()) == self.class.as_deref();
        Class::ALL.into_iter().find(named)
    }
}

/// What a session means for topics now.
#[must_use]
pub fn words(session: &Session) -> Vec<Word> {
    let doors = session.doors().into_iter();
    let word = |(at, open): (String, _)| Word {
        class: medium(&at).map(|class| class.name().to_owned()),
        at,
        epoch: session.epoch(),
        revision: session.seq(),
        open: Some(open),
    };
    doors.map(word).collect()
}

/// The class of what a floor is for, if the door is a floor's: `tenant/name/room/medium`. A screen
/// has sound as well.
fn medium(at: &str) -> Option<Class> {
    match at.split('/').nth(3)? {
        "audio" => Some(Class::Audio),
        "video" => Some(Class::Video),
        _ => None,
    }
}

/// What lifts the gates of a session that is forgotten.
#[must_use]
pub fn lifted(session: &Session) -> Vec<Word> {
    let mut words = words(session);
    for word in &mut words {
        (word.open, word.revision) = (None, word.revision + 1);
    }
    words
}

/// Words as payloads of events.
#[must_use]
pub fn pack(words: &[Word]) -> Vec<String> {
    let mut packed: Vec<String> = Vec::new();
    for word in words {
        let text = serde_json::to_string(word).unwrap_or_default();
        if text.is_empty() || text.len() > WORD_LEN_MAX {
            tracing::error!(at = word.at, "a gate is too large to be told");
            continue;
        }
        match packed.last_mut() {
            Some(last) if last.len() + text.len() < TOGETHER => {
                last.push(',');
                last.push_str(&text);
            }
            _ => packed.push(format!("[{text}")),
        }
    }
    packed.iter_mut().for_each(|text| text.push(']'));
    packed
}

/// Tells brokers. Its client must be a system door: nobody else may speak there.
#[derive(Debug)]
pub struct Speaker {
    client: Client,
    publisher: Publisher,
}

impl Speaker {
    /// Publishes under a server's name, which is one level of a topic.
    ///
    /// # Errors
    /// The broker does not take the publication.
    pub fn new(mut client: Client, server: &str) -> Result<Self, ClientError> {
        let topic = Topic::new(&format!("{GATES}/{server}"));
        let topic = topic.expect("broker ids and checked names are levels of a topic");
        let publisher = client.publish(&topic, MediaInfo::data(), ANSWER)?;
        Ok(Self { client, publisher })
    }

    /// Tells words; what cannot leave is dropped, and said again later.
    pub fn say(&mut self, words: &[Word]) {
        while self.client.try_recv().is_some() {}
        for payload in pack(words) {
            if let Err(error) = self.publisher.send(Outgoing::new(payload.as_bytes())) {
                tracing::debug!(%error, "gates were not told");
            }
        }
    }
}

/// Hears what every session server says.
#[derive(Debug)]
pub struct Listener {
    client: Client,
}

impl Listener {
    /// Subscribes through a client of the broker whose gates these are.
    ///
    /// # Errors
    /// As [`Client::subscribe`].
    pub fn new(client: Client) -> Result<Self, ClientError> {
        let filter = Filter::new(&format!("{GATES}/+"));
        client.subscribe(&filter.expect("a wildcard may follow two levels"))?;
        Ok(Self { client })
    }

    /// What was said within `timeout`; empty if nothing, `None` once the broker has stopped.
    pub fn hear(&mut self, timeout: Duration) -> Option<Vec<Word>> {
        match self.client.recv(timeout) {
            Some(Received::Event(packet)) => {
                let words = Event::decode(&packet).ok();
                let words = words.and_then(|event| serde_json::from_slice(event.payload).ok());
                Some(words.unwrap_or_default())
            }
            None if self.client.is_closed() => None,
            _ => Some(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_of_sound_and_of_pictures_are_for_these_alone() {
        assert_eq!(medium("acme/weekly/main/audio"), Some(Class::Audio));
        assert_eq!(medium("acme/weekly/main/video"), Some(Class::Video));
        for other in ["acme/weekly/main/screen", "acme/weekly/audio", "acme/video"] {
            assert_eq!(medium(other), None, "{other}");
        }
        let said = r#"{"at":"a/b/c/audio","epoch":1,"revision":1,"open":["m1"],"class":"audio"}"#;
        let word: Word = serde_json::from_str(said).unwrap();
        assert_eq!(word.class(), Some(Class::Audio));
    }

    #[test]
    fn words_are_put_together_as_far_as_a_datagram_reaches() {
        let word = |n: usize, open: usize| Word {
            at: format!("acme/s{n}/main/audio"),
            epoch: 1,
            revision: 2,
            open: Some((0..open).map(|m| format!("m{m}")).collect()),
            class: Some("audio".to_owned()),
        };
        let words: Vec<_> = (0..40).map(|n| word(n, 2)).chain([word(99, 250)]).collect();
        let packed = pack(&words);
        assert!((4..12).contains(&packed.len()), "{}", packed.len());
        let mut back: Vec<Word> = Vec::new();
        for payload in &packed {
            back.extend(serde_json::from_str::<Vec<Word>>(payload).unwrap());
        }
        assert_eq!(back, words);
        assert!(
            packed[..packed.len() - 1]
                .iter()
                .all(|one| one.len() < 1_200)
        );
    }
}
