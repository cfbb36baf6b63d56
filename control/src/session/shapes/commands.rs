//! The commands.

use super::Kind::{Count, Parts, Text, Truth};
use super::{MEMBER, MODE, OF, ROLE, Shape, may, must, shape};

/// What may be asked of a session: in JSON the value of `do`, in XML the name of the element.
pub const COMMANDS: &[Shape] = &[
    shape("activate", "Begin now, or go on. (chair)", &[]),
    shape(
        "deactivate",
        "Pause: everybody stays, nobody is heard. (chair)",
        &[],
    ),
    shape("finish", "End for good. (chair)", &[]),
    shape("cancel", "Call off what has not begun. (chair)", &[]),
    shape(
        "plan",
        "Other plans; what is left out stays. (chair)",
        &[
            may("title", Text, "What people call it."),
            may("start_ms", Count, "When it begins, in ms since 1970."),
            may("end_ms", Count, "When it ends, in ms since 1970."),
            may(
                "lobby",
                Truth,
                "Whether participants and observers wait to be let in.",
            ),
            may(
                "record",
                Truth,
                "Whether it is recorded from its beginning on.",
            ),
        ],
    ),
    shape(
        "ways",
        "Other ways in than the page, in place of those there were. (chair)",
        &[may(
            "ways",
            Parts("way", "way"),
            "All of them; none if not said.",
        )],
    ),
    shape(
        "lock",
        "Nobody new may come, or again. (chair)",
        &[must("locked", Truth, "Whether it is locked.")],
    ),
    shape(
        "admit",
        "Let somebody in from the lobby. (chair)",
        &[MEMBER],
    ),
    shape("remove", "Send somebody away for good. (chair)", &[MEMBER]),
    shape(
        "role",
        "Give somebody another role. (chair)",
        &[MEMBER, must("role", ROLE, "The role.")],
    ),
    shape(
        "mute",
        "Take a medium from somebody, or give it back. (chair; oneself may be silenced by oneself)",
        &[MEMBER, OF, must("muted", Truth, "Whether it is taken.")],
    ),
    shape(
        "hand",
        "Raise or lower one's hand; a chair may lower another's.",
        &[
            must("raised", Truth, "Whether it goes up."),
            may("member", Text, "Whose; one's own if not said."),
        ],
    ),
    shape(
        "name",
        "Take another name.",
        &[must("name", Text, "The name.")],
    ),
    shape("request", "Ask for a floor of one's room.", &[OF]),
    shape(
        "release",
        "Give a floor back, or stop waiting for it.",
        &[OF],
    ),
    shape(
        "grant",
        "Give somebody a floor of its room. (chair)",
        &[OF, MEMBER],
    ),
    shape(
        "revoke",
        "Take a floor from somebody, or refuse it. (chair)",
        &[OF, MEMBER],
    ),
    shape(
        "floor",
        "Other rules for a floor. (chair)",
        &[
            must("room", Text, "Of which room."),
            OF,
            must("mode", MODE, "How it is given."),
            must("limit", Count, "How many may hold it at once: 1 to 250."),
            may(
                "time_limit_s",
                Count,
                "For how long it is given, in seconds.",
            ),
        ],
    ),
    shape(
        "open",
        "Open a private room. (chair)",
        &[
            must("room", Text, "Its name: a level of a topic."),
            may("title", Text, "What people call it."),
        ],
    ),
    shape(
        "close",
        "Close a private room; who is in it goes to `main`. (chair)",
        &[must("room", Text, "Which.")],
    ),
    shape(
        "move",
        "Send somebody to a room. (chair)",
        &[MEMBER, must("room", Text, "Which.")],
    ),
    shape(
        "chat",
        "Say something to one's room, or to one member.",
        &[
            must("text", Text, "What: up to 2,000 bytes."),
            may("to", Text, "To whom alone."),
        ],
    ),
    shape(
        "react",
        "React with an emoji.",
        &[must("text", Text, "Which.")],
    ),
    shape(
        "record",
        "Have the session recorded, or no more. (chair)",
        &[must("on", Truth, "Whether it is recorded.")],
    ),
    shape(
        "replay",
        "Watch a recording of this session in one's room, together. (chair, presenter)",
        &[must("recording", Text, "Which, of `GET .../recordings`.")],
    ),
    shape(
        "play",
        "Pause what is replayed, go on, or go elsewhere in it. (chair, presenter)",
        &[
            must("playing", Truth, "Whether it goes on."),
            may("position_ms", Count, "Where to, in ms since its beginning."),
        ],
    ),
    shape(
        "annotate",
        "Say something of a place in what is replayed, for all who watch it later. (who may chat)",
        &[
            must("text", Text, "What: up to 500 bytes."),
            may(
                "position_ms",
                Count,
                "Of which place, in ms since its beginning; of where it is if not said.",
            ),
        ],
    ),
    shape("stop", "End what is replayed. (chair, presenter)", &[]),
    shape("leave", "Leave.", &[]),
];
