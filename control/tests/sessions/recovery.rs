//! A server that dies, and the one that goes on.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sangam_control::session::{ControlStore, Embedded, Failure, StoreError, Told};
use sangam_session::{
    Answer, Caller, Command, Input, Joining, Key, Medium, MemberId, Record, Session, SessionId,
};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::stage::*;

fn open(path: &Path) -> Stage {
    Stage::over(Box::new(Embedded::open(path).unwrap()))
}

async fn join(stage: &Stage, name: &str) -> MemberId {
    let joining = Joining {
        key: Some(Key(name.to_owned())),
        ..Joining::named(name)
    };
    match stage.sessions.input(&weekly(), Input::Join(joining)).await {
        Ok(Answer::Joined(member)) => member,
        other => panic!("{other:?}"),
    }
}

async fn ask(stage: &Stage, who: MemberId, command: Command) -> Result<Answer, Failure> {
    let input = Input::Command(Caller::Member(who), command);
    stage.sessions.input(&weekly(), input).await
}

const AUDIO: Command = Command::Request {
    medium: Medium::Audio,
};

#[tokio::test]
async fn a_new_server_has_the_same_meeting_and_members_come_back_to_their_floors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.redb");
    let first = open(&path);
    first.post("/v1/sessions", WEEKLY).await;
    let anna = join(&first, "anna").await;
    ask(&first, anna, AUDIO).await.unwrap();
    let before = first.gates.lock().unwrap()["acme/weekly/main/audio"].clone();
    drop(first);

    let second = open(&path);
    let after = second.gates.lock().unwrap()["acme/weekly/main/audio"].clone();
    assert_eq!(after.open, before.open, "media goes on");
    assert!((after.epoch, after.revision) > (before.epoch, before.revision));
    let resume = |key: &str| Input::Resume(anna, Key(key.to_owned()));
    let wrong = second.sessions.input(&weekly(), resume("guess")).await;
    assert!(matches!(wrong, Err(Failure::Refused(_))), "{wrong:?}");
    let back = second.sessions.input(&weekly(), resume("anna")).await;
    assert_eq!(back, Ok(Answer::Joined(anna)));
    assert_eq!(second.open_to("acme/weekly/main/audio"), [anna.to_string()]);
}

/// A store whose disk may be full.
struct Full(Embedded, Arc<AtomicBool>);

impl ControlStore for Full {
    fn next_epoch(&mut self, floor: u64) -> Result<u64, StoreError> {
        self.0.next_epoch(floor)
    }

    fn append(&mut self, batch: &[(SessionId, Record)]) -> Result<(), StoreError> {
        match self.1.swap(false, Ordering::SeqCst) {
            true => Err(StoreError::Failed("no space left".to_owned())),
            false => self.0.append(batch),
        }
    }

    fn load(&mut self) -> Result<Vec<Session>, StoreError> {
        self.0.load()
    }

    fn load_one(&mut self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        self.0.load_one(id)
    }

    fn records(&mut self, id: &SessionId, after: u64, n: usize) -> Result<Vec<Record>, StoreError> {
        self.0.records(id, after, n)
    }

    fn compact(&mut self, session: &Session, keep: u64) -> Result<(), StoreError> {
        self.0.compact(session, keep)
    }

    fn forget(&mut self, id: &SessionId) -> Result<(), StoreError> {
        self.0.forget(id)
    }
}

#[tokio::test]
async fn what_cannot_be_kept_never_happened() {
    let full = Arc::new(AtomicBool::new(false));
    let store = Full(Embedded::in_memory().unwrap(), Arc::clone(&full));
    let stage = Stage::over(Box::new(store));
    stage.post("/v1/sessions", WEEKLY).await;
    let anna = join(&stage, "anna").await;
    full.store(true, Ordering::SeqCst);
    let lost = ask(&stage, anna, AUDIO).await;
    assert!(matches!(lost, Err(Failure::Store(_))), "{lost:?}");
    assert_eq!(stage.open_to("acme/weekly/main/audio"), [""; 0]);
    let resume = Input::Resume(anna, Key("anna".to_owned()));
    stage.sessions.input(&weekly(), resume).await.unwrap();
    ask(&stage, anna, AUDIO).await.unwrap();
    assert_eq!(stage.open_to("acme/weekly/main/audio"), [anna.to_string()]);
}

