//! What the system offers: optional programs, and how it installs one.

use super::{Check, State};
use crate::Context;
use crate::programs::on_path;

/// Programs that some tools use when they are there: program, what for, name of the package.
const OPTIONAL: &[(&str, &str, &str)] = &[
    ("git", "repositories", "git"),
    ("tesseract", "text in images", "tesseract"),
    ("ffmpeg", "key frames of videos", "ffmpeg"),
];

pub(super) fn checks(context: &Context) -> Vec<Check> {
    OPTIONAL
        .iter()
        .map(
            |(program, purpose, package)| match on_path(&context.env, program) {
                Some(path) => Check::new(*program, State::Info, path.display().to_string()),
                None => Check::new(
                    *program,
                    State::Info,
                    format!("not installed (optional, for {purpose})"),
                )
                .mend(install_command(package)),
            },
        )
        .collect()
}

/// The command that installs a package on this system.
pub(super) fn install_command(package: &str) -> String {
    if cfg!(target_os = "macos") {
        return format!("brew install {package}");
    }
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    command_for(&release, package)
}

/// The command that replaces the files of an installed package.
#[cfg(target_os = "linux")]
pub(super) fn reinstall_command(package: &str) -> String {
    reinstalling(&install_command(package))
}

#[cfg(target_os = "linux")]
fn reinstalling(install: &str) -> String {
    let ways = [
        ("apt-get install -y", "apt-get install -y --reinstall"),
        ("dnf install -y", "dnf reinstall -y"),
        ("pacman -S --needed", "pacman -S"),
        ("zypper install -y", "zypper install -y --force"),
        ("apk add", "apk fix"),
        ("install the package", "install again the package"),
    ];
    let way = ways.iter().find(|(from, _)| install.contains(from));
    match way {
        Some((from, to)) => install.replacen(from, to, 1),
        None => install.to_owned(),
    }
}

/// The command for the system that `os-release` describes; systems are known by their own name or by their kin's.
fn command_for(release: &str, package: &str) -> String {
    let field = |name: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim_matches(['"', '\'']).to_owned())
    };
    let names = [field("ID="), field("ID_LIKE=")].map(Option::unwrap_or_default);
    for id in names.iter().flat_map(|ids| ids.split_whitespace()) {
        let (command, tesseract) = match id {
            "debian" | "ubuntu" => ("sudo apt-get install -y", "tesseract-ocr"),
            "fedora" | "rhel" | "centos" => ("sudo dnf install -y", "tesseract"),
            "arch" => ("sudo pacman -S --needed", "tesseract"),
            "suse" | "opensuse" => ("sudo zypper install -y", "tesseract-ocr"),
            "alpine" => ("sudo apk add", "tesseract-ocr"),
            _ => continue,
        };
        let name = if package == "tesseract" {
            tesseract
        } else {
            package
        };
        return format!("{command} {name}");
    }
    format!("install the package {package} with your system's package manager")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_package_that_is_there_is_installed_again() {
        for (id, command) in [
            ("debian", "sudo apt-get install -y --reinstall bubblewrap"),
            ("fedora", "sudo dnf reinstall -y bubblewrap"),
            ("arch", "sudo pacman -S bubblewrap"),
            ("suse", "sudo zypper install -y --force bubblewrap"),
            ("alpine", "sudo apk fix bubblewrap"),
            (
                "nixos",
                "install again the package bubblewrap with your system's package manager",
            ),
        ] {
            let install = command_for(&format!("ID={id}"), "bubblewrap");
            assert_eq!(reinstalling(&install), command);
        }
    }

    #[test]
    fn the_package_manager_follows_the_system() {
        for (release, command) in [
            ("ID=debian\n", "sudo apt-get install -y tesseract-ocr"),
            (
                "NAME=x\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n",
                "sudo apt-get install -y tesseract-ocr",
            ),
            (
                "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"",
                "sudo dnf install -y tesseract",
            ),
            ("ID=arch", "sudo pacman -S --needed tesseract"),
            (
                "ID=nixos",
                "install the package tesseract with your system's package manager",
            ),
        ] {
            assert_eq!(command_for(release, "tesseract"), command);
        }
    }
}
