//! Who may change something, and whereto legs may send.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};

use sangam_control::Problem;
use sangam_control::monitor::http::MayQuery;
use sangam_model::{Grants, Time};
use sangam_node::{AuthError, LegSpec};

use crate::auth::Tokens;
use crate::config::Api;
use crate::network::any_contains;

/// Who may do what.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// The operator's token, and where legs may send.
    pub(crate) api: Api,
    /// Clients' tokens, if clients need any.
    pub(crate) tokens: Option<Arc<Tokens>>,
}

/// What a caller may do.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    /// Everything: an operator, or somebody on this machine where no token is configured.
    Operator,
    /// What a client's token grants.
    Client(Grants),
}

impl Access {
    /// Lets a change through: with a token whoever has it, without one only callers on this
    /// machine.
    pub(super) fn may_change(
        &self,
        caller: SocketAddr,
        headers: &HeaderMap,
    ) -> Result<Caller, Problem> {
        if self.is_open() {
            return is_local(caller, headers).map(|()| Caller::Operator);
        }
        self.holder(headers)
    }

    /// Lets only the operator through: what it is about concerns everybody.
    pub(super) fn may_operate(
        &self,
        caller: SocketAddr,
        headers: &HeaderMap,
    ) -> Result<(), Problem> {
        match self.may_change(caller, headers)? {
            Caller::Operator => Ok(()),
            Caller::Client(_) => Err(Problem::forbidden("this is for the operator")
                .hint("send api.token, which is not a client's token")),
        }
    }

    /// Lets whoever has a token evaluate XPath. Where none is configured nobody may.
    pub(crate) fn may_query(self) -> MayQuery {
        Arc::new(move |headers| {
            if self.is_open() {
                return Err(
                    Problem::forbidden("XPath needs a token, and none is configured")
                        .hint("set api.token (SANGAM_API_TOKEN) and send it as a bearer token"),
                );
            }
            self.holder(headers).map(drop)
        })
    }

    /// The token of a client, if clients need any. Whether it grants what is asked for is for the
    /// broker to say; a wrong one is refused here, before anything is done for it.
    pub(super) fn client_token(&self, headers: &HeaderMap) -> Result<Option<String>, Problem> {
        let Some(tokens) = &self.tokens else {
            return Ok(None);
        };
        let given = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.as_bytes().strip_prefix(BEARER))
            .and_then(|given| str::from_utf8(given).ok());
        let given =
            given.ok_or_else(|| {
                Problem::unauthorized("a token is needed").with("code", "no_token").hint(
                "send the header \"Authorization: Bearer TOKEN\" with a token of `sangam token \
                 issue`",
            )
            })?;
        tokens.check(given).map_err(unbelieved)?;
        Ok(Some(given.to_owned()))
    }

    pub(super) fn is_open(&self) -> bool {
        self.api.token.is_none() && self.tokens.is_none()
    }

    /// Who shows a token, if it is a right one.
    fn holder(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let given = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.as_bytes().strip_prefix(BEARER));
        let Some(given) = given else {
            return Err(Problem::unauthorized("a token is needed").with("code", "no_token").hint(
                "send the header \"Authorization: Bearer TOKEN\" with api.token, or with a token \
                 of `sangam token issue --api` where clients need tokens",
            ));
        };
        if self.is_operator(given) {
            return Ok(Caller::Operator);
        }
        match &self.tokens {
            Some(tokens) => client(tokens, given),
            None => Err(Problem::unauthorized("the token is wrong")
                .with("code", "invalid_token")
                .hint("it must equal api.token of the broker's configuration")),
        }
    }

    /// Lets a leg send to `to` only where the configuration allows it: otherwise anybody with the
    /// API could turn the broker against others.
    pub(super) fn may_send(&self, to: SocketAddr) -> Result<(), Problem> {
        if any_contains(&self.api.legs_allow, to.ip()) {
            return Ok(());
        }
        Err(
            Problem::forbidden(format!("a leg may not send to {}", to.ip()))
                .hint("add its network to api.legs_allow in the broker's configuration"),
        )
    }

    pub(super) fn is_operator(&self, given: &[u8]) -> bool {
        let token = self.api.token.as_ref();
        token.is_some_and(|token| verify_slices_are_equal(given, token.as_bytes()).is_ok())
    }
}

impl Caller {
    /// Lets a leg through if its topics are granted.
    pub(super) fn may_use(&self, leg: &LegSpec) -> Result<(), Problem> {
        let Self::Client(grants) = self else {
            return Ok(());
        };
        let publishes = leg.receive.as_ref();
        let subscribes = leg.send.as_ref();
        let granted = publishes.is_none_or(|receive| grants.may_publish(&receive.topic))
            && subscribes.is_none_or(|send| grants.may_subscribe(&send.filter));
        if granted {
            return Ok(());
        }
        Err(
            Problem::forbidden("the token does not grant the leg's topic")
                .hint("a leg that receives needs a grant to publish, one that sends to subscribe"),
        )
    }
}

