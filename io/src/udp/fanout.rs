//! One packet, or one burst of a video frame, to many destinations.

use core::ptr;

use libc::{iovec, mmsghdr};
use sangam_model::limits::BURST_MAX;

use super::control::Control;
use super::send::{CHUNK, Segmentation, SendReport, empty_header, fits, slice_of, transmit};
use super::{Address, UdpSocket};

/// Reused scratch for sends of the same packets to many destinations.
///
/// All messages of a call share one array of slices and one control message for each run; for
/// each destination only its name is written, a pointer into the caller's list.
pub struct Fanout {
    /// Their pointers are valid only during a call.
    headers: Box<[mmsghdr; CHUNK]>,
    /// One for each run of a burst.
    controls: Box<[Control; BURST_MAX]>,
    segmentation: Segmentation,
}

const _: () = assert!(BURST_MAX <= CHUNK);

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
            controls: Box::new([Control::new(); BURST_MAX]),
            segmentation: Segmentation::default(),
        }
    }

    /// Sends every packet of `burst` to every destination, each destination getting them in
    /// order, and adds to `report`.
    ///
    /// Neighbours of one size (the last of them may be shorter) leave as one segmented message
    /// for each destination, up to [`BURST_MAX`] packets. A destination that fails is skipped. A
    /// full socket buffer ends the call. What was not sent is in [`SendReport::would_block`], and
    /// of a burst of at most [`BURST_MAX`] packets these are the last ones of the last
    /// destinations: the burst is complete for those before, and at most one has a part of it.
    pub fn send(
        &mut self,
        socket: &UdpSocket,
        burst: &[&[u8]],
        destinations: &[Address],
        report: &mut SendReport,
    ) {
        let mut left = burst.len();
        for part in burst.chunks(BURST_MAX) {
            left -= part.len();
            if !self.send_part(socket, part, destinations, report) {
                report.would_block += (left * destinations.len()) as u64;
                return;
            }
        }
    }

    /// Sends at most [`BURST_MAX`] packets; `false` once the socket's buffer is full.
    fn send_part(
        &mut self,
        socket: &UdpSocket,
        burst: &[&[u8]],
        destinations: &[Address],
        report: &mut SendReport,
    ) -> bool {
        let mut slices = [slice_of(&[]); BURST_MAX];
        for (slice, packet) in slices.iter_mut().zip(burst) {
            *slice = slice_of(packet);
        }
        let (messages, at_once) = self.prepare(burst, &mut slices, destinations.len());
        let mut left = destinations.len();
        for chunk in destinations.chunks(at_once) {
            let headers = self.headers.chunks_exact_mut(messages);
            for (headers, destination) in headers.zip(chunk) {
                for header in headers {
                    header.msg_hdr.msg_name = destination.as_ptr().cast_mut().cast();
                    header.msg_hdr.msg_namelen = destination.len();
                }
            }
            left -= chunk.len();
            let headers = &mut self.headers[..chunk.len() * messages];
            // SAFETY: names point into `destinations`, slices into the packets of `burst`, the
            // control pointers into `self`; all of them live through this call.
            let done = unsafe { transmit(socket, headers, &mut self.segmentation, report) };
            if done < headers.len() {
                report.would_block += (left * burst.len()) as u64;
                return false;
            }
        }
        true
    }

    /// Writes what the messages of all destinations have in common. How many there are for each,
    /// one for a run, and how many destinations go into one call.
    fn prepare(
        &mut self,
        burst: &[&[u8]],
        slices: &mut [iovec; BURST_MAX],
        destinations: usize,
    ) -> (usize, usize) {
        let (mut messages, mut first) = (0, 0);
        while first < burst.len() {
            let count = match self.segmentation.allowed() {
                true => run(&burst[first..]),
                false => 1,
            };
            let control = &mut self.controls[messages];
            control.clear();
            if count > 1 {
                control.segment(slices[first].iov_len as u16);
            }
            let message = &mut self.headers[messages].msg_hdr;
            message.msg_iov = slices[first..].as_mut_ptr();
            message.msg_iovlen = count as _;
            message.msg_controllen = control.len() as _;
            message.msg_control = match control.len() {
                0 => ptr::null_mut(),
                _ => control.as_mut_ptr().cast(),
            };
            messages += 1;
            first += count;
        }
        let at_once = CHUNK / messages;
        for copy in 1..at_once.min(destinations) {
            self.headers.copy_within(..messages, copy * messages);
        }
        (messages, at_once)
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
