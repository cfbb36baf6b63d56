//! What people say of a recording while they watch it.

use crate::limits::{ANNOTATIONS_MAX, ANNOTATIONS_OF_ONE_MAX, UNKEPT_MAX};
use crate::recording::is_annotation;
use crate::{Annotation, Caller, Event, Machine, Refusal};

impl Machine {
    /// Whoever may chat where it is watched may say something of it.
    pub(super) fn annotate(
        &mut self,
        caller: Caller,
        text: &str,
        position_ms: Option<u64>,
    ) -> Result<(), Refusal> {
        let (from, room) = self.speaker(caller)?;
        let replay = self.replayed()?;
        if replay.room != room {
            let why = "the recording is watched in another room";
            return Err(Refusal::Forbidden(why));
        }
        let Some(length) = replay.length_ms else {
            return Err(Refusal::Range("the recording is not found yet"));
        };
        is_annotation(text)?;
        let position_ms = position_ms.unwrap_or_else(|| replay.position(self.now_ms));
        if position_ms > length {
            return Err(Refusal::Range("the recording is not as long"));
        }
        if self.session.annotations.len() >= ANNOTATIONS_MAX {
            let what = "annotations of this recording";
            return Err(Refusal::Full(what, ANNOTATIONS_MAX));
        }
        let name = self.known(from)?.name.clone();
        let said = self.session.annotations.iter();
        if said.filter(|one| one.name == name).count() >= ANNOTATIONS_OF_ONE_MAX {
            let what = "annotations of this recording by one person";
            return Err(Refusal::Full(what, ANNOTATIONS_OF_ONE_MAX));
        }
        if self.session.unkept.len() >= UNKEPT_MAX {
            let what = "annotations that no recorder has written down";
            return Err(Refusal::Full(what, UNKEPT_MAX));
        }
        let annotation = Annotation {
            recording: replay.recording,
            position_ms,
            said_ms: self.now_ms,
            number: self.session.seq + 1,
            name,
            text: text.trim().to_owned(),
        };
        self.emit(Event::Annotated { from, annotation });
        Ok(())
    }

    /// A player tells what was said of the recording before.
    pub(super) fn recall(&mut self, told: Vec<Annotation>) {
        let Some(replay) = &self.session.replay else {
            return;
        };
        let known = |one: &Annotation| {
            let mut known = self.session.annotations.iter();
            known.any(|other| other.key() == one.key())
        };
        let new = told
            .into_iter()
            .filter(|one| one.recording == replay.recording && one.is_sound() && !known(one));
        let annotations: Vec<_> = new.collect();
        if !annotations.is_empty() {
            self.emit(Event::Recalled { annotations });
        }
    }

    /// Once more what is on its way into a recording that is replayed from now on.
    pub(super) fn recall_unkept(&mut self) {
        self.recall(self.session.unkept.clone());
    }

    /// A recorder has written something down.
    pub(crate) fn kept(&mut self, number: u64) {
        if self.session.unkept.iter().any(|one| one.number == number) {
            self.emit(Event::Kept { number });
        }
    }
}
