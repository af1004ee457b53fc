"""Every AMQP 1.0 vector, four ways, through decode(), Decoder and the constructors. Vectors: tests/vectors/amqp10."""

from __future__ import annotations

import copy
import pickle
import re
import tracemalloc
from collections import Counter
from typing import Any

import pytest

from lib.amqp10_vectors import (
    LIMITS,
    Vector,
    build,
    build_frame,
    build_message,
    frame_differences,
    load,
    node,
    same,
    sections,
)
from lib.four_ways import four_ways
from lib.groups import each_vector
from wirefmt import amqp10
from wirefmt.errors import DecodeError, LimitExceeded, Malformed, Truncated, Unsupported
from wirefmt.framing import NEED_DATA, Limits

PUBLIC = load()
FRAMES = ("frame", "sasl")
DEEP = [v for v in PUBLIC if v.too_deep]
VALID = [v for v in PUBLIC if v.valid and not v.too_deep]
INVALID = [v for v in PUBLIC if not v.valid and not v.incomplete]
INCOMPLETE = [v for v in PUBLIC if v.incomplete]

#: A frame that ends a stream well.
EMPTY = bytes.fromhex("0000000802000000")


def of(vectors: list[Vector], *kinds: str) -> Any:
    return each_vector(v for v in vectors if v.kind in kinds)


def read(vector: Vector, **options: Any) -> Any:
    options = vector.options | options
    if vector.kind == "value":
        return amqp10.decode_value(vector.octets, **options)
    if vector.kind == "message":
        return amqp10.decode_message(vector.octets, **options)
    if vector.kind == "sequence":
        return amqp10.Decoder(**options).feed(vector.octets)
    return amqp10.decode(vector.octets, **options)


def feed_all(decoder: amqp10.Decoder, pieces: list[bytes]) -> None:
    for piece in pieces:
        decoder.feed(piece)


def survives(value: Any) -> None:
    """What is true of every object: equal to its copies, hashable, picklable, with a repr."""
    assert value == copy.deepcopy(value) or value != value
    again = pickle.loads(pickle.dumps(value))
    assert again == value or value != value  # NaN
    assert hash(again) == hash(value) or value != value
    assert repr(again) == repr(value)


def test_the_file_holds_what_it_should() -> None:
    assert len(PUBLIC) > 1000
    assert len(VALID) + len(INVALID) + len(INCOMPLETE) + len(DEEP) == len(PUBLIC)
    kinds = Counter(v.kind for v in VALID)
    assert kinds["value"] > 250
    assert kinds["frame"] > 150
    assert kinds["sasl"] > 25
    assert kinds["message"] > 100
    assert kinds["sequence"] >= 20
    assert len(INVALID) > 380
    assert len(INCOMPLETE) > 5


# ---- values


@of(VALID, "value")
def test_valid_values(vector: Vector) -> None:
    value = read(vector)
    assert same(node(value), vector.decoded)
    assert same(node(read(vector, strictness="lax")), vector.decoded)
    if isinstance(value, amqp10.Value | amqp10.Composite):
        assert value.encode() == vector.octets
        assert amqp10.encode_value(value) == vector.octets
    survives(value)


@of(VALID, "value")
def test_fresh_values_take_the_smallest_encoding(vector: Vector) -> None:
    if vector.canonical is None:
        return
    value = build(vector.decoded)
    assert amqp10.encode_value(value) == vector.canonical
    assert same(node(amqp10.decode_value(vector.canonical, limits=LIMITS)), vector.decoded)


@of(VALID, "value")
def test_values_are_equal_however_encoded(vector: Vector) -> None:
    value = read(vector)
    for octets in filter(None, (vector.canonical, *vector.reencoded)):
        other = amqp10.decode_value(octets, limits=LIMITS)
        if not same(node(other), vector.decoded):
            assert vector.rule == "array-described"  # proton takes a second descriptor for an element
            continue
        assert other == value or value != value
        assert hash(other) == hash(value) or value != value


@each_vector(DEEP)
def test_nesting_is_limited(vector: Vector) -> None:
    depth = vector.octets.count(b"\x53") if vector.octets[0] == 0 else None
    try:
        value = read(vector)
    except LimitExceeded as error:
        assert error.have == 64
        assert "64 levels" in error.reason
        assert error.reply == "amqp:resource-limit-exceeded"
        assert depth is None or depth > 64
    else:
        assert value.encode() == vector.octets
        assert depth is None or depth <= 64


# ---- frames


@of(VALID, *FRAMES)
def test_valid_frames(vector: Vector) -> None:
    frame = read(vector)
    assert not frame_differences(frame, vector.decoded)
    assert frame.encode() == vector.octets
    assert amqp10.frame_size(vector.octets) == len(vector.octets)
    for frames in four_ways(amqp10.Decoder, vector.octets, EMPTY[:3], **vector.options):
        assert frames == [frame]
        assert [f.encode() for f in frames] == [vector.octets]
    lax = read(vector, strictness="lax")
    assert lax == frame
    assert lax.notes == ()
    survives(frame)


