"""Target of columns: a batch read without Arrow equals what Arrow reads, and only secrets differ when they are hidden.

The first octet chooses the protocol. The turns of a connection follow: an octet whose lowest bit is the side, two octets of
size, and as many octets.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from captures import capture_of, conversation
from common import pyarrow, rows, same, sometimes
from targets_captures import NAMES as COLUMN_NAMES
from targets_captures import OPENINGS, decoded, known_limits

from lib import secret_plants
from lib.protocols import MODULES, PORTS
from lib.wire import connect, packet, string
from wirefmt import amqp10, rocketmq
from wirefmt.spec.secrets import SHOWN

NAMES = tuple(MODULES)
#: Protocols whose decoders take a side.
SIDED = ("mqtt", "amqp091", "nsq", "phpmq")
SIDES = ("client", "server")

Turns = list[tuple[int, bytes]]


def turns_of(data: bytes) -> Turns:
    found = []
    at = 0
    while len(data) - at > 3:
        size = int.from_bytes(data[at + 1 : at + 3], "big")
        found.append((data[at] & 1, data[at + 3 : at + 3 + size]))
        at += 3 + size
    return found


def seed(protocol: str, turns: Turns) -> bytes:
    said = b"".join(bytes([side]) + len(octets).to_bytes(2, "big") + octets for side, octets in turns)
    return bytes([NAMES.index(protocol)]) + said


# ------------------------------------------------------------------------------------------------ what is checked


def check_read_back(batch: Any) -> None:
    """Columns, validity and sizes equal Arrow's, in an array and in a stream."""
    table = pyarrow.record_batch(batch)
    table.validate(full=True)
    same((len(batch), batch.num_rows, batch.names), (table.num_rows, table.num_rows, table.schema.names), "shape")
    same(batch.nbytes >= 0, True, "nbytes")
    repr(batch)
    streamed = pyarrow.RecordBatchReader.from_stream(batch).read_all()
    same(streamed.equals(pyarrow.Table.from_batches([table])), True, "as a stream")
    same(pyarrow.schema(batch), table.schema, "schema")
    for name in batch.names:
        column = table[name]
        same(batch.validity(name).tolist(), column.is_valid().to_pylist(), f"validity of {name}")
        try:
            found = batch[name]
        except TypeError as error:
            same(pyarrow.types.is_nested(column.type), True, str(error))
            continue
        if pyarrow.types.is_temporal(column.type):
            column = column.cast(pyarrow.int64())
        if found.dtype != object and pyarrow.types.is_boolean(column.type):
            column = column.fill_null(False)
        elif found.dtype != object:
            column = column.fill_null(0)
        same(found.tolist(), column.to_pylist(), f"column {name}")
        same(isinstance(found, np.ndarray) and len(found[1:]), max(0, len(column) - 1), f"a part of {name}")
    for name in ("no such column", ""):
        for ask in (batch.validity, batch.__getitem__):
            try:
                ask(name)
            except KeyError:
                continue
            raise AssertionError(f"a column named {name!r}")


def check_hidden(shown: Any, hidden: Any, path: str) -> None:
    """A cell is the same, or part of it is hidden."""
    if shown == hidden:
        return
    if isinstance(shown, dict) and isinstance(hidden, dict):
        same(list(hidden), list(shown), path)
        for name in shown:
            check_hidden(shown[name], hidden[name], f"{path}.{name}")
    elif isinstance(shown, list | tuple) and isinstance(hidden, list | tuple):
        same(len(hidden), len(shown), path)
        for a, b in zip(shown, hidden, strict=True):
            check_hidden(a, b, path)
    elif hidden is None or path.rpartition(".")[2] in ("payload_size", "body_size"):
        return  # octets that may hold a secret are withheld
    else:
        text = hidden.decode("utf-8", "replace") if isinstance(hidden, bytes) else str(hidden)
        same(SHOWN in text or "expose_credentials" in text, True, f"{path}: {shown!r} became {hidden!r}")


