//! `sangam token`: keys, tokens, and what they say.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sangam_model::Filter;
use sangam_model::limits::TOKEN_LEN_MAX;
use serde_json::json;

use super::moment;
use crate::auth::{self, Audience, Claims, KeyError, SigningKey, Tokens, VerifyingKey};
use crate::cli::{IssueArgs, KeyArgs, ShowArgs, TokenCommand};
use crate::exit::{Exit, Failure, io};
use crate::keep::{self, Readers};
use crate::output;

/// Runs one of the subcommands.
pub(super) fn run(command: &TokenCommand, json: bool) -> Result<(), Failure> {
    match command {
        TokenCommand::Key(args) => key(args, json),
        TokenCommand::Issue(args) => issue(args, json),
        TokenCommand::Show(args) => show(args, json),
    }
}

fn key(args: &KeyArgs, as_json: bool) -> Result<(), Failure> {
    let beside = |ending: &str| {
        let mut path = args.out.as_os_str().to_owned();
        path.push(ending);
        PathBuf::from(path)
    };
    let (files, kid) = if args.shared {
        let (secret, kid) = auth::make_secret().map_err(failed)?;
        let file = (beside(".secret"), format!("{secret}\n"), Readers::Owner);
        (vec![file], kid)
    } else {
        let (private, public, kid) = auth::make_pair().map_err(failed)?;
        let private = (beside(".key"), private, Readers::Owner);
        (vec![private, (beside(".pub"), public, Readers::All)], kid)
    };
    keep::nothing_there(files.iter().map(|(path, ..)| path), args.force)?;
    for (path, text, readers) in &files {
        keep::write(path, text.as_bytes(), *readers).map_err(io(path.display()))?;
    }
    let (makes, verifies) = (&files[0].0, &files[files.len() - 1].0);
    if as_json {
        let algorithm = if args.shared { "HS256" } else { "EdDSA" };
        output::json_line(&json!({
            "makes": makes, "verifies": verifies, "kid": kid, "algorithm": algorithm,
        }));
        return Ok(());
    }
    output::line(&format!(
        "{} makes tokens: keep it where they are issued, and nowhere else\n\
         {} verifies them: brokers need it\n\n\
         next: in each broker's configuration\n  \
         [auth]\n  keys = [\"{}\"]\n\
         then: sangam token issue --key {} --sub NAME --subscribe 'TENANT/#'",
        makes.display(),
        verifies.display(),
        absolute(verifies).display(),
        makes.display(),
    ));
    Ok(())
}

fn issue(args: &IssueArgs, as_json: bool) -> Result<(), Failure> {
    let key = SigningKey::read(&args.key).map_err(failed)?;
    let key = key.named(args.kid.clone());
    let claims = claims(args)?;
    claims
        .rights()
        .map_err(|fault| Failure::new(Exit::Usage, fault))?;
    let token = key.sign(&claims).map_err(failed)?;
    if token.len() > TOKEN_LEN_MAX {
        let message = format!(
            "the token has {} characters, and brokers take {TOKEN_LEN_MAX}",
            token.len()
        );
        return Err(Failure::new(Exit::Usage, message)
            .hint("name fewer filters, with wildcards: 'acme/weekly/#'"));
    }
    if as_json {
        let expires = claims.exp;
        output::json_line(&json!({ "token": token, "kid": key.kid(), "exp": expires }));
        return Ok(());
    }
    output::line(&token);
    if std::io::stdout().is_terminal() {
        eprintln!(
            "good until {}; show it with `sangam play --token ...` or in SANGAM_TOKEN",
            moment(seconds(claims.exp))
        );
    }
    Ok(())
}

