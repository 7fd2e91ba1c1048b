//! Why a sandbox cannot be made on this machine, and the command that mends it.

use super::bwrap;
use crate::canary::Cause;
use std::path::Path;

/// A setting of the kernel that may forbid a plain user what bubblewrap needs.
#[derive(Debug, PartialEq, Eq)]
struct Switch {
    key: &'static str,
    forbids: &'static str,
    allows: &'static str,
    /// A narrower way than the setting, if there is one.
    better: &'static str,
    cause: Cause,
}

const SWITCHES: &[Switch] = &[
    Switch {
        key: "user.max_user_namespaces",
        forbids: "0",
        allows: "15000",
        better: "",
        cause: Cause::NamespacesOff,
    },
    Switch {
        key: "kernel.unprivileged_userns_clone",
        forbids: "0",
        allows: "1",
        better: "",
        cause: Cause::NamespacesOff,
    },
    Switch {
        key: "kernel.apparmor_restrict_unprivileged_userns",
        forbids: "1",
        allows: "0",
        better: "allow it to bwrap alone with an AppArmor rule (docs/getting-started.md has it), or for all programs: ",
        cause: Cause::AppArmor,
    },
];

/// Files and folders that container systems put into their containers.
const CONTAINER_MARKS: &[&str] = &[
    "/.dockerenv",
    "/run/.containerenv",
    "/run/systemd/container",
];

/// What a container needs to let bubblewrap work inside.
const IN_CONTAINER: &str = "start the container with the right to make namespaces (docker or podman: --security-opt \
    seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined), or run Hands outside it";

/// What is done where no setting explains it.
const UNEXPLAINED: &str = "allow bwrap to make namespaces: something else than a sysctl setting forbids it (a security \
    module's rule, a service's seccomp filter; `sudo dmesg` may name it)";

/// What bubblewrap says when it is refused a namespace, or what it needs one for.
const NAMESPACE_COMPLAINTS: &[&str] = &[
    "namespace",
    "uid map",
    "gid map",
    "setgroups",
    "RTM_NEWADDR",
    "mount proc",
    "MS_SLAVE",
    "make / slave",
    "pivot_root",
];

/// What stands in the way of namespaces, if anything that can be named does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// Of which kind it is.
    pub cause: Cause,
    /// The setting that forbids and its value, as `KEY is VALUE`.
    pub setting: Option<String>,
    /// What to do; where there is a command, it stands last.
    pub cure: String,
}

impl Obstacle {
    /// What forbids namespaces, by the settings that `setting` reads. One that the kernel does not
    /// have forbids nothing. `contained`: whether this is a container, whose settings are the host's.
    pub fn of_namespaces(setting: &dyn Fn(&str) -> Option<String>, contained: bool) -> Self {
        let forbidding = SWITCHES
            .iter()
            .find(|switch| setting(switch.key).is_some_and(|value| value.trim() == switch.forbids));
        match forbidding {
            Some(switch) => Self {
                cause: switch.cause,
                setting: Some(format!("{} is {}", switch.key, switch.forbids)),
                cure: format!(
                    "{}sudo sysctl -w {}={}{}",
                    switch.better,
                    switch.key,
                    switch.allows,
                    if contained { " on the host" } else { "" }
                ),
            },
            None => Self {
                cause: match contained {
                    true => Cause::Container,
                    false => Cause::NamespacesRefused,
                },
                setting: None,
                cure: match contained {
                    true => IN_CONTAINER.to_owned(),
                    false => UNEXPLAINED.to_owned(),
                },
            },
        }
    }

    /// What stands in the way here of what bubblewrap complains about; none where it is no namespace.
    pub(crate) fn behind(complaint: &str) -> Option<Self> {
        let about = NAMESPACE_COMPLAINTS
            .iter()
            .any(|words| complaint.contains(words));
        about.then(|| Self::of_namespaces(&setting, is_container()))
    }
}

/// A setting of the kernel now, if it has it.
pub fn setting(key: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/sys/{}", key.replace('.', "/"))).ok()
}

/// Whether a container system left its mark.
pub fn is_container() -> bool {
    CONTAINER_MARKS.iter().any(|mark| Path::new(mark).exists())
}

/// The kind of what stands in the way, by why a command was refused.
pub(crate) fn cause(reason: &str) -> Cause {
    if bwrap::find().is_err() {
        return Cause::BubblewrapMissing;
    }
    if reason.contains("Landlock") || reason.contains("Linux 5.") || reason.contains("Linux 6.") {
        return Cause::Kernel;
    }
    Obstacle::behind(reason).map_or(Cause::Other, |obstacle| obstacle.cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPARMOR: &str = "kernel.apparmor_restrict_unprivileged_userns";

    fn found(set: &[(&str, &str)], contained: bool) -> Obstacle {
        let setting = |key: &str| {
            let found = set.iter().find(|(name, _)| *name == key);
            found.map(|(_, value)| format!("{value}\n"))
        };
        Obstacle::of_namespaces(&setting, contained)
    }

    #[test]
    fn each_cause_has_its_cure() {
        let off = found(&[("user.max_user_namespaces", "0"), (APPARMOR, "1")], false);
        assert_eq!(off.cause, Cause::NamespacesOff);
        assert_eq!(off.setting.unwrap(), "user.max_user_namespaces is 0");
        assert_eq!(off.cure, "sudo sysctl -w user.max_user_namespaces=15000");

        let ubuntu = found(&[("user.max_user_namespaces", "9"), (APPARMOR, "1")], false);
        assert_eq!(ubuntu.cause, Cause::AppArmor);
        assert!(ubuntu.cure.contains("AppArmor rule"), "{ubuntu:?}");
        let command = format!("sudo sysctl -w {APPARMOR}=0");
        assert!(ubuntu.cure.ends_with(&command), "{ubuntu:?}");

        let host = found(&[("kernel.unprivileged_userns_clone", "0")], true);
        assert_eq!(host.cause, Cause::NamespacesOff);
        assert!(host.cure.ends_with("clone=1 on the host"), "{host:?}");

        let container = found(&[], true);
        assert_eq!(
            (container.cause, container.cure.as_str()),
            (Cause::Container, IN_CONTAINER)
        );
        assert_eq!(
            found(&[(APPARMOR, "0")], false).cause,
            Cause::NamespacesRefused
        );
    }

    #[test]
    fn only_a_complaint_about_namespaces_is_explained_by_them() {
        for complaint in [
            "bwrap: No permissions to create new namespace, likely because the kernel does not allow it",
            "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
            "bwrap: setting up uid map: Permission denied",
            "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
            "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
        ] {
            assert!(Obstacle::behind(complaint).is_some(), "{complaint}");
        }
        for complaint in [
            "bwrap: Can't find source path /srv/x: No such file or directory",
            "",
        ] {
            assert_eq!(Obstacle::behind(complaint), None, "{complaint}");
        }
    }
}
