//! The rules: which commands plainly delete.

use super::word::Word;

/// When a rule applies to a command of its programs.
pub(super) enum When {
    /// It has an operand.
    Operand,
    /// It has one of these options, and none of `unless`.
    Option {
        any: &'static [&'static str],
        unless: &'static [&'static str],
        targets: Targets,
    },
    /// Its subcommand is one of these, without any option of `unless`.
    Subcommand {
        any: &'static [&'static str],
        unless: &'static [&'static str],
    },
}

/// Which words name what is deleted.
#[derive(Clone, Copy)]
pub(super) enum Targets {
    /// Every operand.
    Operands,
    /// The last operand.
    Last,
    /// The operands before the first option or test, as for `find`.
    Roots,
}

/// A kind of deletion, with examples that a test runs.
pub(super) struct Rule {
    /// Its name in a refusal.
    pub(super) id: &'static str,
    /// The programs that it is about.
    pub(super) programs: &'static [&'static str],
    /// Letters of short options that take a value.
    pub(super) short_values: &'static str,
    pub(super) when: When,
    /// What the command does; a clause.
    pub(super) because: &'static str,
    /// What to do instead.
    pub(super) hint: &'static str,
    #[cfg_attr(not(test), allow(dead_code))]
    pub(super) matches: &'static [&'static str],
    #[cfg_attr(not(test), allow(dead_code))]
    pub(super) passes: &'static [&'static str],
}

const ASK: &str = "to change what a file holds, use edit or write_file; to be rid of a file, ask your \
                   user to delete it; scratch files go below /tmp, where they may be deleted";

