"""Activate the planted faults of plant.py one at a time, and report those that no test notices.

    make mutants                          all of them
    make mutants MUTANTS="--room amqp10"  those in rooms whose names begin so; "--room other": those in rooms of no protocol
    make mutants MUTANTS="3f0a1b2c"       by identifier; --part N --seed S: N at random, in one protocol or in captures
    make mutants MUTANTS="--tests 'nsq/*' 9a7208e8"  with these test files only, to try a new test

One process collects the tests, runs them once without a fault, and records which sites each test reaches (mutant.h). Then
each fault gets a fork of that process, which activates it and runs the tests of its rooms that reach its site, the fastest first,
until one fails. A fault in code that runs only at import gets a process of its own. A failing test, a crash, a hang and running
out of memory all count as noticed. The fuzz targets are among the tests (fuzz/test_targets.py): their seeds and some mutations
of them.

survivors.txt lists the faults that no test can notice or that we decided to accept, each with its reason. The exit status
is 1 if a fault survives that is not in it, if a fault in it is noticed, or if a fault in it is no longer planted.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "src"))  # plain modules alone: the compiled ones are in BUILD

from wirefmt.protocols import PROTOCOLS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "mutants"
LEAKS = "connection/test_leaks*"
#: Rooms of a protocol's connections, and the tests that reach all of them: those of a client and a server. An AMQP has more of
#: both; its tests of the page and of captures of other clients are left out.
CONNECTIONS = {row.name: (("connection",), (LEAKS, f"connection/test_{row.name}_[cs]*")) for row in PROTOCOLS} | {
    "amqp091": (("connection", "channels", "tags"), (LEAKS, "connection/test_amqp091_[c-lr-t]*",
                                                     "connection/test_amqp091_publishing*")),
    "mqtt": (("deliveries", "arrivals", "connection"), (LEAKS, "connection/test_mqtt_[cs]*")),
    "amqp10": (("connection", "links"), (LEAKS, "connection/test_amqp10_[rs]*")),
}  # fmt: skip
#: Tests of a protocol's codec outside its folder.
BEYOND = {
    "mqtt": ("core/test_table*", "capture/test_sniffing*", "capture/test_resync*", "capture/test_parts*"),
    "amqp091": ("capture/test_amqp*", "capture/test_parts*"),
    "amqp10": ("capture/test_amqp*", "capture/test_resync*", "capture/test_parts*"),
    "nsq": ("capture/test_resync*", "capture/test_parts*"),
    "phpmq": ("capture/test_sniffing*",),
}
#: Prefixes of rooms' names, and the tests about them. The first match counts; "": all other rooms.
ROOMS = {
    "_core/connection": ("connection/test_tools*", LEAKS, "connection/test_mqtt_s*"),
    **{f"{name}/{room}": tests for name, (rooms, tests) in CONNECTIONS.items() for room in rooms},
    **{row.name: (f"{row.name}/*", *BEYOND.get(row.name, ())) for row in PROTOCOLS},
    "convert": ("convert/*",),
    "capture/packets": ("capture/test_packets*", "capture/test_hashes*", "capture/test_threads*"),
    **{
        f"capture/{room}": ("capture/test_pcapfile*", "capture/test_formats*", "capture/test_split*")
        for room in ("formats", "chains", "pcapfile", "records")
    },
    "capture/segments": ("capture/test_segments*", "capture/test_vlan*", "capture/test_streams*"),
    "capture/scanner": ("capture/test_split*", "capture/test_hashes*", "capture/test_packets*"),
    "capture/resync": (
        "capture/test_boundary_search*", "capture/test_resync*", "capture/test_websocket*", "capture/test_streams*",
    ),
    "capture/flows": ("capture/test_reassembly*", "capture/test_order*", "capture/test_memory*", "capture/test_hashes*"),
    "capture/reassembly": ("capture/test_reassembly*", "capture/test_order*", "capture/test_memory*", "capture/test_hashes*"),
    "capture/deliveries": ("capture/test_reassembly*", "capture/test_order*", "capture/test_memory*", "capture/test_hashes*"),
    "capture/transport": ("insight/*",),
    "capture/trace": ("capture/test_reassembly*", "capture/test_order*", "capture/test_memory*", "capture/test_hashes*"),
    "capture/websocket": ("capture/test_websocket*", "capture/test_streams*"),
    "capture/": ("capture/*", *(f"{row.name}/test_captures*" for row in PROTOCOLS)),
    "insight/": ("insight/*",),
    "": (
        "core/test_arrow*", "core/test_table*", "capture/test_hashes*", "mqtt/test_batch*", "mqtt/test_messages*", "nsq/*",
        "phpmq/*",
    ),
}  # fmt: skip
ALWAYS = (
    "core/test_columns*", "core/test_detail*", "core/test_encode_batch*", "core/test_equality*", "core/test_floats*",
    "core/test_leaks_of_texts*", "core/test_nesting*", "core/test_secrets*", "core/test_text_of_values*", "capture/test_rows*",
)  # fmt: skip
#: Tests that are not about the core, and tests that read every capture.
APART = (
    "mqtt/test_captures.py",
    "convert/test_dialects_page.py",
    "capture/test_recorded.py",
    "capture/test_robustness.py",
)
#: Names of tests that no fork can run: polars waits for threads that only the parent has, and a hang would count as noticed.
NOT_IN_A_FORK = ("polars",)
TEST_S = 15  # CPU time: a slower test runs for no fault
FAULT_S = 60  # CPU time and number of tests, for one fault
HANG_S = 30  # CPU time of one test; WAIT_S is its wall time
WAIT_S = 300
#: Tests that notice most faults run first. Memory tests are slow and run last, but only they notice leaks: of calls that
#: only free memory they are the only tests, of others that drop something they are the first.
TELLING = ("test_columns", "test_equality", "test_nesting")
MEMORY_TESTS = ("test_leaks", "test_memory")
MEMORY_CALL = re.compile(r"free|Py_X?DECREF|PyBuffer_Release")  # others remove entries from a list
MEMORY = 6 << 30


def explained() -> dict[str, str]:
    """Identifier -> reason."""
    found = {}
    for line in (HERE / "survivors.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            identifier, _, rest = line.partition(" ")
            found[identifier] = rest.rpartition(" | ")[2]
    return found


def group_of(room: str) -> str:
    return next(prefix for prefix in ROOMS if room.startswith(prefix))


def files_for(groups: set[str], only: list[str] | None) -> list[Path]:
    """The tests of groups of rooms, and the fuzz targets; or those of the patterns `only`."""
    if only:
        return sorted({path for pattern in only for path in (ROOT / "tests").glob(pattern)})
    patterns = {pattern for group in groups for pattern in ROOMS[group]} | set(ALWAYS)
    found = {path for pattern in patterns for path in (ROOT / "tests").glob(pattern) if path.match("test_*.py")}
    kept = sorted(path for path in found if not any(path.match(name) for name in APART))
    return [*kept, ROOT / "fuzz" / "test_targets.py"]


class Runner:
    """A plugin of pytest: loops over faults in place of tests."""

    def __init__(
        self, sites: list[tuple[int, dict[str, Any]]], listed: dict[str, str], patterns: list[str] | None
    ) -> None:
        self.sites = sites
        groups = {group_of(site["room"]) for _, site in sites}
        self.files = {group: files_for({group}, patterns) for group in groups}
        self.listed = listed
        self.survivors: list[tuple[dict[str, Any], str]] = []
        self.noticed_though_listed: list[tuple[dict[str, Any], str]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """After tests/conftest.py, which loads a profile of its own, and before the tests, which take theirs from it."""
        quiet_hypothesis()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.modules = [ctypes.CDLL(str(path)) for path in (BUILD / "src").rglob("*.so")]
        self.items = [item for item in session.items if not any(name in item.nodeid for name in NOT_IN_A_FORK)]
        numbers = [number for number, _ in self.sites]
        reach = self.baseline(self.items, numbers)
        began = time.monotonic()
        for count, (number, site) in enumerate(self.sites, 1):
            tests = reach[number]
            if tests:
                what = self.wake(number, tests)
            elif number in self.early:
                what = self.alone(number, self.files[group_of(site["room"])])
            else:
                what = "not reached"
            survived = what.startswith(("survived", "not reached"))
            listed = site["identifier"] in self.listed
            if survived and not listed:
                self.survivors.append((site, what))
            elif listed and not survived:
                self.noticed_though_listed.append((site, what))
            mark = "explained" if survived and listed else ""
            print(f"{count}/{len(self.sites)} {title(site)}: {what} {mark}", flush=True)
        print(f"{len(self.sites)} faults in {time.monotonic() - began:.0f} s", flush=True)
        return True

    def reached(self) -> list[Any]:
        """The records of mutant.h in each module."""
        size = max(number for number, _ in self.sites) + 1
        return [(ctypes.c_ubyte * size).in_dll(module, "wirefmt_reached") for module in self.modules]

    def baseline(self, items: list[Any], numbers: list[int]) -> dict[int, list[tuple[float, int]]]:
        """For each fault the tests that reach its site, as (seconds, index among the items)."""
        reach: dict[int, list[tuple[float, int]]] = {number: [] for number in numbers}
        flags = self.reached()
        self.early = {number for number in numbers if any(module[number] for module in flags)}
        theirs: dict[str, set[int]] = {}  # by group of rooms, the faults that a file of tests is for
        for number, site in self.sites:
            theirs.setdefault(group_of(site["room"]), set()).add(number)
        began = time.monotonic()
        for place, item in enumerate(items):
            for module in flags:
                ctypes.memset(module, 0, len(module))
            start = time.process_time()
            reports = run(item, items[place + 1] if place + 1 < len(items) else None)
            seconds = time.process_time() - start
            if any(report.failed for report in reports):
                print(f"fails with no fault awake, and is left out: {item.nodeid}", flush=True)
                print(next(str(r.longrepr) for r in reports if r.failed)[-3000:], flush=True)
                continue
            if seconds < TEST_S:
                meant = [number for group in theirs if item.path in self.files[group] for number in theirs[group]]
                for number in meant:
                    if any(module[number] for module in flags):
                        reach[number].append((seconds, place))
        for number, site in self.sites:
            names = {place: items[place].nodeid for _, place in reach[number]}
            if site["kind"] == "free" and MEMORY_CALL.search(site["change"]):
                reach[number] = [test for test in reach[number] if is_of_memory(names[test[1]])]
            reach[number].sort(key=lambda test: order(names[test[1]], site["kind"] == "free", *test))
        print(f"{len(items)} tests in {time.monotonic() - began:.0f} s", flush=True)
        return reach

    def wake(self, number: int, tests: list[tuple[float, int]]) -> str:
        """Run the tests of a fault and return the outcome."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os._exit(self.child(number, tests, writer))
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            said = pipe.read().decode().splitlines()
        _, status = os.waitpid(child, 0)
        test = said[-1] if said else "?"
        if os.WIFSIGNALED(status):
            return f"noticed, signal {os.WTERMSIG(status)}: {test}"
        code = os.WEXITSTATUS(status)
        return f"survived {len(said)} of {len(tests)} tests" if code == 0 else f"noticed: {test}"

    def alone(self, number: int, files: list[Path]) -> str:
        """The outcome of a fault in code that runs at import: in a process of its own."""
        environment = os.environ | {"WIREFMT_MUTANT": str(number)}
        files = sorted(files, key=lambda path: (path.parent.name != "core", path))
        arguments = [
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:timeout",
            "-o",
            "addopts=",
            "--rootdir",
            str(ROOT),
            "--import-mode=importlib",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments, *map(str, files)], env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return "survived all tests, from import on" if done.returncode == 0 else f"noticed: {''.join(failed[:1])}"

    def child(self, number: int, tests: list[tuple[float, int]], writer: int) -> int:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        for module in self.modules:
            ctypes.c_int.in_dll(module, "wirefmt_mutant").value = number
        os.environ["WIREFMT_MUTANT"] = str(number)
        end = time.process_time() + FAULT_S
        for place, (_, index) in enumerate(tests):
            item = self.items[index]
            signal.alarm(WAIT_S)
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + HANG_S, resource.RLIM_INFINITY))
            os.write(writer, item.nodeid.encode() + b"\n")
            following = self.items[tests[place + 1][1]] if place + 1 < len(tests) else None
            if any(report.failed for report in run(item, following)):
                return 1
            if time.process_time() > end:
                break
        return 0


