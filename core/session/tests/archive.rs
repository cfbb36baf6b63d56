//! A session that is recorded, and one in which a recording is replayed.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use sangam_model::Time;
use sangam_session::{
    Annotation, Answer, Caller, Command, Event, Gone, Input, Joining, Machine, Medium, MemberId,
    Person, Plan, Playing, RECORDER, Refusal, Rights, Role, Said, SessionId, State, limits,
};

const ARCHIVE: &str = "archive-1";
const RECORDING: &str = "00c0ffee";

struct Meeting {
    machine: Machine,
    now: u64,
}

impl Meeting {
    fn planned(plan: Plan) -> Self {
        let id = SessionId::new("acme", "weekly").unwrap();
        let now = 1_000;
        let machine = Machine::create(Time::from_millis(now), id, plan, 1).unwrap();
        Self { machine, now }
    }

    fn new() -> Self {
        Self::planned(Plan::titled("Weekly"))
    }

    fn take(&mut self, input: Input) -> Result<Answer, Refusal> {
        self.machine.handle(Time::from_millis(self.now), input)
    }

    fn join(&mut self, name: &str, role: Role) -> MemberId {
        let joining = Joining {
            role,
            ..Joining::named(name)
        };
        match self.take(Input::Join(joining)) {
            Ok(Answer::Joined(member)) => member,
            other => panic!("{name} does not get in: {other:?}"),
        }
    }

    fn ask(&mut self, who: MemberId, command: Command) -> Result<Answer, Refusal> {
        self.take(Input::Command(Caller::Member(who), command))
    }

    fn wait(&mut self, ms: u64) {
        self.now += ms;
        self.take(Input::Tick).unwrap();
    }

    fn recorder(&mut self, name: &str, records: bool) -> Result<Answer, Refusal> {
        self.take(Input::Recorder(name.to_owned(), records))
    }

    fn is_recorded(&self) -> bool {
        let mut services = self.machine.session().services();
        services.any(|(name, ready)| name == RECORDER && ready)
    }

    fn plays(&mut self, playing: Playing) -> Result<Answer, Refusal> {
        let order = self.machine.session().watched().map_or(0, |one| one.order);
        let playing = Playing { order, ..playing };
        self.take(Input::Player(ARCHIVE.to_owned(), playing))
    }

    /// Begins a replay of a minute with two people.
    fn watch(&mut self, who: MemberId) {
        let recording = RECORDING.to_owned();
        self.ask(who, Command::Replay { recording }).unwrap();
        let person = |n, name: &str, media: &[Medium]| Person {
            source: MemberId(n),
            name: name.to_owned(),
            media: media.to_vec(),
        };
        let people = vec![
            person(7, "Ada", &[Medium::Audio, Medium::Video]),
            person(9, "Bo", &[]),
        ];
        let found = Some((60_000, people));
        let playing = Playing {
            found,
            ..Playing::default()
        };
        self.plays(playing).unwrap();
    }

    fn position(&self) -> u64 {
        self.machine.session().watched().unwrap().position(self.now)
    }

    fn names(&self) -> Vec<String> {
        let members = self.machine.session().members();
        members.map(|member| member.name.clone()).collect()
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.machine.poll())
            .map(|record| record.event)
            .collect()
    }
}

fn play(playing: bool, position_ms: Option<u64>) -> Command {
    Command::Play {
        playing,
        position_ms,
    }
}

#[test]
fn a_chair_has_it_recorded_and_everybody_sees_by_whom_and_whether() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    let anna = meeting.join("anna", Role::Presenter);
    let refused = meeting.ask(anna, Command::Record { on: true });
    assert_eq!(refused.unwrap_err().code(), "forbidden");
    assert!(meeting.recorder(ARCHIVE, true).is_err(), "nobody asked");

    meeting.ask(chair, Command::Record { on: true }).unwrap();
    assert_eq!(
        meeting.machine.session().recording().unwrap().member,
        Some(chair)
    );
    assert!(!meeting.is_recorded(), "nobody does it yet");
    assert_eq!(meeting.machine.awaits(meeting.now), (true, false));
    meeting.recorder(ARCHIVE, false).unwrap();
    assert!(meeting.machine.is_recorded_by(ARCHIVE) && !meeting.is_recorded());
    meeting.recorder(ARCHIVE, true).unwrap();
    assert!(meeting.is_recorded());
    let other = meeting.recorder("archive-2", true);
    assert_eq!(other.unwrap_err().code(), "forbidden", "one is enough");

    meeting.ask(chair, Command::Record { on: false }).unwrap();
    assert!(!meeting.is_recorded() && !meeting.machine.is_recorded_by(ARCHIVE));
    assert!(meeting.recorder(ARCHIVE, true).is_err());
}

