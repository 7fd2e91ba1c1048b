#!/usr/bin/env python3
"""Lists and calls every tool of hands-mcp with the public Python client (PyPI `mcp`).

    python_client.py FOLDER-OF-THE-PROGRAMS

Each way of connecting gets a temporary home and workspace. Every effect is looked for on disk, not
only in the answer. Exits 1 at the first difference, saying which.
"""

import asyncio
import os
import pathlib
import subprocess
import sys
import tempfile
import uuid

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

TOOLS = {"bash", "read_file", "write_file", "edit"}
# Ways of connecting, with the protocol version that must come of each: `auto` probes
# server/discover, `legacy` goes straight to initialize.
MODES = {"auto": "2026-07-28", "legacy": "2025-11-25"}
TIMEOUT_S = 30.0


def must(holds, what, got=None):
    """Ends the program unless something holds."""
    if not holds:
        sys.exit(f"python client: NOT TRUE: {what}; got: {got!r}")


def check(holds, what, got=None):
    """The same, and says so."""
    must(holds, what, got)
    print(f"  {what}")


async def until(condition, what):
    """Waits until a condition holds."""
    for _ in range(int(TIMEOUT_S * 20)):
        if condition():
            return
        await asyncio.sleep(0.05)
    sys.exit(f"python client: NOT TRUE within {TIMEOUT_S} s: {what}")


def runs(marker):
    """Whether a process has this word on its command line."""
    listed = subprocess.run(["ps", "-A", "-o", "args="], capture_output=True, text=True, check=True)
    return marker in listed.stdout


class Hands:
    """A connection, and the workspace behind it."""

    def __init__(self, client, workspace):
        self.client = client
        self.workspace = workspace

    async def call(self, tool, arguments, code, **options):
        """Calls a tool; its code must be this one. Returns its structured content."""
        result = await self.client.call_tool(tool, arguments, TIMEOUT_S, **options)
        facts = result.structured_content
        must(facts["code"] == code, f"{tool} answers {code}", facts)
        must(facts["ok"] == (code == "ok"), "`ok` agrees with the code", facts)
        failed = code not in ("ok", "process")
        must(result.is_error == failed, "isError agrees with the code", result)
        must(result.content[0].type == "text", "there is text for the model", result)
        print(f"  {tool} answers {code}")
        return facts


async def lists(hands):
    listed = (await hands.client.list_tools()).tools
    names = [tool.name for tool in listed]
    check(sorted(names) == sorted(TOOLS), "the four tools are listed, and no others", names)
    for tool in listed:
        whole = tool.description and tool.output_schema and tool.annotations
        must(whole, f"{tool.name} has description, output schema and annotations", tool)


async def reads_and_writes(hands):
    old = hands.workspace / "papers" / "old.txt"
    old.parent.mkdir()
    old.write_text("naïve\n", encoding="utf-8")
    facts = await hands.call("read_file", {"path": "papers/old.txt"}, "ok")
    check(facts["text"] == "naïve\n", "read_file gives the text", facts)
    await hands.call("read_file", {"path": "papers/none.txt"}, "not_found")

    new = hands.workspace / "new.txt"
    await hands.call("write_file", {"path": str(new), "content": "one\n"}, "ok")
    check(new.read_text() == "one\n", "write_file made the file", new)

    change = {"path": str(old), "content": "replaced\n", "overwrite": True}
    facts = await hands.call("write_file", change, "permission_required")
    check(old.read_text(encoding="utf-8") == "naïve\n", "nothing changed without consent", old)
    await hands.call("write_file", change | {"nonce": "0" * 32}, "permission_required")
    facts = await hands.call("write_file", change, "permission_required")
    await hands.call("write_file", change | {"nonce": facts["nonce"]}, "ok")
    check(old.read_text() == "replaced\n", "the file changed with the nonce", old)
    elsewhere = {"path": "new.txt", "content": "no", "overwrite": True, "nonce": facts["nonce"]}
    await hands.call("write_file", elsewhere, "permission_required")
    check(new.read_text() == "one\n", "a used nonce opens no other folder", new)

    change = {"path": str(old), "old": "replaced", "new": "edited"}
    await hands.call("edit", change, "ok")
    check(old.read_text() == "edited\n", "edit changed the file", old)
    await hands.call("edit", change, "conflict")


