"""docs/adding-a-protocol.md, followed to the letter in a copy of the sources: STOMP from a capture to rows."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lib.paths import ROOT

PAGE = (ROOT / "docs" / "adding-a-protocol.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`((?:src|tests)/\S+)`\n\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
ROW = re.search(r"^```text\n( {4}Protocol\(.*\n)```", PAGE, re.MULTILINE)

#: Folders of tests/ that are not copied.
LARGE = ("vectors", "data", "captures", "live")
#: Tests that go over every protocol of the registry.
SHARED = (
    "project/test_layout.py", "project/test_names.py", "project/test_constructors.py", "core/test_sniff.py",
    "core/test_objects.py", "capture/test_sniffing.py", "capture/test_order.py",
)  # fmt: skip


def test_it_is_short() -> None:
    """Lines of code: blank lines, comments and the first lines of docstrings are not counted."""
    files = [text for name, text in FILES.items() if name.startswith("src/wirefmt/")]
    code = [line.strip() for text in files for line in text.splitlines()]
    assert 300 < sum(bool(line) and not line.startswith(("#", '"""')) for line in code) < 400


@pytest.mark.timeout(1200)
def test_the_tutorial(tmp_path: Path) -> None:
    """One test, since workers of pytest would each build the tree for tests of their own."""
    tree = build(tmp_path)
    rows = [json.loads(line) for line in run(tree, "-c", ROWS, str(CONVERSATION)).splitlines()]
    check_what_the_client_sent(rows)
    check_what_the_server_answered(rows)
    run(tree, "-c", OCTETS)
    check_the_command_line(tree)
    check_the_shared_tests(tree)


def build(tree: Path) -> Path:
    pytest.importorskip("Cython", reason="needs Cython (pip install Cython)")
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc (apt install gcc)")
    for folder in ("src", "spark", "tools"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__"))
    shutil.copytree(ROOT / "tests", tree / "tests", ignore=shutil.ignore_patterns(*LARGE, "__pycache__"))
    for name in LARGE:
        (tree / "tests" / name).symlink_to(ROOT / "tests" / name)
    (tree / "samples").symlink_to(ROOT / "samples")
    (tree / "docs").mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tree / name)
    for name, text in FILES.items():
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")
    registry = tree / "src" / "wirefmt" / "protocols.py"
    assert ROW is not None
    rows, end, rest = registry.read_text(encoding="utf-8").partition("\n)\n\n\n")
    assert end
    registry.write_text(rows + "\n" + ROW.group(1).rstrip() + end + rest, encoding="utf-8")
    run(tree, "tools/gen_tables.py")
    environment = os.environ | {"WIREFMT_DEBUG": "1"}
    run(tree, "setup.py", "-q", "build_ext", "--inplace", environment=environment)
    return tree


