//! What a command with known words does: itself, and what it runs in turn.

use super::CommandRefusal;
use super::git;
use super::programs::{
    Script, Wrapper, exec_options, is_interpreter, is_shell, script_of, wrapper_of,
};
use super::rules::{self, Command, operands, roots, takes_next};
use super::scan::Scan;
use super::word::{Part, Word};
use crate::limits::MAX_WRAPPERS;

/// What surrounds a command.
#[derive(Clone, Default)]
pub(super) struct Context {
    /// Its source text.
    pub(super) part: String,
    /// Its input where the line tells it.
    pub(super) input: Option<String>,
    /// Whether it gets further operands that the line does not show.
    pub(super) takes_more: bool,
    /// Depth of scripts around it.
    pub(super) depth: usize,
    /// Depth of commands around it.
    pub(super) wrappers: usize,
}

impl Scan<'_> {
    /// Looks at one command.
    pub(super) fn run(&mut self, words: &[Word], context: &Context) {
        let Some((first, args)) = words.split_first() else {
            return;
        };
        let Some(path) = first.literal() else {
            self.doubt("the name of a command is computed");
            return;
        };
        if context.wrappers > MAX_WRAPPERS {
            self.doubt("too many commands within commands");
            return;
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        // File systems of macOS find `rm` under the name `RM` too.
        let name = name.to_ascii_lowercase();
        if name == "git" {
            self.run_git(args, context);
            return;
        }
        let args = &*rules::plain_arguments(&name, args);
        let subcommand = operands(args, "").first().and_then(|w| w.literal());
        self.judge(
            &Command {
                name: &name,
                args: after_subcommand(&name, args),
                subcommand: subcommand.as_deref(),
                folder: None,
                takes_more: context.takes_more,
            },
            context,
        );
        self.run_inner(&name, args, context);
        self.change_folder(&name, args);
    }

    fn judge(&mut self, command: &Command<'_>, context: &Context) {
        if let Some((rule, reason)) = rules::refusing(command, &self.view()) {
            self.refuse(CommandRefusal::new(&context.part, rule, &reason));
        }
    }

    fn run_git(&mut self, args: &[Word], context: &Context) {
        let git = git::parse(args);
        self.judge(
            &Command {
                name: "git",
                args: git.args,
                subcommand: git.name.as_deref(),
                folder: git.folder,
                takes_more: context.takes_more,
            },
            context,
        );
        for script in &git.scripts {
            self.script(script, context.depth + 1);
        }
        self.run(git.command, &deeper(context));
    }

    /// Looks at what a command runs in turn.
    fn run_inner(&mut self, name: &str, args: &[Word], context: &Context) {
        if is_shell(name) {
            self.run_shell(args, context);
        } else if is_interpreter(name) {
            self.run_interpreter(args, context);
        } else {
            self.run_scripts(name, args, context);
            self.run_exec_options(name, args, context);
            if let Some(wrapper) = wrapper_of(name) {
                self.run_wrapped(wrapper, args, context);
            }
        }
    }

    fn run_wrapped(&mut self, wrapper: &Wrapper, args: &[Word], context: &Context) {
        let Some(inner) = wrapped(wrapper, args) else {
            return;
        };
        let mut context = deeper(context);
        context.takes_more |= wrapper.adds_words;
        self.run(inner, &context);
    }

    fn run_exec_options(&mut self, name: &str, args: &[Word], context: &Context) {
        let options = exec_options(name);
        if options.is_empty() {
            return;
        }
        let roots = roots(args);
        let is_find = name.ends_with("find");
        let in_tmp = is_find && !roots.is_empty() && roots.iter().all(|r| r.is_below_tmp());
        let found = if in_tmp { Part::Scratch } else { Part::Unknown };
        for (at, word) in args.iter().enumerate() {
            if !options.contains(&word.head()) {
                continue;
            }
            let inner: Vec<Word> = args
                .iter()
                .skip(at + 1)
                .take_while(|w| ![";", "+"].contains(&w.head()))
                .map(|w| w.with_braces_as(&found))
                .collect();
            let mut context = deeper(context);
            context.takes_more |= !is_find;
            self.run(&inner, &context);
        }
    }

    fn run_scripts(&mut self, name: &str, args: &[Word], context: &Context) {
        let script = match script_of(name) {
            None => return,
            Some(Script::Option(options)) => option_value(args, options),
            Some(Script::FirstOperand) => operands(args, "").first().map(|w| w.source()),
            Some(Script::AllOperands) => Some(from_first_operand(args)),
        };
        if let Some(script) = script {
            self.script(&script, context.depth + 1);
        }
    }

    fn run_interpreter(&mut self, args: &[Word], context: &Context) {
        match args.first().and_then(Word::output) {
            Some(script) => self.script(script, context.depth + 1),
            None => self.doubt("a program runs code that was not looked at"),
        }
    }

    /// A shell runs its `-c` argument, else the file in its first operand, else its input.
    fn run_shell(&mut self, args: &[Word], context: &Context) {
        let options = shell_options(args);
        let operands = args.get(options.count..).unwrap_or_default();
        let depth = context.depth + 1;
        if options.has_command {
            let Some((script, values)) = operands.split_first() else {
                return;
            };
            self.set_positional(values);
            self.script(&script.source(), depth);
            return;
        }
        let file = operands.first().filter(|_| !options.reads_input);
        match (file.map(Word::output), &context.input) {
            (Some(Some(script)), _) => self.script(script, depth),
            (None, Some(script)) => self.script(script, depth),
            (Some(None), _) => self.doubt("a shell runs a file that was not looked at"),
            (None, None) => self.doubt("a shell runs what it reads"),
        }
    }
}

