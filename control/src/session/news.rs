//! What happens in a session, told on a reliable topic of its own: `TENANT/NAME/$events`.
//!
//! For recorders, gateways and other services that follow a session without a connection of a
//! member. An event is a JSON object, a [`News`]; [`Order`] puts them in order whatever the way
//! they came. `docs/spec/xgsp.md` says what is told and what is not.

use std::collections::BTreeMap;

use sangam_model::{SESSION_EVENTS, Topic};
use sangam_session::{Event, Record, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Bytes of events up to which they are told together: far below what a reliable topic takes.
const TOGETHER: usize = 32 << 10;
/// News that wait for what stands before them.
const HELD_MAX: usize = 1_024;

/// Consecutive events of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct News {
    /// The number before the first of them.
    pub after: u64,
    /// The number of the last; those between that are not among `events` are told to nobody.
    pub seq: u64,
    /// Which holder of the session wrote the last.
    pub epoch: u64,
    /// As members are told them.
    pub events: Vec<Value>,
}

/// Where the events of a session are told.
#[must_use]
pub fn topic(id: &SessionId) -> Option<Topic> {
    // Names of sessions are levels of topics.
    Topic::new(&format!("{id}/{SESSION_EVENTS}")).ok()
}

/// Consecutive records, in as few news as may be.
#[must_use]
pub fn gather(records: &[Record]) -> Vec<News> {
    let mut all: Vec<News> = Vec::new();
    let mut len = 0;
    for record in records {
        let shown = is_told(record).then(|| json!(record));
        let more = shown.as_ref().map_or(0, |shown| shown.to_string().len());
        match all.last_mut() {
            Some(last) if last.seq + 1 == record.seq && len + more <= TOGETHER => {
                (last.seq, last.epoch) = (record.seq, record.epoch);
                last.events.extend(shown);
                len += more;
            }
            _ => {
                all.push(News {
                    after: record.seq.saturating_sub(1),
                    seq: record.seq,
                    epoch: record.epoch,
                    events: shown.into_iter().collect(),
                });
                len = more;
            }
        }
    }
    all
}

/// Keys and who may not come back are nobody's business, and what is said to one member is
/// theirs.
const fn is_told(record: &Record) -> bool {
    match &record.event {
        Event::Keyed { .. } | Event::Barred { .. } => false,
        Event::Chat { to, .. } => to.is_none(),
        _ => true,
    }
}

/// Puts news in order: each event once, whoever told it, and however often.
///
/// A session that moved is told by another publisher, which begins with the last events of the one
/// before, so that news may overlap and overtake each other.
#[derive(Debug, Default)]
pub struct Order {
    seq: u64,
    epoch: u64,
    held: BTreeMap<u64, News>,
}

impl Order {
    /// Begins behind an event: 0 for all of them, or the `seq` of a session's document.
    #[must_use]
    pub fn after(seq: u64) -> Self {
        Self {
            seq,
            ..Self::default()
        }
    }

    /// The events that are next now. What cannot be put in order yet waits.
    pub fn take(&mut self, news: News) -> Vec<Value> {
        let fits = news.after <= self.seq || self.held.len() < HELD_MAX;
        if news.seq > self.seq && fits {
            let known = self.held.entry(news.after).or_insert_with(|| news.clone());
            if known.seq < news.seq {
                *known = news;
            }
        }
        let mut next = Vec::new();
        while let Some(first) = self.held.first_entry()
            && *first.key() <= self.seq
        {
            let news = first.remove();
            let fresh = |event: &Value| event["seq"].as_u64() > Some(self.seq);
            next.extend(news.events.into_iter().filter(fresh));
            self.seq = self.seq.max(news.seq);
            self.epoch = self.epoch.max(news.epoch);
        }
        next
    }

