//! `edit`: exact changes to parts of files, all or nothing.

#[path = "edit/wish.rs"]
mod wish;

use super::write_file::not_kept;
use super::{input, output};
use crate::calls::Call;
use crate::files::existing::Existing;
use crate::files::gate;
use crate::files::made;
use crate::files::replace::{Committed, Spot};
use crate::files::sha256;
use crate::files::target::Writable;
use crate::limits;
use crate::outcome::{Code, Outcome};
use crate::session::Session;
use hands_policy::permission::Act;
use hands_text::diff;
use hands_text::edit::{self as engine, Applied, Edit, EditError};
use hands_text::encoding;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wish::Wish;

pub(super) fn description(session: &Session) -> String {
    let gate = gate::described(session);
    "Changes parts of existing files. An edit replaces exact text (`old` must occur once, unless \
     `replace_all` or `expected_count`), whole lines (`start_line`..`end_line`), or inserts lines \
     (`insert_at`). Line numbers are those before this call. All edits of a call apply, or none. \
     Encoding, line ends and everything not named stay byte for byte; `\\n` in `old` matches the \
     file's line ends. GATE The previous content is kept at `previous_recovery_path`. A file \
     outside the workspaces is not changed: a working copy beside it is (`redirected_from`)."
        .replace("GATE", gate)
}

pub(super) fn input_schema() -> Map<String, Value> {
    let edits = json!({
        "type": ["array", "null"],
        "description": "Edits, in order.",
        "items": {"$ref": "#/$defs/edit"},
    });
    let mut schema = input(
        json!({
            "path": {"type": ["string", "null"], "description": "The file; relative paths start at the first workspace."},
            "edits": edits,
            "old": {"type": ["string", "null"], "description": "For a single edit: the exact text to replace."},
            "new": {"type": ["string", "null"], "description": "For a single edit: the text or lines in its place; may be empty."},
            "replace_all": {"type": ["boolean", "null"], "description": "For a single edit: replace every occurrence."},
            "expected_count": {"type": ["integer", "null"], "minimum": 1, "description": "For a single edit: replace all, if there are just so many."},
            "start_line": {"type": ["integer", "null"], "minimum": 1, "description": "For a single edit: first line to replace."},
            "end_line": {"type": ["integer", "null"], "minimum": 1, "description": "For a single edit: last line to replace."},
            "insert_at": {"type": ["integer", "null"], "minimum": 1, "description": "For a single edit: line before which to insert; total_lines+1 appends."},
            "files": {
                "type": ["array", "null"],
                "description": "Several files at once, instead of path and edits.",
                "items": {
                    "type": "object",
                    "properties": {
                        "path": {"type": "string", "description": "The file."},
                        "edits": {"type": "array", "items": {"$ref": "#/$defs/edit"}, "description": "Its edits, in order."},
                    },
                    "required": ["path", "edits"],
                    "additionalProperties": false,
                },
            },
            "if_sha256": {"type": ["string", "null"], "description": "Apply only if the file has this SHA-256."},
            "dry_run": {"type": ["boolean", "null"], "description": "Only show the diff; default false."},
            "nonce": {"type": ["string", "null"], "description": "From a permission_required answer, after your user agreed."},
        }),
        &[],
    );
    schema.insert("$defs".into(), json!({"edit": one_edit_schema()}));
    schema
}

fn one_edit_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "old": {"type": ["string", "null"], "description": "Exact text to replace."},
            "new": {"type": ["string", "null"], "description": "Text or lines in its place."},
            "replace_all": {"type": ["boolean", "null"], "description": "Every occurrence."},
            "expected_count": {"type": ["integer", "null"], "description": "All, if just so many."},
            "start_line": {"type": ["integer", "null"], "description": "First line."},
            "end_line": {"type": ["integer", "null"], "description": "Last line."},
            "insert_at": {"type": ["integer", "null"], "description": "Insert before this line."},
        },
        "additionalProperties": false,
    })
}

pub(super) fn output_schema() -> Map<String, Value> {
    output(json!({
        "applied": {"type": "integer"},
        "diff": {"type": "string"},
        "path": {"type": "string"},
        "sha256": {"type": "string"},
        "previous_recovery_path": {"type": "string"},
        "redirected_from": {"type": "string"},
        "files": {"type": "array", "items": {"type": "object"}},
        "nonce": {"type": "string"},
        "folder": {"type": "string"},
        "expires_at": {"type": "string"},
        "grant_command": {"type": "string"},
    }))
}

/// One file with its edits applied in memory.
struct Prepared {
    place: Writable,
    old: Existing,
    applied: Applied,
}

