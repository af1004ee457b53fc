"""Run a program that ends with `unittest.main()`, unchanged: `unittests.py PROGRAM`. The output is that of `go test -v`."""

from __future__ import annotations

import functools
import runpy
import sys
import unittest
from pathlib import Path
from typing import Any


class Result(unittest.TestResult):
    """Prints one line per test, after its traceback if it failed."""

    def say(self, word: str, test: unittest.TestCase) -> None:
        print(f"--- {word}: {test.id().rpartition('.')[2]}", flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.say("PASS", test)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        print(self.failures[-1][1])
        self.say("FAIL", test)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        print(self.errors[-1][1])
        self.say("FAIL", test)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.say("SKIP", test)


class Runner:
    """The test runner of `unittest.main`."""

    def run(self, test: unittest.TestSuite) -> Result:
        result = Result()
        test(result)
        return result


def main(program: Path) -> None:
    sys.argv = [str(program)]
    sys.path[0] = str(program.parent)  # as in `python PROGRAM`
    unittest.main = functools.partial(unittest.main, testRunner=Runner)  # type: ignore[assignment, arg-type]
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
