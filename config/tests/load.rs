//! Good and broken configurations, with the exact messages.
#![allow(clippy::unwrap_used)] // Helpers of tests are not marked as tests.

use hands_config::{Env, Flags, Home, Loaded, Mode, Network, Source, load};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// A person's home with a home of Hands in it.
struct Place {
    /// Removed when dropped.
    _dir: TempDir,
    /// The folder above the person's home, with no link in its path.
    root: PathBuf,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("ann/hands-home")).unwrap();
        std::fs::create_dir_all(root.join("ann/src")).unwrap();
        Place { _dir: dir, root }
    }

    fn ann(&self) -> PathBuf {
        self.root.join("ann")
    }

    fn home(&self) -> Home {
        Home::at(self.ann().join("hands-home"))
    }

    fn file(&self, text: impl AsRef<[u8]>) -> &Place {
        std::fs::write(self.home().config_file(), text).unwrap();
        self
    }

    fn env(&self, vars: &[(&str, &str)]) -> Env {
        let ann = self.ann();
        let mut all = vec![("HOME", ann.to_str().unwrap())];
        all.extend_from_slice(vars);
        Env::of(&all)
    }

    fn load(&self, vars: &[(&str, &str)]) -> Loaded {
        load(&self.home(), &self.env(vars), &Flags::default()).unwrap()
    }

    /// The message, with the temporary folder's path taken out.
    fn error(&self, vars: &[(&str, &str)]) -> String {
        let error = load(&self.home(), &self.env(vars), &Flags::default()).unwrap_err();
        error
            .to_string()
            .replace(self.home().config_file().to_str().unwrap(), "FILE")
            .replace(self.ann().to_str().unwrap(), "ANN")
    }
}

#[test]
fn no_file_means_the_defaults() {
    let place = Place::new();
    let loaded = place.load(&[]);
    assert_eq!(loaded.config.workspaces, [place.ann().join("Hands")]);
    assert_eq!(loaded.config.reply_budget, Duration::from_secs(45));
    assert_eq!(loaded.config.limits.concurrency, 10);
    assert_eq!(loaded.config.limits.result_bytes, 1 << 20);
    assert!(loaded.config.protect.env_files);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert!(
        loaded
            .sources
            .values()
            .all(|source| *source == Source::Default)
    );
    assert!(!place.ann().join("Hands").exists(), "load changes nothing");
    let created = loaded.create_default_workspace().unwrap();
    assert_eq!(created, Some(place.ann().join("Hands")));
    assert!(place.ann().join("Hands").is_dir());
    assert_eq!(loaded.create_default_workspace().unwrap(), None);
}

#[test]
fn a_default_workspace_that_leads_nowhere_is_told_at_the_start() {
    let place = Place::new();
    std::os::unix::fs::symlink("/nowhere", place.ann().join("Hands")).unwrap();
    let error = place.load(&[]).create_default_workspace().unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("Hands cannot be created: a link to nowhere is in its place; remove the link, or make its target"),
        "{error}"
    );
}

#[test]
fn a_file_of_comments_or_blank_lines_means_the_defaults() {
    for text in ["\n", " ", "\r\n", "# nothing yet\n"] {
        let place = Place::new();
        let loaded = place.file(text).load(&[]);
        assert!(
            loaded.warnings.is_empty(),
            "{text:?}: {:?}",
            loaded.warnings
        );
        assert_eq!(loaded.config.sandbox.mode, Mode::Default);
    }
}

/// Variables and flags do not stand in for a file that was lost: it may have held more than they say.
#[test]
fn what_a_cut_write_leaves_stops_the_start() {
    let place = Place::new();
    for (text, message) in [
        (
            "",
            "FILE: is empty, as a write that was cut short leaves it; remove it to use the defaults",
        ),
        (
            "\u{feff}",
            "FILE: is empty, as a write that was cut short leaves it; remove it to use the defaults",
        ),
        ("\0\0\0\0", "FILE:1: not valid TOML: "),
        ("[sandbox]\nmode = \"str", "FILE:2: not valid TOML: "),
    ] {
        for vars in [&[][..], &[("HANDS_SANDBOX_MODE", "strict")]] {
            let error = place.file(text).error(vars);
            assert!(error.starts_with(message), "{text:?}: {error}");
        }
    }
}

