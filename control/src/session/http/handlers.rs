//! What each path does.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use sangam_session::{
    Caller, Command, Input, MemberId, Plan, Record, Role, Session, SessionId, Way,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::grants::{Pass, VideoGrant};
use super::super::server::{Failure, unix_ms};
use super::super::shapes::{COMMANDS, CREATE, INVITE};
use super::super::store::Listing;
use super::super::{calendar, spec, view};
use super::form::{Form, taken};
use super::{Api, refused};
use crate::Problem;

/// Items of a page at most.
const PAGE: usize = 500;
/// How long a session is planned for, and a token good, where nothing is said.
pub(crate) const LENGTH_MS: u64 = 24 * 3_600 * 1_000;
const TTL_S: u64 = 6 * 3_600;
/// How long a token may be good.
const TTL_S_MAX: u64 = 30 * 24 * 3_600;

/// Who asks, and how.
pub(super) type Asked = (State<Api>, ConnectInfo<SocketAddr>, HeaderMap);
/// A document and its status.
pub(super) type Answer = Result<(StatusCode, &'static str, Value), Problem>;
pub(super) type Body = Result<Bytes, BytesRejection>;
pub(super) type Named = Path<(String, String)>;
type Asks = Query<HashMap<String, String>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    tenant: String,
    name: String,
    title: String,
    start_ms: Option<u64>,
    end_ms: Option<u64>,
    #[serde(default)]
    lobby: bool,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    ways: Vec<Way>,
    #[serde(default)]
    record: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Invite {
    identity: String,
    name: Option<String>,
    role: Option<Role>,
    #[serde(default)]
    publish: BTreeSet<String>,
    ttl_s: Option<u64>,
}

pub(super) async fn create(asked: Asked, body: Body) -> Response {
    let form = Form::of(&asked.2);
    answer(form, created(asked, body).await)
}

async fn created((State(api), ConnectInfo(from), headers): Asked, body: Body) -> Answer {
    let pass = api.keeper.caller(from, &headers)?;
    let wanted: Create = taken(&headers, body, &[&CREATE], None)?;
    let id = named(&wanted.tenant, &wanted.name)?;
    pass.may_create(&id)?;
    let begins = wanted.start_ms.unwrap_or_else(unix_ms);
    let plan = Plan {
        title: wanted.title,
        start_ms: wanted.start_ms,
        end_ms: wanted.end_ms.or(Some(begins.saturating_add(LENGTH_MS))),
        lobby: wanted.lobby,
        needs: wanted.needs,
        ways: wanted.ways,
        record: wanted.record,
    };
    api.sessions.create(id.clone(), plan).await?;
    let shown = api.sessions.read(&id, view::session).await?;
    Ok((StatusCode::CREATED, "session", shown))
}

pub(super) async fn list(asked: Asked, query: Asks) -> Response {
    let form = Form::of(&asked.2);
    answer(form, listed(asked, query).await)
}

async fn listed((State(api), ConnectInfo(from), headers): Asked, Query(asks): Asks) -> Answer {
    let pass = api.keeper.caller(from, &headers)?;
    let tenant = pass.may_list()?.map(str::to_owned);
    let wanted = Listing {
        tenant,
        after: asks.get("after").cloned().unwrap_or_default(),
        most: most(&asks)?,
    };
    let listed = api.sessions.list(wanted).await?;
    let listed: Vec<Value> = listed.into_values().collect();
    Ok((StatusCode::OK, "sessions", json!({ "sessions": listed })))
}

pub(super) async fn servers(
    State(api): State<Api>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Response {
    answer(Form::of(&headers), seen(&api, (from, &headers)))
}

fn seen(api: &Api, (from, headers): (SocketAddr, &HeaderMap)) -> Answer {
    api.keeper.caller(from, headers)?.may_list()?;
    let shown = view::servers(&api.sessions.servers());
    Ok((StatusCode::OK, "servers", json!({ "servers": shown })))
}

pub(super) async fn one(asked: Asked, path: Named) -> Response {
    let form = Form::of(&asked.2);
    answer(form, shown(asked, path).await)
}

async fn shown((State(api), ConnectInfo(from), headers): Asked, path: Named) -> Answer {
    let (id, _) = managed(&api, (from, &headers), &path)?;
    let shown = api.sessions.read(&id, view::session).await?;
    Ok((StatusCode::OK, "session", shown))
}

pub(super) async fn forget(asked: Asked, path: Named) -> Response {
    let (State(api), ConnectInfo(from), headers) = asked;
    let form = Form::of(&headers);
    let done = match managed(&api, (from, &headers), &path) {
        Ok((id, _)) => api.sessions.forget(&id).await.map_err(Problem::from),
        Err(problem) => Err(problem),
    };
    match done {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => refused(form, problem),
    }
}

pub(super) async fn command(asked: Asked, path: Named, body: Body) -> Response {
    let form = Form::of(&asked.2);
    answer(form, commanded(asked, path, body).await)
}

async fn commanded(
    (State(api), ConnectInfo(from), headers): Asked,
    Path((tenant, name)): Named,
    body: Body,
) -> Answer {
    let pass = api.keeper.caller(from, &headers)?;
    let id = named(&tenant, &name)?;
    let all: Vec<_> = COMMANDS.iter().collect();
    let command: Command = taken(&headers, body, &all, Some("do"))?;
    let caller = caller(&api, &pass, &id).await?;
    done(&api, &id, Input::Command(caller, command)).await
}

/// Whoever leads asks as one who runs the session, others as the member they are.
async fn caller(api: &Api, pass: &Pass, id: &SessionId) -> Result<Caller, Problem> {
    if pass.may_manage(id).is_ok() {
        return Ok(Caller::Operator);
    }
    pass.may_join(id)?;
    let identity = pass.identity.clone();
    let member = move |session: &Session| session.identified(&identity).map(|member| member.id);
    let member = api.sessions.read(id, member).await?;
    let member = member.ok_or_else(|| {
        Problem::forbidden("you are not in this session")
            .with("code", "not_here")
            .hint("join it first, over the WebSocket")
    })?;
    Ok(Caller::Member(member))
}

async fn done(api: &Api, id: &SessionId, input: Input) -> Answer {
    api.sessions.input(id, input).await?;
    let seq = api.sessions.read(id, Session::seq).await?;
    Ok((StatusCode::OK, "done", json!({ "seq": seq })))
}

pub(super) async fn members(asked: Asked, path: Named, query: Asks) -> Response {
    let form = Form::of(&asked.2);
    answer(form, page(asked, path, query).await)
}

async fn page(
    (State(api), ConnectInfo(from), headers): Asked,
    path: Named,
    Query(asks): Asks,
) -> Answer {
    let (id, _) = managed(&api, (from, &headers), &path)?;
    let after = match asks.get("after") {
        Some(text) => text.parse::<MemberId>().map_err(Problem::bad)?.0,
        None => 0,
    };
    let most = most(&asks)?;
    let page = move |session: &Session| view::members(session, after, most);
    Ok((
        StatusCode::OK,
        "members",
        api.sessions.read(&id, page).await?,
    ))
}

pub(super) async fn events(asked: Asked, path: Named, query: Asks) -> Response {
    let form = Form::of(&asked.2);
    answer(form, logged(asked, path, query).await)
}

async fn logged(
    (State(api), ConnectInfo(from), headers): Asked,
    path: Named,
    Query(asks): Asks,
) -> Answer {
    let (id, _) = managed(&api, (from, &headers), &path)?;
    let after = number(&asks, "after", 0)?;
    let records = api.sessions.records(&id, after, most(&asks)?).await?;
    let secret = |record: &&Record| matches!(record.event, sangam_session::Event::Keyed { .. });
    let events = records.iter().filter(|record| !secret(record));
    let events: Vec<_> = events.map(view::record).collect();
    Ok((StatusCode::OK, "events", json!({ "events": events })))
}

pub(super) async fn ready(asked: Asked, path: Path<(String, String, String)>) -> Response {
    service(asked, path, true).await
}

pub(super) async fn gone(asked: Asked, path: Path<(String, String, String)>) -> Response {
    service(asked, path, false).await
}

async fn service(
    (State(api), ConnectInfo(from), headers): Asked,
    Path((tenant, name, service)): Path<(String, String, String)>,
    ready: bool,
) -> Response {
    let form = Form::of(&headers);
    match managed(&api, (from, &headers), &Path((tenant, name))) {
        Ok((id, _)) => answer(form, done(&api, &id, Input::Service(service, ready)).await),
        Err(problem) => refused(form, problem),
    }
}

pub(super) async fn token(asked: Asked, path: Named, body: Body) -> Response {
    let form = Form::of(&asked.2);
    answer(form, issued(asked, path, body).await)
}

async fn issued(
    (State(api), ConnectInfo(from), headers): Asked,
    path: Named,
    body: Body,
) -> Answer {
    let (id, _) = managed(&api, (from, &headers), &path)?;
    let wanted: Invite = taken(&headers, body, &[&INVITE], None)?;
    let ttl_s = wanted.ttl_s.unwrap_or(TTL_S);
    if !(1..=TTL_S_MAX).contains(&ttl_s) {
        return Err(Problem::bad("a token is good for 1 to 2,592,000 seconds"));
    }
    let pass = Pass {
        tenant: id.tenant,
        identity: wanted.identity,
        name: wanted.name,
        video: VideoGrant {
            room: Some(id.name),
            room_join: true,
            room_admin: wanted.role == Some(Role::Chair),
            can_publish_sources: wanted.publish.into_iter().collect(),
            role: wanted.role,
            ..VideoGrant::default()
        },
        operator: false,
    };
    let (token, expires_ms) = api.keeper.issue(&pass, ttl_s)?;
    let made = json!({ "token": token, "expires_ms": expires_ms });
    Ok((StatusCode::CREATED, "token", made))
}

pub(super) async fn invited(asked: Asked, path: Named) -> Response {
    let form = Form::of(&asked.2);
    let shown = invitation(asked, path, view::invitation).await;
    answer(
        form,
        shown.map(|shown| (StatusCode::OK, "invitation", shown)),
    )
}

pub(super) async fn calendar(asked: Asked, path: Named) -> Response {
    let form = Form::of(&asked.2);
    let write = |session: &Session, link: &str| calendar::invitation(session, link, unix_ms());
    match invitation(asked, path, write).await {
        Ok(text) => ([(CONTENT_TYPE, "text/calendar; charset=utf-8")], text).into_response(),
        Err(problem) => refused(form, problem),
    }
}

/// What may be told to whoever has any token for a session.
async fn invitation<T: Send + 'static>(
    (State(api), ConnectInfo(from), headers): Asked,
    Path((tenant, name)): Named,
    write: fn(&Session, &str) -> T,
) -> Result<T, Problem> {
    let pass = api.keeper.caller(from, &headers)?;
    let id = named(&tenant, &name)?;
    pass.may_see(&id)?;
    let link = format!("{}{id}", api.link);
    let write = move |session: &Session| write(session, &link);
    Ok(api.sessions.read(&id, write).await?)
}

pub(super) async fn xsd() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/xml")], spec::xsd())
}

