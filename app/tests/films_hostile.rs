//! Films that are cut short, blocks that are, and players that do not read, next to others whose
//! films go on.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/rtsp.rs"]
mod rtsp;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Running, ends_well, run, sangam, text};
use rtsp::{Client, DATAGRAM, Packet, in_order};
use sangam_archive::films::Films;
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams in a block.
const BLOCK: u64 = 796;

/// An archive in a folder, on one disk, and a film that is not in it.
struct Stage {
    folder: TempDir,
    file: PathBuf,
    film: Vec<u8>,
}

impl Stage {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("film.ts");
        let made = Command::new("ffmpeg")
            .args("-nostdin -y -v error -f lavfi -i testsrc2=size=640x360:rate=25".split(' '))
            .args("-t 6 -c:v libx264 -preset ultrafast -g 25 -b:v 6M".split(' '))
            .arg(&file)
            .output();
        ends_well(&made.unwrap());
        Self {
            film: fs::read(&file).unwrap(),
            folder,
            file,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let place = self.path("archive").display().to_string();
        sangam(&[&["archive", "--json", "--archive", &place], args].concat())
    }

    fn add(&self, file: &Path, name: &str) -> Output {
        let add = ["add", file.to_str().unwrap(), "--name", name];
        self.command(&add).output().unwrap()
    }

    /// Names of all films.
    fn names(&self) -> Vec<String> {
        let listed = self.command(&["list"]).output().unwrap();
        ends_well(&listed);
        let listed = text(&listed.stdout);
        let lines = listed.lines();
        let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .map(|line| line["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The files of a film's blocks, by their numbers.
    fn pieces(&self, name: &str) -> BTreeMap<u64, PathBuf> {
        let listed = run(&[
            "archive",
            "list",
            "--json",
            "--archive",
            self.path("archive").to_str().unwrap(),
        ]);
        let listed = text(&listed.stdout);
        let mut lines = listed
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let film = lines.find(|line| line["name"] == name).unwrap();
        let folder = self
            .path("archive/blocks")
            .join(film["film"].as_str().unwrap());
        let files = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let numbered = files.map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let stripe = name.split('-').next().unwrap();
            (u64::from_str_radix(stripe, 16).unwrap(), path)
        });
        numbered.collect()
    }

    fn serve(&self, more: &[&str]) -> (Running, SocketAddr) {
        let serve = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--no-admission",
            "--scrub-rate",
            "0",
        ];
        let mut server = Running::start(self.command(&[&serve[..], more].concat()));
        let ready = server.json_line();
        (server, ready["rtsp"][0].as_str().unwrap().parse().unwrap())
    }
}

/// A client that has begun to play, and which numbers its packets have.
fn playing(address: SocketAddr, film: &str) -> (Client, (u64, u16)) {
    let mut client = Client::connect(address, film);
    assert_eq!(client.set_up(false).status, 200);
    let played = client.ask("PLAY", ("/", ""), "");
    assert_eq!(played.status, 200, "{}", played.text);
    let first = played.number("Sangam-Play", "datagram");
    let sequence = played.number("Sangam-Play", "gsn") as u16;
    (client, (first, sequence))
}

/// Whether these are datagrams of a film.
#[track_caller]
fn is_film(film: &[u8], found: &BTreeMap<u64, &Packet>) {
    for (number, packet) in found {
        let data = film.chunks(DATAGRAM).nth(*number as usize).unwrap();
        assert!(packet.data == data, "datagram {number}");
    }
}

