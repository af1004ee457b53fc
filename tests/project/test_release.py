"""tools/release.py in a small repository, and the entries of changes/. `make release` in a clone does all of it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lib.modules import load
from lib.paths import ROOT

release = load("release", ROOT / "tools" / "release.py")

TOWNCRIER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
KINDS = [kind["directory"] for kind in TOWNCRIER["type"]]
ENTRIES = [path for path in sorted((ROOT / "changes").iterdir()) if path.name not in ("README.md", "template.jinja")]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with what the script writes: version 0.1.0, whose notes are written by hand."""
    for path, _ in release.WRITTEN:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / path).read_text()
        (tmp_path / path).write_text(text.replace(release.current_version(), "0.1.0"))
    for name in ("pyproject.toml", "changes/README.md", "changes/template.jinja"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    start = TOWNCRIER["start_string"]
    (tmp_path / "CHANGELOG.md").write_text(f"# Changes\n\n{start}\n## 0.1.0 (not released)\n\nThe first release.\n")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "CHANGELOG", tmp_path / "CHANGELOG.md")
    for key, value in (("NAME", "wirefmt"), ("EMAIL", "wirefmt@example.org")):
        monkeypatch.setenv(f"GIT_AUTHOR_{key}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{key}", value)
    release.git("init", "--quiet")
    commit("The first commit")
    return tmp_path


def commit(message: str) -> None:
    release.git("add", "--all")
    release.git("commit", "--quiet", "--message", message)


