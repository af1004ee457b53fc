"""RocketMQ objects: what can be built is what can be read; errors say where; hostile octets stay within bounds."""

from __future__ import annotations

import ipaddress
import json
import pickle
import random
import struct
import zlib
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.kinds import all_of
from wirefmt import amqp091, amqp10, rocketmq
from wirefmt.errors import DecodeError, EncodeError, LimitExceeded, Malformed, Truncated, Unsupported
from wirefmt.framing import NEED_DATA, Limits
from wirefmt.protocols import skippable
from wirefmt.rocketmq import spec

FORMS = ("JSON", "ROCKETMQ")


def json_frame(text: str | bytes, body: bytes = b"") -> bytes:
    header = text.encode() if isinstance(text, str) else text
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


# ---- tables


def test_tables() -> None:
    codes = [row.code for row in spec.REQUEST_CODES]
    assert codes == sorted(set(codes))
    assert len(codes) == 163
    assert len(spec.RESPONSE_CODES) == 66
    assert (spec.VERSIONS[0], spec.VERSIONS[121], spec.VERSIONS[213]) == ("V3_0_0_SNAPSHOT", "V3_4_9", "V4_0_0")
    assert (spec.VERSIONS[401], spec.VERSIONS[409], spec.VERSIONS[433], spec.VERSIONS[479]) == (
        "V4_9_4", "V4_9_8", "V5_1_0", "V5_3_3"
    )  # fmt: skip
    names = {row.name for row in spec.HEADERS}
    assert len(names) == len(spec.HEADERS)
    for row in spec.REQUEST_CODES:
        assert {row.header, row.response_header} - {""} <= names
        assert rocketmq.header_class(row.code) is getattr(rocketmq, row.header or "-", None)
    assert len(spec.FIELDS) == len(set(spec.FIELDS))
    assert spec.FIELDS[0] == ""
    assert len({c.name for c in spec.CHECKS}) == len(spec.CHECKS)


def test_seed_codes_are_known() -> None:
    """The codes the owner's document lists."""
    requests = {row.code for row in spec.REQUEST_CODES}
    listed = (
        10,
        11,
        12,
        13,
        14,
        15,
        17,
        21,
        25,
        28,
        *range(29, 44),
        45,
        100,
        101,
        102,
        105,
        106,
        *range(200, 207),
        208,
        215,
    )
    assert requests >= {*listed, 216, *range(220, 225), 300, *range(303, 310), *range(315, 323)}
    assert set(spec.RESPONSE_CODES) >= {*range(10, 18), *range(19, 27), 206, 207, 208}


def test_frames_have_nothing_that_lax_skips() -> None:
    of_typed_headers = {"FIELD_MISSING", "FIELD_VALUE"}
    assert {row.check for row in skippable() if row.protocol == "rocketmq"} == of_typed_headers
    data = json_frame('{"code":"x"}')
    for strictness in ("strict", "lax"):
        with pytest.raises(Malformed):
            rocketmq.decode(data, strictness=strictness)


