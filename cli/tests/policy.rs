//! `handsctl policy explain`: what it says is what then happens.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Ended, Place};
use serde_json::{Value, json};
use std::path::Path;

/// Settings, as variables of the environment.
type Env<'a> = &'a [(&'a str, &'a str)];

fn run(place: &Place, env: Env<'_>, args: &[&str]) -> Ended {
    let mut command = place.command(args);
    command.envs(env.iter().copied());
    Ended::of(command.output().unwrap())
}

fn explain(place: &Place, env: Env<'_>, args: &[&str]) -> Value {
    let args = [&["policy", "explain", "--json"], args].concat();
    let ended = run(place, env, &args);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.json()
}

/// A real call, with a server of its own.
fn call(place: &Place, env: Env<'_>, tool: &str, arguments: &Value) -> Value {
    let arguments = arguments.to_string();
    let args = ["--json", "call", "--standalone", tool, &arguments];
    let ended = run(place, env, &args);
    ended.json()["structuredContent"].clone()
}

fn bash(place: &Place, env: Env<'_>, command: &str) -> Value {
    call(place, env, "bash", &json!({"command": command}))
}

/// A file of each kind.
fn fill(place: &Place) {
    let put = |path: std::path::PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put(place.workspace().join("sub/old.txt"), "old");
    put(place.workspace().join(".env"), "KEY=1");
    put(place.workspace().join("repo/.git/config"), "[core]\n");
    put(
        place.workspace().join("repo/.git/HEAD"),
        "ref: refs/heads/main\n",
    );
    put(place.ann().join(".ssh/id_x"), "secret");
    put(place.ann().join("notes.txt"), "notes");
    std::os::unix::fs::symlink("sub/old.txt", place.workspace().join("link")).unwrap();
}

/// What stands in the answer, as `allowed` and `rule`.
fn told<'a>(answer: &'a Value, what: &str) -> (bool, &'a str) {
    let ruling = &answer["path"][what];
    (
        ruling["allowed"].as_bool().unwrap(),
        ruling["rule"].as_str().unwrap(),
    )
}

/// Each explanation is compared with what a tool and a command really do to the same path.
fn compare(place: &Place, env: Env<'_>, path: &str) -> Value {
    let answer = explain(place, env, &[path]);
    let read = call(place, env, "read_file", &json!({"path": path}));
    let reads = answer["path"]["tools_read"]["allowed"] == true;
    assert_eq!(read["ok"].as_bool(), Some(reads), "{path}: {answer} {read}");
    let write = call(
        place,
        env,
        "write_file",
        &json!({"path": path, "content": "new", "overwrite": true}),
    );
    let writes = answer["path"]["tools_write"]["allowed"] == true;
    let goes = ["ok", "permission_required"].contains(&write["code"].as_str().unwrap());
    assert_eq!(goes, writes, "{path}: {answer} {write}");
    // The check in front is off: what decides is the sandbox.
    let mut off = env.to_vec();
    off.push(("HANDS_SANDBOX_COMMAND_CHECK", "false"));
    let command = format!(
        "cat '{path}' >/dev/null; echo $?; printf x >> '{path}'; echo $?; rm '{path}'; echo $?"
    );
    let did = bash(place, &off, &command);
    let codes: Vec<&str> = did["stdout"].as_str().unwrap().lines().collect();
    for (does, code) in ["commands_read", "commands_write", "commands_remove"]
        .iter()
        .zip(&codes)
    {
        let allowed = answer["path"][does]["allowed"] == true;
        assert_eq!(*code == "0", allowed, "{does} {path}: {answer} {did}");
    }
    assert_eq!(codes.len(), 3, "{did}");
    answer
}

#[test]
fn what_is_explained_of_a_path_is_what_happens() {
    let place = Place::outside_tmp();
    fill(&place);
    let at = |name: &str| place.workspace().join(name).to_str().unwrap().to_owned();
    let old = compare(&place, &[], &at("sub/old.txt"));
    assert_eq!(told(&old, "tools_read"), (true, "readable"));
    assert_eq!(told(&old, "tools_write"), (true, "permission_gate"));
    assert_eq!(told(&old, "commands_write"), (true, "workspace"));
    assert_eq!(told(&old, "commands_remove"), (false, "was_there"));
    assert_eq!(old["sandbox"]["state"], "full", "{old}");
    let config = compare(&place, &[], &at("repo/.git/config"));
    assert_eq!(told(&config, "tools_write"), (false, "git_control"));
    assert_eq!(told(&config, "commands_write"), (false, "sealed"));
    assert_eq!(told(&config, "commands_remove"), (false, "sealed"));
    let env_file = compare(&place, &[], &at(".env"));
    assert_eq!(told(&env_file, "tools_read"), (false, "env_file"));
    assert_eq!(told(&env_file, "commands_read"), (false, "hidden"));
    let key = place.ann().join(".ssh/id_x");
    let key = compare(&place, &[], key.to_str().unwrap());
    assert_eq!(told(&key, "tools_read"), (false, "credentials"));
    assert_eq!(told(&key, "commands_read"), (false, "hidden"));
    let notes = place.ann().join("notes.txt");
    let notes = compare(&place, &[], notes.to_str().unwrap());
    assert_eq!(told(&notes, "tools_write"), (true, "working_copy"));
    assert_eq!(told(&notes, "commands_write"), (false, "outside_workspace"));
    let system = explain(&place, &[], &["/etc/passwd"]);
    assert_eq!(told(&system, "tools_read"), (false, "system_path"));
    assert_eq!(told(&system, "commands_read"), (true, "readable"));
    assert_eq!(
        told(&system, "commands_write"),
        (false, "outside_workspace")
    );
}

