//! How connections behave: sizes, timeouts, congestion control, certificates.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, ServerConfig, TransportConfig,
    VarInt,
};

use super::congestion::Factory;
use crate::tls::ALPN_UNITS;

/// RFC 9000 section 14: every path carries it, and connections start with it.
const PAYLOAD_MIN: u16 = 1_200;
/// Streams of either kind that a peer may open: one for frames, one for data.
const STREAMS: u32 = 1;
/// Bytes a peer may have on its way on one stream.
const STREAM_WINDOW: u32 = 256 << 10;
/// Bytes of streams that quinn-proto holds until they are acknowledged.
const SEND_WINDOW: u64 = 256 << 10;
/// Bytes of datagrams that wait for the owner: it takes them after each batch.
const DATAGRAMS_IN: usize = 1 << 20;
/// Bytes of datagrams that quinn-proto may hold unsent: two of the largest packets, so that at
/// most so much is ahead of an audio packet.
const DATAGRAMS_OUT: usize = 3_200;
/// Before the first measurement. RFC 9002 section 6.2.2 says 333 ms; a lost hello of a call
/// should not cost that.
const RTT_GUESS: Duration = Duration::from_millis(100);
/// Connection attempts that are looked at at once: each is settled before the next is taken.
const INCOMING: usize = 64;
/// Bytes that come before an attempt is settled.
const INCOMING_BYTES: u64 = 16 << 10;

/// What an endpoint is made with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Accepts connections with this certificate; none are accepted without.
    pub server: Option<Arc<rustls::ServerConfig>>,
    /// Dials with these roots of trust.
    pub client: Option<Arc<rustls::ClientConfig>>,
    /// Largest UDP payload, in bytes; the path is probed for it from 1,200 on.
    pub datagram_max: u16,
    /// A connection on which nothing comes for so long is over.
    pub idle: Duration,
    /// Connections at once, those that are being closed included.
    pub connections_max: usize,
    /// Attempts by strangers that are answered each second.
    pub strangers_per_s: u32,
    /// Which of the sockets that share a port this is: the first byte of its connection ids.
    pub member: u8,
}

/// Why an endpoint cannot be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// QUIC needs TLS 1.3 with AES-128-GCM, and this TLS configuration has it not.
    Tls,
    /// The idle timeout is beyond what QUIC can express.
    Idle,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls => "the TLS configuration lacks TLS 1.3 with AES-128-GCM, which QUIC needs",
            Self::Idle => "the idle timeout is too long for QUIC",
        })
    }
}

impl core::error::Error for ConfigError {}

impl Config {
    pub(super) fn endpoint(&self) -> EndpointConfig {
        let mut config = EndpointConfig::default();
        let member = self.member;
        config.cid_generator(move || Box::new(super::accept::ConnectionIds::new(member)));
        let largest = self.datagram_max.max(PAYLOAD_MIN);
        // Only sizes outside 1,200..=65,527 are refused.
        let _ = config.max_udp_payload_size(largest.min(65_527));
        config
    }

    pub(super) fn server(&self) -> Result<Option<Arc<ServerConfig>>, ConfigError> {
        let Some(tls) = &self.server else {
            return Ok(None);
        };
        let mut tls = rustls::ServerConfig::clone(tls);
        tls.alpn_protocols = vec![ALPN_UNITS.to_vec()];
        tls.max_early_data_size = 0;
        let crypto = QuicServerConfig::try_from(tls).map_err(|_| ConfigError::Tls)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config
            .transport_config(self.transport()?)
            .max_incoming(INCOMING)
            .incoming_buffer_size(INCOMING_BYTES)
            .incoming_buffer_size_total(INCOMING_BYTES * INCOMING as u64);
        Ok(Some(Arc::new(config)))
    }

    pub(super) fn client(&self) -> Result<Option<ClientConfig>, ConfigError> {
        let Some(tls) = &self.client else {
            return Ok(None);
        };
        let mut tls = rustls::ClientConfig::clone(tls);
        tls.alpn_protocols = vec![ALPN_UNITS.to_vec()];
        tls.enable_early_data = false;
        let crypto = QuicClientConfig::try_from(tls).map_err(|_| ConfigError::Tls)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(self.transport()?);
        Ok(Some(config))
    }

    fn transport(&self) -> Result<Arc<TransportConfig>, ConfigError> {
        let idle = IdleTimeout::try_from(self.idle).map_err(|_| ConfigError::Idle)?;
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(self.datagram_max.max(PAYLOAD_MIN));
        let mut config = TransportConfig::default();
        config
            .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS))
            .max_concurrent_uni_streams(VarInt::from_u32(STREAMS))
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
            .receive_window(VarInt::from_u32(2 * STREAM_WINDOW))
            .send_window(SEND_WINDOW)
            .datagram_receive_buffer_size(Some(DATAGRAMS_IN))
            .datagram_send_buffer_size(DATAGRAMS_OUT)
            .max_idle_timeout(Some(idle))
            .initial_rtt(RTT_GUESS)
            .mtu_discovery_config(Some(discovery))
            .congestion_controller_factory(Arc::new(Factory));
        Ok(Arc::new(config))
    }
}
