//! Pure decisions: protected paths, command check, permission grants, redaction.
