//! One packet, or one burst of a video frame, to many destinations.

use core::ptr;

use libc::{iovec, mmsghdr};
use sangam_model::limits::BURST_MAX;

use super::control::Control;
use super::send::{CHUNK, Segmentation, SendReport, empty_header, fits, slice_of, transmit};
use super::{Address, UdpSocket};

/// Reused scratch for sends of the same packets to many destinations.
///
/// All messages of a call share one array of slices and one control message; for each
/// destination only its name is written, a pointer into the caller's list.
pub struct Fanout {
    /// Their pointers are valid only during a call.
    headers: Box<[mmsghdr; CHUNK]>,
    control: Control,
    segmentation: Segmentation,
}

// SAFETY: the pointers in the headers are written anew by every call before they are used.
unsafe impl Send for Fanout {}

impl Default for Fanout {
    fn default() -> Self {
        Self::new()
    }
}

impl Fanout {
    /// Scratch for one thread.
    #[must_use]
    pub fn new() -> Self {
        Self {
            headers: Box::new([empty_header(); CHUNK]),
            control: Control::new(),
            segmentation: Segmentation::default(),
        }
    }

    /// Sends every packet of `burst` to every destination, each destination getting them in
    /// order, and adds to `report`.
    ///
    /// Neighbours of one size (the last of them may be shorter) leave as one segmented message
    /// for each destination, up to [`BURST_MAX`] packets. A destination that fails is skipped. A
    /// full socket buffer ends the call: what was not sent is in [`SendReport::would_block`], and
    /// with a single packet these are the last destinations.
    pub fn send(
        &mut self,
        socket: &UdpSocket,
        burst: &[&[u8]],
        destinations: &[Address],
        report: &mut SendReport,
    ) {
        let mut rest = burst;
        while !rest.is_empty() {
            let length = if self.segmentation.allowed() {
                run(rest)
            } else {
                1
            };
            let (now, later) = rest.split_at(length);
            if !self.send_run(socket, now, destinations, report) {
                report.would_block += (later.len() * destinations.len()) as u64;
                return;
            }
            rest = later;
        }
    }

    /// Sends packets that fit one message; `false` once the socket's buffer is full.
    fn send_run(
        &mut self,
        socket: &UdpSocket,
        run: &[&[u8]],
        destinations: &[Address],
        report: &mut SendReport,
    ) -> bool {
        let mut slices = [slice_of(&[]); BURST_MAX];
        for (slice, packet) in slices.iter_mut().zip(run) {
            *slice = slice_of(packet);
        }
        self.prepare(&mut slices[..run.len()], destinations.len());
        let mut left = destinations.len();
        for chunk in destinations.chunks(CHUNK) {
            for (header, destination) in self.headers.iter_mut().zip(chunk) {
                header.msg_hdr.msg_name = destination.as_ptr().cast_mut().cast();
                header.msg_hdr.msg_namelen = destination.len();
            }
            left -= chunk.len();
            let headers = &mut self.headers[..chunk.len()];
            // SAFETY: names point into `destinations`, slices into the packets of `run`, the
            // control pointer into `self`; all of them live through this call.
            let done = unsafe { transmit(socket, headers, &mut self.segmentation, report) };
            if done < chunk.len() {
                report.would_block += (left * run.len()) as u64;
                return false;
            }
        }
        true
    }

    /// Writes what the messages of a run have in common.
    fn prepare(&mut self, slices: &mut [iovec], destinations: usize) {
        self.control.clear();
        if slices.len() > 1 {
            self.control.segment(slices[0].iov_len as u16);
        }
        let control = match self.control.len() {
            0 => ptr::null_mut(),
            _ => self.control.as_mut_ptr().cast(),
        };
        for header in self.headers.iter_mut().take(destinations) {
            header.msg_hdr.msg_iov = slices.as_mut_ptr();
            header.msg_hdr.msg_iovlen = slices.len() as _;
            header.msg_hdr.msg_control = control;
            header.msg_hdr.msg_controllen = self.control.len() as _;
        }
    }
}

/// How many packets at the front of a burst fit one segmented message; at least one.
fn run(burst: &[&[u8]]) -> usize {
    let size = burst[0].len();
    let (mut count, mut bytes) = (1, size);
    while let Some(packet) = burst.get(count)
        && fits(packet.len(), size, (count, bytes))
    {
        count += 1;
        bytes += packet.len();
        if packet.len() < size {
            break;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(sizes: &[usize]) -> Vec<usize> {
        let packets: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![0; size]).collect();
        let burst: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        let mut rest = burst.as_slice();
        let mut runs = Vec::new();
        while !rest.is_empty() {
            runs.push(run(rest));
            rest = &rest[run(rest)..];
        }
        runs
    }

    #[test]
    fn a_run_ends_with_its_first_shorter_packet() {
        assert_eq!(runs(&[900, 900, 700]), [3]);
        assert_eq!(runs(&[900, 700, 900, 900]), [2, 2]);
        assert_eq!(runs(&[700, 900]), [1, 1]);
    }

    #[test]
    fn a_run_keeps_within_one_message() {
        assert_eq!(runs(&[100; 20]), [16, 4]);
        assert_eq!(runs(&[16_000; 5]), [4, 1]);
    }

    #[test]
    fn an_empty_packet_is_never_a_segment() {
        assert_eq!(runs(&[0, 0]), [1, 1]);
        assert_eq!(runs(&[10, 0, 10]), [1, 1, 1]);
    }
}
