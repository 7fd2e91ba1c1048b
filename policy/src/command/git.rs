//! The parts of a git command that matter here: its subcommand, its folder, and what it runs.

use super::word::Word;

/// A git command taken apart.
#[derive(Default)]
pub(super) struct Git<'w> {
    /// The subcommand.
    pub(super) name: Option<String>,
    /// What follows it.
    pub(super) args: &'w [Word],
    /// The folder of the last `-C`.
    pub(super) folder: Option<&'w Word>,
    /// Scripts that it runs through the shell.
    pub(super) scripts: Vec<String>,
    /// A command that it runs.
    pub(super) command: &'w [Word],
}

/// Takes the words after `git` apart.
pub(super) fn parse(words: &[Word]) -> Git<'_> {
    const VALUES: &[&str] = &["-C", "-c", "--git-dir", "--work-tree", "--namespace"];
    let mut git = Git::default();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let text = word.head();
        if !text.starts_with('-') {
            break;
        }
        let value = words.get(at + 1);
        match text {
            "-C" => git.folder = value,
            "-c" => git.scripts.extend(value.and_then(alias)),
            _ => {}
        }
        at += if VALUES.contains(&text) { 2 } else { 1 };
    }
    git.name = words.get(at).and_then(Word::literal);
    git.args = words.get(at + 1..).unwrap_or_default();
    git.find_commands();
    git
}

/// The script of `alias.name=!script`.
fn alias(setting: &Word) -> Option<String> {
    let source = setting.source();
    let (key, value) = source.split_once('=')?;
    let is_alias = key.len() >= 6 && key.get(..6)?.eq_ignore_ascii_case("alias.");
    value
        .strip_prefix('!')
        .filter(|_| is_alias)
        .map(str::to_owned)
}

impl Git<'_> {
    fn find_commands(&mut self) {
        let first = self.args.first().map_or("", Word::head);
        match self.name.as_deref() {
            Some("submodule") if first == "foreach" => {
                let script: Vec<String> = self
                    .args
                    .iter()
                    .skip(1)
                    .skip_while(|w| w.head().starts_with('-'))
                    .map(Word::source)
                    .collect();
                self.scripts.push(script.join(" "));
            }
            Some("bisect") if first == "run" => {
                self.command = self.args.get(1..).unwrap_or_default();
            }
            Some("rebase" | "filter-branch") => {
                let options = self.args.iter().zip(self.args.iter().skip(1));
                let scripts = options.filter(|(option, _)| {
                    let option = option.head();
                    option == "-x" || option == "--exec" || option.ends_with("-filter")
                });
                self.scripts
                    .extend(scripts.map(|(_, script)| script.source()));
            }
            _ => {}
        }
    }
}