@of(VALID, *FRAMES)
def test_fresh_frames_take_the_smallest_encoding(vector: Vector) -> None:
    frame = build_frame(vector.decoded, composites=True)
    assert frame.encode() == vector.canonical
    assert vector.canonical is not None
    if not vector.decoded.get("extended_header") and vector.rule != "sasl-channel-ignored":
        for same_frame in (frame, build_frame(vector.decoded)):
            assert same_frame == read(vector)
            assert hash(same_frame) == hash(read(vector))


@of(VALID, "sequence")
def test_valid_sequences(vector: Vector) -> None:
    for frames in four_ways(amqp10.Decoder, vector.octets, EMPTY[:3], **vector.options):
        assert len(frames) == len(vector.decoded)
        for frame, decoded in zip(frames, vector.decoded, strict=True):
            assert not frame_differences(frame, decoded)
        assert b"".join(f.encode() for f in frames) == vector.octets
    assert b"".join(build_frame(d, composites=True).encode() for d in vector.decoded) == vector.canonical


# ---- messages


@of(VALID, "message")
def test_valid_messages(vector: Vector) -> None:
    message = read(vector)
    assert same(sections(message), vector.decoded)
    assert message.encode() == vector.octets
    lax = read(vector, strictness="lax")
    assert lax == message
    assert lax.notes == ()
    survives(message)


@of(VALID, "message")
def test_fresh_messages_take_the_smallest_encoding(vector: Vector) -> None:
    message = build_message(vector.decoded, composites=True)
    assert message.encode() == vector.canonical
    for same_message in (message, build_message(vector.decoded)):
        assert same_message == read(vector)
        assert hash(same_message) == hash(read(vector))


@of(VALID, "message")
def test_messages_are_equal_however_encoded(vector: Vector) -> None:
    for octets in vector.reencoded:
        try:
            other = amqp10.decode_message(octets, limits=LIMITS)
        except Malformed:
            continue  # rhea writes footer keys as strings: a vector of its own
        assert other == read(vector)


# ---- what is refused


@of(INVALID, "value", "message", *FRAMES)
def test_invalid_octets_are_refused(vector: Vector) -> None:
    with pytest.raises(DecodeError) as caught:
        read(vector)
    error = caught.value
    assert type(error) in (Truncated, Malformed, Unsupported, LimitExceeded)
    assert error.protocol == "amqp10"
    assert 0 <= error.offset <= len(vector.octets)
    assert error.reason
    assert error.spec
    if vector.kind not in FRAMES:
        return
    for pieces in ([vector.octets], [vector.octets[i : i + 1] for i in range(len(vector.octets))]):
        decoder = amqp10.Decoder(**vector.options)
        with pytest.raises(DecodeError) as again:
            feed_all(decoder, pieces)
        # a frame that says it is shorter than it is ends there in a stream
        assert str(again.value) == str(error) or vector.rule == "frame-size-too-small"
        with pytest.raises(DecodeError):
            decoder.feed(EMPTY)


@of(INVALID, "sequence")
def test_invalid_sequences_are_refused(vector: Vector) -> None:
    decoder = amqp10.Decoder(**vector.options)
    with pytest.raises(DecodeError):
        decoder.feed(vector.octets)


@each_vector(INCOMPLETE)
def test_incomplete_frames_wait(vector: Vector) -> None:
    decoder = amqp10.Decoder(**vector.options)
    decoder.feed(vector.octets)
    assert decoder.pending > 0
    with pytest.raises(Truncated):
        decoder.close()
    if vector.kind in FRAMES:
        size = amqp10.frame_size(vector.octets)
        assert size is NEED_DATA or size > len(vector.octets)
        with pytest.raises(Truncated):
            read(vector)


#: Words of the vectors' reasons -> (words of ours, where our error says the fault is). The first that fits counts.
REASONS = (
    ("mandatory field {} is missing", "mandatory field"),
    ("{}: field {} must be", "another type|not allowed in this field"),
    ("fields, at most", "more fields"),
    ("unknown constructor", "unknown constructor"),
    ("octets left inside", "bytes after the last element"),
    ("exceeds the", "more elements than bytes"),
    ("count {} is odd", "odd number"),
    ("identical keys", "two equal keys"),
    ("not UTF-8", "UTF-8"),
    ("not ASCII", "ASCII"),
    ("scalar value", "char"),
    ("boolean octet", "boolean"),
    ("frame size", "frame size is below 8|caller's limit"),
    ("data offset", "data offset"),
    ("unknown frame type", "frame type"),
    ("protocol header", "protocol header"),
    ("is not allowed here", "not allowed"),
    ("unknown descriptor", "unknown descriptor|descriptor is neither"),
    ("not a described value", "not a described value|not allowed in this field"),
    ("unknown message section", "unknown section|descriptor is neither"),
    ("out of order", "out of order"),
    ("another kind of body", "several kinds"),
    ("after another body", "several kinds"),
    ("no body", "no body"),
    ("footer without a body", "out of order|no body"),
    ("must be a simple type", "simple type"),
    ("key must be", "key is"),
    ("octets after", "bytes after"),
    ("needs", "runs past|truncated|bytes after the frame"),
)


