//! Walks the syntax tree of a script and finds its commands.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Instant;

use tree_sitter::{Decode, Node, ParseOptions, ParseState, Parser, Tree};

use super::expand::{expand, expand_value};
use super::folder::{Folders, Level};
use super::ground::{Scene, View};
use super::print::printed;
use super::run::Context;
use super::word::{Part, Vars, Word};
use super::{CommandRefusal, Verdict};
use crate::limits::{
    MAX_COMMAND_BYTES, MAX_COMMAND_DEPTH, MAX_COMMAND_NODES, MAX_COMMAND_TIME, MAX_EXPANDED_BYTES,
    MAX_HEREDOC_WORD, MAX_HEREDOCS,
};

/// One look at a line and all the scripts in it.
pub(super) struct Scan<'a> {
    scene: Option<&'a Scene<'a>>,
    pub(super) folders: Folders,
    pub(super) vars: Vars,
    nodes_left: usize,
    work_left: usize,
    start: Instant,
    refusal: Option<CommandRefusal>,
    doubt: Option<&'static str>,
}

impl<'a> Scan<'a> {
    /// A look at a line that runs in this scene; without one only what the line says is known.
    pub(super) fn new(scene: Option<&'a Scene<'a>>) -> Self {
        let mut scan = Self {
            scene,
            folders: Folders::new(scene.and_then(|scene| scene.folder.to_str())),
            vars: Vars::new(),
            nodes_left: MAX_COMMAND_NODES,
            work_left: MAX_EXPANDED_BYTES,
            start: Instant::now(),
            refusal: None,
            doubt: None,
        };
        if let Some(home) = scene.and_then(|scene| scene.home.to_str()) {
            let home = vec![Word::from_text(home)];
            scan.vars.insert("HOME".to_owned(), home);
        }
        scan.note_folder();
        scan
    }

    /// Looks at the whole line.
    pub(super) fn look(mut self, line: &str) -> Verdict {
        self.script(line, 0);
        match (self.refusal, self.doubt) {
            (Some(refusal), _) => Verdict::Refused(refusal),
            (None, Some(reason)) => Verdict::Unsure(reason),
            (None, None) => Verdict::Clean,
        }
    }

    /// How the command at hand sees the disk.
    pub(super) fn view(&self) -> View<'a> {
        View {
            folder: self.folders.now().clone(),
            scene: self.scene,
        }
    }
}

/// What a command gets from outside its own node.
#[derive(Default)]
struct Extra {
    args: Vec<String>,
    input: Option<String>,
}

/// The extras of one script's commands, by the id of their nodes.
type Extras = HashMap<usize, Extra>;

/// One script on the walk.
struct Source<'s> {
    text: &'s str,
    depth: usize,
    extras: Extras,
}

impl<'s> Source<'s> {
    fn of(&self, node: Node<'_>) -> &'s str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    fn extra(&mut self, command: Node<'_>) -> &mut Extra {
        self.extras.entry(command.id()).or_default()
    }
}

impl Scan<'_> {
    pub(super) fn refuse(&mut self, refusal: CommandRefusal) {
        self.refusal.get_or_insert(refusal);
    }

    pub(super) fn doubt(&mut self, reason: &'static str) {
        self.doubt.get_or_insert(reason);
    }

    /// Sets `$0`, `$1`, … and `$@` for a script.
    pub(super) fn set_positional(&mut self, values: &[Word]) {
        for (i, value) in values.iter().take(10).enumerate() {
            self.vars.insert(i.to_string(), vec![value.clone()]);
        }
        let rest = values.get(1..).unwrap_or_default();
        for name in ["@", "*"] {
            self.vars.insert(name.to_owned(), rest.to_vec());
        }
    }

    /// Looks at a script. Ends early once something is refused.
    pub(super) fn script(&mut self, text: &str, depth: usize) {
        if self.refusal.is_some() {
            return;
        }
        if let Some(reason) = unfit(text, depth) {
            self.doubt(reason);
            return;
        }
        let Some(tree) = parse(text, self.start) else {
            self.doubt("the line takes too long to parse");
            return;
        };
        // A script within a script is a process of its own.
        let outer = self.folders.enter();
        self.walk(
            &tree,
            &mut Source {
                text,
                depth,
                extras: Extras::new(),
            },
        );
        self.folders.leave(outer);
        self.note_folder();
    }

