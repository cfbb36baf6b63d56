//! Which of several ways is kept, and for how long.

use sangam_broker::LOST_GRACE;

use super::*;

#[test]
fn a_detour_that_leads_nowhere_is_given_up() {
    let mut broker = broker();
    let third = LinkId(2);
    broker.does(RoutingInput::LinkUp(third, BrokerId(40)));
    let around = Join {
        avoid: Some(A),
        ..join(C, &["a/room/audio"])
    };
    let said = broker.hears(third, Message::Join(around));
    assert_eq!(joined(&said), [(TO_B, Some(A))]);
    // From now on there is a way to C, but only through A. What others want around it must not
    // be asked for ever: they might want it because of us.
    broker.hears(TO_B, state(B, 2, &[(US, 3), (A, 3)]));
    broker.hears(TO_B, state(C, 2, &[(A, 3)]));
    broker.later(PAUSE);
    assert_eq!(joins(&broker.later(LOST_GRACE / 2)), []);
    let said = broker.later(LOST_GRACE);
    let given_up = joins(&said);
    assert_eq!(given_up.len(), 1, "{said:?}");
    assert!(given_up[0].0 == TO_B && given_up[0].1.filters.is_empty());
}
