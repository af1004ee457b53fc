"""The documentation site: `python tools/site/build.py` stages the pages in build/site/, and builds them to build/site/html.

Pages are the files of docs/ and some others (PAGES); the reference of the API and of the command line is generated. A link to a
file that is not a page becomes a link to the repository. A link to a file or heading that does not exist is an error, as is every
warning of the generator.

Generators that were compared in November 2026, for static pages, search without a server, and an API from stubs (.pyi):

- Zensical 0.0.73 with mkdocstrings: all of it, and it checks links and headings. It is young, so its version is pinned. Chosen.
- Material for MkDocs 9.8 with mkdocstrings: the same themes and extensions, but its support ends in May 2027.
- Sphinx with Furo: mature, but autodoc imports modules and does not read stubs, which have the types of what is compiled.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OUT = ROOT / "build" / "site"
REPOSITORY = "https://github.com/wirefmt/wirefmt"

#: Files outside docs/ that are pages, and their names there.
PAGES = {
    "README.md": "index.md",
    "README.zh-CN.md": "zh-cn.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "bench/NOTES.md": "speed-notes.md",
    "samples/README.md": "samples.md",
    "spark/README.md": "spark.md",
}

PROTOCOLS = {
    "mqtt": "MQTT",
    "amqp091": "AMQP 0.9.1",
    "amqp10": "AMQP 1.0",
    "rocketmq": "RocketMQ",
    "nsq": "NSQ",
    "phpmq": "PHPMQ",
}
#: Page of the reference -> (title, modules). Their public names are those of `__all__`, or those given here.
API: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "api-wirefmt": (
        "wirefmt: errors, limits, strictness",
        {
            "wirefmt": (),
            "wirefmt.strictness": ("Note",),
            "wirefmt.batch": ("Batch", "json_lines", "csv_lines"),
            "wirefmt.decoder": ("FrameDecoder",),
            "wirefmt.secrets": ("HiddenBytes", "HiddenFloat", "HiddenInt", "HiddenText", "is_secret_name"),
        },
    ),
    "api-capture": ("wirefmt.capture", {"wirefmt.capture": ()}),
    "api-insight": ("wirefmt.insight", {"wirefmt.insight": ()}),
    "api-convert": ("wirefmt.convert", {"wirefmt.convert": ()}),
    "api-connection": (
        "wirefmt.connection",
        {"wirefmt.connection": (), "wirefmt.connection.aio": (), "wirefmt.connection.proxy": ("read_header",)},
    ),
    "api-broker": (
        "wirefmt.broker",
        {
            "wirefmt.broker": (),
            **{f"wirefmt.broker.{name}": ("Broker", "BrokerOptions") for name in PROTOCOLS},
            "wirefmt.broker.faults": (),
            "wirefmt.broker.recording": ("Recorder",),
        },
    ),
    "api-spark": ("pyspark_wirefmt", {"pyspark_wirefmt": ()}),
}

#: Scripts that the theme would load from the network: package of npm, its version, file in it, digest of the file, and the
#: address that is replaced. One draws diagrams, the other lets the search run where there is no server (file:).
SCRIPTS = (
    (
        "mermaid", "11.16.0", "dist/mermaid.min.js", "74d7c46dabca328c2294733910a8aa1ed0c37451776e8d5295da38a2b758fb9b",
        r"https://unpkg\.com/mermaid@[\d.]+/dist/mermaid\.min\.js",
    ),
    (
        "iframe-worker", "1.0.4", "shim/index.js", "e8e412dbcfea9b7e31b5ffa288d7b6035915e714c542f4176a0cdbe262fc9609",
        r"https://unpkg\.com/iframe-worker/shim",
    ),
)  # fmt: skip

FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.M | re.S)
#: What belongs to a list item begins below its text on GitHub, and four columns on here.
BLOCK = re.compile(
    r"^((?![-|#>\s]|\d+\. ).+\n)(?=- |\||1\. )", re.M
)  # a list or table ends a paragraph without an empty line
INDENT = re.compile(r"^ {2,3}(?=\S)", re.M)
LINK = re.compile(r"(?<!`)(!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\()([^()\s]+)(\))")


def pages() -> dict[str, str]:
    """File of the repository -> page of the site."""
    found = {f"docs/{path.name}": path.name for path in sorted((ROOT / "docs").glob("*.md"))}
    return found | PAGES


def outside_fences(text: str) -> Iterator[tuple[bool, str]]:
    """(is a fenced block, text), in order."""
    at = 0
    for fence in FENCE.finditer(text):
        yield False, text[at : fence.start()]
        yield True, fence[0]
        at = fence.end()
    yield False, text[at:]


def staged(source: str, text: str, known: dict[str, str]) -> str:
    """The page with its links and lists as the site has them."""

    def link(found: re.Match[str]) -> str:
        target, _, anchor = found[2].partition("#")
        if re.match(r"[a-z]+:", found[2]) or not target:
            return found[0]
        path = os.path.normpath(os.path.join(os.path.dirname(source), target))
        anchor = f"#{anchor}" if anchor else ""
        if path in known:
            text = found[1]
            named = text.removesuffix("](").removeprefix("[")
            if named in (target, path, os.path.basename(target)) and (ROOT / path).exists():
                text = f"[{title(ROOT / path)}]("
            return f"{text}{known[path]}{anchor}{found[3]}"
        if path.startswith("docs/images/"):
            return f"{found[1]}{path.removeprefix('docs/')}{found[3]}"
        if not (ROOT / path).exists():
            raise SystemExit(f"{source}: a link to {target}, which does not exist")
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{found[1]}{REPOSITORY}/{kind}/main/{path}{anchor}{found[3]}"

    parts = []
    for fenced, part in outside_fences(text):
        parts.append(part if fenced else LINK.sub(link, BLOCK.sub(r"\1\n", INDENT.sub("    ", part))))
    return "".join(parts)


def title(path: Path) -> str:
    """The heading of a page, as the text of links to it that name only the file."""
    found = re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.M)
    assert found is not None, path
    return found[1].partition(": ")[0] if len(found[1]) > 40 else found[1]


def public_names(module: str) -> list[str]:
    return sorted(importlib.import_module(module).__all__)


def is_of_the_codec(module: str, name: str) -> bool:
    return hasattr(importlib.import_module(f"{module}._codec"), name)


def directive(module: str, names: list[str] | tuple[str, ...], level: int = 2) -> str:
    members = "".join(f"\n        - {name}" for name in names)
    return f"::: {module}\n    options:\n      heading_level: {level}\n      members:{members}\n"


def api_pages() -> dict[str, str]:
    """Page -> text: the public names of each module, with their signatures and docstrings."""
    found: dict[str, str] = {}
    for page, (title, modules) in API.items():
        parts = [f"# {title}\n"]
        for module, names in modules.items():
            if len(modules) > 1:
                parts.append(f"## {module} {{ #module-{module.replace('.', '-')} }}\n")
            parts.append(directive(module, names or public_names(module), 3 if len(modules) > 1 else 2))
        found[page] = "\n".join(parts)
    for name, title in PROTOCOLS.items():
        module = f"wirefmt.{name}"
        names = public_names(module)
        codec = [n for n in names if is_of_the_codec(module, n)]
        others = [n for n in names if n not in codec]
        found[f"api-{name}"] = (
            f"# {module}: messages\n\nWhat is read and written: [{name}.md]({name}.md). Clients, servers and connections: "
            f"[their own page](api-{name}-connections.md).\n\n{directive(module, codec)}"
        )
        found[f"api-{name}-connections"] = (
            f"# {module}: connections\n\nClients and servers on asyncio: [{name}-asyncio.md]({name}-asyncio.md). "
            f"{title} messages: [their own page](api-{name}.md).\n\n{directive(module, others)}"
        )
    return found


def api_nav() -> str:
    pages = [f'{{ "{API[page][0].partition(":")[0]}" = "{page}.md" }}' for page in API]
    pages += [
        f'{{ "wirefmt.{name}" = [{{ "{name}: messages" = "api-{name}.md" }}, '
        f'{{ "{name}: connections" = "api-{name}-connections.md" }}] }}'
        for name in PROTOCOLS
    ]
    return f"[{', '.join(pages)}]"


def commands() -> str:
    """The commands with their options, from the program itself."""
    from wirefmt.cli.app import wirefmt as group  # type: ignore[attr-defined]

    parts = ["# Commands and options\n", "Generated from the program. What they do and print: [cli.md](cli.md).\n"]
    context = group.make_context("wirefmt", [], resilient_parsing=True)
    for name in group.list_commands(context):
        command: Any = group.get_command(context, name)
        inner = command.make_context(f"wirefmt {name}", [], resilient_parsing=True)
        usage = command.get_usage(inner).strip().removeprefix("Usage: ")
        parts.append(f"## wirefmt {name}\n\n{plain(command.help or '')}\n\n```text\n{usage}\n```\n")
        rows = [
            (
                ", ".join(f"`{o}`" for o in (*option.opts, *option.secondary_opts)),
                kind(option),
                plain(option.help or ""),
            )
            for option in command.params
            if option.param_type_name == "option" and not option.hidden
        ]
        parts += ["| option | value | |\n|---|---|---|"] if rows else []
        parts += [f"| {names} | {value} | {text} |" for names, value, text in rows]
        parts.append("")
    return "\n".join(parts)


def kind(option: Any) -> str:
    if option.is_flag:
        return ""
    choices = getattr(option.type, "choices", None)
    text = ", ".join(f"`{c}`" for c in choices) if choices else (option.metavar or option.type.name)
    default = option.default
    shown = isinstance(default, str | int | float) and not isinstance(default, bool) and str(default)
    return f"{text}, default `{default}`" if shown else text


def plain(text: str) -> str:
    """Help text as Markdown: rich's marks removed, blocks that are kept as they are (\\b) as code."""
    text = inspect.cleandoc(text)
    parts = re.split(r"\n\n", re.sub(r"\[/?(?:b|i|dim|bold)\]", "", text))
    made = [
        "```sh\n" + part.removeprefix("\b\n") + "\n```"
        if part.startswith("\b")
        else part.replace("\n", " ").replace("|", "\\|")
        for part in parts
    ]
    return "\n\n".join(made).replace("**", "`**`").replace("<", "&lt;")


