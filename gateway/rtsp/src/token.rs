//! A newer token on its way to the broker.

use std::sync::{Arc, Mutex, PoisonError};

use sangam_client::{Client, Token};

/// What is to be shown to the broker next, if anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewToken(Arc<Mutex<Option<Token>>>);

impl NewToken {
    /// Has this one shown.
    pub(crate) fn set(&self, token: Token) {
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *next = Some(token);
    }

    /// Shows it, if there is one.
    pub(crate) fn show(&self, client: &Client) {
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(token) = next.take() else {
            return;
        };
        if let Err(error) = client.set_token(token.clone()) {
            tracing::warn!(%error, "the newer token is shown later");
            *next = Some(token);
        }
    }
}