# ---- what the real reader takes (each case was put to it)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("{'code':10}", {"code": 10}),
        ("{code:10,}", {"code": 10}),
        ("{,\"code\":10,,\"flag\":1}", {"code": 10, "flag": 1}),
        ("/*c*/ {\"code\" : 10 } // x", {"code": 10}),
        ('{"code":10}/*', {"code": 10}),
        ("\ufeff{\"code\":10}", {"code": 10}),
        ('\x01{"code":\x1f10\x00}\x7f', {"code": 10}),
        ('{"code":"12"}', {"code": 12}),
        ('{"code":"12.00"}', {"code": 12}),
        ('{"code":"1,000"}', {"code": 1000}),
        ('{"code":-10.7}', {"code": -10}),
        ('{"code":1e2}', {"code": 100}),
        ('{"code":10L}', {"code": 10}),
        ('{"code":+5}', {"code": 5}),
        ('{"code":00012}', {"code": 12}),
        ('{"code":true}', {"code": 1}),
        ('{"code":null}', {"code": 0}),
        ('{"opaque":""}', {"opaque": None}),
        ('{"opaque":"5"}', {"opaque": 5}),
        ('{"Code":10,"EXT_FIELDS":{"a":"b"}}', {"code": 10, "ext_fields": {"a": "b"}}),
        ('{"c\\u006fde":4}', {"code": 4}),
        ('{"language":"go"}', {"language": "GO"}),
        ('{"language":"XX"}', {"language": None}),
        ('{"language":null}', {"language": None}),
        ('{"remark":true}', {"remark": "true"}),
        ('{"remark":["a"]}', {"remark": '["a"]'}),
        ('{"remark":"a\nb\\x41\\v\\0\\/"}', {"remark": "a\nbA\v\0/"}),
        ('{"remark":"\\ud83d\\ude80"}', {"remark": "\U0001f680"}),
        ('{"extFields":{"a":1.50,"b":1e5,"c":-0.0,"d":12345678901234567890}}',
         {"ext_fields": {"a": "1.50", "b": "1E+5", "c": "0.0", "d": "12345678901234567890"}}),
        ('{"extFields":{"a":[1, 2,{"b": null}]}}', {"ext_fields": {"a": "[1,2,{}]"}}),
        ('{"extFields":{"a":{"z":1,"b":2,"c":[]}}}', {"ext_fields": {"a": '{"b":2,"c":[],"z":1}'}}),
        ('{"extFields":{a:"b",\'c\':\'d\',}}', {"ext_fields": {"a": "b", "c": "d"}}),
        ('{"extFields":null}', {"ext_fields": None}),
        ('{"extFields":{}}', {"ext_fields": {}}),
        ('{"a":{1:2,b:[,]},"code":3}', {"code": 3}),
        ('{"code":NaN,"flag":1,"remark":undefined,"x":NaN}', {"code": 0, "flag": 1, "remark": None}),
        ('{"extFields":{"a":NaN,"b":{"c":NaN},"d":[NaN,2]}}', {"ext_fields": {"a": None, "b": "{}", "d": "[null,2]"}}),
        ('{"extFields":{null :"1","null":"2",nullx:"3",NULL:"4",true:"5"}}',
         {"ext_fields": {None: "1", "null": "2", "nullx": "3", "NULL": "4", "true": "5"}}),
        ('{"code": 1,"extFields":"null"}', {"code": 1, "ext_fields": None}),
        ('{"code":1;"extFields":{"a":"1";"b":2};"flag":2;}', {"code": 1, "flag": 2, "ext_fields": {"a": "1", "b": "2"}}),
        ('{"code":1,"serializeTypeCurrentRPC":1}', {"code": 1, "serialize_type": "JSON"}),
        ('{"code":1,"serializeTypeCurrentRPC":"XX"}', {"code": 1, "serialize_type": "JSON"}),
        # semicolons and literals, as fastjson 1.2.83 has them under RemotingSerializable.decode of 5.3.2
        ('{"code":1;"flag":2;}', {"code": 1, "flag": 2}),
        ('{"x":1,"extFields":{"a":"1"};"flag":2}', {"flag": 2, "ext_fields": {"a": "1"}}),
        ('{"code": 7,"extFields":{"a":"b"};}', {"code": 7, "ext_fields": {"a": "b"}}),
        ('{"remark":"r";"extFields":null ;}', {"remark": "r", "ext_fields": None}),
        ('{"x":{};"code":1}', {"code": 1}), ('{"x":NaN;"code":1}', {"code": 1}), ('{"x":null ;"code":2}', {"code": 2}),
        ('{"code":true/**/,"flag":1}', {"code": 1, "flag": 1}), ("{'body':null ;}", {"code": 0}),
        # a body in the header: text in base64, or an array of numbers, true, false and null
        ('{"code":1,"body":"aGk="}', {"code": 1}), ('{"body":[],"code":1}', {"code": 1}),
        ('{"body":[1,-2,1.5,null,true],"code":1}', {"code": 1}),
        # what it makes of too large numbers, where names are as it writes them, and no blank is in the way
        ('{"code":9999999999}', {"code": 1410065407}),
        ('{"flag":1,"code":-9999999999}', {"code": -1410065407}),
        ('{"version":1,"opaque":"5000000000"}', {"opaque": 705032704}),
        ('{"code":05000000000 }', {"code": 705032704}),
    ],
)  # fmt: skip
def test_the_real_reader_takes(text: str, fields: dict[str, Any]) -> None:
    command = rocketmq.decode(json_frame(text))
    assert {name: getattr(command, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", "header"), ("   ", "header"), ("[]", "header"), ("null", "header"), ('"x"', "header"), ("12", "header"),
        ('{"code":10', "header"), ('{"code" 10}', "header"), ('{"code":10 "flag":1}', "header"), ('{"code":10}{}', "header"),
        ('{"code":10} x', "header"), ('{"code"/**/:1}', "header"), ('{"code":99999999999}', "code"), ('{"code":""2}', "header"),
        ('{"code":"abc"}', "code"), ('{"code":" 12"}', "code"), ('{"code":"10.5"}', "code"), ('{"code":{}}', "code"),
        ('{"code":1e400}', "code"), ('{"flag":2147483648}', "flag"), ('{"code":0x10}', "code"), ('{"language":99}', "language"),
        ('{"language":[]}', "language"), ('{"remark":"\\q"}', "remark"), ('{"remark":"\\u12"}', "remark"),
        ('{"remark":"a}', "remark"), ('{"extFields":[]}', "ext_fields"), ('{"extFields":"null"}', "ext_fields"),
        ('{"extFields":{1:"a"}}', "ext_fields"), ('{"extFields":{"a":"b"}', "header"), ('{"suspended":[]}', "header"),
        ('{"body":1}', "header"), ('{"body":true}', "header"), ('{"body":{}}', "header"), ('{"body":["a"]}', "header"),
        ('{"body":[[1]]}', "header"), ('{"body":[1,{}]}', "header"), ('{"body":NaN}', "header"), ('{"body":undefined}', "header"),
        ('{"language":undefined}', "language"), ('{"language":NaN}', "language"), ('{"extFields":undefined}', "ext_fields"),
        ('{"serializeTypeCurrentRPC":2}', "header"), ('{"serializeTypeCurrentRPC":true}', "header"),
        ('{"serializeTypeCurrentRPC":{}}', "header"), ('{"serializeTypeCurrentRPC":NaN}', "header"),
        ('{;"code":1}', "header"), ('{"code":1,;"flag":2}', "header"), ('{"x":[1;2]}', "header"),
        ('{"x":{"a":1;"b":2}}', "header"), ('{"x":-NaN}', "header"), ('{"x":NaNa}', "header"), ('{"code":Infinity}', "code"),
        ('{"code":4294967296}', "code"), ('{"code":3000000000}', "code"), ('{"code": 9999999999}', "code"),
        ('{"x":1,"code":9999999999}', "code"), ('{CODE:5000000000}', "code"), ('{"code":5000000000L}', "code"),
        ('{"flag":1, "opaque":5000000000}', "opaque"),
        # null, true and false want a blank, a comma or a bracket right behind them
        ('{"code":null;}', "code"), ('{"x":true;"code":1}', "header"), ('{"code":false;"flag":1}', "code"),
        ('{"extFields":{"a":null;"b":"c"}}', "ext_fields"), ('{"extFields":{"a":true;}}', "ext_fields"),
        ('{"code":null/**/}', "code"), ('{"x":[null\x01]}', "header"), ('{"x":[true\x7f,1]}', "header"),
        # behind extFields and body no semicolon, where members are in order
        ('{"extFields":{};}', "header"), ('{"code":1,"extFields":{"a":"b"};,"flag":2}', "header"),
        ('{"extFields":null ;}', "header"), ('{"body":"";}', "header"), ('{"body":null ;}', "header"),
        ('{code:1,"extFields":"null";}', "header"), ('{"code":9, "extFields":"null"}', "ext_fields"),
        ('{"code":9999999999;}', "code"), ('{"code":9999999999/**/}', "code"),
    ],
)  # fmt: skip
def test_the_real_reader_refuses(text: str, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        rocketmq.decode(json_frame(text))
    assert (caught.value.path, caught.value.spec, caught.value.reply) == (path, "2", None)
    assert 8 <= caught.value.offset <= 8 + len(text)


#: Texts of `suspended`, a boolean of RemotingCommand, as fastjson 1.2.83 takes and refuses them.
BOOLEANS = ("", "1", "0", "y", "Y", "N", "T", "f", "F", "true", "TRUE", "True", "null", "NULL", "false", "FALSE")
NO_BOOLEANS = ("Null", "2", "n", "t", "x", "yes", "no", "falsey", "nil", "01", " ")


@pytest.mark.parametrize("text", BOOLEANS)
def test_texts_of_a_boolean(text: str) -> None:
    assert rocketmq.decode(json_frame(f'{{"code":10,"suspended":"{text}"}}')).code == 10


@pytest.mark.parametrize("text", NO_BOOLEANS)
def test_texts_that_are_no_boolean(text: str) -> None:
    with pytest.raises(DecodeError, match="not JSON that the Java reader accepts"):
        rocketmq.decode(json_frame(f'{{"code":10,"suspended":"{text}"}}'))


LONG_HEADER = (
    '{"code" : 1.5e3 , \'flag\':"7",remark:"x\\u00e9\\x41\\n",//c\n"opaque":+5,/* c */"version":-12,"x":[1,{"b":null }],'
    '"language":"GO","extFields":{"a":1.5E-3,"b":true,c:NaN,"d":undefined,"e":{"f":[]}}}'
)


@pytest.mark.parametrize("size", range(len(LONG_HEADER) + 1))
def test_a_header_ends_where_its_length_says(size: int) -> None:
    """Section 1: the body follows. A header that breaks off is the same fault whether or not its rest follows as the body."""
    heads = [LONG_HEADER[:size].encode(), b" " + LONG_HEADER[:size].encode()]
    for head in heads:
        said: list[Any] = []
        for body in (b"", LONG_HEADER[size:].encode(), b"e5}", b"}", b"0" * 20, b'"', b"*/}", b'0041"}'):
            try:
                command = rocketmq.decode(json_frame(head, body))
                assert command.body == body if body else not command.body  # type: ignore[comparison-overlap]
                said.append((command.code, command.flag, command.remark, command.ext_fields))
            except DecodeError as error:
                said.append((type(error), error.offset, error.path, error.reason))
                assert error.offset <= 8 + len(head)
        assert said == said[:1] * len(said)


def binary_frame(remark: bytes = b"", ext: bytes = b"", ext_size: int | None = None) -> bytes:
    header = struct.pack(">hbhiii", 10, 0, 0, 1, 0, len(remark)) + remark
    header += struct.pack(">i", len(ext) if ext_size is None else ext_size) + ext
    return struct.pack(">II", 4 + len(header), 1 << 24 | len(header)) + header


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"\xffa", "\ufffda"), (b"\xed\xa0\xbd", "\ufffd"), (b"\xed\xb0\x80x", "\ufffdx"), (b"\xed\xa0", "\ufffd"),
        (b"\xed\xa0\xff", "\ufffd\ufffd"), (b"\xed", "\ufffd"), (b"\xe4\xb8x", "\ufffdx"), (b"\xc0\x80", "\ufffd\ufffd"),
        (b"\xe0\x80\x80", "\ufffd\ufffd\ufffd"), (b"\xed\x9f\xbf", "\ud7ff"),
    ],
)  # fmt: skip
def test_ill_formed_utf8_of_a_binary_header_is_what_java_makes_of_it(octets: bytes, text: str) -> None:
    assert rocketmq.decode(binary_frame(remark=octets)).remark == text


