"""Every PHPMQ vector through decode(), Decoder and the constructors. Vectors: tests/vectors/phpmq."""

from __future__ import annotations

from typing import Any

import pytest

from lib.four_ways import four_ways
from lib.json_vectors import ids
from lib.phpmq_vectors import README, load, of_kind, packets_of
from wirefmt import phpmq
from wirefmt.errors import DecodeError, EncodeError, LimitExceeded, Malformed, Truncated
from wirefmt.framing import NEED_DATA

MESSAGES = of_kind("message")
TRANSCRIPTS = of_kind("server-transcript")
CLASSES: dict[int, Any] = {
    1: phpmq.MessageClientToServer,
    2: phpmq.ConsumeRequest,
    3: phpmq.MessageServerToClient,
    4: phpmq.Acknowledgement,
    5: phpmq.ReQueue,
    6: phpmq.DeadLetter,
}
NAMES = {1: "queue_name", 2: "content", 3: "message_id", 4: "message_count", 5: "ttl"}


def fields_of(packets: tuple[tuple[int, bytes], ...]) -> dict[str, Any]:
    """Packets under the names of our attributes."""
    return {
        NAMES[number]: content if number == 2 else int(content) if number in (4, 5) else content.decode()
        for number, content in packets
    }


def test_the_file_holds_what_it_should() -> None:
    assert len(load()) > 100
    assert len(MESSAGES) > 40
    assert {row["decoded"]["message_type"] for row in MESSAGES} == set(CLASSES) - {6} or len(MESSAGES) > 51
    assert {row["id"].split("-")[1] for row in MESSAGES} == {"early", "head"}


@pytest.mark.parametrize("row", MESSAGES, ids=ids(MESSAGES))
def test_messages(row: dict[str, Any]) -> None:
    octets, decoded = bytes.fromhex(row["hex"]), row["decoded"]
    assert decoded["consumed"] == len(octets)
    message: Any = phpmq.decode(octets)
    assert type(message) is CLASSES[decoded["message_type"]]
    assert (message.version, message.message_type) == (decoded["version"], decoded["message_type"])
    assert message.packets == packets_of(row)
    fields = fields_of(message.packets)
    assert {name: getattr(message, name) for name in fields} == fields
    if "content" in fields:
        assert message.content_bytes() == fields["content"]
        assert (message.ttl is None) == row["id"].startswith("phpmq-early")
    assert phpmq.frame_size(octets) == len(octets)
    assert message.encode() == octets
    for strictness in ("strict", "lax"):
        for found in four_ways(phpmq.Decoder, octets, b"H01", strictness=strictness):
            assert found == [message]
            assert found[0].encode() == octets
            assert found[0].notes == ()
            assert hash(found[0]) == hash(message)


@pytest.mark.parametrize("row", MESSAGES, ids=ids(MESSAGES))
def test_messages_built_from_their_fields_have_the_same_octets(row: dict[str, Any]) -> None:
    octets = bytes.fromhex(row["hex"])
    early = row["id"].startswith("phpmq-early")
    fields = fields_of(packets_of(row))
    if early and "content" in fields:
        fields["ttl"] = None
    built = CLASSES[row["decoded"]["message_type"]](**fields)
    assert built.encode() == octets
    assert built == phpmq.decode(octets)
    if early:
        other = CLASSES[row["decoded"]["message_type"]](**(fields | ({"ttl": 7} if "ttl" in fields else {})))
        assert phpmq.encode(other, profile="early") == octets
    else:
        assert phpmq.encode(built, profile="present") == octets


@pytest.mark.parametrize("row", MESSAGES, ids=ids(MESSAGES))
def test_the_last_packet_header_says_the_size(row: dict[str, Any]) -> None:
    """8 octets of message header, 32 of each packet header; contents of the last packet need not be there."""
    octets, packets = bytes.fromhex(row["hex"]), packets_of(row)
    known = 8 + sum(32 + len(content) for _, content in packets[:-1]) + 32
    assert known == len(octets) - len(packets[-1][1])
    for strictness in ("strict", "lax"):
        for n in range(known):
            assert phpmq.frame_size(octets[:n], strictness=strictness) is NEED_DATA
        for n in range(known, len(octets) + 1):
            assert phpmq.frame_size(octets[:n], strictness=strictness) == len(octets)


def test_the_size_of_a_message_with_line_breaks() -> None:
    """LAX: the break behind the last packet header belongs to the size, that behind the contents to no message."""
    octets = b"H0100401\nP01" + b"%029d\n" % 3 + b"abc\n"
    header = len(b"H0100401\nP01") + 29
    for n in range(header + 1):
        assert phpmq.frame_size(octets[:n], strictness="lax") is NEED_DATA
    for n in range(header + 1, len(octets) + 1):
        assert phpmq.frame_size(octets[:n], strictness="lax") == len(octets) - 1