impl Prepared {
    fn make(
        session: &Session,
        place: Writable,
        edits: &[Edit],
        if_sha256: Option<&str>,
        prefix: &str,
    ) -> Result<Self, Outcome> {
        let Some(source) = &place.source else {
            return Err(session.policy.not_found(&place.target).into());
        };
        session.policy.check_read(source)?;
        let old = Existing::read(source, session.config.limits.edit_bytes)?;
        if let Some(expected) = if_sha256 {
            check_hash(&place, &old, expected)?;
        }
        let applied = engine::apply(&old.bytes, edits, None)
            .map_err(|e| refused(&place, prefix, &e, &old.bytes))?;
        Ok(Self {
            place,
            old,
            applied,
        })
    }

    fn diff(&self) -> String {
        let path = self.place.source_path().to_string_lossy();
        let applied = &self.applied;
        diff::unified(
            &applied.old_text,
            &applied.new_text,
            &path,
            limits::DIFF_CONTEXT,
            limits::DIFF_BYTES,
        )
    }
}

fn check_hash(place: &Writable, old: &Existing, expected: &str) -> Result<(), Outcome> {
    let found = sha256(&old.bytes);
    if found == expected {
        return Ok(());
    }
    let message = format!(
        "{} has changed: its SHA-256 is {found}",
        place.source_path().display()
    );
    Err(Outcome::fail(Code::Conflict, message)
        .hint("Read it again before editing it.")
        .field("sha256", found))
}

fn refused(place: &Writable, prefix: &str, error: &EditError, bytes: &[u8]) -> Outcome {
    let code = match error {
        EditError::TooLarge { .. } => Code::TooLarge,
        e if e.is_bad_argument() => Code::Validation,
        _ => Code::Conflict,
    };
    let guessed = encoding::detect(bytes, None).is_ok_and(|detected| !detected.confident);
    let what = match guessed {
        true => error.message_for_guess(),
        false => error.to_string(),
    };
    let message = format!("{}: {prefix}{what}", place.source_path().display());
    Outcome::fail(code, message).hint("Nothing was changed.")
}

pub(super) fn run(call: &Call, args: Map<String, Value>) -> Result<Outcome, Outcome> {
    let session = &call.session;
    let wish = Wish::read(args)?;
    let paths: Vec<&str> = wish.files.iter().map(|(path, _)| path.as_str()).collect();
    let (places, _held) = Writable::hold(session, &paths)?;
    let mut names: Vec<&Path> = places.iter().map(Writable::source_path).collect();
    names.sort();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Outcome::validation(format!(
            "{} is named twice; give all its edits in one entry",
            twice[0].display()
        )));
    }
    let mut prepared = Vec::with_capacity(places.len());
    for (at, (place, (_, edits))) in places.into_iter().zip(&wish.files).enumerate() {
        let prefix = if wish.several {
            format!("files[{at}].")
        } else {
            String::new()
        };
        let if_sha256 = wish.if_sha256.as_deref();
        prepared.push(Prepared::make(session, place, edits, if_sha256, &prefix)?);
    }
    if wish.dry_run {
        return Ok(answer(&wish, &prepared, &[]));
    }
    for file in &prepared {
        file.place.check_writable(&file.old)?;
    }
    pass_gates(call, &prepared, wish.nonce.as_deref())?;
    let kept = commit(call, &prepared)?;
    Ok(answer(&wish, &prepared, &kept))
}

/// Each folder's gate once; the nonce belongs to the first that is not open yet.
fn pass_gates(call: &Call, prepared: &[Prepared], nonce: Option<&str>) -> Result<(), Outcome> {
    let mut nonce = nonce;
    let mut passed: Vec<PathBuf> = Vec::new();
    for file in prepared {
        let Some(folder) = file.place.gated_folder() else {
            continue;
        };
        if passed.iter().any(|p| p == folder) {
            continue;
        }
        let open = file.place.is_open(&call.session);
        let own = if open && prepared.len() > 1 {
            None
        } else {
            nonce.take()
        };
        file.place.pass_gate(call, "edit", Act::Edit, own)?;
        passed.push(folder.to_path_buf());
    }
    Ok(())
}

/// Where one file goes: its folder held open, and its name in it.
struct Placed {
    folder: Arc<OwnedFd>,
    name: OsString,
}

