"""What is in the wheel and in the source distribution."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path

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


def test_the_wheel_holds_both_packages_and_every_module(installed: list[str]) -> None:
    for folder, package in (("src/wirefmt", "wirefmt"), ("spark/pyspark_wirefmt", "pyspark_wirefmt")):
        modules = {f"{package}/{p.relative_to(ROOT / folder)}" for p in (ROOT / folder).rglob("*.py")}
        assert modules <= set(installed), modules - set(installed)


def test_the_wheel_holds_compiled_modules_their_stubs_and_the_marker(installed: list[str]) -> None:
    for name in NAMES:
        path = name.replace(".", "/")
        assert sum(file.startswith(path + ".") and file.endswith((".so", ".pyd")) for file in installed) == 1, name
        assert path + ".pyi" in installed
    assert sum(file.endswith((".so", ".pyd")) for file in installed) == len(NAMES)
    assert "wirefmt/py.typed" in installed


def test_the_wheel_holds_no_sources_of_compiled_modules(installed: list[str]) -> None:
    assert not [name for name in installed if name.endswith((".c", ".pyx", ".pxi", ".pxd", ".h"))]
    assert not [name for name in installed if name.startswith(("tests", "bench", "fuzz", "_core/", "wirefmt/_core/"))]


def test_the_command_and_the_plugin_of_pytest_are_installed(installed: list[str]) -> None:
    points = metadata.distribution("wirefmt").entry_points
    plugin = "wirefmt.broker.pytest_plugin"
    assert {(point.group, point.name, point.value) for point in points} == {
        ("console_scripts", "wirefmt", "wirefmt.cli:main"),
        ("pytest11", plugin, plugin),
    }


def test_the_licence_is_that_of_apache_and_the_metadata_name_it() -> None:
    # the digest of https://www.apache.org/licenses/LICENSE-2.0.txt
    text = (ROOT / "LICENSE").read_bytes()
    assert hashlib.sha256(text).hexdigest() == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    assert project["authors"] == [{"name": "The wirefmt authors"}]
    assert project["keywords"]
    assert {"Homepage", "Repository", "Documentation", "Changelog", "Issues"} <= set(project["urls"])
    # PEP 639: an SPDX expression takes the place of the classifier
    assert not [name for name in project["classifiers"] if name.startswith("License ::")]


def test_the_wheel_holds_the_licence(installed: list[str]) -> None:
    (held,) = (file for file in metadata.distribution("wirefmt").files or () if file.name == "LICENSE")
    assert str(held).endswith(".dist-info/licenses/LICENSE")
    assert held.read_binary() == (ROOT / "LICENSE").read_bytes()
    assert metadata.metadata("wirefmt")["License-Expression"] == "Apache-2.0"


def test_the_wheel_says_what_it_is_made_of(installed: list[str]) -> None:
    """PEP 770, as CycloneDX: nothing of it depends on the time or the machine."""
    (held,) = (file for file in metadata.distribution("wirefmt").files or () if ".dist-info/sboms/" in str(file))
    assert held.name == "wirefmt.cdx.json"
    told = json.loads(held.read_text())
    assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.6")
    assert not {"serialNumber", "timestamp"} & {*told, *told["metadata"]}
    wirefmt = told["metadata"]["component"]
    parts = list(told["components"])
    assert (wirefmt["name"], wirefmt["version"]) == ("wirefmt", metadata.version("wirefmt"))
    assert [part["name"] for part in parts] == ["Cython"]
    assert {entry["ref"] for entry in told["dependencies"]} == {part["bom-ref"] for part in [wirefmt, *parts]}
    for part in [wirefmt, *parts]:
        assert part["licenses"] == [{"license": {"id": "Apache-2.0"}}]


def test_a_wheel_is_for_every_processor_of_its_kind() -> None:
    """Nothing asks for the processor of the machine that builds, nor lets C code round or reorder otherwise than it says."""
    settings = {
        node.value for node in ast.walk(ast.parse((ROOT / "setup.py").read_text())) if isinstance(node, ast.Constant)
    }
    flags = {value for value in settings if isinstance(value, str) and value.startswith("-")}
    assert {"-O3", "-g0"} <= flags
    assert not [flag for flag in flags if flag.startswith(("-march", "-mtune", "-mcpu", "-Ofast", "-ffast", "-flto"))]


def test_c_code_depends_neither_on_the_folder_nor_on_chance(tmp_path: Path) -> None:
    """What Cython makes of a module in two folders is the same, so two builds of the same sources give the same wheel."""
    pytest.importorskip("Cython", reason="needs Cython (pip install Cython)")
    found = set()
    for seed in ("1", "2"):
        tree = tmp_path / f"tree-{seed}"
        shutil.copytree(
            ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")
        )
        program = (
            "from Cython.Build import cythonize; cythonize(['src/wirefmt/phpmq/_codec.pyx'], include_path=['src'],"
            " compiler_directives={'emit_code_comments': False}, build_dir='made', quiet=True)"
        )
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", program], cwd=tree, env=environment, check=True, capture_output=True)
        made = (tree / "made/src/wirefmt/phpmq/_codec.c").read_bytes()
        assert str(tmp_path).encode() not in made
        found.add(hashlib.sha256(made).hexdigest())
    assert len(found) == 1


def test_the_source_distribution_can_be_built_from(tmp_path: Path) -> None:
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
    assert {"setup.py", "pyproject.toml", "LICENSE", "README.md", "Makefile", "CHANGELOG.md", "SECURITY.md"} <= held
    # the only C that is written by hand
    assert [name for name in held if name.endswith((".so", ".c"))] == ["fuzz/coverage.c"]
