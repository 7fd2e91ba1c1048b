use super::*;
use std::os::unix::fs::PermissionsExt;

/// A folder with a `bwrap` of this text and mode.
fn fake(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (draft, path) = (dir.path().join("draft"), dir.path().join("bwrap"));
    std::fs::write(&draft, text).unwrap();
    // A file still open for writing somewhere cannot be executed, so a copy is made by another process.
    let copied = std::process::Command::new("cp")
        .args([&draft, &path])
        .status();
    assert!(copied.unwrap().success());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    (dir, path)
}

fn judged(text: &str, mode: u32, limit: Duration) -> Check {
    let (_dir, path) = fake(text, mode);
    let (check, usable) = bubblewrap(&[path], None, limit);
    assert_eq!(usable.is_some(), check.state == State::Ok);
    check
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_bubblewrap_that_runs_is_ok() {
    let check = judged("#!/bin/sh\necho bubblewrap 0.9.0\n", 0o755, LONG);
    assert_eq!(check.state, State::Ok, "{check:?}");
    assert!(
        check.detail.ends_with("/bwrap, bubblewrap 0.9.0"),
        "{check:?}"
    );
}

#[test]
fn a_broken_bubblewrap_is_told_by_cause() {
    let reinstall = system::reinstall_command("bubblewrap");
    for (text, mode, limit, detail, mend) in [
        ("", 0o755, LONG, "is empty (0 bytes)", reinstall.as_str()),
        (
            "#!/bin/sh\n",
            0o644,
            LONG,
            "is not executable",
            "sudo chmod 755 '",
        ),
        (
            "#!/bin/sh\nexit 3\n",
            0o755,
            LONG,
            "it said nothing",
            &reinstall,
        ),
        (
            "#!/bin/sh\necho busybox\n",
            0o755,
            LONG,
            "busybox",
            &reinstall,
        ),
        (
            "#!/bin/sh\necho no lib >&2; exit 127\n",
            0o755,
            LONG,
            "no lib",
            &reinstall,
        ),
        (
            "#!/nowhere/sh\n",
            0o755,
            LONG,
            "cannot be started",
            &reinstall,
        ),
        (
            "#!/bin/sh\nexec sleep 600\n",
            0o755,
            Duration::from_millis(300),
            "gave no answer",
            &reinstall,
        ),
    ] {
        let check = judged(text, mode, limit);
        assert_eq!(check.state, State::Fail, "{text:?}");
        assert!(check.detail.contains(detail), "{text:?}: {check:?}");
        assert!(
            check.mend.as_deref().unwrap().starts_with(mend),
            "{text:?}: {check:?}"
        );
    }
}

#[test]
fn a_missing_bubblewrap_is_installed_also_if_it_lies_elsewhere() {
    let (check, usable) = bubblewrap(&[PathBuf::from("/nowhere/bwrap")], None, LONG);
    assert_eq!(
        (check.state, check.detail.as_str()),
        (State::Fail, "bwrap is not installed")
    );
    assert_eq!(check.mend, Some(system::install_command("bubblewrap")));
    assert_eq!(usable, None);
    let (check, _) = bubblewrap(&[], Some(Path::new("/opt/bwrap")), LONG);
    assert!(
        check
            .detail
            .starts_with("/opt/bwrap is not where hands-runner looks"),
        "{check:?}"
    );
}

fn judge(attempt: Option<Result<(), &str>>, set: &[(&str, &str)], contained: bool) -> Check {
    let setting = |key: &str| {
        let found = set.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| format!("{value}\n"))
    };
    namespaces(
        false,
        attempt.map(|done| done.map_err(str::to_owned)),
        &setting,
        contained,
    )
}

const APPARMOR: &str = "kernel.apparmor_restrict_unprivileged_userns";

#[test]
fn namespaces_that_cannot_be_made_are_told_by_cause() {
    let refused = Some(Err("bwrap: setting up uid map: Permission denied"));
    let ubuntu = judge(refused, &[(APPARMOR, "1")], false);
    assert_eq!(ubuntu.state, State::Fail);
    assert!(
        ubuntu
            .detail
            .contains("uid map: Permission denied; kernel.apparmor"),
        "{ubuntu:?}"
    );
    let mend = ubuntu.mend.unwrap();
    assert!(mend.contains("AppArmor rule"), "{mend}");
    assert!(
        mend.ends_with("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
        "{mend}"
    );

    let off = judge(None, &[("user.max_user_namespaces", "0")], false);
    assert_eq!(
        off.mend.as_deref(),
        Some("sudo sysctl -w user.max_user_namespaces=15000")
    );
    let host = judge(refused, &[("kernel.unprivileged_userns_clone", "0")], true);
    assert!(
        host.mend
            .as_deref()
            .unwrap()
            .ends_with("clone=1 on the host"),
        "{host:?}"
    );
    let container = judge(refused, &[], true);
    assert!(
        container
            .mend
            .unwrap()
            .starts_with("start the container with the right")
    );
    let other = judge(refused, &[], false);
    assert!(
        other
            .mend
            .unwrap()
            .starts_with("allow bwrap to make namespaces")
    );
}

#[test]
fn what_works_counts_for_more_than_a_setting() {
    assert_eq!(
        judge(Some(Ok(())), &[(APPARMOR, "1")], false).state,
        State::Info
    );
    assert_eq!(judge(Some(Ok(())), &[], true).state, State::Ok);
    assert_eq!(judge(None, &[(APPARMOR, "0")], false).state, State::Info);
    assert_eq!(
        namespaces(true, None, &|_| Some("0".to_owned()), false).state,
        State::Info
    );
}

#[test]
fn a_kernel_without_landlock_is_told_how_to_start_it() {
    let missing = landlock(false, Some("lockdown,yama,apparmor\n"), "6.8.0-31-generic");
    assert_eq!(missing.state, State::Fail);
    assert!(
        missing
            .mend
            .unwrap()
            .starts_with("add lsm=landlock,lockdown,yama,apparmor to the kernel's boot parameters")
    );
    let old = landlock(false, Some("landlock"), "5.15.0-100-generic");
    assert_eq!(old.mend.as_deref(), Some("boot a kernel 5.19 or newer"));
    assert_eq!(
        landlock(false, Some("capability,landlock,yama"), "5.19.0").state,
        State::Ok
    );
    assert_eq!(landlock(false, None, "6.1+").state, State::Info);
    assert_eq!(landlock(true, Some("yama"), "4.0").state, State::Ok);
}
