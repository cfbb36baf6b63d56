//! The published descriptions, written from the code: XML schema and OpenAPI.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::shapes::{COMMANDS, Field, Kind, SENT, SHAPES, Shape};
use super::xml::NAMESPACE;

/// One thing that can be asked over HTTP.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// `get`, `post`, `put` or `delete`.
    pub method: &'static str,
    /// With its parameters in braces.
    pub path: &'static str,
    /// A name for programs.
    pub id: &'static str,
    /// What it does.
    pub about: &'static str,
    /// What is sent.
    pub takes: Option<&'static str>,
    /// What is answered: the status, and the shape of the document.
    pub gives: (u16, Option<&'static str>),
    /// Parameters of the query.
    pub asks: &'static [(&'static str, &'static str)],
}

const SESSION: &str = "/v1/sessions/{tenant}/{name}";

/// Everything that can be asked.
pub const OPERATIONS: &[Operation] = &[
    operation("post", "/v1/sessions", "createSession")
        .about("Makes a session. Needs video.roomCreate, or the operator's token.")
        .takes("create")
        .gives(201, "session"),
    operation("get", "/v1/sessions", "listSessions")
        .about(
            "Lists sessions, of all servers that share them. Needs video.roomList, or the \
             operator's token.",
        )
        .gives(200, "sessions")
        .asks(&[
            (
                "after",
                "Only sessions whose `tenant/name` comes after this one",
            ),
            ("limit", "At most so many, up to 500"),
        ]),
    operation("get", "/v1/sessions/servers", "listServers")
        .about(
            "Lists the servers that share their sessions. Needs video.roomList, or the operator's \
             token.",
        )
        .gives(200, "servers"),
    operation("get", SESSION, "getSession")
        .about("A session with up to 200 of its members. Needs video.roomAdmin.")
        .gives(200, "session"),
    operation("delete", SESSION, "deleteSession")
        .about("Forgets a session that is finished or canceled. Needs video.roomAdmin."),
    operation("post", "/v1/sessions/{tenant}/{name}/commands", "command")
        .about("Asks something of a session. Needs video.roomAdmin, or the token of a member.")
        .takes("command")
        .gives(200, "done"),
    operation("get", "/v1/sessions/{tenant}/{name}/members", "listMembers")
        .about("A page of members. Needs video.roomAdmin.")
        .gives(200, "members")
        .asks(&[
            ("after", "Only members behind this one"),
            ("limit", "At most so many, up to 500"),
        ]),
    operation("get", "/v1/sessions/{tenant}/{name}/events", "listEvents")
        .about("Entries of the log; the oldest are folded away. Needs video.roomAdmin.")
        .gives(200, "events")
        .asks(&[
            ("after", "Only events behind this number"),
            ("limit", "At most so many, up to 500"),
        ]),
    operation(
        "put",
        "/v1/sessions/{tenant}/{name}/services/{service}",
        "serviceReady",
    )
    .about("Says that a service the session needs is ready. Needs video.roomAdmin.")
    .gives(200, "done"),
    operation(
        "delete",
        "/v1/sessions/{tenant}/{name}/services/{service}",
        "serviceGone",
    )
    .about("Says that such a service is not ready any more. Needs video.roomAdmin.")
    .gives(200, "done"),
    operation("post", "/v1/sessions/{tenant}/{name}/tokens", "createToken")
        .about("Makes a token for joining. Needs video.roomAdmin.")
        .takes("invite")
        .gives(201, "token"),
    operation(
        "get",
        "/v1/sessions/{tenant}/{name}/invitation",
        "showInvitation",
    )
    .about("What people are told before they join. Needs any token for the session.")
    .gives(200, "invitation"),
    operation(
        "get",
        "/v1/sessions/{tenant}/{name}/invitation.ics",
        "getInvitation",
    )
    .about("The same for calendars (iCalendar). Needs any token for the session."),
    operation(
        "get",
        "/v1/sessions/{tenant}/{name}/recordings",
        "listRecordings",
    )
    .about("Recordings of the session. Needs any token for the session.")
    .gives(200, "recordings"),
    operation("put", "/v1/recorders/{recorder}", "recorderBeat")
        .about(
            "Says that a recorder is there, and asks what it has to do. Needs the operator's \
             token.",
        )
        .takes("beat")
        .gives(200, "work"),
    operation("get", "/v1/sessions/{tenant}/{name}/signal", "signal")
        .about("A WebSocket for one member: see docs/spec/xgsp.md."),
];

