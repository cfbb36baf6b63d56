//! Logging in with OpenID Connect: an account elsewhere opens meetings here.
//!
//! The authorization code flow with PKCE (OpenID Connect Core 1.0 section 3.1, RFC 7636). A browser
//! that comes to `/v1/login` is sent to the [`provider`] with an [`errand`], which it brings back
//! to `/v1/login/callback`. What the provider then says of the person becomes a token of ours, in
//! the fragment of the meeting's address, where the page finds tokens of invitations, too. Nothing
//! is kept here between the two requests: any server of the same configuration may answer the
//! second.

mod errand;
mod logout;
mod person;
mod provider;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use reqwest::Client;
use sangam_session::{Plan, SessionId};
use serde_json::json;

use crate::openapi::{Answer, Routes, get};
use crate::session::{Api, Failure, LENGTH_MS, Pass, VideoGrant, limited, unix_ms};
use crate::{Problem, web};
use errand::Errand;
use person::Person;
use provider::Provider;

/// Where the provider sends people back to, below [`LoginOptions::url`].
const CALLBACK: &str = "/v1/login/callback";
/// How long the provider, or another server, may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who vouches for people, and what follows from it.
#[derive(Clone)]
pub struct LoginOptions {
    /// The provider's issuer identifier, below which its description lies.
    pub issuer: String,
    /// What the provider calls this service.
    pub client_id: String,
    /// How this service proves to be that; none for a public client.
    pub client_secret: Option<String>,
    /// The origin under which browsers reach the page and this server.
    pub url: String,
    /// What is asked for beside `openid`.
    pub scopes: Vec<String>,
    /// The claim in which one of `chairs` has to stand for somebody to lead meetings.
    pub claim: String,
    /// Its values; with none nobody who logs in makes or leads a meeting.
    pub chairs: Vec<String>,
    /// The tenant whose sessions are opened.
    pub tenant: String,
    /// How long the token is good, in seconds.
    pub ttl_s: u64,
}

/// The way in.
pub struct Login {
    api: Api,
    options: LoginOptions,
    provider: Provider,
    /// Asks other session servers.
    http: Client,
    done: AtomicU64,
    refused: AtomicU64,
}

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    /// The provider, or the person there, says no.
    Refused(String),
    /// What came is not to be believed.
    Invalid(String),
    /// The provider is not there, or not well.
    Unreachable(String),
    /// Nothing of the kind may be done here.
    Problem(String),
}

/// Paths that a browser goes through.
pub fn routes<S: Clone + Send + Sync + 'static>(login: Arc<Login>) -> Routes<S> {
    table().map(|router| {
        let limited = from_fn_with_state(login.api.clone(), limited);
        router.layer(limited).with_state(login)
    })
}

fn table() -> Routes<Arc<Login>> {
    const TO: (&str, &str) = ("to!", "The meeting to come back to: /m/TENANT/SESSION");
    const PARTED: &str = "Back to the meeting, with `#login=left`.";
    let sent = |about| Answer::empty(303, about).with(&[("Location", "Where the browser goes.")]);
    let begin = get("/v1/login", "logIn")
        .about(
            "Sends a browser to the provider of OpenID Connect, where one is configured. Pages \
             lead there by a link.",
        )
        .asks(&[TO])
        .gives(sent("To the provider, or back with `#login=unreachable`."))
        .fails(&[400, 403, 429]);
    let end = get(CALLBACK, "loggedIn")
        .about("Takes a browser that the provider sends back: for the provider alone.")
        .asks(&[
            ("state!", "As the provider was given it"),
            ("code", "The authorization code"),
            ("iss", "The issuer (RFC 9207)"),
            ("error", "Why there is no code"),
        ])
        .gives(sent(
            "Back to the meeting, with `#token=TOKEN&login=done`, or `#login=` and why not.",
        ))
        .fails(&[400, 429]);
    let leave = get("/v1/logout", "logOut")
        .about("Sends a browser to the provider to be logged out there, too, where it can be.")
        .asks(&[TO])
        .gives(sent("To the provider, or back to the meeting at once."))
        .fails(&[400, 429]);
    let left = get(logout::RETURN, "loggedOut")
        .about("Takes a browser that the provider sends back: for the provider alone.")
        .asks(&[("state!", "The meeting to come back to")])
        .gives(sent(PARTED))
        .fails(&[400, 429]);
    Routes::new()
        .on(begin, self::begin)
        .on(end, self::end)
        .on(leave, logout::begin)
        .on(left, logout::end)
}

