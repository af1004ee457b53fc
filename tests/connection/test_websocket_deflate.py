"""permessage-deflate (RFC 7692) of our WebSockets: the agreement, messages, hostile peers; wsproto, and both our ends."""

from __future__ import annotations

import random
import ssl
import zlib
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lib.loopback import HOST, OPENSSL, certificate, run
from lib.skips import imported
from lib.wire import socket_frame
from wirefmt import amqp10, mqtt
from wirefmt.broker import Broker
from wirefmt.connection.carriers import WebSocket
from wirefmt.connection.deflate import Agreed, Deflate, Messages
from wirefmt.connection.websocket import ClientHandshake, ServerHandshake
from wirefmt.errors import LimitExceeded, Malformed

NAME = "permessage-deflate"
MASK = b"\x9a\x01\xf7\x33"


# ---- the agreement, RFC 7692, 7.1


@pytest.mark.parametrize(
    ("ours", "offer", "answer"),
    [
        (Deflate(), NAME, NAME),
        (Deflate(), f"{NAME}; client_max_window_bits", NAME),
        (Deflate(), f"{NAME}; client_max_window_bits=10", f"{NAME}; client_max_window_bits=10"),
        (Deflate(), f"{NAME}; server_max_window_bits=10", f"{NAME}; server_max_window_bits=10"),
        (Deflate(), f'{NAME}; server_max_window_bits="10"', f"{NAME}; server_max_window_bits=10"),
        (Deflate(), f"{NAME};server_no_context_takeover", f"{NAME}; server_no_context_takeover"),
        (Deflate(client_max_window_bits=9), NAME, NAME),  # 7.1.2.2: it may not, without the client's offer
        (Deflate(client_max_window_bits=9), f"{NAME}; client_max_window_bits", f"{NAME}; client_max_window_bits=9"),
        (Deflate(server_max_window_bits=9), NAME, f"{NAME}; server_max_window_bits=9"),
        (Deflate(client_no_context_takeover=True), NAME, f"{NAME}; client_no_context_takeover"),
        (Deflate(), f"{NAME}; server_max_window_bits=7", None),
        (Deflate(), f"{NAME}; server_max_window_bits=16", None),
        (Deflate(), f"{NAME}; server_max_window_bits=08", None),
        (Deflate(), f"{NAME}; server_max_window_bits", None),
        (Deflate(), f"{NAME}; server_no_context_takeover=1", None),
        (Deflate(), f"{NAME}; unknown", None),
        (Deflate(), f"{NAME}; client_max_window_bits; client_max_window_bits", None),
        (Deflate(), f"{NAME}; unknown, other, {NAME}; server_no_context_takeover", f"{NAME}; server_no_context_takeover"),
        (Deflate(), "x-webkit-deflate-frame", None),
        (Deflate(), "", None),
    ],
)  # fmt: skip
def test_what_a_server_answers(ours: Deflate, offer: str, answer: str | None) -> None:
    found = ours.answer(offer)
    assert (found[0] if found else None) == answer


@pytest.mark.parametrize(
    ("ours", "answer", "agreed"),
    [
        (Deflate(), NAME, (False, 15, False, 15)),
        (Deflate(), f"{NAME}; server_max_window_bits=9; client_max_window_bits=8", (False, 8, False, 9)),
        (Deflate(), f"{NAME}; server_no_context_takeover; client_no_context_takeover", (True, 15, True, 15)),
        (Deflate(client_no_context_takeover=True), NAME, (True, 15, False, 15)),
        (Deflate(server_max_window_bits=10), f"{NAME}; server_max_window_bits=10", (False, 15, False, 10)),
        (Deflate(server_max_window_bits=10), NAME, None),
        (Deflate(server_max_window_bits=10), f"{NAME}; server_max_window_bits=11", None),
        (Deflate(client_max_window_bits=10), f"{NAME}; client_max_window_bits=11", None),
        (Deflate(server_no_context_takeover=True), NAME, None),
        (Deflate(), f"{NAME}; client_max_window_bits", None),
        (Deflate(), f"{NAME}; server_max_window_bits=16", None),
        (Deflate(), f"{NAME}; server_max_window_bits=10; server_max_window_bits=10", None),
        (Deflate(), f"{NAME}, {NAME}", None),
        (Deflate(), "x-webkit-deflate-frame", None),
    ],
)
def test_what_a_client_accepts(ours: Deflate, answer: str, agreed: tuple[Any, ...] | None) -> None:
    if agreed is None:
        with pytest.raises(ValueError, match=r"."):
            ours.accept(answer)
    else:
        assert ours.accept(answer) == replace(Agreed(*agreed), level=ours.level, smallest=ours.smallest)


