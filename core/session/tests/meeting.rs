//! A meeting as people know it.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use sangam_model::Time;
use sangam_session::{
    Answer, Caller, Command, Event, Gone, Input, Joining, Key, Machine, Medium, MemberId, Mode,
    Plan, Refusal, Role, SessionId, State, Way, limits,
};

const AUDIO: Medium = Medium::Audio;

struct Meeting {
    machine: Machine,
    now: u64,
}

impl Meeting {
    fn planned(plan: Plan) -> Self {
        let id = SessionId::new("acme", "weekly").unwrap();
        let machine = Machine::create(Time::from_millis(1_000), id, plan, 1).unwrap();
        Self {
            machine,
            now: 1_000,
        }
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
            key: Some(Key(name.to_owned())),
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

    fn moderate(&mut self, chair: MemberId, limit: u16, time_limit_s: Option<u32>) {
        let rules = Command::Floor {
            room: "main".to_owned(),
            medium: AUDIO,
            mode: Mode::Moderated,
            limit,
            time_limit_s,
        };
        self.ask(chair, rules).unwrap();
    }

    fn holders(&self) -> Vec<MemberId> {
        let floor = self.machine.session().floor("main", AUDIO).unwrap();
        floor.holders.iter().map(|holder| holder.member).collect()
    }

    fn open_to(&self, prefix: &str) -> Vec<String> {
        let doors = self.machine.session().doors();
        let found = doors.into_iter().find(|(at, _)| at == prefix);
        found.map(|(_, open)| open).unwrap_or_default()
    }
}

#[test]
fn a_session_begins_when_its_time_has_come_and_its_services_are_ready() {
    let mut meeting = Meeting::planned(Plan {
        start_ms: Some(5_000),
        end_ms: Some(9_000),
        needs: vec!["mixer".to_owned()],
        ..Plan::titled("Weekly")
    });
    let state = |meeting: &Meeting| meeting.machine.session().state();
    meeting.wait(5_000);
    assert_eq!(state(&meeting), State::Created, "its mixer is missing");
    let ready = Input::Service("mixer".to_owned(), true);
    meeting.take(ready).unwrap();
    assert_eq!(state(&meeting), State::Activated);
    assert_eq!(meeting.machine.deadline(), Some(Time::from_millis(9_000)));
    meeting.wait(4_000);
    assert_eq!(state(&meeting), State::Finished);
    assert_eq!(meeting.machine.deadline(), None);
}

#[test]
fn a_session_that_never_began_is_canceled_when_its_time_is_over() {
    let mut meeting = Meeting::planned(Plan {
        end_ms: Some(9_000),
        needs: vec!["mixer".to_owned()],
        ..Plan::titled("Weekly")
    });
    meeting.wait(10_000);
    assert_eq!(meeting.machine.session().state(), State::Canceled);
}

#[test]
fn a_moderated_floor_is_asked_for_waited_for_and_given() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    let (anna, bert) = (
        meeting.join("anna", Role::Participant),
        meeting.join("bert", Role::Participant),
    );
    meeting.moderate(chair, 1, None);
    for member in [anna, bert] {
        meeting
            .ask(member, Command::Request { medium: AUDIO })
            .unwrap();
    }
    assert_eq!(meeting.holders(), [], "a chair decides");
    let grant = |member| Command::Grant {
        medium: AUDIO,
        member,
    };
    assert_eq!(
        meeting.ask(anna, grant(anna)).unwrap_err().code(),
        "forbidden"
    );
    meeting.ask(chair, grant(bert)).unwrap();
    assert_eq!(meeting.holders(), [bert]);
    assert_eq!(meeting.ask(chair, grant(anna)).unwrap_err().code(), "full");
    assert_eq!(
        meeting.open_to("acme/weekly/main/audio"),
        [bert.to_string()]
    );
    meeting
        .ask(bert, Command::Release { medium: AUDIO })
        .unwrap();
    assert_eq!(meeting.holders(), [], "nobody follows by itself");
    assert!(meeting.open_to("acme/weekly/main/audio").is_empty());
}

