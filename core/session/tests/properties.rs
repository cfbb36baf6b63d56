//! Whatever is asked of a session, in whatever order: what must hold, holds.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use proptest::prelude::*;
use sangam_model::Time;
use sangam_session::{
    Answer, Caller, Command, Input, Joining, Key, Machine, Medium, MemberId, Mode, Person, Plan,
    Playing, REPLAYED, Record, Refusal, Rights, Role, Session, SessionId, State, Way, limits,
};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Join(u8, Role, bool),
    Resume(u32),
    Lost(u32),
    Found(u32),
    Service(bool),
    Recorder(bool),
    Player(bool),
    Ask(Option<u32>, Command),
    TakeOver,
}

fn medium() -> impl Strategy<Value = Medium> {
    prop::sample::select(Medium::ALL.to_vec())
}

fn member() -> impl Strategy<Value = MemberId> {
    (1_u32..12).prop_map(MemberId)
}

/// Good ones, and ones that are refused.
fn way() -> impl Strategy<Value = Way> {
    let uri = prop::sample::select(&["tel:+49-30-1", "sip:weekly@host", "javascript:1"][..]);
    uri.prop_map(|uri| Way {
        label: "Way".to_owned(),
        uri: uri.to_owned(),
    })
}

fn room() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["main".to_owned(), "b1".to_owned(), "b2".to_owned()])
}

fn rules() -> impl Strategy<Value = Command> {
    let mode = prop::sample::select(vec![Mode::Free, Mode::Moderated]);
    let time = prop::option::of(0_u32..20);
    (room(), medium(), mode, 0_u16..4, time).prop_map(|(room, medium, mode, limit, time)| {
        Command::Floor {
            room,
            medium,
            mode,
            limit,
            time_limit_s: time,
        }
    })
}

fn about_people() -> impl Strategy<Value = Command> {
    let role = prop::sample::select(Role::ALL.to_vec());
    prop_oneof![
        any::<bool>().prop_map(|locked| Command::Lock { locked }),
        member().prop_map(|member| Command::Admit { member }),
        member().prop_map(|member| Command::Remove { member }),
        (member(), role).prop_map(|(member, role)| Command::Role { member, role }),
        (member(), medium(), any::<bool>()).prop_map(|(member, medium, muted)| Command::Mute {
            member,
            medium,
            muted
        }),
        (member(), room()).prop_map(|(member, room)| Command::Move { member, room }),
        any::<bool>().prop_map(|raised| Command::Hand {
            raised,
            member: None
        }),
        prop::option::of(member()).prop_map(|to| Command::Chat {
            text: "hello".to_owned(),
            to
        }),
        Just(Command::Leave),
    ]
}

fn about_floors() -> impl Strategy<Value = Command> {
    prop_oneof![
        3 => medium().prop_map(|medium| Command::Request { medium }),
        1 => medium().prop_map(|medium| Command::Release { medium }),
        1 => (medium(), member()).prop_map(|(medium, member)| Command::Grant { medium, member }),
        1 => (medium(), member()).prop_map(|(medium, member)| Command::Revoke { medium, member }),
        1 => rules(),
    ]
}