def fetch(package: str, version: str, member: str, digest: str) -> Path | None:
    """A script from npm's registry, kept in build/scripts; None where there is no npm or no network."""
    folder = ROOT / "build" / "scripts"
    script = folder / f"{package}-{version}.js"
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / f"{package}-{version}.tgz"
        if shutil.which("npm") is None:
            return None
        subprocess.run(
            ["npm", "pack", "--silent", f"{package}@{version}"], cwd=folder, capture_output=True, check=False
        )
        if not archive.exists():
            return None
        with tarfile.open(archive) as tar:
            source = tar.extractfile(f"package/{member}")
            assert source is not None
            text = source.read()
        archive.unlink()
        if hashlib.sha256(text).hexdigest() != digest:
            raise SystemExit(f"{package} {version} is not the file that SCRIPTS names")
        script.write_bytes(text)
    return script


def stage() -> None:
    shutil.rmtree(OUT / "pages", ignore_errors=True)
    (OUT / "pages" / "assets").mkdir(parents=True)
    known = pages()
    for source, page in known.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        (OUT / "pages" / page).write_text(staged(source, text, known), encoding="utf-8")
    api = api_pages()
    for page, text in {**api, "commands": commands()}.items():
        made = staged(f"docs/{page}.md", text, known | {f"docs/{name}.md": f"{name}.md" for name in api})
        (OUT / "pages" / f"{page}.md").write_text(made, encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "images", OUT / "pages" / "images")
    shutil.copy(HERE / "extra.css", OUT / "pages" / "assets" / "extra.css")
    settings = (HERE / "zensical.toml").read_text(encoding="utf-8")
    for word, value in {
        '"EXTENSION"': json.dumps(str(HERE / "docstrings.py")),
        "PATHS": json.dumps([str(ROOT / "src"), str(ROOT / "spark")]),
        "= API }": f"= {api_nav()} }}",
    }.items():
        assert settings.count(word) == 1, word
        settings = settings.replace(word, value)
    (OUT / "zensical.toml").write_text(settings, encoding="utf-8")


