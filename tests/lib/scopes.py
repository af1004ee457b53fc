"""Which tests run beside which, with several workers of pytest-xdist.

A scope is what one worker runs, one test after another: a file, some tests of a file, or files that share a broker or a session
of Spark. Ports are those of a worker (lib/ports.py), and each scope starts its own programs, so scopes do not meet.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from xdist.scheduler import LoadScopeScheduling

from lib.parts import PARTS

#: Tests that start brokers, clients or Spark, and wait for them more than they compute: name -> how their node ids begin. What
#: takes longest is first.
WAITING = {
    "RabbitMQ": tuple(
        f"tests/live/test_{name}.py"
        for name in (
            "amqp091_wrong_states", "amqp10_client", "mqtt_clients", "rabbitmq", "rabbitmq_amqp10", "rabbitmq_asyncio",
            "rabbitmq_client", "rabbitmq_client10",
        )
    ),
    "RocketMQ": ("tests/live/test_rocketmq.py",),
    "suites": ("tests/live/test_client_suites.py",),
    "RabbitMQ 4": (
        "tests/live/test_rabbitmq4.py", "tests/live/test_broker_crossing.py::test_rabbitmq_4_agrees",
        "tests/live/test_recovery.py::test_rabbitmq_4[",
        "tests/live/test_recovery.py::test_a_bad_link_ends_a_session_of_rabbitmq_4",
    ),
    "troubled Artemis": ("tests/live/test_recovery.py::test_artemis[",),
    "troubled mosquitto": ("tests/live/test_recovery.py::test_mosquitto[",),
    "troubled nsqd": ("tests/live/test_recovery.py::test_three_nsqd_and_a_lookup[",),
    "troubled RabbitMQ": ("tests/live/test_recovery.py",),
    "Spark": tuple(
        f"tests/spark/test_{name}.py"
        for name in ("convert", "needs", "parquet", "plan", "shuffle", "source", "stream", "tables", "tls")
    ),
    "clusters of Spark": ("tests/spark/",),
    "README": ("tests/project/test_readme.py",),
}  # fmt: skip
#: The others, each file of them a scope.
LIVE = "tests/live/"
#: First, so that nothing waits for them at the end. (test_pages.py comes later: mypy has in its cache by then what the linters
#: beside the tests have read.)
BUILDS = PARTS["builds"]
#: Tests that measure memory or watch the collector: early, so that their worker has done little else before.
MEASURING = (
    "tests/core/test_leaks",
    "tests/core/test_objects.py",
    "tests/core/test_arrow.py",
    "tests/capture/test_memory.py",
)
#: Each kind of a scope, in the order in which they begin.
KINDS = ("waiting", "builds", "measuring", "rest")


def scope_of(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return next((name for name, begins in WAITING.items() if nodeid.startswith(begins)), file)


def kind_of(nodeid: str) -> str:
    if scope_of(nodeid) in WAITING or nodeid.startswith(LIVE):
        return "waiting"
    if nodeid.startswith(BUILDS):
        return "builds"
    return "measuring" if nodeid.startswith(MEASURING) else "rest"


def place_of(nodeid: str) -> tuple[int, int]:
    """To sort by: what begins first. Tests with the same place keep the order that they have."""
    names = list(WAITING)
    name = scope_of(nodeid)
    return KINDS.index(kind_of(nodeid)), names.index(name) if name in names else len(names)


class Scopes(LoadScopeScheduling):
    """Some workers begin with the scopes that wait, the others with those that compute, so that all processors have work."""

    def __init__(self, config: Any, log: Any = None) -> None:
        config.option.loadscopereorder = False  # the order is that of the items
        super().__init__(config, log)
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.patient = max(1, self.numnodes - processors)  # workers that begin with what waits
        self.numbers: dict[str, int] = {}  # node id -> its number in the collection, which all workers share

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        if not self.numbers:
            assert self.collection
            self.numbers = {nodeid: number for number, nodeid in enumerate(self.collection)}
        patient = int(node.gateway.id.removeprefix("gw")) < self.patient
        scope = next((s for s, tests in self.workqueue.items() if waits(tests) == patient), next(iter(self.workqueue)))
        tests = self.assigned_work[node][scope] = self.workqueue.pop(scope)
        node.send_runtest_some([self.numbers[nodeid] for nodeid, done in tests.items() if not done])

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        """This is asked after each test: scopes that are done are dropped, not counted again."""
        for scope in [scope for scope, tests in workload.items() if all(tests.values())]:
            del workload[scope]
        return super()._pending_of(workload)


def waits(tests: Sequence[str] | dict[str, bool]) -> bool:
    return kind_of(next(iter(tests))) == "waiting"
