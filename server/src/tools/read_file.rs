//! `read_file`: the text of a file, or the entries of a folder.

#[path = "read/folder.rs"]
mod folder;
#[path = "read/large.rs"]
mod large;
#[path = "read/page.rs"]
mod page;
#[path = "read/wrap.rs"]
mod wrap;

use super::{input, output};
use crate::args::Args;
use crate::calls::Call;
use crate::files::analysis::Analysis;
use crate::files::existing::State;
use crate::files::sha256;
use crate::limits;
use crate::outcome::{Code, Outcome, system};
use crate::session::Session;
use file_format::FileFormat;
use hands_policy::paths::{Kind, Target};
use hands_text::encoding::{self, Detected};
use page::{Manner, Page};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

const KNOWN: &[&str] = &[
    "path",
    "offset",
    "limit",
    "pages",
    "sheet",
    "range",
    "as",
    "encoding",
    "line_numbers",
    "max_dim",
];
/// Parameters for kinds of files that this version does not read.
const LATER: &[&str] = &["pages", "sheet", "range", "max_dim"];

pub(super) fn description(session: &Session) -> String {
    format!(
        "Reads a text file of any encoding, or lists a folder. Text comes in pages of at most {} \
         lines (folders: entries) and {} bytes; go on with `offset`. Other kinds of files (documents, images, media) \
         answer `unsupported` with what they are. System files, credentials and keys are refused.",
        limits::READ_LINES,
        session.config.limits.read_bytes
    )
}

pub(super) fn input_schema() -> Map<String, Value> {
    input(
        json!({
            "path": {"type": "string", "description": "File or folder; ~ works; relative paths start at the first workspace."},
            "offset": {"type": ["integer", "null"], "description": "First line (in a folder: entry), from 1; negative counts from the end."},
            "limit": {"type": ["integer", "null"], "minimum": 1, "description": "Number of lines (in a folder: entries)."},
            "pages": {"type": ["string", "null"], "description": "For PDF and slides; not in this version."},
            "sheet": {"type": ["string", "null"], "description": "For spreadsheets; not in this version."},
            "range": {"type": ["string", "null"], "description": "For spreadsheets; not in this version."},
            "as": {"type": ["string", "null"], "enum": ["auto", "text", "image", "metadata", "hex", null], "description": "How to read it; text: also what looks binary. image and hex are not in this version."},
            "encoding": {"type": ["string", "null"], "description": "Of the text; default: detected."},
            "line_numbers": {"type": ["boolean", "null"], "description": "Number the lines; default false."},
            "max_dim": {"type": ["integer", "null"], "description": "For images; not in this version."},
        }),
        &["path"],
    )
}

pub(super) fn output_schema() -> Map<String, Value> {
    output(json!({
        "path": {"type": "string"},
        "kind": {"type": "string"},
        "mime": {"type": "string"},
        "size": {"type": "integer"},
        "text": {"type": "string"},
        "encoding": {"type": "string"},
        "eol": {"type": "string"},
        "total_lines": {"type": "integer"},
        "total_entries": {"type": "integer"},
        "start_line": {"type": "integer"},
        "end_line": {"type": "integer"},
        "sha256": {"type": "string"},
        "entries": {"type": "array", "items": {"type": "object"}},
    }))
}

/// What the planner asked for.
struct Wish {
    path: String,
    offset: Option<i64>,
    limit: u64,
    how: &'static str,
    encoding: Option<String>,
    line_numbers: bool,
}

impl Wish {
    fn read(args: Map<String, Value>) -> Result<Self, Outcome> {
        let args = Args::new(args, "", KNOWN, &[])?;
        if let Some(later) = LATER.iter().find(|name| args.has(name)) {
            return Err(Outcome::fail(
                Code::Unsupported,
                format!("`{later}` is for kinds of files that this version does not read"),
            ));
        }
        let how = args.word("as", &["auto", "text", "image", "metadata", "hex"])?;
        let limit = args.whole("limit", 1..=i64::MAX)?;
        Ok(Self {
            path: args.required("path")?.to_string(),
            offset: args.whole("offset", i64::MIN..=i64::MAX)?,
            limit: limit
                .and_then(|n| u64::try_from(n).ok())
                .unwrap_or(limits::READ_LINES),
            how: how.unwrap_or("auto"),
            encoding: args.string("encoding")?.map(str::to_string),
            line_numbers: args.flag("line_numbers")?,
        })
    }
}

pub(super) fn run(call: &Call, args: Map<String, Value>) -> Result<Outcome, Outcome> {
    let session = &call.session;
    let wish = Wish::read(args)?;
    let target = session.policy.resolve(&wish.path, None)?;
    check_packed(session, &target)?;
    session.policy.check_read(&target)?;
    let reading = Reading::of(session, &target)?;
    if matches!(wish.how, "image" | "hex") {
        return Err(Outcome::fail(
            Code::Unsupported,
            format!("`as: {}` is not in this version", wish.how),
        ));
    }
    match target.kind() {
        Some(Kind::Dir) => folder::list(session, &wish, &target),
        _ => read(session, &wish, &target, reading),
    }
}