#[test]
fn films_that_are_cut_short_are_taken_as_far_as_they_go_or_refused_with_a_reason() {
    let stage = Stage::new();
    // In the middle of a packet: what is whole of it is a film.
    let cut = stage.path("cut.ts");
    fs::write(&cut, &stage.film[..stage.film.len() / 2 / 188 * 188 + 100]).unwrap();
    let added = stage.add(&cut, "cut");
    ends_well(&added);
    let added: Value = serde_json::from_slice(&added.stdout).unwrap();
    assert_eq!(added["bytes"], stage.film.len() as u64 / 2 / 188 * 188);
    // Before its clock has come twice there is nothing to play it by.
    let begin = stage.path("begin.ts");
    fs::write(&begin, &stage.film[..188 * 3]).unwrap();
    // What FFmpeg cannot open any more.
    let whole = stage.path("whole.mp4");
    let mut command = Command::new("ffmpeg");
    command.args("-nostdin -y -v error -i".split(' '));
    command.arg(&stage.file).args(["-c", "copy"]).arg(&whole);
    let copied = command.output().unwrap();
    ends_well(&copied);
    let short = stage.path("short.mp4");
    let bytes = fs::read(&whole).unwrap();
    fs::write(&short, &bytes[..bytes.len() / 2]).unwrap();
    let none = stage.path("none.ts");
    fs::write(&none, []).unwrap();
    for (file, reason) in [(&begin, "clock"), (&short, "moov"), (&none, "none.ts")] {
        let refused = stage.add(file, "refused");
        let said = text(&refused.stderr);
        assert!(!refused.status.success(), "{}", file.display());
        assert!(said.contains(reason), "{}: {said}", file.display());
    }
    // It became shorter while it was read.
    let films = Films::new(&stage.path("archive"), 4);
    let shrunk = &stage.film[..stage.film.len() / 2];
    let refused = films.add(("shrunk", None), (shrunk, stage.film.len() as u64), |_| {});
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("cannot be read"), "{said}");
    assert_eq!(stage.names(), ["cut"]);
    // Blocks of what was refused are gone.
    let folders = fs::read_dir(stage.path("archive/blocks")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path());
    let blocks = folders.filter(|folder| folder.is_dir());
    let blocks = blocks.flat_map(|folder| fs::read_dir(folder).unwrap());
    assert_eq!(blocks.count(), stage.pieces("cut").len());
}

#[test]
fn a_block_that_is_cut_short_is_left_out_and_other_films_are_whole() {
    let stage = Stage::new();
    for name in ["cut", "whole"] {
        ends_well(&stage.add(&stage.file, name));
    }
    let pieces = stage.pieces("cut");
    let (number, piece) = pieces.iter().nth(2).unwrap();
    let bytes = fs::read(piece).unwrap();
    fs::write(piece, &bytes[..bytes.len() / 2]).unwrap();

    let (mut server, address) = stage.serve(&[]);
    let (whole, [cut, other]) = std::thread::scope(|scope| {
        let players = ["cut", "whole"].map(|name| {
            scope.spawn(move || {
                let (client, numbers) = playing(address, name);
                (client.receive_all(|_| {}), numbers)
            })
        });
        // And one within the connection, which is told and ends.
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args("-nostdin -v quiet -rtsp_transport tcp -i".split(' '));
        ffmpeg.arg(format!("rtsp://{address}/archive/cut"));
        let ended = ffmpeg
            .args("-c copy -f null -".split(' '))
            .output()
            .unwrap();
        (ended, players.map(|player| player.join().unwrap()))
    });
    assert!(whole.status.code().is_some());
    let all = stage.film.len().div_ceil(DATAGRAM) as u64;
    let (found, _) = in_order(&other.0, other.1);
    is_film(&stage.film, &found);
    assert!(
        found.len() as u64 > all * 99 / 100,
        "{} of {all}",
        found.len()
    );
    let (found, _) = in_order(&cut.0, cut.1);
    is_film(&stage.film, &found);
    let lost = number * BLOCK..(number + 1) * BLOCK;
    assert!(!found.keys().any(|number| lost.contains(number)));
    assert!(found.keys().any(|number| *number >= lost.end));
    let counts = server.counts("film_failed", 1);
    assert!(counts["failed"].as_u64() >= Some(1), "{counts}");
    // Whoever has no copy is told what is lost.
    let scrubbed = stage.command(&["scrub"]).output().unwrap();
    let said = text(&scrubbed.stderr);
    assert!(!scrubbed.status.success() && said.contains("cut"), "{said}");
}

#[test]
fn players_that_never_read_are_closed_and_the_films_of_others_are_whole() {
    let stage = Stage::new();
    ends_well(&stage.add(&stage.file, "film"));
    // More than the kernel keeps for a connection.
    let long = stage.path("long.ts");
    let mut file = File::create(&long).unwrap();
    for _ in 0..12 {
        file.write_all(&stage.film).unwrap();
    }
    ends_well(&stage.add(&long, "long"));
    let (mut server, address) = stage.serve(&[]);
    let deaf: Vec<_> = (0..4).map(|_| deaf(address, "long")).collect();
    // Others want it where nobody listens.
    let mut gone: Vec<_> = (0..4).map(|_| playing(address, "long").0).collect();
    for client in &mut gone {
        let nobody = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        (client.rtp, client.rtcp) = (nobody(), nobody());
    }
    let (client, numbers) = playing(address, "film");
    let packets = client.receive_all(|_| {});
    let (found, _) = in_order(&packets, numbers);
    is_film(&stage.film, &found);
    let all = stage.film.len().div_ceil(DATAGRAM);
    assert!(found.len() > all * 99 / 100, "{} of {all}", found.len());
    let counts = server.counts("connections_unread", deaf.len() as u64);
    assert!(
        counts["stalled"].as_u64() >= Some(deaf.len() as u64),
        "{counts}"
    );
}

