//! What a client asked for: told to the broker when it is asked, and again after each
//! reconnection.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use sangam_model::limits::{FILTERS_PER_CLIENT, STREAMS_PER_CLIENT};
use sangam_model::{Filter, MediaInfo, StreamId, Topic};
use sangam_wire::{Message, Refusal};

use crate::pass::Pass;
use crate::{ClientError, Received, Token, UpInfo};

/// Requests, and how the link is. Under one lock with every message that follows from it, so
/// that a restoration neither misses nor repeats a request.
#[derive(Debug)]
pub(crate) struct State {
    link: Link,
    /// What was heard about the last failed attempt.
    cause: Option<Cause>,
    next_request: u32,
    pass: Option<Pass>,
    subscriptions: Vec<Subscription>,
    publications: Vec<Registered>,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) text: String,
    /// One side does not believe the other's certificate.
    pub(crate) certificate: bool,
}

/// How the link to the broker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Not yet or not any more; attempts go on.
    Down,
    Up(UpInfo),
    Refused {
        reason: Refusal,
        /// The highest version the broker speaks; 0: it did not say.
        speaks: u8,
        /// Attempts go on.
        again: bool,
    },
    /// Gone for good.
    Closed,
}

/// One stream of this client, shared with its publisher.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) topic: Topic,
    pub(crate) media: MediaInfo,
    /// Whether `stream` is valid.
    live: AtomicBool,
    stream: AtomicU64,
}

/// How a publication fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Waiting,
    Live,
    Refused(Refusal),
}

#[derive(Debug)]
struct Subscription {
    filter: Filter,
    request: u32,
}

#[derive(Debug)]
struct Registered {
    publication: Arc<Publication>,
    request: u32,
    refused: Option<Refusal>,
}

impl Publication {
    /// The present id, if the broker has given one on this link.
    #[inline]
    pub(crate) fn stream(&self) -> Option<StreamId> {
        let live = self.live.load(Ordering::Acquire);
        live.then(|| StreamId::from_bits(self.stream.load(Ordering::Relaxed)))
    }

    fn set(&self, stream: StreamId) {
        self.stream.store(stream.bits(), Ordering::Relaxed);
        self.live.store(true, Ordering::Release);
    }

    fn unset(&self) {
        self.live.store(false, Ordering::Release);
    }

    fn request(&self, request: u32) -> Message {
        Message::Publish {
            request,
            topic: self.topic.clone(),
            media: self.media.clone(),
        }
    }
}

impl Registered {
    fn end(&mut self, reason: Refusal) {
        self.publication.unset();
        self.refused = Some(reason);
    }
}

impl From<String> for Cause {
    fn from(text: String) -> Self {
        Self {
            text,
            certificate: false,
        }
    }
}

impl State {
    pub(crate) fn new(link: Link, token: Option<Token>) -> Self {
        Self {
            link,
            cause: None,
            next_request: 1,
            pass: token.map(Pass::new),
            subscriptions: Vec::new(),
            publications: Vec::new(),
        }
    }