    /// The number up to which everything has come.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// The greatest epoch so far.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The first numbers that are missed: behind the one and up to the other. The session's
    /// server has them: `GET /v1/sessions/T/N/events?after=`.
    #[must_use]
    pub fn missing(&self) -> Option<(u64, u64)> {
        let (after, _) = self.held.first_key_value()?;
        Some((self.seq, *after))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sangam_model::Filter;
    use sangam_session::MemberId;

    use super::*;

    fn chat(seq: u64, text: &str, to: Option<MemberId>) -> Record {
        Record {
            seq,
            at_ms: 1_000 + seq,
            epoch: 1 + seq / 8,
            event: Event::Chat {
                from: MemberId(1),
                to,
                room: None,
                text: text.to_owned(),
            },
        }
    }

    fn numbers(events: &[Value]) -> Vec<u64> {
        events
            .iter()
            .filter_map(|one| one["seq"].as_u64())
            .collect()
    }

    #[test]
    fn a_crowd_is_told_by_few_events_of_bounded_size() {
        let text = "x".repeat(300);
        let records: Vec<_> = (1..=2_000).map(|seq| chat(seq, &text, None)).collect();
        let news = gather(&records);
        assert!((10..100).contains(&news.len()), "{}", news.len());
        assert!(
            news.iter()
                .all(|one| json!(one).to_string().len() < 64 << 10)
        );
        let mut order = Order::default();
        let told: Vec<_> = news.into_iter().flat_map(|one| order.take(one)).collect();
        assert!(numbers(&told).into_iter().eq(1..=2_000));
    }

    #[test]
    fn what_is_said_to_one_member_is_counted_and_not_told() {
        let secret = chat(2, "secret", Some(MemberId(2)));
        let barred = Record {
            event: Event::Barred {
                identity: "mallory".to_owned(),
            },
            ..chat(3, "", None)
        };
        let news = gather(&[chat(1, "hello", None), secret, barred]);
        assert_eq!(news.len(), 1);
        assert_eq!((news[0].after, news[0].seq), (0, 3));
        assert_eq!(numbers(&news[0].events), [1]);
    }

    #[test]
    fn the_topic_is_one_that_no_room_has() {
        let id = SessionId::new("acme", "weekly").unwrap();
        let topic = topic(&id).unwrap();
        assert_eq!(topic.as_str(), "acme/weekly/$events");
        assert!(topic.is_session_events());
        let hears = |filter: &str| Filter::new(filter).unwrap().matches(&topic);
        assert!(hears("acme/weekly/#") && hears("acme/#"));
        // Nor a member, wherever it is, or somebody of another tenant.
        let members = ["acme/weekly/main/#", "acme/weekly/service/#", "other/#"];
        assert!(!members.into_iter().any(hears));
    }

    #[test]
    fn numbers_that_are_missed_are_said() {
        let records: Vec<_> = (1..=9).map(|seq| chat(seq, "x", None)).collect();
        let mut order = Order::after(2);
        assert!(order.take(gather(&records[5..]).remove(0)).is_empty());
        assert_eq!(order.missing(), Some((2, 5)));
        let told = order.take(gather(&records[2..5]).remove(0));
        assert_eq!(numbers(&told), [3, 4, 5, 6, 7, 8, 9]);
        assert_eq!((order.missing(), order.seq(), order.epoch()), (None, 9, 2));
    }

    proptest! {
        /// However records are cut into news, said again and shuffled.
        #[test]
        fn every_event_comes_once_and_in_order(
            cuts in prop::collection::vec((0_usize..60, 1_usize..20), 1..60),
            secret in prop::collection::vec(any::<bool>(), 60),
        ) {
            let of = |(seq, secret): (u64, &bool)| chat(seq, "x", secret.then_some(MemberId(2)));
            let records: Vec<_> = (1..).zip(&secret).map(of).collect();
            let mut order = Order::default();
            let mut told = Vec::new();
            let cuts = cuts.into_iter().map(|(at, len)| &records[at..(at + len).min(60)]);
            for news in cuts.chain([&records[..]]).flat_map(gather) {
                told.extend(order.take(news));
            }
            let open = (1..).zip(&secret).filter(|(_, secret)| !**secret);
            prop_assert!(numbers(&told).into_iter().eq(open.map(|(seq, _): (u64, _)| seq)));
            prop_assert_eq!((order.seq(), order.missing()), (60, None));
        }
    }
}
