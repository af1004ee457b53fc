"""Lines of the rooms that a run has reached, from gcov's counters. See coverage.sh.

Lines that run only when memory has run out are excluded. The rule: a line that names it (MemoryError, `failed`,
`no_memory`), and the suite of an `if` that tests for it: its condition names it, or compares a pointer with NULL that one of
the two lines before it got from an allocation.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

LEAST = 90.0  # per cent of lines; rooms below are marked
#: Written by tools/gen_tables.py.
GENERATED = ("table.pxi", "columns.pxi", "methods.pxi")
#: Has the ending of a generated file's name, but is written by hand.
BY_HAND = "_core/table.pxi"


SAYS_SO = re.compile(r"MemoryError|\bno_memory\b|\bfailed\b|\bOUT_OF_MEMORY\b|_NO_MEMORY\b")
ALLOCATES = re.compile(
    r"\b(malloc|calloc|realloc|resize_octets|extend_octets|octets_room|PyBytes_FromStringAndSize|PyMem_\w+)\("
)


def without_memory(source: list[str]) -> set[int]:
    """Numbers of the lines that run only when memory has run out."""
    found: set[int] = set()
    suite = -1  # indentation of the `if` whose suite this is
    for number, line in enumerate(source, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        indent = len(line) - len(line.lstrip())
        if suite >= 0 and indent > suite:
            found.add(number)
            continue
        suite = -1
        asks = text.startswith(("if ", "elif ")) and text.endswith(":")
        allocated = "== NULL" in text and any(
            ALLOCATES.search(before) for before in source[max(0, number - 3) : number - 1]
        )
        if asks and not SAYS_SO.search(text.partition(" not ")[2]) and (SAYS_SO.search(text) or allocated):
            suite = indent
        elif SAYS_SO.search(text) and not asks:
            found.add(number)
    return found


def counts(tree: Path) -> dict[str, dict[int, int]]:
    """Room -> line -> how often it ran. Lines of headers are in several modules: their counts are added."""
    objects = sorted(path.name for path in tree.glob("*.o"))
    subprocess.run(["gcov", "--json-format", *objects], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    found: dict[str, dict[int, int]] = {}
    for path in tree.glob("*.gcov.json.gz"):
        for file in json.loads(gzip.decompress(path.read_bytes()))["files"]:
            name = "/".join(Path(file["file"]).parts[-2:])
            if name.endswith((".pxi", ".pxd")) and (name == BY_HAND or not name.endswith(GENERATED)):
                lines = found.setdefault(name, {})
                for line in file["lines"]:  # helpers of Cython follow the last line of a room
                    lines[line["line_number"]] = lines.get(line["line_number"], 0) + line["count"]
        path.unlink()
    return found


def main() -> None:
    tree = Path(sys.argv[1])
    rooms = counts(tree)
    missed = []
    for name, lines in sorted(rooms.items()):
        source = next((tree / "src").rglob(name)).read_text(encoding="utf-8").splitlines()
        left_out = without_memory(source)
        lines = rooms[name] = {n: count for n, count in lines.items() if n <= len(source) and n not in left_out}
        run = sum(count > 0 for count in lines.values())
        share = 100 * run / len(lines)
        print(f"{name:28} {len(lines):6} {run:6} {share:6.1f}{'  <' if share < LEAST else ''}")
        missed += [f"{name}:{n}: {source[n - 1].strip()}" for n, count in sorted(lines.items()) if count == 0]
    total, run = (sum(f(lines) for lines in rooms.values()) for f in (len, lambda x: sum(c > 0 for c in x.values())))
    print(f"{'all rooms':28} {total:6} {run:6} {100 * run / total:6.1f}")
    (tree / "missed.txt").write_text("\n".join(missed) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
