//! How this asks others over HTTP.

use std::error::Error;
use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;

/// A client that believes whom this system trusts, or the authorities in the file that
/// `SSL_CERT_FILE` names, and gives up after so long.
///
/// It follows no redirects: they would carry what is sent to whom it was not meant for.
pub(crate) fn client(patience: Duration) -> Client {
    let builder = || Client::builder().redirect(Policy::none()).timeout(patience);
    builder().build().unwrap_or_else(|error| {
        let error = cause(&error);
        tracing::warn!(
            error,
            "this system trusts no authority: nobody is reached by https"
        );
        let nobody = builder().tls_certs_only([]).build();
        nobody.unwrap_or_default()
    })
}

/// The innermost reason, which says most.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    let mut reason: &dyn Error = error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    reason.to_string()
}
