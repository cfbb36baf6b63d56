//! Configurations of rustls: one version, one provider, certificates asked for or not.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, ConfigBuilder, ConfigSide, ServerConfig, WantsVerifier};

use super::any::AnyServer;
use super::{Identity, Roots, TlsError};

/// What a server wants to know of its clients.
#[derive(Clone, Debug)]
pub enum Clients {
    /// No certificate is asked for.
    Anonymous,
    /// A certificate is asked for; who has none may come, too.
    Optional(Roots),
    /// Only who has a certificate of these authorities may come (mutual TLS).
    Required(Roots),
}

/// Which servers a client believes.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those with a certificate of these authorities for the name that was dialled.
    Roots(Roots),
    /// Any at all: encrypted, but nobody knows with whom. For trying things out on one machine.
    Anybody,
}

/// A server that shows `identity` and speaks one of `alpn`, best first; empty: no ALPN at all.
///
/// # Errors
/// The key does not fit the certificate, or there are no authorities for clients.
pub fn server(
    identity: &Identity,
    clients: Clients,
    alpn: &[&[u8]],
) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = tls13(ServerConfig::builder_with_provider(provider()))?;
    // An authority without a list has revoked nothing, and says nothing of those above it.
    let verifier = |roots: Roots| {
        WebPkiClientVerifier::builder_with_provider(roots.store, provider())
            .with_crls(roots.revoked)
            .only_check_end_entity_revocation()
            .allow_unknown_revocation_status()
    };
    let builder = match clients {
        Clients::Anonymous => builder.with_no_client_auth(),
        Clients::Optional(roots) => {
            let verifier = verifier(roots).allow_unauthenticated().build();
            builder.with_client_cert_verifier(verifier.map_err(unfit)?)
        }
        Clients::Required(roots) => {
            let verifier = verifier(roots).build();
            builder.with_client_cert_verifier(verifier.map_err(unfit)?)
        }
    };
    let mut config = builder
        .with_single_cert(identity.chain().to_vec(), identity.key())
        .map_err(|error| key_error(identity, error))?;
    config.alpn_protocols = owned(alpn);
    Ok(Arc::new(config))
}

/// A client that believes `trust`, shows `identity` where it is asked for one, and offers `alpn`.
///
/// # Errors
/// The key does not fit the certificate.
pub fn client(
    trust: Trust,
    identity: Option<&Identity>,
    alpn: &[&[u8]],
) -> Result<Arc<ClientConfig>, TlsError> {
    let builder = tls13(ClientConfig::builder_with_provider(provider()))?;
    let builder = match trust {
        Trust::Roots(roots) => {
            // As for clients.
            let verifier = WebPkiServerVerifier::builder_with_provider(roots.store, provider())
                .with_crls(roots.revoked)
                .only_check_end_entity_revocation()
                .allow_unknown_revocation_status();
            builder.with_webpki_verifier(verifier.build().map_err(unfit)?)
        }
        Trust::Anybody => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer::new(provider()))),
    };
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder
            .with_client_auth_cert(identity.chain().to_vec(), identity.key())
            .map_err(|error| key_error(identity, error))?,
    };
    config.alpn_protocols = owned(alpn);
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn tls13<S: ConfigSide>(
    builder: ConfigBuilder<S, rustls::WantsVersions>,
) -> Result<ConfigBuilder<S, WantsVerifier>, TlsError> {
    builder.with_protocol_versions(&[&TLS13]).map_err(unfit)
}

fn unfit(error: impl ToString) -> TlsError {
    TlsError::Config(error.to_string())
}

fn key_error(identity: &Identity, error: rustls::Error) -> TlsError {
    let (certificate, key) = identity.sources.clone();
    TlsError::Key {
        certificate,
        key,
        error,
    }
}

fn owned(alpn: &[&[u8]]) -> Vec<Vec<u8>> {
    alpn.iter().map(|name| name.to_vec()).collect()
}
