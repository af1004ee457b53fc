"""A delivery in one frame is read by the fast path: its rows say what those of other paths say."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.batches import talk_both_ways
from lib.columns import agree, batch_row_of, sparse
from lib.kinds import checked
from lib.wire import Tcp, pcap
from wirefmt import amqp10, capture
from wirefmt.framing import Limits

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

HEADER = b"AMQP\0\1\0\0"
ATTACH = amqp10.Attach(name="l", handle=2, role=False, target=amqp10.Target(address="known")).encode()
CLOSE = amqp10.Close().encode()
#: Values that rules speak of: constructors, the ends of ASCII, the beginning of a character, sizes.
OCTETS = (0x00, 0x01, 0x02, 0x40, 0x41, 0x42, 0x43, 0x45, 0x52, 0x56, 0x73, 0x7F, 0x80, 0xA1, 0xB1, 0xC0, 0xC1, 0xFF)
MESSAGES: dict[str, amqp10.Message] = {
    "all": amqp10.Message(
        header=amqp10.Header(durable=True, priority=7, ttl=300, first_acquirer=False, delivery_count=2),
        delivery_annotations={amqp10.Symbol("a"): 1},
        message_annotations={amqp10.Symbol("x-opt-seq"): 2**40, amqp10.Symbol("x-key"): "k"},
        properties=amqp10.Properties(
            message_id="id-7", user_id=b"guest\xff", to="/queues/measurements", subject="s", reply_to="r",
            correlation_id="c" * 40, content_type=amqp10.Symbol("a/b"), content_encoding=amqp10.Symbol("gzip"),
            absolute_expiry_time=1, creation_time=-1, group_id="", group_sequence=0, reply_to_group_id="g",
        ),
        application_properties={"site": "n", "sequence": -3, "": None, "mite": "", "password": "swordfish", "s": 1.5, "t": True},
        body=b"21.5",
    ),
    "body": amqp10.Message(body=b""),
    "few": amqp10.Message(properties=amqp10.Properties(message_id="m", to="t"), body=bytes(300)),
    "annotations": amqp10.Message(message_annotations={}, application_properties={}, body=b"b"),
    "number": amqp10.Message(properties=amqp10.Properties(message_id=amqp10.ULong(7), to="t"), body=b"b"),
    "value": amqp10.Message(properties=amqp10.Properties(to="t"), body=[amqp10.AmqpValue("text")]),
    "two of data": amqp10.Message(body=[amqp10.Data(b"1"), amqp10.Data(b"2")]),
    "footer": amqp10.Message(body=b"b", footer={amqp10.Symbol("f"): 1}),
}  # fmt: skip


def transfer(message: amqp10.Message | bytes, **fields: Any) -> bytes:
    given: dict[str, Any] = {
        "handle": 0,
        "delivery_id": 3,
        "delivery_tag": b"\0\xff",
        "message_format": 0,
        "settled": True,
    } | fields
    return amqp10.Transfer(payload=message, **given).encode()


@cache
def forms() -> list[bytes]:
    """Every message in a transfer that the fast path reads, and one message in transfers with other fields."""
    few = MESSAGES["few"]
    others: list[dict[str, Any]] = [
        {"message_format": None, "settled": None},
        {"delivery_id": None},
        {"delivery_id": 70000, "handle": 2**32 - 1, "channel": 65535},
        {"handle": 2},
        {"more": False, "rcv_settle_mode": 1, "resume": False, "aborted": False, "batchable": True},
        {"resume": True},
        {"more": True},
        {"aborted": True},
        {"message_format": 1},
        {"state": amqp10.Accepted()},
        {"delivery_tag": bytes(300)},
    ]
    return [transfer(m) for m in MESSAGES.values()] + [transfer(few, **fields) for fields in others]


def changed(frame: bytes) -> list[bytes]:
    """The frame, every frame that differs from it in one octet of the first 320, and every one that ends early."""
    out = [frame]
    for i in range(4, min(len(frame), 320)):
        for octet in {*OCTETS, frame[i] ^ 1, (frame[i] + 1) & 0xFF, (frame[i] - 1) & 0xFF} - {frame[i]}:
            out.append(frame[:i] + bytes([octet]) + frame[i + 1 :])
    for n in range(8, min(len(frame), 320)):
        out.append(n.to_bytes(4, "big") + frame[4:n])
    return out


# ---------------------------------------------------------------------------------------------- captures


def captured(streams: list[bytes], **options: Any) -> Any:
    """The rows of streams, each of a connection."""
    packets: list[bytes] = []
    for number, octets in enumerate(streams):
        tcp = Tcp(5672, client_port=10000 + number)
        packets += [*tcp.open(), *tcp.send(0, HEADER + ATTACH + octets), *tcp.close()]
    found = pa.table(capture.read(io.BytesIO(pcap(packets)), decode_as=["tcp.port==5672,amqp10"], **options))
    found.validate(full=True)
    return found


def said_by_both(streams: list[bytes], **options: Any) -> Any:
    """The rows, which are those of the other path: a capture that also wants octets takes it."""
    other = captured(streams, raw=True, expose_credentials=True, **options)
    found = captured(streams, expose_credentials=True, **options)
    assert found.drop(["raw"]).equals(other.drop(["raw"]))
    return found


@pytest.mark.parametrize("strictness", ["lax", "strict"])
@pytest.mark.parametrize("number", range(len(forms())))
def test_one_octet_changed_in_captures(strictness: str, number: int) -> None:
    found = said_by_both(changed(forms()[number]), strictness=strictness)
    assert {"ok", "malformed", "gap"} <= set(found["status"].to_pylist())


def test_few_columns_of_captures() -> None:
    whole = captured(forms())
    for names in (["destination"], ["kind", "status"], ["headers", "amqp10"], ["attempts", "payload"], ["message_id"]):
        assert captured(forms(), columns=names).equals(whole.select(names))


def test_secrets_and_payloads_of_captures() -> None:
    whole = captured(forms(), expose_credentials=True)
    hidden = captured(forms(), payload=False).to_pylist()
    for row, shown in zip(hidden, whole.to_pylist(), strict=True):
        shown["payload"] = None
        shown["headers"] = shown["headers"] and [(k, "***" if k == "password" else v) for k, v in shown["headers"]]
        assert row == shown
    assert captured(forms(), payload_max=2)["payload_size"].equals(whole["payload_size"])


@settings(deadline=None, max_examples=60)
@given(
    parts=st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(forms()) | st.just(CLOSE), st.integers(0, 60)), max_size=12
    ),
    size=st.sampled_from([1448, 300, 20]),
    frame_max=st.sampled_from([512, 65536]),
)
def test_one_connection_both_ways(parts: list[tuple[int, bytes, int]], size: int, frame_max: int) -> None:
    """Frames of both sides, one after another, with pending deliveries, a frame-max, and now and then an octet that differs."""
    opened = amqp10.Open(container_id="c", max_frame_size=frame_max).encode()
    said = [(0, HEADER + opened), (1, HEADER + opened), (0, ATTACH)]
    for side, frame, at in parts:
        said.append((side, frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :] if 4 <= at < len(frame) else frame))
    rows = talk_both_ways(*said, port=5672, size=size)
    assert [row["kind"] for row in rows[:2]] == ["protocol-header", "open"]


# ---------------------------------------------------------------------------------------------- decode_batch


def refused(frame: bytes) -> bytes:
    """The frame with an extended header."""
    return (len(frame) + 4).to_bytes(4, "big") + b"\3" + frame[5:8] + bytes(4) + frame[8:]


def batch_of_both(frames: list[bytes], *, frame_size: int = 1 << 20, elements: int = 1000, **options: Any) -> Any:
    """The rows, which except for sizes are those of frames that the fast path refuses."""
    options["expose_credentials"] = True
    limits = Limits(frame_size=frame_size, elements=elements)
    found = pa.record_batch(amqp10.decode_batch(b"".join(frames), limits=limits, **options))
    found.validate(full=True)
    limits = Limits(frame_size=frame_size + 4, elements=elements)
    other = pa.record_batch(amqp10.decode_batch(b"".join(map(refused, frames)), limits=limits, **options))
    for name in found.schema.names:
        if name == "error":
            assert found.column(name).is_null().equals(other.column(name).is_null())
        elif name not in ("byte_offset", "wire_size"):
            assert found.column(name).equals(other.column(name)), name
    return found


@pytest.mark.parametrize("strictness", ["lax", "strict"])
@pytest.mark.parametrize("number", range(len(forms())))
def test_one_octet_changed_in_batches(strictness: str, number: int) -> None:
    frames = [f for frame in changed(forms()[number]) if frame[4:6] == b"\2\0" for f in (frame, CLOSE)]
    found = batch_of_both(frames, strictness=strictness)
    assert 0 < found["error"].null_count < found.num_rows


def test_rows_say_what_the_objects_say() -> None:
    frames = [transfer(message) for message in MESSAGES.values()]
    rows = pa.record_batch(amqp10.decode_batch(b"".join(frames), expose_credentials=True)).to_pylist()
    at = 0
    for message, frame, row in zip(MESSAGES.values(), frames, rows, strict=True):
        want = {"byte_offset": at, "wire_size": len(frame), **batch_row_of("amqp10", amqp10.decode(frame), message)}
        assert agree(sparse(row), sparse(want)) == []
        at += len(frame)


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Deliveries on three links of two channels, some in several transfers."""
    frames = []
    pending: dict[tuple[int, int], list[bytes]] = {}
    for number in range(draw(st.integers(1, 20))):
        channel, handle = link = draw(st.sampled_from(((0, 0), (0, 1), (1, 0))))
        first: dict[str, Any] = {}
        if link not in pending:
            payload = draw(st.sampled_from(list(MESSAGES.values()))).encode()
            cuts = draw(st.lists(st.integers(0, len(payload)), max_size=1))
            pending[link] = [payload[a:b] for a, b in zip([0, *cuts], [*cuts, len(payload)], strict=True)]
            first = {"delivery_id": number, "delivery_tag": b"t", "message_format": 0}
        piece, *rest = pending.pop(link)
        if rest:
            pending[link] = rest
        frames.append(amqp10.Transfer(channel=channel, handle=handle, more=bool(rest), payload=piece, **first).encode())
    return frames


@settings(max_examples=200, deadline=None)
@given(
    streams(), st.sampled_from((None, ["delivery_id", "payload", "error"], ["kind", "fields", "priority", "footer"]))
)
def test_deliveries_among_others(frames: list[bytes], columns: list[str] | None) -> None:
    batch_of_both(frames, columns=columns, payload=bool(columns))
    said_by_both([b"".join(frames), ATTACH + b"".join(frames)])


def test_limits() -> None:
    frames = [f for f in forms() if checked(amqp10.decode(f), amqp10.Transfer).more is not True]
    for size in {len(f) + k for f in frames for k in (-1, 0)}:
        batch_of_both(frames, frame_size=size)
    for elements in range(1, 50):
        batch_of_both(frames, elements=elements)


def test_many_rows() -> None:
    assert batch_of_both(forms() * 200).num_rows > 2000
