//! The person's side of the permission gate: opening and closing folders of a session, the line of
//! the trail for each step, and the command line that a planner brings to its user.

use crate::files::gate::rfc3339;
use crate::limits;
use crate::outcome::{Code, Outcome};
use crate::session::Session;
use hands_activity::{Event, Record};
use hands_config::{Env, Home, PermissionMode};
use hands_policy::paths::Refusal;
use hands_policy::permission::{Ended, Grant, Use, folder_key};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One step of consent, as the trail has it.
pub struct Step {
    event: Event,
    status: &'static str,
    message: String,
}

impl Step {
    fn new(event: Event, status: &'static str, message: String) -> Self {
        Self {
            event,
            status,
            message,
        }
    }

    /// A planner was told to ask.
    pub fn asked(message: String) -> Self {
        Self::new(Event::Permission, "asked", message)
    }

    /// A nonce was no good.
    pub fn refused(message: String) -> Self {
        Self::new(Event::Permission, "refused", message)
    }

    /// A folder is open.
    pub fn opened(message: String) -> Self {
        Self::new(Event::Grant, "opened", message)
    }
}

/// Writes one step down.
///
/// # Errors
/// `internal`: the trail cannot be written.
pub fn note(
    session: &Session,
    turn_id: &str,
    tool: Option<&str>,
    step: &Step,
) -> Result<(), Outcome> {
    let record = Record {
        tool: tool.map(str::to_string),
        status: Some(step.status.into()),
        message: Some(step.message.clone()),
        ..Record::new(step.event, turn_id)
    };
    let appended = session.trail.append(record);
    appended
        .map(drop)
        .map_err(|e| Outcome::fail(Code::Internal, format!("the trail cannot be written: {e}")))
}

/// Writes down what ended. It has ended whether that can be written or not; what could not be is
/// told on the live view and returned.
fn note_ended(session: &Session, ended: &Ended, status: &'static str, how: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let grants = ended.grants.iter().map(|grant| {
        let until = rfc3339(grant.expires_at);
        let message = format!(
            "{} is closed ({}): {how}; it was open until {until} at the latest, by the {}",
            grant.folder.display(),
            grant.purpose,
            by(grant)
        );
        Step::new(Event::Grant, status, message)
    });
    let nonces = ended.nonces.iter().map(|nonce| {
        let until = nonce.expires_at.map(rfc3339).unwrap_or_default();
        let message = format!(
            "nonce for {} ({}), good until {until}, was not used: {how}",
            nonce.folder.display(),
            nonce.act
        );
        Step::new(Event::Permission, status, message)
    });
    for step in grants.chain(nonces) {
        if let Err(outcome) = note(session, "", None, &step) {
            let why = outcome.message.clone().unwrap_or_default();
            session
                .live
                .line(&format!("FAULT  {}: {why}", step.message));
            problems.push(why);
        }
    }
    problems.dedup();
    problems
}

fn by(grant: &Grant) -> &'static str {
    match grant.giver {
        hands_policy::permission::Giver::Nonce => "planner's nonce",
        hands_policy::permission::Giver::Person => "person's grant",
    }
}

/// Looks for what time has ended and writes it down.
pub fn lapse(session: &Session) {
    let mut grants = session.grants();
    note_lapsed(session, grants.lapse());
}

/// Writes down what time has ended.
pub fn note_lapsed(session: &Session, ended: Ended) {
    note_ended(session, &ended, "expired", "its time is over");
}

/// Ends all that a session was allowed, with the session.
pub fn end(session: &Session) {
    let mut grants = session.grants();
    note_lapsed(session, grants.lapse());
    let ended = grants.end();
    note_ended(session, &ended, "ended", "the session has ended");
}