const fn operation(method: &'static str, path: &'static str, id: &'static str) -> Operation {
    Operation {
        method,
        path,
        id,
        about: "",
        takes: None,
        gives: (204, None),
        asks: &[],
    }
}

impl Operation {
    const fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    const fn takes(mut self, shape: &'static str) -> Self {
        self.takes = Some(shape);
        self
    }

    const fn gives(mut self, status: u16, shape: &'static str) -> Self {
        self.gives = (status, Some(shape));
        self
    }

    const fn asks(mut self, asks: &'static [(&'static str, &'static str)]) -> Self {
        self.asks = asks;
        self
    }
}

/// The OpenAPI 3.1 document.
#[must_use]
pub fn openapi() -> Value {
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = described(operation);
    }
    let all = SHAPES.iter().chain(SENT);
    let mut schemas: Map<String, Value> = all
        .map(|shape| (shape.name.to_owned(), schema(shape)))
        .collect();
    let commands = COMMANDS.iter().map(|shape| {
        let mut schema = schema(shape);
        schema["properties"]["do"] = json!({ "const": shape.name });
        let needed = schema["required"].as_array_mut();
        needed
            .into_iter()
            .for_each(|needed| needed.insert(0, json!("do")));
        schema
    });
    schemas.insert(
        "command".to_owned(),
        json!({ "oneOf": commands.collect::<Vec<_>>() }),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sangam sessions (XGSP)",
            "version": "1",
            "description": "Every document is JSON, or XML of docs/spec/xgsp.xsd: send \
                            `Content-Type: application/xml` and ask for it by `Accept`.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": {
                "type": "http", "scheme": "bearer", "bearerFormat": "JWT",
            } },
            "schemas": schemas,
        },
    })
}

fn described(operation: &Operation) -> Value {
    let in_path = operation.path.split(['{', '}']).skip(1).step_by(2);
    let in_path = in_path.map(|name| {
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
    });
    let in_query = operation.asks.iter().map(|(name, about)| {
        json!({
            "name": name, "in": "query", "description": about, "schema": { "type": "string" },
        })
    });
    let parameters: Vec<_> = in_path.chain(in_query).collect();
    let (status, shape) = operation.gives;
    let mut answers = json!({
        status.to_string(): { "description": "Done." },
        "default": { "description": "Why it was not done.", "content": content("problem") },
    });
    if let Some(shape) = shape {
        answers[status.to_string()]["content"] = content(shape);
    }
    let mut described = json!({
        "operationId": operation.id, "summary": operation.about, "responses": answers,
    });
    if !parameters.is_empty() {
        described["parameters"] = json!(parameters);
    }
    if let Some(shape) = operation.takes {
        described["requestBody"] = json!({ "required": true, "content": content(shape) });
    }
    described
}

fn content(shape: &str) -> Value {
    let schema = json!({ "schema": { "$ref": format!("#/components/schemas/{shape}") } });
    json!({ "application/json": schema, "application/xml": schema })
}

fn schema(shape: &Shape) -> Value {
    let fields = shape.fields.iter();
    let properties: Map<_, _> = fields
        .map(|field| (field.name.to_owned(), property(field)))
        .collect();
    let needed = shape.fields.iter().filter(|field| field.needed);
    let needed: Vec<_> = needed.map(|field| field.name).collect();
    json!({
        "type": "object", "description": shape.about,
        "properties": properties, "required": needed,
    })
}