    pub(crate) fn link(&self) -> Link {
        self.link
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.link, Link::Up(_))
    }

    pub(crate) fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    pub(crate) fn set_cause(&mut self, cause: Cause) {
        self.cause = Some(cause);
    }

    /// What the broker says to the token; `None` as long as it says nothing.
    pub(crate) fn verdict(&self) -> Option<Result<(), Refusal>> {
        match &self.pass {
            Some(pass) => pass.verdict(),
            None => Some(Ok(())),
        }
    }

    /// Takes a newer token. The message to send.
    pub(crate) fn set_token(&mut self, token: Token) -> Message {
        let request = self.request();
        let pass = self.pass.get_or_insert_with(|| Pass::new(token.clone()));
        pass.token = token;
        pass.show(request)
    }

    /// Registers a subscription. The message to send; `None` if it is known already.
    pub(crate) fn subscribe(&mut self, filter: &Filter) -> Result<Option<Message>, ClientError> {
        if self
            .subscriptions
            .iter()
            .any(|known| known.filter == *filter)
        {
            return Ok(None);
        }
        if self.subscriptions.len() >= FILTERS_PER_CLIENT {
            return Err(ClientError::Filters);
        }
        let request = self.request();
        let filter = filter.clone();
        self.subscriptions.push(Subscription {
            filter: filter.clone(),
            request,
        });
        Ok(Some(Message::Subscribe { request, filter }))
    }

    /// Forgets a subscription. The message to send; `None` if it is not known.
    pub(crate) fn unsubscribe(&mut self, filter: &Filter) -> Option<Message> {
        let index = self
            .subscriptions
            .iter()
            .position(|known| known.filter == *filter)?;
        let Subscription { filter, .. } = self.subscriptions.remove(index);
        let request = self.request();
        Some(Message::Unsubscribe { request, filter })
    }

    /// Registers a publication, and the message to send.
    pub(crate) fn publish(
        &mut self,
        topic: &Topic,
        media: MediaInfo,
    ) -> Result<(Arc<Publication>, Message), ClientError> {
        media.validate().map_err(ClientError::Media)?;
        if self.publications.len() >= STREAMS_PER_CLIENT {
            return Err(ClientError::Streams);
        }
        let request = self.request();
        let publication = Arc::new(Publication {
            topic: topic.clone(),
            media,
            live: AtomicBool::new(false),
            stream: AtomicU64::new(0),
        });
        let message = publication.request(request);
        let registered = Registered {
            publication: publication.clone(),
            request,
            refused: None,
        };
        self.publications.push(registered);
        Ok((publication, message))
    }

    /// Forgets a publication. The message to send; `None` if the broker does not know it.
    pub(crate) fn unpublish(&mut self, publication: &Arc<Publication>) -> Option<Message> {
        self.publications
            .retain(|known| !Arc::ptr_eq(&known.publication, publication));
        let stream = publication.stream()?;
        publication.unset();
        Some(Message::Unpublish { stream })
    }

    pub(crate) fn standing(&self, publication: &Arc<Publication>) -> Standing {
        let mut all = self.publications.iter();
        match all.find(|known| Arc::ptr_eq(&known.publication, publication)) {
            Some(Registered {
                refused: Some(reason),
                ..
            }) => Standing::Refused(*reason),
            _ if publication.stream().is_some() => Standing::Live,
            _ => Standing::Waiting,
        }
    }

    /// The link is up: what was asked for is asked again, under new numbers, so that no late
    /// answer can be mistaken.
    pub(crate) fn up(&mut self, info: UpInfo, send: impl FnMut(Message)) {
        self.down(Link::Up(info));
        self.cause = None;
        if let Some(pass) = &mut self.pass {
            pass.forget();
        }
        self.restore(send);
    }

    /// Asks for everything on another link while the one there was goes on; that one's answers
    /// are not known any more.
    pub(crate) fn restore(&mut self, mut send: impl FnMut(Message)) {
        let request = self.request();
        if let Some(pass) = &mut self.pass {
            send(pass.show(request));
        }
        self.ask_anew(send);
    }

    fn ask_anew(&mut self, mut send: impl FnMut(Message)) {
        for index in 0..self.subscriptions.len() {
            let request = self.request();
            let known = &mut self.subscriptions[index];
            known.request = request;
            send(Message::Subscribe {
                request,
                filter: known.filter.clone(),
            });
        }
        for index in 0..self.publications.len() {
            let request = self.request();
            let known = &mut self.publications[index];
            known.request = request;
            known.refused = None;
            send(known.publication.request(request));
        }
    }

    /// Another link has taken over; what was published there already goes on.
    pub(crate) fn moved(&mut self, info: UpInfo) {
        if self.link != Link::Closed {
            self.link = Link::Up(info);
        }
        if let Some(pass) = &mut self.pass {
            pass.moved();
        }
    }

    /// The link is no more; `link` says how it is now. A closed one stays closed.
    pub(crate) fn down(&mut self, link: Link) {
        if self.link != Link::Closed {
            self.link = link;
        }
        for known in &self.publications {
            known.publication.unset();
        }
    }

    /// Takes an answer of the broker; `send` is for what it has to be told in return.
    pub(crate) fn apply(&mut self, message: &Message, mut send: impl FnMut(Message)) {
        let mut publications = self.publications.iter_mut();
        match *message {
            Message::Published { request, stream } => {
                let asked =
                    |known: &&mut Registered| known.request == request && known.refused.is_none();
                match publications.find(asked) {
                    Some(known) => known.publication.set(stream),
                    // Given up while the broker answered.
                    None => send(Message::Unpublish { stream }),
                }
            }
            Message::Refused { request, reason } => {
                match publications.find(|known| known.request == request) {
                    Some(known) => known.refused = Some(reason),
                    None => self.token_refused(request, reason),
                }
            }
            Message::Accepted { request } => {
                let pass = self.pass.as_mut();
                if pass.is_some_and(|pass| pass.accept(request)) {
                    self.ask_anew(send);
                }
            }
            Message::Retire { stream } => {
                // The token does not grant a stream of ours any more.
                let mut own = publications;
                if let Some(known) = own.find(|known| known.publication.stream() == Some(stream)) {
                    known.end(Refusal::Forbidden);
                }
            }
            _ => {}
        }
    }

    fn token_refused(&mut self, request: u32, reason: Refusal) {
        let pass = self.pass.as_mut();
        if pass.is_some_and(|pass| pass.refuse(request, reason)) {
            self.publications
                .iter_mut()
                .for_each(|known| known.end(reason));
        }
    }

    /// What a message means to the application, if it is its concern.
    pub(crate) fn read(&self, message: Message) -> Option<Received> {
        let filter = |request| {
            let mut all = self.subscriptions.iter();
            all.find(|known| known.request == request)
                .map(|known| known.filter.clone())
        };
        let shown = |request| {
            let pass = self.pass.as_ref();
            pass.is_some_and(|pass| pass.is_about(request))
        };
        match message {
            Message::Accepted { request } if shown(request) => Some(Received::Token(Ok(()))),
            Message::Refused { request, reason } if shown(request) => {
                Some(Received::Token(Err(reason)))
            }
            Message::Announce {
                stream,
                topic,
                media,
            } => Some(Received::Announce {
                stream,
                topic,
                media,
            }),
            Message::Retire { stream } => Some(Received::Retired(stream)),
            Message::Accepted { request } => filter(request).map(Received::Subscribed),
            Message::Refused { request, reason } => {
                filter(request).map(|filter| Received::Refused { filter, reason })
            }
            _ => None,
        }
    }

    fn request(&mut self) -> u32 {
        let request = self.next_request;
        self.next_request = request.wrapping_add(1);
        request
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