/// Replaces all files, or none: everything is made ready first, then put in place one by one, and
/// taken back if one of them cannot be.
fn commit(call: &Call, prepared: &[Prepared]) -> Result<Vec<Option<PathBuf>>, Outcome> {
    let placed = prepared.iter().map(|file| {
        let (folder, name) = file.place.target.parent()?;
        Ok(Placed { folder, name })
    });
    let placed = placed.collect::<Result<Vec<_>, Outcome>>()?;
    let spots: Vec<Spot> = placed
        .iter()
        .zip(prepared)
        .map(|(placed, file)| Spot {
            folder: &placed.folder,
            name: &placed.name,
            shown: file.place.target.path(),
            notes: call.session.recovery.notes(),
        })
        .collect();
    let mut kept = Vec::with_capacity(prepared.len());
    let mut staged = Vec::new();
    for (spot, file) in spots.iter().zip(prepared) {
        if !file.place.replaces() {
            kept.push(None);
            continue;
        }
        let stored = call.session.recovery.store_file(
            &file.old.file,
            file.place.target.path(),
            &call.turn_id,
            "edited",
        );
        kept.push(Some(stored.map_err(not_kept)?.path));
        staged.push(spot.stage(&file.old, &file.applied.bytes, false)?);
    }
    let mut committed: Vec<Committed> = Vec::new();
    for one in staged {
        match one.commit() {
            Ok(done) => committed.push(done),
            Err(outcome) => return Err(undo(committed, outcome)),
        }
    }
    for (spot, file) in spots.iter().zip(prepared) {
        if file.place.replaces() {
            continue;
        }
        match spot.create(&file.applied.bytes, false) {
            Ok(copy) => made::created(&call.session, &[copy]),
            Err(outcome) => return Err(undo(committed, outcome)),
        }
    }
    let pairs = committed.into_iter().filter_map(|one| {
        let old = one.old();
        Some((old, one.finish()?))
    });
    made::replaced(&call.session, &pairs.collect::<Vec<_>>());
    Ok(kept)
}

/// Takes back what was put in place; what cannot be is said.
fn undo(committed: Vec<Committed>, mut outcome: Outcome) -> Outcome {
    for one in committed.into_iter().rev() {
        if let Err(failure) = one.undo() {
            let message = outcome.message.take().unwrap_or_default();
            let more = failure.message.clone().unwrap_or_default();
            outcome.message = Some(format!(
                "{message}; and an earlier file stays changed: {more}"
            ));
        }
    }
    outcome
}

fn answer(wish: &Wish, prepared: &[Prepared], kept: &[Option<PathBuf>]) -> Outcome {
    let applied: usize = prepared.iter().map(|file| file.applied.replacements).sum();
    let diffs: Vec<String> = prepared.iter().map(Prepared::diff).collect();
    let diff = hands_text::lines::cut_head_tail(&diffs.concat(), limits::DIFF_BYTES, None)
        .text
        .into_owned();
    let count = prepared.len();
    let mut text = match (wish.dry_run, count) {
        (true, _) => format!("Dry run, nothing was written: {applied} changes."),
        (false, 1) => format!("Edited {}: {applied} changes.", prepared[0].place.shown()),
        (false, count) => format!("Edited {count} files: {applied} changes."),
    };
    for (at, file) in prepared.iter().enumerate() {
        if let Some(from) = &file.place.redirected_from {
            let copy = match wish.dry_run {
                true => "a working copy beside it would be made".to_string(),
                false => format!("the working copy is {}", file.place.target.path().display()),
            };
            text.push_str(&format!(
                "\n{} lies outside the workspaces and stays as it is; {copy}.",
                from.display()
            ));
        }
        if let Some(Some(kept)) = kept.get(at) {
            text.push_str(&format!("\nPrevious content: {}", kept.display()));
        }
    }
    text.push('\n');
    text.push_str(&diff);
    let mut outcome = Outcome::ok(text)
        .field("applied", applied)
        .field("diff", diff);
    if wish.several {
        let files = prepared
            .iter()
            .enumerate()
            .map(|(at, file)| Value::Object(facts(wish, file, kept.get(at).cloned().flatten())));
        outcome = outcome.field("files", files.collect::<Vec<_>>());
    } else if let Some(file) = prepared.first() {
        outcome
            .fields
            .extend(facts(wish, file, kept.first().cloned().flatten()));
    }
    outcome
}

fn facts(wish: &Wish, file: &Prepared, kept: Option<PathBuf>) -> Map<String, Value> {
    let text = |path: &PathBuf| Value::from(path.to_string_lossy());
    let mut facts = Map::new();
    // A dry run makes no working copy that could be named.
    let path = match wish.dry_run {
        true => file.place.source_path(),
        false => file.place.target.path(),
    };
    facts.insert("path".into(), path.to_string_lossy().into());
    facts.insert("sha256".into(), sha256(&file.applied.bytes).into());
    if let Some(kept) = &kept {
        facts.insert("previous_recovery_path".into(), text(kept));
    }
    let redirected = file.place.redirected_from.as_ref();
    if let Some(from) = redirected.filter(|_| !wish.dry_run) {
        facts.insert("redirected_from".into(), text(from));
    }
    facts
}
