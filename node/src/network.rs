//! The network as the broker's control sees it, for the rest of the program.

use sangam_broker::{Refused, Routing};
use sangam_model::{BrokerId, Incarnation};

/// The network map at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkMap {
    /// The same in all brokers that know the same links and weights.
    pub epoch: u64,
    /// All brokers on the map, this one first.
    pub brokers: Vec<MapBroker>,
    /// What neighbours told of it that was not taken, since the start.
    pub refused: Refused,
}

/// A broker as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapBroker {
    /// Who.
    pub id: BrokerId,
    /// Which of its lives.
    pub incarnation: Incarnation,
    /// Where it stands, as its operator calls the place.
    pub region: String,
    /// Where other brokers, and clients, reach it; may be empty.
    pub address: String,
    /// How busy it is, in percent.
    pub load: u8,
    /// It is about to leave.
    pub draining: bool,
    /// Whether there is a way to it.
    pub reachable: bool,
    /// Its links that are up, and their weights.
    pub links: Vec<(BrokerId, u16)>,
}

impl NetworkMap {
    pub(crate) fn of(routing: &mut Routing) -> Self {
        let epoch = routing.epoch();
        let brokers = routing.brokers().map(|(state, reachable)| MapBroker {
            id: state.version.origin,
            incarnation: state.version.incarnation,
            region: state.region.clone(),
            address: state.address.clone(),
            load: state.load,
            draining: state.draining,
            reachable,
            links: state
                .links
                .iter()
                .map(|link| (link.to, link.weight))
                .collect(),
        });
        let brokers = brokers.collect();
        Self {
            epoch,
            brokers,
            refused: routing.refused(),
        }
    }
}
