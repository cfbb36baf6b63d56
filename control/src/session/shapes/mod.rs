//! The documents of the API, as a table: the one place that says what they hold.
//!
//! [`super::xml`] reads and writes XML by it, [`super::spec`] writes the XML schema and
//! [`crate::openapi`] the OpenAPI document from it, and a test holds the types that serde knows
//! against it.

mod commands;
mod recordings;
mod sent;
mod sessions;

pub use commands::COMMANDS;
pub use recordings::BEAT;
pub use sent::{CREATE, INVITE};

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number from 0 on.
    Count,
    /// Any number.
    Number,
    /// Yes or no.
    Truth,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Another document of this shape.
    Part(&'static str),
    /// A list of texts; in XML, elements of this name.
    Texts(&'static str),
    /// A list of documents; in XML, elements of this name; and their shape.
    Parts(&'static str, &'static str),
}

/// One field of a document.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name, in JSON and XML.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it is always there.
    pub needed: bool,
    /// Whether JSON may say `null`, which means that there is none.
    pub null: bool,
    /// What it means.
    pub about: &'static str,
}

/// One kind of document.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its name: that of the element, in XML.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// What it holds.
    pub fields: &'static [Field],
}

/// A field that is always there.
#[must_use]
pub const fn must(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field {
        name,
        kind,
        needed: true,
        null: false,
        about,
    }
}

/// A field that may be left out.
#[must_use]
pub const fn may(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field {
        needed: false,
        ..must(name, kind, about)
    }
}

/// A field that is always there, and may be `null`.
#[must_use]
pub const fn or_null(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field {
        null: true,
        ..must(name, kind, about)
    }
}

/// A kind of document.
#[must_use]
pub const fn shape(name: &'static str, about: &'static str, fields: &'static [Field]) -> Shape {
    Shape {
        name,
        about,
        fields,
    }
}

use Kind::{Text, Word};

const ROLE: Kind = Word(&["chair", "presenter", "participant", "observer"]);
const MEDIUM: Kind = Word(&["audio", "video", "screen", "board"]);
const MODE: Kind = Word(&["free", "moderated"]);
const MEMBER: Field = must("member", Text, "A member, such as `m17`.");
const OF: Field = must("medium", MEDIUM, "Which medium.");

/// What is sent and is no command.
pub const SENT: [&Shape; 3] = [&CREATE, &INVITE, &BEAT];

/// Documents that are answered, and their parts.
pub fn all() -> impl Iterator<Item = &'static Shape> {
    sessions::SHAPES.iter().chain(recordings::SHAPES)
}

/// The shape of this name, among those that are answered.
#[must_use]
pub fn find(name: &str) -> Option<&'static Shape> {
    all().find(|shape| shape.name == name)
}
