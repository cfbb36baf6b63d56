//! How many clients come from one address, so that none of them takes every place.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::authority::origin;

/// Connections of one address, beyond those it may have, that are told so before they are closed.
const TOLD: usize = 16;

/// Clients by the address they come from, in all shards. Locked when one comes or goes only.
#[derive(Debug)]
pub(crate) struct Addresses {
    clients: Mutex<HashMap<IpAddr, usize>>,
    /// Clients that one address may have.
    most: usize,
}

/// What becomes of a connection that has not said hello yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knock {
    /// It may say hello, and is refused then if there are too many.
    Enter { surplus: bool },
    /// There are far too many: it is closed at once.
    Leave,
}

impl Addresses {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            clients: Mutex::default(),
            most,
        }
    }

    /// One more from this address, until [`Addresses::leave`], if it may have one more.
    pub(crate) fn enter(&self, address: IpAddr) -> bool {
        self.count(address, self.most).is_some()
    }

    /// A connection from this address, which counts until [`Addresses::leave`] if it may stay.
    pub(crate) fn knock(&self, address: IpAddr) -> Knock {
        match self.count(address, self.most.saturating_add(TOLD)) {
            Some(clients) => Knock::Enter {
                surplus: clients > self.most,
            },
            None => Knock::Leave,
        }
    }

    fn count(&self, address: IpAddr, most: usize) -> Option<usize> {
        let mut addresses = self.lock();
        let clients = addresses.entry(origin(address)).or_default();
        if *clients >= most {
            return None;
        }
        *clients += 1;
        Some(*clients)
    }

    /// One that entered is gone.
    pub(crate) fn leave(&self, address: IpAddr) {
        let mut addresses = self.lock();
        let address = origin(address);
        if let Some(clients) = addresses.get_mut(&address) {
            *clients -= 1;
            if *clients == 0 {
                addresses.remove(&address);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_forgotten_with_its_last_client() {
        let addresses = Addresses::new(2);
        let (one, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        assert!(addresses.enter(one) && addresses.enter(one) && addresses.enter(other));
        assert!(!addresses.enter(one));
        addresses.leave(one);
        addresses.leave(other);
        assert_eq!(addresses.lock().len(), 1);
        addresses.leave(one);
        assert!(addresses.lock().is_empty());
    }

    #[test]
    fn some_connections_too_many_are_told_and_the_rest_closed() {
        let addresses = Addresses::new(1);
        let one = [10, 0, 0, 1].into();
        assert_eq!(addresses.knock(one), Knock::Enter { surplus: false });
        let surplus = Knock::Enter { surplus: true };
        assert!((0..TOLD).all(|_| addresses.knock(one) == surplus));
        assert_eq!(addresses.knock(one), Knock::Leave);
        addresses.leave(one);
        assert_eq!(addresses.knock(one), surplus);
    }
}
