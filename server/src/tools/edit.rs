//! `edit`: exact changes to parts of files, all or nothing.

use super::write_file::not_kept;
use super::{input, output};
use crate::args::Args;
use crate::calls::Call;
use crate::files::existing::Existing;
use crate::files::replace::{Committed, Spot};
use crate::files::sha256;
use crate::files::target::Writable;
use crate::limits;
use crate::outcome::{Code, Outcome};
use crate::session::Session;
use hands_text::diff;
use hands_text::edit::{self as engine, Applied, Edit, EditError};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KNOWN: &[&str] = &[
    "path",
    "edits",
    "old",
    "new",
    "replace_all",
    "expected_count",
    "start_line",
    "end_line",
    "insert_at",
    "files",
    "if_sha256",
    "dry_run",
    "nonce",
];
/// The fields of one edit.
const EDIT: &[&str] = &[
    "old",
    "new",
    "replace_all",
    "expected_count",
    "start_line",
    "end_line",
    "insert_at",
];
/// Fields for which `""` is a value.
const KEEP: &[&str] = &["old", "new"];

pub(super) fn description(_: &Session) -> String {
    "Changes parts of existing files. An edit replaces exact text (`old` must occur once, unless \
     `replace_all` or `expected_count`), whole lines (`start_line`..`end_line`), or inserts lines \
     (`insert_at`). Line numbers are those before this call. All edits of a call apply, or none. \
     Encoding, line ends and everything not named stay byte for byte; `\\n` in `old` matches the \
     file's line ends. The first change in a folder of a session answers `permission_required` \
     with a nonce; ask your user, then repeat the call with it. The previous content is kept at \
     `previous_recovery_path`. A file outside the workspaces is not changed: a working copy beside \
     it is (`redirected_from`)."
        .into()
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
    }))
}

/// What the planner asked for.
struct Wish {
    files: Vec<(String, Vec<Edit>)>,
    /// The call used `files`: so does its answer.
    several: bool,
    if_sha256: Option<String>,
    dry_run: bool,
    nonce: Option<String>,
}

impl Wish {
    fn read(args: Map<String, Value>) -> Result<Self, Outcome> {
        let single: Map<String, Value> = EDIT
            .iter()
            .filter_map(|name| Some((name.to_string(), args.get(*name)?.clone())))
            .filter(|(_, value)| !value.is_null())
            .collect();
        let args = Args::new(args, "", KNOWN, KEEP)?;
        let several = args.objects("files")?;
        let files = match &several {
            Some(files) => several_files(files, &args, &single)?,
            None => vec![one_file(&args, single)?],
        };
        let if_sha256 = args.string("if_sha256")?.map(str::to_lowercase);
        if if_sha256.is_some() && files.len() > 1 {
            return Err(Outcome::validation("`if_sha256` is for a single file"));
        }
        Ok(Self {
            several: several.is_some(),
            files,
            if_sha256,
            dry_run: args.flag("dry_run")?,
            nonce: args.string("nonce")?.map(str::to_string),
        })
    }
}

fn one_file(args: &Args, single: Map<String, Value>) -> Result<(String, Vec<Edit>), Outcome> {
    let path = args.required("path")?.to_string();
    let listed = args.objects("edits")?;
    // `""` beside a list is a client's way to say nothing.
    let given = single.values().any(|value| value != "" && value != false);
    let edits = match (listed, given) {
        (Some(_), true) => {
            return Err(Outcome::validation(
                "`edits` and a single edit at the top level exclude each other",
            ));
        }
        (Some(list), false) => read_edits(list, "")?,
        (None, _) if single.is_empty() => {
            return Err(Outcome::validation("`edits` is missing").hint(
                "Give `edits`, or one edit as `old` and `new`, `start_line`, `end_line` and \
                 `new`, or `insert_at` and `new`.",
            ));
        }
        (None, _) => vec![read_edit(single, "")?],
    };
    Ok((path, edits))
}

fn several_files(
    files: &[Map<String, Value>],
    args: &Args,
    single: &Map<String, Value>,
) -> Result<Vec<(String, Vec<Edit>)>, Outcome> {
    if args.has("path") || args.has("edits") || single.values().any(|v| v != "" && v != false) {
        return Err(Outcome::validation(
            "`files` stands instead of `path`, `edits` and a single edit",
        ));
    }
    if files.len() > limits::EDIT_FILES {
        return Err(Outcome::validation(format!(
            "`files` holds {} files; at most {} at once",
            files.len(),
            limits::EDIT_FILES
        )));
    }
    let read = |(at, file): (usize, &Map<String, Value>)| {
        let prefix = format!("files[{at}].");
        let args = Args::new(file.clone(), &prefix, &["path", "edits"], &[])?;
        let path = args.required("path")?.to_string();
        match args.objects("edits")? {
            Some(list) => Ok((path, read_edits(list, &prefix)?)),
            None => Err(Outcome::validation(format!("`{prefix}edits` is missing"))),
        }
    };
    files.iter().enumerate().map(read).collect()
}

fn read_edits(list: Vec<Map<String, Value>>, prefix: &str) -> Result<Vec<Edit>, Outcome> {
    if list.len() > limits::EDITS {
        return Err(Outcome::validation(format!(
            "`{prefix}edits` holds {} edits; at most {} at once",
            list.len(),
            limits::EDITS
        )));
    }
    let read = |(at, edit)| read_edit(edit, &format!("{prefix}edits[{at}]."));
    list.into_iter().enumerate().map(read).collect()
}

