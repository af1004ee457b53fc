"""An MQTT connection under any bytes, with any decisions of the host: what the robustness test and the fuzz target share."""

from __future__ import annotations

import random
from typing import Any

from lib.driven import check_over
from lib.kinds import only
from wirefmt import mqtt
from wirefmt.connection import Acknowledged, Disconnected
from wirefmt.errors import LocalProtocolError
from wirefmt.mqtt.states import State

OPTIONS = mqtt.ConnectionOptions(
    receive_maximum=5, topic_alias_maximum=3, packet_size=2000, undecided=4, pending_bytes=100_000, unread_bytes=5000
)


def connection(role: str, random_: random.Random) -> tuple[Any, list[bytes]]:
    version = random_.choice((3, 4, 5, 5, 5))
    five = version == 5
    connect = mqtt.Connect(
        client_identifier="c",
        clean_start=random_.random() < 0.5,
        keep_alive=10,
        properties=[("authentication_method", "m")] if five and random_.random() < 0.3 else (),
        version=version,
    )
    if role == "client":
        client = mqtt.ClientConnection(0.0, mqtt.Session("c", established=True), OPTIONS)
        client.send(connect)
        opening = [mqtt.Connack(version=version, properties=connect.properties).encode()]
        return client, opening if random_.random() < 0.9 else []
    return mqtt.ServerConnection(0.0, OPTIONS, random_), [connect.encode()] if random_.random() < 0.9 else []


def host(connection: Any, random_: random.Random, waiting: list[Any]) -> list[Any]:
    """One call of the host, legal or not. Only LocalProtocolError may come of it."""
    code = random_.choice((0, 0, 0, 0x10, 0x18, 0x80, 0x87, 0x99, 3))
    event: Any = waiting.pop(random_.randrange(len(waiting))) if waiting and random_.random() < 0.9 else mqtt.Pingreq()
    text = [("reason_string", "r" * random_.randrange(3000))] if random_.random() < 0.2 else []
    calls: dict[type, list[Any]] = {
        mqtt.Connect: [
            lambda: connection.accept(event),
            lambda: connection.accept(event),
            lambda: connection.refuse(event, code),
            lambda: connection.continue_authentication(event, b"?"),
        ],
        mqtt.Auth: [
            lambda: connection.continue_authentication(event, b"?", text),
            lambda: connection.accept(event),
        ],
        mqtt.Publish: [lambda: connection.acknowledge(event, code, text)],
        mqtt.Subscribe: [lambda: connection.grant(event, [code] * len(event.subscriptions), text)],
        mqtt.Unsubscribe: [lambda: connection.grant(event, (), text)],
    }
    anything = [
        lambda: connection.publish("topic/x", bytes(random_.randrange(3000)), qos=random_.randrange(3)) and None,
        lambda: connection.subscribe([mqtt.Subscription("a/#")]) and None,
        lambda: connection.pause(),
        lambda: connection.resume(1.0),
        lambda: connection.handle_timeout(random_.random() * 3),
        lambda: connection.send(mqtt.Pingreq(version=connection.version or 5)),
        lambda: connection.close(code) if random_.random() < 0.05 else None,
    ]
    call = random_.choice(calls.get(type(event), anything))
    try:
        return call() or []
    except LocalProtocolError:
        return []
    except AttributeError as error:
        assert error.obj is connection  # `subscribe` of a server and the like
        return []


def drive(role: str, connection_: Any, data: bytearray, random_: random.Random) -> None:
    """Give it the bytes in pieces, and decide at random, until it is over. It raises nothing but LocalProtocolError, stays in its
    limits, and ends with one `Disconnected`."""
    events: list[Any] = []
    waiting: list[Any] = []
    queued = 0
    while connection_.state is not State.CLOSED:
        if data and (connection_.wants_read or random_.random() < 0.1):
            size = random_.choice((1, 3, 20, len(data)))
            new = connection_.receive(bytes(data[:size]), 0.0)
            del data[:size]
        elif not data and random_.random() < 0.1:
            new = connection_.receive_eof(0.0)
        else:
            new = host(connection_, random_, waiting)
        events += new
        waiting += [
            e
            for e in new
            if isinstance(e, mqtt.Connect | mqtt.Auth | mqtt.Subscribe | mqtt.Unsubscribe)
            or (isinstance(e, mqtt.Publish) and e.qos)
        ]
        assert connection_.undecided <= OPTIONS.receive_maximum + OPTIONS.undecided
        assert connection_.pending_bytes <= OPTIONS.pending_bytes + (1 << 20)
        if not data and random_.random() < 0.2:
            try:
                events += connection_.resume(0.0)
            except LocalProtocolError:
                pass
        queued += 1
        if queued > 3000:
            events += connection_.close()
    assert [type(e) for e in events].count(Disconnected) == 1
    assert isinstance(events[-1], Disconnected)
    said = connection_.data_to_send()
    check_over(connection_)
    side: Any = role
    # a CONNECT that names no version known is answered in 3.1.1 or 5.0
    version = connection_.version or (4 if said[:2] == b"\x20\x02" else 5)
    packets = mqtt.Decoder(version=version, side=side).feed(said)  # whole and valid
    assert b"".join(packet.encode() for packet in packets) == said


