//! `write_file`: makes a file, or replaces or lengthens one with consent.

use super::{input, output};
use crate::args::Args;
use crate::calls::Call;
use crate::files::existing::Existing;
use crate::files::gate;
use crate::files::made;
use crate::files::replace::Spot;
use crate::files::sha256;
use crate::files::target::Writable;
use crate::outcome::{Code, Outcome};
use crate::session::Session;
use base64::Engine as _;
use hands_policy::permission::Act;
use hands_text::encoding::{self, Label};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

const KNOWN: &[&str] = &[
    "path",
    "content",
    "content_base64",
    "overwrite",
    "append",
    "nonce",
    "encoding",
    "eol",
    "executable",
];

pub(super) fn description(session: &Session) -> String {
    format!(
        "Creates a file with the given content (parents are made). With `overwrite` or `append` it \
         changes an existing one. {} The previous content is kept at `previous_recovery_path`. \
         Writes are atomic. An existing file outside the workspaces is never changed: the content \
         goes to a working copy beside it (`redirected_from`).",
        gate::described(session)
    )
}

pub(super) fn input_schema() -> Map<String, Value> {
    input(
        json!({
            "path": {"type": "string", "description": "The file; relative paths start at the first workspace."},
            "content": {"type": ["string", "null"], "description": "The text; this or content_base64."},
            "content_base64": {"type": ["string", "null"], "description": "Bytes, base64."},
            "overwrite": {"type": ["boolean", "null"], "description": "Replace an existing file; default false."},
            "append": {"type": ["boolean", "null"], "description": "Add to the end of the file; default false."},
            "nonce": {"type": ["string", "null"], "description": "From a permission_required answer, after your user agreed."},
            "encoding": {"type": ["string", "null"], "description": "Of the text; default utf-8, or the file's own when appending."},
            "eol": {"type": ["string", "null"], "enum": ["lf", "crlf", null], "description": "Line ends to write; default: as given."},
            "executable": {"type": ["boolean", "null"], "description": "Make it executable; default false."},
        }),
        &["path"],
    )
}

pub(super) fn output_schema() -> Map<String, Value> {
    output(json!({
        "path": {"type": "string"},
        "created": {"type": "boolean"},
        "bytes": {"type": "integer"},
        "sha256": {"type": "string"},
        "redirected_from": {"type": "string"},
        "previous_recovery_path": {"type": "string"},
        "nonce": {"type": "string"},
        "folder": {"type": "string"},
        "expires_at": {"type": "string"},
        "grant_command": {"type": "string"},
    }))
}

/// What the planner asked for.
struct Wish {
    path: String,
    content: Content,
    overwrite: bool,
    append: bool,
    nonce: Option<String>,
    executable: bool,
}

enum Content {
    Text {
        text: String,
        encoding: Option<String>,
    },
    Bytes(Vec<u8>),
}

impl Wish {
    fn read(args: Map<String, Value>) -> Result<Self, Outcome> {
        let args = Args::new(args, "", KNOWN, &["content", "content_base64"])?;
        let overwrite = args.flag("overwrite")?;
        let append = args.flag("append")?;
        if overwrite && append {
            return Err(Outcome::validation(
                "`overwrite` and `append` exclude each other",
            ));
        }
        let path = args.required("path")?;
        if path.ends_with('/') {
            return Err(Outcome::validation(
                "`path` ends in `/`, which names a folder; write_file makes a file",
            )
            .hint("Give the file's name as well; missing folders are made."));
        }
        Ok(Self {
            path: path.to_string(),
            content: Content::read(&args)?,
            overwrite,
            append,
            nonce: args.string("nonce")?.map(str::to_string),
            executable: args.flag("executable")?,
        })
    }
}

