//! What brokers tell each other of the network: its map, sources, and who joins which tree.

use sangam_model::{BrokerId, Class, Filter, Incarnation, Scope};

use super::{MESSAGE_LEN_MAX, Message, codec};
use crate::WireError;
use crate::codec::{Put, Reader};

/// Links one broker tells of.
pub const NEIGHBOURS_MAX: usize = 64;
/// Bytes of a region's name.
pub const REGION_LEN_MAX: usize = 32;
/// Bytes of an address in text.
pub const ADDRESS_LEN_MAX: usize = 64;
/// Ways by which a broker says that it may be dialled.
pub const WAYS_MAX: usize = 5;
/// Bytes of one of them in text.
pub const WAY_LEN_MAX: usize = 100;
/// Entries of one [`Message::Digest`].
pub const DIGEST_MAX: usize = 100;
/// Filters of one [`Join`].
pub const FILTERS_MAX: usize = 32;
/// Bytes one part of a [`Join`] has for its scope and filters, each behind a length byte.
pub const JOIN_ROOM: usize = MESSAGE_LEN_MAX - 16;
/// Brokers of one [`Sources`].
pub const BROKERS_MAX: usize = 200;

/// Bits of the flags of a [`LinkState`].
const DRAINING: u8 = 0x01;
const KEEPS: u8 = 0x02;
const ORGANISES: u8 = 0x04;
/// Bits of the flags of a [`Register`].
const SOURCE: u8 = 0x01;
const SINK: u8 = 0x02;
const QUIET: u8 = 0x04;
/// Bit of the flags of a [`Join`].
const AVOIDS: u8 = 0x01;

/// Which record of a broker: its life and the record's number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Whose record.
    pub origin: BrokerId,
    /// Which of its lives.
    pub incarnation: Incarnation,
    /// Rises with every record, in the sense of RFC 1982.
    pub sequence: u32,
}

/// One link of a broker, as the broker sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkView {
    /// The neighbour.
    pub to: BrokerId,
    /// What crossing it costs.
    pub weight: u16,
}

/// What a broker says of itself; a newer version replaces it whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Who, and which record.
    pub version: Version,
    /// It is about to leave: no stream shall cross it and no client come.
    pub draining: bool,
    /// It keeps reliable topics.
    pub keeps: bool,
    /// It makes its links by itself, as the map asks for them.
    pub organises: bool,
    /// How busy it is, in percent; above 100 if it sheds.
    pub load: u8,
    /// Where it stands, as its operator calls the place; may be empty.
    pub region: String,
    /// Where other brokers may dial it; may be empty.
    pub address: String,
    /// Its links that are up, at most [`NEIGHBOURS_MAX`].
    pub links: Vec<LinkView>,
    /// By which ways other brokers may dial it, best first, at most [`WAYS_MAX`]; none: by
    /// datagrams at `address`.
    pub ways: Vec<String>,
}

/// What the sender wants of the streams that enter the network at `origin`; replaces what it
/// wanted before on the same link, of the same origin and scope and by the same detour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// The source.
    pub origin: BrokerId,
    /// The way to the source shall not cross this broker.
    pub avoid: Option<BrokerId>,
    /// Bit i: streams of class i.
    pub classes: u8,
    /// The part of the topic tree.
    pub scope: Scope,
    /// Number of this part, below `parts`.
    pub part: u16,
    /// Parts of this wish, at least 1; they follow each other.
    pub parts: u16,
    /// What is wanted there, at most [`FILTERS_MAX`]; nothing in all parts: no more.
    pub filters: Vec<Filter>,
}

/// Where a routed message goes and how far yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// For whom it is.
    pub to: BrokerId,
    /// Who sent it.
    pub from: BrokerId,
    /// Brokers it may yet cross.
    pub hop_limit: u8,
}

/// What a broker tells a session's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// To the directory, from the broker.
    pub route: Route,
    /// The session; never wide.
    pub scope: Scope,
    /// The broker has publishers in it.
    pub source: bool,
    /// The broker has subscribers in it and asks for the sources.
    pub sink: bool,
    /// Only told again: it need not be answered if nothing has changed.
    pub quiet: bool,
}