/// The table. A pattern that ends in `*` is a prefix; `-x` is found in clusters too.
pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "rm",
        programs: &["rm", "grm", "rimraf", "srm", "rmtrash", "safe-rm"],
        short_values: "",
        when: When::Operand,
        because: "it deletes files",
        hint: ASK,
        matches: &[
            "rm v",
            "rm -rf -- build",
            "/usr/bin/rm v",
            "rm -f \"$x\"",
            "npx rimraf dist",
        ],
        passes: &[
            "rm --help",
            "rm --version",
            "rm -rf /tmp/x /tmp/y/*",
            "rm \"$TMPDIR\"/a",
        ],
    },
    Rule {
        id: "unlink",
        programs: &["unlink", "gunlink"],
        short_values: "",
        when: When::Operand,
        because: "it deletes a file",
        hint: ASK,
        matches: &["unlink v"],
        passes: &["unlink /tmp/v", "readlink v"],
    },
    Rule {
        id: "rmdir",
        programs: &["rmdir", "grmdir"],
        short_values: "",
        when: When::Operand,
        because: "it deletes a folder",
        hint: "leave the empty folder, or ask your user to delete it",
        matches: &["rmdir emptyd", "rmdir -p a/b"],
        passes: &["rmdir /tmp/d", "mkdir d"],
    },
    Rule {
        id: "shred",
        programs: &["shred", "gshred", "wipe", "scrub"],
        short_values: "nsNS",
        when: When::Operand,
        because: "it destroys what a file holds beyond recovery",
        hint: ASK,
        matches: &["shred v", "shred -u -n 3 v", "wipe -f v"],
        passes: &["shred -n 3 -u /tmp/v", "shred --help"],
    },
    Rule {
        id: "trash",
        programs: &["trash", "trash-put", "trash-rm", "gvfs-trash"],
        short_values: "",
        when: When::Operand,
        because: "it takes files away",
        hint: "ask your user to move the file to the bin",
        matches: &["trash v", "trash-put v w"],
        passes: &["trash-list", "trash --help", "trash /tmp/x"],
    },
    Rule {
        id: "gio-trash",
        programs: &["gio", "kioclient", "kioclient5"],
        short_values: "",
        when: When::Subcommand {
            any: &["trash", "remove"],
            unless: &["--list", "--restore"],
        },
        because: "it takes files away",
        hint: "ask your user to move the file to the bin",
        matches: &["gio trash v", "gio remove v"],
        passes: &["gio trash --list", "gio info v", "gio trash /tmp/x"],
    },
    Rule {
        id: "find-delete",
        programs: &["find", "gfind"],
        short_values: "",
        when: When::Option {
            any: &["-delete"],
            unless: &[],
            targets: Targets::Roots,
        },
        because: "-delete deletes what it finds",
        hint: "list the files without -delete, and ask your user to delete them",
        matches: &[
            "find . -name '*.o' -delete",
            "find -type f -delete",
            "find /tmp/a . -delete",
        ],
        passes: &[
            "find . -name delete",
            "find /tmp/a -delete",
            "find . -name '*.rm'",
        ],
    },
    Rule {
        id: "git-clean",
        programs: &["git"],
        short_values: "",
        when: When::Subcommand {
            any: &["clean"],
            unless: &["-n", "--dry-run", "-h", "--help"],
        },
        because: "it deletes files that git does not know",
        hint: "list them with `git clean -n`, and ask your user to delete them",
        matches: &["git clean -fd", "git -C repo clean -xdf"],
        passes: &[
            "git clean -n",
            "git clean -nd",
            "git -C /tmp/r clean -fd",
            "git status clean",
        ],
    },
    Rule {
        id: "git-rm",
        programs: &["git"],
        short_values: "",
        when: When::Subcommand {
            any: &["rm"],
            unless: &["--cached", "-n", "--dry-run", "-h", "--help"],
        },
        because: "it deletes the files as well as their entries in the index",
        hint: "take the file out of the index with `git rm --cached`, and ask your user to delete it",
        matches: &["git rm v", "git rm -qf v", "git -c x.y=z rm -r d"],
        passes: &[
            "git rm --cached v",
            "git rm -n v",
            "git log --grep rm",
            "git remote rm origin",
        ],
    },
    Rule {
        id: "hg-remove",
        programs: &["hg"],
        short_values: "",
        when: When::Subcommand {
            any: &["rm", "remove", "purge", "clean"],
            unless: &["--print", "-p", "-n", "--dry-run"],
        },
        because: "it deletes files",
        hint: "use `hg forget`, and ask your user to delete the file",
        matches: &["hg rm v", "hg purge"],
        passes: &["hg forget v", "hg purge --print"],
    },
    Rule {
        id: "svn-delete",
        programs: &["svn"],
        short_values: "",
        when: When::Subcommand {
            any: &["rm", "remove", "delete", "del"],
            unless: &["--keep-local"],
        },
        because: "it deletes files",
        hint: "use `svn delete --keep-local`, and ask your user to delete the file",
        matches: &["svn rm v", "svn delete v"],
        passes: &["svn delete --keep-local v", "svn diff v"],
    },
    Rule {
        id: "rsync-remove-source",
        programs: &["rsync"],
        short_values: "eTfBM",
        when: When::Option {
            any: &["--remove-s*"],
            unless: &["-n", "--dry-run"],
            targets: Targets::Operands,
        },
        because: "it deletes the files at the source",
        hint: "copy without --remove-source-files",
        matches: &[
            "rsync -a --remove-source-files v d/",
            "rsync --remove-sent-files a b",
        ],
        passes: &["rsync -a v d/", "rsync -an --remove-source-files v d/"],
    },
    Rule {
        id: "rsync-delete",
        programs: &["rsync"],
        short_values: "eTfBM",
        when: When::Option {
            any: &["--del*"],
            unless: &["-n", "--dry-run"],
            targets: Targets::Last,
        },
        because: "it deletes files at the target",
        hint: "copy without --delete, or list what it would delete with --dry-run",
        matches: &[
            "rsync -a --delete a/ b/",
            "rsync --delete-after a/ b/",
            "rsync --del a/ b/",
        ],
        passes: &[
            "rsync -a --delete a/ /tmp/b/",
            "rsync -avn --delete a/ b/",
            "rsync -a a/ b/",
        ],
    },
    Rule {
        id: "archive-remove",
        programs: &["tar", "gtar", "bsdtar", "star"],
        short_values: "",
        when: When::Option {
            any: &["--remove-files"],
            unless: &[],
            targets: Targets::Operands,
        },
        because: "it deletes what it has packed",
        hint: "pack without --remove-files",
        matches: &["tar czf a.tgz --remove-files d"],
        passes: &["tar czf a.tgz d", "tar xf a.tgz"],
    },
    Rule {
        id: "zip-move",
        programs: &["zip"],
        short_values: "bintPsx",
        when: When::Option {
            any: &["-m", "--move"],
            unless: &[],
            targets: Targets::Operands,
        },
        because: "it deletes what it has packed",
        hint: "pack without -m",
        matches: &["zip -m a.zip v", "zip -rm a.zip d"],
        passes: &["zip -r a.zip d", "unzip a.zip"],
    },
    Rule {
        id: "7z-delete",
        programs: &["7z", "7za", "7zz"],
        short_values: "",
        when: When::Option {
            any: &["-sdel"],
            unless: &[],
            targets: Targets::Operands,
        },
        because: "it deletes what it has packed",
        hint: "pack without -sdel",
        matches: &["7z a -sdel a.7z v"],
        passes: &["7z a a.7z v", "7z x a.7z"],
    },
];

