//! Archive nodes that hold their films together, each with a folder of its own and, where the stand
//! has them, on a host of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::server::forget_variables;
use super::{Server, Stand};
use crate::error::Error;
use crate::process::{free_port, sangam_binary};

/// Where nodes of hosts of their own listen for each other.
const PORT: u16 = 8_560;

/// The folder of a node, by its number from 0.
fn place(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("node{}", number + 1))
}

/// `sangam archive` at a node's folder, where the node is.
///
/// # Errors
/// [`Error::System`] if the program is not there.
pub(crate) fn archive(stand: &Stand, number: usize, folder: &Path) -> Result<Command, Error> {
    let mut command = stand.command(number, sangam_binary()?);
    command.args(["archive", "--archive"]);
    command.arg(place(folder, number));
    forget_variables(&mut command);
    Ok(command)
}

/// Runs a command to its end.
///
/// # Errors
/// [`Error::Broker`] with what it said.
pub(crate) fn run(command: &mut Command, name: &'static str) -> Result<(), Error> {
    let output = command.output();
    let output = output.map_err(|error| Error::System(name, error))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(Error::Broker(format!("{name}: {words}")))
}

/// Starts so many nodes in folders within `folder`; each serves as [`Server::start`] says.
///
/// # Errors
/// As [`Server::start`]; [`Error::Broker`] if a node cannot join the first.
pub(crate) fn start(
    stand: &Stand,
    folder: &Path,
    nodes: usize,
    (players, more): (usize, &[&str]),
) -> Result<Vec<Server>, Error> {
    let mut servers = Vec::new();
    let mut first: Option<String> = None;
    for number in 0..nodes {
        let own = place(folder, number);
        fs::create_dir_all(&own).map_err(|error| Error::file(&own, error))?;
        let address = match stand.has_hosts() {
            true => SocketAddr::from((stand.address(number), PORT)),
            false => free_port(None)?,
        };
        let address = address.to_string();
        let mut command = archive(stand, number, folder)?;
        command.args(["node", "add", &address]);
        if let Some(first) = &first {
            command.args(["--join", first, "--key"]);
            command.arg(place(folder, 0).join("nodes.key"));
        }
        run(&mut command, "sangam archive node add")?;
        servers.push(Server::start((stand, number), &own, players, more)?);
        first.get_or_insert(address);
    }
    Ok(servers)
}
