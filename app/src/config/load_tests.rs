use std::io::Write;

use super::*;

fn from(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let variables = variables
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    load(Some(file.path()), variables, &Config::default())
}

fn complaint(text: &str, variables: &[(&str, &str)]) -> String {
    from(text, variables).unwrap_err().to_string()
}

#[test]
fn nothing_given_means_defaults() {
    assert_eq!(from("", &[]).unwrap(), Config::default());
    assert_eq!(
        load(None, std::iter::empty(), &Config::dev()).unwrap(),
        Config::dev()
    );
}

#[test]
fn an_unknown_key_is_refused_with_line_and_nearest_name() {
    let text = complaint("[broker]\nname = \"a\"\nshard = 2\n", &[]);
    assert!(
        text.contains(":3: unknown key \"broker.shard\"; did you mean \"shards\"?"),
        "{text}"
    );
    let text = complaint("[lissten]\n", &[]);
    assert!(
        text.contains(":1: ") && text.contains("\"listen\""),
        "{text}"
    );
    let text = complaint("udp = []\n", &[]);
    assert!(text.contains("\"listen.udp\""), "{text}");
    let text = complaint("[[leg]]\nname = \"a\"\nmedia = { payloadtype = 1 }\n", &[]);
    assert!(
        text.contains(":3: ") && text.contains("payload_type"),
        "{text}"
    );
}

#[test]
fn a_key_like_no_other_lists_what_there_is() {
    let text = complaint("[api]\nzzz = 1\n", &[]);
    assert!(text.contains("known here: token, legs_allow"), "{text}");
}

