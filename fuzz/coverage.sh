#!/bin/sh
# Which lines of the rooms the fuzz targets run: a build with gcov's counters, the seeds and what earlier runs have
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

mkdir -p "$tree/src"
(cd "$root/src" && find wirefmt -type d ! -name __pycache__) | while read -r folder; do mkdir -p "$tree/src/$folder"; done
(cd "$root/src" && find wirefmt -type f ! -name '*.so' ! -name '*.pyc') | while read -r file; do
    ln -sfn "$root/src/$file" "$tree/src/$file"
done
find "$tree/src" -xtype l -delete    # what is gone from src/
find "$tree" -name '*.gcda' -delete

cd "$tree"
"$python" - <<'PYTHON'
"""The C code of the compiled modules with the lines of their rooms (emit_linenums), so that gcov counts those."""
import os, subprocess, sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from Cython.Build import cythonize
from setuptools import Extension

pages = sorted(Path("src").rglob("*.pyx"))
names = [".".join(page.with_suffix("").parts[1:]) for page in pages]
cythonize(
    [Extension(name, [str(page)]) for name, page in zip(names, pages)],
    include_path=["src"], build_dir="c", emit_linenums=True, compiler_directives={"emit_code_comments": False}, quiet=True,
)
flags = "-std=gnu11 -fno-strict-aliasing -O0 -g0 -w -fPIC -DWIREFMT_DEBUG=1 -DNPY_NO_DEPRECATED_API=NPY_1_7_API_VERSION"
include, suffix = "-I" + sysconfig.get_path("include"), sysconfig.get_config_var("EXT_SUFFIX")
compiler = os.environ.get("CC", "gcc")


def build(name, page):
    made, out = "c" / page.with_suffix(".c"), page.with_suffix(suffix)
    if not out.exists() or out.stat().st_mtime < made.stat().st_mtime:
        subprocess.run([compiler, *flags.split(), "--coverage", include, "-c", made, "-o", f"{name}.o"], check=True)
        subprocess.run([compiler, "-shared", "--coverage", f"{name}.o", "-o", out], check=True)


with ThreadPoolExecutor(os.cpu_count()) as pool:
    list(pool.map(build, names, pages))
PYTHON
cd "$root"
export PYTHONPATH="$tree/src:$root/spark"
status=0
"$python" fuzz/run.py --once || status=1
[ "$seconds" = 0 ] || "$python" fuzz/run.py --seconds "$seconds" "$@" || status=1
"$python" fuzz/rooms.py "$tree"
exit $status
