//! Programs that take a secret in an argument which no name tells: `mysql -p…`, `curl -u user:…`.
//!
//! [`Watch`] reads the words of one command in their order and says which part of a word is
//! secret. It knows nothing of how words are parted, so that it serves shell lines and argument
//! lists alike.

use std::ops::Range;

use super::assign::is_prose;
use super::names::is_secret_name;
use super::value::{is_path, is_placeholder};

/// Which part of an option's value is secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// What follows the first colon of `user:password`.
    AfterColon,
    /// What follows the first of these characters: `user%password`.
    After(char),
    /// What follows `pass:`; other sources of a password (`env:`, `file:`) hold none.
    AfterPass,
}

/// Where the value of an option may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the word of the option: `-pX`.
    Joined,
    /// In the next word.
    Apart,
    /// In either.
    Both,
}

/// An option, where its value stands, and what of it is secret.
type Secret = (&'static str, Place, Part);

/// What is known of some programs that take the same options.
struct Program {
    names: &'static [&'static str],
    /// Name in the marker.
    rule: &'static str,
    secrets: &'static [Secret],
    /// A word that has to stand before the options; `-p` of other subcommands means something else.
    subcommand: Option<&'static str>,
    /// Letters of short options without a value, which others may be joined to: `-su`.
    plain: &'static str,
    /// For a program that runs another: letters of the short options that take a value. What
    /// follows the first word that belongs to no option is the other's.
    leading: Option<&'static str>,
}

/// The value follows `config set <a name that tells a secret>`.
const CONFIG: &str = "config";
const FLAG: &str = "flag";
/// Passwords on the standard input of another program.
pub(super) const STDIN_RULE: &str = "stdin-password";

const BASE: Program = Program {
    names: &[],
    rule: FLAG,
    secrets: &[],
    subcommand: None,
    plain: "",
    leading: None,
};

const PROGRAMS: &[Program] = &[
    Program {
        names: &["curl"],
        rule: "curl-user",
        secrets: &[
            ("-u", Place::Both, Part::AfterColon),
            ("-U", Place::Both, Part::AfterColon),
            ("--user", Place::Both, Part::AfterColon),
            ("--proxy-user", Place::Both, Part::AfterColon),
            ("--pass", Place::Both, Part::Whole),
            ("--proxy-pass", Place::Both, Part::Whole),
            ("--oauth2-bearer", Place::Both, Part::Whole),
        ],
        plain: "0346GIJLNOSafgijklnpqsv#",
        ..BASE
    },
    Program {
        names: &[
            "mysql",
            "mysqldump",
            "mysqladmin",
            "mysqlimport",
            "mysqlshow",
            "mysqlcheck",
            "mysqlpump",
            "mysqlslap",
            "mysqlbinlog",
            "mariadb",
            "mariadb-dump",
            "mariadb-admin",
            "7z",
            "7za",
            "7zz",
            "7zr",
            "rar",
            "unrar",
        ],
        secrets: &[("-p", Place::Joined, Part::Whole)],
        ..BASE
    },
    Program {
        names: &[
            "mongo",
            "mongosh",
            "mongodump",
            "mongorestore",
            "twine",
            "cqlsh",
        ],
        secrets: &[("-p", Place::Both, Part::Whole)],
        ..BASE
    },
    Program {
        names: &["redis-cli", "valkey-cli"],
        secrets: &[
            ("-a", Place::Apart, Part::Whole),
            ("--pass", Place::Apart, Part::Whole),
        ],
        ..BASE
    },
    Program {
        names: &[
            "docker", "podman", "nerdctl", "buildah", "skopeo", "helm", "oras", "az", "oc",
        ],
        secrets: &[("-p", Place::Both, Part::Whole)],
        subcommand: Some("login"),
        ..BASE
    },
    Program {
        names: &["openssl"],
        rule: "openssl-pass",
        secrets: &[
            ("-pass", Place::Apart, Part::AfterPass),
            ("-passin", Place::Apart, Part::AfterPass),
            ("-passout", Place::Apart, Part::AfterPass),
            ("-password", Place::Apart, Part::AfterPass),
            ("-k", Place::Apart, Part::Whole),
            ("-K", Place::Apart, Part::Whole),
            ("-hmac", Place::Apart, Part::Whole),
        ],
        ..BASE
    },
    Program {
        names: &["sshpass"],
        rule: "sshpass",
        secrets: &[("-p", Place::Both, Part::Whole)],
        plain: "vV",
        leading: Some("fdP"),
        ..BASE
    },
    Program {
        names: &["zip", "unzip", "sqlcmd", "mosquitto_pub", "mosquitto_sub"],
        secrets: &[("-P", Place::Both, Part::Whole)],
        ..BASE
    },
    Program {
        names: &["ssh-keygen"],
        secrets: &[
            ("-N", Place::Both, Part::Whole),
            ("-P", Place::Both, Part::Whole),
        ],
        ..BASE
    },
    Program {
        names: &["smbclient", "rpcclient"],
        secrets: &[
            ("-U", Place::Both, Part::After('%')),
            ("--user", Place::Both, Part::After('%')),
        ],
        ..BASE
    },
    Program {
        names: &["lftp"],
        secrets: &[
            ("-u", Place::Both, Part::After(',')),
            ("--user", Place::Both, Part::After(',')),
        ],
        ..BASE
    },
    Program {
        names: &["http", "https", "xh", "xhs"],
        secrets: &[
            ("-a", Place::Both, Part::AfterColon),
            ("--auth", Place::Both, Part::AfterColon),
        ],
        ..BASE
    },
    Program {
        names: &["security"],
        secrets: &[
            ("-w", Place::Apart, Part::Whole),
            ("-p", Place::Apart, Part::Whole),
        ],
        ..BASE
    },
    Program {
        names: &["ldapsearch", "ldapmodify", "ldapadd", "ldapdelete"],
        secrets: &[("-w", Place::Both, Part::Whole)],
        ..BASE
    },
    Program {
        names: &["aws", "npm", "pnpm", "yarn", "pip", "pip3", "git"],
        rule: CONFIG,
        ..BASE
    },
    Program {
        names: &["sudo"],
        leading: Some("ugpChrtTUDR"),
        ..BASE
    },
    Program {
        names: &["chpasswd"],
        ..BASE
    },
];