@pytest.mark.parametrize("client", [None, Deflate(), Deflate(True, True, 10, 11)])
@pytest.mark.parametrize(
    "server", [None, Deflate(), Deflate(server_no_context_takeover=True, client_max_window_bits=9)]
)
def test_both_ends_agree_on_the_same(client: Deflate | None, server: Deflate | None) -> None:
    ours = ClientHandshake("h", "/mqtt", "mqtt", bytes(16), deflate=client)
    theirs = ServerHandshake({"mqtt"}, deflate=server)
    theirs.receive(ours.data_to_send())
    ours.receive(theirs.data_to_send())
    assert ours.done
    assert theirs.done
    assert (ours.agreed is None) == (theirs.agreed is None) == (client is None or server is None)
    if ours.agreed is not None and theirs.agreed is not None:
        assert (ours.agreed.own_fresh, ours.agreed.own_bits) == (theirs.agreed.peer_fresh, theirs.agreed.peer_bits)
        assert (ours.agreed.peer_fresh, ours.agreed.peer_bits) == (theirs.agreed.own_fresh, theirs.agreed.own_bits)


def test_an_extension_that_was_not_offered_is_refused() -> None:
    ours = ClientHandshake("h", "/mqtt", "mqtt", bytes(16))
    theirs = ServerHandshake({"mqtt"}, deflate=Deflate())
    theirs.receive(
        ours.data_to_send().replace(b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
    )
    with pytest.raises(Malformed, match="not requested"):
        ours.receive(theirs.data_to_send())


@pytest.mark.parametrize("wrong", [{"client_max_window_bits": 8}, {"server_max_window_bits": 16}, {"level": 0}])
def test_options_that_are_wrong(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Deflate(**wrong)  # type: ignore[arg-type]


# ---- messages


def pair(*bits: int, fresh: bool = False, smallest: int = 0) -> tuple[WebSocket, WebSocket]:
    ours, theirs = bits or (15, 15)
    client = WebSocket(lambda: MASK, agreed=Agreed(fresh, ours, fresh, theirs, 6, smallest))
    return client, WebSocket(agreed=Agreed(fresh, theirs, fresh, ours, 6, smallest))


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("bits", [(15, 15), (9, 12), (8, 10)])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_sent_arrives(bits: tuple[int, int], fresh: bool, seed: int) -> None:
    chance = random.Random(seed)
    client, server = pair(*bits, fresh=fresh, smallest=40)
    for sender, receiver in ((client, server), (server, client)):
        sent, octets = [], b""
        for _ in range(60):
            sent.append(chance.choice((b"abc", chance.randbytes(50), b"topic" * chance.randrange(1, 9000))))
            octets += sender.send(sent[-1])
        size = chance.choice((1, 7, 1000, len(octets)))
        got = b"".join(receiver.receive(octets[at : at + size]) for at in range(0, len(octets), size))
        assert got == b"".join(sent)


def test_a_window_of_8_bits_is_not_compressed() -> None:
    """zlib cannot; RFC 7692, 6: an endpoint may send any message as it is."""
    client, _ = pair(8, 15)
    assert client.send(b"a" * 100)[0] == 0x82


@pytest.mark.parametrize(
    ("packed", "content"),
    [
        (b"\xf2\x48\xcd\xc9\xc9\x07\x00", b"Hello"),
        (b"\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", b"Hello"),
        (b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00", b"Hello"),
        (b"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", b"Hello"),
        (b"\x00", b""),
    ],
)
def test_the_examples_of_the_specification(packed: bytes, content: bytes) -> None:
    """RFC 7692, 7.2.3. What follows refers to the message before it, also if that ended with a last block."""
    messages = Messages(Agreed(False, 15, False, 15))
    assert messages.decompress(packed, True, 100) == content
    if content:
        assert messages.decompress(b"\xf2\x00\x11\x00\x00", True, 100) == b"Hello"
    one_by_one = Messages(Agreed(False, 15, False, 15))
    got = [one_by_one.decompress(packed[i : i + 1], i == len(packed) - 1, 100) for i in range(len(packed))]
    assert b"".join(got) == content


def test_fragments_with_a_ping_between_them() -> None:
    client, server = pair()
    whole = client.send(b"Hello" * 30)
    size = whole[1] & 0x7F
    payload = bytes(o ^ MASK[i & 3] for i, o in enumerate(whole[6:]))
    assert len(payload) == size
    frames = [(0x42, payload[:3]), (0x89, b"?"), (0x00, b""), (0x00, payload[3:]), (0x80, b"")]
    octets = b"".join(
        bytes((first, 0x80 | len(part))) + MASK + bytes(o ^ MASK[i & 3] for i, o in enumerate(part))
        for first, part in frames
    )
    assert server.receive(octets) == b"Hello" * 30
    assert server.replies == b"\x8a\x01?"


# ---- hostile peers


@pytest.mark.parametrize("first", [0xC0, 0x40, 0xC8, 0xC9, 0xCA, 0xA2, 0x92])
def test_reserved_bits_on_frames_that_have_none(first: int) -> None:
    _, server = pair()
    octets = bytes((0x02, 0x80)) + MASK if first & 0x0F == 0 else b""
    with pytest.raises(Malformed):
        server.receive(octets + bytes((first, 0x81)) + MASK + b"x")


def test_compressed_without_an_agreement() -> None:
    with pytest.raises(Malformed, match="no extension"):
        WebSocket().receive(bytes((0xC2, 0x81)) + MASK + b"x")


def test_what_is_no_compressed_data() -> None:
    _, server = pair()
    client, _ = pair()
    octets = client.send(b"before") + bytes((0xC2, 0x83)) + bytes(4) + b"\xff\xff\xff"
    with pytest.raises(Malformed, match="not a compressed message") as caught:
        server.receive(octets)
    assert caught.value.messages == (b"before",)


@pytest.mark.parametrize("count", [1, 40])
def test_what_grows_too_much(count: int) -> None:
    """In one message, and in many of one read."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = stream.compress(bytes((4 << 20) // count)) + stream.flush(zlib.Z_FULL_FLUSH)
    frame = socket_frame(packed[:-4], first=0xC2)
    client = WebSocket(lambda: MASK, 1 << 20, Agreed(False, 15, False, 15))
    with pytest.raises(LimitExceeded):
        client.receive(frame * count)


# ---- peers


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("bits", [15, 10])
def test_beside_wsproto(bits: int, fresh: bool) -> None:
    wsproto = imported("wsproto")
    events = imported("wsproto.events")
    extension = imported("wsproto.extensions").PerMessageDeflate

    def theirs() -> Any:
        return extension(fresh, bits, fresh, bits)

    def received(connection: Any) -> bytes:
        return b"".join(bytes(event.data) for event in connection.events() if isinstance(event, events.BytesMessage))

    sent = [b"plant/%d 21.5" % (i % 3) * 20 for i in range(20)]
    # our client
    ours = ClientHandshake("h", "/mqtt", "mqtt", bytes(16), deflate=Deflate(fresh, fresh, bits, bits))
    server = wsproto.WSConnection(wsproto.ConnectionType.SERVER)
    server.receive_data(ours.data_to_send())
    list(server.events())
    ours.receive(server.send(events.AcceptConnection(subprotocol="mqtt", extensions=[theirs()])))
    assert ours.agreed is not None
    carrier = WebSocket(lambda: MASK, agreed=ours.agreed)
    for data in sent:
        server.receive_data(carrier.send(data))
        assert received(server) == data
        assert carrier.receive(server.send(events.BytesMessage(data=data))) == data
    # our server
    client = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
    accepting = ServerHandshake({"mqtt"}, deflate=Deflate(fresh, fresh, bits, bits))
    request = events.Request(host="h", target="/mqtt", subprotocols=["mqtt"], extensions=[theirs()])
    accepting.receive(client.send(request))
    client.receive_data(accepting.data_to_send())
    list(client.events())
    assert accepting.agreed is not None
    carrier = WebSocket(agreed=accepting.agreed)
    for data in sent:
        client.receive_data(carrier.send(data))
        assert received(client) == data
        assert carrier.receive(client.send(events.BytesMessage(data=data))) == data


@pytest.mark.parametrize("ours", [None, Deflate(smallest=0), Deflate(True, True, 9, 9)])
@pytest.mark.parametrize("theirs", [None, Deflate(smallest=0)])
def test_our_client_and_our_broker(ours: Deflate | None, theirs: Deflate | None) -> None:
    async def test() -> None:
        async with (
            Broker(ports={"mqtt+ws": 0}, deflate=theirs) as broker,
            mqtt.connect(broker.url("mqtt+ws"), deflate=ours) as client,
        ):
            await client.subscribe("t/#", qos=1)
            for number in range(30):
                await client.publish(f"t/{number}", b"value " * 1000, qos=1)
            got = [message async for message in _some(client.messages(), 30)]
            assert [message.topic_name for message in got] == [f"t/{number}" for number in range(30)]
            assert {bytes(message.payload) for message in got} == {b"value " * 1000}
            assert _is_compressed(client) is (ours is not None and theirs is not None)

    run(test())


def _is_compressed(client: Any) -> bool:
    return client._link.driver._carrier._messages is not None


async def _some(messages: Any, count: int) -> Any:
    async for message in messages:
        yield message
        count -= 1
        if not count:
            return


def test_amqp10_in_compressed_messages() -> None:
    async def test() -> None:
        async with (
            Broker(ports={"amqp10+ws": 0}, deflate=Deflate(smallest=0)) as broker,
            amqp10.connect(broker.url("amqp10+ws"), deflate=Deflate(smallest=0)) as client,
        ):
            assert _is_compressed(client)
            sender = await client.sender("q")
            await sender.send(amqp10.Message(body=b"x" * 5000))

    run(test())


# ---- key logs


@pytest.mark.skipif(OPENSSL is None, reason="needs openssl (apt install openssl)")
def test_a_client_writes_the_secrets_of_its_connection(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the form of the key log file of NSS, which tshark reads."""

    async def test() -> None:
        context, _ = certificate(tmp_path)
        keylog = tmp_path / "keys.log"
        async with Broker(ports={"mqtt+tls": 0}, tls=context) as broker:
            made = partial(ssl.create_default_context, cafile=tmp_path / "certificate.pem")
            monkeypatch.setattr("ssl.create_default_context", made)
            async with mqtt.connect(f"mqtts://{HOST}:{broker.ports['mqtt+tls']}", keylog=keylog) as client:
                await client.publish("a", b"", qos=1)
        labels = {line.split()[0] for line in keylog.read_text().splitlines() if line[0] != "#"}
        assert {"CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"} <= labels

    run(test())


def test_a_context_of_the_caller_has_its_own_key_log() -> None:
    with pytest.raises(ValueError, match="keylog_filename"):
        mqtt.connect("mqtts://h", ssl=ssl.create_default_context(), keylog="keys.log")


@pytest.mark.skipif(OPENSSL is None, reason="needs openssl (apt install openssl)")
def test_serve_writes_the_secrets_of_its_connections(tmp_path: Any) -> None:
    """`wirefmt serve --tls-keylog`."""
    serve = pytest.importorskip("wirefmt.cli.serve", reason="needs rich-click (pip install rich-click)")
    certificate(tmp_path)
    files = {"certificate": str(tmp_path / "certificate.pem"), "key": str(tmp_path / "key.pem")}
    context = serve._context({**files, "keylog": str(tmp_path / "keys.log")})
    assert context.keylog_filename == str(tmp_path / "keys.log")
    with pytest.raises(ValueError, match=r"tls.keylog .* cannot be used"):
        serve._context({**files, "keylog": str(tmp_path / "missing" / "keys.log")})
