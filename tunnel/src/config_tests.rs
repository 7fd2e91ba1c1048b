use std::collections::HashMap;
use std::io::Write;

use clap::Parser;

use super::*;
use crate::flags::{Action, Cli};

const ID: &str = "tunnel_0123456789abcdef0123456789abcdef";

fn load(args: &[&str], env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let all = ["hands-tunnel", "run"]
        .into_iter()
        .chain(args.iter().copied());
    let Action::Run(flags) = Cli::try_parse_from(all).unwrap().command else {
        panic!("not run");
    };
    let env: HashMap<String, String> = env
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    Config::load(&flags, &move |name| env.get(name).cloned())
}

const ENV: [(&str, &str); 3] = [
    ("CONTROL_PLANE_API_KEY", "key-of-the-environment"),
    ("CONTROL_PLANE_TUNNEL_ID", ID),
    ("MCP_COMMAND", "server --of 'the environment'"),
];

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let yaml = file(
        "config_version: 1\ncontrol_plane:\n  base_url: https://file.example\n  poll_timeout: 7s\n\
         mcp:\n  commands:\n    - channel: main\n      command: server --of file\n\
         log:\n  level: warn\nhealth:\n  listen_addr: 127.0.0.1:7001\n",
    );
    let path = yaml.path().to_str().unwrap();
    let mut env = ENV.to_vec();
    env.push(("HEALTH_LISTEN_ADDR", "127.0.0.1:7002"));
    env.push(("TUNNEL_CLIENT_CONFIG", path));
    let config = load(&["--mcp.command", "server --of flags"], &env).unwrap();
    assert_eq!(config.mcp_argv, ["server", "--of", "flags"]);
    assert_eq!(config.health_listen.unwrap().port(), 7002);
    assert_eq!(config.endpoint.base_url, "https://file.example");
    assert_eq!(config.endpoint.poll_timeout, Duration::from_secs(7));
    assert_eq!(config.log.level, Level::Warn);
    assert_eq!(config.endpoint.poll_guardrail, limits::POLL_GUARDRAIL);
}

#[test]
fn the_command_is_split_with_quotes_and_by_no_shell() {
    let cases: [(&str, &[&str]); 4] = [
        ("a 'b c' \"d e\"", &["a", "b c", "d e"]),
        ("a $HOME ;rm|x", &["a", "$HOME", ";rm|x"]),
        ("channel=main,command=a b", &["a", "b"]),
        ("a ''", &["a", ""]),
    ];
    for (text, argv) in cases {
        let config = load(&["--mcp.command", text], &ENV).unwrap();
        assert_eq!(config.mcp_argv, argv, "{text}");
    }
    for bad in ["a 'b", " ", "channel=tools,command=a"] {
        assert!(load(&["--mcp.command", bad], &ENV).is_err(), "{bad}");
    }
}

#[test]
fn what_is_missing_is_named_with_its_flag() {
    let cases = [
        ("CONTROL_PLANE_TUNNEL_ID", "--control-plane.tunnel-id"),
        ("CONTROL_PLANE_API_KEY", "--control-plane.api-key"),
        ("MCP_COMMAND", "--mcp.command"),
    ];
    for (name, flag) in cases {
        let env: Vec<_> = ENV.into_iter().filter(|(key, _)| *key != name).collect();
        let error = load(&[], &env).unwrap_err().to_string();
        assert!(error.contains(flag) && error.contains(name), "{error}");
    }
}

#[test]
fn the_health_pages_stay_on_loopback() {
    for good in ["127.0.0.1:0", "[::1]:8080", "localhost:8080"] {
        assert!(
            load(&["--health.listen-addr", good], &ENV).is_ok(),
            "{good}"
        );
    }
    for bad in [
        ":8080",
        "0.0.0.0:8080",
        "192.168.1.4:1",
        "[::]:1",
        "example.com:80",
        "8080",
    ] {
        assert!(load(&["--health.listen-addr", bad], &ENV).is_err(), "{bad}");
    }
    assert!(load(&[], &ENV).unwrap().health_listen.is_none());
}

#[test]
fn the_key_goes_over_https_only() {
    for good in [
        "https://x.example/",
        "http://127.0.0.1:1",
        "http://[::1]:1",
        "http://localhost:9",
    ] {
        assert!(
            load(&["--control-plane.base-url", good], &ENV).is_ok(),
            "{good}"
        );
    }
    for bad in [
        "http://x.example",
        "ftp://x",
        "x.example",
        "https://u:pass@x",
        "https://x/?k=v",
    ] {
        let error = load(&["--control-plane.base-url", bad], &ENV).unwrap_err();
        assert!(!error.to_string().contains("pass@"), "{error}");
    }
    let args = [
        "--control-plane.base-url",
        "https://x/a/",
        "--control-plane.url-path",
        "/b/c/",
    ];
    assert_eq!(
        load(&args, &ENV).unwrap().endpoint.base_url,
        "https://x/a/b/c"
    );
}

#[test]
fn a_tunnel_id_cannot_leave_its_place_in_the_path() {
    for bad in [
        "",
        "tunnel_",
        "../x",
        "tunnel_0123456789abcdef0123456789abcde/",
        "tunnel_X",
    ] {
        assert!(
            load(&["--control-plane.tunnel-id", bad], &ENV).is_err(),
            "{bad}"
        );
    }
}

#[test]
fn a_broken_file_stops_the_start_and_says_where() {
    let cases = [
        ("config_version: 2\n", "config_version 2"),
        ("log: {}\n", "config_version is missing"),
        ("config_version: 1\nharpoon:\n  targets: []\n", "harpoon"),
        ("config_version: 1\nlog:\n  levle: info\n", "levle"),
        ("config_version: 1\nlog: [\n", ""),
    ];
    for (text, expected) in cases {
        let file = file(text);
        let path = file.path().to_str().unwrap();
        let error = load(&["--config", path], &ENV).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(path), "{error}");
    }
}

#[test]
fn the_variables_that_hold_the_key_are_hidden() {
    let mut env = ENV.to_vec();
    env.push(("MY_KEY", "k"));
    let config = load(&["--control-plane.api-key", "env:MY_KEY"], &env).unwrap();
    for name in ["MY_KEY", "CONTROL_PLANE_API_KEY", "OPENAI_API_KEY"] {
        assert!(config.hidden.contains(&OsString::from(name)), "{name}");
    }
    assert_eq!(config.endpoint.key.expose(), "k");
    assert!(!format!("{config:?}").contains("key-of-the-environment"));
}

#[test]
fn numbers_have_bounds() {
    for bad in [
        ["--mcp.max-concurrent-requests", "0"],
        ["--post.max-bytes", "10"],
        ["--control-plane.poll-timeout", "0s"],
        ["--control-plane.poll-timeout", "11m"],
        ["--log.level", "loud"],
        ["--log.format", "xml"],
    ] {
        assert!(load(&bad, &ENV).is_err(), "{bad:?}");
    }
}
