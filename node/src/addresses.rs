//! How many clients come from one address, so that none of them takes every place.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::authority::origin;

/// Clients by the address they come from, in all shards. Locked when one comes or goes only.
#[derive(Debug, Default)]
pub(crate) struct Addresses(Mutex<HashMap<IpAddr, usize>>);

impl Addresses {
    /// One more from this address, until [`Addresses::leave`]: how many there are now.
    pub(crate) fn enter(&self, address: IpAddr) -> usize {
        let mut addresses = self.lock();
        let clients = addresses.entry(origin(address)).or_default();
        *clients += 1;
        *clients
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_forgotten_with_its_last_client() {
        let addresses = Addresses::default();
        let (one, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        assert_eq!((addresses.enter(one), addresses.enter(one)), (1, 2));
        assert_eq!(addresses.enter(other), 1);
        addresses.leave(one);
        addresses.leave(other);
        assert_eq!(addresses.lock().len(), 1);
        addresses.leave(one);
        assert!(addresses.lock().is_empty());
    }
}
