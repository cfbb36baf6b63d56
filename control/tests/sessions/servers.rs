//! A server that shares its store with others: what it says of their sessions, and of one that is
//! on its way here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sangam_control::session::{
    ControlStore, Embedded, Left, Listed, Listing, Load, Move, ServerSeen, StoreError, Tell, Where,
    xml,
};
use sangam_model::{BrokerId, Time};
use sangam_session::{Machine, Plan, Record, Session, SessionId};
use serde_json::{Value, json};

use crate::documents::complaint;
use crate::signalling::{Hall, Line, join};
use crate::stage::*;

const OWN: &str = "http://a.example";
const OTHER: &str = "http://b.example";
/// How often somebody comes again: a busy machine may take longer than a server lets anybody wait.
const TRIES: usize = 10;

/// What the other server has, and what comes from it.
#[derive(Default)]
struct Others {
    listed: Listed,
    /// Sessions that are not here.
    away: BTreeMap<SessionId, Where>,
    /// How often it was asked where one is.
    asked: usize,
    moves: Vec<Move>,
    /// How this server's sessions look, as it said with what it kept.
    kept: BTreeMap<SessionId, Value>,
}

/// A store that another server shares.
struct Shared {
    own: Embedded,
    looks: BTreeMap<SessionId, Value>,
    others: Arc<Mutex<Others>>,
}

impl ControlStore for Shared {
    fn next_epoch(&mut self, floor: u64) -> Result<u64, StoreError> {
        self.own.next_epoch(floor)
    }

    fn append(&mut self, batch: &[(SessionId, Record)]) -> Result<(), StoreError> {
        self.others.lock().unwrap().kept.append(&mut self.looks);
        self.own.append(batch)
    }

    fn load(&mut self) -> Result<Vec<Session>, StoreError> {
        self.own.load()
    }

    fn load_one(&mut self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        self.own.load_one(id)
    }

    fn records(&mut self, id: &SessionId, after: u64, n: usize) -> Result<Vec<Record>, StoreError> {
        self.own.records(id, after, n)
    }

    fn compact(&mut self, session: &Session, keep: u64) -> Result<(), StoreError> {
        self.own.compact(session, keep)
    }

    fn forget(&mut self, id: &SessionId) -> Result<(), StoreError> {
        self.own.forget(id)
    }

    fn moves(&mut self, _: Load) -> Vec<Move> {
        let mut others = self.others.lock().unwrap();
        let moves = std::mem::take(&mut others.moves);
        if !moves.is_empty() {
            others.away.clear();
        }
        moves
    }

    fn place(&self, id: &SessionId) -> Where {
        let mut others = self.others.lock().unwrap();
        others.asked += 1;
        others.away.get(id).cloned().unwrap_or(Where::Nowhere)
    }

