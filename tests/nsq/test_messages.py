"""NSQ objects: values, octets, columns; what cannot be built; any octets are read or refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.nsq_vectors import of_kind
from lib.values import TEXT, check_value, evaluates, read_or_refused
from wirefmt import Limits, nsq
from wirefmt.errors import DecodeError, EncodeError, LimitExceeded

NAME = st.from_regex(r"\A[.a-zA-Z0-9_-]{1,54}(#ephemeral)?\Z")
# a carriage return before the line feed is the line's end, as nsqd reads it, so an id that ends with one cannot be written
ID = st.binary(min_size=16, max_size=16).filter(lambda b: not {32, 10} & set(b) and b[-1] != 13)
BODY = st.binary(min_size=1, max_size=300)
MS = st.integers(0, 3_600_000)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
COMMANDS = st.one_of(
    st.just(nsq.Magic()),
    st.just(nsq.Close()),
    st.just(nsq.Nop()),
    st.builds(nsq.Identify, st.lists(st.tuples(TEXT.map(lambda t: "x-" + t), JSON), max_size=4)),
    st.builds(nsq.Identify, client_id=TEXT, snappy=st.booleans(), sample_rate=st.integers(0, 99)),
    st.builds(nsq.Auth, secret=BODY),
    st.builds(nsq.Sub, topic=NAME, channel=NAME),
    st.builds(nsq.Publish, topic=NAME, body=BODY),
    st.builds(nsq.MultiPublish, topic=NAME, bodies=st.lists(BODY, min_size=1, max_size=5)),
    st.builds(nsq.DeferredPublish, topic=NAME, defer_time=MS, body=BODY),
    st.builds(nsq.Ready, count=st.integers(0, 2500)),
    st.builds(nsq.Finish, message_id=ID),
    st.builds(nsq.Requeue, message_id=ID, timeout=MS),
    st.builds(nsq.Touch, message_id=ID),
)
FRAMES = st.one_of(
    st.builds(nsq.Response, st.binary(max_size=40)),
    st.builds(nsq.Error, st.binary(max_size=40)),
    st.builds(nsq.Frame, frame_type=st.integers(3, 2**31 - 1), data=st.binary(max_size=40)),
    st.builds(
        nsq.MessageFrame,
        timestamp=st.integers(-(2**63), 2**63 - 1),
        attempts=st.integers(0, 65535),
        message_id=st.binary(min_size=16, max_size=16),
        body=st.binary(max_size=300),
    ),
)


@given(COMMANDS)
def test_commands(command: Any) -> None:
    check_value(command, nsq.decode(command.encode(), side="client"))
    assert nsq.decode(command.encode(), side="client").notes == ()
    evaluates(command, nsq=nsq)


@given(FRAMES)
def test_frames(frame: Any) -> None:
    check_value(frame, nsq.decode(frame.encode(), side="server"))
    evaluates(frame, nsq=nsq)


@pytest.mark.parametrize("first", range(256))
def test_the_type_of_a_frame_is_in_its_own_four_octets(first: int) -> None:
    """Whatever octet follows them, in a frame as long as a message."""
    for frame in (nsq.Response(bytes((first,)) * 40), nsq.Error(bytes((first,)) * 40)):
        octets = frame.encode()
        assert nsq.Decoder(side="server").feed(octets) == [frame]
        assert type(nsq.decode(octets, side="server")) is type(frame)


@given(st.lists(COMMANDS.filter(lambda c: not isinstance(c, nsq.Magic)), max_size=8), st.integers(1, 50))
def test_a_stream_however_cut_and_as_columns(commands: list[Any], size: int) -> None:
    octets = b"".join(c.encode() for c in commands)
    decoder = nsq.Decoder(side="client")
    found = [c for i in range(0, len(octets), size) for c in decoder.feed(octets[i : i + size])]
    decoder.close()
    assert found == commands
    batch = nsq.decode_batch(octets, side="client")
    assert batch.rest == 0
    assert batch["kind"].tolist() == [c.kind for c in commands]
    assert batch["wire_size"].tolist() == [len(c.encode()) for c in commands]
    for column, name in (("destination", "topic"), ("consumer_group", "channel"), ("message_id", "message_id")):
        assert batch[column].tolist() == [getattr(c, name, None) for c in commands]
    assert batch["payload"].tolist() == [c.body_bytes() if hasattr(c, "body_bytes") else None for c in commands]


@given(st.binary(max_size=200))
def test_any_octets_are_read_or_refused(octets: bytes) -> None:
    read_or_refused(nsq, octets)


def test_what_cannot_be_built() -> None:
    for build in (
        lambda: nsq.Publish(topic="a b", body=b"x"),
        lambda: nsq.Publish(topic="a\nNOP", body=b"x"),
        lambda: nsq.Publish(topic="t", body=b""),
        lambda: nsq.Sub(topic="t", channel="#ephemeral"),
        lambda: nsq.Finish(message_id=b"short"),
        lambda: nsq.Finish(message_id=b"0123456789abcde\n"),
        lambda: nsq.Ready(count=-1),
        lambda: nsq.MultiPublish(topic="t", bodies=[]),
        lambda: nsq.MultiPublish(topic="t", bodies=[b"x", b""]),
        lambda: nsq.Identify(sample_rate=100),
        lambda: nsq.Identify(heartbeat_interval=999),
        lambda: nsq.Identify({"x": float("inf")}),
        lambda: nsq.Identify({"x": "\ud800"}),
        lambda: nsq.MessageFrame(timestamp=0, attempts=1, message_id=b"x", body=b""),
        lambda: nsq.Frame(frame_type=2),
    ):
        with pytest.raises(EncodeError):
            build()
    for mistake in (lambda: nsq.Publish(topic=b"t", body=b"x"), lambda: nsq.Identify(no_such_member=1)):  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            mistake()


def test_hostile_sizes() -> None:
    for octets, path in (
        (b"\xff\xff\xff\xff", "size"),
        (b"\x80", "size"),
        (b"\0\0\0\3", "size"),
        (b"PUB t\n\x80\0\0\0", "body_size"),
        (b"MPUB t\n\0\0\0\x0c\x7f\xff\xff\xff\0\0\0\1x", "message_count"),
        (b"MPUB t\n\0\0\0\x0c\0\0\0\1\x7f\xff\xff\xffabcd", "bodies[0]"),
        (b"MPUB t\n\0\0\0\x0d\0\0\0\1\0\0\0\1xyyyy", "bodies"),
        (b"IDENTIFY\n\0\0\0\x80" + b'{"a":' + b"[" * 123, "body"),
    ):
        side: Any = "server" if octets[0] < 0x41 or octets[0] > 0x7F else "client"
        for strictness in ("strict", "lax"):
            with pytest.raises(DecodeError) as caught:
                nsq.decode(octets, side=side, strictness=strictness)
            assert caught.value.path == path
    for announced in (b"\x7f\xff\xff\xff", b"PUB t\n\x7f\xff\xff\xff"):
        with pytest.raises(LimitExceeded):
            nsq.frame_size(announced, side="server" if announced[0] == 0x7F else "client")
    with pytest.raises(LimitExceeded):
        nsq.decode(b"MPUB t\n\0\0\0\x0e\0\0\0\2\0\0\0\1x\0\0\0\1y", limits=Limits(elements=1))


def size(n: int) -> bytes:
    return n.to_bytes(4, "big", signed=True)


#: Commands with several faults; which one is reported, and after how many octets: nsqd reads the line, then the size,
#: then messages one by one, and the caller's limit is known with the size.
FIRST_FAULTS: list[tuple[bytes, dict[str, Any], str, int]] = [
    (b"MPUB t$\n" + size(-1), {}, "topic", 8),
    (b"MPUB t\n" + size(1 << 30) + size(-1), {}, "body_size", 11),
    (b"MPUB t\n" + size(40) + size(-1) + b"x" * 36, {"limits": Limits(frame_size=50)}, "", 11),
    (b"MPUB t$\n" + size(40) + size(-1) + b"x" * 36, {"limits": Limits(frame_size=50)}, "topic", 8),
    (b"MPUB t\n" + size(3) + b"abc", {}, "message_count", 11),
    (b"MPUB t\n" + size(40) + size(-1) + b"x" * 36, {}, "message_count", 15),
    (b"MPUB t\n" + size(40) + size(1) + size(-1) + b"x" * 32, {}, "bodies[0]", 19),
    (b"MPUB t\n" + size(40) + size(2) + size(1) + b"x" + size(99) + b"x" * 27, {}, "bodies[1]", 24),
    (b"MPUB t\n" + size(40) + size(2) + size(1) + b"x" + size(1) + b"x" + b"y" * 26, {}, "bodies", 25),
    (b"MPUB t\n" + size(13) + size(2) + size(4) + b"xxxx" + b"y", {}, "bodies[1]", 23),
    (b"PUB t$\n" + size(40) + b"x" * 40, {"limits": Limits(frame_size=20)}, "topic", 7),
    (b"PUB t\n" + size(40) + b"x" * 40, {"limits": Limits(frame_size=20)}, "", 10),
    (b"PUB t\n" + size(0) + b"x", {}, "body_size", 10),
]


def first_error(decoder: nsq.Decoder, octets: bytes, step: int) -> tuple[DecodeError, int]:
    """Of a stream in pieces; and where the piece begins that brought it."""
    for at in range(0, len(octets), step):
        try:
            decoder.feed(octets[at : at + step])
        except DecodeError as error:
            return error, at
    raise AssertionError("no error")


@pytest.mark.parametrize(("octets", "options", "path", "enough"), FIRST_FAULTS)
def test_the_first_fault_is_told_however_a_stream_is_cut(
    octets: bytes, options: dict[str, Any], path: str, enough: int
) -> None:
    good = nsq.Ready(count=1)
    stream = good.encode() + octets
    end = len(good.encode()) + enough
    for strictness in ("strict",) if path in ("topic", "body_size") else ("strict", "lax"):  # LAX forgives those two
        options |= {"side": "client", "strictness": strictness, "server": nsq.ServerOptions()}
        for step in (1, 3, 7, len(stream)):
            error, at = first_error(nsq.Decoder(**options), stream, step)
            assert error.path == path
            assert at < end  # no later than with the octet that tells
        with pytest.raises(DecodeError) as caught:
            nsq.decode(octets[:enough], **options)
        assert caught.value.path == path
        assert nsq.Decoder(**options).feed(stream[: end - 1]) == [good]


def test_go_reads_names_in_any_case_and_the_last_that_is_not_null() -> None:
    body = rb'{"CLIENT_ID":"a","client_id":"b","\u0063lient_id":null,"\u212aind":1,"deflate":true,"DEFLATE":false}'
    identify: Any = nsq.decode(b"IDENTIFY\n" + len(body).to_bytes(4, "big") + body)
    assert (identify.client_id, identify.deflate, identify.snappy) == ("b", False, None)
    assert [name for name, _ in identify.members] == [
        "CLIENT_ID",
        "client_id",
        "client_id",
        "\u212aind",
        "deflate",
        "DEFLATE",
    ]


def test_every_class_has_been_built() -> None:
    """The vectors are not all of the protocol; the strategies above are."""
    assert {row["decoded"]["name"] for row in of_kind("command")} >= {"PUB", "MPUB", "SUB"}


@pytest.mark.parametrize(
    ("line", "most"),
    [(b"DPUB t %d\n\0\0\0\1b", 3_600_000), (b"RDY %d\n", 2500)],
    ids=["DPUB", "RDY"],
)
def test_bounds_of_numbers_belong_to_them(line: bytes, most: int) -> None:
    """nsqd refuses what is `> maxTimeout` and `> MaxRdyCount`, and what is below 0: the bounds themselves are good."""
    server = nsq.ServerOptions()
    for number in (0, 1, most - 1, most):
        assert nsq.decode(line % number, side="client", server=server).encode() == line % number
    with pytest.raises(DecodeError):
        nsq.decode(line % (most + 1), side="client", server=server)
    for smaller in (0, 7):  # of another server
        server = nsq.ServerOptions(max_req_timeout=smaller, max_rdy_count=smaller)
        nsq.decode(line % smaller, side="client", server=server)
        with pytest.raises(DecodeError):
            nsq.decode(line % (smaller + 1), side="client", server=server)


@pytest.mark.parametrize("name", ["NOP", "CLS"])
def test_a_line_ends_with_or_without_a_carriage_return(name: str) -> None:
    """nsqd cuts off `\\n`, then one `\\r` before it; anything else after a name is another name."""
    plain = nsq.decode(f"{name}\n".encode(), side="client")
    assert type(nsq.decode(f"{name}\r\n".encode(), side="client")) is type(plain)
    for other in (f"{name}\rx\n", f"{name}\r\r\n", f"{name}x\n"):
        with pytest.raises(DecodeError):
            nsq.decode(other.encode(), side="client")
        assert type(nsq.decode(other.encode(), side="client", strictness="lax")) is nsq.Command


def test_json_is_written_as_go_writes_it() -> None:
    """encoding/json escapes what HTML and JavaScript would take for their own."""
    for char in "<>&\u2028\u2029\0\x1f":
        assert b"\\u%04x" % ord(char) in nsq.Identify(client_id=f"a{char}b").encode()
    for char in "'\x7f\u2027\u202a=%\u00e9":
        assert f'"a{char}b"'.encode() in nsq.Identify(client_id=f"a{char}b").encode()
