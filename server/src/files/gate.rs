//! The permission gate (H18): the first change in a folder is the person's to allow.

use crate::outcome::{Code, Outcome};
use crate::session::Session;
use hands_activity::{Event, Record};
use hands_policy::permission::{Decision, Nonce, NonceError, Use};
use std::path::Path;
use std::sync::PoisonError;
use std::time::SystemTime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Whether this session may change existing files in `folder`.
///
/// # Errors
/// `permission_required` with a nonce, or why the nonce that was sent is no good.
pub fn pass(
    session: &Session,
    turn_id: &str,
    tool: &str,
    folder: &Path,
    nonce: Option<&str>,
) -> Result<(), Outcome> {
    let mut grants = session
        .grants
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let note = |event, message: String| record(session, turn_id, tool, event, message);
    match grants.touch(folder, Use::Write, nonce) {
        Ok(Decision::Open) => {
            if nonce.is_some() {
                note(Event::Grant, format!("{} is open now", folder.display()))?;
            }
            Ok(())
        }
        Ok(Decision::Required(fresh)) => {
            note(
                Event::Permission,
                format!("nonce issued for {}", folder.display()),
            )?;
            Err(required(folder, &fresh, None))
        }
        Err(refused) => {
            note(
                Event::Permission,
                format!("nonce refused for {}: {refused}", folder.display()),
            )?;
            Err(match grants.touch(folder, Use::Write, None) {
                Ok(Decision::Required(fresh)) => required(folder, &fresh, Some(refused)),
                Ok(Decision::Open) => already_open(folder, refused),
                Err(e) => Outcome::fail(Code::Internal, format!("no nonce could be made: {e}")),
            })
        }
    }
}

fn record(
    session: &Session,
    turn_id: &str,
    tool: &str,
    event: Event,
    message: String,
) -> Result<(), Outcome> {
    let record = Record {
        tool: Some(tool.into()),
        message: Some(message),
        ..Record::new(event, turn_id)
    };
    // Consent without a trail is no consent.
    let appended = session.trail.append(record);
    appended
        .map(drop)
        .map_err(|e| Outcome::fail(Code::Internal, format!("the trail cannot be written: {e}")))
}

fn required(folder: &Path, nonce: &Nonce, refused: Option<NonceError>) -> Outcome {
    let shown = folder.display();
    let message = match &refused {
        None => format!("the first change in {shown} in this session needs your user's consent"),
        Some(why) => format!("{why} ({shown})"),
    };
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
    Outcome::fail(Code::PermissionRequired, message)
        .hint(hint)
        .field("nonce", nonce.value.clone())
        .field("folder", folder.to_string_lossy())
        .field("expires_at", expires_at)
}

fn already_open(folder: &Path, refused: NonceError) -> Outcome {
    let message = format!("{refused} ({})", folder.display());
    Outcome::fail(Code::PermissionRequired, message)
        .hint(format!(
            "{} is open in this session already: repeat the call without a nonce.",
            folder.display()
        ))
        .field("folder", folder.to_string_lossy())
}

fn rfc3339(time: SystemTime) -> String {
    let time = OffsetDateTime::from(time);
    let whole = time.replace_nanosecond(0).unwrap_or(time);
    whole.format(&Rfc3339).unwrap_or_default()
}
