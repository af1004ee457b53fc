"""Lines of the rooms that a run has reached, out of gcov's counters. See coverage.sh."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

LEAST = 90.0  # per cent of lines; rooms below are marked
#: Written by tools/gen_tables.py.
GENERATED = ("table.pxi", "columns.pxi", "methods.pxi")
#: Ends with the name of a generated file, and is written by hand.
BY_HAND = "_core/table.pxi"


def counts(tree: Path) -> dict[str, dict[int, int]]:
    """Room -> line -> how often it was run. Lines of headers are in several modules: they are added up."""
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
        lines = rooms[name] = {n: count for n, count in lines.items() if n <= len(source)}
        run = sum(count > 0 for count in lines.values())
        share = 100 * run / len(lines)
        print(f"{name:28} {len(lines):6} {run:6} {share:6.1f}{'  <' if share < LEAST else ''}")
        missed += [f"{name}:{n}: {source[n - 1].strip()}" for n, count in sorted(lines.items()) if count == 0]
    total, run = (sum(f(lines) for lines in rooms.values()) for f in (len, lambda x: sum(c > 0 for c in x.values())))
    print(f"{'all rooms':28} {total:6} {run:6} {100 * run / total:6.1f}")
    (tree / "missed.txt").write_text("\n".join(missed) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
