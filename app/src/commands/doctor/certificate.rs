//! The certificate that a broker shows.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sangam_io::tls::{self, Clients};

use super::Check;
use crate::assemble;
use crate::config::Tls;

const NAME: &str = "certificate";
const DAY: Duration = Duration::from_secs(86_400);
/// Renewals often take a person.
const SOON: Duration = Duration::from_secs(14 * 86_400);

pub(super) fn checks(config: &Tls) -> Option<Check> {
    const FILES: &str = "name the right files in tls.certificate, tls.key and tls.ca";
    let identity = match assemble::certificate(config) {
        Ok((identity, _)) => identity?,
        Err(failure) => return Some(Check::bad(NAME, failure.message, FILES)),
    };
    if let Err(error) = tls::server(&identity, Clients::Anonymous, &[]) {
        return Some(Check::bad(NAME, error.to_string(), FILES));
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Some(judge(identity.validity(), now))
}

/// How a certificate stands that is valid from then until then, since the epoch.
fn judge(validity: Option<(Duration, Duration)>, now: Duration) -> Check {
    let Some((from, until)) = validity else {
        let advice = "issue it anew, as X.509 version 3";
        return Check::bad(NAME, "it cannot be read", advice);
    };
    let days = |time: Duration| time.as_secs() / DAY.as_secs();
    if now < from {
        let found = format!("it is valid only in {} days", days(from - now) + 1);
        return Check::bad(NAME, found, "check this machine's clock");
    }
    let Some(left) = until.checked_sub(now) else {
        let found = format!("it expired {} days ago", days(now - until));
        return Check::bad(NAME, found, "renew it and send the broker SIGHUP");
    };
    let found = format!("fits its key and is valid for {} days", days(left));
    if left < SOON {
        return Check::poor(NAME, found, "renew it and send the broker SIGHUP");
    }
    Check::good(NAME, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::State;

    #[test]
    fn an_end_is_told_before_it_comes() {
        let valid = Some((DAY * 10, DAY * 100));
        for (now, state) in [
            (DAY * 9, State::Bad),
            (DAY * 11, State::Good),
            (DAY * 90, State::Poor),
            (DAY * 101, State::Bad),
        ] {
            assert_eq!(judge(valid, now).state, state, "{now:?}");
        }
        assert_eq!(judge(None, DAY).state, State::Bad);
    }
}
