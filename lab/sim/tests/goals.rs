//! A network of brokers reaches its goals, and the program says so.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use std::process::Command;

/// Virtual time: the figures are the same on every machine.
#[test]
fn forty_brokers_converge_within_two_seconds_for_less_than_a_hundredth_of_a_link() {
    let arguments = "brokers --brokers 40 --sessions 60 --gap-seeds 0 --json";
    let mut command = Command::new(env!("CARGO_BIN_EXE_sangam-sim"));
    let output = command.args(arguments.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let goals = figures["goals"].as_array().unwrap();
    assert_eq!(goals.len(), 3, "{goals:?}");
    for goal in goals {
        assert_eq!(goal["reached"], true, "{goal}");
        assert!(goal["value"].as_f64().unwrap() > 0.0, "measured: {goal}");
    }
    assert!(goals[1]["worst_second"].as_f64().unwrap() > 0.0);
}