/// A repository with a folder that git ignores, made by the person.
fn make_repository(place: &Place) {
    let repository = place.workspace().join("project");
    std::fs::create_dir_all(repository.join("target")).unwrap();
    std::fs::write(repository.join(".gitignore"), "/target/\n").unwrap();
    std::fs::write(repository.join("main.c"), "int main;\n").unwrap();
    std::fs::write(repository.join("target/main.o"), "built").unwrap();
    for args in [
        &["init", "-q"][..],
        &["add", "."],
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.com",
            "commit",
            "-qm",
            "a",
        ],
    ] {
        let git = std::process::Command::new("git")
            .current_dir(&repository)
            .env("HOME", place.ann())
            .args(args)
            .status();
        assert!(git.unwrap().success());
    }
}

#[test]
fn folders_of_build_products_and_repositories_are_explained() {
    let place = Place::outside_tmp();
    make_repository(&place);
    let at = |name: &str| {
        place
            .workspace()
            .join("project")
            .join(name)
            .to_str()
            .unwrap()
            .to_owned()
    };
    let source = compare(&place, &[], &at("main.c"));
    assert_eq!(told(&source, "commands_remove"), (false, "was_there"));
    let git = explain(&place, &[], &[&at(".git")]);
    assert_eq!(told(&git, "commands_remove"), (false, "protected"));
    let hook = explain(&place, &[], &[&at(".git/hooks/post-commit")]);
    assert_eq!(told(&hook, "commands_write"), (false, "sealed"));
    let product = compare(&place, &[], &at("target/main.o"));
    assert_eq!(told(&product, "commands_remove"), (true, "build_folder"));
    assert!(!Path::new(&at("target/main.o")).exists());
}

#[test]
fn links_missing_files_and_the_private_tmp_are_explained() {
    let place = Place::outside_tmp();
    fill(&place);
    let at = |name: &str| place.workspace().join(name).to_str().unwrap().to_owned();
    let link = explain(&place, &[], &[&at("link")]);
    assert_eq!(link["path"]["real"], at("sub/old.txt"));
    assert_eq!(told(&link, "commands_remove"), (false, "was_there"));
    let new = explain(&place, &[], &[&at("new/file.txt")]);
    assert_eq!(new["path"]["exists"], false);
    assert_eq!(told(&new, "tools_write"), (true, "new_file"));
    assert_eq!(told(&new, "commands_read"), (true, "not_there"));
    assert_eq!(told(&new, "commands_write"), (true, "workspace"));
    assert_eq!(told(&new, "commands_remove"), (true, "not_there"));
    assert!(!place.workspace().join("new").exists());
    let machines = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    let machines = machines.path().to_str().unwrap();
    let seen = explain(&place, &[], &[machines]);
    assert_eq!(told(&seen, "commands_read"), (false, "private_tmp"));
    assert_eq!(told(&seen, "commands_remove"), (false, "private_tmp"));
    let tmp = explain(&place, &[], &["/tmp/hands-no-such-file"]);
    assert_eq!(told(&tmp, "commands_remove"), (true, "private_tmp"));
    assert_eq!(told(&tmp, "tools_write"), (true, "private_tmp"));
    let home = explain(&place, &[], &["~/Hands/sub/old.txt"]);
    assert_eq!(home["path"]["real"], at("sub/old.txt"));
    let root = explain(&place, &[], &[place.workspace().to_str().unwrap()]);
    assert_eq!(told(&root, "commands_remove"), (false, "workspace"));
}

