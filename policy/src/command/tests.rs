use proptest::prelude::*;

use super::rules::RULES;
use super::*;

/// Lines that plainly delete.
const REFUSED: &[&str] = &[
    "rm v",
    r"\rm v",
    "/bin/rm -f v",
    "/usr/bin/../bin/rm v",
    "RM v",
    r#"r""m v"#,
    "r''m v",
    r#""rm" v"#,
    r"'rm' v",
    r"r\m v",
    r"$'\x72m' v",
    r"$'\162\155' v",
    r"$'\u0072m' v",
    "{rm,v}",
    "{rm,-rf,v}; echo a",
    "true && {rm,v}",
    "r{m,} v",
    "rm${IFS}v",
    "rm$IFS-rf$IFS'v'",
    "x=rm; $x v",
    "a=r; b=m; $a$b v",
    "a=r; a+=m; $a v",
    "${x:-rm} v",
    "cmd=(rm -rf v); \"${cmd[@]}\"",
    "$(echo rm) v",
    "$(which rm) v",
    "`printf rm` v",
    "$(printf 'r%s' m) v",
    "command rm v",
    "builtin command -p rm v",
    "exec rm v",
    "exec -a x rm v",
    "env rm v",
    "env -i A=b rm v",
    "env -u HOME -C d rm v",
    "env -S 'rm v'",
    "A=b rm v",
    "nice -n 5 rm v",
    "nice -10 rm v",
    "nohup rm v",
    "setsid -w rm v",
    "timeout 5 rm v",
    "timeout -k 1 -s KILL 5s rm v",
    "time rm v",
    "time -p rm v",
    "stdbuf -oL rm v",
    "ionice -c3 rm v",
    "sudo rm v",
    "sudo -n -u root rm v",
    "sudo -- rm v",
    "sudo sh -c 'rm v'",
    "doas rm v",
    "su -c 'rm v' root",
    "busybox rm v",
    "toybox unlink v",
    "flock lock rm v",
    "flock lock -c 'rm v'",
    "strace -f -o t rm v",
    "/lib64/ld-linux-x86-64.so.2 /bin/rm v",
    "npx rimraf dist",
    "printf v | xargs rm",
    "ls | xargs -n1 -I{} rm {}",
    "ls | xargs -0 rm -f --",
    "ls | xargs sh -c 'rm \"$@\"' _",
    "ls /tmp | xargs rm",
    "coproc rm v",
    "eval rm v",
    "eval find . -delete",
    "watch -n 5 rsync -a --delete a b",
    r#"eval "r""m v""#,
    "eval \"$(echo rm v)\"",
    "sh -c 'rm v'",
    "bash -lc 'rm v'",
    "bash -euo pipefail -c 'rm v'",
    "bash -c -- 'rm v'",
    "bash -c 'sh -c \"rm v\"'",
    "sh -c 'rm \"$1\"' _ v",
    r#"sh -c '"$@"' _ rm v"#,
    "x=v; sh -c \"rm $x\"",
    "sh <<<'rm v'",
    "bash <<EOF\nrm v\nEOF",
    "bash -s <<'EOF'\ncd d\nrm v\nEOF",
    "bash <<EOF -s\nrm v\nEOF",
    "cat <<EOF | bash\nrm v\nEOF",
    "cat <<-EOF | sudo bash -s\n\trm v\n\tEOF",
    "sudo <<EOF rm v\nEOF",
    "echo rm v | sh",
    "echo 'rm v' | tee log | bash -s",
    "printf 'rm %s\\n' v | sh",
    "echo -e 'echo a\\nrm v' | sh",
    "bash <(echo rm v)",
    ". <(echo rm v)",
    "bash < <(echo rm v)",
    "echo ok\nrm v",
    "echo ok; rm v",
    "echo ok & rm v",
    "false || rm v",
    "true && rm v",
    "cat v | rm v",
    "! rm v",
    "(rm v)",
    "{ rm v; }",
    "(cd d && rm v) | cat",
    "f() { rm v; }; f",
    "function f { rm \"$1\"; }",
    "if rm v; then echo; fi",
    "if true; then rm v; fi",
    "for i in *; do rm \"$i\"; done",
    "for c in rm; do $c v; done",
    "while read -r f; do rm \"$f\"; done < list",
    "ls | while read f; do rm \"$f\"; done",
    "until rm v; do :; done",
    "case x in x) rm v;; esac",
    "[[ -f v ]] && rm v",
    "echo $(rm v)",
    "echo \"a $(rm v) b\"",
    "echo `rm v`",
    "x=$(rm v)",
    "cat <(rm v)",
    "cat <<EOF > f\n$(rm v)\nEOF",
    ">x rm v",
    "rm <x v",
    "rm v 2>/dev/null || true",
    "rm \\\n  -rf v",
    "trap 'rm v' EXIT",
    "watch -n 1 rm v",
    "unlink v",
    "rmdir emptyd",
    "shred v",
    "shred -u -n 3 v",
    "wipe v",
    "srm v",
    "trash v",
    "trash-put v",
    "gio trash v",
    "find . -name v -delete",
    "find . -exec rm {} \\;",
    "find . -name v -exec unlink {} +",
    "find . -execdir rm -f -- {} ';'",
    "find . -type f -exec sh -c 'rm \"$1\"' _ {} \\;",
    "find . -print0 | xargs -0 rm",
    "find /tmp/a . -delete",
    "find \"$d\" -delete",
    "fd -e o -x rm",
    "fd -e o --exec-batch rm {}",
    "git clean -fd",
    "git clean -fdx .",
    "git -C repo clean -xdf",
    "git init -q . ; git add v; git rm -qf v",
    "git rm v",
    "git -c alias.x='!rm v' x",
    "git submodule foreach 'rm v'",
    "git submodule foreach --recursive rm v",
    "git bisect run rm v",
    "git rebase -x 'rm v' main",
    "rsync -a --delete a/ b/",
    "rsync -a --delete-after a/ b/",
    "rsync -a --remove-source-files v d/",
    "tar czf a.tgz --remove-files d",
    "zip -m a.zip v",
    "rm -rf /tmp",
    "rm -rf /tmp/",
    "rm -rf /tmp/../home/v",
    "rm -rf /tmp/x v",
    "rm -rf /tmpx/v",
    "rm -rf $TMPDIR",
    "rm -rf \"$TMPDIR/..\"",
    "rm -rf \"$TMPDIR$x\"",
    "rm -rf /tmp/$x",
    "TMPDIR=/w; rm -rf \"$TMPDIR\"/v",
    "x=$(mktemp ./v.XXXX); rm \"$x\"",
    "x=$(mktemp -p .); rm \"$x\"",
    "git -C repo rm /tmp/x",
    "rm -- -x",
    "rm x )",
];

