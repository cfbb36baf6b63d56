//! The disks of a real archive's films: added, taken away, dead, damaged, and commands that are
//! killed while they write.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/rtsp.rs"]
mod rtsp;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Running, ends_well, run, sangam, text};
use rtsp::Client;
use sangam_archive::films::{Films, Play};
use sangam_model::Random;
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of the head of a packet of RTP.
const RTP_HEAD: usize = 12;

/// An archive with disks and a film.
struct Stage {
    folder: TempDir,
    film: Vec<u8>,
}

impl Stage {
    /// With folders 1, 2 and so on as disks.
    fn new(disks: u32) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("film.ts");
        let made = Command::new("ffmpeg")
            .args("-nostdin -y -v error -f lavfi -i testsrc2=size=640x360:rate=25".split(' '))
            .args("-t 10 -c:v libx264 -preset ultrafast -g 25 -b:v 8M".split(' '))
            .arg(&file)
            .output();
        ends_well(&made.unwrap());
        let film = fs::read(&file).unwrap();
        let stage = Self { folder, film };
        for disk in 1..=disks {
            stage.add_disk(disk);
        }
        stage.archive(&["add", file.to_str().unwrap()]);
        stage
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn disk(&self, disk: u32) -> PathBuf {
        self.folder.path().join(disk.to_string())
    }

    fn add_disk(&self, disk: u32) {
        let place = self.path(&disk.to_string());
        let added = self.archive(&["disk", "add", &place, "--weight", "10"]);
        assert_eq!(added["disk"], disk);
    }

    fn command(&self, args: &[&str]) -> Command {
        let place = self.path("archive");
        sangam(&[&["archive", "--json", "--archive", &place], args].concat())
    }

    /// A command that succeeds: its last line.
    #[track_caller]
    fn archive(&self, args: &[&str]) -> Value {
        let done = self.command(args).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", text(&done.stderr));
        let said = text(&done.stdout);
        said.lines()
            .last()
            .map_or(Value::Null, |line| serde_json::from_str(line).unwrap())
    }

    /// A command that fails: what it says.
    #[track_caller]
    fn refused(&self, args: &[&str]) -> String {
        let done = self.command(args).output().unwrap();
        assert!(!done.status.success(), "{args:?}: {}", text(&done.stdout));
        text(&done.stderr)
    }

    /// Whether the film is played as it was.
    #[track_caller]
    fn is_played(&self) {
        let films = Arc::new(Films::new(&self.folder.path().join("archive"), 4));
        let film = films.find("film").unwrap().unwrap();
        let mut play = Play::new(films, film);
        let mut played = Vec::<u8>::new();
        while let Some(next) = play.pull().unwrap() {
            played.extend(&next.payload[RTP_HEAD..]);
        }
        assert!(played == self.film, "{} bytes", played.len());
    }
}

