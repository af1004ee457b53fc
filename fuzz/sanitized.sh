#!/bin/sh
# Build the core with AddressSanitizer and UndefinedBehaviorSanitizer, apart from the normal build, and run a command
# with it (by default the fuzz targets for a minute).
#
#   fuzz/sanitized.sh                                    python fuzz/run.py --seconds 60
#   fuzz/sanitized.sh python -m pytest tests/mqtt/test_topics.py
#
# PYTHON names the interpreter (default: python3); it needs Cython and setuptools and what the command needs.
# Everything goes to build/sanitized; the sources there are links, so that an old build is brought up to date.
# The core is instrumented as well, and coverage.c tells fuzz/run.py which branches an input reaches.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
python=${PYTHON:-python3}
tree=$root/build/sanitized

mkdir -p "$tree/src"
for name in setup.py pyproject.toml README.md LICENSE; do
    if [ -e "$root/$name" ]; then ln -sfn "$root/$name" "$tree/$name"; fi
done
# a copy of the package by links: the extension is built into it, not into src/
(cd "$root/src" && find wirefmt -type d ! -name __pycache__) | while read -r folder; do mkdir -p "$tree/src/$folder"; done
(cd "$root/src" && find wirefmt -type f ! -name '*.so' ! -name '*.pyc') | while read -r file; do
    ln -sfn "$root/src/$file" "$tree/src/$file"
done
find "$tree/src" -xtype l -delete    # what is gone from src/

cd "$tree"
# -fsanitize-coverage: see coverage.c; -w: warnings are for the normal build to give
export CFLAGS="${CFLAGS:-} -fsanitize-coverage=trace-pc -w"
WIREFMT_SANITIZE=1 WIREFMT_DEBUG=1 "$python" setup.py -q build_ext --inplace
${CC:-cc} -shared -fPIC -O2 -o "$tree/coverage.so" "$root/fuzz/coverage.c"
cd "$root"

libasan=$(${CC:-cc} -print-file-name=libasan.so)
libubsan=$(${CC:-cc} -print-file-name=libubsan.so)
export LD_PRELOAD="$libasan $libubsan $tree/coverage.so"
export PYTHONMALLOC=malloc
export PYTHONHASHSEED=0    # a run with the same seed meets the same inputs
# leaks are looked for by fuzz/run.py while the interpreter lives; what is left when it ends is not looked at
export ASAN_OPTIONS=detect_leaks=1:leak_check_at_exit=0:abort_on_error=1:allocator_may_return_null=1
export LSAN_OPTIONS="suppressions=$root/fuzz/leaks.supp:print_suppressions=0"
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export PYTHONPATH="$tree/src:$root/spark"
if [ $# -eq 0 ]; then
    set -- "$python" fuzz/run.py --seconds "${SECONDS_TO_FUZZ:-60}"
fi
exec "$@"
