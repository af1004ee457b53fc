"""The parts of the tests, each a goal of the Makefile. `make test live builds` is all of them, in one run of pytest."""

from __future__ import annotations

#: Part -> how the names of its files begin. Files that are in no other part are "test": what wirefmt shows by itself.
PARTS = {
    "test": (),
    # with other programs: brokers, clients and their suites, Spark, and what README says to run
    "live": ("tests/live/", "tests/spark/", "tests/project/test_readme.py"),
    # that compute for long in programs of their own: compilers, type checkers, benchmarks
    "builds": tuple(f"tests/project/test_{name}.py" for name in ("adding_a_protocol", "stubs", "benches")),
}


def part_of(nodeid: str) -> str:
    return next((part for part, begins in PARTS.items() if nodeid.startswith(begins)), "test")
