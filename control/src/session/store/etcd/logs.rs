//! Logs, folds and fences.

use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
};
use sangam_model::BrokerId;
use sangam_session::{Record, Session, SessionId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::{Listing, StoreError};
use super::cluster::Cluster;
use super::failed;
use super::keys::{Keys, number};

/// Operations of one transaction: etcd takes 128 unless told otherwise.
const OPERATIONS: usize = 100;
/// Bytes of one request: etcd takes 1.5 MiB unless told otherwise.
const REQUEST_LEN: usize = 1 << 20;
/// Bytes of a part of a folded state.
const PART_LEN: usize = 512 << 10;
/// Records that are read at once.
const PAGE: usize = 500;
/// How often an epoch is asked for that somebody else takes at the same moment.
const TRIES: usize = 100;

/// Who holds a session: a server and the lease by which it lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) server: BrokerId,
    pub(super) lease: i64,
}

/// Records of one session that are kept together.
pub(super) struct Appended {
    pub(super) records: Vec<(SessionId, Record)>,
    /// How it looks in a list after them.
    pub(super) look: Option<Value>,
}

/// The logs of all sessions.
#[derive(Clone)]
pub(super) struct Logs {
    cluster: Cluster,
    keys: Keys,
}

impl Logs {
    pub(super) const fn new(cluster: Cluster, keys: Keys) -> Self {
        Self { cluster, keys }
    }

    pub(super) async fn next_epoch(&self, floor: u64) -> Result<u64, StoreError> {
        let key = self.keys.epoch();
        for _ in 0..TRIES {
            let got = self.cluster.get(key.as_str(), None).await?;
            let known = got.kvs().first();
            let last = known.map_or(Ok(0), |kv| count(kv.value()))?;
            let next = (last + 1).max(floor);
            // Nobody has taken it meanwhile.
            let revision = known.map_or(0, etcd_client::KeyValue::mod_revision);
            let same = Compare::mod_revision(key.as_str(), CompareOp::Equal, revision);
            let put = TxnOp::put(key.as_str(), number(next), None);
            if self.run(Txn::new().when([same]).and_then([put])).await? {
                return Ok(next);
            }
        }
        Err(failed("no epoch could be taken"))
    }

    /// Takes a name that no session has.
    pub(super) async fn claim(
        &self,
        id: &SessionId,
        epoch: u64,
        holder: &Holder,
    ) -> Result<bool, StoreError> {
        let fence = self.keys.fence(id);
        let free = Compare::create_revision(fence, CompareOp::Equal, 0);
        self.take(id, free, epoch, holder).await
    }

    /// Takes a session whose holder is gone: from now on no earlier epoch writes. False if
    /// somebody else was first.
    pub(super) async fn take_over(
        &self,
        id: &SessionId,
        epoch: u64,
        holder: &Holder,
    ) -> Result<bool, StoreError> {
        let fence = self.keys.fence(id);
        let later = Compare::value(fence, CompareOp::Less, number(epoch));
        self.take(id, later, epoch, holder).await
    }

    /// Takes what nobody holds, if this is so of its fence.
    async fn take(
        &self,
        id: &SessionId,
        fence_is: Compare,
        epoch: u64,
        holder: &Holder,
    ) -> Result<bool, StoreError> {
        let place = self.keys.holder(id);
        let unheld = Compare::create_revision(place.as_str(), CompareOp::Equal, 0);
        let lease = PutOptions::new().with_lease(holder.lease);
        let hold = TxnOp::put(place, holder.server.0.to_string(), Some(lease));
        let fence = TxnOp::put(self.keys.fence(id), number(epoch), None);
        self.run(Txn::new().when([unheld, fence_is]).and_then([hold, fence]))
            .await
    }

