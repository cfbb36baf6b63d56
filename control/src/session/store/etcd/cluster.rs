//! The cluster, of which a member may be dead.

use std::error::Error as _;

use etcd_client::{
    Client, Error, GetOptions, GetResponse, LeaseKeepAliveStream, LeaseKeeper, PutOptions, Txn,
    TxnResponse, WatchOptions, WatchStream,
};

use tonic::{Code, ConnectError};

use super::super::StoreError;
use super::failed;

/// How often something is asked that reaches nobody. The client gives a question to the member
/// that has the fewest to answer, which is one that refuses each at once.
const TRIES: usize = 12;

/// All members, whichever of them answers.
#[derive(Clone)]
pub(super) struct Cluster(Client);

impl Cluster {
    pub(super) const fn new(client: Client) -> Self {
        Self(client)
    }

    pub(super) async fn get(
        &self,
        key: impl Into<Vec<u8>>,
        options: Option<GetOptions>,
    ) -> Result<GetResponse, StoreError> {
        let key = key.into();
        self.ask(|mut client| {
            let (key, options) = (key.clone(), options.clone());
            async move { client.get(key, options).await }
        })
        .await
    }

    pub(super) async fn put(
        &self,
        key: &str,
        value: Vec<u8>,
        options: PutOptions,
    ) -> Result<(), StoreError> {
        let put = self.ask(|mut client| {
            let (value, options) = (value.clone(), Some(options.clone()));
            async move { client.put(key, value, options).await }
        });
        put.await.map(drop)
    }

    pub(super) async fn txn(&self, txn: Txn) -> Result<TxnResponse, StoreError> {
        self.ask(|mut client| {
            let txn = txn.clone();
            async move { client.txn(txn).await }
        })
        .await
    }

    /// A lease of some seconds.
    pub(super) async fn lease_grant(&self, ttl_s: i64) -> Result<i64, StoreError> {
        let granted = self.ask(|mut client| async move { client.lease_grant(ttl_s, None).await });
        granted.await.map(|granted| granted.id())
    }

    /// Ends a lease, if it has not ended.
    pub(super) async fn lease_revoke(&self, lease: i64) -> Result<(), StoreError> {
        let revoked = self.ask(|mut client| async move {
            match client.lease_revoke(lease).await {
                Err(Error::GRpcStatus(status)) if status.code() == Code::NotFound => Ok(()),
                done => done.map(drop),
            }
        });
        revoked.await
    }

    pub(super) async fn lease_keep_alive(
        &self,
        lease: i64,
    ) -> Result<(LeaseKeeper, LeaseKeepAliveStream), StoreError> {
        self.ask(|mut client| async move { client.lease_keep_alive(lease).await })
            .await
    }

    /// What happens below a prefix from a revision on.
    pub(super) async fn watch(
        &self,
        prefix: &str,
        revision: i64,
    ) -> Result<WatchStream, StoreError> {
        self.ask(|mut client| async move {
            let options = WatchOptions::new()
                .with_prefix()
                .with_start_revision(revision);
            client.watch(prefix, Some(options)).await
        })
        .await
    }

    /// Asks again what never left: whatever it was, it was not done.
    async fn ask<T, F>(&self, once: impl Fn(Client) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        for _ in 1..TRIES {
            match once(self.0.clone()).await {
                Err(error) if was_not_sent(&error) => {
                    tracing::debug!(%error, "another member of etcd is asked");
                }
                done => return done.map_err(failed),
            }
        }
        once(self.0.clone()).await.map_err(failed)
    }
}

/// Whether there was no connection to the member that was to be asked.
fn was_not_sent(error: &Error) -> bool {
    let Error::GRpcStatus(status) = error else {
        return false;
    };
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}
