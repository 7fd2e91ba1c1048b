//! `handsctl service` with a real `systemd --user`, which is started for the test in a mount namespace of its own. Where this process
//! may not do that (it takes root), or systemd does not come up, the test is skipped and says so.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests are not marked as tests.

mod common;

use common::{Ended, Place, built};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(40);

/// Makes what systemd takes for a machine that it booted, with a cgroup of its own, and becomes a person's manager there.
const START: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user/0
chmod 700 /run/user/0
echo $$ > "$CGROUP/cgroup.procs"
[ -e /sys/fs/cgroup/cgroup.controllers ] || mount --bind /sys/fs/cgroup/unified /sys/fs/cgroup
export XDG_RUNTIME_DIR=/run/user/0
for systemd in /usr/lib/systemd/systemd /lib/systemd/systemd; do
    [ ! -x $systemd ] || exec $systemd --user
done
exit 127
"#;

/// A running `systemd --user`.
struct Manager<'a> {
    place: &'a Place,
    child: Child,
    cgroup: PathBuf,
}

impl<'a> Manager<'a> {
    fn start(place: &'a Place) -> Option<Manager<'a>> {
        let skipped = |why: &str| eprintln!("skipped: no systemd --user here: {why}");
        if !rustix::process::geteuid().is_root() {
            skipped("a namespace for it takes root");
            return None;
        }
        let cgroup = cgroup();
        if let Err(error) = std::fs::create_dir(&cgroup) {
            skipped(&format!("{}: {error}", cgroup.display()));
            return None;
        }
        let log = std::fs::File::create(place.ann().join("systemd.log")).unwrap();
        let child = Command::new("unshare")
            .args(["--mount", "sh", "-c", START])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", place.ann())
            .env("CGROUP", &cgroup)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(error) => {
                skipped(&format!("unshare: {error}"));
                let _ = std::fs::remove_dir(&cgroup);
                return None;
            }
        };
        let mut manager = Manager {
            place,
            child,
            cgroup,
        };
        let deadline = Instant::now() + SOON;
        loop {
            let state = manager.inside(&["systemctl", "--user", "is-system-running"]);
            if ["running", "degraded"].contains(&state.out.trim()) {
                return Some(manager);
            }
            let ended = manager.child.try_wait().unwrap();
            if ended.is_some() || Instant::now() >= deadline {
                let log = std::fs::read_to_string(place.ann().join("systemd.log"));
                skipped(&format!("{ended:?} {state:?} {log:?}"));
                return None;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A command in the namespace, with the environment of a login.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--mount", "--target", &self.child.id().to_string(), "--"])
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.place.ann())
            .env("XDG_RUNTIME_DIR", "/run/user/0")
            .stdin(Stdio::null());
        command
    }

    fn inside(&self, words: &[&str]) -> Ended {
        Ended::of(self.command(words).output().unwrap())
    }

    fn handsctl(&self, words: &[&str]) -> Ended {
        let program = built("handsctl");
        let home = self.place.home();
        let mut all = vec![
            program.to_str().unwrap(),
            "--home",
            home.root().to_str().unwrap(),
        ];
        all.extend(words);
        self.inside(&all)
    }

    /// Waits until `handsctl status` is as wanted.
    fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + SOON;
        loop {
            let ended = self.handsctl(&["status", "--json"]);
            let status = serde_json::from_str(&ended.out).unwrap_or(Value::Null);
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "never {what}: {ended:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A planner's call of `bash`, through the relay and the service's server.
    fn bash(&self, line: &str) -> Value {
        let program = built("hands-mcp");
        let home = self.place.home();
        let words = [
            program.to_str().unwrap(),
            "--relay",
            "--home",
            home.root().to_str().unwrap(),
        ];
        let mut child = self
            .command(&words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "bash", "arguments": {"command": line}}});
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{call}").unwrap();
        let mut answer = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut answer)
            .unwrap();
        drop(stdin);
        child.wait().unwrap();
        serde_json::from_str(&answer).unwrap()
    }
}

