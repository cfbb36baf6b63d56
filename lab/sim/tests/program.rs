//! The program: a short study from nothing to its report.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

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
        "VCRl-WMlw",
        "A receiver takes at most 0.3 us",
        "take less than 30 minutes",
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
    for figure in ["fig8", "fig15-t2", "fig16-t2", "fig4-reordering", "fig14"] {
        let svg = dir.path().join(format!("figures/{figure}.svg"));
        assert!(fs::read_to_string(svg).unwrap().starts_with("<svg"));
    }

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
fn a_report_of_a_part_says_what_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let run = ["run", "fig12-13", "--families", "t5", "--seeds", "1"];
    let run = [&run[..], &["--packets", "500", "--out"]].concat();
    let done = sim(&run, dir.path());
    assert!(done.status.success(), "{}", text(&done.stderr));
    fs::remove_file(dir.path().join("units/study/t5/3-1.unit")).unwrap();

    let report = sim(&["report", "--json"], dir.path());
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();

    let lacking = report["lacking"].as_array().unwrap();
    let found = |what: &str| {
        let mut all = lacking.iter().filter(|one| one["what"] == what);
        all.next().unwrap()["found"].as_str().unwrap().to_owned()
    };
    assert_eq!(lacking.len(), 2, "{lacking:?}");
    assert!(found("study t5").contains("only 14 of the 15 sessions"));
    assert!(found("study t5-spikes").contains("none of its sessions"));
    let page = fs::read_to_string(dir.path().join("index.html")).unwrap();
    assert!(page.contains("What is not there yet") && page.contains("t5 (14 of 15 sessions)"));
}

#[test]
fn a_run_that_is_killed_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let run = [
        "run",
        "fig12-13",
        "--families",
        "t5",
        "--seeds",
        "1",
        "--jobs",
        "1",
    ];
    let run = [&run[..], &["--packets", "3000", "--out"]].concat();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sangam-sim"));
    let command = command.args(&run).arg(dir.path()).stderr(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let mut words = BufReader::new(child.stderr.take().unwrap()).lines();
    // A tenth of its sessions is done.
    let told = words.find(|line| {
        line.as_ref()
            .is_ok_and(|line| line.contains("/15 sessions"))
    });
    told.unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();

    let report = sim(&["report"], dir.path());
    assert!(report.status.success(), "{}", text(&report.stderr));
    let again = sim(&run, dir.path());

    assert!(again.status.success(), "{}", text(&again.stderr));
    let words = text(&again.stderr);
    assert!(
        words.contains("of 15 sessions are there already"),
        "{words}"
    );
    let units = fs::read_dir(dir.path().join("units/study/t5")).unwrap();
    assert_eq!(units.count(), 15);
}

/// A second of a network as `sangam net watch --json` prints it: two brokers report, the third is
/// told of by them.
fn second(n: u64) -> String {
    let link = |peer: &str, rtt_us: u32| {
        serde_json::json!({"peer": peer, "address": "udp://192.0.2.1:1", "transport": "udp",
            "up": rtt_us > 0, "rtt_us": (rtt_us > 0).then_some(rtt_us)})
    };
    let down = if (10..13).contains(&n) { 0 } else { 40_000 };
    let slow = 10_000 + n as u32 * 100;
    let oslo = [link("0000000b", down), link("0000000c", slow)];
    let lima = [link("0000000a", down), link("0000000c", 30_000)];
    let brokers = [
        serde_json::json!({"broker": "0000000a", "name": "oslo", "age_ms": 100, "links": oslo}),
        serde_json::json!({"broker": "0000000b", "name": "lima", "age_ms": 200, "links": lima}),
    ];
    let at_unix_ms = 1_700_000_000_000 + n * 1_000;
    let network = serde_json::json!({"at_unix_ms": at_unix_ms, "brokers": brokers});
    format!("{network}\n")
}

#[test]
fn what_brokers_report_each_second_becomes_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let lines = dir.path().join("watched");
    fs::write(&lines, (0..30).map(second).collect::<String>()).unwrap();
    let delays = dir.path().join("delays");

    let recorded = sim(
        &["trace", "record", lines.to_str().unwrap(), "--out"],
        &delays,
    );

    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let told = fs::read_to_string(&delays).unwrap();
    assert!(
        told.contains("node oslo\nnode lima\nnode 0000000c\n"),
        "{told}"
    );
    assert!(told.contains("\nsession 0 1 2\n"), "{told}");
    let trace = dir.path().join("trace");
    let arguments = ["trace", "import", delays.to_str().unwrap(), "--out"];
    let imported = sim(&arguments, &trace);
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    let checked = text(&sim(&["trace", "check"], &trace).stdout);
    assert!(
        checked.contains("3 nodes, 6 links, 6 sessions"),
        "{checked}"
    );
    assert!(!checked.contains(" 0 lost"), "a link was down: {checked}");

    let arguments = [
        "trace",
        "record",
        lines.to_str().unwrap(),
        "--session",
        "oslo:rome",
    ];
    let unknown = sim(&[&arguments[..], &["--out"]].concat(), &delays);
    assert!(
        text(&unknown.stderr).contains("`rome`"),
        "{}",
        text(&unknown.stderr)
    );
    fs::write(&lines, "{}\n").unwrap();
    let foreign = sim(
        &["trace", "record", lines.to_str().unwrap(), "--out"],
        &delays,
    );
    assert!(
        text(&foreign.stderr).contains("line 1"),
        "{}",
        text(&foreign.stderr)
    );
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

    // Results stay, and are reported without the trace.
    fs::remove_file(
        out.join("units/replay")
            .read_dir()
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path()
            .join("4.unit"),
    )
    .unwrap();
    let again = sim(&arguments, &out);
    assert!(text(&again.stderr).contains("14 of 15 sessions are there already"));
    let whole = fs::read(&trace).unwrap();
    fs::remove_file(&trace).unwrap();
    let report = sim(&["report", "--json"], &out);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["lacking"], serde_json::json!([]));
    let tables = report["tables"].as_array().unwrap();
    assert!(tables.iter().any(|table| table["name"] == "study-t5-all"));

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
