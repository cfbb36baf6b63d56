//! The receiving and asking half.

use core::fmt;
use core::time::Duration;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use sangam_io::door::ClientDoor;
use sangam_link::ClockOffset;
use sangam_model::limits::HOP_LIMIT;
use sangam_model::{Class, Filter, MediaInfo, StreamId, Topic};
use sangam_wire::{Event, Extensions, Feedback, Flags, Header, Refusal, VERSION};

use crate::driver::{self, Driver};
use crate::incoming::{Incoming, beyond_the_door};
use crate::reliable;
use crate::shared::Shared;
use crate::state::{Link, Standing, State};
use crate::way::Way;
use crate::{ClientCounters, ClientError, ClientOptions, Publisher, Received, SendError};
use crate::{ReliableError, ReliablePublisher, Target, Token, UpInfo};

/// One client of one broker. Closed when it is dropped; its publishers end with it.
pub struct Client {
    shared: Arc<Shared>,
    incoming: Incoming,
    /// Of a network link.
    driver: Option<Driver>,
    target: String,
    /// There is no other way that could work.
    one_way: bool,
}

impl Client {
    /// Begins to connect and returns at once.
    ///
    /// # Errors
    /// [`ClientError::Local`] if this machine has no socket or thread for it;
    /// [`ClientError::NoAddress`], [`ClientError::Name`], [`ClientError::Tls`],
    /// [`ClientError::Insecure`] if an address cannot be dialled. Names are looked up here.
    pub fn connect(target: Target, options: ClientOptions) -> Result<Self, ClientError> {
        let name = target.to_string();
        let one_way = !matches!(&target, Target::Addresses(all) if all.len() > 1);
        let (door, driver, shared) = match target {
            Target::Door(ClientDoor { sender, receiver }) => {
                let info = beyond_the_door();
                let state = State::new(Link::Up(info), None);
                let pool = options.send_buffers.pool();
                let numbers = (options.trace_every, options.seed);
                let shared = Shared::new(state, sender, pool, numbers);
                shared.measures.set_local(info.datagram_max);
                if let Some(token) = options.token {
                    let message = shared.state().set_token(token);
                    shared.tell(message)?;
                }
                (receiver, None, Arc::new(shared))
            }
            Target::Udp(address) => driver::start(vec![Way::Udp(address)], &options)?,
            Target::Tcp(address) => driver::start(vec![Way::tcp(address)], &options)?,
            Target::Addresses(all) => {
                let ways: Result<Vec<_>, _> = all
                    .iter()
                    .map(|address| Way::resolve(address, &options.stream))
                    .collect();
                driver::start(ways?, &options)?
            }
        };
        let incoming = Incoming::new(door, driver.is_some(), (shared.clone(), options.queue));
        Ok(Self {
            shared,
            incoming,
            driver,
            target: name,
            one_way,
        })
    }

    /// Waits until the link is up and the broker has accepted the token, if there is one.
    ///
    /// # Errors
    /// [`ClientError::NoAnswer`], [`ClientError::Refused`], [`ClientError::Token`],
    /// [`ClientError::Certificate`], [`ClientError::Closed`]: with what to check.
    pub fn wait_up(&mut self, timeout: Duration) -> Result<UpInfo, ClientError> {
        let one_way = self.one_way;
        let answer = self.incoming.wait_for(timeout, |state| match state.link() {
            Link::Up(info) => {
                let verdict = state.verdict()?;
                Some(verdict.map(|()| info).map_err(Some))
            }
            Link::Refused { again: false, .. } => Some(Err(None)),
            // Certificates do not change while somebody waits.
            Link::Down if one_way && state.cause().is_some_and(|cause| cause.certificate) => {
                Some(Err(None))
            }
            Link::Refused { again: true, .. } | Link::Down | Link::Closed => None,
        });
        match answer {
            Some(Ok(info)) => Ok(info),
            Some(Err(Some(reason))) => Err(ClientError::Token(reason)),
            Some(Err(None)) | None => Err(self.unanswered(timeout)),
        }
    }

