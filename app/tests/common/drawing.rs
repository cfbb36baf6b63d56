//! A whiteboard as a page has it.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use crate::common::Broker;

const PATIENCE: Duration = Duration::from_secs(20);

/// What a page has at its end.
pub(crate) struct Page(pub(crate) WebSocket<TcpStream>);

impl Page {
    /// The WebSocket, or the status of the refusal.
    pub(crate) fn dial(http: SocketAddr, at: &str, origin: Option<&str>) -> Result<Self, u16> {
        let stream = TcpStream::connect(http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let url = format!("ws://{http}/v1/boards/{at}");
        let mut request = url.into_client_request().unwrap();
        if let Some(origin) = origin {
            request
                .headers_mut()
                .insert("Origin", origin.parse().unwrap());
        }
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
                Err(answer.status().as_u16())
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// An open board, of a member of `acme/weekly`.
    #[track_caller]
    pub(crate) fn open(broker: &Broker, member: &str) -> Self {
        let (page, word) = Self::greet(broker, &format!("acme/weekly/main/{member}"));
        assert_eq!(word["type"], "open");
        page
    }

    /// A board, and what is said to its greeting.
    #[track_caller]
    pub(crate) fn greet(broker: &Broker, at: &str) -> (Self, Value) {
        let mut page = Self::dial(broker.http, at, None).unwrap();
        page.say(&json!({ "type": "open" }));
        let word = page.word();
        (page, word)
    }

    pub(crate) fn say(&mut self, word: &Value) {
        self.0.send(Message::text(word.to_string())).unwrap();
    }

    pub(crate) fn draw(&mut self, event: &[u8]) {
        self.0.send(Message::binary(event.to_vec())).unwrap();
    }

    /// The next word or event.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Message {
        loop {
            match self.0.read().unwrap() {
                Message::Ping(_) | Message::Pong(_) => {}
                message => return message,
            }
        }
    }

    #[track_caller]
    pub(crate) fn word(&mut self) -> Value {
        let message = self.next();
        serde_json::from_str(message.to_text().unwrap()).unwrap()
    }

    /// Waits until everything that was kept has come: the events of it.
    #[track_caller]
    pub(crate) fn live(&mut self) -> Vec<Vec<u8>> {
        let mut events = Vec::new();
        loop {
            match self.next() {
                Message::Binary(event) => events.push(event.to_vec()),
                Message::Text(word) if word.contains("\"live\"") => return events,
                message => panic!("{message:?}"),
            }
        }
    }

    #[track_caller]
    pub(crate) fn event(&mut self) -> Vec<u8> {
        match self.next() {
            Message::Binary(event) => event.to_vec(),
            message => panic!("{message:?}"),
        }
    }
}
