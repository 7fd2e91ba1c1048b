//! Settings that are texts of a form of their own.

use crate::limits;
use crate::model::{Config, TunnelClient};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The service treats ids as opaque; what could not stand in a URL's path is none.
pub(crate) fn tunnel_id(config: &mut Config, text: &str) -> Result<(), &'static str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if text.is_empty() || text.len() > limits::TUNNEL_ID_BYTES || !text.bytes().all(plain) {
        return Err("is no tunnel's id: it looks like `tunnel_` and 32 hexadecimal digits");
    }
    config.tunnel.id = Some(text.to_owned());
    Ok(())
}

/// The key goes there with every request: over TLS, or not off this machine.
pub(crate) fn base_url(config: &mut Config, text: &str) -> Result<(), &'static str> {
    let text = text.trim_end_matches('/');
    let rest = text.strip_prefix("https://");
    let plain = text.strip_prefix("http://");
    let Some(rest) = rest.or(plain).filter(|rest| !rest.is_empty()) else {
        return Err("is no https URL");
    };
    if rest.contains(['@', '?', '#', '\\']) || !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("holds more than host, port and path");
    }
    if plain.is_some() && !is_loopback(rest.split('/').next().unwrap_or_default()) {
        return Err("would send the key in the clear: plain http is for loopback addresses only");
    }
    config.tunnel.base_url = Some(text.to_owned());
    Ok(())
}

/// Whether `host` or `host:port` is this machine.
fn is_loopback(authority: &str) -> bool {
    let address = authority.parse::<SocketAddr>().map(|address| address.ip());
    let bare = authority.trim_start_matches('[').trim_end_matches(']');
    match address.or_else(|_| bare.parse()) {
        Ok(ip) => ip.is_loopback(),
        Err(_) => authority.split(':').next() == Some("localhost"),
    }
}

pub(crate) fn tunnel_client(config: &mut Config, text: &str) -> Result<(), &'static str> {
    let tunnel = &mut config.tunnel;
    tunnel.client = match text {
        "auto" => TunnelClient::Auto,
        "builtin" => TunnelClient::Builtin,
        "official" => TunnelClient::Official,
        path if path.starts_with('/') && !path.contains('\0') => {
            tunnel.client_path = Some(PathBuf::from(path));
            TunnelClient::Official
        }
        _ => return Err("is neither `auto`, `builtin`, `official` nor an absolute path"),
    };
    Ok(())
}

/// The endpoints have no lock, so they are for this machine alone.
pub(crate) fn listen(config: &mut Config, text: &str) -> Result<(), &'static str> {
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let Ok(address) = text.parse::<SocketAddr>() else {
        return Err("is no address with port, such as 127.0.0.1:8765");
    };
    if !address.ip().is_loopback() {
        return Err(
            "is no loopback address: the endpoints are for this machine alone, such as 127.0.0.1:8765",
        );
    }
    config.http.listen = address;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Set = fn(&mut Config, &str) -> Result<(), &'static str>;

    fn refused(set: Set, texts: &[&str]) {
        for text in texts {
            let mut config = Config::default();
            assert!(set(&mut config, text).is_err(), "{text:?}");
            assert_eq!(config, Config::default(), "{text:?}");
        }
    }

    #[test]
    fn endpoints_listen_on_loopback_only() {
        let mut config = Config::default();
        for (text, want) in [
            ("127.0.0.1:8768", "127.0.0.1:8768"),
            ("127.9.9.9:1", "127.9.9.9:1"),
            ("[::1]:8765", "[::1]:8765"),
            ("localhost:80", "127.0.0.1:80"),
        ] {
            listen(&mut config, text).unwrap();
            assert_eq!(config.http.listen.to_string(), want);
        }
        refused(
            listen,
            &[
                "0.0.0.0:8765",
                "[::]:8765",
                "10.0.0.1:80",
                "127.0.0.1",
                "8765",
                "example.org:80",
                "localhost:99999",
                "",
            ],
        );
    }

    #[test]
    fn the_key_goes_over_tls_or_not_off_the_machine() {
        let mut config = Config::default();
        for (text, want) in [
            ("https://api.example.org/", "https://api.example.org"),
            (
                "https://proxy.example.org:8443/openai",
                "https://proxy.example.org:8443/openai",
            ),
            ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
            ("http://[::1]:9000/x", "http://[::1]:9000/x"),
            ("http://localhost", "http://localhost"),
        ] {
            base_url(&mut config, text).unwrap();
            assert_eq!(config.tunnel.base_url.as_deref(), Some(want));
        }
        refused(
            base_url,
            &[
                "http://api.example.org",
                "http://localhost.example.org",
                "http://127.0.0.1.example.org:80",
                "http://127.0.0.1@example.org",
                "https://user:pass@example.org",
                "https://example.org/?a=b",
                "https://",
                "ftp://example.org",
                "https://a b",
                "",
            ],
        );
    }

    #[test]
    fn ids_and_clients() {
        let mut config = Config::default();
        tunnel_id(&mut config, "tunnel_0123456789abcdef0123456789abcdef").unwrap();
        refused(tunnel_id, &["", "a/b", "a b", "é", &"x".repeat(200)]);
        tunnel_client(&mut config, "/opt/tunnel-client").unwrap();
        assert_eq!(config.tunnel.client, TunnelClient::Official);
        assert_eq!(
            config.tunnel.client_path,
            Some(PathBuf::from("/opt/tunnel-client"))
        );
        tunnel_client(&mut config, "builtin").unwrap();
        assert_eq!(config.tunnel.client, TunnelClient::Builtin);
        refused(tunnel_client, &["", "other", "bin/tunnel-client"]);
    }
}
