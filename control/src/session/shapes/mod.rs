// tidy: data table
//! The documents of the API, as a table: the one place that says what they hold.
//!
//! [`super::xml`] reads and writes XML by it, [`super::spec`] writes the XML schema and
//! [`crate::openapi`] the OpenAPI document from it, and a test holds the types that serde knows
//! against it.

mod commands;

pub use commands::COMMANDS;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number from 0 on.
    Count,
    /// Any number.
    Number,
    /// Yes or no.
    Truth,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Another document of this shape.
    Part(&'static str),
    /// A list of texts; in XML, elements of this name.
    Texts(&'static str),
    /// A list of documents; in XML, elements of this name; and their shape.
    Parts(&'static str, &'static str),
}

/// One field of a document.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name, in JSON and XML.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it is always there.
    pub needed: bool,
    /// Whether JSON may say `null`, which means that there is none.
    pub null: bool,
    /// What it means.
    pub about: &'static str,
}

/// One kind of document.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its name: that of the element, in XML.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// What it holds.
    pub fields: &'static [Field],
}

/// A field that is always there.
#[must_use]
pub const fn must(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field {
        name,
        kind,
        needed: true,
        null: false,
        about,
    }
}

/// A field that may be left out.
#[must_use]
pub const fn may(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field {
        needed: false,
        ..must(name, kind, about)
    }
}

/// A field that is always there, and may be `null`.
#[must_use]
pub const fn or_null(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field {
        null: true,
        ..must(name, kind, about)
    }
}

/// A kind of document.
#[must_use]
pub const fn shape(name: &'static str, about: &'static str, fields: &'static [Field]) -> Shape {
    Shape {
        name,
        about,
        fields,
    }
}

use Kind::{Count, Part, Parts, Text, Texts, Truth, Word};

const STATE: Kind = Word(&[
    "created",
    "canceled",
    "activated",
    "deactivated",
    "finished",
]);
const ROLE: Kind = Word(&["chair", "presenter", "participant", "observer"]);
const MEDIUM: Kind = Word(&["audio", "video", "screen", "board"]);
const MODE: Kind = Word(&["free", "moderated"]);
const WHY: Kind = Word(&[
    "itself", "taken", "muted", "expired", "lost", "replaced", "moved", "ended",
]);
/// Every kind of event that is shown.
const EVENT: Kind = Word(&[
    "created",
    "fenced",
    "planned",
    "state",
    "service",
    "locked",
    "joined",
    "away",
    "back",
    "left",
    "barred",
    "named",
    "role",
    "moved",
    "muted",
    "hand",
    "opened",
    "closed",
    "floor",
    "requested",
    "withdrawn",
    "granted",
    "released",
    "chat",
    "reacted",
    "recording",
    "replay",
    "annotated",
    "recalled",
    "kept",
]);
const MEMBER: Field = must("member", Text, "A member, such as `m17`.");
const OF: Field = must("medium", MEDIUM, "Which medium.");

/// What is asked by `POST /v1/sessions`.
pub const CREATE: Shape = shape(
    "create",
    "A session to be made.",
    &[
        must(
            "tenant",
            Text,
            "First level of its topics: 1 to 48 of a-z, A-Z, 0-9, '-', '_', '.'.",
        ),
        must(
            "name",
            Text,
            "Second level of its topics, of the same letters.",
        ),
        must(
            "title",
            Text,
            "What people call it: up to 100 characters of any script.",
        ),
        may(
            "start_ms",
            Count,
            "When it begins, in ms since 1970; at once if not said.",
        ),
        may(
            "end_ms",
            Count,
            "When it ends; a day after its beginning if not said.",
        ),
        may(
            "lobby",
            Truth,
            "Whether participants and observers wait to be let in.",
        ),
        may(
            "needs",
            Texts("need"),
            "Services without which it does not begin.",
        ),
        may(
            "ways",
            Parts("way", "way"),
            "Other ways in than the page, up to 16; those of the server if not said.",
        ),
        may(
            "record",
            Truth,
            "Whether it is recorded from its beginning on; it needs a recorder then.",
        ),
    ],
);