#[test]
fn all_unknown_keys_are_named_at_once() {
    let text = complaint("[broker]\nshrads = 1\nnmae = \"a\"\n", &[]);
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn a_wrong_value_is_refused_with_its_line() {
    for (text, line, word) in [
        ("[broker]\nshards = \"two\"\n", ":2: ", "u16"),
        (
            "[listen]\n\nudp = [\"nowhere\"]\n",
            ":3: ",
            "socket address",
        ),
        (
            "[links]\naccept = [\"10.0.0.0/40\"]\n",
            ":2: ",
            "192.0.2.0/24",
        ),
        ("[[link]]\naddress = \"a host\"\n", ":2: ", "host:port"),
        ("[broker]\nqueuing = \"triple\"\n", ":2: ", "`double`"),
        ("[broker\n", ":1", "]"),
    ] {
        let error = complaint(text, &[]);
        assert!(
            error.contains(line) && error.contains(word),
            "{text}: {error}"
        );
    }
}

#[test]
fn values_that_do_not_fit_together_are_refused_with_their_line() {
    for (text, line, word) in [
        ("[limits]\n\nclients = 0\n", ":3: ", "between 1 and"),
        ("[broker]\nname = \"a b\"\n", ":2: ", "letters"),
        ("[api]\ntoken = \"short\"\n", ":2: ", "16 characters"),
        (
            "[[leg]]\nname=\"a\"\ntopic=\"a//b\"\nsend=\"127.0.0.1:5004\"\n",
            ":3: ",
            "level",
        ),
        (
            "[[leg]]\nname=\"a\"\ntopic=\"a\"\n",
            ":1: ",
            "`receive`, `send`",
        ),
    ] {
        let error = complaint(text, &[]);
        assert!(error.contains(line), "{text}: {error}");
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn variables_go_over_the_file() {
    let config = from(
        "[broker]\nshards = 1\nname = \"file\"\n[[link]]\naddress = \"a:1\"\n",
        &[
            ("SANGAM_BROKER_SHARDS", "2"),
            ("SANGAM_LISTEN_UDP", "127.0.0.1:1, [::1]:2"),
            ("SANGAM_LINK_ADDRESS", "b:2,c:3"),
            ("SANGAM_LOG", "debug"),
            ("HOME", "/"),
        ],
    );
    let config = config.unwrap();
    assert_eq!(
        (config.broker.shards, config.broker.name.as_str()),
        (2, "file")
    );
    assert_eq!(config.listen.udp.len(), 2);
    assert_eq!(config.neighbours.len(), 2);
    assert_eq!(config.neighbours[1].address[0].to_string(), "c:3");
}

#[test]
fn a_wrong_variable_is_refused_by_its_name() {
    let text = complaint("", &[("SANGAM_BROKER_SHARD", "2")]);
    assert!(text.contains("SANGAM_BROKER_SHARD: unknown"), "{text}");
    assert!(
        text.contains("did you mean SANGAM_BROKER_SHARDS?"),
        "{text}"
    );
    let text = complaint("", &[("SANGAM_BROKER_SHARDS", "two")]);
    assert!(
        text.contains("SANGAM_BROKER_SHARDS: \"two\" is no whole number"),
        "{text}"
    );
    let text = complaint("", &[("SANGAM_LISTEN_HTTP", "x")]);
    assert!(text.starts_with("SANGAM_LISTEN_HTTP: "), "{text}");
}

#[test]
fn a_missing_file_is_named() {
    let error = load(
        Some(Path::new("/nowhere/x.toml")),
        std::iter::empty(),
        &Config::default(),
    );
    let text = error.unwrap_err().to_string();
    assert!(
        text.starts_with("/nowhere/x.toml: cannot be read"),
        "{text}"
    );
}

#[test]
fn groups_that_leave_the_organisation_are_refused_where_they_stand() {
    let text = complaint(
        "[multicast]\ninterface = \"eth0\"\ngroups = [\"224.0.0.0/24\"]\n",
        &[],
    );
    assert!(
        text.contains(":3: 224.0.0.0/24: groups stay within an organisation"),
        "{text}"
    );
    // Switched off, it is nobody's concern.
    assert!(from("[multicast]\ngroups = [\"224.0.0.0/24\"]\n", &[]).is_ok());
}

#[test]
fn groups_of_links_are_a_choice_of_their_own() {
    let on = "[multicast]\ninterface = \"eth0\"\n";
    let links = |config: &Config| config.multicast.config().unwrap().unwrap().links;
    assert!(!links(&from(on, &[]).unwrap()));
    let text = format!("{on}links = true\n");
    assert!(links(&from(&text, &[]).unwrap()));
    let wrong = complaint(&format!("{on}link = true\n"), &[]);
    assert!(wrong.contains("multicast.link"), "{wrong}");
}

#[test]
fn groups_share_no_port_with_clients_and_are_for_more_than_one() {
    let variables = [
        ("SANGAM_MULTICAST_INTERFACE", "eth0"),
        ("SANGAM_MULTICAST_PORT", "4600"),
        ("SANGAM_MULTICAST_CLIENTS", "1"),
    ];
    let text = complaint("", &variables);
    assert!(text.contains("multicast.port: a port of its own"), "{text}");
    assert!(text.contains("multicast.clients: at least 2"), "{text}");
}

#[test]
fn ways_into_sessions_have_to_lead_somewhere_for_every_name() {
    let ways =
        |uri: &str| format!("[sessions]\nways = [{{ label = \"Room\", uri = \"{uri}\" }}]\n");
    let good = from(&ways("sip:{session}.{tenant}@sip.example.org"), &[]).unwrap();
    assert_eq!(good.sessions.ways.len(), 1);
    for (uri, word) in [
        ("javascript:alert('{session}')", "begins with"),
        ("sip:{room}@sip.example.org", "%XX"),
        (&format!("https://{}/{{session}}", "x".repeat(460)), "512"),
    ] {
        let text = complaint(&ways(uri), &[]);
        assert!(
            text.contains(":2: ") && text.contains(word),
            "{uri}: {text}"
        );
    }
    let strange = "[sessions]\nways = [{ name = \"Room\", uri = \"tel:1\" }]\n";
    let text = complaint(strange, &[]);
    assert!(text.contains("sessions.ways.name"), "{text}");
}
