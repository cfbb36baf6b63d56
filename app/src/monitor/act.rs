//! What alerts lead to.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use sangam_control::monitor::parse_id;
use sangam_control::monitor::threshold::{Action, Actions, Alert, Thresholds};
use sangam_control::monitor::webhook::{Webhooks, webhooks};
use sangam_model::BrokerId;
use sangam_node::{Broker, PinnedBy};

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
struct Own {
    broker: Weak<Broker>,
    raised: Raised,
}

/// Rule, address and peer.
type AlertKey = (usize, Option<String>, Option<String>);

/// What raised alerts want links to cost. Bounded as what is watched is.
#[derive(Debug, Default)]
struct Raised(BTreeMap<AlertKey, (BrokerId, u16)>);

/// What a link costs that is to be spared: as much as a second of delay.
const RAISED: u16 = 10_000;
/// What a link costs that is to be used only where there is no other.
const INVALID: u16 = u16::MAX;

impl Own {
    fn weigh(&mut self, alert: &Alert, weight: u16) {
        if let (Some(broker), Some((peer, weight))) =
            (self.broker.upgrade(), self.raised.take(alert, weight))
        {
            broker.weigh(peer, PinnedBy::Threshold, weight);
        }
    }
}

impl Raised {
    /// Takes an alert; whose link costs what from now on.
    fn take(&mut self, alert: &Alert, weight: u16) -> Option<(BrokerId, Option<u16>)> {
        let key = (alert.rule, alert.address.clone(), alert.peer.clone());
        let peer = if alert.raised {
            let peer = parse_id(alert.peer.as_deref()?)?;
            self.0.insert(key, (peer, weight));
            peer
        } else {
            self.0.remove(&key)?.0
        };
        // Another rule may still want the link to cost more, or this one by another way to it.
        let wanted = self.0.values().filter(|(other, _)| *other == peer);
        Some((peer, wanted.map(|(_, weight)| *weight).max()))
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
        } else if let Some(broker) = self.broker.upgrade() {
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
            Some(broker) => Box::new(Own {
                broker: Arc::downgrade(broker),
                raised: Raised::default(),
            }),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(rule: usize, raised: bool) -> Alert {
        Alert {
            schema: 1,
            rule,
            raised,
            measure: "link.loss_ppm".to_owned(),
            value: None,
            bound: 0.0,
            action: Action::RaiseWeight,
            broker: String::new(),
            name: String::new(),
            peer: Some("0000000a".to_owned()),
            address: Some("[::1]:4600".to_owned()),
            unix_ms: 0,
        }
    }

    #[test]
    fn a_link_costs_what_the_dearest_raised_alert_says_until_all_are_cleared() {
        let mut raised = Raised::default();
        let peer = BrokerId(10);
        let cost = |weight| Some((peer, weight));
        assert_eq!(raised.take(&alert(0, true), INVALID), cost(Some(INVALID)));
        assert_eq!(raised.take(&alert(1, true), RAISED), cost(Some(INVALID)));
        assert_eq!(raised.take(&alert(0, false), INVALID), cost(Some(RAISED)));
        assert_eq!(raised.take(&alert(1, false), RAISED), cost(None));
        assert_eq!(raised.take(&alert(1, false), RAISED), None);
        assert!(raised.0.is_empty());
    }
}