#[test]
fn a_link_to_nowhere_stops_the_start() {
    use std::os::unix::fs::symlink;
    let place = Place::new();
    let file = place.home().config_file();
    symlink("/nowhere/config.toml", &file).unwrap();
    assert_eq!(
        place.error(&[]),
        "FILE: is a link to /nowhere/config.toml, which is not there; put the file back there, or remove it to use \
         the defaults"
    );
    // The home on a disk that is gone.
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_dir(place.home().root()).unwrap();
    symlink("/nowhere", place.home().root()).unwrap();
    assert_eq!(
        place.error(&[]),
        "FILE: cannot be looked for: ANN/hands-home is a link to /nowhere, which is not there; make the target, or \
         remove the link"
    );
    // A link to a file that is there serves.
    std::fs::remove_file(place.home().root()).unwrap();
    std::fs::create_dir(place.home().root()).unwrap();
    std::fs::write(place.ann().join("dotfiles.toml"), "reply_budget_s = 20\n").unwrap();
    symlink("../dotfiles.toml", &file).unwrap();
    assert_eq!(place.load(&[]).config.reply_budget, Duration::from_secs(20));
}

#[test]
fn file_then_environment_then_flags() {
    let place = Place::new();
    place.file(
        "\u{feff}workspaces = [\"~/src/\"]\nreply_budget_s = 20\n[sandbox]\nmode = \"strict\"\nnetwork = false\n\
         [env]\npass = [\"EDITOR\", \"GOPATH\"]\n",
    );
    let loaded = place.load(&[("HANDS_REPLY_BUDGET_S", "1.5"), ("HANDS_TRAIL_KEEP", "3")]);
    assert_eq!(loaded.config.workspaces, [place.ann().join("src")]);
    assert_eq!(loaded.config.reply_budget, Duration::from_millis(1500));
    assert_eq!(loaded.config.sandbox.mode, Mode::Strict);
    assert_eq!(loaded.config.sandbox.network, Network::Off);
    assert_eq!(loaded.config.env.pass, ["EDITOR", "GOPATH"]);
    assert_eq!(loaded.config.trail.keep, 3);
    assert_eq!(loaded.sources["sandbox.mode"], Source::File { line: 4 });
    assert_eq!(
        loaded.sources["reply_budget_s"],
        Source::Env {
            name: "HANDS_REPLY_BUDGET_S".to_owned()
        }
    );

    let flags = Flags::default()
        .set("sandbox.mode", "read-only")
        .workspace(&place.ann());
    let error = load(&place.home(), &place.env(&[]), &flags).unwrap_err();
    assert!(
        error.to_string().starts_with("flag workspaces: "),
        "{error}"
    );
    let flags = Flags::default().set("sandbox.mode", "read-only");
    let loaded = load(&place.home(), &place.env(&[]), &flags).unwrap();
    assert_eq!(loaded.config.sandbox.mode, Mode::ReadOnly);
    assert_eq!(loaded.sources["sandbox.mode"], Source::Flag);
}

#[test]
fn every_way_of_writing_a_section_is_read() {
    for text in [
        "[sandbox]\nmode = \"strict\"",
        "sandbox.mode = \"strict\"",
        "sandbox = { mode = \"strict\" }",
    ] {
        let place = Place::new();
        let loaded = place.file(text).load(&[]);
        assert_eq!(loaded.config.sandbox.mode, Mode::Strict, "{text}");
    }
}

