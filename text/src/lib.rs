//! Text as bytes: encodings, line endings, the edit engine, unified diffs.
