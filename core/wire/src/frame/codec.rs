//! Link frames to bytes and back; `docs/spec/wire.md` draws each layout.

use sangam_model::{BrokerId, Incarnation, StreamId};

use super::{
    Capabilities, DATAGRAM_MIN, Echo, FRAME_LEN_MAX, Frame, HELLO_LEN, Heard, Hello, Refuse, Role,
    Traffic, Welcome,
};
use crate::codec::{Put, Reader};
use crate::header::{FRAME_NIBBLE, VERSION};
use crate::{Refusal, WireError};

const FRAME_BYTE: u8 = (VERSION << 4) | FRAME_NIBBLE;

/// Second byte of a frame.
mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const RETRY: u8 = 2;
    pub(super) const WELCOME: u8 = 3;
    pub(super) const REFUSE: u8 = 4;
    pub(super) const PING: u8 = 5;
    pub(super) const PONG: u8 = 6;
    pub(super) const CONTROL: u8 = 7;
    pub(super) const ACK: u8 = 8;
    pub(super) const BYE: u8 = 9;
    pub(super) const BEACON: u8 = 10;
    pub(super) const ECHO: u8 = 11;
}

/// Bytes of what a ping or pong says about traffic.
const TRAFFIC_LEN: usize = 16;

/// Flags of an echo.
const FLAG_QUIET: u8 = 1;
const FLAG_ASKS: u8 = 2;
const FLAG_HEARD: u8 = 4;
/// Bytes of what an echo tells of the last one that was heard.
const HEARD_LEN: usize = 16;

const ROLE_CLIENT: u8 = 0;
const ROLE_BROKER: u8 = 1;

impl<'a> Frame<'a> {
    /// Reads one whole datagram or unit. Bytes behind the known fields are ignored: a later
    /// release may append to a frame.
    ///
    /// # Errors
    /// Any [`WireError`] but `Class`. For [`WireError::Version`] see [`Refuse::version`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        // A ping may be as long as what it probes the path for.
        if bytes.len() > FRAME_LEN_MAX && bytes[1] != kind::PING {
            return Err(WireError::Oversized);
        }
        let mut read = Reader::new(bytes);
        if read.u8()? != FRAME_BYTE {
            return Err(WireError::Version);
        }
        match read.u8()? {
            kind::HELLO if bytes.len() < HELLO_LEN => Err(WireError::Truncated),
            kind::HELLO => Hello::read(read).map(Self::Hello),
            kind::RETRY => Ok(Self::Retry {
                nonce: read.u64()?,
                cookie: read.array()?,
            }),
            kind::WELCOME => Welcome::read(read).map(Self::Welcome),
            kind::REFUSE => Refuse::read(read).map(Self::Refuse),
            kind::PING => {
                let (session, sent_us) = (read.u32()?, read.u64()?);
                Ok(Self::Ping {
                    session,
                    sent_us,
                    traffic: Traffic::read(read),
                })
            }
            kind::PONG => {
                let (session, echo_us, now_us) = (read.u32()?, read.u64()?, read.u64()?);
                Ok(Self::Pong {
                    session,
                    echo_us,
                    now_us,
                    traffic: Traffic::read(read),
                })
            }
            kind::ECHO => Echo::read(read).map(Self::Echo),
            kind::CONTROL => Ok(Self::Control {
                session: read.u32()?,
                sequence: read.u16()?,
                ack: read.u16()?,
                messages: read.rest(),
            }),
            kind::ACK => Ok(Self::Ack {
                session: read.u32()?,
                ack: read.u16()?,
            }),
            kind::BYE => Ok(Self::Bye {
                session: read.u32()?,
                reason: reason(read.u8()?),
            }),
            kind::BEACON => Ok(Self::Beacon {
                stream: StreamId::from_bits(read.u64()?),
            }),
            _ => Err(WireError::Kind),
        }
    }

    /// Bytes that [`Frame::encode`] appends.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let measured = |traffic: Option<Traffic>| traffic.map_or(0, |_| TRAFFIC_LEN);
        match *self {
            Self::Hello(_) => HELLO_LEN,
            Self::Retry { .. } => 26,
            Self::Welcome(_) => 36,
            Self::Refuse(refuse) => 15 + usize::from(refuse.speaks > 0),
            Self::Ping { traffic, .. } => 14 + measured(traffic),
            Self::Pong { traffic, .. } => 22 + measured(traffic),
            Self::Echo(echo) => 15 + echo.heard.map_or(0, |_| HEARD_LEN),
            Self::Control { messages, .. } => 10 + messages.len(),
            Self::Ack { .. } => 8,
            Self::Bye { .. } => 7,
            Self::Beacon { .. } => 10,
        }
    }

    /// Appends the frame. The fields have to lie in their ranges.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(FRAME_BYTE);
        match *self {
            Self::Hello(ref hello) => hello.append(out),
            Self::Retry { nonce, cookie } => {
                out.put_u8(kind::RETRY);
                out.put_u64(nonce);
                out.put(&cookie);
            }
            Self::Welcome(ref welcome) => welcome.append(out),
            Self::Refuse(refuse) => refuse.append(out),
            Self::Ping {
                session,
                sent_us,
                traffic,
            } => {
                out.put_u8(kind::PING);
                out.put_u32(session);
                out.put_u64(sent_us);
                Traffic::append(traffic, out);
            }
            Self::Pong {
                session,
                echo_us,
                now_us,
                traffic,
            } => {
                out.put_u8(kind::PONG);
                out.put_u32(session);
                out.put_u64(echo_us);
                out.put_u64(now_us);
                Traffic::append(traffic, out);
            }
            Self::Echo(echo) => echo.append(out),
            Self::Control {
                session,
                sequence,
                ack,
                messages,
            } => {
                out.put_u8(kind::CONTROL);
                out.put_u32(session);
                out.put_u16(sequence);
                out.put_u16(ack);
                out.put(messages);
            }
            Self::Ack { session, ack } => {
                out.put_u8(kind::ACK);
                out.put_u32(session);
                out.put_u16(ack);
            }
            Self::Bye { session, reason } => {
                out.put_u8(kind::BYE);
                out.put_u32(session);
                out.put_u8(reason as u8);
            }
            Self::Beacon { stream } => {
                out.put_u8(kind::BEACON);
                out.put_u64(stream.bits());
            }
        }
    }
}

