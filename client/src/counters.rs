//! What a client counts.

use core::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the client was made. Each event that is lost here is in exactly one of
        /// the counts of drops.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct ClientCounters {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The live counts, written by the client, its publishers and its driver.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Count,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> ClientCounters {
                ClientCounters { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Events that publishers queued to be sent.
    published,
    /// Bytes of those events, headers included.
    published_bytes,
    /// Events handed to the application.
    received,
    /// Bytes of those events, headers included.
    received_bytes,
    /// Datagrams of events that came by a group, whatever became of them.
    by_group,
    /// Times the link came up.
    ups,
    /// Times a better way took over while the link was up.
    moves,
    /// Dropped: published while the link was down.
    dropped_down,
    /// Dropped: published faster than the driver or broker takes it.
    dropped_send_queue,
    /// Dropped: the kernel refused it or had no room for it.
    dropped_send,
    /// Dropped: video that the application did not read in time.
    dropped_video,
    /// Dropped: anything else that the application did not read in time.
    dropped_other,
    /// Dropped: no buffer was left, as the application holds on to too many packets.
    dropped_pool,
    /// Dropped: bytes that are no event or frame, or not from the broker.
    dropped_malformed,
    /// Dropped: events of which a piece did not come.
    dropped_incomplete,
    /// Dropped: events of a stream with a group that came before already.
    dropped_twice,
    /// Dropped: datagrams to a group that its broker did not send.
    dropped_forged,
}

/// One count.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
