//! Where the broker is, and how much a client may hold.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;

use sangam_io::door::ClientDoor;
use sangam_io::pool::Pool;
use sangam_io::tls::{Identity, Trust};
use sangam_link::Backoff;
use sangam_model::limits::TOKEN_LEN_MAX;

/// Says what this client may do. Never shown: neither by `Debug` nor in an error.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// The text is no token: it is empty, longer than [`TOKEN_LEN_MAX`] bytes, or holds more than
/// printable ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenError;

use crate::{Address, ProxyAddress};

/// How a broker is reached.
#[derive(Debug)]
pub enum Target {
    /// By datagrams, at its public UDP port: for media.
    Udp(SocketAddr),
    /// By a byte stream: where datagrams do not pass.
    Tcp(SocketAddr),
    /// By the first of these addresses that works, best first.
    Addresses(Vec<Address>),
    /// In the same process.
    Door(ClientDoor),
}

/// Numbers of packet buffers, allocated when the client is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Buffers of 2,048 bytes, for ordinary packets.
    pub small: usize,
    /// Buffers of 16,384 bytes, for large events.
    pub large: usize,
}

/// How streams reach the broker.
#[derive(Clone, Debug, Default)]
pub struct StreamOptions {
    /// Which brokers are believed; `None`: what the system trusts. [`Trust::Anybody`] is taken
    /// for loopback addresses only.
    pub trust: Option<Trust>,
    /// The name the broker's certificate must have; `None`: the host of the address.
    pub server_name: Option<String>,
    /// What is shown to a broker that asks who calls.
    pub identity: Option<Arc<Identity>>,
    /// Through which proxy.
    pub proxy: Option<ProxyAddress>,
}

/// What a client is made with.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Items that may wait between client and broker or driver, each way; at least 64. A network
    /// client keeps a quarter of it free of video. A door was made with its own number.
    pub queue: usize,
    /// Buffers for what is received over a network. Packets the application keeps count, too:
    /// have some more than `queue`.
    pub receive_buffers: Buffers,
    /// Buffers for what is published.
    pub send_buffers: Buffers,
    /// Pauses between attempts to connect.
    pub backoff: Backoff,
    /// How streams reach the broker.
    pub stream: StreamOptions,
    /// How long a client stays on a lower way before it tries a better one.
    pub climb_after: Duration,
    /// Largest datagram to use, in bytes of UDP payload; `None`: as the path to the broker has it.
    pub datagram_max: Option<u16>,
    /// Bytes of the socket's receive buffer; 0: the system's default.
    pub socket_buffer: usize,
    /// So long what arrives by UDP may wait at the socket, to be taken with what comes after it:
    /// each turn costs two wake-ups, however much it brings. For whoever writes and does not play;
    /// 0 takes everything at once. The socket must hold what comes meanwhile.
    pub gather: Duration,
    /// Local address of the UDP socket; `None`: any.
    pub local: Option<SocketAddr>,
    /// Join groups on the segment when the broker offers it (raw UDP only).
    pub multicast: bool,
    /// Every so many events of a stream one carries a trace with the time it was published; 0:
    /// none does.
    pub trace_every: u32,
    /// Shown to the broker first on every link; `None` for brokers that ask for none.
    pub token: Option<Token>,
    /// Nonces and the jitter of pauses follow from it: give every client another one.
    pub seed: u64,
}

impl Token {
    /// Takes a token as its issuer wrote it; white space around it does not count.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        if text.is_empty() || text.len() > TOKEN_LEN_MAX || !printable {
            return Err(TokenError);
        }
        Ok(Self(text.to_owned()))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        Self::new(text)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a token has 1 to {TOKEN_LEN_MAX} characters of printable ASCII; `sangam token issue` \
             makes one"
        )
    }
}

impl core::error::Error for TokenError {}

impl Buffers {
    pub(crate) fn pool(self) -> Pool {
        Pool::new(self.small, self.large)
    }
}

impl Default for ClientOptions {
    /// For one participant of a meeting: about 9 MiB, touched as needed; a trace on every 16th
    /// event; a random seed.
    fn default() -> Self {
        Self {
            queue: 1_024,
            receive_buffers: Buffers {
                small: 2_048,
                large: 64,
            },
            send_buffers: Buffers {
                small: 1_280,
                large: 64,
            },
            backoff: Backoff::default(),
            stream: StreamOptions::default(),
            climb_after: Duration::from_secs(60),
            datagram_max: None,
            socket_buffer: 1 << 20,
            gather: Duration::ZERO,
            local: None,
            multicast: true,
            trace_every: 16,
            token: None,
            seed: RandomState::new().build_hasher().finish(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) => write!(f, "udp {address}"),
            Self::Tcp(address) => write!(f, "tcp {address}"),
            Self::Addresses(all) => {
                let all: Vec<_> = all.iter().map(ToString::to_string).collect();
                f.write_str(&all.join(", "))
            }
            Self::Door(_) => f.write_str("the broker in this process"),
        }
    }
}
