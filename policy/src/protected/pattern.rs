//! Compiled patterns.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::{Entry, HOMES};

/// One component of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// This name.
    Name(String),
    /// A name with `*` in it, split at the stars.
    Wild(Vec<String>),
    /// Any number of components.
    Deep,
}

/// The components of a pattern, folded.
#[derive(Debug, Clone)]
pub(crate) struct Parts(Vec<Part>);

impl Parts {
    pub(crate) fn new(text: &str) -> Parts {
        let parts = text.split('/').filter(|part| !part.is_empty());
        Parts(parts.map(part).collect())
    }

    /// Whether the pattern matches `path` or a folder above it.
    pub(crate) fn covers(&self, path: &[String]) -> bool {
        covers(&self.0, path, false)
    }

    /// How many components of `path` the pattern takes; only for patterns without `**`.
    fn takes(&self, path: &[String]) -> Option<usize> {
        self.covers(path).then_some(self.0.len())
    }
}

fn part(text: &str) -> Part {
    let folded = super::fold(std::ffi::OsStr::new(text));
    match text {
        "**" => Part::Deep,
        _ if text.contains('*') => Part::Wild(folded.split('*').map(str::to_owned).collect()),
        _ => Part::Name(folded),
    }
}

fn covers(parts: &[Part], path: &[String], exact: bool) -> bool {
    match parts.split_first() {
        None => !exact || path.is_empty(),
        Some((Part::Deep, rest)) => (0..=path.len()).any(|skip| covers(rest, &path[skip..], exact)),
        Some((part, rest)) => match path.split_first() {
            Some((name, below)) => one(part, name) && covers(rest, below, exact),
            None => false,
        },
    }
}

fn one(part: &Part, name: &str) -> bool {
    match part {
        Part::Name(wanted) => wanted == name,
        Part::Wild(pieces) => wild(pieces, name),
        Part::Deep => true,
    }
}

/// Whether `name` is the pieces with any text between them.
fn wild(pieces: &[String], name: &str) -> bool {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
        return false;
    };
    let Some(mut rest) = name
        .strip_prefix(first.as_str())
        .and_then(|rest| rest.strip_suffix(last.as_str()))
    else {
        return false;
    };
    for piece in pieces.get(1..pieces.len() - 1).unwrap_or(&[]) {
        match rest.find(piece.as_str()) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    true
}

/// An entry ready to be matched.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) entry: &'static Entry,
    parts: Parts,
    in_home: bool,
    exact: bool,
}

impl Compiled {
    pub(crate) fn new(entry: &'static Entry) -> Compiled {
        let (text, exact) = match entry.pattern.strip_suffix('$') {
            Some(text) => (text, true),
            None => (entry.pattern, false),
        };
        let home = text.strip_prefix("~/");
        Compiled {
            entry,
            parts: Parts::new(home.unwrap_or(text)),
            in_home: home.is_some(),
            exact,
        }
    }

    /// Whether the entry covers a folded path. `homes` says how many components are a home.
    pub(crate) fn matches(&self, path: &[String], homes: &[usize]) -> bool {
        if !self.in_home {
            return covers(&self.parts.0, path, self.exact);
        }
        let mut below = homes.iter().filter_map(|taken| path.get(*taken..));
        below.any(|rest| covers(&self.parts.0, rest, self.exact))
    }

    /// The path that the entry names in `home`, if it names one without wildcards.
    pub(crate) fn literal(&self, home: &Path) -> Option<PathBuf> {
        let literal = !self.entry.pattern.contains('*');
        let text = self.entry.pattern.trim_end_matches('$');
        literal.then(|| match text.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => PathBuf::from(text),
        })
    }

    /// Whether the entry is the home of root, which is a person's home when root is the owner.
    pub(crate) fn is_root_home(&self) -> bool {
        matches!(
            self.entry.pattern,
            "/root" | "/var/root" | "/private/var/root"
        )
    }
}

/// How many components of a folded path are a home in one of the usual places.
pub(crate) fn usual_homes(path: &[String]) -> impl Iterator<Item = usize> {
    static PARTS: LazyLock<Vec<Parts>> =
        LazyLock::new(|| HOMES.iter().map(|text| Parts::new(text)).collect());
    PARTS.iter().filter_map(|parts| parts.takes(path))
}
