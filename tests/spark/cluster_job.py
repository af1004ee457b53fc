"""Run by test_cluster.py in a process of its own: a small cluster on this machine, whose executors lack wirefmt.

Arguments: master, how the executors get the packages (archive: `spark.archives`; ship: nothing at first, then
`pyspark_wirefmt.ship`), whether the source is registered at last ("registered"), capture, archive, options of Java. Prints one
line of JSON: what a user sees at first, and then.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

import pyspark_wirefmt


def main(master: str, way: str, registered: str, capture: str, archive: str, java: str) -> None:
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(master)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.executorEnv.PYTHONPATH", "wirefmt_lib" if way == "archive" else "no_such_folder")
        .config("spark.driver.defaultJavaOptions", java)
        .config("spark.executor.defaultJavaOptions", java)
    )
    if way == "archive":
        builder = builder.config("spark.archives", f"{archive}#wirefmt_lib")
    spark = builder.getOrCreate()
    work = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
    told: dict[str, object] = {}
    try:
        told["first"] = used(spark, capture)
        if way == "ship":
            pyspark_wirefmt.ship(spark)
        if registered:
            spark.dataSource.register(pyspark_wirefmt.DefaultSource)
        if way == "ship" or registered:
            told["then"] = used(spark, capture)
    finally:
        spark.stop()
        shutil.rmtree(work, ignore_errors=True)  # a local cluster's executors work inside pyspark's own folder
        if work.parent.is_dir() and not any(work.parent.iterdir()):
            work.parent.rmdir()
    told["work left"] = work.exists()
    print(json.dumps(told))


def used(spark: SparkSession, capture: str) -> dict[str, object]:
    """What a user sees: rows of the data source and of `read`, where they came from, faults, and what `check` says."""
    told: dict[str, object] = {}
    try:
        frame = spark.read.format("wirefmt").option("partitions", "2").load(capture)
        told["source"] = frame.count()
        told["read"] = pyspark_wirefmt.read(spark, capture, split_size=20_000).count()
        told["executors"] = executors(spark)
    except Exception as fault:
        told["fault"] = str(fault)
    try:
        pyspark_wirefmt.check(spark)
    except RuntimeError as fault:
        told["check"] = str(fault)
    return told


def executors(spark: SparkSession) -> list[list[str]]:
    """The executors' working folders, and where they have found the package."""

    def where(batches: Any) -> Any:
        import os

        import pyarrow as pa

        import wirefmt

        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"folder": [os.getcwd()], "found": [wirefmt.__file__]})

    places = spark.range(0, 4, 1, 4).mapInArrow(where, "folder string, found string")
    return sorted([r.folder, r.found] for r in places.distinct().collect())


if __name__ == "__main__":
    main(*sys.argv[1:])
