//! Text files too large to be read whole: a page is looked for line by line, or from the end.

use super::wrap::{self, Taken};
use super::{Page, Reading, Told, Wish};
use crate::limits;
use crate::outcome::{Code, Outcome, system};
use crate::session::Session;
use hands_policy::paths::Target;
use hands_text::encoding::{self, Encoding};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

/// Bytes of the end that are looked through for a negative offset.
const TAIL_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes read at once.
const BUFFER: usize = 1024 * 1024;

pub(super) fn read(
    session: &Session,
    wish: &Wish,
    target: &Target,
    mut file: &File,
    size: u64,
    reading: Reading,
) -> Result<Outcome, Outcome> {
    let failed = |e| system(format!("reading {}", target.path().display()), &e);
    let mut head = Vec::new();
    file.take(limits::SNIFF_BYTES as u64)
        .read_to_end(&mut head)
        .map_err(failed)?;
    let detected = reading.detect(&head, wish)?;
    if !matches!(detected.encoding, Encoding::Utf8) && !head.is_ascii() {
        let message = format!(
            "{} has {size} bytes in {}; over {} bytes only UTF-8 is read",
            target.path().display(),
            detected.name(),
            limits::WHOLE_FILE_BYTES
        );
        return Err(
            Outcome::fail(Code::TooLarge, message).hint(match reading.in_commands_reach {
                true => "Use bash: iconv, then head, tail or sed -n.",
                false => "Leave `encoding` out, or read it as utf-8: other bytes show as U+FFFD.",
            }),
        );
    }
    let max_bytes = session.config.limits.read_bytes;
    let width = reading.wrap_at;
    let from_end = wish.offset.filter(|offset| *offset < 0);
    let (taken, first, from_end) = match from_end {
        Some(offset) => {
            let (taken, found) =
                from_the_end(file, size, offset, wish.limit, width).map_err(failed)?;
            (taken, 1, Some(found))
        }
        None => {
            let first = u64::try_from(wish.offset.unwrap_or(1)).unwrap_or(1).max(1);
            let taken = match width {
                Some(width) => {
                    file.rewind().map_err(failed)?;
                    wrap::from_line(file, first, wish.limit, max_bytes, width)
                }
                None => from_line(file, first, wish.limit, max_bytes),
            };
            (taken.map_err(failed)?, first, None)
        }
    };
    let decoded = encoding::decode(&taken.bytes, &detected);
    let page = Page::within(&decoded.text, first, max_bytes, b'\n');
    let shown = page.end_line() + 1 - first;
    let lines = hands_text::lines::count(&decoded.text) as u64;
    let page = page
        .with_more(taken.more || shown < lines)
        .wrapped(width.filter(|_| taken.wrapped))
        .counted_from_end(from_end);
    let told = Told {
        target,
        size,
        encoding: detected.name(),
        lossy: decoded.lossy,
    };
    Ok(told.answer(page, wish, reading))
}

/// Lines from `first` on, at most `limit` and about `max_bytes`; whether there are more.
fn from_line(file: &File, first: u64, limit: u64, max_bytes: u64) -> std::io::Result<Taken> {
    let mut reader = BufReader::with_capacity(BUFFER, file);
    reader.seek(SeekFrom::Start(0))?;
    for _ in 1..first {
        if skip_line(&mut reader)? == 0 {
            return Ok(Taken::default());
        }
    }
    let mut bytes = Vec::new();
    let mut taken = 0;
    let room = max_bytes.saturating_add(limits::READ_LINE_BYTES as u64);
    while taken < limit && (bytes.len() as u64) < room {
        let before = bytes.len();
        if (&mut reader).take(room).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(Taken {
                bytes,
                ..Taken::default()
            });
        }
        if bytes.last() != Some(&b'\n') {
            // A line longer than a page: the rest of it is passed over.
            skip_line(&mut reader)?;
            bytes.truncate(before + limits::READ_LINE_BYTES * 2);
            bytes.push(b'\n');
        }
        taken += 1;
    }
    Ok(Taken {
        bytes,
        more: !reader.fill_buf()?.is_empty(),
        wrapped: false,
    })
}

fn skip_line(reader: &mut BufReader<&File>) -> std::io::Result<usize> {
    let mut skipped = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(skipped);
        }
        let (used, done) = match memchr::memchr(b'\n', buffer) {
            Some(at) => (at + 1, true),
            None => (buffer.len(), false),
        };
        reader.consume(used);
        skipped += used;
        if done {
            return Ok(skipped);
        }
    }
}

/// Lines from the `-offset`-th last on, wrapped where there is a `width`; and which one from the
/// end it really was.
fn from_the_end(
    mut file: &File,
    size: u64,
    offset: i64,
    limit: u64,
    width: Option<usize>,
) -> std::io::Result<(Taken, u64)> {
    let start = size.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let wanted = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    let width = width.unwrap_or(usize::MAX - 2);
    // What is before the first line end is the end of some line.
    let whole = match start {
        0 => 0,
        _ => memchr::memchr(b'\n', &tail)
            .filter(|at| at + 1 < tail.len())
            .map_or(0, |at| at + 1),
    };
    let (taken, found) = wrap::from_the_end(&tail[whole..], wanted, limit, width);
    Ok((taken, found as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(text: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        file
    }

    #[test]
    fn pages_are_found_by_line() {
        let file = file(b"one\ntwo\nthree\nfour");
        let page = |first, limit| from_line(&file, first, limit, 1000).unwrap();
        assert_eq!(page(2, 2).bytes, b"two\nthree\n");
        assert!(page(2, 2).more);
        assert_eq!(page(4, 2).bytes, b"four\n");
        assert!(!page(4, 2).more);
        assert_eq!(page(9, 2), Taken::default());
    }

    #[test]
    fn the_end_is_found_from_behind() {
        let text = b"one\ntwo\nthree\n";
        let file = file(text);
        let page = |offset, limit| {
            let size = text.len() as u64;
            let (taken, found) = from_the_end(&file, size, offset, limit, None).unwrap();
            (taken.bytes, taken.more, found)
        };
        assert_eq!(page(-1, 9), (b"three\n".to_vec(), false, 1));
        assert_eq!(page(-2, 1), (b"two\n".to_vec(), true, 2));
        assert_eq!(page(-99, 99), (text.to_vec(), false, 3));
    }
}
