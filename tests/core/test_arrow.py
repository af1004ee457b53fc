"""The Arrow side of the core: capsules, shared buffers, NumPy views, and who keeps what alive."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

from wirefmt import _core, mqtt, nsq
from wirefmt.mqtt.columns import BATCH as MQTT_BATCH
from wirefmt.spec.table import COLUMNS

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")


def stream(n: int) -> bytes:
    """CONNECT, then `n` packets; every third a PINGREQ, so that PUBLISH columns have holes."""
    out = [mqtt.Connect(client_identifier="c", version=5).encode()]
    for i in range(n):
        if i % 3 == 2:
            out.append(mqtt.Pingreq(version=5).encode())
        else:
            user = tuple(("user_property", (f"k{k}", f"v{i}")) for k in range(i % 4))
            out.append(
                mqtt.Publish(
                    topic_name=f"t/{i}",
                    payload=bytes([i & 255]) * (i % 50),
                    qos=i % 3,
                    retain=i % 2 == 0,
                    packet_identifier=i + 1 if i % 3 else None,
                    properties=user,
                    version=5,
                ).encode()
            )
    return b"".join(out)


def arrow_type(text: str) -> Any:
    """The Arrow type of a type of spec/table.py, by rules of its own."""
    simple = {
        "boolean": pa.bool_(),
        "int8": pa.int8(),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    if text in simple:
        return simple[text]
    if text.startswith("list<"):
        return pa.list_(pa.field("element", arrow_type(text[5:-1])))
    assert text.startswith("struct<")
    fields, depth, part = [], 0, ""
    for c in text[7:-1] + ",":
        if c == "," and depth == 0:
            name, _, of = part.partition(":")
            fields.append(pa.field(name, arrow_type(of)))
            part = ""
            continue
        depth += (c == "<") - (c == ">")
        part += c
    return pa.struct(fields)


@pytest.mark.parametrize("columns", [COLUMNS, MQTT_BATCH], ids=["message table", "decode_batch"])
def test_the_schema_is_the_table_of_columns(columns: tuple[tuple[str, str, str], ...]) -> None:
    class Schema:
        def __arrow_c_schema__(self) -> object:
            return _core.schema_capsule(columns)

    got = pa.schema(Schema())
    assert got == pa.schema([pa.field(c[0], arrow_type(c[1])) for c in columns])
    assert all(f.nullable for f in got)


def test_every_consumer_sees_the_same_rows() -> None:
    batch = mqtt.decode_batch(stream(1000))
    record = pa.record_batch(batch)
    record.validate(full=True)
    assert record.num_rows == batch.num_rows == len(batch) == 1001
    assert record.schema == pa.schema(batch)
    assert pa.table(batch).to_batches()[0] == record
    assert pa.RecordBatchReader.from_stream(batch).read_all().to_batches()[0] == record
    assert batch.names == record.schema.names


def test_polars() -> None:
    polars = pytest.importorskip("polars", reason="needs polars (pip install polars)")
    batch = mqtt.decode_batch(stream(100))
    frame = polars.DataFrame(batch)
    assert frame["destination"].to_list() == pa.record_batch(batch).column("destination").to_pylist()
    assert frame["mqtt"].len() == 101


def test_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb (pip install duckdb)")
    table = pa.table(mqtt.decode_batch(stream(300)))  # noqa: F841  # duckdb finds it by its name
    got = duckdb.sql(
        "select packet_type, count(*) from table group by 1 order by 1".replace("table", '"table"')
    ).fetchall()
    assert got == [(1, 1), (3, 200), (12, 100)]


def test_pandas() -> None:
    pytest.importorskip("pandas", reason="needs pandas (pip install pandas)")
    frame = pa.table(mqtt.decode_batch(stream(30))).to_pandas()
    assert frame["destination"].notna().sum() == 20


def test_numpy_views() -> None:
    batch = mqtt.decode_batch(stream(100))
    record = pa.record_batch(batch)
    for name in ("byte_offset", "wire_size", "packet_type", "qos", "sequence"):
        column = record.column(name)
        assert batch[name].tolist() == column.fill_null(0).to_pylist()
        assert batch.validity(name).tolist() == column.is_valid().to_pylist()
        assert not batch[name].flags.writeable
    assert batch["retain"].tolist() == record.column("retain").fill_null(False).to_pylist()
    for name in ("destination", "payload", "content_type"):
        assert batch[name].tolist() == record.column(name).to_pylist()
    assert batch["content_type"].tolist() == [None] * 101
    assert batch["packet_type"].dtype == numpy.int8
    view = batch["byte_offset"]
    again = batch["byte_offset"]
    assert numpy.shares_memory(view, again)
    with pytest.raises(TypeError, match="pyarrow"):
        batch["mqtt"]
    with pytest.raises(KeyError, match="no column 'topic'"):
        batch["topic"]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 100])
def test_nbytes_are_those_of_the_columnar_format(count: int) -> None:
    """Of a column with a value: a bit a row for nulls, if there are any; values, or offsets and octets. (Arrow columnar format,
    "Buffer Listing for Each Layout".)"""
    octets = b"NOP\n" + nsq.Publish(topic="topic", body=b"body").encode() * count
    rows = count + 1
    kinds = 4 * (rows + 1) + len("NOP") + len("PUB") * count
    texts = 2 * ((rows + 7) // 8 + 4 * (rows + 1)) + len("topic" + "body") * count
    assert nsq.decode_batch(octets, side="client").nbytes == rows * 8 + rows * 4 + kinds + texts


def test_memory_that_is_not_empty_makes_no_row_valid() -> None:
    """malloc fills what it gives out (mallopt(3): M_PERTURB is -6): nulls are nulls however often a column has grown."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        pytest.skip("needs mallopt (glibc)")
    one = nsq.Publish(topic="t", body=b"b").encode()
    octets = b"".join(one if n % 7 == 0 else b"NOP\n" for n in range(70_000))
    mallopt(-6, 0x55)
    try:
        batch = nsq.decode_batch(octets, side="client")
    finally:
        mallopt(-6, 0)
    assert list(batch.validity("destination")) == [n % 7 == 0 for n in range(70_000)]


