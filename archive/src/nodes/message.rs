//! What nodes say to each other: two lengths, JSON, and bytes that are none.

use std::io::{self, ErrorKind, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::blocks::PieceId;

/// Bytes of the JSON of a message: a roster of 4,096 disks comes as data.
const TEXT_MAX: usize = 64 << 10;
/// Bytes of data: the index of the longest film.
const DATA_MAX: usize = 128 << 20;

/// A node of the roster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its number, from 1; never given to another.
    pub id: u32,
    /// Where others reach it: HOST:PORT.
    pub address: String,
    /// Its disks are to be emptied, and then it goes.
    #[serde(default)]
    pub leaving: bool,
}

/// How a node stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Its number.
    pub node: u32,
    /// How often its roster was written.
    pub edition: u64,
    /// Films that it knows.
    pub films: u64,
    /// What its desk says of itself: where players reach it, and how it fares.
    pub desk: Value,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Request {
    /// How it stands.
    Standing {
        /// Who asks; 0: a command.
        from: u32,
    },
    /// Its roster, as data.
    Roster,
    /// Takes the roster in the data, if it is newer.
    Renew,
    /// Makes whoever asks a node with a disk of his own; the data of the answer are the roster.
    Join {
        /// Where it is to be reached.
        address: String,
        /// The share of its disk.
        weight: u32,
    },
    /// Numbers of all films, each 8 bytes of the data.
    Films,
    /// A film's index, as data.
    Index {
        /// Its number.
        film: u64,
    },
    /// Keeps the index in the data.
    Learn {
        /// Its number.
        film: u64,
    },
    /// A piece, as data.
    Get {
        /// The disk.
        disk: u32,
        /// Which.
        piece: PieceId,
    },
    /// Keeps the piece in the data.
    Put {
        /// The disk.
        disk: u32,
        /// Which.
        piece: PieceId,
    },
    /// Lets go of a piece.
    Remove {
        /// The disk.
        disk: u32,
        /// Which.
        piece: PieceId,
        /// By which change of the disks it is not wanted there.
        changes: u64,
    },
    /// All pieces of a disk, each 17 bytes of the data.
    List {
        /// The disk.
        disk: u32,
    },
    /// Lets whoever asks move blocks for ten seconds.
    Lease {
        /// Who asks.
        node: u32,
    },
    /// Whether films are being put there.
    Putting,
    /// Something for its desk.
    Desk {
        /// Who asks.
        from: u32,
        /// What.
        order: Value,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Reply {
    /// It is done, or here it is.
    Done,
    /// How it stands.
    Standing(Standing),
    /// Who asked is this node now.
    Joined {
        /// Its number.
        node: u32,
        /// The number of its disk.
        disk: u32,
    },
    /// Whether it is so.
    Is {
        /// It is.
        so: bool,
    },
    /// What the desk says.
    Desk {
        /// That.
        said: Value,
    },
    /// There is none such.
    Missing,
    /// It cannot be done.
    Failed {
        /// Why, for people.
        why: String,
    },
}

/// Writes a message.
///
/// # Errors
/// It is too long, or the other end is gone.
pub(super) fn write(out: &mut impl Write, message: &impl Serialize, data: &[u8]) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    if text.len() > TEXT_MAX || data.len() > DATA_MAX {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut head = Vec::with_capacity(8 + text.len());
    head.extend((text.len() as u32).to_be_bytes());
    head.extend((data.len() as u32).to_be_bytes());
    head.extend(text);
    out.write_all(&head)?;
    out.write_all(data)
}

/// Reads a message; memory is taken for what came, not for what is announced.
///
/// # Errors
/// It is none, is too long, or the other end is gone.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<(T, Vec<u8>)> {
    let mut lengths = [0; 8];
    from.read_exact(&mut lengths)?;
    let [a, b, c, d, e, f, g, h] = lengths;
    let text = u32::from_be_bytes([a, b, c, d]) as usize;
    let data = u32::from_be_bytes([e, f, g, h]) as usize;
    if text > TEXT_MAX || data > DATA_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut take = |len: usize| {
        // A piece of a film comes in one go.
        let mut bytes = Vec::with_capacity(len.min(2 << 20));
        let read = from.by_ref().take(len as u64).read_to_end(&mut bytes)?;
        match read == len {
            true => Ok(bytes),
            false => Err(io::Error::from(ErrorKind::UnexpectedEof)),
        }
    };
    let text = take(text)?;
    let data = take(data)?;
    Ok((serde_json::from_slice(&text)?, data))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let piece = PieceId {
            object: u64::MAX,
            stripe: 3,
            piece: 2,
        };
        let request = Request::Put { disk: 7, piece };
        let mut bytes = Vec::new();
        write(&mut bytes, &request, b"data").unwrap();
        let found = read::<Request>(&mut &bytes[..]).unwrap();
        assert_eq!(found, (request, b"data".to_vec()));
        for cut in 0..bytes.len() {
            assert!(read::<Request>(&mut &bytes[..cut]).is_err(), "{cut}");
        }
        let long = [&u32::MAX.to_be_bytes()[..], &[0; 4]].concat();
        let refused = read::<Request>(&mut &long[..]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidData);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(text in ".{0,40}", tail: Vec<u8>) {
            let lengths = [(text.len() as u32).to_be_bytes(), 3_u32.to_be_bytes()].concat();
            let bytes = [&lengths[..], text.as_bytes(), &tail].concat();
            let _ = read::<Request>(&mut &bytes[..]);
            let _ = read::<Reply>(&mut &bytes[..]);
        }
    }
}
