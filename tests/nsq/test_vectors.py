"""Every NSQ vector through decode(), Decoder and the constructors. Vectors: tests/vectors/nsq."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from lib.four_ways import four_ways
from lib.json_vectors import ids
from lib.kinds import all_of, checked, exactly, only
from lib.nsq_vectors import client_octets, frame_of, load, of_kind, server_of
from wirefmt import nsq
from wirefmt.errors import DecodeError, EncodeError, LimitExceeded, Malformed, Truncated
from wirefmt.framing import NEED_DATA

COMMANDS = of_kind("command")
#: Commands that go-nsq writes and nsqd refuses, or that are nsqlookupd's: the code nsqd answers.
REFUSED = {
    "nsq-cmd-dpub-2": "E_BAD_MESSAGE",
    "nsq-cmd-pub-2": "E_BAD_MESSAGE",
    "nsq-cmd-mpub-0": "E_BAD_BODY",
    "nsq-cmd-ping": "E_INVALID",
    "nsq-cmd-register": "E_INVALID",
    "nsq-cmd-rdy-1000000": "E_INVALID",
}
FRAMES = of_kind("frame", "message-frame")
TRANSCRIPTS = of_kind("server-transcript")
SESSIONS = of_kind("client-session", "upgrade-transcript")

#: What nsqd refuses for its state or an authentication server's answer, which octets do not tell.
STATE = (
    " in current state",
    "with heartbeats disabled",
    "E_AUTH_",
    "E_UNAUTHORIZED",
)
#: nsqd does not compare the body size of MPUB with what is in it; we do (docs/nsq.md).
LIES = {"nsq-live-mpub-size-lie-small": "E_BAD_BODY"}


def check(message: Any, octets: bytes, side: Any, **options: Any) -> None:
    """The octets mean this message, however they come."""
    assert nsq.decode(octets, side=side, **options) == message
    assert nsq.decode(octets, **options) == message
    assert nsq.frame_size(octets, side=side, **options) == len(octets)
    assert message.encode() == octets
    after = b"N" if side == "client" else b"\0"
    for found in four_ways(nsq.Decoder, octets, after, side=side, **options):
        assert found == [message]
        assert found[0].encode() == octets
        assert hash(found[0]) == hash(message)


def test_the_file_holds_what_it_should() -> None:
    assert len(load()) > 150
    assert len(COMMANDS) >= 20
    assert len(FRAMES) >= 12
    assert len(TRANSCRIPTS) >= 110
    assert {row["mode"] for row in SESSIONS if "mode" in row} == {"plain", "snappy", "deflate"}


def test_the_magic() -> None:
    (row,) = of_kind("magic")
    octets = bytes.fromhex(row["hex"])
    assert octets == row["decoded"]["text"].encode()
    check(nsq.Magic(), octets, "client")


def body_of(command: Any) -> bytes | None:
    """The octets after a command's body size."""
    octets = command.encode()
    head = octets.index(b"\n") + 1
    return octets[head + 4 :] if len(octets) > head else None


@pytest.mark.parametrize("row", COMMANDS, ids=ids(COMMANDS))
def test_commands(row: dict[str, Any]) -> None:
    octets, decoded = bytes.fromhex(row["hex"]), row["decoded"]
    options: dict[str, Any] = {"strictness": "lax"} if row["id"] in REFUSED else {}
    if options:
        with pytest.raises(DecodeError) as caught:
            nsq.decode(octets, side="client")
        assert caught.value.reply == REFUSED[row["id"]]
    command = checked(nsq.decode(octets, side="client", **options), nsq.Command)
    assert command.name == decoded["name"]
    assert command.parameters == tuple(word.encode() for word in decoded["params"])
    body = bytes.fromhex(decoded["body_hex"]) if decoded["body_hex"] is not None else None
    assert body_of(command) == body
    if isinstance(command, nsq.Identify) and body:
        assert command.members == tuple(json.loads(body).items())
    check(command, octets, "client", **options)


