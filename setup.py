"""Build the extensions of wirefmt, in parallel. Metadata is in pyproject.toml.

A change of one module's sources builds that module again; one of `_core.pxd` builds all of them.

Switches, all read from the environment:

WIREFMT_DEBUG=1     -O0, assertions of our own invariants on
WIREFMT_TRACE=1     line tracing, for coverage of the core
WIREFMT_SANITIZE=1  AddressSanitizer and UndefinedBehaviorSanitizer
WIREFMT_WERROR=1    C warnings are errors (what CI builds)
"""

import json
import os
from pathlib import Path
from typing import Any

import Cython
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel


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


def bill_of_materials(version: str) -> dict[str, Any]:
    """What the wheel is made of, as CycloneDX: compiled modules hold functions that Cython adds, all else is wirefmt's own. There
    is no time and no serial number: the same sources give the same wheel."""

    def component(name: str, version: str, **more: Any) -> dict[str, Any]:
        reference = f"pkg:pypi/{name.lower()}@{version}"
        licence = [{"license": {"id": "Apache-2.0"}}]
        return {"bom-ref": reference, "name": name, "version": version, "licenses": licence, "purl": reference, **more}

    wirefmt = component("wirefmt", version, type="library")
    cython = component("Cython", Cython.__version__, type="library", scope="required")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": wirefmt},
        "components": [cython],
        "dependencies": [
            {"ref": wirefmt["bom-ref"], "dependsOn": [cython["bom-ref"]]},
            {"ref": cython["bom-ref"], "dependsOn": []},
        ],
    }


class Wheel(bdist_wheel):
    """A wheel with its bill of materials (PEP 770)."""

    def write_wheelfile(self, wheelfile_base: str, *args: Any, **options: Any) -> None:
        super().write_wheelfile(wheelfile_base, *args, **options)
        folder = Path(wheelfile_base, "sboms")
        folder.mkdir(exist_ok=True)
        text = json.dumps(bill_of_materials(self.distribution.get_version()), indent=2)
        (folder / "wirefmt.cdx.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":  # processes that Cython starts may import this file
    modules = cythonize(
        extensions(), include_path=["src"], compiler_directives=directives, build_dir="build/cython", nthreads=WORKERS
    )
    # modules are compiled in this order: with the largest first, none is left alone at the end
    modules.sort(key=lambda module: Path(module.sources[0]).stat().st_size, reverse=True)
    setup(
        ext_modules=modules,
        cmdclass={"bdist_wheel": Wheel},
        options={"build_ext": {"parallel": WORKERS}},
    )