def hidden(data: bytes) -> None:
    if len(data) < 4 or pyarrow is None:
        return
    protocol, turns = NAMES[data[0] % len(NAMES)], turns_of(data[1:])
    for number, side in enumerate(SIDES):
        octets = b"".join(said for direction, said in turns if direction == number)
        options: dict[str, Any] = {"side": side} if protocol in SIDED else {}
        if protocol == "mqtt":
            options["version"] = 5
        exposing = ({"expose_credentials": True}, {}) if protocol != "phpmq" else ({},)
        batches = [MODULES[protocol].decode_batch(octets, strictness="lax", **options, **more) for more in exposing]
        for batch in batches:
            check_read_back(batch)
        tables = [pyarrow.record_batch(batch).to_pylist() for batch in batches]
        check_hidden(tables[0], tables[-1], "decode_batch")
    opening = connect("c", 5) if protocol == "mqtt" else OPENINGS.get(protocol, b"")
    said = [(0, opening), *turns] if opening and turns and turns[0][1][:4] != opening[:4] else turns
    octets = capture_of(conversation(PORTS[protocol], said, 1448 if sometimes(data, 2) else 100))
    decode_as = f"tcp.port=={PORTS[protocol]},{protocol}"
    limits = known_limits(data[0] // len(NAMES))
    # what is guessed at without being told, in every second input that has no limits
    told: dict[str, Any] = {} if not limits and sometimes(data[1:], 2) else {"decode_as": decode_as}
    names = [*COLUMN_NAMES, "raw"]
    tables = [
        decoded(octets, len(octets), names=names, expose_credentials=shown, limits=limits, **told)
        for shown in (True, False)
    ]
    same(tables[0] is None, tables[1] is None, "rows")
    if tables[0] is not None:
        shown_rows, hidden_rows = (t.drop_columns(["ts", "ts_first"]).to_pylist() for t in tables)
        check_hidden(shown_rows, hidden_rows, "capture")


# ------------------------------------------------------------------------------------------------ seeds of AMQP 0.9.1


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def table(*entries: tuple[bytes, bytes]) -> bytes:
    """Of names and of values with the letters of their types."""
    body = b"".join(short(name) + value for name, value in entries)
    return len(body).to_bytes(4, "big") + body


def long(letter: bytes, octets: bytes) -> bytes:
    return letter + len(octets).to_bytes(4, "big") + octets


def method091(numbers: tuple[int, int], arguments: bytes, channel: int = 1) -> bytes:
    body = struct.pack(">HH", *numbers) + arguments
    return struct.pack(">BHI", 1, channel, len(body)) + body + b"\xce"


def content091(headers: bytes, body: bytes = b"21.5", flags: int = 0x2000, more: bytes = b"") -> bytes:
    """Content header and body: the headers table, and what further flags ask for."""
    head = struct.pack(">HHQH", 60, 0, len(body), flags) + headers + more
    octets = struct.pack(">BHI", 2, 1, len(head)) + head + b"\xce"
    return octets + struct.pack(">BHI", 3, 1, len(body)) + body + b"\xce" if body else octets


DELIVER = method091((60, 60), short(b"tag") + struct.pack(">QB", 7, 0) + short(b"x") + short(b"k"))
PUBLISH = method091((60, 40), b"\0\0" + short(b"x") + short(b"k") + b"\0")

#: A value for each letter, a small number where it is one.
LETTERS = (
    b"t\1",
    b"t\0",
    b"b\3",
    b"b\xff",
    b"B\3",
    b"s\0\3",
    b"u\0\3",
    b"I\0\0\0\3",
    b"i\0\0\0\3",
    b"l" + bytes(7) + b"\3",
    b"L" + bytes(7) + b"\3",
    b"l" + b"\x7f" * 8,
    b"f\x40\x49\x0f\xdb",
    b"d" + struct.pack(">d", 2.5),
    b"d" + struct.pack(">d", float("nan")),
    b"D\2\0\0\1\3",
    b"T" + bytes(7) + b"\3",
    b"V",
    long(b"S", b"text"),
    long(b"S", b'"quoted" \\ \n\x01 \xc3\xa9'),
    long(b"S", b"\xff\xfe no text"),
    long(b"x", b"\0\1\xfe\xff"),
    long(b"x", b""),
    long(b"A", b"I\0\0\0\1V" + long(b"x", b"\x80") + long(b"S", b'a"b\x1f')),
    b"F" + table((b"in", b"t\1"), (b"x", long(b"x", b"ab"))),
    long(b"A", b"F" + table((b"password", long(b"S", b"p"))) + b"t\0"),
    b"F" + table((b"token", b"I\0\0\0\7"), (b'a"\x02', b"V")),
    long(b"S", b"z" * 600),
    long(b"x", b"z" * 600),
    long(b"A", b""),
    b"F" + table(),
    *(
        b"d" + struct.pack(">d", number)
        for number in (0.1, 1e22, 1e23, 5e-324, 1e-7, 1.7976931348623157e308, -0.0, float("inf"))
    ),
    *(b"f" + struct.pack(">f", number) for number in (0.1, 1e22, 1e-40, -2.5, 1e-7, float("-inf"))),
)


def amqp091_turns() -> Iterator[Turns]:
    for value in LETTERS:
        start_ok = table(
            (b"product", long(b"S", b"p")), (b"connection_name", value), (b"secret", value), (b"in", value)
        )
        arguments = start_ok + short(b"PLAIN") + long(b"", b"\0u\0p") + short(b"en_US")
        headers = table((b"x-delivery-count", value), (b"password", value), (b"a", value), (b"\xff", value))
        yield [
            (0, OPENINGS["amqp091"] + method091((10, 11), arguments, 0)),
            (1, DELIVER + content091(headers)),
            (0, PUBLISH + content091(headers)),
        ]
    every = table(*((b"k%d" % i, value) for i, value in enumerate(LETTERS)))
    yield [(0, PUBLISH + content091(every)), (1, DELIVER + content091(every, b""))]
    for expiration in (b"60000", b"", b"x", b"9" * 18, b"9" * 19):
        yield [(0, PUBLISH + content091(b"", flags=0x0100, more=short(expiration)))]
    names = (b"first", b"second \xc3\xa9", b"\xff", b"")
    starts = [
        method091((10, 11), table((b"connection_name", long(b"S", n))) + short(b"E") + bytes(4) + short(b""), 0)
        for n in names
    ]
    yield [(0, OPENINGS["amqp091"] + b"".join(starts))]


# ------------------------------------------------------------------------------------------------ seeds of AMQP 1.0


INFINITE = float("inf")
#: Numbers whose shortest text is of each form, is hard to find, or does not exist.
FLOATS = (
    0.0,
    -0.0,
    1.5,
    -2.25,
    0.1,
    1e22,
    1e23,
    1e300,
    1e-7,
    1e-5,
    123456789.125,
    5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    9007199254740993.0,
    123456789012345680.0,
    9.5367431640625e-07,
    2.0**-1074 * 3,
    8.41e21,
    9.999999e22,
    4.35,
    1e16,
    12345678e9,
    6.123233995736766e-17,
    9e-5,
    0.001,
    INFINITE,
    -INFINITE,
    float("nan"),
    1e37,
    1.1754943508222875e-38,
    16777216.0,
    2.0**100,
)
#: First octets of decimals: small and large coefficients, both signs, infinities, no number.
DECIMALS = (
    b"\x22",
    b"\x25",
    b"\x31",
    b"\xa2",
    b"\x6c",
    b"\xec",
    b"\x78",
    b"\xf8",
    b"\x7c",
    b"\x00",
    b"\x5f",
    b"\x30",
    b"\x32\x80",
    b"\x60",
)


def amqp10_values() -> Iterator[bytes]:
    """Values as octets, of every kind that text has to be made of."""
    for constructor in (b"\x41", b"\x43", b"\x45", b"\x40", b"\x44"):  # one element many times
        yield b"\xf0\0\0\0\5\0\0\x27\x10" + constructor
        yield b"\xf0\0\0\0\5\0\0\0\3" + constructor
    yield b"\xe0\4\2\x52\1\2"
    yield b"\xe0\x07\2\0\x53\1\x52\1\2"  # a descriptor for all
    yield b"\xe0\x08\2\0\xa3\1d\x52\1\2"
    pairs = (
        b"\xc0\3\1\x52\1" + b"\xa1\1v",  # a list as key
        b"\xd1\0\0\0\4\0\0\0\0" + b"\x54\1",
        b"\x52\7" + b"\xa1\1v",
        b"\xa1\x08password" + b"\xa1\1p",
        b"\xa3\5token" + b"\x54\1",
        b"\xa0\2\0\xff" + b"\x40",
        b'\xa1\4a"\\\n' + b'\xa1\5\x01"\\\xc3\xa9',
        b"\x41" + b"\x82" + struct.pack(">d", 1.5),
        b"\x98" + bytes(16) + b"\x94" + bytes(16),
        b"\x73\0\0\0\x41" + b"\x73\0\0\0\xe9",
        b"\x73\0\0\x6f\x22" + b"\x73\0\1\xf6\0",
        b"\x73\0\0\xd8\0" + b"\x73\0\x11\0\0",
        b"\x83" + bytes(8) + b"\x74" + bytes(4),
        b"\0\x53\1\xa1\1a" + b"\0\xa3\1d\xc1\x0c\2\xa1\6secret\xa1\1s",
        b"\x72\x7f\xc0\0\0" + b"\x84" + bytes(8),
    )
    for pair in pairs:
        yield b"\xc1" + bytes([len(pair) + 1, 2]) + pair
    most = [pair for pair in pairs if pair[0] not in (0xC0, 0xD1, 0)]
    for chosen in (pairs, most):
        body = b"".join(chosen)
        yield b"\xd1" + struct.pack(">II", len(body) + 4, 2 * len(chosen)) + body
        inner = b"\xd1" + struct.pack(">II", len(body) + 4, 2 * len(chosen)) + body
        yield b"\xd0" + struct.pack(">II", len(inner) + 5, 2) + inner + b"\x40"
        yield b"\0\xa3\1d" + inner
    for number in FLOATS:
        yield b"\x82" + struct.pack(">d", number)
        yield b"\x72" + struct.pack(">f", number if abs(number) < 1e38 or number != number or number == INFINITE else 0)
    for bits in DECIMALS:
        for code, size in ((b"\x74", 4), (b"\x84", 8), (b"\x94", 16)):
            yield code + (bits * 16)[:1] + bytes(size - 2) + b"\x07"
            yield code + (bits * 16)[:size]
    for letter in 'a"éß漢\uffff😀':
        yield b"\x73" + struct.pack(">I", ord(letter))
    yield b"\xb1" + struct.pack(">I", 700) + b'"' * 700
    yield b"\xa0\xff" + bytes(range(255))
    yield b"\xa1\xf0" + b"\xc3\xa9" * 120


def transfer(octets: bytes, number: int) -> bytes:
    return amqp10.Transfer(
        handle=0, delivery_id=number, delivery_tag=b"t", message_format=0, settled=True, payload=octets
    ).encode()


def amqp10_turns() -> Iterator[Turns]:
    opening = OPENINGS["amqp10"] + amqp10.Open(container_id="c").encode()
    for number, value in enumerate(amqp10_values()):
        entries = b"\xa3\1k" + value + b"\xa3\x08password" + value
        mapped = b"\xd1" + struct.pack(">II", len(entries) + 4, 4) + entries
        text = b"\xa1\1k" + value if value[0] < 0xC0 and value[0] else b"\xa1\1k\x40"
        plain = b"\xd1" + struct.pack(">II", len(text) + 4, 2) + text
        said = b""
        for section, octets in ((0x71, mapped), (0x72, mapped), (0x74, plain), (0x78, mapped)):
            said += transfer(b"\0\x53" + bytes([section]) + octets + b"\0\x53\x77\xa1\1b", number)
        said += transfer(b"\0\x53\x77" + value, number)
        said += transfer(b"\0\x53\x76" + b"\xd0" + struct.pack(">II", len(value) + 4, 1) + value, number)
        listed = b"\xa1\1c" + b"\x40" * 8 + mapped  # the properties of an open
        opened = b"\0\x53\x10\xd0" + struct.pack(">II", len(listed) + 4, 10) + listed
        said += struct.pack(">IBBH", len(opened) + 8, 2, 0, 0) + opened
        yield [(0, opening + said), (1, opening + said)]


def piece(octets: bytes, channel: int = 0, **fields: Any) -> bytes:
    return amqp10.Transfer(channel=channel, handle=0, payload=octets, **fields).encode()


def amqp10_pieces() -> Iterator[Turns]:
    """Deliveries in several transfers that end well, are aborted, are cut off by another, or by the end of their link, session
    or connection."""
    first = [
        piece(b"\0\x53\x75\xb0\0\0\2\0" + b"a" * 200, c, delivery_id=c, delivery_tag=b"t", more=True) for c in range(3)
    ]
    middle = [piece(b"b" * 150, c, more=True) for c in range(3)]
    last = [piece(b"c" * 162, c, more=False) for c in range(3)]
    aborted = [piece(b"", c, aborted=True) for c in range(3)]
    detach = amqp10.Detach(handle=0, closed=True).encode()
    end, close = amqp10.End().encode(), amqp10.Close().encode()
    opening = OPENINGS["amqp10"] + amqp10.Open(container_id="c").encode()
    again = piece(b"\0\x53\x75\xa0\1x", delivery_id=9, delivery_tag=b"u", more=True)
    strange = piece(b"\0\x53\x75\xa0\1x", delivery_id=9, delivery_tag=b"u" * 40, more=True)
    ill = piece(b"\0\x53\x70\xc0\2\1\x55\0\x53\x75\xa0\1x", delivery_id=9, delivery_tag=b"u")
    null = piece(b"\0\x53\x75\x40", delivery_id=9, delivery_tag=b"u")
    for said in (
        [*first, *middle, *last],
        [first[0], middle[0], aborted[0]],
        [*first, *reversed(last)],
        [first[0], detach],
        [first[0], first[1], end],
        [*first, middle[1], close],
        [first[0], again, last[0]],
        [*first, *middle],
        [last[0]],
        [first[0], strange, last[0]],
        [ill, null],
        [first[0], ill, last[0]],
        [middle[0], last[0]],
        [first[0][:-150]],
        [*first, *first, *middle, *last, *aborted],
        [first[0], piece(b"c", delivery_id=0, more=False)],
        [
            piece(b"", delivery_id=1, delivery_tag=b"t"),
            piece(b"", delivery_id=2, delivery_tag=b"t", more=True),
            last[0],
        ],
        [first[0], piece(b"c" * 162, delivery_id=7, more=False)],
        [first[0], *middle[:1] * 9, last[0]],
        [piece(b"\0\xa3\x10amqp:data:binary\xa0\1x", delivery_id=1, delivery_tag=b"t")],
        [piece(b"\0\x80\0\0\0\0\0\0\0\x75\xa0\1x", delivery_id=1, delivery_tag=b"t", more=True), last[0]],
    ):
        joined = b"".join(said)
        yield [(0, opening + joined), (1, opening + joined)]


# ------------------------------------------------------------------------------------------------ seeds of the others


def nsq_turns() -> Iterator[Turns]:
    strings = (
        b'\\u00e9\\u07ff\\u6f22\\ud83d\\ude00\\n\\"\\/',
        b"\xc3\xa9\\t\xe6\xbc\xa2\\\\\xf0\x9f\x98\x80",
        b"\xff\\n\xc3",
        b"a" * 3000 + b"\\n",
        b"\\u0000\\ud800x",
        b"\xc3\xa9" * 3000,
        b"\\u00e9" * 1200,
        b"\xf0\x9f\x98\x80\\n" * 700,
        b"",
    )
    for text in strings:
        members = b'"client_id":"%s","hostname":"%s","user_agent":"%s","password":"%s"' % ((text,) * 4)
        body = b'{"feature_negotiation":true,' + members + b"}"
        answer = b'{"max_rdy_count":2500,"version":"%s","auth":{"token":"%s"}}' % (text, text)
        frame = struct.pack(">II", len(answer) + 4, 0) + answer
        yield [(0, b"  V2IDENTIFY\n" + len(body).to_bytes(4, "big") + body), (1, frame)]
    for text in (
        b'E_BAD_TOPIC PUB topic name "a b" is not valid',
        b"E_INVALID",
        b"E_X \xff",
        b"\xff x",
        b"E_X ",
        b" x",
    ):
        yield [(1, struct.pack(">II", len(text) + 4, 1) + text)]
    for line in (
        b"PUB t\n\0\0\0\1x",
        b"DPUB t 1000\n\0\0\0\1x",
        b"MPUB t\n\0\0\0\x0e\0\0\0\2\0\0\0\1x\0\0\0\1y",
        b"RDY 5\n",
        b"SUB t#ephemeral c\n",
        b"REQ 0123456789abcdef 1000\n",
        b"FIN 0123456789abcdef\n",
        b"TOUCH 0123456789abcdef\r\n",
    ):
        yield [(0, line)]
    authorised = b'{"identity":"i","identity_url":"u","permission_count":3,"secret":"s"}'
    yield [(0, b"  V2AUTH\n\0\0\0\1s"), (1, struct.pack(">II", len(authorised) + 4, 0) + authorised)]


def rocketmq_turns() -> Iterator[Turns]:
    fields = {f"name{i}": f"{i}" * (i % 30) for i in range(80)}
    for code in (10, 310, 320, 11, 34, 39, 105):
        for form in ("JSON", "ROCKETMQ"):
            for more in (
                {"topic": "t", "properties": "password\1p\2KEYS\1k\2"},
                {"secretKey": "\u00e9", "n\u00e9": "v", "b": "T"},
            ):
                command = rocketmq.RemotingCommand(
                    code=code, opaque=code, ext_fields=fields | more, body=b'{"password":"p"}', serialize_type=form
                )
                answer = rocketmq.RemotingCommand(
                    code=0, flag=1, opaque=code, ext_fields=more, serialize_type=form, remark="r\u00e9"
                )
                yield [(0, command.encode()), (1, answer.encode())]


def prefaced() -> Iterator[Turns]:
    """Requests after a preface of the PROXY protocol, good and bad."""
    request = rocketmq.RemotingCommand(code=105, opaque=1, ext_fields={"topic": "t"}).encode()
    sign = b"\r\n\r\n\0\r\nQUIT\n"
    for preface in (
        b"PROXY TCP4 10.0.0.9 10.0.0.1 40000 10911\r\n",
        b"PROXY UNKNOWN\r\n",
        b"PROXY TCP4 x\n",
        b"PROXY " + b"x" * 300,
        b"PROXY \n",
        sign + b"\x21\x11\0\x0c" + bytes(12),
        sign + b"\x20\0\0\0",
        sign + b"\x11\0\0\0",
        sign + b"\x21",
        sign[:5],
        sign + b"\x21\x11\xff\xff",
    ):
        yield [(0, preface + request * 2)]
        yield [(0, preface), (0, request * 2), (1, rocketmq.RemotingCommand(code=0, flag=1, opaque=1).encode())]


def mqtt_turns() -> Iterator[Turns]:
    for name in (b"password", b"x-Auth-Token", b"plain", b"\xc3\xa9"):
        properties = b"\x26" + string(name) + string(b"value")
        yield [(0, packet(0x30, string("t"), bytes([len(properties)]), properties, b"21.5"))]


def vector_turns(protocol: str) -> Iterator[Turns]:
    for row in rows(protocol):
        octets = bytes.fromhex(row.get("hex") or "")
        if 0 < len(octets) < 2000 and row.get("version", 5) == 5:
            yield [(number, octets) for number in range(2)]


#: Of the vectors every so-manieth.
EVERY = {"mqtt": 17, "amqp091": 11, "amqp10": 11, "nsq": 5, "phpmq": 1, "rocketmq": 3}


def seeds() -> Iterator[bytes]:
    for protocol in NAMES:
        if protocol in secret_plants.OBJECTS:
            yield seed(protocol, secret_plants.turns(protocol))
        for number, turns in enumerate(vector_turns(protocol)):
            if number % EVERY[protocol] == 0:
                yield seed(protocol, turns)
    for protocol, made in (
        ("mqtt", mqtt_turns),
        ("amqp091", amqp091_turns),
        ("amqp10", amqp10_turns),
        ("nsq", nsq_turns),
        ("rocketmq", rocketmq_turns),
    ):
        for turns in made():
            yield seed(protocol, turns)
    for turns in amqp10_pieces():
        for choice in (0, 1, 2, 3):
            octets = seed("amqp10", turns)
            yield bytes([octets[0] + 6 * choice]) + octets[1:]
    yield from (seed("rocketmq", turns) for turns in prefaced())


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {"hidden": (hidden, seeds)}