#[test]
fn broken_files_are_refused_with_line_key_and_reason() {
    let cases: &[(&str, &str)] = &[
        (
            "reply_budget_s = 20\nworkspace = [\"/x\"]",
            "FILE:2: key `workspace`: is not known; did you mean `workspaces`?",
        ),
        (
            "[sandbox]\nmod = \"strict\"",
            "FILE:2: key `sandbox.mod`: is not known; did you mean `sandbox.mode`?",
        ),
        (
            "output_bytes = 1",
            "FILE:1: key `output_bytes`: is not known; did you mean `limits.output_bytes`?",
        ),
        (
            "[sandbux]\nmode = \"strict\"",
            "FILE:1: key `sandbux`: is not known; did you mean `sandbox`?",
        ),
        (
            "zzzzzzzz = 1",
            "FILE:1: key `zzzzzzzz`: is not known; `handsctl config show` lists the known keys",
        ),
        (
            "[[mcp.servers]]\nname = \"x\"",
            "FILE:1: key `mcp`: the section `mcp` is not in this version; remove it",
        ),
        (
            "[python]\ninterpreter = \"/usr/bin/python3\"",
            "FILE:1: key `python`: the section `python` is not in this version; remove it",
        ),
        (
            "sandbox = \"strict\"",
            "FILE:1: key `sandbox`: is a section, found string; write `[sandbox]` and its keys below",
        ),
        (
            "\n\nreply_budget_s = \"45\"",
            "FILE:3: key `reply_budget_s`: expects a number from 1 to 600, found the text \"45\"",
        ),
        (
            "[limits]\nconcurrency = 0",
            "FILE:2: key `limits.concurrency`: `0` is out of range, 1 to 256 calls is accepted",
        ),
        (
            "[limits]\nconcurrency = -1",
            "FILE:2: key `limits.concurrency`: `-1` is out of range, 1 to 256 calls is accepted",
        ),
        (
            "reply_budget_s = nan",
            "FILE:1: key `reply_budget_s`: `NaN` is out of range, 1 to 600 s is accepted",
        ),
        (
            "[sandbox]\nnetwork = \"lo\"",
            "FILE:2: key `sandbox.network`: `lo` is not known, `on`, `off`, `loopback`, `hosts` is accepted",
        ),
        (
            "[sandbox]\nnetwork = 1",
            "FILE:2: key `sandbox.network`: expects one of `on`, `off`, `loopback`, `hosts`, found `1`",
        ),
        (
            "[sandbox]\nnetwork = \"hosts\"",
            "FILE:2: key `sandbox.network`: is `hosts`, and `sandbox.hosts` names none; name the hosts, or use `loopback` or `off`",
        ),
        (
            "[sandbox]\nhosts = [\"example.org\"]",
            "FILE:2: key `sandbox.hosts`: bounds nothing while `sandbox.network` is `on`; set `sandbox.network` to `hosts`, or remove the list",
        ),
        (
            "[sandbox]\nnetwork = \"hosts\"\nhosts = [\n \"example.org\",\n \"https://example.org\",\n]",
            "FILE:5: key `sandbox.hosts`: `https://example.org` is no host: it is a name, `*.` and a name, or an address; without scheme and path",
        ),
        (
            "[sandbox]\nmode = \"stric\"",
            "FILE:2: key `sandbox.mode`: `stric` is not known, `default`, `strict`, `read-only` is accepted; did you mean `strict`?",
        ),
        (
            "[permissions]\nmode = \"humans\"",
            "FILE:2: key `permissions.mode`: `humans` is not known, `nonce`, `human` is accepted; did you mean `human`?",
        ),
        (
            "[sandbox]\nmode = \"strict\"\nmode = \"default\"",
            "FILE:3: key `mode`: is set twice; keep one of the two lines",
        ),
        (
            "workspaces = \"/x\"",
            "FILE:1: key `workspaces`: expects a list of paths, found the text \"/x\"",
        ),
        (
            "workspaces = [\"/x\", 1]",
            "FILE:1: key `workspaces`: expects a list of paths, found a list with something else than text in it",
        ),
        (
            "workspaces = []",
            "FILE:1: key `workspaces`: the list is empty; name a folder, or remove the key to use ~/Hands",
        ),
        (
            "workspaces = [\n \"~/src\",\n \"src\",\n]",
            "FILE:3: key `workspaces`: the path `src` is not absolute; start it with `/` or `~/`",
        ),
        (
            "workspaces = [\"~/src/../..\"]",
            "FILE:1: key `workspaces`: the path `~/src/../..` contains `..`; write it without `..`",
        ),
        (
            "workspaces = [\"~bob/src\"]",
            "FILE:1: key `workspaces`: the path `~bob/src` is not absolute; start it with `/` or `~/`",
        ),
        (
            "[env]\npass = [\"A B\"]",
            "FILE:2: key `env.pass`: \"A B\" is not the name of an environment variable",
        ),
        (
            "[env]\npass = [\"HANDS_TUNNEL_KEY_FILE\"]",
            "FILE:2: key `env.pass`: `HANDS_TUNNEL_KEY_FILE` configures Hands itself and is never passed to commands",
        ),
        (
            "[limits]\nbash_timeout_s = 5000",
            "FILE:2: key `limits.bash_timeout_s`: is 5000, more than `limits.bash_timeout_max_s`, which is 3600",
        ),
        (
            "[limits]\nbash_timeout_max_s = 60",
            "FILE:2: key `limits.bash_timeout_max_s`: is 60, less than `limits.bash_timeout_s`, which is 600; set `limits.bash_timeout_s` too",
        ),
        (
            "[sandbox]\nmode = 1979-05-27",
            "FILE:2: key `sandbox.mode`: expects one of `default`, `strict`, `read-only`, found a date",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(Place::new().file(text).error(&[]), *message, "{text}");
    }
}

#[test]
fn bad_syntax_names_the_line() {
    for (text, line) in [
        ("reply_budget_s = 20\n[sandbox\n", 2),
        ("reply_budget_s = \n", 1),
        ("a\n", 1),
        ("\n\nworkspaces = [\"/x\"", 3),
        ("workspaces = [\"/x\n", 1),
    ] {
        let error = Place::new().file(text).error(&[]);
        assert!(
            error.starts_with(&format!("FILE:{line}: not valid TOML: ")),
            "{text:?}: {error}"
        );
    }
}

#[test]
fn files_that_are_no_text_are_refused_at_once() {
    let place = Place::new();
    assert_eq!(
        place.file(b"a = 1\nb = \"\xff\"").error(&[]),
        "FILE:2: the file is not UTF-8 here; save it in the UTF-8 encoding"
    );
    let path = place.home().config_file();
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(
        place.error(&[]),
        "FILE: is not a regular file; put a file in its place, or remove it to use the defaults"
    );
    std::fs::remove_dir(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    assert_eq!(
        place.error(&[]),
        "FILE: is not a regular file; put a file in its place, or remove it to use the defaults"
    );
}

#[test]
fn an_unreadable_file_is_refused() {
    let place = Place::new();
    let path = place.home().config_file();
    std::os::unix::fs::symlink(&path, &path).unwrap();
    let error = place.error(&[]);
    assert!(error.starts_with("FILE: cannot be opened: "), "{error}");
}

#[test]
fn bad_variables_are_errors_and_unknown_ones_are_warnings() {
    let place = Place::new();
    assert_eq!(
        place.error(&[("HANDS_SANDBOX_MODE", "lax")]),
        "environment variable HANDS_SANDBOX_MODE: `lax` is not known, `default`, `strict`, `read-only` is accepted"
    );
    assert_eq!(
        place.error(&[("HANDS_REPLY_BUDGET_S", "soon")]),
        "environment variable HANDS_REPLY_BUDGET_S: expects a number from 1 to 600, found the text \"soon\""
    );
    assert_eq!(
        place.error(&[("HANDS_WORKSPACES", "/nowhere:src")]),
        "environment variable HANDS_WORKSPACES: the path `src` is not absolute; start it with `/` or `~/`"
    );
    let loaded = place.load(&[
        ("HANDS_SANDBX_MODE", "strict"),
        ("HANDS_TUNNEL_ID", "x"),
        ("HANDS_HTTP_LISTEN", "127.0.0.1:1"),
        ("HANDS_MCP_TIMEOUT_S", "60"),
        ("HANDS_PYTHON", "/x"),
        ("HANDS_HOME", "/x"),
        ("HANDS_SANDBOX_NETWORK", "off"),
    ]);
    assert_eq!(
        loaded.warnings,
        [
            "environment variable HANDS_SANDBX_MODE is not known and has no effect; did you mean HANDS_SANDBOX_MODE?"
        ]
    );
    assert_eq!(loaded.config.sandbox.network, Network::Off);
}

#[test]
fn the_network_is_a_word_or_as_before_true_or_false() {
    for (text, network) in [
        ("true", Network::On),
        ("false", Network::Off),
        ("\"on\"", Network::On),
        ("\"off\"", Network::Off),
        ("\"loopback\"", Network::Loopback),
    ] {
        let place = Place::new();
        let place = place.file(format!("[sandbox]\nnetwork = {text}\n"));
        assert_eq!(place.load(&[]).config.sandbox.network, network, "{text}");
        let text = text.trim_matches('"');
        let loaded = Place::new().load(&[("HANDS_SANDBOX_NETWORK", text)]);
        assert_eq!(loaded.config.sandbox.network, network, "{text}");
    }
    let loaded = Place::new().load(&[
        ("HANDS_SANDBOX_NETWORK", "hosts"),
        (
            "HANDS_SANDBOX_HOSTS",
            "Example.org, *.example.net:8443,10.0.0.5",
        ),
    ]);
    assert_eq!(loaded.config.sandbox.network, Network::Hosts);
    let hosts: Vec<String> = loaded
        .config
        .sandbox
        .hosts
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(hosts, ["example.org", "*.example.net:8443", "10.0.0.5"]);
}

#[test]
fn folders_that_cannot_be_a_workspace() {
    let place = Place::new();
    let ann = place.ann();
    let above = place.root.to_str().unwrap().to_owned();
    std::os::unix::fs::symlink("/etc", ann.join("link")).unwrap();
    std::fs::write(ann.join("file"), "").unwrap();
    let hint = "; name a narrower folder that is yours";
    for (folder, why) in [
        (
            "/",
            "/ cannot be a workspace: the folder is too wide to be handed over",
        ),
        (
            "~",
            "ANN cannot be a workspace: it contains your whole home folder",
        ),
        (
            "/etc",
            "/etc cannot be a workspace: it is the system folder /etc or lies in it",
        ),
        (
            "~/hands-home",
            "ANN/hands-home cannot be a workspace: it overlaps the home of Hands, ANN/hands-home",
        ),
        (
            "~/hands-home/work",
            "ANN/hands-home/work cannot be a workspace: it overlaps the home of Hands, ANN/hands-home",
        ),
        (
            "~/.ssh",
            "ANN/.ssh cannot be a workspace: the folder holds credentials, settings or programs",
        ),
        (
            "~/link",
            "ANN/link cannot be a workspace: its real path /etc: it is the system folder /etc or lies in it",
        ),
    ] {
        let message = place.error(&[("HANDS_WORKSPACES", folder)]);
        let expected = format!("environment variable HANDS_WORKSPACES: {why}{hint}");
        assert_eq!(message, expected);
    }
    let error = place.error(&[("HANDS_WORKSPACES", &above)]);
    assert!(error.contains("contains your whole home folder"), "{error}");
    let error = place.error(&[("HANDS_WORKSPACES", "~/file")]);
    assert!(error.ends_with("ANN/file is not a folder"), "{error}");
    let error = place.error(&[("HANDS_WRITE_EXTRA", "/usr/local")]);
    assert!(error.contains("/usr/local cannot be a folder: "), "{error}");
}

#[test]
fn a_missing_workspace_is_a_warning_and_keeps_its_place() {
    let place = Place::new();
    let loaded = place.load(&[("HANDS_WORKSPACES", "~/unplugged:~/src:~/src")]);
    assert_eq!(
        loaded.config.workspaces,
        [place.ann().join("unplugged"), place.ann().join("src")]
    );
    assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
    assert!(loaded.warnings[0].contains("unplugged is not there"));
    assert!(loaded.warnings[1].contains("is named twice"));
    assert_eq!(loaded.create_default_workspace().unwrap(), None);
}

#[test]
fn entries_list_every_key_with_value_and_source() {
    let place = Place::new();
    let entries = place.file("[trail]\nkeep = 2").load(&[]).entries();
    assert_eq!(entries.len(), hands_config::keys::KEYS.len());
    let keep = entries
        .iter()
        .find(|entry| entry.key.name == "trail.keep")
        .unwrap();
    assert_eq!(keep.value, 2);
    assert_eq!(keep.source.to_string(), "config.toml:2");
    let first = Path::new(entries[0].value[0].as_str().unwrap());
    assert_eq!(first, place.ann().join("Hands"));
}

#[test]
fn a_file_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can give a file away.
    }
    let place = Place::new();
    place.file("");
    std::os::unix::fs::chown(place.home().config_file(), Some(12345), None).unwrap();
    assert_eq!(
        place.error(&[]),
        "FILE: belongs to user 12345, this process runs as user 0; replace it by a file of your own"
    );
}

