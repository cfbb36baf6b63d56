//! Which node this archive's folder is, and the ways to the others.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::handshake::Key;
use super::link::Link;
use super::message::Node;

/// The file that says which node a folder is.
pub const IDENTITY: &str = "node.json";
/// The file with the key that all nodes have.
pub const KEY: &str = "nodes.key";

/// This node.
#[derive(Debug)]
pub struct Own {
    /// Its number.
    pub node: u32,
    key: Key,
    links: Mutex<HashMap<String, Arc<Link>>>,
}

#[derive(Serialize, Deserialize)]
struct Identity {
    version: u32,
    node: u32,
}

const VERSION: u32 = 1;

impl Own {
    /// The node that a folder is; `None` if it is none.
    ///
    /// # Errors
    /// Its files cannot be read.
    pub fn read(folder: &Path) -> io::Result<Option<Self>> {
        let text = match std::fs::read(folder.join(IDENTITY)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let Identity { version, node } = serde_json::from_slice(&text)?;
        if version != VERSION || node == 0 {
            return Err(ErrorKind::InvalidData.into());
        }
        let key = Key::read(&folder.join(KEY))?;
        Ok(Some(Self::new(node, key)))
    }

    /// A node with this key.
    #[must_use]
    pub fn new(node: u32, key: Key) -> Self {
        Self {
            node,
            key,
            links: Mutex::default(),
        }
    }

    /// Keeps which node a folder is.
    ///
    /// # Errors
    /// Of the disk.
    pub fn keep(&self, folder: &Path) -> io::Result<()> {
        let identity = Identity {
            version: VERSION,
            node: self.node,
        };
        let text = serde_json::to_vec(&identity)?;
        crate::films::replace(&folder.join(IDENTITY), &text)
    }

    /// The key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The way to a node, one for all who go it.
    #[must_use]
    pub fn link(&self, node: &Node) -> Arc<Link> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let known = links.entry(node.address.clone());
        let link = known.or_insert_with(|| Arc::new(Link::new(&node.address, self.key.clone())));
        link.clone()
    }
}
