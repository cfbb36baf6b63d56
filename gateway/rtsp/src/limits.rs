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
/// Topics watched at once: a client of a broker holds 256 filters.
pub(crate) const WATCHES_MAX: usize = 200;
/// Of the requests that wait for announcements, those of one address.
pub(crate) const ASKERS_PER_ADDRESS: usize = 16;
/// How long announcements of a topic are waited for.
pub(crate) const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);
/// How long the others of its streams are waited for after the first: a broker announces those that
/// it knows at once, and picture and sound of one publisher begin together.
pub(crate) const SETTLE: Duration = Duration::from_millis(300);
/// A stream that is gone may come back for so long; then its players hear that it ended.
pub(crate) const RETURN_WAIT: Duration = Duration::from_secs(5);
/// A stream of which nothing came for so long gives way to another one of the same topic: brokers
/// miss a publisher that was killed only after 15 seconds.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);
/// A topic is kept for so long after its last player: the next one begins at once.
pub(crate) const LINGER: Duration = Duration::from_secs(10);
/// Streams remembered of those that the broker announced.
pub(crate) const STREAMS_MAX: usize = 65_536;
/// Events taken before others have their turn.
pub(crate) const EVENTS_MAX: usize = 256;
/// One key frame of a stream is asked for in so long.
pub(crate) const KEY_FRAME_EVERY: Duration = Duration::from_millis(500);
/// A player whose key frame does not come in so long begins without: some senders make one each
/// ten seconds, and make none when asked.
pub(crate) const KEY_FRAME_WAIT: Duration = Duration::from_secs(10);
/// A player that did not take a picture in time waits so long for a key frame before one is asked
/// for: all others pay for it.
pub(crate) const SLOW_WAIT: Duration = Duration::from_secs(3);
/// Blocks of films in memory, of 1 MiB each, for all who play them; those that somebody plays stay
/// beyond.
pub(crate) const BLOCKS_MAX: usize = 256;
