//! Where a broker stands among those whose reports are merged together.

use std::time::{Duration, Instant};

use sangam_control::monitor::{BrokerReport, CellPlan};
use sangam_model::BrokerId;
use sangam_node::{Broker, NetworkMap};
use sangam_route::{Member, cells};

/// How often the map is looked at although its links are as before: who drains is not among them.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What the map said when it was last looked at.
#[derive(Debug)]
pub(super) struct Place {
    own: BrokerId,
    plan: Option<CellPlan>,
    epoch: Option<u64>,
    looked: Option<Instant>,
}

impl Place {
    pub(super) fn new(own: BrokerId) -> Self {
        Self {
            own,
            plan: None,
            epoch: None,
            looked: None,
        }
    }

    /// The broker's cell; none before the first look.
    pub(super) fn plan(&self) -> Option<&CellPlan> {
        self.plan.as_ref()
    }

    /// Looks at the map if it changed since, or may have.
    pub(super) fn look(&mut self, broker: &Broker, report: &BrokerReport) {
        let recent = |looked: Instant| looked.elapsed() < LOOK_EVERY;
        if self.epoch == report.map.epoch && self.looked.is_some_and(recent) {
            return;
        }
        if let Some(map) = broker.map() {
            self.plan = plan(self.own, &map);
            self.epoch = report.map.epoch;
            self.looked = Some(Instant::now());
        }
    }
}

fn plan(own: BrokerId, map: &NetworkMap) -> Option<CellPlan> {
    let here = map
        .brokers
        .iter()
        .filter(|one| one.reachable || one.id == own);
    let here: Vec<_> = here.collect();
    let members = here.iter().map(|one| Member {
        id: one.id,
        region: &one.region,
    });
    let cells = cells(&members.collect::<Vec<_>>());
    let mine = cells.into_iter().find(|cell| cell.members.contains(&own))?;
    let stays = |id| here.iter().any(|one| one.id == id && !one.draining);
    Some(CellPlan {
        head: mine.head(stays) == Some(own),
        cell: mine,
        brokers: here.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use sangam_model::Incarnation;
    use sangam_node::MapBroker;

    use super::*;

    fn broker(id: u32) -> MapBroker {
        MapBroker {
            id: BrokerId(id),
            incarnation: Incarnation(0),
            region: "north".to_owned(),
            address: String::new(),
            load: 0,
            draining: false,
            reachable: true,
            links: Vec::new(),
        }
    }

    fn heads(map: &NetworkMap) -> Vec<u32> {
        let ids = map.brokers.iter().map(|one| one.id);
        let head = |id: &BrokerId| plan(*id, map).is_some_and(|plan| plan.head);
        ids.filter(head).map(|id| id.0).collect()
    }

    #[test]
    fn the_lowest_that_can_be_reached_and_stays_is_the_head() {
        let mut map = NetworkMap {
            brokers: [3, 1, 2].map(broker).into(),
            ..NetworkMap::default()
        };
        assert_eq!(heads(&map), [1]);
        map.brokers[1].draining = true;
        assert_eq!(heads(&map), [2]);
        map.brokers.remove(2);
        assert_eq!(heads(&map), [3]);
        assert_eq!(plan(BrokerId(3), &map).map(|plan| plan.brokers), Some(2));
    }
}