fn about_all() -> impl Strategy<Value = Command> {
    prop_oneof![
        2 => Just(Command::Activate),
        1 => Just(Command::Deactivate),
        1 => (prop::option::of(0_u64..60_000), prop::option::of(30_000_u64..90_000), any::<bool>())
            .prop_map(|(start_ms, end_ms, lobby)| Command::Plan {
                title: None,
                start_ms,
                end_ms,
                lobby: Some(lobby),
                record: None,
            }),
        1 => prop::collection::vec(way(), 0..3).prop_map(|ways| Command::Ways { ways }),
        1 => room().prop_map(|room| Command::Open { room, title: String::new() }),
        1 => room().prop_map(|room| Command::Close { room }),
        2 => any::<bool>().prop_map(|on| Command::Record { on }),
        2 => Just(Command::Replay { recording: "0123abcd".to_owned() }),
        2 => (any::<bool>(), prop::option::of(0_u64..9_000))
            .prop_map(|(playing, position_ms)| Command::Play { playing, position_ms }),
        1 => Just(Command::Stop),
        2 => proptest::option::of(0_u64..9_000)
            .prop_map(|position_ms| Command::Annotate { text: "look".to_owned(), position_ms }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let role = prop::sample::select(Role::ALL.to_vec());
    let caller = || prop::option::weighted(0.7, 1_u32..12);
    prop_oneof![
        2 => (0_u64..4_000).prop_map(Step::Wait),
        4 => (0_u8..8, role, any::<bool>())
            .prop_map(|(who, role, admin)| Step::Join(who, role, admin)),
        1 => (1_u32..12).prop_map(Step::Resume),
        1 => (1_u32..12).prop_map(Step::Lost),
        1 => (1_u32..12).prop_map(Step::Found),
        1 => any::<bool>().prop_map(Step::Service),
        1 => any::<bool>().prop_map(Step::Recorder),
        2 => any::<bool>().prop_map(Step::Player),
        2 => (caller(), about_people()).prop_map(|(who, what)| Step::Ask(who, what)),
        6 => (caller(), about_floors()).prop_map(|(who, what)| Step::Ask(who, what)),
        1 => (caller(), about_all()).prop_map(|(who, what)| Step::Ask(who, what)),
        1 => Just(Step::TakeOver),
    ]
}

fn joining(who: u8, role: Role, admin: bool) -> Joining {
    Joining {
        role,
        rights: Rights {
            admin,
            ..Rights::default()
        },
        key: Some(Key(format!("{who:064x}"))),
        ..Joining::named(&format!("person {who}"))
    }
}

/// A session, its log and its clock.
struct World {
    machine: Machine,
    log: Vec<Record>,
    now: u64,
}

impl World {
    fn new(needs: bool, lobby: bool) -> Self {
        let id = SessionId::new("acme", "weekly").unwrap();
        let plan = Plan {
            lobby,
            needs: needs.then(|| "mixer".to_owned()).into_iter().collect(),
            end_ms: Some(80_000),
            ..Plan::titled("Weekly")
        };
        let machine = Machine::create(Time::from_millis(1), id, plan, 1).unwrap();
        let mut world = Self {
            machine,
            log: Vec::new(),
            now: 1,
        };
        world.drain();
        world
    }

    fn drain(&mut self) {
        while let Some(record) = self.machine.poll() {
            self.log.push(record);
        }
    }

    fn take(&mut self, step: Step) {
        let input = match step {
            Step::Wait(ms) => {
                self.now += ms;
                Input::Tick
            }
            Step::Join(who, role, admin) => Input::Join(joining(who, role, admin)),
            Step::Resume(member) => Input::Resume(MemberId(member), Key(format!("{:064x}", 3))),
            Step::Lost(member) => Input::Lost(MemberId(member)),
            Step::Found(member) => Input::Found(MemberId(member)),
            Step::Service(ready) => Input::Service("mixer".to_owned(), ready),
            Step::Recorder(records) => Input::Recorder("archive-1".to_owned(), records),
            Step::Player(finds) => Input::Player("archive-1".to_owned(), self.playing(finds)),
            Step::Ask(who, command) => {
                let caller = who.map_or(Caller::Operator, |who| Caller::Member(MemberId(who)));
                Input::Command(caller, command)
            }
            Step::TakeOver => return self.take_over(),
        };
        let now = Time::from_millis(self.now);
        // What is due happens before, refused or not.
        let _ = self.machine.handle(now, Input::Tick);
        self.drain();
        let before = self.machine.session().clone();
        if self.machine.handle(now, input).is_err() {
            assert_eq!(&before, self.machine.session(), "refused, and yet changed");
        }
        self.drain();
    }

    /// What a player says that has just been told.
    fn playing(&self, finds: bool) -> Playing {
        let person = |n: u32| Person {
            source: MemberId(n),
            name: format!("person {n}"),
            media: vec![Medium::Audio, Medium::Screen],
        };
        let replay = self.machine.session().watched();
        Playing {
            order: replay.map_or(0, |replay| replay.order),
            found: finds.then(|| (8_000, vec![person(1), person(2)])),
            position_ms: (!finds).then_some(1_000),
            ..Playing::default()
        }
    }

    fn take_over(&mut self) {
        let session = Session::replay(&self.log).unwrap();
        let (now, epoch) = (Time::from_millis(self.now), session.epoch());
        let stale = Machine::take_over(now, session.clone(), epoch);
        assert_eq!(stale.unwrap_err(), Refusal::Fenced);
        let before = std::mem::replace(
            &mut self.machine,
            Machine::take_over(now, session, epoch + 1).unwrap(),
        );
        self.drain();
        self.is_fenced_off(before);
    }

    /// What the earlier holder still decides nobody takes.
    fn is_fenced_off(&self, mut before: Machine) {
        let now = Time::from_millis(self.now);
        let join = joining(200, Role::Chair, true);
        if before.handle(now, Input::Join(join)).is_ok() {
            let mut session = self.machine.session().clone();
            while let Some(mut record) = before.poll() {
                assert!(!session.apply(&record), "{record:?}");
                // Not even if by chance its number is the next one.
                record.seq = session.seq() + 1;
                assert!(!session.apply(&record), "{record:?}");
            }
        }
    }

    fn check(&self) {
        let session = self.machine.session();
        assert!(session.members_len() <= limits::MEMBERS_MAX);
        let active = session.state() == State::Activated;
        for (name, room) in session.rooms() {
            for (medium, floor) in Medium::ALL.into_iter().zip(&room.floors) {
                assert!(floor.holders.len() <= usize::from(floor.rules.limit));
                assert!(active || floor.holders.is_empty() && floor.queue.is_empty());
                let mut seen = Vec::new();
                let held = floor.holders.iter().map(|holder| holder.member);
                for member in held.chain(floor.queue.iter().copied()) {
                    assert!(!seen.contains(&member), "{member} twice on one floor");
                    seen.push(member);
                    let who = session.member(member).expect("a member that is here");
                    assert_eq!(who.room.as_deref(), Some(name), "from another room");
                    assert!(who.role != Role::Observer, "an observer");
                    assert!(!who.muted.contains(&medium) && who.rights.publish.contains(&medium));
                }
                if floor.rules.mode == Mode::Free {
                    assert!(
                        !floor.has_room() || floor.queue.is_empty(),
                        "nobody waits in vain"
                    );
                }
            }
        }
        let stands = |one: &&sangam_session::Member| one.capabilities.contains(REPLAYED);
        for one in session.members().filter(stands) {
            assert!(session.is_replayed(one.id), "{} stays behind", one.id);
        }
        let doors = session.doors();
        assert!(active || doors == [("acme/weekly".to_owned(), Vec::new())]);
    }

    fn check_log(&self) {
        let mut state = State::Created;
        for (record, seq) in self.log.iter().zip(1..) {
            assert_eq!(record.seq, seq);
            if let sangam_session::Event::State { state: next } = record.event {
                assert!(state.may_become(next), "{state:?} to {next:?}");
                state = next;
            }
        }
        let replayed = Session::replay(&self.log).unwrap();
        assert_eq!(&replayed, self.machine.session());
        let text = serde_json::to_string(&replayed).unwrap();
        assert_eq!(serde_json::from_str::<Session>(&text).unwrap(), replayed);
        for record in &self.log {
            let text = serde_json::to_string(record).unwrap();
            assert_eq!(&serde_json::from_str::<Record>(&text).unwrap(), record);
        }
    }
}

proptest! {
    #[test]
    fn floors_hold_no_more_than_they_may_and_the_log_is_the_session(
        needs in any::<bool>(),
        lobby in any::<bool>(),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut world = World::new(needs, lobby);
        for step in steps {
            world.take(step);
            world.check();
        }
        world.check_log();
    }
}

#[test]
fn a_full_session_refuses_the_next_and_nobody_else() {
    let id = SessionId::new("acme", "all-hands").unwrap();
    let now = Time::from_millis(1);
    let mut machine = Machine::create(now, id, Plan::titled("All hands"), 1).unwrap();
    for number in 0..limits::MEMBERS_MAX {
        let joining = Joining::named(&format!("p{number}"));
        machine.handle(now, Input::Join(joining)).unwrap();
        while machine.poll().is_some() {}
    }
    let refused = machine.handle(now, Input::Join(Joining::named("late")));
    assert_eq!(refused.unwrap_err().code(), "full");
    let again = machine.handle(now, Input::Join(Joining::named("p7")));
    assert!(matches!(again, Ok(Answer::Joined(_))), "it replaces itself");
}