def run(tree: Path, *command: str, environment: dict[str, str] | None = None) -> str:
    environment = dict(environment or os.environ, PYTHONPATH=f"{tree / 'src'}{os.pathsep}{tree / 'tests'}")
    done = subprocess.run([sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


#: A client without a library and RabbitMQ 3.10.8's STOMP plugin; packets of the loopback interface (tests/data/README.md).
CONVERSATION = ROOT / "tests" / "data" / "stomp" / "rabbitmq.pcap.gz"

ROWS = """
import json, sys
from wirefmt import capture
for batch in capture.read(sys.argv[1]):
    import pyarrow
    for row in pyarrow.record_batch(batch).to_pylist():
        fields = {name: value for name, value in (row["stomp"] or {}).items() if value is not None}
        print(json.dumps([row["protocol"], row["direction"], row["kind"], row["operation"], row["destination"], row["status"],
                          dict(row["headers"] or ()), fields, (row["payload"] or b"").decode()]))
"""


def check_what_the_client_sent(rows: list[list[Any]]) -> None:
    """Commands and headers as the recording client wrote them; of BOGUS, which is not a command, a row says so."""
    sent = [row for row in rows if row[1] == 0]
    assert {row[0] for row in rows} == {"stomp"}
    assert [(row[2], row[3], row[5]) for row in sent] == [
        ("CONNECT", "connect", "ok"), ("SUBSCRIBE", "subscribe", "ok"), ("SEND", "send", "ok"), ("SEND", "send", "ok"),
        ("ACK", "settle", "ok"), ("NACK", "settle", "ok"), ("BEGIN", "transact", "ok"), ("ABORT", "transact", "ok"),
        ("SEND", "send", "ok"), ("CONNECT", "connect", "ok"), (None, None, "malformed"), (None, None, "gap"),
    ]  # fmt: skip
    connect, subscribe, first, second = sent[:4]
    assert connect[6] == {
        "accept-version": "1.2",
        "host": "/",
        "login": "guest",
        "passcode": "***",
        "heart-beat": "0,0",
    }
    assert connect[7] == {"accept_version": "1.2", "host": "/", "heart_beat": "0,0"}
    assert subscribe[7] == {"id": "0", "ack": "client-individual", "receipt": "r1"}
    assert (first[4], first[6]["note"], first[8]) == ("/queue/orders", "a:b\nc\\d", "he\0lo")
    assert (second[6]["correlation-id"], second[6]["reply-to"], second[8]) == ("c-7", "/temp-queue/answers", "21.5")


def check_what_the_server_answered(rows: list[list[Any]]) -> None:
    answers = [row for row in rows if row[1] == 1]
    assert [row[2] for row in answers] == [
        "CONNECTED", "RECEIPT", "MESSAGE", "MESSAGE", "MESSAGE", "ERROR", "CONNECTED", "ERROR",
    ]  # fmt: skip
    assert answers[1][7] == {"receipt_id": "r1"}
    assert [(row[6].get("note"), row[6]["redelivered"], row[8]) for row in answers[2:5]] == [
        ("a:b\nc\\d", "false", "he\0lo"), (None, "false", "21.5"), (None, "true", "21.5"),
    ]  # fmt: skip
    assert answers[7][8] == 'Could not interpret command "BOGUS"\n'


#: The examples are the specification's rules: STOMP Frames, Value Encoding, Repeated Header Entries.
OCTETS = r"""
import random, sys
from wirefmt import capture, stomp
from wirefmt.errors import DecodeError, Truncated
frames = [b"CONNECT\naccept-version:1.2\nhost:/\n\n\0", b"SEND\r\ndestination:/q\r\ncontent-length:3\r\n\r\na\0b\0",
          b"MESSAGE\nk:a\\cb\nk:2\n\nbody\0", b"DISCONNECT\n\n\0"]
stream = b"\n".join(frames) + b"\r\n"
assert [f.encode() for f in stomp.Decoder().feed(stream)] == frames
for size in (1, 2, 7):
    decoder = stomp.Decoder()
    found = [f for i in range(0, len(stream), size) for f in decoder.feed(stream[i : i + size])]
    assert [f.encode() for f in found] == frames
    decoder.close()
assert [f.command for f in found] == ["CONNECT", "SEND", "MESSAGE", "DISCONNECT"]
assert found[1].body == b"a\0b" and found[2].headers == (("k", "a:b"), ("k", "2"))
batch = stomp.decode_batch(stream + b"SEND\n")
assert (batch.num_rows, batch.rest) == (4, 5)
for frame in frames:                       # a frame that is cut is Truncated, wherever
    for i in range(len(frame)):
        try:
            stomp.decode(frame[:i])
        except Truncated:
            continue
        raise AssertionError(frame[:i])
for wrong in (b"SEND\nno colon\n\n\0", b"SEND\na:\\t\n\n\0", b"SEND\na:\xff\n\n\0", b"SEND\ncontent-length:x\n\n\0",
              b"SEND\n\na\0b\0", b"SEND\ncontent-length:1\n\nab\0", b"PUBLISH\n\n\0"):
    try:
        stomp.decode(wrong)
    except DecodeError as error:
        assert error.spec and not isinstance(error, Truncated), error
    else:
        raise AssertionError(wrong)
r = random.Random(7)
for _ in range(20000):                     # any octets: a value or a DecodeError
    octets = bytearray(r.choice(frames) * r.randrange(1, 3))
    for _ in range(r.randrange(4)):
        octets[r.randrange(len(octets))] = r.randrange(256)
    for read in (stomp.decode, lambda o: stomp.Decoder().feed(o), stomp.decode_batch):
        try:
            read(bytes(octets))
        except DecodeError:
            pass
"""


def check_the_command_line(tree: Path) -> None:
    shown = run(tree, "-m", "wirefmt.cli", "decode", "--protocol", "stomp", str(CONVERSATION))
    assert "RECEIPT" in shown
    assert "guest" not in shown.replace("login", "").split("passcode")[-1]


def check_the_shared_tests(tree: Path) -> None:
    """Those of STOMP, the walks over all objects, and what the stub says."""
    files = [f"tests/{name}" for name in SHARED]
    chosen = "stomp or test_every_protocol or test_there_are_constructors or test_nothing_crashes"
    run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", chosen)
    if find_spec("mypy") is None:
        return
    options = ("--mypy-config-file", "pyproject.toml", "--ignore-unused-allowlist")
    allowed = ("--allowlist", "tests/project/stubtest_allowlist.txt")
    run(tree, "-m", "mypy.stubtest", "wirefmt.stomp._codec", "--concise", *options, *allowed)
