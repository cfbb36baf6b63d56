//! Hosts the session server, and keeps the gates that session servers speak of.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use sangam_broker::TopicGate;
use sangam_client::{Buffers, Client, ClientError, ClientOptions, Target};
use sangam_control::Refusals;
use sangam_control::login::Login;
use sangam_control::monitor::webhook::{Postman, webhooks};
use sangam_control::session::gates::{Listener, Speaker, Word};
use sangam_control::session::herald::Herald;
use sangam_control::session::{
    Api, ControlStore, Embedded, Etcd, EtcdOptions, Hears, Hooks, Server, ServerOptions, Sessions,
    Tells, unix_ms,
};
use sangam_model::Topic;
use sangam_node::Broker;

use crate::auth::{KeyError, SigningKey, Tokens};
use crate::config::Config;
use crate::exit::{Exit, Failure, io};
use crate::http::{Access, Boards, Keeper};

/// The sessions' file in the broker's folder.
const FILE: &str = "sessions.redb";
/// How long a listener waits before it looks whether the broker is still there.
const WAIT: Duration = Duration::from_secs(1);

/// Those in this process who keep floors: the broker, and the boards of pages.
#[derive(Clone, Debug)]
pub(crate) struct Floors {
    broker: Weak<Broker>,
    boards: Arc<Boards>,
}

/// A running session server.
pub(crate) struct Hosting {
    /// Stops when it is dropped.
    _server: Server,
    /// The way to it from within this process.
    pub(crate) sessions: Sessions,
    /// What HTTP needs of it.
    pub(crate) api: Api,
    /// The way in for people without a token, if there is one.
    pub(crate) login: Option<Arc<Login>>,
}

/// Starts a session server beside a broker, if the configuration wants one. Its API is at `http`;
/// webhooks are posted from the runtime that calls this, and `also` hears of every record.
///
/// # Errors
/// There is no key, or the store cannot be opened.
pub(crate) fn host(
    (config, http): (&Config, SocketAddr),
    access: &Access,
    (broker, floors): (&Arc<Broker>, Floors),
    mut also: Option<Hears>,
) -> Result<Option<Hosting>, Failure> {
    let wanted = &config.sessions;
    if !wanted.enabled {
        return Ok(None);
    }
    let keeper = keeper(config, access)?;
    let store = store((config, http), broker)?;
    let (hooks, postman) = hooks(config);
    let server = Server::start(ServerOptions {
        store,
        gates: gates(broker, floors),
        heard: Box::new(move |id, records| {
            hooks.post(id, records);
            if let Some(also) = &mut also {
                also(id, records);
            }
        }),
        herald: herald(broker),
        sessions_max: wanted.limit,
        ways: wanted.ways.clone(),
        clock: unix_ms,
    });
    let server = server.map_err(|error| Failure::new(Exit::Failure, error.to_string()))?;
    let api = Api::new(server.sessions(), Arc::new(keeper), link(config, http));
    tokio::spawn(postman.run());
    let login = config
        .login
        .options(&wanted.tenant, &format!("http://{http}"));
    let login = login.map(|options| Arc::new(Login::new(api.clone(), options)));
    Ok(Some(Hosting {
        sessions: server.sessions(),
        _server: server,
        api,
        login,
    }))
}

/// Before the name of a session, where browsers join it.
pub(crate) fn link(config: &Config, http: SocketAddr) -> String {
    let link = config.sessions.link.clone();
    link.unwrap_or_else(|| format!("http://{http}/m/"))
}

/// The counters of what is refused, which a session server has part in where there is one.
pub(crate) fn refusals(hosting: Option<&Hosting>) -> Arc<Refusals> {
    let own = hosting.map(|hosting| Arc::clone(&hosting.api.refusals));
    own.unwrap_or_default()
}

fn keeper(config: &Config, access: &Access) -> Result<Keeper, Failure> {
    let wrong = |error: KeyError| {
        let advice = "`sangam token key --out NAME` makes NAME.key for sessions.key, and NAME.pub \
                      for auth.keys";
        Failure::new(Exit::Configuration, format!("sessions.key: {error}")).hint(advice)
    };
    let tenant = config.sessions.tenant.clone();
    let named = config.sessions.key.as_deref().map(SigningKey::read);
    let key = named.transpose().map_err(wrong)?;
    // Brokers may ask for no tokens where sessions do.
    let tokens = match &access.tokens {
        None if !config.auth.keys.is_empty() => {
            Some(Arc::new(Tokens::with_keys(&config.auth).map_err(wrong)?))
        }
        tokens => tokens.clone(),
    };
    let (tokens, key) = match (tokens, key) {
        (Some(tokens), Some(key)) if tokens.know(key.kid()) => (tokens, Some(key)),
        (Some(_), Some(_)) => {
            let message = "sessions.key: what verifies its tokens is not among auth.keys";
            return Err(Failure::new(Exit::Configuration, message));
        }
        (Some(tokens), None) => {
            tracing::warn!(
                "no sessions.key: members get no tokens for brokers, which ask for them"
            );
            (tokens, None)
        }
        // Everybody may do everything, but in sessions roles and identities still mean something.
        (None, _) => {
            let (key, verifying) = SigningKey::ephemeral().map_err(wrong)?;
            (Arc::new(Tokens::of_key(verifying, None)), Some(key))
        }
    };
    Ok(Keeper {
        access: access.clone(),
        tokens,
        key,
        tenant,
    })
}

