//! The permission gate (H18): the first change in a folder is the person's to allow.

use crate::calls::Call;
use crate::consent::{self, Step};
use crate::outcome::{Code, Outcome};
use crate::session::Session;
use hands_config::PermissionMode;
use hands_policy::permission::{Act, Decision, Nonce, NonceError};
use std::path::Path;
use std::time::SystemTime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// What the planner is told of the gate before it meets it.
pub fn described(session: &Session) -> &'static str {
    match session.config.permissions.mode {
        PermissionMode::Nonce => {
            "The first change in a folder of a session answers `permission_required` with a nonce; \
             ask your user, then repeat the call with it."
        }
        PermissionMode::Human => {
            "The first change in a folder of a session answers `permission_required`; your user \
             opens the folder with the command line in the answer (no nonce does), then repeat the \
             call."
        }
    }
}

/// Whether this call may change existing files in `folder`.
///
/// # Errors
/// `permission_required`, with what opens the folder, or why the nonce that was sent is no good.
pub fn pass(
    call: &Call,
    tool: &str,
    folder: &Path,
    act: Act,
    nonce: Option<&str>,
) -> Result<(), Outcome> {
    let session = &call.session;
    // One call asks and opens at a time, so that what stands in the trail is what happened.
    let mut grants = session.grants();
    consent::note_lapsed(session, grants.lapse());
    let note = |step: Step| consent::note(session, &call.turn_id, Some(tool), &step);
    let shown = folder.display();
    let refused = match grants.touch(folder, act, nonce) {
        Ok(Decision::Open) if nonce.is_none() => return Ok(()),
        Ok(Decision::Open) => {
            let until = grants.list().pop().map(|grant| grant.expires_at);
            let until = until.map(rfc3339).unwrap_or_default();
            let message = format!("nonce accepted ({act}): {shown} is open now, until {until}");
            // Consent without a trail is no consent.
            return note(Step::opened(message)).inspect_err(|_| drop(grants.revoke(folder)));
        }
        Ok(decision) => return Err(ask(call, tool, folder, act, decision, None)),
        Err(refused) => refused,
    };
    note(Step::refused(format!(
        "nonce refused for {shown} ({act}): {refused}"
    )))?;
    Err(match grants.touch(folder, act, None) {
        Ok(Decision::Open) => already_open(folder, refused),
        Ok(decision) => ask(call, tool, folder, act, decision, Some(refused)),
        Err(e) => Outcome::fail(Code::Internal, format!("no nonce could be made: {e}")),
    })
}

/// The answer that asks for consent, after the trail has it.
fn ask(
    call: &Call,
    tool: &str,
    folder: &Path,
    act: Act,
    decision: Decision,
    refused: Option<NonceError>,
) -> Outcome {
    let shown = folder.display();
    let (message, outcome) = match decision {
        Decision::Required(nonce) => {
            let until = rfc3339(nonce.expires_at);
            (
                format!("nonce issued for {shown} ({act}), until {until}"),
                with_nonce(folder, &nonce, refused),
            )
        }
        _ => (
            format!("asked for {shown} ({act}); only the person can open it"),
            with_command(&call.session, folder, refused),
        ),
    };
    let noted = consent::note(
        &call.session,
        &call.turn_id,
        Some(tool),
        &Step::asked(message),
    );
    // A nonce that the trail does not know is never told.
    noted.err().unwrap_or(outcome)
}

fn message(folder: &Path, refused: Option<&NonceError>) -> String {
    let shown = folder.display();
    match refused {
        None => format!("the first change in {shown} in this session needs your user's consent"),
        Some(why) => format!("{why} ({shown})"),
    }
}

fn with_nonce(folder: &Path, nonce: &Nonce, refused: Option<NonceError>) -> Outcome {
    let which = if refused.is_some() {
        "this new nonce"
    } else {
        "nonce"
    };
    let expires_at = rfc3339(nonce.expires_at);
    let hint = format!(
        "Ask your user whether files in this folder may be changed. If they agree, repeat the \
         call with {which} \"{}\" (works once, until {expires_at}).",
        nonce.value
    );
    Outcome::fail(Code::PermissionRequired, message(folder, refused.as_ref()))
        .hint(hint)
        .field("nonce", nonce.value.clone())
        .field("folder", folder.to_string_lossy())
        .field("expires_at", expires_at)
}

/// Where only the person grants: the line that they run.
fn with_command(session: &Session, folder: &Path, refused: Option<NonceError>) -> Outcome {
    let command = consent::grant_command(session, folder);
    let hint = match &command {
        Some(line) => format!(
            "Ask your user whether files in this folder may be changed. If they agree, they run \
             this line in a terminal of their own (you cannot); then repeat the call without a \
             nonce:\n{line}"
        ),
        None => {
            "The name of this folder cannot be written as a command line, so that it cannot be \
                 granted. Ask your user to rename it."
                .into()
        }
    };
    Outcome::fail(Code::PermissionRequired, message(folder, refused.as_ref()))
        .hint(hint)
        .field("folder", folder.to_string_lossy())
        .maybe("grant_command", command)
}

fn already_open(folder: &Path, refused: NonceError) -> Outcome {
    Outcome::fail(Code::PermissionRequired, message(folder, Some(&refused)))
        .hint(format!(
            "{} is open in this session already: repeat the call without a nonce.",
            folder.display()
        ))
        .field("folder", folder.to_string_lossy())
}

/// A time as results show it: whole seconds, UTC.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let time = OffsetDateTime::from(time);
    let whole = time.replace_nanosecond(0).unwrap_or(time);
    whole.format(&Rfc3339).unwrap_or_default()
}
