//! Control messages to bytes and back; `docs/spec/wire.md` draws each layout.

use sangam_model::limits::TOKEN_LEN_MAX;
use sangam_model::{Class, Filter, MediaInfo, MediaInfoError, StreamId, Topic};

use super::{
    Group, Join, LinkState, MESSAGE_LEN_MAX, Message, Refusal, Register, Reliable, Route, Sources,
    network,
};
use crate::WireError;
use crate::codec::{Put, Reader};

/// First byte of a message.
mod kind {
    pub(super) const SUBSCRIBE: u8 = 1;
    pub(super) const UNSUBSCRIBE: u8 = 2;
    pub(super) const PUBLISH: u8 = 3;
    pub(super) const PUBLISHED: u8 = 4;
    pub(super) const UNPUBLISH: u8 = 5;
    pub(super) const ACCEPTED: u8 = 6;
    pub(super) const REFUSED: u8 = 7;
    pub(super) const ANNOUNCE: u8 = 8;
    pub(super) const RETIRE: u8 = 9;
    // 10 and 11 flooded every filter of every broker; nothing speaks them any more.
    pub(super) const LINK_STATE: u8 = 12;
    pub(super) const DIGEST: u8 = 13;
    pub(super) const JOIN: u8 = 14;
    pub(super) const REGISTER: u8 = 15;
    pub(super) const SOURCES: u8 = 16;
    pub(super) const AUTHENTICATE: u8 = 20;
    pub(super) const CARRIED: u8 = 23;
    // 24 to 30 are those of reliable topics: `reliable::kind`.
    pub(super) const GROUP: u8 = 31;
    pub(super) const HEARING: u8 = 32;
}

impl Message {
    /// Reads one message. Bytes behind the known fields are ignored: a later release may append
    /// to a message.
    ///
    /// # Errors
    /// Any [`WireError`] but `Version`.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        if bytes.len() > MESSAGE_LEN_MAX {
            return Err(WireError::Oversized);
        }
        let mut read = Reader::new(bytes);
        Ok(match read.u8()? {
            kind::SUBSCRIBE => Self::Subscribe {
                request: read.u32()?,
                filter: filter(&mut read)?,
            },
            kind::UNSUBSCRIBE => Self::Unsubscribe {
                request: read.u32()?,
                filter: filter(&mut read)?,
            },
            kind::PUBLISH => Self::Publish {
                request: read.u32()?,
                topic: topic(&mut read)?,
                media: media(&mut read)?,
            },
            kind::PUBLISHED => Self::Published {
                request: read.u32()?,
                stream: stream(&mut read)?,
            },
            kind::UNPUBLISH => Self::Unpublish {
                stream: stream(&mut read)?,
            },
            kind::ACCEPTED => Self::Accepted {
                request: read.u32()?,
            },
            kind::REFUSED => Self::Refused {
                request: read.u32()?,
                // A reason that is not known yet still refuses.
                reason: Refusal::from_bits(read.u8()?).unwrap_or(Refusal::Invalid),
            },
            kind::ANNOUNCE => Self::Announce {
                stream: stream(&mut read)?,
                topic: topic(&mut read)?,
                media: media(&mut read)?,
            },
            kind::RETIRE => Self::Retire {
                stream: stream(&mut read)?,
            },
            kind::LINK_STATE => Self::LinkState(LinkState::read(&mut read)?),
            kind::DIGEST => network::digest(&mut read)?,
            kind::JOIN => Self::Join(Join::read(&mut read)?),
            kind::REGISTER => Self::Register(Register::read(&mut read)?),
            kind::SOURCES => Self::Sources(Sources::read(&mut read)?),
            kind::AUTHENTICATE => Self::Authenticate {
                request: read.u32()?,
                token: checked_token(read.text16()?)?.to_owned(),
            },
            kind::CARRIED => Self::Carried(Route::read(&mut read)?, Reliable::read(&mut read)?),
            kind::GROUP => Self::Group {
                stream: stream(&mut read)?,
                group: Group::read(&mut read)?,
            },
            kind::HEARING => Self::Hearing {
                stream: stream(&mut read)?,
                hears: flag(read.u8()?)?,
            },
            _ => Self::Reliable(Reliable::read(&mut Reader::new(bytes))?),
        })
    }

    /// Appends the message; on an error `out` is as before.
    ///
    /// # Errors
    /// [`WireError::Oversized`], [`WireError::Value`], [`WireError::Text`] or
    /// [`WireError::Class`] if [`Message::decode`] would refuse it, which only
    /// lists and texts that are too long, a [`MediaInfo`] or a token that is not valid can bring
    /// about.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let start = out.len();
        let result = self.append(out).and_then(|()| {
            let fits = out.len() - start <= MESSAGE_LEN_MAX;
            if fits {
                Ok(())
            } else {
                Err(WireError::Oversized)
            }
        });
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    /// Appends the message behind its 16-bit length, as [`crate::Frame::Control`] carries it; on
    /// an error `out` is as before.
    ///
    /// # Errors
    /// As [`Message::encode`].
    pub fn push(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let start = out.len();
        out.put_u16(0);
        if let Err(error) = self.encode(out) {
            out.truncate(start);
            return Err(error);
        }
        let len = u16::try_from(out.len() - start - 2).map_err(|_| WireError::Oversized)?;
        out[start..start + 2].copy_from_slice(&len.to_be_bytes());
        Ok(())
    }

    fn append(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        if let Some(kind) = self.kind() {
            out.put_u8(kind);
        }
        match self {
            Self::Subscribe { request, filter } | Self::Unsubscribe { request, filter } => {
                out.put_u32(*request);
                out.put_text8(filter.as_str())?;
            }
            Self::Publish {
                request,
                topic,
                media,
            } => {
                out.put_u32(*request);
                put_stream_info(out, topic, media)?;
            }
            Self::Published { request, stream } => {
                out.put_u32(*request);
                out.put_u64(stream.bits());
            }
            Self::Unpublish { stream } | Self::Retire { stream } => out.put_u64(stream.bits()),
            Self::Accepted { request } => out.put_u32(*request),
            Self::Refused { request, reason } => {
                out.put_u32(*request);
                out.put_u8(*reason as u8);
            }
            Self::Announce {
                stream,
                topic,
                media,
            } => {
                out.put_u64(stream.bits());
                put_stream_info(out, topic, media)?;
            }
            Self::LinkState(state) => state.put(out)?,
            Self::Digest { last, entries } => network::put_digest(out, *last, entries)?,
            Self::Join(join) => join.put(out)?,
            Self::Register(register) => register.put(out)?,
            Self::Sources(sources) => sources.put(out)?,
            Self::Reliable(reliable) => reliable.put(out)?,
            Self::Carried(route, reliable) => {
                route.put(out);
                reliable.put(out)?;
            }
            Self::Group { stream, group } => {
                out.put_u64(stream.bits());
                Group::put(*group, out)?;
            }
            Self::Hearing { stream, hears } => {
                out.put_u64(stream.bits());
                out.put_u8((*hears).into());
            }
            Self::Authenticate { request, token } => {
                out.put_u32(*request);
                out.put_text16(checked_token(token)?)?;
            }
        }
        Ok(())
    }

    /// The first byte; `None` if it belongs to what the message is made of.
    const fn kind(&self) -> Option<u8> {
        Some(match self {
            Self::Subscribe { .. } => kind::SUBSCRIBE,
            Self::Unsubscribe { .. } => kind::UNSUBSCRIBE,
            Self::Publish { .. } => kind::PUBLISH,
            Self::Published { .. } => kind::PUBLISHED,
            Self::Unpublish { .. } => kind::UNPUBLISH,
            Self::Accepted { .. } => kind::ACCEPTED,
            Self::Refused { .. } => kind::REFUSED,
            Self::Announce { .. } => kind::ANNOUNCE,
            Self::Retire { .. } => kind::RETIRE,
            Self::LinkState(_) => kind::LINK_STATE,
            Self::Digest { .. } => kind::DIGEST,
            Self::Join(_) => kind::JOIN,
            Self::Register(_) => kind::REGISTER,
            Self::Sources(_) => kind::SOURCES,
            Self::Carried(..) => kind::CARRIED,
            Self::Group { .. } => kind::GROUP,
            Self::Hearing { .. } => kind::HEARING,
            Self::Reliable(_) => return None,
            Self::Authenticate { .. } => kind::AUTHENTICATE,
        })
    }
}

