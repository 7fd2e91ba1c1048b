//! A home of its own for each test, and running `handsctl` on it.
#![allow(dead_code)] // Each test program uses its part of this file.
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests are not marked as tests.

use hands_activity::{Folders, Trail, TrailLimits};
use hands_testkit::Folder;
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A person's home with the home of Hands in it.
pub(crate) struct Place {
    _dir: Folder,
    root: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place::of(Folder::temporary())
    }

    /// One outside `/tmp`, which is a private one for commands.
    pub(crate) fn outside_tmp() -> Place {
        Place::of(Folder::new(Path::new("/var/tmp"), "hands-test-"))
    }

    fn of(dir: Folder) -> Place {
        let root = dir.path().to_owned();
        std::fs::create_dir_all(root.join("ann/Hands")).unwrap();
        Place { _dir: dir, root }
    }

    /// The person's home.
    pub(crate) fn ann(&self) -> PathBuf {
        self.root.join("ann")
    }

    /// The only workspace.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.ann().join("Hands")
    }

    pub(crate) fn home(&self) -> hands_config::Home {
        hands_config::Home::at(self.root.join("hands"))
    }

    pub(crate) fn prepare(&self) -> &Place {
        self.home().prepare().unwrap();
        self
    }

    pub(crate) fn config(&self, text: &str) -> &Place {
        self.prepare();
        std::fs::write(self.home().config_file(), text).unwrap();
        self
    }

    pub(crate) fn folders(&self) -> Folders {
        Folders {
            logs: self.home().logs_dir(),
            trail: self.home().trail_dir(),
            recovery: self.home().recovery_dir(),
        }
    }

    pub(crate) fn trail(&self) -> Trail {
        self.prepare();
        Trail::open(&self.folders(), TrailLimits::default()).unwrap()
    }

    /// `handsctl` in this place, with a small environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(built("handsctl"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.ann())
            .env("HANDS_HOME", self.home().root())
            .args(args)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        Ended::of(self.command(args).output().unwrap())
    }

    /// `handsctl` where root's power to pass over permissions is gone, with these mounts made before.
    #[cfg(target_os = "linux")]
    pub(crate) fn powerless(&self, mounts: &[&str], args: &[&str]) -> Command {
        let plain = self.command(args);
        let mut command = Command::new("bwrap");
        command.env_clear();
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
            .args([
                "--unshare-user",
                "--cap-drop",
                "ALL",
                "--dev-bind",
                "/",
                "/",
            ])
            .args(mounts)
            .arg("--")
            .arg(plain.get_program())
            .args(plain.get_args())
            .stdin(Stdio::null());
        command
    }

    /// Writes an executable shell script.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join(name);
        // Written under another name first: a file still open for writing cannot be executed.
        let draft = self.root.join(format!("{name}.draft"));
        std::fs::write(&draft, format!("#!/bin/sh\n{text}")).unwrap();
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).unwrap();
        let copied = Command::new("cp").arg("-p").args([&draft, &path]).status();
        assert!(copied.unwrap().success());
        path
    }
}

/// Sets the mode of a file or folder.
pub(crate) fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A finished `handsctl`.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn of(output: Output) -> Ended {
        Ended {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Its stdout as one JSON value.
    pub(crate) fn json(&self) -> Value {
        match serde_json::from_str(&self.out) {
            Ok(value) => value,
            Err(cause) => panic!("stdout is not one JSON value: {cause}\n{self:?}"),
        }
    }

    /// Its stdout as JSON lines.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let lines = self.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// A program of ours: in the folder that the environment names, else where cargo built it.
pub(crate) fn built(name: &str) -> PathBuf {
    let path = match std::env::var_os("HANDS_TEST_BIN_DIR") {
        Some(folder) => Path::new(&folder).join(name),
        None => Path::new(env!("CARGO_BIN_EXE_handsctl")).with_file_name(name),
    };
    assert!(
        path.is_file(),
        "this test needs {}: build the whole workspace first (cargo build --workspace --bins)",
        path.display()
    );
    path
}

/// Runs a command with this text on its stdin.
pub(crate) fn with_input(mut command: Command, input: &str) -> Ended {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    match stdin.write_all(input.as_bytes()) {
        // It may refuse something else and end before it reads.
        Err(cause) if cause.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written.unwrap(),
    }
    drop(stdin);
    Ended::of(child.wait_with_output().unwrap())
}