def test_ill_formed_utf8_of_a_json_header() -> None:
    with pytest.raises(Malformed, match=r"header: ill-formed UTF-8 at offset 23 \[2\]"):
        rocketmq.decode(json_frame(b'{"remark":"abcd\xff"}'))


def test_escapes_of_every_kind_of_character() -> None:
    """RFC 8259, section 7: \\u and four hexadecimal digits, of which a pair of surrogates makes one character."""
    characters = [*range(0x300), *range(0x300, 0x110000, 61), 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF]
    text = "".join(chr(c) for c in characters if not 0xD800 <= c < 0xE000)
    escaped = json.dumps(text)
    assert escaped.isascii()
    command = rocketmq.decode(json_frame(f'{{"code":1,"remark":{escaped},"extFields":{{"a":{escaped}}}}}'))
    assert command.remark == text
    assert command.ext_fields == {"a": text}


@pytest.mark.parametrize("serialize_type", ["JSON", "ROCKETMQ"])
def test_any_json_reader_reads_what_is_written(serialize_type: Any) -> None:
    """fastjson writes what JavaScript cannot hold (control characters, U+2028, U+2029) as \\uXXXX."""
    text = "".join(map(chr, [*range(0x100), 0x2027, 0x2028, 0x2029, 0x202A, 0xFFFF, 0x10000]))
    octets = rocketmq.RemotingCommand(
        code=1, remark=text, ext_fields={"a": text}, serialize_type=serialize_type
    ).encode()
    assert rocketmq.decode(octets).remark == text
    if serialize_type == "JSON":
        header = json.loads(octets[8:])
        assert (header["remark"], header["extFields"]) == (text, {"a": text})
        written = octets[8:].decode()
        assert not [c for c in written if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or c in "\u2028\u2029"]


