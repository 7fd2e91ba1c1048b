//! The Seatbelt profile of a plan: text in Apple's profile language, and its parameters.
//!
//! The order of the rules is the policy. Of the rules that name the same operation the last one
//! that matches decides; but whether a later rule on a whole family (`file-write*`) overrides an
//! earlier one on a member (`file-write-unlink`) has been told both ways. So this profile is
//! written to mean the same under either reading: what must hold for a member is said of the
//! member by name, after what is said of the family.
//!
//! Two forms are avoided because they were seen to behave unlike the rest: an allow with
//! `require-all` on a folder (it beat a later deny of that folder), and the target `others`.
//!
//! No path stands in the text: each is a parameter, so that none needs quoting.

use crate::plan::{Mode, Network, Plan};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The machine's own temporary folder, where programs write by name.
const SHARED_TMP: &str = "/private/tmp";
/// Rules that are the same for every plan: the ways to have somebody outside do the work.
const WAYS_OUT: &str = include_str!("ways_out.sb");
/// What a rule on writing names: the family, and its members that other rules name.
const WRITE: &str = "file-write* file-write-create file-write-data";
/// Removal, and being moved away. It is of the family too, but always named by itself.
const UNLINK: &str = "file-write-unlink";
/// Getting a second name.
const LINK: &str = "file-link";
/// What a rule on reading names.
const READ: &str = "file-read* file-read-data";

/// A profile for `sandbox-exec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The rules, for `-p`.
    pub text: String,
    /// Names (`P0`, `P1`, …) and values, each for one `-D NAME=VALUE`.
    pub params: Vec<(String, String)>,
}

/// What may be done in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Grant {
    /// Everything.
    Free,
    /// Everything, the folder's own removal included.
    Build,
    /// Writing, but no removal.
    Kept,
    /// Nothing but reading.
    Closed,
}

/// The profile of `plan`. Its paths are taken as they stand: absolute, real and UTF-8, which
/// [`super::Seatbelt`] makes sure of; what a rule does not name exactly it does not reach.
/// `freed`: folders of build products in the workspaces, in which everything may go.
pub fn profile(plan: &Plan, freed: &[PathBuf]) -> Profile {
    let folders = folders(plan, freed);
    let mut rules = Rules::default();
    rules.text.push_str("(version 1)\n");
    rules.fixed(
        "What is not named below is as it is outside.",
        "(allow default)",
    );
    rules.text.push_str(WAYS_OUT);
    rules.writing();
    rules.grants(&folders);
    rules.network(plan);
    rules.protected(plan, &folders);
    rules.pins(plan, &folders);
    rules.done()
}

/// Every folder with a grant of its own, the outermost first, so that the innermost decides; of
/// two grants on one folder the stricter comes last.
fn folders(plan: &Plan, freed: &[PathBuf]) -> Vec<(PathBuf, Grant)> {
    let roots = plan.workspaces.iter().chain(&plan.extra_write);
    let (root_grant, shared_grant) = match plan.mode {
        Mode::Default | Mode::Strict => (Grant::Kept, Grant::Free),
        // The shared folder is the machine's, and read-only leaves nothing but the private one.
        Mode::ReadOnly => (Grant::Closed, Grant::Closed),
    };
    let mut folders: Vec<(PathBuf, Grant)> = roots.map(|p| (plain(p), root_grant)).collect();
    folders.extend(freed.iter().map(|p| (plain(p), Grant::Build)));
    folders.extend(plan.closed.iter().map(|p| (plain(p), Grant::Closed)));
    folders.push((plain(&plan.tmp), Grant::Free));
    folders.push((SHARED_TMP.into(), shared_grant));
    folders.sort_by_key(|(path, grant)| (path.components().count(), *grant));
    folders.dedup();
    folders
}

/// A path without repeated or trailing slashes, which a rule would take literally.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Collects rules and parameters in order.
#[derive(Default)]
struct Rules {
    text: String,
    values: Vec<String>,
}

impl Rules {
    fn done(self) -> Profile {
        let named = |(n, value)| (format!("P{n}"), value);
        Profile {
            text: self.text,
            params: self.values.into_iter().enumerate().map(named).collect(),
        }
    }

