"""Lines of the core's rooms that a run has reached, out of gcov's counters. See coverage.sh."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from extensions import room_of

LEAST = 90.0  # per cent of lines; rooms below are marked
#: Written by tools/gen_tables.py.
GENERATED = ("_table.pxi", "amqp091_methods.pxi", "table_columns.pxi")


def counts(tree: Path) -> tuple[dict[str, dict[int, int]], dict[str, Path]]:
    """Room -> line -> how often it was run; room -> its file."""
    objects = [path.relative_to(tree) for path in tree.rglob("*.o")]
    said = subprocess.run(["gcov", "--json-format", "--stdout", *objects], cwd=tree, check=True, stdout=subprocess.PIPE)
    found: dict[str, dict[int, int]] = {}
    paths = {}
    for text in said.stdout.splitlines():
        for file in json.loads(text)["files"]:
            path = tree / file["file"]
            name = room_of(path, tree / "src" / "wirefmt")
            if name is not None and name.endswith((".pxi", ".pxd")) and not name.endswith(GENERATED):
                paths[name] = path
                lines = found.setdefault(name, {})
                for line in file["lines"]:  # helpers of Cython's stand behind a room's last line
                    lines[line["line_number"]] = lines.get(line["line_number"], 0) + line["count"]
    return found, paths


def main() -> None:
    tree = Path(sys.argv[1])
    rooms, paths = counts(tree)
    missed = []
    for name, lines in sorted(rooms.items()):
        source = paths[name].read_text(encoding="utf-8").splitlines()
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
