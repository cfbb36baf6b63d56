//! The program: a short study from nothing to its report.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn sim(arguments: &[&str], out: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sangam-sim"));
    command.args(arguments).arg(out).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const RUN: [&str; 9] = [
    "run",
    "all",
    "--families",
    "t2,t4-9",
    "--seeds",
    "1",
    "--packets",
    "600",
    "--out",
];

#[test]
fn a_short_study_is_run_reported_and_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let first = sim(&RUN, dir.path());
    assert!(first.status.success(), "{}", text(&first.stderr));
    let page = fs::read_to_string(dir.path().join("index.html")).unwrap();
    for words in [
        "What is claimed",
        "VCR-WM",
        "Figure 4",
        "Figure 8",
        "Figure 14",
        "<svg",
        "t4-9",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(
        !page.contains("src=\"") && !page.contains("<script"),
        "it loads nothing"
    );
    assert!(dir.path().join("tables/study-t2-all.csv").exists());
    assert!(fs::read_dir(dir.path().join("figures")).unwrap().count() >= 10);

    // A file that is not whole is run again, the others are not.
    fs::write(
        dir.path().join("units/study/t4-9/0-1.unit"),
        "sangam-unit 1",
    )
    .unwrap();
    let again = sim(&RUN, dir.path());
    assert!(again.status.success(), "{}", text(&again.stderr));
    let words = text(&again.stderr);
    assert!(words.contains("sessions are there already"), "{words}");
    assert!(
        fs::metadata(dir.path().join("units/study/t4-9/0-1.unit"))
            .unwrap()
            .len()
            > 1_000
    );

    let other = sim(&["run", "fig17", "--packets", "2000", "--out"], dir.path());
    assert!(!other.status.success());
    assert!(text(&other.stderr).contains("holds results of 600 packets"));

    let report = sim(&["report", "--json"], dir.path());
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert!(report["claims"].as_array().unwrap().len() > 10);
    let tables = report["tables"].as_array().unwrap();
    assert!(tables.iter().any(|table| table["name"] == "matched-t2"));
}

#[test]
fn a_trace_is_written_checked_and_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("t5.trace");
    let written = sim(&["trace", "write", "t5", "--rows", "1200", "--out"], &trace);
    assert!(written.status.success(), "{}", text(&written.stderr));
    let checked = sim(&["trace", "check"], &trace);
    assert!(text(&checked.stdout).contains("35 links, 15 sessions, 1200 moments"));
    let out = dir.path().join("out");
    let arguments = ["run", "replay", "--trace", trace.to_str().unwrap(), "--out"];
    let replayed = sim(&arguments, &out);
    assert!(replayed.status.success(), "{}", text(&replayed.stderr));
    assert!(
        fs::read_to_string(out.join("index.html"))
            .unwrap()
            .contains("t5")
    );

    let whole = fs::read(&trace).unwrap();
    fs::write(&trace, &whole[..whole.len() / 2]).unwrap();
    let broken = sim(&arguments, &dir.path().join("other"));
    assert!(!broken.status.success());
    assert!(
        text(&broken.stderr).contains("the trace ends after"),
        "{}",
        text(&broken.stderr)
    );
}

#[test]
fn what_does_not_exist_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let none = sim(&["run", "fig99", "--out"], dir.path());
    assert!(text(&none.stderr).contains("`sangam sim list` names them"));
    let none = sim(&["report"], dir.path());
    assert!(text(&none.stderr).contains("holds no results"));
}

#[test]
fn sessions_are_taken_out_of_a_trace_with_their_links_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, out) = (dir.path().join("t3"), dir.path().join("out"));
    let made = sim(&["trace", "write", "t3", "--rows", "1500", "--out"], &whole);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let file = whole.to_str().unwrap();
    let none = sim(
        &["trace", "export", file, "--sessions", "26", "--out"],
        &out,
    );
    assert!(!none.status.success() && text(&none.stderr).contains("no session"));

    let taken = sim(&["trace", "export", file, "--sessions", "7", "--out"], &out);

    assert!(taken.status.success(), "{}", text(&taken.stderr));
    let network = fs::read_to_string(out.join("network.json")).unwrap();
    let network: serde_json::Value = serde_json::from_str(&network).unwrap();
    assert_eq!(network["nodes"][1], "receiver-7");
    assert_eq!(network["links"].as_array().unwrap().len(), 21);
    assert_eq!(
        network["sessions"][0]["relays"],
        serde_json::json!([2, 3, 4, 5])
    );
    let last = fs::read_to_string(out.join("link-20.csv")).unwrap();
    assert_eq!(last.lines().count(), 1 + 1_500);
    assert!(last.lines().nth(1_500).unwrap().starts_with("14.99,"));
    let checked = sim(&["trace", "check"], &out.join("trace"));
    assert!(text(&checked.stdout).contains("6 nodes, 21 links, 1 sessions, 1500 moments"));
}