def test_what_is_handed_out_keeps_the_batch_alive() -> None:
    batch = mqtt.decode_batch(stream(500))
    want = pa.record_batch(mqtt.decode_batch(stream(500))).to_pylist()
    record, view = pa.record_batch(batch), batch["byte_offset"]
    first = view.tolist()
    nested = record.column("mqtt").field("flags")
    del batch
    gc.collect()
    mqtt.decode_batch(stream(5000))  # writes over what was freed, if it was
    assert record.to_pylist() == want
    assert view.tolist() == first
    del record
    gc.collect()
    assert len(nested) == 501


def test_capsules_that_nobody_takes_are_freed() -> None:
    batch = mqtt.decode_batch(stream(10))
    before = sys.getrefcount(batch)
    for _ in range(100):
        batch.__arrow_c_array__()
        batch.__arrow_c_stream__()
        batch.__arrow_c_schema__()
        pa.record_batch(batch)
    gc.collect()
    assert sys.getrefcount(batch) == before


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX threads (not on Windows)")
def test_an_array_is_released_without_the_gil() -> None:
    # a consumer's thread may release an array while the interpreter ends; here one does so while this thread holds the GIL
    code = (
        "import ctypes\n"
        "from wirefmt import mqtt\n"
        "batch = mqtt.decode_batch(mqtt.Pingreq(version=5).encode() * 10, version=5)\n"
        "schema, capsule = batch.__arrow_c_array__()\n"
        "del batch  # the array is the last user of its memory\n"
        "held = ctypes.PyDLL(None)  # calls keep the GIL\n"
        "held.PyCapsule_GetPointer.restype = ctypes.c_void_p\n"
        "array = held.PyCapsule_GetPointer(ctypes.py_object(capsule), b'arrow_array')\n"
        "release = (ctypes.c_void_p * 9).from_address(array)  # the ninth word of an ArrowArray\n"
        "thread = ctypes.c_void_p()\n"
        "started = held.pthread_create(ctypes.byref(thread), None, ctypes.c_void_p(release[8]), ctypes.c_void_p(array))\n"
        "assert started == held.pthread_join(thread, None) == 0\n"
        "assert release[8] is None\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_memory_is_lost() -> None:
    resource = pytest.importorskip("resource", reason="needs the module resource (not on Windows)")
    data = stream(20_000)

    def run() -> None:
        for _ in range(20):
            pa.table(mqtt.decode_batch(data))
            mqtt.decode_batch(data).__arrow_c_array__()

    run()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(5):
        run()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 20 * 1024  # KiB; one leaked batch a round would be a hundred times two megabytes


def test_a_stream_that_fails_says_why() -> None:
    class Source:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            def batches() -> Iterator[_core.Batch]:
                yield mqtt.decode_batch(stream(3))
                raise ValueError("the disk is on fire")

            return _core.stream_capsule(MQTT_BATCH, batches())

    reader = pa.RecordBatchReader.from_stream(Source())
    assert reader.read_next_batch().num_rows == 4
    with pytest.raises(OSError, match="ValueError: the disk is on fire"):
        reader.read_next_batch()


def test_a_stream_that_failed_stays_so() -> None:
    """Consumers hold the octets of the error, in other threads perhaps: it is set once, and nothing follows it."""
    asked = 0

    class Failing:
        def __iter__(self) -> Failing:
            return self

        def __next__(self) -> _core.Batch:
            nonlocal asked
            asked += 1
            raise ValueError(f"number {asked}")

    class Source:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return _core.stream_capsule(MQTT_BATCH, Failing())

    reader = pa.RecordBatchReader.from_stream(Source())
    for _ in range(3):
        with pytest.raises(OSError, match="number 1"):
            reader.read_next_batch()
    assert asked == 1


def test_a_stream_takes_only_batches_with_its_columns() -> None:
    """A consumer reads memory by the stream's schema, so a batch of another one must not reach it."""
    for batch in (
        mqtt.decode_batch(stream(3), columns=("payload",)),
        mqtt.decode_batch(stream(3), columns=()),
        "no batch",
    ):

        class Source:
            def __arrow_c_stream__(self, requested_schema: object = None, batch: Any = batch) -> object:
                return _core.stream_capsule(MQTT_BATCH, [batch], ("byte_offset",))

        with pytest.raises(OSError, match="TypeError"):
            pa.RecordBatchReader.from_stream(Source()).read_all()


def test_what_is_still_held_when_the_interpreter_ends_does_no_harm() -> None:
    code = (
        "import pyarrow as pa, sys\n"
        "from wirefmt import mqtt\n"
        "batch = mqtt.decode_batch(mqtt.Pingreq(version=5).encode() * 10, version=5)\n"
        "sys.kept = [batch, pa.record_batch(batch), batch['byte_offset'], batch.__arrow_c_stream__()]\n"
        "sys.kept += batch.__arrow_c_array__()\n"
        "sys.kept.append(sys.kept)\n"
        "try:\n"
        "    import duckdb\n"
        "    sys.kept.append(duckdb.from_arrow(pa.table(batch)))\n"
        "except ImportError:\n"
        "    pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_projection_is_a_choice_and_an_order() -> None:
    names = ("payload", "byte_offset", "headers")
    batch = mqtt.decode_batch(stream(50), columns=names)
    record = pa.record_batch(batch)
    assert tuple(record.schema.names) == names
    whole = pa.record_batch(mqtt.decode_batch(stream(50)))
    assert record.equals(whole.select(list(names)))
    assert pa.record_batch(mqtt.decode_batch(stream(50), columns=("mqtt",))).column("mqtt") == whole.column("mqtt")
    assert pa.record_batch(mqtt.decode_batch(stream(50), columns=())).num_columns == 0
