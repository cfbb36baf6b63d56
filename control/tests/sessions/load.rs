//! What a server takes: so many sessions, and none while it has as much to do as it can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use sangam_control::session::{ControlStore, Embedded, StoreError};
use sangam_session::{Caller, Command, Input, Record, Session, SessionId};

use crate::stage::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn create(name: &str) -> String {
    format!(r#"{{"tenant": "acme", "name": "{name}", "title": "{name}"}}"#)
}

#[tokio::test]
async fn a_server_takes_no_more_sessions_than_it_may() {
    let stage = Stage::new();
    for n in 0..10 {
        let made = stage.post("/v1/sessions", &create(&format!("s{n}"))).await;
        assert!(made.status.is_success(), "{made:?}");
    }
    let refused = stage.post("/v1/sessions", &create("more")).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.json()["code"], "busy");
    let over = r#"{"do": "finish"}"#;
    let done = stage.post("/v1/sessions/acme/s3/commands", over).await;
    assert!(done.status.is_success(), "{done:?}");
    let gone = ("DELETE", "/v1/sessions/acme/s3");
    assert!(stage.ask(gone, JSON, (None, "")).await.status.is_success());
    let made = stage.post("/v1/sessions", &create("more")).await;
    assert!(made.status.is_success(), "{made:?}");
}

/// A store whose disk is slow for as long as that is wanted.
struct Slow(Embedded, Arc<AtomicBool>);

impl ControlStore for Slow {
    fn next_epoch(&mut self, floor: u64) -> Result<u64, StoreError> {
        self.0.next_epoch(floor)
    }

    fn append(&mut self, batch: &[(SessionId, Record)]) -> Result<(), StoreError> {
        if self.1.load(Ordering::SeqCst) {
            let until = Instant::now() + Duration::from_millis(100);
            while let Some(left) = until.checked_duration_since(Instant::now()) {
                thread::park_timeout(left.max(Duration::from_millis(1)));
            }
        }
        self.0.append(batch)
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
async fn a_server_that_is_busy_takes_no_session_until_it_is_not() {
    let slow = Arc::new(AtomicBool::new(true));
    let store = Slow(Embedded::in_memory().unwrap(), Arc::clone(&slow));
    let stage = Stage::over(Box::new(store));
    assert!(stage.post("/v1/sessions", WEEKLY).await.status.is_success());
    // Several, so that the next change waits while one is kept.
    let workers = (0..4).map(|_| {
        let (sessions, working) = (stage.sessions.clone(), Arc::clone(&slow));
        tokio::spawn(async move {
            let mut locked = false;
            while working.load(Ordering::SeqCst) {
                locked = !locked;
                let lock = Input::Command(Caller::Operator, Command::Lock { locked });
                sessions.input(&weekly(), lock).await.unwrap();
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    let busy = |wanted: bool| {
        let sessions = stage.sessions.clone();
        async move {
            let until = Instant::now() + PATIENCE;
            let mut look = tokio::time::interval(Duration::from_millis(20));
            while (sessions.statistics().busy_percent > 80) != wanted {
                let busy = sessions.statistics().busy_percent;
                assert!(Instant::now() < until, "busy for {busy} %");
                look.tick().await;
            }
        }
    };
    busy(true).await;
    let refused = stage.post("/v1/sessions", &create("more")).await;
    assert_eq!(refused.json()["code"], "busy", "{refused:?}");
    slow.store(false, Ordering::SeqCst);
    for worker in workers {
        worker.await.unwrap();
    }
    busy(false).await;
    let made = stage.post("/v1/sessions", &create("more")).await;
    assert!(made.status.is_success(), "{made:?}");
}
