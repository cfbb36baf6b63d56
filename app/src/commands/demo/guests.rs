//! The demonstration meeting of `sangam serve --dev`: guests who come when somebody else does.
//!
//! They are clients like any others, in threads of this process. While nobody looks nothing is
//! encoded: a broker that is only tried out, or tested, costs what it did without them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sangam_client::Address;
use sangam_control::session::{Failure as Refused, Hears, Sessions};
use sangam_session::{Event, MemberId, Plan, Record, SessionId};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::cli::SessionName;
use crate::commands::session::{Camera, Server, Visit};
use crate::exit::{Exit, Failure, io};
use crate::ffmpeg::{self, Scene};
use crate::stop::Stop;

pub(super) const TENANT: &str = "demo";
pub(super) const NAME: &str = "meeting";
pub(super) const TITLE: &str = "Where rivers meet";
/// Who is there already, and what they show.
pub(super) const GUESTS: [(&str, Scene); 2] =
    [("Saraswati", ffmpeg::COLOURS), ("Yamuna", ffmpeg::CLOCK)];
/// How long guests stay when the last one has left, who may only have loaded the page again.
const LINGER: Duration = Duration::from_secs(10);
/// How long nothing is looked at while nobody is there.
const IDLE: Duration = Duration::from_secs(3_600);
/// How soon it is noticed that a guest is gone,
const LOOK: Duration = Duration::from_millis(500);
/// how often one that is comes back while somebody is there,
const AGAIN_MAX: u32 = 8;
/// and what it waits before, for each time that it came back.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a guest may take to leave,
const PATIENCE: Duration = Duration::from_secs(4);
/// and all of them.
const GRACE: Duration = Duration::from_secs(6);
const NAP: Duration = Duration::from_millis(20);

/// What the guests learn.
enum News {
    /// So many others are in the meeting now.
    Others(usize),
    /// The broker ends.
    End,
}

/// A meeting whose session server is about to start.
pub(in crate::commands) struct Planned {
    tell: Sender<News>,
    news: Receiver<News>,
    id: SessionId,
}

/// Where the guests go in.
pub(in crate::commands) struct Door {
    /// Before the name of a session, where browsers join it.
    pub(in crate::commands) link: String,
    /// `http://host:port` of the session server.
    pub(in crate::commands) url: String,
    /// The operator's token, if there is one.
    pub(in crate::commands) api_token: Option<String>,
    /// The broker: `udp://host:port`.
    pub(in crate::commands) broker: String,
}

/// The open meeting.
pub(in crate::commands) struct Opened {
    link: String,
    tell: Sender<News>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

/// What people are told of the meeting at a link.
pub(in crate::commands) fn words(link: &str, page_is_built: bool) -> String {
    let mut words = format!("A meeting is open. Join it:\n\n    {link}\n\n");
    words += match ffmpeg::find("ffmpeg") {
        Some(_) => {
            "Its two guests come some seconds after you, with pictures and sound that FFmpeg\n\
             encodes, and leave when you do. Ctrl-c ends it; --no-demo does without.\n"
        }
        None => {
            "FFmpeg is not installed, so that its guests stay away: `apt-get install ffmpeg`.\n\
             Ctrl-c ends it.\n"
        }
    };
    if !page_is_built {
        words += "This program was built without the page: `make run` builds it.\n";
    }
    words + "\n"
}

impl Planned {
    /// A meeting, and what has to hear of every record of the session server.
    pub(in crate::commands) fn new() -> Option<(Self, Hears)> {
        // It is a name.
        let id = SessionId::new(TENANT, NAME).ok()?;
        let (tell, news) = channel();
        let (to, of) = (tell.clone(), id.clone());
        let mut others = Others::default();
        let hear = move |session: &SessionId, records: &[Record]| {
            if *session == of && others.follow(records) {
                // Nobody waits any more once the broker ends.
                let _ = to.send(News::Others(others.0.len()));
            }
        };
        Some((Self { tell, news, id }, Box::new(hear)))
    }