impl Login {
    /// Asks nobody yet: a provider that is down holds up nobody but who logs in.
    #[must_use]
    pub fn new(api: Api, options: LoginOptions) -> Self {
        Self {
            provider: Provider::new(&options),
            http: web::client(PATIENCE),
            api,
            options,
            done: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// The tenant whose sessions it opens.
    #[must_use]
    pub fn tenant(&self) -> &str {
        &self.options.tenant
    }

    /// People that were let in, and that were not.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.done), read(&self.refused))
    }

    /// From what the provider sent back to a token.
    async fn finish(
        &self,
        errand: &Errand,
        asks: &HashMap<String, String>,
    ) -> Result<String, Fault> {
        // RFC 9207 section 2.4.
        if asks
            .get("iss")
            .is_some_and(|iss| *iss != self.options.issuer)
        {
            return Err(Fault::Invalid("another issuer answers".to_owned()));
        }
        if let Some(error) = asks.get("error") {
            return Err(Fault::Refused(error.clone()));
        }
        let code = asks.get("code");
        let code = code.ok_or_else(|| Fault::Invalid("there is no code".to_owned()))?;
        let token = self.provider.exchange(code, &errand.verifier).await?;
        let person = self.provider.person(&token, &errand.nonce).await?;
        self.let_in(person, &errand.session()?).await
    }

    async fn let_in(&self, person: Person, id: &SessionId) -> Result<String, Fault> {
        let LoginOptions { claim, chairs, .. } = &self.options;
        let leads = person.has(claim, chairs);
        let pass = Pass {
            tenant: self.options.tenant.clone(),
            identity: person.identity,
            name: person.name,
            video: VideoGrant {
                room_join: true,
                room_admin: leads,
                room_create: leads,
                ..VideoGrant::default()
            },
            operator: false,
        };
        let issued = self.api.keeper.issue(&pass, self.options.ttl_s);
        let (token, _) =
            issued.map_err(|_| Fault::Problem("there is no key for tokens".to_owned()))?;
        if leads {
            self.open(id, &token).await?;
        }
        Ok(token)
    }

    /// Whoever leads opens a meeting by its address; mostly it is there already.
    async fn open(&self, id: &SessionId, token: &str) -> Result<(), Fault> {
        let url = match self.api.sessions.create(id.clone(), plan(id)).await {
            Ok(()) | Err(Failure::Exists(_)) => return Ok(()),
            // A server with less to do.
            Err(Failure::Elsewhere(url)) => url,
            Err(failure) => return Err(Fault::Problem(failure.to_string())),
        };
        let wanted = json!({ "tenant": id.tenant, "name": id.name, "title": id.name });
        let request = self.http.post(format!("{url}/v1/sessions"));
        let request = request.bearer_auth(token);
        let request = request.header(CONTENT_TYPE, "application/json");
        let answer = request.body(wanted.to_string()).send().await;
        let status = answer
            .map_err(|error| Fault::Problem(web::cause(&error)))?
            .status();
        match status.is_success() || status == StatusCode::CONFLICT {
            true => Ok(()),
            false => Err(Fault::Problem(format!("{url} answers {status}"))),
        }
    }

    /// Back to the meeting, with what came of it.
    fn back(&self, errand: &Errand, came: Result<String, Fault>) -> Response {
        let count = match came {
            Ok(_) => &self.done,
            Err(_) => &self.refused,
        };
        count.fetch_add(1, Ordering::Relaxed);
        let fragment = match came {
            Ok(token) => format!("token={token}&login=done"),
            Err(fault) => {
                tracing::warn!(%fault, "somebody is not let in");
                format!("login={}", fault.code())
            }
        };
        redirect(
            &format!("{}#{fragment}", errand.to),
            &Errand::forgotten(self.is_secure()),
        )
    }

    fn is_secure(&self) -> bool {
        self.options.url.starts_with("https://")
    }
}

/// Sends a browser to the provider.
async fn begin(
    State(login): State<Arc<Login>>,
    Query(asks): Query<HashMap<String, String>>,
) -> Result<Response, Problem> {
    let to = asks.get("to").map(String::as_str).unwrap_or_default();
    let errand = Errand::new(to).map_err(Problem::bad)?;
    let id = errand
        .session()
        .map_err(|fault| Problem::bad(fault.to_string()))?;
    if id.tenant != login.options.tenant {
        let text = format!("whoever logs in here meets in {}", login.options.tenant);
        return Err(Problem::forbidden(text).hint("ask for a link with a token"));
    }
    match login.provider.address(&errand).await {
        Ok(address) => Ok(redirect(
            address.as_str(),
            &errand.cookie(login.is_secure()),
        )),
        Err(fault) => Ok(login.back(&errand, Err(fault))),
    }
}

/// Takes a browser that comes back.
async fn end(
    State(login): State<Arc<Login>>,
    headers: HeaderMap,
    Query(asks): Query<HashMap<String, String>>,
) -> Result<Response, Problem> {
    let errand = Errand::of(&headers).filter(|errand| asks.get("state") == Some(&errand.state));
    let Some(errand) = errand else {
        login.refused.fetch_add(1, Ordering::Relaxed);
        let text = "this browser did not begin to log in, or more than ten minutes ago";
        return Err(Problem::bad(text)
            .with("code", "late")
            .hint("open the address of the meeting again; cookies must be allowed"));
    };
    let came = login.finish(&errand, &asks).await;
    Ok(login.back(&errand, came))
}

fn redirect(to: &str, cookie: &str) -> Response {
    let headers = [
        (LOCATION, HeaderValue::try_from(to)),
        (SET_COOKIE, HeaderValue::try_from(cookie)),
        (CACHE_CONTROL, Ok(HeaderValue::from_static("no-store"))),
        (REFERRER_POLICY, Ok(HeaderValue::from_static("no-referrer"))),
    ];
    let mut answer = StatusCode::SEE_OTHER.into_response();
    for (name, value) in headers {
        match value {
            Ok(value) => answer.headers_mut().insert(name, value),
            Err(_) => return Problem::internal("an address cannot be sent").into_response(),
        };
    }
    answer
}

fn plan(id: &SessionId) -> Plan {
    Plan {
        end_ms: Some(unix_ms().saturating_add(LENGTH_MS)),
        ..Plan::titled(&id.name)
    }
}

impl Fault {
    /// What the page is told; it has words for each.
    const fn code(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Invalid(_) => "invalid",
            Self::Unreachable(_) => "unreachable",
            Self::Problem(_) => "problem",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "the provider refuses: {why}"),
            Self::Invalid(why) => write!(f, "the provider's answer is not believed: {why}"),
            Self::Unreachable(why) => write!(f, "the provider does not answer: {why}"),
            Self::Problem(why) => write!(f, "the session does not open: {why}"),
        }
    }
}

impl fmt::Debug for LoginOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret goes into no log.
        f.debug_struct("LoginOptions")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}
