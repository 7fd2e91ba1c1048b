//! What of the network a command reaches in each mode, tried by real programs.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Ran, World, run, try_run};
use hands_sandbox::linux::SessionNetwork;
use hands_sandbox::{Host, HostRule, Network, Request};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// A server that says its name to whoever connects, as many times as it is asked, and then ends.
const SERVER: &str = "import socket,sys\n\
    s=socket.create_server(('127.0.0.1', 7411))\n\
    open(sys.argv[1], 'w').write('ready')\n\
    for _ in range(int(sys.argv[2])):\n\
    \x20   c=s.accept()[0]; c.sendall(sys.argv[3].encode()+b'\\n'); c.close()\n";

fn session() -> SessionNetwork {
    SessionNetwork::make(&common::program()).unwrap()
}

fn loopback(session: &SessionNetwork) -> Network {
    Network::Loopback {
        namespace: Some(session.path()),
    }
}

fn request(world: &World, network: &Network, command: &str) -> Request {
    let mut request = world.request(command);
    request.plan.network = network.clone();
    request
}

fn wait_for(what: impl Fn() -> bool) {
    let by = Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(Instant::now() < by);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Processes in the namespace that the link of this path names.
fn inhabitants(path: &std::path::Path) -> usize {
    let name = std::fs::read_link(path).unwrap();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| std::fs::read_link(entry.path().join("ns/net")).is_ok_and(|own| own == name))
        .count()
}

#[test]
fn commands_of_a_session_share_a_loopback_and_nobody_else_has_it() {
    let world = World::new();
    world.write("server.py", SERVER);
    let (one, other) = (session(), session());
    let serve = request(
        &world,
        &loopback(&one),
        "python3 server.py ready 2 mine-4711",
    );
    let serving = std::thread::spawn(move || run(&serve));
    wait_for(|| world.at("ready").exists());
    let ask = "exec 3<>/dev/tcp/127.0.0.1/7411 && cat <&3";
    let own = run(&request(&world, &loopback(&one), ask));
    assert_eq!(own.out, "mine-4711\n");
    for network in [
        loopback(&other),
        Network::Loopback { namespace: None },
        Network::Off,
    ] {
        let strange = run(&request(&world, &network, ask));
        assert_ne!(strange.code, Some(0), "{network:?}: {}", strange.out);
    }
    // Nor the machine itself: whatever may listen there is not it.
    if let Ok(mut stream) = std::net::TcpStream::connect("127.0.0.1:7411") {
        let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        assert!(!text.contains("mine-4711"));
    }
    let last = run(&request(&world, &loopback(&one), ask));
    assert_eq!(last.out, "mine-4711\n");
    assert_eq!(serving.join().unwrap().code, Some(0));
    // bubblewrap itself ends a moment after the command.
    wait_for(|| inhabitants(&one.path()) == 0);
}

#[test]
fn a_shared_loopback_leads_nowhere_else() {
    let world = World::new();
    let session = session();
    let here = TcpListener::bind("0.0.0.0:0").unwrap();
    here.set_nonblocking(true).unwrap();
    let port = here.local_addr().unwrap().port();
    let hosts = Network::Hosts {
        namespace: Some(session.path()),
        rules: vec![],
    };
    for network in [
        loopback(&session),
        hosts,
        Network::Loopback { namespace: None },
        Network::Off,
    ] {
        let tried = format!(
            "exec 2>/dev/null; for to in 127.0.0.1 $(hostname -I) 1.1.1.1 ::1; do \
             (exec 3<>/dev/tcp/$to/{port}) && echo reached $to; done; \
             tail -n +3 /proc/net/dev | cut -d: -f1; tail -n +2 /proc/net/route"
        );
        let ran = run(&request(&world, &network, &tried));
        assert_eq!(ran.out.trim(), "lo", "{network:?}");
        assert!(here.accept().is_err(), "{network:?}");
    }
}

/// Joining changes nothing of the rest: the broker, its ledger, signals and the end.
#[test]
fn the_guard_holds_in_a_shared_namespace() {
    let world = World::new();
    world.write("old", "old");
    let session = session();
    let ran = run(&request(
        &world,
        &loopback(&session),
        "rm -f old; echo x > own && rm own && echo new > old; cat /proc/self/uid_map | wc -l",
    ));
    assert_eq!(world.read("old").unwrap(), "new\n");
    assert!(world.has_kept("old") && !world.at("own").exists());
    assert!(!ran.done.guarded.refused.is_empty());
    let mut long = request(&world, &loopback(&session), "sleep 100 & sleep 100");
    long.timeout_ms = 300;
    let ended = run(&long);
    assert!(ended.done.timed_out && ended.done.wall_ms < 20_000);
    wait_for(|| inhabitants(&session.path()) == 0);
}

