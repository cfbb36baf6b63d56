//! What must hold in the end.

use core::time::Duration;

use sangam_reliable::Keeper;

use crate::client::Client;
use crate::world::World;

impl World {
    /// Everybody has everything; those that came first from the first event on.
    pub(crate) fn check_complete(&self) {
        let seed = self.seed;
        for sender in self.publishers() {
            let (id, sent) = (sender.publishes.unwrap(), sender.sent);
            assert_eq!(
                sender.member.unheld(id),
                0,
                "seed {seed}: {id} is not held\n{}",
                self.picture()
            );
            for (number, client) in self.subscribers() {
                let last = client.last.get(&id).copied().unwrap_or(0);
                assert_eq!(
                    (last, client.gaps),
                    (sent, 0),
                    "seed {seed}: client {number} has {last} of {sent} events of {id}\n{}",
                    self.picture()
                );
            }
        }
    }

    /// Everybody has the last event; what was left out was told (see [`Client::read`]).
    pub(crate) fn check_honest(&self) {
        let seed = self.seed;
        for sender in self.publishers() {
            let (id, sent) = (sender.publishes.unwrap(), sender.sent);
            for (number, client) in self.subscribers() {
                assert!(
                    client.knows(id, sent),
                    "seed {seed}: client {number} has not all {sent} events of {id}\n{}",
                    self.picture()
                );
            }
        }
    }

    /// Nobody waited for longer than this once all was well again.
    pub(crate) fn check_pauses(&self, most: Duration) {
        let (longest, at) = (self.pauses.longest(), self.pauses.at);
        assert!(
            longest <= most,
            "seed {}: a pause of {longest:?} that ended at {at:?}\n{}",
            self.seed,
            self.picture()
        );
    }

    fn picture(&self) -> String {
        let brokers = (0..).zip(&self.brokers).map(|(index, broker): (usize, _)| {
            let counters = broker.keeper.as_ref().map(Keeper::counters);
            format!("broker {index}: {counters:?}\n")
        });
        let clients = (0..).zip(&self.clients).map(|(index, client): (usize, _)| {
            format!(
                "client {index} at {:?}: sent {}, received {}, gaps {}, live {}\n",
                client.session, client.sent, client.received, client.gaps, client.live
            )
        });
        brokers.chain(clients).collect()
    }

    fn publishers(&self) -> impl Iterator<Item = &Client> {
        let all = self.clients.iter();
        all.filter(|client| client.publishes.is_some())
    }

    fn subscribers(&self) -> impl Iterator<Item = (usize, &Client)> {
        let all = (0..).zip(&self.clients);
        all.filter(|(_, client)| client.publishes.is_none())
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.publishers().all(|sender| {
            let (id, sent) = (sender.publishes.unwrap(), sender.sent);
            sender.member.unheld(id) == 0 && self.subscribers().all(|(_, one)| one.knows(id, sent))
        })
    }
}
