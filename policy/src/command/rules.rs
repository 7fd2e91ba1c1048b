//! The rules: which commands plainly delete.

use std::borrow::Cow;

use super::ground::{Standing, View};
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

/// Which removals are certain where commands may remove what they made: only these are refused
/// early there, and only if what they name stays.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sure {
    /// What the operands name, but for so many of the first ones.
    After(usize),
    /// Files that the operands name, but for the last one. What is in a folder is not known.
    FilesButLast,
    /// What `find` starts at, where no test chooses among it; a file in any case.
    Roots,
    /// None: what goes depends on what the program finds.
    Nothing,
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
    /// What it certainly removes.
    pub(super) sure: Sure,
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
        sure: Sure::After(0),
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
        sure: Sure::After(0),
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
        sure: Sure::After(0),
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
        sure: Sure::After(0),
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
        sure: Sure::After(0),
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
        sure: Sure::After(0),
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
        sure: Sure::Roots,
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
        sure: Sure::Nothing,
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
        sure: Sure::Nothing,
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
        sure: Sure::After(0),
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
        sure: Sure::After(0),
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
        sure: Sure::FilesButLast,
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
        sure: Sure::Nothing,
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
        programs: TAR,
        short_values: "fbCTXIgKLNVHF",
        when: When::Option {
            any: &["--remove-files"],
            unless: &[],
            targets: Targets::Operands,
        },
        sure: Sure::After(0),
        because: "it deletes what it has packed",
        hint: "pack without --remove-files",
        matches: &["tar czf a.tgz --remove-files d"],
        passes: &[
            "tar czf a.tgz d",
            "tar xf a.tgz",
            "tar czf a.tgz --remove-files /tmp/d",
            "tar -cf a.tar --remove-files /tmp/d",
        ],
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
        sure: Sure::After(1),
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
        sure: Sure::After(2),
        because: "it deletes what it has packed",
        hint: "pack without -sdel",
        matches: &["7z a -sdel a.7z v"],
        passes: &["7z a a.7z v", "7z x a.7z"],
    },
];

const TAR: &[&str] = &["tar", "gtar", "bsdtar", "star"];

/// The arguments as the rules read them: `tar cfz a` is `tar -czf a`.
pub(super) fn plain_arguments<'w>(name: &str, args: &'w [Word]) -> Cow<'w, [Word]> {
    let letters = match args.first().map(Word::literal) {
        Some(Some(word)) if TAR.contains(&name) => word,
        _ => return Cow::Borrowed(args),
    };
    if letters.is_empty() || !letters.bytes().all(|b| b.is_ascii_alphabetic()) {
        return Cow::Borrowed(args);
    }
    let (file, mut others): (String, String) = letters.chars().partition(|c| *c == 'f');
    others.insert(0, '-');
    let mut plain = args.to_vec();
    if let Some(first) = plain.first_mut() {
        *first = Word::from_text(&(others + &file));
    }
    Cow::Owned(plain)
}

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

/// Why a rule refuses.
pub(super) enum Reason {
    /// Commands remove nothing at all.
    NothingGoes,
    /// This path was there before.
    Stays(String),
}

/// The first rule that refuses `command`, and why.
pub(super) fn refusing(command: &Command<'_>, view: &View<'_>) -> Option<(&'static Rule, Reason)> {
    RULES
        .iter()
        .filter(|rule| rule.programs.contains(&command.name))
        .find_map(|rule| Some((rule, rule.refuses(command, view)?)))
}

impl Rule {
    fn refuses(&self, command: &Command<'_>, view: &View<'_>) -> Option<Reason> {
        let has_any = |options: &[&str]| options.iter().any(|o| has_option(command.args, o));
        let operands = operands(command.args, self.short_values);
        let view = &command
            .folder
            .map_or_else(|| view.clone(), |f| view.within(f));
        let is_meant = match &self.when {
            When::Operand => command.takes_more || !operands.is_empty(),
            When::Option { any, unless, .. } => has_any(any) && !has_any(unless),
            When::Subcommand { any, unless } => {
                command.subcommand.is_some_and(|sub| any.contains(&sub)) && !has_any(unless)
            }
        };
        if !is_meant || (!command.takes_more && self.is_in_tmp(command, &operands, view)) {
            return None;
        }
        if view.nothing_goes() {
            return Some(Reason::NothingGoes);
        }
        self.stays(command, &operands, view).map(Reason::Stays)
    }

    /// Whether all that the command removes lies in the private tmp.
    fn is_in_tmp(&self, command: &Command<'_>, operands: &[&Word], view: &View<'_>) -> bool {
        let all =
            |targets: &[&Word]| !targets.is_empty() && targets.iter().all(|t| view.is_below_tmp(t));
        match &self.when {
            When::Operand => all(operands),
            When::Option { targets, .. } => match targets {
                Targets::Operands => all(operands),
                Targets::Last => operands
                    .last()
                    .is_some_and(|last| all(std::slice::from_ref(last))),
                Targets::Roots => match roots(command.args).as_slice() {
                    [] => view.is_in_tmp(),
                    roots => all(roots),
                },
            },
            When::Subcommand { .. } if command.folder.is_some() || operands.is_empty() => {
                view.is_in_tmp() && operands.iter().all(|o| view.is_below_tmp(o))
            }
            When::Subcommand { .. } => all(operands),
        }
    }

    /// A path that the command certainly removes and that stays.
    fn stays(&self, command: &Command<'_>, operands: &[&Word], view: &View<'_>) -> Option<String> {
        let any = |targets: &[&Word], accept: fn(Standing) -> bool| {
            targets.iter().find_map(|target| view.stays(target, accept))
        };
        let anything = |standing| standing != Standing::Open;
        let file = |standing| standing == Standing::File;
        match self.sure {
            Sure::After(count) => any(operands.get(count..)?, anything),
            Sure::FilesButLast => {
                let (_, sources) = operands.split_last()?;
                any(sources, file)
            }
            Sure::Roots => {
                let roots = roots(command.args);
                let tests = command.args.get(roots.len()..).unwrap_or_default();
                let plain =
                    |word: &Word| ["-delete", "-depth", "-H", "-L", "-P"].contains(&word.head());
                match tests.iter().all(plain) {
                    true if roots.is_empty() => any(&[&Word::from_text(".")], anything),
                    true => any(&roots, anything),
                    false => any(&roots, file),
                }
            }
            Sure::Nothing => None,
        }
    }
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
