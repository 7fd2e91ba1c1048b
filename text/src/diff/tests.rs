use proptest::prelude::*;

use super::*;

fn diff(old: &str, new: &str) -> String {
    unified(old, new, "/w/f", 1, 10_000)
}

#[test]
fn plain_changes() {
    assert_eq!(diff("a\n", "a\n"), "");
    assert_eq!(
        diff("a\nb\nc\nd\n", "a\nB\nc\nd\n"),
        "--- /w/f\n+++ /w/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    );
    assert_eq!(diff("", "x\n"), "--- /w/f\n+++ /w/f\n@@ -0,0 +1,1 @@\n+x\n");
    assert_eq!(diff("x\n", ""), "--- /w/f\n+++ /w/f\n@@ -1,1 +0,0 @@\n-x\n");
    assert_eq!(
        diff("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\nnew\n6\n"),
        "--- /w/f\n+++ /w/f\n@@ -5,2 +5,3 @@\n 5\n+new\n 6\n"
    );
}

#[test]
fn far_changes_have_a_hunk_each() {
    let old: String = (1..=50).map(|i| format!("{i}\n")).collect();
    let new = old
        .replace("\n10\n", "\nten\n")
        .replace("\n40\n", "\nforty\n");
    assert_eq!(
        diff(&old, &new),
        "--- /w/f\n+++ /w/f\n@@ -9,3 +9,3 @@\n 9\n-10\n+ten\n 11\n@@ -39,3 +39,3 @@\n 39\n-40\n+forty\n 41\n"
    );
}

#[test]
fn a_missing_final_newline_is_marked() {
    assert_eq!(
        diff("a\nb", "a\nb\n"),
        "--- /w/f\n+++ /w/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"
    );
    assert_eq!(
        diff("a\nb", "A\nb"),
        "--- /w/f\n+++ /w/f\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n"
    );
}

#[test]
fn line_ends_are_shown_where_they_matter() {
    assert_eq!(
        diff("a\r\nb\r\n", "a\r\nc\r\n"),
        "--- /w/f\n+++ /w/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    );
    assert_eq!(
        diff("a\r\nb\n", "a\nb\n"),
        "--- /w/f\n+++ /w/f\n@@ -1,2 +1,2 @@\n-a\\r\n+a\n b\n"
    );
    assert_eq!(
        diff("5%\r6%\n", "5%\r7%\n"),
        "--- /w/f\n+++ /w/f\n@@ -1,1 +1,1 @@\n-5%\\r6%\n+5%\\r7%\n"
    );
    assert_eq!(
        diff("a\rb\r", "a\rc\r"),
        "--- /w/f\n+++ /w/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    );
}

#[test]
fn long_lines_are_shown_around_the_change() {
    let old = format!("{}X{}\n", "a".repeat(100_000), "b".repeat(100_000));
    let got = diff(&old, &old.replace('X', "Y"));
    assert!(got.len() < 1000, "{}", got.len());
    assert!(got.contains("aaXbb") && got.contains("aaYbb"), "{got}");
    assert!(got.contains("-[… 99880 bytes of this line cut]"), "{got}");
}

#[test]
fn a_large_change_is_finished_and_cut() {
    let old: String = (0..300_000).map(|i| format!("{i}\n")).collect();
    let new: String = (0..300_000).map(|i| format!("{}\n", i * 7)).collect();
    let got = unified(&old, &new, "/w/f", 3, 2000);
    assert!(got.len() <= 2000);
    assert!(got.starts_with("--- /w/f\n") && got.contains("bytes cut]"));
}

/// Applies a diff that has all lines as context: the left side is what has no plus, the right what has no minus.
fn sides(diff: &str) -> (String, String) {
    let (mut old, mut new) = (String::new(), String::new());
    for line in diff
        .split_inclusive('\n')
        .skip(2)
        .filter(|l| !l.starts_with("@@"))
    {
        let (sign, rest) = line.split_at(1);
        let unended = |s: &mut String| s.truncate(s.len().saturating_sub(1));
        match sign {
            "-" => old.push_str(rest),
            "+" => new.push_str(rest),
            " " => {
                old.push_str(rest);
                new.push_str(rest);
            }
            _ => {
                // The mark belongs to the line before it; which side that is shows in the other's state.
                unended(&mut old);
                unended(&mut new);
            }
        }
    }
    (old, new)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_diff_holds_both_texts(old in "([abc]{0,2}\n){0,12}", new in "([abc]{0,2}\n){0,12}") {
        let got = unified(&old, &new, "/w/f", 100, 100_000);
        if old == new {
            prop_assert_eq!(got, "");
        } else {
            prop_assert_eq!(sides(&got), (old, new));
        }
    }

    #[test]
    fn hunks_count_their_lines(old in "[ab\r\n]{0,60}", new in "[ab\r\n]{0,60}", context in 0usize..4) {
        let got = unified(&old, &new, "/w/f", context, 100_000);
        let mut left = (0usize, 0usize);
        for line in got.split('\n').skip(2).filter(|l| !l.is_empty()) {
            match line.split_at(1) {
                ("@", _) => {
                    prop_assert_eq!(left, (0, 0));
                    let counts: Vec<usize> = line
                        .split(' ')
                        .filter_map(|p| p.split_once(',').and_then(|(_, n)| n.parse().ok()))
                        .collect();
                    left = (counts[0], counts[1]);
                }
                ("-", _) => left.0 -= 1,
                ("+", _) => left.1 -= 1,
                (" ", _) => left = (left.0 - 1, left.1 - 1),
                _ => prop_assert!(line.starts_with("\\ No newline")),
            }
        }
        prop_assert_eq!(left, (0, 0));
    }
}
