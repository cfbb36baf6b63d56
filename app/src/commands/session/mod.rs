//! `sangam session`: sessions over the HTTP API.

mod call;
mod camera;
mod join;

use std::path::PathBuf;

use sangam_control::session::unix_ms;
use serde_json::{Value, json};

use super::table::render;
use crate::cli::{SessionArgs, SessionCommand};
use crate::exit::Failure;
use crate::output;
pub(super) use call::Server;
pub(super) use camera::Camera;
pub(super) use join::Visit;

/// Does what is asked for.
pub(super) fn run(args: &SessionArgs, as_json: bool) -> Result<(), Failure> {
    let server = Server::new(&args.server, args.api_token.as_deref())?;
    match &args.what {
        SessionCommand::Create { .. } => create(&server, &args.what, as_json),
        SessionCommand::List => list(&server, as_json),
        SessionCommand::Show { session } => show(&server.get(&session.path())?, as_json),
        SessionCommand::Invite { .. } => invite(&server, &args.what, as_json),
        SessionCommand::Do { session, command } => {
            let done = server.post(&format!("{}/commands", session.path()), command)?;
            say(&done, as_json, &format!("done: event {}", done["seq"]))
        }
        SessionCommand::Events { session, after } => {
            let path = format!("{}/events?after={after}", session.path());
            for event in items(&server.get(&path)?, "events") {
                output::json_line(event);
            }
            Ok(())
        }
        SessionCommand::Join {
            session,
            token,
            name,
            seconds,
            file,
            to,
        } => {
            let camera = |clip: &PathBuf| Camera::new(clip.clone(), to.clone());
            let camera = file.as_ref().map(camera).transpose()?;
            let who = (token.as_str(), name.as_deref());
            join::run(&server, session, who, (*seconds, camera))
        }
        SessionCommand::Forget { session } => {
            server.delete(&session.path())?;
            say(&json!({ "forgotten": true }), as_json, "forgotten")
        }
    }
}

fn create(server: &Server, what: &SessionCommand, as_json: bool) -> Result<(), Failure> {
    let SessionCommand::Create {
        session,
        title,
        start_in,
        length,
        lobby,
        record,
        needs,
        ways,
    } = what
    else {
        return Ok(());
    };
    let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let start = start_in.map(|wait| unix_ms().saturating_add(ms(wait.0)));
    let end = start.unwrap_or_else(unix_ms).saturating_add(ms(length.0));
    let mut wanted = json!({
        "tenant": session.tenant, "name": session.name, "lobby": lobby, "needs": needs,
        "ways": ways, "record": record,
        "title": title.as_ref().unwrap_or(&session.name), "end_ms": end,
    });
    if let Some(start) = start {
        wanted["start_ms"] = json!(start);
    }
    let made = server.post("/v1/sessions", &wanted.to_string())?;
    show(&made, as_json)
}

fn invite(server: &Server, what: &SessionCommand, as_json: bool) -> Result<(), Failure> {
    let SessionCommand::Invite {
        session,
        identity,
        name,
        role,
        expires,
    } = what
    else {
        return Ok(());
    };
    let mut wanted = json!({
        "identity": identity, "role": role, "ttl_s": expires.0.as_secs(),
    });
    if let Some(name) = name {
        wanted["name"] = json!(name);
    }
    let made = server.post(&format!("{}/tokens", session.path()), &wanted.to_string())?;
    say(&made, as_json, text(&made["token"]))
}

fn list(server: &Server, as_json: bool) -> Result<(), Failure> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let page = server.get(&format!("/v1/sessions?after={after}"))?;
        let Some(last) = items(&page, "sessions").last() else {
            break;
        };
        after = format!("{}/{}", text(&last["tenant"]), text(&last["name"]));
        all.extend(items(&page, "sessions").iter().cloned());
    }
    if as_json {
        output::json_line(&json!({ "sessions": all }));
        return Ok(());
    }
    // Where several servers share sessions, each is with one of them, or on its way.
    let is_shared = all.iter().any(|one| one["server"].is_string());
    let row = |one: &Value| {
        let mut row = vec![
            format!("{}/{}", text(&one["tenant"]), text(&one["name"])),
            text(&one["title"]).to_owned(),
            text(&one["state"]).to_owned(),
            one["members_total"].to_string(),
        ];
        if is_shared {
            row.push(one["server"].as_str().unwrap_or("(moving)").to_owned());
        }
        row
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    let mut head = vec!["session", "title", "state", "members"];
    if is_shared {
        head.push("server");
    }
    output::text(&render(&head, &rows));
    Ok(())
}

fn show(session: &Value, as_json: bool) -> Result<(), Failure> {
    if as_json {
        output::json_line(session);
        return Ok(());
    }
    output::line(&format!(
        "{}/{}  {}  {}",
        text(&session["tenant"]),
        text(&session["name"]),
        text(&session["state"]),
        text(&session["title"])
    ));
    for way in items(session, "ways") {
        output::line(&format!("{}: {}", text(&way["label"]), text(&way["uri"])));
    }
    output::text(&table(session));
    Ok(())
}

/// Who is in a session.
pub(super) fn table(session: &Value) -> String {
    let row = |member: &Value| {
        let id = text(&member["id"]);
        vec![
            id.to_owned(),
            text(&member["name"]).to_owned(),
            text(&member["role"]).to_owned(),
            member["room"].as_str().unwrap_or("(lobby)").to_owned(),
            floors_of(session, id).join(" "),
        ]
    };
    let rows: Vec<_> = items(session, "members").iter().map(row).collect();
    render(&["member", "name", "role", "room", "holds"], &rows)
}

/// The media whose floors a member holds.
fn floors_of<'a>(session: &'a Value, member: &str) -> Vec<&'a str> {
    let rooms = items(session, "rooms").iter();
    let floors = rooms.flat_map(|room| items(room, "floors"));
    let held = floors.filter(|floor| {
        let mut holders = items(floor, "holders").iter();
        holders.any(|holder| holder["member"] == member)
    });
    held.map(|floor| text(&floor["medium"])).collect()
}

fn say(value: &Value, as_json: bool, words: &str) -> Result<(), Failure> {
    if as_json {
        output::json_line(value);
    } else {
        output::line(words);
    }
    Ok(())
}

fn items<'a>(value: &'a Value, list: &str) -> &'a [Value] {
    value[list].as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