/// A command that rules are asked about.
pub(super) struct Command<'w> {
    /// Base name of the program.
    pub(super) name: &'w str,
    /// What follows it. For a program with subcommands, what follows the subcommand.
    pub(super) args: &'w [Word],
    /// The subcommand.
    pub(super) subcommand: Option<&'w str>,
    /// The folder that the command is told to work in.
    pub(super) folder: Option<&'w Word>,
    /// Whether the command gets further operands that the line does not show.
    pub(super) takes_more: bool,
}

/// The first rule that refuses `command`.
pub(super) fn refusing(command: &Command<'_>) -> Option<&'static Rule> {
    RULES
        .iter()
        .filter(|rule| rule.programs.contains(&command.name))
        .find(|rule| rule.refuses(command))
}

impl Rule {
    fn refuses(&self, command: &Command<'_>) -> bool {
        let has_any = |options: &[&str]| options.iter().any(|o| has_option(command.args, o));
        let operands = operands(command.args, self.short_values);
        match &self.when {
            When::Operand => {
                command.takes_more || (!operands.is_empty() && !all_below_tmp(&operands))
            }
            When::Option {
                any,
                unless,
                targets,
            } => {
                let targets = match targets {
                    Targets::Operands => operands,
                    Targets::Last => operands.last().copied().into_iter().collect(),
                    Targets::Roots => roots(command.args),
                };
                has_any(any) && !has_any(unless) && (command.takes_more || !all_below_tmp(&targets))
            }
            When::Subcommand { any, unless } => {
                let is_meant = command.subcommand.is_some_and(|sub| any.contains(&sub));
                let in_tmp = match command.folder {
                    Some(folder) => {
                        folder.is_below_tmp() && operands.iter().all(|o| !o.head().starts_with('/'))
                    }
                    None => all_below_tmp(&operands),
                };
                is_meant && !has_any(unless) && (command.takes_more || !in_tmp)
            }
        }
    }
}

fn all_below_tmp(targets: &[&Word]) -> bool {
    !targets.is_empty() && targets.iter().all(|t| t.is_below_tmp())
}

/// The words that are no options: each that does not start with `-`, and each after `--`.
pub(super) fn operands<'w>(args: &'w [Word], short_values: &str) -> Vec<&'w Word> {
    let mut found = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let text = arg.head();
        if text == "--" {
            found.extend(args);
            break;
        }
        if !text.starts_with('-') || text == "-" {
            found.push(arg);
        } else if takes_next(text, short_values) {
            args.next();
        }
    }
    found
}

/// Whether a cluster of short options ends in one whose value is the next word.
pub(super) fn takes_next(text: &str, short_values: &str) -> bool {
    let Some(cluster) = text.strip_prefix('-').filter(|c| !c.starts_with('-')) else {
        return false;
    };
    cluster
        .find(|c| short_values.contains(c))
        .is_some_and(|at| at + 1 == cluster.len())
}

/// The starting points of `find`; without one it starts in the working folder.
pub(super) fn roots(args: &[Word]) -> Vec<&Word> {
    args.iter()
        .skip_while(|arg| ["-H", "-L", "-P"].contains(&arg.head()))
        .take_while(|arg| !arg.head().starts_with(['-', '(', '!', ',']))
        .collect()
}

fn has_option(args: &[Word], option: &str) -> bool {
    args.iter()
        .map(Word::head)
        .take_while(|arg| *arg != "--")
        .any(|arg| is_option(arg, option))
}

/// Whether the word `arg` is `option`, in the notation of the table.
pub(super) fn is_option(arg: &str, option: &str) -> bool {
    if let Some(prefix) = option.strip_suffix('*') {
        return arg.starts_with(prefix);
    }
    if option.starts_with("--") {
        return arg
            .strip_prefix(option)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
    }
    match option.strip_prefix('-') {
        Some(letter) if letter.len() == 1 => {
            arg.starts_with('-') && !arg.starts_with("--") && arg.contains(letter)
        }
        _ => arg == option,
    }
}
