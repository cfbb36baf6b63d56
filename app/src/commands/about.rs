//! Completions and manual pages.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;

use crate::cli::Cli;
use crate::exit::{Failure, io};
use crate::output;

/// Prints the completion script of a shell.
pub(super) fn completions(shell: Shell, as_json: bool) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sangam", &mut script);
    let script = String::from_utf8_lossy(&script);
    if as_json {
        output::json_line(&json!({ "shell": shell.to_string(), "script": script }));
    } else {
        output::text(&script);
    }
    Ok(())
}

/// Prints the manual page, or writes all pages to a folder.
pub(super) fn man(command: clap::Command, out: Option<&Path>, json: bool) -> Result<(), Failure> {
    let Some(folder) = out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command)
            .render(&mut page)
            .map_err(io("cannot write the page"))?;
        let page = String::from_utf8_lossy(&page);
        if json {
            output::json_line(&json!({ "page": page }));
        } else {
            output::text(&page);
        }
        return Ok(());
    };
    std::fs::create_dir_all(folder).map_err(io(folder.display()))?;
    clap_mangen::generate_to(command, folder).map_err(io(folder.display()))?;
    if json {
        output::json_line(&json!({ "folder": folder }));
    } else {
        output::line(&format!("manual pages are in {}", folder.display()));
    }
    Ok(())
}