def test_no_text_of_a_map_is_longer_than_the_map_says_it_is() -> None:
    ext = b"\0\5topic\0\0\0\6orders\0\1x\0\0\0\2yy"
    for size, fields in (
        (26, {"topic": "orders", "x": "yy"}),
        (18, {"topic": "orders", "x": "yy"}),
        (6, {"topic": "orders"}),
    ):
        assert rocketmq.decode(binary_frame(ext=ext, ext_size=size)).ext_fields == fields
    for size in (5, 4, 1):
        with pytest.raises(Truncated, match="ext_fields") as caught:
            rocketmq.decode(binary_frame(ext=ext, ext_size=size))
        assert caught.value.have == size


# ---- errors


@pytest.mark.parametrize(
    ("octets", "kind", "text"),
    [
        ("ffffffff", LimitExceeded, "length: frame larger than the limit (needs 4294967299, has 16777216) at offset 0 [1]"),
        ("80000000", LimitExceeded, "length: frame larger than the limit (needs 2147483652, has 16777216) at offset 0 [1]"),
        ("00000003000000", Truncated,
         "header_length: frame without a header word (needs 4, has 3, bounded by length) at offset 4 [1]"),
        ("00000004000000ff", Truncated,
         "header: header runs past the frame (needs 255, has 0, bounded by length) at offset 8 [1]"),
        ("0000000602000002 7b7d", Unsupported, "serialize_type: unknown serialize type at offset 4 [1]"),
        ("0000001901000015 000a000000 00000001 00000000 ffffffff 00000000", Malformed,
         "remark: negative length at offset 21 [3]"),
        ("0000001901000015 000a000000 00000001 00000000 00000064 00000000", Truncated,
         "remark: field runs past the header (needs 100, has 0, bounded by header_length) at offset 25 [3]"),
        ("0000000400000000", Truncated, "header: no header at offset 8 [2]"),
        ("0000000600000002 2f2f", Truncated, "header: no header at offset 10 [2]"),
        ("0000002101000001d", Truncated, None),
    ],
)  # fmt: skip
def test_what_errors_say(octets: str, kind: type[DecodeError], text: str | None) -> None:
    data = bytes.fromhex(octets.replace(" ", "") + ("0" if len(octets.replace(" ", "")) % 2 else ""))
    with pytest.raises(kind) as caught:
        rocketmq.decode(data)
    if text is not None:
        assert str(caught.value) == f"rocketmq: {text}"
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


