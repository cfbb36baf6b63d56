//! A disk that is full: what has to be written there fails with words that help, everything else
//! goes on.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::fs::File;
use std::process::{Command, Stdio};

use common::{Broker, Running, clip, run, sangam, text};

/// Runs in a mount namespace of its own, with a disk of one page that is full. `$1` is the sangam
/// binary.
const NO_ROOM: &str = r#"
set -eu
mount -t tmpfs -o size=4k tmpfs /mnt
cat /dev/zero > /mnt/ballast 2> /dev/null || true
"$1" serve --dev --listen 127.0.0.1:0 --http 127.0.0.1:0 --data-dir /mnt
"#;

#[test]
fn a_broker_that_cannot_keep_its_identity_says_what_to_do() {
    let output = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
        ])
        .args(["sh", "-c", NO_ROOM, "sh", env!("CARGO_BIN_EXE_sangam")])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    for word in ["/mnt", "No space left", "broker.data_dir"] {
        assert!(said.contains(word), "{said}");
    }
}

/// A broker with a disk of its own that holds a few records; `$1` is the sangam binary.
const LITTLE_ROOM: &str = r#"
set -eu
mount -t tmpfs -o size=8m tmpfs /mnt
exec "$1" serve --dev --json --log error --listen 127.0.0.1:0 --http 127.0.0.1:0 --data-dir /mnt
"#;

#[test]
fn a_durable_broker_whose_disk_is_full_says_which_file_and_serves_everything_else() {
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount"])
        .args(["sh", "-c", LITTLE_ROOM, "sh", env!("CARGO_BIN_EXE_sangam")])
        .env("SANGAM_RELIABLE_DURABLE", "true");
    let mut broker = Broker::of(command);
    let log = broker.process.log();
    // The broker is the process that was started, and its disk is reached by its root.
    let disk = format!("/proc/{}/root/mnt", broker.process.child.id());
    let ballast = format!("{disk}/ballast");
    let mut file = File::create(&ballast).unwrap();
    while std::io::Write::write_all(&mut file, &[0; 4_096]).is_ok() {}
    let (udp, tcp) = (broker.udp.to_string(), format!("tcp://{}", broker.tcp));
    let publish = "publish --reliable --topic full/minutes --to";
    let publish: Vec<_> = publish.split(' ').chain([&*tcp]).collect();
    let mut publisher = sangam(&publish);
    let mut publisher = publisher.stdin(Stdio::piped()).spawn().unwrap();
    let mut minutes = publisher.stdin.take().unwrap();
    // It waits for the disk, and whoever writes for it.
    let writer = std::thread::spawn(move || {
        let line = [vec![b'x'; 999], vec![b'\n']].concat();
        (0..1_000).try_for_each(|_| std::io::Write::write_all(&mut minutes, &line))
    });
    log.says(&["/mnt/reliable.redb", "make room"]);
    // Media goes on, and so does what watches the broker.
    let folder = tempfile::tempdir().unwrap();
    let clip = clip(folder.path()).display().to_string();
    let publish = "publish --loop --topic full/clip --to";
    let publish: Vec<_> = publish.split(' ').chain([&*udp, "--file", &clip]).collect();
    let _media = Running::start(sangam(&publish));
    let play = "play --json --topic full/clip/# --seconds 2 --from";
    let play: Vec<_> = play.split(' ').chain([&*udp]).collect();
    let (code, summary) = Running::start(sangam(&play)).end();
    assert_eq!(code, 0, "{summary}");
    assert_eq!(broker.get("/healthz").0, 200);
    // With room again the records that waited are written, and their publisher is done.
    drop(file);
    std::fs::remove_file(&ballast).unwrap();
    writer.join().unwrap().unwrap();
    assert!(publisher.wait().unwrap().success());
}

/// An archive on a disk that is smaller than the film; `$1` is the sangam binary, `$2` the film.
const LESS_THAN_A_FILM: &str = r#"
mount -t tmpfs -o size=3m tmpfs /mnt
archive() { "$1" archive --json --archive /mnt/archive "${@:3}"; }
archive "$1" "$2" add "$2" && exit 1
archive "$1" "$2" list
archive "$1" "$2" scrub
du -k /mnt/archive/blocks | tail -n 1
"#;

#[test]
fn a_film_for_which_there_is_no_room_is_not_kept_in_part() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.ts");
    let made = Command::new("ffmpeg")
        .args("-nostdin -v error -f lavfi -i testsrc2=size=640x360:rate=25 -t 8".split(' '))
        .args("-c:v libx264 -preset ultrafast -b:v 8M".split(' '))
        .arg(&film)
        .output();
    assert!(made.unwrap().status.success());
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount"])
        .args(["bash", "-c", LESS_THAN_A_FILM, "bash"])
        .arg(env!("CARGO_BIN_EXE_sangam"))
        .arg(&film)
        .output()
        .unwrap();
    let (said, failed) = (text(&output.stdout), text(&output.stderr));
    assert!(failed.contains("No space left"), "{failed}");
    let mut lines = said.lines();
    // The list is empty, and so is the disk.
    let scrub: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(
        scrub["films"]["lost"],
        serde_json::json!([]),
        "{said}{failed}"
    );
    let kib = lines.next().unwrap().split_whitespace().next().unwrap();
    assert!(kib.parse::<u64>().unwrap() < 64, "{said}");
}

#[test]
fn a_broker_whose_log_has_no_room_serves_on() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let args = "serve --dev --json --log trace --listen 127.0.0.1:0 --http 127.0.0.1:0";
    let mut child = sangam(&args.split(' ').collect::<Vec<_>>())
        .stdout(Stdio::piped())
        .stderr(full)
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let ready: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let at = ready["udp"][0].as_str().unwrap().to_owned();
    let output = run(&[
        "play",
        "--json",
        "--from",
        &at,
        "--topic",
        "a/#",
        "--seconds",
        "1",
    ]);
    let ran = child.try_wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ran.is_none(), "it ended: {ran:?}");
    assert!(
        !text(&output.stderr).contains("no answer"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_recording_without_room_ends_with_what_to_do_and_the_broker_goes_on() {
    let broker = Broker::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = clip(folder.path()).display().to_string();
    let at = broker.udp.to_string();
    let publish = "publish --loop --topic full/clip --to";
    let publish: Vec<_> = publish.split(' ').chain([&*at, "--file", &file]).collect();
    let _publisher = Running::start(sangam(&publish));
    // A Matroska file that writes to nowhere.
    let target = folder.path().join("live.mkv");
    std::os::unix::fs::symlink("/dev/full", &target).unwrap();
    let target = target.display().to_string();
    let play = "play --topic full/# --seconds 8 --from";
    let play: Vec<_> = play.split(' ').chain([&*at, "--out", &target]).collect();
    let output = run(&play);
    let said = text(&output.stderr);
    assert_ne!(output.status.code(), Some(0), "{said}");
    for word in [&*target, "No space left"] {
        assert!(said.contains(word), "{said}");
    }
    let play = "play --json --topic full/# --seconds 1 --from";
    let play: Vec<_> = play.split(' ').chain([&*at]).collect();
    assert_eq!(Running::start(sangam(&play)).end().0, 0, "others hear it");
}
