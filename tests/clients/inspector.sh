#!/usr/bin/env bash
# Lists the tools of hands-mcp and calls two of them with the MCP Inspector's command line, over
# both protocol eras.
#
#   inspector.sh FOLDER-OF-THE-PROGRAMS NODE_MODULES
#
# `node` must be on PATH. Everything lives in a temporary folder. Exits 1 at the first difference,
# saying which.
set -euo pipefail

programs=$(cd "$1" && pwd)
modules=$(cd "$2" && pwd)
readonly programs modules
folder=$(mktemp -d)
readonly folder
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/user" "$folder/workspace"
echo 'hello from a file' >"$folder/workspace/note.txt"

# The Inspector keeps its own files in HOME.
inspect() {
    local era=$1
    shift
    HOME="$folder/user" NODE_DISABLE_COMPILE_CACHE=1 \
        "$modules/.bin/mcp-inspector" --cli --format json --protocol-era "$era" \
        -e HANDS_HOME="$folder/home" -e HANDS_WORKSPACES="$folder/workspace" \
        "$@" -- "$programs/hands-mcp" --standalone </dev/null 2>"$folder/stderr"
}

# expect WHAT WANTED ACTUAL
expect() {
    if [[ "$3" != "$2" ]]; then
        printf 'inspector: NOT TRUE: %s\nwanted: %s\ngot: %s\n' "$1" "$2" "$3" >&2
        cat "$folder/stderr" >&2
        exit 1
    fi
    printf '  %s\n' "$1"
}

for era in legacy modern; do
    printf 'inspector, protocol era %s:\n' "$era"
    # --strict: exit 6 when a schema has an error.
    listed=$(inspect "$era" --strict --method tools/list) || { cat "$folder/stderr" >&2; exit 1; }
    expect 'the four tools are listed, and no others' 'bash edit read_file write_file' \
        "$(jq -r '[.result.tools[].name] | sort | join(" ")' <<<"$listed")"
    answer=$(inspect "$era" --method tools/call --tool-name read_file \
        --tool-args-json '{"path": "note.txt"}') || true
    expect 'read_file gives the text' 'ok hello from a file' \
        "$(jq -r '.result.structuredContent | "\(.code) \(.text)"' <<<"$answer")"
    answer=$(inspect "$era" --method tools/call --tool-name bash \
        --tool-args-json '{"command": "echo hello; exit 3"}') || true
    expect 'bash gives output and exit code' 'process 3 hello' \
        "$(jq -r '.result.structuredContent | "\(.code) \(.exit_code) \(.stdout)"' <<<"$answer")"
done
printf 'inspector: all as expected\n'
