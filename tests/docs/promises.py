"""What the documents say of the source, checked against it.

    promises.py [--write]

- every test that SPECIFICATION.md names exists and is a test;
- every relative link of a document leads somewhere, headings included;
- the tables of fixed limits in docs/limits.md are those of the crates (--write renews them).
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Crates whose `src/limits.rs` is shown whole, constant by constant.
LIMITS_OF = ("control", "daemon", "tunnel", "launchd", "metrics", "cli")
LIMITS_PAGE = ROOT / "docs/limits.md"


def documents() -> list[Path]:
    return sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))


def named_tests() -> list[str]:
    """What is wrong with the tests named in SPECIFICATION.md."""
    text = (ROOT / "SPECIFICATION.md").read_text()
    named = re.findall(r"`([\w./-]+\.(?:rs|py|mjs|sh))(?:::(\w+))?`", text)
    faults = []
    for file, test in named:
        path = ROOT / file
        if not path.is_file():
            faults.append(f"SPECIFICATION.md: there is no {file}")
        elif test and not is_test(path.read_text(), test):
            faults.append(f"SPECIFICATION.md: {file} has no test {test}")
    if len(named) < 100:
        faults.append(f"SPECIFICATION.md: only {len(named)} tests are named; has its form changed?")
    return faults


def is_test(source: str, name: str) -> bool:
    found = re.search(rf"^ *(?:async )?fn {name}\(", source, re.MULTILINE)
    # The attribute stands in the lines just above; `ignore` and `should_panic` may come between.
    above = source[: found.start()].splitlines()[-6:] if found else []
    return any(re.match(r"\s*#\[(tokio::)?test\b", line) for line in above)


def links() -> list[str]:
    """Links that lead nowhere."""
    faults = []
    for document in documents():
        text = without_code(document.read_text())
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, heading = target.partition("#")
            path = (document.parent / file).resolve() if file else document
            if not path.exists():
                faults.append(f"{document.relative_to(ROOT)}: {target} leads nowhere")
            elif heading and heading not in headings(path):
                faults.append(f"{document.relative_to(ROOT)}: {target}: no such heading")
    return faults


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def headings(path: Path) -> set[str]:
    """The anchors of a document's headings, as code hosts make them."""
    lines = re.findall(r"^#+ +(.*)$", without_code(path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def limits_page() -> str:
    """docs/limits.md with its tables renewed."""
    page = LIMITS_PAGE.read_text()
    for crate in LIMITS_OF:
        mark = f"<!-- {crate}/src/limits.rs -->\n"
        if page.count(mark) != 1:
            sys.exit(f"docs/limits.md: the line `{mark.strip()}` is to stand there once")
        before, after = page.split(mark)
        old = re.match(r"(\|.*\n)*", after)
        page = before + mark + limits_table(crate) + after[old.end() :]
    return page


def limits_table(crate: str) -> str:
    source = (ROOT / crate / "src/limits.rs").read_text()
    constant = re.compile(
        r"((?:^/// .*\n)+)(?:^#\[.*\n)*^pub(?:\(crate\))? const (\w+): ([^=]+?) =\s*([^;]+);", re.MULTILINE
    )
    known: dict[str, object] = {}
    rows = ["| what | limit | constant |", "|---|---|---|"]
    for comment, name, kind, expression in constant.findall(source):
        about = " ".join(line[4:] for line in comment.splitlines()).replace("[`crate::Snapshot`]", "snapshot")
        known[name] = value(expression, known)
        about, shown_value = shown(about.removesuffix("."), name, kind, known[name])
        rows.append(f"| {about} | {shown_value} | `{name}` |")
    if len(rows) - 2 != len(re.findall(r"^pub(?:\(crate\))? const ", source, re.MULTILINE)):
        sys.exit(f"{crate}/src/limits.rs: a constant has no comment, or a form that is not known here")
    return "\n".join(rows) + "\n"


class Seconds(float):
    """A duration."""


def value(expression: str, known: dict[str, object]) -> object:
    """The value of a constant's expression: numbers, durations, texts and lists of them."""
    text = re.sub(r"\bas \w+|\s+", " ", expression).strip().lstrip("&")
    if duration := re.fullmatch(r"Duration::from_(secs|millis)\((.*)\)", text):
        amount = calculated(duration[2], known)
        return Seconds(amount if duration[1] == "secs" else amount / 1000)
    if text[0] in "\"[":
        return ast.literal_eval(text)
    return calculated(text, known)


def calculated(text: str, known: dict[str, object]) -> float:
    def of(node: ast.AST) -> float:
        match node:
            case ast.Expression():
                return of(node.body)
            case ast.Constant():
                return node.value
            case ast.Name():
                return known[node.id]
            case ast.BinOp(op=ast.Add()):
                return of(node.left) + of(node.right)
            case ast.BinOp(op=ast.Mult()):
                return of(node.left) * of(node.right)
            case ast.BinOp(op=ast.LShift()):
                return of(node.left) << of(node.right)
        raise ValueError(f"cannot calculate {text!r}")

    return of(ast.parse(text, mode="eval"))


def shown(about: str, name: str, kind: str, amount: object) -> tuple[str, str]:
    if isinstance(amount, Seconds):
        return about, f"{amount * 1000:,.0f} ms" if amount < 1 or amount % 1 else f"{amount:,.0f} s"
    if isinstance(amount, str):
        return about, f"`{amount}`" if len(amount) < 40 else "a line"
    if isinstance(amount, list):
        return about, ", ".join(f"{item:g}" for item in amount)
    if about.startswith("Seconds") or name.endswith("_S"):
        return about, f"{amount:,} s"
    if re.search(r"\bbytes\b", about, re.IGNORECASE) or name.endswith("_BYTES"):
        about = about.replace(", in bytes a second", ", a second").replace(", in bytes", "")
        for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if amount >= size and amount % size == 0:
                return about, f"{amount // size:,} {unit}"
        return about, f"{amount:,.0f} bytes"
    return about, f"{amount:,.0f}"


def main() -> None:
    write = sys.argv[1:] == ["--write"]
    page = limits_page()
    if write:
        LIMITS_PAGE.write_text(page)
    faults = named_tests() + links()
    if page != LIMITS_PAGE.read_text():
        faults.append("docs/limits.md: its tables are not those of the crates: tests/docs/promises.py --write")
    if faults:
        sys.exit("\n".join(faults))
    print("promises: every named test exists, every link leads somewhere, every limit is as it says")


main()