/// Who shows a client's token. Legs stay until somebody ends them: when the token's time is over
/// matters to the call alone.
fn client(tokens: &Tokens, given: &[u8]) -> Result<Caller, Problem> {
    let text = str::from_utf8(given).unwrap_or_default();
    let rights = tokens.check(text).map_err(unbelieved)?;
    if !rights.api {
        return Err(Problem::forbidden("the token is not for the API")
            .hint("make one with `sangam token issue --api`"));
    }
    Ok(Caller::Client(rights.grants(Time::NEVER)))
}

/// Why a token is not believed.
pub(super) fn unbelieved(error: AuthError) -> Problem {
    let code = match error {
        AuthError::Expired => "expired",
        _ => "invalid_token",
    };
    Problem::unauthorized(error.to_string())
        .with("code", code)
        .hint("see it with `sangam token show`")
}

pub(super) const BEARER: &[u8] = b"Bearer ";

/// A page in a browser on this machine must not pass as a local caller: it can neither choose
/// `Host` nor send JSON elsewhere without asking first.
pub(super) fn is_local(caller: SocketAddr, headers: &HeaderMap) -> Result<(), Problem> {
    let host = headers
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    if caller.ip().to_canonical().is_loopback() && names_loopback(host) {
        return Ok(());
    }
    Err(
        Problem::forbidden("without a token only callers on this machine may change anything")
            .hint("set api.token in the broker's configuration and send it as a bearer token"),
    )
}

fn names_loopback(host: &str) -> bool {
    let name = match host.parse::<SocketAddr>() {
        Ok(address) => return address.ip().is_loopback(),
        Err(_) => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether the body says it is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    if kind
        .split(';')
        .next()
        .is_some_and(|kind| kind.trim() == "application/json")
    {
        return Ok(());
    }
    Err(Problem::bad("the body must be JSON")
        .hint("send the header \"Content-Type: application/json\""))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;
    use crate::auth::{Claims, SigningKey};

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            let name: HeaderName = name.parse().unwrap();
            (name, value.parse().unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn access(token: Option<&str>) -> Access {
        let api = Api {
            token: token.map(str::to_owned),
            ..Api::default()
        };
        Access { api, tokens: None }
    }

    fn caller(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    #[test]
    fn without_a_token_only_this_machine_may_change() {
        let access = access(None);
        let local = headers(&[("host", "127.0.0.1:4680")]);
        assert!(access.may_change(caller("127.0.0.1:9"), &local).is_ok());
        assert!(
            access
                .may_change(caller("[::ffff:127.0.0.1]:9"), &local)
                .is_ok()
        );
        assert!(access.may_change(caller("192.0.2.1:9"), &local).is_err());
    }

    #[test]
    fn a_page_under_a_strange_name_is_no_local_caller() {
        let access = access(None);
        for (host, good) in [
            ("localhost:4680", true),
            ("[::1]:4680", true),
            ("evil.example:4680", false),
            ("localhost.evil.example", false),
            ("192.0.2.1", false),
        ] {
            let headers = headers(&[("host", host)]);
            assert_eq!(
                access.may_change(caller("127.0.0.1:9"), &headers).is_ok(),
                good,
                "{host}"
            );
        }
    }

    #[test]
    fn a_token_is_needed_from_everywhere_once_configured() {
        let access = access(Some("0123456789abcdef"));
        let from = caller("127.0.0.1:9");
        let good = headers(&[("authorization", "Bearer 0123456789abcdef")]);
        assert!(access.may_change(caller("192.0.2.1:9"), &good).is_ok());
        let wrong = headers(&[("authorization", "Bearer 0123456789abcdeg")]);
        assert!(access.may_change(from, &wrong).is_err());
        assert!(
            access
                .may_change(from, &headers(&[("host", "localhost")]))
                .is_err()
        );
    }

    #[test]
    fn what_concerns_everybody_is_for_the_operator() {
        let (key, verifying) = SigningKey::ephemeral().unwrap();
        let mut access = access(Some("0123456789abcdef"));
        access.tokens = Some(Arc::new(Tokens::of_key(verifying, None)));
        let claims = Claims {
            sub: "anna".to_owned(),
            exp: 4_000_000_000,
            tenant: "acme".to_owned(),
            publish: vec!["#".to_owned()],
            api: true,
            ..Claims::default()
        };
        let client = format!("Bearer {}", key.sign(&claims).unwrap());
        let (from, client) = (
            caller("192.0.2.1:9"),
            headers(&[("authorization", &client)]),
        );
        assert!(access.may_change(from, &client).is_ok());
        assert!(access.may_operate(from, &client).is_err());
        let operator = headers(&[("authorization", "Bearer 0123456789abcdef")]);
        assert!(access.may_operate(from, &operator).is_ok());
    }

    #[test]
    fn legs_send_only_where_allowed() {
        let access = access(None);
        assert!(access.may_send(caller("127.0.0.1:5004")).is_ok());
        assert!(access.may_send(caller("192.0.2.1:5004")).is_err());
    }
}