#[test]
fn a_recorder_that_dies_is_missed_and_another_goes_on() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    meeting.ask(chair, Command::Record { on: true }).unwrap();
    meeting.recorder(ARCHIVE, true).unwrap();
    meeting.wait(limits::LEASE_MS - 1);
    assert!(meeting.is_recorded());
    meeting.recorder(ARCHIVE, true).unwrap();
    meeting.wait(limits::LEASE_MS - 1);
    assert!(meeting.is_recorded(), "it said that it is there");
    let deadline = meeting.machine.deadline();
    assert_eq!(deadline, Some(Time::from_millis(meeting.now + 1)));
    meeting.wait(1);
    assert!(!meeting.is_recorded(), "and then no more");
    assert!(meeting.machine.session().recording().is_some());
    meeting.recorder("archive-2", true).unwrap();
    assert!(meeting.is_recorded());
}

#[test]
fn a_session_that_is_planned_to_be_recorded_waits_for_a_recorder() {
    let mut meeting = Meeting::planned(Plan {
        start_ms: Some(20_000),
        end_ms: Some(90_000),
        record: true,
        ..Plan::titled("Weekly")
    });
    let state = |meeting: &Meeting| meeting.machine.session().state();
    assert_eq!(meeting.machine.awaits(meeting.now), (false, false), "early");
    meeting.wait(20_000);
    assert_eq!(state(&meeting), State::Created, "nobody records");
    let chair = meeting.join("chair", Role::Chair);
    let stop = meeting.ask(chair, Command::Record { on: false });
    assert_eq!(stop.unwrap_err().code(), "not_now", "it would never begin");
    assert_eq!(meeting.machine.awaits(meeting.now), (true, false));
    meeting.recorder(ARCHIVE, true).unwrap();
    assert_eq!(state(&meeting), State::Activated);
    meeting.wait(1_000);
    meeting.recorder(ARCHIVE, true).unwrap();
    meeting.wait(limits::LEASE_MS);
    assert_eq!(state(&meeting), State::Activated, "it goes on without");
    meeting.wait(90_000);
    assert_eq!(state(&meeting), State::Finished);
    assert!(meeting.recorder(ARCHIVE, true).is_err(), "it is over");
}

#[test]
fn whoever_takes_over_waits_for_the_recorder_that_was_there() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    meeting.ask(chair, Command::Record { on: true }).unwrap();
    meeting.recorder(ARCHIVE, true).unwrap();
    meeting.watch(chair);
    let session = meeting.machine.session().clone();
    let now = Time::from_millis(meeting.now);
    meeting.machine = Machine::take_over(now, session, 2).unwrap();
    assert!(meeting.is_recorded());
    let ada = meeting.machine.session().identified("replayed:m7");
    assert_eq!(ada.unwrap().away_ms, None, "it has no connection to lose");
    meeting.recorder(ARCHIVE, true).unwrap();
    assert!(meeting.recorder("archive-2", true).is_err());
    meeting.wait(limits::LEASE_MS);
    assert!(!meeting.is_recorded());
    assert!(
        meeting.machine.session().watched().is_none(),
        "its player is gone"
    );
    assert_eq!(meeting.names(), ["chair"]);
}

#[test]
fn those_of_a_recording_are_members_until_it_ends() {
    let mut meeting = Meeting::new();
    let (chair, bert) = (
        meeting.join("chair", Role::Chair),
        meeting.join("bert", Role::Participant),
    );
    let recording = || RECORDING.to_owned();
    let refused = meeting.ask(
        bert,
        Command::Replay {
            recording: recording(),
        },
    );
    assert_eq!(refused.unwrap_err().code(), "forbidden");
    let wrong = Command::Replay {
        recording: "../x".to_owned(),
    };
    assert_eq!(meeting.ask(chair, wrong).unwrap_err().code(), "text");
    meeting.watch(chair);
    assert_eq!(meeting.names(), ["chair", "bert", "Ada", "Bo"]);
    let session = meeting.machine.session();
    let ada = session.watched().unwrap().stands_for(MemberId(7)).unwrap();
    let held = |medium| session.floor("main", medium).unwrap().is_held_by(ada);
    assert!(held(Medium::Audio) && held(Medium::Video) && !held(Medium::Screen));

    let line = |text: &str| Said {
        source: MemberId(9),
        text: text.to_owned(),
    };
    let said = vec![
        line("hello"),
        line(" "),
        line("a\u{202e}b"),
        line(&"x".repeat(2_001)),
    ];
    let playing = Playing {
        said,
        ..Playing::default()
    };
    meeting.plays(playing).unwrap();
    let chat: Vec<_> = meeting
        .machine
        .session()
        .chat()
        .map(|line| line.text.clone())
        .collect();
    assert_eq!(chat, ["hello"], "what makes no sense is left out");

    meeting.events();
    meeting.ask(chair, Command::Stop).unwrap();
    assert_eq!(meeting.names(), ["chair", "bert"]);
    let over = meeting.events().pop().unwrap();
    let why = Some(Gone::Taken);
    assert_eq!(over, Event::Replay { replay: None, why });
    assert!(meeting.plays(Playing::default()).is_err(), "it is over");
}

