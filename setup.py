"""Build the extensions of wirefmt, in parallel. Metadata is in pyproject.toml.

A change of one module's sources builds that module again; one of `_core.pxd` builds all of them.

Switches, all read from the environment:

WIREFMT_DEBUG=1     -O0, assertions of our own invariants on
WIREFMT_TRACE=1     line tracing, for coverage of the core
WIREFMT_SANITIZE=1  AddressSanitizer and UndefinedBehaviorSanitizer
WIREFMT_WERROR=1    C warnings are errors (what CI builds)
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup


def switch(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


DEBUG, TRACE, SANITIZE, WERROR = (switch("WIREFMT_" + name) for name in ("DEBUG", "TRACE", "SANITIZE", "WERROR"))

compile_args = ["-std=gnu11", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Wno-unused-parameter"]
link_args = []
macros = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")]
directives = {"emit_code_comments": TRACE}

if SANITIZE:
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    compile_args += [*flags, "-g1", "-O1", "-fno-omit-frame-pointer"]
    link_args += flags
elif DEBUG or TRACE:
    compile_args += ["-g", "-O0"]
else:
    # Python's own -g makes the build half as long again and the wheel seven times as large
    compile_args += ["-O3", "-g0"]
if DEBUG:
    macros.append(("WIREFMT_DEBUG", "1"))
if TRACE:
    directives["linetrace"] = True
    macros += [("CYTHON_TRACE_NOGIL", "1"), ("CYTHON_USE_SYS_MONITORING", "0")]
if WERROR:
    compile_args += ["-Werror"]

#: The kernel, a codec for each protocol, conversions, captures: every page of rooms is a module.
MODULES = sorted(Path("src").rglob("*.pyx"))
WORKERS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def extensions() -> list[Extension]:
    return [
        Extension(
            ".".join(page.with_suffix("").parts[1:]),
            [page.as_posix()],
            extra_compile_args=compile_args,
            extra_link_args=link_args,
            define_macros=macros,
        )
        for page in MODULES
    ]


if __name__ == "__main__":  # processes that Cython starts may import this file
    modules = cythonize(
        extensions(), include_path=["src"], compiler_directives=directives, build_dir="build/cython", nthreads=WORKERS
    )
    # modules are compiled in this order: with the largest first, none is left alone at the end
    modules.sort(key=lambda module: Path(module.sources[0]).stat().st_size, reverse=True)
    setup(
        ext_modules=modules,
        options={"build_ext": {"parallel": WORKERS}},
    )
