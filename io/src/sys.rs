//! Thin, safe covers over the socket calls that `std` lacks.

use core::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::udp::Address;

/// Turns the -1 of a system call into its error.
pub(crate) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A new non-blocking, close-on-exec socket of the family of `address`.
pub(crate) fn socket(address: &Address, kind: c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(address.family(), kind, 0) })?;
    // SAFETY: the descriptor is new and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds a socket.
pub(crate) fn bind(fd: BorrowedFd<'_>, address: &Address) -> io::Result<()> {
    // SAFETY: pointer and length describe a whole, initialised socket address.
    check(unsafe { libc::bind(fd.as_raw_fd(), address.as_ptr(), address.len()) }).map(drop)
}

/// Connects a socket; a connection on its way is no error.
pub(crate) fn connect(fd: BorrowedFd<'_>, address: &Address) -> io::Result<()> {
    // SAFETY: pointer and length describe a whole, initialised socket address.
    let result = check(unsafe { libc::connect(fd.as_raw_fd(), address.as_ptr(), address.len()) });
    match result {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(()),
    }
}

/// Starts listening.
pub(crate) fn listen(fd: BorrowedFd<'_>, backlog: c_int) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) }).map(drop)
}

/// The address a socket is bound to.
pub(crate) fn local_address(fd: BorrowedFd<'_>) -> io::Result<Address> {
    let mut address = Address::room();
    let mut len = address.len();
    // SAFETY: `address` has room for `len` bytes, and the kernel writes no more than that.
    let result = unsafe { libc::getsockname(fd.as_raw_fd(), address.as_mut_ptr(), &mut len) };
    check(result)?;
    address.set_len(len);
    Ok(address)
}

/// Sets an integer option.
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    (level, name): (c_int, c_int),
    value: c_int,
) -> io::Result<()> {
    let pointer: *const c_int = &value;
    let len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe one initialised integer.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, pointer.cast::<c_void>(), len) };
    check(result).map(drop)
}

/// Sets an option that is a structure of the kernel's.
pub(crate) fn set_struct<T: Copy>(
    fd: BorrowedFd<'_>,
    (level, name): (c_int, c_int),
    value: &T,
) -> io::Result<()> {
    let pointer: *const T = value;
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe one whole value, of which the kernel reads copies.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, pointer.cast::<c_void>(), len) };
    check(result).map(drop)
}

/// Reads an integer option.
pub(crate) fn option(fd: BorrowedFd<'_>, (level, name): (c_int, c_int)) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let pointer: *mut c_int = &mut value;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe one writable integer.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            pointer.cast::<c_void>(),
            &mut len,
        )
    };
    check(result).map(|_| value)
}

/// Reads an option of several bytes. What the kernel does not write stays as it was.
pub(crate) fn option_bytes(
    fd: BorrowedFd<'_>,
    (level, name): (c_int, c_int),
    room: &mut [u8],
) -> io::Result<()> {
    let pointer = room.as_mut_ptr().cast::<c_void>();
    let mut len = libc::socklen_t::try_from(room.len()).map_err(io::Error::other)?;
    // SAFETY: `room` has `len` bytes, and the kernel writes no more than that.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, pointer, &mut len) }).map(drop)
}