/// Lines that read, create, or change content; and lines that only speak of deleting.
const ALLOWED: &[&str] = &[
    "",
    " ",
    "# rm v",
    "echo hi # rm v",
    "ls -la",
    "cat v",
    "grep rm file",
    "grep -rn 'rm -rf' .",
    "rg 'rm ' src",
    "echo \"rm x\"",
    "echo rm x",
    "echo 'rm x' > notes.txt",
    "printf 'rm %s\\n' v",
    "echo rm x | cat",
    "echo rm x | grep rm",
    "git log --grep rm",
    "git log --grep 'git rm'",
    "git commit -m 'rm old code'",
    "git commit -m \"$(cat <<'EOF'\nrm v\nEOF\n)\"",
    "git status",
    "git diff --stat",
    "git add -A",
    "git rm --cached x",
    "git rm -r --cached dir",
    "git rm -n x",
    "git clean -n",
    "git clean -nd",
    "git clean --dry-run -d",
    "git remote rm origin",
    "git branch -d old",
    "git tag -d v1",
    "git stash drop",
    "git config --unset user.name",
    "git checkout -b rm",
    "git mv a b",
    "git reset --soft HEAD~1",
    "git fetch --prune",
    "git worktree list",
    "git -C sub status",
    "git submodule foreach git status",
    "docker run --rm alpine true",
    "docker run --rm -v $PWD:/w img rm /w/x",
    "podman run --rm img",
    "npm rm left-pad",
    "npm uninstall left-pad",
    "npm run clean",
    "yarn remove x",
    "cargo remove serde",
    "cargo clean",
    "make clean",
    "pip uninstall -y x",
    "brew rm x",
    "man rm",
    "which rm",
    "type rm",
    "command -v rm",
    "command -V unlink",
    "whereis rm unlink",
    "apropos rm",
    "help rm",
    "rm --help",
    "rm --version",
    "sudo -l rm",
    "alias rm='rm -i'",
    "unalias rm",
    "hash -d rm",
    "cat <<EOF > f\nrm v\nEOF",
    "cat > s.sh <<'EOF'\n#!/bin/sh\nrm -rf build\nEOF",
    "tee s.sh <<'EOF'\nrm v\nEOF",
    "cat <<-'EOF' >> notes\n\tgit rm v\n\tEOF",
    "cat <<< 'rm v'",
    "python3 - <<'EOF'\nprint('rm v')\nEOF",
    "find . -name '*.rm'",
    "find . -name rm -print",
    "find . -name delete",
    "find . -type f -exec grep -l rm {} +",
    "find . -exec echo rm {} \\;",
    "fd rm",
    "ls rm",
    "cd rm && ls",
    "mkdir rm",
    "touch rm.txt unlink.c",
    "./rm.sh.txt",
    "cat ./rm",
    "vim rm.c",
    "rmmod --help",
    "rman page",
    "xrm -q",
    "npm run rm",
    "chmod +x rm.sh",
    "cp a b",
    "mv a b",
    "ln -s a b",
    "truncate -s 0 v",
    "dd if=/dev/zero of=v count=1",
    "sed -i '/rm/d' file",
    "sed 's/rm/mv/' file",
    "awk '/rm/ {print}' file",
    "echo x > v",
    "gzip v",
    "tar czf a.tgz d",
    "tar xzf a.tgz",
    "zip -r a.zip d",
    "unzip a.zip",
    "rsync -a a/ b/",
    "rsync -avn --delete a/ b/",
    "rsync -a --delete a/ /tmp/b/",
    "curl -X DELETE https://example.com/v",
    "curl -sS https://example.com | head",
    "wget -q https://example.com/rm",
    "ssh host uptime",
    "xargs echo < list",
    "ls | xargs -n1 echo rm",
    "ls | xargs grep rm",
    "printf 'a b' | xargs -I{} echo {}",
    "env",
    "env | grep rm",
    "env A=rm printenv A",
    "export CMD=rm",
    "x=rm",
    "x='rm v'; echo \"$x\"",
    "for x in rm mv; do man $x; done",
    "case $x in rm) echo remove;; esac",
    "if [ \"$1\" = rm ]; then echo; fi",
    "[[ $x == rm ]]",
    "test -f rm",
    "echo $((rm + 1))",
    "arr=(rm v); echo ${#arr[@]}",
    "sh -c 'echo rm v'",
    "bash -c \"grep rm file\"",
    "bash script.sh",
    "bash -n rm.sh",
    "sh <<'EOF'\necho rm v\nEOF",
    "echo 'echo rm' | sh",
    "eval 'echo rm v'",
    "trap 'echo rm' EXIT",
    "trap - EXIT",
    "time ls",
    "nohup ./server &",
    "timeout 5 sleep 1",
    "sleep 1 & wait",
    "exec 3>&1",
    "exec > log",
    "python3 -c 'print(1)'",
    "node -e 'console.log(\"rm\")'",
    "perl -ne 'print if /rm/' f",
    "rm -f /tmp/a /tmp/b/*.o",
    "rm -rf -- /tmp/build",
    "rm -rf /private/tmp/x",
    "rm -f /tmp/x.$$",
    "rm -rf \"$TMPDIR\"/x",
    "rm -rf $TMPDIR/x",
    "rm -rf \"${TMPDIR}/x y\"",
    "rm -rf \"${TMPDIR:-/tmp}/x\"",
    "rm -rf /tmp/{a,b}",
    "d=/tmp/work; rm -rf \"$d\"/out",
    "t=$(mktemp -d); cp v \"$t\"; rm -rf \"$t\"",
    "t=\"$(mktemp)\"; trap 'rm -f \"$t\"' EXIT",
    "for f in /tmp/a /tmp/b; do rm \"$f\"; done",
    "for f in /tmp/a/*.o; do rm -f \"$f\"; done",
    "rmdir /tmp/d",
    "unlink /tmp/v",
    "shred -n 3 -u /tmp/v",
    "find /tmp/x -type f -delete",
    "find \"$TMPDIR\"/x -delete",
    "find /tmp/x -name '*.o' -exec rm {} +",
    "git -C /tmp/repo clean -fdx",
    "sudo rm /tmp/x",
    "sh -c 'rm /tmp/x'",
    "rm",
    "echo \"rm v",
    "cat <<A <<B\nrm v\nA\nrm w\nB",
    "cat <<'A' <<'B' > f\nx\nA\nrm w\nB",
    "kubectl delete pod rm",
    "gh pr list --search rm",
    "jq '.rm' f.json",
    "diff <(ls a) <(ls b)",
    "ps aux | grep '[r]m -rf'",
    "history | grep rm",
    "code --diff rm.a rm.b",
    "hg forget v",
    "svn delete --keep-local v",
    "trash-list",
    "gio info v",
];

