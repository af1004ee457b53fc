"""TLS on Spark: every task has the secrets of the whole capture, wherever its secrets blocks are, and those of the options."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")
pytest.importorskip("cryptography", reason="needs cryptography (pip install 'wirefmt[tls]')")

import pyarrow as pa
from pyspark.sql import SparkSession

import pyspark_wirefmt
from lib.paths import DATA
from lib.spark_captures import one_process, rows
from pyspark_wirefmt import plan
from pyspark_wirefmt.options import Options
from wirefmt.capture import files, split
from wirefmt.capture.keylog import Secrets

TLS = DATA / "tls"
BLOCKS = ["dsb-two-blocks", "dsb-after-packets", "dsb-editcap-amqp091"]
COUNTS = {"dsb-two-blocks": 54, "dsb-after-packets": 35, "dsb-editcap-amqp091": 45}


def unpacked(name: str, folder: Path) -> Path:
    (packed,) = TLS.glob(f"**/{name}.pcap*.gz")
    path = folder / packed.name.removesuffix(".gz")
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


@pytest.mark.parametrize("name", BLOCKS)
def test_every_slice_of_a_capture_has_the_secrets_of_its_blocks(name: str, tmp_path: Path) -> None:
    path = unpacked(name, tmp_path)
    options = Options.parse({"partitions": 4})
    planned = plan.tasks(files.expand([str(path)]), options)
    assert len(planned) == 4
    columns = ["flow_id", "frame_no", "kind", "status"]
    found = [row for task in planned for batch in plan.decode(task, options, columns) for row in batch.to_pylist()]
    assert len(found) == COUNTS[name]
    assert {row["status"] for row in found} == {"ok"}


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("size", [1000, 4000, 1 << 20])
def test_ranges_have_all_secrets_blocks(name: str, size: int, tmp_path: Path) -> None:
    """pcapng, 4.7: the type of a block is 10; 8 bytes of its body are before the secrets."""
    path = unpacked(name, tmp_path)
    octets, at, wanted = path.read_bytes(), 0, []
    while at < len(octets):
        kind, total = (int.from_bytes(octets[at + i : at + i + 4], "little") for i in (0, 4))
        if kind == 10:
            length = int.from_bytes(octets[at + 12 : at + 16], "little")
            wanted += octets[at + 16 : at + 16 + length].splitlines()
        at += total
    all_of_them = Secrets()
    all_of_them.give(split.count_frames(path, piece).secrets for piece in split.ranges(path, size))
    assert [line for line in all_of_them.blocks().splitlines() if line] == wanted
    assert all_of_them.complete


@pytest.mark.spark
@pytest.mark.parametrize("name", BLOCKS)
def test_a_shuffled_capture_has_the_secrets_of_its_blocks(spark: SparkSession, name: str, tmp_path: Path) -> None:
    path = unpacked(name, tmp_path)
    table = pyspark_wirefmt.read(spark, str(path), split_size=4000, partitions=3).toArrow()
    assert table.num_rows == COUNTS[name]
    assert rows(table) == one_process(path)


@pytest.mark.spark
@pytest.mark.parametrize("shuffled", [True, False])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mqtt5-tls13-aes128gcm", {"keylog": "keys/mqtt5-tls13-aes128gcm.log"}),
        ("rsa-aes128gcm", {"keys": "recorded/rsa.pem"}),
    ],
)
def test_options(spark: SparkSession, name: str, options: dict[str, Any], shuffled: bool, tmp_path: Path) -> None:
    path = unpacked(name, tmp_path)
    given = {option: str(TLS / value) for option, value in options.items()}
    if shuffled:
        table: pa.Table = pyspark_wirefmt.read(spark, str(path), split_size=2000, partitions=3, **given).toArrow()
    else:
        table = spark.read.format("wirefmt").options(**given, partitions=3).load(str(path)).toArrow()
    assert table.num_rows > 5
    assert rows(table) == one_process(path, **given)
