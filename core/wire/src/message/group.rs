//! The group by which a stream goes to many receivers on one segment.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::WireError;
use crate::codec::{Put, Reader};

/// Bytes of an address of each family.
const V4_LEN: u8 = 4;
const V6_LEN: u8 = 16;

/// Where datagrams of a stream go for everybody who joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The group and its port: a multicast address, and a port that is not 0.
    pub address: SocketAddr,
    /// The address the broker sends from, of the same family. RFC 4607: who joins takes from
    /// nobody else.
    pub source: IpAddr,
}

impl Group {
    /// `None` stands for: no group any more.
    pub(super) fn read(read: &mut Reader<'_>) -> Result<Option<Self>, WireError> {
        let len = read.u8()?;
        if len == 0 {
            return Ok(None);
        }
        let port = read.u16()?;
        let (group, source) = match len {
            V4_LEN => (
                Ipv4Addr::from(read.array::<4>()?).into(),
                Ipv4Addr::from(read.array::<4>()?).into(),
            ),
            V6_LEN => (
                Ipv6Addr::from(read.array::<16>()?).into(),
                Ipv6Addr::from(read.array::<16>()?).into(),
            ),
            _ => return Err(WireError::Value),
        };
        let address = SocketAddr::new(group, port);
        let group = Self { address, source };
        group.check()?;
        Ok(Some(group))
    }

    pub(super) fn put(group: Option<Self>, out: &mut Vec<u8>) -> Result<(), WireError> {
        let Some(group) = group else {
            out.put_u8(0);
            return Ok(());
        };
        group.check()?;
        let ips = (group.address.ip(), group.source);
        match ips {
            (IpAddr::V4(address), IpAddr::V4(source)) => {
                out.put_u8(V4_LEN);
                out.put_u16(group.address.port());
                out.put(&address.octets());
                out.put(&source.octets());
            }
            (IpAddr::V6(address), IpAddr::V6(source)) => {
                out.put_u8(V6_LEN);
                out.put_u16(group.address.port());
                out.put(&address.octets());
                out.put(&source.octets());
            }
            _ => return Err(WireError::Value),
        }
        Ok(())
    }

    fn check(&self) -> Result<(), WireError> {
        let is_one = self.address.ip().is_multicast() && !self.source.is_multicast();
        if is_one && self.address.port() != 0 {
            Ok(())
        } else {
            Err(WireError::Value)
        }
    }
}
