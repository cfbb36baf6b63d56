//! `sangam net weigh`, `forbid` and `rules`: what an operator says about a broker's links.

use sangam_control::monitor::parse_id;
use sangam_model::BrokerId;
use serde_json::{Value, json};

use super::gather;
use crate::cli::{Api, NetArgs, NetCommand};
use crate::commands::session::Server;
use crate::commands::table::render;
use crate::exit::Failure;
use crate::output;

/// Does it, and shows what holds then.
pub(super) fn run(args: &NetArgs, what: &NetCommand, as_json: bool) -> Result<(), Failure> {
    let rules = match what {
        NetCommand::Weigh {
            peer_broker,
            weight,
            api,
        } => {
            let path = path(args, peer_broker, "weight")?;
            match weight.0 {
                Some(weight) => {
                    server(api)?.put(&path, &json!({ "weight": weight }).to_string())?
                }
                None => server(api)?.delete(&path)?,
            }
        }
        NetCommand::Forbid {
            peer_broker,
            allow,
            api,
        } => {
            let path = path(args, peer_broker, "forbidden")?;
            match allow {
                false => server(api)?.put(&path, "")?,
                true => server(api)?.delete(&path)?,
            }
        }
        NetCommand::Rules { api } => server(api)?.get("/v1/links")?,
        _ => return Ok(()),
    };
    if as_json {
        output::json_line(&rules);
    } else {
        output::text(&table(&rules));
    }
    Ok(())
}

fn server(api: &Api) -> Result<Server, Failure> {
    Server::new(&api.server, api.api_token.as_deref())
}

/// Only a name has to be looked up in the network.
fn path(args: &NetArgs, broker: &str, what: &str) -> Result<String, Failure> {
    let find = || gather::find(&gather::view(args)?.network, broker);
    let id: BrokerId = parse_id(broker).map_or_else(find, Ok)?;
    Ok(format!("/v1/links/{id}/{what}"))
}

fn table(rules: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let items = |name: &str| rules[name].as_array().cloned().unwrap_or_default();
    let weights = items("weights")
        .into_iter()
        .map(|one| vec![text(&one["broker"]), text(&one["weight"]), text(&one["by"])]);
    let forbidden = items("forbidden").into_iter().map(|one| {
        vec![
            text(&one["broker"]),
            "forbidden".to_owned(),
            text(&one["by"]),
        ]
    });
    let rows: Vec<Vec<String>> = weights.chain(forbidden).collect();
    if rows.is_empty() {
        return "nothing is fixed\n".to_owned();
    }
    render(&["BROKER", "WEIGHT", "BY"], &rows)
}
