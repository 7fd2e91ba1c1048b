//! Command lines that destroy a file: half of a list. Each starts in a fresh workspace that holds
//! `v` (precious text), `o`, `d/e` and `emptyd/`; `$G` is a repository elsewhere in which `v` is
//! committed. Afterwards the disk is looked at, not what the command said.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::World;
use hands_sandbox::Mode;

const PRECIOUS: &str = "precious\n";

/// How those of the list begin that write into the file itself.
const OVERWRITING: &[&str] = &[
    "cp o v",
    "echo x >| v",
    "truncate",
    "dd ",
    "shred",
    "sort",
    "curl",
    "printf '1,$d",
    "openssl",
    "python3 -c 'import mmap",
    "fallocate",
];

/// How many of the lines are the list itself.
const FROM_THE_LIST: usize = 44;

const LINES: &[&str] = &[
    r"rm v",
    r"\rm v",
    r"/bin/rm -f v",
    r"command rm v",
    r"busybox rm v",
    r#"eval "r""m v""#,
    r"printf v | xargs rm",
    r"find . -name v -exec unlink {} \;",
    r"git init -q . ; git add v; git rm -qf v",
    r"cp -r $G/.git .; git reset -q --hard",
    r"unlink v",
    r#"python3 -c 'import os; os.remove("v")'"#,
    r#"perl -e 'unlink "v"'"#,
    r#"awk 'BEGIN{system("rm v")}'"#,
    r#"vim.tiny -N -u NONE -n -es -c "call delete('v')" -c '!rm v' -c q </dev/null"#,
    r"mv v $TMPDIR/",
    r"cp o v",
    r"install o v",
    r"ln -sf o v",
    r"echo x >| v",
    r"truncate -s 0 v",
    r"dd if=/dev/zero of=v conv=notrunc bs=9 count=1 status=none",
    r"shred v",
    r"rsync -a --remove-source-files v $TMPDIR/",
    r"(cd $TMPDIR; cp $W/o v; tar cf t2.tar v); tar xf $TMPDIR/t2.tar",
    r"gzip v",
    r"sort -o v /dev/null",
    r"perl -i -ne '' v",
    r"sh <<<'rm v'",
    r"printf 'rm v\n' > $TMPDIR/s; sh $TMPDIR/s",
    r"{rm,v}",
    r"rm${IFS}v",
    r"exec rm v",
    r"sqlite3 :memory: '.shell rm v'",
    r"printf 'a:\n\t@rm v\n' | make -s -f -",
    r"curl -s -o v file:///dev/null",
    r"printf '1,$d\nw\nq\n' | ed -s v",
    r"printf -- 'diff --git a/v b/v\ndeleted file mode 100644\n--- a/v\n+++ /dev/null\n@@ -1 +0,0 @@\n-precious\n' | git apply",
    r"openssl rand -out v 4",
    r"/lib64/ld-linux-x86-64.so.2 /bin/rm v",
    r#"python3 -c 'import mmap; f=open("v","r+b"); m=mmap.mmap(f.fileno(),0); m[:]=b"X"*len(m)'"#,
    r"fallocate -p -o 0 -l 9 v",
    r"ln v $TMPDIR/l && rm -f v",
    r"sudo -n rm v",
    // Beyond the list: what takes several steps, or a hole of its own.
    r"mv v w; rm w; rm -f v",
    r"mv v .w; : > v; rm .w; rm v",
    r"mkdir k; mv v k; rm -rf k",
    r"mv d k; rm -rf k; mv k/e e2; rm e2",
    r"ln v l; rm v; rm l; ln v m; : > m",
    r"git init -q .; git add v; git rm -qf v; git gc -q --prune=now; rm -rf .git",
    r"git init -q .; git add .; git commit -qm 1; echo x > v; git checkout -qf .; git clean -fdxq",
    r"git init -q .; git clean -fdxq; git stash -u -q",
    r"printf 'target\n' > .gitignore; git init -q .; mkdir target; mv v target/; rm -rf target",
    r"printf 'k\n' > .gitignore; git init -q .; git add .; git commit -qm 1; mv d target; rm -rf target",
    r"mv v target; mkdir t; ln -s v t/l; cp o t/l; rm -rf t v",
    r"chmod 000 v; rm -f v; chmod 644 v; echo x > v; rm v",
    r"mkdir x; cp o x/v; cp -r x/. .; mv -f x/v v; find . -delete",
    r"busybox cp -f o v; busybox mv o v; busybox rm v",
    r"perl -i -pe 's/p/q/' v; perl -e 'unlink $_ for <*>'",
    r"exec 3<>v; truncate -s 0 v; echo x >&3; rm /proc/self/fd/3 v",
    r"tar cf $TMPDIR/t.tar v; tar xf $TMPDIR/t.tar --unlink-first --recursive-unlink; rm v",
    r"tar cf $TMPDIR/t.tar --remove-files v o d",
    r"cp --remove-destination o v; rm v; install -d v; ln -f o v",
];