impl Drop for Manager<'_> {
    fn drop(&mut self) {
        // All that it started is in the group, jobs and leftovers of a failed test too.
        let deadline = Instant::now() + SOON;
        let _ = self.inside(&["systemctl", "--user", "exit"]);
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        while !removed(&self.cgroup) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A name for a new group below that of this process.
fn cgroup() -> PathBuf {
    let name = format!("hands-test-{}", std::process::id());
    let hybrid = Path::new("/sys/fs/cgroup/unified");
    let root = match hybrid.is_dir() {
        true => hybrid,
        false => Path::new("/sys/fs/cgroup"),
    };
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .unwrap_or_default();
    root.join(own).join(name)
}

/// Ends what is left in the group, and removes it; whether it is gone.
fn removed(group: &Path) -> bool {
    for entry in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            removed(&entry.path());
        }
    }
    let left = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in left.lines().filter_map(|line| line.parse().ok()) {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    std::fs::remove_dir(group).is_ok() || !group.exists()
}

fn pid(status: &Value) -> Option<u64> {
    status["daemon"]["pid"].as_u64()
}

#[test]
fn a_service_of_systemd_lives_through_all_its_verbs() {
    built("handsd");
    let place = Place::new();
    place.config("[http]\nlisten = \"127.0.0.1:0\"\n");
    let Some(manager) = Manager::start(&place) else {
        return;
    };
    let before = manager.handsctl(&["service", "status"]);
    assert!(
        before.code == Some(3) || before.code == Some(4),
        "{before:?}"
    );
    let installed = manager.handsctl(&["service", "install"]);
    assert_eq!(installed.code, Some(0), "{installed:?}");
    let unit = place.ann().join(".config/systemd/user/handsd.service");
    assert!(unit.is_file() && installed.out.contains(unit.to_str().unwrap()));
    let status = manager.until("ready", |status| status["readiness"]["ready"] == true);
    assert_eq!(status["daemon"]["manager"], "systemd");
    let found = manager.handsctl(&["service", "status", "--json"]).json();
    assert_eq!(
        (&found["state"], &found["at_login"]),
        (&json!("running"), &json!(true))
    );
    assert_eq!(found["pid"], status["daemon"]["pid"]);
    // The service is as confined as a daemon that a person starts.
    let outside = manager.handsctl(&["doctor", "--json"]);
    let sandbox = manager.until("tried", |status| status["sandbox"].is_object());
    if outside.code != Some(1) {
        assert_eq!(sandbox["sandbox"]["state"], "full", "{sandbox} {outside:?}");
    }
    let answer = manager.bash("umask; touch made; stat -c %a made");
    let text = answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default();
    assert!(text.contains("0022") && text.contains("644"), "{answer}");

    // Killed, it is started again; so is a second one refused, which `up` names.
    let again = manager.handsctl(&["up"]);
    assert!(again.out.starts_with("handsd runs already"), "{again:?}");
    let first = pid(&status).unwrap();
    manager.inside(&["kill", "-9", &first.to_string()]);
    let status = manager.until("back", |status| {
        status["readiness"]["ready"] == true && pid(status) != Some(first)
    });
    let second = pid(&status);
    let restarted = manager.handsctl(&["service", "restart"]);
    assert_eq!(restarted.code, Some(0), "{restarted:?}");
    let status = manager.until("restarted", |status| {
        status["readiness"]["ready"] == true && pid(status) != second
    });
    let reloaded = manager.inside(&["systemctl", "--user", "reload", "handsd"]);
    assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
    assert_eq!(
        pid(&manager.until("there", |found| pid(found) == pid(&status))),
        pid(&status)
    );

    assert_eq!(manager.handsctl(&["service", "stop"]).code, Some(0));
    assert_eq!(manager.handsctl(&["status"]).code, Some(3));
    assert_eq!(manager.handsctl(&["service", "status"]).code, Some(3));
    assert_eq!(manager.handsctl(&["service", "start"]).code, Some(0));
    manager.until("started", |status| status["readiness"]["ready"] == true);
    // Stopped by its own verb it stays down.
    assert_eq!(manager.handsctl(&["down"]).code, Some(0));
    assert_eq!(manager.handsctl(&["service", "status"]).code, Some(3));
    assert_eq!(manager.handsctl(&["service", "start"]).code, Some(0));
    manager.until("started", |status| status["readiness"]["ready"] == true);
    let removed = manager.handsctl(&["service", "uninstall"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(!unit.exists());
    assert_eq!(manager.handsctl(&["status"]).code, Some(3));
    assert_eq!(
        manager.handsctl(&["service", "uninstall"]).out,
        "there was no service\n"
    );
}
