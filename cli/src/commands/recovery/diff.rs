//! `handsctl recovery diff`: what was kept against what is there now.

use super::{absolute, as_json, failed, find, look};
use crate::Context;
use crate::exit::{Exit, Failure};
use crate::limits;
use hands_activity::{Entry, Kind, Now, Recovery};
use serde_json::json;
use std::io::Read;
use std::path::Path;

/// What came of a comparison.
struct Compared {
    same: bool,
    now: &'static str,
    /// In words, where there are no lines to show.
    words: Option<String>,
    diff: String,
}

impl Compared {
    fn words(same: bool, now: &'static str, words: impl Into<String>) -> Self {
        Self {
            same,
            now,
            words: Some(words.into()),
            diff: String::new(),
        }
    }
}

pub(super) fn run(context: &Context, id: &str, with: Option<&Path>) -> Result<Exit, Failure> {
    let recovery = look(context)?;
    let entry = find(recovery.as_ref(), id)?;
    let Some(recovery) = recovery else {
        return Ok(Exit::Failed);
    };
    let path = match (with, &entry.origin) {
        (Some(with), _) => absolute(with)?,
        (None, Some(origin)) => origin.clone(),
        (None, None) => {
            return Err(
                Failure::usage("comparing", "the output of a tool came from no file")
                    .hint("say --with PATH"),
            );
        }
    };
    let now = Now::at(&path).map_err(failed("looking"))?;
    let compared = compare(&recovery, &entry, &path, now)?;
    if context.out.json {
        let mut object = as_json(&entry);
        object["with"] = json!(path.to_string_lossy());
        object["now"] = json!(compared.now);
        object["same"] = json!(compared.same);
        object["diff"] = json!(compared.diff);
        context.out.object(&object)?;
    } else if let Some(words) = &compared.words {
        context.out.text(&format!("{}: {words}", path.display()))?;
    } else {
        context.out.text(compared.diff.trim_end_matches('\n'))?;
    }
    Ok(Exit::Ok)
}

fn compare(recovery: &Recovery, entry: &Entry, path: &Path, now: Now) -> Result<Compared, Failure> {
    let was = entry.kind.as_str();
    Ok(match (entry.kind, now) {
        (_, Now::Nothing) => Compared::words(
            false,
            "nothing",
            format!("a {was} was kept; nothing is there now"),
        ),
        (Kind::Folder, Now::Folder) => Compared::words(true, "folder", "a folder, then and now"),
        (Kind::Symlink, Now::Link(target)) => {
            let kept = whole(recovery, entry)?.unwrap_or_default();
            let kept = String::from_utf8_lossy(&kept).into_owned();
            let target = target.to_string_lossy().into_owned();
            let words = format!("a link to {kept} was kept; it leads to {target} now");
            Compared::words(kept == target, "symlink", words)
        }
        (Kind::File | Kind::Output, Now::File(file)) => contents(recovery, entry, path, file)?,
        (_, now) => {
            let is = match now {
                Now::File(_) => "file",
                Now::Link(_) => "symlink",
                Now::Folder => "folder",
                _ => "other",
            };
            Compared::words(false, is, format!("a {was} was kept; it is a {is} now"))
        }
    })
}

fn contents(
    recovery: &Recovery,
    entry: &Entry,
    path: &Path,
    file: std::fs::File,
) -> Result<Compared, Failure> {
    let kept = whole(recovery, entry)?;
    let there = bounded(file)
        .map_err(|why| Failure::new(format!("reading {}", path.display()), why.to_string()))?;
    let (Some(kept), Some(there)) = (kept, there) else {
        let words = format!("over {} bytes: too large to be compared", limits::CONTENT);
        return Ok(Compared::words(false, "file", words));
    };
    if kept == there {
        return Ok(Compared::words(true, "file", "the same, then and now"));
    }
    let words = format!(
        "{} bytes were kept; {} other bytes are there now",
        kept.len(),
        there.len()
    );
    let texts = (String::from_utf8(kept), String::from_utf8(there));
    let (Ok(kept), Ok(there)) = texts else {
        return Ok(Compared::words(false, "file", words));
    };
    if kept.contains('\0') || there.contains('\0') {
        return Ok(Compared::words(false, "file", words));
    }
    let name = path.to_string_lossy();
    let (context, cap) = (limits::CONTEXT, limits::DIFF);
    Ok(Compared {
        same: false,
        now: "file",
        words: None,
        diff: hands_text::diff::unified(&kept, &there, &name, context, cap),
    })
}

/// All of an entry's content, unless that is too much.
fn whole(recovery: &Recovery, entry: &Entry) -> Result<Option<Vec<u8>>, Failure> {
    let content = recovery.read(entry).map_err(failed("reading"))?;
    bounded(content)
        .map_err(|why| Failure::new(format!("reading {}", entry.path.display()), why.to_string()))
}

fn bounded(from: impl Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(limits::CONTENT + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limits::CONTENT).then_some(bytes))
}
