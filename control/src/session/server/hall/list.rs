//! The list of sessions: of this server as they are, of others as they keep them.

use std::collections::BTreeMap;

use sangam_session::Session;
use serde_json::json;
use tokio::sync::oneshot;

use super::super::super::store::{Listed, Listing, StoreError};
use super::super::super::view;
use super::super::Failure;
use super::Hall;

impl Hall {
    pub(super) fn list(
        &mut self,
        wanted: Listing,
        answer: oneshot::Sender<Result<Listed, Failure>>,
    ) {
        let mut own = self.own(&wanted);
        let most = wanted.most;
        let tell = move |others: Result<Listed, StoreError>| {
            let listed = others.map(|mut all| {
                // What is here is told as it is now.
                all.append(&mut own);
                while all.len() > most {
                    all.pop_last();
                }
                all
            });
            // Whoever asked may have given up.
            let _ = answer.send(listed.map_err(|error| Failure::Store(error.to_string())));
        };
        self.options.store.list(wanted, Box::new(tell));
    }

    /// Those of this server.
    fn own(&self, wanted: &Listing) -> Listed {
        let tenant = wanted.tenant.as_ref();
        let named = self
            .hosted
            .iter()
            .map(|(id, hosted)| (id.to_string(), id, hosted));
        let named = named.filter(|(name, id, _)| {
            *name > wanted.after && tenant.is_none_or(|tenant| *tenant == id.tenant)
        });
        // By name as a whole, which is not the order of tenants.
        let sorted: BTreeMap<String, &Session> = named
            .map(|(name, _, hosted)| (name, hosted.machine.session()))
            .collect();
        let servers = self.options.store.servers();
        let shown = sorted.into_iter().take(wanted.most).map(|(name, session)| {
            let mut look = view::brief(session);
            if let Some(here) = servers.first() {
                look["server"] = json!(here.url);
            }
            (name, look)
        });
        shown.collect()
    }
}
