//! Where and of how much something was run.

use std::fs;
use std::process::Command;

use crate::program::store::Store;

/// Names and facts as a person reads them.
pub(super) fn facts(store: &Store) -> Vec<(String, String)> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find(|line| line.starts_with("model name"));
    let model = model
        .and_then(|line| line.split(':').nth(1))
        .unwrap_or("unknown")
        .trim();
    let names: Vec<&str> = store.experiments().iter().map(|one| one.name).collect();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let facts = [
        ("packets a session", store.packets().to_string()),
        ("seeds", store.seeds().to_string()),
        ("experiments", names.join(", ")),
        ("processor", format!("{model} ({cores} cores)")),
        ("kernel", kernel.trim().to_owned()),
        ("date", output("date", &["-u", "+%Y-%m-%d"])),
        (
            "commit",
            output("git", &["describe", "--always", "--dirty"]),
        ),
    ];
    facts.map(|(name, fact)| (name.to_owned(), fact)).to_vec()
}

/// What a program says; nothing if it cannot.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.ok().filter(|output| output.status.success());
    output.map_or_else(String::new, |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}