    fn walk(&mut self, tree: &Tree, source: &mut Source<'_>) {
        let mut cursor = tree.walk();
        let mut is_broken = false;
        let has_heredoc = source.text.contains("<<");
        loop {
            let node = cursor.node();
            if self.is_spent() {
                self.doubt("the line takes too long to look at in full");
                return;
            }
            self.nodes_left -= 1;
            if node.is_error() || node.is_missing() {
                is_broken = true;
                self.doubt("the line does not parse");
            }
            self.at_node(node);
            // After an error a here-document's text may have been taken for commands.
            if !is_broken || !has_heredoc {
                self.visit(node, source);
            }
            if self.refusal.is_some() {
                return;
            }
            if cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return;
                }
            }
        }
    }

    /// Whether the look has used up its bounds. The clock is asked once in a while.
    fn is_spent(&self) -> bool {
        self.nodes_left == 0
            || self.work_left == 0
            || (self.nodes_left.is_multiple_of(256) && self.start.elapsed() > MAX_COMMAND_TIME)
    }

    /// Keeps track of the folder: what changes it in a subshell counts there alone, and what may
    /// change it leaves it unknown.
    fn at_node(&mut self, node: Node<'_>) {
        let has_left = self.folders.left(node.start_byte());
        if let Some(isolates) = isolation(node.kind()) {
            self.folders.push(Level {
                end: node.end_byte(),
                isolates,
            });
        }
        if has_left {
            self.note_folder();
        }
    }

    fn visit(&mut self, node: Node<'_>, source: &mut Source<'_>) {
        match node.kind() {
            "command" => self.command(node, source),
            "ERROR" => self.stray_names(node, source),
            "redirected_statement" => self.redirects(node, source),
            "pipeline" => self.pipeline(node, source),
            "variable_assignment" => self.assignment(node, source),
            "for_statement" => self.loop_variable(node, source),
            _ => {}
        }
    }

    fn expand(&mut self, raw: &str) -> Vec<Word> {
        let words = expand(raw, &self.vars);
        let made: usize = words.iter().map(Word::len).sum();
        self.work_left = self.work_left.saturating_sub(raw.len() + made + 1);
        words
    }

    fn command(&mut self, node: Node<'_>, source: &mut Source<'_>) {
        let extra = source.extras.remove(&node.id()).unwrap_or_default();
        let Some(name) = node.child_by_field_name("name") else {
            return;
        };
        let mut words = self.expand(&with_brace(source.text, name));
        words.extend(self.arguments(node, source));
        for raw in &extra.args {
            words.extend(self.expand(raw));
        }
        let input = self.here_string(node, source).or(extra.input);
        let context = Context {
            part: source.of(node).to_owned(),
            input,
            depth: source.depth,
            ..Context::default()
        };
        self.run(&words, &context);
    }

    fn arguments(&mut self, command: Node<'_>, source: &Source<'_>) -> Vec<Word> {
        let mut words = Vec::new();
        let mut cursor = command.walk();
        for argument in command.children_by_field_name("argument", &mut cursor) {
            if self.work_left == 0 {
                break;
            }
            words.extend(self.expand(source.of(argument)));
        }
        words
    }

    /// `{rm,v}` is no command to the parser: it leaves the word behind as an error.
    fn stray_names(&mut self, error: Node<'_>, source: &Source<'_>) {
        let mut cursor = error.walk();
        for child in error.named_children(&mut cursor) {
            if child.kind() == "command_name" {
                let raw = with_brace(source.text, child);
                let words = self.expand(&raw);
                let context = Context {
                    part: raw,
                    depth: source.depth,
                    ..Context::default()
                };
                self.run(&words, &context);
            }
        }
    }

    /// The text of `<<< word` on a command.
    fn here_string(&mut self, command: Node<'_>, source: &Source<'_>) -> Option<String> {
        let mut cursor = command.walk();
        let redirect = command
            .children(&mut cursor)
            .find(|child| child.kind() == "herestring_redirect")?;
        let value = redirect.named_child(0)?;
        Some(expand_value(source.of(value), &self.vars).source())
    }

    /// Redirections of a statement: their text may be a shell's script, and the parser counts words
    /// that follow a redirection to it, which belong to the command.
    fn redirects(&mut self, node: Node<'_>, source: &mut Source<'_>) {
        let Some(command) = node.child_by_field_name("body").and_then(last_command) else {
            return;
        };
        let mut cursor = node.walk();
        for redirect in node.children_by_field_name("redirect", &mut cursor) {
            match redirect.kind() {
                "file_redirect" => self.file_redirect(redirect, command, source),
                "heredoc_redirect" => heredoc_redirect(redirect, command, source),
                "herestring_redirect" => {
                    let value = redirect.named_child(0).map_or("", |n| source.of(n));
                    let text = expand_value(value, &self.vars).source();
                    source.extra(command).input = Some(text);
                }
                _ => {}
            }
        }
    }

    fn file_redirect(&mut self, redirect: Node<'_>, command: Node<'_>, source: &mut Source<'_>) {
        let mut cursor = redirect.walk();
        let words = redirect.children_by_field_name("destination", &mut cursor);
        for (i, destination) in words.enumerate() {
            let raw = source.of(destination).to_owned();
            if i > 0 {
                source.extra(command).args.push(raw);
            } else if destination.kind() == "process_substitution" {
                let words = self.expand(&raw);
                let text = words.first().and_then(Word::output).map(str::to_owned);
                source.extra(command).input = text;
            }
        }
    }

    /// Hands what a stage of a pipeline prints to the next stage, where the words tell it.
    fn pipeline(&mut self, node: Node<'_>, source: &mut Source<'_>) {
        let mut cursor = node.walk();
        let stages: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let mut carried = stages
            .first()
            .and_then(|first| first_command(*first))
            .and_then(|command| source.extras.get(&command.id())?.input.clone());
        for (stage, next) in stages.iter().zip(stages.iter().skip(1)) {
            carried = self.stage_output(*stage, source, carried);
            if let (Some(text), Some(command)) = (&carried, first_command(*next)) {
                source.extra(command).input = Some(text.clone());
            }
        }
    }

    fn stage_output(
        &mut self,
        stage: Node<'_>,
        source: &Source<'_>,
        input: Option<String>,
    ) -> Option<String> {
        let command = last_command(stage)?;
        let name = command.child_by_field_name("name")?;
        let mut words = self.expand(source.of(name));
        words.extend(self.arguments(command, source));
        match words.first()?.literal()?.as_str() {
            "cat" if words.len() == 1 => stage_heredoc(stage, source).or(input),
            "tee" => input,
            _ => printed(&words),
        }
    }

    fn assignment(&mut self, node: Node<'_>, source: &Source<'_>) {
        let Some(name) = node.child_by_field_name("name") else {
            return;
        };
        let name = source.of(name).to_owned();
        let value = node.child_by_field_name("value");
        let mut words = match value {
            Some(array) if array.kind() == "array" => self.array(array, source),
            Some(value) => {
                let word = expand_value(source.of(value), &self.vars);
                self.work_left = self.work_left.saturating_sub(word.len());
                vec![word]
            }
            None => vec![Word::default()],
        };
        let adds = source.of(node).get(name.len()..).unwrap_or_default();
        if adds.starts_with("+=")
            && let (Some(old), [new]) = (self.vars.get(&name), words.as_mut_slice())
            && let [old] = old.as_slice()
        {
            let mut whole = old.clone();
            whole.append(new);
            *new = whole;
        }
        let size: usize = words.iter().map(Word::len).sum();
        if size > MAX_COMMAND_BYTES {
            words = vec![Word::from_part(Part::Unknown)];
        }
        self.work_left = self.work_left.saturating_sub(size);
        self.vars.insert(name, words);
    }

    fn array(&mut self, array: Node<'_>, source: &Source<'_>) -> Vec<Word> {
        let mut words = Vec::new();
        let mut cursor = array.walk();
        for item in array.named_children(&mut cursor) {
            if self.work_left == 0 {
                break;
            }
            words.extend(self.expand(source.of(item)));
        }
        words
    }

    /// A loop's variable is known where it has one value, or only values in the private tmp.
    fn loop_variable(&mut self, node: Node<'_>, source: &Source<'_>) {
        let Some(variable) = node.child_by_field_name("variable") else {
            return;
        };
        let mut words = Vec::new();
        let mut cursor = node.walk();
        for value in node.children_by_field_name("value", &mut cursor) {
            if self.work_left == 0 {
                break;
            }
            words.extend(self.expand(source.of(value)));
        }
        let value = match words.as_slice() {
            [one] => one.clone(),
            [_, ..] if words.iter().all(Word::is_below_tmp) => Word::from_part(Part::Scratch),
            _ => Word::from_part(Part::Unknown),
        };
        self.vars
            .insert(source.of(variable).to_owned(), vec![value]);
    }
}

