//! Ports that the broker hosts for its gateways.

use std::sync::Arc;

use sangam_io::port::{Gateway, Port};
use sangam_io::wake::Waker;

use crate::broker::StartError;

/// The gateways' ports in one shard.
pub(crate) type Guests = Vec<Box<dyn Port>>;

/// The ports of all gateways, by shard.
///
/// # Errors
/// A gateway does not open, or makes another number of ports.
pub(crate) fn of(
    gateways: &[Arc<dyn Gateway>],
    shards: &[Waker],
) -> Result<Vec<Guests>, StartError> {
    let mut guests: Vec<Guests> = shards.iter().map(|_| Vec::new()).collect();
    for gateway in gateways {
        let ports = gateway.ports(shards).map_err(StartError::Gateway)?;
        if ports.len() != shards.len() {
            return Err(StartError::Config(
                "a gateway makes one port for each shard",
            ));
        }
        for (shard, port) in guests.iter_mut().zip(ports) {
            shard.push(port);
        }
    }
    Ok(guests)
}