/// What a session's directory answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// From the directory, to the broker that asked.
    pub route: Route,
    /// The session; never wide.
    pub scope: Scope,
    /// Number of this part, below `parts`.
    pub part: u8,
    /// Parts of this answer, at least 1.
    pub parts: u8,
    /// Brokers with publishers, at most [`BROKERS_MAX`].
    pub brokers: Vec<BrokerId>,
}

impl Version {
    fn read(read: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            origin: BrokerId(read.u32()?),
            incarnation: Incarnation(read.u8()?),
            sequence: read.u32()?,
        })
    }

    fn put(self, out: &mut Vec<u8>) {
        out.put_u32(self.origin.0);
        out.put_u8(self.incarnation.0);
        out.put_u32(self.sequence);
    }
}

impl LinkState {
    pub(super) fn read(read: &mut Reader<'_>) -> Result<Self, WireError> {
        let version = Version::read(read)?;
        let flags = read.u8()?;
        let load = read.u8()?;
        let region = text(read, REGION_LEN_MAX)?;
        let address = text(read, ADDRESS_LEN_MAX)?;
        let links = list(read, NEIGHBOURS_MAX, |read| {
            let (to, weight) = (BrokerId(read.u32()?), read.u16()?);
            Ok(LinkView { to, weight })
        })?;
        // Older releases end here.
        let ways = match read.rest() {
            [] => Vec::new(),
            _ => list(read, WAYS_MAX, |read| text(read, WAY_LEN_MAX))?,
        };
        Ok(Self {
            version,
            draining: flags & DRAINING != 0,
            keeps: flags & KEEPS != 0,
            organises: flags & ORGANISES != 0,
            load,
            region,
            address,
            links,
            ways,
        })
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        self.version.put(out);
        let bit = |set, bit| if set { bit } else { 0 };
        let stays = bit(self.keeps, KEEPS) | bit(self.organises, ORGANISES);
        out.put_u8(bit(self.draining, DRAINING) | stays);
        out.put_u8(self.load);
        put_text(out, &self.region, REGION_LEN_MAX)?;
        put_text(out, &self.address, ADDRESS_LEN_MAX)?;
        put_list(out, &self.links, NEIGHBOURS_MAX, |out, link| {
            out.put_u32(link.to.0);
            out.put_u16(link.weight);
            Ok(())
        })?;
        if self.ways.is_empty() {
            return Ok(());
        }
        put_list(out, &self.ways, WAYS_MAX, |out, way| {
            put_text(out, way, WAY_LEN_MAX)
        })
    }
}

impl Join {
    /// Streams of every class.
    pub const ALL: u8 = (1 << Class::ALL.len()) - 1;

    pub(super) fn read(read: &mut Reader<'_>) -> Result<Self, WireError> {
        let origin = BrokerId(read.u32()?);
        let flags = read.u8()?;
        let avoid = BrokerId(read.u32()?);
        let classes = read.u8()?;
        let scope = scope(read)?;
        let (part, parts) = (read.u16()?, read.u16()?);
        if part >= parts {
            return Err(WireError::Value);
        }
        Ok(Self {
            origin,
            avoid: (flags & AVOIDS != 0).then_some(avoid),
            classes,
            scope,
            part,
            parts,
            filters: list(read, FILTERS_MAX, codec::filter)?,
        })
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        if self.part >= self.parts {
            return Err(WireError::Value);
        }
        out.put_u32(self.origin.0);
        out.put_u8(if self.avoid.is_some() { AVOIDS } else { 0 });
        out.put_u32(self.avoid.unwrap_or_default().0);
        out.put_u8(self.classes);
        out.put_text8(self.scope.as_str())?;
        out.put_u16(self.part);
        out.put_u16(self.parts);
        put_list(out, &self.filters, FILTERS_MAX, |out, filter| {
            out.put_text8(filter.as_str())
        })
    }
}

impl Route {
    pub(super) fn read(read: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            to: BrokerId(read.u32()?),
            from: BrokerId(read.u32()?),
            hop_limit: read.u8()?,
        })
    }

    pub(super) fn put(self, out: &mut Vec<u8>) {
        out.put_u32(self.to.0);
        out.put_u32(self.from.0);
        out.put_u8(self.hop_limit);
    }
}