class Readable:
    """A connection that leaves nothing to what is compiled: each packet goes to its handler."""

    def _run(self, messages: Any, at: int, events: Any) -> int:
        return at

    def publish(
        self, topic: str, payload: Any = b"", *, qos: int = 0, retain: bool = False, properties: Any = ()
    ) -> Any:
        return self._publish(topic, payload, qos, retain, properties)  # type: ignore[attr-defined]

    def acknowledge(self, message: Any, reason_code: int = 0, properties: Any = ()) -> Any:
        return self._acknowledge(message, reason_code, properties)  # type: ignore[attr-defined]


class ReadableClient(Readable, mqtt.ClientConnection):
    pass


class ReadableServer(Readable, mqtt.ServerConnection):
    pass


def told(event: Any) -> Any:
    """An event as a value: handles by their numbers."""
    match event:
        case Acknowledged():
            return "acknowledged", event.handle.number, event.message, event.code
        case Disconnected():
            handles = [h.number for h in event.resumable], [h.number for h in event.lost]
            return "disconnected", event.by, event.code, event.reason, type(event.error), handles
        case _:
            return event


def opened(role: str, version: int, options: mqtt.ConnectionOptions, limit: int, readable: bool) -> Any:
    """A connection past its handshake. limit: the Receive Maximum of the peer, in 5.0."""
    maximum = [("receive_maximum", limit)] if version == 5 else []
    if role == "client":
        client = (ReadableClient if readable else mqtt.ClientConnection)(0.0, mqtt.Session(journaled=True), options)
        client.send(mqtt.Connect(client_identifier="c", version=version))
        client.receive(mqtt.Connack(version=version, properties=maximum).encode(), 0.0)
        return client
    server = (ReadableServer if readable else mqtt.ServerConnection)(0.0, options)
    connect = mqtt.Connect(client_identifier="c", clean_start=False, version=version, properties=maximum)
    server.accept(only(server.receive(connect.encode(), 0.0), mqtt.Connect))
    return server


def resumed(role: str, version: int, session: mqtt.Session, options: mqtt.ConnectionOptions) -> Any:
    """A connection past its handshake, to which a session belongs."""
    lives = [("session_expiry_interval", 100)] if version == 5 else []
    connect = mqtt.Connect(client_identifier="c", clean_start=False, version=version, properties=lives)
    if role == "client":
        session.established = True
        client = mqtt.ClientConnection(0.0, session, options)
        client.send(connect)
        client.receive(mqtt.Connack(session_present=version != 3, version=version).encode(), 0.0)
        return client
    server = mqtt.ServerConnection(0.0, options)
    server.accept(only(server.receive(connect.encode(), 0.0), mqtt.Connect), session)
    return server


def flow_packets(random_: random.Random, version: int, count: int) -> list[bytes]:
    """Packets of QoS flows, most of them in order, with few packet identifiers, so that they meet."""
    made: list[bytes] = []
    five = version == 5
    for _ in range(count):
        identifier = random_.choice((1, 2, 3, 4, 5, 6, 17, 33, 49, 300, 65535))
        match random_.choice("ppppppaaarlcs"):
            case "p":
                qos = random_.choice((0, 0, 1, 1, 1, 2))
                properties = [("user_property", ("k", "v"))] if five and random_.random() < 0.1 else ()
                made.append(
                    mqtt.Publish(
                        topic_name=random_.choice(("a", "b/c", "grüße")),
                        payload=bytes(random_.choice((0, 5, 64, 3000))),
                        qos=qos,
                        retain=random_.random() < 0.2,
                        packet_identifier=identifier if qos else None,
                        properties=properties,
                        version=version,
                    ).encode()
                )
            case "a":
                code = random_.choice((None, None, None, 0x10, 0x87)) if five else None
                made.append(mqtt.Puback(packet_identifier=identifier, reason_code=code, version=version).encode())
            case "r":
                made.append(mqtt.Pubrec(packet_identifier=identifier, version=version).encode())
            case "l":
                made.append(mqtt.Pubrel(packet_identifier=identifier, version=version).encode())
            case "c" if random_.random() < 0.2:
                made.append(mqtt.Pubcomp(packet_identifier=identifier, version=version).encode())
            case "s" if random_.random() < 0.2:
                made.append(random_.randbytes(3))
    return made


