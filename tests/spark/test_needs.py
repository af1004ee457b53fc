"""Optional packages: the same on the driver and on executors, or an error that names what is missing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")

from pyspark.sql import SparkSession

import pyspark_wirefmt
import wirefmt
from lib.captures import live
from pyspark_wirefmt import needs, packets, shipping, work
from pyspark_wirefmt.options import Options
from wirefmt.capture import files

CAPTURE = "mosquitto-paho-v5.pcap"


def test_names_of_functions_are_functions() -> None:
    for _ in range(2):
        assert callable(pyspark_wirefmt.check)
        assert callable(pyspark_wirefmt.ship)


def test_a_task_without_a_package_of_the_driver_fails() -> None:
    (task,) = work.works(files.expand([str(live(CAPTURE))]), Options())
    assert list(work.Reading(Options(), ["kind"], ["kind"], needs.present()).rows(task.value))
    with pytest.raises(RuntimeError, match="nowhere: installed for the driver, missing here"):
        list(work.Reading(Options(), ["kind"], ["kind"], (*needs.present(), "nowhere")).rows(task.value))


def test_zstd_is_missed_before_the_job_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copyfile(live(CAPTURE), tmp_path / "a.pcap.zst")
    found = files.expand([str(tmp_path)])
    monkeypatch.setattr(needs, "present", lambda: ())
    for options in (Options(), Options(table="packets")):
        with pytest.raises(RuntimeError, match=r"a\.pcap\.zst' needs Python 3\.14 or the package backports\.zstd"):
            work.works(found, options)
    assert packets.pieces(found, Options())


def probed(**changes: Any) -> str:
    import pyarrow as pa

    how: dict[str, Any] = {"wanted": wirefmt.__version__, "packages": {}, "source": None} | changes
    (batch,) = shipping._probe(**how)(iter([pa.record_batch({"id": [0]})]))
    return str(batch.column("fault")[0].as_py())


def test_what_a_probe_finds(tmp_path: Path) -> None:
    assert probed() == ""
    assert probed(wanted="0.0") == wirefmt.__version__
    lacks = probed(packages={"cramjam": ("no_such_module", "no_such.module"), "here": ("json",)})
    assert lacks == "without cramjam, which the driver has"
    assert "if you register the source), which does not exist" in probed(source=str(tmp_path / "python"))
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 2.7\n")
    other.chmod(0o755)
    assert "which is Python 2.7 and not 3." in probed(source=str(other))


class Connect:
    """A session of Spark Connect has no context, and says so by an error."""

    @property
    def sparkContext(self) -> None:
        raise NotImplementedError("[JVM_ATTRIBUTE_NOT_SUPPORTED]")


def test_ship_says_what_to_do_on_spark_connect() -> None:
    session: Any = Connect()
    assert shipping.classic(session) is None
    with pytest.raises(RuntimeError, match="install the wheel where the server and its executors run"):
        pyspark_wirefmt.ship(session)


@pytest.mark.spark
def test_a_job_does_not_start_where_a_package_is_missing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "_checked", set())
    monkeypatch.setitem(needs.PACKAGES, "nowhere", ("no_such_module",))
    monkeypatch.setattr(shipping, "present", lambda: ("nowhere",))
    with pytest.raises(RuntimeError, match="without nowhere, which the driver has"):
        pyspark_wirefmt.decode_to_parquet(spark, live(CAPTURE), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(RuntimeError, match="without nowhere, which the driver has"):
        pyspark_wirefmt.read(spark, live(CAPTURE))
    monkeypatch.undo()
    pyspark_wirefmt.check(spark)
