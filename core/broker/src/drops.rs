//! Every reason for which the broker lets something go, in one table.

use sangam_model::Class;
use sangam_wire::WireError;

macro_rules! reasons {
    ($($variant:ident, $name:literal, $help:literal;)*) => {
        /// Why an event, frame or request went no further. Each is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $(#[doc = $help] $variant,)*
        }

        impl DropReason {
            /// Every reason, in the order of their numbers.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The label in `/metrics`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it means and what to do, in a sentence.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => $help,)* }
            }
        }
    };
}

reasons! {
    // What arrives at a socket.
    Malformed, "malformed", "The bytes are no event or frame: cut short, too long or out of range.";
    Version, "version", "The first byte names a protocol version this build does not speak.";
    UnknownClass, "unknown_class", "The event is of a class that is not defined.";
    UnknownFrame, "unknown_frame", "The link frame or control message is of no known kind.";
    Oversized, "oversized", "The event is larger than any buffer; see `limits::EVENT_LEN_MAX`.";
    SocketOverflow, "socket_overflow", "The kernel's receive buffer was full; raise rmem_max.";
    ReceiveError, "receive_error", "Reading from a socket failed.";
    PoolExhausted, "pool_exhausted", "No packet buffer was free; consumers hold too many.";
    // Who sends it.
    UnknownPeer, "unknown_peer", "The address belongs to no client, neighbour or leg.";
    UnknownSession, "unknown_session", "The frame belongs to an earlier session of its address.";
    NotOwner, "not_owner", "The stream belongs to another publisher or link.";
    WrongClass, "wrong_class", "The event's class is not the one its stream was published with.";
    CookieInvalid, "cookie_invalid", "A hello's cookie was old or forged.";
    FloodHello, "flood_hello", "More hellos arrived than the broker answers.";
    StreamOpening, "stream_opening", "A connection ended before its TLS, HTTP or hello was over.";
    FloodPublisher, "flood_publisher", "A publisher exceeds `PUBLISHER_PACKETS_PER_S`.";
    FloodControl, "flood_control", "A peer sent more control messages than allowed.";
    // Who may do it.
    NotGranted, "not_granted", "A client asked for what its token, if any, does not grant.";
    TokenRefused, "token_refused", "A client's token was wrong or had expired.";
    GateClosed, "gate_closed", "The publisher does not hold the floor of its session.";
    FloodToken, "flood_token", "Too many tokens at once, or wrong ones of one address.";
    AddressFull, "address_full", "More clients of one address than `limits.clients_per_address`.";
    LinkIdentity, "link_identity", "A neighbour's certificate is not its own, or its id is taken.";
    // Where it goes.
    UnknownStream, "unknown_stream", "The stream was never announced here, or has ended.";
    Duplicate, "duplicate", "The event came before, by another way or from a loop.";
    TooOld, "too_old", "The event lies too far behind its stream to tell whether it came before.";
    HopLimit, "hop_limit", "The event crossed as many brokers as it may.";
    CameHome, "came_home", "A neighbour returned an event to the broker where it was published.";
    NoSubscriber, "no_subscriber", "Nobody at this broker wants the stream any more.";
    // Fragments.
    FragmentInvalid, "fragment_invalid", "A fragment lies outside its event or contradicts it.";
    ReassemblyTimeout, "reassembly_timeout", "Other fragments of an event did not come in time.";
    ReassemblyFull, "reassembly_full", "Too many unfinished events of one peer; the oldest went.";
    // Rings between the threads.
    RingFullAudio, "ring_full_audio", "A shard's audio ring was full: the shard is overloaded.";
    RingFullVideo, "ring_full_video", "A shard's video ring was full: the shard is overloaded.";
    RingFullRtcp, "ring_full_rtcp", "A shard's RTCP ring was full: the shard is overloaded.";
    RingFullData, "ring_full_data", "A shard's data ring was full: the shard is overloaded.";
    RingFullFeedback, "ring_full_feedback", "The ring for feedback was full.";
    IngestRingFull, "ingest_ring_full", "The ring from a shard's ports to the lane was full.";
    CommandRingFull, "command_ring_full", "A thread did not take its commands in time.";
    // Shedding.
    VideoLate, "video_late", "A frame was older than `limits::VIDEO_AGE_MAX` at its start.";
    VideoShed, "video_shed", "The rest of a shed frame, or frames until the next key frame.";
    AudioLate, "audio_late", "An audio event was older than `limits::AUDIO_AGE_MAX`.";
    RtcpLate, "rtcp_late", "An RTCP event would have left later than `limits::AUDIO_AGE_MAX`.";
    FeedbackLate, "feedback_late", "Feedback would have left later than `limits::AUDIO_AGE_MAX`.";
    // Sending.
    LinkDown, "link_down", "The link to the neighbour is down.";
    SendBufferFull, "send_buffer_full", "The socket's send buffer was full; raise wmem_max.";
    SendError, "send_error", "The kernel refused a send (unreachable, refused, not permitted).";
    MessageSize, "message_size", "The datagram was larger than the path carries.";
    PeerQueueFull, "peer_queue_full", "A subscriber does not read; its queue is full.";
    PeerGone, "peer_gone", "The subscriber left while the event was on its way.";
    TcpWriteError, "tcp_write_error", "Writing to a TCP peer failed; it is closed.";
    DoorFull, "door_full", "A client in this process does not take its events.";
    // RTP legs.
    LegSource, "leg_source", "A packet came from another address than the leg's.";
    NotRtp, "not_rtp", "The packet is neither RTP nor RTCP, or of an unexpected payload type.";
    // Feedback.
    FeedbackMerged, "feedback_merged", "The same was asked a moment ago; one stands for both.";
    FeedbackFull, "feedback_full", "More streams have feedback at once than the table holds.";
    FeedbackNoWay, "feedback_no_way", "The stream has no parent that could take feedback.";
    NackMissed, "nack_missed", "A lost event is not in the cache any more.";
    // Control.
    ControlOverflow, "control_overflow", "A peer left its control messages unread; it is closed.";
    ControlUnexpected, "control_unexpected", "The control message makes no sense from this peer.";
    ControlStale, "control_stale", "Interest of an earlier life or version of a broker.";
    InterestFull, "interest_full", "The neighbours want more filters than the broker keeps.";
    Forbidden, "forbidden", "A client asked for what is not its to do, such as a system topic.";
    StreamsFull, "streams_full", "The broker knows as many streams as it may.";
    ReliableFull, "reliable_full", "More messages of reliable topics than wait; they come again.";
    FiltersFull, "filters_full", "A client or the broker holds as many filters as it may.";
}

