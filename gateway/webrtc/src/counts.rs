//! What the gateway counts, beside what its shards count of every port.

use sangam_io::count::Count;

macro_rules! counts {
    ($($field:ident, $name:literal, $help:literal;)*) => {
        /// Numbers that only rise. Each shard has its own, so that none waits for another.
        #[derive(Debug, Default)]
        pub(crate) struct Counts {
            $(#[doc = $help] pub(crate) $field: Count,)*
        }

        impl Counts {
            /// Name, explanation and value of each.
            pub(crate) fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$(($name, $help, self.$field.get())),*]
            }
        }
    };
}

counts! {
    joined, "sangam_webrtc_joined_total", "Peers whose offer was answered";
    connected, "sangam_webrtc_connected_total", "Peers whose ICE and DTLS came to an end";
    restarted, "sangam_webrtc_restarted_total", "ICE restarts";
    refused, "sangam_webrtc_refused_total", "Offers that were not answered";
    unconnected, "sangam_webrtc_unconnected_total", "Peers that did not connect in time";
    lost, "sangam_webrtc_lost_total", "Peers that were not heard any more";
    failed, "sangam_webrtc_failed_total", "Peers ended by an error in DTLS or their media";
    left, "sangam_webrtc_left_total", "Peers that left in good order";
    forwarded, "sangam_webrtc_forwarded_total", "Datagrams that another shard received";
    strangers, "sangam_webrtc_strangers_total", "Datagrams of addresses that belong to no peer";
    unknown_name, "sangam_webrtc_unknown_name_total", "STUN for nobody, or with a wrong signature";
    malformed, "sangam_webrtc_malformed_total", "Datagrams that are not STUN, DTLS, RTP or RTCP";
    overflow, "sangam_webrtc_overflow_total", "Datagrams for which a queue between shards was full";
    addresses_full, "sangam_webrtc_addresses_full_total", "Addresses beyond those a peer may have";
    unmapped, "sangam_webrtc_unmapped_total", "RTP of a peer that belongs to none of its streams";
    unheeded, "sangam_webrtc_unheeded_total", "Reports on paths that decide on no layers";
    channel_data, "sangam_webrtc_channel_data_total", "Messages by data channels, dropped unread";
    oversized, "sangam_webrtc_oversized_total", "Events too large for one datagram";
    awaiting_key, "sangam_webrtc_awaiting_key_total", "Video held back until a key frame";
    uncodable, "sangam_webrtc_uncodable_total", "Streams in a codec that the peer did not offer";
    key_requests, "sangam_webrtc_key_requests_total", "Key frames that subscribers asked for";
    layer_switches, "sangam_webrtc_layer_switches_total", "Changes of a subscriber's layer";
    shown, "sangam_webrtc_shown_total", "Times that subscribers told how high they show videos";
    shown_refused, "sangam_webrtc_shown_refused_total", "The same, too often or of no video";
    red_received, "sangam_webrtc_red_received_total", "Packets that came with earlier ones";
    red_recovered, "sangam_webrtc_red_recovered_total", "Lost sound that came with a later packet";
    red_late, "sangam_webrtc_red_late_total", "Packets that came after they had been recovered";
    red_malformed, "sangam_webrtc_red_malformed_total", "RED that is none, or not of the encoding";
    red_sent, "sangam_webrtc_red_sent_total", "Packets of sound sent with the one before";
    tcp_accepted, "sangam_webrtc_tcp_accepted_total", "Connections for ICE by TCP";
    tcp_dropped, "sangam_webrtc_tcp_dropped_total", "Packets for connections that do not read";
}