impl Content {
    fn read(args: &Args) -> Result<Self, Outcome> {
        let encoding = args.string("encoding")?.map(str::to_string);
        let eol = args.word("eol", &["lf", "crlf"])?;
        // An empty string stands for "not given" when the other form is there.
        let text = args.string("content")?;
        let base64 = args.string("content_base64")?;
        match (text, base64) {
            (Some(text), None | Some("")) => Ok(Self::Text {
                text: with_eol(text, eol),
                encoding,
            }),
            (None | Some(""), Some(base64)) => {
                if encoding.is_some() || eol.is_some() {
                    return Err(Outcome::validation(
                        "`encoding` and `eol` are for `content`, not for `content_base64`",
                    ));
                }
                let bytes = base64::engine::general_purpose::STANDARD.decode(base64.trim());
                bytes.map(Self::Bytes).map_err(|e| {
                    Outcome::validation(format!("`content_base64` is not base64: {e}"))
                })
            }
            (None, None) => Err(Outcome::validation("`content` is missing")
                .hint("Give `content`, or `content_base64` for bytes. It may be empty.")),
            (Some(_), Some(_)) => Err(Outcome::validation(
                "`content` and `content_base64` exclude each other",
            )),
        }
    }

    /// The bytes, in the encoding asked for; appended text takes the file's own when none is.
    fn encode(self, old: Option<&[u8]>) -> Result<Vec<u8>, Outcome> {
        let (text, encoding) = match self {
            Self::Bytes(bytes) => return Ok(bytes),
            Self::Text { text, encoding } => (text, encoding),
        };
        let invalid = |e: encoding::EncodingError| Outcome::validation(format!("`encoding`: {e}"));
        match (old.filter(|old| !old.is_empty()), encoding) {
            (Some(old), None) => {
                let detected = encoding::detect(old, None).map_err(invalid)?;
                encoding::encode(&text, detected.encoding).map_err(|e| match detected.confident {
                    true => invalid(e),
                    false => guessed_wrong(&e, &detected.name()),
                })
            }
            (Some(_), Some(name)) => {
                let label = Label::parse(&name).map_err(invalid)?;
                // A mark of byte order belongs at the beginning of a file only.
                encoding::encode(&text, label.encoding).map_err(invalid)
            }
            (None, name) => {
                let label = Label::parse(name.as_deref().unwrap_or("utf-8")).map_err(invalid)?;
                encoding::encode_with_bom(&text, label).map_err(invalid)
            }
        }
    }
}

/// The content does not fit an encoding that was only guessed: the guess may be at fault.
fn guessed_wrong(error: &encoding::EncodingError, guess: &str) -> Outcome {
    Outcome::validation(format!("`content`: {error}")).hint(format!(
        "The file's encoding was detected as {guess} (a guess). Read it with `encoding` first to \
         see which one it is in, then append with that `encoding`."
    ))
}

fn with_eol(text: &str, eol: Option<&str>) -> String {
    let lf = || text.replace("\r\n", "\n");
    match eol {
        None => text.to_string(),
        Some("crlf") => lf().replace('\n', "\r\n"),
        Some(_) => lf(),
    }
}

pub(super) fn run(call: &Call, args: Map<String, Value>) -> Result<Outcome, Outcome> {
    let session = &call.session;
    let wish = Wish::read(args)?;
    let (places, _held) = Writable::hold(session, &[&wish.path])?;
    let [place] = places.as_slice() else {
        return Err(Outcome::fail(Code::Internal, "the file was not resolved"));
    };
    if place.source.is_some() && !wish.overwrite && !wish.append {
        return Err(exists(place));
    }
    let old = match &place.source {
        None => None,
        Some(source) => Some(Existing::read(source, session.config.limits.edit_bytes)?),
    };
    let before = old
        .as_ref()
        .filter(|_| wish.append)
        .map(|old| old.bytes.as_slice());
    let mut bytes = before.map_or_else(Vec::new, <[u8]>::to_vec);
    bytes.extend(wish.content.encode(before)?);
    if let Some(old) = &old {
        place.check_writable(old)?;
    }
    let act = match wish.append {
        true => Act::Append,
        false => Act::Overwrite,
    };
    place.pass_gate(call, "write_file", act, wish.nonce.as_deref())?;
    let kept = put(call, place, old.as_ref(), &bytes, wish.executable)?;
    Ok(answer(place, &bytes, kept))
}

