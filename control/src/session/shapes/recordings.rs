// tidy: data table
//! Recordings: what recorders tell and are told, and what people are shown of them.

use super::Kind::{Count, Part, Parts, Text, Texts, Truth};
use super::{Shape, may, must, shape};

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

/// Documents of recordings that are answered, and their parts.
pub(super) const SHAPES: &[Shape] = &[
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
];
