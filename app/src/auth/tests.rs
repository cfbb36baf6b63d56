use super::*;
use crate::config::{AuthKey, NamedKey};

/// A folder with a pair and a shared secret, and a broker's view of both.
struct Stage {
    folder: tempfile::TempDir,
    auth: Auth,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (private, public, _) = make_pair().unwrap();
        let (secret, _) = make_secret().unwrap();
        for (name, text) in [("a.key", private), ("a.pub", public), ("b.secret", secret)] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let keys = ["a.pub", "b.secret"].map(|name| AuthKey::File(folder.path().join(name)));
        let auth = Auth {
            keys: keys.into(),
            ..Auth::default()
        };
        Self { folder, auth }
    }

    fn key(&self, name: &str) -> SigningKey {
        SigningKey::read(&self.folder.path().join(name)).unwrap()
    }

    fn check(&self, token: &str) -> Result<Rights, AuthError> {
        Tokens::of(&self.auth).unwrap().unwrap().check(token)
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_secs()
}

fn claims() -> Claims {
    Claims {
        sub: "anna".to_owned(),
        exp: now() + 600,
        tenant: "acme".to_owned(),
        subscribe: vec!["acme/#".to_owned()],
        ..Claims::default()
    }
}

#[track_caller]
fn is_wrong(verdict: Result<Rights, AuthError>, word: &str) {
    let error = verdict.unwrap_err();
    assert!(matches!(error, AuthError::Invalid(_)), "{error:?}");
    assert!(error.to_string().contains(word), "{error}");
}

#[test]
fn tokens_of_both_kinds_of_key_are_believed() {
    let stage = Stage::new();
    for name in ["a.key", "b.secret"] {
        let token = stage.key(name).sign(&claims()).unwrap();
        let rights = stage.check(&token).unwrap();
        assert!(!rights.api);
        let grants = rights.grants(Time::ZERO);
        assert_eq!(
            (grants.tenant.as_str(), grants.subscribe.len()),
            ("acme", 1)
        );
    }
}

#[test]
fn a_token_of_another_key_is_not_believed_whatever_name_it_gives() {
    let (stage, other) = (Stage::new(), Stage::new());
    let strange = other.key("a.key").sign(&claims()).unwrap();
    is_wrong(stage.check(&strange), "unknown key");
    let kid = stage.key("a.key").kid().to_owned();
    let forged = other.key("a.key").named(Some(kid)).sign(&claims()).unwrap();
    is_wrong(stage.check(&forged), "signature");
}

#[test]
fn keys_are_replaced_while_tokens_are_verified() {
    let stage = Stage::new();
    let tokens = Tokens::of(&stage.auth).unwrap().unwrap();
    let [old, kept] = ["a.key", "b.secret"].map(|name| stage.key(name).sign(&claims()).unwrap());
    let (private, public, _) = make_pair().unwrap();
    for (name, text) in [("c.key", private), ("c.pub", public)] {
        std::fs::write(stage.folder.path().join(name), text).unwrap();
    }
    let new = stage.key("c.key").sign(&claims()).unwrap();
    is_wrong(tokens.check(&new), "unknown key");

    let mut auth = stage.auth.clone();
    auth.keys[0] = AuthKey::File(stage.folder.path().join("c.pub"));
    tokens.reload(&auth).unwrap();
    for token in [&new, &kept] {
        tokens.check(token).unwrap();
    }
    is_wrong(tokens.check(&old), "unknown key");

    // What cannot be read changes nothing.
    auth.keys[0] = AuthKey::File(stage.folder.path().join("gone.pub"));
    tokens.reload(&auth).unwrap_err();
    tokens.check(&new).unwrap();
}

#[test]
fn the_key_says_which_algorithm_it_is_for_and_never_the_token() {
    // The public key is known to everybody: keyed with it as if it were a secret, a token must
    // not pass.
    let stage = Stage::new();
    let pair = stage.key("a.key");
    let public = std::fs::read_to_string(stage.folder.path().join("a.pub")).unwrap();
    let path = stage.folder.path().join("c.secret");
    std::fs::write(&path, public.replace(['\n', ' '], "")).unwrap();
    let forged = SigningKey::read(&path)
        .unwrap()
        .named(Some(pair.kid().to_owned()));
    is_wrong(stage.check(&forged.sign(&claims()).unwrap()), "algorithm");

    let good = pair.sign(&claims()).unwrap();
    let (_, rest) = good.split_once('.').unwrap();
    let (payload, _) = rest.split_once('.').unwrap();
    // {"alg":"none"}
    assert!(
        stage
            .check(&format!("eyJhbGciOiJub25lIn0.{payload}."))
            .is_err()
    );
}

#[test]
fn a_clock_may_be_a_minute_wrong_and_no_more() {
    let stage = Stage::new();
    let key = stage.key("a.key");
    let verdict = |exp: u64, nbf: Option<u64>| {
        let claims = Claims {
            exp,
            nbf,
            ..claims()
        };
        stage.check(&key.sign(&claims).unwrap())
    };
    assert!(verdict(now() - 50, None).is_ok());
    assert_eq!(verdict(now() - 70, None), Err(AuthError::Expired));
    assert!(verdict(now() + 600, Some(now() + 50)).is_ok());
    is_wrong(verdict(now() + 600, Some(now() + 70)), "clocks");
}

