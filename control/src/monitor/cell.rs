//! A broker's part in its cell: its own digest, and everybody's while it is the head.

use std::collections::HashMap;
use std::time::Duration;

use sangam_client::{Client, ClientError, Outgoing, Publisher, Received};
use sangam_digest::{Budget, Merger, Row};
use sangam_model::{BrokerId, Filter, MediaInfo, StreamId, Time, Topic};
use sangam_route::Cell;
use sangam_wire::Event;

use super::aggregate::{Aggregate, Teller};
use super::clocks::Clocks;
use super::report::{BrokerReport, parse_id};
use super::{CELL, MERGED, digest};

/// Bytes a second in which a broker tells its cell how it is: 31 of them on one link take 0.3 %
/// of 10 Mb/s.
const OWN_BYTES: u32 = 120;
/// Bytes a second in which all cells together tell the network: 0.56 % of 10 Mb/s where all meet.
const ALL_BYTES: u64 = 7_000;
/// What a cell may tell at least: a beat in 5 s, and its digest in about 15 s. Where each of 64
/// regions has a broker or two of thousands, all cells together tell 9.0 kB.
const CELL_BYTES_MIN: u64 = 32;
/// Streams that a head listens to: two lives of each broker that a merger keeps.
const STREAMS_MAX: usize = 2 * sangam_digest::MEMBERS_MAX;
/// How long the broker may take to accept a publication.
const ANSWER: Duration = Duration::from_secs(5);

/// What the map says of a broker's cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellPlan {
    /// The broker's cell.
    pub cell: Cell,
    /// Whether the broker is its head.
    pub head: bool,
    /// Brokers of the whole network.
    pub brokers: u64,
}

/// Where a broker tells digests, hears them and merges.
#[derive(Debug)]
pub struct Desk {
    client: Client,
    broker: BrokerId,
    own: Merger,
    /// Where the own digest goes: the cell's name and the stream.
    told: Option<(u32, Publisher)>,
    head: Option<Head>,
}

/// What the head of a cell has besides.
#[derive(Debug)]
struct Head {
    plan: CellPlan,
    filter: Filter,
    publisher: Publisher,
    merger: Merger,
    /// Who speaks on which stream.
    members: HashMap<StreamId, BrokerId>,
    /// The others, to compare clocks with this host's.
    aggregate: Aggregate,
    clocks: Clocks,
}

impl Desk {
    /// For a broker, through a system door of its own.
    #[must_use]
    pub fn new(client: Client, broker: BrokerId) -> Self {
        Self {
            client,
            broker,
            own: Merger::new(own_budget(1)),
            told: None,
            head: None,
        }
    }

    /// Tells what there is to tell, once a second. False once the broker has stopped.
    ///
    /// # Errors
    /// The broker does not take a publication or a subscription; the next call tries again.
    pub fn tell(
        &mut self,
        now: Time,
        report: &BrokerReport,
        plan: Option<&CellPlan>,
    ) -> Result<bool, ClientError> {
        self.hear(now);
        let own = Row::Digest(digest(now, report));
        if let Some(head) = &mut self.head {
            head.merger.hear(now, own.clone());
        }
        self.own.hear(now, own);
        if let Some(plan) = plan {
            self.move_to(plan)?;
        }
        self.tell_own(now);
        if let Some(head) = &mut self.head {
            head.tell(now, report.at.unix_ms);
        }
        Ok(!self.client.is_closed())
    }

    fn tell_own(&mut self, now: Time) {
        // The head has it already.
        if self.head.is_some() {
            return;
        }
        if let (Some(event), Some((_, publisher))) = (self.own.next(now), &mut self.told) {
            send(publisher, &event);
        }
    }

    fn hear(&mut self, now: Time) {
        while let Some(received) = self.client.try_recv() {
            let Some(head) = &mut self.head else {
                continue;
            };
            match received {
                Received::Event(packet) => head.event(now, &packet),
                Received::Announce { stream, topic, .. } => head.announced(stream, &topic),
                Received::Retired(stream) => {
                    head.members.remove(&stream);
                }
                _ => {}
            }
        }
    }

