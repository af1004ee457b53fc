"""Clients' own test suites, unchanged, against the broker in memory.

The tables `suites/*.toml` say which tests of a suite run, and which do not pass and why. `suites/fetch.py` fetches the suites.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.live
SUITES = Path(__file__).resolve().parent / "suites"
SPECS = {path.stem: tomllib.loads(path.read_text()) for path in sorted(SUITES.glob("*.toml"))}
FETCHED = os.environ.get("WIREFMT_SUITES")
#: The suites that run, separated by commas, with their slow tests. "all": all suites.
ASKED = os.environ.get("SUITES", "")
#: Some of these tests have time limits of a millisecond. A test that fails is tried again, and fails if every try fails.
TRIES = 3
#: A separate network and separate mounts. All processes end with the first one.
UNSHARE = ["unshare", "--map-root-user", "--net", "--mount", "--fork", "--pid", "--kill-child"]


def runs(name: str) -> bool:
    if ASKED:
        return ASKED == "all" or name in ASKED.split(",")
    return "on_demand" not in SPECS[name]


def folder(name: str) -> Path | None:
    """The folder of the suite, or None if it is not available. In a checkout the program must have the hash of the table."""
    source = SPECS[name]["source"]
    if "checkout" not in source:
        return Path(FETCHED, name) if FETCHED and Path(FETCHED, name).exists() else None
    checkout = os.environ.get(source["checkout"])
    if not checkout:
        return None
    found = hashlib.sha256(Path(checkout, source["program"]).read_bytes()).hexdigest()
    assert f"sha256:{found}" == source["hash"], f"{checkout} is not at {source['commit']}"
    return Path(checkout)


def run(name: str, work: Path) -> tuple[dict[str, str], str, str]:
    """Run a suite. Returns the outcome of each test, the output of the suite and the output of the broker."""
    work.mkdir(exist_ok=True)
    command = [
        *UNSHARE,
        sys.executable,
        str(SUITES / "host.py"),
        str(SUITES / f"{name}.toml"),
        str(folder(name)),
        str(work),
    ]
    host = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1200)
    result, output = work / "result.json", work / "output.txt"
    return (
        json.loads(result.read_text()) if result.exists() else {},
        output.read_text(errors="replace") if output.exists() else "",
        host.stdout + host.stderr,
    )


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Future[tuple[dict[str, str], str, str]]]]:
    """The runs of all suites that are fetched and selected. Each has its own network, and two run at a time: they mostly wait."""
    if shutil.which(UNSHARE[0]) is None or subprocess.run([*UNSHARE, "true"], capture_output=True).returncode:
        pytest.skip("needs unshare (apt install util-linux, and the right to make a network namespace)")
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl (apt install openssl)")
    with ThreadPoolExecutor(2) as pool:
        yield {
            name: pool.submit(run, name, tmp_path_factory.mktemp(name)) for name in SPECS if runs(name) and folder(name)
        }


@pytest.mark.parametrize("name", [name for name in SPECS if runs(name)])
def test_suite(name: str, running: dict[str, Future[tuple[dict[str, str], str, str]]], tmp_path: Path) -> None:
    if name not in running:
        source = SPECS[name]["source"]
        if "checkout" in source:
            pytest.skip(f"needs a checkout of {source['repository']} ({source['checkout']}=DIR)")
        pytest.skip("needs clients' suites (python tests/live/suites/fetch.py DIR; WIREFMT_SUITES=DIR)")
    spec = SPECS[name]
    expected: dict[str, str] = spec.get("skipped", {})
    outcomes, output, said = running[name].result()
    for tried in range(TRIES):
        if tried:
            again, output, said = run(name, tmp_path / str(tried))
            outcomes |= {test: outcome for test, outcome in again.items() if outcomes.get(test) != "passed"}
        report = f"\n{said}\n{output[-8000:]}"
        assert said == "", report  # no host of the broker raised
        assert outcomes, report
        failed = {test for test, outcome in outcomes.items() if outcome != "passed"}
        unexpected = sorted(f"{outcomes[test]} {test}" for test in failed if not listed(test, expected))
        if not unexpected:
            break
    assert not unexpected, report
    better = {pattern for pattern in expected if not any(listed(test, [pattern]) for test in failed)}
    assert not better, f"these pass, or do not exist: {sorted(better)}"
    assert len(outcomes) - len(failed) >= spec["passes"], report


def listed(test: str, patterns: Any) -> bool:
    """Whether there is an entry for this test: its name, in which a star is any text."""
    return any(re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), test, re.DOTALL) for pattern in patterns)


def test_tables_say_what_runs_and_why() -> None:
    """Two suites of each protocol run by default, but one of RocketMQ: the other clients have no tests with a broker."""
    by_default: dict[str, int] = {}
    for name, spec in SPECS.items():
        assert spec["source"]["hash"], name
        for table in ("skipped", "slow"):
            assert all(reason for reason in spec.get(table, {}).values()), name
        by_default[spec["protocol"]] = by_default.get(spec["protocol"], 0) + ("on_demand" not in spec)
    assert set(by_default) == {"MQTT", "AMQP 0.9.1", "AMQP 1.0", "NSQ", "RocketMQ"}
    assert all(number >= (1 if protocol == "RocketMQ" else 2) for protocol, number in by_default.items()), by_default
