//! `sangam archive node`.

use std::path::Path;

use sangam_archive::films::{Films, Roster};
use sangam_archive::nodes::{KEY, Node, Reply, Request};
use serde_json::{Value, json};

use super::{failure, films};
use crate::cli::{NodeCommand, Place};
use crate::commands::table;
use crate::exit::{Exit, Failure};
use crate::output;

const HEAD: [&str; 5] = ["NODE", "ADDRESS", "STATE", "DISKS", "FILMS"];

/// Does what is asked of nodes.
pub(super) fn run(place: &Place, command: &NodeCommand, as_json: bool) -> Result<(), Failure> {
    let films = films(place);
    let wrong = |error| failure(&error);
    match command {
        NodeCommand::List => list(&films, as_json),
        NodeCommand::Add { address, join, key } => {
            check(address)?;
            let node = match (join, key) {
                (Some(join), Some(key)) => films.join(address, (join, key)),
                _ => films.become_node(address),
            };
            added(place, &node.map_err(wrong)?, as_json);
            Ok(())
        }
        NodeCommand::Remove { node } => {
            let node = films.remove_node(node).map_err(wrong)?;
            match as_json {
                true => output::json_line(&json!({
                    "node": node.id, "address": node.address, "leaving": node.leaving,
                })),
                false => output::line(&format!(
                    "node {} leaves: {}; `sangam archive serve` moves its blocks within seconds, \
                     `sangam archive settle` now",
                    node.id, node.address
                )),
            }
            Ok(())
        }
    }
}

/// Others must reach it: a port of 0 is none.
fn check(address: &str) -> Result<(), Failure> {
    let port = address.rsplit_once(':').map(|(_, port)| port.parse());
    match port {
        Some(Ok(1_u16..)) => Ok(()),
        _ => {
            let message = format!("{address:?} is no HOST:PORT");
            Err(Failure::new(Exit::Usage, message).hint("such as 192.0.2.1:8560"))
        }
    }
}

fn added(place: &Place, node: &Node, as_json: bool) {
    let key = place.folder.join(KEY);
    if as_json {
        output::json_line(&json!({
            "node": node.id, "address": node.address, "key": key.display().to_string(),
        }));
        return;
    }
    let folder = place.folder.display();
    output::line(&format!(
        "node {} at {}: run `sangam archive serve --archive {folder}`",
        node.id, node.address
    ));
    if node.id == 1 {
        output::line(&format!(
            "other machines join with `sangam archive node add ADDRESS --join {} --key FILE`, \
             where FILE is a copy of {}",
            node.address,
            key.display()
        ));
    }
}

fn list(films: &Films, as_json: bool) -> Result<(), Failure> {
    let roster = films.roster().map_err(|error| failure(&error))?;
    let states: Vec<_> = roster.nodes.iter().map(|node| state(films, node)).collect();
    if as_json {
        for (node, state) in roster.nodes.iter().zip(&states) {
            output::json_line(&to_json(&roster, node, state));
        }
        return Ok(());
    }
    let rows = roster.nodes.iter().zip(&states).map(|(node, state)| {
        let (known, why) = match state {
            Ok(known) => (known.to_string(), word(node).to_owned()),
            Err(why) => ("-".to_owned(), format!("away: {why}")),
        };
        let disks = disks(&roster, node).to_string();
        vec![node.id.to_string(), node.address.clone(), why, disks, known]
    });
    output::text(&table::render(&HEAD, &rows.collect::<Vec<_>>()));
    Ok(())
}

const fn word(node: &Node) -> &'static str {
    match node.leaving {
        true => "leaving",
        false => "in use",
    }
}

fn disks(roster: &Roster, node: &Node) -> usize {
    let disks = roster.disks.iter();
    disks.filter(|disk| disk.host == node.id).count()
}

/// How many films a node knows, or why it is away.
fn state(films: &Films, node: &Node) -> Result<u64, String> {
    let own = films.this().ok_or("this folder is no node")?;
    let asked = own.link(node).ask(&Request::Standing { from: 0 }, &[]);
    match asked.map_err(|error| error.to_string())? {
        (Reply::Standing(standing), _) if standing.node == node.id => Ok(standing.films),
        _ => Err("another node is there".to_owned()),
    }
}

fn to_json(roster: &Roster, node: &Node, state: &Result<u64, String>) -> Value {
    json!({
        "node": node.id,
        "address": node.address,
        "leaving": node.leaving,
        "disks": disks(roster, node),
        "films": state.as_ref().ok(),
        "away": state.as_ref().err(),
    })
}

/// Whether a folder is a node.
pub(super) fn is_node(folder: &Path) -> bool {
    folder.join(sangam_archive::nodes::IDENTITY).exists()
}
