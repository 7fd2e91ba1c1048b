//! What a removal would meet: the folder it is made from, the private tmp, and what stands on the
//! disk.

use std::path::{Path, PathBuf};

use super::word::Word;

/// What is at a path that a command is about to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing, or something of which it is not known that it stays: the sandbox decides.
    Open,
    /// Something that commands do not remove, and that is no folder.
    File,
    /// A folder that commands do not remove.
    Folder,
}

/// Knows what commands may remove.
pub trait Ground {
    /// What is at this absolute path; it may hold `..` and need not exist.
    fn standing(&self, path: &Path) -> Standing;
}

/// Where a line is going to run, and what it may remove there.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// Its working folder, absolute.
    pub folder: &'a Path,
    /// The person's home, for `~` and `$HOME`.
    pub home: &'a Path,
    /// Folders that are themselves even below `/tmp`.
    pub roots: &'a [PathBuf],
    /// Where commands may remove what they made: who knows what that is. Without one, commands
    /// remove nothing outside the private tmp.
    pub ground: Option<&'a dyn Ground>,
}

/// How one command sees the disk.
#[derive(Clone)]
pub(super) struct View<'a> {
    /// The folder it works in, as far as the line tells.
    pub(super) folder: Word,
    pub(super) scene: Option<&'a Scene<'a>>,
}

impl View<'_> {
    /// Whether commands remove nothing outside the private tmp.
    pub(super) fn nothing_goes(&self) -> bool {
        self.scene.is_none_or(|scene| scene.ground.is_none())
    }

    /// The same, from another folder.
    pub(super) fn within(&self, folder: &Word) -> Self {
        Self {
            folder: self.reach(folder),
            scene: self.scene,
        }
    }

    /// The path that `word` names.
    pub(super) fn reach(&self, word: &Word) -> Word {
        let home = self.scene.and_then(|scene| scene.home.to_str());
        if let (Some(home), Some(rest)) = (home, word.head().strip_prefix('~'))
            && (rest.starts_with('/') || word.literal().is_some_and(|whole| whole == "~"))
        {
            return word.with_head(&format!("{home}{rest}"));
        }
        match word.is_relative() {
            true => self.folder.joined(word),
            false => word.clone(),
        }
    }

    /// Whether `word` names something in the private tmp, whatever the disk looks like.
    pub(super) fn is_below_tmp(&self, word: &Word) -> bool {
        let path = self.reach(word);
        path.is_below_tmp() && !self.is_in_root(&path)
    }

    /// Whether the folder itself is in the private tmp.
    pub(super) fn is_in_tmp(&self) -> bool {
        self.folder.is_below_tmp() && !self.is_in_root(&self.folder)
    }

    fn is_in_root(&self, path: &Word) -> bool {
        let roots = self.scene.map_or(&[][..], |scene| scene.roots);
        let path = path.literal().unwrap_or_default();
        roots.iter().any(|root| Path::new(&path).starts_with(root))
    }

    /// The path that `word` names, if something is there that commands do not remove.
    pub(super) fn stays(&self, word: &Word, accept: fn(Standing) -> bool) -> Option<String> {
        if self.is_below_tmp(word) {
            return None;
        }
        let path = self.reach(word).literal()?;
        let ground = self.scene?.ground?;
        let is_known = Path::new(&path).is_absolute();
        (is_known && accept(ground.standing(Path::new(&path)))).then_some(path)
    }
}
