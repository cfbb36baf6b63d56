//! A clip as the camera and microphone of a member.

use std::fs;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sangam_client::Address;
use sangam_model::Topic;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::text;
use crate::cli::{Peer, PublishArgs};
use crate::commands::publish::{Feed, Place};
use crate::exit::{Exit, Failure, io};
use crate::stop::Stop;

const SECOND: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT_S: u64 = 10;
const MEDIA: [&str; 2] = ["audio", "video"];

/// What is shown, and where it is at present.
pub(in crate::commands) struct Camera {
    clip: PathBuf,
    /// It is encoded as members take it.
    copy: bool,
    brokers: Vec<Address>,
    /// Holds the newest token for the brokers.
    folder: TempDir,
    shown: Option<Shown>,
}

/// A publication in a thread of its own.
struct Shown {
    place: Place,
    stop: Stop,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Camera {
    pub(in crate::commands) fn new(clip: PathBuf, brokers: Vec<Address>) -> Result<Self, Failure> {
        Ok(Self {
            clip,
            copy: false,
            brokers,
            folder: tempfile::tempdir().map_err(io("no folder for a token"))?,
            shown: None,
        })
    }

    /// The same for a clip that is encoded as members take it, and need not be again.
    pub(in crate::commands) fn of_ours(
        clip: PathBuf,
        brokers: Vec<Address>,
    ) -> Result<Self, Failure> {
        let mut camera = Self::new(clip, brokers)?;
        camera.copy = true;
        Ok(camera)
    }

    /// Takes a frame of the session; what is to be asked for because of it.
    pub(super) fn heed(&mut self, frame: &Value) -> Result<Vec<Value>, Failure> {
        if frame["type"] != "media" {
            return Ok(Vec::new());
        }
        let token = frame["token"].as_str();
        if let Some(token) = token {
            let (path, newer) = (self.token_file(), self.folder.path().join("newer"));
            fs::write(&newer, token)
                .and_then(|()| fs::rename(&newer, &path))
                .map_err(io(path.display()))?;
        }
        let place = place(frame)?;
        if self
            .shown
            .as_ref()
            .is_some_and(|shown| shown.place == place)
        {
            return Ok(Vec::new());
        }
        self.end()?;
        self.begin(place, token.is_some())?;
        let ask = |medium| json!({ "do": "request", "medium": medium });
        Ok(MEDIA.map(ask).into())
    }

    /// Why nothing is shown any more that should be; nothing else ends it before [`Self::end`].
    ///
    /// # Errors
    /// The clip is at its end, or FFmpeg failed.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        if !self
            .shown
            .as_ref()
            .is_some_and(|one| one.thread.is_finished())
        {
            return Ok(());
        }
        self.end()?;
        Err(Failure::new(Exit::Failure, "the clip is over"))
    }

    /// Switches off.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        let Some(shown) = self.shown.take() else {
            return Ok(());
        };
        shown.stop.set();
        let failed = |_| Failure::new(Exit::Failure, "the clip failed");
        shown.thread.join().map_err(failed)?
    }

    fn token_file(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    fn begin(&mut self, place: Place, needs_token: bool) -> Result<(), Failure> {
        let args = PublishArgs {
            to: self.brokers.clone(),
            peer: Peer {
                connect_timeout: CONNECT_TIMEOUT_S,
                token_file: needs_token.then(|| self.token_file()),
                ..Peer::default()
            },
            // Where the streams are says the place.
            topic: Topic::new("member").map_err(|error| wrong(&error.to_string()))?,
            rtp: None,
            media: None,
            file: Some(self.clip.clone()),
            reliable: false,
            copy: self.copy,
            repeat: true,
            seconds: None,
        };
        let stop = Stop::default();
        let (at, until) = (place.clone(), stop.clone());
        // FFmpeg lives as long as the thread that started it.
        let show = move || {
            let shown = show(&args, &at, &until);
            if let Err(failure) = &shown {
                tracing::error!(%failure, "the clip is not shown");
            }
            shown
        };
        let thread = thread::Builder::new().name("camera".to_owned());
        let thread = thread.spawn(show).map_err(io("no thread for the clip"))?;
        self.shown = Some(Shown {
            place,
            stop,
            thread,
        });
        Ok(())
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        if let Some(shown) = &self.shown {
            shown.stop.set();
        }
    }
}

fn show(args: &PublishArgs, place: &Place, stop: &Stop) -> Result<(), Failure> {
    let mut feed = Feed::open_at(args, place)?;
    while !stop.is_set() && feed.run_for(SECOND, stop)? {}
    feed.finish().map(|_| ())
}

/// Where the member may publish, by what the session server tells it:
/// `tenant/name/room/medium/member/#`.
fn place(frame: &Value) -> Result<Place, Failure> {
    let filter = frame["publish"].as_array().and_then(|all| all.first());
    let filter = filter.map_or("", text);
    let levels: Vec<_> = filter.split('/').collect();
    let [tenant, name, room, _, member, "#"] = levels[..] else {
        return Err(wrong(filter));
    };
    Ok(Place::Member {
        room: format!("{tenant}/{name}/{room}"),
        member: member.to_owned(),
    })
}

fn wrong(filter: &str) -> Failure {
    let message = format!("the session server names no place for a camera: {filter:?}");
    Failure::new(Exit::Failure, message).hint("observers have none; ask for another role")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_camera_is_the_members_own() {
        let frame = |filters: &[&str]| json!({ "type": "media", "publish": filters });
        let expected = Place::Member {
            room: "acme/weekly/main".to_owned(),
            member: "m17".to_owned(),
        };
        for filters in [
            &["acme/weekly/main/+/m17/#"][..],
            &[
                "acme/weekly/main/audio/m17/#",
                "acme/weekly/main/data/m17/#",
            ],
        ] {
            assert_eq!(place(&frame(filters)).unwrap(), expected);
        }
        for filters in [&[][..], &["acme/weekly/#"]] {
            assert_eq!(place(&frame(filters)).unwrap_err().exit, Exit::Failure);
        }
    }
}