    fn move_to(&mut self, plan: &CellPlan) -> Result<(), ClientError> {
        self.own.set_budget(own_budget(plan.brokers));
        let name = plan.cell.name;
        if self.told.as_ref().is_none_or(|(told, _)| *told != name) {
            self.told = None;
            let topic = topic(&format!("{CELL}{name:08x}/{}", self.broker));
            let publisher = self.client.publish(&topic, MediaInfo::data(), ANSWER)?;
            self.told = Some((name, publisher));
            // The new cell knows nothing of what the former one was told.
            let known: Vec<_> = self.own.digests().cloned().collect();
            self.own = Merger::new(own_budget(plan.brokers));
            let heard = known
                .into_iter()
                .map(|digest| (digest.at, Row::Digest(digest)));
            heard.for_each(|(at, row)| self.own.hear(at, row));
        }
        let same = |head: &Head| plan.head && head.plan.cell.name == name;
        if let Some(head) = self.head.take_if(|head| !same(head)) {
            self.client.unsubscribe(&head.filter)?;
            tracing::info!("this broker does not merge its cell's reports any more");
        }
        match &mut self.head {
            Some(head) => head.set_plan(plan),
            None if plan.head => self.begin(plan)?,
            None => {}
        }
        Ok(())
    }

    fn begin(&mut self, plan: &CellPlan) -> Result<(), ClientError> {
        let name = plan.cell.name;
        let topic = topic(&format!("{MERGED}/{name:08x}"));
        let publisher = self.client.publish(&topic, MediaInfo::data(), ANSWER)?;
        let filter =
            Filter::new(&format!("{CELL}{name:08x}/+")).expect("two levels and a wildcard");
        self.client.subscribe(&filter)?;
        tracing::info!(
            brokers = plan.cell.members.len(),
            "this broker merges its cell's reports"
        );
        self.head = Some(Head {
            plan: plan.clone(),
            filter,
            publisher,
            merger: Merger::new(cell_budget(plan)),
            members: HashMap::new(),
            aggregate: Aggregate::default(),
            clocks: Clocks::default(),
        });
        Ok(())
    }
}

impl Head {
    fn set_plan(&mut self, plan: &CellPlan) {
        if self.plan == *plan {
            return;
        }
        self.plan = plan.clone();
        self.merger.set_budget(cell_budget(plan));
        self.merger
            .keep(|broker| plan.cell.members.contains(&broker));
    }

    fn announced(&mut self, stream: StreamId, topic: &Topic) {
        let told = topic.as_str().rsplit('/').next().and_then(parse_id);
        // Only the broker where it enters the network speaks of itself. The map may yet learn
        // that it is of this cell.
        let own = told.filter(|id| *id == stream.broker());
        let room = self.members.len() < STREAMS_MAX;
        self.members
            .extend(own.filter(|_| room).map(|id| (stream, id)));
    }

    fn event(&mut self, now: Time, bytes: &[u8]) {
        let Ok(event) = Event::decode(bytes) else {
            return;
        };
        let member = self.members.get(&event.header.stream).copied();
        let of_cell = |id: &BrokerId| self.plan.cell.members.contains(id);
        let Some(member) = member.filter(of_cell) else {
            return;
        };
        let Ok(merged) = sangam_digest::decode(now, event.payload) else {
            self.aggregate.refuse();
            return;
        };
        for row in merged.rows {
            let speaks_of_itself = match &row {
                Row::Digest(digest) => digest.broker == member,
                Row::Beat(alive) => alive.iter().all(|(broker, _)| *broker == member),
            };
            if speaks_of_itself {
                self.take(now, row);
            } else {
                self.aggregate.refuse();
            }
        }
    }

    fn take(&mut self, now: Time, row: Row) {
        let brokers = self.plan.brokers;
        let rows = vec![row.clone()];
        let merged = sangam_digest::Merged { brokers, rows };
        self.aggregate.merge_digests(now, merged, Teller::Head(""));
        self.merger.hear(now, row);
    }

    fn tell(&mut self, now: Time, unix_ms: u64) {
        self.aggregate.expire(now);
        self.clocks.watch(&self.aggregate.network(now, "", unix_ms));
        if let Some(event) = self.merger.next(now) {
            send(&mut self.publisher, &event);
        }
    }
}

fn own_budget(brokers: u64) -> Budget {
    Budget {
        bytes_per_s: OWN_BYTES,
        brokers,
    }
}

/// The cell's share of what all may tell together, and enough to be refreshed.
fn cell_budget(plan: &CellPlan) -> Budget {
    let members = plan.cell.members.len() as u64;
    let share = ALL_BYTES * members / plan.brokers.max(members).max(1);
    Budget {
        bytes_per_s: share.max(CELL_BYTES_MIN) as u32,
        brokers: plan.brokers,
    }
}

fn topic(name: &str) -> Topic {
    Topic::new(name).expect("levels of hexadecimal digits")
}

fn send(publisher: &mut Publisher, payload: &[u8]) {
    if let Err(error) = publisher.send(Outgoing::new(payload)) {
        tracing::debug!(%error, "a digest was dropped");
    }
}