def make(version: str, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release, of which only the distributions are missing."""

    def build(version: str, folder: Path, with_wheel: bool) -> list[Path]:
        (folder / f"wirefmt-{version}.tar.gz").write_bytes(b"")
        return [folder / f"wirefmt-{version}.tar.gz"]

    monkeypatch.setattr(release, "build", build)
    monkeypatch.setattr(release, "check_with_twine", lambda files: None)
    folder = tree.parent / f"{tree.name}-distributions"
    assert release.main([version, "--date", "2027-01-31", "--folder", str(folder)]) == 0


def test_the_first_release_dates_its_notes_and_is_tagged(tree: Any, monkeypatch: Any, capsys: Any) -> None:
    make("0.1.0", tree, monkeypatch)
    assert "\n## 0.1.0 (2027-01-31)\n\nThe first release.\n" in (tree / "CHANGELOG.md").read_text()
    assert release.git("tag", "--list") == "v0.1.0"
    assert release.git("log", "-1", "--format=%s") == "Release 0.1.0"
    assert release.git("status", "--porcelain") == ""
    assert "git push origin HEAD v0.1.0" in capsys.readouterr().out
    with pytest.raises(release.Refused, match=r"the tag v0\.1\.0 exists"):
        release.check("0.1.0")


def test_the_next_release_has_its_entries_by_kind(tree: Any, monkeypatch: Any) -> None:
    if importlib.util.find_spec("towncrier") is None:
        pytest.skip("needs towncrier (pip install --group release)")
    make("0.1.0", tree, monkeypatch)
    for name, text in {"mqtt-x.fix": "A fault is\ngone.", "cli-y.feature": "New.", "mqtt-a.fix": "Another."}.items():
        (tree / "changes" / f"{name}.md").write_text(f"{text}\n")
    commit("Work")
    make("0.2.0", tree, monkeypatch)
    notes = (tree / "CHANGELOG.md").read_text()
    assert notes.partition("-->\n")[2].startswith(
        "\n## 0.2.0 (2027-01-31)\n\n### Features\n\n- New.\n\n### Fixes\n\n- Another.\n- A fault is\n  gone.\n\n## 0.1.0 "
    )
    assert release.current_version() == "0.2.0"
    assert release.entries() == []
    assert release.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("version", "files", "reason"),
    [
        ("0.1", {}, "'0.1' is not a version"),
        ("0.1.0rc1", {}, "0.1.0rc1 is not newer than 0.1.0"),
        ("0.2.0", {}, "changes/ has no entries"),
        ("0.1.0", {"changes/a.fix.md": "A fault is gone.\n"}, "work these files .*\n  a.fix.md"),
    ],
)
def test_what_is_not_a_release_changes_nothing(tree: Any, capsys: Any, version: Any, files: Any, reason: Any) -> None:
    for name, text in files.items():
        (tree / name).write_text(text)
        commit("Work")
    head = release.git("rev-parse", "HEAD")
    assert release.main([version]) == 1
    assert re.search(reason, capsys.readouterr().err)
    assert (release.git("rev-parse", "HEAD"), release.git("status", "--porcelain")) == (head, "")


def test_a_tree_that_is_not_clean_is_refused(tree: Any, capsys: Any) -> None:
    (tree / "new.txt").write_text("")
    assert release.main(["0.1.0"]) == 1
    assert "not clean" in capsys.readouterr().err


def test_a_build_that_fails_leaves_no_tag(tree: Any, monkeypatch: Any, capsys: Any) -> None:
    def build(*_: object) -> list[Path]:
        raise subprocess.CalledProcessError(1, "setup.py")

    monkeypatch.setattr(release, "build", build)
    assert release.main(["0.1.0", "--folder", str(tree.parent / f"{tree.name}-distributions")]) == 1
    assert "git reset --hard HEAD~1" in capsys.readouterr().err
    assert release.git("tag", "--list") == ""


def test_notes_are_those_of_the_version(tree: Any, monkeypatch: Any, capsys: Any) -> None:
    assert release.main(["--notes"]) == 1
    assert "no notes of 0.1.0 with a date" in capsys.readouterr().err
    make("0.1.0", tree, monkeypatch)
    capsys.readouterr()
    assert release.main(["0.1.0", "--notes"]) == 0
    assert capsys.readouterr().out == "The first release.\n"
    assert release.main(["0.2.0", "--notes"]) == 1


def test_a_source_distribution_depends_on_nothing_but_the_commit(tmp_path: Any) -> None:
    for number, name in enumerate(("one", "other")):
        tree = tmp_path / name / "wirefmt-1"
        tree.mkdir(parents=True)
        for file in ("b", "a") if number else ("a", "b"):
            (tree / file).write_text(file)
        (tree / "b").chmod(0o755 if number else 0o700)
        os.utime(tree / "a", (number, number))
        with tarfile.open(tmp_path / f"{name}.tar.gz", "w:gz") as tar:
            tar.add(tree, "wirefmt-1")
        release.repack(tmp_path / f"{name}.tar.gz", tmp_path / f"{name}-again.tar.gz", 1_800_000_000)
    assert (tmp_path / "one-again.tar.gz").read_bytes() == (tmp_path / "other-again.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one-again.tar.gz") as tar:
        assert [(m.name, m.mode, m.mtime, m.uid) for m in tar.getmembers()] == [
            ("wirefmt-1", 0o755, 1_800_000_000, 0),
            ("wirefmt-1/a", 0o644, 1_800_000_000, 0),
            ("wirefmt-1/b", 0o755, 1_800_000_000, 0),
        ]


def test_versions_are_in_order() -> None:
    versions = ["0.1.0a2", "0.1.0b1", "0.1.0rc1", "0.1.0rc10", "0.1.0", "0.1.1", "0.10.0", "1.0.0"]
    assert [release.order(version) for version in versions] == sorted(map(release.order, versions))


def test_the_version_is_written_where_the_script_looks() -> None:
    for path, pattern in release.WRITTEN:
        assert [found[1] for found in pattern.findall((ROOT / path).read_text())] == [release.current_version()], path


def test_the_notes_begin_with_the_version_of_the_sources() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    _, mark, notes = text.partition(TOWNCRIER["start_string"])
    assert mark
    found = re.match(r"\n## (\S+) \((not released|\d{4}-\d\d-\d\d)\)\n", notes)
    assert found is not None
    assert found[1] == release.current_version()


def test_an_entry_has_a_kind_and_is_one_list_item() -> None:
    for path in ENTRIES:
        found = re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*\.([a-z]+)\.md", path.name)
        assert found is not None, f"{path.name}: write NAME.KIND.md in lower case (changes/README.md)"
        assert found[1] in KINDS, path.name
        text = path.read_text().strip()
        assert text, path.name
        assert not re.search(r"^#|\n\n", text), f"{path.name}: a heading or an empty line"


def test_links_of_notes_are_relative_to_the_top_folder() -> None:
    for path in (ROOT / "CHANGELOG.md", *ENTRIES):
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
            assert (ROOT / link).exists(), f"{path.name}: {link}: links begin at the top folder (changes/README.md)"


def test_the_readme_lists_the_kinds() -> None:
    assert re.findall(r"^\| `(\w+)` \|", (ROOT / "changes" / "README.md").read_text(), re.MULTILINE) == KINDS