fn refusal(line: &str) -> Option<CommandRefusal> {
    check(line).err()
}

#[test]
fn plain_deletions_are_refused() {
    let missed: Vec<_> = REFUSED.iter().filter(|l| refusal(l).is_none()).collect();
    assert!(missed.is_empty(), "not refused: {missed:#?}");
    assert!(REFUSED.len() >= 60);
}

#[test]
fn other_work_is_not_refused() {
    let wrong: Vec<_> = ALLOWED
        .iter()
        .filter_map(|l| Some((l, refusal(l)?.message)))
        .collect();
    assert!(wrong.is_empty(), "refused: {wrong:#?}");
    assert!(ALLOWED.len() >= 100);
}

#[test]
fn each_rule_holds_for_its_own_examples() {
    for rule in RULES {
        assert!(
            !rule.matches.is_empty() && !rule.passes.is_empty(),
            "{}",
            rule.id
        );
        for line in rule.matches {
            let found = refusal(line).map(|r| r.rule);
            assert_eq!(found, Some(rule.id), "{line}");
        }
        for line in rule.passes {
            assert_eq!(refusal(line), None, "{line}");
        }
    }
}

#[test]
fn rule_names_are_unique() {
    let mut names: Vec<_> = RULES.iter().map(|r| r.id).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), RULES.len());
}

