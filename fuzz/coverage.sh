#!/bin/sh
# Which lines of the core's rooms the fuzz targets run: a build with gcov's counters, the seeds and what earlier runs have
# kept in fuzz/corpus (each input once), then mutations for as long as is said (seconds; default 60).
#
#   fuzz/coverage.sh [SECONDS] [arguments of fuzz/run.py]
#
# PYTHON names the interpreter, as for fuzz/sanitized.sh. Everything goes to build/coverage. Prints a line a room: lines that
# hold code, lines run, per cent; build/coverage/missed.txt has the lines that were not run.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
python=${PYTHON:-python3}
tree=$root/build/coverage
seconds=${1:-60}
[ $# -eq 0 ] || shift

mkdir -p "$tree"
find "$tree" -name '*.gcda' -delete
cd "$tree"
"$python" - "$root" <<'PYTHON'
"""The core's C code with the lines of its rooms (emit_linenums), so that gcov counts those."""
import sys
from pathlib import Path

from Cython.Build import cythonize
from Cython.Compiler import Options
from setuptools import Extension

root, package = Path(sys.argv[1]), Path("src/wirefmt")
sys.path.insert(0, str(root / "tools"))

from extensions import compiled, linked, modules

linked(root / "src" / "wirefmt", package)
Options.emit_code_comments = False
pages = modules(package)
cythonize(
    [Extension(f"wirefmt.{name}", [str(package / page)]) for name, page in pages.items()],
    include_path=[str(package)], build_dir="c", emit_linenums=True, quiet=True,
)
for page in pages.values():
    made = Path("c") / package / page.with_suffix(".c")
    out = made.with_suffix(".o")
    if not out.exists() or out.stat().st_mtime < made.stat().st_mtime:
        compiled(package, page, made, "--coverage")
PYTHON
cd "$root"
export PYTHONPATH="$tree/src:$root/spark"
status=0
"$python" fuzz/run.py --once || status=1
[ "$seconds" = 0 ] || "$python" fuzz/run.py --seconds "$seconds" "$@" || status=1
"$python" fuzz/rooms.py "$tree"
exit $status