def test_limits() -> None:
    frame = json_frame('{"code":1,"extFields":{"a":"1","b":"2"}}', bytes(100))
    assert rocketmq.frame_size(frame[:3]) is NEED_DATA
    assert rocketmq.frame_size(frame[:4], limits=Limits(frame_size=len(frame))) == len(frame)
    with pytest.raises(LimitExceeded):
        rocketmq.frame_size(frame[:4], limits=Limits(frame_size=len(frame) - 1))
    with pytest.raises(LimitExceeded, match="more fields than the limit"):
        rocketmq.decode(frame, limits=Limits(elements=3))
    rocketmq.decode(frame, limits=Limits(elements=4))
    large = struct.pack(">I", 1 << 25)
    assert rocketmq.frame_size(large, limits=Limits(frame_size=1 << 26)) == (1 << 25) + 4
    with pytest.raises(LimitExceeded):
        rocketmq.frame_size(large)


def test_a_decoder_ends_at_the_first_fault() -> None:
    good = json_frame('{"code":1}')
    decoder = rocketmq.Decoder()
    with pytest.raises(DecodeError) as caught:
        decoder.feed(good + json_frame("[]") + good)
    assert [c.code for c in all_of(caught.value.messages, rocketmq.RemotingCommand)] == [1]
    assert caught.value.offset == len(good) + 8
    with pytest.raises(DecodeError):
        decoder.feed(good)


# ---- hostile octets


@pytest.mark.parametrize(
    "text",
    [b"[" * 1_000_000, b'{"a":' * 200_000, b"{" + b"," * 1_000_000, b'{"a":"' + b"\\u0041" * 100_000, b"/*" * 500_000,
     b'{"code":' + b"9" * 1_000_000 + b"}", b'{"code":1e' + b"9" * 1_000_000 + b"}", b'{"extFields":{' + b'"a":"b",' * 100_000],
)  # fmt: skip
def test_json_bombs(text: bytes) -> None:
    with pytest.raises(DecodeError):
        rocketmq.decode(json_frame(text))
    if not text.startswith(b'{"code"'):
        with pytest.raises(DecodeError):
            rocketmq.decode_json(text)


def test_nesting() -> None:
    deepest = "[" * 64 + "]" * 64
    assert rocketmq.decode(json_frame('{"code":1,"x":' + deepest + "}")).code == 1
    with pytest.raises(LimitExceeded, match="nested too deeply"):
        rocketmq.decode(json_frame('{"code":1,"x":[' + deepest + "]}"))
    value: Any = rocketmq.decode_json(deepest.encode())
    for _ in range(63):
        (value,) = value
    assert value == []


def test_long_numbers_as_fields() -> None:
    fields = rocketmq.decode(
        json_frame('{"extFields":{"a":' + "7" * 100_000 + ',"b":[' + "7" * 100_000 + "]}}")
    ).ext_fields
    assert fields is not None
    assert len(fields["a"]) == 100_000


def test_decompression_bombs() -> None:
    bomb = rocketmq.MessageExt(topic="T", body=zlib.compress(bytes(1 << 25)), sys_flag=0x301).encode()
    with pytest.raises(LimitExceeded, match="body larger than the limit once decompressed"):
        rocketmq.decode_messages(bomb)
    with pytest.raises(LimitExceeded):
        rocketmq.decode_messages(bomb, body_size=(1 << 25) - 1)
    (message,) = rocketmq.decode_messages(bomb, body_size=1 << 25)
    assert message.body == bytes(1 << 25)
    assert message.sys_flag == 0x300
    assert message.encode() == bomb


#: Codes whose requests and whose answers carry stored messages; of 320, SEND_BATCH_MESSAGE, the request carries a batch.
STORED = {False: {39, 309}, True: {11, 12, 33, 361, 200050, 200052}}


@pytest.mark.parametrize("response", [False, True])
@pytest.mark.parametrize("code", [row.code for row in spec.REQUEST_CODES])
def test_the_code_says_what_a_body_is(code: int, response: bool) -> None:
    """Each body that has a form is read in that form, and no other body is."""

    def read(body: bytes) -> Any:
        command = rocketmq.RemotingCommand(code=0 if response else code, flag=int(response), opaque=1, body=body)
        return command.decode_body(request=code if response else None)

    stored = rocketmq.MessageExt(topic="T", body=b"stored")
    batch = [rocketmq.Message(body=b"one"), rocketmq.Message(body=b"two", properties={"a": "b"})]
    body_class = rocketmq.body_class(code, response=response)
    if code in STORED[response]:
        assert read(stored.encode()) == (stored,)
    elif code == 320 and not response:
        assert read(rocketmq.encode_batch_messages(batch)) == tuple(batch)
    elif body_class is not None:
        assert type(read(b"{}")) is body_class
    else:
        for octets in (stored.encode(), rocketmq.encode_batch_messages(batch), b"{}"):
            assert read(octets) == octets


def stored_zeros(size: int, count: int) -> bytes:
    """Stored messages whose bodies are so many zeros, compressed about a thousand times."""
    return count * rocketmq.MessageExt(topic="T", body=zlib.compress(bytes(size)), sys_flag=0x301).encode()