/// Asks for numbers again as fast as it can until it is told to end.
fn ask_in_vain(client: &Client, is_over: &AtomicBool) {
    let (to, source) = client.nodes[&0];
    // RFC 4585 section 6.2.1: as many as a datagram has room for, seventeen numbers each.
    let mut nack = vec![0x81, 205];
    nack.extend(302_u16.to_be_bytes());
    nack.extend(9_u32.to_be_bytes());
    nack.extend(source.to_be_bytes());
    (0..300_u16).for_each(|place| {
        nack.extend((17 * place).to_be_bytes());
        nack.extend([0xff; 2]);
    });
    let begin = Instant::now();
    while !is_over.load(Ordering::Relaxed) && begin.elapsed() < PATIENCE {
        // Where the kernel has no room it is lost, as it may be.
        let _ = client.rtcp.send_to(&nack, to);
    }
}

#[test]
fn a_client_that_asks_for_all_again_and_again_delays_nobody() {
    let stage = Stage::new();
    ends_well(&stage.add(&stage.file, "film"));
    let (mut server, address) = stage.serve(&[]);
    let mut hostile = Client::connect(address, "film");
    assert_eq!(hostile.set_up(true).status, 200);
    assert_eq!(hostile.ask("PLAY", ("/", ""), "").status, 200);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| ask_in_vain(&hostile, &is_over));
        let (client, numbers) = playing(address, "film");
        let packets = client.receive_all(|_| {});
        is_over.store(true, Ordering::Relaxed);
        let (found, _) = in_order(&packets, numbers);
        is_film(&stage.film, &found);
        let all = stage.film.len().div_ceil(DATAGRAM);
        assert!(found.len() > all * 99 / 100, "{} of {all}", found.len());
    });
    server.counts("film_refused", 10_000);
}

/// A client that plays within its connection, and never reads.
fn deaf(address: SocketAddr, film: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let url = format!("rtsp://{address}/archive/{film}");
    // Both in one pipeline (RFC 7826 section 18.33): the answers are not read either.
    let text = format!(
        "SETUP {url}/trackID=0 RTSP/2.0\r\nCSeq: 1\r\nPipelined-Requests: 1\r\n\
         Accept-Ranges: npt\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n\r\n\
         PLAY {url}/ RTSP/2.0\r\nCSeq: 2\r\nPipelined-Requests: 1\r\nSpeed: 4\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

#[test]
fn a_server_writes_every_two_seconds_how_it_fares() {
    let stage = Stage::new();
    ends_well(&stage.add(&stage.file, "film"));
    let file = stage.path("statistics");
    let (server, address) = stage.serve(&["--statistics", file.to_str().unwrap()]);
    let (client, _) = playing(address, "film");
    let packets = client.receive_all(|_| {});
    let begin = Instant::now();
    let lines = loop {
        let said = fs::read_to_string(&file).unwrap();
        // The last line may be on its way.
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines: Vec<Value> = whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let is_over = lines.last().is_some_and(|line| line["ended"] == 1);
        if lines.len() >= 3 && is_over {
            break lines;
        }
        assert!(begin.elapsed() < PATIENCE, "{said}");
        std::thread::park_timeout(Duration::from_millis(200));
    };
    let number = |line: &Value, name: &str| line[name].as_f64().unwrap();
    for pair in lines.windows(2) {
        let seconds = (number(&pair[1], "time_ns") - number(&pair[0], "time_ns")) / 1e9;
        // No more often than that; how late a line is depends on the machine.
        assert!(seconds > 1.4, "{seconds}");
        for total in [
            "film_packets",
            "film_bytes",
            "disk_bytes",
            "cpu_user_s",
            "cpu_system_s",
        ] {
            assert!(
                number(&pair[0], total) <= number(&pair[1], total),
                "{total}"
            );
        }
    }
    let last = lines.last().unwrap();
    assert!(number(last, "film_packets") >= packets.len() as f64);
    assert_eq!((&last["plays"], &last["node"]), (&1.into(), &0.into()));
    assert!(
        number(last, "disk_bytes") >= stage.film.len() as f64,
        "{last}"
    );
    assert!(
        lines.iter().any(|line| line["film_streams"] == 1),
        "{lines:?}"
    );
    server.signal("TERM");
    assert_eq!(server.end().0, 0);
}