async def runs_commands(hands):
    facts = await hands.call("bash", {"command": "echo hello; echo oops >&2"}, "ok")
    check(facts["stdout"] == "hello\n" and facts["stderr"] == "oops\n", "both streams", facts)
    facts = await hands.call("bash", {"command": "exit 3"}, "process")
    check(facts["exit_code"] == 3, "the exit code is told", facts)
    # It was there before, though `edit` has written it anew; `new.txt` is the session's own.
    kept = hands.workspace / "papers" / "old.txt"
    await hands.call("bash", {"command": "rm papers/old.txt"}, "delete_blocked")
    python = "import os; os.remove('papers/old.txt')"
    facts = await hands.call("bash", {"command": f'python3 -c "{python}"'}, "process")
    check("PermissionError" in facts["stderr"], "the kernel refused it", facts)
    check(kept.exists(), "the file is still there", kept)
    await hands.call("bash", {"command": "rm new.txt"}, "ok")
    check(not (hands.workspace / "new.txt").exists(), "what the session made is gone", kept)


async def tells_progress(hands):
    news = []

    async def progress(done, total, message):
        news.append((done, message))

    slow = {"command": "for i in 1 2 3 4 5; do echo line $i; sleep 0.4; done"}
    await hands.call("bash", slow, "ok", progress_callback=progress)
    check(news and "line " in news[-1][1], "progress shows the last line", news)


async def cancels(hands):
    marker = f"cancel-{uuid.uuid4().hex}"
    call = asyncio.create_task(
        hands.client.call_tool("bash", {"command": f"bash -c 'sleep 60; :' {marker}"}, 90.0)
    )
    await until(lambda: runs(marker), "the command runs")
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await until(lambda: not runs(marker), "the command of a cancelled call is gone")
    print("  a cancelled call's command is gone")
    await hands.call("bash", {"command": "true"}, "ok")


async def refuses_nonsense(hands):
    facts = await hands.call("read_file", {"path": "new.txt", "limits": 3}, "validation")
    check("`limit`" in facts["hint"], "an unknown parameter is named with the nearest", facts)
    try:
        await hands.client.call_tool("no_such_tool", {})
    except MCPError as error:
        check(error.error.code == -32602, "an unknown tool is the protocol's error", error)
    else:
        check(False, "an unknown tool is the protocol's error")


async def session(programs, mode, folder):
    workspace = folder / "workspace"
    home = folder / "home"
    workspace.mkdir()
    server = StdioServerParameters(
        command=str(programs / "hands-mcp"),
        args=["--standalone"],
        env={"HANDS_HOME": str(home), "HANDS_WORKSPACES": str(workspace)},
    )
    with open(folder / "stderr", "w", encoding="utf-8") as log:
        async with Client(stdio_client(server, errlog=log), mode=mode) as client:
            version = client.protocol_version
            check(version == MODES[mode], f"protocol {MODES[mode]} is spoken", version)
            hands = Hands(client, workspace)
            await lists(hands)
            await reads_and_writes(hands)
            await runs_commands(hands)
            await tells_progress(hands)
            await cancels(hands)
            await refuses_nonsense(hands)
    check("call" in (folder / "stderr").read_text(), "the live view was on stderr")
    verify = subprocess.run(
        [programs / "handsctl", "--home", home, "logs", "verify"],
        capture_output=True,
        text=True,
        check=False,
    )
    check(verify.returncode == 0, "the trail is whole", verify)


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    for name in list(os.environ):
        if name.startswith("HANDS_"):
            del os.environ[name]
    for mode in MODES:
        print(f"python client, mode {mode}:")
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(session(programs, mode, pathlib.Path(folder).resolve()))
    print("python client: all as expected")


if __name__ == "__main__":
    main()
