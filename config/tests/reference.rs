//! The committed reference page is the one that the table gives.

#[test]
fn the_reference_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == hands_config::reference_page(),
        "docs/configuration.md differs from the table of keys; run: \
         cargo run -p hands-config --example reference > docs/configuration.md"
    );
}

#[test]
fn every_variable_name_is_its_own() {
    let mut names: Vec<String> = hands_config::keys::KEYS
        .iter()
        .map(hands_config::keys::Key::env_name)
        .collect();
    names.sort();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
