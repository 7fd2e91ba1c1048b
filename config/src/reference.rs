//! The reference page of all settings, made from the table.

use crate::keys::{KEYS, Key, Slot};
use crate::model::Config;
use std::fmt::Write as _;

/// The text of `docs/configuration.md`.
pub fn reference_page() -> String {
    let mut page = String::from(INTRO);
    let defaults = Config::default();
    page.push_str("| key | type | default | unit | what it does |\n|---|---|---|---|---|\n");
    for key in KEYS {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} |",
            key.name,
            key.type_text(),
            default_text(key, &defaults),
            key.unit,
            key.doc
        );
    }
    page.push_str(OUTRO);
    page
}

fn default_text(key: &Key, defaults: &Config) -> String {
    match key.slot {
        Slot::Paths(_) | Slot::Names(_) | Slot::Path(_) | Slot::Hosts(_) => "none".to_owned(),
        Slot::Text { get, .. } => match get(defaults) {
            Some(text) => format!("`{text}`"),
            None => "none".to_owned(),
        },
        Slot::Choice { get, .. } => format!("`{}`", get(defaults)),
        _ => format!("`{}`", key.value(defaults)),
    }
}

const INTRO: &str = "# Configuration

Hands reads `config.toml` in its home: `HANDS_HOME`, else the platform's place for data (`handsctl config path` prints it).
Every setting has an environment variable that overrides the file: `HANDS_` and the key in capitals, with `_` for the dot,
so `sandbox.mode` is `HANDS_SANDBOX_MODE`. Lists in a variable are separated by colons. An empty variable counts as unset.
Flags override both. `handsctl config show` prints every value with its source, `handsctl config check` says what is wrong.

No file means the defaults, and so does a file with nothing but comments or blank lines. Anything wrong (an unknown key, a
wrong type, a value out of range, text that is not TOML) stops the start with file, line, key and reason. So does a file of
0 bytes, which is what a write that was cut short leaves, and a link whose target is not there: remove it to use the
defaults. No tool can change the configuration.

Paths are absolute or start with `~/`. These cannot be a workspace: `/`, your home folder or anything that contains it,
system folders (`/etc`, `/usr`, …), folders with credentials, and anything that overlaps the home of Hands.
A workspace that is not there (an unplugged disk) is a warning.

```toml
workspaces = [\"~/Hands\", \"~/src/project\"]
reply_budget_s = 45

[sandbox]
mode = \"default\"
network = \"on\"
```

";

const OUTRO: &str = "
Variables of other parts, not overrides of a key: `HANDS_HOME` (the home), `HANDS_MCP_BIN` (path of `hands-mcp` for `handsctl`),
`HANDS_RUNNER_BIN` (path of `hands-runner`), `HANDS_TUNNEL_BIN` (path of `hands-tunnel` for the daemon),
`HANDS_DAEMON_BIN` (path of `handsd` for `handsctl`). An unknown `HANDS_*` variable is a warning with the nearest name.
";
