//! Writing results, for a person or for a program.

use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// Where results go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    /// A program reads: JSON only.
    pub(crate) json: bool,
    /// A terminal shows it.
    terminal: bool,
}

impl Out {
    pub(crate) fn new(json: bool) -> Out {
        Out {
            json,
            terminal: io::stdout().is_terminal(),
        }
    }

    /// Whether a terminal shows it.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    /// One line (or several) of text. On a terminal control characters are made visible.
    pub(crate) fn text(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        if self.terminal {
            writeln!(stdout, "{}", harmless(text))?;
        } else {
            writeln!(stdout, "{text}")?;
        }
        stdout.flush()
    }

    /// One JSON value: on one line for a program, indented on a terminal.
    pub(crate) fn object(&self, value: &impl Serialize) -> io::Result<()> {
        let text = if self.terminal {
            serde_json::to_string_pretty(value)?
        } else {
            serde_json::to_string(value)?
        };
        self.text(&text)
    }

    /// One JSON value on one line, wherever it goes.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> io::Result<()> {
        self.text(&serde_json::to_string(value)?)
    }

    /// Rows under headings: a table on a terminal, aligned text otherwise.
    pub(crate) fn table(&self, heads: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
        if !self.terminal {
            return self.text(&aligned(heads, rows));
        }
        let mut table = comfy_table::Table::new();
        table
            .load_style(comfy_table::presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(comfy_table::ContentArrangement::Dynamic)
            .set_header(heads.iter().copied());
        for row in rows {
            table.add_row(row.iter().map(|cell| harmless(cell)));
        }
        self.text(&table.to_string())
    }
}

/// A line to the person on stderr. A stderr that is closed is no reason to stop.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "handsctl: {}", harmless(text));
}

/// Columns as wide as their widest cell, two spaces between them, nothing after the last.
fn aligned(heads: &[&str], rows: &[Vec<String>]) -> String {
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&heads).chain(rows).collect();
    let width = |column: usize| {
        let cells = all.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let lines = all.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        let line: Vec<String> = cells
            .map(|(cell, width)| format!("{:width$}", cell.replace('\n', " ")))
            .collect();
        line.join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Text that cannot drive a terminal: control and direction-changing characters become visible escapes.
pub(crate) fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        let direction = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if (c.is_control() && c != '\n' && c != '\t') || direction {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// A size as a person reads it.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut shown = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if shown < 1024.0 {
            break;
        }
        shown /= 1024.0;
        unit = next;
    }
    match unit {
        "B" => format!("{bytes} B"),
        unit => format!("{shown:.1} {unit}"),
    }
}

/// At most `count` characters on one line, with `…` if something was cut.
pub(crate) fn one_line(text: &str, count: usize) -> String {
    let flat = text.replace('\n', "⏎");
    match flat.char_indices().nth(count) {
        Some((at, _)) => format!("{}…", &flat[..at]),
        None => flat,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_do_not_reach_a_terminal() {
        assert_eq!(
            harmless("a\u{1b}[2Jb\u{202e}\tc\n"),
            "a\\u{1b}[2Jb\\u{202e}\tc\n"
        );
    }

    #[test]
    fn columns_are_aligned_by_characters() {
        let rows = [
            vec!["é".to_owned(), "1".to_owned()],
            vec!["abc".to_owned(), "2".to_owned()],
        ];
        assert_eq!(aligned(&["a", "b"], &rows), "a    b\né    1\nabc  2");
    }

    #[test]
    fn sizes_are_said_in_one_unit() {
        for (bytes, wanted) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (17_179_869_184, "16.0 GiB"),
            (u64::MAX, "16384.0 PiB"),
        ] {
            assert_eq!(size(bytes), wanted);
        }
    }

    #[test]
    fn long_text_is_cut_on_characters() {
        assert_eq!(one_line("äöü\nx", 4), "äöü⏎…");
        assert_eq!(one_line("äöü", 3), "äöü");
    }
}
