"""Target of encode_batch: columns that were decoded come back; columns of anything are refused or are frames that decode."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from common import pyarrow, rows, same

from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.errors import EncodeError

#: Options of decode_batch and of encode_batch, by protocol. Secrets are shown: what is hidden does not come back.
PROTOCOLS: tuple[tuple[Any, dict[str, Any], dict[str, Any]], ...] = (
    (mqtt, {"version": 3, "expose_credentials": True}, {"version": 3}),
    (mqtt, {"version": 4, "expose_credentials": True}, {"version": 4}),
    (mqtt, {"version": 5, "expose_credentials": True}, {"version": 5}),
    (amqp091, {"expose_credentials": True}, {"frame_max": 0}),
    (amqp10, {"expose_credentials": True}, {}),
    (rocketmq, {"expose_credentials": True}, {}),
    (nsq, {"expose_credentials": True}, {}),
    (phpmq, {}, {}),
)
NAMES = ("mqtt", "mqtt", "mqtt", "amqp091", "amqp10", "rocketmq", "nsq", "phpmq")


def seeds() -> Iterator[bytes]:
    for number, name in enumerate(NAMES):
        for row in rows(name):
            if row.get("hex") and row.get("version") in (None, PROTOCOLS[number][1].get("version")):
                yield bytes([number, 0]) + bytes.fromhex(row["hex"])


def plain(batch: Any) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = pyarrow.record_batch(batch).drop_columns(["offset", "size"]).to_pylist()
    return table


def changed(value: Any, r: random.Random) -> Any:
    """Another value of the same type, often one that no frame has."""
    if r.random() < 0.1 and not isinstance(value, tuple):  # an entry of a map is never null
        return None
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return r.choice((0, 1, -1, value ^ 1 << r.randrange(7), 255, 127))
    if isinstance(value, bytes):
        return r.choice((b"", value[1:], value + b"\0", value * 2, r.randbytes(r.randrange(20))))
    if isinstance(value, str):
        return r.choice(
            ("", value[1:], value + "+", value * 2, "[", "{}", '{"a":1}', "\0", "é" * r.randrange(300), "-1")
        )
    if isinstance(value, list):
        return [changed(item, r) for item in value] + value[: r.randrange(3)]
    if isinstance(value, tuple):
        return tuple(changed(item, r) if i else item for i, item in enumerate(value))
    if isinstance(value, dict):
        return {name: changed(item, r) if r.random() < 0.2 else item for name, item in value.items()}
    return value


def encode_batch(data: bytes) -> None:
    """STRICT rows come back as they are; LAX rows do or are refused; rows with other values are refused or decode."""
    if len(data) < 2:
        return
    module, decoding, encoding = PROTOCOLS[data[0] % len(PROTOCOLS)]
    octets = data[2:]

    def decode(octets: bytes, strictness: str) -> Any:
        return module.decode_batch(octets, strictness=strictness, **decoding)

    for strictness in ("strict", "lax"):
        if module is rocketmq and strictness == "strict":
            continue
        options = encoding if module is rocketmq else encoding | {"strictness": strictness}
        batch = decode(octets, strictness)
        table = pyarrow.record_batch(batch)
        good = table.filter(table.column("error").is_null())
        try:
            again = decode(module.encode_batch(good, **options), strictness)
        except EncodeError:
            pass  # columns do not hold everything
        else:
            same(again.rest, 0, "all is decoded")
            if (
                module is not amqp10 or strictness == "strict"
            ):  # where LAX takes a value of another type, its text may be another
                same(plain(again), good.drop_columns(["offset", "size"]).to_pylist(), "columns")
        r = random.Random(data)
        listed = [changed(row, r) or {} for row in good.drop_columns(["error"]).to_pylist()[:20]]
        try:
            other = pyarrow.Table.from_pylist(listed, schema=good.drop_columns(["error"]).schema)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError):
            continue
        try:
            made = module.encode_batch(other, **options)
        except EncodeError as error:
            same("row " in str(error), True, f"no row is named: {error}")
            continue
        if listed and strictness == "strict":
            same(
                [row["error"] for row in plain(decode(made, strictness))],
                [None] * len(listed),
                "what was written decodes",
            )


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "encode_batch": (encode_batch, seeds),
}
