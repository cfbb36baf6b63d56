//! How much is kept, how much may be on its way, and how long is waited.

use core::time::Duration;

/// What an operator decides about the topics a broker keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Records kept of each topic for those who come late or return; of the last 15 seconds all.
    pub keep_events: usize,
    /// No record is kept longer than this.
    pub keep_for: Duration,
    /// Bytes one topic may take before its publishers are held back; half of it is kept for those
    /// who come late.
    pub topic_bytes: usize,
    /// Bytes all topics may take together before publishers are held back.
    pub broker_bytes: usize,
    /// Topics kept at once.
    pub topics: usize,
    /// How long the records between those that are known and those that come are waited for,
    /// before they are given up.
    pub gap_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            keep_events: 1_000,
            keep_for: Duration::from_secs(3_600),
            topic_bytes: 8 << 20,
            broker_bytes: 256 << 20,
            topics: 4_096,
            gap_after: Duration::from_secs(10),
        }
    }
}

/// Records on their way to one receiver.
pub const WINDOW_RECORDS: usize = 512;
/// Bytes of payload on their way to one receiver.
pub const WINDOW_BYTES: usize = 128 << 10;
/// Records of one publisher that are sent and not held yet.
pub const PUBLISHER_RECORDS: usize = 512;
/// As many of these as make a publisher wait until its next message is full.
pub(crate) const GATHER: usize = 64;
/// Bytes of payload of these.
pub const PUBLISHER_BYTES: usize = 128 << 10;
/// Bytes of one event; it travels in records of [`sangam_wire::RECORD_LEN_MAX`].
pub const EVENT_BYTES: usize = 64 << 10;
/// Publishers of one topic that are remembered.
pub const PUBLISHERS_MAX: usize = 4_096;
/// Publishers and feeds of one client.
pub const PER_CLIENT: usize = 64;
/// Clients' publishers a broker knows.
pub const AUTHORS_MAX: usize = 65_536;
/// Attachments of which not all parts came.
pub(crate) const PARTIALS_MAX: usize = 1_024;

/// Younger records are kept however many they are, in half of the topic's bytes: for receivers
/// that lost the broker that fed them, and with it whoever knew how far they are.
pub(crate) const YOUNG: Duration = Duration::from_secs(15);
/// A receiver that is fed is behind by no more than this.
pub(crate) const LAG: Duration = Duration::from_secs(1);
/// What a record takes besides its payload.
pub(crate) const RECORD_COST: usize = 96;

/// What is not acknowledged is sent again after so long, doubling after every second time,
pub(crate) const RESEND: Duration = Duration::from_millis(400);
/// up to this.
pub(crate) const RESEND_MAX: Duration = Duration::from_secs(2);
/// A receiver's hint that something is missing is followed at most so often.
pub(crate) const HINT: Duration = Duration::from_millis(30);
/// An attachment without an answer is repeated after so long, doubling after every second time up
/// to [`RESEND_MAX`].
pub(crate) const ATTACH: Duration = Duration::from_millis(200);
/// A receiver tells how far it is at least so often,
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(2);
/// and attaches anew if nothing came for this: two such words without an answer.
pub(crate) const DEAF: Duration = Duration::from_secs(5);
/// A broker that was not heard for so long holds nothing back any more.
pub(crate) const HOLD: Duration = Duration::from_secs(15);
/// A client that is furthest behind in a full topic for so long is cut off.
pub(crate) const CLIENT_STALL: Duration = Duration::from_secs(1);
/// A home that cannot reach the other one serves clients after so long.
pub(crate) const SYNC_PATIENCE: Duration = Duration::from_secs(5);
/// A publisher of whom nothing is kept and nothing was heard for so long is forgotten.
pub(crate) const FORGET: Duration = Duration::from_secs(3_600);
/// How often what is old is looked for.
pub(crate) const SWEEP: Duration = Duration::from_secs(5);

/// The pause before attempt number `tries`. It doubles after every second one: what was lost to a
/// link that died mostly comes through a second later, when all have learned of it, and whoever
/// doubled each time would then sleep for as long again.
pub(crate) fn backoff(first: Duration, tries: u32) -> Duration {
    (first * (1 << (tries / 2).min(5))).min(RESEND_MAX)
}
