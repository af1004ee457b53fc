"""Deliveries are assembled in one place: an Assembler, decode_batch and captures say the same of any transfers."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.wire import Tcp, pcap
from wirefmt import amqp10, capture

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

HEADER = b"AMQP\0\1\0\0"


@st.composite
def streams(draw: st.DrawFn) -> list[amqp10.Performative]:
    """Transfers of up to eight deliveries on three links of two channels, interleaved; some are aborted, some never end, some
    lose their link."""
    frames: list[amqp10.Performative] = []
    pending: dict[tuple[int, int], list[bytes]] = {}
    for number in range(draw(st.integers(1, 30))):
        link = draw(st.sampled_from(((0, 0), (0, 1), (1, 0))))
        channel, handle = link
        if draw(st.integers(0, 9)) == 0:
            frames.append(amqp10.Detach(channel=channel, handle=handle, closed=True))
            pending.pop(link, None)
            continue
        first: dict[str, object] = {}
        if link not in pending:
            payload = amqp10.Message(body=draw(st.binary(max_size=60))).encode()
            cuts = sorted(draw(st.lists(st.integers(0, len(payload)), max_size=3)))
            ends = [*cuts, len(payload)]
            pending[link] = [payload[a:b] for a, b in zip([0, *cuts], ends, strict=True)]
            first = {"delivery_id": number, "delivery_tag": bytes((number,)), "message_format": 0}
        piece, *rest = pending[link]
        aborted = bool(not first and draw(st.integers(0, 7)) == 0)
        settled = draw(st.sampled_from((None, False, True)))
        frames.append(
            amqp10.Transfer(
                channel=channel,
                handle=handle,
                more=bool(rest) and not aborted,
                aborted=aborted or None,
                settled=settled,
                payload=b"" if aborted else piece,
                **first,  # type: ignore[arg-type]
            )
        )
        if rest and not aborted:
            pending[link] = rest
        else:
            del pending[link]
    return frames


def described(identity: object, transfers: object, settled: object, body: object) -> tuple[object, ...]:
    return identity, transfers, bool(settled), body


@settings(deadline=None, max_examples=60)
@given(streams(), st.integers(1, 400))
def test_three_ways(frames: list[amqp10.Performative], size: int) -> None:
    octets = HEADER + b"".join(frame.encode() for frame in frames)
    assembler = amqp10.Assembler()
    pieces = (octets[at : at + size] for at in range(0, len(octets), size))
    deliveries = [d for piece in pieces for d in assembler.feed(piece) if isinstance(d, amqp10.Delivery)]
    expected = [
        described(d.transfer.delivery_id, d.transfers, d.settled, bytes(d.message.payload or b"")) for d in deliveries
    ]

    rows = pa.record_batch(amqp10.decode_batch(octets)).to_pylist()
    whole = [r for r in rows if r["kind"] == "transfer" and r["error"] is None]
    assert [described(r["delivery_id"], r["transfers"], r["settled"], r["payload"] or b"") for r in whole] == expected
    assert sum(r["error"] == "input ends inside the delivery" for r in rows) == assembler.unfinished

    tcp = Tcp(port=5672)
    packets = [*tcp.open(), *tcp.send(0, octets), *tcp.close()]
    table = pa.table(capture.read(io.BytesIO(pcap(packets)))).to_pylist()
    transfers = [r for r in table if r["kind"] == "transfer"]
    found = [r for r in transfers if r["status"] == "ok" and not r["amqp10"]["aborted"]]
    assert [
        described(r["amqp10"]["delivery_id"], r["amqp10"]["transfers"], r["amqp10"]["settled"], r["payload"] or b"")
        for r in found
    ] == expected
    unfinished = [r for r in transfers if r["status"] == "partial" and r["error"].startswith("stream ended")]
    assert len(unfinished) == assembler.unfinished
