//! An evaluator of the profile's own text, for tests: it reads what `sandbox-exec` would read and
//! answers whether an operation on a target is allowed. It knows the forms that the profile uses
//! and panics at any other, so that a rule cannot slip past the tests unread.
//!
//! How the kernel orders a rule on a family against one on a member is told in two ways, so every
//! question is asked under both [`READINGS`], and a profile that answers differently is a failure.

use super::profile::Profile;

/// What an operation is done to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target<'a> {
    /// A file, or a socket that is one.
    Path(&'a str),
    /// A terminal that the kernel marked as the command's own.
    OwnTerminal(&'a str),
    /// Some address on the network.
    Address,
    /// A service, by its name.
    Service(&'a str),
    /// A process.
    Process {
        /// Whether this sandbox started it.
        same_sandbox: bool,
    },
    /// Nothing that a filter could look at.
    Nothing,
}

/// How rules on different names of one operation are ordered.
#[derive(Debug, Clone, Copy)]
enum Reading {
    /// The last rule that matches, whatever it names.
    LastRule,
    /// The last rule on the most specific name that has a matching one.
    LastRuleOfMember,
}

const READINGS: [Reading; 2] = [Reading::LastRule, Reading::LastRuleOfMember];

/// An expression of the profile language.
#[derive(Debug, Clone, PartialEq)]
enum Expr {
    Word(String),
    Text(String),
    List(Vec<Expr>),
}

impl Expr {
    fn word(&self) -> &str {
        match self {
            Self::Word(word) => word,
            other => panic!("a word was expected: {other:?}"),
        }
    }

    fn list(&self) -> &[Expr] {
        match self {
            Self::List(items) => items,
            other => panic!("a list was expected: {other:?}"),
        }
    }
}

struct Rule {
    allow: bool,
    operations: Vec<String>,
    filters: Vec<Expr>,
}

/// A profile, read.
pub(super) struct Policy {
    rules: Vec<Rule>,
    params: Vec<(String, String)>,
    /// Whether names are compared without regard to case.
    caseless: bool,
}

impl Policy {
    /// Reads a profile as a system reads it that knows every operation (`newest`), or none of
    /// those that the profile asks about first.
    pub(super) fn read(profile: &Profile, newest: bool) -> Self {
        let mut policy = Self {
            rules: Vec::new(),
            params: profile.params.clone(),
            caseless: false,
        };
        let forms = read_all(&profile.text);
        assert_eq!(forms[0], read_all("(version 1)")[0]);
        for form in &forms[1..] {
            policy.add(form.list(), newest);
        }
        policy
    }

    /// The same as a kernel reads it that compares names without regard to case: some were seen to.
    pub(super) fn caseless(self, caseless: bool) -> Self {
        Self { caseless, ..self }
    }

    fn add(&mut self, form: &[Expr], newest: bool) {
        match form[0].word() {
            "if" => {
                let condition = form[1].list();
                assert_eq!(condition[0].word(), "defined?");
                assert!(condition[1].word().starts_with('\''));
                assert_eq!(form.len(), 3);
                if newest {
                    self.add(form[2].list(), newest);
                }
            }
            action @ ("allow" | "deny") => {
                let is_word = |expr: &&Expr| matches!(expr, Expr::Word(_));
                let names = form[1..].iter().take_while(is_word);
                let operations: Vec<String> = names.map(|n| n.word().to_string()).collect();
                assert!(!operations.is_empty());
                let filters = form[1 + operations.len()..].to_vec();
                self.rules.push(Rule {
                    allow: action == "allow",
                    operations,
                    filters,
                });
            }
            other => panic!("the form {other} is unknown"),
        }
    }

    /// Whether `operation` on `target` is allowed, under every reading.
    pub(super) fn allows(&self, operation: &str, target: Target) -> bool {
        let [one, other] = READINGS.map(|reading| self.decide(operation, target, reading));
        assert_eq!(
            one, other,
            "{operation} on {target:?} depends on how rules are ordered"
        );
        one
    }

    fn decide(&self, operation: &str, target: Target, reading: Reading) -> bool {
        let family = family(operation);
        let last = |names: &[&str]| {
            let applies = |rule: &&Rule| {
                rule.operations.iter().any(|op| names.contains(&&**op))
                    && self.matches_any(&rule.filters, target)
            };
            self.rules.iter().rev().find(applies).map(|rule| rule.allow)
        };
        let decision = match reading {
            Reading::LastRule => last(&family),
            Reading::LastRuleOfMember => family.iter().find_map(|name| last(&[name])),
        };
        decision.expect("a default")
    }

    /// Several filters of one rule are alternatives; a rule without any always applies.
    fn matches_any(&self, filters: &[Expr], target: Target) -> bool {
        filters.is_empty() || filters.iter().any(|filter| self.matches(filter, target))
    }

    fn matches(&self, filter: &Expr, target: Target) -> bool {
        let (kind, rest) = filter.list().split_first().expect("a filter");
        let path = match target {
            Target::Path(path) | Target::OwnTerminal(path) => Some(path),
            _ => None,
        };
        let value = || self.value(&rest[0]);
        let alike = |text: &str| match self.caseless {
            true => text.to_lowercase(),
            false => text.to_string(),
        };
        match kind.word() {
            "literal" => path.is_some_and(|path| alike(path) == alike(value())),
            "subpath" => path.is_some_and(|path| is_below(&alike(path), &alike(value()))),
            "regex" => path.is_some_and(|path| regex_matches(value(), path)),
            "require-all" => rest.iter().all(|filter| self.matches(filter, target)),
            "require-any" => rest.iter().any(|filter| self.matches(filter, target)),
            "require-not" => !self.matches(&rest[0], target),
            "extension" => {
                assert_eq!(value(), "com.apple.sandbox.pty");
                matches!(target, Target::OwnTerminal(_))
            }
            "local" | "remote" => {
                assert_eq!(rest[0].word(), "unix-socket");
                self.matches_any(&rest[1..], target)
            }
            "global-name" => matches!(target, Target::Service(name) if name == value()),
            "global-name-prefix" => {
                matches!(target, Target::Service(name) if name.starts_with(value()))
            }
            "target" => {
                assert_eq!(rest[0].word(), "same-sandbox");
                matches!(target, Target::Process { same_sandbox: true })
            }
            "fcntl-command" => false,
            other => panic!("the filter {other} is unknown"),
        }
    }

    fn value<'a>(&'a self, expr: &'a Expr) -> &'a str {
        match expr {
            Expr::Text(text) => text,
            Expr::List(items) if items[0].word() == "param" => {
                let Expr::Text(name) = &items[1] else {
                    panic!("a parameter's name is a text: {items:?}")
                };
                let known = self.params.iter().find(|(known, _)| known == name);
                &known.expect("a parameter that is given").1
            }
            other => panic!("a value was expected: {other:?}"),
        }
    }
}

/// The names that a rule on `operation` may have, the most specific first.
fn family(operation: &str) -> Vec<&str> {
    let mut names = vec![operation];
    for (start, name) in [
        ("file-read", "file-read*"),
        ("file-write", "file-write*"),
        ("file-", "file*"),
        ("network-", "network*"),
        ("process-info", "process-info*"),
    ] {
        if operation.starts_with(start) {
            names.push(name);
        }
    }
    names.push("default");
    names
}

fn is_below(path: &str, root: &str) -> bool {
    let rest = path.strip_prefix(root.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Reads expressions until the text ends.
fn read_all(text: &str) -> Vec<Expr> {
    let mut reader = Reader { rest: text };
    let mut forms = Vec::new();
    while let Some(form) = reader.next() {
        forms.push(form);
    }
    forms
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<Expr> {
        self.skip_blank();
        let first = self.rest.chars().next()?;
        Some(match first {
            '(' => {
                self.rest = &self.rest[1..];
                self.list()
            }
            ')' => panic!("a list was closed that is not open"),
            '"' => {
                self.rest = &self.rest[1..];
                self.text(false)
            }
            '#' => {
                self.rest = self.rest.strip_prefix("#\"").expect("a raw text");
                self.text(true)
            }
            _ => {
                let end = self.rest.find([' ', '\n', '(', ')', '"', ';']);
                let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                self.rest = rest;
                Expr::Word(word.to_string())
            }
        })
    }

    fn skip_blank(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with(';') {
                return;
            }
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.rest = &self.rest[end..];
        }
    }

    fn list(&mut self) -> Expr {
        let mut items = Vec::new();
        loop {
            self.skip_blank();
            if let Some(rest) = self.rest.strip_prefix(')') {
                self.rest = rest;
                return Expr::List(items);
            }
            items.push(self.next().expect("a list that is closed"));
        }
    }

    /// A text; in a raw one a backslash stands for itself.
    fn text(&mut self, raw: bool) -> Expr {
        let end = self.rest.find('"').expect("a text that is closed");
        let text = &self.rest[..end];
        assert!(raw || !text.contains('\\'), "an escape: {text}");
        self.rest = &self.rest[end + 1..];
        Expr::Text(text.to_string())
    }
}

/// Matches the one shape of pattern in use: a fixed beginning, marked `^`, with `\.` for a dot,
/// then nothing, or a class repeated to the end: `[^/]+$` or `[0-9]+$`.
fn regex_matches(pattern: &str, path: &str) -> bool {
    let fixed = pattern.strip_prefix('^').expect("a pattern of a beginning");
    let class = ["[^/]+$", "[0-9]+$"]
        .into_iter()
        .find(|class| fixed.ends_with(class));
    let fixed = class.map_or(fixed, |class| &fixed[..fixed.len() - class.len()]);
    let start = fixed.replace("\\.", ".");
    let special = ['\\', '[', ']', '(', ')', '*', '+', '?', '$', '.'];
    assert!(
        !fixed.replace("\\.", "").contains(special),
        "a pattern of a shape that is not known: {pattern}"
    );
    let rest = path.strip_prefix(&start);
    let fits = |c: char| class != Some("[0-9]+$") && c != '/' || c.is_ascii_digit();
    match class {
        None => rest.is_some(),
        Some(_) => rest.is_some_and(|rest| !rest.is_empty() && rest.chars().all(fits)),
    }
}

#[test]
fn patterns_match_as_their_shape_says() {
    let here_document = "^/private/var/tmp/sh-thd-[^/]+$";
    assert!(regex_matches(here_document, "/private/var/tmp/sh-thd-17"));
    assert!(!regex_matches(here_document, "/private/var/tmp/sh-thd-"));
    assert!(!regex_matches(here_document, "/private/var/tmp/sh-thd-1/x"));
    assert!(!regex_matches(here_document, "/a/private/var/tmp/sh-thd-1"));
    assert!(regex_matches("^/dev/fd/[0-9]+$", "/dev/fd/12"));
    assert!(!regex_matches("^/dev/fd/[0-9]+$", "/dev/fd/1x"));
    assert!(regex_matches("^/tmp/com\\.a\\.", "/tmp/com.a.b/Listeners"));
    assert!(!regex_matches("^/tmp/com\\.a\\.", "/tmp/comma.b"));
}

#[test]
fn both_readings_are_told_apart() {
    let text = "(version 1)(allow default)(deny file-write-unlink)(allow file-write*)";
    let policy = Policy::read(
        &Profile {
            text: text.into(),
            params: vec![],
        },
        true,
    );
    let ask = |reading| policy.decide("file-write-unlink", Target::Path("/x"), reading);
    assert!(ask(Reading::LastRule));
    assert!(!ask(Reading::LastRuleOfMember));
}
