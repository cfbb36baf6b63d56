// tidy: data table
//! Sessions and what is in them, as people and programs are shown them.

use super::Kind::{Count, Part, Parts, Text, Texts, Truth, Word};
use super::{Kind, MEDIUM, MEMBER, MODE, OF, ROLE, Shape, may, must, shape};

const STATE: Kind = Word(&[
    "created",
    "canceled",
    "activated",
    "deactivated",
    "finished",
]);
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

/// Documents that are answered, and their parts, without those of recordings.
pub(super) const SHAPES: &[Shape] = &[
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
