//! `handsctl tunnel setup`: the id goes into the configuration, the key into a place of its own.

use super::keep::{keep, write_private};
use super::{is_usual_id, key_file, settings, trial};
use crate::args::{SetupArgs, Store};
use crate::exit::{Exit, Failure};
use crate::output::note;
use crate::{Context, daemon, limits};
use hands_config::{Flags, KeyStore, load};
use hands_control::types::daemon::Done;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::json;
use std::fs::File;
use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::Path;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use toml_edit::DocumentMut;

pub(crate) fn run(context: &Context, args: SetupArgs) -> Result<Exit, Failure> {
    let config = settings(context)?;
    let id = match args.id {
        Some(id) => id,
        None => asked("the tunnel's id: ", false)?,
    };
    let id = id.trim().to_owned();
    // What the configuration would refuse must not get into it.
    load(
        &context.home,
        &context.env,
        &Flags::default().set("tunnel.id", &id),
    )
    .map_err(|error| Failure::usage("the tunnel's id", error.reason().to_owned()))?;
    // Before anything is replaced: a letter too few or too many is soon copied.
    if !args.force && !is_usual_id(&id) {
        return Err(Failure::usage(
            "the tunnel's id",
            "it does not look like `tunnel_` and 32 hexadecimal digits, so nothing was changed",
        )
        .hint("copy it again, or give `--force` if it is right"));
    }
    let key = key(args.key_from.as_deref())?;
    let prepared = context.home.prepare();
    prepared.map_err(|error| Failure::new("preparing the home", error.to_string()))?;
    let store = match args.store {
        Some(Store::File) => KeyStore::File,
        Some(Store::Keychain) => KeyStore::Keychain,
        None => config.tunnel.key_store,
    };
    let kept = keep(context, &config, store, &id, &key)?;
    remember(&context.home.config_file(), &id, store)?;
    if context
        .env
        .get("HANDS_TUNNEL_ID")
        .is_some_and(|other| other != id)
    {
        note("warning: HANDS_TUNNEL_ID is set to another id, and overrides the configuration");
    }
    if context
        .env
        .get("HANDS_TUNNEL_KEY_STORE")
        .is_some_and(|other| other != store.as_str())
    {
        note(
            "warning: HANDS_TUNNEL_KEY_STORE says another place for the key, and overrides the configuration",
        );
    }
    if !context.out.json {
        context.out.text(&format!(
            "the id is in {}",
            context.home.config_file().display()
        ))?;
        for line in &kept {
            context.out.text(line)?;
        }
    }
    tell_daemon(context)?;
    match (args.no_test, context.out.json) {
        (false, _) => trial::run(context),
        (true, true) => {
            let file = (store == KeyStore::File).then(|| key_file(context, &config));
            let object = json!({"ok": true, "id": id, "store": store.as_str(), "key_file": file});
            context.out.object(&object)?;
            Ok(Exit::Ok)
        }
        (true, false) => Ok(Exit::Ok),
    }
}

fn failed(what: &str, path: &Path, cause: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{what} {}", path.display()), cause.to_string())
}

