//! Members of a meeting on the command line, and brokers that ask for tokens.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::common::{self, Broker, Running, run, sangam, text};

/// Who may do everything at a broker of [`guarded`].
pub(crate) const OPERATOR: [&str; 2] = ["--api-token", "0123456789abcdef"];

/// `sangam session` at a broker; its JSON.
#[track_caller]
pub(crate) fn session(broker: &Broker, args: &[&str]) -> Value {
    common::session(broker, args).unwrap_or_else(|wrong| panic!("{args:?}: {wrong}"))
}

fn invite(broker: &Broker, identity: &str, role: &str) -> String {
    let args = [
        "invite",
        "acme/weekly",
        "--identity",
        identity,
        "--role",
        role,
    ];
    session(broker, &args)["token"].as_str().unwrap().to_owned()
}

/// A member on the command line.
pub(crate) struct Member(pub(crate) Running);

impl Member {
    pub(crate) fn start(broker: &Broker, token: &str) -> Self {
        let server = format!("http://{}", broker.http);
        let args = ["session", "--server", &server, "join", "acme/weekly"];
        let mut command = sangam(&args);
        command.env("SANGAM_TOKEN", token).stdin(Stdio::piped());
        Self(Running::start(command))
    }

    pub(crate) fn joined(broker: &Broker, identity: &str, role: &str) -> Self {
        let mut member = Self::start(broker, &invite(broker, identity, role));
        member.wait("state");
        member
    }

    /// The next frame of this type.
    #[track_caller]
    pub(crate) fn wait(&mut self, kind: &str) -> Value {
        self.until(|frame| frame["type"] == kind)
    }

    #[track_caller]
    pub(crate) fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.0.json_line();
            if wanted(&frame) {
                return frame;
            }
        }
    }

    fn say(&mut self, command: &Value) {
        let stdin = self.0.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{command}").unwrap();
    }

    /// Asks, and waits until it is done.
    #[track_caller]
    pub(crate) fn ask(&mut self, mut command: Value) {
        command["id"] = json!(7);
        self.say(&command);
        let answer = self.until(|frame| frame["id"] == 7);
        assert_eq!(answer["type"], "done", "{command}: {answer}");
    }
}

/// What a broker has turned away for want of a floor.
pub(crate) fn closed(broker: &Broker) -> u64 {
    let (_, metrics) = broker.get("/metrics");
    let lines = metrics
        .lines()
        .filter(|line| line.contains("reason=\"gate_closed\""));
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    counts.sum()
}

/// A folder with keys, and a configuration that asks for tokens.
pub(crate) fn guarded(folder: &Path) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    let made = run(&["token", "key", "--out", &at("tokens")]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let config = format!(
        "[auth]\nrequired = true\nkeys = [\"{}\"]\nleeway_s = 0\n\
         [api]\ntoken = \"{}\"\n\
         [sessions]\nenabled = true\nkey = \"{}\"\n\
         [broker]\ndata_dir = \"{}\"\n",
        at("tokens.pub"),
        OPERATOR[1],
        at("tokens.key"),
        at("data")
    );
    fs::write(folder.join("sangam.toml"), config).unwrap();
    at("sangam.toml")
}
