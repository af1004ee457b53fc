"""tools/quality.py: it counts what is here, and takes only the log of a whole green run."""

from __future__ import annotations

import re
import sys

import pytest

from lib.modules import load
from lib.paths import ROOT

quality = load("wirefmt_quality", ROOT / "tools" / "quality.py")

LOG = """
== clone of 1a2b3c4d A message
== make test live builds: all tests, in one run
33241 passed, 91 skipped, 3 warnings in 1429.37s (0:23:49)
== make uvloop: clients
===== 4994 passed in 90.12s (0:01:30) =====
== make portable: codecs
2976 passed in 60.00s
== a million steps of simulated connections
2988 passed in 220.00s (0:03:40)
== some minutes of fuzzing
mqtt_packet: 3000 inputs in 12 s, nothing found, 812 branches reached, 3 inputs added (seed 7)
capture: 1200 inputs in 40 s, nothing found, 3 seeds not run (seed 7)
== planted faults
1/2 fa1a1990 rocketmq/fastjson.pxi rocketmq_json_scalar: a: b: noticed: tests/rocketmq/test_messages.py::test_x[{"a":1}]
2/2 d3d27610 rocketmq/fastjson.pxi rocketmq_json_number: a: survived 3 of 3 tests explained
2 faults in 33 s
"""


def test_a_green_run_is_taken() -> None:
    run = quality.recorded(LOG, 2)
    assert list(run["stages"]) == list(quality.STAGES)
    assert run["stages"]["make test live builds"] == "33,241 passed, 91 skipped, 3 warnings"
    assert (run["commit"], run["targets"], run["inputs"]) == ("1a2b3c4d", 2, 4200)
    assert (run["planted"], run["noticed"]) == (2, 1)
    stamped = re.sub("^", "03:11:17 ", LOG, flags=re.MULTILINE)
    assert quality.recorded(stamped, 2) == run
    page = "\n".join(quality.runs_told([run, run]))
    assert "Fuzzing in them: 8,400 inputs" in page


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("33241 passed", "1 failed, 33240 passed"),
        ("== make portable", "== something else"),
        ("nothing found", "FAILED"),
        ("2 faults in", "1 faults survive and are not explained"),
    ],
)
def test_any_other_run_is_refused(old: str, new: str) -> None:
    log = LOG.replace(old, new) if old in LOG else LOG + new
    with pytest.raises(ValueError, match="not the log of a whole green run"):
        quality.recorded(log, 2)


def test_the_page_has_each_suite_and_each_folder() -> None:
    page = quality.PAGE.read_text(encoding="utf-8")
    for name, _ in quality.suites():
        assert f"| {name} |" in page, "make quality"
    for path in (ROOT / "tests").iterdir():
        if any(path.rglob("test_*.py")):
            assert f"| tests/{path.name} |" in page, "make quality"


def test_what_it_counts_is_there() -> None:
    sys.path.insert(0, str(ROOT / "fuzz"))
    try:
        from targets import TARGETS
    finally:
        sys.path.remove(str(ROOT / "fuzz"))
    assert quality.fuzz_targets() == len(TARGETS)
    assert quality.functions(ROOT / "tests" / "insight").tests > 50
