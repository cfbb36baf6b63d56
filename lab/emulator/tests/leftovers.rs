//! What is left when an emulator ends, in whatever way.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sangam_emulator::Emulator;

const PATIENCE: Duration = Duration::from_secs(20);
/// Set in the process that is to be killed.
const VICTIM: &str = "SANGAM_EMULATOR_VICTIM";

fn make() -> (Emulator, Vec<u64>) {
    let network = Emulator::new(&["here", "there"], 1).unwrap_or_else(|error| panic!("{error}"));
    let sites = network.sites().iter();
    let numbers = sites.map(|site| fs::metadata(site.path()).expect("it is open").ino());
    let numbers = numbers.collect();
    (network, numbers)
}

/// Whether any process has a descriptor of a network namespace, or a thread in it.
fn in_use(number: u64) -> bool {
    let entries = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    let processes = entries("/proc".into()).map(|entry| entry.path());
    let mut held = processes.flat_map(|process| {
        let descriptors = entries(process.join("fd")).map(|entry| entry.path());
        let threads = entries(process.join("task")).map(|entry| entry.path().join("ns/net"));
        descriptors.chain(threads).collect::<Vec<_>>()
    });
    held.any(|path| fs::metadata(path).is_ok_and(|held| held.ino() == number))
}

/// The kernel gives a free number away again, so that another program may have it for a while.
fn wait_until_free(numbers: &[u64]) {
    let begun = Instant::now();
    while numbers.iter().any(|number| in_use(*number)) {
        assert!(begun.elapsed() < PATIENCE, "{numbers:?} are still there");
    }
}

#[test]
fn namespaces_end_with_their_emulator_even_if_it_is_killed() {
    if std::env::var_os(VICTIM).is_some() {
        let (_network, numbers) = make();
        println!("numbers {} {}", numbers[0], numbers[1]);
        // Until it is killed.
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let own = std::env::current_exe().expect("a test knows its program");
    let name = "namespaces_end_with_their_emulator_even_if_it_is_killed";
    let mut command = if rustix::process::geteuid().is_root() {
        let (network, numbers) = make();
        assert!(numbers.iter().all(|number| in_use(*number)));
        drop(network);
        wait_until_free(&numbers);
        Command::new(own)
    } else {
        let mut lent = Command::new("unshare");
        lent.args(["--user", "--map-root-user"]).arg(own);
        lent
    };
    command
        .args(["--exact", name, "--nocapture"])
        .env(VICTIM, "1");
    let mut victim = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let output = BufReader::new(victim.stdout.take().expect("it is piped"));
    let line = output
        .lines()
        .map_while(Result::ok)
        .find(|line| line.contains("numbers "));
    let line = line.expect("the victim makes a network");
    let numbers = line.split(' ').filter_map(|word| word.parse::<u64>().ok());
    let numbers: Vec<u64> = numbers.collect();
    assert_eq!(numbers.len(), 2, "{line}");
    victim.kill().expect("it runs");
    victim.wait().expect("it ends");
    wait_until_free(&numbers);
}