def test_a_batch_leaves_a_last_message_without_its_contents() -> None:
    octets = phpmq.MessageClientToServer(queue_name="q", content=b"x" * 50, ttl=None).encode()
    for n in range(len(octets)):
        batch = phpmq.decode_batch(octets + octets[:n])
        assert (len(batch), batch.rest) == (1, n)


def test_the_early_form_has_no_types_5_and_6() -> None:
    for message in (
        phpmq.ReQueue(queue_name="q", message_id="1", ttl=5),
        phpmq.DeadLetter(queue_name="q", message_id="1"),
    ):
        with pytest.raises(EncodeError, match="early"):
            phpmq.encode(message, profile="early")
        assert phpmq.encode(message, profile="present") == message.encode()


def test_the_present_form_has_a_ttl() -> None:
    early = phpmq.MessageClientToServer(queue_name="q", content=b"x", ttl=None)
    assert early.encode().endswith(b"x")
    assert phpmq.encode(early, profile="present") == phpmq.MessageClientToServer(queue_name="q", content=b"x").encode()


# ---- headers alone


@pytest.mark.parametrize("row", of_kind("message-header"), ids=ids(of_kind("message-header")))
def test_message_headers(row: dict[str, Any]) -> None:
    """The library's header for each type: ours has the same octets except for the number of packets, which is what follows."""
    octets, decoded = bytes.fromhex(row["hex"]), row["decoded"]
    lax = phpmq.decode(octets[:6] + b"00", strictness="lax")
    assert (lax.version, lax.message_type) == (decoded["version"], decoded["message_type"])
    if decoded["version"] != 1:
        with pytest.raises(DecodeError, match="version"):
            phpmq.frame_size(octets)
        return
    size = phpmq.frame_size(octets)
    assert size == 8 if decoded["packet_count"] == 0 else size is NEED_DATA
    if decoded["message_type"] not in CLASSES:
        built = phpmq.Message(message_type=decoded["message_type"], packets=())
        assert built.encode() == octets
        assert phpmq.decode(octets) == built


@pytest.mark.parametrize("row", of_kind("message-header-overflow"), ids=ids(of_kind("message-header-overflow")))
def test_what_does_not_fit_a_message_header_is_not_written(row: dict[str, Any]) -> None:
    if row["decoded"]["message_type"] > 999:
        with pytest.raises(EncodeError):
            phpmq.Message(message_type=row["decoded"]["message_type"], packets=())


@pytest.mark.parametrize("row", of_kind("message-header-parse"), ids=ids(of_kind("message-header-parse")))
def test_message_headers_as_php_casts_them(row: dict[str, Any]) -> None:
    octets, decoded = bytes.fromhex(row["hex"]), row["decoded"]
    if len(octets) < 8:  # PHP reads zeros; here more octets are awaited
        assert phpmq.frame_size(octets) is NEED_DATA
        return
    with pytest.raises(DecodeError):
        phpmq.frame_size(octets)
    message = phpmq.decode(octets[:6] + b"00", strictness="lax")
    assert (message.version, message.message_type) == (decoded["version"], decoded["message_type"])
    assert message.notes


@pytest.mark.parametrize("row", of_kind("packet-header"), ids=ids(of_kind("packet-header")))
def test_packet_headers(row: dict[str, Any]) -> None:
    octets, decoded = b"H0100701" + bytes.fromhex(row["hex"]), row["decoded"]
    if decoded["content_length"] < 0:
        with pytest.raises(Malformed) as caught:
            phpmq.frame_size(octets)
        assert caught.value.path == "packets[0].content_length"
    elif decoded["content_length"] > 1 << 28:
        with pytest.raises(LimitExceeded) as limited:
            phpmq.frame_size(octets)
        assert (limited.value.path, limited.value.need) == ("packets[0].content_length", decoded["content_length"])
    else:
        message = phpmq.decode(octets + b"x" * decoded["content_length"])
        assert message.packets == ((decoded["packet_type"], b"x" * decoded["content_length"]),)
        assert phpmq.Message(message_type=7, packets=message.packets).encode() == message.encode()


@pytest.mark.parametrize("row", of_kind("packet-header-overflow"), ids=ids(of_kind("packet-header-overflow")))
def test_what_does_not_fit_a_packet_header_is_not_written(row: dict[str, Any]) -> None:
    with pytest.raises(EncodeError):
        phpmq.Message(message_type=7, packets=[(row["decoded"]["packet_type"], b"x")])