def compare_paths(seed: int | bytes | str) -> None:
    """The compiled part of a connection does what its readable part does: two connections hold one conversation with one host,
    and tell the same events, queue the same bytes and note the same changes, step by step."""
    random_ = random.Random(seed)
    role, version = random_.choice(("client", "server")), random_.choice((3, 4, 5, 5))
    options = mqtt.ConnectionOptions(
        receive_maximum=random_.choice((2, 6, 1000)),
        undecided=random_.choice((2, 6, 1000)),
        pending_bytes=random_.choice((500, 100_000)),
        automatic=random_.random() < 0.3,
        journaled=True,
        qos2_event=random_.choice(("publish", "publish", "release")),
        copies=random_.choice((0, 0, 2)),
        control_characters=random_.random() < 0.8,
    )
    limit = random_.choice((2, 5, 65535))
    pair = [opened(role, version, options, limit, readable) for readable in (False, True)]
    data = b"".join(flow_packets(random_, version, random_.randrange(5, 60)))
    waiting: list[tuple[Any, Any]] = []

    def both(call: Any) -> None:
        results: list[Any] = []
        for each, one in enumerate(pair):
            try:
                results.append(call(one, each))
            except LocalProtocolError as error:
                results.append((type(error), str(error), error.reply))
        ours, theirs = results
        if isinstance(ours, list):
            assert [told(e) for e in ours] == [told(e) for e in theirs]
            for mine, other in zip(ours, theirs, strict=True):
                if isinstance(mine, mqtt.Publish) and mine.qos:
                    waiting.append((mine, other))
        elif isinstance(ours, mqtt.Delivery):
            assert (ours.number, ours.packet_identifier, ours.qos) == (
                theirs.number,
                theirs.packet_identifier,
                theirs.qos,
            )
            assert (ours.packet, ours.mark, ours.charged) == (theirs.packet, theirs.mark, theirs.charged)
        else:
            assert ours == theirs
        for name in ("undecided", "wants_read", "send_quota", "pending_bytes", "should_close", "strays", "state"):
            assert getattr(pair[0], name) == getattr(pair[1], name), name
        assert pair[0].changes() == pair[1].changes()

    while pair[0].state is not State.CLOSED:
        step = random_.random()
        if waiting and step < 0.4:
            messages = waiting.pop(0 if random_.random() < 0.7 else random_.randrange(len(waiting)))
            code = random_.choice((0, 0, 0, 0, 0x10, 0x87))
            both(lambda one, each, m=messages, c=code: one.acknowledge(m[each], c))
        elif step < 0.6:
            topic, payload = random_.choice(("a", "a/b", "é", "#", "")), bytes(random_.choice((0, 9, 400, 3000)))
            qos, retain = random_.choice((0, 1, 1, 1, 2)), random_.random() < 0.2
            both(lambda one, each, t=topic, p=payload, q=qos, r=retain: one.publish(t, p, qos=q, retain=r))
        elif step < 0.8 and data:
            size = random_.choice((1, 7, 50, 500, len(data)))
            piece, data = data[:size], data[size:]
            both(lambda one, each, p=piece: one.receive(p, 0.0))
        elif step < 0.95:
            both(lambda one, each: one.data_to_send())
        elif not data and not waiting:
            both(lambda one, each: one.close())
    both(lambda one, each: one.data_to_send())
    assert pair[0].session.snapshot() == pair[1].session.snapshot()


def compare_cuts(seed: int | bytes | str) -> None:
    """However the bytes of a peer are cut, the events and the output are the same."""
    random_ = random.Random(seed)
    role, version = random_.choice(("client", "server")), random_.choice((3, 4, 5))
    options = mqtt.ConnectionOptions(automatic=True, receive_maximum=random_.choice((3, 1000)))
    data = b"".join(flow_packets(random_, version, random_.randrange(5, 60)))
    found: list[Any] = []
    for size in (len(data), 1, 2, 50, random_.randrange(1, len(data) + 1)):
        one = opened(role, version, options, 5, False)
        for _ in range(5):
            one.publish("x", b"y", qos=1)
        events: list[Any] = []
        for at in range(0, len(data), size):
            if one.state is not State.CLOSED:
                events += one.receive(data[at : at + size], 0.0)
        found.append(([told(e) for e in events], one.data_to_send()))
    assert all(each == found[0] for each in found)
