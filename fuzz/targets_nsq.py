"""Targets of NSQ: one command or frame; a stream of them; a batch. See targets.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from common import Case, check_columns, check_message, check_rows, check_stream, read, rows, same, stream_seeds

from wirefmt import nsq
from wirefmt.errors import DecodeError
from wirefmt.framing import Limits

#: Bodies of IDENTIFY and of its answer, valid and invalid.
JSON = (
    '{"client_id":"a\\u00e9\\ud83d\\ude00\\n\\"\\\\","hostname":"h\\/\\b\\f\\r\\t","DEFLATE":true,"\\u212aey":1}',
    '{"msg_timeout":-1,"sample_rate":1e2,"deflate_level":1.5E-3,"heartbeat_interval":99999999999999999999}',
    '{"a":[1,[2,{"b":null}],"x"],"tls_v1":false,"max_rdy_count":2500,"version":"1","snappy":true,"auth_required":true}',
    '{"a":1,}', '{"a" 1}', "{", "[]", '{"a":"\\x"}', '{"a":"\\u12"}', '{"a":01}', '{"a":-}', '{"a":nul}', '{"a":1}x', " {} ",
    '{"identity":"i","identity_url":"u","permission_count":3,"topology_zone":"z","topology_region":"r"}', "[" * 70 + "]" * 70,
)  # fmt: skip


def nsq_seeds() -> Iterator[bytes]:
    for row in rows("nsq"):
        for name, side in (("hex", 0), ("server_hex", 1)):
            if row.get(name):
                yield bytes([1 if row["kind"] in ("frame", "message-frame") else side]) + bytes.fromhex(row[name])
    for text in JSON:
        body = text.encode()
        yield b"\0IDENTIFY\n" + len(body).to_bytes(4, "big") + body
        yield b"\1" + (len(body) + 4).to_bytes(4, "big") + bytes(4) + body
    for row in rows("nsq"):
        for step in row.get("steps", ()):
            yield b"\0" + bytes.fromhex(step["send_hex"])
            yield b"\1" + bytes.fromhex(step["reply_hex"])


def nsq_options(octet: int) -> dict[str, Any]:
    options: dict[str, Any] = {"side": ("client", "server", None)[octet % 3]}
    if octet & 0x40:
        options["server"] = nsq.ServerOptions(max_msg_size=100, max_body_size=300)
    if octet & 0x20:
        options["limits"] = Limits(frame_size=200, elements=3)
    return options


def nsq_message(data: bytes) -> None:
    if not data:
        return
    options, octets = nsq_options(data[0]), data[1:]
    message, _ = check_message(nsq, octets, **options)
    if message is not None and octets != b"  V2":
        columns(octets, message, options)


def columns(octets: bytes, message: nsq.Command | nsq.Frame, options: dict[str, Any]) -> None:
    """As the side sends it that sends such messages."""
    direction = int(isinstance(message, nsq.Frame))
    side = ("client", "server")[direction]
    if options["side"] in (side, None) and not isinstance(read(nsq, octets, side=side), DecodeError):
        check_columns("nsq", nsq, Case(octets, direction), message, {"side": side, "expose_credentials": True})


def nsq_stream(data: bytes) -> None:
    if len(data) > 1:
        check_stream(nsq, data, nsq_options(data[0]))


def nsq_batch(data: bytes) -> None:
    if not data:
        return
    columns, found = check_rows(nsq, data[1:], nsq_options(data[0]))
    for row, message in enumerate(found):
        if isinstance(message, nsq.MessageFrame):
            same(columns["payload"][row], message.body_bytes(), "payload")
            same(columns["timestamp_ns"][row], message.timestamp, "timestamp_ns")


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "nsq_message": (nsq_message, nsq_seeds),
    "nsq_stream": (nsq_stream, stream_seeds(nsq_seeds)),
    "nsq_batch": (nsq_batch, stream_seeds(nsq_seeds)),
}
