//! The network as operators see it: real brokers, aggregation nodes, and real media meanwhile.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use common::{Broker, Running, clip, run, sangam, text};
use serde_json::Value;

/// How long something that must happen may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `sangam net` against a broker; its exit code and its output.
fn net(broker: &Broker, what: &[&str]) -> (i32, String) {
    let address = broker.udp.to_string();
    let mut args = vec!["net"];
    args.extend(what);
    args.extend(["--broker", &address, "--wait", "10"]);
    let output = run(&args);
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code().unwrap(), said)
}

fn json(broker: &Broker, what: &[&str]) -> Value {
    let (code, said) = net(broker, &[what, &["--json"]].concat());
    assert_eq!(code, 0, "{said}");
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
}

/// An aggregation node and where it answers.
struct Node {
    process: Running,
    http: SocketAddr,
}

impl Node {
    fn start(brokers: &[&Broker], more: &[&str]) -> Self {
        let addresses: Vec<_> = brokers
            .iter()
            .map(|broker| broker.udp.to_string())
            .collect();
        let mut args = "monitor --json --log error --http 127.0.0.1:0"
            .split(' ')
            .collect::<Vec<_>>();
        for address in &addresses {
            args.extend(["--broker", address]);
        }
        args.extend(more);
        let mut process = Running::start(sangam(&args));
        let ready = process.json_line();
        Self {
            http: ready["http"].as_str().unwrap().parse().unwrap(),
            process,
        }
    }

    fn get(&self, path: &str) -> (u16, String) {
        get(self.http, path)
    }