impl Traffic {
    /// Both fields or neither: endpoints that do not measure end their frames before them.
    fn read(mut read: Reader<'_>) -> Option<Self> {
        let (Ok(packets), Ok(bytes)) = (read.u64(), read.u64()) else {
            return None;
        };
        Some(Self { packets, bytes })
    }

    fn append(traffic: Option<Self>, out: &mut Vec<u8>) {
        if let Some(Self { packets, bytes }) = traffic {
            out.put_u64(packets);
            out.put_u64(bytes);
        }
    }
}

impl Echo {
    fn read(mut read: Reader<'_>) -> Result<Self, WireError> {
        let (session, now_us, flags) = (read.u32()?, read.u64()?, read.u8()?);
        let heard = (flags & FLAG_HEARD != 0).then(|| Heard::read(read));
        Ok(Self {
            session,
            now_us,
            asks: flags & FLAG_ASKS != 0,
            quiet: flags & FLAG_QUIET != 0,
            heard: heard.transpose()?,
        })
    }

    fn append(self, out: &mut Vec<u8>) {
        out.put_u8(kind::ECHO);
        out.put_u32(self.session);
        out.put_u64(self.now_us);
        let flags = [
            (self.quiet, FLAG_QUIET),
            (self.asks, FLAG_ASKS),
            (self.heard.is_some(), FLAG_HEARD),
        ];
        let set = flags.into_iter().filter(|(is_set, _)| *is_set);
        out.put_u8(set.map(|(_, flag)| flag).sum());
        if let Some(heard) = self.heard {
            heard.append(out);
        }
    }
}

impl Heard {
    fn read(mut read: Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            echo_us: read.u32()?,
            held_us: read.u32()?,
            packets: read.u32()?,
            bytes: read.u32()?,
        })
    }

    fn append(self, out: &mut Vec<u8>) {
        out.put_u32(self.echo_us);
        out.put_u32(self.held_us);
        out.put_u32(self.packets);
        out.put_u32(self.bytes);
    }
}

impl Hello {
    fn read(mut read: Reader<'_>) -> Result<Self, WireError> {
        let (version_min, version_max) = (read.u8()?, read.u8()?);
        let nonce = read.u64()?;
        if version_min > version_max {
            return Err(WireError::Value);
        }
        if !(version_min..=version_max).contains(&VERSION) {
            return Err(WireError::Version);
        }
        let capabilities = Capabilities(read.u32()?);
        let datagram_max = datagram_max(read.u16()?)?;
        let clock_domain = read.u32()?;
        let (role, incarnation) = (read.u8()?, Incarnation(read.u8()?));
        let broker = BrokerId(read.u32()?);
        let role = match role {
            ROLE_CLIENT => Role::Client,
            ROLE_BROKER => Role::Broker(broker, incarnation),
            _ => return Err(WireError::Value),
        };
        let cookie = match (read.u8()?, read.array()?) {
            (0, _) => None,
            (1, cookie) => Some(cookie),
            _ => return Err(WireError::Value),
        };
        Ok(Self {
            role,
            version_min,
            version_max,
            capabilities,
            nonce,
            datagram_max,
            clock_domain,
            cookie,
        })
    }