#[test]
fn each_mode_is_explained_by_its_own_rules() {
    let place = Place::outside_tmp();
    fill(&place);
    let old = place.workspace().join("sub/old.txt");
    let old = old.to_str().unwrap();
    let strict = compare(&place, &[("HANDS_SANDBOX_MODE", "strict")], old);
    assert_eq!(strict["mode"], "strict");
    assert_eq!(told(&strict, "commands_write"), (true, "workspace"));
    assert_eq!(told(&strict, "commands_remove"), (false, "strict_mode"));
    let read_only = compare(&place, &[("HANDS_SANDBOX_MODE", "read-only")], old);
    assert_eq!(told(&read_only, "tools_write"), (false, "read_only_mode"));
    assert_eq!(
        told(&read_only, "commands_write"),
        (false, "read_only_mode")
    );
    let off = compare(&place, &[("HANDS_SANDBOX_BROKER", "false")], old);
    assert_eq!(off["broker"], false);
    assert_eq!(told(&off, "commands_remove"), (false, "no_broker"));
}

#[test]
fn a_command_line_is_explained_and_not_run() {
    let place = Place::outside_tmp();
    fill(&place);
    let refused = explain(&place, &[], &["touch ran; rm -f sub/old.txt"]);
    let command = &refused["command"];
    assert_eq!(
        (&command["runs"], &command["found"]),
        (&json!(false), &json!("refused"))
    );
    assert_eq!(
        (&command["rule"], &command["part"]),
        (&json!("rm"), &json!("rm -f sub/old.txt"))
    );
    assert_eq!(command["cwd"], place.workspace().to_str().unwrap());
    assert!(
        command["hint"].as_str().unwrap().contains("mv"),
        "{command}"
    );
    let done = bash(&place, &[], "touch ran; rm -f sub/old.txt");
    assert_eq!(
        (&done["code"], &done["message"]),
        (&json!("delete_blocked"), &command["message"])
    );
    let clean = explain(&place, &[], &["touch ran; rm ran"]);
    assert_eq!(clean["command"]["runs"], true, "{clean}");
    assert!(
        clean["command"]["held_by"]
            .as_str()
            .unwrap()
            .contains("remove what this session")
    );
    let strict: Env<'_> = &[("HANDS_SANDBOX_MODE", "strict")];
    let strict = explain(&place, strict, &["touch ran; rm ran"]);
    assert_eq!(strict["command"]["runs"], false, "{strict}");
    let off: Env<'_> = &[("HANDS_SANDBOX_COMMAND_CHECK", "false")];
    let off = explain(&place, off, &["rm -f sub/old.txt"]);
    assert_eq!(
        (&off["command"]["runs"], &off["command"]["found"]),
        (&json!(true), &json!("refused"))
    );
    let unsure = explain(&place, &[], &["--command", "make"]);
    assert_eq!(unsure["command"]["found"], "unsure", "{unsure}");
    let sub = place.workspace().join("sub");
    let there = explain(&place, &[], &["--cwd", sub.to_str().unwrap(), "rm old.txt"]);
    assert_eq!(there["command"]["found"], "refused", "{there}");
    assert!(!place.workspace().join("ran").exists());
    assert!(place.workspace().join("sub/old.txt").exists());
}

#[test]
fn a_person_reads_a_table_and_nothing_is_left_behind() {
    let place = Place::outside_tmp();
    fill(&place);
    let mut command = place.command(&["policy", "explain", "sub/old.txt"]);
    let ended = Ended::of(command.current_dir(place.workspace()).output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let first = ended.out.lines().next().unwrap();
    assert_eq!(
        first,
        place.workspace().join("sub/old.txt").to_str().unwrap()
    );
    for part in ["WHO", "read_file", "was_there", "mode default", "full"] {
        assert!(ended.out.contains(part), "{part}: {ended:?}");
    }
    let ended = place.run(&["policy", "explain", "cd sub && rm old.txt"]);
    assert!(
        ended
            .out
            .starts_with("would not run: cd sub && rm old.txt\n"),
        "{ended:?}"
    );
    for part in [
        "check: [rm]",
        "`rm old.txt`",
        "ask your user",
        "held by the sandbox",
    ] {
        assert!(ended.out.contains(part), "{part}: {ended:?}");
    }
    let scratch = std::fs::read_dir(place.home().scratch_dir()).unwrap();
    assert_eq!(scratch.count(), 0);
    let trail = place.home().logs_dir().join("agent_activity.jsonl");
    assert!(std::fs::read(trail).unwrap_or_default().is_empty());
}

#[test]
fn what_cannot_be_explained_is_said() {
    let place = Place::outside_tmp();
    let ended = place.run(&["policy", "explain", "--cwd", "/no/such/folder", "ls"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("/no/such/folder"), "{ended:?}");
    place.config("[sandbox]\nmode = \"wild\"\n");
    let ended = place.run(&["policy", "explain", "ls -la"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("sandbox.mode"), "{ended:?}");
    let ended = place.run(&["policy", "explain"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
}