def test_invalid_octets_are_refused_for_the_reason_given() -> None:
    wrong = []
    compared = 0
    for vector in INVALID:
        if vector.kind == "sequence":
            continue
        with pytest.raises(DecodeError) as caught:
            read(vector)
        for theirs, ours in REASONS:
            if re.search(re.escape(theirs).replace(r"\{\}", ".+"), vector.reason):
                compared += 1
                if not re.search(ours, caught.value.reason):
                    wrong.append(f"{vector.id} {vector.octets.hex()[:60]}: {vector.reason} | {caught.value}")
                break
    assert not wrong, "\n".join(wrong)
    assert compared > 350


# ---- LAX reads what implementations write


#: What LAX accepts and STRICT refuses, and the implementations that do so (shared facts on AMQP, 2.1 to 2.4).
LENIENT = {
    "boolean-octet-not-0-1": "proton, rhea read any octet as a boolean",
    "map-duplicate-keys": "all",
    "string-not-utf8": "RabbitMQ, proton keep octets",
    "symbol-not-ascii": "RabbitMQ, proton keep octets",
    "annotations-wrong-key-type": "rhea's footers, RabbitMQ's Python client",
    "library-messages": "rhea's footers, RabbitMQ's Python client",
    "application-properties-complex-value": "RabbitMQ, proton",
    "application-properties-wrong-key": "RabbitMQ, proton",
    "application-properties-duplicate": "all",
    "sections-out-of-order": "rhea, pyamqp",
    "bodies-mixed": "pyamqp",
    "no-body": "proton writes such messages",
    "message-id-wrong-type": "RabbitMQ, proton",
    "section-field-wrong-type": "RabbitMQ, proton",
    "section-too-many-fields": "proton, rhea",
    "unknown-section": "rhea passes over them",
    "sasl-empty-frame": "RabbitMQ",
    "trailing-octets-in-frame": "RabbitMQ, proton",
}


@each_vector([v for v in INVALID if v.rule in LENIENT])
def test_lax_reads_what_implementations_let_pass(vector: Vector) -> None:
    value = read(vector, strictness="lax")
    if vector.kind != "value":
        assert value.notes
        assert all(note.check and note.reason and note.spec for note in value.notes)
        assert value.encode() == vector.octets
        survives(value)


@pytest.mark.parametrize("strictness", ["strict", "lax"])
def test_every_vector_cut_at_every_length(strictness: str) -> None:
    """Cut octets are read or refused, never anything else; a cut frame waits in a stream."""
    for vector in PUBLIC:
        for n in range(min(len(vector.octets), 300)):
            options: dict[str, Any] = {"strictness": strictness, "limits": LIMITS}
            for decode in (amqp10.decode, amqp10.decode_value, amqp10.decode_message):
                try:
                    value = decode(vector.octets[:n], **options)
                except DecodeError:
                    continue
                assert repr(value) is not None


def test_elements_that_take_no_octets_are_limited() -> None:
    array = amqp10.Array.repeat(None, 2**32 - 1)
    with pytest.raises(LimitExceeded) as caught:
        amqp10.decode_value(array.encode())
    assert caught.value.path == "value"
    assert caught.value.need == 2**32 - 1
    assert caught.value.have == 1_000_000
    read_back = amqp10.decode_value(array.encode(), limits=Limits(elements=0))
    assert read_back == array
    assert hash(read_back) == hash(array)
    assert len(read_back) == 2**32 - 1
    assert read_back[-1] is None
    assert read_back[:3] == read_back[-3:] == (None, None, None)
    assert read_back[2**32 :] == ()
    assert repr(read_back) == "amqp10.Array.repeat(None, 4294967295)"


def test_elements_that_take_no_octets_are_one_object() -> None:
    """Ten octets encode an array of a million empty lists. It takes the memory of a tuple, not of a million lists."""
    array = amqp10.decode_value(bytes.fromhex("f0 00000005 000f4240 45"))
    tracemalloc.start()
    try:
        assert array == [amqp10.List()] * 1_000_000
        assert hash(array) == hash(amqp10.Array.repeat(amqp10.List(), 1_000_000))
        assert len({id(element) for element in array}) == 1
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 60_000_000
