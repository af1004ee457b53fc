"""Programs in Java that tests compile with the jars of others."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

#: What has been compiled: jars and sources -> class path.
COMPILED: dict[tuple[str, Path], str] = {}
#: Options of a Java that lives for a minute beside other tests: it compiles once, quickly, and collects in its own thread.
BRIEF = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def class_path(jars: str, sources: Path, folder: Path, name: str, how: str) -> str:
    """Compile the programs in `sources` into `folder`, once. Returns the class path of the jars and the programs.

    Skips the test if there is no Java, or if `jars`, a folder, is not given. `name` and `how` say what it is and how to get it.
    """
    for program in ("java", "javac"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program} (apt install openjdk-17-jdk-headless)")
    if not jars:
        pytest.skip(f"needs {name} ({how})")
    if (jars, sources) in COMPILED:
        return COMPILED[jars, sources]
    path = os.pathsep.join((f"{jars}/*", str(folder)))
    files = sorted(map(str, sources.glob("*.java")))
    command = ["javac", "-encoding", "UTF-8", "-nowarn", "-cp", path, "-d", str(folder), *files]
    subprocess.run(command, check=True, capture_output=True)
    return COMPILED.setdefault((jars, sources), path)
