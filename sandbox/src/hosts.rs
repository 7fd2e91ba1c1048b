//! Which hosts a filtered network lets through. Data and judgement; no I/O.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ports that a rule without one means: http and https.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// One host that may be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRule {
    /// Which hosts.
    pub host: Host,
    /// The one port; none: 80 and 443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Which hosts a rule means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Host {
    /// This name, in lower case.
    Name(String),
    /// Every name below this one, not itself.
    Below(String),
    /// This address, as a target and as what a name leads to.
    Address(IpAddr),
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code))] // The proxy is Linux's.
impl HostRule {
    /// Whether a target is meant: a name in lower case without a final dot, or an address as it
    /// is written.
    pub(crate) fn allows(&self, target: &str, port: u16) -> bool {
        let port_is_meant = match self.port {
            Some(own) => own == port,
            None => USUAL_PORTS.contains(&port),
        };
        port_is_meant
            && match &self.host {
                Host::Name(name) => target == name,
                Host::Below(name) => target
                    .strip_suffix(name.as_str())
                    .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
                Host::Address(address) => target.parse().is_ok_and(|own: IpAddr| own == *address),
            }
    }

    /// Whether this address is named.
    pub(crate) fn names(&self, address: IpAddr) -> bool {
        self.host == Host::Address(address)
    }
}

/// Whether an address belongs to this machine, its network, or a provider's own services: what
/// answers there trusts whoever can reach it.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => is_private_v6(v6),
    }
}

/// Networks that are not the public one, as (first address, bits).
const PRIVATE_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),        // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),       // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),    // a provider's own, with metadata services
    (Ipv4Addr::new(127, 0, 0, 0), 8),      // this machine
    (Ipv4Addr::new(168, 63, 129, 16), 32), // a provider's service for its virtual machines
    (Ipv4Addr::new(169, 254, 0, 0), 16),   // this link, with metadata services
    (Ipv4Addr::new(172, 16, 0, 0), 12),    // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),     // protocols
    (Ipv4Addr::new(192, 0, 2, 0), 24),     // examples
    (Ipv4Addr::new(192, 168, 0, 0), 16),   // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),    // measurements
    (Ipv4Addr::new(198, 51, 100, 0), 24),  // examples
    (Ipv4Addr::new(203, 0, 113, 0), 24),   // examples
    (Ipv4Addr::new(224, 0, 0, 0), 3),      // many at once, and reserved
];

fn is_private_v4(address: Ipv4Addr) -> bool {
    PRIVATE_V4.iter().any(|(first, bits)| {
        let shift = 32 - bits;
        address.to_bits() >> shift == first.to_bits() >> shift
    })
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let tail = Ipv4Addr::from(address.to_bits() as u32);
    match parts {
        // An IPv4 address in the clothes of IPv6: mapped, or translated on the way.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => is_private_v4(tail),
        // 6to4 carries it in front.
        [0x2002, high, low, ..] => {
            is_private_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        // Only 2000::/3 is given out; of that, what lies under 2001:0::/23 is for protocols and
        // 2001:db8::/32 and 3fff::/20 for examples.
        [0x2001, second, ..] => second < 0x200 || second == 0xdb8,
        [0x3fff, second, ..] => second < 0x1000,
        [first, ..] => first & 0xe000 != 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(host: Host, port: Option<u16>) -> HostRule {
        HostRule { host, port }
    }

    #[test]
    fn names_are_met_exactly_or_below() {
        let name = rule(Host::Name("example.org".into()), None);
        let below = rule(Host::Below("example.org".into()), None);
        for (target, exact, under) in [
            ("example.org", true, false),
            ("www.example.org", false, true),
            ("a.b.example.org", false, true),
            ("badexample.org", false, false),
            (".example.org", false, false),
            ("example.org.evil.net", false, false),
            ("org", false, false),
            ("", false, false),
        ] {
            assert_eq!(name.allows(target, 443), exact, "{target}");
            assert_eq!(below.allows(target, 443), under, "{target}");
        }
    }

    #[test]
    fn other_ports_are_named_or_shut() {
        let usual = rule(Host::Name("a".into()), None);
        let own = rule(Host::Name("a".into()), Some(22));
        assert!(usual.allows("a", 80) && usual.allows("a", 443));
        assert!(!usual.allows("a", 22) && own.allows("a", 22) && !own.allows("a", 443));
    }

    #[test]
    fn addresses_are_met_however_they_are_written() {
        let v6 = rule(Host::Address("fd00::1".parse().unwrap()), None);
        assert!(v6.allows("fd00:0:0::1", 80) && !v6.allows("fd00::2", 80));
        let v4 = rule(Host::Address("10.0.0.5".parse().unwrap()), None);
        assert!(v4.allows("10.0.0.5", 80));
        for other in [
            "10.0.0.05",
            "167772165",
            "0xa.0.0.5",
            "10.5",
            "::ffff:10.0.0.5",
        ] {
            assert!(!v4.allows(other, 80), "{other}");
        }
    }

    #[test]
    fn what_is_not_the_public_network_is_private() {
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.100.100.200",
            "127.0.0.1",
            "168.63.129.16",
            "169.254.169.254",
            "172.31.255.255",
            "192.168.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(is_private(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "172.15.0.1",
            "172.32.0.1",
            "100.128.0.1",
            "192.169.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::",
        ] {
            assert!(!is_private(address.parse().unwrap()), "{address}");
        }
    }
}