fn property(field: &Field) -> Value {
    let reference = |of: &str| json!({ "$ref": format!("#/components/schemas/{of}") });
    let mut schema = match field.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Count => json!({ "type": "integer", "minimum": 0 }),
        Kind::Truth => json!({ "type": "boolean" }),
        Kind::Word(words) => json!({ "type": "string", "enum": words }),
        Kind::Part(of) => reference(of),
        Kind::Texts(_) => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Parts(_, of) => json!({ "type": "array", "items": reference(of) }),
    };
    schema["description"] = json!(field.about);
    schema
}

/// The XML schema.
#[must_use]
pub fn xsd() -> String {
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!-- XGSP documents of Sangam; docs/spec/xgsp.md explains them. -->\n\
         <xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" xmlns=\"{NAMESPACE}\"\n    \
         targetNamespace=\"{NAMESPACE}\" elementFormDefault=\"qualified\">\n"
    );
    // What is asked and what is answered may have one name: an element has one type only, so those
    // that are answered as parts alone are types, and no elements.
    let whole = [
        "session",
        "sessions",
        "servers",
        "members",
        "events",
        "invitation",
        "token",
        "done",
        "problem",
        "recordings",
        "work",
    ];
    let answered = SHAPES.iter().filter(|shape| whole.contains(&shape.name));
    for shape in answered {
        root(&mut text, (shape, shape.name));
    }
    for shape in SENT {
        root(&mut text, (shape, shape.name));
    }
    for shape in COMMANDS {
        root(&mut text, (shape, &format!("do-{}", shape.name)));
    }
    for shape in SHAPES.iter().chain(SENT) {
        complex(&mut text, shape.name, shape);
    }
    for shape in COMMANDS {
        complex(&mut text, &format!("do-{}", shape.name), shape);
    }
    text + "</xs:schema>\n"
}

fn root(text: &mut String, (shape, kind): (&Shape, &str)) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "  <xs:element name=\"{}\" type=\"{kind}\">",
        shape.name
    );
    let _ = writeln!(
        text,
        "    <xs:annotation><xs:documentation>{}</xs:documentation></xs:annotation>\n  \
         </xs:element>",
        shape.about
    );
}

fn complex(text: &mut String, name: &str, shape: &Shape) {
    let _ = writeln!(text, "  <xs:complexType name=\"{name}\">");
    let nested: Vec<_> = shape
        .fields
        .iter()
        .filter(|one| !one.kind.is_single())
        .collect();
    if !nested.is_empty() {
        *text += "    <xs:sequence>\n";
        for field in nested {
            let (element, kind, most) = match field.kind {
                Kind::Texts(each) => (each, "xs:string", "unbounded"),
                Kind::Parts(each, of) => (each, of, "unbounded"),
                Kind::Part(of) => (field.name, of, "1"),
                _ => continue,
            };
            let least = u8::from(field.needed && most == "1");
            let _ = writeln!(
                text,
                "      <xs:element name=\"{element}\" type=\"{kind}\" minOccurs=\"{least}\" \
                 maxOccurs=\"{most}\"/>"
            );
        }
        *text += "    </xs:sequence>\n";
    }
    for field in shape.fields.iter().filter(|one| one.kind.is_single()) {
        attribute(text, field);
    }
    *text += "  </xs:complexType>\n";
}

fn attribute(text: &mut String, field: &Field) {
    let usage = if field.needed { "required" } else { "optional" };
    let head = format!("    <xs:attribute name=\"{}\" use=\"{usage}\"", field.name);
    let kind = match field.kind {
        Kind::Count => "xs:unsignedLong",
        Kind::Truth => "xs:boolean",
        _ => "xs:string",
    };
    let Kind::Word(words) = field.kind else {
        let _ = writeln!(text, "{head} type=\"{kind}\"/>");
        return;
    };
    let _ = writeln!(
        text,
        "{head}>\n      <xs:simpleType><xs:restriction base=\"xs:string\">"
    );
    for word in words {
        let _ = writeln!(text, "        <xs:enumeration value=\"{word}\"/>");
    }
    *text += "      </xs:restriction></xs:simpleType>\n    </xs:attribute>\n";
}
