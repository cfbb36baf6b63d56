//! What a session may grow to. Past a bound there is a [`crate::Refusal`] that names it.

/// Members of one session, those in the lobby included.
pub const MEMBERS_MAX: usize = 10_000;
/// Rooms of one session, `main` included.
pub const ROOMS_MAX: usize = 64;
/// Who may hold one floor at once.
pub const HOLDERS_MAX: u16 = 250;
/// Who may wait for one floor.
pub const QUEUE_MAX: usize = 500;
/// The longest time a floor may be given for, in seconds.
pub const FLOOR_TIME_S_MAX: u32 = 86_400;
/// Lines of chat that are kept; older ones are forgotten.
pub const CHAT_KEPT: usize = 200;
/// Bytes of a line of chat.
pub const CHAT_LEN_MAX: usize = 2_000;
/// Characters of a person's name or a title.
pub const NAME_CHARS_MAX: usize = 100;
/// Bytes of the identity that a token names.
pub const IDENTITY_LEN_MAX: usize = 128;
/// Bytes of a tenant, session or room: one level of a topic.
pub const LEVEL_LEN_MAX: usize = 48;
/// Bytes of a reaction: one emoji, with all that joins it.
pub const REACTION_LEN_MAX: usize = 40;
/// Capabilities that a client may name.
pub const CAPABILITIES_MAX: usize = 32;
/// Bytes of one capability or service name.
pub const WORD_LEN_MAX: usize = 32;
/// Services that a session may need.
pub const SERVICES_MAX: usize = 16;
/// Other ways into a session that people are told of.
pub const WAYS_MAX: usize = 16;
/// Bytes of the URI of one.
pub const URI_LEN_MAX: usize = 512;
/// Identities that were removed and may not come back; the oldest is forgotten.
pub const BARRED_MAX: usize = 1_000;
/// How long a member whose connection is gone keeps its place, in milliseconds.
pub const AWAY_MS_MAX: u64 = 30_000;
/// How long a recorder or player may be silent before it is taken for gone, in milliseconds.
pub const LEASE_MS: u64 = 5_000;
/// Bytes of what an archive calls a recording.
pub const RECORDING_LEN_MAX: usize = 32;
/// People of a recording that are shown in a replay.
pub const PLAYED_MAX: usize = 32;
/// Lines of chat that a player may tell at once.
pub const SAID_MAX: usize = 20;
/// Annotations of one recording.
pub const ANNOTATIONS_MAX: usize = 200;
/// Those of one name among them, so that nobody takes all.
pub const ANNOTATIONS_OF_ONE_MAX: usize = 50;
/// Bytes of one.
pub const ANNOTATION_LEN_MAX: usize = 500;
/// Annotations that a player may tell at once.
pub const RECALLED_MAX: usize = 20;
/// Annotations of a session that no recorder has written down yet.
pub const UNKEPT_MAX: usize = 200;
/// The longest recording that is replayed, in milliseconds: 30 days.
pub const LENGTH_MS_MAX: u64 = 30 * 24 * 3_600 * 1_000;
