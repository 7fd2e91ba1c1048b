//! What a call of `edit` asks for, read strictly.

use crate::args::Args;
use crate::limits;
use crate::outcome::Outcome;
use hands_text::edit::Edit;
use serde_json::{Map, Value};

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

/// What the planner asked for.
pub(super) struct Wish {
    pub(super) files: Vec<(String, Vec<Edit>)>,
    /// The call used `files`: so does its answer.
    pub(super) several: bool,
    pub(super) if_sha256: Option<String>,
    pub(super) dry_run: bool,
    pub(super) nonce: Option<String>,
}

impl Wish {
    pub(super) fn read(args: Map<String, Value>) -> Result<Self, Outcome> {
        let single: Map<String, Value> = EDIT
            .iter()
            .filter_map(|name| Some((name.to_string(), args.get(*name)?.clone())))
            .filter(|(_, value)| !value.is_null())
            .collect();
        let empty = |name: &str| is_empty_list(args.get(name));
        let (no_files, no_edits) = (empty("files"), empty("edits"));
        let args = Args::new(args, "", KNOWN, KEEP)?;
        if no_files {
            return Err(Outcome::validation("`files` must hold at least one file"));
        }
        if no_edits {
            return Err(Outcome::validation("`edits` must hold at least one edit"));
        }
        let several = args.objects("files")?;
        let files = match &several {
            Some(files) => several_files(files, &args, &single)?,
            None => vec![one_file(&args, single)?],
        };
        let if_sha256 = args.string("if_sha256")?.map(hash).transpose()?;
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

fn is_empty_list(value: Option<&Value>) -> bool {
    value.and_then(Value::as_array).is_some_and(Vec::is_empty)
}

/// A SHA-256 as results show it.
fn hash(text: &str) -> Result<String, Outcome> {
    let text = text.trim().to_lowercase();
    match text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        true => Ok(text),
        false => Err(
            Outcome::validation("`if_sha256` must be a SHA-256 in 64 hexadecimal digits")
                .hint("Take `sha256` from a result of read_file, write_file or edit."),
        ),
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
        if is_empty_list(file.get("edits")) {
            return Err(Outcome::validation(format!(
                "`{prefix}edits` must hold at least one edit"
            )));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        let none = err(json!({"path": "a", "edits": []}));
        assert_eq!(none, "[validation] `edits` must hold at least one edit");
        let none = err(json!({"files": []}));
        assert_eq!(none, "[validation] `files` must hold at least one file");
        let none = err(json!({"files": [{"path": "b", "edits": []}]}));
        assert_eq!(
            none,
            "[validation] `files[0].edits` must hold at least one edit"
        );
        for hash in ["abc".to_string(), "g".repeat(64), "a".repeat(65)] {
            let args = json!({"path": "a", "old": "x", "new": "y", "if_sha256": hash});
            assert!(err(args).contains("`if_sha256` must be"), "{hash}");
        }
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
