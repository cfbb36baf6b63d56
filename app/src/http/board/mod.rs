//! The whiteboard of a room, for pages: its reliable topic behind a WebSocket.
//!
//! A member draws with the floor `board` only, as with every medium. Reliable topics know no
//! floors, so this door keeps them: `tenant/session/room/board` itself is granted to no member,
//! and what a page sends is published there while the gate of `.../board/MEMBER` is open.
//! docs/spec/board.md says what is said here.
//!
//! The board of a recording that is watched comes through the same door, to be looked at only.

mod counts;
mod line;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use axum::body::Bytes;
use axum::extract::Path;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::HeaderMap;
use axum::response::Response;
use sangam_broker::{Gates, TopicGate};
use sangam_control::Problem;
use sangam_control::openapi::{Answer, Routes, get};
use sangam_control::session::unix_ms;
use sangam_io::clock;
use sangam_model::{Class, Filter, Time, Topic};
use sangam_node::Sample;

use super::access::unbelieved;
use super::{Access, Shared, State, origins};
use crate::replayed::{self, Turn};
use counts::{Counts, Refused};

/// Boards that pages of one broker have open at once; each has a door of its own.
const OPEN_MAX: usize = 1_000;
/// Of these, one member's: windows of its page, and lines that are dead and not yet known to be.
const LINES_MAX: usize = 4;
/// Bytes of an event, as reliable topics have it.
const EVENT_LEN_MAX: usize = 65_536;

/// The boards of a broker: who may draw, and what was counted.
#[derive(Debug, Default)]
pub(crate) struct Boards {
    floors: RwLock<Gates>,
    /// How many each member has open, by the topic of its floor.
    lines: Mutex<HashMap<Topic, usize>>,
    counts: Counts,
}

/// One open board among [`OPEN_MAX`]; counted until it is dropped.
#[derive(Debug)]
struct Ticket {
    boards: Arc<Boards>,
    own: Topic,
}

/// Where a member draws.
#[derive(Debug)]
struct Place {
    /// The board's topic.
    board: Topic,
    /// The topic that stands for the member's floor.
    own: Topic,
    /// Of a recording's board: what of its topic is looked at, without drawing.
    turn: Option<Turn>,
}

/// What a member's token says of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rights {
    /// Whether it may draw, while it holds the floor.
    draws: bool,
    /// Whether it waits until something was said of floors here.
    gated: bool,
    /// When that ends, in milliseconds since 1970.
    until_ms: u64,
}

impl Boards {
    /// Takes a session server's word on who holds a floor.
    pub(crate) fn gate(&self, prefix: &Topic, gate: TopicGate) {
        let mut floors = self.floors.write().unwrap_or_else(PoisonError::into_inner);
        floors.set(clock::now(), prefix, gate);
    }

    /// Samples for `/metrics`.
    pub(super) fn samples(&self) -> Vec<Sample> {
        self.counts.samples()
    }

    /// Whether a member draws whose floor this topic stands for.
    fn is_open(&self, topic: &Topic, rights: Rights) -> bool {
        let floors = self.floors.read().unwrap_or_else(PoisonError::into_inner);
        rights.draws && floors.is_open(topic, Class::Data) && (!rights.gated || floors.know(topic))
    }