fn store(
    (config, http): (&Config, SocketAddr),
    broker: &Broker,
) -> Result<Box<dyn ControlStore>, Failure> {
    let wanted = &config.sessions;
    if !wanted.etcd.is_empty() {
        let url = wanted.url.as_deref().map(|url| url.trim_end_matches('/'));
        let etcd = Etcd::open(&EtcdOptions {
            endpoints: wanted.etcd.clone(),
            authorities: wanted.etcd_ca.clone(),
            user: wanted.etcd_user.clone().zip(wanted.etcd_password.clone()),
            prefix: wanted.etcd_prefix.clone(),
            server: broker.id(),
            url: url.map_or_else(|| format!("http://{http}"), str::to_owned),
        });
        let etcd = etcd.map_err(|error| {
            let advice = "sessions.etcd names the members of a running etcd cluster";
            Failure::new(Exit::Unreachable, error.to_string()).hint(advice)
        });
        return Ok(Box::new(etcd?));
    }
    let store = match config.broker.data_dir.as_deref() {
        Some(folder) => Embedded::open(&folder.join(FILE)),
        None => Embedded::in_memory(),
    };
    let store = store.map_err(|error| Failure::new(Exit::Configuration, error.to_string()))?;
    Ok(Box::new(store))
}

fn hooks(config: &Config) -> (Hooks, Postman) {
    let (near, postman) = webhooks();
    // Checked with the configuration.
    let urls = config
        .sessions
        .webhooks
        .iter()
        .filter_map(|url| url.parse().ok());
    let secret = config.sessions.webhook_secret.clone().unwrap_or_default();
    (Hooks::new(near, urls.collect(), secret.as_bytes()), postman)
}

/// Tells this broker at once, and all others by an event.
fn gates(broker: &Arc<Broker>, floors: Floors) -> Tells {
    let own = Arc::downgrade(broker);
    let mut speaker = None;
    Box::new(move |words| {
        let Some(broker) = own.upgrade() else {
            return;
        };
        floors.apply(words);
        if speaker.is_none() {
            match speak(&broker) {
                Ok(new) => speaker = Some(new),
                Err(error) => tracing::warn!(%error, "other brokers are not told of gates"),
            }
        }
        if let Some(speaker) = &mut speaker {
            speaker.say(words);
        }
    })
}

/// Tells what happens in sessions; they take place without, too.
fn herald(broker: &Broker) -> Option<Herald> {
    let client = broker.system_door().ok();
    let client = client.map(|door| Client::connect(Target::Door(door), options()));
    let client = client.unwrap_or(Err(ClientError::Closed));
    let herald = client.map(Herald::start);
    match herald {
        Ok(Ok(herald)) => return Some(herald),
        Ok(Err(error)) => tracing::warn!(%error, "events of sessions are not told"),
        Err(error) => tracing::warn!(%error, "events of sessions are not told"),
    }
    None
}

fn speak(broker: &Broker) -> Result<Speaker, ClientError> {
    let door = broker.system_door().map_err(|_| ClientError::Closed)?;
    let client = Client::connect(Target::Door(door), options())?;
    Speaker::new(client, &broker.id().to_string())
}

/// Keeps the gates of all session servers of the network, for those that it gives back. Ends with
/// the broker.
///
/// # Errors
/// The system gives no thread or descriptor.
pub(crate) fn keep_gates(broker: &Arc<Broker>) -> Result<Floors, Failure> {
    let door = broker.system_door().map_err(io("cannot hear of gates"))?;
    let floors = Floors {
        broker: Arc::downgrade(broker),
        boards: Arc::default(),
    };
    let kept = floors.clone();
    let run = move || {
        let listener = Client::connect(Target::Door(door), options()).and_then(Listener::new);
        match listener {
            Ok(listener) => listen(listener, &floors),
            Err(ClientError::Closed) => {}
            Err(error) => tracing::error!(%error, "this broker hears of no gates"),
        }
    };
    let thread = thread::Builder::new().name("sangam-gates".to_owned());
    thread.spawn(run).map_err(io("cannot hear of gates"))?;
    Ok(kept)
}

fn listen(mut listener: Listener, floors: &Floors) {
    while let Some(words) = listener.hear(WAIT) {
        if !floors.apply(&words) {
            return;
        }
    }
}

impl Floors {
    /// The boards that keep them.
    pub(crate) fn boards(&self) -> Arc<Boards> {
        Arc::clone(&self.boards)
    }

    /// Takes words of session servers; false once the broker has stopped.
    fn apply(&self, words: &[Word]) -> bool {
        let Some(broker) = self.broker.upgrade() else {
            return false;
        };
        for word in words {
            // Session servers write topics only; whatever else comes is nobody's prefix.
            let Ok(prefix) = Topic::new(&word.at) else {
                continue;
            };
            let open = word
                .open
                .as_ref()
                .map(|open| open.iter().cloned().collect());
            let gate = TopicGate {
                epoch: word.epoch,
                revision: word.revision,
                open,
                class: word.class(),
            };
            self.boards.gate(&prefix, gate.clone());
            broker.gate(prefix, gate);
        }
        true
    }
}

/// Few: a handful of events each second.
fn options() -> ClientOptions {
    ClientOptions {
        queue: 1_024,
        send_buffers: Buffers {
            small: 1_024,
            large: 64,
        },
        trace_every: 0,
        ..ClientOptions::default()
    }
}
