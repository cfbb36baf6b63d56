//! Options of `sangam ca`.

use std::path::PathBuf;

use clap::builder::RangedI64ValueParser;
use clap::{Args, Subcommand};
use sangam_model::BrokerId;

use crate::ca::Name;

/// What to do with certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum CaCommand {
    /// Make a certificate authority in a folder
    Init(InitArgs),
    /// Make a broker's certificate where the broker's key is
    Issue(CaIssueArgs),
    /// On a broker's machine: ask for a certificate, without showing the key
    Request(RequestArgs),
    /// Make the certificate that a broker asks for
    Sign(SignArgs),
    /// Say in plain words what a certificate, request or revocation list holds
    Show {
        /// The file, in PEM
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Declare certificates void
    Revoke(RevokeArgs),
}

/// Options of `sangam ca init`.
#[derive(Args, Debug)]
pub(crate) struct InitArgs {
    /// Folder of the authority; keep it off the brokers' machines
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Whose authority it is, such as "Example Ltd"
    #[arg(long, value_name = "ORG")]
    pub(crate) name: String,
    /// How long it is good
    #[arg(long, value_name = "N", default_value_t = 3_650, value_parser = days())]
    pub(crate) days: u32,
    /// Vouch for names under this domain, or for this address, only; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<Name>,
    /// Overwrite another authority, whose certificates are worth nothing then
    #[arg(long)]
    pub(crate) force: bool,
}

/// Options of `sangam ca issue`.
#[derive(Args, Debug)]
pub(crate) struct CaIssueArgs {
    /// Folder of the authority
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The broker's data_dir: its key is used, or made there
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) wish: WishArgs,
    /// Overwrite an older certificate; the key stays
    #[arg(long)]
    pub(crate) force: bool,
}

/// Options of `sangam ca request`.
#[derive(Args, Debug)]
pub(crate) struct RequestArgs {
    /// The broker's data_dir: its key is used, or made there
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// Where to write the request
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Host name or address under which others dial the broker; may be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) name: Vec<Name>,
    /// Overwrite an older request
    #[arg(long)]
    pub(crate) force: bool,
}

/// Options of `sangam ca sign`.
#[derive(Args, Debug)]
pub(crate) struct SignArgs {
    /// Folder of the authority
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The broker's request
    #[arg(long, value_name = "FILE")]
    pub(crate) request: PathBuf,
    /// Where to write the certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Names in place of those that the request asks for
    #[command(flatten)]
    pub(crate) wish: WishArgs,
    /// Overwrite an older certificate
    #[arg(long)]
    pub(crate) force: bool,
}

/// What a certificate shall say.
#[derive(Args, Debug)]
pub(crate) struct WishArgs {
    /// Host name or address under which others dial the broker; may be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) name: Vec<Name>,
    /// How long it is good
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = days())]
    pub(crate) days: u32,
}

/// Options of `sangam ca revoke`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["broker", "serial"]))]
pub(crate) struct RevokeArgs {
    /// Folder of the authority
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// All certificates of this broker, such as 1f2e3d4c
    #[arg(long, value_name = "ID", value_parser = broker)]
    pub(crate) broker: Option<BrokerId>,
    /// The certificate with this serial number
    #[arg(long, value_name = "SERIAL")]
    pub(crate) serial: Option<String>,
}

/// A century at most: dates in certificates have four digits for the year.
fn days() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=36_525)
}

fn broker(text: &str) -> Result<BrokerId, String> {
    let id = u32::from_str_radix(text, 16).map(BrokerId);
    id.map_err(|_| format!("{text:?} is no broker; write its id as eight hexadecimal digits"))
}