#[test]
fn they_pause_and_seek_together_and_it_stops_at_its_end() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    let bert = meeting.join("bert", Role::Participant);
    meeting.watch(chair);
    let renew = |meeting: &mut Meeting| meeting.plays(Playing::default()).unwrap();
    meeting.wait(4_000);
    assert_eq!(meeting.position(), 4_000);
    renew(&mut meeting);
    let refused = meeting.ask(bert, play(false, None)).unwrap_err();
    assert_eq!(refused.code(), "forbidden");
    meeting.ask(chair, play(false, None)).unwrap();
    meeting.wait(4_000);
    assert_eq!(meeting.position(), 4_000, "it is paused");
    renew(&mut meeting);

    let early = Playing {
        order: 1,
        position_ms: Some(9),
        ..Playing::default()
    };
    meeting.ask(chair, play(true, Some(57_000))).unwrap();
    meeting
        .take(Input::Player(ARCHIVE.to_owned(), early))
        .unwrap();
    assert_eq!(meeting.position(), 57_000, "what is late is passed over");
    let key = Playing {
        position_ms: Some(56_500),
        ..Playing::default()
    };
    meeting.plays(key).unwrap();
    assert_eq!(meeting.position(), 56_500, "the picture before");
    meeting.wait(3_500);
    let replay = meeting.machine.session().watched().unwrap();
    assert!(!replay.playing, "it is at its end");
    assert_eq!(meeting.position(), 60_000);
    let beyond = meeting.ask(chair, play(true, Some(60_001))).unwrap_err();
    assert_eq!(beyond.code(), "range");
    meeting.ask(chair, play(true, None)).unwrap();
    assert_eq!(meeting.position(), 0, "from the beginning");
}

#[test]
fn a_player_that_cannot_or_tells_too_much_is_heeded_as_far_as_it_may() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    let recording = RECORDING.to_owned();
    meeting.ask(chair, Command::Replay { recording }).unwrap();
    let unfound = meeting.ask(chair, play(false, None)).unwrap_err();
    assert_eq!(unfound.code(), "range");
    let crowd = (0..=limits::PLAYED_MAX as u32).map(|n| Person {
        source: MemberId(n),
        name: "x".to_owned(),
        media: Vec::new(),
    });
    let found = Some((1, crowd.collect()));
    let playing = Playing {
        found,
        ..Playing::default()
    };
    assert_eq!(meeting.plays(playing).unwrap_err().code(), "range");
    let name = "a recorder".to_owned();
    let spaced = meeting.take(Input::Player(name, Playing::default()));
    assert_eq!(spaced.unwrap_err().code(), "text");
    let failed = Playing {
        failed: true,
        ..Playing::default()
    };
    meeting.plays(failed).unwrap();
    assert!(meeting.machine.session().watched().is_none());
}

fn annotate(text: &str, position_ms: Option<u64>) -> Command {
    Command::Annotate {
        text: text.to_owned(),
        position_ms,
    }
}

/// What an archive has.
fn earlier(number: u64, position_ms: u64) -> Annotation {
    Annotation {
        recording: RECORDING.to_owned(),
        position_ms,
        said_ms: 500,
        number,
        name: "Cy".to_owned(),
        text: format!("number {number}"),
    }
}

impl Meeting {
    fn recalls(&mut self, recalled: Vec<Annotation>) -> Result<Answer, Refusal> {
        self.plays(Playing {
            recalled,
            ..Playing::default()
        })
    }

    fn said(&self) -> Vec<(u64, &str)> {
        let said = self.machine.session().annotations().iter();
        said.map(|one| (one.position_ms, &*one.text)).collect()
    }
}

