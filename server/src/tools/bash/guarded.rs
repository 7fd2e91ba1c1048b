//! What the broker kept, put back and refused, in the planner's words.

use crate::limits;
use crate::outcome::Outcome;
use hands_sandbox::{Guarded, Kept};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A broker's report with git's own housekeeping left out: its files are kept as well, and
/// nobody looks for them one by one.
pub(super) struct Told<'a> {
    kept: Vec<&'a Kept>,
    guarded: &'a Guarded,
}

impl<'a> Told<'a> {
    pub(super) fn of(guarded: &'a Guarded) -> Self {
        let is_git = |path: &Path| path.iter().any(|part| part == ".git");
        let mut kept: Vec<&Kept> = Vec::new();
        for entry in guarded.kept.iter().filter(|kept| !is_git(&kept.origin)) {
            // Of a file that was kept more than once, the first is what the person had.
            if kept.iter().all(|earlier| earlier.origin != entry.origin) {
                kept.push(entry);
            }
        }
        Self { kept, guarded }
    }

    /// Lines for the end of the text.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for kept in self.kept.iter().take(limits::KEPT_SHOWN) {
            notes.push(format!(
                "{} was {}; its old content is in {}",
                kept.origin.display(),
                kept.reason,
                kept.path.display()
            ));
        }
        let more = self.kept.len().saturating_sub(limits::KEPT_SHOWN);
        if more > 0 {
            notes.push(format!(
                "the old contents of {more} more files were kept too"
            ));
        }
        let dropped = self.guarded.dropped.iter();
        notes.extend(dropped.map(crate::calls::dropped_line));
        if !self.guarded.put_back.is_empty() {
            let names: Vec<String> = self
                .guarded
                .put_back
                .iter()
                .map(|path| shown(path))
                .collect();
            notes.push(format!(
                "put back, since nothing new took their place: {}",
                names.join(", ")
            ));
        }
        for line in self.guarded.refused.iter().take(limits::REFUSED_SHOWN) {
            notes.push(format!("refused: {line}"));
        }
        let more = self
            .guarded
            .refused
            .len()
            .saturating_sub(limits::REFUSED_SHOWN);
        if more > 0 {
            notes.push(format!("{more} more refusals"));
        }
        notes
    }

    /// Whether it says why something failed.
    pub(super) fn explains(&self) -> bool {
        !self.guarded.refused.is_empty()
    }

    /// A recovery file to name in the record of the call.
    pub(super) fn first_kept(&self) -> Option<PathBuf> {
        self.kept.first().map(|kept| kept.path.clone())
    }

    /// The same for programs.
    pub(super) fn add_fields(&self, outcome: &mut Outcome) {
        let kept = self.kept.iter().map(|kept| {
            json!({
                "path": kept.origin.to_string_lossy(),
                "recovery_path": kept.path.to_string_lossy(),
                "why": kept.reason,
            })
        });
        let put_back = self
            .guarded
            .put_back
            .iter()
            .map(|path| shown(path))
            .map(Value::from);
        let refused = self.guarded.refused.iter().cloned().map(Value::from);
        for (name, list) in [
            ("kept", kept.collect::<Vec<_>>()),
            ("put_back", put_back.collect()),
            ("refused", refused.collect()),
        ] {
            if !list.is_empty() {
                outcome.fields.insert(name.into(), list.into());
            }
        }
    }
}

/// A note that says one thing: the name of a file or a process may hold a line end, and behind it a
/// line that nobody of us said.
pub(super) fn on_one_line(note: &str) -> String {
    let mut line = String::with_capacity(note.len());
    for c in note.chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