@pytest.mark.parametrize("row", of_kind("packet-header-parse"), ids=ids(of_kind("packet-header-parse")))
def test_packet_headers_as_php_casts_them(row: dict[str, Any]) -> None:
    header, decoded = bytes.fromhex(row["hex"]), row["decoded"]
    octets = b"H0100701" + header
    if len(header) < 32:  # PHP takes the last 29 octets of whatever there is; here more octets are awaited
        try:
            assert phpmq.frame_size(octets) is NEED_DATA
        except Malformed as error:
            assert error.path == "packets[0].content_length"
        return
    with pytest.raises(Malformed):
        phpmq.frame_size(octets)
    message = phpmq.decode(octets + b"x" * decoded["content_length"], strictness="lax")
    assert message.packets == ((decoded["packet_type"], b"x" * decoded["content_length"]),)


# ---- the server

#: Transcripts that STRICT refuses though the server answers or only waits, and where.
REFUSED = {
    "phpmq-live-wrong-id-letter": "identifier",
    "phpmq-live-readme-newlines": "packets[0].identifier",
    "phpmq-live-dup-packet-type": "packets[1].packet_type",
    "phpmq-live-length-huge": "packets[1].content_length",
    "phpmq-live-length-nondigits": "packets[1].content_length",
}


@pytest.mark.parametrize("row", TRANSCRIPTS, ids=ids(TRANSCRIPTS))
def test_transcripts(row: dict[str, Any]) -> None:
    octets = bytes.fromhex(row["hex"])
    segments = [bytes.fromhex(segment) for segment in row["segments"]]
    assert b"".join(segments) == octets or not octets.startswith(segments[0])
    if row["id"] in REFUSED:
        with pytest.raises(DecodeError) as caught:
            phpmq.Decoder().feed(octets)
        assert caught.value.path == REFUSED[row["id"]]
        assert caught.value.reply is None
    else:
        decoder = phpmq.Decoder()
        found = [message for segment in segments for message in decoder.feed(segment)]
        assert b"".join(message.encode() for message in found) == octets[: decoder.offset]
        if decoder.pending:
            with pytest.raises(Truncated):
                decoder.close()
    reply = bytes.fromhex(row["decoded"]["reply_hex"])
    answers = phpmq.Decoder(side="server").feed(reply)
    assert b"".join(message.encode() for message in answers) == reply
    assert all(isinstance(message, phpmq.MessageServerToClient) for message in answers)


def test_lax_takes_what_the_server_takes() -> None:
    (row,) = [r for r in TRANSCRIPTS if r["id"] == "phpmq-live-wrong-id-letter"]
    found = phpmq.Decoder(strictness="lax").feed(bytes.fromhex(row["hex"]))
    assert [type(message) for message in found] == [phpmq.MessageClientToServer, phpmq.ConsumeRequest]
    assert {note.check for note in found[0].notes} == {"MESSAGE_IDENTIFIER", "PACKET_IDENTIFIER"}
    assert len(row["decoded"]["reply_hex"]) > 0  # it was published and consumed


# ---- the README


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_lax_takes_the_readmes_line_breaks(ends: str) -> None:
    stream = "".join(README.values()).replace("\n", ends).encode()
    for size in (len(stream), 7, 1):
        decoder = phpmq.Decoder(strictness="lax")
        found = [m for i in range(0, len(stream), size) for m in decoder.feed(stream[i : i + size])]
        decoder.close()
        assert [type(message).__name__ for message in found] == list(README)
    for message, text in zip(found, README.values(), strict=True):
        octets = text.replace("\n", ends).encode()
        one: Any = phpmq.decode(octets, strictness="lax")
        plain = phpmq.decode(text.replace("\n", "").encode())
        assert one == message == plain
        assert one.notes[0].check == "LINE_BREAKS"
        assert one.encode() == octets
        with pytest.raises(Malformed) as caught:
            phpmq.decode(octets)
        assert (caught.value.path, caught.value.offset) == ("packets[0].identifier", 8)


@pytest.mark.parametrize(
    ("digits", "size"),
    [  # each string was put to PHP 8.2: (int)"..."
        ("42", 42), (" 42x", 42), ("\v+7", 7), ("9E+3", 9000), (".4E04..", 4000), ("42.e+1", 420), ("7E-2.", 0), ("1.9", 1),
        ("0.005e4", 50), ("3e804x", 0), ("2E1000", 0), ("000e5", 0), (".", 0), ("e5", 0), ("7e", 7), ("1e", 1), ("8e+", 8),
    ],
)  # fmt: skip
def test_lax_casts_as_php_does(digits: str, size: int) -> None:
    for padded in (digits.rjust(29), digits.ljust(29, "x")):
        header = f"H0100101P02{padded}".encode()
        assert phpmq.frame_size(header + b"y" * 9000, strictness="lax") == len(header) + size