@pytest.mark.parametrize("strictness", ["strict", "lax"])
def test_bodies_of_one_call_are_bounded_together(strictness: Any) -> None:
    """Each body is small enough; 64 MiB is what all of them may become."""
    with pytest.raises(LimitExceeded, match="bodies larger than max_inflated once decompressed") as told:
        rocketmq.decode_messages(stored_zeros(4 << 20, 17), strictness=strictness)
    assert [len(m.body) for m in told.value.messages] == 16 * [4 << 20]  # type: ignore[attr-defined]
    assert told.value.path == "messages[16].body"
    assert len(rocketmq.decode_messages(stored_zeros(4 << 20, 16), strictness=strictness)) == 16
    response = rocketmq.RemotingCommand(code=0, flag=1, opaque=1, body=stored_zeros(4 << 20, 17))
    with pytest.raises(LimitExceeded):
        response.decode_body(request=11, strictness=strictness)


def test_the_bound_of_one_call_is_an_option() -> None:
    stored = stored_zeros(1 << 20, 4)
    assert len(rocketmq.decode_messages(stored, max_inflated=4 << 20)) == 4
    with pytest.raises(LimitExceeded):
        rocketmq.decode_messages(stored, max_inflated=(4 << 20) - 1)
    assert len(rocketmq.decode_messages(stored, max_inflated=0, decompress=False)) == 4
    with pytest.raises(EncodeError):
        rocketmq.decode_messages(stored, max_inflated=-1)


def test_bodies_of_usual_compression_are_not_bounded() -> None:
    """A hundred times the bytes of the call may always be made: 100,000 bytes of 4,000 random ones, again and again."""
    body = random.Random(14).randbytes(4_000) * 25
    octets = zlib.compress(body)
    assert len(octets) * 100 > len(body)
    stored = 3 * rocketmq.MessageExt(topic="T", body=octets, sys_flag=0x301).encode()
    assert [m.body for m in rocketmq.decode_messages(stored, max_inflated=0)] == 3 * [body]


@pytest.mark.parametrize("method", ["zlib", "lz4", "zstd"])
def test_compression(method: Any) -> None:
    if method == "lz4":
        pytest.importorskip("lz4", reason="needs lz4 (pip install lz4)")
    elif method == "zstd":
        pytest.importorskip("backports.zstd", reason="needs backports.zstd (pip install backports.zstd)")
    body = b"hello " * 10_000
    octets, flags = rocketmq.compress(body, method=method)
    stored = rocketmq.MessageExt(topic="T", body=octets, sys_flag=flags).encode()
    (message,) = rocketmq.decode_messages(stored, check_crc=True)
    assert (message.body, message.sys_flag) == (body, flags & ~1)
    (as_stored,) = rocketmq.decode_messages(stored, decompress=False)
    assert (as_stored.body, as_stored.sys_flag) == (octets, flags)
    assert pickle.loads(pickle.dumps(message)) == message != as_stored
    with pytest.raises(LimitExceeded):
        rocketmq.decode_messages(stored, body_size=1000)
    cut = rocketmq.MessageExt(topic="T", body=octets[:-5], sys_flag=flags).encode()
    with pytest.raises(Malformed, match="body cannot be decompressed"):
        rocketmq.decode_messages(cut)


def test_every_prefix_of_a_message_is_an_error() -> None:
    octets = rocketmq.MessageExt(topic="T" * 200, body=b"body", properties={"a": "b"}, born_host=("::1", 5)).encode()
    for n in range(1, len(octets)):
        with pytest.raises(Truncated):
            rocketmq.decode_messages(octets[:n])
        assert rocketmq.decode_messages(octets[:n], strictness="lax") == ()


# ---- building


def test_errors_of_constructors() -> None:
    command = rocketmq.RemotingCommand
    for wrong, error in (
        ({"code": 1 << 31}, EncodeError),
        ({"code": 200050, "serialize_type": "ROCKETMQ"}, EncodeError),
        ({"code": 1, "version": 40000, "serialize_type": "ROCKETMQ"}, EncodeError),
        ({"code": 1, "language": "COBOL"}, EncodeError),
        ({"code": 1, "language": None, "serialize_type": "ROCKETMQ"}, EncodeError),
        ({"code": 1, "remark": "\ud800"}, EncodeError),
        ({"code": 1, "ext_fields": {"a": 1}}, TypeError),
        ({"code": 1, "serialize_type": "XML"}, EncodeError),
        ({"code": 1, "body": bytes(1 << 24)}, EncodeError),
        ({"code": "1"}, TypeError),
    ):
        with pytest.raises(error):
            command(**wrong)
    with pytest.raises(EncodeError, match="needs topic"):
        rocketmq.GetRouteInfoRequestHeader()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no field 'nope'"):
        rocketmq.GetRouteInfoRequestHeader(topic="T", nope=1)  # type: ignore[call-arg]
    with pytest.raises(EncodeError):
        rocketmq.MessageExt(topic="T" * 200, version=1)
    with pytest.raises(EncodeError):
        rocketmq.encode_properties({"a\x01": "b"})


