//! What a few harmless commands print, where their words tell it.

use super::word::Word;

/// Whether a command is `mktemp` in the private tmp.
pub(super) fn makes_scratch(words: &[Word]) -> bool {
    let Some((name, args)) = words.split_first() else {
        return false;
    };
    if name.literal().as_deref() != Some("mktemp") {
        return false;
    }
    let mut named = false;
    let mut in_tmp = true;
    for arg in args {
        let text = arg.head();
        match text {
            "-t" | "--tmpdir" => named = true,
            "-p" => in_tmp = false,
            _ if text.starts_with("--tmpdir=") => in_tmp = false,
            _ if text.starts_with('-') => {}
            _ => in_tmp &= named || arg.is_below_tmp(),
        }
    }
    in_tmp
}

/// What a command prints, as source text, where its words tell: `echo`, `printf`, `which`.
pub(super) fn printed(words: &[Word]) -> Option<String> {
    let (name, args) = words.split_first()?;
    let sources = |words: &[Word]| words.iter().map(Word::source).collect::<Vec<_>>();
    match name.literal()?.as_str() {
        "echo" => {
            let options = args.iter().take_while(|w| is_echo_option(w)).count();
            let escapes = args.iter().take(options).any(|w| w.head().contains('e'));
            let text = sources(args.get(options..)?).join(" ");
            Some(if escapes { ansi_c(&text) } else { text })
        }
        "printf" => {
            let args = args
                .split_first()
                .filter(|(first, _)| first.head() == "--")
                .map_or(args, |(_, rest)| rest);
            let (format, values) = args.split_first()?;
            Some(format_values(&format.literal()?, &sources(values)))
        }
        "which" => args.first()?.literal(),
        "command" | "type" if args.len() == 2 && matches!(args.first()?.head(), "-v" | "-P") => {
            args.get(1)?.literal()
        }
        _ => None,
    }
}

fn is_echo_option(word: &Word) -> bool {
    word.literal().is_some_and(|w| {
        w.len() > 1 && w.starts_with('-') && w.bytes().skip(1).all(|b| b"neE".contains(&b))
    })
}

/// `printf`: escapes are decoded, and the format is used again until the values are used up.
fn format_values(format: &str, values: &[String]) -> String {
    let format = ansi_c(format);
    let fields = format.matches("%s").count() + format.matches("%b").count();
    let mut values = values.iter();
    let mut out = String::new();
    loop {
        let mut rest = format.as_str();
        while let Some(at) = rest.find('%') {
            out.push_str(rest.get(..at).unwrap_or_default());
            let (field, tail) = rest
                .get(at + 1..)
                .unwrap_or_default()
                .split_at_checked(1)
                .unwrap_or(("", ""));
            match field {
                "s" | "b" | "q" => out.push_str(values.next().map_or("", String::as_str)),
                "%" => out.push('%'),
                other => {
                    out.push('%');
                    out.push_str(other);
                }
            }
            rest = tail;
        }
        out.push_str(rest);
        if fields == 0 || values.len() == 0 || out.len() > crate::limits::MAX_COMMAND_BYTES {
            return out;
        }
    }
}

/// Decodes the escapes of `$'…'`; unknown ones stay.
pub(super) fn ansi_c(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let (decoded, used) = escape(after);
        match decoded {
            Some(c) => out.push(c),
            None => out.push('\\'),
        }
        rest = after.get(used..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// The character that the escape at the start of `text` (after its backslash) stands for, and the
/// bytes it takes.
fn escape(text: &str) -> (Option<char>, usize) {
    let simple = |c| (Some(c), 1);
    match text.bytes().next() {
        Some(b'n') => simple('\n'),
        Some(b't') => simple('\t'),
        Some(b'r') => simple('\r'),
        Some(b'a') => simple('\u{7}'),
        Some(b'b') => simple('\u{8}'),
        Some(b'e' | b'E') => simple('\u{1b}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'v') => simple('\u{b}'),
        Some(c @ (b'\\' | b'\'' | b'"' | b'?')) => simple(char::from(c)),
        Some(b'x') => numeric(text, 1, 2, 16),
        Some(b'u') => numeric(text, 1, 4, 16),
        Some(b'U') => numeric(text, 1, 8, 16),
        Some(b'0'..=b'7') => numeric(text, 0, 3, 8),
        _ => (None, 0),
    }
}

fn numeric(text: &str, skip: usize, most: usize, radix: u32) -> (Option<char>, usize) {
    let digits = text
        .bytes()
        .skip(skip)
        .take(most)
        .take_while(|b| char::from(*b).is_digit(radix))
        .count();
    let value = text
        .get(skip..skip + digits)
        .and_then(|digits| u32::from_str_radix(digits, radix).ok())
        .and_then(char::from_u32);
    match value {
        Some(c) => (Some(c), skip + digits),
        None => (None, 0),
    }
}