fn claims(args: &IssueArgs) -> Result<Claims, Failure> {
    let usage = |message: &str, hint: &str| Failure::new(Exit::Usage, message).hint(hint);
    let mut filters = args.publish.iter().chain(&args.subscribe).peekable();
    if filters.peek().is_none() {
        return Err(usage(
            "the token would grant nothing",
            "add --publish or --subscribe with a filter such as 'acme/weekly/#'",
        ));
    }
    let first = filters.peek().and_then(|filter| filter.levels().next());
    let tenant = args.tenant.as_deref().or(first).unwrap_or_default();
    let outside = filters.find(|filter| filter.levels().next() != Some(tenant));
    if let Some(outside) = outside {
        let message = format!("the filter {outside} does not begin with the tenant {tenant:?}");
        return Err(usage(
            &message,
            "a token is good within one tenant, the first level of its topics: write \
             'acme/#' instead of '#', and make one token for each tenant",
        ));
    }
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let begin = now + args.not_before.map_or(Duration::ZERO, |wait| wait.0);
    let texts = |filters: &[Filter]| filters.iter().map(|f| f.as_str().to_owned()).collect();
    Ok(Claims {
        sub: args.sub.clone(),
        exp: (begin + args.expires.0).as_secs(),
        nbf: args.not_before.map(|_| begin.as_secs()),
        iat: Some(now.as_secs()),
        iss: args.issuer.clone(),
        aud: args.audience.clone().map(Audience::One),
        tenant: tenant.to_owned(),
        publish: texts(&args.publish),
        subscribe: texts(&args.subscribe),
        api: args.api,
        ..Claims::default()
    })
}

fn show(args: &ShowArgs, as_json: bool) -> Result<(), Failure> {
    let token = token(args.token.as_deref())?;
    let (kid, claims) = auth::peek(&token).map_err(|error| {
        Failure::new(
            Exit::Failure,
            format!("this is no token of Sangam: {error}"),
        )
        .hint("a token has three parts with dots between, and the claims sub, exp and tenant")
    })?;
    let verdict = match &args.key {
        Some(path) => {
            let key = VerifyingKey::read(path).map_err(failed)?;
            Some(Tokens::of_key(key, kid.clone()).check(&token))
        }
        None => None,
    };
    let wrong = verdict.as_ref().and_then(|verdict| verdict.as_ref().err());
    if as_json {
        output::json_line(&json!({
            "kid": kid, "claims": claims, "verified": verdict.as_ref().map(Result::is_ok),
            "error": wrong.map(ToString::to_string),
        }));
    } else {
        output::text(&words(&claims, kid.as_deref()));
        output::line(match &verdict {
            None => "signature  not checked; give the key by --key",
            Some(Ok(_)) => "signature  good",
            Some(Err(_)) => "signature  NOT good for a broker",
        });
    }
    match wrong {
        Some(error) => Err(Failure::new(Exit::Authentication, error.to_string())),
        None => Ok(()),
    }
}

fn words(claims: &Claims, kid: Option<&str>) -> String {
    let list = |filters: &[String]| match filters {
        [] => "nothing".to_owned(),
        filters => filters.join(", "),
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let over = now.is_ok_and(|now| now.as_secs() >= claims.exp);
    let mut text = format!(
        "for        {}\ntenant     {}\npublish    {}\nsubscribe  {}\nuntil      {}{}\n",
        claims.sub,
        claims.tenant,
        list(&claims.publish),
        list(&claims.subscribe),
        moment(seconds(claims.exp)),
        if over { ", which is over" } else { "" },
    );
    if let Some(begin) = claims.nbf {
        text += &format!("from       {}\n", moment(seconds(begin)));
    }
    if claims.api {
        text += "api        yes: RTP legs on these topics\n";
    }
    if let Some(issuer) = &claims.iss {
        text += &format!("issuer     {issuer}\n");
    }
    text + &format!("key        {}\n", kid.unwrap_or("not named"))
}

/// The token itself, or in a file, or on standard input.
fn token(given: Option<&str>) -> Result<String, Failure> {
    let text = match given {
        Some(text) if Path::new(text).is_file() => {
            std::fs::read_to_string(text).map_err(io(text))?
        }
        Some(text) => text.to_owned(),
        None => {
            let mut text = String::new();
            let mut input = std::io::stdin().take(TOKEN_LEN_MAX as u64 * 2);
            input
                .read_to_string(&mut text)
                .map_err(io("standard input"))?;
            text
        }
    };
    Ok(text.trim().to_owned())
}

fn seconds(since_epoch: u64) -> i64 {
    i64::try_from(since_epoch).unwrap_or(i64::MAX)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn failed(error: KeyError) -> Failure {
    let hint = match error {
        KeyError::Failed(_) => "",
        _ => "`sangam token key --out NAME` makes keys",
    };
    Failure::new(Exit::Failure, error.to_string()).hint(hint)
}
