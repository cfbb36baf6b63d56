//! XGSP sessions: who meets, who may speak, and what everybody must agree on.
//!
//! Wu, Fox, Bulut, Uyar and Huang (section 3.3): an audio-visual session is created, activated
//! when its time has come and the services it needs are ready, and deactivated, finished or
//! canceled. Here a [`Session`] is the fold of its log: every change is an [`Event`] with a number,
//! [`Session::apply`] is the only way to change one, and whoever has applied the same [`Record`]s
//! has the same session. So a server recovers from the log, and another can go on where one died.
//!
//! A [`Machine`] decides. It takes what people ask for (`handle`), says what follows from it
//! (`poll`) and when it wants to be called again (`deadline`):
//!
//! ```
//! use sangam_model::Time;
//! use sangam_session::{
//!     Answer, Caller, Command, Input, Joining, Machine, MemberId, Medium, Plan, SessionId,
//! };
//!
//! let now = Time::from_millis(1_000);
//! let id = SessionId::new("acme", "weekly")?;
//! let mut machine = Machine::create(now, id, Plan::titled("Weekly"), 1)?;
//! let anna = Joining::named("anna");
//! let Answer::Joined(anna) = machine.handle(now, Input::Join(anna))? else {
//!     unreachable!("a join is answered by a number")
//! };
//! let request = Command::Request { medium: Medium::Audio };
//! machine.handle(now, Input::Command(Caller::Member(anna), request))?;
//! let floor = machine.session().floor("main", Medium::Audio);
//! assert!(floor.is_some_and(|floor| floor.is_held_by(anna)));
//! while let Some(record) = machine.poll() {
//!     // write it to the log, then tell everybody
//!     assert!(record.seq > 0);
//! }
//! # Ok::<(), sangam_session::Refusal>(())
//! ```
//!
//! What a floor means is enforced elsewhere: [`Session::doors`] says which topics are open, and
//! brokers let nothing through on others.

mod command;
mod decide;
mod doors;
mod event;
mod floor;
pub mod limits;
mod machine;
mod member;
mod recording;
mod seen;
mod state;
mod text;
mod way;
mod words;

pub use command::{Caller, Command, Joining, Refusal};
pub use doors::{Doors, Reach};
pub use event::{Event, Gone, Record};
pub use floor::{Floor, FloorRules, Holder, Mode};
pub use machine::{Answer, Input, Machine};
pub use member::{Key, Member, Rights};
pub use recording::{
    Annotation, Person, Played, Playing, RECORDER, REPLAYED, Recording, Replay, Said, is_recorder,
};
pub use state::{ChatLine, Plan, Room, Session, Timer};
pub use way::Way;
pub use words::{MAIN, Medium, MemberId, Role, SessionId, State};