    /// The view, once it satisfies.
    #[track_caller]
    fn view(&self, what: &str, good: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let (status, body) = self.get("/v1/network");
            assert_eq!(status, 200, "{body}");
            let view = serde_json::from_str(&body).unwrap();
            if good(&view) {
                return view;
            }
            assert!(start.elapsed() < PATIENCE, "never: {what}; {view:#}");
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
}

fn get(to: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// oslo - paris.
fn pair() -> (Broker, Broker) {
    let oslo = Broker::start(&["--name", "oslo"]);
    let link = oslo.udp.to_string();
    let paris = Broker::start(&["--name", "paris", "--link", &link]);
    (oslo, paris)
}

fn brokers(view: &Value) -> u64 {
    view["summary"]["brokers"].as_u64().unwrap()
}

#[test]
fn any_broker_shows_the_whole_network() {
    let (oslo, paris) = pair();
    let both_ends = |broker: &Broker| {
        let links = json(broker, &["links"]);
        let links = links["links"].as_array().unwrap().clone();
        let up = |link: &&Value| link["up"] == true && link["rtt_us"].as_u64() > Some(0);
        links.iter().filter(up).count() == 2
    };
    let start = Instant::now();
    while !(both_ends(&oslo) && both_ends(&paris)) {
        assert!(
            start.elapsed() < PATIENCE,
            "the link is never measured at both ends"
        );
    }
    let view = json(&paris, &["brokers"]);
    let names: Vec<_> = view["brokers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| &b["name"])
        .collect();
    assert!(
        names.contains(&&"oslo".into()) && names.contains(&&"paris".into()),
        "{view}"
    );

    let (code, map) = net(&oslo, &["map", "--root", "paris"]);
    assert_eq!(code, 0, "{map}");
    assert!(
        map.starts_with("paris ") && map.contains("└── oslo "),
        "{map}"
    );
    let (_, table) = net(&oslo, &["links"]);
    assert!(table.contains("PEER") && table.contains(" up "), "{table}");
    let (code, document) = net(&oslo, &["--xml"]);
    assert!(
        code == 0 && document.contains("<network xmlns="),
        "{document}"
    );
}

#[test]
fn a_check_has_an_exit_code_for_each_outcome() {
    let (oslo, _paris) = pair();
    let (code, said) = net(&oslo, &["check", "network.brokers>=1", "link.loss_ppm>=0"]);
    assert!(matches!(code, 0 | 10), "{said}");
    let (code, said) = net(&oslo, &["check", "network.brokers>=1"]);
    assert_eq!(code, 0, "{said}");
    let (code, said) = net(&oslo, &["check", "broker.clients>1000"]);
    assert_eq!(code, 10, "{said}");
    assert!(said.contains("broker.clients>1000 at "), "{said}");
    let (code, said) = net(&oslo, &["check", "link.colour=1"]);
    assert_eq!(code, 2, "{said}");
    let (code, said) = net(&oslo, &["map", "--root", "nowhere"]);
    assert_eq!(code, 2, "{said}");
    let gone = "net --broker 127.0.0.1:9 --connect-timeout 1 links".split(' ');
    let output = run(&gone.collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
}

#[test]
fn an_aggregation_node_merges_what_brokers_report_and_sees_them_go() {
    let (oslo, paris) = pair();
    let node = Node::start(&[&oslo], &["--name", "north"]);
    let view = node.view("both report", |view| brokers(view) == 2);
    assert_eq!(view["aggregator"], "north");
    let (status, document) = node.get("/v1/network.xml");
    assert!(
        status == 200 && document.matches("<broker ").count() == 2,
        "{document}"
    );
    assert!(
        node.get("/v1/network.xsd")
            .1
            .contains("urn:sangam:network:1")
    );
    let metrics = node.get("/metrics").1;
    assert!(
        metrics.contains("\nsangam_network_brokers 2\n"),
        "{metrics}"
    );
    assert_eq!(node.get("/v1/xpath?q=1").0, 403, "no token is configured");

    drop(paris);
    let view = node.view("paris is stale", |view| view["summary"]["stale"] == 1);
    assert_eq!(brokers(&view), 1);
}

/// oslo - paris, which follow the plans of a scheduler.
fn led() -> (Broker, Broker) {
    let led = |args: &[&str]| {
        let mut command = Broker::command(args);
        command.env("SANGAM_ROUTING_METHOD", "vcroute");
        Broker::of(command)
    };
    let oslo = led(&["--name", "oslo"]);
    let link = oslo.udp.to_string();
    let paris = led(&["--name", "paris", "--link", &link]);
    (oslo, paris)
}

/// A counter of an aggregation node.
fn metric(node: &Node, name: &str) -> u64 {
    let metrics = node.get("/metrics").1;
    let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let value = lines.find_map(|rest| rest.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {metrics}"))
}

#[test]
fn brokers_go_by_the_plans_of_an_aggregation_node_and_do_without_when_it_is_killed() {
    let (oslo, paris) = led();
    let watching = Node::start(&[&oslo], &["--name", "watching"]);
    let planning = Node::start(&[&paris], &["--name", "planning", "--schedule", "vcroute"]);
    let ways = |view: &Value| {
        let brokers = view["brokers"].as_array().unwrap().iter();
        let planned = |one: &Value| one["planned"].as_array().map_or(0, Vec::len);
        brokers.map(planned).collect::<Vec<_>>()
    };
    let view = watching.view("both go by plans", |view| ways(view) == [1_usize, 1]);
    let mut brokers = view["brokers"].as_array().unwrap().iter();
    let of_paris = brokers.find(|one| one["name"] == "paris").unwrap();
    assert_eq!(of_paris["routing"], "vcroute");
    let id = of_paris["broker"].as_str().unwrap();
    let topic = format!("$sangam/monitor/{id}");
    let (code, said) = net(&oslo, &["route", &topic]);
    assert!(code == 0 && said.contains(", vcroute)"), "{said}");
    let (status, document) = watching.get("/v1/network.xml");
    assert!(
        status == 200 && document.contains("<way origin="),
        "{document}"
    );

    let changed = metric(&planning, "sangam_plan_changed_total");
    assert!((2..8).contains(&changed), "{changed}");
    let (messages, bytes) = ("sangam_plan_messages_total", "sangam_plan_bytes_total");
    assert!(metric(&planning, bytes) >= 20 * metric(&planning, messages));

    drop(planning);
    watching.view("nobody plans", |view| ways(view) == [0_usize, 0]);
    let (code, said) = net(&oslo, &["route", &topic]);
    assert!(code == 0 && said.contains(", link-state)"), "{said}");
}

#[test]
fn a_broker_shows_its_own_part() {
    let broker = Broker::start(&["--name", "alone"]);
    let start = Instant::now();
    let view = loop {
        let (status, body) = broker.get("/v1/network");
        assert_eq!(status, 200, "{body}");
        let view: Value = serde_json::from_str(&body).unwrap();
        if brokers(&view) == 1 {
            break view;
        }
        assert!(start.elapsed() < PATIENCE, "{view}");
    };
    let own = &view["brokers"][0];
    assert_eq!(
        (&own["name"], &own["clients"]),
        (&"alone".into(), &0.into())
    );
    assert_eq!(broker.get("/v1/network.xml").0, 200);
    assert_eq!(broker.get("/v1/xpath?q=1").0, 403);
}

#[test]
fn aggregation_nodes_stand_on_each_other() {
    let (oslo, paris) = pair();
    // Not linked with the others.
    let apart = Broker::start(&["--name", "apart"]);
    // Listens on one side and publishes on the other: brokers first to last, publishing on the
    // first.
    let low = Node::start(&[&apart, &oslo], &["--name", "low", "--publish"]);
    low.view("low sees all", |view| brokers(view) == 3);
    let high = Node::start(&[&apart], &["--name", "high"]);
    // A broker's own word comes before what others say of it.
    let via = |view: &Value, name: &str| {
        let seen = view["brokers"].as_array().unwrap();
        seen.iter()
            .find(|b| b["name"] == name)
            .map(|b| b["via"].clone())
    };
    high.view("high sees all, each by its way", |view| {
        let ways = ["oslo", "paris", "apart"].map(|name| via(view, name));
        ways == [Some("low".into()), Some("low".into()), Some(Value::Null)]
    });
    drop((low, paris));
}

#[test]
fn a_passed_threshold_is_posted_and_published_once() {
    let hook = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sangam.toml");
    let url = format!("http://{}/alerts", hook.local_addr().unwrap());
    let threshold = format!(
        "[[threshold]]\nmeasure = \"broker.uptime_s\"\nabove = 0\nfor = \"1s\"\n\
         action = \"webhook\"\nurl = \"{url}\"\n"
    );
    std::fs::write(&path, threshold).unwrap();
    let path = path.display().to_string();
    let _broker = Broker::start(&["--name", "watched", "--config", &path]);
    let (mut stream, _) = hook.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut request = Vec::new();
    let mut some = [0; 1_024];
    while !request.ends_with(b"}") {
        let len = stream.read(&mut some).unwrap();
        assert!(len > 0, "{}", text(&request));
        request.extend_from_slice(&some[..len]);
    }
    stream
        .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
        .unwrap();
    let request = text(&request);
    assert!(
        request.starts_with("POST /alerts HTTP/1.1\r\n"),
        "{request}"
    );
    let alert: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(
        (&alert["raised"], &alert["name"]),
        (&true.into(), &"watched".into())
    );
    assert_eq!(alert["measure"], "broker.uptime_s");
}

#[test]
fn an_aggregation_node_cannot_change_what_is_not_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sangam.toml");
    let threshold =
        "[[threshold]]\nmeasure = \"link.rtt_us\"\nabove = 0\naction = \"invalidate\"\n";
    std::fs::write(&path, threshold).unwrap();
    let path = path.display().to_string();
    let args = [
        "monitor",
        "--broker",
        "127.0.0.1:9",
        "--http",
        "127.0.0.1:0",
        "--config",
        &path,
    ];
    let output = run(&args);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}

/// A publisher of a clip, and a player of it that has received something.
fn media(from: &Broker, to: &Broker, clip: &std::path::Path) -> (Running, Running) {
    let (to_address, file) = (from.udp.to_string(), clip.display().to_string());
    let args = [
        "publish",
        "--json",
        "--loop",
        "--to",
        &to_address,
        "--topic",
        "show/one",
        "--file",
        &file,
    ];
    let mut publisher = Running::start(sangam(&args));
    assert_eq!(publisher.json_line()["event"], "second");
    let address = to.udp.to_string();
    let args = [
        "play",
        "--json",
        "--from",
        &address,
        "--topic",
        "show/#",
        "--seconds",
        "120",
    ];
    let mut player = Running::start(sangam(&args));
    while !received(&player.json_line()) {}
    (publisher, player)
}

/// So many callers that begin a request and say no more.
fn hold(http: SocketAddr) -> Vec<TcpStream> {
    let call = |_| {
        let mut stream = TcpStream::connect(http).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:").unwrap();
        stream
    };
    (0..200).map(call).collect()
}

fn received(line: &Value) -> bool {
    let streams = line["streams"].as_array().unwrap();
    streams.len() == 2 && streams.iter().all(|one| one["packets"].as_u64() > Some(0))
}

#[test]
fn media_does_not_notice_the_death_of_everything_that_manages_it() {
    let folder = tempfile::tempdir().unwrap();
    let clip = clip(folder.path());
    let (oslo, paris) = pair();
    let node = Node::start(&[&oslo, &paris], &["--publish"]);
    let (_publisher, mut player) = media(&oslo, &paris, &clip);
    node.view("both report", |view| brokers(view) == 2);

    let start = Instant::now();
    let route = loop {
        let route = json(&oslo, &["route", "show/one/audio"]);
        if route["wanted_by"] == serde_json::json!(["paris"])
            && route["streams"][0]["ways"][0]["cost"].is_u64()
        {
            break route;
        }
        assert!(start.elapsed() < PATIENCE, "{route:#}");
    };
    assert_eq!(route["streams"][0]["origin"], "oslo", "{route:#}");
    let traced = net(&paris, &["trace", "show/#", "--count", "2", "--json"]).1;
    for line in traced.lines() {
        let trace: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{traced}"));
        let names: Vec<_> = trace["hops"]
            .as_array()
            .unwrap()
            .iter()
            .map(|h| &h["name"])
            .collect();
        assert_eq!(names, ["oslo", "paris"], "{trace}");
        assert_eq!(trace["verdict"], "as_computed", "{trace}");
    }

    node.process.signal("KILL");
    assert_eq!(node.process.end().0, -1, "it is dead");
    // Nor does it notice that the brokers' own interfaces are held by callers who never finish.
    let _held: Vec<_> = [&oslo, &paris].map(|broker| hold(broker.http)).into();
    let mut last = player.json_line();
    for _ in 0..3 {
        last = player.json_line();
    }
    let lost: u64 = last["streams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["lost"].as_u64().unwrap())
        .sum();
    assert_eq!(lost, 0, "{last:#}");
    assert!(received(&last));
}