    /// Shows the broker a newer token, now and after every reconnection; [`Received::Token`]
    /// answers. What was asked for goes on, as far as the newer token grants it.
    ///
    /// # Errors
    /// [`ClientError::Busy`], [`ClientError::Closed`].
    pub fn set_token(&self, token: Token) -> Result<(), ClientError> {
        let mut state = self.shared.state();
        let message = state.set_token(token);
        if state.is_up() {
            self.shared.tell(message)?;
        }
        Ok(())
    }

    /// Asks to publish and waits for the broker's leave; also while the link is not up yet.
    ///
    /// # Errors
    /// [`ClientError::Publication`] with the broker's reason; [`ClientError::Media`],
    /// [`ClientError::Streams`], [`ClientError::Busy`] at once; [`ClientError::Unanswered`], or
    /// why the link is not up, in the end.
    pub fn publish(
        &mut self,
        topic: &Topic,
        media: MediaInfo,
        timeout: Duration,
    ) -> Result<Publisher, ClientError> {
        // From here on the publication ends with its publisher.
        let publisher = self.begin_publish(topic, media)?;
        let standing = self.incoming.wait_for(timeout, |state| {
            let standing = state.standing(publisher.publication());
            let hopeless = matches!(state.link(), Link::Refused { again: false, .. });
            (standing != Standing::Waiting || hopeless).then_some(standing)
        });
        match standing {
            Some(Standing::Live) => Ok(publisher),
            Some(Standing::Refused(reason)) => Err(ClientError::Publication {
                topic: topic.to_string(),
                reason,
            }),
            Some(Standing::Waiting) | None => Err(self.unanswered(timeout)),
        }
    }

    /// Asks to publish, and returns at once; [`Publisher::is_live`] tells of the broker's leave,
    /// once [`Client::try_recv`] has taken what came.
    ///
    /// # Errors
    /// [`ClientError::Media`], [`ClientError::Streams`], [`ClientError::Busy`],
    /// [`ClientError::Closed`].
    pub fn begin_publish(&self, topic: &Topic, media: MediaInfo) -> Result<Publisher, ClientError> {
        let mut state = self.shared.state();
        let (publication, message) = state.publish(topic, media)?;
        if state.is_up()
            && let Err(error) = self.shared.tell(message)
        {
            state.unpublish(&publication);
            return Err(error);
        }
        drop(state);
        Ok(Publisher::new(self.shared.clone(), publication))
    }

    /// Asks for what a filter selects, now and after every reconnection.
    /// [`Received::Subscribed`] or [`Received::Refused`] answers.
    ///
    /// # Errors
    /// [`ClientError::Filters`], [`ClientError::Busy`], [`ClientError::Closed`].
    pub fn subscribe(&self, filter: &Filter) -> Result<(), ClientError> {
        let mut state = self.shared.state();
        let message = state.subscribe(filter)?;
        let Some(message) = message.filter(|_| state.is_up()) else {
            return Ok(());
        };
        self.shared.tell(message).inspect_err(|_| {
            state.unsubscribe(filter);
        })
    }

    /// Asks for no more of what a filter selects. Nothing happens if it was not subscribed.
    ///
    /// # Errors
    /// [`ClientError::Busy`], [`ClientError::Closed`].
    pub fn unsubscribe(&self, filter: &Filter) -> Result<(), ClientError> {
        let mut state = self.shared.state();
        let message = state.unsubscribe(filter);
        message
            .filter(|_| state.is_up())
            .map_or(Ok(()), |message| self.shared.tell(message))
    }

    /// Publishes on a reliable topic, at once: what is sent before the link is up waits.
    ///
    /// # Errors
    /// [`ReliableError::Limit`]
    pub fn publish_reliable(&self, topic: &Topic) -> Result<ReliablePublisher, ReliableError> {
        ReliablePublisher::new(self.shared.clone(), topic.clone())
    }

