//! What can be asked of sessions.

use axum::extract::DefaultBodyLimit;

use super::super::signal;
use super::{Api, handlers, recorders};
use crate::openapi::{Answer, Body, Operation, Routes, Who, delete, get, post, put};

/// Bytes of a request body.
const BODY_LEN_MAX: usize = 16_384;

const ALL: &str = "/v1/sessions";
const ONE: &str = "/v1/sessions/{tenant}/{name}";
const COMMANDS: &str = "/v1/sessions/{tenant}/{name}/commands";
const MEMBERS: &str = "/v1/sessions/{tenant}/{name}/members";
const EVENTS: &str = "/v1/sessions/{tenant}/{name}/events";
const SERVICE: &str = "/v1/sessions/{tenant}/{name}/services/{service}";
const TOKENS: &str = "/v1/sessions/{tenant}/{name}/tokens";
const INVITATION: &str = "/v1/sessions/{tenant}/{name}/invitation";
const CALENDAR: &str = "/v1/sessions/{tenant}/{name}/invitation.ics";
const RECORDINGS: &str = "/v1/sessions/{tenant}/{name}/recordings";
const SIGNAL: &str = "/v1/sessions/{tenant}/{name}/signal";

const LIMIT: (&str, &str) = ("limit", "At most so many, up to 500");

pub(super) fn table() -> Routes<Api> {
    let routes = many().merge(one()).merge(told()).merge(recorders::routes());
    routes.map(|router| router.layer(DefaultBodyLimit::max(BODY_LEN_MAX)))
}

/// An operation whose document comes with this status.
fn gives(
    operation: Operation,
    status: u16,
    (shape, about): (&'static str, &'static str),
) -> Operation {
    operation
        .by(Who::Member)
        .gives(Answer::new(status, about, Body::both(shape)))
}

/// Sessions, and their servers.
fn many() -> Routes<Api> {
    let create = gives(
        post(ALL, "createSession"),
        201,
        ("session", "The new session."),
    );
    let create = create
        .about("Makes a session. Needs video.roomCreate, or the operator's token.")
        .takes(Body::both("create"))
        .fails(&[307, 400, 401, 403, 409, 413, 415, 422, 429, 503]);
    let list = gives(
        get(ALL, "listSessions"),
        200,
        ("sessions", "A page of them."),
    );
    let list = list
        .about(
            "Lists sessions, of all servers that share them. Needs video.roomList, or the \
             operator's token.",
        )
        .asks(&[
            (
                "after",
                "Only sessions whose `tenant/name` comes after this one",
            ),
            LIMIT,
        ])
        .fails(&[400, 401, 403, 429, 503]);
    let servers = gives(
        get("/v1/sessions/servers", "listServers"),
        200,
        ("servers", "Them."),
    );
    let servers = servers
        .about(
            "Lists the servers that share their sessions. Needs video.roomList, or the operator's \
             token.",
        )
        .fails(&[401, 403, 429]);
    let schema = Answer::new(200, "The schema.", Body::of(&["application/xml"]));
    let schema = get("/v1/xgsp.xsd", "getSchema")
        .about("The XML schema of every document of sessions.")
        .gives(schema)
        .fails(&[429]);
    Routes::new()
        .on(create, handlers::create)
        .on(list, handlers::list)
        .on(servers, handlers::servers)
        .on(schema, handlers::xsd)
}

/// What is asked of one session.
fn one() -> Routes<Api> {
    let show = gives(get(ONE, "getSession"), 200, ("session", "The session."))
        .about("A session with up to 200 of its members. Needs video.roomAdmin.")
        .fails(&[307, 401, 403, 404, 422, 429, 503]);
    let forget = delete(ONE, "deleteSession")
        .about("Forgets a session that is finished or canceled. Needs video.roomAdmin.")
        .by(Who::Member)
        .gives(Answer::empty(204, "It is forgotten."))
        .fails(&[307, 401, 403, 404, 409, 422, 429, 503]);
    let done = ("done", "It is done, and kept.");
    let command = gives(post(COMMANDS, "command"), 200, done)
        .about("Asks something of a session. Needs video.roomAdmin, or the token of a member.")
        .takes(Body::both("command"))
        .fails(&[307, 400, 401, 403, 404, 409, 413, 415, 422, 429, 503]);
    let ready = gives(put(SERVICE, "serviceReady"), 200, done)
        .about("Says that a service the session needs is ready. Needs video.roomAdmin.")
        .fails(&[307, 401, 403, 404, 409, 422, 429, 503]);
    let gone = gives(delete(SERVICE, "serviceGone"), 200, done)
        .about("Says that such a service is not ready any more. Needs video.roomAdmin.")
        .fails(&[307, 401, 403, 404, 409, 422, 429, 503]);
    let token = gives(post(TOKENS, "createToken"), 201, ("token", "The token."))
        .about("Makes a token for joining. Needs video.roomAdmin.")
        .takes(Body::both("invite"))
        .fails(&[400, 401, 403, 413, 415, 422, 429, 503]);
    let signal = get(SIGNAL, "signal")
        .about(
            "A WebSocket for one member, who shows its token in the first message: \
             docs/spec/xgsp.md#signalling.",
        )
        .gives(Answer::empty(101, "The WebSocket is open."))
        .fails(&[400, 403, 422, 429]);
    Routes::new()
        .on(show, handlers::one)
        .on(forget, handlers::forget)
        .on(command, handlers::command)
        .on(ready, handlers::ready)
        .on(gone, handlers::gone)
        .on(token, handlers::token)
        .on(signal, signal::upgrade)
}

/// What is told of one session.
fn told() -> Routes<Api> {
    let members = gives(get(MEMBERS, "listMembers"), 200, ("members", "The page."))
        .about("A page of members. Needs video.roomAdmin.")
        .asks(&[
            ("after", "Only members behind this one, such as m17"),
            LIMIT,
        ])
        .fails(&[307, 400, 401, 403, 404, 422, 429, 503]);
    let events = gives(get(EVENTS, "listEvents"), 200, ("events", "The entries."))
        .about("Entries of the log; the oldest are folded away. Needs video.roomAdmin.")
        .asks(&[("after", "Only events behind this number"), LIMIT])
        .fails(&[307, 400, 401, 403, 404, 422, 429, 503]);
    let invited = ("invitation", "The invitation.");
    let invited = gives(get(INVITATION, "showInvitation"), 200, invited)
        .about("What people are told before they join. Needs any token for the session.")
        .fails(&[307, 401, 403, 404, 422, 429, 503]);
    let written = Body::of(&["text/calendar; charset=utf-8"]);
    let calendar = get(CALENDAR, "getInvitation")
        .about("The same for calendars (iCalendar). Needs any token for the session.")
        .by(Who::Member)
        .gives(Answer::new(200, "The invitation (RFC 5545).", written))
        .fails(&[307, 401, 403, 404, 422, 429, 503]);
    let recordings = ("recordings", "Those of recorders that are there.");
    let recordings = gives(get(RECORDINGS, "listRecordings"), 200, recordings)
        .about("Recordings of the session. Needs any token for the session.")
        .fails(&[307, 401, 403, 404, 422, 429, 503]);
    Routes::new()
        .on(members, handlers::members)
        .on(events, handlers::events)
        .on(invited, handlers::invited)
        .on(calendar, handlers::calendar)
        .on(recordings, recorders::list)
}