def test_typed_headers() -> None:
    header = rocketmq.PullMessageRequestHeader.from_ext_fields(
        {"consumerGroup": "G", "topic": "T", "queueId": "1", "queueOffset": "-5", "maxMsgNums": "32", "sysFlag": "2",
         "commitOffset": "0", "suspendTimeoutMillis": "15000", "subVersion": "7", "other": "x", "nsd": "TRUE"}
    )  # fmt: skip
    assert (header.queue_id, header.queue_offset, header.nsd, header.subscription) == (1, -5, True, None)
    assert header.ext_fields()["nsd"] == "true"
    assert pickle.loads(pickle.dumps(header)) == header
    assert eval(repr(header), {"rocketmq": rocketmq}) == header
    match header:
        case rocketmq.PullMessageRequestHeader(consumer_group=group, topic=topic):
            assert (group, topic) == ("G", "T")
    with pytest.raises(Malformed, match=r"ext_fields\.queueId: value is not of the field's type") as caught:
        rocketmq.GetMaxOffsetRequestHeader.from_ext_fields({"topic": "T", "queueId": "x"})
    assert caught.value.reply == 1
    with pytest.raises(Malformed, match=r"ext_fields\.queueId: required field is missing"):
        rocketmq.GetMaxOffsetRequestHeader.from_ext_fields({"topic": "T"})
    lax = rocketmq.GetMaxOffsetRequestHeader.from_ext_fields({"queueId": "x"}, strictness="lax")
    assert (lax.topic, lax.queue_id) == (None, None)  # type: ignore[comparison-overlap]


def test_json_bodies() -> None:
    route = rocketmq.TopicRouteData.decode(
        b'{"brokerDatas":[{"brokerAddrs":{0:"a:1","1":"b:2"},"brokerName":"n","cluster":"c"}],"queueDatas":[{"perm":6}]}'
    )
    assert dict((route.broker_datas or ())[0].broker_addrs or {}) == {
        0: "a:1",
        1: "b:2",
    }
    assert b'"brokerAddrs":{"0":"a:1","1":"b:2"}' in route.encode()
    assert b'"brokerAddrs":{0:"a:1",1:"b:2"}' in route.encode(loose=True)
    assert rocketmq.TopicRouteData.decode(route.encode(loose=True)) == route
    with pytest.raises(Malformed, match=r"body\.queueDatas"):
        rocketmq.TopicRouteData.decode(b'{"queueDatas":5}')
    assert rocketmq.LockBatchRequestBody.decode(b"{}").mq_set is None
    assert rocketmq.hash_code("TagA") == 2598919


def test_repr_is_an_expression() -> None:
    command = rocketmq.RemotingCommand(code=10, opaque=5, ext_fields={"topic": "T"}, body=b"x" * 20, remark="r")
    assert eval(repr(command), {"rocketmq": rocketmq}) == command
    message = rocketmq.MessageExt(topic="T", body=b"b", properties={"a": "b"}, born_host=("192.0.2.1", 1), queue_id=3)
    assert eval(repr(message), {"rocketmq": rocketmq}) == message
    signed = rocketmq.sign(command, access_key="A", secret_key="S")
    assert signed.ext_fields is not None
    assert signed.ext_fields["Signature"] not in repr(signed)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int16 = st.integers(-(1 << 15), (1 << 15) - 1)


@settings(max_examples=200, deadline=None)
@given(
    form=st.sampled_from(FORMS), code=int16, flag=int32, opaque=int32, remark=st.none() | names,
    fields=st.none() | st.dictionaries(names, names, min_size=1, max_size=30), body=st.binary(max_size=100),
    language=st.sampled_from(list(spec.LANGUAGES.values())), version=int16,
)  # fmt: skip
def test_commands_round_trip(form: Any, **values: Any) -> None:
    fields = values.pop("fields")
    command = rocketmq.RemotingCommand(serialize_type=form, ext_fields=fields, **values)
    octets = command.encode()
    again = rocketmq.decode(octets)
    assert again == command
    body = values.pop("body")
    assert {name: getattr(again, name) for name in values} == values
    assert again.ext_fields == fields
    assert (again.body_bytes() or b"") == body
    shuffled = None if fields is None else dict(reversed(fields.items()))
    assert (
        rocketmq.decode(
            rocketmq.RemotingCommand(serialize_type=form, ext_fields=shuffled, body=body, **values).encode()
        )
        == again
    )
    decoder = rocketmq.Decoder()
    assert decoder.feed(octets[:11]) + decoder.feed(octets[11:]) == [command]


@settings(max_examples=200, deadline=None)
@given(
    topic=st.text(st.characters(exclude_categories=["Cs"]), max_size=60), body=st.binary(min_size=1, max_size=60),
    properties=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=9),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x02"), min_size=1, max_size=9),
        min_size=1, max_size=9,
    ),
    queue_offset=st.integers(-(1 << 63), (1 << 63) - 1), flag=int32,
    born_host=st.tuples(st.ip_addresses().map(str), st.integers(0, 65535)),
    store_host=st.tuples(st.ip_addresses().map(str), st.integers(0, 65535)),
)  # fmt: skip
def test_messages_round_trip(**values: Any) -> None:
    message = rocketmq.MessageExt(**values)
    octets = message.encode()
    (again, second) = rocketmq.decode_messages(octets * 2, check_crc=True)
    assert again == second == message
    for name, value in values.items():
        ours = getattr(again, name)
        if name.endswith("_host"):  # there are two ways to write ::ffff:0:1
            ours, value = (ipaddress.ip_address(ours[0]), ours[1]), (ipaddress.ip_address(value[0]), value[1])
        assert ours == value, name
    assert rocketmq.decode_message_id(again.offset_msg_id) == (*again.store_host, 0)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_octets(data: bytes) -> None:
    for run in (rocketmq.decode, rocketmq.decode_messages, rocketmq.decode_batch_messages, rocketmq.decode_json):
        try:
            run(data)
        except DecodeError as error:
            assert error.protocol == "rocketmq"
    rocketmq.decode_properties(data)
    rocketmq.decode_batch(data)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_any_header(text: str) -> None:
    try:
        command = rocketmq.decode(json_frame(text.encode("utf-8", "surrogatepass")))
    except DecodeError:
        return
    assert command.ext_fields is None or dict(command.ext_fields) is not None


