//! The promise, rule by rule, and how a backend keeps it.
//!
//! A rule stands here once, for every platform. Each backend answers for all of them
//! ([`crate::Backend::keeps`]), the self-test tries all of them ([`crate::canary`]), and the table in
//! `docs/sandbox.md` is made of the answers, so that none can exist on one platform only.

use std::fmt::Write;

/// A rule of the promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// What was there before is not removed, moved out, emptied or replaced without its content
    /// being kept first.
    NothingIsLost,
    /// What the session's commands made, they may remove and rename.
    WorkCleansUp,
    /// The system's git may take tracked files away, and nobody takes the repository away.
    VersionControl,
    /// Folders of build products are free of the first rule.
    BuildFolders,
    /// `default`, `strict` and `read-only`.
    Modes,
    /// Writing is allow-listed, and what runs later outside is not written.
    WritesAreListed,
    /// Secrets are not read by any way.
    SecretsAreHidden,
    /// Hands itself, its home and its sockets are out of a command's reach.
    HandsOutOfReach,
    /// No rule rests on the check of command lines.
    NotByTheCheck,
    /// The network is what the plan says.
    Network,
    /// Nothing outside does the work for a command, and none of its processes gets more rights.
    NoWayRound,
}

impl Rule {
    /// Every rule, in the order of the promise.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::successors(Some(Self::NothingIsLost), |rule| rule.next())
    }

    fn next(self) -> Option<Self> {
        Some(match self {
            Self::NothingIsLost => Self::WorkCleansUp,
            Self::WorkCleansUp => Self::VersionControl,
            Self::VersionControl => Self::BuildFolders,
            Self::BuildFolders => Self::Modes,
            Self::Modes => Self::WritesAreListed,
            Self::WritesAreListed => Self::SecretsAreHidden,
            Self::SecretsAreHidden => Self::HandsOutOfReach,
            Self::HandsOutOfReach => Self::NotByTheCheck,
            Self::NotByTheCheck => Self::Network,
            Self::Network => Self::NoWayRound,
            Self::NoWayRound => return None,
        })
    }

    /// Its number in the documents, from 1.
    pub fn number(self) -> usize {
        Self::all().take_while(|rule| *rule != self).count() + 1
    }

    /// Its name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::NothingIsLost => "nothing_is_lost",
            Self::WorkCleansUp => "work_cleans_up",
            Self::VersionControl => "version_control",
            Self::BuildFolders => "build_folders",
            Self::Modes => "modes",
            Self::WritesAreListed => "writes_are_listed",
            Self::SecretsAreHidden => "secrets_are_hidden",
            Self::HandsOutOfReach => "hands_out_of_reach",
            Self::NotByTheCheck => "not_by_the_check",
            Self::Network => "network",
            Self::NoWayRound => "no_way_round",
        }
    }

    /// The rule in a few words.
    pub fn title(self) -> &'static str {
        match self {
            Self::NothingIsLost => "nothing of the person's is lost",
            Self::WorkCleansUp => "work cleans up after itself",
            Self::VersionControl => "version control works, and its history stays",
            Self::BuildFolders => "build folders are free",
            Self::Modes => "modes: default, strict, read-only",
            Self::WritesAreListed => "writing is allow-listed",
            Self::SecretsAreHidden => "secrets are not read",
            Self::HandsOutOfReach => "Hands is out of reach",
            Self::NotByTheCheck => "nothing rests on the command check",
            Self::Network => "the network is what the setting says",
            Self::NoWayRound => "no way round",
        }
    }
}

/// How a backend keeps a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// Whole.
    Whole {
        /// What enforces it.
        by: &'static str,
    },
    /// In part.
    Partly {
        /// What enforces that part.
        by: &'static str,
        /// What is not enforced.
        not: &'static str,
    },
    /// Not at all.
    NotHere {
        /// Why, and what is so instead.
        because: &'static str,
    },
}

impl Keeping {
    /// Whether any of the rule is promised.
    pub fn is_promised(&self) -> bool {
        !matches!(self, Self::NotHere { .. })
    }
}

/// A table of what each column keeps of each rule, in Markdown.
pub fn table(columns: &[(&str, &dyn Fn(Rule) -> Keeping)]) -> String {
    let mut text = String::from("| promise |");
    for (name, _) in columns {
        // Writing to a string cannot fail.
        let _ = write!(text, " {name} |");
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(columns.len()));
    for rule in Rule::all() {
        let _ = write!(text, "\n| {}. {} |", rule.number(), rule.title());
        for (_, keeps) in columns {
            let _ = match keeps(rule) {
                Keeping::Whole { by } => write!(text, " **yes**: {by} |"),
                Keeping::Partly { by, not } => write!(text, " **partly**: {by}. Not: {not} |"),
                Keeping::NotHere { because } => write!(text, " **no**: {because} |"),
            };
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_numbered_and_named_apart() {
        let numbers: Vec<usize> = Rule::all().map(Rule::number).collect();
        assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>());
        let names: std::collections::BTreeSet<_> = Rule::all().map(Rule::name).collect();
        assert_eq!(names.len(), numbers.len());
    }
}
