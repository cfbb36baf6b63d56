//! One request by TLS, in a thread that may wait.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{ANSWER_LEN, PATIENCE};

/// Bytes of an answer in which its status stands.
const STATUS_LEN: usize = 12;

/// Believes whom this system trusts, or the authorities in the file that SSL_CERT_FILE names.
pub(super) fn of_system() -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some of the authorities that this system trusts cannot be read");
    }
    // What cannot be understood is not believed.
    let (_, _) = roots.add_parsable_certificates(found.certs);
    config(roots)
}

/// Believes these authorities.
pub(super) fn config(roots: RootCertStore) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .expect("the provider speaks TLS 1.3");
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Sends a request; the beginning of the answer.
///
/// # Errors
/// Nobody answers in time, or the certificate is not believed.
pub(super) fn exchange(
    (host, port): (&str, u16),
    config: Arc<ClientConfig>,
    request: &[u8],
) -> io::Result<Vec<u8>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    let mut tls = StreamOwned::new(connection, connect((host, port))?);
    tls.write_all(request)?;
    tls.flush()?;
    let mut answer = vec![0; ANSWER_LEN];
    let mut len = 0;
    while len < STATUS_LEN {
        match tls.read(&mut answer[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            // Whoever closes without a word has said what he had to.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    answer.truncate(len);
    Ok(answer)
}

fn connect(to: (&str, u16)) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::NotFound);
    for address in to.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