    /// Gives a session back, if it is still this server's.
    pub(super) async fn release(&self, id: &SessionId, holder: &Holder) -> Result<(), StoreError> {
        let own = self.is_held_by(id, holder);
        let gone = TxnOp::delete(self.keys.holder(id), None);
        self.run(Txn::new().when([own]).and_then([gone])).await?;
        Ok(())
    }

    /// Keeps records of one session, and with the last of them how it looks then.
    pub(super) async fn append(
        &self,
        appended: &Appended,
        holder: &Holder,
    ) -> Result<(), StoreError> {
        let Some((id, _)) = appended.records.first() else {
            return Ok(());
        };
        let (mut puts, mut len, mut epoch) = (Vec::new(), 0, 0);
        for (_, record) in &appended.records {
            let text = write(record)?;
            let is_full = puts.len() >= OPERATIONS || len + text.len() > REQUEST_LEN;
            // All that is written together is of one holder.
            if !puts.is_empty() && (is_full || record.epoch != epoch) {
                self.guarded((id, epoch, holder), std::mem::take(&mut puts))
                    .await?;
                len = 0;
            }
            epoch = record.epoch;
            len += text.len();
            puts.push(TxnOp::put(self.keys.log(id, record.seq), text, None));
        }
        if let Some(look) = &appended.look {
            puts.push(TxnOp::put(self.keys.look(id), write(look)?, None));
        }
        self.guarded((id, epoch, holder), puts).await
    }

    /// How sessions look that are listed, and nothing of where they are.
    pub(super) async fn list(
        &self,
        wanted: &Listing,
    ) -> Result<Vec<(SessionId, Value)>, StoreError> {
        let tenant = wanted.tenant.as_deref();
        let first = self.keys.looks(tenant);
        // The least text behind another one: followed by the least character.
        let next = format!("{}{}\0", self.keys.looks(None), wanted.after);
        let (begin, end) = (first.max(next), self.keys.looks_end(tenant));
        if begin >= end {
            return Ok(Vec::new());
        }
        let options = GetOptions::new()
            .with_range(end)
            .with_sort(SortTarget::Key, SortOrder::Ascend)
            .with_limit(i64::try_from(wanted.most).unwrap_or(i64::MAX));
        let got = self.cluster.get(begin, Some(options)).await?;
        let listed = got.kvs().iter().filter_map(|kv| {
            // Whatever else stands there is none of ours.
            let id = self.keys.looked(kv.key())?;
            Some((id, read(kv.value()).ok()?))
        });
        Ok(listed.collect())
    }

    pub(super) async fn load(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let mut session = self.folded(id).await?;
        loop {
            let after = session.as_ref().map_or(0, Session::seq);
            let page = self.records(id, after, PAGE).await?;
            for record in &page {
                let applied = match &mut session {
                    Some(session) => session.apply(record),
                    None => {
                        session = Session::begin(record);
                        session.is_some()
                    }
                };
                if !applied {
                    let seq = record.seq;
                    return Err(StoreError::Corrupt(format!("record {seq} of {id}")));
                }
            }
            if page.len() < PAGE {
                return Ok(session);
            }
        }
    }

    pub(super) async fn records(
        &self,
        id: &SessionId,
        after: u64,
        most: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let begin = self.keys.log(id, after.saturating_add(1));
        let options = GetOptions::new()
            .with_range(self.keys.log_end(id))
            .with_sort(SortTarget::Key, SortOrder::Ascend)
            .with_limit(i64::try_from(most).unwrap_or(i64::MAX));
        let got = self.cluster.get(begin, Some(options)).await?;
        got.kvs().iter().map(|kv| read(kv.value())).collect()
    }