fn exists(place: &Writable) -> Outcome {
    let message = format!("{} is there already", place.source_path().display());
    Outcome::fail(Code::Conflict, message).hint(
        "Pass overwrite: true to replace it or append: true to add to it, or use edit to change \
         parts of it.",
    )
}

/// Puts `bytes` where `place` says; a replaced content is kept first, and where is returned.
pub(super) fn put(
    call: &Call,
    place: &Writable,
    old: Option<&Existing>,
    bytes: &[u8],
    executable: bool,
) -> Result<Option<PathBuf>, Outcome> {
    let mut folders = Vec::new();
    let parents = place.target.create_parents_noting(0o777, &mut folders);
    made::created(&call.session, &folders);
    let (folder, name) = parents?;
    let spot = Spot {
        folder: &folder,
        name: &name,
        shown: place.target.path(),
        notes: call.session.recovery.notes(),
    };
    let Some(old) = old.filter(|_| place.replaces()) else {
        let file = spot.create(bytes, executable)?;
        made::created(&call.session, &[file]);
        return Ok(None);
    };
    let kept = call
        .session
        .recovery
        .store_file(&old.file, place.target.path(), &call.turn_id, "replaced")
        .map_err(not_kept)?;
    if let Some(file) = spot.replace(old, bytes, executable)? {
        made::replaced(&call.session, &[(&old.file, file)]);
    }
    Ok(Some(kept.path))
}

/// Without a copy of the old content nothing is replaced.
pub(super) fn not_kept(error: hands_activity::RecoveryError) -> Outcome {
    let code = match error {
        hands_activity::RecoveryError::TooLarge { .. }
        | hands_activity::RecoveryError::Full { .. } => Code::TooLarge,
        _ => Code::Internal,
    };
    Outcome::fail(code, format!("the old content could not be kept: {error}"))
        .hint("Nothing was changed.")
}

fn answer(place: &Writable, bytes: &[u8], kept: Option<PathBuf>) -> Outcome {
    let path = place.target.path().display().to_string();
    let created = !place.replaces();
    let count = bytes.len();
    let shown = place.shown();
    let mut text = match created {
        true => format!("Created {shown} ({count} bytes)."),
        false => format!("Wrote {shown} ({count} bytes)."),
    };
    if let Some(from) = &place.redirected_from {
        text.push_str(&format!(
            "\n{} lies outside the workspaces and was not changed; this is a working copy.",
            from.display()
        ));
    }
    if let Some(kept) = &kept {
        text.push_str(&format!("\nPrevious content: {}", kept.display()));
    }
    Outcome::ok(text)
        .field("path", path)
        .field("created", created)
        .field("bytes", count)
        .field("sha256", sha256(bytes))
        .maybe(
            "redirected_from",
            place
                .redirected_from
                .as_ref()
                .map(|p| p.to_string_lossy().into_owned()),
        )
        .maybe(
            "previous_recovery_path",
            kept.map(|p| p.to_string_lossy().into_owned()),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_as_asked_and_never_doubled() {
        assert_eq!(with_eol("a\nb\r\nc", Some("crlf")), "a\r\nb\r\nc");
        assert_eq!(with_eol("a\nb\r\nc", Some("lf")), "a\nb\nc");
        assert_eq!(with_eol("a\nb\r\nc", None), "a\nb\r\nc");
    }

    #[test]
    fn appended_text_takes_the_files_encoding() {
        let text = |t: &str, encoding: Option<&str>| Content::Text {
            text: t.into(),
            encoding: encoding.map(str::to_string),
        };
        let utf16 = b"\xff\xfea\0\n\0";
        assert_eq!(text("b", None).encode(Some(utf16)).unwrap(), b"b\0");
        assert_eq!(text("é", None).encode(None).unwrap(), "é".as_bytes());
        assert_eq!(text("é", Some("latin1")).encode(None).unwrap(), b"\xe9");
        assert_eq!(
            text("€\u{1F642}", Some("latin1"))
                .encode(None)
                .unwrap_err()
                .code,
            Code::Validation
        );
    }
}
