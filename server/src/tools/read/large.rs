//! Text files too large to be read whole: a page is looked for line by line, or from the end.

use super::{Page, Wish, detect};
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
    file: &File,
    size: u64,
) -> Result<Outcome, Outcome> {
    let failed = |e| system(format!("reading {}", target.path().display()), &e);
    let mut head = Vec::new();
    file.take(limits::SNIFF_BYTES as u64)
        .read_to_end(&mut head)
        .map_err(failed)?;
    let detected = detect(&head, wish)?;
    if !matches!(detected.encoding, Encoding::Utf8) && !head.is_ascii() {
        return Err(Outcome::fail(
            Code::TooLarge,
            format!(
                "{} has {size} bytes in {}; over {} bytes only UTF-8 is read",
                target.path().display(),
                detected.name(),
                limits::WHOLE_FILE_BYTES
            ),
        )
        .hint("Use bash: iconv, then head, tail or sed -n."));
    }
    let max_bytes = session.config.limits.read_bytes;
    let (bytes, start_line, more) = match wish.offset {
        Some(offset) if offset < 0 => {
            let bytes = from_the_end(file, size, offset, wish.limit).map_err(failed)?;
            (bytes.0, None, bytes.1)
        }
        offset => {
            let first = u64::try_from(offset.unwrap_or(1)).unwrap_or(1).max(1);
            let (bytes, more) = from_line(file, first, wish.limit, max_bytes).map_err(failed)?;
            (bytes, Some(first), more)
        }
    };
    let decoded = encoding::decode(&bytes, &detected);
    let first = start_line.unwrap_or(1);
    let page = Page::within(&decoded.text, first, max_bytes);
    let shown = page.end_line() + 1 - first;
    let taken = hands_text::lines::count(&decoded.text) as u64;
    let page = page.with_more(more || shown < taken);
    let name = detected.name();
    let mut outcome = page
        .outcome(
            wish.line_numbers && start_line.is_some(),
            decoded.lossy.then_some(name.as_str()),
        )
        .field("path", target.path().to_string_lossy())
        .field("kind", "text")
        .field("mime", "text/plain")
        .field("size", size)
        .field("encoding", name);
    if start_line.is_none() {
        // From the end the lines' numbers are not known without reading it all.
        outcome.fields.shift_remove("start_line");
        outcome.fields.shift_remove("end_line");
    }
    Ok(outcome)
}

/// Lines from `first` on, at most `limit` and about `max_bytes`; whether there are more.
fn from_line(
    file: &File,
    first: u64,
    limit: u64,
    max_bytes: u64,
) -> std::io::Result<(Vec<u8>, bool)> {
    let mut reader = BufReader::with_capacity(BUFFER, file);
    reader.seek(SeekFrom::Start(0))?;
    for _ in 1..first {
        if skip_line(&mut reader)? == 0 {
            return Ok((Vec::new(), false));
        }
    }
    let mut bytes = Vec::new();
    let mut taken = 0;
    let room = max_bytes.saturating_add(limits::READ_LINE_BYTES as u64);
    while taken < limit && (bytes.len() as u64) < room {
        let before = bytes.len();
        if (&mut reader).take(room).read_until(b'\n', &mut bytes)? == 0 {
            return Ok((bytes, false));
        }
        if bytes.last() != Some(&b'\n') {
            // A line longer than a page: the rest of it is passed over.
            skip_line(&mut reader)?;
            bytes.truncate(before + limits::READ_LINE_BYTES * 2);
            bytes.push(b'\n');
        }
        taken += 1;
    }
    Ok((bytes, !reader.fill_buf()?.is_empty()))
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

/// Lines from the `-offset`-th last on; whether there are more behind the page.
fn from_the_end(
    mut file: &File,
    size: u64,
    offset: i64,
    limit: u64,
) -> std::io::Result<(Vec<u8>, bool)> {
    let start = size.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let wanted = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    let content = tail.strip_suffix(b"\n").map_or(tail.len(), <[u8]>::len);
    let begin = memchr::memrchr_iter(b'\n', &tail[..content])
        .nth(wanted - 1)
        .map_or(0, |at| at + 1);
    let lines = usize::try_from(limit).unwrap_or(usize::MAX);
    let end = memchr::memchr_iter(b'\n', &tail[begin..])
        .nth(lines - 1)
        .map_or(tail.len(), |at| begin + at + 1);
    Ok((tail[begin..end].to_vec(), end < tail.len()))
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
        assert_eq!(page(2, 2), (b"two\nthree\n".to_vec(), true));
        assert_eq!(page(4, 2).0, b"four\n");
        assert!(!page(4, 2).1);
        assert_eq!(page(9, 2), (Vec::new(), false));
    }

    #[test]
    fn the_end_is_found_from_behind() {
        let text = b"one\ntwo\nthree\n";
        let file = file(text);
        let page = |offset, limit| from_the_end(&file, text.len() as u64, offset, limit).unwrap();
        assert_eq!(page(-1, 9), (b"three\n".to_vec(), false));
        assert_eq!(page(-2, 1), (b"two\n".to_vec(), true));
        assert_eq!(page(-99, 99), (text.to_vec(), false));
    }
}
