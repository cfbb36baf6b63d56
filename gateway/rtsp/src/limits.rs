//! Bounds of what one client may ask for.

use std::time::Duration;

/// Bytes of a request: line, headers and body.
pub(crate) const REQUEST_MAX: usize = 16 << 10;
/// Bytes of a client that wait to be understood: one interleaved packet (RFC 2326 section 10.12)
/// and a request.
pub(crate) const INBOUND_MAX: usize = (64 << 10) + 4 + REQUEST_MAX;
/// Bytes read from one client before others have their turn.
pub(crate) const READ_MAX: usize = 64 << 10;
/// Bytes that wait for a client's connection; a film that it carries waits beyond.
pub(crate) const OUTBOUND_HIGH: usize = 256 << 10;
/// Answers that nobody reads, beyond which the client is closed.
pub(crate) const OUTBOUND_MAX: usize = OUTBOUND_HIGH + (256 << 10);
/// Tracks of one session.
pub(crate) const TRACKS_MAX: usize = 16;
/// Sender reports (RFC 3550 section 6.2: five seconds).
pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(5);
/// Packets of one session before others have their turn.
pub(crate) const BURST_MAX: usize = 256;
/// A film that is read ahead so far is not read on.
pub(crate) const AHEAD: Duration = Duration::from_secs(1);
/// The same in bytes.
pub(crate) const AHEAD_MAX: usize = 1 << 20;
/// Read at once.
pub(crate) const CHUNK: Duration = Duration::from_secs(1);
/// The same in bytes.
pub(crate) const CHUNK_MAX: usize = 256 << 10;
/// A film that is so late was not read in time: it goes on from where it is.
pub(crate) const LATE_MAX: Duration = Duration::from_millis(500);
/// Recordings that are looked for and films that are read; beyond, what is new is refused.
pub(crate) const JOBS_MAX: usize = 4_096;