    /// Asks for a reliable topic, beginning with up to `replay` of the latest records that the
    /// network keeps of it; comes as [`Received::Reliable`], over all reconnections.
    ///
    /// # Errors
    /// [`ReliableError::Limit`]
    pub fn subscribe_reliable(&self, topic: &Topic, replay: u32) -> Result<(), ReliableError> {
        reliable::subscribe(&self.shared, topic, replay)
    }

    /// Asks for no more of a reliable topic.
    pub fn unsubscribe_reliable(&self, topic: &Topic) {
        reliable::unsubscribe(&self.shared, topic);
    }

    /// Asks or tells the publisher of a stream something; it may be merged with what others say.
    ///
    /// # Errors
    /// Why it was dropped.
    pub fn feedback(
        &self,
        stream: StreamId,
        layer: u8,
        feedback: &Feedback,
    ) -> Result<(), SendError> {
        let mut payload = Vec::with_capacity(16);
        feedback.encode(&mut payload);
        let flags = Flags::NONE;
        let class = Class::Feedback;
        let event = Event {
            header: Header {
                class,
                flags,
                stream,
                sequence: 0,
                hop_limit: HOP_LIMIT,
                layer,
            },
            extensions: Extensions::NONE,
            payload: &payload,
        };
        let pool = &self.shared.pool;
        let packet = pool.take(event.encoded_len()).ok_or(SendError::Exhausted);
        let packet = packet.and_then(|mut packet| {
            event.write(&mut packet).map_err(|_| SendError::Oversized)?;
            Ok(packet.freeze())
        });
        self.shared.emit(1, core::iter::once(packet))
    }

    /// The next thing, waited for up to `timeout`. `None` also when the client is closed.
    pub fn recv(&mut self, timeout: Duration) -> Option<Received> {
        self.incoming.recv(timeout)
    }

    /// The next thing, if it is there. After `None` the client's descriptor tells of the next.
    pub fn try_recv(&mut self) -> Option<Received> {
        self.incoming.try_recv()
    }

    /// A descriptor for a poller of the caller's own: readable when something came after
    /// [`Client::try_recv`] said `None`.
    pub fn fd(&mut self) -> BorrowedFd<'_> {
        self.incoming.fd()
    }

    /// Whether nothing can come any more, as the broker in this process has stopped.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.incoming.is_closed()
    }

    /// The link, if it is up.
    #[must_use]
    pub fn up(&self) -> Option<UpInfo> {
        match self.shared.state().link() {
            Link::Up(info) => Some(info),
            _ => None,
        }
    }

    /// The smoothed round trip to the broker, once measured.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        self.shared.measures.rtt()
    }

    /// The broker's clock against this machine's, once measured.
    #[must_use]
    pub fn clock_offset(&self) -> Option<ClockOffset> {
        self.shared.measures.clock_offset()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> ClientCounters {
        self.shared.counters.read()
    }

    /// Says goodbye after what is queued has left. Dropping does the same.
    pub fn close(self) {}

    fn unanswered(&self, waited: Duration) -> ClientError {
        let state = self.shared.state();
        match state.link() {
            Link::Refused {
                reason: Refusal::Version,
                speaks,
                ..
            } => ClientError::Version {
                target: self.target.clone(),
                theirs: speaks,
                ours: VERSION,
            },
            Link::Refused { reason, .. } => refused(&self.target, reason),
            Link::Closed => ClientError::Closed,
            Link::Up(_) => ClientError::Unanswered(waited),
            Link::Down => match state.cause() {
                Some(cause) if cause.certificate => ClientError::Certificate {
                    target: self.target.clone(),
                    cause: cause.text.clone(),
                },
                cause => ClientError::NoAnswer {
                    target: self.target.clone(),
                    waited,
                    cause: cause.map(|cause| cause.text.clone()),
                },
            },
        }
    }
}

fn refused(target: &str, reason: Refusal) -> ClientError {
    ClientError::Refused {
        target: target.to_owned(),
        reason,
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.state().down(Link::Closed);
        self.shared.close();
        // The driver says goodbye first.
        drop(self.driver.take());
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("target", &self.target)
            .field("up", &self.up())
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}