/// What is asked by `POST .../tokens`.
pub const INVITE: Shape = shape(
    "invite",
    "A token to be made for somebody.",
    &[
        must(
            "identity",
            Text,
            "Who it is for; the same identity is in a session once.",
        ),
        may("name", Text, "What others shall call it."),
        may(
            "role",
            ROLE,
            "What it is there for; a participant if not said.",
        ),
        may(
            "publish",
            Texts("source"),
            "Only `microphone`, `camera`, `screen_share`, `board`.",
        ),
        may(
            "ttl_s",
            Count,
            "For how many seconds it is good, up to 2,592,000; 21,600 if not said.",
        ),
    ],
);

/// What is told by `PUT /v1/recorders/{recorder}`.
pub const BEAT: Shape = shape(
    "beat",
    "What a recorder does, said again at least every 5 s.",
    &[
        may(
            "known",
            Count,
            "The `revision` it was told last: the answer waits up to a second for a later one.",
        ),
        must("places", Count, "How many more sessions it can record."),
        may(
            "records",
            Parts("following", "following"),
            "Sessions it records, or begins to.",
        ),
        may(
            "replays",
            Parts("player", "player"),
            "Sessions in which it replays.",
        ),
        may(
            "lists",
            Truth,
            "Whether `recordings` is given; it stays as it was otherwise.",
        ),
        may(
            "recordings",
            Parts("recording", "recording"),
            "Recordings of sessions that it has, the newest 500.",
        ),
        may(
            "kept",
            Parts("kept", "kept"),
            "Annotations that are part of their recordings now, up to 200.",
        ),
    ],
);

/// What is sent and is no command.
pub const SENT: [&Shape; 3] = [&CREATE, &INVITE, &BEAT];

