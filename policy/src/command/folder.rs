//! The working folder of a script, as far as its text tells.

use super::rules::operands;
use super::scan::Scan;
use super::word::{Part, Word};

/// A part of a script.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    /// Where it ends in the source.
    pub(super) end: usize,
    /// Whether it is a process of its own; otherwise it may or may not be carried out.
    pub(super) isolates: bool,
}

/// The folder at each level of the script that is walked.
#[derive(Debug)]
pub(super) struct Folders {
    now: Word,
    /// The parts around, with the folder at their beginning.
    levels: Vec<(Level, Word)>,
}

impl Folders {
    pub(super) fn new(folder: Option<&str>) -> Self {
        Self {
            now: folder.map_or_else(unknown, Word::from_text),
            levels: Vec::new(),
        }
    }

    /// The folder here.
    pub(super) fn now(&self) -> &Word {
        &self.now
    }

    /// Begins a script of its own; what this gives is for [`Folders::leave`].
    pub(super) fn enter(&mut self) -> Self {
        let inner = Self {
            now: self.now.clone(),
            levels: Vec::new(),
        };
        std::mem::replace(self, inner)
    }

    pub(super) fn leave(&mut self, outer: Self) {
        *self = outer;
    }

    pub(super) fn push(&mut self, level: Level) {
        self.levels.push((level, self.now.clone()));
    }

    /// Leaves the parts that end before this byte; whether there were any.
    pub(super) fn left(&mut self, at: usize) -> bool {
        let mut left = false;
        while let Some((level, before)) = self.levels.pop_if(|(level, _)| level.end <= at) {
            left = true;
            if level.isolates {
                self.now = before;
            } else if self.now != before {
                self.now = unknown();
            }
        }
        left
    }

    fn set(&mut self, folder: Option<Word>) {
        self.now = folder.unwrap_or_else(unknown);
    }
}

fn unknown() -> Word {
    Word::from_part(Part::Unknown)
}

impl Scan<'_> {
    /// Follows `cd` and its kin.
    pub(super) fn change_folder(&mut self, name: &str, args: &[Word]) {
        let target = match name {
            "cd" | "pushd" => operands(args, "").first().map(|word| (*word).clone()),
            "popd" => Some(unknown()),
            _ => return,
        };
        let view = self.view();
        let folder = match target {
            None if name == "cd" => Some(view.reach(&Word::from_text("~"))),
            // To the one before, or on the stack.
            Some(word) if ["-", ""].contains(&word.head()) && word.literal().is_some() => None,
            Some(word) => Some(view.reach(&word)),
            None => None,
        };
        self.folders.set(folder);
        self.note_folder();
    }

    /// `$PWD` says where the script is.
    pub(super) fn note_folder(&mut self) {
        let folder = self.folders.now().clone();
        match folder.literal() {
            Some(_) => self.vars.insert("PWD".to_owned(), vec![folder]),
            None => self.vars.remove("PWD"),
        };
    }
}
