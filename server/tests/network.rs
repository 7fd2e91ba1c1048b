//! The network modes as a planner meets them: what the configuration opens, what a call may narrow,
//! and what it is told of a refusal.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, SOON, Server, has, until};
use serde_json::json;
use std::net::TcpListener;

fn open(place: &Place, network: &str, hosts: &str) -> Server {
    let start = place.start().env("HANDS_SANDBOX_NETWORK", network);
    start.env("HANDS_SANDBOX_HOSTS", hosts).open()
}

/// A listener of the machine, and a command that connects to it.
fn machine() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, format!("exec 3<>/dev/tcp/127.0.0.1/{port}"))
}

#[test]
fn a_call_narrows_what_the_configuration_opens_and_never_widens_it() {
    for (network, hosts) in [("off", ""), ("loopback", ""), ("hosts", "example.org")] {
        let place = Place::new();
        let (listener, connect) = machine();
        let mut server = open(&place, network, hosts);
        for asked in [json!(null), json!(true), json!(false)] {
            let reply = server.call("bash", json!({"command": connect, "network": asked}));
            let refused = network == "off" && asked == true;
            let code = if refused { "sandbox" } else { "process" };
            let reply = reply.expect(code);
            assert!(listener.accept().is_err(), "{network} {asked}");
            if refused {
                let said = reply.text();
                assert!(said.contains("`sandbox.network` is `off`"), "{said}");
            }
        }
        server.end();
    }
}

#[test]
fn a_server_of_one_call_is_reached_by_the_next_of_its_session() {
    if !has("python3") {
        return;
    }
    let place = Place::new();
    place.write("index.html", "served-4711");
    let mut server = open(&place, "loopback", "");
    let mut other = open(&place, "loopback", "");
    let serve = "python3 -c 'import http.server as h\n\
        s = h.HTTPServer((\"127.0.0.1\", 7412), h.SimpleHTTPRequestHandler)\n\
        open(\"ready\", \"w\").close(); s.handle_request()'";
    let serving = server.start_call("bash", json!({"command": serve}));
    until("it listens", SOON, || place.at("ready").exists());
    let get =
        "exec 3<>/dev/tcp/127.0.0.1/7412 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3";
    other.bash(get).expect("process");
    let alone = json!({"command": get, "network": false});
    server.call("bash", alone).expect("process");
    let got = server.bash(get).expect("ok");
    assert!(got.stdout().ends_with("served-4711"), "{}", got.stdout());
    server.reply(&serving).expect("ok");
    other.end_beside(&server);
    server.end();
}

#[test]
fn a_host_that_is_not_named_is_refused_with_its_name_and_the_setting() {
    let place = Place::new();
    let mut server = open(&place, "hosts", "*.example.org");
    let ask = "proxy=${https_proxy#http://}; exec 3<>/dev/tcp/${proxy/://}; \
               printf 'CONNECT evil.invalid:443 HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3";
    let reply = server.bash(ask).expect("ok");
    assert!(
        reply.stdout().starts_with("HTTP/1.1 403"),
        "{}",
        reply.text()
    );
    let refused = reply.data()["refused"][0].as_str().unwrap();
    for part in ["evil.invalid:443", "`sandbox.hosts`"] {
        assert!(refused.contains(part), "{refused}");
        assert!(reply.text().contains(part), "{}", reply.text());
    }
    // Where nothing is to be reached, no proxy is.
    let env = json!({"command": "echo \"${https_proxy-none}\"", "network": false});
    let off = server.call("bash", env).expect("ok");
    assert_eq!(off.stdout(), "none\n");
    server.end();
}

#[test]
fn the_schema_says_what_is_reached() {
    for (network, hosts, part, open_world) in [
        ("on", "", "It reaches the network", true),
        ("off", "", "no network", false),
        ("loopback", "", "127.0.0.1, and nothing else", false),
        (
            "hosts",
            "*.example.org,10.0.0.5:8080",
            "*.example.org, 10.0.0.5:8080",
            true,
        ),
    ] {
        let place = Place::new();
        let mut server = open(&place, network, hosts);
        let listed = server.request("tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap();
        let bash = tools.iter().find(|tool| tool["name"] == "bash").unwrap();
        let said = &bash["inputSchema"]["properties"]["network"]["description"];
        assert!(said.as_str().unwrap().contains(part), "{said}");
        assert_eq!(bash["annotations"]["openWorldHint"], open_world);
        server.end();
    }
}
