//! Entries of `sandbox.hosts`: what commands may reach where the network is filtered by name.

use std::fmt;
use std::net::IpAddr;

const NO_HOST: &str =
    "is no host: it is a name, `*.` and a name, or an address; without scheme and path";

/// One entry: a host and, where one is named, its port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    /// Which hosts.
    pub host: HostPattern,
    /// The one port; none: the ports of http and https.
    pub port: Option<u16>,
}

/// Which hosts an entry names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// This name, in lower case.
    Name(String),
    /// Every name below this one (`*.` left out), but not itself.
    Below(String),
    /// This address.
    Address(IpAddr),
}

impl HostRule {
    /// Reads `name`, `*.name` or an address, each with or without `:port` (an IPv6 address with one
    /// stands in brackets).
    ///
    /// # Errors
    /// What is wrong with it, in words that go on from the entry.
    pub fn parse(text: &str) -> Result<HostRule, &'static str> {
        if let Ok(address) = text.parse() {
            return Ok(HostRule::of(HostPattern::Address(address), None));
        }
        if text.contains('/') {
            return Err(NO_HOST);
        }
        let (host, port) = match text.rsplit_once(':') {
            None => (text, None),
            Some((host, port)) => (host, Some(port_of(port)?)),
        };
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(host).parse::<IpAddr>() {
            return match bare.is_some() || address.is_ipv4() {
                true => Ok(HostRule::of(HostPattern::Address(address), port)),
                false => Err("is not clear: put an IPv6 address with a port in brackets"),
            };
        }
        let (below, name) = match host.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, host),
        };
        check_name(name)?;
        let name = name.to_ascii_lowercase();
        let pattern = match below {
            true => HostPattern::Below(name),
            false => HostPattern::Name(name),
        };
        Ok(HostRule::of(pattern, port))
    }

    fn of(host: HostPattern, port: Option<u16>) -> HostRule {
        HostRule { host, port }
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.host, self.port) {
            (HostPattern::Name(name), _) => out.write_str(name)?,
            (HostPattern::Below(name), _) => write!(out, "*.{name}")?,
            (HostPattern::Address(IpAddr::V6(address)), Some(_)) => write!(out, "[{address}]")?,
            (HostPattern::Address(address), _) => write!(out, "{address}")?,
        }
        match self.port {
            Some(port) => write!(out, ":{port}"),
            None => Ok(()),
        }
    }
}

fn port_of(text: &str) -> Result<u16, &'static str> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| digits && *port != 0);
    port.ok_or("ends in something that is no port; write it as `host`, `*.suffix` or `host:port`")
}

/// Letters, digits, `-` and `_` between dots. A name that ends in a number would be read as an
/// address by some, and a bare suffix such as `*.com` names half of the network on purpose or not at
/// all: it stays allowed, since nobody can say which suffixes are too wide.
fn check_name(name: &str) -> Result<(), &'static str> {
    if !name.is_ascii() {
        return Err("is not in ASCII: write an international name in its `xn--` form");
    }
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(plain)
    };
    if name.len() > 253 || !name.split('.').all(label) {
        return Err(NO_HOST);
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    let number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    match number {
        true => Err("looks like an address and is none"),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_as_they_were_written() {
        for text in [
            "example.org",
            "*.example.org",
            "localhost",
            "example.org:8443",
            "*.example.org:22",
            "10.0.0.5",
            "10.0.0.5:80",
            "::1",
            "[fd00::1]:443",
            "xn--bcher-kva.example",
            "a_b.example",
        ] {
            assert_eq!(HostRule::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            HostRule::parse("GitHub.COM").unwrap().to_string(),
            "github.com"
        );
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "**.x",
            "a.*.b",
            "https://example.org",
            "example.org/x",
            "example.org:",
            "example.org:0",
            "example.org:+80",
            "example.org:99999",
            "user@example.org",
            "a..b",
            ".example.org",
            "example.org.",
            "bücher.example",
            "1.2.3",
            "2130706433",
            "a.0x7f",
            "*.1",
            "a b",
            "fe80::1%eth0",
        ] {
            assert!(HostRule::parse(text).is_err(), "{text}");
        }
    }
}