#[tokio::test]
async fn a_member_that_does_not_read_is_told_the_state_when_it_does() {
    let stage = Stage::new();
    stage.post("/v1/sessions", WEEKLY).await;
    let anna = join(&stage, "anna").await;
    let (sink, mut told) = mpsc::channel(sangam_control::session::TOLD_MAX);
    let number = stage.sessions.connection_number();
    stage
        .sessions
        .connect(&weekly(), anna, number, sink)
        .unwrap();
    for number in 0..400 {
        let name = format!("anna {number}");
        ask(&stage, anna, Command::Name { name }).await.unwrap();
    }
    // All that was queued is read at once; then the state comes, which needs nothing before it.
    let mut last = Value::Null;
    while last["session"]["members"][0]["name"] != "anna 399" {
        if let Told::Frame(frame) = told.recv().await.unwrap() {
            last = serde_json::from_str(&frame).unwrap();
        }
    }
    assert_eq!(last["type"], "state");
}

#[tokio::test]
async fn the_last_connection_to_begin_stays_in_whatever_order_they_are_let_in() {
    let stage = Stage::new();
    stage.post("/v1/sessions", WEEKLY).await;
    let anna = join(&stage, "anna").await;
    let sessions = &stage.sessions;
    let away = async || {
        let read = move |session: &Session| session.member(anna).map(|one| one.away_ms.is_some());
        sessions.read(&weekly(), read).await.unwrap()
    };
    let connect = |number| {
        let (sink, told) = mpsc::channel(sangam_control::session::TOLD_MAX);
        sessions.connect(&weekly(), anna, number, sink).unwrap();
        told
    };
    // The first was given up, and waited for its session as long as the second.
    let (first, second) = (sessions.connection_number(), sessions.connection_number());
    let mut stays = connect(second);
    let mut given_up = connect(first);
    let mut last = None;
    let end = async {
        while let Some(told) = given_up.recv().await {
            last = Some(told);
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), end).await;
    ended.expect("the given up one is ended");
    assert!(matches!(last, Some(Told::Bye("replaced"))), "{last:?}");
    sessions.disconnect(&weekly(), anna, first).await;
    assert_eq!(away().await, Some(false));
    while let Ok(told) = stays.try_recv() {
        assert!(!matches!(told, Told::Bye(_)), "{told:?}");
    }

    // The end of one is heard of between the greeting of the next and its connection.
    let third = sessions.connection_number();
    let resume = Input::Resume(anna, Key("anna".to_owned()));
    sessions.input(&weekly(), resume).await.unwrap();
    sessions.disconnect(&weekly(), anna, second).await;
    assert_eq!(away().await, Some(true));
    let _stays = connect(third);
    assert_eq!(away().await, Some(false));
    // One that never came about takes nobody's place either.
    sessions
        .disconnect(&weekly(), anna, sessions.connection_number())
        .await;
    assert_eq!(away().await, Some(false));
}

#[tokio::test]
async fn a_join_that_was_given_up_ends_no_later_one() {
    let stage = Stage::new();
    stage.post("/v1/sessions", WEEKLY).await;
    let sessions = &stage.sessions;
    let join = async |number| {
        let joining = Joining::named("anna");
        sessions.join(&weekly(), joining, number).await
    };
    let numbers: Vec<u64> = (0..3).map(|_| sessions.connection_number()).collect();
    let Ok(Answer::Joined(anna)) = join(numbers[1]).await else {
        panic!("she does not get in");
    };
    // She waited longer for the session by the first one, before and after she is connected.
    assert_eq!(join(numbers[0]).await, Err(Failure::Replaced));
    let (sink, mut told) = mpsc::channel(sangam_control::session::TOLD_MAX);
    let connected = sessions.connect(&weekly(), anna, numbers[1], sink);
    connected.unwrap();
    assert_eq!(join(numbers[0]).await, Err(Failure::Replaced));
    while let Ok(told) = told.try_recv() {
        assert!(!matches!(told, Told::Bye(_)), "{told:?}");
    }
    // Whoever comes back later is another member, as before.
    let again = join(numbers[2]).await;
    assert!(
        matches!(again, Ok(Answer::Joined(other)) if other != anna),
        "{again:?}"
    );
    let mut last = None;
    while let Some(more) = told.recv().await {
        last = Some(more);
    }
    assert!(matches!(last, Some(Told::Bye("replaced"))), "{last:?}");
}