    /// Makes the session, if it is not there from an earlier start, and waits for people.
    ///
    /// # Errors
    /// The session is refused, or the system gives no thread.
    pub(in crate::commands) async fn open(
        self,
        sessions: &Sessions,
        door: Door,
    ) -> Result<Opened, Failure> {
        let refused = |error: Refused| Failure::new(Exit::Failure, error.to_string());
        let plan = || Plan::titled(TITLE);
        match sessions.create(self.id.clone(), plan()).await {
            Err(Refused::Exists(id)) => {
                let is_over = sessions.read(&id, |session| session.state().is_final());
                if is_over.await.map_err(refused)? {
                    sessions.forget(&id).await.map_err(refused)?;
                    sessions.create(id, plan()).await.map_err(refused)?;
                }
            }
            done => done.map_err(refused)?,
        }
        let stop = Stop::default();
        let link = format!("{}{TENANT}/{NAME}", door.link);
        let host = Host {
            news: self.news,
            door,
            stop: stop.clone(),
            clips: None,
            guests: Vec::new(),
        };
        let thread = thread::Builder::new().name("demo".to_owned());
        let thread = thread.spawn(move || host.run());
        Ok(Opened {
            link,
            tell: self.tell,
            stop,
            thread: Some(thread.map_err(io("no thread for the guests"))?),
        })
    }
}

impl Opened {
    /// Where browsers join it.
    pub(in crate::commands) fn link(&self) -> &str {
        &self.link
    }

    /// Lets the guests leave, while the caller serves on.
    pub(in crate::commands) async fn end(mut self) {
        self.call_off();
        let Some(thread) = self.thread.take() else {
            return;
        };
        let joined = tokio::task::spawn_blocking(move || thread.join());
        if timeout(GRACE, joined).await.is_err() {
            tracing::warn!("the guests of the demonstration are cut off");
        }
    }