@pytest.mark.parametrize("row", COMMANDS, ids=ids(COMMANDS))
def test_commands_built_from_their_fields_have_the_same_octets(row: dict[str, Any]) -> None:
    octets, decoded = bytes.fromhex(row["hex"]), row["decoded"]
    words, body = decoded["params"], bytes.fromhex(decoded["body_hex"] or "")
    build: dict[str, Any] = {
        "IDENTIFY": lambda: nsq.Identify(json.loads(body)),
        "AUTH": lambda: nsq.Auth(secret=body),
        "SUB": lambda: nsq.Sub(topic=words[0], channel=words[1]),
        "PUB": lambda: nsq.Publish(topic=words[0], body=body),
        "DPUB": lambda: nsq.DeferredPublish(topic=words[0], defer_time=int(words[1]), body=body),
        "MPUB": lambda: nsq.MultiPublish(topic=words[0], bodies=list(bodies(body))),
        "RDY": lambda: nsq.Ready(count=int(words[0])),
        "FIN": lambda: nsq.Finish(message_id=words[0].encode()),
        "REQ": lambda: nsq.Requeue(message_id=words[0].encode(), timeout=int(words[1])),
    }
    if decoded["name"] not in build:
        assert row["id"] in REFUSED
        return
    if row["id"] in REFUSED and decoded["name"] != "RDY":  # the bound of RDY is the server's, not the protocol's
        with pytest.raises(EncodeError):
            build[decoded["name"]]()
        return
    assert build[decoded["name"]]().encode() == octets


def bodies(octets: bytes) -> Iterator[bytes]:
    at = 4
    while at < len(octets):
        size = int.from_bytes(octets[at : at + 4], "big")
        yield octets[at + 4 : at + 4 + size]
        at += 4 + size


@pytest.mark.parametrize("row", FRAMES, ids=ids(FRAMES))
def test_frames(row: dict[str, Any]) -> None:
    octets, decoded = bytes.fromhex(row["hex"]), row["decoded"]
    frame: Any = nsq.decode(octets, side="server")
    assert frame.frame_type == decoded["frame_type"]
    if decoded["frame_type"] == 2:
        fields = frame_of(decoded)
        assert {name: getattr(frame, name) for name in fields} == fields
        assert frame.body_bytes() == fields["body"]
        built: nsq.Frame = nsq.MessageFrame(**fields)
    else:
        data = bytes.fromhex(decoded["data_hex"])
        assert frame.data == data
        classes: dict[int, Any] = {0: nsq.Response, 1: nsq.Error}
        built = (
            classes[frame.frame_type](data)
            if frame.frame_type in classes
            else nsq.Frame(frame_type=frame.frame_type, data=data)
        )
    assert built == frame
    assert built.encode() == octets
    if octets[0] != 0xFF:
        check(frame, octets, "server")


@pytest.mark.parametrize("row", of_kind("message-payload"), ids=ids(of_kind("message-payload")))
def test_message_data_that_is_too_short(row: dict[str, Any]) -> None:
    data = bytes.fromhex(row["hex"])
    assert not row["decoded"]["ok"]
    with pytest.raises(Truncated) as caught:
        nsq.decode((len(data) + 4).to_bytes(4, "big") + b"\0\0\0\2" + data)
    assert (caught.value.path, caught.value.offset, caught.value.need) == ("data", 8, 26)


@pytest.mark.parametrize("row", of_kind("size-word"), ids=ids(of_kind("size-word")))
def test_size_words(row: dict[str, Any]) -> None:
    octets, error = bytes.fromhex(row["hex"]), row["decoded"]["error"]
    if "negative" in error:
        with pytest.raises(Malformed) as caught:
            nsq.frame_size(octets, side="server")
        assert (caught.value.path, caught.value.offset, caught.value.reply) == ("size", 0, None)
    elif "EOF" in error:
        size = nsq.frame_size(octets, side="server")
        assert size is NEED_DATA or size > len(octets)
        with pytest.raises(Truncated):
            nsq.decode(octets, side="server")
    else:
        assert nsq.frame_size(octets, side="server") == 4 + len(row["decoded"]["data_hex"]) // 2