/// Why a person's wish was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ConsentError {
    /// The folder is none that can be granted.
    #[error("{0}")]
    Folder(Refusal),
    /// The time is none that a grant may have.
    #[error(
        "a grant lasts from 1 to {most} s (`permissions.grant_ttl_s`), not {asked} s: nothing was \
         granted"
    )]
    Time {
        /// Seconds that were asked for.
        asked: u64,
        /// Seconds that a grant may last.
        most: u64,
    },
    /// No folder was named.
    #[error("no folder was named: nothing was granted")]
    NoFolder,
    /// The session is over.
    #[error("the session has ended: nothing was granted")]
    Over,
    /// The trail has no place for it.
    #[error("{0}: nothing was granted")]
    Trail(String),
}

/// Opens folders by the person's word, for `for_s` seconds or as long as the configuration lets
/// them be open: all of them, or none. `peer` is the process that brought the word. Blocks.
///
/// # Errors
/// What is wrong with the folders or the time, or that the trail cannot be written.
pub fn grant(
    session: &Session,
    folders: &[String],
    for_s: Option<u64>,
    peer: i32,
) -> Result<Vec<Grant>, ConsentError> {
    let most = session.config.permissions.grant_ttl_s;
    let seconds = for_s.unwrap_or(most);
    if seconds == 0 || seconds > most {
        return Err(ConsentError::Time {
            asked: seconds,
            most,
        });
    }
    let named = folders.iter().map(|text| session.policy.grant_folder(text));
    let keys: Vec<PathBuf> = named
        .collect::<Result<_, _>>()
        .map_err(ConsentError::Folder)?;
    if keys.is_empty() {
        return Err(ConsentError::NoFolder);
    }
    let mut grants = session.grants();
    if grants.has_ended() {
        return Err(ConsentError::Over);
    }
    note_lapsed(session, grants.lapse());
    for key in &keys {
        let message = format!(
            "{} is open now ({}), for {seconds} s: granted over the control socket by process {peer}",
            key.display(),
            Use::Write
        );
        // What is not on record is not open: the record comes first.
        note(session, "", None, &Step::opened(message))
            .map_err(|outcome| ConsentError::Trail(outcome.message.clone().unwrap_or_default()))?;
    }
    for key in &keys {
        grants.allow(key, Use::Write, Duration::from_secs(seconds));
    }
    let open = grants.list();
    Ok(open
        .into_iter()
        .filter(|grant| grant.purpose == Use::Write && keys.contains(&grant.folder))
        .collect())
}

/// Closes folders, or all, from the next call on, and takes back the nonces that would open them.
/// Tells what that ended, and what could not be written down. Blocks.
///
/// A folder is named as it stands in the grants, so that one which is gone can be closed too.
pub fn revoke(session: &Session, folders: Option<&[String]>, peer: i32) -> (Ended, Vec<String>) {
    let mut grants = session.grants();
    note_lapsed(session, grants.lapse());
    let keys: Vec<PathBuf> = match folders {
        Some(folders) => folders.iter().map(|text| key_of(session, text)).collect(),
        None => {
            let open = grants.list().into_iter().map(|grant| grant.folder);
            let asked = grants.pending().into_iter().map(|asked| asked.folder);
            open.chain(asked).collect()
        }
    };
    let mut ended = Ended::default();
    for key in &keys {
        let one = grants.revoke(key);
        ended.grants.extend(one.grants);
        ended.nonces.extend(one.nonces);
    }
    let how = format!("revoked over the control socket by process {peer}");
    let problems = note_ended(session, &ended, "revoked", &how);
    (ended, problems)
}

/// The key that a name stands for: closing needs no such care with links as opening does.
fn key_of(session: &Session, text: &str) -> PathBuf {
    let named: PathBuf = Path::new(text).components().collect();
    match session.policy.grant_folder(text) {
        Ok(key) => key,
        Err(_) => named.canonicalize().unwrap_or(named),
    }
}

/// The folders that commands of this session may write in; none where no grant is needed for that.
pub fn writable(session: &Session) -> Option<Vec<PathBuf>> {
    if session.config.permissions.mode != PermissionMode::Human {
        return None;
    }
    let mut grants = session.grants();
    note_lapsed(session, grants.lapse());
    let open = grants.list().into_iter();
    let for_writing = open.filter(|grant| grant.purpose == Use::Write);
    Some(for_writing.map(|grant| grant.folder).collect())
}

