//! The thread that tells [`news`](super::news) on reliable topics, so that sessions wait for none.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use sangam_client::{Client, Received, ReliableError, ReliableEvent, ReliablePublisher};
use sangam_session::{Record, SessionId};
use serde_json::json;

use super::news::{News, gather, topic};

/// What may wait for the thread.
const QUEUE: usize = 4_096;
/// Records that may wait for the network to take what is before them.
const WAITING_MAX: usize = 65_536;
/// How long what follows something that is on its way waits for more, so that a crowd that comes
/// is told by few events.
const GATHER: Duration = Duration::from_millis(100);
/// How often it is looked whether that is over.
const LOOK: Duration = Duration::from_millis(20);
/// How long nothing may happen.
const IDLE: Duration = Duration::from_secs(1);
/// How long the last news may take once the server has ended.
const GRACE: Duration = Duration::from_secs(1);

/// What was told and what was not.
#[derive(Debug, Default)]
pub struct Told {
    /// Events on reliable topics.
    pub events: AtomicU64,
    /// Records that had no room: who follows a session misses their numbers, and asks its server.
    pub lost: AtomicU64,
}

/// The way to the thread. It ends when this is dropped.
#[derive(Debug)]
pub struct Herald {
    queue: SyncSender<(SessionId, Vec<Record>)>,
    told: Arc<Told>,
}

impl Herald {
    /// Starts it with a client of the broker that may speak for sessions.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(client: Client) -> std::io::Result<Self> {
        let (queue, inbox) = sync_channel(QUEUE);
        let told = Arc::<Told>::default();
        let mut speaker = Speaker {
            client,
            publishers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            records: 0,
            told: Arc::clone(&told),
        };
        let thread = thread::Builder::new().name("sangam-herald".to_owned());
        thread.spawn(move || speaker.run(&inbox))?;
        Ok(Self { queue, told })
    }

    /// Tells records of a session, in a moment.
    pub fn tell(&self, id: &SessionId, records: &[Record]) {
        let sent = self.queue.try_send((id.clone(), records.to_vec()));
        if let Err(TrySendError::Full((_, records))) = sent {
            lose(&self.told, records.len());
        }
    }

    /// What was counted.
    #[must_use]
    pub fn told(&self) -> Arc<Told> {
        Arc::clone(&self.told)
    }
}

fn lose(told: &Told, records: usize) {
    let before = told.lost.fetch_add(records as u64, Ordering::Relaxed);
    if before == 0 {
        tracing::warn!("events of sessions had no room on reliable topics; now they are counted");
    }
}

/// Whoever speaks of one session.
struct Voice {
    publisher: ReliablePublisher,
    spoke: Instant,
}

struct Speaker {
    client: Client,
    publishers: BTreeMap<SessionId, Voice>,
    waiting: BTreeMap<SessionId, VecDeque<Record>>,
    /// All that wait.
    records: usize,
    told: Arc<Told>,
}

impl Speaker {
    fn run(&mut self, inbox: &Receiver<(SessionId, Vec<Record>)>) {
        loop {
            let wait = if self.waiting.is_empty() { IDLE } else { LOOK };
            match inbox.recv_timeout(wait) {
                Ok(first) => {
                    for (id, records) in std::iter::once(first).chain(inbox.try_iter()) {
                        self.wait(id, records);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.hear();
            if self.client.is_closed() {
                return;
            }
            self.speak(GATHER);
        }
        self.finish();
    }

    /// The last words.
    fn finish(&mut self) {
        let until = Instant::now() + GRACE;
        let unheld = |voice: &Voice| voice.publisher.unheld() > 0;
        while Instant::now() < until && !self.client.is_closed() {
            self.speak(Duration::ZERO);
            if self.waiting.is_empty() && !self.publishers.values().any(unheld) {
                return;
            }
            thread::sleep(LOOK);
            self.hear();
        }
    }

    fn wait(&mut self, id: SessionId, records: Vec<Record>) {
        if self.records + records.len() > WAITING_MAX {
            return lose(&self.told, records.len());
        }
        self.records += records.len();
        self.waiting.entry(id).or_default().extend(records);
    }

    fn hear(&mut self) {
        while let Some(received) = self.client.try_recv() {
            if let Received::Reliable(ReliableEvent::PublisherEnded(ended, why)) = received {
                tracing::warn!(?why, "a reliable topic of a session's events was refused");
                self.publishers
                    .retain(|_, voice| voice.publisher.id() != ended);
            }
        }
    }

    /// Tells what may be told: of each session at once, or together with what comes until what is
    /// on its way has arrived, or `gather` has passed.
    fn speak(&mut self, gather: Duration) {
        let ids: Vec<_> = self.waiting.keys().cloned().collect();
        for id in ids {
            let Some(voice) = self.voice(&id) else {
                continue;
            };
            if voice.publisher.unheld() > 0 && voice.spoke.elapsed() < gather {
                continue;
            }
            if let Some(mut records) = self.waiting.remove(&id) {
                self.records -= records.len();
                self.say(&id, &mut records);
                if !records.is_empty() {
                    self.records += records.len();
                    self.waiting.insert(id, records);
                }
            }
        }
    }

    /// Says what the network takes; the rest stays.
    fn say(&mut self, id: &SessionId, records: &mut VecDeque<Record>) {
        let Some(voice) = self.publishers.get_mut(id) else {
            return;
        };
        for news in gather(records.make_contiguous()) {
            match voice.publisher.send(json!(news).to_string().as_bytes()) {
                Ok(_) => {
                    voice.spoke = Instant::now();
                    self.told.events.fetch_add(1, Ordering::Relaxed);
                    drop_told(records, &news);
                }
                Err(ReliableError::Full) => return,
                Err(error) => {
                    tracing::debug!(%id, ?error, "events of a session are not told");
                    let before = records.len();
                    drop_told(records, &news);
                    lose(&self.told, before - records.len());
                }
            }
        }
    }

    /// Whoever speaks of a session; none while there is no room for one more, which there is when
    /// one of the others has nothing on its way.
    fn voice(&mut self, id: &SessionId) -> Option<&Voice> {
        if !self.publishers.contains_key(id) {
            let topic = topic(id)?;
            let publisher = match self.client.publish_reliable(&topic) {
                Err(ReliableError::Limit) => {
                    let quiet = |(_, voice): &(&SessionId, &Voice)| voice.publisher.unheld() == 0;
                    let voices = self.publishers.iter().filter(quiet);
                    let (oldest, _) = voices.min_by_key(|(_, voice)| voice.spoke)?;
                    let oldest = oldest.clone();
                    self.publishers.remove(&oldest);
                    self.client.publish_reliable(&topic)
                }
                publisher => publisher,
            };
            let voice = Voice {
                publisher: publisher.ok()?,
                spoke: Instant::now(),
            };
            self.publishers.insert(id.clone(), voice);
        }
        self.publishers.get(id)
    }
}

/// Removes the records that news have told.
fn drop_told(records: &mut VecDeque<Record>, news: &News) {
    let told = usize::try_from(news.seq - news.after).unwrap_or(usize::MAX);
    records.drain(..told.min(records.len()));
}