#[test]
fn what_is_no_namespace_of_a_session_refuses_the_command() {
    let world = World::new();
    for file in [
        "/proc/self/ns/mnt",
        "/dev/null",
        "/no/such",
        "/proc/1/ns/net",
    ] {
        let network = Network::Loopback {
            namespace: Some(file.into()),
        };
        let refused = try_run(&request(&world, &network, "echo ran > ran"));
        assert!(refused.is_err(), "{file}");
        assert!(!world.at("ran").exists(), "{file}");
    }
}

/// A web server on the machine: answers each connection with what it was asked.
fn web_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut got = [0; 4096];
            let n = stream.read(&mut got).unwrap_or(0);
            let body = String::from_utf8_lossy(&got[..n]).replace("\r\n", "|");
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    port
}

/// Says `request` to the proxy that the environment names, and shows the answer.
fn ask(world: &World, rules: &[HostRule], request_text: &str) -> Ran {
    let session = session();
    let network = Network::Hosts {
        namespace: Some(session.path()),
        rules: rules.to_vec(),
    };
    let line = format!(
        "proxy=${{https_proxy#http://}}; exec 3<>/dev/tcp/${{proxy/://}}; \
         printf '{request_text}' >&3; cat <&3"
    );
    run(&request(world, &network, &line))
}

fn rule(host: Host, port: u16) -> HostRule {
    HostRule {
        host,
        port: Some(port),
    }
}

#[test]
fn named_hosts_are_reached_through_the_proxy_and_no_others() {
    let world = World::new();
    let (open, shut) = (web_server(), web_server());
    let address = || Host::Address("127.0.0.1".parse().unwrap());
    let rules = [
        rule(Host::Name("localhost".into()), open),
        rule(address(), open),
    ];
    let by_name = format!("GET http://localhost:{open}/x HTTP/1.1\\r\\nHost: other\\r\\n\\r\\n");
    let got = ask(&world, &rules, &by_name);
    assert!(got.out.contains("200 OK"), "{}", got.out);
    let sent = format!("GET /x HTTP/1.1|Host: localhost:{open}|Connection: close||");
    assert!(got.out.contains(&sent), "{}", got.out);

    let tunnel = format!("CONNECT 127.0.0.1:{open} HTTP/1.1\\r\\n\\r\\nhello through it");
    let got = ask(&world, &rules, &tunnel);
    assert!(
        got.out.starts_with("HTTP/1.1 200 Connection"),
        "{}",
        got.out
    );
    assert!(got.out.ends_with("hello through it"), "{}", got.out);

    for (target, why) in [
        (format!("127.0.0.1:{shut}"), "not in `sandbox.hosts`"),
        (format!("localhost:{shut}"), "not in `sandbox.hosts`"),
        ("example.org:443".to_string(), "not in `sandbox.hosts`"),
        ("169.254.169.254:80".to_string(), "not in `sandbox.hosts`"),
    ] {
        let tunnel = format!("CONNECT {target} HTTP/1.1\\r\\n\\r\\nhello");
        let got = ask(&world, &rules, &tunnel);
        assert!(got.out.starts_with("HTTP/1.1 403 Forbidden"), "{}", got.out);
        assert!(
            got.out.contains(&target) && got.out.contains(why),
            "{}",
            got.out
        );
        let told = got.done.guarded.refused.concat();
        assert!(told.contains(&target) && told.contains(why), "{told}");
    }
    // A name alone does not open what it leads to.
    let name_only = [rule(Host::Name("localhost".into()), open)];
    let got = ask(&world, &name_only, &by_name);
    assert!(got.out.starts_with("HTTP/1.1 403 Forbidden"), "{}", got.out);
    assert!(got.out.contains("private address"), "{}", got.out);
}

#[test]
fn many_connections_and_broken_requests_do_not_stop_the_proxy() {
    let world = World::new();
    let open = web_server();
    let session = session();
    let network = Network::Hosts {
        namespace: Some(session.path()),
        rules: vec![rule(Host::Address("127.0.0.1".parse().unwrap()), open)],
    };
    let line = format!(
        "p=${{https_proxy#http://}}; p=/dev/tcp/${{p/://}}\n\
         for n in $(seq 40); do exec {{fd}}<>$p; printf 'GET http://' >&$fd; done\n\
         for bad in 'x' '\\r\\n\\r\\n' 'CONNECT\\r\\n\\r\\n' 'GET / HTTP/1.1\\r\\n\\r\\n'; do\n\
           (exec 3<>$p; printf \"$bad\" >&3; exec 3>&-); done\n\
         for n in $(seq 20); do (exec 3<>$p\n\
           printf 'GET http://127.0.0.1:{open}/ HTTP/1.1\\r\\n\\r\\n' >&3\n\
           cat <&3 | grep -c '200 OK') & done; wait"
    );
    let ran = run(&request(&world, &network, &line));
    assert_eq!(ran.out, "1\n".repeat(20));
}
