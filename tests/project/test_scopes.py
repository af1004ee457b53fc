"""What shares a broker or a session of Spark is one scope, and every test is given to one worker once."""

from __future__ import annotations

import re
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from lib.paths import ROOT

pytest.importorskip("xdist", reason="needs pytest-xdist (pip install pytest-xdist)")

from lib.parts import PARTS, part_of
from lib.scopes import BUILDS, MEASURING, WAITING, Scopes, kind_of, place_of, scope_of

FILES = {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}
TESTS = [
    f"{file}::{name}[0]"
    for file, text in FILES.items()
    for name in re.findall(r"^(?:async )?def (test_\w+)", text, re.M)
]


def asking_for(fixture: str) -> set[str]:
    """Names of tests that ask for it."""
    asked = re.compile(rf"^(?:async )?def (test_\w+)\((?:[^)]*\W)?{fixture}\W", re.M)
    return {f"{file}::{name}[0]" for file, text in FILES.items() for name in asked.findall(text)}


def files_with(fixture: str) -> set[str]:
    """Files whose tests or fixtures ask for it, and do not have one of their own by this name."""
    asked = re.compile(rf'^(?:async )?def \w+\((?:[^)]*\W)?{fixture}\W[^)]*\)|getfixturevalue\("{fixture}"\)', re.M)
    return {file for file, text in FILES.items() if asked.search(text) and f"def {fixture}(" not in text}


def test_one_broker_and_one_session_of_spark() -> None:
    with_rabbitmq = files_with("rabbitmq") | {
        file for file in files_with("proxy") if file.startswith("tests/live/test_rabbitmq")
    }
    assert {scope_of(f"{file}::test") for file in with_rabbitmq} == {"RabbitMQ"}
    assert with_rabbitmq == set(WAITING["RabbitMQ"])
    assert files_with("spark") == set(WAITING["Spark"])
    assert {scope_of(test) for test in asking_for("rabbitmq4")} == {"RabbitMQ 4"}


def test_there_is_what_the_tables_name() -> None:
    for begin in (*BUILDS, *MEASURING, *(begin for begins in WAITING.values() for begin in begins)):
        assert any(nodeid.startswith(begin) for nodeid in TESTS), begin


def test_what_waits_for_other_programs_is_not_in_the_part_that_is_wirefmt_alone() -> None:
    assert {part_of(test) for test in TESTS} == set(PARTS)
    for test in TESTS:
        kind = {"waiting": "live", "builds": "builds"}.get(kind_of(test), "test")
        assert part_of(test) == kind, test


def test_fixtures_of_a_file_that_is_shared_out_are_not_started_twice() -> None:
    """Tests with the same fixture of test_recovery.py are of the same scope."""
    text = FILES["tests/live/test_recovery.py"]
    for fixture in re.findall(r'scope="module"\)\ndef (\w+)', text):
        tests = re.findall(rf"^def (test_\w+)\([^)]*\b{fixture}: ", text, re.M)
        assert len({scope_of(f"tests/live/test_recovery.py::{test}[0]") for test in tests}) == 1, fixture


class Node:
    """A worker that notes what it was given."""

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.given += numbers

    def shutdown(self: Any) -> None:
        self.shutting_down = True


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_test_runs_once(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xdist.scheduler.loadscope.parse_tx_spec_config", lambda config: range(workers))
    log: Any = SimpleNamespace(loadscopesched=lambda *_: None)
    scopes = Scopes(SimpleNamespace(option=SimpleNamespace(loadscopereorder=True)), log)
    scopes.patient = workers // 2
    collection = sorted(TESTS, key=place_of)
    nodes: list[Any] = [Node(number) for number in range(workers)]
    for node in nodes:
        scopes.add_node(node)
        scopes.add_node_collection(node, collection)
    scopes.schedule()
    assert [kind_of(collection[node.given[0]]) for node in nodes[: scopes.patient]] == ["waiting"] * scopes.patient
    assert all(kind_of(collection[node.given[0]]) == "builds" for node in nodes[scopes.patient :] if workers > 1)
    done = dict.fromkeys(nodes, 0)
    while any(done[node] < len(node.given) for node in nodes):
        for node in nodes:
            if done[node] < len(node.given):
                scopes.mark_test_complete(node, node.given[done[node]])
                done[node] += 1
    given = Counter(number for node in nodes for number in node.given)
    assert given == Counter(range(len(collection)))
    assert scopes.tests_finished
    assert all(node.shutting_down for node in nodes)
    homes = [{scope_of(collection[number]) for number in node.given} for node in nodes]
    assert sum(map(len, homes)) == len(set().union(*homes))  # each scope has one worker