def is_of_memory(name: str) -> bool:
    return any(word in name for word in MEMORY_TESTS)


def order(name: str, frees: bool, seconds: float, place: int) -> tuple[Any, ...]:
    """A key to sort a fault's tests by."""
    return is_of_memory(name) != frees, not any(word in name for word in TELLING), seconds, place


def run(item: Any, following: Any) -> list[Any]:
    """A test's reports."""
    from _pytest import runner

    return runner.runtestprotocol(item, log=False, nextitem=following)


def title(site: dict[str, Any]) -> str:
    where = f"{site['identifier']} {site['room']} {site['function']}"
    return f"{where}: {site['kind']} {site['change']}, in `{site['text']}`"


def chosen(options: argparse.Namespace, sites: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    numbered = list(enumerate(sites, 1))
    if options.identifiers:
        numbered = [(n, site) for n, site in numbered if site["identifier"] in options.identifiers]
    if options.room is not None:
        group = "" if options.room == "other" else None
        numbered = [
            (n, site) for n, site in numbered
            if group_of(site["room"]) == group or (group is None and site["room"].startswith(options.room))
        ]  # fmt: skip
    if options.part:
        r = random.Random(options.seed)
        planted = {group_of(site["room"]) for _, site in numbered}
        group = r.choice([group for group in ROOMS if group in planted])
        numbered = [(n, site) for n, site in numbered if group_of(site["room"]) == group]
        numbered = sorted(r.sample(numbered, min(options.part, len(numbered))))
        print(f"seed {options.seed}: {len(numbered)} faults of {group or 'other'} rooms", flush=True)
    return numbered


def quiet_hypothesis() -> None:
    """The same examples every time, without shrinking a failing one."""
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutants",
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("mutants")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", help="only faults of rooms whose names begin so")
    parser.add_argument("--part", type=int, help="so many faults, of one group of rooms, by chance")
    parser.add_argument("--seed", type=int, default=0, help="of that chance")
    parser.add_argument("--built", action="store_true", help="the build of the last run is good")
    parser.add_argument("--tests", action="append", help="only these files of tests/, a pattern; may be repeated")
    parser.add_argument("-k", dest="named", help="only tests whose names fit, as of pytest")
    parser.add_argument("identifiers", nargs="*")
    options = parser.parse_args()
    if "WIREFMT_MUTANTS_BUILT" not in os.environ:
        if not options.built:
            subprocess.run([sys.executable, HERE / "plant.py"], check=True)
        paths = [BUILD / "src", ROOT / "spark", ROOT / "fuzz", ROOT / "tests"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "WIREFMT_MUTANTS_BUILT": "1"}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    planted = json.loads((BUILD / "sites.json").read_text())
    sites = chosen(options, planted)
    if not sites:
        print("no such fault")
        return 1
    sys.path.remove(str(HERE))  # `run` is the one of fuzz/
    runner = Runner(sites, explained(), options.tests)
    files = sorted({path for files in runner.files.values() for path in files})
    arguments = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:timeout",
        "--no-header",
        "--import-mode=importlib",
        "-o",
        "addopts=",
        "--rootdir",
        str(ROOT),
    ]
    if options.named:
        arguments += ["-k", options.named]
    if pytest.main([*arguments, *map(str, files)], plugins=[runner]) not in (0, 5):
        return 1
    for name, faults in (
        ("survive and are not explained", runner.survivors),
        ("are listed as survivors, but noticed", runner.noticed_though_listed),
    ):
        if faults:
            print(f"\n{len(faults)} faults {name}:")
            for site, what in faults:
                print(f"  {title(site)}: {what}")
    gone = runner.listed.keys() - {site["identifier"] for site in planted}
    if gone:
        print(f"\nlisted as survivors, but not planted: {', '.join(sorted(gone))}")
    return 1 if runner.survivors or runner.noticed_though_listed or gone else 0


if __name__ == "__main__":
    sys.exit(main())
