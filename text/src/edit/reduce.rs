//! Changes reduced to what differs, and checked before they are made.

use std::borrow::Cow;

use super::EditError;
use super::pieces::{Buffer, Change, Places};
use crate::encoding::{self, Encoding, EncodingError};
use crate::limits;
use crate::lines;

/// Checks changes of one edit against a file.
pub(super) struct Reducer<'r, 'a> {
    pub(super) edit_index: usize,
    pub(super) buffer: &'r Buffer<'a>,
    pub(super) places: &'r Places<'r, 'a>,
}

impl Reducer<'_, '_> {
    /// Reduces each change to what differs, and checks that it can be made.
    pub(super) fn reduce<'t>(&self, changes: &[Change<'t>]) -> Result<Vec<Change<'t>>, EditError> {
        let edit_index = self.edit_index;
        let text = self.buffer.text();
        let added: usize = changes.iter().map(|c| c.text.len()).sum();
        let removed: usize = changes.iter().map(|c| c.range.len()).sum();
        let bytes = text.len().saturating_sub(removed).saturating_add(added);
        if bytes > limits::RESULT_BYTES.max(text.len()) {
            return Err(EditError::TooLarge {
                edit_index,
                bytes,
                limit: limits::RESULT_BYTES,
            });
        }
        changes.iter().map(|c| self.reduce_one(c)).collect()
    }

    fn reduce_one<'t>(&self, change: &Change<'t>) -> Result<Change<'t>, EditError> {
        let (edit_index, places) = (self.edit_index, self.places);
        let (head, tail) = common_ends(
            &self.buffer.text()[change.range.clone()],
            &change.text,
            |at| places.can_cut(change.range.start + at),
        );
        let range = change.range.start + head..change.range.end - tail;
        let text = cut_cow(&change.text, head, tail);
        if let Err(EncodingError::Unencodable { ch, line, encoding }) = self.encodable(&text) {
            let line = line + lines::line_at(&change.text, head) - 1;
            return Err(EditError::Unencodable {
                edit_index,
                ch,
                line,
                encoding,
            });
        }
        let range_start = range.start;
        Ok(Change {
            range,
            text,
            origin: change
                .origin
                .or_else(|| Some(places.original_of(range_start))),
        })
    }

    fn encodable(&self, text: &str) -> Result<(), EncodingError> {
        match self.buffer.encoding() {
            Encoding::Utf8 => Ok(()),
            encoding => encoding::encode(text, encoding).map(drop),
        }
    }
}

fn cut_cow<'t>(text: &Cow<'t, str>, head: usize, tail: usize) -> Cow<'t, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[head..text.len() - tail]),
        Cow::Owned(text) => Cow::Owned(text[head..text.len() - tail].to_owned()),
    }
}

/// The lengths of the common beginning and the common end of `old` and `new`, where `old` can be cut.
fn common_ends(old: &str, new: &str, can_cut: impl Fn(usize) -> bool) -> (usize, usize) {
    let (a, b) = (old.as_bytes(), new.as_bytes());
    let mut head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    while head > 0 && !(old.is_char_boundary(head) && new.is_char_boundary(head) && can_cut(head)) {
        head -= 1;
    }
    let most = (a.len() - head).min(b.len() - head);
    let same = a
        .iter()
        .rev()
        .zip(b.iter().rev())
        .take(most)
        .take_while(|(x, y)| x == y);
    let mut tail = same.count();
    while tail > 0 && !(old.is_char_boundary(a.len() - tail) && can_cut(a.len() - tail)) {
        tail -= 1;
    }
    (head, tail)
}
