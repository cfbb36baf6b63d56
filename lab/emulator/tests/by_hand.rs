//! The program for people.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use sangam_emulator::with_privileges;

#[test]
fn lines_set_paths_and_ask_for_counters() {
    with_privileges("lines_set_paths_and_ask_for_counters", || {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sangam-emulator"))
            .args(["near", "far"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut input = child.stdin.take().expect("piped");
        let lines = "near far delay=5ms,loss=1%\nnear > far cut\nnear far\nnear mars cut\n";
        input.write_all(lines.as_bytes()).expect("it reads");
        drop(input);
        let said: Vec<String> = BufReader::new(child.stdout.take().expect("piped"))
            .lines()
            .map_while(Result::ok)
            .collect();
        let output = child.wait_with_output().expect("it ends");
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{complaints}");
        assert!(said[0].starts_with("near: 10.16.0.1 "), "{said:?}");
        assert!(said[1].contains("nsenter --net=/proc/"), "{said:?}");
        assert_eq!(said[2..], ["ok", "ok", "packets 0 arrived 0"]);
        assert!(complaints.contains("mars"), "{complaints}");
    });
}
