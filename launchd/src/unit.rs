//! The systemd user unit. Needs systemd 244 or newer.

use crate::error::ServiceError;
use crate::limits::{
    EXIT_CONFIG, MARKER, RESTART_S, START_BURST, START_INTERVAL_S, START_TIMEOUT_S, STOP_TIMEOUT_S,
    WATCHDOG_S,
};
use crate::service::Service;
use std::fmt::Write as _;

/// The text of the unit.
///
/// # Errors
/// systemd cannot start a program of that path.
pub fn definition(service: &Service) -> Result<String, ServiceError> {
    let mut command = command(service.program())?;
    for argument in service.arguments() {
        let _ = write!(command, " {}", quoted(argument));
    }
    let environment = service.home_variable().map_or(String::new(), |home| {
        format!("Environment={}\n", quoted(&format!("HANDS_HOME={home}")))
    });
    Ok(format!(
        "# {MARKER}
[Unit]
Description=Hands daemon: guarded hands for a planner
# Gives up when it fails at every start; `handsctl service start` begins anew.
StartLimitIntervalSec={START_INTERVAL_S}
StartLimitBurst={START_BURST}

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
ExecReload=kill -HUP $MAINPID
{environment}WatchdogSec={WATCHDOG_S}
TimeoutStartSec={START_TIMEOUT_S}
TimeoutStopSec={STOP_TIMEOUT_S}
# The daemon stops its children in order. Jobs that it adopted outlive it.
KillMode=process
Restart=on-failure
RestartSec={RESTART_S}
# A wrong configuration: starting again would not mend it.
RestartPreventExitStatus={EXIT_CONFIG}
# A command that used up the memory is ended alone, not the daemon with it.
OOMPolicy=continue
# No UMask=: commands inherit it, and a person expects the files that they make to be as their own would be. What the home
# holds is private by its own modes.
# Lets a command's memory and processes be bounded in a group of its own.
Delegate=memory pids
{LEFT_OUT}
[Install]
WantedBy=default.target
"
    ))
}

/// Why the usual hardening is missing. All of it is inherited by every command that is run for a planner.
const LEFT_OUT: &str = "
# Hardening that is left out because commands run in a sandbox of their own (bubblewrap, Landlock, seccomp), which it would break:
# - NoNewPrivileges=: where bwrap is setuid, or gets user namespaces by an AppArmor profile (Ubuntu), it no longer starts.
# - SystemCallFilter=, SystemCallArchitectures=, RestrictAddressFamilies=, RestrictRealtime=, RestrictSUIDSGID=,
#   LockPersonality=, MemoryDenyWriteExecute=: in a user's unit each sets NoNewPrivileges=; the last also breaks
#   every just-in-time compiler (node, Java).
# - RestrictNamespaces=, PrivateUsers=: bwrap makes namespaces, and maps the person's own id.
# - ProtectKernelTunables=, ProtectKernelLogs=, ProtectControlGroups=, ProtectProc=, ProcSubset=: the kernel refuses a new /proc
#   inside a namespace whose own /proc is partly covered, so bwrap cannot mount one.
# - ProtectSystem=, ProtectHome=, PrivateTmp=, PrivateDevices=, ReadOnlyPaths=, InaccessiblePaths=: workspaces lie anywhere, the file tools
#   and the screen need the person's own view, and a mount namespace around the daemon hides disks plugged in later.
";

/// The program as the first word of a command.
fn command(program: &str) -> Result<String, ServiceError> {
    // The colon: `$` is a plain character in what follows.
    if !program.contains(['"', '\'', '\\']) {
        return Ok(format!(":{}", quoted(program)));
    }
    // systemd refuses these in a program's path, not in an argument. `env` becomes the program, so
    // the process stays the same; but it takes a word with `=` for a variable.
    if !program.contains('=') {
        return Ok(format!(":/usr/bin/env {}", quoted(program)));
    }
    Err(ServiceError::Text {
        what: "the program",
        value: program.to_owned(),
        reason: "systemd starts no program whose path holds `=` and a quote or backslash",
        hint: "move it to a path without them",
    })
}

/// One word of a setting: quoted, with systemd's escapes and no specifiers.
fn quoted(text: &str) -> String {
    let mut word = String::from("\"");
    for symbol in text.chars() {
        match symbol {
            '"' => word.push_str("\\\""),
            '\\' => word.push_str("\\\\"),
            '%' => word.push_str("%%"),
            other => word.push(other),
        }
    }
    word.push('"');
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn unit(program: &str, arguments: &[&str]) -> Result<String, ServiceError> {
        let service = Service::new(Path::new(program), Path::new("/h")).unwrap();
        let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        definition(&service.with_arguments(arguments).unwrap())
    }

    #[test]
    fn what_systemd_would_expand_is_escaped() {
        let text = unit("/a b/100%/handsd", &["$HOME", "\\n", "\"", "%h", ";"]).unwrap();
        let expected = r#"ExecStart=:"/a b/100%%/handsd" "$HOME" "\\n" "\"" "%%h" ";""#;
        assert!(text.lines().any(|line| line == expected), "{text}");
    }

    #[test]
    fn a_program_with_quotes_is_started_by_env_unless_env_would_misread_it() {
        let text = unit("/o'brien/handsd", &[]).unwrap();
        assert!(text.contains("ExecStart=:/usr/bin/env \"/o'brien/handsd\"\n"));
        let error = unit("/o'brien=x/handsd", &[]).unwrap_err().to_string();
        assert!(error.contains("move it"), "{error}");
        assert!(unit("/a=b/handsd", &[]).is_ok());
    }

    #[test]
    fn nothing_but_the_home_is_in_the_environment_and_only_when_asked() {
        assert!(!unit("/b/handsd", &[]).unwrap().contains("Environment="));
        let service = Service::new(Path::new("/b/handsd"), Path::new("/my home")).unwrap();
        let text = definition(&service.with_home_in_environment()).unwrap();
        let variables: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("Environment"))
            .collect();
        assert_eq!(variables, [r#"Environment="HANDS_HOME=/my home""#]);
    }
}
