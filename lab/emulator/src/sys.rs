//! The system calls that have no safe cover.
#![allow(
    unsafe_code,
    reason = "namespaces, TUN devices and what runs between fork and exec"
)]

use core::ffi::c_int;
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open};
use rustix::ioctl::{Updater, ioctl, opcode};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// `struct ifreq` of linux/if.h, as far as TUNSETIFF reads it.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<c_int>(b'T', 202);
const IFF_TUN: i16 = 0x0001;
const IFF_NO_PI: i16 = 0x1000;

/// Moves the calling thread into a new network namespace, which ends with its last user.
pub(crate) fn new_network() -> io::Result<()> {
    // SAFETY: descriptors stay shared, only the network is parted.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(io::Error::from)
}

/// Makes a TUN device in the calling thread's network namespace; it ends with the descriptor.
/// Reads and writes are whole IP packets and never block.
pub(crate) fn new_tun(name: &str) -> io::Result<File> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits() as c_int)
        .open("/dev/net/tun")?;
    let mut request = Request {
        name: [0; 16],
        flags: IFF_TUN | IFF_NO_PI,
        rest: [0; 22],
    };
    // One byte stays zero and ends the name.
    let name = &name.as_bytes()[..name.len().min(15)];
    request.name[..name.len()].copy_from_slice(name);
    // SAFETY: TUNSETIFF reads and writes an ifreq, and `Request` has its size and layout.
    let set = unsafe { Updater::<TUNSETIFF, Request>::new(&mut request) };
    // SAFETY: as above; the kernel keeps no pointer.
    unsafe { ioctl(&device, set) }?;
    Ok(device)
}

/// Lets a command start in a network namespace.
pub(crate) fn start_in(command: &mut Command, namespace: Arc<OwnedFd>) {
    let enter = move || {
        let link = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespace.as_fd(), link).map_err(io::Error::from)
    };
    // SAFETY: between fork and exec it makes one system call and allocates nothing.
    unsafe { command.pre_exec(enter) };
}

/// Lets a command start in a time namespace of its own. `offsets` are lines for
/// /proc/PID/timens_offsets (time_namespaces(7)).
pub(crate) fn start_with_clock(command: &mut Command, offsets: String) {
    let enter = move || {
        // SAFETY: no descriptors are parted.
        unsafe { unshare_unsafe(UnshareFlags::NEWTIME) }?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = open(c"/proc/self/timens_offsets", flags, Mode::empty())?;
        rustix::io::write(&file, offsets.as_bytes())?;
        // Kernels before 6.1 do not move a process into it when it executes.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let children = open(c"/proc/self/ns/time_for_children", flags, Mode::empty())?;
        move_into_link_name_space(children.as_fd(), Some(LinkNameSpaceType::Time))?;
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls only and allocates nothing.
    unsafe { command.pre_exec(enter) };
}

const _: () = assert!(size_of::<Request>() == 40 && size_of::<*mut c_void>() == 8);
