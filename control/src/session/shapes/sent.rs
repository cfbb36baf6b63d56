// tidy: data table
//! What is asked and is no command.

use super::Kind::{Count, Parts, Text, Texts, Truth};
use super::{ROLE, Shape, may, must, shape};

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
