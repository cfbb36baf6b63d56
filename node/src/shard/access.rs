//! What the clients of a shard may do, as their tokens say.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::mpsc::SyncSender;

use sangam_io::port::Action;
use sangam_model::{Filter, Grants, Time, Topic, limits};

use super::audience::Subscriber;
use crate::authority::Question;

/// Requests that wait for the verdict on their client's token: all that it may ask for anew.
const HELD: usize = limits::FILTERS_PER_CLIENT + limits::STREAMS_PER_CLIENT;

/// The grants of a shard's clients.
#[derive(Debug)]
pub(super) struct Access {
    shard: u16,
    /// `None`: nobody is asked for a token.
    verifier: Option<SyncSender<Question>>,
    peers: HashMap<Subscriber, Peer>,
    deadlines: BTreeSet<(Time, Subscriber)>,
    tickets: u64,
}

#[derive(Debug, Default)]
struct Peer {
    granted: Option<Granted>,
    asked: Option<Asked>,
}

/// A token that was believed.
#[derive(Debug)]
struct Granted {
    request: u32,
    grants: Grants,
}

/// A token under examination.
#[derive(Debug)]
struct Asked {
    ticket: u64,
    request: u32,
    held: VecDeque<Action>,
}

/// A verdict's consequences.
#[derive(Debug)]
pub(super) struct Verdict {
    /// Of the token.
    pub(super) request: u32,
    /// What came since, in order.
    pub(super) held: VecDeque<Action>,
}

impl Access {
    pub(super) fn new(shard: u16, verifier: Option<SyncSender<Question>>) -> Self {
        Self {
            shard,
            verifier,
            peers: HashMap::new(),
            deadlines: BTreeSet::new(),
            tickets: 0,
        }
    }

    /// Whether clients are asked for tokens at all.
    pub(super) fn is_guarded(&self) -> bool {
        self.verifier.is_some()
    }

    /// Has a token verified; false if too many wait for that already.
    pub(super) fn ask(
        &mut self,
        who: Subscriber,
        request: u32,
        (token, address): (String, IpAddr),
    ) -> bool {
        let Some(verifier) = &self.verifier else {
            return false;
        };
        self.tickets += 1;
        let question = Question {
            shard: self.shard,
            who,
            ticket: self.tickets,
            address,
            token,
        };
        if verifier.try_send(question).is_err() {
            return false;
        }
        self.peers.entry(who).or_default().asked = Some(Asked {
            ticket: self.tickets,
            request,
            held: VecDeque::new(),
        });
        true
    }

    /// Whether a token of this client is under examination.
    pub(super) fn is_asked(&self, who: Subscriber) -> bool {
        self.peers
            .get(&who)
            .is_some_and(|peer| peer.asked.is_some())
    }

    /// Whether this client has shown a token and is still there.
    pub(super) fn knows(&self, who: Subscriber) -> bool {
        self.peers.contains_key(&who)
    }

    /// Keeps a request until the verdict; gives it back if too many are kept.
    pub(super) fn hold(&mut self, who: Subscriber, action: Action) -> Result<(), Action> {
        let asked = self
            .peers
            .get_mut(&who)
            .and_then(|peer| peer.asked.as_mut());
        match asked {
            Some(asked) if asked.held.len() < HELD => {
                asked.held.push_back(action);
                Ok(())
            }
            _ => Err(action),
        }
    }

    /// Takes a verdict; `None` if its client is gone.
    pub(super) fn judged(
        &mut self,
        who: Subscriber,
        ticket: u64,
        grants: Option<Grants>,
    ) -> Option<Verdict> {
        let peer = self.peers.get_mut(&who)?;
        let Asked { request, held, .. } = peer.asked.take_if(|asked| asked.ticket == ticket)?;
        if let Some(grants) = grants {
            let expires = grants.expires;
            let before = peer.granted.replace(Granted { request, grants });
            if let Some(before) = before {
                self.deadlines.remove(&(before.grants.expires, who));
            }
            self.deadlines.insert((expires, who));
        }
        Some(Verdict { request, held })
    }

    pub(super) fn may_publish(&self, who: Subscriber, topic: &Topic) -> bool {
        self.grants(who)
            .is_some_and(|grants| grants.may_publish(topic))
    }

    /// Whether what it publishes waits for a session server's word.
    pub(super) fn is_gated(&self, who: Subscriber) -> bool {
        self.grants(who).is_some_and(|grants| grants.gated)
    }

