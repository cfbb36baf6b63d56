//! One member's connection.

use std::rc::Rc;

use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_local;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::frame::Frame;
use super::ledger::Ledger;
use crate::error::Error;

/// A member that is in; it leaves by its end.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its number in the session.
    pub(crate) id: String,
    orders: UnboundedSender<Order>,
}

/// What a member is to do.
#[derive(Debug)]
enum Order {
    /// Ask this.
    Ask(String),
    /// Ask this, and not be counted any more.
    Last(String),
}

/// The socket, until it ends.
pub(super) struct Line {
    socket: WebSocketStream<TcpStream>,
    ledger: Rc<Ledger>,
    /// The number it has heard up to; 0: nothing.
    at: u64,
    counted: bool,
}

impl Member {
    /// Asks a command of the session.
    pub(crate) fn ask(&self, command: String) {
        // One whose connection is gone was counted as lost.
        let _ = self.orders.send(Order::Ask(command));
    }

    /// Asks a command after which the connection ends.
    pub(crate) fn ask_last(&self, command: String) {
        // As above.
        let _ = self.orders.send(Order::Last(command));
    }
}

impl Line {
    /// A connection of which the server has taken the greeting.
    pub(super) fn new(socket: WebSocketStream<TcpStream>, ledger: Rc<Ledger>) -> Self {
        Self {
            socket,
            ledger,
            at: 0,
            counted: true,
        }
    }

    /// Waits for the session's state, and reads on from there by itself.
    ///
    /// # Errors
    /// [`Error::Join`] if the server ends it.
    pub(super) async fn stay(mut self, id: String) -> Result<Member, Error> {
        while self.at == 0 {
            let frame = self.socket.next().await;
            if !self.take(frame) {
                return Err(Error::Join(format!("{id} was let in and not told")));
            }
        }
        let (orders, ordered) = unbounded_channel();
        spawn_local(self.run(ordered));
        Ok(Member { id, orders })
    }

    async fn run(mut self, mut ordered: UnboundedReceiver<Order>) {
        loop {
            let goes_on = tokio::select! {
                frame = self.socket.next() => self.take(frame),
                order = ordered.recv() => match order {
                    Some(Order::Ask(text)) => self.say(text).await,
                    Some(Order::Last(text)) => {
                        self.discount();
                        self.say(text).await
                    }
                    // Everything is over.
                    None => return,
                },
            };
            if !goes_on {
                if self.counted {
                    self.ledger.lose();
                }
                self.discount();
                return;
            }
        }
    }

    async fn say(&mut self, text: String) -> bool {
        self.socket.send(Message::text(text)).await.is_ok()
    }

    /// Notes what a frame tells; whether the connection goes on. Pings are answered by the socket.
    fn take(&mut self, frame: Option<Result<Message, impl std::error::Error>>) -> bool {
        let text = match frame {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(_)) | Err(_)) | None => return false,
            Some(Ok(_)) => return true,
        };
        match Frame::of(&text) {
            Frame::Events(number) => {
                self.ledger.search(number, &text);
                self.reach(number);
            }
            Frame::State(number) => {
                if self.at > 0 {
                    self.ledger.fell_behind();
                }
                self.reach(number);
            }
            Frame::Refused => self.ledger.refuse(&text),
            Frame::Other => {}
        }
        true
    }

    fn reach(&mut self, number: u64) {
        if number <= self.at || !self.counted {
            return;
        }
        match self.at {
            0 => self.ledger.enter(number),
            at => self.ledger.step(at, number),
        }
        self.at = number;
    }

    /// Nobody waits for it any more.
    fn discount(&mut self) {
        if std::mem::replace(&mut self.counted, false) {
            self.ledger.leave(self.at);
        }
    }
}