fn deeper(context: &Context) -> Context {
    Context {
        wrappers: context.wrappers + 1,
        ..context.clone()
    }
}

/// For the programs of subcommand rules, the words after the subcommand.
fn after_subcommand<'w>(name: &str, args: &'w [Word]) -> &'w [Word] {
    let has_subcommands = rules::RULES.iter().any(|rule| {
        matches!(rule.when, rules::When::Subcommand { .. }) && rule.programs.contains(&name)
    });
    if !has_subcommands {
        return args;
    }
    let at = args.iter().position(|w| !w.head().starts_with('-'));
    at.and_then(|at| args.get(at + 1..)).unwrap_or_default()
}

/// The command in a wrapper's arguments; `None` if it only tells about one.
fn wrapped<'w>(wrapper: &Wrapper, args: &'w [Word]) -> Option<&'w [Word]> {
    let mut at = 0;
    let mut skip = wrapper.skip;
    while let Some(word) = args.get(at) {
        let text = word.head();
        if wrapper.queries.iter().any(|q| rules::is_option(text, q)) {
            return None;
        }
        if text == "--" {
            at += 1;
            break;
        }
        let is_option = text.len() > 1 && text.starts_with(['-', '+']);
        if is_option {
            let has_value =
                takes_next(text, wrapper.short_values) || wrapper.long_values.contains(&text);
            at += if has_value { 2 } else { 1 };
        } else if is_assignment(text) {
            at += 1;
        } else if skip > 0 {
            skip -= 1;
            at += 1;
        } else {
            break;
        }
    }
    args.get(at + skip_after(args, at, skip)..)
}

/// After `--` the words to skip are still there.
fn skip_after(args: &[Word], at: usize, skip: usize) -> usize {
    skip.min(args.len().saturating_sub(at))
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

/// The value of the first of `options`: the next word, or what follows it in the same word.
fn option_value(args: &[Word], options: &[&str]) -> Option<String> {
    args.iter().enumerate().find_map(|(at, word)| {
        let option = options.iter().find(|o| word.head().starts_with(**o))?;
        let source = word.source();
        let rest = source.get(option.len()..).unwrap_or_default();
        if rest.is_empty() {
            args.get(at + 1).map(Word::source)
        } else {
            Some(rest.trim_start_matches('=').to_owned())
        }
    })
}

/// The words from the first operand on, as a script. Of the programs that take one, `watch` has an
/// option with a value.
fn from_first_operand(args: &[Word]) -> String {
    let mut at = 0;
    while let Some(word) = args.get(at).filter(|w| w.head().starts_with('-')) {
        at += if takes_next(word.head(), "n") { 2 } else { 1 };
    }
    let words = args.get(at..).unwrap_or_default();
    words.iter().map(Word::source).collect::<Vec<_>>().join(" ")
}

struct ShellOptions {
    count: usize,
    has_command: bool,
    reads_input: bool,
}

fn shell_options(args: &[Word]) -> ShellOptions {
    let mut options = ShellOptions {
        count: 0,
        has_command: false,
        reads_input: false,
    };
    while let Some(word) = args.get(options.count) {
        let text = word.head();
        if !text.starts_with(['-', '+']) || text.len() == 1 {
            break;
        }
        options.count += 1;
        if text == "--" {
            break;
        }
        if text.starts_with("--") {
            options.count += usize::from(["--rcfile", "--init-file"].contains(&text));
            continue;
        }
        options.has_command |= text.starts_with('-') && text.contains('c');
        options.reads_input |= text.contains('s');
        options.count += usize::from(text.ends_with(['o', 'O']));
    }
    options
}