    pub(super) fn may_subscribe(&self, who: Subscriber, filter: &Filter) -> bool {
        self.grants(who)
            .is_some_and(|grants| grants.may_subscribe(filter))
    }

    /// When the next grants end.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Ends the next grants whose time is over: whose, and by which request they were given.
    pub(super) fn expire(&mut self, now: Time) -> Option<(Subscriber, u32)> {
        let (at, who) = *self.deadlines.first()?;
        if at > now {
            return None;
        }
        self.deadlines.pop_first();
        let granted = self.peers.get_mut(&who)?.granted.take()?;
        Some((who, granted.request))
    }

    /// Forgets a client that left.
    pub(super) fn forget(&mut self, who: Subscriber) {
        if let Some(granted) = self.peers.remove(&who).and_then(|peer| peer.granted) {
            self.deadlines.remove(&(granted.grants.expires, who));
        }
    }

    fn grants(&self, who: Subscriber) -> Option<&Grants> {
        let granted = self.peers.get(&who)?.granted.as_ref()?;
        Some(&granted.grants)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};

    use super::*;

    const WHO: Subscriber = Subscriber { port: 0, peer: 7 };

    fn access() -> (Access, Receiver<Question>) {
        let (sender, questions) = sync_channel(1);
        (Access::new(0, Some(sender)), questions)
    }

    fn ask(access: &mut Access, request: u32) -> bool {
        access.ask(WHO, request, ("token".to_owned(), [127, 0, 0, 1].into()))
    }

    fn grants(expires: u64) -> Option<Grants> {
        Some(Grants {
            tenant: "a".to_owned(),
            publish: Vec::new(),
            subscribe: vec![Filter::new("a/#").unwrap()],
            gated: false,
            expires: Time::from_millis(expires),
        })
    }

    fn request() -> Action {
        let filter = Filter::new("a/b").unwrap();
        Action::Subscribe {
            peer: 7,
            request: 2,
            filter,
        }
    }

    #[test]
    fn a_verdict_for_a_client_that_left_goes_to_nobody() {
        let (mut access, questions) = access();
        assert!(ask(&mut access, 1));
        access.forget(WHO);
        let old = questions.recv().unwrap().ticket;
        assert!(ask(&mut access, 1), "another client under the same number");
        assert!(access.judged(WHO, old, grants(9)).is_none());
        assert!(!access.may_subscribe(WHO, &Filter::new("a/b").unwrap()));
        assert!(access.deadline().is_none());
    }

    #[test]
    fn a_newer_token_moves_the_deadline() {
        let (mut access, questions) = access();
        for (request, expires) in [(1, 10), (2, 20)] {
            assert!(ask(&mut access, request));
            let ticket = questions.recv().unwrap().ticket;
            access.judged(WHO, ticket, grants(expires)).unwrap();
        }
        assert!(access.expire(Time::from_millis(19)).is_none());
        assert_eq!(access.expire(Time::from_millis(20)), Some((WHO, 2)));
        assert!(access.deadline().is_none());
        assert!(!access.may_subscribe(WHO, &Filter::new("a/b").unwrap()));
    }

    #[test]
    fn tokens_and_requests_that_wait_are_bounded() {
        let (mut access, _questions) = access();
        assert!(access.hold(WHO, request()).is_err(), "nothing to wait for");
        assert!(ask(&mut access, 1));
        assert!(!ask(&mut access, 2), "the verifier's queue is full");
        assert!((0..HELD).all(|_| access.hold(WHO, request()).is_ok()));
        assert!(access.hold(WHO, request()).is_err());
    }

    #[test]
    fn a_refused_token_leaves_the_older_one_in_force() {
        let (mut access, questions) = access();
        assert!(ask(&mut access, 1));
        let ticket = questions.recv().unwrap().ticket;
        access.judged(WHO, ticket, grants(10)).unwrap();
        assert!(ask(&mut access, 2));
        access.hold(WHO, request()).unwrap();
        let ticket = questions.recv().unwrap().ticket;
        let verdict = access.judged(WHO, ticket, None).unwrap();
        assert_eq!((verdict.request, verdict.held.len()), (2, 1));
        assert!(access.may_subscribe(WHO, &Filter::new("a/b").unwrap()));
        assert_eq!(access.deadline(), Some(Time::from_millis(10)));
    }
}
