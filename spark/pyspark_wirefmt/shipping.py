"""Send the installed package to executors that lack it, and check the executors' versions.

A wheel of this package contains shared libraries, which Python cannot import from a zip: `addPyFile` cannot work. An
archive can, because Spark unpacks archives on every executor.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wirefmt

from .needs import PACKAGES, present

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_KINDS = (".py", ".so", ".pyd", ".typed", ".json")


def archive(target: Path) -> Path:
    """Both packages as installed here, in one zip with the structure of a wheel."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for package in _packages():
            _pack(out, package, package.name)
    return target


def ship(spark: SparkSession) -> None:
    """Send the driver's packages to the executors of a running session; then call `check(spark)`.

    For a classic session (not Spark Connect), and executors that run the same Python version on the same kind of
    machine and have pyarrow and numpy. Before a session starts, the wheel itself can be shipped: see spark/README.md.

    Raises:
        RuntimeError: the session is Spark Connect's; or what `check` finds.
    """
    context = classic(spark)
    if context is None:
        raise RuntimeError(
            "Spark Connect cannot take the package from this machine: install the wheel where the server and its executors run "
            "(spark/README.md, Shipping); check(spark) says whether they have it"
        )
    # Spark unpacks an archive into a folder with the name after the #, and workers have the parent of these folders on
    # sys.path, so an archive of a package's contents, under the package's name, can be imported
    folder = Path(tempfile.mkdtemp(prefix="wirefmt-"))
    for package in _packages():
        with zipfile.ZipFile(folder / f"{package.name}.zip", "w", zipfile.ZIP_DEFLATED) as out:
            _pack(out, package, "")
        context.addArchive(f"{folder / package.name}.zip#{package.name}")
    check(spark)


def _packages() -> list[Path]:
    import pyspark_wirefmt

    return [Path(str(package.__file__)).parent for package in (wirefmt, pyspark_wirefmt)]


def _pack(out: zipfile.ZipFile, package: Path, prefix: str) -> None:
    for file in sorted(package.rglob("*")):
        if file.is_file() and file.suffix in _KINDS:
            out.write(file, Path(prefix) / file.relative_to(package))


def check(spark: SparkSession) -> None:
    """Raises RuntimeError if an executor cannot decode as the driver does.

    It may lack wirefmt, have another version, lack an optional package that the driver has, or lack the Python that
    format("wirefmt") starts there: Spark takes the driver's (PYSPARK_DRIVER_PYTHON) for a data source that it finds itself, and
    the executors' (PYSPARK_PYTHON) for one that `spark.dataSource.register(pyspark_wirefmt.DefaultSource)` has made known.

    Runs one small task per core of the cluster; executors that start later are not checked. Also for Spark Connect.
    """
    _check(spark, source=True)


def ensure(spark: SparkSession) -> None:
    """`check` of what the functions need, once per session."""
    if _session(spark) not in _checked:
        _check(spark, source=False)


def _check(spark: SparkSession, *, source: bool) -> None:
    if wrong := _wrong(spark, source=source):
        raise RuntimeError(
            f"wirefmt {wirefmt.__version__} runs here, but on the executors: {'; '.join(wrong)}. {_REMEDY}"
        )
    _checked.add(_session(spark))


_REMEDY = "Install the same wheel and packages there or ship them: pyspark_wirefmt.ship(spark), or see spark/README.md"
_checked: set[str] = set()


def classic(spark: SparkSession) -> SparkContext | None:
    """The context of a classic session; None: Spark Connect."""
    try:
        return spark.sparkContext
    except Exception:  # PySpark's own errors differ from version to version
        return None


def parallelism(spark: SparkSession) -> int:
    """Cores of the cluster."""
    if (context := classic(spark)) is not None:
        return max(1, context.defaultParallelism)
    from pyspark.sql.functions import spark_partition_id

    return max(1, spark.range(1 << 16).select(spark_partition_id()).distinct().count())


def _session(spark: SparkSession) -> str:
    context = classic(spark)
    return str(context.applicationId if context is not None else getattr(spark, "session_id", id(spark)))


def _wrong(spark: SparkSession, *, source: bool) -> list[str]:
    """What is wrong on the executors, with their hosts; `source`: also for format("wirefmt")."""
    context, driver = classic(spark), os.environ.get("PYSPARK_DRIVER_PYTHON")
    started = driver if source and context is not None and driver != context.pythonExec else None
    probes = parallelism(spark)
    probe = _probe(wirefmt.__version__, {name: PACKAGES[name] for name in present()}, started)
    rows = spark.range(0, probes, 1, probes).mapInArrow(probe, "host string, fault string").distinct().collect()
    return sorted(f"{row.host}: {row.fault}" for row in rows if row.fault)


def _probe(wanted: str, packages: dict[str, tuple[str, ...]], source: str | None) -> Any:
    # nested, so that it is pickled by value: executors may not have this module
    def probe(batches: Iterator[Any]) -> Iterator[Any]:
        import shutil
        import socket
        import subprocess
        import sys
        from importlib.util import find_spec

        import pyarrow as pa

        def found(module: str) -> bool:
            try:
                return find_spec(module) is not None
            except ImportError:
                return False

        faults = []
        try:
            import wirefmt.mqtt  # loads the compiled core

            if wirefmt.__version__ != wanted:
                faults.append(wirefmt.__version__)
        except ImportError as fault:
            faults.append(f"absent ({fault})")
        if lacking := [package for package, modules in packages.items() if not any(map(found, modules))]:
            faults.append(f"without {', '.join(lacking)}, which the driver has")
        if source is not None:
            python = f'format("wirefmt") starts {source} there (PYSPARK_DRIVER_PYTHON; PYSPARK_PYTHON if you register the source)'
            version = f"{sys.version_info[0]}.{sys.version_info[1]}"
            if shutil.which(source) is None:
                faults.append(f"{python}, which does not exist")
            else:
                ask = "import sys; print('%d.%d' % sys.version_info[:2])"
                told = subprocess.run([source, "-c", ask], capture_output=True, text=True, timeout=60, check=False)
                if told.stdout.strip() != version:
                    faults.append(f"{python}, which is Python {told.stdout.strip() or '?'} and not {version}")
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"host": [socket.gethostname()], "fault": ["; ".join(faults)]})

    return probe
