//! What a client may do, once somebody has vouched for it.

use crate::{Filter, Time, Topic};

/// Leave to publish and subscribe within one tenant, until a moment.
///
/// A token says it; who checks tokens is not known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants {
    /// The first level of every topic the client may touch, whatever the filters say.
    pub tenant: String,
    /// It may publish on topics that one of these selects.
    pub publish: Vec<Filter>,
    /// It may subscribe to filters that lie wholly within one of these.
    pub subscribe: Vec<Filter>,
    /// What it publishes is a session's: it goes nowhere before a session server has said who may
    /// speak there.
    pub gated: bool,
    /// When the leave ends, in the time of whoever holds the grants.
    pub expires: Time,
}

impl Grants {
    /// Whether a stream may be published on `topic`.
    #[must_use]
    pub fn may_publish(&self, topic: &Topic) -> bool {
        topic.tenant() == self.tenant && self.publish.iter().any(|grant| grant.matches(topic))
    }

    /// Whether everything that `filter` selects may be received. Two grants that only together
    /// cover a filter do not grant it.
    #[must_use]
    pub fn may_subscribe(&self, filter: &Filter) -> bool {
        // A wildcard in the first place reads as itself and is never the tenant's name.
        filter.levels().next() == Some(self.tenant.as_str())
            && self.subscribe.iter().any(|grant| grant.contains(filter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(publish: &[&str], subscribe: &[&str]) -> Grants {
        let filters = |texts: &[&str]| texts.iter().map(|t| Filter::new(t).unwrap()).collect();
        Grants {
            tenant: "acme".to_owned(),
            publish: filters(publish),
            subscribe: filters(subscribe),
            gated: false,
            expires: Time::NEVER,
        }
    }

    fn publishes(grants: &Grants, topic: &str) -> bool {
        grants.may_publish(&Topic::new(topic).unwrap())
    }

    fn subscribes(grants: &Grants, filter: &str) -> bool {
        grants.may_subscribe(&Filter::new(filter).unwrap())
    }

    #[test]
    fn a_grant_for_one_direction_is_none_for_the_other() {
        let grants = grants(&["acme/weekly/audio/anna"], &["acme/weekly/#"]);
        assert!(publishes(&grants, "acme/weekly/audio/anna"));
        assert!(!publishes(&grants, "acme/weekly/audio/bert"));
        assert!(subscribes(&grants, "acme/weekly/audio/+"));
        assert!(!subscribes(&grants, "acme/daily/#"));
    }

    #[test]
    fn no_filter_however_wide_leaves_the_tenant() {
        let grants = grants(&["#", "other/#"], &["#", "other/#"]);
        assert!(publishes(&grants, "acme/x") && subscribes(&grants, "acme/#"));
        assert!(!publishes(&grants, "other/x") && !subscribes(&grants, "other/x"));
        assert!(!publishes(&grants, "$sys/x") && !subscribes(&grants, "$sys/#"));
        assert!(!subscribes(&grants, "#") && !subscribes(&grants, "+/x"));
    }

    #[test]
    fn a_wildcard_wider_than_the_grant_is_not_granted() {
        let grants = grants(&[], &["acme/weekly/+"]);
        assert!(subscribes(&grants, "acme/weekly/+"));
        assert!(!subscribes(&grants, "acme/weekly/#"));
        assert!(!subscribes(&grants, "acme/+/audio"));
    }
}
