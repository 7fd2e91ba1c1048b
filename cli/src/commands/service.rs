//! `handsctl service …`: the daemon as a service of launchd or systemd.

use super::restart::refuse_unusable_settings;
use crate::Context;
use crate::args::ServiceWhat;
use crate::exit::{Exit, Failure};
use crate::output::note;
use crate::programs::DAEMON;
use hands_config::{Env, Home};
use hands_launchd::{Manager, Overwrite, Presence, Service, ServiceError, State, Status, native};
use serde_json::json;

pub(crate) fn run(context: &Context, what: ServiceWhat) -> Result<Exit, Failure> {
    let manager = native().map_err(explain)?;
    let manager = manager.as_ref();
    match what {
        ServiceWhat::Install { force } => install(context, manager, overwrite(force)),
        ServiceWhat::Uninstall { force } => {
            let removed = manager.uninstall(overwrite(force)).map_err(explain)?;
            let text = if removed {
                "the service is removed"
            } else {
                "there was no service"
            };
            say(context, text)
        }
        ServiceWhat::Start => manager
            .start()
            .map_err(explain)
            .and_then(|()| say(context, "the service is started")),
        ServiceWhat::Stop => manager
            .stop()
            .map_err(explain)
            .and_then(|()| say(context, "the service is stopped")),
        ServiceWhat::Restart => restart(context),
        ServiceWhat::Status => status(context, manager),
        ServiceWhat::Print => print(context, manager),
    }
}

/// Restarts the service that holds the daemon.
pub(crate) fn restart(context: &Context) -> Result<Exit, Failure> {
    refuse_unusable_settings(context)?;
    let manager = native().map_err(explain)?;
    manager.restart().map_err(explain)?;
    say(context, "the service is restarted")
}

fn explain(error: ServiceError) -> Failure {
    Failure::new("the service", error.to_string())
}

fn overwrite(force: bool) -> Overwrite {
    match force {
        true => Overwrite::Forced,
        false => Overwrite::OwnOnly,
    }
}

fn say(context: &Context, text: &str) -> Result<Exit, Failure> {
    match context.out.json {
        true => context.out.object(&json!({"ok": true, "message": text}))?,
        false => context.out.text(text)?,
    }
    Ok(Exit::Ok)
}

fn service(context: &Context) -> Result<Service, Failure> {
    let program = DAEMON
        .find(&context.env)
        .map_err(|why| why.failure("finding handsd"))?;
    let service = Service::new(&program, context.home.root()).map_err(explain)?;
    // The manager's environment does not have what this terminal has.
    let default = Home::locate(&Env::of(&[]), None);
    match default.is_ok_and(|home| home == context.home) {
        true => Ok(service),
        false => Ok(service.with_home_in_environment()),
    }
}

fn install(
    context: &Context,
    manager: &dyn Manager,
    overwrite: Overwrite,
) -> Result<Exit, Failure> {
    let service = service(context)?;
    // The logs' folder must be there before the manager opens files in it.
    let prepared = context.home.prepare();
    prepared.map_err(|error| Failure::new("preparing the home", error.to_string()))?;
    for (name, _) in context.env.with_prefix("HANDS_") {
        if name != "HANDS_HOME" && !name.ends_with("_BIN") {
            note(&format!(
                "warning: the service does not see {name}; put it into {}",
                context.home.config_file().display()
            ));
        }
    }
    let installed = manager.install(&service, overwrite).map_err(explain)?;
    if context.out.json {
        context.out.object(&json!({
            "ok": true, "path": installed.path, "changed": installed.changed, "notes": installed.notes,
        }))?;
        return Ok(Exit::Ok);
    }
    let how = if installed.changed {
        "is installed"
    } else {
        "was installed already"
    };
    context
        .out
        .text(&format!("the service {how}: {}", installed.path.display()))?;
    for line in &installed.notes {
        context.out.text(line)?;
    }
    Ok(Exit::Ok)
}

fn print(context: &Context, manager: &dyn Manager) -> Result<Exit, Failure> {
    let text = manager.print(&service(context)?).map_err(explain)?;
    match context.out.json {
        true => context
            .out
            .object(&json!({"path": manager.path(), "definition": text}))?,
        false => context.out.text(text.trim_end())?,
    }
    Ok(Exit::Ok)
}

fn status(context: &Context, manager: &dyn Manager) -> Result<Exit, Failure> {
    let found = manager.status().map_err(explain)?;
    let (state, exit) = judged(&found);
    if context.out.json {
        context.out.object(&json!({
            "path": found.path,
            "file": presence(&found.file),
            "loaded": found.loaded,
            "loaded_from": found.loaded_from,
            "needs_reload": found.needs_reload,
            "at_login": found.at_login,
            "state": state,
            "pid": found.pid,
            "last_exit": found.last_exit,
            "starts": found.starts,
        }))?;
        return Ok(exit);
    }
    let mut lines = vec![
        format!("state      {state}"),
        format!(
            "file       {} ({})",
            found.path.display(),
            presence(&found.file)
        ),
        format!("loaded     {}", if found.loaded { "yes" } else { "no" }),
    ];
    lines.extend(found.pid.map(|pid| format!("pid        {pid}")));
    lines.extend(
        found
            .at_login
            .map(|yes| format!("at login   {}", if yes { "yes" } else { "no" })),
    );
    lines.extend(
        found
            .last_exit
            .as_ref()
            .map(|exit| format!("last exit  {exit}")),
    );
    if found.needs_reload {
        lines.push(
            "next       the definition was changed: `handsctl service install` makes it count"
                .to_owned(),
        );
    }
    context.out.text(&lines.join("\n"))?;
    Ok(exit)
}

fn judged(found: &Status) -> (String, Exit) {
    match &found.state {
        State::Running => ("running".to_owned(), Exit::Ok),
        State::Starting => ("starting".to_owned(), Exit::Degraded),
        State::Stopping => ("stopping".to_owned(), Exit::Degraded),
        State::Stopped => ("stopped".to_owned(), Exit::NotRunning),
        State::Failed => ("failed".to_owned(), Exit::Degraded),
        State::Other(text) => (text.clone(), Exit::Degraded),
    }
}

fn presence(file: &Presence) -> String {
    format!("{file:?}").to_lowercase()
}
