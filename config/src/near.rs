//! The known name that is nearest to an unknown one.

/// The nearest of `names`, unless nothing is near. A name whose last part is the same is nearest of all.
pub(crate) fn nearest<'a>(asked: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let last = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
    let mut best: Option<(f64, &'a str)> = None;
    for name in names {
        let whole = strsim::normalized_damerau_levenshtein(asked, name);
        // `output_bytes` at the top level is most likely `limits.output_bytes`.
        let part = strsim::normalized_damerau_levenshtein(asked, last(name)) - 0.05;
        let score = whole.max(part);
        if best.is_none_or(|(top, _)| score > top) {
            best = Some((score, name));
        }
    }
    best.filter(|(score, _)| *score >= 0.55)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_misspelled_and_misplaced_names_and_no_strangers() {
        let names = ["limits.output_bytes", "sandbox.mode", "workspaces"];
        let ask = |name| nearest(name, names.into_iter());
        assert_eq!(ask("workspace"), Some("workspaces"));
        assert_eq!(ask("sandbox.mod"), Some("sandbox.mode"));
        assert_eq!(ask("output_byte"), Some("limits.output_bytes"));
        assert_eq!(ask("zzz"), None);
    }
}