/// Names that an expression looks for: those of the table, and those that write to a pipe.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let programs = PROGRAMS.iter().flat_map(|program| program.names);
    programs.copied().chain(WRITERS.iter().copied())
}

/// Programs that write their arguments to a pipe.
const WRITERS: &[&str] = &["echo", "printf"];

/// Whether a word runs a program that writes its arguments to a pipe.
pub(super) fn is_writer(word: &str) -> bool {
    program_name(word).is_some_and(|name| WRITERS.contains(&name))
}

/// Whether a word runs a program of the table, or one that writes to a pipe.
pub(super) fn is_known(word: &str) -> bool {
    program_name(word).is_some_and(|name| names().any(|known| known == name))
}

/// The name of a program; a path that is no folder of programs names something else.
fn program_name(word: &str) -> Option<&str> {
    match word.rsplit_once('/') {
        None => Some(word),
        Some((folder, name)) => (folder == "." || folder.ends_with("bin")).then_some(name),
    }
}

/// A secret in a word: where, and by which rule.
pub(super) type Hit = (Range<usize>, &'static str);

/// What the next word is.
#[derive(Debug, Clone, Copy)]
enum Next {
    Secret(Part, &'static str),
    /// The value of an option that is no secret.
    Skip,
}

/// Reads the words of one command.
#[derive(Debug, Default, Clone)]
pub(super) struct Watch {
    /// Programs met so far, as indices into the table.
    active: Vec<usize>,
    next: Option<Next>,
    login: bool,
    config: bool,
    reads_password: bool,
}

impl Watch {
    /// Reads a word as it stands in the text, quotes included; says what of it is secret.
    /// `shell` tells that variables of a shell are expanded in it.
    pub(super) fn word(&mut self, raw: &str, shell: bool) -> Option<Hit> {
        let whole = unquoted(raw, 0..raw.len());
        let word = raw.get(whole.clone()).unwrap_or_default();
        if let Some(next) = self.next.take() {
            return match next {
                Next::Skip => None,
                Next::Secret(..) if word.starts_with('-') => self.option(raw, whole, shell),
                Next::Secret(part, rule) => {
                    let quoted = whole.len() < raw.len();
                    let range = part_of(raw, whole, part)?;
                    let text = raw.get(range.clone()).unwrap_or_default();
                    let prose = !quoted && part == Part::Whole && is_prose(text);
                    (!prose && is_literal(raw, &range, shell)).then_some((range, rule))
                }
            };
        }
        if word.starts_with('-') {
            return self.option(raw, whole, shell);
        }
        self.operand(word);
        None
    }

    /// A redirection: the value of an option does not follow it.
    pub(super) fn redirect(&mut self) {
        self.next = None;
    }

    /// Whether the command takes a password from its standard input.
    pub(super) fn reads_password(&self) -> bool {
        self.reads_password
    }

    fn operand(&mut self, word: &str) {
        self.active.retain(|i| {
            let program = PROGRAMS.get(*i);
            program.is_some_and(|program| program.leading.is_none())
        });
        if self.config && is_secret_name(word) {
            self.next = Some(Next::Secret(Part::Whole, FLAG));
            return;
        }
        self.login |= word == "login";
        let configures = word == "config" || word == "configure";
        self.config |= configures && self.programs().any(|program| program.rule == CONFIG);
        if let Some(name) = program_name(word)
            && let Some(i) = PROGRAMS.iter().position(|p| p.names.contains(&name))
            && !self.active.contains(&i)
        {
            self.active.push(i);
            self.reads_password |= name == "chpasswd";
        }
    }

    fn option(&mut self, raw: &str, whole: Range<usize>, shell: bool) -> Option<Hit> {
        let word = raw.get(whole.clone()).unwrap_or_default();
        self.reads_password |= matches!(word, "--password-stdin" | "--with-token");
        for i in self.active.clone() {
            let Some(program) = PROGRAMS.get(i) else {
                continue;
            };
            if program.names == ["sudo"] {
                self.reads_password |= word == "--stdin" || is_cluster_with(word, 'S');
            }
            if program.subcommand.is_some() && !self.login {
                continue;
            }
            for (name, place, part) in program.secrets {
                let Some(at) = value_in(word, name, program.plain) else {
                    continue;
                };
                if at == word.len() {
                    if *place != Place::Joined {
                        self.next = Some(Next::Secret(*part, program.rule));
                    }
                    continue;
                }
                if *place == Place::Apart {
                    continue;
                }
                let value = unquoted(raw, whole.start + at..whole.end);
                let range = part_of(raw, value, *part);
                if let Some(range) = range.filter(|range| is_literal(raw, range, shell)) {
                    return Some((range, program.rule));
                }
            }
            let takes_value = |letters: &str| word.len() == 2 && word.ends_with(is_of(letters));
            if self.next.is_none() && program.leading.is_some_and(takes_value) {
                self.next = Some(Next::Skip);
            }
        }
        None
    }

    fn programs(&self) -> impl Iterator<Item = &'static Program> {
        self.active.iter().filter_map(|i| PROGRAMS.get(*i))
    }
}

fn is_of(letters: &str) -> impl Fn(char) -> bool {
    move |c| letters.contains(c)
}

/// Whether `word` is a run of short options with `letter` among them.
fn is_cluster_with(word: &str, letter: char) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    letters.contains(letter) && letters.bytes().all(|b| b.is_ascii_alphabetic())
}

