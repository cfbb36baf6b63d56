//! The changes that members and operators make to a session.

use serde_json::{Value, json};

/// Who asks for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The one who leads.
    Chair,
    /// Some other member.
    Member,
    /// Whoever runs the server, over HTTP.
    Operator,
    /// A member that leaves by it.
    Leaver,
    /// Somebody who joins: nothing is asked.
    Newcomer,
}

/// One change.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// What it is, in reports.
    pub(super) kind: &'static str,
    pub(super) asker: Asker,
    pub(super) command: Value,
    /// What stands in its event alone.
    pub(super) mark: String,
}

/// Rounds of [`round`].
pub(super) const ROUNDS: usize = 2;

/// One change of each kind, in an order that is possible. `member` is the one who does what any
/// member may do.
pub(super) fn round(number: usize, member: &str) -> Vec<Change> {
    let event = |name: &str| format!("\"event\":\"{name}\"");
    let text = format!("line {number}");
    let room = format!("side-{number}");
    let screen = |what: &str| json!({ "do": what, "medium": "screen", "member": member });
    let mute =
        |muted| json!({ "do": "mute", "medium": "screen", "member": member, "muted": muted });
    // Rules that are as they were would be no change.
    let rules = json!({
        "do": "floor", "room": "main", "medium": "screen", "mode": "moderated", "limit": number + 2,
    });
    let title = json!({ "do": "plan", "title": format!("Crowd {number}") });
    let of = |kind, asker, command, mark| Change {
        kind,
        asker,
        command,
        mark,
    };
    use Asker::{Chair, Leaver, Member, Newcomer, Operator};
    let lock = |locked| json!({ "do": "lock", "locked": locked });
    let role = json!({ "do": "role", "member": member, "role": "presenter" });
    let name = json!({ "do": "name", "name": format!("Anna {number}") });
    let hand = json!({ "do": "hand", "raised": false, "member": member });
    vec![
        of("lock", Chair, lock(true), event("locked")),
        of("unlock", Chair, lock(false), event("locked")),
        of("chat", Member, json!({ "do": "chat", "text": text }), text),
        of(
            "hand up",
            Member,
            json!({ "do": "hand", "raised": true }),
            event("hand"),
        ),
        of("hand down", Chair, hand, event("hand")),
        of("floor rules", Chair, rules, event("floor")),
        of(
            "floor asked",
            Member,
            json!({ "do": "request", "medium": "screen" }),
            event("requested"),
        ),
        of("floor given", Chair, screen("grant"), event("granted")),
        of("mute", Chair, mute(true), event("muted")),
        of("unmute", Chair, mute(false), event("muted")),
        of("name", Member, name, event("named")),
        of("role", Chair, role, event("role")),
        of(
            "reaction",
            Member,
            json!({ "do": "react", "text": "+" }),
            event("reacted"),
        ),
        of("title", Operator, title, event("planned")),
        of(
            "room opened",
            Chair,
            json!({ "do": "open", "room": room }),
            event("opened"),
        ),
        of(
            "room closed",
            Chair,
            json!({ "do": "close", "room": room }),
            event("closed"),
        ),
        of("leaving", Leaver, json!({ "do": "leave" }), event("left")),
        of("joining", Newcomer, Value::Null, event("joined")),
    ]
}

/// The change of a member among many who ask at the same moment: of three kinds in turn.
pub(super) fn at_once(number: usize, member: &str) -> Change {
    let event = |name: &str| format!("\"event\":\"{name}\",\"member\":\"{member}\"");
    let (kind, command, mark) = match number % 3 {
        0 => {
            let text = format!("at once {number}.");
            ("chat", json!({ "do": "chat", "text": text }), text)
        }
        1 => {
            let command = json!({ "do": "hand", "raised": true });
            ("hand up", command, event("hand"))
        }
        _ => {
            let command = json!({ "do": "name", "name": format!("Bert {number}") });
            ("name", command, event("named"))
        }
    };
    Change {
        kind,
        asker: Asker::Member,
        command,
        mark,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_thirty_changes_and_more() {
        let all: Vec<_> = (0..ROUNDS).flat_map(|number| round(number, "m7")).collect();
        assert!(all.len() >= 30, "{}", all.len());
    }

    #[test]
    fn changes_at_once_are_told_apart() {
        let marks: Vec<_> = (0..36)
            .map(|number| at_once(number, &format!("m{number}")).mark)
            .collect();
        for mark in &marks {
            assert_eq!(marks.iter().filter(|one| one.contains(mark)).count(), 1);
        }
    }
}