#[test]
fn the_tunnel_and_its_key() {
    let place = Place::new();
    let loaded = place.load(&[]);
    assert_eq!(loaded.config.tunnel.id, None);
    assert_eq!(loaded.config.http.listen.to_string(), "127.0.0.1:8765");
    place.file("[tunnel]\nid = \"tunnel_1\"\nkey_file = \"~/keys/tunnel\"\nclient = \"builtin\"\n");
    let loaded = place.load(&[
        ("HANDS_TUNNEL_CLIENT", "/opt/tunnel-client"),
        ("HANDS_HTTP_LISTEN", "127.0.0.1:8768"),
    ]);
    let tunnel = loaded.config.tunnel;
    assert_eq!(tunnel.id.as_deref(), Some("tunnel_1"));
    assert_eq!(tunnel.client, hands_config::TunnelClient::Official);
    assert_eq!(
        tunnel.client_path,
        Some(PathBuf::from("/opt/tunnel-client"))
    );
    assert_eq!(loaded.config.http.listen.port(), 8768);
    // Wherever it lies, the tools may not touch it.
    assert_eq!(
        loaded.config.protect.paths,
        [place.ann().join("keys/tunnel")]
    );
    assert_eq!(
        place.error(&[("HANDS_HTTP_LISTEN", "0.0.0.0:1")]),
        "environment variable HANDS_HTTP_LISTEN: is no loopback address: the endpoints are for this machine alone, \
         such as 127.0.0.1:8765"
    );
}
