//! One thing that can be asked.

use axum::routing::MethodFilter;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// GET, and HEAD with it.
    Get,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
    /// OPTIONS.
    Options,
}

/// Who may ask, as far as tokens go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Everybody.
    Anybody,
    /// Whoever has a token, where brokers ask for one.
    Client,
    /// Whoever has a token for the API, or is the operator.
    Holder,
    /// Whoever has a token for the session, or is the operator.
    Member,
    /// The operator.
    Operator,
}

/// What is sent or answered.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    pub(super) kinds: &'static [&'static str],
    pub(super) shape: Option<&'static str>,
    pub(super) many: bool,
    pub(super) free: bool,
    pub(super) also: Option<&'static str>,
}

const JSON: &[&str] = &["application/json"];
const BOTH: &[&str] = &["application/json", "application/xml"];

impl Body {
    /// JSON of a shape.
    #[must_use]
    pub const fn json(shape: &'static str) -> Self {
        Self {
            shape: Some(shape),
            ..Self::of(JSON)
        }
    }

    /// A list of it, in JSON.
    #[must_use]
    pub const fn list(shape: &'static str) -> Self {
        Self {
            many: true,
            ..Self::json(shape)
        }
    }

    /// JSON or XML of a shape.
    #[must_use]
    pub const fn both(shape: &'static str) -> Self {
        Self {
            shape: Some(shape),
            ..Self::of(BOTH)
        }
    }

    /// JSON that another page describes.
    #[must_use]
    pub const fn free() -> Self {
        Self {
            free: true,
            ..Self::of(JSON)
        }
    }

    /// Text of one of these media types.
    #[must_use]
    pub const fn of(kinds: &'static [&'static str]) -> Self {
        Self {
            kinds,
            shape: None,
            many: false,
            free: false,
            also: None,
        }
    }

    /// Or text of this media type.
    #[must_use]
    pub const fn or(mut self, kind: &'static str) -> Self {
        self.also = Some(kind);
        self
    }
}

/// An answer that is no problem.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub(super) status: u16,
    pub(super) about: &'static str,
    pub(super) body: Option<Body>,
    pub(super) headers: &'static [(&'static str, &'static str)],
}

impl Answer {
    /// With a body.
    #[must_use]
    pub const fn new(status: u16, about: &'static str, body: Body) -> Self {
        Self {
            body: Some(body),
            ..Self::empty(status, about)
        }
    }

    /// Without a body.
    #[must_use]
    pub const fn empty(status: u16, about: &'static str) -> Self {
        Self {
            status,
            about,
            body: None,
            headers: &[],
        }
    }

    /// With these headers, each with what it says.
    #[must_use]
    pub const fn with(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.headers = headers;
        self
    }
}

/// One thing that can be asked over HTTP.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The method.
    pub verb: Verb,
    /// As axum writes it: with its parameters in braces.
    pub path: &'static str,
    /// A name for programs.
    pub id: &'static str,
    pub(super) about: &'static str,
    pub(super) who: Who,
    pub(super) takes: Option<Body>,
    pub(super) gives: Vec<Answer>,
    pub(super) asks: &'static [(&'static str, &'static str)],
    fails: &'static [u16],
}

/// Asks for something.
#[must_use]
pub const fn get(path: &'static str, id: &'static str) -> Operation {
    operation(Verb::Get, path, id)
}

/// Makes something, or lets something be done.
#[must_use]
pub const fn post(path: &'static str, id: &'static str) -> Operation {
    operation(Verb::Post, path, id)
}

/// Says how something is.
#[must_use]
pub const fn put(path: &'static str, id: &'static str) -> Operation {
    operation(Verb::Put, path, id)
}

/// Changes a part of something.
#[must_use]
pub const fn patch(path: &'static str, id: &'static str) -> Operation {
    operation(Verb::Patch, path, id)
}

/// Ends something.
#[must_use]
pub const fn delete(path: &'static str, id: &'static str) -> Operation {
    operation(Verb::Delete, path, id)
}

/// Asks what may be asked.
#[must_use]
pub const fn options(path: &'static str, id: &'static str) -> Operation {
    operation(Verb::Options, path, id)
}

const fn operation(verb: Verb, path: &'static str, id: &'static str) -> Operation {
    Operation {
        verb,
        path,
        id,
        about: "",
        who: Who::Anybody,
        takes: None,
        gives: Vec::new(),
        asks: &[],
        fails: &[],
    }
}

impl Operation {
    /// What it does, for people.
    #[must_use]
    pub fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Who may ask.
    #[must_use]
    pub fn by(mut self, who: Who) -> Self {
        self.who = who;
        self
    }

    /// What is sent.
    #[must_use]
    pub fn takes(mut self, body: Body) -> Self {
        self.takes = Some(body);
        self
    }

    /// One more answer.
    #[must_use]
    pub fn gives(mut self, answer: Answer) -> Self {
        self.gives.push(answer);
        self
    }

    /// Parameters of the query; those that must be there end in an exclamation mark.
    #[must_use]
    pub fn asks(mut self, asks: &'static [(&'static str, &'static str)]) -> Self {
        self.asks = asks;
        self
    }

    /// Statuses of problems that are to be expected.
    #[must_use]
    pub fn fails(mut self, fails: &'static [u16]) -> Self {
        self.fails = fails;
        self
    }

    /// The path as OpenAPI writes it.
    pub(super) fn template(&self) -> String {
        self.path.replace("{*", "{")
    }

    pub(super) fn in_path(&self) -> impl Iterator<Item = &'static str> {
        let names = self.path.split(['{', '}']).skip(1).step_by(2);
        names.map(|name| name.trim_start_matches('*'))
    }

    /// Whether its problems are JSON or XML, as everything else it answers, or JSON alone.
    pub(super) fn has_forms(&self) -> bool {
        let written = self.gives.iter().filter_map(|answer| answer.body);
        let mut bodies = written.chain(self.takes);
        self.who == Who::Member || bodies.any(|body| body.kinds == BOTH)
    }

    /// Statuses of problems that are to be expected.
    pub(super) fn failures(&self) -> impl Iterator<Item = u16> {
        self.fails.iter().copied()
    }
}

/// What a status says of a request, wherever it is answered.
pub(super) const MEANINGS: [(u16, &str); 13] = [
    (307, "Another server has it: `Location` and `at` say which."),
    (400, "What was sent cannot be used; nothing has changed."),
    (401, "A token is needed, or this one is wrong or over."),
    (403, "This is not for the caller, or not now."),
    (404, "There is no such thing."),
    (
        409,
        "It is in the way of something that exists, or not for now.",
    ),
    (
        412,
        "Another generation of ICE credentials is in use: `If-Match` names an older one.",
    ),
    (413, "More bytes than are taken."),
    (415, "Another media type than is taken."),
    (422, "Understood, but outside of what may be asked."),
    (
        429,
        "Too many requests at once: `Retry-After` says when to try again.",
    ),
    (501, "A program that is needed for it is not installed."),
    (503, "Not now: try again, or another server."),
];

impl Verb {
    /// As OpenAPI writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Put => "put",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::Options => "options",
        }
    }

    pub(super) const fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
            Self::Options => MethodFilter::OPTIONS,
        }
    }
}
