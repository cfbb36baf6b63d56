//! The default: one file beside the broker's key, or memory where nothing is kept.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction};
use sangam_session::{Record, Session, SessionId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ControlStore, StoreError};

/// Session and number to record, as JSON.
const LOG: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("log");
/// Session to what its log amounted to when it was last folded, as JSON.
const FOLDED: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("folded");
/// Session to the greatest epoch that has written.
const EPOCHS: TableDefinition<'_, &str, u64> = TableDefinition::new("epochs");
/// In [`EPOCHS`], the last epoch that was given; no session has this name.
const LAST: &str = "";
/// Bytes of its cache; the sessions themselves are in memory.
const CACHE: usize = 16 << 20;

/// Sessions in a file of redb: every change is on disk before anybody hears of it.
#[derive(Debug)]
pub struct Embedded {
    database: Database,
}

impl Embedded {
    /// Opens the file, or makes it. Only one program may have it open.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut builder = Database::builder();
        let database = builder.set_cache_size(CACHE).create(path).map_err(failed)?;
        Self::over(database)
    }

    /// Keeps nothing beyond its own end.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn in_memory() -> Result<Self, StoreError> {
        let mut builder = Database::builder();
        let database = builder.set_cache_size(CACHE);
        let database = database.create_with_backend(InMemoryBackend::new());
        Self::over(database.map_err(failed)?)
    }

    fn over(database: Database) -> Result<Self, StoreError> {
        let store = Self { database };
        // So that readers find every table.
        store.write(|transaction| {
            transaction.open_table(LOG).map_err(failed)?;
            transaction.open_table(FOLDED).map_err(failed)?;
            transaction.open_table(EPOCHS).map_err(failed)?;
            Ok(())
        })?;
        Ok(store)
    }

    fn write<T>(
        &self,
        change: impl FnOnce(&WriteTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let transaction = self.database.begin_write().map_err(failed)?;
        let done = change(&transaction)?;
        transaction.commit().map_err(failed)?;
        Ok(done)
    }

    /// Every session that `wanted` names, or all.
    fn fold(&self, wanted: Option<&str>) -> Result<Vec<Session>, StoreError> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let folded = transaction.open_table(FOLDED).map_err(failed)?;
        let log = transaction.open_table(LOG).map_err(failed)?;
        let mut sessions = BTreeMap::new();
        for entry in folded.iter().map_err(failed)? {
            let (name, text) = entry.map_err(failed)?;
            if wanted.is_none_or(|wanted| wanted == name.value()) {
                let session: Session = read(text.value())?;
                sessions.insert(name.value().to_owned(), session);
            }
        }
        let range = match wanted {
            Some(name) => log.range((name, 0)..=(name, u64::MAX)),
            None => log.range::<(&str, u64)>(..),
        };
        for entry in range.map_err(failed)? {
            let (key, text) = entry.map_err(failed)?;
            let (name, record) = (key.value().0, read::<Record>(text.value())?);
            let applied = match sessions.get_mut(name) {
                // What is folded already may be kept for readers.
                Some(session) => record.seq <= session.seq() || session.apply(&record),
                None => Session::begin(&record)
                    .map(|session| sessions.insert(name.to_owned(), session))
                    .is_some(),
            };
            if !applied {
                let seq = record.seq;
                return Err(StoreError::Corrupt(format!("record {seq} of {name}")));
            }
        }
        Ok(sessions.into_values().collect())
    }
}

impl ControlStore for Embedded {
    fn next_epoch(&mut self, floor: u64) -> Result<u64, StoreError> {
        self.write(|transaction| {
            let mut epochs = transaction.open_table(EPOCHS).map_err(failed)?;
            let last = epochs.get(LAST).map_err(failed)?.map(|last| last.value());
            let next = (last.unwrap_or_default() + 1).max(floor);
            epochs.insert(LAST, next).map_err(failed)?;
            Ok(next)
        })
    }