/// Where in `word` the value of the option `name` starts; its end where the option stands alone.
fn value_in(word: &str, name: &str, plain: &str) -> Option<usize> {
    if word == name {
        return Some(word.len());
    }
    if name.starts_with("--") {
        let rest = word.strip_prefix(name)?;
        return rest.starts_with('=').then_some(name.len() + 1);
    }
    if name.len() > 2 {
        return None;
    }
    let letter = name.chars().last()?;
    let letters = word.strip_prefix('-')?;
    let at = letters.find(|c| !plain.contains(c) || c == letter)?;
    let rest = letters.get(at..)?.strip_prefix(letter)?;
    let value = rest.strip_prefix('=').unwrap_or(rest);
    Some(word.len() - value.len())
}

/// The secret part of a value.
fn part_of(raw: &str, value: Range<usize>, part: Part) -> Option<Range<usize>> {
    let text = raw.get(value.clone())?;
    let at = match part {
        Part::Whole => 0,
        Part::After(mark) => text.find(mark)? + mark.len_utf8(),
        Part::AfterPass => text.strip_prefix("pass:").map(|_| "pass:".len())?,
        Part::AfterColon => {
            let (user, password) = text.split_once(':')?;
            let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
            if password.starts_with("//") || (number(user) && number(password)) {
                return None;
            }
            user.len() + 1
        }
    };
    Some(unquoted(raw, value.start + at..value.end))
}

/// Whether what stands at `range` is a secret itself rather than a reference to one, a file, or
/// the ports of a container.
fn is_literal(raw: &str, range: &Range<usize>, shell: bool) -> bool {
    let text = raw.get(range.clone()).unwrap_or_default();
    let before = raw.get(..range.start).unwrap_or_default();
    let expands = shell && !before.ends_with('\'');
    !(text.is_empty()
        || is_placeholder(text)
        || is_path(text)
        || is_port_mapping(text)
        || (expands && is_shell_variable(text)))
}

/// Whether an argument of a program that writes to a pipe is what a password may be.
pub(super) fn written_secret(raw: &str) -> Option<Range<usize>> {
    let range = unquoted(raw, 0..raw.len());
    let text = raw.get(range.clone())?;
    let keeps = text.starts_with('-') || text.contains('%');
    (!keeps && is_literal(raw, &range, true)).then_some(range)
}

fn is_shell_variable(text: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    text.strip_prefix('$').is_some_and(is_name)
}

fn is_port_mapping(text: &str) -> bool {
    text.contains(':')
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || b == b':' || b == b'.')
}

/// `range` of `raw` without the quotes around it: `'x'`, `"x"`, `$'x'`, `\"x\"`, and the comma or
/// bracket that follows a quoted word of a list.
pub(super) fn unquoted(raw: &str, range: Range<usize>) -> Range<usize> {
    let text = raw.get(range.clone()).unwrap_or_default();
    let opened = text.strip_prefix('$').unwrap_or(text);
    let opened = opened.trim_start_matches('\\');
    let Some(quote) = opened.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        return range;
    };
    let inner = opened.get(1..).unwrap_or_default();
    let start = range.end - inner.len();
    let closed = inner.trim_end_matches([',', ']', '}']);
    let closed = closed
        .strip_suffix(quote)
        .map(|inner| inner.trim_end_matches('\\'));
    start..start + closed.unwrap_or(inner).len()
}