/// The session of a path, for whoever may manage it.
fn managed(
    api: &Api,
    (from, headers): (SocketAddr, &HeaderMap),
    Path((tenant, name)): &Named,
) -> Result<(SessionId, Pass), Problem> {
    let pass = api.keeper.caller(from, headers)?;
    let id = named(tenant, name)?;
    pass.may_manage(&id)?;
    Ok((id, pass))
}

pub(super) fn named(tenant: &str, name: &str) -> Result<SessionId, Problem> {
    let id = SessionId::new(tenant, name);
    id.map_err(|refusal| Failure::Refused(refusal).into())
}

fn most(asks: &HashMap<String, String>) -> Result<usize, Problem> {
    let most = number(asks, "limit", PAGE as u64)?;
    Ok(usize::try_from(most).unwrap_or(PAGE).clamp(1, PAGE))
}

fn number(asks: &HashMap<String, String>, name: &str, fallback: u64) -> Result<u64, Problem> {
    let text = asks.get(name);
    let wrong = |_| Problem::bad(format!("{name} must be a number")).with("code", "malformed");
    text.map_or(Ok(fallback), |text| text.parse().map_err(wrong))
}

pub(super) fn answer(form: Form, answer: Answer) -> Response {
    match answer {
        Ok((status, shape, value)) => form.document(status, shape, value),
        Err(problem) => refused(form, problem),
    }
}
