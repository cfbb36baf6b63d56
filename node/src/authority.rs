//! Who clients are: an [`Authority`] verifies their tokens, in a thread of its own, as a signature
//! takes longer to check than a packet may wait.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use sangam_io::clock;
use sangam_io::wake::Waker;
use sangam_model::limits::WRONG_TOKENS_PER_ADDRESS;
use sangam_model::{Grants, Time};
use sangam_wire::Refusal;

use crate::command::ShardCommand;
use crate::shard::Subscriber;

/// Tokens that may wait for their verification; at 0.1 ms each the last waits 0.1 s.
const QUESTIONS: usize = 1_024;
/// Addresses whose wrong tokens are counted at once.
const ADDRESSES: usize = 16_384;
/// How long a wrong token is remembered.
const MEMORY: Duration = Duration::from_secs(1);

/// Knows which tokens to believe.
pub trait Authority: fmt::Debug + Send + Sync {
    /// What a token grants. `now` is the broker's time, in which the grants expire.
    ///
    /// # Errors
    /// See [`AuthError`].
    fn verify(&self, token: &str, now: Time) -> Result<Grants, AuthError>;
}

/// Why a token grants nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthError {
    /// Not to be believed; says why, for the broker's log only.
    Invalid(String),
    /// It was good once.
    Expired,
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => write!(f, "the token is wrong: {why}"),
            Self::Expired => f.write_str("the token has expired"),
        }
    }
}

impl std::error::Error for AuthError {}

/// Asks what a client's token grants.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) shard: u16,
    pub(crate) who: Subscriber,
    /// Comes back with the answer: the peer's number may be another's by then.
    pub(crate) ticket: u64,
    pub(crate) address: IpAddr,
    pub(crate) token: String,
}

/// The thread that answers.
#[derive(Debug)]
pub(crate) struct Verifier {
    authority: Arc<dyn Authority>,
    questions: Receiver<Question>,
    shards: Vec<(SyncSender<ShardCommand>, Waker)>,
}

impl Verifier {
    /// The way to ask, and who will answer.
    pub(crate) fn new(authority: Arc<dyn Authority>) -> (SyncSender<Question>, Self) {
        let (asks, questions) = sync_channel(QUESTIONS);
        let verifier = Self {
            authority,
            questions,
            shards: Vec::new(),
        };
        (asks, verifier)
    }

    /// The same, answering to these.
    pub(crate) fn answering(self, shards: Vec<(SyncSender<ShardCommand>, Waker)>) -> Self {
        Self { shards, ..self }
    }

    /// Runs until every shard has stopped.
    pub(crate) fn run(self) {
        let mut wrong = WrongTokens::default();
        while let Ok(question) = self.questions.recv() {
            let verdict = self.judge(&question, &mut wrong);
            let Some((commands, waker)) = self.shards.get(usize::from(question.shard)) else {
                continue;
            };
            // A shard has stopped only when the whole broker stops.
            let _ = commands.send(ShardCommand::Judged {
                to: question.who,
                ticket: question.ticket,
                verdict,
            });
            waker.wake();
        }
    }

    fn judge(&self, question: &Question, wrong: &mut WrongTokens) -> Result<Grants, Refusal> {
        let now = clock::now();
        let origin = origin(question.address);
        if !wrong.tolerates(origin, now) {
            return Err(Refusal::Limit);
        }
        self.authority
            .verify(&question.token, now)
            .map_err(|error| {
                wrong.add(origin, now);
                tracing::debug!(%error, client = %question.address, "a token is refused");
                match error {
                    AuthError::Expired => Refusal::Expired,
                    AuthError::Invalid(_) => Refusal::Unauthenticated,
                }
            })
    }
}

/// What counts as one address: an IPv6 host may choose among the 2^64 of its network.
pub(crate) fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let network = u128::from(v6) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        v4 => v4,
    }
}

/// Wrong tokens by address, within [`MEMORY`] of the first.
#[derive(Debug, Default)]
struct WrongTokens(HashMap<IpAddr, (u32, Time)>);

impl WrongTokens {
    fn tolerates(&self, address: IpAddr, now: Time) -> bool {
        self.0.get(&address).is_none_or(|(wrong, since)| {
            *wrong < WRONG_TOKENS_PER_ADDRESS || now - *since >= MEMORY
        })
    }

    fn add(&mut self, address: IpAddr, now: Time) {
        if self.0.len() >= ADDRESSES {
            self.0.retain(|_, (_, since)| now - *since < MEMORY);
        }
        if self.0.len() >= ADDRESSES {
            // So many hosts at once are stopped by the length of the queue, not by this.
            self.0.clear();
        }
        let (wrong, since) = self.0.entry(address).or_insert((0, now));
        if now - *since >= MEMORY {
            (*wrong, *since) = (0, now);
        }
        *wrong += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_many_wrong_tokens_has_to_wait_and_no_other() {
        let mut wrong = WrongTokens::default();
        let (bad, good) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let start = Time::from_millis(10);
        for _ in 0..WRONG_TOKENS_PER_ADDRESS {
            assert!(wrong.tolerates(bad, start));
            wrong.add(bad, start);
        }
        assert!(!wrong.tolerates(bad, start));
        assert!(wrong.tolerates(good, start));
        assert!(wrong.tolerates(bad, start + MEMORY));
    }

    #[test]
    fn addresses_beyond_the_bound_take_no_memory() {
        let mut wrong = WrongTokens::default();
        for number in 0..3 * ADDRESSES as u32 {
            wrong.add(IpAddr::from(number.to_be_bytes()), Time::ZERO);
            assert!(wrong.0.len() <= ADDRESSES);
        }
    }

    #[test]
    fn hosts_of_one_ipv6_network_count_as_one() {
        let of = |text: &str| origin(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
