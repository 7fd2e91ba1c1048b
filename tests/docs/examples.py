"""Runs the examples of the documents against a real daemon in a home of its own.

    examples.py FOLDER

FOLDER holds the programs. An example is a line `$ curl …` or `$ handsctl …` in a code block, with its
output below. It must succeed; of a curl example the output must be as shown: a JSON answer of that
shape (each key and type; `…` stands for more), or these lines (`…` stands for anything). The daemon
listens on a free port, so the documents' port is replaced; everything else is run as it stands.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PORT = "127.0.0.1:8765"
# What can be run anywhere without asking anybody or changing anything outside the home.
SAFE = (
    "call", "clients", "config", "doctor", "logs", "policy", "recovery list", "sessions", "status", "tools", "service print",
)
PATIENCE_S = 60
# curl says with 28 that its --max-time is over, which is how a stream is left.
STREAM_LEFT = 28


class Example:
    def __init__(self, document: Path, number: int, command: str, output: list[str]):
        self.place = f"{document.relative_to(ROOT)}:{number}"
        self.command = command
        self.output = output

    @property
    def is_curl(self) -> bool:
        return "curl" in self.command.split()[:2]


def examples(document: Path) -> list[Example]:
    found: list[Example] = []
    inside = None
    for number, line in enumerate(document.read_text().splitlines(), 1):
        text = re.sub(r"^ {4}", "", line)
        if re.match(r"(    )?\s*curl\b", line):
            sys.exit(f"{document.relative_to(ROOT)}:{number}: write a curl example as `$ curl …`, so that it is run")
        if text.startswith("$ "):
            inside = Example(document, number, text[2:], [])
            found.append(inside)
        elif inside and inside.command.endswith("\\") and text.strip():
            inside.command = inside.command[:-1] + text.strip()
        elif inside and text.strip() and not text.startswith("```"):
            inside.output.append(text)
        else:
            inside = None
    return found


class Daemon:
    """A home with a running daemon, and what is asked of it."""

    def __init__(self, programs: Path):
        # Not below /tmp: commands see a private one there.
        self.root = Path(tempfile.mkdtemp(prefix="hands-test-", dir="/var/tmp"))
        self.home = self.root / "ada"
        report = self.home / "Hands/report"
        report.mkdir(parents=True)
        (report / "draft.md").write_text("# Draft\n")
        self.environment = {
            "HOME": str(self.home),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "HANDS_HTTP_LISTEN": "127.0.0.1:0",
        }

    def run(self, command: str) -> subprocess.CompletedProcess:
        # An answer of 4xx or 5xx is a failure of the example.
        script = (
            "set -o pipefail\n"
            'curl() { command curl --fail-with-body --silent --show-error --max-time 30 "$@"; }\n' + command
        )
        return subprocess.run(
            ["bash", "-c", script], env=self.environment, cwd=self.home, capture_output=True, text=True, timeout=120
        )

    def status(self) -> dict | None:
        ended = self.run("handsctl --json status")
        return json.loads(ended.stdout) if ended.returncode in (0, 4) else None

    def ready(self, unlike: int | None = None) -> dict:
        """Waits for a daemon that is ready, with a server whose id is not `unlike`."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            status = self.status()
            if status is None:
                started = self.run("handsctl up")
                # One that was told to stop keeps the home to its very end.
                if started.returncode not in (0, 4) and "runs already" not in started.stderr:
                    raise Wrong(f"the daemon does not start: {started.stderr}")
            elif status["readiness"]["ready"] and status["daemon"]["http"] and status["server"]["pid"] != unlike:
                return status
            time.sleep(0.1)
        raise Wrong("the daemon is not ready")

    def end(self) -> None:
        self.run("handsctl down")
        shutil.rmtree(self.root)


class Wrong(Exception):
    """An example that is not as it stands."""


def check(daemon: Daemon, example: Example) -> None:
    before = daemon.ready()
    command = example.command.replace(PORT, before["daemon"]["http"])
    streams = "/v1/events" in command
    if streams:
        # Something has to happen while it listens.
        beside = subprocess.Popen(
            ["bash", "-c", "sleep 0.5; handsctl restart server"],
            env=daemon.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    ended = daemon.run(command)
    if streams:
        beside.wait(timeout=PATIENCE_S)
    allowed = {0, STREAM_LEFT} if streams else {0, 4} if not example.is_curl else {0}
    if ended.returncode not in allowed:
        raise Wrong(f"exit {ended.returncode}\n{ended.stdout}{ended.stderr}")
    if "/v1/restart" in command and '"server"' in command:
        daemon.ready(unlike=before["server"]["pid"])
    if example.is_curl:
        compare(example.output, ended.stdout)


def compare(documented: list[str], actual: str) -> None:
    if not documented:
        raise Wrong("no output is shown for it")
    if documented[0][0] in "{[":
        shapes("answer", *(json_of("\n".join(documented), actual)))
        return
    for line in documented:
        pattern = ".*".join(re.escape(part) for part in line.split("…"))
        if not re.search(rf"^{pattern}$", actual, re.MULTILINE):
            raise Wrong(f"no line is like\n{line}\nin\n{actual}")


def json_of(documented: str, actual: str) -> tuple[object, object]:
    # `…` as the last member of an object stands for more members.
    opened = re.sub(r",?\s*…\s*(?=})", ', "…": null', documented)
    opened = re.sub(r"{\s*,\s*", "{", opened)
    try:
        return json.loads(first_of(opened)), json.loads(first_of(actual))
    except ValueError as cause:
        raise Wrong(f"not JSON ({cause}):\n{opened}\nor\n{actual}") from cause


def first_of(text: str) -> str:
    """The first object of a stream; the whole where it is one."""
    first, _, rest = text.partition("\n")
    return first if rest.startswith("{") else text


def shapes(where: str, documented: object, actual: object) -> None:
    if documented is None or actual is None:
        return
    if isinstance(documented, dict) and isinstance(actual, dict):
        missing = documented.keys() - actual.keys() - {"…"}
        if missing:
            raise Wrong(f"{where} has no {sorted(missing)}")
        if "…" not in documented and (more := actual.keys() - documented.keys()):
            raise Wrong(f"{where} also has {sorted(more)}")
        for key in documented.keys() & actual.keys():
            shapes(f"{where}.{key}", documented[key], actual[key])
    elif isinstance(documented, list) and isinstance(actual, list):
        if documented and actual:
            shapes(f"{where}[0]", documented[0], actual[0])
    elif type(documented) is not type(actual):
        raise Wrong(f"{where} is {actual!r}, not like {documented!r}")


def is_run(example: Example) -> bool:
    return example.is_curl or any(example.command.startswith(f"handsctl {verb}") for verb in SAFE)


def main() -> None:
    programs = Path(sys.argv[1]).resolve()
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    all_examples = [example for document in documents for example in examples(document) if is_run(example)]
    daemon = Daemon(programs)
    faults = []
    try:
        for example in all_examples:
            try:
                check(daemon, example)
            except Wrong as why:
                faults.append(f"{example.place}: {example.command}\n{why}")
    finally:
        daemon.end()
    if faults:
        sys.exit("\n\n".join(faults))
    curls = sum(example.is_curl for example in all_examples)
    if curls < 10:
        sys.exit(f"only {curls} curl examples were found; has their form changed?")
    print(f"examples: {len(all_examples)} run, {curls} of them compared")


main()
