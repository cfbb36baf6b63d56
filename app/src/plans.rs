//! Hears the plans of central schedulers, for a broker that is configured to follow them.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use sangam_client::{Client, ClientError, Target};
use sangam_control::monitor::PlanListener;
use sangam_node::Broker;
use sangam_wire::PlanMethod;

use crate::exit::{Failure, io};
use crate::monitor;

/// How long the thread waits before it looks whether the broker is still there.
const WAIT: Duration = Duration::from_secs(1);

/// Lets a broker follow plans made by this method, until it ends.
///
/// # Errors
/// The system gives no thread or descriptor.
pub(crate) fn follow(broker: &Arc<Broker>, method: PlanMethod) -> Result<(), Failure> {
    let door = broker.system_door().map_err(io("cannot hear of plans"))?;
    let broker = Arc::downgrade(broker);
    let run = move || {
        let listener = Client::connect(Target::Door(door), monitor::options());
        match listener.and_then(PlanListener::new) {
            Ok(listener) => listen(listener, method, &broker),
            Err(ClientError::Closed) => {}
            Err(error) => tracing::error!(%error, "this broker hears of no plans"),
        }
    };
    let thread = thread::Builder::new().name("sangam-plans".to_owned());
    thread.spawn(run).map_err(io("cannot hear of plans"))?;
    Ok(())
}

fn listen(mut listener: PlanListener, method: PlanMethod, broker: &Weak<Broker>) {
    while let Some(plans) = listener.hear(WAIT) {
        let Some(broker) = broker.upgrade() else {
            return;
        };
        for (from, plan) in plans {
            if plan.method == method {
                broker.plan(from, plan);
            } else {
                let theirs = plan.method.name();
                tracing::debug!(%from, theirs, "plans by another method are not followed");
            }
        }
    }
}
