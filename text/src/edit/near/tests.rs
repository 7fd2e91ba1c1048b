use proptest::prelude::*;

use super::*;

fn near(text: &str, needle: &str) -> Vec<Place> {
    nearest(text, needle, false, None)
}

#[test]
fn places_are_ranked_and_few() {
    let text = "let a = 1;\nlet alpha = 10;\nlet beta = 20;\nreturn alpha;\n";
    let got = near(text, "let alpha = 11;");
    assert!(got.len() <= limits::NEAR_PLACES);
    assert_eq!(got[0].near.text, "let alpha = 10;");
    assert_eq!(got[0].at, 11);
    assert!(got[0].near.similarity > 0.8 && got[0].near.similarity < 1.0);
    assert!(
        got.windows(2)
            .all(|w| w[0].near.similarity >= w[1].near.similarity)
    );
}

#[test]
fn a_block_is_shown_where_it_differs() {
    let text = "fn f() {\n    one();\n    two();\n}\n";
    let got = near(text, "fn f() {\n    one();\n    three();\n}");
    assert_eq!(got[0].near.text, "    two();");
    let got = near(text, "fn f() {\n    one();\n\ttwo();\n}");
    assert_eq!(
        (got[0].near.text.as_str(), got[0].near.differs.as_slice()),
        ("    two();", &[Difference::Whitespace][..])
    );
}

#[test]
fn needles_of_white_space_only_have_no_place() {
    assert!(near("a\n  \nb\n", "    ").is_empty());
    assert!(near("", "x").is_empty());
}

#[test]
fn shown_lines_are_short_and_clean() {
    let got = near(
        &format!("{}\u{1B}[0m  end", "é".repeat(300)),
        &format!("{}\u{1B}[0m end", "é".repeat(300)),
    );
    assert!(got[0].near.text.len() <= limits::NEAR_TEXT + 3 && got[0].near.text.ends_with('…'));
    assert_eq!(shown("a\u{1B}b\tc\r"), "a␛b\tc␍");
}

#[test]
fn repetitive_texts_are_given_up_on() {
    // Each place matches but for its last inner line: the search must stop by count, not by luck.
    let text = "}\n".repeat(200_000);
    let needle = format!("{}x\n}}", "}\n".repeat(5_000));
    assert!(
        near(&text, &needle)
            .iter()
            .all(|p| p.near.differs == [Difference::Content])
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_and_needle_are_answered(text in "[ab “\u{A0}\r\né\u{301}]{0,60}", needle in "[ab \"\r\né]{1,20}", literal: bool) {
        for place in nearest(&text, &needle, literal, None) {
            prop_assert!(text.is_char_boundary(place.at));
            prop_assert!(!place.near.differs.is_empty());
            prop_assert!((0.0..=1.0).contains(&place.near.similarity));
        }
    }
}