#[test]
fn a_free_floor_goes_to_the_next_when_time_is_over() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    let anna = meeting.join("anna", Role::Participant);
    let screen = Command::Request {
        medium: Medium::Screen,
    };
    let limited = Command::Floor {
        room: "main".to_owned(),
        medium: Medium::Screen,
        mode: Mode::Free,
        limit: 1,
        time_limit_s: Some(60),
    };
    meeting.ask(chair, limited).unwrap();
    meeting.ask(chair, screen.clone()).unwrap();
    meeting.ask(anna, screen).unwrap();
    let holder = |meeting: &Meeting| {
        let floor = meeting.machine.session().floor("main", Medium::Screen);
        floor.unwrap().holders[0].member
    };
    assert_eq!(holder(&meeting), chair);
    meeting.wait(59_999);
    assert_eq!(holder(&meeting), chair);
    meeting.wait(1);
    assert_eq!(holder(&meeting), anna);
}

#[test]
fn the_muted_are_silent_until_the_chair_lets_them_speak() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    let anna = meeting.join("anna", Role::Participant);
    let request = Command::Request { medium: AUDIO };
    meeting.ask(anna, request.clone()).unwrap();
    let mute = |muted| Command::Mute {
        member: anna,
        medium: AUDIO,
        muted,
    };
    meeting.ask(chair, mute(true)).unwrap();
    assert_eq!(meeting.holders(), []);
    assert_eq!(
        meeting.ask(anna, request.clone()).unwrap_err().code(),
        "muted"
    );
    assert_eq!(
        meeting.ask(anna, mute(false)).unwrap_err().code(),
        "forbidden"
    );
    meeting.ask(chair, mute(false)).unwrap();
    meeting.ask(anna, request).unwrap();
    assert_eq!(meeting.holders(), [anna]);
}

#[test]
fn who_waits_in_the_lobby_reaches_nothing_until_let_in() {
    let mut meeting = Meeting::planned(Plan {
        lobby: true,
        ..Plan::titled("Weekly")
    });
    let chair = meeting.join("chair", Role::Chair);
    let anna = meeting.join("anna", Role::Participant);
    assert_eq!(meeting.machine.session().reach(anna), None);
    let request = Command::Request { medium: AUDIO };
    assert_eq!(meeting.ask(anna, request).unwrap_err().code(), "forbidden");
    meeting.ask(chair, Command::Admit { member: anna }).unwrap();
    let reach = meeting.machine.session().reach(anna).unwrap();
    assert!(
        reach
            .publish
            .contains(&"acme/weekly/main/+/m2/#".to_owned())
    );
    assert!(reach.subscribe.contains(&"acme/weekly/main/#".to_owned()));
}

#[test]
fn a_private_room_has_topics_and_floors_of_its_own() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    let anna = meeting.join("anna", Role::Participant);
    meeting
        .ask(anna, Command::Request { medium: AUDIO })
        .unwrap();
    let open = Command::Open {
        room: "b1".to_owned(),
        title: "Budget".to_owned(),
    };
    meeting.ask(chair, open).unwrap();
    let go = Command::Move {
        member: anna,
        room: "b1".to_owned(),
    };
    meeting.ask(chair, go).unwrap();
    assert_eq!(meeting.holders(), [], "the floor stays in its room");
    let reach = meeting.machine.session().reach(anna).unwrap();
    assert_eq!(reach.subscribe, ["acme/weekly/b1/#"]);
    meeting
        .ask(anna, Command::Request { medium: AUDIO })
        .unwrap();
    assert_eq!(meeting.open_to("acme/weekly/b1/audio"), ["m2"]);
    let close = Command::Close {
        room: "b1".to_owned(),
    };
    meeting.ask(chair, close).unwrap();
    let member = meeting.machine.session().member(anna).unwrap();
    assert_eq!(member.room.as_deref(), Some("main"));
}