/// Documents that are answered, and their parts.
pub const SHAPES: &[Shape] = &[
    shape(
        "session",
        "A session.",
        &[
            must("tenant", Text, "First level of its topics."),
            must("name", Text, "Second level of its topics."),
            must("title", Text, "What people call it."),
            must("state", STATE, "Where it stands."),
            may("start_ms", Count, "When it begins, in ms since 1970."),
            may("end_ms", Count, "When it ends, in ms since 1970."),
            must(
                "lobby",
                Truth,
                "Whether participants and observers wait to be let in.",
            ),
            must("locked", Truth, "Whether nobody new may come."),
            must("epoch", Count, "Which holder of the session wrote last."),
            must("seq", Count, "The number of its last event."),
            must("members_total", Count, "How many members there are."),
            must("waiting_total", Count, "How many of them are in the lobby."),
            may(
                "services",
                Parts("service", "service"),
                "Services it needs.",
            ),
            may("ways", Parts("way", "way"), "Other ways in than the page."),
            may(
                "rooms",
                Parts("room", "room"),
                "Its rooms; `main` is always there.",
            ),
            may("chat", Parts("line", "line"), "The last lines of chat."),
            may(
                "recording",
                Part("wanted"),
                "The recording that is wanted of it.",
            ),
            may(
                "replay",
                Part("replay"),
                "The recording that is watched in it.",
            ),
            may(
                "annotations",
                Parts("annotation", "annotation"),
                "What was said of that recording, by place.",
            ),
            may("members", Parts("member", "member"), "Up to 200 members."),
            may(
                "server",
                Text,
                "In lists, where several servers share sessions: the one that has it, if one does.",
            ),
        ],
    ),
    shape(
        "service",
        "A service that a session needs.",
        &[
            must("name", Text, "Which."),
            must("ready", Truth, "Whether it is ready."),
        ],
    ),
    shape(
        "way",
        "A way in: a telephone, a room system, a player.",
        &[
            must(
                "label",
                Text,
                "What people call it, such as `Berlin, freephone`.",
            ),
            must(
                "uri",
                Text,
                "Where it leads: tel:, sip:, sips:, h323:, rtsp:, rtsps: or https:, up to 512 \
                 bytes.",
            ),
        ],
    ),
    shape(
        "invitation",
        "What whoever may join a session is told before.",
        &[
            must("tenant", Text, "First level of its topics."),
            must("name", Text, "Second level of its topics."),
            must("title", Text, "What people call it."),
            must("state", STATE, "Where it stands."),
            may("start_ms", Count, "When it begins, in ms since 1970."),
            may("end_ms", Count, "When it ends, in ms since 1970."),
            must("link", Text, "Where people join with a browser."),
            may("ways", Parts("way", "way"), "Other ways in."),
        ],
    ),
    shape(
        "room",
        "A room: `main`, or a private one.",
        &[
            must("name", Text, "Third level of its topics."),
            must("title", Text, "What people call it."),
            must(
                "floors",
                Parts("floor", "floor"),
                "Its floors, one for each medium.",
            ),
        ],
    ),
    shape(
        "floor",
        "Who may send a medium in a room.",
        &[
            OF,
            must("mode", MODE, "How it is given."),
            must("limit", Count, "How many may hold it at once."),
            may(
                "time_limit_s",
                Count,
                "For how long it is given, in seconds.",
            ),
            must(
                "holders",
                Parts("holder", "holder"),
                "Who holds it; the first was first.",
            ),
            must(
                "queue",
                Texts("waiting"),
                "Who waits for it; the first asked first.",
            ),
        ],
    ),
    shape(
        "holder",
        "Who holds a floor.",
        &[
            MEMBER,
            may("until_ms", Count, "Until when, in ms since 1970."),
        ],
    ),
    shape(
        "member",
        "Somebody in a session.",
        &[
            must(
                "id",
                Text,
                "Its number, such as `m17`; last level of its topics.",
            ),
            must("identity", Text, "Who it is, as its token says."),
            must("name", Text, "What others call it."),
            must("role", ROLE, "What it is there for."),
            may(
                "room",
                Text,
                "Where it is; nowhere while it waits in the lobby.",
            ),
            may(
                "hand_ms",
                Count,
                "Since when its hand is up, in ms since 1970.",
            ),
            must("joined_ms", Count, "When it came, in ms since 1970."),
            may(
                "away_ms",
                Count,
                "Since when its connection is gone, in ms since 1970.",
            ),
            must(
                "capabilities",
                Texts("capability"),
                "What its client can do.",
            ),
            must(
                "muted",
                Texts("medium"),
                "Media that a chair has taken from it.",
            ),
            must("rights", Part("rights"), "What its token grants."),
        ],
    ),
    shape(
        "rights",
        "What a token grants.",
        &[
            must("publish", Texts("medium"), "Media it may ever send."),
            must("subscribe", Truth, "Whether it may receive."),
            must("chat", Truth, "Whether it may chat and react."),
            must("admin", Truth, "Whether it may lead as a chair does."),
        ],
    ),
    shape(
        "line",
        "A line of chat.",
        &[
            must("seq", Count, "Its number in the log."),
            must("at_ms", Count, "When, in ms since 1970."),
            must("from", Text, "Who."),
            may("to", Text, "To whom alone."),
            may("room", Text, "In which room."),
            must("text", Text, "What."),
        ],
    ),
    shape(
        "sessions",
        "Sessions by name.",
        &[must(
            "sessions",
            Parts("session", "session"),
            "Them, without their people, by `tenant/name`.",
        )],
    ),
    shape(
        "servers",
        "Session servers that share their sessions.",
        &[must(
            "servers",
            Parts("server", "server"),
            "Them, the one that was asked first; none if it shares its sessions with nobody.",
        )],
    ),
    shape(
        "server",
        "A session server.",
        &[
            must("broker", Text, "Its broker, by its id."),
            must("url", Text, "How it is reached."),
            must("sessions", Count, "How many sessions it has."),
        ],
    ),
    shape(
        "members",
        "A page of members.",
        &[
            must("total", Count, "How many there are in all."),
            must(
                "members",
                Parts("member", "member"),
                "Those of this page, by number.",
            ),
        ],
    ),
    shape(
        "token",
        "A token for joining.",
        &[
            must("token", Text, "A JWT."),
            must("expires_ms", Count, "When it ends, in ms since 1970."),
        ],
    ),
    shape(
        "done",
        "What was asked is done, and kept.",
        &[must(
            "seq",
            Count,
            "The number of the session's last event by then.",
        )],
    ),
    shape(
        "events",
        "Entries of a session's log.",
        &[must("events", Parts("event", "event"), "Them, in order.")],
    ),
    shape(
        "event",
        "An entry of the log. Which fields there are depends on `event`.",
        &[
            must("seq", Count, "Its number."),
            must("at_ms", Count, "When it happened, in ms since 1970."),
            must("epoch", Count, "Which holder of the session wrote it."),
            must("event", EVENT, "What happened."),
            may("member", Text, "To whom."),
            may("medium", MEDIUM, "Which medium."),
            may("room", Text, "In which room."),
            may("state", STATE, "The new state."),
            may("role", ROLE, "The new role."),
            may("name", Text, "The new name, or the service."),
            may("title", Text, "The room's title."),
            may("identity", Text, "Who may not come back."),
            may("why", WHY, "Why it is over."),
            may("ready", Truth, "Whether the service is ready."),
            may("locked", Truth, "Whether nobody new may come."),
            may("muted", Truth, "Whether the medium is taken."),
            may("raised", Truth, "Whether the hand is up."),
            may(
                "until_ms",
                Count,
                "Until when the floor is given, in ms since 1970.",
            ),
            may("from", Text, "Who said it."),
            may("to", Text, "To whom alone."),
            may("text", Text, "What was said."),
            may("session", Part("name"), "The session's name."),
            may("plan", Part("planned"), "What is planned."),
            may("person", Part("member"), "Who came."),
            may("rules", Part("rules"), "The floor's rules."),
            may("on", Truth, "Whether the session is to be recorded."),
            may(
                "replay",
                Part("replay"),
                "What is watched; nothing any more without.",
            ),
            may(
                "annotation",
                Part("annotation"),
                "What was said of what is watched.",
            ),
            may(
                "annotations",
                Parts("recalled", "annotation"),
                "What was said of it before.",
            ),
            may(
                "number",
                Count,
                "The event by which it was said that is part of the recording now.",
            ),
        ],
    ),
    shape(
        "annotation",
        "What somebody said of a place in a recording while watching it.",
        &[
            must("recording", Text, "Which recording."),
            must(
                "position_ms",
                Count,
                "The place, in ms since its beginning.",
            ),
            must("said_ms", Count, "When it was said, in ms since 1970."),
            must("number", Count, "The event by which it was said."),
            must("name", Text, "What the one was called who said it."),
            must("text", Text, "What: up to 500 bytes."),
        ],
    ),
    shape(
        "wanted",
        "A recording that is wanted. Whether it is made says the service `recorder`.",
        &[
            may(
                "member",
                Text,
                "Who wants it; the plan or an operator if not said.",
            ),
            must("since_ms", Count, "Since when, in ms since 1970."),
        ],
    ),
    shape(
        "replay",
        "A recording that is watched together.",
        &[
            must("recording", Text, "Which."),
            must("room", Text, "In which room."),
            may("member", Text, "Who began it."),
            must("since_ms", Count, "Since when, in ms since 1970."),
            must(
                "order",
                Count,
                "The number of the event that says where to go on.",
            ),
            must("playing", Truth, "Whether it goes on."),
            must("position_ms", Count, "Where it was at `at_ms`."),
            must("at_ms", Count, "When it was there, in ms since 1970."),
            may("length_ms", Count, "How long it is, once it is found."),
            may(
                "people",
                Parts("played", "played"),
                "Members that stand for those who were recorded.",
            ),
        ],
    ),
    shape(
        "played",
        "A member that stands for one of a recording.",
        &[
            must("source", Text, "Who it is there."),
            must("member", Text, "Who it is here."),
        ],
    ),
    shape(
        "recordings",
        "Recordings of a session.",
        &[must(
            "recordings",
            Parts("recording", "recording"),
            "Those of recorders that are there, the oldest first.",
        )],
    ),
    shape(
        "recording",
        "A recording of a session.",
        &[
            must("id", Text, "What its archive calls it."),
            must("tenant", Text, "The session's tenant."),
            must("name", Text, "The session's name."),
            must("begin_ms", Count, "When it began, in ms since 1970."),
            must("length_ms", Count, "How long it is so far."),
            must("over", Truth, "Whether it was ended in order."),
            may(
                "annotations",
                Count,
                "How much was said of it by those who watched it.",
            ),
        ],
    ),
    shape(
        "kept",
        "An annotation that is part of its recording now.",
        &[
            must("tenant", Text, "First level of the session's topics."),
            must("name", Text, "Second level of the session's topics."),
            must("number", Count, "The event by which it was said."),
        ],
    ),
    shape(
        "following",
        "A session that a recorder records.",
        &[
            must("tenant", Text, "First level of its topics."),
            must("name", Text, "Second level of its topics."),
            must("after", Count, "The last event it knows; 0 if none."),
            must("begun", Truth, "Whether it records already."),
        ],
    ),
    shape(
        "player",
        "What comes of a replay.",
        &[
            must("tenant", Text, "First level of the session's topics."),
            must("name", Text, "Second level of the session's topics."),
            must("order", Count, "The order that it follows."),
            may(
                "length_ms",
                Count,
                "It has found the recording: how long that is.",
            ),
            may(
                "people",
                Parts("person", "person"),
                "And who is in it, up to 32.",
            ),
            may(
                "position_ms",
                Count,
                "Where it goes on, if not where it was asked to.",
            ),
            may(
                "said",
                Parts("said", "said"),
                "What was said there just now.",
            ),
            may(
                "recalled",
                Parts("annotation", "annotation"),
                "What was said of it by those who watched it before, up to 20 at once.",
            ),
            may("failed", Truth, "Whether it cannot play it."),
        ],
    ),
    shape(
        "person",
        "Somebody in a recording.",
        &[
            must("source", Text, "Who it is there."),
            must("name", Text, "What it was called."),
            may("media", Texts("medium"), "What there is of it."),
        ],
    ),
    shape(
        "said",
        "A line of chat in a recording.",
        &[
            must("source", Text, "Who said it, there."),
            must("text", Text, "What."),
        ],
    ),
    shape(
        "work",
        "What a recorder has to do.",
        &[
            must("revision", Count, "Grows when there may be something new."),
            must("listed", Truth, "Whether its recordings are known."),
            must(
                "records",
                Parts("task", "task"),
                "Sessions it is to record.",
            ),
            must(
                "replays",
                Parts("replaying", "replaying"),
                "Sessions in which it is to replay.",
            ),
            may(
                "annotations",
                Parts("said-of", "said-of"),
                "What is to become part of recordings that it has.",
            ),
        ],
    ),
    shape(
        "task",
        "A session that is to be recorded.",
        &[
            must("tenant", Text, "First level of its topics."),
            must("name", Text, "Second level of its topics."),
            must("after", Count, "The last event that is told."),
            may(
                "session",
                Part("session"),
                "The whole session, at the begin.",
            ),
            may(
                "events",
                Parts("event", "event"),
                "What happened since, without resume keys and what was said to one alone.",
            ),
        ],
    ),
    shape(
        "said-of",
        "An annotation that is to become part of its recording.",
        &[
            must("tenant", Text, "First level of the session's topics."),
            must("name", Text, "Second level of the session's topics."),
            must("annotation", Part("annotation"), "What was said."),
        ],
    ),
    shape(
        "replaying",
        "A session in which something is to be replayed.",
        &[
            must("tenant", Text, "First level of its topics."),
            must("name", Text, "Second level of its topics."),
            must("replay", Part("replay"), "What, and where in it."),
        ],
    ),
    shape(
        "name",
        "A session's name.",
        &[
            must("tenant", Text, "First level of its topics."),
            must("name", Text, "Second level of its topics."),
        ],
    ),
    shape(
        "planned",
        "What is planned.",
        &[
            must("title", Text, "What people call it."),
            may("start_ms", Count, "When it begins, in ms since 1970."),
            may("end_ms", Count, "When it ends, in ms since 1970."),
            must(
                "lobby",
                Truth,
                "Whether participants and observers wait to be let in.",
            ),
            may(
                "needs",
                Texts("need"),
                "Services without which it does not begin.",
            ),
            may("ways", Parts("way", "way"), "Other ways in than the page."),
            may(
                "record",
                Truth,
                "Whether it is recorded from its beginning on.",
            ),
        ],
    ),
    shape(
        "rules",
        "A floor's rules.",
        &[
            must("mode", MODE, "How it is given."),
            must("limit", Count, "How many may hold it at once."),
            may(
                "time_limit_s",
                Count,
                "For how long it is given, in seconds.",
            ),
        ],
    ),
    shape(
        "problem",
        "Why something was not done.",
        &[
            must("error", Text, "What happened, for people."),
            must("hint", Text, "What to do about it; may be empty."),
            may("code", Text, "The same for programs."),
            may("at", Text, "The server that does it."),
        ],
    ),
];

/// The shape of this name, among those that are answered.
#[must_use]
pub fn find(name: &str) -> Option<&'static Shape> {
    SHAPES.iter().find(|shape| shape.name == name)
}
