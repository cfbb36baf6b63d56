//! The tightest send loop the machine allows: what the bench holds the broker against.
//!
//! Everything is built before the first send: one message header per destination, all of them
//! pointing at one payload and one control message. No code around it can send for less.

use std::io;
use std::mem;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::Duration;

use libc::{c_uint, c_void, iovec, mmsghdr, sockaddr_in};

/// Messages of one sendmmsg call. Measured: from 32 on more messages per call save nothing.
const MESSAGES_PER_CALL: usize = 64;

/// Largest payload of one message, all its segments together.
const PAYLOAD_MAX: usize = 65_000;

const CONTROL_LEN: usize = 24;

/// An aligned control message that carries UDP_SEGMENT's segment size.
#[repr(C, align(8))]
struct Control([u8; CONTROL_LEN]);

/// A socket and the prebuilt arrays for the destinations of one or many audiences.
pub struct RawFanout {
    socket: UdpSocket,
    messages: Vec<mmsghdr>,
    /// Destinations of one audience.
    fanout: usize,
    /// The first message of the audience whose turn it is.
    next: usize,
    // The message headers point into the boxes below, which never move or change size.
    payload: Box<[u8]>,
    vector: Box<iovec>,
    control: Box<Control>,
    addresses: Box<[sockaddr_in]>,
    segmented: bool,
}

// SAFETY: the raw pointers lead only into boxes that the value itself owns.
unsafe impl Send for RawFanout {}

impl RawFanout {
    /// Binds a socket to any port of the loopback address and builds the arrays; every `fanout`
    /// destinations in a row are one audience.
    ///
    /// # Errors
    /// What the kernel says about the socket.
    pub fn new(destinations: &[SocketAddrV4], fanout: usize) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let mut payload = vec![0_u8; PAYLOAD_MAX].into_boxed_slice();
        let vector = Box::new(iovec {
            iov_base: payload.as_mut_ptr().cast::<c_void>(),
            iov_len: 0,
        });
        let mut fanout = Self {
            socket,
            messages: Vec::with_capacity(destinations.len()),
            fanout: fanout.max(1),
            next: 0,
            payload,
            vector,
            control: Box::new(segment_control()),
            addresses: destinations.iter().map(raw_address).collect(),
            segmented: false,
        };
        fanout.build();
        Ok(fanout)
    }

    /// The payload every packet carries; a burst's packets lie one behind the other.
    pub fn payload(&mut self) -> &mut [u8] {
        &mut self.payload
    }

    /// Sends `packets` packets of `bytes` each to every destination of the audience whose turn it
    /// is and returns how many messages that took: one UDP_SEGMENT message per destination, or a
    /// plain one for a single packet.
    ///
    /// # Errors
    /// What the kernel says; the rest of the round is not sent then.
    ///
    /// # Panics
    /// If the burst is longer than 65,000 bytes.
    pub fn send(&mut self, packets: u16, bytes: u16) -> io::Result<u64> {
        let length = usize::from(packets) * usize::from(bytes);
        assert!(
            length <= PAYLOAD_MAX,
            "a burst of {length} bytes does not fit one message"
        );
        self.vector.iov_len = length;
        self.control.0[16..18].copy_from_slice(&bytes.to_ne_bytes());
        self.set_segmented(packets > 1);
        let fd = self.socket.as_raw_fd();
        let mut sent = 0;
        let end = self.messages.len().min(self.next + self.fanout);
        let audience = &mut self.messages[self.next..end];
        while sent < audience.len() {
            let rest = &mut audience[sent..];
            let count = rest.len().min(MESSAGES_PER_CALL);
            // SAFETY: the first `count` headers are initialised and lead to live boxes.
            let done = unsafe { libc::sendmmsg(fd, rest.as_mut_ptr(), count as c_uint, 0) };
            if done < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            } else {
                sent += done as usize;
            }
        }
        Ok(sent as u64)
    }

    /// Goes on to the next audience; after the last comes the first again.
    pub fn turn(&mut self) {
        self.next += self.fanout;
        if self.next >= self.messages.len() {
            self.next = 0;
        }
    }

    fn build(&mut self) {
        for address in &self.addresses {
            // SAFETY: all zeros is a valid, empty message header.
            let mut message: mmsghdr = unsafe { mem::zeroed() };
            message.msg_hdr.msg_name = ptr::from_ref(address).cast_mut().cast::<c_void>();
            message.msg_hdr.msg_namelen = mem::size_of::<sockaddr_in>() as u32;
            message.msg_hdr.msg_iov = &raw mut *self.vector;
            message.msg_hdr.msg_iovlen = 1;
            self.messages.push(message);
        }
    }

    fn set_segmented(&mut self, segmented: bool) {
        if segmented == self.segmented {
            return;
        }
        self.segmented = segmented;
        for message in &mut self.messages {
            let (at, length) = if segmented {
                (self.control.0.as_mut_ptr().cast::<c_void>(), CONTROL_LEN)
            } else {
                (ptr::null_mut(), 0)
            };
            message.msg_hdr.msg_control = at;
            message.msg_hdr.msg_controllen = length;
        }
    }
}