fn stream(read: &mut Reader<'_>) -> Result<StreamId, WireError> {
    read.u64().map(StreamId::from_bits)
}

fn flag(byte: u8) -> Result<bool, WireError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(WireError::Value),
    }
}

pub(super) fn filter(read: &mut Reader<'_>) -> Result<Filter, WireError> {
    Filter::new(read.text8()?).map_err(|_| WireError::Text)
}

pub(super) fn topic(read: &mut Reader<'_>) -> Result<Topic, WireError> {
    Topic::new(read.text8()?).map_err(|_| WireError::Text)
}

fn media(read: &mut Reader<'_>) -> Result<MediaInfo, WireError> {
    let media = MediaInfo {
        class: Class::from_bits(read.u8()?).ok_or(WireError::Class)?,
        payload_type: read.u8()?,
        channels: read.u8()?,
        clock_rate: read.u32()?,
        encoding: read.text8()?.to_owned(),
        fmtp: read.text16()?.to_owned(),
    };
    media.validate().map_err(media_error)?;
    Ok(media)
}

fn checked_token(token: &str) -> Result<&str, WireError> {
    match token.len() {
        0 => Err(WireError::Value),
        1..=TOKEN_LEN_MAX if token.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(token),
        1..=TOKEN_LEN_MAX => Err(WireError::Text),
        _ => Err(WireError::Oversized),
    }
}

fn put_stream_info(out: &mut Vec<u8>, topic: &Topic, media: &MediaInfo) -> Result<(), WireError> {
    media.validate().map_err(media_error)?;
    out.put_text8(topic.as_str())?;
    out.put_u8(media.class as u8);
    out.put_u8(media.payload_type);
    out.put_u8(media.channels);
    out.put_u32(media.clock_rate);
    out.put_text8(&media.encoding)?;
    out.put_text16(&media.fmtp)
}

fn media_error(error: MediaInfoError) -> WireError {
    match error {
        MediaInfoError::Class => WireError::Class,
        MediaInfoError::PayloadType => WireError::Value,
        _ => WireError::Text,
    }
}
