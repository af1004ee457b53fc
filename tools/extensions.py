"""The extensions of the package and the rooms they are made of, found by their files: for tools that build them apart."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path


def modules(package: Path) -> dict[str, Path]:
    """Names of the extensions of a tree of the package, below `wirefmt`, and their pages."""
    pages = sorted(path.relative_to(package) for path in package.rglob("*.pyx") if path.stat().st_size)
    return {".".join(page.with_suffix("").parts): page for page in pages}


def room_of(path: Path, package: Path) -> str | None:
    """The name of a room: its path without the folders that a leading underscore makes private. None: not of the package."""
    if not path.is_relative_to(package):
        return None
    *folders, name = path.relative_to(package).parts
    return "/".join([*(folder for folder in folders if not folder.startswith("_")), name])


def linked(source: Path, tree: Path) -> None:
    """The package by links; compiled files stay behind, and links to what is gone are removed."""
    for path in [source, *sorted(source.rglob("*"))]:
        target = tree / path.relative_to(source)
        if path.name == "__pycache__":
            continue
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif path.suffix not in (".so", ".pyc", ".c"):
            target.unlink(missing_ok=True)
            target.symlink_to(path)
    for path in tree.rglob("*"):
        if path.is_symlink() and not path.exists():
            path.unlink()


def compiled(package: Path, page: Path, made: Path, *flags: str) -> None:
    """C code -> the extension, beside its page, without optimisation and with our assertions."""
    out = package / page.with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
    always = ("-std=gnu11", "-fno-strict-aliasing", "-O0", "-g0", "-w", "-fPIC", "-DWIREFMT_DEBUG=1")
    macro = "-DNPY_NO_DEPRECATED_API=NPY_1_7_API_VERSION"
    folders = (package / page.with_suffix(""), package, Path(sysconfig.get_path("include")))
    compiler = [os.environ.get("CC", "gcc"), *always, macro, *flags, *(f"-I{folder}" for folder in folders)]
    apart = made.with_suffix(".o")  # of gcov's counters the names come from this one
    subprocess.run([*compiler, "-c", made, "-o", apart], check=True)
    subprocess.run([*compiler, "-shared", apart, "-o", out], check=True)
