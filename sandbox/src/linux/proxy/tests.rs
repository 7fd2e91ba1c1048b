use super::*;
use crate::hosts::Host;

fn proxy(hosts: &[(Host, Option<u16>)]) -> Proxy {
    let rule = |(host, port): &(Host, Option<u16>)| HostRule {
        host: host.clone(),
        port: *port,
    };
    Proxy {
        rules: hosts.iter().map(rule).collect(),
        refused: Mutex::default(),
        connections: AtomicUsize::new(0),
    }
}

fn name(name: &str) -> Host {
    Host::Name(name.into())
}

#[test]
fn what_is_not_named_is_not_even_looked_up() {
    let proxy = proxy(&[(name("example.org"), None)]);
    let refusal = proxy.addresses("evil.invalid", 443).unwrap_err();
    assert_eq!(refusal.status, "403 Forbidden");
    for part in ["evil.invalid:443", "`sandbox.hosts`", "your user"] {
        assert!(refusal.message.contains(part), "{}", refusal.message);
    }
    assert_eq!(
        proxy.addresses("example.org", 22).unwrap_err().status,
        refusal.status
    );
    assert_eq!(proxy.notes().len(), 2);
}

#[test]
fn a_name_leads_to_this_machine_only_where_the_address_is_named() {
    let port = Some(8080);
    let shut = proxy(&[(name("localhost"), port)]);
    let refusal = shut.addresses("localhost", 8080).unwrap_err();
    assert!(refusal.message.contains("private address"), "{refusal:?}");
    let open = proxy(&[
        (name("localhost"), port),
        (Host::Address("127.0.0.1".parse().unwrap()), port),
    ]);
    let found = open.addresses("localhost", 8080).unwrap();
    assert_eq!(found, ["127.0.0.1:8080".parse().unwrap()]);
}

#[test]
fn an_address_is_reached_only_where_it_is_named() {
    let named: IpAddr = "127.0.0.1".parse().unwrap();
    let proxy = proxy(&[(Host::Address(named), Some(1))]);
    assert!(proxy.addresses("127.0.0.1", 1).is_ok());
    for other in [
        "127.0.0.2",
        "2130706433",
        "127.1",
        "0x7f.0.0.1",
        "::ffff:127.0.0.1",
        "::1",
    ] {
        let refusal = proxy.addresses(other, 1).unwrap_err();
        assert_eq!(refusal.status, "403 Forbidden", "{other}");
    }
}

#[test]
fn notes_are_few_and_each_is_told_once() {
    let proxy = proxy(&[]);
    for n in 0..100 {
        proxy.refuse(&format!("h{n}.invalid"), 443, "no");
        proxy.refuse("same.invalid", 443, "no");
    }
    assert_eq!(proxy.notes().len(), limits::BROKER_NOTES);
}
