//! Lines from a child's output, bounded.

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use crate::jsonrpc;
use crate::limits;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line within the bound, without its end.
    Whole(Vec<u8>),
    /// A line over the bound: its size in bytes and the id found in what was kept of it.
    TooLong {
        /// Its size.
        size: u64,
        /// The id of the message, where it could be found.
        id: Option<u64>,
    },
}

/// Reads the next line; none at the end. Of a line over `max` bytes only the head and the last
/// bytes are held, so that a child cannot fill this process's memory.
pub async fn next_line<R: AsyncBufRead + Unpin>(
    reader: &mut R,
    max: usize,
) -> std::io::Result<Option<Line>> {
    let mut kept: Vec<u8> = Vec::new();
    let mut tail: Vec<u8> = Vec::new();
    let mut size = 0_u64;
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            // What stands after the last line break is no line: the child died writing it.
            return Ok(None);
        }
        let end = available.iter().position(|b| *b == b'\n');
        let piece = &available[..end.unwrap_or(available.len())];
        size += piece.len() as u64;
        if size <= max as u64 {
            kept.extend_from_slice(piece);
        } else {
            keep_tail(&mut tail, piece);
            let room = limits::LINE_HEAD.saturating_sub(kept.len());
            kept.extend_from_slice(&piece[..piece.len().min(room)]);
            kept.truncate(limits::LINE_HEAD);
            kept.shrink_to(limits::LINE_HEAD);
        }
        let used = end.map_or(available.len(), |end| end + 1);
        reader.consume(used);
        if end.is_none() {
            continue;
        }
        if size <= max as u64 {
            return Ok(Some(Line::Whole(kept)));
        }
        let id = jsonrpc::id_of_cut_line(&kept, &tail);
        return Ok(Some(Line::TooLong { size, id }));
    }
}

fn keep_tail(tail: &mut Vec<u8>, piece: &[u8]) {
    let from = piece.len().saturating_sub(limits::LINE_TAIL);
    tail.extend_from_slice(&piece[from..]);
    let excess = tail.len().saturating_sub(limits::LINE_TAIL);
    tail.drain(..excess);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::BufReader;

    async fn lines(text: &str, max: usize, buffer: usize) -> Vec<Line> {
        let mut reader = BufReader::with_capacity(buffer, text.as_bytes());
        let mut all = Vec::new();
        while let Some(line) = next_line(&mut reader, max).await.unwrap() {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn lines_come_whole_or_by_their_size() {
        let long = format!("{{\"id\":12,\"r\":\"{}\"}}", "x".repeat(300));
        let last = format!("{{\"r\":\"{}\",\"id\":13}}", "x".repeat(300));
        let text = format!("one\n\n{long}\n{last}\ntwo\nunfinished");
        for buffer in [1, 7, 64, 4096] {
            let all = lines(&text, 100, buffer).await;
            let size = long.len() as u64;
            let expected = [
                Line::Whole(b"one".to_vec()),
                Line::Whole(Vec::new()),
                Line::TooLong { size, id: Some(12) },
                Line::TooLong { size, id: Some(13) },
                Line::Whole(b"two".to_vec()),
            ];
            assert_eq!(all, expected, "with a buffer of {buffer}");
        }
    }
}
