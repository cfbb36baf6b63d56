//! `sangam net`: the network as its brokers report it.

mod gather;
mod show;

use sangam_control::monitor::{LinkReport, Network};
use serde::Serialize;
use serde_json::json;

use crate::cli::{NetArgs, NetCommand};
use crate::exit::Failure;
use crate::output;

/// Shows what is asked for.
pub(super) fn run(args: &NetArgs, json: bool) -> Result<(), Failure> {
    let what = args.what.clone();
    let view = gather::view(args)?;
    let network = &view.network;
    match what.unwrap_or(NetCommand::Map { root: None }) {
        NetCommand::Map { root } => {
            let root = root.map_or(Ok(view.asked), |name| gather::find(network, &name))?;
            print(json, network, || show::map(network, root));
        }
        NetCommand::Links => {
            let rows = json!({ "links": links(network).collect::<Vec<_>>() });
            print(json, &rows, || show::links(network));
        }
        NetCommand::Brokers => print(json, network, || show::brokers(network)),
        _ => {}
    }
    Ok(())
}

fn print(json: bool, value: &impl Serialize, text: impl FnOnce() -> String) {
    if json {
        output::json_line(value);
    } else {
        output::text(&text());
    }
}

/// A link with the broker that reports it.
#[derive(Serialize)]
struct LinkRow<'a> {
    broker: String,
    name: &'a str,
    stale: bool,
    #[serde(flatten)]
    link: &'a LinkReport,
}

fn links(network: &Network) -> impl Iterator<Item = LinkRow<'_>> {
    network.brokers.iter().flat_map(|view| {
        view.report.links.iter().map(|link| LinkRow {
            broker: view.report.broker.to_string(),
            name: &view.report.name,
            stale: view.stale,
            link,
        })
    })
}
