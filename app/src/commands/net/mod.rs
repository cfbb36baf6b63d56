//! `sangam net`: the network as its brokers report it.

mod check;
mod gather;
mod route;
mod rules;
mod show;
mod trace;

use std::time::{Duration, Instant};

use sangam_control::monitor::{LinkReport, Network, xml};
use serde::Serialize;
use serde_json::json;

use super::table::Live;
use crate::cli::{NetArgs, NetCommand};
use crate::exit::{Failure, io};
use crate::output;
use crate::stop::Stop;

/// How often the live view is drawn.
const DRAW_EVERY: Duration = Duration::from_secs(1);

/// Shows what is asked for.
pub(super) fn run(args: &NetArgs, json: bool) -> Result<(), Failure> {
    let what = args.what.clone();
    let what = what.unwrap_or(NetCommand::Map { root: None });
    match &what {
        NetCommand::Watch { seconds } => return watch(args, *seconds, json),
        NetCommand::Weigh { .. } | NetCommand::Forbid { .. } | NetCommand::Rules { .. } => {
            return rules::run(args, &what, json);
        }
        NetCommand::Check { expressions } => check::validate(expressions)?,
        _ => {}
    }
    let view = gather::view(args)?;
    let network = &view.network;
    if args.xml {
        output::text(&xml::document(network));
        return Ok(());
    }
    match what {
        NetCommand::Map { root } => {
            let root = root.map_or(Ok(view.asked), |name| gather::find(network, &name))?;
            print(json, network, || show::map(network, root));
        }
        NetCommand::Links => {
            let rows = json!({ "links": links(network).collect::<Vec<_>>() });
            print(json, &rows, || show::links(network));
        }
        NetCommand::Brokers => print(json, network, || show::brokers(network)),
        NetCommand::Route { topic } => {
            if network.brokers.iter().any(|view| view.digest) {
                tracing::warn!("merged figures do not say who wants what; try --reports full");
            }
            let routes = route::of(network, &topic);
            print(json, &routes, || routes.to_string());
        }
        NetCommand::Trace {
            topic,
            count,
            seconds,
        } => {
            let length = trace::Length { count, seconds };
            return trace::run(args, network, (&topic, length), json);
        }
        NetCommand::Check { expressions } => return check::run(network, &expressions, json),
        // Done above.
        NetCommand::Watch { .. }
        | NetCommand::Weigh { .. }
        | NetCommand::Forbid { .. }
        | NetCommand::Rules { .. } => {}
    }
    Ok(())
}

/// Draws brokers and links again and again; as JSON, the whole view on a line each.
fn watch(args: &NetArgs, seconds: Option<u64>, json: bool) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(io("cannot wait for signals"))?;
    let mut ear = gather::Ear::open(args)?;
    let mut live = Live::new();
    let start = Instant::now();
    while !stop.is_set() && seconds.is_none_or(|most| start.elapsed().as_secs() < most) {
        ear.listen(DRAW_EVERY, |_| stop.is_set())?;
        let network = ear.view().network;
        if args.xml {
            output::text(&xml::document(&network));
        } else if json {
            output::json_line(&network);
        } else {
            let (brokers, links) = (show::brokers(&network), show::links(&network));
            live.show(&format!("{brokers}\n{links}"));
        }
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
