//! What a worker has, and when it ends. One test alone in its process, as it counts the children.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use sangam_control::monitor::xpath::{Evaluator, XPathError};

/// Runs for as long as it may.
const LOOP: &str = "count(for $a in 1 to 30000, $b in 1 to 30000 return ())";

/// Workers that this test process has started, by their ids.
fn workers() -> Vec<u32> {
    let own = std::process::id().to_string();
    let ids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let id: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // Behind the name in brackets: state, then the parent.
        let (name, rest) = stat.split_once(") ")?;
        let mut rest = rest.split(' ');
        let lives = rest.next() != Some("Z");
        (name.ends_with("(sangam-xpath") && lives && rest.next() == Some(&own)).then_some(id)
    });
    ids.collect()
}

/// Waits until so many workers run.
async fn until_workers(count: usize) -> Vec<u32> {
    let mut look = tokio::time::interval(Duration::from_millis(10));
    for _ in 0..1_000 {
        look.tick().await;
        let found = workers();
        if found.len() == count {
            return found;
        }
    }
    panic!("never {count} workers, but {:?}", workers());
}

#[tokio::test]
async fn workers_have_nothing_and_end_with_who_asked() {
    sangam_io::child::keep_descriptors().unwrap();
    let program = env!("CARGO_BIN_EXE_sangam-xpath");
    let evaluator = Evaluator::new(PathBuf::from(program));
    let ask = |evaluator: Evaluator| async move { evaluator.evaluate(LOOP, "<x/>").await };
    let first = tokio::spawn(ask(evaluator.clone()));
    let second = tokio::spawn(ask(evaluator.clone()));
    let ids = until_workers(2).await;
    assert_eq!(evaluator.evaluate("1", "<x/>").await, Err(XPathError::Busy));

    let limited = |id: &u32| {
        let limits = fs::read_to_string(format!("/proc/{id}/limits")).unwrap_or_default();
        limits.contains("Max open files            0 ")
    };
    let mut look = tokio::time::interval(Duration::from_millis(5));
    while !ids.iter().all(limited) {
        look.tick().await;
    }
    for id in &ids {
        let open = fs::read_dir(format!("/proc/{id}/fd")).unwrap().count();
        assert_eq!(open, 3, "standard input, output and error");
        assert_eq!(fs::read(format!("/proc/{id}/environ")).unwrap(), b"");
    }
    first.abort();
    second.abort();
    until_workers(0).await;
    assert!(
        evaluator.evaluate("1", "<x/>").await.is_ok(),
        "and there is room again"
    );
}