    fn append(&self, out: &mut Vec<u8>) {
        // The frame byte stands there already.
        let end = out.len() + HELLO_LEN - 1;
        let (role, BrokerId(broker), Incarnation(incarnation)) = match self.role {
            Role::Client => (ROLE_CLIENT, BrokerId(0), Incarnation(0)),
            Role::Broker(broker, incarnation) => (ROLE_BROKER, broker, incarnation),
        };
        out.put_u8(kind::HELLO);
        out.put_u8(self.version_min);
        out.put_u8(self.version_max);
        out.put_u64(self.nonce);
        out.put_u32(self.capabilities.0);
        out.put_u16(self.datagram_max);
        out.put_u32(self.clock_domain);
        out.put_u8(role);
        out.put_u8(incarnation);
        out.put_u32(broker);
        out.put_u8(u8::from(self.cookie.is_some()));
        out.put(&self.cookie.unwrap_or_default());
        out.resize(end, 0);
    }
}

impl Welcome {
    fn read(mut read: Reader<'_>) -> Result<Self, WireError> {
        let welcome = Self {
            nonce: read.u64()?,
            version: read.u8()?,
            incarnation: Incarnation(read.u8()?),
            broker: BrokerId(read.u32()?),
            capabilities: Capabilities(read.u32()?),
            session: read.u32()?,
            control_port: read.u16()?,
            media_port: read.u16()?,
            datagram_max: datagram_max(read.u16()?)?,
            keepalive_ms: read.u16()?,
            clock_domain: read.u32()?,
        };
        if welcome.version != VERSION {
            return Err(WireError::Version);
        }
        if welcome.keepalive_ms == 0 {
            return Err(WireError::Value);
        }
        Ok(welcome)
    }

    fn append(&self, out: &mut Vec<u8>) {
        out.put_u8(kind::WELCOME);
        out.put_u64(self.nonce);
        out.put_u8(self.version);
        out.put_u8(self.incarnation.0);
        out.put_u32(self.broker.0);
        out.put_u32(self.capabilities.0);
        out.put_u32(self.session);
        out.put_u16(self.control_port);
        out.put_u16(self.media_port);
        out.put_u16(self.datagram_max);
        out.put_u16(self.keepalive_ms);
        out.put_u32(self.clock_domain);
    }
}

impl Refuse {
    /// The answer to a hello of no version in common: such a hello only has the prefix that
    /// never changes (`docs/spec/wire.md`, "What never changes").
    ///
    /// `None` if `bytes` are no such hello, or too few: an answer is never larger than the
    /// question.
    #[must_use]
    pub fn version(bytes: &[u8]) -> Option<Self> {
        let mut read = Reader::new(bytes);
        let marked = read.u8().ok()? == FRAME_BYTE && read.u8().ok()? == kind::HELLO;
        if !marked || bytes.len() < HELLO_LEN {
            return None;
        }
        let (version_min, version_max) = (read.u8().ok()?, read.u8().ok()?);
        let nonce = read.u64().ok()?;
        let foreign = version_min <= version_max && !(version_min..=version_max).contains(&VERSION);
        let reason = Refusal::Version;
        foreign.then_some(Self {
            nonce,
            reason,
            retry_after_ms: 0,
            speaks: VERSION,
        })
    }

    fn read(mut read: Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            nonce: read.u64()?,
            reason: reason(read.u8()?),
            retry_after_ms: read.u32()?,
            speaks: read.u8().unwrap_or(0),
        })
    }

    fn append(self, out: &mut Vec<u8>) {
        out.put_u8(kind::REFUSE);
        out.put_u64(self.nonce);
        out.put_u8(self.reason as u8);
        out.put_u32(self.retry_after_ms);
        if self.speaks > 0 {
            out.put_u8(self.speaks);
        }
    }
}

fn datagram_max(value: u16) -> Result<u16, WireError> {
    if value < DATAGRAM_MIN {
        Err(WireError::Value)
    } else {
        Ok(value)
    }
}

/// A reason that is not known yet still refuses.
fn reason(bits: u8) -> Refusal {
    Refusal::from_bits(bits).unwrap_or(Refusal::Invalid)
}