    fn call_off(&self) {
        self.stop.set();
        // It may have ended by itself.
        let _ = self.tell.send(News::End);
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.call_off();
    }
}

/// Those in the meeting who are no guests.
#[derive(Default)]
struct Others(BTreeSet<MemberId>);

impl Others {
    /// Takes what happened; whether their number may be another one.
    fn follow(&mut self, records: &[Record]) -> bool {
        let mut changed = false;
        for record in records {
            changed |= match &record.event {
                Event::Joined { person } if !is_guest(&person.identity) => self.0.insert(person.id),
                Event::Left { member, .. } => self.0.remove(member),
                _ => false,
            };
        }
        changed
    }
}

fn is_guest(identity: &str) -> bool {
    GUESTS
        .iter()
        .any(|(name, _)| self::identity(name) == identity)
}

/// By what the session knows a guest.
pub(super) fn identity(name: &str) -> String {
    name.to_lowercase()
}

/// Whoever lets guests in and sends them home.
struct Host {
    news: Receiver<News>,
    door: Door,
    stop: Stop,
    /// Kept while the broker runs: they are made once.
    clips: Option<(TempDir, Vec<PathBuf>)>,
    guests: Vec<Guest>,
}

/// A guest, there or on the way.
struct Guest {
    name: &'static str,
    clip: PathBuf,
    visit: Option<Visiting>,
    came: u32,
    again_at: Instant,
}

impl Host {
    fn run(mut self) {
        let mut others = 0;
        let mut alone_since = Instant::now();
        loop {
            let busy = others > 0 || !self.guests.is_empty();
            match self.news.recv_timeout(if busy { LOOK } else { IDLE }) {
                Ok(News::Others(now)) => others = now,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(News::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
            if others > 0 {
                alone_since = Instant::now();
                if let Err(failure) = self.receive() {
                    if !self.stop.is_set() {
                        tracing::warn!(%failure, "the demonstration has no guests");
                    }
                    others = 0;
                }
            } else if !self.guests.is_empty() && alone_since.elapsed() > LINGER {
                self.send_home();
                tracing::info!("the guests of the demonstration have left");
            }
        }
        self.send_home();
    }

    /// Sees to it that all guests are there.
    fn receive(&mut self) -> Result<(), Failure> {
        if self.guests.is_empty() {
            let clips = self.clips()?;
            let guest = |(&(name, _), clip): (&(&'static str, Scene), PathBuf)| Guest {
                name,
                clip,
                visit: None,
                came: 0,
                again_at: Instant::now(),
            };
            self.guests = GUESTS.iter().zip(clips).map(guest).collect();
        }
        for guest in &mut self.guests {
            guest.attend(&self.door);
        }
        Ok(())
    }

    fn clips(&mut self) -> Result<Vec<PathBuf>, Failure> {
        if self.clips.is_none() {
            tracing::info!("FFmpeg encodes what the guests of the demonstration show");
            let folder = tempfile::tempdir().map_err(io("no folder for clips"))?;
            let make = |(_, scene): &(&str, Scene)| ffmpeg::clip(folder.path(), *scene, &self.stop);
            let clips = GUESTS.iter().map(make).collect::<Result<_, _>>()?;
            self.clips = Some((folder, clips));
        }
        Ok(self
            .clips
            .as_ref()
            .map_or_else(Vec::new, |(_, clips)| clips.clone()))
    }

    fn send_home(&mut self) {
        let leaving: Vec<_> = self
            .guests
            .drain(..)
            .filter_map(|guest| guest.visit)
            .collect();
        for (tell, _) in &leaving {
            // One that is gone already hears nothing.
            let _ = tell.try_send(json!({ "do": "leave" }).to_string());
        }
        let until = Instant::now() + PATIENCE;
        for (_, thread) in leaving {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(NAP);
            }
            if !thread.is_finished() {
                tracing::warn!("a guest of the demonstration does not leave");
            }
        }
    }
}

impl Guest {
    /// Comes, unless it is there; comes back if something sent it away, some times.
    fn attend(&mut self, door: &Door) {
        if let Some((_, thread)) = &self.visit {
            if !thread.is_finished() {
                return;
            }
            let ended = self.visit.take().map(|(_, thread)| thread.join());
            match ended {
                Some(Ok(Err(failure))) => {
                    tracing::warn!(%failure, name = self.name, "a guest left")
                }
                _ => tracing::debug!(name = self.name, "a guest left"),
            }
            self.again_at = Instant::now() + AGAIN * self.came;
        }
        if self.came > AGAIN_MAX || Instant::now() < self.again_at {
            return;
        }
        self.came += 1;
        match visit(self.name, door, self.clip.clone()) {
            Ok(visit) => self.visit = Some(visit),
            Err(failure) => {
                tracing::warn!(%failure, name = self.name, "a guest cannot come");
                self.again_at = Instant::now() + AGAIN * self.came;
            }
        }
    }
}

type Visiting = (mpsc::Sender<String>, JoinHandle<Result<(), Failure>>);

/// A guest in a thread of its own, by the ways that all members take.
fn visit(name: &str, door: &Door, clip: PathBuf) -> Result<Visiting, Failure> {
    let server = Server::new(&door.url, door.api_token.as_deref())?;
    let session = SessionName {
        tenant: TENANT.to_owned(),
        name: NAME.to_owned(),
    };
    let wanted = json!({ "identity": identity(name), "name": name, "role": "presenter" });
    let broker = door.broker.parse::<Address>();
    let broker = broker.map_err(|error| Failure::new(Exit::Failure, error.to_string()))?;
    let (tell, lines) = mpsc::channel(1);
    let camera = Camera::of_ours(clip, vec![broker])?;
    let run = move || {
        let path = format!("{}/tokens", session.path());
        let made = server.post(&path, &wanted.to_string())?;
        let visit = Visit {
            token: made["token"].as_str().unwrap_or_default().to_owned(),
            server,
            session,
            name: None,
            stay: None,
            camera: Some(camera),
            lines,
            heard: |frame| tracing::trace!(%frame, "a guest hears"),
        };
        visit.pay()
    };
    let thread = thread::Builder::new().name("guest".to_owned());
    let thread = thread.spawn(run).map_err(io("no thread for a guest"))?;
    Ok((tell, thread))
}

#[cfg(test)]
mod tests {
    use sangam_model::Time;
    use sangam_session::{Answer, Input, Joining, Machine};

    use super::*;

    #[test]
    fn guests_do_not_count_as_people_to_come_for() {
        let id = SessionId::new(TENANT, NAME).unwrap();
        let now = Time::from_millis(1_000);
        let mut machine = Machine::create(now, id, Plan::titled(TITLE), 1).unwrap();
        let mut others = Others::default();
        let mut join = |identity: &str| {
            let Ok(Answer::Joined(member)) =
                machine.handle(now, Input::Join(Joining::named(identity)))
            else {
                panic!("{identity} is not let in");
            };
            let records: Vec<_> = std::iter::from_fn(|| machine.poll()).collect();
            (member, others.follow(&records), others.0.len())
        };
        let (_, changed, count) = join("yamuna");
        assert_eq!((changed, count), (false, 0));
        let (anna, changed, count) = join("anna");
        assert_eq!((changed, count), (true, 1));
        machine.handle(now, Input::Lost(anna)).unwrap();
        let later = Time::from_millis(1_000_000);
        machine.handle(later, Input::Tick).unwrap();
        let records: Vec<_> = std::iter::from_fn(|| machine.poll()).collect();
        assert!(others.follow(&records));
        assert!(others.0.is_empty());
    }
}
