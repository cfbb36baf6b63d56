//! What a keeper counts.

/// Everything that is kept, passed, or let go, since the start unless it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Topics kept now.
    pub topics: u64,
    /// Records kept now.
    pub records: u64,
    /// Bytes they take now.
    pub bytes: u64,
    /// Feeds to clients and brokers now.
    pub feeds: u64,
    /// Records taken from publishers.
    pub pushed: u64,
    /// Records taken from other brokers.
    pub fed: u64,
    /// Records handed to feeds, repetitions included.
    pub sent: u64,
    /// Records that came again and were ignored.
    pub duplicate: u64,
    /// Times a feed had to send again.
    pub resent: u64,
    /// Pushes that were put off as their topic or the broker is full.
    pub held_back: u64,
    /// Records dropped by age or number, as the configuration asks.
    pub expired: u64,
    /// Times records could not be had from anybody and were given up.
    pub gaps: u64,
    /// Feeds cut off as their receiver stayed too far behind.
    pub cut_off: u64,
    /// Requests refused for want of room: topics, publishers, feeds.
    pub refused: u64,
    /// Messages that made no sense here.
    pub unexpected: u64,
}