@pytest.mark.parametrize("row", of_kind("frame-payload"), ids=ids(of_kind("frame-payload")))
def test_frame_data_that_is_too_short(row: dict[str, Any]) -> None:
    data = bytes.fromhex(row["hex"])
    assert row["decoded"]["error"] == "length of response is too small"
    with pytest.raises(Malformed) as caught:
        nsq.frame_size(len(data).to_bytes(4, "big") + data, side="server")
    assert caught.value.path == "size"


@pytest.mark.parametrize("row", of_kind("name"), ids=ids(of_kind("name")))
def test_names(row: dict[str, Any]) -> None:
    name, valid = bytes.fromhex(row["hex"]), row["decoded"]["server_valid"]
    for line, reply in ((b"SUB %b c\n", "E_BAD_TOPIC"), (b"SUB t %b\n", "E_BAD_CHANNEL")):
        octets = line % name
        if valid:
            sub = checked(nsq.decode(octets), nsq.Sub)
            assert name.decode() in (sub.topic, sub.channel)
            assert nsq.Sub(topic=str(sub.topic), channel=str(sub.channel)).encode() == octets
        elif b"\n" not in name and b" " not in name:
            with pytest.raises(Malformed) as caught:
                nsq.decode(octets)
            assert caught.value.reply == reply
            assert caught.value.path == {"E_BAD_TOPIC": "topic", "E_BAD_CHANNEL": "channel"}[reply]
    if not valid:
        with pytest.raises(EncodeError):
            nsq.Sub(topic=name.decode(), channel="c")


@pytest.mark.parametrize("row", of_kind("integer-parameter"), ids=ids(of_kind("integer-parameter")))
def test_numbers_in_words(row: dict[str, Any]) -> None:
    octets = b"REQ 0123456789abcdef %b\n" % bytes.fromhex(row["hex"])
    if row["decoded"]["ok"]:
        assert checked(nsq.decode(octets), nsq.Requeue).timeout == int(row["decoded"]["value"])
        return
    with pytest.raises(Malformed) as caught:
        nsq.decode(octets)
    assert (caught.value.path, caught.value.reply) == ("milliseconds", "E_INVALID")
    assert checked(nsq.decode(octets, strictness="lax"), nsq.Requeue).timeout is None


def refusal(row: dict[str, Any]) -> str | None:
    """The code with which nsqd ended the connection over the octets themselves; None: it did not."""
    errors = [f.get("text", f.get("text_prefix", "")) for f in row["decoded"]["reply_frames"] if f["type"] == 1]
    if row["id"] in LIES:
        return LIES[row["id"]]
    if not errors or not row["decoded"]["connection_closed_by_server"] or any(word in errors[-1] for word in STATE):
        return None
    return str(errors[-1]).split()[0]


@pytest.mark.parametrize("row", TRANSCRIPTS, ids=ids(TRANSCRIPTS))
def test_what_nsqd_refuses_is_refused_with_its_code(row: dict[str, Any]) -> None:
    octets, want = client_octets(row), refusal(row)
    steps = [bytes.fromhex(step["send_hex"]) for step in row["steps"]] or [octets]
    for pieces in ([octets], steps, [octets[i : i + 1] for i in range(len(octets))]):
        decoder = nsq.Decoder(side="client", magic=True, server=server_of(row))
        found: list[Any] = []
        refused: DecodeError | None = None
        try:
            for piece in pieces:
                found += decoder.feed(piece)
        except LimitExceeded as error:
            refused = error
            assert error.need is None or error.need > (error.have or 0)
        except DecodeError as error:
            refused = error
        if want is None and row["decoded"]["connection_closed_by_server"] and not row["decoded"]["reply_frames"]:
            assert refused is not None  # a line too long is answered by nothing
            assert refused.reply is None
            return
        assert (refused.reply if refused else None) == want, refused
        if refused is None:
            assert b"".join(m.encode() for m in found) == octets[: decoder.offset]