fn world() -> World {
    let world = World::new();
    for (name, content) in [("v", PRECIOUS), ("o", "other\n"), ("d/e", "deep\n")] {
        world.write(name, content);
    }
    std::fs::create_dir(world.at("emptyd")).unwrap();
    world.person(
        "mkdir $G; cp v $G; cd $G; git init -q .; git add v; git -c user.name=a \
         -c user.email=a@b commit -qm 1",
    );

    world
}

/// Whether each old content is still in the workspace or in the recovery folder.
fn lost(world: &World) -> Vec<&'static str> {
    let all = [PRECIOUS, "other\n", "deep\n"];
    let there = |content: &&str| world.holds(content) || world.has_kept(content);
    all.into_iter().filter(|content| !there(content)).collect()
}

fn try_all(mode: Mode, intact: impl Fn(&World) -> Vec<&'static str>) {
    let mut failed = Vec::new();
    for line in LINES {
        let mut world = world();
        world.plan.mode = mode;
        let ran = world.run(line);
        let lost = intact(&world);
        if !lost.is_empty() {
            failed.push(format!("{line}\n  lost {lost:?}; said {}", ran.out));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn nothing_is_lost_in_default_mode() {
    try_all(Mode::Default, lost);
}

#[test]
fn nothing_is_lost_in_strict_mode() {
    try_all(Mode::Strict, |world| {
        let mut lost = lost(world);
        let entries = ["v", "o", "d/e", "emptyd"];
        lost.extend(entries.iter().filter(|name| !world.at(name).exists()));
        lost
    });
}

#[test]
fn nothing_changes_in_read_only_mode() {
    try_all(Mode::ReadOnly, |world| {
        let same =
            |(name, content): &(&'static str, &str)| world.read(name).as_deref() == Some(*content);
        let all = [("v", PRECIOUS), ("o", "other\n"), ("d/e", "deep\n")];
        let mut changed: Vec<&str> = all.into_iter().filter(|e| !same(e)).map(|e| e.0).collect();
        if std::fs::read_dir(world.root.join("ws")).unwrap().count() != 4 {
            changed.push("the folder");
        }
        changed
    });
}

/// Plain removal is refused, not only made up for.
#[test]
fn what_only_removes_leaves_the_file_in_place() {
    let makes_up = [
        "git ",
        "install",
        "ln ",
        "tar",
        "rsync",
        "vim",
        "mv v",
        "target",
        "busybox c",
    ];
    for line in LINES.iter().filter(|line| line.contains("rm v")) {
        if makes_up.iter().any(|word| line.contains(word)) {
            continue;
        }
        let world = world();
        let ran = world.run(line);
        let kept = world.read("v").is_some();
        assert!(kept, "{line}: {}", ran.out);
    }
}

/// The layers one by one, with the command check off: without the broker nothing is removed, and
/// what is overwritten is gone.
#[test]
fn without_the_broker_only_what_is_overwritten_is_lost() {
    let mut lines_lost = Vec::new();
    for line in LINES.iter().take(FROM_THE_LIST) {
        let mut world = world();
        world.plan.guard = None;
        world.run(line);
        for name in ["v", "o", "d/e", "emptyd"] {
            assert!(world.at(name).exists(), "{line}: {name} is gone");
        }
        if !lost(&world).is_empty() {
            lines_lost.push(*line);
        }
    }
    let overwrites = |line: &&str| OVERWRITING.iter().any(|begin| line.starts_with(begin));
    assert!(lines_lost.iter().all(overwrites), "{lines_lost:?}");
    assert!(!lines_lost.is_empty() && lines_lost.len() <= OVERWRITING.len());
}
