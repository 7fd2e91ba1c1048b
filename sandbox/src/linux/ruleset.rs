//! The inner wall for files: a Landlock ruleset.

use super::inner::InnerPlan;
use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use std::path::Path;

/// Renaming and linking between folders is governed from this version on; without it a file could
/// be moved out of reach, so that an older kernel is refused rather than half confined.
const REQUIRED: ABI = ABI::V2;
/// With a broker truncating must be governed as well: what it hands back to the kernel is judged by
/// the rules alone, whatever the path says by then.
const REQUIRED_BY_BROKER: ABI = ABI::V3;
/// The newest version whose rights are asked for; what the kernel lacks of it is left out.
const WANTED: ABI = ABI::V6;

/// The devices of a sandbox, and the folder of its terminals.
const DEVICES: &[&str] = &[
    "null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "pts",
];

/// Those of them that are harmless where they are the machine's own: no terminal is among them.
pub(super) const SHARED_DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

/// The kernel's Landlock version, 0 where there is none.
pub fn landlock_abi() -> i32 {
    // SAFETY: with a null attribute, size 0 and flag 1 (LANDLOCK_CREATE_RULESET_VERSION) the call
    // touches no memory and only returns the version or an error.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            1u32,
        )
    };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// Restricts this thread and all its children: no write anywhere but in the folders of the plan,
/// and no removal in any of them but the private tmp.
pub(super) fn restrict(plan: &InnerPlan) -> Result<(), String> {
    apply(of_plan(plan)?)
}

/// Puts rules on this thread and all its children.
pub(super) fn apply(rules: RulesetCreated) -> Result<(), String> {
    let status = rules.restrict_self();
    let status = status.map_err(|e| fail("restrict_self", &e))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err("Landlock: the kernel enforced nothing".into());
    }
    Ok(())
}

fn fail(what: &str, e: &dyn std::fmt::Display) -> String {
    format!("Landlock: {what}: {e}")
}

/// The rules of a plan.
pub(super) fn of_plan(plan: &InnerPlan) -> Result<RulesetCreated, String> {
    let write = AccessFs::from_write(WANTED);
    let keep = write & !(AccessFs::RemoveFile | AccessFs::RemoveDir);
    let device = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let devices = match plan.alone {
        None => DEVICES,
        Some(_) => SHARED_DEVICES,
    };
    let (required, lacking) = match plan.brokered.is_empty() && plan.alone.is_none() {
        true => (REQUIRED, "the kernel lacks version 2"),
        false => (
            REQUIRED_BY_BROKER,
            "the removal broker needs version 3 (Linux 6.2), or `sandbox.broker = false`",
        ),
    };
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(required))
        .map_err(|e| fail(lacking, &e))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(write)
        .map_err(|e| fail("handle_access", &e))?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)
        .map_err(|e| fail("scope", &e))?
        .create()
        .map_err(|e| fail("create", &e))?;
    let mut add = |path: &Path, rights: BitFlags<AccessFs>| -> Result<(), String> {
        // A folder that is not there grants nothing.
        let Ok(fd) = PathFd::new(path) else {
            return Ok(());
        };
        rules
            .by_ref_add(PathBeneath::new(fd, rights))
            .map_err(|e| fail(&path.to_string_lossy(), &e))
    };
    // Each device by itself: a right on the folder would reach a workspace below `/dev/shm`.
    for name in devices {
        add(&Path::new("/dev").join(name), device)?;
    }
    // Nothing below /proc: a command run by root could write the machine's settings there, and
    // any command the memory of process 1.
    for path in &plan.kept {
        add(path, keep)?;
    }
    // The broker is the only writer here. A socket is bound by the kernel, and holds nothing.
    for path in &plan.brokered {
        add(path, AccessFs::MakeSock.into())?;
    }
    for path in &plan.free {
        add(path, write)?;
    }
    Ok(rules)
}

/// `add_rule` takes and returns the ruleset; this keeps it in place.
trait AddInPlace {
    fn by_ref_add(&mut self, rule: PathBeneath<PathFd>) -> Result<(), landlock::RulesetError>;
}

impl AddInPlace for RulesetCreated {
    fn by_ref_add(&mut self, rule: PathBeneath<PathFd>) -> Result<(), landlock::RulesetError> {
        self.add_rule(rule).map(|_| ())
    }
}