/// All pieces below a folder.
fn pieces(disk: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(disk)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
    files.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn disks_come_and_go_and_die_and_the_film_stays() {
    let stage = Stage::new(4);
    stage.is_played();
    let status = stage.archive(&["status"]);
    assert_eq!(status["films"][0]["astray"], 0);
    // One dies; its blocks are made of the others.
    fs::remove_dir_all(stage.disk(2)).unwrap();
    stage.is_played();
    let status = stage.archive(&["status"]);
    assert!(status["films"][0]["astray"].as_u64() > Some(0));
    assert_eq!(status["films"][0]["whole"], true);
    // Four are needed for three blocks and a parity.
    let said = stage.refused(&["disk", "remove", "2"]);
    assert!(said.contains("fewer disks"), "{said}");
    stage.add_disk(5);
    stage.archive(&["disk", "remove", "2"]);
    let settled = stage.archive(&["settle"]);
    assert!(settled["rebuilt"].as_u64() > Some(0), "{settled}");
    assert_eq!(settled["gone"], serde_json::json!([2]));
    assert_eq!(settled["complete"], true);
    // As good as new: another may die.
    fs::remove_dir_all(stage.disk(3)).unwrap();
    stage.is_played();
    stage.add_disk(6);
    stage.archive(&["disk", "remove", "3"]);
    stage.archive(&["settle"]);
    // One that is well goes when it is empty.
    stage.add_disk(7);
    stage.archive(&["disk", "remove", &stage.path("1")]);
    let settled = stage.archive(&["settle"]);
    assert_eq!(settled["gone"], serde_json::json!([1]));
    assert_eq!(pieces(&stage.disk(1)), Vec::<PathBuf>::new());
    stage.is_played();
    let status = stage.archive(&["status"]);
    assert_eq!(
        (&status["settled"], &status["astray"]),
        (&true.into(), &0.into())
    );
}

#[test]
fn a_film_that_is_removed_is_gone_and_one_half_removed_goes_with_the_next_scrub() {
    let stage = Stage::new(2);
    let left = || [1, 2].map(|disk| pieces(&stage.disk(disk)).len());
    let said = stage.refused(&["remove", "film"]);
    assert!(said.contains("--yes"), "{said}");
    let said = stage.refused(&["remove", "another", "--yes"]);
    assert!(said.contains("no recording or film"), "{said}");
    stage.is_played();
    // Killed behind the first step: its blocks are all there, and nobody makes a film of them.
    let films = stage.folder.path().join("archive/films");
    let only = || {
        fs::read_dir(&films)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path()
    };
    fs::rename(only(), only().with_extension("gone")).unwrap();
    assert_eq!(stage.archive(&["list"]), Value::Null);
    assert_eq!(stage.archive(&["scrub"])["films"]["removed"], 1);
    assert_eq!((left(), fs::read_dir(&films).unwrap().count()), ([0, 0], 0));
    // What lies on a disk that is away goes when it is back.
    let file = stage.path("film.ts");
    stage.archive(&["add", &file]);
    let away = stage.folder.path().join("away");
    fs::rename(stage.disk(2), &away).unwrap();
    let removed = stage.archive(&["remove", "film", "--yes"]);
    assert_eq!(removed["complete"], false);
    fs::rename(&away, stage.disk(2)).unwrap();
    assert_eq!(stage.archive(&["list"]), Value::Null);
    assert!(left()[0] == 0 && left()[1] > 0, "{:?}", left());
    stage.archive(&["scrub"]);
    assert_eq!((left(), fs::read_dir(&films).unwrap().count()), ([0, 0], 0));
    stage.archive(&["add", &file]);
    assert_eq!(
        stage.archive(&["remove", "film", "--yes"])["complete"],
        true
    );
    assert_eq!(left(), [0, 0]);
}

#[test]
fn moving_that_is_killed_goes_on_and_the_film_is_played_meanwhile() {
    let stage = Stage::new(4);
    let (mut random, mut killed) = (Random::new(7), 0);
    for disk in 5..=7 {
        stage.add_disk(disk);
        stage.archive(&["disk", "remove", &(disk - 4).to_string()]);
        for _ in 0..3 {
            let mover = Running::start(stage.command(&["settle", "--rate", "1"]));
            // Somewhere between two pieces, or within one.
            let begin = Instant::now();
            let wait = Duration::from_millis(50 + random.below(700) as u64);
            while begin.elapsed() < wait {
                stage.is_played();
            }
            mover.signal("KILL");
            killed += usize::from(mover.end().0 != 0);
            stage.is_played();
        }
        assert_eq!(stage.archive(&["settle"])["complete"], true);
        assert_eq!(pieces(&stage.disk(disk - 4)), Vec::<PathBuf>::new());
        stage.is_played();
    }
    // Some may have come to their end before.
    assert!(killed > 3, "{killed}");
    assert_eq!(stage.archive(&["status"])["astray"], 0);
    // What the killed had begun to write is removed.
    stage.archive(&["scrub"]);
    let all = (1..=7).flat_map(|disk| pieces(&stage.disk(disk)));
    let all: Vec<_> = all.filter(|path| path.extension().is_some()).collect();
    assert_eq!(all, Vec::<PathBuf>::new());
}

#[test]
fn damaged_blocks_and_lost_indexes_are_made_again() {
    let stage = Stage::new(4);
    let listed = stage.archive(&["list"]);
    let damaged = pieces(&stage.disk(3));
    for path in &damaged {
        let mut bytes = fs::read(path).unwrap();
        bytes[5_000] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    stage.is_played();
    let scrubbed = stage.archive(&["scrub"]);
    assert_eq!(scrubbed["films"]["rebuilt"], damaged.len());
    assert_eq!(stage.archive(&["scrub"])["films"]["rebuilt"], 0);
    // An index that is damaged in its head, in its body, or gone.
    let index = stage.folder.path().join("archive/films");
    let index = index.join(format!("{}.film", listed["film"].as_str().unwrap()));
    for place in [Some(20), Some(600), None] {
        match place {
            Some(place) => {
                let mut bytes = fs::read(&index).unwrap();
                bytes[place] ^= 1;
                fs::write(&index, bytes).unwrap();
            }
            None => fs::remove_file(&index).unwrap(),
        }
        let scrubbed = stage.archive(&["scrub"]);
        assert_eq!(scrubbed["films"]["learned"], serde_json::json!(["film"]));
        assert_eq!(stage.archive(&["list"]), listed);
        stage.is_played();
    }
}

#[test]
fn a_folder_in_which_nothing_is_mounted_is_no_empty_disk() {
    let stage = Stage::new(4);
    let (disk, elsewhere) = (stage.disk(4), stage.folder.path().join("elsewhere"));
    fs::rename(&disk, &elsewhere).unwrap();
    fs::create_dir(&disk).unwrap();
    stage.is_played();
    let status = stage.archive(&["status"]);
    assert_eq!(status["disks"][3]["away"], "nothing is mounted there");
    let said = stage.refused(&["scrub"]);
    assert!(
        said.contains("away") && said.contains("disk remove"),
        "{said}"
    );
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 0);
    // A disk of another archive is none of this one.
    let other = stage.path("other");
    let taken = run(&[
        "archive",
        "--archive",
        &other,
        "disk",
        "add",
        elsewhere.to_str().unwrap(),
    ]);
    assert!(!taken.status.success());
    fs::remove_dir(&disk).unwrap();
    fs::rename(&elsewhere, &disk).unwrap();
    assert_eq!(stage.archive(&["scrub"])["films"]["complete"], true);
    assert_eq!(stage.archive(&["status"])["astray"], 0);
}

#[test]
fn a_film_whose_adding_is_killed_is_not_there_and_leaves_nothing() {
    let stage = Stage::new(2);
    // Large enough to be killed in time, and its clock begins anew again and again.
    let long = stage.path("long.ts");
    fs::write(&long, stage.film.repeat(12)).unwrap();
    let mut killed = 0;
    for attempt in 0..10 {
        let name = format!("long {attempt}");
        let before = pieces(&stage.disk(1)).len();
        let adding = Running::start(stage.command(&["add", &long, "--name", &name]));
        let until = Instant::now() + PATIENCE;
        while pieces(&stage.disk(1)).len() < before + 3 {
            assert!(Instant::now() < until);
            std::thread::yield_now();
        }
        adding.signal("KILL");
        adding.end();
        let listed = run(&[
            "archive",
            "list",
            "--json",
            "--archive",
            &stage.path("archive"),
        ]);
        killed += usize::from(!text(&listed.stdout).contains(&name));
        if killed == 2 {
            break;
        }
    }
    assert_eq!(killed, 2);
    let scrubbed = stage.archive(&["scrub"]);
    assert_eq!(scrubbed["films"]["cleared"], killed, "{scrubbed}");
    stage.is_played();
    let added = stage.archive(&["add", &long]);
    // Twelve times as long, whatever its clock says.
    let seconds = added["seconds"].as_f64().unwrap();
    assert!((118.0..122.0).contains(&seconds), "{seconds}");
}

#[test]
fn a_server_moves_blocks_while_it_plays() {
    let stage = Stage::new(2);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--move-rate", "4"];
    let mut server = Running::start(stage.command(&serve));
    let ready = server.json_line();
    let url = format!("rtsp://{}/archive/film", ready["rtsp"][0].as_str().unwrap());
    let out = stage.path("played.ts");
    let mut player = Command::new("ffmpeg")
        .args([
            "-nostdin",
            "-y",
            "-v",
            "error",
            "-rtsp_transport",
            "tcp",
            "-i",
            &url,
        ])
        .args(["-c", "copy", "-f", "null", &out])
        .spawn()
        .unwrap();
    stage.add_disk(3);
    stage.archive(&["disk", "remove", "1"]);
    let until = Instant::now() + PATIENCE;
    let is_settled = |status: &Value| status["settled"] == true && status["astray"] == 0;
    while !is_settled(&stage.archive(&["status"])) {
        assert!(Instant::now() < until);
    }
    assert_eq!(pieces(&stage.disk(1)), Vec::<PathBuf>::new());
    assert!(player.wait().unwrap().success());
    server.signal("TERM");
    let (code, said) = server.end();
    let counts: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!((code, &counts["failed"]), (0, &0.into()), "{counts}");
    stage.is_played();
}

#[test]
fn blocks_are_looked_at_in_the_background_and_a_round_goes_on_where_it_was() {
    let stage = Stage::new(4);
    let place = stage.folder.path().join("archive");
    let scrubbed = stage.archive(&["scrub"]);
    let stripes = scrubbed["films"]["stripes"].as_u64().unwrap();
    assert!(stripes >= 2);
    // As if the process ended behind each stripe.
    for number in 0..stripes {
        assert_eq!(Films::new(&place, 4).round().stripe, number);
        let (bytes, all) = Films::new(&place, 4).patrol().unwrap();
        assert!((1..=all).contains(&bytes), "{bytes} of {all}");
    }
    let films = Films::new(&place, 4);
    films.patrol().unwrap();
    assert_eq!((films.round().rounds, films.round().stripe), (1, 0));

    let damaged = pieces(&stage.disk(3));
    for path in &damaged {
        let mut bytes = fs::read(path).unwrap();
        bytes[5_000] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    let serve = ["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let more = ["--scrub-days", "0.00001", "--scrub-rate", "64"];
    let mut server = Running::start(stage.command(&[&serve[..], &more].concat()));
    let http = server.json_line()["http"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let counts = server.counts("scrub_mended", damaged.len() as u64);
    assert_eq!(counts["scrub_lost"], 0);
    let (_, metrics) = common::get(http, "/metrics");
    let mended = format!("sangam_archive_scrub_mended_total {}", damaged.len());
    assert!(metrics.contains(&mended), "{metrics}");
    server.signal("TERM");
    assert_eq!(server.end().0, 0);
    assert_eq!(stage.archive(&["scrub"])["films"]["rebuilt"], 0);
    stage.is_played();
}

#[test]
fn a_disk_that_stays_away_is_let_go_of_and_made_again() {
    let stage = Stage::new(5);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--move-rate", "256"];
    let mut server =
        Running::start(stage.command(&[&serve[..], &["--rebuild-after", "1"]].concat()));
    server.json_line();
    fs::remove_dir_all(stage.disk(2)).unwrap();
    server.counts("disks_given_up", 1);
    let until = Instant::now() + PATIENCE;
    loop {
        let status = stage.archive(&["status"]);
        let disks = status["disks"].as_array().unwrap();
        let is_gone = disks.iter().all(|disk| disk["disk"] != 2);
        if is_gone && status["settled"] == true && status["astray"] == 0 {
            break;
        }
        assert!(Instant::now() < until, "{status}");
    }
    stage.is_played();
    // A second one cannot go: four are needed, and four are there.
    fs::rename(stage.disk(3), stage.path("elsewhere")).unwrap();
    let films = Films::new(&stage.folder.path().join("archive"), 4);
    let refused = films.give_up(&[3]).unwrap_err().to_string();
    assert!(refused.contains("fewer disks"), "{refused}");
    stage.is_played();
}

#[test]
fn a_disk_that_hangs_holds_up_what_lies_there_and_nothing_else() {
    let stage = Stage::new(2);
    // Films of one block each, of which there is one copy.
    let file = stage.path("short.ts");
    fs::write(&file, &stage.film[..188 * 2_000]).unwrap();
    let mut on_disks: [Vec<String>; 2] = Default::default();
    while on_disks.iter().any(Vec::is_empty) {
        let name = format!("short{}", on_disks.concat().len());
        let before = pieces(&stage.disk(1));
        stage.archive(&["add", &file, "--name", &name, "--copies", "1"]);
        let mut new = pieces(&stage.disk(1));
        new.retain(|path| !before.contains(path));
        on_disks[usize::from(new.is_empty())].push(name);
        for path in new {
            // Opening a pipe into which nobody writes does not come back.
            fs::remove_file(&path).unwrap();
            let made = Command::new("mkfifo").arg(&path).status();
            assert!(made.unwrap().success());
        }
    }
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--scrub-rate",
        "0",
        "--no-admission",
    ];
    let mut server = Running::start(stage.command(&serve));
    let address = server.json_line()["rtsp"][0]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let play = |name: &str| {
        let mut client = Client::connect(address, name);
        assert_eq!(client.set_up(false).status, 200);
        assert_eq!(client.ask("PLAY", ("/", ""), "").status, 200);
        client
    };
    // More than there are readers of a disk, and more than there were for all disks once.
    let held_up: Vec<_> = (0..12).map(|_| play(&on_disks[0][0])).collect();
    let begin = Instant::now();
    let client = play(&on_disks[1][0]);
    client.again(|_| true);
    // Half as long as a disk is waited for.
    assert!(begin.elapsed() < Duration::from_secs(15));
    assert!(held_up.iter().all(|client| client.receive().is_none()));
}