    /// The parts are there before they count, and the earlier ones until then.
    pub(super) async fn compact(
        &self,
        session: &Session,
        keep: u64,
        holder: &Holder,
    ) -> Result<(), StoreError> {
        let (id, seq) = (session.id(), session.seq());
        let own = (id, session.epoch(), holder);
        let text = write(session)?;
        let state = self.keys.state(id, seq);
        let parts: Vec<&[u8]> = text.chunks(PART_LEN).collect();
        for (part, bytes) in (0..).zip(&parts) {
            let put = TxnOp::put(format!("{state}{}", number(part)), *bytes, None);
            self.guarded(own, vec![put]).await?;
        }
        let counts = TxnOp::put(self.keys.fold(id), number(seq), None);
        self.guarded(own, vec![counts]).await?;
        let range = |end: String| Some(DeleteOptions::new().with_range(end));
        let until = seq.saturating_sub(keep).saturating_add(1);
        let old = vec![
            TxnOp::delete(self.keys.state(id, 0), range(state)),
            TxnOp::delete(self.keys.log(id, 0), range(self.keys.log(id, until))),
        ];
        self.guarded(own, old).await
    }

    pub(super) async fn forget(&self, id: &SessionId, holder: &Holder) -> Result<(), StoreError> {
        let range = |end: String| Some(DeleteOptions::new().with_range(end));
        let gone = [
            TxnOp::delete(self.keys.holder(id), None),
            TxnOp::delete(self.keys.fence(id), None),
            TxnOp::delete(self.keys.fold(id), None),
            TxnOp::delete(self.keys.look(id), None),
            TxnOp::delete(self.keys.state(id, 0), range(self.keys.states_end(id))),
            TxnOp::delete(self.keys.log(id, 0), range(self.keys.log_end(id))),
        ];
        let own = self.is_held_by(id, holder);
        match self.run(Txn::new().when([own]).and_then(gone)).await? {
            true => Ok(()),
            false => Err(StoreError::Fenced(vec![id.clone()])),
        }
    }

    fn is_held_by(&self, id: &SessionId, holder: &Holder) -> Compare {
        Compare::lease(self.keys.holder(id), CompareOp::Equal, holder.lease)
    }

    async fn folded(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let fold = self.cluster.get(self.keys.fold(id), None).await?;
        let Some(seq) = fold.kvs().first().map(|kv| count(kv.value())).transpose()? else {
            return Ok(None);
        };
        let state = self.keys.state(id, seq);
        let mut text = Vec::new();
        for part in 0.. {
            let key = format!("{state}{}", number(part));
            let got = self.cluster.get(key, None).await?;
            match got.kvs().first() {
                Some(kv) => text.extend(kv.value()),
                None => break,
            }
        }
        read(&text).map(Some)
    }

    /// Does what only the holder of an epoch may do.
    async fn guarded(
        &self,
        (id, epoch, holder): (&SessionId, u64, &Holder),
        operations: Vec<TxnOp>,
    ) -> Result<(), StoreError> {
        let fence = self.keys.fence(id);
        let is = |op, epoch| Compare::value(fence.as_str(), op, number(epoch));
        let own = Txn::new().when([is(CompareOp::Equal, epoch)]);
        if self.run(own.and_then(operations.clone())).await? {
            return Ok(());
        }
        // The same holder with a later epoch: its own earlier one writes no more. Whoever has
        // lost it meanwhile may have a greater epoch than the one who holds it now.
        let mut all = vec![TxnOp::put(fence.as_str(), number(epoch), None)];
        all.extend(operations);
        let earlier = Txn::new().when([is(CompareOp::Less, epoch), self.is_held_by(id, holder)]);
        match self.run(earlier.and_then(all)).await? {
            true => Ok(()),
            false => Err(StoreError::Fenced(vec![id.clone()])),
        }
    }

    async fn run(&self, txn: Txn) -> Result<bool, StoreError> {
        Ok(self.cluster.txn(txn).await?.succeeded())
    }
}

fn count(value: &[u8]) -> Result<u64, StoreError> {
    let text = str::from_utf8(value).ok();
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| StoreError::Corrupt("a number that is none".to_owned()))
}

fn write(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(failed)
}

fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(text).map_err(|error| StoreError::Corrupt(error.to_string()))
}