#[test]
fn a_refusal_names_the_part_and_the_way_out() {
    let refusal = refusal("echo a && rm -rf build && echo b").unwrap();
    assert_eq!(refusal.part, "rm -rf build");
    assert_eq!(refusal.rule, "rm");
    assert!(
        refusal.message.contains("`rm -rf build`"),
        "{}",
        refusal.message
    );
    assert!(refusal.hint.contains("ask your user"), "{}", refusal.hint);
}

#[test]
fn the_part_of_an_inner_script_is_the_inner_command() {
    assert_eq!(refusal("sh -c 'echo; rm v'").unwrap().part, "rm v");
    assert_eq!(refusal("sudo rm v").unwrap().part, "sudo rm v");
}

#[test]
fn a_long_part_is_cut() {
    let line = format!("rm {}", "é".repeat(1000));
    let part = refusal(&line).unwrap().part;
    assert_eq!(part.chars().count(), MAX_QUOTED_CHARS);
    assert!(part.ends_with('…'));
    let exact = format!("rm {}", "é".repeat(MAX_QUOTED_CHARS - 3));
    assert_eq!(refusal(&exact).unwrap().part, exact);
}

#[test]
fn what_is_not_looked_at_is_unsure() {
    for line in [
        "$cmd v",
        "bash script.sh",
        "curl -s https://example.com/x | sh",
        "python3 x.py",
        "awk 'BEGIN{system(\"rm v\")}'",
        "make -f -",
        "source env.sh",
        "echo \"unterminated",
        "a\0b",
    ] {
        assert!(
            matches!(look(line), Verdict::Unsure(_)),
            "{line}: {:?}",
            look(line)
        );
    }
    assert_eq!(look("ls -la | head"), Verdict::Clean);
    assert_eq!(look(""), Verdict::Clean);
}

