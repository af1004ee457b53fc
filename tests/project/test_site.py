"""The documentation site: its pages, links, charts and reference, without the generator. The workflow docs.yml builds it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from lib.modules import load
from lib.paths import ROOT

EXTERNAL = re.compile(r"[a-z]+:")


site = load("wirefmt_site", ROOT / "tools" / "site" / "build.py")
KNOWN = site.pages()


def nav(entries: list[Any]) -> list[str]:
    """The pages that the navigation names."""
    found: list[str] = []
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            found += nav(value) if isinstance(value, list) else [value]
    return found


def test_every_page_is_in_the_navigation_once() -> None:
    text = (ROOT / "tools" / "site" / "zensical.toml").read_text()
    for word, value in {'"EXTENSION"': '"x"', "= PATHS": "= []", "= API }": f"= {site.api_nav()} }}"}.items():
        text = text.replace(word, value)
    named = nav(tomllib.loads(text)["project"]["nav"])
    assert sorted(named) == sorted([*KNOWN.values(), "commands.md", *(f"{page}.md" for page in site.api_pages())])


@pytest.mark.parametrize("source", KNOWN)
def test_links_of_a_page_lead_to_pages_and_headings(source: str) -> None:
    text = (ROOT / source).read_text()
    site.staged(source, text, KNOWN)  # raises for a file that does not exist
    for fenced, part in site.outside_fences(text):
        for _, link, _ in [] if fenced else site.LINK.findall(part):
            path, _, anchor = link.partition("#")
            if anchor and not EXTERNAL.match(link):
                target = (ROOT / source).parent / path if path else ROOT / source
                assert anchor in headings(target), f"{source}: {link}"


def headings(path: Path) -> set[str]:
    """The anchors that GitHub and the site make of headings."""
    found: set[str] = set()
    for fenced, part in site.outside_fences(path.read_text()):
        for heading in [] if fenced else re.findall(r"^#+ (.*)$", part, re.M):
            text = re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower())
            anchor = text.strip().replace(" ", "-")
            number = 0
            while (name := f"{anchor}-{number}" if number else anchor) in found:
                number += 1
            found.add(name)
    return found


def test_the_reference_has_every_public_name() -> None:
    text = "".join(site.api_pages().values())
    for module in ("", ".broker", ".broker.faults", ".capture", ".connection", ".connection.aio", ".convert", ".insight",
                   *(f".{name}" for name in site.PROTOCOLS)):  # fmt: skip
        for name in import_module(f"wirefmt{module}").__all__:
            assert re.search(rf"^        - {name}$", text, re.M), f"wirefmt{module}.{name}"


def test_the_reference_of_commands_has_every_option() -> None:
    pytest.importorskip("rich_click", reason="needs rich-click (pip install 'wirefmt[cli]')")
    app = import_module("wirefmt.cli.app").wirefmt
    text = site.commands()
    assert re.findall(r"^## wirefmt (\w+)$", text, re.M) == sorted(app.commands)
    for option in ("--filter", "--threads", "--extract", "--record", "--dialect"):
        assert f"`{option}`" in text, option


def test_charts_have_the_figures_of_the_notes() -> None:
    told = subprocess.run(
        [sys.executable, ROOT / "tools" / "charts.py", "--check"], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr


def test_figures_of_the_pages_are_those_of_the_notes() -> None:
    """Each figure of the tables of speed is in bench/NOTES.md, word for word."""
    notes = (ROOT / "bench" / "NOTES.md").read_text()
    for page in ("README.md", "README.zh-CN.md"):
        (table,) = re.findall(r"(?:^\|.*bench_.*\n)+", (ROOT / page).read_text(), re.M)
        for figure in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?= ?(?:,|，|\||$| µs|）|\)))", table):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", notes), f"{page}: {figure}"


def test_the_picture_shows_what_the_program_prints() -> None:
    pytest.importorskip("rich", reason="needs rich (pip install 'wirefmt[cli]')")
    picture = load("wirefmt_picture", ROOT / "tools" / "picture.py")
    assert words(picture.PICTURE.read_text()) == words(picture.picture())


def words(picture: str) -> list[str]:
    """Its text. Places and colours differ between versions of rich."""
    text = re.sub(r"<style>.*?</style>", "", picture, flags=re.S)
    found = re.sub(r"<[^>]+>", "", re.sub(r"</text>", "\n", text)).split()
    assert len(found) > 20
    return found
