//! Finding the programs that tests start.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of ready-made programs, where the environment names one: for a user who cannot run cargo.
fn ready_made() -> Option<PathBuf> {
    std::env::var_os("HANDS_TEST_BIN_DIR").map(PathBuf::from)
}

/// The program that cargo built at this path, or its namesake in the folder that the environment names.
pub fn program(built: impl AsRef<Path>) -> PathBuf {
    let built = built.as_ref();
    match (ready_made(), built.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => built.to_owned(),
    }
}

/// The example server `mcp-echo`, built where it is not up to date.
pub fn echo_program() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| match ready_made() {
            Some(folder) => folder.join("examples/mcp-echo"),
            None => build_program("hands-testkit", "--example", "mcp-echo"),
        })
        .clone()
}

/// Builds a program of the workspace into the folder that the running test was built into;
/// `kind` is `--example` or `--bin`. Panics with the compiler's output where that fails.
pub fn build_program(package: &str, kind: &str, name: &str) -> PathBuf {
    // A test runs as <target>/<profile>/deps/<name>.
    let test = std::env::current_exe().expect("the running test has a path");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("a test lies in a profile's folder");
    let target = profile.parent().expect("a profile lies in a target folder");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--package", package, kind, name])
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let output = command.output().expect("cargo can be started");
    assert!(
        output.status.success(),
        "building {name} of {package}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let folder = if kind == "--example" {
        profile.join("examples")
    } else {
        profile.to_owned()
    };
    folder.join(name)
}
