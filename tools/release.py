"""Make a release as far as this can be done without a network, and print what remains: `make release VERSION=1.2.3`.

1. Check: the working tree is clean, the version is new, there is something to release.
2. Write the version where it is written, and the notes of the release in CHANGELOG.md.
3. Commit.
4. Build the source distribution from the commit, and a wheel from the source distribution. Check both.
5. Tag.

Nothing leaves the machine. If a step fails after the commit, the tag is missing: repair what is wrong and begin again after
`git reset --hard HEAD~1`, which the error says.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHANGELOG = ROOT / "CHANGELOG.md"
#: Where the version is written: file, and a pattern whose second group is the version.
WRITTEN = (
    ("src/wirefmt/__init__.py", re.compile(r'^(__version__ = ")([^"]+)(")$', re.M)),
    ("packaging/conda/recipe.yaml", re.compile(r'^(  version: ")([^"]+)(")$', re.M)),
)
#: 1.2.3, and 1.2.3a1, 1.2.3b1, 1.2.3rc1 before it.
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:(a|b|rc)(\d+))?")
KINDS = {"a": 0, "b": 1, "rc": 2, None: 3}
UNRELEASED = "not released"


class Refused(Exception):
    """The release cannot be made; the text says why."""


def order(version: str) -> tuple[int, ...]:
    """A key that sorts versions."""
    found = VERSION.fullmatch(version)
    if found is None:
        raise Refused(f"{version!r} is not a version: write 1.2.3, or 1.2.3rc1 before it")
    major, minor, patch, kind, number = found.groups()
    return int(major), int(minor), int(patch), KINDS[kind], int(number or 0)


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def entries() -> list[str]:
    """The files of changes/ that become notes."""
    return sorted(path.name for path in (ROOT / "changes").glob("*.*.md"))


def current_version() -> str:
    path, pattern = WRITTEN[0]
    found = pattern.search((ROOT / path).read_text(encoding="utf-8"))
    assert found is not None, path
    return found[2]


def check(version: str) -> None:
    """Raise Refused unless the release can be made."""
    if git("status", "--porcelain"):
        raise Refused("the working tree is not clean: commit or remove what `git status` lists")
    if git("tag", "--list", f"v{version}"):
        raise Refused(f"the tag v{version} exists")
    current, by_hand = current_version(), heading(version) is not None
    if order(version) < order(current) or (version == current and not by_hand):
        raise Refused(f"{version} is not newer than {current}")
    if by_hand and entries():
        names = "\n  ".join(entries())
        raise Refused(
            f"the notes of {version} are written by hand: work these files of changes/ into them and remove them\n  {names}"
        )
    if not by_hand and not entries():
        raise Refused("changes/ has no entries: there is nothing to release")
    if not by_hand and importlib.util.find_spec("towncrier") is None:
        raise Refused("needs towncrier (pip install --group release)")


def heading(version: str) -> re.Match[str] | None:
    """The heading of notes that were written by hand before their release."""
    return re.search(
        rf"^## {re.escape(version)} \({UNRELEASED}\)$", CHANGELOG.read_text(encoding="utf-8"), re.MULTILINE
    )


def write(version: str, date: str) -> None:
    """The version and the notes."""
    for path, pattern in WRITTEN:
        file = ROOT / path
        text, count = pattern.subn(rf"\g<1>{version}\g<3>", file.read_text(encoding="utf-8"))
        if count != 1:
            raise Refused(f"{path} has {count} lines with a version, not one")
        file.write_text(text, encoding="utf-8")
    by_hand = heading(version)
    if by_hand is not None:
        text = CHANGELOG.read_text(encoding="utf-8")
        start, end = by_hand.span()
        CHANGELOG.write_text(f"{text[:start]}## {version} ({date}){text[end:]}", encoding="utf-8")
    else:
        command = [sys.executable, "-m", "towncrier", "build", "--yes", "--version", version, "--date", date]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def source_distribution(version: str, folder: Path) -> Path:
    """The source distribution of the commit, in `folder`. The same commit gives the same bytes."""
    with tempfile.TemporaryDirectory() as made:
        tree = Path(made) / "tree"
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, tree], check=True)
        subprocess.run([sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", made], cwd=tree, check=True)
        name = f"wirefmt-{version}.tar.gz"
        repack(Path(made) / name, folder / name, int(git("log", "-1", "--format=%ct")))
    return folder / name


def repack(old: Path, new: Path, time: int) -> None:
    """Write an archive again without what depends on the machine: times, owners, permissions, order."""
    with (
        tarfile.open(old) as source,
        open(new, "wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=time) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda member: member.name):
            made = tarfile.TarInfo(member.name)
            made.type, made.size, made.mtime = member.type, member.size, time
            made.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            target.addfile(made, source.extractfile(member) if member.isreg() else None)


def wheel_of(archive: Path, version: str) -> Path:
    """The wheel of a source distribution, beside it. It can be imported, and has the version."""
    with tempfile.TemporaryDirectory() as made:
        with tarfile.open(archive) as tar:
            time = tar.getmembers()[0].mtime
            tar.extractall(made, filter="data")
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(time)}
        options = ["--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", archive.parent]
        command = [sys.executable, "-m", "pip", "wheel", *options, "."]
        subprocess.run(command, cwd=Path(made) / f"wirefmt-{version}", env=environment, check=True)
        (wheel,) = archive.parent.glob(f"wirefmt-{version}-*.whl")
        installed = Path(made) / "wheel"
        subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, installed], check=True)
        program = f"import wirefmt.mqtt, wirefmt.capture; assert wirefmt.__version__ == {version!r}"
        path = environment | {"PYTHONPATH": str(installed)}
        subprocess.run([sys.executable, "-c", program], cwd=made, env=path, check=True)
    return wheel


def build(version: str, folder: Path, with_wheel: bool) -> list[Path]:
    """The distributions of the commit, in `folder`."""
    archive = source_distribution(version, folder)
    return [archive, wheel_of(archive, version)] if with_wheel else [archive]


def check_with_twine(files: list[Path]) -> None:
    if importlib.util.find_spec("twine") is None:
        print("not checked: twine is not installed (pip install --group release)")
    else:
        subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True)


def release(version: str, date: str, folder: Path, with_wheel: bool) -> list[Path]:
    """All steps. Returns the distributions."""
    check(version)
    try:
        write(version, date)
    except BaseException:
        git("reset", "--hard", "--quiet")
        raise
    git("add", "--all")
    git("commit", "--quiet", "--message", f"Release {version}")
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        files = build(version, folder, with_wheel)
        check_with_twine(files)
    except (OSError, subprocess.CalledProcessError) as fault:
        again = "The release is committed and has no tag. To begin again: git reset --hard HEAD~1"
        raise Refused(f"{fault}\n{again}") from fault
    git("tag", "--annotate", f"v{version}", "--message", f"wirefmt {version}")
    return files


REST = """
What remains, with a network:

