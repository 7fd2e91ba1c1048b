//! A real Secret Service (GNOME Keyring) on a message bus of its own, for one test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A bus on which nothing is started on demand: only what the test starts is there.
const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=SOCKET</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"#;

/// A running Secret Service with an unlocked, empty keyring. Ended, and its files removed, when dropped.
#[derive(Debug)]
pub struct SecretService {
    folder: tempfile::TempDir,
    address: String,
    // Ended in this order: the keyring first, then its bus.
    _keyring: Ended,
    _bus: Ended,
}

/// A process that is killed when dropped.
#[derive(Debug)]
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl SecretService {
    /// Starts one; none, and a word on it, where this machine has none to start.
    pub fn start() -> Option<Self> {
        for program in ["dbus-daemon", "gnome-keyring-daemon", "secret-tool"] {
            let found = Command::new(program)
                .arg("--version")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if found.is_err() {
                eprintln!(
                    "skipped: {program} is not installed (Debian's packages `dbus`, `gnome-keyring`, `libsecret-tools`)"
                );
                return None;
            }
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = folder.path().join("bus");
        let config = folder.path().join("bus.conf");
        let text = BUS.replace("SOCKET", &socket.display().to_string());
        std::fs::write(&config, text).expect("the bus can be configured");
        let bus = start_bus(&config);
        let address = format!("unix:path={}", socket.display());
        let keyring = start_keyring(folder.path(), &address);
        let service = Self {
            folder,
            address,
            _keyring: keyring,
            _bus: bus,
        };
        service.wait_until_unlocked();
        Some(service)
    }

    /// The address of its bus, for `DBUS_SESSION_BUS_ADDRESS`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it holds under these attributes, asked for by a client that is not ours.
    pub fn lookup(&self, attributes: &[&str]) -> Option<String> {
        let output = self.tool("lookup", attributes, "");
        output.filter(|text| !text.is_empty())
    }

    fn wait_until_unlocked(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        // There, and open: it takes something in.
        let trial = ["--label=trial", "trial", "yes"];
        while self.tool("store", &trial, "x").is_none() {
            assert!(Instant::now() < deadline, "the keyring does not open");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn tool(&self, verb: &str, words: &[&str], input: &str) -> Option<String> {
        let mut child = Command::new("secret-tool")
            .arg(verb)
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("secret-tool can be started");
        // It may end without reading.
        let _ = child
            .stdin
            .take()
            .expect("its input is piped")
            .write_all(input.as_bytes());
        let output = child.wait_with_output().expect("secret-tool ends");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    }
}

fn start_bus(config: &Path) -> Ended {
    let mut child = Command::new("dbus-daemon")
        .arg(format!("--config-file={}", config.display()))
        .args(["--nofork", "--print-address"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("dbus-daemon can be started");
    let mut line = String::new();
    let output = child.stdout.take().expect("its output is piped");
    // It prints its address once it listens.
    let read = BufReader::new(output.take(4096)).read_line(&mut line);
    assert!(read.is_ok() && line.starts_with("unix:"), "{line}");
    Ended(child)
}

fn start_keyring(home: &Path, address: &str) -> Ended {
    std::fs::create_dir_all(home.join(".local/share/keyrings")).expect("a home for the keyring");
    let mut child = Command::new("gnome-keyring-daemon")
        .args(["--unlock", "--foreground", "--components=secrets"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home)
        .env("DBUS_SESSION_BUS_ADDRESS", address)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("gnome-keyring-daemon can be started");
    // The password of a new keyring, up to the end of the input; it takes none that is empty.
    let mut stdin = child.stdin.take().expect("its input is piped");
    stdin.write_all(b"trial").expect("it reads its password");
    Ended(child)
}