#[test]
fn limits_end_in_unsure() {
    let long = "x".repeat(crate::limits::MAX_COMMAND_BYTES + 1);
    assert!(matches!(look(&long), Verdict::Unsure(_)));
    let mut nested = "rm v".to_owned();
    for _ in 0..=crate::limits::MAX_COMMAND_DEPTH {
        nested = format!("eval {nested:?}");
    }
    assert!(matches!(look(&nested), Verdict::Unsure(_)));
    let wrapped = format!("{}rm v", "env ".repeat(1000));
    assert!(matches!(look(&wrapped), Verdict::Unsure(_)));
    let heredocs = "cat <<A\n".repeat(1000);
    assert!(matches!(look(&heredocs), Verdict::Unsure(_)));
    let word = format!("cat <<{0}\nrm v\n{0}", "A".repeat(2000));
    assert!(matches!(look(&word), Verdict::Unsure(_)));
}

#[test]
fn doubling_variables_fill_no_memory() {
    let line = format!("x=aaaaaaaa; {} $x", "x=$x$x; ".repeat(60));
    let _ = look(&line);
    let line = format!(
        "x=(a b); {} \"${{x[@]}}\"",
        "x=(\"${x[@]}\" \"${x[@]}\"); ".repeat(60)
    );
    let _ = look(&line);
}

/// Lines made of pieces that matter to the grammar.
fn shellish() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("rm "),
        Just("v "),
        Just("<<EOF\n"),
        Just("<<-'A'\n"),
        Just("\nEOF\n"),
        Just("\nA\n"),
        Just("$("),
        Just(")"),
        Just("`"),
        Just("\""),
        Just("'"),
        Just("${"),
        Just("}"),
        Just("{"),
        Just(","),
        Just("|"),
        Just(";"),
        Just("\n"),
        Just("if "),
        Just("then "),
        Just("fi"),
        Just("for i in "),
        Just("do "),
        Just("done"),
        Just("case "),
        Just("esac"),
        Just("[["),
        Just("]]"),
        Just("(("),
        Just("))"),
        Just("\\"),
        Just("$'"),
        Just("é"),
        Just("\u{1f600}"),
        Just("eval "),
        Just("sh -c "),
        Just("x="),
        Just("$x"),
        Just("<<<"),
        Just("<("),
        Just("#"),
        Just("cat "),
        Just("echo "),
        Just("printf '%s' "),
        Just("\t"),
        Just(" "),
        Just("$"),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

#[test]
fn a_character_is_no_index_into_a_table() {
    // Each of these ended the process.
    for plane in 0..=16_u32 {
        let last = char::from_u32(plane << 16 | 0xfffd).unwrap();
        for line in [
            "{X",
            "{1X",
            "{1..X",
            "{1..2X}",
            "echo {X..3}",
            "X{X",
            "${X",
            "$X",
            "a[X",
        ] {
            let line = line.replace('X', &last.to_string());
            let _ = look(&line);
        }
    }
    for (line, part) in [
        ("echo é; rm v", "rm v"),
        ("\u{feff}x; rm \u{10fffd}", "rm \u{10fffd}"),
        ("for i in {1..2}; do rm 😀; done", "rm 😀"),
        ("cat {\u{10fffd},b}; unlink ä", "unlink ä"),
    ] {
        let Verdict::Refused(refusal) = look(line) else {
            panic!("{line}")
        };
        assert_eq!(refusal.part, part);
    }
    // Part of a word, as in bash.
    assert!(!matches!(look("echo a\u{2003}rm v"), Verdict::Refused(_)));
}

proptest! {
    #[test]
    fn any_text_is_survived(line in any::<String>()) {
        let _ = look(&line);
    }

    #[test]
    fn any_shellish_line_is_survived(line in shellish()) {
        if let Verdict::Refused(refusal) = look(&line) {
            prop_assert!(refusal.part.chars().count() <= MAX_QUOTED_CHARS);
        }
    }

    #[test]
    fn a_deletion_is_seen_behind_any_quoting(cut in 0_usize..=2, quote in 0_usize..4) {
        let (a, b) = "rm".split_at(cut);
        let line = match quote {
            0 => format!("{a}''{b} v"),
            1 => format!("{a}\"{b}\" v"),
            2 => format!("'{a}'{b} v"),
            _ => format!("$'{a}'{b} v"),
        };
        prop_assert!(check(&line).is_err(), "{}", line);
    }
}
