# shellcheck shell=bash
# What the scripts share. Sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly ROOT
# Where setup puts what only the tests need; git ignores it.
# shellcheck disable=SC2034 # for the scripts that source this
readonly TEST_ENV="$ROOT/.test-env"
# The oldest cargo that builds this (rust-version in Cargo.toml).
readonly CARGO_AT_LEAST=1.95

# Says why this script cannot go on, and what to do, and ends it.
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

on_macos() {
    [[ "$(uname -s)" == Darwin ]]
}

# at_least VERSION WANTED
at_least() {
    [[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" == "$2" ]]
}

# Prints the folder that cargo builds into.
target_dir() {
    cargo metadata --format-version 1 --no-deps --manifest-path "$ROOT/Cargo.toml" |
        sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
}

# Ends the script unless a new enough cargo is there.
need_cargo() {
    local advice="get the stable toolchain (rustup, or your system's packages)"
    has cargo || die "cargo is not on PATH: $advice"
    local version
    version=$(cargo --version | cut -d ' ' -f 2)
    at_least "$version" "$CARGO_AT_LEAST" ||
        die "cargo is $version, $CARGO_AT_LEAST or newer is needed: $advice, or rustup update"
}

# need_packages PACKAGE...: installs these Debian packages when root, otherwise names the command.
need_packages() {
    (($# > 0)) || return 0
    has apt-get || die "missing: $*. Install them with your system's package manager"
    ((EUID == 0)) || die "missing: $*. As root: apt-get install -y $*"
    printf 'installing %s\n' "$*"
    local log
    log=$(mktemp)
    # A machine's package list may be missing or old.
    if ! apt_install "$@" >"$log" 2>&1 &&
        ! { apt-get update && apt_install "$@"; } >>"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        die "apt-get could not install $*"
    fi
    rm -f "$log"
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}
