"""Target of encode_batch: decoded columns are reproduced; arbitrary columns are refused or make frames that decode."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import targets_columns
from common import pyarrow, rows, same

from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.errors import EncodeError

#: Options of decode_batch and of encode_batch, by protocol. Secrets are shown, because hidden ones are not reproduced.
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
#: A server of NSQ with the largest limits.
LARGEST: dict[str, Any] = {f.name: 2**48 - 1 for f in fields(nsq.ServerOptions) if f.name.startswith("max_")}
SERVER = nsq.ServerOptions(**LARGEST)
NAMES = ("mqtt", "mqtt", "mqtt", "amqp091", "amqp10", "rocketmq", "nsq", "phpmq")


def seeds() -> Iterator[bytes]:
    """Every vector, with a second octet for changes of its columns; AMQP 0.9.1 also as a message, NSQ without its magic."""
    for number, name in enumerate(NAMES):
        for row in rows(name):
            if not row.get("hex") or row.get("version") not in (None, PROTOCOLS[number][1].get("version")):
                continue
            octets = bytes.fromhex(row["hex"])
            for choice in range(CHOICES.get(name, 2)):
                yield bytes([number, choice]) + octets
    for number, turns in (
        (3, targets_columns.amqp091_turns), (4, targets_columns.amqp10_turns), (5, targets_columns.rocketmq_turns),
        (6, targets_columns.nsq_turns),
    ):  # fmt: skip
        for said in turns():
            for choice, (_, octets) in enumerate(said):
                yield bytes([number, choice]) + octets


#: Seeds of one vector.
CHOICES = {"mqtt": 1, "amqp10": 3, "nsq": 9, "phpmq": 6, "rocketmq": 4}


def plain(batch: Any) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = pyarrow.record_batch(batch).drop_columns(["byte_offset", "wire_size"]).to_pylist()
    return table


#: Texts that replace others in a column.
TEXTS = (
    "[", "{}", '{"a":1}', "-1", "-0", "0", "7", "256", "65536", "4294967296", "18446744073709551616", "1.5", "true", "false",
    '{"a":1.10,"b":1.5,"c":-0,"d":1e400}', '{"a":1.10,"b":2.5E-3,"c":-0,"d":18446744073709551615,"e":99999999999999999999}',
    '{"a":NaN}', '{"a":Infinity}', "[1.5,null,true,-7,-0.0]", '[{"a":[{}]}]', '{"descriptor":1,"value":[2]}', "[1]\n[2]", "\n",
    '[["a",1],[{"b":2},3]]', "[" * 80 + "]" * 80, "0a0b", "ff", "0" * 300, "accepted", "a\nb", "\r", "+", "#", "a:b",
)  # fmt: skip
#: Names of entries in maps.
ENTRIES = (
    "x",
    "more",
    "aborted",
    "delivery_tag",
    "settled",
    "arguments",
    "queue",
    "topic",
    "properties",
    "b",
    "",
    "é" * 200,
)


def changed(value: Any, r: random.Random) -> Any:
    """Another value of the same type, often an invalid one."""
    if r.random() < 0.1 and not isinstance(value, tuple):  # an entry of a map is never null
        return None
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return r.choice((0, 1, -1, value ^ 1 << r.randrange(7), 255, 127, 256, 65536, 2**31 - 1))
    if isinstance(value, bytes):
        if r.random() < 0.3:
            return r.choice(TEXTS).encode()
        return r.choice((b"", value[1:], value + b"\0", value * 2, r.randbytes(r.randrange(20))))
    if isinstance(value, str):
        if r.random() < 0.5:
            return r.choice(TEXTS)
        return r.choice(("", value[1:], value + "+", value * 2, "\0", "é" * r.randrange(300), "a b"))
    if isinstance(value, list):
        if value and r.random() < 0.3:
            return [*value, (r.choice(ENTRIES), r.choice(TEXTS))] if isinstance(value[0], tuple) else value[1:]
        return [changed(item, r) for item in value] + value[: r.randrange(3)]
    if isinstance(value, tuple):
        return tuple(changed(item, r) if i else item for i, item in enumerate(value))
    if isinstance(value, dict):
        return {name: changed(item, r) if r.random() < 0.2 else item for name, item in value.items()}
    return value


def one_changed(listed: list[dict[str, Any]], r: random.Random) -> list[dict[str, Any]]:
    """One cell of one row; in a struct one field."""
    if listed:
        row = r.choice(listed)
        while row:
            filled = [name for name in row if row[name] is not None]
            name = r.choice(filled if filled and r.random() < 0.8 else list(row))
            if not isinstance(row[name], dict) or r.random() < 0.05:
                row[name] = changed(row[name], r)
                break
            row = row[name]
    return listed


def loses(module: Any, octets: bytes, strictness: str) -> bool:
    """Do columns contain less than the octets? If LAX accepts a value of another type for AMQP 1.0, its text may differ; a
    response of NSQ that is not UTF-8 has a column in hexadecimal, and is written as that text."""
    if module is amqp10:
        return strictness == "lax"
    return module is nsq and octets.decode("utf-8", "replace").encode() != octets


def digits_of(table: list[dict[str, Any]]) -> Any:
    """Numbers without exponents if digits suffice: in JSON a float of AMQP 1.0 is read back as a double, whose text has an
    exponent from another size on."""

    def plainly(found: re.Match[str]) -> str:
        number = float(found[0])
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)

    return re.sub(r"-?\d+(?:\.\d+)?e[+-]?\d+", plainly, repr(table))


def encode_batch(data: bytes) -> None:
    """STRICT rows are reproduced; LAX rows are reproduced or refused; rows with other values are refused or decode."""
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
            pass  # columns do not contain everything
        else:
            same(again.rest, 0, "all is decoded")
            if not loses(module, octets, strictness):
                back, were = plain(again), good.drop_columns(["byte_offset", "wire_size"]).to_pylist()
                if back != were and module is amqp10:
                    back, were = digits_of(back), digits_of(were)
                same(back, were, "columns")
        r = random.Random(data)
        before = good.drop_columns(["error"]).to_pylist()[:20]
        listed = [changed(row, r) or {} for row in before] if r.random() < 0.3 else one_changed(before, r)
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
            # encode_batch has no options of a server
            server = {"server": SERVER} if module is nsq else {}
            read = module.decode_batch(made, strictness=strictness, **decoding, **server)
            same(
                [row["error"] for row in plain(read)],
                [None] * len(listed),
                "what was written decodes",
            )


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "encode_batch": (encode_batch, seeds),
}
