//! What alerts lead to.

use std::sync::{Arc, Weak};

use sangam_control::monitor::threshold::{Action, Actions, Alert, Thresholds};
use sangam_control::monitor::webhook::{Webhooks, webhooks};
use sangam_model::BrokerId;
use sangam_node::Broker;

/// Acts on alerts: logs each, and does what its rule says.
pub(crate) struct Follow {
    actions: Box<dyn Actions + Send>,
    webhooks: Webhooks,
}

impl Follow {
    /// Acts on an alert, without waiting for anybody.
    pub(crate) fn act(&mut self, thresholds: &Thresholds, alert: &Alert) {
        let Alert {
            measure,
            value,
            bound,
            broker,
            peer,
            action,
            ..
        } = alert;
        if alert.raised {
            tracing::warn!(
                measure,
                value,
                bound,
                broker,
                peer,
                ?action,
                "threshold passed"
            );
        } else {
            tracing::info!(
                measure,
                value,
                bound,
                broker,
                peer,
                ?action,
                "threshold cleared"
            );
        }
        match alert.action {
            Action::Alert => {}
            Action::RaiseWeight => self.actions.raise_weight(alert),
            Action::Invalidate => self.actions.invalidate(alert),
            Action::Drain => self.actions.drain(alert),
            Action::Webhook => self.post(thresholds, alert),
        }
    }

    fn post(&self, thresholds: &Thresholds, alert: &Alert) {
        let url = thresholds.rule(alert).and_then(|rule| rule.url.as_deref());
        // Checked with the configuration.
        if let Some(url) = url.and_then(|url| url.parse().ok()) {
            self.webhooks.post(&url, json(alert));
        }
    }
}

/// Acts on this process' own broker.
#[derive(Debug)]
struct Own(Weak<Broker>);

/// What a link costs that is to be spared: as much as a second of delay.
const RAISED: u16 = 10_000;
/// What a link costs that is to be used only where there is no other.
const INVALID: u16 = u16::MAX;

impl Own {
    fn weigh(&self, alert: &Alert, weight: u16) {
        let peer = alert.peer.as_deref();
        let peer = peer.and_then(|peer| u32::from_str_radix(peer, 16).ok());
        if let (Some(broker), Some(peer)) = (self.0.upgrade(), peer) {
            broker.weigh(BrokerId(peer), alert.raised.then_some(weight));
        }
    }
}

impl Actions for Own {
    fn raise_weight(&mut self, link: &Alert) {
        self.weigh(link, RAISED);
    }

    fn invalidate(&mut self, link: &Alert) {
        self.weigh(link, INVALID);
    }

    fn drain(&mut self, alert: &Alert) {
        if !alert.raised {
            tracing::info!("the broker stays drained until it is started anew");
        } else if let Some(broker) = self.0.upgrade() {
            broker.drain();
        }
    }
}

/// Follows alerts about `broker`, or about those of others if it is `None`, within a tokio
/// runtime, which posts them.
pub(crate) fn follow(broker: Option<&Arc<Broker>>) -> Follow {
    let (webhooks, postman) = webhooks();
    tokio::spawn(postman.run());
    Follow {
        actions: match broker {
            Some(broker) => Box::new(Own(Arc::downgrade(broker))),
            None => Box::new(NoActions),
        },
        webhooks,
    }
}

/// An alert as it is published and posted.
pub(crate) fn json(alert: &Alert) -> String {
    serde_json::to_string(alert).unwrap_or_default()
}

/// Acts on nothing: this process does not own the brokers it watches.
#[derive(Debug)]
struct NoActions;

impl Actions for NoActions {
    fn raise_weight(&mut self, link: &Alert) {
        unsupported(link);
    }

    fn invalidate(&mut self, link: &Alert) {
        unsupported(link);
    }

    fn drain(&mut self, broker: &Alert) {
        unsupported(broker);
    }
}

fn unsupported(alert: &Alert) {
    tracing::warn!(action = ?alert.action, "this action cannot be taken here; the alert stands");
}