/// CPU time that a process has used, its running threads up to this moment included.
///
/// # Errors
/// If there is no such process.
pub fn process_cpu(pid: u32) -> io::Result<Duration> {
    let mut clock = 0;
    // SAFETY: `clock` is a writable clock id.
    let error = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a writable timespec.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// One control message: 16 bytes of header, the segment size, padding.
fn segment_control() -> Control {
    let mut control = Control([0; CONTROL_LEN]);
    control.0[..8].copy_from_slice(&18_u64.to_ne_bytes());
    control.0[8..12].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
    control.0[12..16].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
    control
}

fn raw_address(address: &SocketAddrV4) -> sockaddr_in {
    sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(address.ip().octets()),
        },
        sin_zero: [0; 8],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(socket: &UdpSocket) -> SocketAddrV4 {
        match socket.local_addr() {
            Ok(std::net::SocketAddr::V4(address)) => address,
            other => panic!("no IPv4 address: {other:?}"),
        }
    }

    #[test]
    fn a_process_has_a_cpu_clock_that_only_rises() {
        let before = process_cpu(std::process::id()).expect("our own");
        assert!(process_cpu(std::process::id()).expect("our own") >= before);
        // Beyond every process, but not beyond what a clock's number has room for.
        assert!(process_cpu(1 << 27).is_err());
    }

    #[test]
    fn every_destination_gets_every_packet_of_a_burst() {
        let sockets: Vec<_> = (0..70)
            .map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port"))
            .collect();
        let destinations: Vec<_> = sockets.iter().map(bound).collect();
        let mut fanout = RawFanout::new(&destinations, 70).expect("a socket");
        fanout.payload()[..300].fill(7);
        assert_eq!(fanout.send(3, 100).expect("sent"), 70);
        assert_eq!(fanout.send(1, 50).expect("sent"), 70);
        for socket in &sockets {
            let mut buffer = [0; 512];
            for expected in [100, 100, 100, 50] {
                let length = socket.recv(&mut buffer).expect("a packet");
                assert_eq!(length, expected);
                assert!(buffer[..length].iter().all(|byte| *byte == 7));
            }
        }
    }

    #[test]
    fn audiences_take_turns() {
        let sockets: Vec<_> = (0..4)
            .map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port"))
            .collect();
        let destinations: Vec<_> = sockets.iter().map(bound).collect();
        let mut fanout = RawFanout::new(&destinations, 2).expect("a socket");
        for (round, bytes) in (0..).zip([10, 20, 30]) {
            assert_eq!(fanout.send(1, bytes).expect("sent"), 2);
            let mut buffer = [0; 64];
            for socket in &sockets[2 * (round % 2)..][..2] {
                assert_eq!(socket.recv(&mut buffer).expect("a packet"), bytes.into());
            }
            fanout.turn();
        }
    }
}