/// Whether this part of a script is a process of its own (or runs later), or else may be left out;
/// `None` for what is simply carried out.
fn isolation(kind: &str) -> Option<bool> {
    match kind {
        "subshell"
        | "command_substitution"
        | "process_substitution"
        | "pipeline"
        | "function_definition" => Some(true),
        "if_statement"
        | "while_statement"
        | "for_statement"
        | "c_style_for_statement"
        | "case_statement" => Some(false),
        _ => None,
    }
}

/// Why a script is not parsed at all.
fn unfit(text: &str, depth: usize) -> Option<&'static str> {
    if depth > MAX_COMMAND_DEPTH {
        return Some("too many scripts within scripts");
    }
    if text.len() > MAX_COMMAND_BYTES {
        return Some("the line is too long to look at");
    }
    if text.contains('\0') {
        return Some("the line holds a NUL byte");
    }
    // The grammar's scanner keeps the words of open here-documents in a buffer of fixed size.
    let heredocs = text.match_indices("<<").map(|(at, _)| at);
    let long_word = |at: usize| {
        let rest = text.get(at + 2..).unwrap_or_default();
        let rest = rest.trim_start_matches(['-', ' ', '\t', '<']);
        let line = rest.lines().next().unwrap_or_default();
        line.split([' ', '\t', ';', '|', '&', ')'])
            .next()
            .is_some_and(|word| word.len() > MAX_HEREDOC_WORD)
    };
    for (count, at) in heredocs.enumerate() {
        if count >= MAX_HEREDOCS || long_word(at) {
            return Some("the line has here-documents that are too many or too long");
        }
    }
    None
}