/// A recovery file that a rotation compressed is not read, by neither of its names; whoever may
/// read the file it came from is told so.
fn check_packed(session: &Session, target: &Target) -> Result<(), Outcome> {
    if !session.recovery.is_packed(target.path()) {
        return Ok(());
    }
    Reading::of(session, target)?;
    let message = format!(
        "{} was compressed by a rotation of the recovery files",
        target.path().display()
    );
    Err(Outcome::fail(Code::Unsupported, message)
        .hint("Ask your user: `handsctl recovery show PATH` prints it."))
}

/// What is particular about reading a file, by where it lies.
#[derive(Debug, Clone, Copy)]
struct Reading {
    /// The longest line, bytes, of a command's output: it must be readable to its last byte, so
    /// that longer ones are wrapped, and it is UTF-8 whatever it looks like.
    wrap_at: Option<usize>,
    /// Whether commands can read it as well.
    in_commands_reach: bool,
}

impl Reading {
    /// A recovery file is protected as the file it came from.
    fn of(session: &Session, target: &Target) -> Result<Self, Outcome> {
        let recovery = target.path().starts_with(session.recovery.folder());
        let mut reading = Self {
            wrap_at: None,
            in_commands_reach: !recovery,
        };
        if !recovery || target.kind() == Some(Kind::Dir) {
            return Ok(reading);
        }
        let origin = session.recovery.origin_of(target.path());
        match origin {
            Some(None) => {
                // A byte may take three as U+FFFD: even then a line must fit in a page.
                let quarter = usize::try_from(session.config.limits.read_bytes / 4);
                let most = quarter.unwrap_or(usize::MAX).min(limits::READ_LINE_BYTES);
                reading.wrap_at = Some(most);
            }
            Some(Some(origin)) => session.policy.check_origin(&origin)?,
            None => {
                return Err(Outcome::fail(
                    Code::ProtectedPath,
                    format!("{} is no recovery file", target.path().display()),
                ));
            }
        }
        Ok(reading)
    }

    fn detect(self, bytes: &[u8], wish: &Wish) -> Result<Detected, Outcome> {
        let own = self.wrap_at.map(|_| "utf-8");
        encoding::detect(bytes, wish.encoding.as_deref().or(own))
            .map_err(|e| Outcome::validation(format!("`encoding`: {e}")))
    }

    /// Whether it is to be read as text whatever its bytes are.
    fn is_text(self, wish: &Wish) -> bool {
        wish.encoding.is_some() || wish.how == "text" || self.wrap_at.is_some()
    }
}

fn read(
    session: &Session,
    wish: &Wish,
    target: &Target,
    reading: Reading,
) -> Result<Outcome, Outcome> {
    let file = target.open_read()?;
    let failed = |e| system(format!("reading {}", target.path().display()), &e);
    let size = file.metadata().map_err(failed)?.size();
    let mut head = vec![0; limits::SNIFF_BYTES];
    let got = file.read_at(&mut head, 0).map_err(failed)?;
    head.truncate(got);
    let binary = !reading.is_text(wish) && encoding::is_binary(&head);
    if binary || wish.how == "metadata" {
        return what_it_is(wish, target, size, &head, binary, reading);
    }
    if size > limits::WHOLE_FILE_BYTES {
        return large::read(session, wish, target, &file, size, reading);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    let mut limited = (&file).take(limits::WHOLE_FILE_BYTES + 1);
    limited.read_to_end(&mut bytes).map_err(failed)?;
    let detected = reading.detect(&bytes, wish)?;
    let text = decode(&bytes, &detected);
    let lines = match reading.wrap_at {
        Some(width) => wrap::wrap(&text.text, width),
        None => Cow::Borrowed(&*text.text),
    };
    let wrapped = matches!(lines, Cow::Owned(_));
    let page = Page::of(
        &lines,
        wish.offset,
        wish.limit,
        session.config.limits.read_bytes,
    )
    .wrapped(reading.wrap_at.filter(|_| wrapped));
    let analysis = analyse(session, &file, &bytes, &text.text, &detected);
    let told = Told {
        target,
        size: bytes.len() as u64,
        encoding: detected.name(),
        lossy: text.lossy,
    };
    Ok(told
        .answer(page, wish, reading)
        .field("eol", analysis.eol.as_str())
        .field("sha256", analysis.sha256.clone()))
}

/// What is said of every text, read whole or in part.
struct Told<'a> {
    target: &'a Target,
    size: u64,
    encoding: String,
    lossy: bool,
}

