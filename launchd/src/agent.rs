//! The LaunchAgent: a property list for launchd.

use crate::error::ServiceError;
use crate::limits::{LABEL, MARKER, OPEN_FILES, STOP_TIMEOUT_S, THROTTLE_S};
use crate::service::Service;
use launchd::{KeepAliveOptions, Launchd, ProcessType, ResourceLimits};
use std::collections::HashMap;

/// The text of the property list.
///
/// # Errors
/// The property list cannot be built.
pub fn definition(service: &Service) -> Result<String, ServiceError> {
    let failed = |error: &dyn std::fmt::Display| ServiceError::Plist(error.to_string());
    let agent = build(service).map_err(|error| failed(&error))?;
    let mut value = plist::to_value(&agent).map_err(|error| failed(&error))?;
    if let Some(dictionary) = value.as_dictionary_mut() {
        // The order of a hash map's entries differs from run to run; the file must not.
        dictionary.sort_keys();
    }
    let mut bytes = Vec::new();
    value
        .to_writer_xml(&mut bytes)
        .map_err(|error| failed(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| failed(&error))?;
    // The writer knows no comments. `<plist ` comes after the XML declaration and the document type, and only there:
    // in a value the `<` would be escaped.
    let (head, tail) = text
        .split_once("<plist ")
        .ok_or_else(|| failed(&"no root element was written"))?;
    Ok(format!("{head}<!-- {MARKER} -->\n<plist {tail}\n"))
}

fn build(service: &Service) -> Result<Launchd, launchd::Error> {
    let mut arguments = vec![service.program().to_owned()];
    arguments.extend_from_slice(service.arguments());
    let logs = service.logs();
    // Again after a failure or a signal, but not after exit 0: `handsctl down` ends it for good.
    let keep_alive = KeepAliveOptions::new().with_successful_exit(false);
    let mut agent = Launchd::new(LABEL, service.program())?
        .with_program_arguments(arguments)
        .with_run_at_load(true)
        .with_keep_alive(keep_alive.into())
        .with_throttle_interval(THROTTLE_S)
        .with_exit_timeout(STOP_TIMEOUT_S)
        // Adopted jobs are process groups of their own and outlive the daemon.
        .with_abandon_process_group(true)
        // A planner and its person wait for every call; other types have their processor and disk time throttled,
        // and that of every command run for them.
        .with_process_type(ProcessType::Interactive)
        .with_soft_resource_limits(ResourceLimits::new().with_number_of_files(OPEN_FILES))
        // No umask: commands inherit it, and the files that they make are to be as the person's own.
        // What is printed before the daemon's own log is open, or by a panic.
        .with_standard_out_path(logs.join("launchd.out.log"))?
        .with_standard_error_path(logs.join("launchd.err.log"))?;
    if let Some(home) = service.home_variable() {
        let variables = HashMap::from([("HANDS_HOME".to_owned(), home.to_owned())]);
        agent = agent.with_environment_variables(variables);
    }
    Ok(agent)
}
