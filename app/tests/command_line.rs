//! What the command line answers, and with which exit code.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::io::Write;

use common::{run, sangam, text};

fn config_file(content: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file
}

fn validate(content: &str) -> (i32, String) {
    let file = config_file(content);
    let path = file.path().display().to_string();
    let output = run(&["config", "validate", "--config", &path]);
    let said = text(&output.stderr) + &text(&output.stdout);
    (output.status.code().unwrap(), said)
}

#[test]
fn a_wrong_option_is_a_usage_error_with_a_suggestion() {
    let output = run(&["serve", "--lisen", "[::]:4600"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("--listen"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn an_unknown_key_is_a_configuration_error_with_the_nearest_name() {
    let (code, said) = validate("[broker]\nshrads = 2\n");
    assert_eq!(code, 3, "{said}");
    assert!(
        said.contains(":2: unknown key") && said.contains("shards"),
        "{said}"
    );
}

#[test]
fn serve_refuses_a_broken_configuration_before_it_binds_anything() {
    let file = config_file("[listen]\nudp = [\"nowhere\"]\n");
    let output = run(&["serve", "--config", &file.path().display().to_string()]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stderr).contains(":2: "),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_shipped_example_is_valid() {
    let output = run(&["config", "example"]);
    let (code, said) = validate(&text(&output.stdout));
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_shown_configuration_reads_back_and_hides_secrets() {
    let output = sangam(&["config", "show"])
        .env("SANGAM_API_TOKEN", "a-secret-of-sufficient-length")
        .env("SANGAM_LOGIN_CLIENT_SECRET", "a-secret-of-a-client")
        .env("SANGAM_BROKER_SHARDS", "3")
        .output()
        .unwrap();
    let shown = text(&output.stdout);
    assert!(!shown.contains("a-secret"), "{shown}");
    assert!(shown.contains("shards = 3"), "{shown}");
    assert_eq!(validate(&shown).0, 0);
}

#[test]
fn an_unknown_variable_is_refused() {
    let output = sangam(&["config", "validate"])
        .env("SANGAM_LISTEN_UPD", "x")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stderr).contains("SANGAM_LISTEN_UDP"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn errors_are_json_where_json_is_asked_for() {
    let output = run(&["--json", "serve", "--config", "/nowhere.toml"]);
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(error["exit_code"], 3);
    assert!(error["error"].as_str().unwrap().contains("/nowhere.toml"));
}

#[test]
fn a_broker_that_does_not_answer_is_unreachable() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = socket.local_addr().unwrap().to_string();
    let output = run(&[
        "play",
        "--from",
        &to,
        "--topic",
        "a/#",
        "--connect-timeout",
        "1",
    ]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains(&to),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn completions_and_manual_pages_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            text(&run(&["completions", shell]).stdout).contains("sangam"),
            "{shell}"
        );
    }
    assert!(text(&run(&["man"]).stdout).contains(".TH sangam 1"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    assert!(run(&["man", "--out", &path]).status.success());
    assert!(folder.path().join("sangam-serve.1").exists());
}

#[test]
fn a_missing_bench_says_how_to_build_it() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("sangam");
    std::fs::copy(env!("CARGO_BIN_EXE_sangam"), &alone).unwrap();
    let output = std::process::Command::new(&alone)
        .args(["bench", "list"])
        .env("PATH", folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("cargo build"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn doctor_finds_a_wrong_configuration_and_a_taken_port() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = sangam(&["doctor", "--json"])
        .env("SANGAM_LISTEN_HTTP", &address)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let http = checks
        .iter()
        .find(|check| check["name"] == "HTTP port")
        .unwrap();
    assert_eq!(http["state"], "poor");
    let output = sangam(&["doctor"])
        .env("SANGAM_LISTEN_HTTP", "x")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
}
