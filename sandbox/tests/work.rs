//! Ordinary work in a workspace under the broker: each kind is prepared by the person, done by a
//! command, and judged by what is on the disk. git is judged by `status` and `fsck`, not by exit
//! codes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::World;
use hands_sandbox::Walls;
use std::path::Path;

/// A name, the programs it needs, what the person prepares, what the command does, and what must
/// hold afterwards.
struct Work(
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static str,
    &'static str,
);

const CLEAN: &str = "[ -z \"$(git status --porcelain)\" ] && git fsck --strict && [ -z \"$(ls .git/*.lock 2>/dev/null)\" ]";
const REPO: &str = "git init -q .; echo one > f; echo two > g; mkdir d; echo x > d/x; printf 'target/\\nnode_modules/\\n' > .gitignore; git add .; git commit -qm 1";

const WORK: &[Work] = &[
    Work(
        "git add and commit",
        &["git"],
        REPO,
        "echo m >> f; git add f; git commit -qm 2; echo n > n; git add n; git commit -qm 3",
        "[ $(git log --oneline | wc -l) = 3 ]",
    ),
    Work(
        "git commit -a and amend",
        &["git"],
        REPO,
        "echo m >> f; git commit -qam 2; git commit -q --amend -m 3",
        "[ $(git log --oneline | wc -l) = 2 ]",
    ),
    Work(
        "git clone",
        &["git"],
        REPO,
        "git clone -q . c && git clone -q --no-local . e && git -C c fsck && git -C e status && rm -rf c e",
        "[ ! -e c ]",
    ),
    Work(
        "git init and first commit",
        &["git"],
        "echo a > a",
        "git init -q .; git add .; git commit -qm 1",
        "[ $(git log --oneline | wc -l) = 1 ]",
    ),
    Work(
        "git switch across an added file",
        &["git"],
        "git init -q .; echo one > f; git add .; git commit -qm 1; git switch -qc side; mkdir sub; echo a > sub/added; git rm -q f; git add .; git commit -qm 2",
        "git switch -q main",
        "[ ! -e sub -a -e f ]",
    ),
    Work(
        "git merge",
        &["git"],
        "git init -q .; echo one > f; echo k > k; git add .; git commit -qm 1; git switch -qc side; git rm -q k; echo two > f; git add .; git commit -qm 2; git switch -q main; echo z > z; git add z; git commit -qm 3",
        "git merge -q -m merged side",
        "[ ! -e k -a \"$(cat f)\" = two -a -e z ]",
    ),
    Work(
        "git merge with a conflict, aborted",
        &["git"],
        "git init -q .; echo one > f; git add .; git commit -qm 1; git switch -qc side; echo two > f; git commit -qam 2; git switch -q main; echo three > f; git commit -qam 3",
        "git merge -q side; git merge --abort",
        "[ \"$(cat f)\" = three -a ! -e .git/MERGE_HEAD ]",
    ),
    Work(
        "git merge of the person's, finished",
        &["git"],
        "git init -q .; echo one > f; git add .; git commit -qm 1; git switch -qc side; echo two > f; git commit -qam 2; git switch -q main; echo three > f; git commit -qam 3; git merge -q side || :",
        "echo both > f; git add f; git commit -qm merged",
        "[ ! -e .git/MERGE_HEAD ]",
    ),
    Work(
        "git stash push and pop",
        &["git"],
        REPO,
        "echo m >> f; git stash push -q; [ \"$(cat f)\" = one ] && git stash pop -q && git commit -qam 2",
        "[ $(cat f | wc -l) = 2 ]",
    ),
    Work(
        "git rebase",
        &["git"],
        "git init -q .; echo one > f; git add .; git commit -qm 1; git switch -qc side; echo s > s; git add s; git commit -qm 2; git switch -q main; echo z > z; git add z; git commit -qm 3; git switch -q side",
        "git rebase -q main",
        "[ -e z -a -e s ] && [ $(git log --oneline | wc -l) = 3 ]",
    ),
    Work(
        "git branch -d",
        &["git"],
        "git init -q .; echo one > f; git add .; git commit -qm 1; git branch side",
        "git branch -q -d side",
        "! git rev-parse -q --verify side",
    ),
    Work(
        "git gc",
        &["git"],
        "git init -q .; for i in 1 2 3; do echo $i > f; git add .; git commit -qm $i; done",
        "git gc -q --prune=now",
        "[ -z \"$(ls .git/objects/??  2>/dev/null)\" ]",
    ),
    Work(
        "git rm and mv",
        &["git"],
        REPO,
        "git rm -q f; git mv g h; git commit -qm 2",
        "[ ! -e f -a -e h ]",
    ),
    Work(
        "git reset --hard",
        &["git"],
        REPO,
        "echo x > f; git add f; git reset -q --hard",
        "[ \"$(cat f)\" = one ]",
    ),
    Work(
        "git checkout of a file",
        &["git"],
        REPO,
        "echo x > f; git checkout -q -- f; git restore g",
        "[ \"$(cat f)\" = one ]",
    ),
    Work(
        "git cherry-pick, revert, tag",
        &["git"],
        "git init -q .; echo one > f; git add .; git commit -qm 1; git switch -qc side; echo s > s; git add s; git commit -qm 2; git switch -q main",
        "git cherry-pick side >/dev/null; git revert --no-edit HEAD >/dev/null; git tag v1; git tag -d v1 >/dev/null",
        "[ ! -e s ] && [ $(git log --oneline | wc -l) = 3 ]",
    ),
    Work(
        "git worktree",
        &["git"],
        REPO,
        "git worktree add -q wt -b other && echo a > wt/a && git -C wt add a && git -C wt commit -qm w && git worktree remove wt",
        "[ ! -e wt ]",
    ),
    Work(
        "git apply and am",
        &["git"],
        "git init -q .; echo one > f; git add .; git commit -qm 1; echo two > f; git commit -qam 2; git format-patch -q -1 -o ..; git reset -q --hard HEAD~1",
        "git am -q ../0001-2.patch",
        "[ \"$(cat f)\" = two ]",
    ),
    Work(
        "git submodule",
        &["git"],
        "git init -q ../other; cd ../other; echo s > s; git add s; git commit -qm s; cd \"$OLDPWD\"; git init -q .; echo one > f; git add f; git commit -qm 1",
        "git clone -q ../other sub && rm -rf sub",
        "[ ! -e sub ]",
    ),
    Work(
        "sed -i",
        &["sed"],
        "echo one > f",
        "sed -i s/one/two/ f; sed -i s/two/three/ f",
        "[ \"$(cat f)\" = three ]",
    ),
    Work(
        "perl -i",
        &["perl"],
        "echo one > f",
        "perl -i -pe s/one/two/ f; perl -i.bak -pe s/two/three/ f",
        "[ \"$(cat f)\" = three ]",
    ),
    Work(
        "patch",
        &["patch"],
        "printf '1\\n2\\n3\\n' > f; printf '1\\n2\\n4\\n' > g; diff -u f g > p || :; rm g",
        "patch -s < p; patch -s -R < p; patch -s < p",
        "[ $(tail -1 f) = 4 -a ! -e f.orig ]",
    ),
    Work(
        "tar over old files",
        &["tar"],
        "echo one > f; mkdir d; echo x > d/x; tar cf ../x.tar f d; echo two > f; ln -s f l; tar rf ../x.tar l",
        "tar xf ../x.tar",
        "[ \"$(cat f)\" = one ]",
    ),
    Work(
        "unzip -o",
        &["unzip", "zip"],
        "echo one > f; zip -q ../x.zip f; echo two > f",
        "unzip -qo ../x.zip",
        "[ \"$(cat f)\" = one ]",
    ),
    Work(
        "zip an archive anew",
        &["zip"],
        "echo one > f; zip -q a.zip f; echo two > g",
        "zip -q a.zip g f",
        "[ $(unzip -l a.zip | wc -l) = 7 ]",
    ),
    Work(
        "gzip of a new file",
        &["gzip"],
        "",
        "echo a > n; gzip n; gunzip n.gz; cat n",
        "[ -e n -a ! -e n.gz ]",
    ),
    Work(
        "sqlite, journal deleted",
        &["sqlite3"],
        "sqlite3 db 'create table t(a); insert into t values(1)'",
        "sqlite3 db 'insert into t values(2)'; sqlite3 db 'begin; insert into t values(9); rollback; insert into t values(3); vacuum'",
        "[ \"$(sqlite3 db 'select sum(a) from t')\" = 6 -a ! -e db-journal ]",
    ),
    Work(
        "sqlite, other journals",
        &["sqlite3"],
        "sqlite3 db 'create table t(a)'",
        "for m in wal truncate persist memory off delete; do sqlite3 db \"pragma journal_mode=$m; insert into t values(1)\" >/dev/null; done",
        "[ \"$(sqlite3 db 'select sum(a) from t')\" = 6 -a ! -e db-wal ]",
    ),
    Work(
        "sqlite in wal mode of the person's",
        &["sqlite3"],
        "sqlite3 db 'pragma journal_mode=wal; create table t(a)'",
        "sqlite3 db 'insert into t values(1)'; sqlite3 db 'insert into t values(2)'",
        "[ \"$(sqlite3 db 'select sum(a) from t')\" = 3 ]",
    ),
    Work(
        "python venv and pip",
        &["python3"],
        "",
        "python3 -m venv v && v/bin/python -c 'import sys' && v/bin/pip --version >/dev/null && rm -rf v",
        "[ ! -e v ]",
    ),
    Work(
        "pip install and uninstall",
        &["python3"],
        "",
        "mkdir -p p/m; echo > p/m/__init__.py; printf '[project]\\nname = \"m\"\\nversion = \"1\"\\n' > p/pyproject.toml; mkdir w; python3 - <<'E'\nimport zipfile\nz = zipfile.ZipFile('w/m-1-py3-none-any.whl', 'w')\nz.writestr('m/__init__.py', '')\nz.writestr('m-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: m\\nVersion: 1\\n')\nz.writestr('m-1.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\nz.writestr('m-1.dist-info/RECORD', '')\nE\npython3 -m venv v && v/bin/pip install -q --no-index w/m-1-py3-none-any.whl && v/bin/python -c 'import m' && v/bin/pip uninstall -qy m && ! v/bin/python -c 'import m' 2>/dev/null && touch ok",
        "[ -e ok ]",
    ),
    Work(
        "python byte code and tests",
        &["python3"],
        "echo 'def f(): return 1' > m.py; printf 'import unittest, m\\nclass T(unittest.TestCase):\\n  def test(self): self.assertEqual(m.f(), 1)\\n' > test_m.py",
        "python3 -m unittest -q 2>&1 | tail -1; echo 'def f(): return 2' > m.py; python3 -c 'import m; assert m.f() == 2'",
        "[ \"$(cat m.py)\" = 'def f(): return 2' ]",
    ),
    Work(
        "pytest",
        &["pytest-3"],
        "printf 'from m import f\\ndef test_f(tmp_path):\\n  (tmp_path / \"x\").write_text(\"x\")\\n  assert f() == 1\\n' > test_m.py; echo 'def f(): return 1' > m.py; pytest-3 -q >/dev/null",
        "pytest-3 -q >/dev/null && pytest-3 -q --lf >/dev/null && touch ok",
        "[ -e ok -a -d .pytest_cache ]",
    ),
    Work(
        "black",
        &["black"],
        "printf 'x = {  1:2 }\\n' > m.py; printf \"y = 'a'\\n\" > n.py",
        "black -q . && black -q m.py",
        "[ \"$(cat m.py n.py)\" = \"$(printf 'x = {1: 2}\\ny = \"a\"')\" ]",
    ),
    Work(
        "npm install, run, uninstall",
        &["npm"],
        "mkdir -p dep; echo '{\"name\":\"dep\",\"version\":\"1.0.0\"}' > dep/package.json; echo '{\"name\":\"a\",\"version\":\"1.0.0\",\"scripts\":{\"x\":\"echo ran > ran\"}}' > package.json",
        "npm install --silent --offline --no-audit --no-fund ./dep && npm run --silent x && npm uninstall --silent --offline --no-audit dep",
        "[ -e ran ] && ! grep -q dep package.json",
    ),
    Work(
        "npm over an old node_modules",
        &["npm", "git"],
        "mkdir dep; echo '{\"name\":\"dep\",\"version\":\"1.0.0\"}' > dep/package.json; echo '{\"name\":\"a\",\"version\":\"1.0.0\"}' > package.json; echo node_modules/ > .gitignore; npm install --silent --offline --no-audit --no-fund ./dep; git init -q .; git add .; git commit -qm 1",
        "npm uninstall --silent --offline --no-audit dep; rm -rf node_modules; npm install --silent --offline --no-audit --no-fund ./dep",
        "[ -e node_modules/dep ]",
    ),
    Work(
        "gcc and make",
        &["gcc", "make"],
        "printf 'int main(){return 0;}' > m.c; printf 'm: m.c\\n\\tgcc -o m m.c\\nclean:\\n\\trm -f m\\n' > Makefile",
        "make -s && ./m && touch m.c && make -s && make -s clean && make -s",
        "[ -x m ]",
    ),
    Work(
        "gcc over the person's program",
        &["gcc"],
        "printf 'int main(){return 1;}' > m.c; gcc -c m.c; gcc -o m m.o; printf 'int main(){return 0;}' > m.c",
        "gcc -c m.c && gcc -o m m.o && ar rcs l.a m.o && ar rcs l.a m.o",
        "./m",
    ),
    Work(
        "cmake",
        &["cmake", "gcc"],
        "printf 'int main(){return 0;}' > m.c; printf 'cmake_minimum_required(VERSION 3.10)\\nproject(m C)\\nadd_executable(m m.c)\\n' > CMakeLists.txt",
        "cmake -S . -B build >/dev/null && cmake --build build >/dev/null && cmake --build build --target clean >/dev/null && cmake --build build >/dev/null && rm -rf build/CMakeFiles",
        "[ -x build/m ]",
    ),
    Work(
        "cargo build and test twice",
        &["cargo"],
        "mkdir src; printf '[package]\\nname = \"m\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n' > Cargo.toml; printf 'fn main() {}\\n#[test]\\nfn t() {}\\n' > src/main.rs",
        "cargo build -q --offline && cargo test -q --offline && echo >> src/main.rs && cargo build -q --offline && cargo test -q --offline && cargo clean -q",
        "[ -e Cargo.lock -a ! -e target ]",
    ),
    Work(
        "cargo over an old target",
        &["cargo", "git"],
        "mkdir src; printf '[package]\\nname = \"m\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n' > Cargo.toml; printf 'fn main() {}\\n' > src/main.rs; echo target > .gitignore; cargo build -q --offline; git init -q .; git add .; git commit -qm 1",
        "printf 'fn main() { println!(\"hi\"); }\\n' > src/main.rs; cargo build -q --offline && [ \"$(target/debug/m)\" = hi ] && cargo clean -q && cargo build -q --offline",
        "[ \"$(target/debug/m)\" = hi ]",
    ),
    Work(
        "rsync without --delete",
        &["rsync"],
        "mkdir a b; echo one > a/f; echo older > b/f; echo k > b/k",
        "rsync -a a/ b/",
        "[ \"$(cat b/f)\" = one -a -e b/k ]",
    ),
    Work(
        "jq through a temporary file and mv",
        &["jq"],
        "echo '{\"a\":1}' > j",
        "jq .a=2 j > j.tmp && mv j.tmp j",
        "[ \"$(jq .a j)\" = 2 ]",
    ),
    Work(
        "cp, mv, ln over old files",
        &[],
        "echo one > f; echo two > g; ln -s f l",
        "echo n > n; cp n f; cp -f n g; mv -f n g; ln -sfn g l; install -m 755 f h; cp -a f f2; rm f2",
        "[ \"$(cat f g l h | sort -u)\" = n ]",
    ),
    Work(
        "ed",
        &["ed"],
        "echo one > f",
        "printf ',s/one/two/\\nw\\nq\\n' | ed -s f",
        "[ \"$(cat f)\" = two ]",
    ),
    Work(
        "vim",
        &["vim.tiny"],
        "echo one > f",
        "vim.tiny -N -u NONE -es -c '%s/one/two/' -c wq f; vim.tiny -N -u NONE -es -c 'set backup backupdir=. writebackup' -c '%s/two/three/' -c wq f",
        "[ \"$(cat f)\" = three -a ! -e .f.swp ]",
    ),
    Work(
        "vim that renames",
        &["vim.tiny"],
        "echo one > f",
        "vim.tiny -N -u NONE -es -c 'set backupcopy=no' -c '%s/one/two/' -c wq f",
        "[ \"$(cat f)\" = two -a ! -e f~ ]",
    ),
    Work(
        "nano",
        &["nano", "script"],
        "echo one > f",
        "(for k in x '\\030' y '\\r'; do sleep 0.5; printf \"$k\"; done) | TERM=xterm timeout 20 script -qec 'nano f' /dev/null >/dev/null",
        "[ \"$(head -1 f)\" = xone ]",
    ),
    Work(
        "tee, dd, split, mktemp",
        &[],
        "echo one > f",
        "echo two | tee -a f >/dev/null; dd if=f of=g status=none; split -l 1 f part.; t=$(mktemp -p .); rm $t part.*",
        "[ $(cat f g | wc -l) = 4 ]",
    ),
    Work(
        "find -delete of new files",
        &["find"],
        "mkdir keep; echo a > keep/a",
        "mkdir new; touch new/a new/b; find new -delete",
        "[ ! -e new -a -e keep/a ]",
    ),
    Work(
        "a socket bound and removed",
        &["python3"],
        "",
        "python3 -c 'import socket, os\ns = socket.socket(socket.AF_UNIX); s.bind(\"so\"); s.listen(); os.unlink(\"so\")\ns = socket.socket(socket.AF_UNIX); s.bind(\"so\"); s.listen(); s.close(); os.unlink(\"so\")'",
        "[ ! -e so ]",
    ),
    Work(
        "node writes and removes",
        &["node"],
        "echo '{}' > p.json",
        "node -e 'const fs = require(\"fs\"); fs.writeFileSync(\"a\", \"1\"); fs.renameSync(\"a\", \"p.json\"); fs.mkdirSync(\"x/y\", {recursive: true}); fs.rmSync(\"x\", {recursive: true})'",
        "[ \"$(cat p.json)\" = 1 -a ! -e x ]",
    ),
    Work(
        "locks and logs",
        &["flock"],
        "echo l > log",
        "flock lock true; echo x >> log; exec 9>pid; echo $$ >&9; rm lock pid",
        "[ $(wc -l < log) = 2 -a ! -e lock ]",
    ),
];