    /// One more for the member whose floor `own` stands for, if there is room.
    fn enter(self: &Arc<Self>, own: &Topic) -> Option<Ticket> {
        let mut lines = self.lines();
        let open = self.counts.open.load(Ordering::Relaxed);
        let theirs = lines.get(own).copied().unwrap_or_default();
        if open >= OPEN_MAX || theirs >= LINES_MAX {
            return None;
        }
        lines.insert(own.clone(), theirs + 1);
        self.counts.open.store(open + 1, Ordering::Relaxed);
        Some(Ticket {
            boards: Arc::clone(self),
            own: own.clone(),
        })
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Topic, usize>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut lines = self.boards.lines();
        match lines.get_mut(&self.own) {
            Some(theirs) if *theirs > 1 => *theirs -= 1,
            _ => {
                lines.remove(&self.own);
            }
        }
        self.boards.counts.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Place {
    fn new(levels: [&str; 4]) -> Result<Self, Problem> {
        let [tenant, session, room, member] = levels;
        let topic = |text: String| {
            let one_level = levels.iter().all(|level| !level.contains('/'));
            let topic = Topic::new(&text).ok();
            let topic = topic.filter(|topic| one_level && !topic.is_system());
            topic.ok_or_else(|| Problem::bad("a session, a room or a member has no such name"))
        };
        Ok(Self {
            board: topic(format!("{tenant}/{session}/{room}/board"))?,
            own: topic(format!("{tenant}/{session}/{room}/board/{member}"))?,
            turn: None,
        })
    }

    /// The board of the recording that is watched in the room.
    fn replayed(levels: [&str; 4], turn: Turn) -> Result<Self, Problem> {
        let place = Self::new(levels)?;
        let [tenant, session, room, _] = levels;
        let board = replayed::topic([tenant, session, room]);
        Ok(Self {
            board: board.map_err(|error| Problem::bad(error.to_string()))?,
            turn: Some(turn),
            ..place
        })
    }

    /// What the page is told of what came on the topic: of a recording only its turn.
    fn shown(&self, payload: Vec<u8>) -> Option<Bytes> {
        match self.turn {
            None => Some(payload.into()),
            Some(turn) => turn.part_of(&payload).map(Bytes::copy_from_slice),
        }
    }

    /// What a token grants here.
    fn rights(&self, access: &Access, token: Option<&str>) -> Result<Rights, Problem> {
        let Some(tokens) = &access.tokens else {
            return Ok(Rights {
                draws: self.turn.is_none(),
                gated: false,
                until_ms: u64::MAX,
            });
        };
        let token = token.ok_or_else(|| {
            Problem::unauthorized("a token is needed")
                .with("code", "no_token")
                .hint("show the token that signalling gave for media")
        })?;
        let rights = tokens.check(token).map_err(unbelieved)?;
        let (until_ms, gated) = (tokens.end_ms(&rights), rights.gated);
        let grants = rights.grants(Time::NEVER);
        if !grants.may_subscribe(&Filter::from(&self.board)) {
            return Err(
                Problem::forbidden("the token is for another room").with("code", "forbidden")
            );
        }
        Ok(Rights {
            draws: self.turn.is_none() && grants.may_publish(&self.own),
            gated,
            until_ms,
        })
    }
}

impl Rights {
    fn are_over(self) -> bool {
        unix_ms() >= self.until_ms
    }
}

pub(super) fn routes() -> Routes<Arc<State>> {
    let asked = get("/v1/boards/{tenant}/{session}/{room}/{member}", "openBoard");
    let asked = asked
        .about(
            "A WebSocket to the whiteboard of a room for one member, who shows its token in the \
             first message: docs/spec/board.md.",
        )
        .gives(Answer::empty(101, "The WebSocket is open."))
        .fails(&[400, 403]);
    let path = "/v1/boards/{tenant}/{session}/{room}/{member}/{since}/{order}";
    let past = get(path, "openReplayedBoard");
    let past = past
        .about(
            "A WebSocket to the whiteboard of the recording that is watched in a room, to be \
             looked at: `since_ms` and `order` are those of the session's `replay`; \
             docs/spec/board.md.",
        )
        .gives(Answer::empty(101, "The WebSocket is open."))
        .fails(&[400, 403]);
    Routes::new().on(asked, open).on(past, open_replayed)
}

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

async fn open(
    state: Shared,
    Path((tenant, session, room, member)): Path<(String, String, String, String)>,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Result<Response, Problem> {
    let place = Place::new([&tenant, &session, &room, &member]);
    enter(&state, place, (&headers, upgrade))
}

async fn open_replayed(
    state: Shared,
    Path([tenant, session, room, member, since, order]): Path<[String; 6]>,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Result<Response, Problem> {
    let number = |text: &str| text.parse::<u64>().ok();
    let turn = number(&since).zip(number(&order));
    let turn = turn.map(|(since_ms, order)| Turn { since_ms, order });
    let turn = turn.ok_or_else(|| Problem::bad("a turn of a replay has two numbers"));
    let place = turn.and_then(|turn| Place::replayed([&tenant, &session, &room, &member], turn));
    enter(&state, place, (&headers, upgrade))
}

fn enter(
    state: &Arc<State>,
    place: Result<Place, Problem>,
    (headers, upgrade): (&HeaderMap, Upgrade),
) -> Result<Response, Problem> {
    let boards = &state.boards;
    if !origins::is_known(state, headers) {
        boards.counts.refuse(Refused::Origin);
        return Err(origins::refused());
    }
    let place = place.inspect_err(|_| boards.counts.refuse(Refused::Malformed))?;
    let upgrade = upgrade
        .map_err(Problem::from)?
        .max_message_size(EVENT_LEN_MAX)
        .max_frame_size(EVENT_LEN_MAX);
    let state = Arc::clone(state);
    Ok(upgrade.on_upgrade(move |socket| line::serve(state, place, socket)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(revision: u64, open: &[&str]) -> TopicGate {
        TopicGate {
            epoch: 1,
            revision,
            open: Some(open.iter().map(|&level| level.to_owned()).collect()),
            class: None,
        }
    }

    #[test]
    fn a_member_draws_while_it_holds_the_floor() {
        let boards = Boards::default();
        let place = Place::new(["acme", "weekly", "main", "m17"]).unwrap();
        let prefix = Topic::new("acme/weekly/main/board").unwrap();
        let rights = |draws, gated| Rights {
            draws,
            gated,
            until_ms: u64::MAX,
        };
        let member = rights(true, true);
        assert!(!boards.is_open(&place.own, member), "nothing was said yet");
        assert!(boards.is_open(&place.own, rights(true, false)));
        boards.gate(&prefix, gate(1, &["m3"]));
        assert!(!boards.is_open(&place.own, member));
        boards.gate(&prefix, gate(2, &["m3", "m17"]));
        assert!(boards.is_open(&place.own, member));
        assert!(!boards.is_open(&place.own, rights(false, true)));
    }

    #[test]
    fn names_are_levels_of_topics() {
        for levels in [
            ["a/b", "weekly", "main", "m1"],
            ["acme", "", "main", "m1"],
            ["acme", "weekly", "+", "m1"],
            ["$sangam", "weekly", "main", "m1"],
            ["acme", "weekly", "main", "#"],
        ] {
            assert!(Place::new(levels).is_err(), "{levels:?}");
        }
    }

    #[test]
    fn only_so_many_are_open_at_once() {
        let boards = Arc::new(Boards::default());
        let own = |n: usize| Topic::new(&format!("acme/weekly/main/board/m{n}")).unwrap();
        let enter = |n| boards.enter(&own(n));
        let mut tickets: Vec<_> = (0..OPEN_MAX).map(|n| enter(n).unwrap()).collect();
        assert!(enter(OPEN_MAX).is_none());
        tickets.pop();
        assert!(enter(OPEN_MAX).is_some());
    }

    #[test]
    fn a_member_has_only_so_many_lines() {
        let boards = Arc::new(Boards::default());
        let own = |member| Place::new(["acme", "weekly", "main", member]).unwrap().own;
        let mut tickets: Vec<_> = (0..LINES_MAX)
            .map(|_| boards.enter(&own("m1")).unwrap())
            .collect();
        assert!(boards.enter(&own("m1")).is_none());
        assert!(boards.enter(&own("m2")).is_some());
        tickets.pop();
        assert!(boards.enter(&own("m1")).is_some());
        drop(tickets);
        assert!(boards.lines().is_empty());
        assert_eq!(boards.counts.open.load(Ordering::Relaxed), 0);
    }
}
