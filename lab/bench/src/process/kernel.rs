//! The kernel's own count of datagrams (`/proc/net/snmp`, RFC 4113), to hold a broker's
//! counters against.
//!
//! A UDP_SEGMENT send counts as one datagram out, and as one per packet where it arrives.

use std::fs;

/// Datagrams of all sockets in this network namespace, IPv4 and IPv6 together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UdpCounters {
    /// Send calls' messages.
    pub(crate) sent: u64,
    /// Packets that were read from a socket.
    pub(crate) read: u64,
    /// Packets dropped as the receiving socket was full.
    pub(crate) receive_full: u64,
    /// Messages dropped as the sending socket was full.
    pub(crate) send_full: u64,
    /// Packets to a port that nobody has open.
    pub(crate) no_port: u64,
}

impl UdpCounters {
    /// The counters now.
    pub(crate) fn now() -> Self {
        let v4 = fs::read_to_string("/proc/net/snmp").unwrap_or_default();
        let v6 = fs::read_to_string("/proc/net/snmp6").unwrap_or_default();
        Self::parse(&v4, &v6)
    }

    /// What was counted since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            read: self.read.saturating_sub(before.read),
            receive_full: self.receive_full.saturating_sub(before.receive_full),
            send_full: self.send_full.saturating_sub(before.send_full),
            no_port: self.no_port.saturating_sub(before.no_port),
        }
    }

    fn parse(v4: &str, v6: &str) -> Self {
        let mut lines = v4.lines().filter_map(|line| line.strip_prefix("Udp:"));
        let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
        let pairs: Vec<_> = names
            .split_whitespace()
            .zip(values.split_whitespace())
            .collect();
        let sum = |name: &str| {
            let v4 = pairs
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| *value);
            let v6 = v6.lines().find_map(|line| {
                let (known, value) = line.split_once(char::is_whitespace)?;
                (known == format!("Udp6{name}")).then(|| value.trim())
            });
            [v4, v6]
                .into_iter()
                .flatten()
                .filter_map(|text| text.parse::<u64>().ok())
                .sum()
        };
        Self {
            sent: sum("OutDatagrams"),
            read: sum("InDatagrams"),
            receive_full: sum("RcvbufErrors"),
            send_full: sum("SndbufErrors"),
            no_port: sum("NoPorts"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_are_added_up() {
        let v4 = "Ip: Forwarding\nIp: 1\n\
                  Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\n\
                  Udp: 10 1 2 30 4 5\n\
                  UdpLite: InDatagrams\nUdpLite: 99\n";
        let v6 = "Udp6InDatagrams                 \t100\nUdp6OutDatagrams\t200\n";
        let expected = UdpCounters {
            sent: 230,
            read: 110,
            receive_full: 4,
            send_full: 5,
            no_port: 1,
        };
        assert_eq!(UdpCounters::parse(v4, v6), expected);
    }
}