/// Kinds that do not pass, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[];
/// The same without namespaces.
const REDUCED_EXCEPTIONS: &[(&str, &str)] = &[
    ("ed", "keeps a file in /tmp, by that name"),
    ("nano", "needs a terminal, and those there are the person's"),
];

fn exceptions() -> &'static [(&'static str, &'static str)] {
    match common::walls() {
        Walls::Whole => EXCEPTIONS,
        Walls::Reduced => REDUCED_EXCEPTIONS,
    }
}

fn found(program: &str) -> bool {
    ["/usr/bin", "/bin", "/usr/local/bin", "/root/.cargo/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(program).exists())
}

fn works(work: &Work) -> Result<(), String> {
    let Work(name, _, prepare, command, holds) = work;
    let mut world = World::new();
    if let Some(cargo) = option_env!("CARGO_HOME")
        .map(str::to_string)
        .or_else(home_cargo)
    {
        let path = world
            .plan
            .env
            .iter_mut()
            .find(|(name, _)| name == "PATH")
            .unwrap();
        path.1 = format!("{}:{cargo}/bin", path.1);
        world
            .plan
            .env
            .push(("RUSTUP_HOME".into(), cargo.replace(".cargo", ".rustup")));
        world
            .plan
            .env
            .push(("RUSTUP_TOOLCHAIN".into(), toolchain()));
    }
    world.person(if prepare.is_empty() { "true" } else { prepare });
    let ran = world.run(command);
    let is_repo = world.at(".git").exists() && !command.contains("git clone -q ../other");
    let check = if is_repo && name.starts_with("git") {
        format!("{holds} && {CLEAN}")
    } else {
        (*holds).to_string()
    };
    let mut judge = std::process::Command::new("/bin/bash");
    judge
        .args(["-c", &check])
        .current_dir(world.root.join("ws"));
    let output = judge
        .env_clear()
        .envs(world.plan.env.iter().cloned())
        .output()
        .unwrap();
    let mut listing = std::process::Command::new("/bin/bash");
    listing
        .args(["-c", "ls -la; git status --porcelain 2>&1; ls .git 2>&1"])
        .current_dir(world.root.join("ws"));
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{name}: {}\n  said {}\n  refused {:#?}\n{}",
            String::from_utf8_lossy(&output.stderr),
            ran.out,
            ran.done.guarded.refused,
            String::from_utf8_lossy(&listing.output().unwrap().stdout)
        )),
    }
}

fn home_cargo() -> Option<String> {
    let home = std::env::var("HOME").ok()?;
    let cargo = format!("{home}/.cargo");
    Path::new(&cargo)
        .join("bin/cargo")
        .exists()
        .then_some(cargo)
}

fn toolchain() -> String {
    std::env::var("RUSTUP_TOOLCHAIN").unwrap_or_else(|_| "stable".into())
}

#[test]
fn ordinary_work_passes() {
    let mut failed = Vec::new();
    let mut passed = 0;
    for work in WORK {
        if !work.1.iter().all(|program| found(program)) {
            eprintln!("not here, not tried: {}", work.0);
            continue;
        }
        match works(work) {
            Ok(()) => passed += 1,
            Err(_) if exceptions().iter().any(|(name, _)| *name == work.0) => {}
            Err(why) => failed.push(why),
        }
    }
    eprintln!("{passed} kinds of work pass");
    assert!(WORK.len() >= 40 + exceptions().len() && exceptions().len() <= 3);
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}