fn read_edit(map: Map<String, Value>, prefix: &str) -> Result<Edit, Outcome> {
    let args = Args::new(map, prefix, EDIT, KEEP)?;
    let line = |name| -> Result<Option<usize>, Outcome> {
        let number = args.whole(name, 1..=i64::MAX)?;
        Ok(number.map(|n| usize::try_from(n).unwrap_or(usize::MAX)))
    };
    let start_line = line("start_line")?;
    let end_line = line("end_line")?;
    let insert_at = line("insert_at")?;
    // With lines named, an empty `old` says nothing.
    let by_line = start_line.is_some() || end_line.is_some() || insert_at.is_some();
    let old = args
        .string("old")?
        .filter(|old| !(by_line && old.is_empty()));
    let new = args.required("new")?.to_string();
    let replace_all = args.flag("replace_all")?;
    let expected_count = args.whole("expected_count", 1..=i64::MAX)?;
    let expected_count = expected_count.and_then(|n| u64::try_from(n).ok());
    match (old, start_line, end_line, insert_at) {
        (Some(old), None, None, None) => Ok(Edit::Replace {
            old: old.to_string(),
            new,
            replace_all,
            expected_count,
        }),
        (None, Some(start_line), Some(end_line), None) => Ok(Edit::Lines {
            start_line,
            end_line,
            new,
        }),
        (None, None, None, Some(insert_at)) => Ok(Edit::Insert { insert_at, new }),
        _ => {
            let what = match prefix.trim_end_matches('.') {
                "" => "the edit".to_string(),
                prefix => format!("`{prefix}`"),
            };
            Err(Outcome::validation(format!(
                "{what} must be one of: `old` and `new`; `start_line`, `end_line` and `new`; \
                 `insert_at` and `new`"
            )))
        }
    }
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
        let applied =
            engine::apply(&old.bytes, edits, None).map_err(|e| refused(&place, prefix, &e))?;
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

fn refused(place: &Writable, prefix: &str, error: &EditError) -> Outcome {
    let code = match error {
        EditError::TooLarge { .. } => Code::TooLarge,
        e if e.is_bad_argument() => Code::Validation,
        _ => Code::Conflict,
    };
    let message = format!("{}: {prefix}{error}", place.source_path().display());
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
        file.place
            .pass_gate(&call.session, &call.turn_id, "edit", own)?;
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
        if !file.place.replaces()
            && let Err(outcome) = spot.create(&file.applied.bytes, false)
        {
            return Err(undo(committed, outcome));
        }
    }
    committed.into_iter().for_each(Committed::finish);
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
        (false, 1) => format!(
            "Edited {}: {applied} changes.",
            prepared[0].place.target.path().display()
        ),
        (false, count) => format!("Edited {count} files: {applied} changes."),
    };
    for (at, file) in prepared.iter().enumerate() {
        if let Some(from) = &file.place.redirected_from {
            text.push_str(&format!(
                "\n{} lies outside the workspaces and stays as it is; the working copy is {}.",
                from.display(),
                file.place.target.path().display()
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
            .map(|(at, file)| Value::Object(facts(file, kept.get(at).cloned().flatten())));
        outcome = outcome.field("files", files.collect::<Vec<_>>());
    } else if let Some(file) = prepared.first() {
        outcome
            .fields
            .extend(facts(file, kept.first().cloned().flatten()));
    }
    outcome
}

fn facts(file: &Prepared, kept: Option<PathBuf>) -> Map<String, Value> {
    let text = |path: &PathBuf| Value::from(path.to_string_lossy());
    let mut facts = Map::new();
    let path = file.place.target.path();
    facts.insert("path".into(), path.to_string_lossy().into());
    facts.insert("sha256".into(), sha256(&file.applied.bytes).into());
    if let Some(kept) = &kept {
        facts.insert("previous_recovery_path".into(), text(kept));
    }
    if let Some(from) = &file.place.redirected_from {
        facts.insert("redirected_from".into(), text(from));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: Value) -> Result<Wish, String> {
        let Value::Object(map) = args else { panic!() };
        Wish::read(map).map_err(|outcome| outcome.shown())
    }

    #[test]
    fn one_edit_may_stand_at_the_top() {
        let wish = read(json!({"path": "a", "old": "x", "new": ""})).unwrap();
        assert!(
            matches!(&wish.files[0].1[0], Edit::Replace { old, new, .. } if old == "x" && new.is_empty())
        );
        let wish = read(json!({"path": "a", "start_line": 1, "end_line": 2, "new": "", "old": ""}))
            .unwrap();
        assert!(matches!(wish.files[0].1[0], Edit::Lines { .. }));
        let wish = read(json!({"path": "a", "edits": [{"insert_at": 1, "new": "x"}], "old": "", "new": "", "replace_all": false})).unwrap();
        assert!(matches!(wish.files[0].1[0], Edit::Insert { .. }));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let err = |args| read(args).err().unwrap();
        assert!(err(json!({"path": "a"})).contains("`edits` is missing"));
        assert!(err(json!({"path": "a", "edits": []})).contains("`edits`"));
        assert!(
            err(json!({"path": "a", "edits": [{"old": "x"}]}))
                .contains("`edits[0].new` is missing")
        );
        assert!(
            err(json!({"path": "a", "edits": [{"old": "x", "new": "y", "line": 3}]}))
                .contains("`edits[0].line`")
        );
        assert!(
            err(json!({"path": "a", "edits": [{"old": "x", "new": "y", "insert_at": 3}]}))
                .contains("`edits[0]` must be one of")
        );
        assert!(
            err(json!({"path": "a", "old": "x", "new": "y", "edits": [{"old": "x", "new": "y"}]}))
                .contains("exclude")
        );
        assert!(
            err(
                json!({"path": "a", "files": [{"path": "b", "edits": [{"old": "x", "new": "y"}]}]})
            )
            .contains("`files`")
        );
        assert!(err(json!({"old": "x", "new": "y"})).contains("`path` is missing"));
    }
}
