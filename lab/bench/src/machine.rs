//! The machine's facts, which stand beside every figure.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// Where, when and by which command something was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// The processor's name.
    pub(crate) cpu: String,
    /// Processors this process may use.
    pub(crate) cores: usize,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// Memory in MiB.
    pub(crate) memory_mib: u64,
    /// Largest socket receive buffer in bytes.
    pub(crate) rmem_max: u64,
    /// Largest socket send buffer in bytes.
    pub(crate) wmem_max: u64,
    /// Load averages when the run began: what else the machine did.
    pub(crate) load_average: String,
    /// UTC, to the second.
    pub(crate) date: String,
    /// The source's commit, with `+` if files differ from it; empty outside a repository.
    pub(crate) commit: String,
    /// The command line.
    pub(crate) command: String,
}

impl Machine {
    /// The facts of this machine now.
    pub(crate) fn here() -> Self {
        Self {
            cpu: field("/proc/cpuinfo", "model name"),
            cores: cores(),
            kernel: text("/proc/sys/kernel/osrelease"),
            memory_mib: number(&field("/proc/meminfo", "MemTotal")) / 1024,
            rmem_max: number(&text("/proc/sys/net/core/rmem_max")),
            wmem_max: number(&text("/proc/sys/net/core/wmem_max")),
            load_average: text("/proc/loadavg")
                .split(' ')
                .take(3)
                .collect::<Vec<_>>()
                .join(" "),
            date: utc(SystemTime::now()),
            commit: commit(),
            command: command(),
        }
    }

    /// Names and facts as a person reads them.
    pub(crate) fn facts(&self) -> [(&'static str, String); 9] {
        [
            ("date", self.date.clone()),
            ("commit", self.commit.clone()),
            ("command", format!("`{}`", self.command)),
            ("processor", format!("{} ({} cores)", self.cpu, self.cores)),
            ("kernel", self.kernel.clone()),
            ("memory", format!("{} MiB", self.memory_mib)),
            ("net.core.rmem_max", self.rmem_max.to_string()),
            ("net.core.wmem_max", self.wmem_max.to_string()),
            ("load average before", self.load_average.clone()),
        ]
    }
}

/// Processors this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn text(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn field(path: &str, name: &str) -> String {
    let text = text(path);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_once(':'));
    line.map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

fn number(text: &str) -> u64 {
    text.split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or_default()
}

fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return String::new();
    };
    let changed = git(&["status", "--porcelain"]).is_some_and(|files| !files.is_empty());
    if changed { commit + "+" } else { commit }
}

/// The command as the user typed it: the program's name without its folder.
fn command() -> String {
    let arguments = std::env::args().skip(1);
    std::iter::once("sangam bench".to_owned())
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

/// `2025-05-17T09:30:00Z`.
fn utc(moment: SystemTime) -> String {
    let seconds = moment
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a day since 1970, by counting eras of 400 years from 1 March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_the_calendar_s() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59Z");
    }

    #[test]
    fn this_machine_has_facts() {
        let machine = Machine::here();
        assert!(machine.cores >= 1);
        assert!(machine.memory_mib > 0);
        assert!(!machine.kernel.is_empty());
    }
}