@pytest.mark.parametrize("row", TRANSCRIPTS, ids=ids(TRANSCRIPTS))
def test_what_nsqd_answered_is_read(row: dict[str, Any]) -> None:
    octets = b"".join(bytes.fromhex(step["reply_hex"]) for step in row["steps"])
    frames: list[Any] = nsq.Decoder(side="server").feed(octets)
    wanted = row["decoded"]["reply_frames"]
    assert b"".join(frame.encode() for frame in frames) + bytes.fromhex(row["decoded"]["reply_rest_hex"]) == octets
    assert len(frames) == len(wanted) or "heartbeat" in row["id"] or not row["steps"]  # beats come between the steps
    for frame, want in zip(frames, wanted, strict=False):
        assert frame.frame_type == want["type"]
        if "text" in want and want["type"] != 2:
            assert frame.data == want["text"].encode()
        if want["type"] == 1 and "text" in want:
            assert frame.code == want["text"].split(" ")[0]
            assert f"{frame.code} {frame.text}".strip() == want["text"].strip()
    for frame in frames:
        if isinstance(frame, nsq.Error):
            # nsqd closes after a fatal error, and behind no other
            assert frame.fatal is (row["decoded"]["connection_closed_by_server"] and frame is frames[-1])


@pytest.mark.parametrize("row", SESSIONS, ids=ids(SESSIONS))
def test_sessions(row: dict[str, Any]) -> None:
    """IDENTIFY, then commands and frames as they are inside the compression."""
    octets = bytes.fromhex(row["hex"])
    head = octets.index(b"{", octets.index(b"IDENTIFY\n"))
    size = int.from_bytes(octets[head - 4 : head], "big")
    magic, identify = exactly(
        nsq.Decoder(side="client", magic=True).feed(octets[: head + size]), nsq.Magic, nsq.Identify
    )
    assert isinstance(magic, nsq.Magic)
    if "identify" in row["decoded"]:
        assert dict(identify.members or ()) == row["decoded"]["identify"]
        # go-nsq writes a sorted map, as we do with what is sorted
        assert nsq.Identify(sorted(identify.members or ())).encode() == identify.encode()
    (reply,) = row["decoded"]["identify_reply"]
    reply_octets = bytes.fromhex(row["server_hex"] if "server_hex" in row else row["steps"][0]["reply_hex"])
    decoder = nsq.Decoder(side="server")
    if "server_hex" in row:
        reply_size = nsq.frame_size(reply_octets, side="server")
        assert isinstance(reply_size, int)
        rest = reply_octets[reply_size:]
        reply_octets = reply_octets[:reply_size]
        if row["mode"] == "deflate":
            rest = zlib.decompressobj(-15).decompress(rest)
        if row["mode"] != "snappy":
            frames = decoder.feed(rest)
            wanted = row["decoded"]["server_frames_after_identify"]
            assert len(frames) == len(wanted)
            for frame, want in zip(frames, wanted, strict=True):
                fields = frame_of(want)
                assert {name: getattr(frame, name) for name in fields} == fields
    answer = only(decoder.feed(reply_octets), nsq.Response)
    assert answer.members == tuple(json.loads(reply["text"]).items())
    assert nsq.Response(members=answer.members).encode() == reply_octets
    plain = row["decoded"].get("client_plain_after_identify_hex")
    if plain:
        commands = nsq.Decoder(side="client", magic=False).feed(bytes.fromhex(plain))
        assert b"".join(c.encode() for c in commands).hex() == plain
        assert {c.name for c in all_of(commands, nsq.Command)} & {"PUB", "SUB"}
