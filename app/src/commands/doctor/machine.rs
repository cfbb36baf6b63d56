//! Cores, clock and limits of the machine.

use std::fs;

use super::Check;

/// Descriptors a broker with a few thousand TCP clients and legs needs.
const FILES: u64 = 4_096;
/// The first kernel with `epoll_pwait2`, the newest of the calls that are used.
const KERNEL: (u32, u32) = (5, 11);
/// Clock sources that are read without a system call.
const FAST_CLOCKS: [&str; 4] = [
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
];

pub(super) fn checks() -> Vec<Check> {
    vec![cores(), kernel(), clock(), open_files()]
}

fn cores() -> Check {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => Check::poor(
            "cores",
            "1",
            "relay and delivery share it; two cores keep neighbours free of local load",
        ),
        cores => Check::good("cores", cores.to_string()),
    }
}

fn kernel() -> Check {
    let release = read("/proc/sys/kernel/osrelease");
    match version(&release) {
        Some(version) if version >= KERNEL => Check::good("kernel", format!("Linux {release}")),
        Some(_) => Check::poor(
            "kernel",
            format!("Linux {release}"),
            "before 5.11 timers are only as fine as a millisecond; use a newer kernel",
        ),
        None => Check::poor(
            "kernel",
            format!("{release:?} is not understood"),
            "brokers are built for Linux 5.11 and later",
        ),
    }
}

/// Major and minor of a kernel release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '+']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn clock() -> Check {
    let source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    if FAST_CLOCKS.contains(&source.as_str()) {
        return Check::good("clock", source);
    }
    Check::poor(
        "clock",
        if source.is_empty() {
            "unknown".to_owned()
        } else {
            source
        },
        "reading this clock may need a system call for every packet; choose tsc if the machine \
         has a stable one",
    )
}

fn open_files() -> Check {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let soft = line
        .and_then(|line| line.split_whitespace().next())
        .unwrap_or("unknown");
    match soft.parse::<u64>() {
        Ok(files) if files < FILES => Check::poor(
            "open files",
            soft,
            "TCP clients and legs need one each: raise it by `ulimit -n 65536`, or LimitNOFILE= \
             in the service",
        ),
        _ => Check::good("open files", soft),
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_are_compared_by_number() {
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("5.9-rc3"), Some((5, 9)));
        assert!(version("5.9.1") < Some(KERNEL));
        assert!(version("5.15.0") > Some(KERNEL));
        assert_eq!(version("banana"), None);
    }
}
