//! Text from outside, made fit to be shown.

/// The text without what a terminal or a reader could be deceived by: control characters, and
/// those that are not seen or turn the direction of others. At most `max` characters of it.
pub fn plain(text: &str, max: usize) -> String {
    text.chars().filter(|c| !is_hidden(*c)).take(max).collect()
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_left_out() {
        for hidden in [
            '\n',
            '\u{1b}',
            '\u{9b}',
            '\u{200b}',
            '\u{200f}',
            '\u{2028}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert_eq!(plain(&format!("a{hidden}b"), 10), "ab", "{hidden:?}");
        }
        assert_eq!(plain("grüß → 漢字", 99), "grüß → 漢字");
    }

    #[test]
    fn it_is_cut_by_characters() {
        assert_eq!(plain(&"ü".repeat(300), 200), "ü".repeat(200));
    }
}
