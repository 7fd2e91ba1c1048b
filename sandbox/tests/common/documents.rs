//! Tables in the documents that are made of what tests find.

use std::path::{Path, PathBuf};

/// Whether the documents are here to be compared with: not where the test runs without the source.
pub fn are_here() -> bool {
    std::env::var_os("HANDS_TEST_BIN_DIR").is_none()
}

/// Compares what stands below the line `<!-- MARK -->` of `docs/sandbox.md`, up to the next blank
/// line but the first, with `table`. Rows of `unknown` (by their first cell) are not compared. With
/// `HANDS_RENEW_DOCS` set the table is written instead.
pub fn agree(mark: &str, table: &str, unknown: &[String]) {
    let page = page();
    let text = std::fs::read_to_string(&page).unwrap();
    let line = format!("<!-- {mark} -->\n\n");
    let (before, after) = text
        .split_once(&line)
        .unwrap_or_else(|| panic!("{} lacks the line {line}", page.display()));
    let end = after.find("\n\n").map_or(after.len(), |at| at + 1);
    if std::env::var_os("HANDS_RENEW_DOCS").is_some() {
        assert!(
            unknown.is_empty(),
            "this machine lacks what it takes: {unknown:?}"
        );
        let renewed = format!("{before}{line}{table}{}", &after[end..]);
        std::fs::write(&page, renewed).unwrap();
        return;
    }
    let known = |text: &str| -> Vec<String> {
        let is_unknown = |row: &str| unknown.iter().any(|first| row.starts_with(first.as_str()));
        let rows = text.lines().filter(|row| !is_unknown(row));
        rows.map(str::to_string).collect()
    };
    assert_eq!(
        known(&after[..end]),
        known(table),
        "{}: the table below `{mark}` is not what was found; renew it with HANDS_RENEW_DOCS=1",
        page.display()
    );
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sandbox.md")
}
