//! What child processes do not get.

use core::ffi::c_int;
use std::io;

use crate::sys::check;

/// Keeps every descriptor that is open now, but the standard three, from the programs this process
/// starts. The standard library does so for what it opens; this is for what was open already when
/// the process began, as shells and supervisors leave behind.
///
/// # Errors
/// The kernel is older than Linux 5.11.
pub fn keep_descriptors() -> io::Result<()> {
    // SAFETY: no pointers are passed; nothing is closed, only marked to be closed by exec.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3_u32,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    check(done as c_int).map(drop)
}
