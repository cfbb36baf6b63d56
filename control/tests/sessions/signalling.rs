//! Members over real WebSockets: who comes in, who comes back, and who says what it should not.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::stage::*;

/// A session server on a port.
pub(crate) struct Hall {
    pub(crate) stage: Stage,
    address: SocketAddr,
}

/// One member's connection.
pub(crate) struct Line(WebSocketStream<TcpStream>);

impl Hall {
    async fn new() -> Self {
        let hall = Self::of(Stage::new()).await;
        let made = hall.stage.post("/v1/sessions", WEEKLY).await;
        assert!(made.status.is_success(), "{made:?}");
        hall
    }

    pub(crate) async fn of(stage: Stage) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = stage.router.clone();
        let service = service.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
        Self { stage, address }
    }

    /// Connects, and says this first.
    pub(crate) async fn greet(&self, greeting: &Value) -> Line {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let url = format!("ws://{}{PATH}/signal", self.address);
        let (socket, _) = client_async(url, stream).await.unwrap();
        let mut line = Line(socket);
        line.say(&greeting.to_string()).await;
        line
    }

    /// Joins; the line, and what it was welcomed with.
    async fn join(&self, identity: &str, role: &str) -> (Line, Value) {
        let mut line = self.greet(&join(identity, role)).await;
        let welcome = line.wait("welcome").await;
        line.wait("state").await;
        (line, welcome)
    }
}

pub(crate) fn join(identity: &str, role: &str) -> Value {
    let grant = json!({ "room": "weekly", "roomJoin": true, "role": role });
    json!({ "type": "join", "token": format!("acme:{identity}:{grant}") })
}

impl Line {
    async fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    /// The next frame; `None` once the line is closed.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).ok(),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// The next frame of this type.
    pub(crate) async fn wait(&mut self, kind: &str) -> Value {
        loop {
            let frame = self
                .next()
                .await
                .unwrap_or_else(|| panic!("closed before {kind}"));
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// Asks something; the answer.
    async fn ask(&mut self, command: &str) -> Value {
        self.say(command).await;
        loop {
            let frame = self.next().await.expect("an answer");
            if frame["type"] == "done" || frame["type"] == "refused" {
                return frame;
            }
        }
    }
}

#[tokio::test]
async fn who_was_cut_off_comes_back_with_its_key_to_what_it_held() {
    let hall = Hall::new().await;
    let (mut chair, _) = hall.join("chair", "chair").await;
    let (mut anna, welcome) = hall.join("anna", "participant").await;
    let asked = r#"{"id": 1, "do": "request", "medium": "screen"}"#;
    assert_eq!(anna.ask(asked).await, json!({ "type": "done", "id": 1 }));
    drop(anna);
    loop {
        let frame = chair.wait("events").await;
        let events = frame["events"].as_array().unwrap();
        if events.iter().any(|event| event["event"] == "away") {
            break;
        }
    }
    let resume = |key: &Value| json!({ "type": "resume", "member": welcome["member"], "key": key });
    let mut thief = hall.greet(&resume(&json!("guess"))).await;
    assert_eq!(thief.next().await.unwrap()["code"], "wrong_key");
    assert_eq!(thief.next().await, None, "and closed");
    let mut anna = hall.greet(&resume(&welcome["key"])).await;
    assert_eq!(anna.wait("welcome").await["member"], welcome["member"]);
    let state = anna.wait("state").await;
    let holder = &state["session"]["rooms"][0]["floors"][2]["holders"][0]["member"];
    assert_eq!(holder, &welcome["member"], "{state}");
    // A second connection of the same member ends the first.
    let _again = hall.greet(&resume(&welcome["key"])).await;
    assert_eq!(anna.wait("bye").await["why"], "replaced");
}

#[tokio::test]
async fn whoever_is_sent_away_learns_it_and_does_not_come_back() {
    let hall = Hall::new().await;
    let (mut chair, _) = hall.join("chair", "chair").await;
    let (mut anna, welcome) = hall.join("anna", "participant").await;
    let member = welcome["member"].as_str().unwrap();
    let remove = json!({ "do": "remove", "member": member }).to_string();
    let refused = anna.ask(&remove).await;
    assert_eq!(
        (&refused["type"], &refused["code"]),
        (&json!("refused"), &json!("forbidden"))
    );
    assert_eq!(chair.ask(&remove).await["type"], "done");
    assert_eq!(anna.wait("bye").await["why"], "removed");
    let mut again = hall.greet(&join("anna", "participant")).await;
    assert_eq!(again.next().await.unwrap()["code"], "barred");
}

#[tokio::test]
async fn what_is_said_to_one_is_heard_by_one() {
    let hall = Hall::new().await;
    let (mut anna, _) = hall.join("anna", "participant").await;
    let (mut bert, _) = hall.join("bert", "participant").await;
    let (mut carl, _) = hall.join("carl", "participant").await;
    let secret = r#"{"do": "chat", "text": "only for you", "to": "m2"}"#;
    assert_eq!(anna.ask(secret).await["type"], "done");
    assert_eq!(
        anna.ask(r#"{"do": "chat", "text": "for all"}"#).await["type"],
        "done"
    );
    let heard = async |line: &mut Line| {
        let mut heard = String::new();
        while !heard.contains("for all") {
            heard += &line.wait("events").await.to_string();
        }
        heard
    };
    assert!(heard(&mut bert).await.contains("only for you"));
    assert!(!heard(&mut carl).await.contains("only for you"));
    let (_dora, _) = hall.join("dora", "participant").await;
    let shown = hall.stage.get(PATH).await.to_string();
    assert!(!shown.contains("only for you"), "{shown}");
}

#[tokio::test]
async fn malformed_words_are_answered_and_too_many_are_held_up() {
    let hall = Hall::new().await;
    for greeting in [
        json!("hello"),
        json!({ "type": "join" }),
        json!({ "type": "leave" }),
    ] {
        let mut line = hall.greet(&greeting).await;
        assert_eq!(
            line.next().await.unwrap()["code"],
            "malformed",
            "{greeting}"
        );
        assert_eq!(line.next().await, None);
    }
    let stranger = json!({ "type": "join", "token": "expired" });
    let mut line = hall.greet(&stranger).await;
    assert_eq!(line.next().await.unwrap()["code"], "expired");

    let (mut anna, _) = hall.join("anna", "participant").await;
    for (said, code) in [
        ("{", "malformed"),
        (r#"{"id": 3, "do": "fly"}"#, "malformed"),
        (
            r#"{"do": "grant", "medium": "audio", "member": "m99"}"#,
            "forbidden",
        ),
        (r#"{"do": "name", "name": ""}"#, "text"),
    ] {
        let answer = anna.ask(said).await;
        assert_eq!(answer["code"], code, "{said}: {answer}");
    }
    let mut held_up = 0;
    for number in 0..100 {
        anna.say(&json!({ "id": number, "do": "hand", "raised": number % 2 == 0 }).to_string())
            .await;
    }
    for _ in 0..100 {
        let answer = loop {
            let frame = anna.next().await.expect("still there");
            if frame["type"] != "events" {
                break frame;
            }
        };
        held_up += usize::from(answer["code"] == "rate");
    }
    assert!(held_up > 0, "all of a hundred at once were done");
    let long = format!(r#"{{"do": "chat", "text": "{}"}}"#, "x".repeat(20_000));
    anna.say(&long).await;
    while anna.next().await.is_some() {}
}
