//! Who may change something, and whereto legs may send.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};

use sangam_control::Problem;
use sangam_control::monitor::http::MayQuery;

use crate::config::Api;
use crate::network::any_contains;

/// Lets a change through: with a token whoever has it, without one only callers on this machine.
pub(super) fn may_change(
    api: &Api,
    caller: SocketAddr,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    match &api.token {
        Some(token) => has_token(token, headers),
        None => is_local(caller, headers),
    }
}

/// Lets whoever has the token evaluate XPath. Without a configured one nobody may.
pub(crate) fn may_query(token: Option<String>) -> MayQuery {
    Arc::new(move |headers| match &token {
        Some(token) => has_token(token, headers),
        None => Err(
            Problem::forbidden("XPath needs a token, and none is configured")
                .hint("set api.token (SANGAM_API_TOKEN) and send it as a bearer token"),
        ),
    })
}

fn has_token(token: &str, headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(BEARER));
    match given {
        Some(given) if verify_slices_are_equal(given, token.as_bytes()).is_ok() => Ok(()),
        Some(_) => Err(Problem::unauthorized("the token is wrong")
            .hint("it must equal api.token of the broker's configuration")),
        None => Err(Problem::unauthorized("a token is needed")
            .hint("send the header \"Authorization: Bearer TOKEN\" with api.token")),
    }
}

const BEARER: &[u8] = b"Bearer ";

/// A page in a browser on this machine must not pass as a local caller: it can neither choose
/// `Host` nor send JSON elsewhere without asking first.
fn is_local(caller: SocketAddr, headers: &HeaderMap) -> Result<(), Problem> {
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

/// Lets a leg send to `to` only where the configuration allows it: otherwise anybody with the
/// API could turn the broker against others.
pub(super) fn may_send(api: &Api, to: SocketAddr) -> Result<(), Problem> {
    if any_contains(&api.legs_allow, to.ip()) {
        return Ok(());
    }
    Err(
        Problem::forbidden(format!("a leg may not send to {}", to.ip()))
            .hint("add its network to api.legs_allow in the broker's configuration"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (name.parse().unwrap(), value.parse().unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn caller(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    #[test]
    fn without_a_token_only_this_machine_may_change() {
        let api = Api::default();
        let local = headers(&[("host", "127.0.0.1:4680")]);
        assert!(may_change(&api, caller("127.0.0.1:9"), &local).is_ok());
        assert!(may_change(&api, caller("[::ffff:127.0.0.1]:9"), &local).is_ok());
        assert!(may_change(&api, caller("192.0.2.1:9"), &local).is_err());
    }

    #[test]
    fn a_page_under_a_strange_name_is_no_local_caller() {
        let api = Api::default();
        for (host, good) in [
            ("localhost:4680", true),
            ("[::1]:4680", true),
            ("evil.example:4680", false),
            ("localhost.evil.example", false),
            ("192.0.2.1", false),
        ] {
            let headers = headers(&[("host", host)]);
            assert_eq!(
                may_change(&api, caller("127.0.0.1:9"), &headers).is_ok(),
                good,
                "{host}"
            );
        }
    }

    #[test]
    fn a_token_is_needed_from_everywhere_once_configured() {
        let api = Api {
            token: Some("0123456789abcdef".to_owned()),
            ..Api::default()
        };
        let from = caller("127.0.0.1:9");
        let good = headers(&[("authorization", "Bearer 0123456789abcdef")]);
        assert!(may_change(&api, caller("192.0.2.1:9"), &good).is_ok());
        let wrong = headers(&[("authorization", "Bearer 0123456789abcdeg")]);
        assert!(may_change(&api, from, &wrong).is_err());
        assert!(may_change(&api, from, &headers(&[("host", "localhost")])).is_err());
    }

    #[test]
    fn legs_send_only_where_allowed() {
        let api = Api::default();
        assert!(may_send(&api, caller("127.0.0.1:5004")).is_ok());
        assert!(may_send(&api, caller("192.0.2.1:5004")).is_err());
    }
}