#[test]
fn whoever_may_chat_says_something_of_what_is_watched() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    let anna = meeting.join("anna", Role::Participant);
    let joining = Joining {
        rights: Rights {
            chat: false,
            ..Rights::default()
        },
        ..Joining::named("silent")
    };
    let Ok(Answer::Joined(silent)) = meeting.take(Input::Join(joining)) else {
        panic!("not in")
    };
    let nothing = meeting.ask(anna, annotate("of nothing", None));
    assert_eq!(nothing.unwrap_err().code(), "range");
    meeting.watch(chair);
    meeting.wait(4_000);
    meeting.plays(Playing::default()).unwrap();
    meeting.wait(3_000);
    meeting.ask(anna, annotate(" here ", None)).unwrap();
    meeting.ask(chair, annotate("before", Some(2_000))).unwrap();
    assert_eq!(meeting.said(), [(2_000, "before"), (7_000, "here")]);
    for (who, command, code) in [
        (silent, annotate("may not", None), "forbidden"),
        (anna, annotate("", None), "text"),
        (anna, annotate(&"x".repeat(501), None), "text"),
        (anna, annotate("\u{1b}[2J", None), "text"),
        (anna, annotate("beyond", Some(60_001)), "range"),
    ] {
        assert_eq!(meeting.ask(who, command).unwrap_err().code(), code);
    }
    let open = Command::Open {
        room: "side".to_owned(),
        title: String::new(),
    };
    meeting.ask(chair, open).unwrap();
    let room = "side".to_owned();
    let away = Command::Move { member: anna, room };
    meeting.ask(chair, away).unwrap();
    let elsewhere = meeting.ask(anna, annotate("from elsewhere", None));
    assert_eq!(elsewhere.unwrap_err().code(), "forbidden");
}

#[test]
fn what_is_said_is_told_to_recorders_until_it_is_kept() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    meeting.watch(chair);
    meeting.ask(chair, annotate("look", Some(5_000))).unwrap();
    let number = meeting.machine.session().unkept()[0].number;
    meeting.ask(chair, Command::Stop).unwrap();
    assert!(meeting.said().is_empty(), "nothing is watched");
    assert_eq!(meeting.machine.session().unkept().len(), 1);
    // Whoever watches it at once sees it, though it is in no archive yet.
    meeting.watch(chair);
    assert_eq!(meeting.said(), [(5_000, "look")]);
    meeting.take(Input::Kept(number + 1)).unwrap();
    assert_eq!(meeting.machine.session().unkept().len(), 1);
    meeting.take(Input::Kept(number)).unwrap();
    meeting.take(Input::Kept(number)).unwrap();
    assert!(meeting.machine.session().unkept().is_empty());
    assert_eq!(meeting.said(), [(5_000, "look")]);
    let events = meeting.events();
    let kept = events
        .iter()
        .filter(|one| matches!(one, Event::Kept { .. }));
    assert_eq!(kept.count(), 1);
}

#[test]
fn what_was_said_before_is_recalled_once_and_within_bounds() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    meeting.watch(chair);
    let other = Annotation {
        recording: "00ff".to_owned(),
        ..earlier(9, 0)
    };
    let odd = Annotation {
        text: "\u{202e}".to_owned(),
        ..earlier(8, 0)
    };
    let told = vec![earlier(1, 9_000), other, odd, earlier(2, 3_000)];
    meeting.recalls(told.clone()).unwrap();
    meeting.recalls(told).unwrap();
    assert_eq!(meeting.said(), [(3_000, "number 2"), (9_000, "number 1")]);
    let most = limits::RECALLED_MAX as u64;
    let many = |from: u64| {
        (from..from + most)
            .map(|number| earlier(number, number))
            .collect()
    };
    let too_many: Vec<_> = (0..=most).map(|number| earlier(number, 0)).collect();
    assert!(meeting.recalls(too_many).is_err());
    for batch in 0..20 {
        meeting.recalls(many(100 + batch * most)).unwrap();
    }
    assert_eq!(meeting.said().len(), limits::ANNOTATIONS_MAX);
    let full = meeting.ask(chair, annotate("one more", None));
    assert_eq!(full.unwrap_err().code(), "full");
}

#[test]
fn nobody_takes_all_annotations_of_a_recording() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    let anna = meeting.join("anna", Role::Participant);
    meeting.watch(chair);
    for number in 0..limits::ANNOTATIONS_OF_ONE_MAX {
        let one = annotate(&format!("number {number}"), Some(0));
        meeting.ask(anna, one).unwrap();
    }
    let full = meeting.ask(anna, annotate("one more", Some(0)));
    assert_eq!(full.unwrap_err().code(), "full");
    meeting.ask(chair, annotate("mine", Some(0))).unwrap();
}