1. The tests of this commit: .ci/run
2. git push origin HEAD v{version}
   The workflow release.yml builds all wheels from the tag and waits for an approval of its environment `pypi`; then it uploads
   them to PyPI by trusted publishing, and makes the release of GitHub with these notes.
3. Compare the source distribution that it uploads with this one:
   {digest}
4. conda-forge: the version and this digest in the recipe of the feedstock (packaging/conda/recipe.yaml).
5. pip install wirefmt=={version} on a machine that has none of this.

To undo it before the push: git tag --delete v{version} && git reset --hard HEAD~1
"""


def notes(version: str) -> str:
    """The notes of a version, without their heading."""
    if version != current_version():
        raise Refused(f"the sources have the version {current_version()}, not {version}")
    found = re.search(
        rf"^## {re.escape(version)} \(([^)]+)\)\n(.*?)(?=^## |\Z)", CHANGELOG.read_text("utf-8"), re.M | re.S
    )
    if found is None or found[1] == UNRELEASED:
        raise Refused(f"CHANGELOG.md has no notes of {version} with a date")
    return found[2].strip() + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version", help="1.2.3, or 1.2.3rc1", nargs="?")
    parser.add_argument("--date", default=datetime.datetime.now(datetime.UTC).date().isoformat(), help="of the notes")
    parser.add_argument("--folder", type=Path, default=ROOT / "dist" / "release", help="for the distributions")
    parser.add_argument("--no-wheel", action="store_true", help="build the source distribution only")
    parser.add_argument(
        "--notes", action="store_true", help="make nothing: print the notes of the version of the sources"
    )
    parser.add_argument(
        "--sdist", action="store_true", help="make no release: build the source distribution of the commit"
    )
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    try:
        version = options.version or (current_version() if options.notes or options.sdist else "")
        if options.notes:
            print(notes(version), end="")
            return 0
        if options.sdist:
            folder.mkdir(parents=True, exist_ok=True)
            print(source_distribution(version, folder))
            return 0
        files = release(version, options.date, folder, not options.no_wheel)
    except Refused as refused:
        print(f"no release: {refused}", file=sys.stderr)
        return 1
    print(f"wirefmt {version} is committed and tagged as v{version}:")
    for file in files:
        print(f"  {file} ({file.stat().st_size:,} bytes)")
    print(REST.format(version=version, digest=f"sha256 {hashlib.sha256(files[0].read_bytes()).hexdigest()}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