    fn servers(&self) -> Vec<ServerSeen> {
        let seen = |broker, url: &str, sessions| ServerSeen {
            broker: BrokerId(broker),
            url: url.to_owned(),
            sessions,
        };
        vec![seen(1, OWN, 2), seen(0xb, OTHER, 3)]
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn outline(&mut self, looks: BTreeMap<SessionId, Value>) {
        self.looks = looks;
    }

    fn list(&mut self, wanted: Listing, tell: Tell) {
        let listed = self.others.lock().unwrap().listed.clone();
        let listed = listed.into_iter().filter(|(name, look)| {
            *name > wanted.after
                && wanted
                    .tenant
                    .iter()
                    .all(|tenant| look["tenant"] == **tenant)
        });
        // As etcd does, from another thread.
        let page = listed.take(wanted.most).collect();
        std::thread::spawn(move || tell(Ok(page)));
    }
}

fn shared() -> (Stage, Arc<Mutex<Others>>) {
    let others = Arc::new(Mutex::new(Others::default()));
    let store = Shared {
        own: Embedded::in_memory().unwrap(),
        looks: BTreeMap::new(),
        others: Arc::clone(&others),
    };
    (Stage::over(Box::new(store)), others)
}

fn create(tenant: &str, name: &str) -> String {
    json!({ "tenant": tenant, "name": name, "title": name }).to_string()
}

fn names(listed: &Value) -> Vec<String> {
    let sessions = listed["sessions"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let named = sessions.map(|one| format!("{}/{}", text(&one["tenant"]), text(&one["name"])));
    named.collect()
}

#[tokio::test]
async fn a_list_has_the_sessions_of_all_servers_and_says_where_each_is() {
    let (stage, others) = shared();
    // `-` sorts before `/`: `acme-2/x` comes before `acme/x`.
    for (tenant, name) in [("acme", "b"), ("acme-2", "x")] {
        let made = stage.post("/v1/sessions", &create(tenant, name)).await;
        assert!(made.status.is_success(), "{made:?}");
    }
    {
        let mut others = others.lock().unwrap();
        let kept = others.kept.clone();
        let look = kept[&SessionId::new("acme", "b").unwrap()].clone();
        assert_eq!(
            (&look["title"], &look["state"]),
            (&json!("b"), &json!("activated"))
        );
        for name in ["a", "b", "c"] {
            let mut look = look.clone();
            look["name"] = json!(name);
            look["title"] = json!("as it was");
            look["server"] = json!(OTHER);
            others.listed.insert(format!("acme/{name}"), look);
        }
        // Its server is gone.
        let gone = others.listed.get_mut("acme/c").unwrap();
        gone.as_object_mut().unwrap().remove("server");
    }
    let all = stage.get("/v1/sessions").await;
    assert_eq!(names(&all), ["acme-2/x", "acme/a", "acme/b", "acme/c"]);
    let of = |n: usize| {
        (
            all["sessions"][n]["server"].clone(),
            all["sessions"][n]["title"].clone(),
        )
    };
    assert_eq!(of(0), (json!(OWN), json!("x")));
    assert_eq!(of(1), (json!(OTHER), json!("as it was")));
    assert_eq!(
        of(2),
        (json!(OWN), json!("b")),
        "what is here is told as it is"
    );
    assert_eq!(of(3).0, Value::Null);

    let mut paged = Vec::new();
    let mut after = String::new();
    loop {
        let page = stage
            .get(&format!("/v1/sessions?limit=1&after={after}"))
            .await;
        let Some(name) = names(&page).pop() else {
            break;
        };
        after.clone_from(&name);
        paged.push(name);
    }
    assert_eq!(paged, names(&all));
    let grant = r#"acme:boss:{"roomList": true}"#;
    let own = stage
        .ask(("GET", "/v1/sessions"), JSON, (Some(grant), ""))
        .await;
    assert_eq!(names(&own.json()), ["acme/a", "acme/b", "acme/c"]);
    let written = stage.ask(("GET", "/v1/sessions"), XML, (None, "")).await;
    assert_eq!(complaint(&written.text), None, "{}", written.text);
    assert!(written.text.contains(&format!("server=\"{OTHER}\"")));
}

#[tokio::test]
async fn servers_are_listed_for_those_who_may_list_and_told_to_members() {
    let (stage, _) = shared();
    let wanted = json!({ "servers": [
        { "broker": "00000001", "url": OWN, "sessions": 2 },
        { "broker": "0000000b", "url": OTHER, "sessions": 3 },
    ] });
    assert_eq!(stage.get("/v1/sessions/servers").await, wanted);
    let path = ("GET", "/v1/sessions/servers");
    let written = stage.ask(path, XML, (None, "")).await;
    assert_eq!(complaint(&written.text), None, "{}", written.text);
    let shape = sangam_control::session::shapes::find("servers").unwrap();
    assert_eq!(xml::read(&[shape], &written.text).unwrap().1, wanted);
    let member = r#"acme:anna:{"room": "weekly", "roomJoin": true}"#;
    let refused = stage.ask(path, JSON, (Some(member), "")).await;
    assert_eq!(refused.json()["code"], "forbidden", "{refused:?}");

    let made = stage.post("/v1/sessions", WEEKLY).await;
    assert!(made.status.is_success(), "{made:?}");
    let hall = Hall::of(stage).await;
    let mut anna = hall.greet(&join("anna", "participant")).await;
    assert_eq!(anna.wait("welcome").await["servers"], json!([OWN, OTHER]));
}

/// A server that has not the session, and somebody who joins there after it could not reach some.
async fn comes(place: Where, unreached: &[&str]) -> (Hall, Line, Arc<Mutex<Others>>) {
    let (stage, others) = shared();
    others.lock().unwrap().away.insert(weekly(), place);
    let hall = Hall::of(stage).await;
    let mut greeting = join("anna", "participant");
    greeting["unreached"] = json!(unreached);
    let line = hall.greet(&greeting).await;
    (hall, line, others)
}

fn comes_here(others: &Mutex<Others>) {
    let plan = Plan::titled("Weekly");
    let mut machine = Machine::create(Time::from_millis(5), weekly(), plan, 1).unwrap();
    while machine.poll().is_some() {}
    let left = Left {
        session: machine.session().clone(),
        last: Vec::new(),
    };
    let come = Move::Come(Box::new(left), 9);
    others.lock().unwrap().moves.push(come);
}

#[tokio::test]
async fn whoever_comes_while_a_session_moves_waits_until_it_is_here() {
    for (place, code) in [
        (Where::Moving, "moving"),
        (Where::Unknown, "unavailable"),
        (Where::At(OTHER.to_owned()), "elsewhere"),
    ] {
        let (hall, mut anna, others) = comes(place, &[OTHER]).await;
        let early = tokio::time::timeout(Duration::from_millis(300), anna.next()).await;
        assert!(early.is_err(), "{early:?}");
        let shown = hall.stage.ask(("GET", PATH), JSON, (None, "")).await;
        assert_eq!(shown.json()["code"], code, "{shown:?}");
        comes_here(&others);
        let mut first = anna.next().await.unwrap();
        for _ in 0..TRIES {
            if first["type"] == "welcome" {
                break;
            }
            anna = hall.greet(&join("anna", "participant")).await;
            first = anna.next().await.unwrap();
        }
        assert_eq!(first["member"], "m1", "{first}");
        assert_eq!(hall.stage.get(PATH).await["epoch"], 9);
    }
}

#[tokio::test]
async fn whoever_waits_in_vain_is_told_so_and_whoever_need_not_is_sent_on_at_once() {
    let (_hall, mut anna, others) = comes(Where::Moving, &[]).await;
    assert_eq!(anna.wait("refused").await["code"], "moving");
    let waited = others.lock().unwrap().asked;
    let (_hall, mut anna, others) = comes(Where::At(OTHER.to_owned()), &[OWN]).await;
    assert_eq!(anna.wait("refused").await["at"], OTHER);
    // Once before it would wait, and once for the answer.
    let at_once = others.lock().unwrap().asked;
    assert!(at_once == 2 && waited > at_once, "{at_once} and {waited}");
}
