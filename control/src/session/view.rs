//! What is shown of a session: the documents of the API.

use std::collections::BTreeSet;

use sangam_session::{ChatLine, Floor, Medium, Member, MemberId, Plan, Record, Session};
use serde_json::{Value, json};

use super::store::ServerSeen;

/// Members that a session's document lists; the rest is asked for page by page.
const MEMBERS_SHOWN: usize = 200;
/// Session servers that are listed.
const SERVERS_SHOWN: usize = 500;
/// Those that members are told of: more than die at once.
const URLS_TOLD: usize = 16;

/// A session for whoever may manage it, or for a member.
pub(super) fn session(session: &Session) -> Value {
    session_for(session, None)
}

/// The same for a member: who waits in the lobby sees only that there is a session, and the ways
/// in; chat of other rooms and of others is left out.
pub(super) fn session_for(session: &Session, member: Option<MemberId>) -> Value {
    let mut shown = brief(session);
    add_ways(&mut shown, session.plan());
    let viewer = member.map(|member| session.member(member));
    if viewer.is_some_and(|viewer| viewer.is_none_or(Member::is_in_lobby)) {
        return shown;
    }
    let rooms = session.rooms().map(|(name, room)| {
        let floors = Medium::ALL.iter().zip(&room.floors);
        let floors: Vec<_> = floors.map(|(medium, one)| floor(*medium, one)).collect();
        json!({ "name": name, "title": room.title, "floors": floors })
    });
    let chat = session.chat().filter(|line| match viewer.flatten() {
        Some(viewer) => may_read(viewer, line),
        None => line.to.is_none(),
    });
    shown["rooms"] = rooms.collect();
    shown["chat"] = chat.map(|line| json!(line)).collect();
    if let Some(replay) = session.watched() {
        shown["replay"] = json!(replay);
        shown["annotations"] = json!(session.annotations());
    }
    shown["members"] = members_shown(session).map(|one| json!(one)).collect();
    shown
}

/// Those who lead, speak or have their hand up first, then the others.
fn members_shown(session: &Session) -> impl Iterator<Item = &Member> {
    let floors = session.rooms().flat_map(|(_, room)| &room.floors);
    let holders = floors.flat_map(|floor| &floor.holders);
    let speaking: BTreeSet<_> = holders.map(|holder| holder.member).collect();
    let matters = move |one: &&Member| {
        one.leads() || one.hand_ms.is_some() || one.is_in_lobby() || speaking.contains(&one.id)
    };
    let first = session.members().filter(matters.clone());
    let others = session.members().filter(move |one| !matters(one));
    first.chain(others).take(MEMBERS_SHOWN)
}

fn may_read(viewer: &Member, line: &ChatLine) -> bool {
    match line.to {
        Some(to) => viewer.id == to || viewer.id == line.from,
        None => line.room.is_none() || line.room == viewer.room,
    }
}

/// A session without its people.
pub(super) fn brief(session: &Session) -> Value {
    let (id, plan) = (session.id(), session.plan());
    let waiting = session.members().filter(|one| one.is_in_lobby()).count();
    let mut shown = json!({
        "tenant": id.tenant, "name": id.name, "title": plan.title,
        "state": session.state().name(), "lobby": plan.lobby, "locked": session.is_locked(),
        "epoch": session.epoch(), "seq": session.seq(),
        "members_total": session.members_len(), "waiting_total": waiting,
    });
    if let Some(recording) = session.recording() {
        shown["recording"] = json!(recording);
    }
    add_times(&mut shown, plan);
    let services = session.services();
    let services = services.map(|(name, ready)| json!({ "name": name, "ready": ready }));
    let services: Vec<_> = services.collect();
    if !services.is_empty() {
        shown["services"] = json!(services);
    }
    shown
}

/// What whoever may join is told before; `link` is where browsers join.
pub(super) fn invitation(session: &Session, link: &str) -> Value {
    let (id, plan) = (session.id(), session.plan());
    let mut shown = json!({
        "tenant": id.tenant, "name": id.name, "title": plan.title,
        "state": session.state().name(), "link": link,
    });
    add_times(&mut shown, plan);
    add_ways(&mut shown, plan);
    shown
}

fn add_times(shown: &mut Value, plan: &Plan) {
    if let Some(start) = plan.start_ms {
        shown["start_ms"] = json!(start);
    }
    if let Some(end) = plan.end_ms {
        shown["end_ms"] = json!(end);
    }
}

fn add_ways(shown: &mut Value, plan: &Plan) {
    if !plan.ways.is_empty() {
        shown["ways"] = json!(plan.ways);
    }
}

fn floor(medium: Medium, floor: &Floor) -> Value {
    let mut shown = json!(floor);
    shown["medium"] = json!(medium);
    shown
}

/// Session servers, as many as are told.
pub(super) fn servers(known: &[ServerSeen]) -> Vec<Value> {
    let shown = known.iter().take(SERVERS_SHOWN).map(
        |one| json!({ "broker": one.broker.to_string(), "url": one.url, "sessions": one.sessions }),
    );
    shown.collect()
}

/// Where else a member may ask, this server first.
pub(super) fn urls(known: &[ServerSeen]) -> Vec<String> {
    let urls = known.iter().take(URLS_TOLD).map(|one| one.url.clone());
    urls.collect()
}

/// A page of members after a number.
pub(super) fn members(session: &Session, after: u32, most: usize) -> Value {
    let later = session.members().filter(|one| one.id.0 > after);
    let page: Vec<_> = later.take(most).map(|one| json!(one)).collect();
    json!({ "total": session.members_len(), "members": page })
}

/// An entry of the log, for whom it may concern.
pub(super) fn record(record: &Record) -> Value {
    json!(record)
}