#[test]
fn whoever_was_cut_off_comes_back_to_its_place_and_nobody_in_its_name() {
    let mut meeting = Meeting::new();
    let anna = meeting.join("anna", Role::Participant);
    meeting
        .ask(anna, Command::Request { medium: AUDIO })
        .unwrap();
    meeting.take(Input::Lost(anna)).unwrap();
    let wrong = meeting.take(Input::Resume(anna, Key("guess".to_owned())));
    assert_eq!(wrong.unwrap_err(), Refusal::WrongKey);
    meeting.wait(limits::AWAY_MS_MAX - 1);
    meeting
        .take(Input::Resume(anna, Key("anna".to_owned())))
        .unwrap();
    assert_eq!(meeting.holders(), [anna]);
    meeting.take(Input::Lost(anna)).unwrap();
    meeting.take(Input::Found(anna)).unwrap();
    meeting.wait(limits::AWAY_MS_MAX);
    assert_eq!(meeting.holders(), [anna]);
    meeting.take(Input::Lost(anna)).unwrap();
    meeting.wait(limits::AWAY_MS_MAX);
    assert_eq!(meeting.machine.session().members_len(), 0);
    let mut last = None;
    while let Some(record) = meeting.machine.poll() {
        last = Some(record.event);
    }
    let why = Gone::Lost;
    assert_eq!(last, Some(Event::Left { member: anna, why }));
}

#[test]
fn who_was_sent_away_stays_away_and_a_locked_door_stays_shut() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    let anna = meeting.join("anna", Role::Participant);
    meeting
        .ask(chair, Command::Remove { member: anna })
        .unwrap();
    let again = meeting.take(Input::Join(Joining::named("anna")));
    assert_eq!(again.unwrap_err(), Refusal::Barred);
    meeting.ask(chair, Command::Lock { locked: true }).unwrap();
    let new = meeting.take(Input::Join(Joining::named("bert")));
    assert_eq!(new.unwrap_err(), Refusal::Locked);
}

#[test]
fn when_a_session_pauses_every_floor_comes_back() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    let anna = meeting.join("anna", Role::Participant);
    meeting
        .ask(anna, Command::Request { medium: AUDIO })
        .unwrap();
    meeting.ask(chair, Command::Deactivate).unwrap();
    assert_eq!(meeting.holders(), []);
    assert_eq!(
        meeting.machine.session().doors(),
        [("acme/weekly".to_owned(), vec![])]
    );
    let refused = meeting.ask(anna, Command::Request { medium: AUDIO });
    assert_eq!(refused.unwrap_err(), Refusal::NotNow(State::Deactivated));
    meeting.ask(chair, Command::Activate).unwrap();
    meeting
        .ask(anna, Command::Request { medium: AUDIO })
        .unwrap();
    assert_eq!(meeting.holders(), [anna]);
}

#[test]
fn endless_names_are_refused_and_any_script_is_taken() {
    let mut meeting = Meeting::new();
    let long = Joining {
        name: "x".repeat(10_000),
        ..Joining::named("long")
    };
    assert_eq!(meeting.take(Input::Join(long)).unwrap_err().code(), "text");
    let shirin = Joining {
        name: "\u{200f}شيرين عبادي".to_owned(),
        ..Joining::named("shirin")
    };
    assert!(meeting.take(Input::Join(shirin)).is_ok());
}

#[test]
fn a_chair_tells_other_ways_in_and_plans_keep_them() {
    let mut meeting = Meeting::new();
    let chair = meeting.join("chair", Role::Chair);
    let anna = meeting.join("anna", Role::Participant);
    let way = Way {
        label: "Berlin".to_owned(),
        uri: "tel:+49-30-1234".to_owned(),
    };
    let ways = |ways: &[Way]| Command::Ways {
        ways: ways.to_vec(),
    };
    let one = [way.clone()];
    assert_eq!(
        meeting.ask(anna, ways(&one)).unwrap_err().code(),
        "forbidden"
    );
    meeting.ask(chair, ways(&one)).unwrap();
    let later = Command::Plan {
        title: Some("Later".to_owned()),
        start_ms: None,
        end_ms: None,
        lobby: None,
        record: None,
    };
    meeting.ask(chair, later).unwrap();
    assert_eq!(meeting.machine.session().plan().ways, one);
    let bad = Way {
        uri: "javascript:alert(1)".to_owned(),
        ..way.clone()
    };
    let refused = meeting.ask(chair, ways(&[way.clone(), bad])).unwrap_err();
    assert_eq!(refused.code(), "text");
    let many = vec![way; limits::WAYS_MAX + 1];
    assert_eq!(meeting.ask(chair, ways(&many)).unwrap_err().code(), "full");
    assert_eq!(
        meeting.machine.session().plan().ways,
        one,
        "what was refused changed nothing"
    );
    meeting.ask(chair, ways(&[])).unwrap();
    assert_eq!(meeting.machine.session().plan().ways, []);
}
