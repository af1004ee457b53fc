"""Fetch the test suites of clients: `fetch.py FOLDER [NAME ...]`. Without names, fetch the suites that run by default.

The table of a suite gives a package, its version and its hash. Packages come from registries through their ordinary clients: `go
mod`, `pip`, `npm`, `mvn`. If a suite cannot be fetched, the program reports its name and the error, and continues with the next
one; the test of the suite is then skipped. Suites that are in no registry are checkouts, given by environment variables.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


class Failed(Exception):
    """A suite cannot be fetched. The text gives the reason."""


def call(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=600,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(str(error)) from error
    if done.returncode:
        raise Failed((done.stderr or done.stdout).strip()[-400:])
    return done.stdout


def check(name: str, found: str, pinned: str) -> None:
    if found != pinned:
        raise Failed(f"the hash of {name} is {found}, not {pinned}")


def module_of(source: dict[str, Any], folder: Path) -> None:
    """Fetch a Go module. Its sources are copied, because the module cache is read-only."""
    module = f"{source['module']}@{source['version']}"
    said = json.loads(call("go", "mod", "download", "-json", module, cwd=folder))
    check(module, said["Sum"], source["hash"])
    shutil.copytree(said["Dir"], folder, dirs_exist_ok=True)
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


def of_go(suite: dict[str, Any], folder: Path) -> None:
    """Fetch a Go module and compile its tests to a program."""
    source = suite["source"]
    module_of(source, folder)
    tags = ["-tags", source["tags"]] if "tags" in source else []
    call("go", "test", "-c", *tags, "-o", "suite.test", source.get("package", "."), cwd=folder)


def of_examples(suite: dict[str, Any], folder: Path) -> None:
    """Fetch a Go module and compile the examples that the suite runs."""
    module_of(suite["source"], folder)
    for entry in suite["example"]:
        for role in ("producer", "consumer"):
            if role in entry:
                program = f"programs/{role}-{entry[role].replace('/', '-')}"
                call("go", "build", "-o", program, f"./examples/{role}/{entry[role]}", cwd=folder)


def of_java(suite: dict[str, Any], folder: Path) -> None:
    """Fetch a Maven artifact with examples, and its dependencies. Each program is a script that runs a class."""
    source = suite["source"]
    group, name, version = source["artifact"].split(":")
    (folder / "pom.xml").write_text(
        f"<project><modelVersion>4.0.0</modelVersion><groupId>wirefmt</groupId><artifactId>suite</artifactId>"
        f"<version>0</version><packaging>pom</packaging><dependencies><dependency><groupId>{group}</groupId>"
        f"<artifactId>{name}</artifactId><version>{version}</version></dependency></dependencies></project>"
    )
    jars = folder / "jars"
    call("mvn", "-B", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={jars}", cwd=folder)
    archive = jars / f"{name}-{version}.jar"
    check(archive.name, "sha256:" + hashlib.sha256(archive.read_bytes()).hexdigest(), source["hash"])
    (folder / "programs").mkdir()
    for entry in suite["example"]:
        for role in ("producer", "consumer"):
            if role in entry:
                program = folder / "programs" / f"{role}-{entry[role].replace('/', '-')}"
                main = f"{source['package']}.{entry[role].replace('/', '.')}"
                program.write_text(
                    f"#!/bin/sh\nexec java -XX:TieredStopAtLevel=1 -Duser.home='{folder}' -cp '{jars}/*' {main}\n"
                )
                program.chmod(0o755)


def of_python(suite: dict[str, Any], folder: Path) -> None:
    """Fetch a source distribution. Its requirements go into an environment of its own: another suite may need other versions."""
    source = suite["source"]
    package, version = source["package"], source["version"]
    call(
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--no-binary",
        package,
        "-d",
        folder,
        f"{package}=={version}",
    )
    (archive,) = folder.glob("*.tar.gz")
    check(archive.name, "sha256:" + hashlib.sha256(archive.read_bytes()).hexdigest(), source["hash"])
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    archive.unlink()
    (unpacked,) = folder.iterdir()
    for path in list(unpacked.iterdir()):
        path.rename(folder / path.name)
    fixtures = HERE / f"{folder.name}_conftest.py"
    if fixtures.exists():
        shutil.copy(fixtures, folder / "conftest.py")
    call(sys.executable, "-m", "venv", folder / ".venv")
    call(folder / ".venv/bin/python", "-m", "pip", "install", "--quiet", f"{package}=={version}", *source["needs"])


def of_node(suite: dict[str, Any], folder: Path) -> None:
    """Fetch a package that contains its tests, and the program that runs them."""
    source = suite["source"]
    package, version = source["package"], source["version"]
    call("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder, f"{package}@{version}",
         *source["needs"])  # fmt: skip
    lock = json.loads((folder / "package-lock.json").read_text())
    check(f"{package}@{version}", lock["packages"][f"node_modules/{package}"]["integrity"], source["hash"])


KINDS: dict[str, Callable[[dict[str, Any], Path], None]] = {
    "go": of_go, "examples": of_examples, "java": of_java, "pytest": of_python, "mocha": of_node,
}  # fmt: skip


def main(target: Path, names: list[str]) -> int:
    missing = 0
    for spec in sorted(HERE.glob("*.toml")):
        suite = tomllib.loads(spec.read_text())
        if "checkout" in suite["source"]:  # in no registry
            continue
        if spec.stem not in names if names and names != ["all"] else suite.get("on_demand") and not names:
            continue
        folder = target / spec.stem
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            KINDS[suite["kind"]](suite, folder)
            print(f"{spec.stem}: fetched")
        except (Failed, OSError, KeyError, ValueError) as error:
            shutil.rmtree(folder)
            print(f"{spec.stem}: not fetched: {error}")
            missing += 1
    return missing


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
