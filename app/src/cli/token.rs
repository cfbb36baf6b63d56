//! Options of `sangam token`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use sangam_model::Filter;

use super::Lifetime;

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a key: NAME.key makes tokens, NAME.pub verifies them
    Key(KeyArgs),
    /// Make a token and print it
    Issue(IssueArgs),
    /// Say in plain words what a token grants
    Show(ShowArgs),
}

/// Options of `sangam token key`.
#[derive(Args, Debug)]
pub(crate) struct KeyArgs {
    /// Where to write: NAME.key and NAME.pub, or NAME.secret with --shared
    #[arg(long, value_name = "NAME")]
    pub(crate) out: PathBuf,
    /// One secret that both makes and verifies tokens (HS256) instead of a pair (Ed25519)
    #[arg(long)]
    pub(crate) shared: bool,
    /// Overwrite what is there; tokens of the old key are refused from then on
    #[arg(long)]
    pub(crate) force: bool,
}

/// Options of `sangam token issue`.
#[derive(Args, Debug)]
pub(crate) struct IssueArgs {
    /// Key to make it with: NAME.key or NAME.secret of `sangam token key`
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// The key's name in the broker's auth.keys, if it has one of its own there
    #[arg(long, value_name = "NAME")]
    pub(crate) kid: Option<String>,
    /// Who it is for
    #[arg(long, value_name = "NAME")]
    pub(crate) sub: String,
    /// First level of every topic it is good for [default: that of the filters]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) tenant: Option<String>,
    /// Topic or filter to publish on, such as acme/weekly/anna; may be repeated
    #[arg(long, value_name = "FILTER", value_parser = Filter::new)]
    pub(crate) publish: Vec<Filter>,
    /// Filter within which to subscribe, such as 'acme/weekly/#'; may be repeated
    #[arg(long, value_name = "FILTER", value_parser = Filter::new)]
    pub(crate) subscribe: Vec<Filter>,
    /// How long it is good: 90s, 15m, 8h, 30d
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub(crate) expires: Lifetime,
    /// From when on it is good, counted from now
    #[arg(long, value_name = "TIME")]
    pub(crate) not_before: Option<Lifetime>,
    /// Who makes it, where the broker's auth.issuer asks for that
    #[arg(long, value_name = "NAME")]
    pub(crate) issuer: Option<String>,
    /// For which service, where the broker's auth.audience asks for that
    #[arg(long, value_name = "NAME")]
    pub(crate) audience: Option<String>,
    /// Good for the HTTP API, too: RTP legs on the topics it grants
    #[arg(long)]
    pub(crate) api: bool,
}

/// Options of `sangam token show`.
#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// The token, or a file that holds it [default: standard input]
    #[arg(value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Verify it with this key, too: NAME.pub or NAME.secret
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}
