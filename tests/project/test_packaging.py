"""What is in the wheel and in the source distribution."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from importlib import metadata

import pytest

from lib.compiled import NAMES
from lib.paths import ROOT


@pytest.fixture(scope="module")
def installed() -> list[str]:
    try:
        found = metadata.distribution("wirefmt")
    except metadata.PackageNotFoundError:
        pytest.skip("needs wirefmt installed (make test)")
    names = [str(file) for file in found.files or () if "__pycache__" not in str(file)]
    if any("__editable__" in name for name in names) or len(names) < 10:
        pytest.skip("needs a wheel of wirefmt installed (make test)")
    return names


def test_the_wheel_holds_both_packages_and_every_module(installed):
    for folder, package in (("src/wirefmt", "wirefmt"), ("spark/pyspark_wirefmt", "pyspark_wirefmt")):
        modules = {f"{package}/{p.relative_to(ROOT / folder)}" for p in (ROOT / folder).rglob("*.py")}
        assert modules <= set(installed), modules - set(installed)


def test_the_wheel_holds_compiled_modules_their_stubs_and_the_marker(installed):
    for name in NAMES:
        path = name.replace(".", "/")
        assert sum(file.startswith(path + ".") and file.endswith((".so", ".pyd")) for file in installed) == 1, name
        assert path + ".pyi" in installed
    assert sum(file.endswith((".so", ".pyd")) for file in installed) == len(NAMES)
    assert "wirefmt/py.typed" in installed


def test_the_wheel_holds_no_sources_of_compiled_modules(installed):
    assert not [name for name in installed if name.endswith((".c", ".pyx", ".pxi", ".pxd", ".h"))]
    assert not [name for name in installed if name.startswith(("tests", "bench", "fuzz", "_core/", "wirefmt/_core/"))]


def test_the_command_and_the_plugin_of_pytest_are_installed(installed):
    points = metadata.distribution("wirefmt").entry_points
    plugin = "wirefmt.broker.pytest_plugin"
    assert {(point.group, point.name, point.value) for point in points} == {
        ("console_scripts", "wirefmt", "wirefmt.cli:main"),
        ("pytest11", plugin, plugin),
    }


def test_the_source_distribution_can_be_built_from(tmp_path):
    pytest.importorskip("Cython", reason="needs Cython (pip install Cython)")
    made = (".git", ".venv", "build", "dist", "out", "*.so", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")
    ignore = shutil.ignore_patterns(*made, ".benchmarks", "spark-warehouse", "artifacts")
    shutil.copytree(ROOT, tmp_path / "tree", ignore=ignore)
    subprocess.run([sys.executable, "setup.py", "-q", "sdist"], cwd=tmp_path / "tree", check=True, capture_output=True)
    (archive,) = (tmp_path / "tree" / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        held = {name.partition("/")[2] for name in tar.getnames()}
    core = {str(p.relative_to(ROOT)) for p in (ROOT / "src").rglob("*.p[xy]*") if p.suffix != ".pyc"}
    assert core <= held, core - held
    assert {"setup.py", "pyproject.toml", "README.md", "Makefile"} <= held
    # the only C that is written by hand
    assert [name for name in held if name.endswith((".so", ".c"))] == ["fuzz/coverage.c"]