impl Register {
    pub(super) fn read(read: &mut Reader<'_>) -> Result<Self, WireError> {
        let route = Route::read(read)?;
        let flags = read.u8()?;
        Ok(Self {
            route,
            scope: session(read)?,
            source: flags & SOURCE != 0,
            sink: flags & SINK != 0,
            quiet: flags & QUIET != 0,
        })
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        self.route.put(out);
        let bit = |set, bit| if set { bit } else { 0 };
        let part = bit(self.source, SOURCE) | bit(self.sink, SINK);
        out.put_u8(part | bit(self.quiet, QUIET));
        put_session(out, &self.scope)
    }
}

impl Sources {
    pub(super) fn read(read: &mut Reader<'_>) -> Result<Self, WireError> {
        let route = Route::read(read)?;
        let scope = session(read)?;
        let (part, parts) = (read.u8()?, read.u8()?);
        if part >= parts {
            return Err(WireError::Value);
        }
        let brokers = list(read, BROKERS_MAX, |read| Ok(BrokerId(read.u32()?)))?;
        Ok(Self {
            route,
            scope,
            part,
            parts,
            brokers,
        })
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        if self.part >= self.parts {
            return Err(WireError::Value);
        }
        self.route.put(out);
        put_session(out, &self.scope)?;
        out.put_u8(self.part);
        out.put_u8(self.parts);
        put_list(out, &self.brokers, BROKERS_MAX, |out, broker| {
            out.put_u32(broker.0);
            Ok(())
        })
    }
}

pub(super) fn digest(read: &mut Reader<'_>) -> Result<Message, WireError> {
    let last = read.u8()? & 1 != 0;
    let entries = list(read, DIGEST_MAX, Version::read)?;
    Ok(Message::Digest { last, entries })
}

pub(super) fn put_digest(
    out: &mut Vec<u8>,
    last: bool,
    entries: &[Version],
) -> Result<(), WireError> {
    out.put_u8(u8::from(last));
    put_list(out, entries, DIGEST_MAX, |out, version| {
        version.put(out);
        Ok(())
    })
}

fn text(read: &mut Reader<'_>, most: usize) -> Result<String, WireError> {
    let text = read.text8()?;
    if text.len() > most || text.chars().any(char::is_control) {
        return Err(WireError::Text);
    }
    Ok(text.to_owned())
}

fn put_text(out: &mut Vec<u8>, text: &str, most: usize) -> Result<(), WireError> {
    if text.len() > most || text.chars().any(char::is_control) {
        return Err(WireError::Text);
    }
    out.put_text8(text)
}

fn scope(read: &mut Reader<'_>) -> Result<Scope, WireError> {
    Scope::from_text(read.text8()?).ok_or(WireError::Text)
}

fn session(read: &mut Reader<'_>) -> Result<Scope, WireError> {
    scope(read).and_then(|scope| {
        if scope.is_wide() {
            Err(WireError::Text)
        } else {
            Ok(scope)
        }
    })
}

fn put_session(out: &mut Vec<u8>, scope: &Scope) -> Result<(), WireError> {
    if scope.is_wide() {
        return Err(WireError::Text);
    }
    out.put_text8(scope.as_str())
}

/// Things behind their number (u8).
fn list<T>(
    read: &mut Reader<'_>,
    most: usize,
    item: impl Fn(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let count = usize::from(read.u8()?);
    if count > most {
        return Err(WireError::Oversized);
    }
    (0..count).map(|_| item(read)).collect()
}

fn put_list<T>(
    out: &mut Vec<u8>,
    items: &[T],
    most: usize,
    put: impl Fn(&mut Vec<u8>, &T) -> Result<(), WireError>,
) -> Result<(), WireError> {
    let count = u8::try_from(items.len()).map_err(|_| WireError::Oversized)?;
    if items.len() > most {
        return Err(WireError::Oversized);
    }
    out.put_u8(count);
    items.iter().try_for_each(|item| put(out, item))
}
