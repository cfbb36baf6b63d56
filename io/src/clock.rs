//! The one clock of the media plane.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use sangam_model::Time;

/// Microseconds of `CLOCK_MONOTONIC`: one clock for every process of a host.
#[inline]
#[must_use]
pub fn now() -> Time {
    let mut at = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `at` is a writable timespec; CLOCK_MONOTONIC exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut at) };
    Time::from_micros(at.tv_sec as u64 * 1_000_000 + at.tv_nsec as u64 / 1_000)
}

/// Names this host's clock: times from processes with equal domains may be subtracted.
///
/// A hash of the boot and of the time namespace (a container may shift `CLOCK_MONOTONIC`). Where
/// the boot cannot be read it is drawn for this process alone, so it never claims too much.
#[must_use]
pub fn clock_domain() -> u32 {
    static DOMAIN: OnceLock<u32> = OnceLock::new();
    *DOMAIN.get_or_init(|| match std::fs::read("/proc/sys/kernel/random/boot_id") {
        Ok(boot) => {
            let space = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
            fnv1a(
                boot.trim_ascii()
                    .iter()
                    .chain(space.as_os_str().as_encoded_bytes()),
            )
        }
        Err(_) => {
            let mut hasher = DefaultHasher::new();
            (std::process::id(), now()).hash(&mut hasher);
            hasher.finish() as u32
        }
    })
}

/// FNV-1a, 32 bits: the same in every release, so that two builds agree about their clocks.
fn fnv1a<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_backwards() {
        let mut last = now();
        assert!(last > Time::ZERO);
        for _ in 0..1_000 {
            let next = now();
            assert!(next >= last);
            last = next;
        }
    }

    #[test]
    fn the_domain_of_a_host_stays() {
        assert_eq!(clock_domain(), clock_domain());
    }

    #[test]
    fn fnv1a_matches_its_published_vectors() {
        assert_eq!(fnv1a(b"".iter()), 0x811c_9dc5);
        assert_eq!(fnv1a(b"a".iter()), 0xe40c_292c);
        assert_eq!(fnv1a(b"foobar".iter()), 0xbf9c_f968);
    }
}
