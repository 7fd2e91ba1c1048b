use super::*;

fn shell(script: &str) -> ProgramRunner {
    ProgramRunner::new(Path::new("/bin/sh"), &["-c", script, "sh"])
}

#[test]
fn output_and_status_are_handed_on_and_arguments_stay_words() {
    let answer = shell(r#"printf '<%s>' "$@"; echo err >&2; exit 7"#)
        .run(&["a b", "", "$HOME;*"])
        .unwrap();
    assert_eq!(answer.stdout, "<a b><><$HOME;*>");
    assert_eq!(answer.stderr, "err\n");
    assert_eq!((answer.code, answer.signal), (Some(7), None));
    assert_eq!(answer.exit(), "exit status 7");
    let answer = shell("kill -TERM $$").run(&[]).unwrap();
    assert_eq!((answer.code, answer.signal), (None, Some(15)));
}

#[test]
fn a_variable_reaches_the_program_and_its_language_is_english() {
    let runner = shell(r#"printf '%s %s' "$LC_ALL" "$X""#).with_variable("X", Path::new("/a b"));
    assert_eq!(runner.run(&[]).unwrap().stdout, "C /a b");
}

#[test]
fn a_flood_is_cut_and_does_not_block() {
    let answer = shell("head -c 3000000 /dev/zero | tr '\\0' x; exit 3")
        .run(&[])
        .unwrap();
    assert_eq!(answer.code, Some(3));
    assert_eq!(answer.stdout.len(), OUTPUT_BYTES);
}

#[test]
fn a_program_that_hangs_is_ended() {
    let begun = Instant::now();
    let runner = shell("exec sleep 100").with_timeout(Duration::from_millis(200));
    let error = runner.run(&["start", "x"]).unwrap_err();
    assert!(matches!(error, ServiceError::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("sh start x"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(50));
}

#[test]
fn what_a_program_left_behind_does_not_hold_us() {
    let runner = shell("sleep 2 & exit 4").with_timeout(Duration::from_millis(300));
    let answer = runner.run(&[]).unwrap();
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(4), ""));
}

#[test]
fn a_missing_program_is_no_manager_here() {
    let error = ProgramRunner::new(Path::new("/nonexistent/launchctl"), &[])
        .run(&["print"])
        .unwrap_err();
    assert!(matches!(error, ServiceError::NoManager { .. }), "{error}");
    assert!(error.to_string().contains("handsctl up"), "{error}");
}
