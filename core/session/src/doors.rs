//! What floors mean for topics: which are open, and who may reach which.

use crate::{MAIN, Medium, MemberId, Session, State};

/// Below a room, beside the media: data that needs no floor.
const DATA: &str = "data";
/// Beside the rooms: what mixers and other services publish.
const SERVICE: &str = "service";

/// The topics of a session that are open: a list of prefixes, and which levels below each may be
/// published on. What stands below a prefix and is not named there is closed.
pub type Doors = Vec<(String, Vec<String>)>;

/// The topics of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Where it may publish, as far as it holds the floor.
    pub publish: Vec<String>,
    /// What it may receive.
    pub subscribe: Vec<String>,
}

impl Session {
    /// Which topics are open now.
    ///
    /// `tenant/name/room/medium/member` is open to whoever holds that floor, and
    /// `tenant/name/room/data/...` always; while the session is not activated, nothing is.
    #[must_use]
    pub fn doors(&self) -> Doors {
        let id = &self.id;
        if self.state != State::Activated {
            return vec![(id.to_string(), Vec::new())];
        }
        let names = self.rooms.keys().cloned();
        let mut doors = vec![(
            id.to_string(),
            names.chain([SERVICE.to_owned()]).collect::<Vec<_>>(),
        )];
        let media = Medium::ALL.iter().map(|medium| medium.name());
        let below: Vec<_> = media.chain([DATA]).map(str::to_owned).collect();
        for (name, room) in &self.rooms {
            doors.push((format!("{id}/{name}"), below.clone()));
            for (medium, floor) in Medium::ALL.iter().zip(&room.floors) {
                let holders = floor.holders.iter().map(|holder| holder.member.to_string());
                let prefix = format!("{id}/{name}/{}", medium.name());
                doors.push((prefix, holders.collect()));
            }
        }
        doors
    }

    /// The topics of a member; none while it waits in the lobby.
    #[must_use]
    pub fn reach(&self, member: MemberId) -> Option<Reach> {
        let member = self.members.get(&member)?;
        let room = member.room.as_ref()?;
        let (id, number) = (&self.id, member.id);
        let media = member.rights.publish.iter().map(|medium| medium.name());
        let data = member.rights.chat.then_some(DATA);
        let mut below: Vec<_> = media.chain(data).collect();
        if below.len() > Medium::ALL.len() {
            // Everything: said once, so that a token with long names stays short.
            below = vec!["+"];
        }
        let publish = below
            .iter()
            .map(|kind| format!("{id}/{room}/{kind}/{number}/#"));
        let mut subscribe = Vec::new();
        if member.rights.subscribe {
            subscribe.push(format!("{id}/{room}/#"));
            if room == MAIN {
                subscribe.push(format!("{id}/{SERVICE}/#"));
            }
        }
        Some(Reach {
            publish: publish.collect(),
            subscribe,
        })
    }
}
