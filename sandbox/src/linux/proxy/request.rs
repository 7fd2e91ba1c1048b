//! The first lines of what a program asks a proxy for. Hostile: read strictly, and what is passed
//! on is written anew.

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// A name in lower case without a final dot, or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// What to send to the server first; none for a tunnel.
    pub(super) forwarded: Option<Vec<u8>>,
}

/// Why a request cannot be served.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bad(pub(super) &'static str);

/// Headers that are about the way to the proxy, or are set anew. A connection serves one request:
/// what a second one asks for would not be looked at.
const NOT_PASSED: &[&str] = &[
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "te",
    "trailer",
    "upgrade",
];

impl Request {
    /// Reads a head with the empty line that ends it.
    pub(super) fn parse(head: &[u8]) -> Result<Request, Bad> {
        let head = std::str::from_utf8(head).map_err(|_| Bad("the request is not text"))?;
        let head = head.strip_suffix("\r\n\r\n").unwrap_or(head);
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Bad("the request line is not `METHOD TARGET VERSION`"));
        };
        if !is_token(method) || !["HTTP/1.0", "HTTP/1.1"].contains(&version) {
            return Err(Bad("the request is not HTTP/1"));
        }
        if method == "CONNECT" {
            let (host, port) = authority(target)?;
            let port = port.ok_or(Bad("CONNECT names no port"))?;
            let forwarded = None;
            return Ok(Request {
                host,
                port,
                forwarded,
            });
        }
        let (named, path) = split_url(target)?;
        let (host, port) = authority(named)?;
        let mut out =
            format!("{method} {path} {version}\r\nHost: {named}\r\nConnection: close\r\n");
        for line in lines {
            let Some((name, value)) = line.split_once(':').filter(|(name, _)| is_token(name))
            else {
                return Err(Bad("a header is not `NAME: VALUE`"));
            };
            if value
                .bytes()
                .any(|byte| byte == b'\r' || byte == b'\n' || byte == 0)
            {
                return Err(Bad("a header holds a line break"));
            }
            if !NOT_PASSED.contains(&name.to_ascii_lowercase().as_str()) {
                out.push_str(&format!("{name}:{value}\r\n"));
            }
        }
        out.push_str("\r\n");
        Ok(Request {
            host,
            port: port.unwrap_or(80),
            forwarded: Some(out.into_bytes()),
        })
    }
}

/// `http://HOST[:PORT][/PATH]` as what names the server and the path.
fn split_url(target: &str) -> Result<(&str, String), Bad> {
    let start = target.get(..7).unwrap_or_default();
    if !start.eq_ignore_ascii_case("http://") {
        return Err(Bad(
            "this is a proxy: it serves CONNECT and URLs that begin with http://",
        ));
    }
    if target.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err(Bad("the URL holds what a URL cannot hold"));
    }
    let rest = &target[7..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (named, path) = rest.split_at(end);
    let path = path.split('#').next().unwrap_or_default();
    match path.starts_with('/') {
        true => Ok((named, path.to_string())),
        false => Ok((named, format!("/{path}"))),
    }
}

/// `HOST` or `HOST:PORT`, where an IPv6 address stands in brackets.
fn authority(text: &str) -> Result<(String, Option<u16>), Bad> {
    const BAD: Bad = Bad("the host is neither a name nor an address");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(BAD)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| BAD)?;
            (host, port)
        }
        None => {
            let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            if !host.bytes().all(plain) {
                return Err(BAD);
            }
            (host.strip_suffix('.').unwrap_or(host), port)
        }
    };
    if host.is_empty() || host.len() > 253 {
        return Err(BAD);
    }
    let port = match port {
        "" => None,
        port => Some(port_of(port.strip_prefix(':').ok_or(BAD)?)?),
    };
    Ok((host.to_ascii_lowercase(), port))
}

fn port_of(text: &str) -> Result<u16, Bad> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| digits && *port != 0);
    port.ok_or(Bad("the port is not a number from 1 to 65535"))
}

/// A word of HTTP: no space, no sign that separates.
fn is_token(text: &str) -> bool {
    let sign = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || sign(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(head: &str) -> Result<Request, Bad> {
        Request::parse(head.as_bytes())
    }

    #[test]
    fn a_tunnel_names_host_and_port() {
        for (target, host, port) in [
            ("example.org:443", "example.org", 443),
            ("EXAMPLE.org.:8443", "example.org", 8443),
            ("[fd00::1]:443", "fd00::1", 443),
            ("10.0.0.5:22", "10.0.0.5", 22),
        ] {
            let request = parse(&format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n")).unwrap();
            assert_eq!((request.host.as_str(), request.port), (host, port));
            assert_eq!(request.forwarded, None);
        }
    }

    #[test]
    fn plain_http_is_written_anew() {
        let head = "GET http://Example.org:81/a?b#c HTTP/1.1\r\nHost: other.net\r\n\
                    Proxy-Authorization: x\r\nConnection: keep-alive, x\r\nAccept: */*\r\n\r\n";
        let request = parse(head).unwrap();
        assert_eq!((request.host.as_str(), request.port), ("example.org", 81));
        let sent = String::from_utf8(request.forwarded.unwrap()).unwrap();
        assert_eq!(
            sent,
            "GET /a?b HTTP/1.1\r\nHost: Example.org:81\r\nConnection: close\r\nAccept: */*\r\n\r\n"
        );
        let bare = parse("GET http://example.org?x HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(bare.port, 80);
        assert!(bare.forwarded.unwrap().starts_with(b"GET /?x HTTP/1.0\r\n"));
    }

    #[test]
    fn what_is_read_in_two_ways_is_refused() {
        for head in [
            "",
            "\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
            "GET https://example.org/ HTTP/1.1\r\n\r\n",
            "GET  http://example.org/ HTTP/1.1\r\n\r\n",
            "GET http://example.org/ HTTP/2\r\n\r\n",
            "GET http://user@example.org/ HTTP/1.1\r\n\r\n",
            "GET http://example.org\\@evil.net/ HTTP/1.1\r\n\r\n",
            "GET http:///x HTTP/1.1\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\n folded: x\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nName : x\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nno header\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nA: x\ny: z\r\n\r\n",
            "GET http://a/\u{e9} HTTP/1.1\r\n\r\n",
            "CONNECT example.org HTTP/1.1\r\n\r\n",
            "CONNECT example.org:0 HTTP/1.1\r\n\r\n",
            "CONNECT example.org:+1 HTTP/1.1\r\n\r\n",
            "CONNECT example.org:443:22 HTTP/1.1\r\n\r\n",
            "CONNECT fd00::1:443 HTTP/1.1\r\n\r\n",
            "CONNECT [example.org]:443 HTTP/1.1\r\n\r\n",
            "CONNECT [fe80::1%25eth0]:443 HTTP/1.1\r\n\r\n",
            "CONNECT evil.net%00.example.org:443 HTTP/1.1\r\n\r\n",
            "CONNECT :443 HTTP/1.1\r\n\r\n",
        ] {
            assert!(parse(head).is_err(), "{head:?}");
        }
        assert!(Request::parse(b"GET http://a/\xff HTTP/1.1\r\n\r\n").is_err());
    }
}
