//! A broker whose clients need tokens, from making a key to being refused.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::fs;
use std::path::Path;

use common::{Broker, Running, run, sangam, text};
use serde_json::{Value, json};
use tempfile::TempDir;

const JSON: &str = "Content-Type: application/json";

/// A broker that asks for tokens, and the folder with their key.
struct Stage {
    folder: TempDir,
    broker: Broker,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        make_key(folder.path(), "tokens");
        // Without leeway, so that no test waits a minute.
        let config = format!(
            "[auth]\nrequired = true\nkeys = [\"{}\"]\nleeway_s = 0\n",
            at(folder.path(), "tokens.pub")
        );
        let path = folder.path().join("sangam.toml");
        fs::write(&path, config).unwrap();
        let broker = Broker::start(&["--config", &path.display().to_string()]);
        Self { folder, broker }
    }

    fn at(&self, name: &str) -> String {
        at(self.folder.path(), name)
    }

    /// A token of the broker's key.
    fn token(&self, options: &str) -> String {
        issue(&self.at("tokens.key"), options)
    }

    /// `sangam play` with more options.
    fn play(&self, topic: &str, more: &[&str]) -> Vec<String> {
        let from = self.broker.udp.to_string();
        let mut args = vec!["play", "--json", "--from", &from, "--topic", topic];
        args.extend(more);
        args.into_iter().map(str::to_owned).collect()
    }

    #[track_caller]
    fn is_kept_out(&self, topic: &str, more: &[&str], word: &str) {
        let args = self.play(topic, more);
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let output = run(&args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{said}");
        assert!(said.contains(word), "{said}");
    }

    #[track_caller]
    fn comes_in(&self, topic: &str, token: &str) {
        let mut command = self.player(topic, &["--seconds", "1"]);
        let output = command.env("SANGAM_TOKEN", token).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    fn player(&self, topic: &str, more: &[&str]) -> std::process::Command {
        let args = self.play(topic, more);
        sangam(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

fn at(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

fn make_key(folder: &Path, name: &str) {
    let output = run(&["token", "key", "--out", &at(folder, name)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("next:"));
}

fn issue(key: &str, options: &str) -> String {
    let mut args = vec!["token", "issue", "--key", key, "--sub", "anna"];
    args.extend(options.split(' '));
    let output = run(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

#[test]
fn a_broker_that_nobody_could_use_does_not_start_unless_told_to_be_open() {
    let args = "serve --json --log error --listen 127.0.0.1:0 --http 127.0.0.1:0";
    let args: Vec<_> = args.split(' ').collect();
    let output = run(&args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    for word in ["auth.keys", "sangam token key", "--no-auth"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let mut open = args.clone();
    open.push("--no-auth");
    assert_eq!(Running::start(sangam(&open)).json_line()["event"], "ready");
    let mut by_variable = sangam(&args);
    by_variable.env("SANGAM_AUTH_REQUIRED", "false");
    assert_eq!(Running::start(by_variable).json_line()["event"], "ready");
}

#[test]
fn without_a_good_token_nobody_plays_or_publishes() {
    let stage = Stage::new();
    stage.is_kept_out("acme/#", &[], "--token-file");
    let rtp = "--topic acme/a --rtp 127.0.0.1:0 --media opus";
    let to = stage.broker.udp.to_string();
    let mut publish = vec!["publish", "--to", &to];
    publish.extend(rtp.split(' '));
    assert_eq!(run(&publish).status.code(), Some(5));

    make_key(stage.folder.path(), "others");
    let strange = issue(&stage.at("others.key"), "--subscribe acme/#");
    stage.is_kept_out("acme/#", &["--token", &strange], "the token is wrong");
    let good = stage.token("--subscribe acme/#");
    let (head, signature) = good.rsplit_once('.').unwrap();
    let flipped: String = signature.chars().rev().collect();
    let forged = format!("{head}.{flipped}");
    stage.is_kept_out("acme/#", &["--token", &forged], "the token is wrong");
    stage.comes_in("acme/#", &good);
}

#[test]
fn a_token_lets_in_as_far_as_it_grants() {
    let stage = Stage::new();
    let token = stage.token("--subscribe acme/weekly/+ --publish acme/weekly/anna");
    stage.comes_in("acme/weekly/+", &token);
    stage.comes_in("acme/weekly/anna", &token);
    for topic in [
        "acme/weekly/#",
        "acme/+/anna",
        "acme/daily/x",
        "other/weekly/anna",
        "#",
    ] {
        stage.is_kept_out(topic, &["--token", &token], "sangam token show");
    }
}

#[test]
fn an_expired_token_is_told_so_before_and_while_playing() {
    let stage = Stage::new();
    let token = stage.token("--subscribe acme/# --expires 3s");
    stage.is_kept_out("acme/#", &["--token", &token, "--seconds", "60"], "expired");
    stage.is_kept_out("acme/#", &["--token", &token], "expired");
    let later = stage.token("--subscribe acme/# --not-before 1h");
    stage.is_kept_out("acme/#", &["--token", &later], "the token is wrong");
}

#[test]
fn a_token_file_that_is_renewed_in_time_goes_on() {
    let stage = Stage::new();
    let path = stage.at("token");
    fs::write(&path, stage.token("--subscribe acme/# --expires 4s")).unwrap();
    let more = ["--token-file", &path, "--seconds", "7"];
    let mut player = Running::start(stage.player("acme/#", &more));
    assert_eq!(player.json_line()["event"], "second");
    fs::write(&path, stage.token("--subscribe acme/#")).unwrap();
    let (code, said) = player.end();
    assert_eq!(code, 0, "{said}");
}

#[test]
fn legs_by_api_need_a_token_that_grants_them() {
    let stage = Stage::new();
    let leg = |topic: &str| {
        json!({ "name": "a", "topic": topic, "send": "127.0.0.1:9000", "rtcp": "mux" }).to_string()
    };
    let post = |token: Option<&str>, topic: &str| {
        let header = token.map(|token| format!("Authorization: Bearer {token}"));
        let mut headers = vec![JSON];
        headers.extend(header.as_deref());
        stage
            .broker
            .request("POST", "/v1/legs", &headers, &leg(topic))
    };
    assert_eq!(post(None, "acme/#").0, 401, "not even from this machine");
    let plain = stage.token("--subscribe acme/#");
    let (status, body) = post(Some(&plain), "acme/#");
    assert_eq!(status, 403, "{body}");
    assert!(body.contains("--api"), "{body}");
    let token = stage.token("--subscribe acme/# --api");
    assert_eq!(post(Some(&token), "other/#").0, 403);
    assert_eq!(post(Some(&token), "acme/#").0, 201);
    assert_eq!(post(Some("nonsense"), "acme/#").0, 401);
    let remove = |token: &str| {
        let header = format!("Authorization: Bearer {token}");
        stage
            .broker
            .request("DELETE", "/v1/legs/a", &[&header], "")
            .0
    };
    assert_eq!(remove(&stage.token("--subscribe other/# --api")), 403);
    assert_eq!(remove(&token), 204);
}

#[test]
fn keys_are_for_their_owner_and_never_lost_by_mistake() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    make_key(folder.path(), "tokens");
    let key = folder.path().join("tokens.key");
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let before = fs::read(&key).unwrap();
    let again = run(&["token", "key", "--out", &at(folder.path(), "tokens")]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("--force"));
    assert_eq!(fs::read(&key).unwrap(), before);
}

#[test]
fn a_token_says_in_plain_words_what_it_grants() {
    let folder = tempfile::tempdir().unwrap();
    let out = at(folder.path(), "t");
    assert!(
        run(&["token", "key", "--shared", "--out", &out])
            .status
            .success()
    );
    let key = at(folder.path(), "t.secret");
    let token = issue(&key, "--subscribe acme/weekly/# --publish acme/weekly/anna");
    let output = run(&["token", "show", &token, "--key", &key]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    for word in ["anna", "tenant     acme", "acme/weekly/#", "until", "good"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let output = run(&["--json", "token", "show", &token]);
    let said: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(
        (&said["claims"]["tenant"], &said["verified"]),
        (&json!("acme"), &Value::Null)
    );

    let other = at(folder.path(), "other");
    assert!(run(&["token", "key", "--out", &other]).status.success());
    let key = at(folder.path(), "other.pub");
    assert_eq!(
        run(&["token", "show", &token, "--key", &key]).status.code(),
        Some(5)
    );
    assert_eq!(run(&["token", "show", "nonsense"]).status.code(), Some(1));
}

#[test]
fn a_token_that_would_grant_nothing_or_too_much_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    make_key(folder.path(), "t");
    let key = at(folder.path(), "t.key");
    for (options, word) in [
        (vec![], "grant nothing"),
        (vec!["--subscribe", "#"], "tenant"),
        (
            vec!["--subscribe", "acme/#", "--publish", "other/x"],
            "tenant",
        ),
        (vec!["--subscribe", "acme/#", "--expires", "soon"], "8h"),
    ] {
        let mut args = vec!["token", "issue", "--key", &key, "--sub", "a"];
        args.extend(&options);
        let output = run(&args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
        assert!(said.contains(word), "{said}");
    }
}
