//! `handsctl clients`: entries that connect an MCP client, ready to paste.

use crate::args::ClientName;
use crate::exit::{Exit, Failure};
use crate::output::note;
use crate::{Context, programs};
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// What an entry needs.
struct Server {
    command: String,
    /// Variables that a client started elsewhere would not have.
    env: Vec<(&'static str, String)>,
}

/// One client's entry.
struct Entry {
    client: ClientName,
    title: &'static str,
    /// `json`, `toml` or `command`.
    format: &'static str,
    /// The file to paste into, where there is one.
    file: Option<PathBuf>,
    text: String,
}

pub(crate) fn run(context: &Context, asked: Option<ClientName>) -> Result<Exit, Failure> {
    let server = server(context)?;
    let all = ClientName::value_variants().iter().copied();
    let entries: Vec<Entry> = all
        .filter(|client| asked.is_none_or(|asked| asked == *client))
        .map(|client| entry(context, client, &server))
        .collect();
    if context.out.json {
        let list: Vec<Value> = entries.iter().map(as_json).collect();
        context.out.object(&list)?;
        return Ok(Exit::Ok);
    }
    // One client alone is printed bare, so that it can be piped.
    if let ([only], true) = (entries.as_slice(), asked.is_some()) {
        note(&place(only));
        context.out.text(&only.text)?;
        return Ok(Exit::Ok);
    }
    for entry in &entries {
        let head = format!("# {}: {}", entry.title, place(entry));
        context.out.text(&format!("{head}\n{}\n", entry.text))?;
    }
    Ok(Exit::Ok)
}

fn server(context: &Context) -> Result<Server, Failure> {
    let path = programs::MCP
        .find(&context.env)
        .map_err(|unusable| Failure::new("finding hands-mcp", unusable.why).hint(unusable.mend))?;
    let mut env = Vec::new();
    let default = hands_config::Home::locate(&hands_config::Env::default(), None).ok();
    if default.as_ref() != Some(&context.home) {
        let home = context.home.root().to_string_lossy().into_owned();
        env.push(("HANDS_HOME", home));
    }
    if let Some(list) = context.env.get("HANDS_WORKSPACES") {
        env.push(("HANDS_WORKSPACES", list.to_owned()));
    }
    Ok(Server {
        command: path.to_string_lossy().into_owned(),
        env,
    })
}

fn entry(context: &Context, client: ClientName, server: &Server) -> Entry {
    let home = context.env.user_home();
    let in_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let (title, format, file, text) = match client {
        ClientName::ClaudeDesktop => (
            "Claude Desktop",
            "json",
            in_home(DESKTOP_FILE),
            desktop(server),
        ),
        ClientName::ClaudeCode => ("Claude Code", "command", None, claude_code(server)),
        ClientName::Codex => (
            "Codex",
            "toml",
            in_home(".codex/config.toml"),
            codex(server),
        ),
        ClientName::Inspector => ("MCP Inspector", "command", None, inspector(server)),
    };
    Entry {
        client,
        title,
        format,
        file,
        text,
    }
}

/// Where Claude Desktop keeps its configuration.
const DESKTOP_FILE: &str = if cfg!(target_os = "macos") {
    "Library/Application Support/Claude/claude_desktop_config.json"
} else {
    ".config/Claude/claude_desktop_config.json"
};

fn place(entry: &Entry) -> String {
    match &entry.file {
        Some(file) => format!("put this into {}", file.display()),
        None => "run this command".to_owned(),
    }
}

fn as_json(entry: &Entry) -> Value {
    let name = entry.client.to_possible_value();
    json!({
        "client": name.as_ref().map(clap::builder::PossibleValue::get_name),
        "format": entry.format,
        "file": entry.file,
        "text": entry.text,
    })
}

fn desktop(server: &Server) -> String {
    let mut hands = Map::new();
    hands.insert("command".to_owned(), server.command.clone().into());
    hands.insert("args".to_owned(), json!([]));
    if !server.env.is_empty() {
        let env: Map<String, Value> = server
            .env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone().into()))
            .collect();
        hands.insert("env".to_owned(), env.into());
    }
    let whole = json!({"mcpServers": {"hands": hands}});
    serde_json::to_string_pretty(&whole).unwrap_or_default()
}

fn claude_code(server: &Server) -> String {
    let mut words = vec!["claude mcp add --scope user hands".to_owned()];
    let env = server.env.iter();
    words.extend(env.map(|(name, value)| format!("--env {}", quoted(&format!("{name}={value}")))));
    words.push(format!("-- {}", quoted(&server.command)));
    words.join(" ")
}

fn codex(server: &Server) -> String {
    let mut text = format!(
        "[mcp_servers.hands]\ncommand = {}\nargs = []\ntool_timeout_sec = 120\n",
        toml(&server.command)
    );
    if !server.env.is_empty() {
        text.push_str("\n[mcp_servers.hands.env]\n");
    }
    for (name, value) in &server.env {
        text.push_str(&format!("{name} = {}\n", toml(value)));
    }
    text.trim_end().to_owned()
}

fn inspector(server: &Server) -> String {
    let mut words = vec!["npx @modelcontextprotocol/inspector".to_owned()];
    let env = server.env.iter();
    words.extend(env.map(|(name, value)| format!("-e {}", quoted(&format!("{name}={value}")))));
    words.push(format!("-- {}", quoted(&server.command)));
    words.join(" ")
}

/// A TOML basic string; JSON's escapes are a subset of TOML's.
fn toml(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A word for a POSIX shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server {
            command: "/opt/my \"tools\"/it's/hands-mcp".to_owned(),
            env: vec![("HANDS_HOME", "/data/h".to_owned())],
        }
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(
            claude_code(&server()),
            r#"claude mcp add --scope user hands --env HANDS_HOME=/data/h -- '/opt/my "tools"/it'\''s/hands-mcp'"#
        );
    }

    #[test]
    fn strings_are_quoted_for_json_and_toml() {
        let parsed: Value = serde_json::from_str(&desktop(&server())).unwrap();
        let entry = &parsed["mcpServers"]["hands"];
        assert_eq!(entry["command"], server().command);
        assert_eq!(entry["env"]["HANDS_HOME"], "/data/h");
        let text = codex(&server());
        assert!(
            text.contains(r#"command = "/opt/my \"tools\"/it's/hands-mcp""#),
            "{text}"
        );
        assert!(text.ends_with("[mcp_servers.hands.env]\nHANDS_HOME = \"/data/h\""));
    }
}
