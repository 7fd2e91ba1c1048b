//! The environment of a child: a list of what passes, never what this process happens to have.

use std::path::Path;

/// Variables that pass as they are.
const PASSED: &[&str] = &[
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "SSL_CERT_FILE", // where a company's own certificates are
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "CARGO_HOME", // where toolchains live
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "GOMODCACHE",
    "GOPROXY",
    "GOFLAGS",
    "JAVA_HOME",
    "PYENV_ROOT",
    "NVM_DIR",
    "VOLTA_HOME",
    "HOMEBREW_PREFIX",
];
/// Proxy variables pass without the password that they may carry.
const PROXIES: &[&str] = &[
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];
/// Where programs keep caches that would otherwise lie in a home that cannot be written, below the
/// private tmp. Those with a variable of their own do not all follow `XDG_CACHE_HOME`, least of all
/// on macOS, where they use `~/Library/Caches`.
const CACHES: &[(&str, &str)] = &[
    ("XDG_CACHE_HOME", ".cache"),
    ("npm_config_cache", ".cache/npm"),
    ("YARN_CACHE_FOLDER", ".cache/yarn"),
    ("PIP_CACHE_DIR", ".cache/pip"),
    ("POETRY_CACHE_DIR", ".cache/pypoetry"),
    ("UV_CACHE_DIR", ".cache/uv"),
    ("PYTHONPYCACHEPREFIX", ".cache/pycache"),
    ("GOCACHE", ".cache/go-build"),
    ("CCACHE_DIR", ".cache/ccache"),
    ("DENO_DIR", ".cache/deno"),
    ("CLANG_MODULE_CACHE_PATH", ".cache/clang"),
];
/// The search path when this process has none of its own.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// The whole environment of a child: what passes, what is set for it, and, last, what the planner
/// asked for with this call.
pub(super) fn of_child(
    user_home: &Path,
    tmpdir: &Path,
    pass: &[String],
    asked: &[(String, String)],
) -> Vec<(String, String)> {
    compose(
        &|name| std::env::var(name).ok(),
        user_home,
        tmpdir,
        pass,
        asked,
    )
}

fn compose(
    own: &dyn Fn(&str) -> Option<String>,
    user_home: &Path,
    tmpdir: &Path,
    pass: &[String],
    asked: &[(String, String)],
) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = Vec::new();
    let mut set = |name: &str, value: String| {
        env.retain(|(n, _)| n != name);
        env.push((name.to_string(), value));
    };
    for name in PASSED {
        own(name).into_iter().for_each(|value| set(name, value));
    }
    for name in LOCALE {
        own(name).into_iter().for_each(|value| set(name, value));
    }
    for name in PROXIES {
        let value = own(name).map(|value| without_user_info(&value));
        value.into_iter().for_each(|value| set(name, value));
    }
    for name in pass {
        own(name).into_iter().for_each(|value| set(name, value));
    }
    let tmp = tmpdir.to_string_lossy().into_owned();
    set("HOME", user_home.to_string_lossy().into_owned());
    set("PATH", search_path(own("PATH").as_deref()));
    set("SHELL", "/bin/bash".into());
    set("TERM", "dumb".into());
    set("TMPDIR", tmp.clone());
    for (name, folder) in CACHES {
        set(name, format!("{tmp}/{folder}"));
    }
    // Nothing can answer a prompt.
    set("GIT_TERMINAL_PROMPT", "0".into());
    // `git status` would take a lock that nothing here may remove again.
    set("GIT_OPTIONAL_LOCKS", "0".into());
    set("PAGER", "cat".into());
    set("GIT_PAGER", "cat".into());
    for (name, value) in asked {
        set(name, value.clone());
    }
    env
}

/// `LC_*`, by name: POSIX has these.
const LOCALE: &[&str] = &[
    "LC_ALL",
    "LC_CTYPE",
    "LC_COLLATE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
];

/// Only absolute folders: a relative one would mean whatever folder the command runs in.
fn search_path(own: Option<&str>) -> String {
    let folders: Vec<&str> = own
        .unwrap_or("")
        .split(':')
        .filter(|f| f.starts_with('/'))
        .collect();
    match folders.is_empty() {
        true => DEFAULT_PATH.into(),
        false => folders.join(":"),
    }
}

/// `http://user:secret@host:3128` without `user:secret@`.
fn without_user_info(value: &str) -> String {
    let (scheme, rest) = match value.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), value),
    };
    let authority = rest.find('/').unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(at) => format!("{scheme}{}", &rest[at + 1..]),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(own: &[(&str, &str)], pass: &[&str], asked: &[(&str, &str)]) -> Vec<(String, String)> {
        let pass: Vec<String> = pass.iter().map(ToString::to_string).collect();
        let asked: Vec<_> = asked
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect();
        let own = |name: &str| {
            let found = own.iter().find(|(n, _)| *n == name);
            found.map(|(_, v)| v.to_string())
        };
        compose(&own, Path::new("/home/u"), Path::new("/tmp"), &pass, &asked)
    }

    fn get<'a>(env: &'a [(String, String)], name: &str) -> Option<&'a str> {
        env.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    #[test]
    fn secrets_do_not_pass_unless_the_person_says_so() {
        let own = [
            ("FAKE_SECRET_TOKEN", "x"),
            ("LANG", "C.UTF-8"),
            ("SSH_AUTH_SOCK", "/s"),
        ];
        let env = child(&own, &[], &[]);
        assert_eq!(get(&env, "FAKE_SECRET_TOKEN"), None);
        assert_eq!(get(&env, "SSH_AUTH_SOCK"), None);
        assert_eq!(get(&env, "LANG"), Some("C.UTF-8"));
        assert_eq!(
            get(
                &child(&own, &["FAKE_SECRET_TOKEN"], &[]),
                "FAKE_SECRET_TOKEN"
            ),
            Some("x")
        );
    }

    #[test]
    fn what_the_call_asks_for_wins() {
        let env = child(&[], &[], &[("TERM", "xterm"), ("A", "1")]);
        assert_eq!(get(&env, "TERM"), Some("xterm"));
        assert_eq!(get(&env, "A"), Some("1"));
        assert_eq!(env.iter().filter(|(n, _)| n == "TERM").count(), 1);
    }

    #[test]
    fn caches_go_to_the_private_tmp_whatever_the_person_uses() {
        let own = [("GOCACHE", "/home/u/go-cache"), ("XDG_CACHE_HOME", "/x")];
        let env = child(&own, &["GOCACHE"], &[]);
        for (name, folder) in CACHES {
            let expected = format!("/tmp/{folder}");
            assert_eq!(get(&env, name), Some(expected.as_str()), "{name}");
        }
        let asked = [("GOCACHE", "/home/u/proj/cache")];
        assert_eq!(
            get(&child(&own, &[], &asked), "GOCACHE"),
            Some("/home/u/proj/cache")
        );
    }

    #[test]
    fn the_search_path_is_absolute() {
        let env = child(&[("PATH", "bin:/usr/bin:.::/bin")], &[], &[]);
        assert_eq!(get(&env, "PATH"), Some("/usr/bin:/bin"));
        assert_eq!(get(&child(&[], &[], &[]), "PATH"), Some(DEFAULT_PATH));
    }

    #[test]
    fn proxies_lose_their_password() {
        assert_eq!(without_user_info("http://u:p@h:1/x@y"), "http://h:1/x@y");
        assert_eq!(without_user_info("u:p@h:1"), "h:1");
        assert_eq!(without_user_info("http://h:1"), "http://h:1");
        assert_eq!(without_user_info("localhost,.corp"), "localhost,.corp");
    }
}