    /// A rule without parameters, and its reason.
    fn fixed(&mut self, reason: &str, rule: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "; {reason}\n{rule}");
    }

    /// A rule about paths, and its reason. No path, no rule: without a filter it would be a rule
    /// about everything.
    fn paths(&mut self, reason: &str, action: &str, kinds: &[&str], paths: &[&Path]) {
        let filters = self.filters(kinds, paths);
        if !filters.is_empty() {
            self.fixed(reason, &format!("({action}{filters})"));
        }
    }

    /// As `paths`, for cloning: an operation that not every system knows.
    fn clones(&mut self, reason: &str, action: &str, kinds: &[&str], paths: &[&Path]) {
        let filters = self.filters(kinds, paths);
        if !filters.is_empty() {
            let rule = format!("(if (defined? 'file-clone) ({action} file-clone{filters}))");
            self.fixed(reason, &rule);
        }
    }

    fn filters(&mut self, kinds: &[&str], paths: &[&Path]) -> String {
        let mut filters = String::new();
        for path in paths {
            let name = self.parameter(path);
            for kind in kinds {
                // Writing to a string cannot fail.
                let _ = write!(filters, "\n  ({kind} (param \"{name}\"))");
            }
        }
        filters
    }

    /// The name of the parameter that stands for a path.
    fn parameter(&mut self, path: &Path) -> String {
        let value = plain(path).to_string_lossy().into_owned();
        let known = self.values.iter().position(|v| *v == value);
        let at = known.unwrap_or_else(|| {
            self.values.push(value);
            self.values.len() - 1
        });
        format!("P{at}")
    }

    fn writing(&mut self) {
        self.fixed(
            "Writing is allow-listed: nowhere, but for what follows.",
            "(deny file-write*)",
        );
        self.fixed(
            "Devices that programs write to as a matter of course.",
            "(allow file-write*\n  (literal \"/dev/null\") (literal \"/dev/zero\")\n  \
             (literal \"/dev/random\") (literal \"/dev/urandom\")\n  (literal \"/dev/tty\") \
             (literal \"/dev/ptmx\")\n  (literal \"/dev/dtracehelper\")\n  \
             (literal \"/dev/stdout\") (literal \"/dev/stderr\")\n  \
             (regex #\"^/dev/fd/[0-9]+$\"))",
        );
        self.fixed(
            "Terminals: a person types into one and reads from it, so none is read either.",
            "(deny file-read-data (regex #\"^/dev/ttys[0-9]+$\"))",
        );
        self.fixed(
            "Those that the command opened itself carry this mark of the kernel's.",
            "(allow file-read-data file-write*\n  (require-all (regex #\"^/dev/ttys[0-9]+$\") \
             (extension \"com.apple.sandbox.pty\")))",
        );
        self.fixed(
            "bash 3.2 keeps here-documents there, whatever TMPDIR says.",
            "(allow file-write* (regex #\"^/private/var/tmp/sh-thd-[^/]+$\"))",
        );
        self.fixed(
            "Nothing is removed, and nothing moved away: renaming asks this of its source.",
            "(deny file-write-unlink)",
        );
        self.fixed(
            "bash removes its here-documents as soon as it has opened them.",
            "(allow file-write-unlink (regex #\"^/private/var/tmp/sh-thd-[^/]+$\"))",
        );
        self.fixed(
            "A hard link gives a file a second name, which other rules would judge.",
            "(deny file-link)",
        );
    }

    fn grants(&mut self, folders: &[(PathBuf, Grant)]) {
        for (path, grant) in folders {
            let paths: [&Path; 1] = [path];
            match grant {
                Grant::Free => self.paths(
                    "A temporary folder: what is in it may go.",
                    &format!("allow {WRITE} {UNLINK} {LINK}"),
                    &["subpath"],
                    &paths,
                ),
                Grant::Build => self.paths(
                    "Build products that git ignores: what is in it may go, and it itself.",
                    &format!("allow {UNLINK}"),
                    &["subpath"],
                    &paths,
                ),
                Grant::Kept => {
                    self.paths(
                        "A folder that may be written,",
                        &format!("allow {WRITE} {LINK}"),
                        &["subpath"],
                        &paths,
                    );
                    self.paths(
                        "and whose files stay, also below a temporary one.",
                        &format!("deny {UNLINK}"),
                        &["subpath"],
                        &paths,
                    );
                }
                Grant::Closed => self.paths(
                    "A folder that stays as it is, wherever it lies.",
                    &format!("deny {WRITE} {UNLINK} {LINK}"),
                    &["subpath"],
                    &paths,
                ),
            }
        }
    }

    fn network(&mut self, plan: &Plan) {
        self.fixed(
            "The ssh agent and other listeners of launchd answer whoever connects.",
            &format!(
                "(deny network-outbound {WRITE} {UNLINK} {LINK}\n  \
                 (regex #\"^/private/tmp/com\\.apple\\.launchd\\.\")\n  \
                 (regex #\"^/private/var/run/com\\.apple\\.launchd\\.\"))"
            ),
        );
        if plan.network == Network::On {
            return;
        }
        self.fixed(
            "No network; this system has no loopback interface of a command's own to leave.",
            "(deny network*)",
        );
        self.fixed(
            "Services that look up names or fetch pages for whoever asks.",
            "(deny mach-lookup (global-name \"com.apple.dnssd.service\")\n  \
             (global-name \"com.apple.nsurlsessiond\"))",
        );
        let roots = plan.workspaces.iter().chain(&plan.extra_write);
        let names: Vec<String> = roots
            .chain([&plan.tmp])
            .map(|path| self.parameter(path))
            .collect();
        for name in names {
            self.fixed(
                "Processes of the command still talk by sockets that are files.",
                &format!(
                    "(allow network-bind network-inbound (local unix-socket (subpath (param \
                     \"{name}\"))))\n(allow network-outbound (remote unix-socket (subpath (param \
                     \"{name}\"))))"
                ),
            );
        }
    }

    /// Masks and sealed files. A mask around the private tmp (it lies in the home of Hands) hides
    /// all but the tmp; a mask anywhere else hides whatever it lies in.
    fn protected(&mut self, plan: &Plan, folders: &[(PathBuf, Grant)]) {
        let tmp = plain(&plan.tmp);
        let (around, others): (Vec<&Path>, Vec<&Path>) = plan
            .masks
            .iter()
            .map(PathBuf::as_path)
            .partition(|mask| tmp.starts_with(mask));
        self.masks(&around);
        if !around.is_empty() {
            self.tmp_within_masks(&tmp, &around);
            // Which frees nothing that has rules of its own in there.
            let inside = folders.iter().position(|(path, _)| *path == tmp);
            let inside = folders.iter().skip(inside.map_or(0, |n| n + 1));
            let inside = inside.filter(|(path, _)| path.starts_with(&tmp)).cloned();
            self.grants(&inside.collect::<Vec<_>>());
        }
        let sealed: Vec<&Path> = plan.sealed.iter().map(PathBuf::as_path).collect();
        self.paths(
            "Sealed: code that runs later, outside. It is read, never changed, moved or linked.",
            &format!("deny {WRITE} {UNLINK} {LINK}"),
            &["literal", "subpath"],
            &sealed,
        );
        self.masks(&others);
        self.fixed(
            "Nothing gets a set-user-ID bit: it would run as the person, outside.",
            "(deny file-write-setugid)",
        );
    }

    fn masks(&mut self, masks: &[&Path]) {
        let kinds = ["literal", "subpath"];
        self.paths(
            "Hidden: neither read nor written, nor given a second name.",
            &format!("deny {READ} {WRITE} {UNLINK} {LINK}"),
            &kinds,
            masks,
        );
        self.paths(
            "A hidden socket is not connected to.",
            "deny network-outbound",
            &kinds,
            masks,
        );
        self.clones("A clone would be a second name too.", "deny", &kinds, masks);
    }

    fn tmp_within_masks(&mut self, tmp: &Path, masks: &[&Path]) {
        self.paths(
            "The private tmp stays the command's own, though what lies around it is hidden.",
            &format!("allow {READ} {WRITE} {UNLINK} {LINK} network-outbound"),
            &["subpath"],
            &[tmp],
        );
        self.clones("And may be cloned from.", "allow", &["subpath"], &[tmp]);
        let between = |folder: &&Path| masks.iter().any(|mask| folder.starts_with(mask));
        let way: Vec<&Path> = tmp.ancestors().skip(1).filter(between).collect();
        self.paths(
            "Finding the way to it looks at, not into, the folders above.",
            "allow file-read-metadata",
            &["literal"],
            &way,
        );
    }

    /// A rule follows a name, so that no folder above what a rule protects may be moved.
    fn pins(&mut self, plan: &Plan, folders: &[(PathBuf, Grant)]) {
        let free: Vec<&PathBuf> = folders
            .iter()
            .filter(|(_, grant)| *grant == Grant::Free)
            .map(|(path, _)| path)
            .collect();
        let roots = folders.iter().filter(|(_, grant)| *grant != Grant::Build);
        let roots = roots.map(|(path, _)| plain(path));
        let protected: Vec<PathBuf> = plan
            .masks
            .iter()
            .chain(&plan.sealed)
            .map(|path| plain(path))
            .chain(roots)
            .collect();
        let build = folders.iter().filter(|(_, grant)| *grant == Grant::Build);
        let build: Vec<&PathBuf> = build.map(|(path, _)| path).collect();
        let mut pins: BTreeSet<&Path> = free.iter().map(|path| path.as_path()).collect();
        for path in &protected {
            let loose = free.iter().chain(&build);
            let movable = |folder: &&Path| loose.clone().any(|root| folder.starts_with(root));
            pins.extend(path.ancestors().skip(1).filter(movable));
        }
        let pins: Vec<&Path> = pins.into_iter().collect();
        self.paths(
            "Folders that the rules above are about, or lead through, keep their names.",
            "deny file-write-unlink",
            &["literal"],
            &pins,
        );
    }
}

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