fn key(from: Option<&Path>) -> Result<String, Failure> {
    let text = match from {
        Some(path) => {
            let mut text = String::new();
            let file = File::open(path).map_err(|cause| failed("opening", path, &cause))?;
            let read = file.take(limits::KEY_BYTES).read_to_string(&mut text);
            read.map_err(|cause| failed("reading the key from", path, &cause))?;
            text
        }
        None => asked("the API key (not shown): ", true)?,
    };
    let text = text.trim().to_owned();
    // The message must not repeat what may be a key.
    if text.is_empty() {
        return Err(Failure::usage("the key", "it is empty"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::usage(
            "the key",
            "it holds characters that no key has (spaces, several lines?)",
        ));
    }
    Ok(text)
}

/// One line of standard input; on a terminal it is asked for, and not shown while `hidden`.
fn asked(what: &str, hidden: bool) -> Result<String, Failure> {
    let failed = |cause: std::io::Error| Failure::new("reading standard input", cause.to_string());
    let terminal = std::io::stdin().is_terminal();
    daemon::block_on(async {
        // Before the terminal is changed: a signal must not end this process in between.
        let signals = Signals::listen().map_err(failed)?;
        let shown = match terminal && hidden {
            true => Some(Hidden::new().map_err(failed)?),
            false => None,
        };
        if terminal {
            let mut stderr = std::io::stderr();
            write!(stderr, "{what}")?;
            stderr.flush()?;
        }
        let line = line_unless(signals).await;
        drop(shown);
        if terminal && hidden {
            writeln!(std::io::stderr())?;
        }
        line
    })
}

/// A line of standard input, unless one of the signals comes first.
async fn line_unless(mut signals: Signals) -> Result<String, Failure> {
    let failed = |why: String| Failure::new("reading standard input", why);
    let (sender, line) = oneshot::channel();
    // A thread that reads cannot be called off; it ends with the process.
    std::thread::spawn(move || {
        let mut line = String::new();
        let mut input = std::io::stdin().lock().take(limits::KEY_BYTES);
        let _ = sender.send(input.read_line(&mut line).map(|_| line));
    });
    tokio::select! {
        line = line => match line {
            Ok(line) => line.map_err(|cause| failed(cause.to_string())),
            Err(_) => Err(failed("it was given up".to_owned())),
        },
        name = signals.next() => {
            Err(Failure::new("the setup", format!("ended by {name}; nothing was changed")))
        }
    }
}

/// Signals that would end this process.
struct Signals {
    int: Signal,
    term: Signal,
    hup: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        Ok(Signals {
            int: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.int.recv() => "SIGINT",
            _ = self.term.recv() => "SIGTERM",
            _ = self.hup.recv() => "SIGHUP",
        }
    }
}

/// The terminal shows nothing of what is typed until this is dropped.
struct Hidden(rustix::termios::Termios);

impl Hidden {
    fn new() -> std::io::Result<Hidden> {
        let before = tcgetattr(std::io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Hidden(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // Nothing better can be done where this fails.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Puts id and store into the configuration and leaves the rest of it as it is.
fn remember(path: &Path, id: &str, store: KeyStore) -> Result<(), Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(cause) => return Err(failed("reading", path, &cause)),
    };
    let mut document: DocumentMut = text
        .parse()
        .map_err(|cause| failed("reading", path, &cause))?;
    let section = document.entry("tunnel").or_insert(toml_edit::table());
    let Some(section) = section.as_table_like_mut() else {
        return Err(failed("changing", path, &"`tunnel` is no section in it"));
    };
    section.insert("id", toml_edit::value(id));
    // What is the default anyway need not be said.
    if store != KeyStore::default() || section.contains_key("key_store") {
        section.insert("key_store", toml_edit::value(store.as_str()));
    }
    // A link is followed: the person keeps the file elsewhere.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    write_private(&target, document.to_string().as_bytes())
        .map_err(|cause| failed("writing", path, &cause))
}

/// A running daemon takes it up now.
fn tell_daemon(context: &Context) -> Result<(), Failure> {
    daemon::block_on(async {
        let Some(client) = daemon::connect_if_running(context).await? else {
            return Ok(());
        };
        let done: Result<Done, _> = client.post("/v1/reload", &json!({})).await;
        let done = done.map_err(|error| daemon::explain("having the daemon read it", error))?;
        if !context.out.json {
            context.out.text(&format!("the daemon: {}", done.message))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_id_is_put_into_the_file_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        remember(&path, "tunnel_1", KeyStore::File).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "[tunnel]\nid = \"tunnel_1\"\n"
        );
        let text = "# mine\nworkspaces = [\"/w\"] # here\n\n[tunnel]\nclient = \"builtin\"\nid = \"tunnel_0\"\n";
        std::fs::write(&path, text).unwrap();
        remember(&path, "tunnel_2", KeyStore::File).unwrap();
        let after = std::fs::read_to_string(&path).unwrap();
        assert_eq!(after, text.replace("tunnel_0", "tunnel_2"));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for (store, word) in [(KeyStore::Keychain, "keychain"), (KeyStore::File, "file")] {
            remember(&path, "tunnel_2", store).unwrap();
            let line = format!("key_store = \"{word}\"");
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.matches(&line).count(), 1, "{text}");
        }
        std::fs::write(&path, "tunnel = 5\n").unwrap();
        assert!(remember(&path, "tunnel_3", KeyStore::File).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "tunnel = 5\n");
    }
}
