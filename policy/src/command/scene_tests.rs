//! The check where the sandbox lets commands remove what they made.

use std::path::{Path, PathBuf};

use super::*;

/// Old files and folders below `/home/ada/Hands`; everything else there is new or missing.
const OLD_FILES: &[&str] = &["v", "sub/w", "a b", "old.zip", "é"];
const OLD_FOLDERS: &[&str] = &["", "sub", "emptyd"];

struct World;

impl Ground for World {
    fn standing(&self, path: &Path) -> Standing {
        // As the system would: `..` and doubled slashes go.
        let mut real = PathBuf::new();
        for part in path.components() {
            match part {
                std::path::Component::ParentDir => drop(real.pop()),
                part => real.push(part),
            }
        }
        let is = |names: &[&str]| {
            let mut names = names.iter();
            names.any(|name| Path::new("/home/ada/Hands").join(name) == real)
        };
        match (is(OLD_FILES), is(OLD_FOLDERS)) {
            (true, _) => Standing::File,
            (_, true) => Standing::Folder,
            _ => Standing::Open,
        }
    }
}

fn refusal(line: &str, ground: Option<&dyn Ground>) -> Option<CommandRefusal> {
    let roots = [PathBuf::from("/home/ada/Hands"), "/tmp/ws".into()];
    let scene = Scene {
        folder: Path::new("/home/ada/Hands"),
        home: Path::new("/home/ada"),
        roots: &roots,
        ground,
    };
    match look_at(line, &scene) {
        Verdict::Refused(refusal) => Some(refusal),
        Verdict::Clean | Verdict::Unsure(_) => None,
    }
}

/// What the line itself or the session made, and what the line does not tell.
const GOES: &[&str] = &[
    "touch a; rm a",
    "echo x > t.txt && cat t.txt && rm -f t.txt",
    "f=$(mktemp ./x.XXXX); rm \"$f\"",
    "mkdir d; touch d/e; rm -r d",
    "mkdir d && rmdir d",
    "rm -f missing",
    "rm -f out.o *.tmp",
    "gcc -o prog prog.c && ./prog; rm prog",
    "rm -rf build && mkdir build",
    "cp v copy; shred -u copy",
    "ls | xargs rm",
    "ls *.tmp | xargs -r rm -f",
    "find . -name '*.o' -delete",
    "find sub -name '*.pyc' -exec rm {} +",
    "find . -type d -empty -delete",
    "for f in *.tmp; do rm \"$f\"; done",
    "rm \"$1\"",
    "rm $(cat list)",
    "git clean -fd",
    "git rm v",
    "git rm -rq sub",
    "hg purge",
    "rsync -a --delete sub/ mirror/",
    "rsync -a --remove-source-files new.txt sub/",
    "rsync -a --remove-source-files sub/ mirror/",
    "zip -m old.zip new.txt",
    "tar czf n.tgz --remove-files stage",
    "trap 'rm -f lock' EXIT; touch lock",
    "cd other && rm v",
    "cd sub && touch t && rm t",
    "cd sub && rm v",
    "(cd sub && ls); rm w",
    "cd \"$d\"; rm v",
    "cd - ; rm v",
    "popd; rm v",
    "if cd sub; then ls; fi; rm w",
    "f() { cd sub; }; rm w",
    "sh -c 'cd sub; rm v'",
    "cd /tmp && rm v",
    "cd /tmp/x && rm -rf ../y",
    "rm ~/v",
    "git worktree add ../t && rm -rf ../t/x",
];