impl Told<'_> {
    fn answer(self, page: Page, wish: &Wish, reading: Reading) -> Outcome {
        let manner = Manner {
            numbered: wish.line_numbers,
            lossy: self.lossy.then_some(self.encoding.as_str()),
            in_commands_reach: reading.in_commands_reach,
        };
        page.outcome(manner)
            .field("path", self.target.path().to_string_lossy())
            .field("kind", "text")
            .field("mime", "text/plain")
            .field("size", self.size)
            .field("encoding", self.encoding)
    }
}

/// A file's text, borrowed where it is UTF-8 already.
struct Text<'a> {
    text: Cow<'a, str>,
    lossy: bool,
}

fn decode<'a>(bytes: &'a [u8], detected: &Detected) -> Text<'a> {
    if detected.encoding == encoding::Encoding::Utf8
        && let Ok(text) = std::str::from_utf8(&bytes[detected.bom_len()..])
    {
        return Text {
            text: Cow::Borrowed(text),
            lossy: false,
        };
    }
    let decoded = encoding::decode(bytes, detected);
    Text {
        text: Cow::Owned(decoded.text),
        lossy: decoded.lossy,
    }
}

/// Hash and line ends, from memory where the file was read in this very state before.
fn analyse(
    session: &Session,
    file: &File,
    bytes: &[u8],
    text: &str,
    detected: &Detected,
) -> Arc<Analysis> {
    let key = file.metadata().ok().map(|metadata| {
        let state = State::of(&metadata);
        (
            state,
            metadata.ctime(),
            metadata.ctime_nsec(),
            detected.name(),
        )
    });
    if let Some(known) = key.as_ref().and_then(|key| session.analyses.get(key)) {
        return known;
    }
    let analysis = Arc::new(Analysis {
        sha256: sha256(bytes),
        eol: hands_text::lines::eol(text),
    });
    if let Some(key) = key.filter(|key| key.0.size == bytes.len() as u64) {
        session.analyses.put(key, Arc::clone(&analysis));
    }
    analysis
}

/// For files that are no text, or of which only that was asked.
fn what_it_is(
    wish: &Wish,
    target: &Target,
    size: u64,
    head: &[u8],
    binary: bool,
    reading: Reading,
) -> Result<Outcome, Outcome> {
    let format = FileFormat::from_bytes(head);
    let (kind, mime) = match binary {
        true => (format.kind().to_string_lower(), format.media_type()),
        false => ("text".to_string(), "text/plain"),
    };
    let path = target.path().display();
    let facts = format!("{path}: {kind}, {mime}, {size} bytes");
    let outcome = match (binary, wish.how) {
        (_, "metadata") => Outcome::ok(facts),
        _ => Outcome::fail(
            Code::Unsupported,
            format!("{facts}; this version reads text and folders"),
        )
        .hint(other_ways(head, reading)),
    };
    let outcome = outcome
        .field("path", target.path().to_string_lossy())
        .field("kind", kind)
        .field("mime", mime)
        .field("size", size);
    match outcome.code {
        Code::Ok => Ok(outcome),
        _ => Err(outcome),
    }
}

/// What to do about a file that looks binary.
fn other_ways(head: &[u8], reading: Reading) -> String {
    let mut ways = Vec::new();
    if is_mostly_printable(head) {
        ways.push("Much of it is text: read it with `as: text`.");
    }
    if reading.in_commands_reach {
        ways.push("Use bash with a program that reads this kind of file.");
    }
    ways.join(" ")
}

/// Whether at least three of four bytes are text: visible ASCII, white space, sound UTF-8.
fn is_mostly_printable(head: &[u8]) -> bool {
    let printable = |c: &char| !c.is_control() || c.is_ascii_whitespace() || *c == '\u{1b}';
    let bytes: usize = head
        .utf8_chunks()
        .flat_map(|chunk| chunk.valid().chars().filter(printable).map(char::len_utf8))
        .sum();
    bytes * 4 >= head.len() * 3
}

/// The kind of a format in the contract's words.
trait KindName {
    fn to_string_lower(&self) -> String;
}

impl KindName for file_format::Kind {
    fn to_string_lower(&self) -> String {
        use file_format::Kind as K;
        match self {
            K::Image => "image",
            K::Audio => "audio",
            K::Video => "video",
            K::Document | K::Presentation | K::Spreadsheet | K::Ebook => "document",
            K::Archive | K::Compressed | K::Package => "archive",
            K::Executable => "executable",
            K::Database => "database",
            _ => "binary",
        }
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_some_odd_bytes_is_told_from_noise() {
        assert!(is_mostly_printable(b"a log line\0with a NUL\n"));
        assert!(is_mostly_printable("größer \u{1}\n".as_bytes()));
        assert!(!is_mostly_printable(
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0"
        ));
        assert!(!is_mostly_printable(&[0; 100]));
    }
}