/// What a command was told whose writing was refused: where it may write, and what opens more.
pub fn told_to_command(session: &Session, cwd: &Path) -> String {
    let open = writable(session).unwrap_or_default();
    let names: Vec<String> = open.iter().map(|key| key.display().to_string()).collect();
    let now = match names.is_empty() {
        true => "none so far".to_string(),
        false => names.join(", "),
    };
    let mut told = format!(
        "commands write only in /tmp and in the folders that your user granted to this session \
         ({now}); other folders of the workspaces are read-only to them"
    );
    let here = key_around(session, cwd).filter(|key| !open.contains(key));
    if let Some(line) = here.and_then(|key| grant_command(session, &key)) {
        // Writing to a String cannot fail.
        let _ = write!(told, ". To open the working folder, your user runs: {line}");
    }
    told
}

/// The key of the files in a folder.
fn key_around(session: &Session, folder: &Path) -> Option<PathBuf> {
    let roots = session.policy.workspaces().iter();
    let roots: Vec<&Path> = roots.map(|root| root.real.as_path()).collect();
    folder_key(&roots, &folder.join("file"))
}

/// The command line by which the person opens `folder` in this session; none where the name cannot
/// be written in one.
pub fn grant_command(session: &Session, folder: &Path) -> Option<String> {
    let mut line = String::from("handsctl");
    let home = &session.hub.home;
    let usual = Home::locate(&Env::default(), None);
    if !usual.is_ok_and(|usual| usual.root() == home.root()) {
        line.push_str(" --home ");
        line.push_str(&shell_word(home.root().to_str()?));
    }
    let folder = shell_word(folder.to_str()?);
    // Writing to a String cannot fail.
    let _ = write!(line, " permissions grant --session {} {folder}", session.id);
    (line.len() <= limits::COMMAND_LINE_BYTES).then_some(line)
}

/// A word for the person's shell. What a terminal would act on, or an eye not see, is written as an
/// escape: the line is pasted, and the name may be the planner's.
fn shell_word(text: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "/._-+,@%:".contains(c);
    if !text.is_empty() && text.chars().all(bare) {
        return text.to_string();
    }
    let plain =
        |c: char| c == ' ' || c.is_ascii_graphic() || (!c.is_ascii() && c.is_alphanumeric());
    if text.chars().all(plain) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut word = String::from("$'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => word.extend(['\\', c]),
            c if plain(c) => word.push(c),
            c => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    // Three octal digits: a digit that follows is never taken for one of them.
                    let _ = write!(word, "\\{byte:03o}");
                }
            }
        }
    }
    word.push('\'');
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_word_says_its_name_to_a_shell_and_nothing_to_a_terminal() {
        let names = [
            "/home/ada/Hands/report",
            "/a b",
            "/it's",
            "/$(touch x)`id`",
            "/a\nb",
            "/a\u{3}\nrm -rf ~\n",
            "/\u{1b}[2J'\\'",
            "/übung",
            "/\u{202e}txt.\u{200b}x",
            "/\t1",
            "/a;b&c|d>e*?[x]{y}~!#",
            "-rf",
            "",
        ];
        for name in names {
            let word = shell_word(name);
            let seen = |c: char| c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric();
            assert!(word.chars().all(seen), "{word:?}");
            let script = format!("printf %s {word}");
            let bash = Command::new("bash").args(["-c", &script]).output().unwrap();
            assert_eq!(bash.stdout, name.as_bytes(), "{word}");
        }
    }

    #[test]
    fn what_is_plain_stays_readable() {
        assert_eq!(shell_word("/home/ada/Hands"), "/home/ada/Hands");
        assert_eq!(shell_word("/a b"), "'/a b'");
        assert_eq!(shell_word("/a\n"), r"$'/a\012'");
    }
}
