//! What is known about programs that run other commands.

/// A program whose arguments are another command.
pub(super) struct Wrapper {
    /// Its names.
    pub(super) names: &'static [&'static str],
    /// Letters of the short options that take a value.
    pub(super) short_values: &'static str,
    /// Long options that take a value in the next word.
    pub(super) long_values: &'static [&'static str],
    /// Words between the options and the command.
    pub(super) skip: usize,
    /// Options with which it only tells about the command.
    pub(super) queries: &'static [&'static str],
    /// Whether it adds words from its input to the command.
    pub(super) adds_words: bool,
}

const fn wrapper(
    names: &'static [&'static str],
    short_values: &'static str,
    long_values: &'static [&'static str],
    skip: usize,
) -> Wrapper {
    Wrapper {
        names,
        short_values,
        long_values,
        skip,
        queries: &[],
        adds_words: false,
    }
}

/// Programs that run the command in their arguments.
pub(super) const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: &["command"],
        short_values: "",
        long_values: &[],
        skip: 0,
        queries: &["-v", "-V"],
        adds_words: false,
    },
    Wrapper {
        names: &["sudo", "doas", "pkexec"],
        short_values: "ughpCTUrtRD",
        long_values: &[
            "--user",
            "--group",
            "--host",
            "--prompt",
            "--chdir",
            "--chroot",
            "--other-user",
            "--role",
            "--type",
        ],
        skip: 0,
        queries: &["-l", "--list", "-v", "-e", "--edit"],
        adds_words: false,
    },
    Wrapper {
        names: &["xargs", "parallel"],
        short_values: "InPLsdaEj",
        long_values: &[
            "--max-args",
            "--max-procs",
            "--max-lines",
            "--max-chars",
            "--delimiter",
            "--arg-file",
            "--replace",
            "--jobs",
        ],
        skip: 0,
        queries: &[],
        adds_words: true,
    },
    Wrapper {
        names: &["entr"],
        short_values: "",
        long_values: &[],
        skip: 0,
        queries: &[],
        adds_words: true,
    },
    wrapper(&["env"], "uCS", &["--unset", "--chdir"], 0),
    wrapper(&["exec"], "a", &[], 0),
    wrapper(
        &[
            "builtin",
            "nohup",
            "setsid",
            "busybox",
            "toybox",
            "coreutils",
            "coproc",
            "fakeroot",
            "eatmydata",
            "chronic",
            "unbuffer",
            "catchsegv",
            "torsocks",
            "proxychains4",
            "dbus-run-session",
            "npx",
            "bunx",
            "pnpx",
            "nocorrect",
            "noglob",
            "shx",
        ],
        "",
        &[],
        0,
    ),
    wrapper(&["time"], "fo", &["--format", "--output"], 0),
    wrapper(&["nice"], "n", &["--adjustment"], 0),
    wrapper(&["ionice"], "cnpPu", &["--class", "--classdata"], 0),
    wrapper(&["stdbuf"], "ioe", &["--input", "--output", "--error"], 0),
    wrapper(
        &["timeout", "gtimeout"],
        "sk",
        &["--signal", "--kill-after"],
        1,
    ),
    wrapper(&["chrt", "taskset"], "TPD", &[], 1),
    wrapper(
        &["flock"],
        "wE",
        &["--wait", "--timeout", "--conflict-exit-code"],
        1,
    ),
    wrapper(&["chroot"], "", &[], 1),
    wrapper(&["setarch"], "", &[], 1),
    wrapper(&["linux32", "linux64"], "", &[], 0),
    wrapper(&["strace", "ltrace"], "eopsuabIOPSX", &[], 0),
    wrapper(&["unshare"], "SGRw", &[], 0),
    wrapper(&["nsenter"], "tSG", &["--target"], 0),
    wrapper(
        &["systemd-run"],
        "pEuMH",
        &["--property", "--unit", "--setenv"],
        0,
    ),
    wrapper(&["xvfb-run"], "nsefpl", &[], 0),
    wrapper(&["caffeinate"], "tw", &[], 0),
    wrapper(&["prlimit", "numactl", "cgexec"], "g", &[], 0),
];

/// The wrapper of this name. The dynamic loader runs the program it is given.
pub(super) fn wrapper_of(name: &str) -> Option<&'static Wrapper> {
    const LOADER: &Wrapper = &wrapper(&[], "", &["--library-path", "--preload", "--argv0"], 0);
    if name.starts_with("ld-linux") || name.starts_with("ld-musl") {
        return Some(LOADER);
    }
    WRAPPERS.iter().find(|w| w.names.contains(&name))
}

/// Shells, whose `-c` argument, input or file is a script.
pub(super) fn is_shell(name: &str) -> bool {
    const SHELLS: &[&str] = &[
        "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash",
    ];
    SHELLS.contains(&name)
}

/// Where a program other than a shell takes a script.
pub(super) enum Script {
    /// In the word after one of these options.
    Option(&'static [&'static str]),
    /// In its first operand.
    FirstOperand,
    /// In the words from its first operand on, joined.
    AllOperands,
}

/// Where `name` takes a script, if it does.
pub(super) fn script_of(name: &str) -> Option<Script> {
    match name {
        "su" | "runuser" | "script" => Some(Script::Option(&["-c", "--command"])),
        "flock" | "npx" => Some(Script::Option(&["-c", "--call"])),
        "env" => Some(Script::Option(&["-S", "--split-string"])),
        "trap" => Some(Script::FirstOperand),
        "eval" | "watch" => Some(Script::AllOperands),
        _ => None,
    }
}

/// Options after which the words up to `;` or `+` are a command.
pub(super) fn exec_options(name: &str) -> &'static [&'static str] {
    match name {
        "find" | "gfind" => &["-exec", "-execdir", "-ok", "-okdir"],
        "fd" | "fdfind" => &["-x", "-X", "--exec", "--exec-batch"],
        _ => &[],
    }
}

/// Programs that run code which is not looked at.
pub(super) fn is_interpreter(name: &str) -> bool {
    const INTERPRETERS: &[&str] = &[
        ".",
        "source",
        "awk",
        "gawk",
        "mawk",
        "perl",
        "ruby",
        "node",
        "deno",
        "bun",
        "php",
        "lua",
        "tclsh",
        "make",
        "gmake",
        "ninja",
        "just",
        "sqlite3",
        "vi",
        "vim",
        "nvim",
        "emacs",
        "ex",
        "ed",
        "expect",
        "gdb",
        "lldb",
        "osascript",
        "rscript",
        "java",
        "docker",
        "podman",
        "ssh",
        "at",
        "batch",
        "crontab",
        "patch",
    ];
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&name)
        || INTERPRETERS.contains(&bare)
        || matches!(bare, "python" | "pypy" | "vim.tiny")
}
