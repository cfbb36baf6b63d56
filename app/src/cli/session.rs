//! Options of `sangam session`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use sangam_client::Address;
use sangam_session::Way;

use super::Lifetime;
use super::client::LOCAL;

/// Where the session server is by default.
pub(super) const SERVER: &str = "http://127.0.0.1:4680";

/// What to do with sessions.
#[derive(Args, Debug)]
pub(crate) struct SessionArgs {
    /// The session server: the HTTP address of its broker
    #[arg(
        long,
        value_name = "URL",
        default_value = SERVER,
        global = true
    )]
    pub(crate) server: String,
    /// Token for the API: the operator's, or one with video.roomAdmin, roomCreate or roomList; not
    /// needed on the same machine where none is configured
    #[arg(
        long,
        value_name = "TOKEN",
        env = "SANGAM_API_TOKEN",
        hide_env_values = true,
        global = true
    )]
    pub(crate) api_token: Option<String>,
    #[command(subcommand)]
    pub(crate) what: SessionCommand,
}

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Make a session
    Create {
        /// Its name: TENANT/NAME, the first two levels of its topics
        #[arg(value_name = "TENANT/NAME", value_parser = name)]
        session: Name,
        /// What people call it [default: NAME]
        #[arg(long)]
        title: Option<String>,
        /// When it begins, counted from now: 15m, 8h, 30d; at once by default
        #[arg(long, value_name = "TIME")]
        start_in: Option<Lifetime>,
        /// How long it lasts
        #[arg(long, value_name = "TIME", default_value = "24h")]
        length: Lifetime,
        /// Participants and observers wait until a chair lets them in
        #[arg(long)]
        lobby: bool,
        /// It is recorded from its beginning on, and does not begin without a recorder
        #[arg(long)]
        record: bool,
        /// Service without which it does not begin; may be repeated
        #[arg(long, value_name = "NAME")]
        needs: Vec<String>,
        /// Another way in than the page, such as 'Berlin, freephone=tel:+49-30-1234'; may be
        /// repeated [default: those of the server]
        #[arg(long = "way", value_name = "LABEL=URI", value_parser = way)]
        ways: Vec<Way>,
    },
    /// List the sessions
    List,
    /// Show a session and who is in it
    Show {
        /// The session
        #[arg(value_name = "TENANT/NAME", value_parser = name)]
        session: Name,
    },
    /// Make a token with which somebody can join
    Invite {
        /// The session
        #[arg(value_name = "TENANT/NAME", value_parser = name)]
        session: Name,
        /// Who it is for; the same identity is in a session once
        #[arg(long, value_name = "NAME")]
        identity: String,
        /// What others shall call it [default: the identity]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// chair, presenter, participant or observer
        #[arg(long, value_name = "ROLE", default_value = "participant")]
        role: String,
        /// How long it is good: 90s, 15m, 8h, 30d
        #[arg(long, value_name = "TIME", default_value = "6h")]
        expires: Lifetime,
    },
    /// Ask something of a session, such as '{"do": "lock", "locked": true}'
    Do {
        /// The session
        #[arg(value_name = "TENANT/NAME", value_parser = name)]
        session: Name,
        /// The command; docs/spec/xgsp.md has them all
        #[arg(value_name = "JSON")]
        command: String,
    },
    /// Print the log of a session
    Events {
        /// The session
        #[arg(value_name = "TENANT/NAME", value_parser = name)]
        session: Name,
        /// Only what came after this number
        #[arg(long, value_name = "SEQ", default_value_t = 0)]
        after: u64,
    },
    /// Join as a member: frames are printed line by line, lines of standard input are sent
    Join {
        /// The session
        #[arg(value_name = "TENANT/NAME", value_parser = name)]
        session: Name,
        /// Token of `sangam session invite`
        #[arg(
            long,
            value_name = "TOKEN",
            env = "SANGAM_TOKEN",
            hide_env_values = true
        )]
        token: String,
        /// What others shall call you [default: what the token says]
        #[arg(long)]
        name: Option<String>,
        /// Leave after so many seconds
        #[arg(long, value_name = "N")]
        seconds: Option<u64>,
        /// Show this file, over and over, as camera and microphone
        #[arg(long, value_name = "CLIP")]
        file: Option<PathBuf>,
        /// Broker to publish the file through, as for `sangam publish`
        #[arg(long, value_name = "ADDRESS", default_value = LOCAL, requires = "file")]
        to: Vec<Address>,
    },
    /// Forget a session that is finished or canceled
    Forget {
        /// The session
        #[arg(value_name = "TENANT/NAME", value_parser = name)]
        session: Name,
    },
}

/// A session's name.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) tenant: String,
    pub(crate) name: String,
}

impl Name {
    /// Its path in the API.
    pub(crate) fn path(&self) -> String {
        format!("/v1/sessions/{}/{}", self.tenant, self.name)
    }
}

/// TENANT/NAME.
pub(super) fn name(text: &str) -> Result<Name, String> {
    let (tenant, name) = text
        .split_once('/')
        .ok_or("write TENANT/NAME, such as acme/weekly")?;
    let id = sangam_session::SessionId::new(tenant, name);
    let id = id.map_err(|refusal| refusal.to_string())?;
    Ok(Name {
        tenant: id.tenant,
        name: id.name,
    })
}

/// LABEL=URI.
fn way(text: &str) -> Result<Way, String> {
    let (label, uri) = text
        .split_once('=')
        .ok_or("write LABEL=URI, such as 'Berlin=tel:+49-30-1234'")?;
    let way = Way {
        label: label.to_owned(),
        uri: uri.to_owned(),
    };
    way.checked().map_err(|refusal| refusal.to_string())
}