#[test]
fn grants_end_with_the_token_and_its_leeway() {
    let stage = Stage::new();
    let tokens = Tokens::of(&stage.auth).unwrap().unwrap();
    let token = stage.key("a.key").sign(&claims()).unwrap();
    let start = Time::from_millis(5_000);
    let left = tokens.verify(&token, start).unwrap().expires - start;
    let most = Duration::from_secs(660);
    assert!(
        left <= most && left > most - Duration::from_secs(30),
        "{left:?}"
    );
}

#[test]
fn a_token_ends_when_it_is_believed_no_more() {
    let stage = Stage::new();
    let tokens = Tokens::of(&stage.auth).unwrap().unwrap();
    let exp = now() - 50;
    let claims = Claims { exp, ..claims() };
    let rights = tokens.check(&stage.key("a.key").sign(&claims).unwrap());
    assert_eq!(tokens.end_ms(&rights.unwrap()), (exp + 61) * 1_000);
}

#[test]
fn issuer_and_audience_count_where_they_are_expected() {
    let mut stage = Stage::new();
    let key = stage.key("a.key");
    let foreign = Claims {
        iss: Some("somebody".to_owned()),
        aud: Some(claims::Audience::Many(vec![
            "x".to_owned(),
            "sangam".to_owned(),
        ])),
        ..claims()
    };
    assert!(stage.check(&key.sign(&foreign).unwrap()).is_ok());
    (stage.auth.issuer, stage.auth.audience) = (Some("us".to_owned()), Some("sangam".to_owned()));
    assert!(stage.check(&key.sign(&foreign).unwrap()).is_err());
    assert!(stage.check(&key.sign(&claims()).unwrap()).is_err());
    let ours = Claims {
        iss: Some("us".to_owned()),
        ..foreign
    };
    assert!(stage.check(&key.sign(&ours).unwrap()).is_ok());
}

#[test]
fn claims_that_make_no_sense_are_refused() {
    let stage = Stage::new();
    let key = stage.key("a.key");
    for (tenant, filter, word) in [
        ("", "a", "tenant"),
        ("a/b", "a", "tenant"),
        ("+", "a", "tenant"),
        ("acme", "acme//x", "level"),
    ] {
        let claims = Claims {
            tenant: tenant.to_owned(),
            publish: vec![filter.to_owned()],
            ..claims()
        };
        is_wrong(stage.check(&key.sign(&claims).unwrap()), word);
    }
    for text in ["", ".", "..", "a.b.c", &"x".repeat(2_000)] {
        assert!(stage.check(text).is_err(), "{text}");
    }
}

#[test]
fn a_key_of_the_wrong_kind_is_refused_with_what_it_is() {
    let stage = Stage::new();
    let at = |name: &str| stage.folder.path().join(name);
    std::fs::write(at("short"), "secret").unwrap();
    for (path, word) in [
        ("a.key", "private half"),
        ("short", "neither"),
        ("gone", "No such"),
    ] {
        let error = VerifyingKey::read(&at(path)).err().unwrap().to_string();
        assert!(error.contains(word), "{error}");
    }
    let error = SigningKey::read(&at("a.pub")).err().unwrap().to_string();
    assert!(error.contains("public half"), "{error}");
    assert!(matches!(Tokens::of(&Auth::default()), Err(KeyError::None)));
}

#[test]
fn a_key_may_have_a_name_of_its_own_and_stand_in_the_configuration() {
    let stage = Stage::new();
    let secret = "0123456789abcdef0123456789abcdef";
    let path = stage.folder.path().join("d.secret");
    std::fs::write(&path, secret).unwrap();
    let named = AuthKey::Named(NamedKey {
        kid: Some("backend".to_owned()),
        secret: Some(secret.to_owned()),
        file: None,
    });
    let auth = Auth {
        keys: vec![named],
        ..Auth::default()
    };
    let tokens = Tokens::of(&auth).unwrap().unwrap();
    let key = SigningKey::read(&path)
        .unwrap()
        .named(Some("backend".to_owned()));
    assert!(tokens.check(&key.sign(&claims()).unwrap()).is_ok());
    assert!(!format!("{tokens:?}").contains(secret));
}

#[test]
fn a_token_as_livekit_makes_it_is_good_for_sessions_and_opens_no_broker() {
    let stage = Stage::new();
    let tokens = Tokens::of(&stage.auth).unwrap().unwrap();
    // The claims of LiveKit's server SDKs, which know no tenants.
    let text = format!(
        r#"{{"sub": "anna", "name": "Anna", "iss": "APIkey", "exp": {}, "nbf": {},
            "metadata": "x", "video": {{"room": "weekly", "roomJoin": true, "hidden": false,
            "canPublishSources": ["microphone"]}}}}"#,
        now() + 600,
        now() - 5
    );
    let claims: Claims = serde_json::from_str(&text).unwrap();
    let token = stage.key("b.secret").sign(&claims).unwrap();
    let believed = tokens.claims(&token).unwrap();
    let video = believed.video.unwrap();
    assert_eq!(
        (video.room.as_deref(), video.room_join),
        (Some("weekly"), true)
    );
    assert_eq!(believed.name.as_deref(), Some("Anna"));
    is_wrong(stage.check(&token), "tenant");
}