def build() -> None:
    shutil.rmtree(OUT / "html", ignore_errors=True)
    told = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=OUT, check=False)
    if told.returncode:
        raise SystemExit(told.returncode)
    folder = OUT / "html" / "assets" / "javascripts"
    for package, version, member, digest, address in SCRIPTS:
        script = fetch(package, version, member, digest)
        if script is None:
            print(f"{package} cannot be fetched from npm: pages load it from the network", file=sys.stderr)
            continue
        shutil.copy(script, folder)
        replaced = 0
        for path in (*(OUT / "html").glob("*.html"), *folder.glob("bundle.*.js")):
            text, number = re.subn(address, f"assets/javascripts/{script.name}", path.read_text(encoding="utf-8"))
            replaced += number
            path.write_text(text, encoding="utf-8")
        assert replaced, f"the theme loads {package} in another way"


def check() -> list[str]:
    """What is wrong with the built pages: links to what does not exist, and what a page loads from the network."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in (OUT / "html").glob("*.html")}
    texts.pop("404.html")  # its links begin at the address of the site
    anchors = {name: set(re.findall(r'\sid="([^"]*)"', text)) for name, text in texts.items()}
    wrong = []
    for name, text in texts.items():
        for link in re.findall(r'\s(?:href|src)="([^"]*)"', text):
            path, _, anchor = unquote(unescape(link)).partition("#")
            if re.match(r"[a-z]+:|//", link):
                continue
            target = path or name
            if not (OUT / "html" / target).exists() or (anchor and target in anchors and anchor not in anchors[target]):
                wrong.append(f"{name}: a link to {link}")
        for tag, address in re.findall(r'<(script|img|link)\s[^>]*?\b(?:src|href)="(https?:[^"]*)"', text):
            # `build` has said which scripts it could not fetch; a link that is not a stylesheet is not loaded
            if not any(re.match(script[-1], address) for script in SCRIPTS) and (
                tag != "link" or address.endswith(".css")
            ):
                wrong.append(f"{name}: loads {address}")
    return wrong


if __name__ == "__main__":
    stage()
    build()
    if wrong := check():
        raise SystemExit("\n".join(wrong))
    print(OUT / "html" / "index.html")