    fn append(&mut self, batch: &[(SessionId, Record)]) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut log = transaction.open_table(LOG).map_err(failed)?;
            let mut epochs = transaction.open_table(EPOCHS).map_err(failed)?;
            for (id, record) in batch {
                let name = id.to_string();
                fence(&mut epochs, (id, &name), record.epoch)?;
                let text = write(record)?;
                log.insert((name.as_str(), record.seq), text.as_slice())
                    .map_err(failed)?;
            }
            Ok(())
        })
    }

    fn load(&mut self) -> Result<Vec<Session>, StoreError> {
        self.fold(None)
    }

    fn load_one(&mut self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        Ok(self.fold(Some(&id.to_string()))?.pop())
    }

    fn records(
        &mut self,
        id: &SessionId,
        after: u64,
        most: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let log = transaction.open_table(LOG).map_err(failed)?;
        let name = id.to_string();
        let range = (name.as_str(), after.saturating_add(1))..=(name.as_str(), u64::MAX);
        let mut records = Vec::new();
        for entry in log.range(range).map_err(failed)?.take(most) {
            let (_, text) = entry.map_err(failed)?;
            records.push(read(text.value())?);
        }
        Ok(records)
    }

    fn compact(&mut self, session: &Session, keep: u64) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut folded = transaction.open_table(FOLDED).map_err(failed)?;
            let mut log = transaction.open_table(LOG).map_err(failed)?;
            let (name, text) = (session.id().to_string(), write(session)?);
            folded
                .insert(name.as_str(), text.as_slice())
                .map_err(failed)?;
            let until = session.seq().saturating_sub(keep);
            let gone = (name.as_str(), 0)..=(name.as_str(), until);
            log.retain_in(gone, |_, _| false).map_err(failed)
        })
    }

    fn forget(&mut self, id: &SessionId) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut folded = transaction.open_table(FOLDED).map_err(failed)?;
            let mut log = transaction.open_table(LOG).map_err(failed)?;
            let mut epochs = transaction.open_table(EPOCHS).map_err(failed)?;
            let name = id.to_string();
            folded.remove(name.as_str()).map_err(failed)?;
            epochs.remove(name.as_str()).map_err(failed)?;
            let gone = (name.as_str(), 0)..=(name.as_str(), u64::MAX);
            log.retain_in(gone, |_, _| false).map_err(failed)
        })
    }
}

/// Lets nobody write whom another has followed.
fn fence(
    epochs: &mut Table<'_, &str, u64>,
    (id, name): (&SessionId, &str),
    epoch: u64,
) -> Result<(), StoreError> {
    let known = epochs.get(name).map_err(failed)?.map(|known| known.value());
    match known {
        Some(known) if known > epoch => Err(StoreError::Fenced(vec![id.clone()])),
        Some(known) if known == epoch => Ok(()),
        _ => {
            epochs.insert(name, epoch).map_err(failed)?;
            Ok(())
        }
    }
}

fn failed(error: impl Display) -> StoreError {
    StoreError::Failed(error.to_string())
}

fn write(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(failed)
}

fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(text).map_err(|error| StoreError::Corrupt(error.to_string()))
}

#[cfg(test)]
mod tests {
    use sangam_model::Time;
    use sangam_session::{Input, Joining, Machine, Plan};

    use super::*;

    fn meeting() -> (Machine, SessionId) {
        let id = SessionId::new("acme", "weekly").unwrap();
        let plan = Plan::titled("Weekly");
        let machine = Machine::create(Time::from_millis(5), id.clone(), plan, 1);
        (machine.unwrap(), id)
    }

    fn join(machine: &mut Machine, name: &str) {
        let input = Input::Join(Joining::named(name));
        machine.handle(Time::from_millis(9), input).unwrap();
    }

    fn drain(machine: &mut Machine, id: &SessionId) -> Vec<(SessionId, Record)> {
        let records = std::iter::from_fn(|| machine.poll());
        records.map(|record| (id.clone(), record)).collect()
    }

    #[test]
    fn what_was_appended_is_there_when_the_file_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions.redb");
        let (mut machine, id) = meeting();
        let mut store = Embedded::open(&path).unwrap();
        assert_eq!(store.next_epoch(0).unwrap(), 1);
        store.append(&drain(&mut machine, &id)).unwrap();
        join(&mut machine, "anna");
        store.append(&drain(&mut machine, &id)).unwrap();
        store.compact(machine.session(), 1).unwrap();
        join(&mut machine, "bert");
        store.append(&drain(&mut machine, &id)).unwrap();
        drop(store);

        let mut store = Embedded::open(&path).unwrap();
        assert_eq!(store.load().unwrap(), [machine.session().clone()]);
        assert_eq!(
            store.load_one(&id).unwrap().as_ref(),
            Some(machine.session())
        );
        let last: Vec<_> = store.records(&id, 0, 100).unwrap();
        let seqs: Vec<_> = last.iter().map(|record| record.seq).collect();
        assert_eq!(seqs, [3, 4], "one was kept when the others were folded");
        assert_eq!(store.next_epoch(9).unwrap(), 9);
        store.forget(&id).unwrap();
        assert_eq!(store.load().unwrap(), []);
    }

    #[test]
    fn an_earlier_holder_writes_nothing_any_more() {
        let (mut old, id) = meeting();
        let mut store = Embedded::in_memory().unwrap();
        store.append(&drain(&mut old, &id)).unwrap();
        let now = Time::from_millis(20);
        let session = store.load_one(&id).unwrap().unwrap();
        let mut new = Machine::take_over(now, session, 2).unwrap();
        store.append(&drain(&mut new, &id)).unwrap();
        join(&mut old, "anna");
        let refused = store.append(&drain(&mut old, &id));
        assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
        assert_eq!(store.load_one(&id).unwrap().as_ref(), Some(new.session()));
    }
}
