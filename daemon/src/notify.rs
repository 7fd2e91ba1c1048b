//! What systemd is told. Without systemd nothing happens; a manager that does not listen is no reason to fail.

use sd_notify::NotifyState;
use std::time::Duration;

fn send(states: &[NotifyState]) {
    if let Err(why) = sd_notify::notify(states) {
        tracing::debug!("telling the service manager: {why}");
    }
}

/// It is up.
pub(crate) fn ready() {
    send(&[NotifyState::Ready]);
}

/// It reads its configuration again; [`ready`] ends that.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(_) => send(&[NotifyState::Reloading]),
    }
}

/// It is on its way down, which may take that long.
pub(crate) fn stopping(within: Duration) {
    let within = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
    send(&[
        NotifyState::Stopping,
        NotifyState::ExtendTimeoutUsec(within),
    ]);
}

/// One line for a person.
pub(crate) fn status(text: &str) {
    send(&[NotifyState::Status(text)]);
}

/// The loop that looks after everything turns.
pub(crate) fn watchdog() {
    send(&[NotifyState::Watchdog]);
}
