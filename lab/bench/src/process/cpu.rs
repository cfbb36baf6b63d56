//! CPU time of processes.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sangam_io::limit::process_cpu;

/// CPU time a process has used.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuTimes {
    /// The whole process, to the nanosecond; zero if it is gone.
    pub(crate) total: Duration,
    /// By thread name, threads of one name added up; behind by up to a scheduler tick each.
    pub(crate) threads: BTreeMap<String, Duration>,
}

impl CpuTimes {
    /// What a process has used until now.
    pub(crate) fn of(pid: u32) -> Self {
        let mut threads: BTreeMap<String, Duration> = BTreeMap::new();
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let text = |file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            // The first number of schedstat is the time on a processor in nanoseconds.
            let ns = text("schedstat")
                .split(' ')
                .next()
                .and_then(|word| word.parse().ok());
            *threads.entry(text("comm").trim().to_owned()).or_default() +=
                Duration::from_nanos(ns.unwrap_or_default());
        }
        Self {
            total: process_cpu(pid).unwrap_or_default(),
            threads,
        }
    }

    /// What was used since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let used = |(name, time): (&String, &Duration)| {
            let before = before.threads.get(name).copied().unwrap_or_default();
            (name.clone(), time.saturating_sub(before))
        };
        Self {
            total: self.total.saturating_sub(before.total),
            threads: self.threads.iter().map(used).collect(),
        }
    }
}

/// CPU time of this process, which is the load generator's.
pub(crate) fn own_cpu() -> Duration {
    process_cpu(std::process::id()).unwrap_or_default()
}

/// CPU time of this process' threads of one name.
pub(crate) fn thread_cpu(name: &str) -> Duration {
    let times = CpuTimes::of(std::process::id());
    times.threads.get(name).copied().unwrap_or_default()
}

/// CPU time of this thread: what others do on the machine does not count.
pub(crate) fn this_thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_uses_time() {
        let before = CpuTimes::of(std::process::id());
        let begun = own_cpu();
        let mut sum = 0_u64;
        while own_cpu() - begun < Duration::from_millis(5) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let used = CpuTimes::of(std::process::id()).since(&before);
        assert!(used.total >= Duration::from_millis(5));
        assert!(!used.threads.is_empty());
    }
}