/// How often each [`DropReason`] happened.
#[derive(Clone, Debug)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Drops {
    /// All zero.
    #[must_use]
    pub const fn new() -> Self {
        Self([0; DropReason::ALL.len()])
    }

    /// Counts one.
    #[inline]
    pub const fn count(&mut self, reason: DropReason) {
        self.add(reason, 1);
    }

    /// Counts `n`.
    #[inline]
    pub const fn add(&mut self, reason: DropReason, n: u64) {
        self.0[reason as usize] += n;
    }

    /// How often it happened.
    #[must_use]
    pub const fn get(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Adds another's counts, for instance those of another thread.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Every reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.into_iter().zip(self.0)
    }
}

impl Default for Drops {
    fn default() -> Self {
        Self::new()
    }
}

impl DropReason {
    /// The reason for a full ring of this class.
    #[must_use]
    pub const fn ring_full(class: Class) -> Self {
        match class {
            Class::Audio => Self::RingFullAudio,
            Class::Video => Self::RingFullVideo,
            Class::Rtcp => Self::RingFullRtcp,
            Class::Data => Self::RingFullData,
            Class::Feedback => Self::RingFullFeedback,
        }
    }

    /// The reason for an event of this class that would come too late to be of use. Data never is.
    #[must_use]
    pub const fn late(class: Class) -> Self {
        match class {
            Class::Audio => Self::AudioLate,
            Class::Video => Self::VideoLate,
            Class::Rtcp => Self::RtcpLate,
            Class::Feedback => Self::FeedbackLate,
            Class::Data => Self::SendBufferFull,
        }
    }
}

impl From<WireError> for DropReason {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Version => Self::Version,
            WireError::Class => Self::UnknownClass,
            WireError::Kind => Self::UnknownFrame,
            WireError::Oversized => Self::Oversized,
            _ => Self::Malformed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_has_a_label_of_its_own_that_prometheus_takes() {
        let names: BTreeSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), DropReason::ALL.len());
        assert!(
            names
                .iter()
                .all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
        );
        assert!(DropReason::ALL.iter().all(|r| r.help().ends_with('.')));
    }

    #[test]
    fn counts_of_two_threads_add_up() {
        let (mut a, mut b) = (Drops::new(), Drops::new());
        a.count(DropReason::Malformed);
        b.add(DropReason::Malformed, 2);
        b.count(DropReason::FiltersFull);
        a.merge(&b);
        assert_eq!(a.get(DropReason::Malformed), 3);
        assert_eq!(a.total(), 4);
        let last = DropReason::ALL.len() - 1;
        assert_eq!(a.iter().nth(last), Some((DropReason::FiltersFull, 1)));
    }
}
