//! The way into a session: its API over HTTP, and its WebSocket.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::ledger::Ledger;
use super::line::{Line, Member};
use crate::error::Error;
use crate::process::parse_answer;

/// Bytes that are read at once: the library clears as many before each read.
const READ: usize = 4_096;

/// Who comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Who leads.
    Chair,
    /// Everybody else.
    Participant,
}

/// Where a session is.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    /// The server's HTTP.
    pub(crate) http: SocketAddr,
    /// `/v1/sessions/TENANT/NAME`.
    pub(crate) path: String,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Chair => "chair",
            Self::Participant => "participant",
        }
    }
}

impl Door {
    /// Lets somebody in from an address: asks for a token, joins with it, and waits until it has
    /// been told the session.
    ///
    /// # Errors
    /// [`Error::Join`] if the server does not answer, or refuses.
    pub(crate) async fn join(
        &self,
        from: Ipv4Addr,
        (identity, role): (&str, Role),
        ledger: &Rc<Ledger>,
    ) -> Result<Member, Error> {
        let invited = json!({ "identity": identity, "role": role.name() });
        let answer = self.post(from, "tokens", &invited).await?;
        let greeting = json!({ "type": "join", "token": answer["token"] });
        let failed = |error: &dyn std::error::Error| Error::Join(format!("{identity}: {error}"));
        let stream = self.connect(from).await.map_err(|error| failed(&error))?;
        let config = WebSocketConfig::default().read_buffer_size(READ);
        let url = format!("ws://{}{}/signal", self.http, self.path);
        let opened = client_async_with_config(url, stream, Some(config)).await;
        let (mut socket, _) = opened.map_err(|error| failed(&error))?;
        let said = socket.send(Message::text(greeting.to_string())).await;
        said.map_err(|error| failed(&error))?;
        let welcome = loop {
            match socket.next().await {
                Some(Ok(Message::Text(text))) => break text,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                ended => return Err(Error::Join(format!("{identity} got {ended:?}"))),
            }
        };
        let told: Value = serde_json::from_str(&welcome).unwrap_or_default();
        let Some(id) = told["member"].as_str() else {
            return Err(Error::Join(format!("{identity} was told {welcome}")));
        };
        let line = Line::new(socket, Rc::clone(ledger));
        line.stay(id.to_owned()).await
    }

    /// Asks a command over HTTP, as whoever runs the server.
    ///
    /// # Errors
    /// [`Error::Join`] if the server does not answer, or refuses.
    pub(crate) async fn command(&self, from: Ipv4Addr, command: &Value) -> Result<(), Error> {
        self.post(from, "commands", command).await.map(drop)
    }

    async fn post(&self, from: Ipv4Addr, what: &str, body: &Value) -> Result<Value, Error> {
        let path = format!("{}/{what}", self.path);
        let failed = |why: String| Error::Join(format!("{path}: {why}"));
        let answer = self.exchange(from, &path, &body.to_string()).await;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        match parse_answer(&answer) {
            Some((200..=299, said)) => {
                serde_json::from_str(&said).map_err(|error| failed(error.to_string()))
            }
            _ => Err(failed(format!("answered {answer}"))),
        }
    }

    async fn exchange(&self, from: Ipv4Addr, path: &str, body: &str) -> io::Result<String> {
        let mut stream = self.connect(from).await?;
        // HTTP/1.0 keeps the answer free of chunks and ends it with the connection.
        let request = format!(
            "POST {path} HTTP/1.0\r\nHost: {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.http,
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    async fn connect(&self, from: Ipv4Addr) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((from, 0)))?;
        socket.set_nodelay(true)?;
        socket.connect(self.http).await
    }
}