# ---- what POP says in texts


def test_extra_info() -> None:
    text = "100 1700000000000 60000 3 0 broker-a 2 101"
    info = rocketmq.decode_extra_info(text)
    assert info == rocketmq.ExtraInfo(100, 1700000000000, 60000, 3, "0", "broker-a", 2, 101)
    assert rocketmq.encode_extra_info(info) == text
    short = rocketmq.decode_extra_info("-1 0 0 999 2 b 0")
    assert short == rocketmq.ExtraInfo(-1, 0, 0, 999, "2", "b", 0, None)
    assert rocketmq.encode_extra_info(short) == "-1 0 0 999 2 b 0"
    for text, path in (
        ("", "extra_info"), ("1 2 3 4 0 b", "extra_info"), ("x 2 3 4 0 b 5", "extra_info.ck_offset"),
        ("1 2 3 2147483648 0 b 5", "extra_info.revive_queue_id"), ("1 2 3 4 0 b 5 x", "extra_info.message_queue_offset"),
    ):  # fmt: skip
        with pytest.raises(DecodeError) as caught:
            rocketmq.decode_extra_info(text)
        assert caught.value.path == path
    with pytest.raises(EncodeError):
        rocketmq.encode_extra_info(info._replace(broker_name="a b"))


def test_offsets_of_a_pop() -> None:
    assert rocketmq.decode_start_offset_info("0 2 100;2 0 5") == {("0", 2): 100, ("2", 0): 5}
    assert rocketmq.decode_msg_offset_info("0 2 100,101;2 0 5") == {("0", 2): (100, 101), ("2", 0): (5,)}
    assert rocketmq.decode_order_count_info("0 2 1;0 qo2%100 3") == {("0", "2"): 1, ("0", "qo2%100"): 3}
    for read in (
        rocketmq.decode_start_offset_info,
        rocketmq.decode_msg_offset_info,
        rocketmq.decode_order_count_info,
    ):
        assert read("") == {}
        for text in ("0 2", "0 2 1;", "0 2 1;0 2 1", "0 2 x", "0 2 1 1"):
            with pytest.raises(DecodeError):
                read(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), Decimal("NaN"), Decimal("Infinity")])
def test_json_has_no_such_number(value: Any) -> None:
    """RFC 8259, 6: numbers that are not digits are not permitted."""
    for held in (value, [value], {"a": value}):
        with pytest.raises(EncodeError, match="JSON has no number"):
            rocketmq.encode_json(held)


@pytest.mark.parametrize("other", [5, b"x", ["x"], ("x",), {"x": "y"}, object()])
def test_properties_are_text(other: Any) -> None:
    """Section 6: names and values are strings. Nothing else is made one."""
    for properties in ({"k": other}, {other: "v"} if other.__hash__ else {"k": other}):
        with pytest.raises(TypeError, match="names and values must be str"):
            rocketmq.encode_properties(properties)


@pytest.mark.parametrize("value", [b"x", object(), 1j])
def test_json_has_no_such_value(value: Any) -> None:
    for held in (value, [value], {"a": value}):
        with pytest.raises(TypeError, match="JSON has no"):
            rocketmq.encode_json(held)


@pytest.mark.parametrize(
    "value", [1.5, 1e300, -0.0, 1e-7, Decimal("1E+5"), 10**30, "\0\u2028\U0001f600", [None], {"a": {"b": 1}}]
)
def test_json_is_read_by_a_plain_reader(value: Any) -> None:
    assert json.loads(rocketmq.encode_json(value)) == (value if not isinstance(value, Decimal) else float(value))


@pytest.mark.parametrize("value", [amqp091.Timestamp(5), amqp10.UInt(7), amqp10.Float(1.5), True])
def test_json_of_numbers_of_other_classes(value: Any) -> None:
    assert json.loads(rocketmq.encode_json([value])) == [value]


@pytest.mark.parametrize("bit", range(32))
def test_each_bit_of_a_unique_id(bit: int) -> None:
    """4 octets of the address, 2 of the process, 4 of the class loader, 4 of the time in the month, 2 of the counter."""
    parts = (1 << bit % 16, 1 << bit, 1 << bit % 31, 1 << bit % 16)
    text = rocketmq.encode_unique_id("10.0.0.1", *parts)
    assert text == "0A000001" + "".join(f"{n:0{width}X}" for n, width in zip(parts, (4, 8, 8, 4), strict=True))
