//! What can be asked over HTTP, described where it is served.
//!
//! A path is served by [`Routes`], which take a handler only with the [`Operation`] that describes
//! it: so nothing is served that the OpenAPI document does not know, and nothing described that is
//! not served.

mod operation;
mod routes;

use serde_json::{Map, Value, json};

pub use operation::{Answer, Body, Operation, Verb, Who, delete, get, options, patch, post, put};
pub use routes::Routes;

use crate::session::shapes::{self as documents, COMMANDS, Field, Kind, SENT, Shape};
use operation::MEANINGS;

/// The OpenAPI 3.1 document of these operations, which answer documents of XGSP and of these
/// shapes.
#[must_use]
pub fn document(operations: &[Operation], shapes: &[Shape]) -> Value {
    let mut paths = Map::new();
    for operation in operations {
        let path = paths
            .entry(operation.template())
            .or_insert_with(|| json!({}));
        path[operation.verb.name()] = described(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sangam: a broker and its sessions (XGSP)",
            "version": "1",
            "description": "docs/spec/xgsp.md says what sessions mean, and how a member sends and \
                            receives media. Documents of sessions are JSON, or XML of \
                            docs/spec/xgsp.xsd: send `Content-Type: application/xml` and ask for \
                            it by `Accept`.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http", "scheme": "bearer", "bearerFormat": "JWT",
                    "description": "Of a member, of whoever manages sessions, or of a client of \
                                    brokers: docs/spec/xgsp.md#tokens.",
                },
                "operator": {
                    "type": "http", "scheme": "bearer",
                    "description": "api.token of the broker's configuration. Where neither that \
                                    nor auth.keys are configured, callers on the broker's machine \
                                    need none.",
                },
            },
            "schemas": schemas(shapes),
            "responses": problems(),
        },
    })
}

fn schemas(shapes: &[Shape]) -> Map<String, Value> {
    let entry = |shape: &Shape| (shape.name.to_owned(), schema(shape));
    let mut schemas: Map<String, Value> = documents::all().chain(SENT).map(entry).collect();
    schemas.extend(shapes.iter().map(entry));
    let commands = COMMANDS.iter().map(|shape| {
        let mut schema = schema(shape);
        schema["properties"]["do"] = json!({ "const": shape.name });
        let needed = schema["required"].as_array_mut();
        needed
            .into_iter()
            .for_each(|needed| needed.insert(0, json!("do")));
        schema
    });
    let commands = json!({ "oneOf": commands.collect::<Vec<_>>() });
    schemas.insert("command".to_owned(), commands);
    schemas
}

/// What a problem's answer is called among the components.
fn problem_name(has_forms: bool, status: &str) -> String {
    let forms = if has_forms { "-json-or-xml" } else { "" };
    format!("problem-{status}{forms}")
}

/// Every answer that is a problem, in JSON alone and in either form.
fn problems() -> Map<String, Value> {
    let mut problems = Map::new();
    let known = MEANINGS.map(|(status, about)| (status.to_string(), about));
    let other = ("other".to_owned(), "Why it was not done.");
    for (status, about) in known.into_iter().chain([other]) {
        for (has_forms, body) in [
            (false, Body::json("problem")),
            (true, Body::both("problem")),
        ] {
            let told = json!({ "description": about, "content": content(&body) });
            problems.insert(problem_name(has_forms, &status), told);
        }
    }
    problems
}

fn described(operation: &Operation) -> Value {
    let text = json!({ "type": "string" });
    let in_path = operation
        .in_path()
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": text }));
    let in_query = operation.asks.iter().map(|(name, about)| {
        let needed = name.strip_suffix('!');
        json!({
            "name": needed.unwrap_or(name), "in": "query", "description": about,
            "required": needed.is_some(), "schema": text,
        })
    });
    let parameters: Vec<_> = in_path.chain(in_query).collect();
    let mut answers = Map::new();
    for answer in &operation.gives {
        answers.insert(answer.status.to_string(), answered(answer));
    }
    let problem = |status: &str| {
        let name = problem_name(operation.has_forms(), status);
        json!({ "$ref": format!("#/components/responses/{name}") })
    };
    for status in operation.failures() {
        answers.insert(status.to_string(), problem(&status.to_string()));
    }
    answers.insert("default".to_owned(), problem("other"));
    let mut described = json!({
        "operationId": operation.id, "summary": operation.about, "responses": answers,
        "security": security(operation.who),
    });
    if !parameters.is_empty() {
        described["parameters"] = json!(parameters);
    }
    if let Some(body) = &operation.takes {
        described["requestBody"] = json!({ "required": true, "content": content(body) });
    }
    described
}

fn answered(answer: &Answer) -> Value {
    let mut told = json!({ "description": answer.about });
    if let Some(body) = &answer.body {
        told["content"] = content(body);
    }
    let headers = answer.headers.iter().map(|(name, about)| {
        let header = json!({ "description": about, "schema": { "type": "string" } });
        ((*name).to_owned(), header)
    });
    let headers: Map<_, _> = headers.collect();
    if !headers.is_empty() {
        told["headers"] = Value::Object(headers);
    }
    told
}

fn security(who: Who) -> Value {
    match who {
        Who::Anybody => json!([]),
        // Brokers that ask for no tokens take whoever comes.
        Who::Client => json!([{ "token": [] }, {}]),
        Who::Holder | Who::Member => json!([{ "token": [] }, { "operator": [] }]),
        Who::Operator => json!([{ "operator": [] }]),
    }
}

fn content(body: &Body) -> Value {
    let schema = match body.shape {
        Some(shape) if body.many => json!({ "type": "array", "items": reference(shape) }),
        Some(shape) => reference(shape),
        None => json!({ "type": if body.free { "object" } else { "string" } }),
    };
    let kinds = body.kinds.iter();
    let kinds = kinds.map(|kind| ((*kind).to_owned(), json!({ "schema": schema })));
    let also = body
        .also
        .map(|kind| (kind.to_owned(), json!({ "schema": { "type": "string" } })));
    Value::Object(kinds.chain(also).collect())
}

fn reference(shape: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{shape}") })
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
    let mut schema = match field.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Count => json!({ "type": "integer", "minimum": 0 }),
        Kind::Number => json!({ "type": "number" }),
        Kind::Truth => json!({ "type": "boolean" }),
        Kind::Word(words) => json!({ "type": "string", "enum": words }),
        Kind::Part(of) => reference(of),
        Kind::Texts(_) => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Parts(_, of) => json!({ "type": "array", "items": reference(of) }),
    };
    if field.null {
        schema = json!({ "anyOf": [schema, { "type": "null" }] });
    }
    schema["description"] = json!(field.about);
    schema
}