fn parse(text: &str, start: Instant) -> Option<Tree> {
    let mut parser = Parser::new();
    parser
        .set_language(&tree_sitter_bash::LANGUAGE.into())
        .ok()?;
    let mut in_time = |_: &ParseState| {
        if start.elapsed() > MAX_COMMAND_TIME {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let bytes = text.as_bytes();
    parser.parse_custom_encoding::<AsciiAndLetters, _, _>(
        &mut |at, _| bytes.get(at..).unwrap_or_default(),
        None,
        Some(ParseOptions::new().progress_callback(&mut in_time)),
    )
}

/// UTF-8 in which every character beyond ASCII is read as one and the same letter. To bash each of
/// them is a part of a word, spaces of Unicode too. And the grammar's scanner gives characters to
/// isdigit(3), which is defined for bytes alone: on others it reads far outside its table, and the
/// process may end.
struct AsciiAndLetters;

/// A letter that is a byte in the C library's tables.
const LETTER: i32 = 0xe9;

impl Decode for AsciiAndLetters {
    fn decode(bytes: &[u8]) -> (i32, u32) {
        let width = match bytes.first() {
            Some(byte) if byte.is_ascii() => return (i32::from(*byte), 1),
            Some(0xf0..) => 4,
            Some(0xe0..) => 3,
            Some(_) => 2,
            None => 0,
        };
        (
            LETTER,
            width.min(u32::try_from(bytes.len()).unwrap_or(width)),
        )
    }
}

/// The source of a command's name, with the brace that the parser took for a block's beginning.
fn with_brace(text: &str, name: Node<'_>) -> String {
    let raw = text.get(name.byte_range()).unwrap_or_default();
    let before = text.get(..name.start_byte()).unwrap_or_default();
    if before.ends_with('{') && raw.ends_with('}') && raw.contains(',') {
        format!("{{{raw}")
    } else {
        raw.to_owned()
    }
}

fn heredoc_redirect(redirect: Node<'_>, command: Node<'_>, source: &mut Source<'_>) {
    let mut cursor = redirect.walk();
    let mut body = None;
    let mut piped = None;
    for child in redirect.named_children(&mut cursor) {
        match child.kind() {
            "heredoc_body" => body = Some(source.of(child).to_owned()),
            "pipeline" => piped = first_command(child),
            _ => {}
        }
    }
    for argument in redirect.children_by_field_name("argument", &mut cursor) {
        let raw = source.of(argument).to_owned();
        source.extra(command).args.push(raw);
    }
    // In `cat <<EOF | sh` the parser hangs the rest of the pipeline on the redirection.
    let name = command.child_by_field_name("name");
    let passes_on = name.is_some_and(|n| ["cat", "tee"].contains(&source.of(n)));
    if let Some(next) = piped.filter(|_| passes_on) {
        source.extra(next).input.clone_from(&body);
    }
    source.extra(command).input = body;
}

fn stage_heredoc(stage: Node<'_>, source: &Source<'_>) -> Option<String> {
    let mut cursor = stage.walk();
    let redirect = stage
        .children_by_field_name("redirect", &mut cursor)
        .find(|redirect| redirect.kind() == "heredoc_redirect")?;
    let mut cursor = redirect.walk();
    let body = redirect
        .named_children(&mut cursor)
        .find(|child| child.kind() == "heredoc_body")?;
    Some(source.of(body).to_owned())
}

/// The command that a statement's redirections belong to.
fn last_command(node: Node<'_>) -> Option<Node<'_>> {
    edge_command(node, |node| {
        let last = u32::try_from(node.named_child_count())
            .ok()?
            .checked_sub(1)?;
        node.named_child(last)
    })
}

/// The command that reads a stage's input.
fn first_command(node: Node<'_>) -> Option<Node<'_>> {
    edge_command(node, |node| node.named_child(0))
}

fn edge_command<'t>(
    mut node: Node<'t>,
    step: impl Fn(Node<'t>) -> Option<Node<'t>>,
) -> Option<Node<'t>> {
    loop {
        node = match node.kind() {
            "command" => return Some(node),
            "redirected_statement" => node.child_by_field_name("body")?,
            "pipeline" | "list" | "negated_command" | "compound_statement" | "subshell" => {
                step(node)?
            }
            _ => return None,
        };
    }
}
