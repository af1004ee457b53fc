"""Workflows, hooks, recipes and pages for contributors say the same as pyproject.toml and the Makefile."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from lib.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "changes/README.md", "docs/versions.md")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_and_rights_are_named(path: Any) -> None:
    text = path.read_text()
    for name in re.findall(r"uses: (.*)", text):
        assert name.startswith("./") or re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", name), name
    assert re.search(r"^permissions: \{\}$", text, re.MULTILINE), "no right unless a job names it"
    jobs = text.partition("\njobs:\n")[2]
    assert len(re.findall(r"^  \w+:$", jobs, re.MULTILINE)) == len(
        re.findall(r"^    permissions:$", jobs, re.MULTILINE)
    )


def test_an_action_has_one_version() -> None:
    pins = {pin for path in WORKFLOWS for pin in re.findall(r"uses: ([^.\n].*)", path.read_text())}
    assert len({pin.partition("@")[0] for pin in pins}) == len(pins)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_a_workflow_makes_is_in_the_makefile(path: Any) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"run: make ([a-z]+)", path.read_text())) <= set(targets)


def test_the_matrix_has_the_versions_that_wheels_have() -> None:
    (matrix,) = re.findall(
        r"^        python: \[(.*)\]$", (ROOT / ".github/workflows/checks.yml").read_text(), re.MULTILINE
    )
    versions = re.findall(r'"([\d.]+)"', matrix)
    assert PROJECT["tool"]["cibuildwheel"]["build"] == [f"cp{version.replace('.', '')}-*" for version in versions]
    assert PROJECT["project"]["requires-python"] == f">={versions[0]}"


def test_hooks_run_the_commands_of_make_lint() -> None:
    lint = re.search(r"^LINT = .*?echo lint; \\\n(.*?)\n\n", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL)
    assert lint is not None
    commands = [part.strip(" \\\n\t") for part in lint[1].split("&&")]
    entries = re.findall(r"entry: \.venv/bin/(.*)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert entries == commands


def test_the_recipe_of_conda_has_the_requirements_of_the_package() -> Any:
    text = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()

    def names(section: str) -> set[str]:
        found = re.search(rf"^  {section}:\n((?:    .*\n)+)", text, re.MULTILINE)
        assert found is not None, section
        return set(re.findall(r"^    - (.*)$", found[1], re.MULTILINE))

    def spaced(requirement: str) -> str:
        return re.sub(r"^([\w.-]+)", r"\1 ", requirement.partition(";")[0].strip())

    project = PROJECT["project"]
    assert names("run") == {"python", *map(spaced, project["dependencies"])}
    build = {spaced(name.replace("Cython", "cython")) for name in PROJECT["build-system"]["requires"]}
    assert names("host") == {"python", "pip", *build}
    extras = {spaced(name) for key, extra in project["optional-dependencies"].items() if key != "all" for name in extra}
    assert names("run_constraints") == extras


def test_oss_fuzz_has_every_target() -> None:
    fuzzer = ROOT / "fuzz" / "oss-fuzz" / "fuzzer.py"
    told = subprocess.run(
        [sys.executable, fuzzer, "--imports"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"wirefmt.protocols", "zlib"} <= set(told)
    assert not [name for name in told if name.startswith(("lib.", "targets"))]
    listed = subprocess.run(
        [sys.executable, fuzzer, "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"mqtt_packet", "capture", "conversion"} <= set(listed)
    (number,) = re.findall(r"^(\d+) fuzz targets", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
    assert len(listed) == int(number)


@pytest.mark.parametrize("page", PAGES)
def test_links_of_pages_lead_somewhere(page: Any) -> None:
    path = ROOT / page
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", re.sub(r"`[^`\n]*`", "", path.read_text())):
        assert (path.parent / link).exists(), link