/// What is there and old, and named.
const STAYS: &[(&str, &str)] = &[
    ("rm v", "/home/ada/Hands/v"),
    ("rm -f missing v", "/home/ada/Hands/v"),
    ("rm ./v", "/home/ada/Hands/./v"),
    ("rm sub/../v", "/home/ada/Hands/sub/../v"),
    ("rm \"$PWD/v\"", "/home/ada/Hands/v"),
    ("rm ~/Hands/v", "/home/ada/Hands/v"),
    ("rm \"$HOME\"/Hands/v", "/home/ada/Hands/v"),
    ("rm /home/ada/Hands/v", "/home/ada/Hands/v"),
    ("rm 'a b'", "/home/ada/Hands/a b"),
    ("rm é", "/home/ada/Hands/é"),
    ("rm {v,w}", "/home/ada/Hands/v"),
    ("rm -rf sub", "/home/ada/Hands/sub"),
    ("rm -rf .", "/home/ada/Hands/."),
    ("rmdir emptyd", "/home/ada/Hands/emptyd"),
    ("unlink v", "/home/ada/Hands/v"),
    ("shred v", "/home/ada/Hands/v"),
    ("x=v; rm $x", "/home/ada/Hands/v"),
    ("sudo rm v", "/home/ada/Hands/v"),
    ("sh -c 'rm v'", "/home/ada/Hands/v"),
    ("echo y | xargs rm v", "/home/ada/Hands/v"),
    ("cd sub && rm w", "/home/ada/Hands/sub/w"),
    ("cd sub; rm ../v", "/home/ada/Hands/sub/../v"),
    ("cd ~/Hands; rm v", "/home/ada/Hands/v"),
    ("cd; rm Hands/v", "/home/ada/Hands/v"),
    ("pushd sub; rm w", "/home/ada/Hands/sub/w"),
    ("(cd sub; ls); rm v", "/home/ada/Hands/v"),
    ("(cd sub; rm w)", "/home/ada/Hands/sub/w"),
    ("ls | (cd sub; cat); rm v", "/home/ada/Hands/v"),
    ("f() { cd sub; }; rm v", "/home/ada/Hands/v"),
    ("sh -c 'cd sub'; rm v", "/home/ada/Hands/v"),
    ("x=$(cd sub; pwd); rm v", "/home/ada/Hands/v"),
    ("if cd sub; then rm w; fi", "/home/ada/Hands/sub/w"),
    ("find v -delete", "/home/ada/Hands/v"),
    ("find . -delete", "/home/ada/Hands/."),
    ("find -delete", "/home/ada/Hands/."),
    ("find v -name v -delete", "/home/ada/Hands/v"),
    ("hg rm v", "/home/ada/Hands/v"),
    ("svn delete v", "/home/ada/Hands/v"),
    ("trash v", "/home/ada/Hands/v"),
    ("gio trash v", "/home/ada/Hands/v"),
    (
        "rsync -a --remove-source-files v mirror/",
        "/home/ada/Hands/v",
    ),
    ("zip -m new.zip v", "/home/ada/Hands/v"),
    ("7z a -sdel new.7z v", "/home/ada/Hands/v"),
    ("tar cf new.tar --remove-files v", "/home/ada/Hands/v"),
];

#[test]
fn what_may_be_its_own_is_left_to_the_sandbox() {
    let wrong: Vec<_> = GOES
        .iter()
        .filter_map(|line| Some((line, refusal(line, Some(&World))?.message)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_there_and_old_is_refused_early_with_what_to_do_instead() {
    for (line, path) in STAYS {
        let Some(refusal) = refusal(line, Some(&World)) else {
            panic!("not refused: {line}");
        };
        assert!(
            refusal
                .message
                .contains(&format!("{path} was there before")),
            "{line}: {}",
            refusal.message
        );
        assert!(refusal.hint.contains("`mv`"), "{line}: {}", refusal.hint);
    }
}

#[test]
fn where_commands_remove_nothing_all_of_it_is_refused() {
    for (line, _) in STAYS {
        assert!(refusal(line, None).is_some(), "{line}");
    }
    for line in [
        "touch a; rm a",
        "mkdir d; rmdir d",
        "git clean -fd",
        "git rm v",
    ] {
        let refusal = refusal(line, None).unwrap();
        assert!(refusal.message.contains("delete no files here"), "{line}");
        assert!(!refusal.hint.contains("`mv`"), "{line}: {}", refusal.hint);
    }
}

#[test]
fn the_private_tmp_is_free_and_a_workspace_in_it_is_not() {
    for line in [
        "cd /tmp && rm x",
        "cd /tmp/a && rm -rf b",
        "cd \"$TMPDIR\" && rm x",
        "cd $(mktemp -d) && rm -rf x",
        "cd /tmp/a && find . -name '*.o' -delete",
        "cd /tmp/a/b && git clean -fdx",
    ] {
        assert_eq!(refusal(line, None), None, "{line}");
    }
    for line in [
        "rm /tmp/ws/v",
        "cd /tmp/ws && rm v",
        "cd /tmp && rm ws/v",
        "cd /tmp/a && rm ../../etc/x",
    ] {
        assert!(refusal(line, None).is_some(), "{line}");
    }
}
