"""An MQTT connection under any bytes, with any decisions of the host: what the robustness test and the fuzz target share."""

from __future__ import annotations

import random
from typing import Any

from wirefmt import mqtt
from wirefmt.connection import Disconnected
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
    return mqtt.ServerConnection(0.0, OPTIONS), [connect.encode()] if random_.random() < 0.9 else []


def host(connection: Any, random_: random.Random, waiting: list[Any]) -> list[Any]:
    """One call of the host, legal or not. Only LocalProtocolError may come of it."""
    code = random_.choice((0, 0, 0, 0x10, 0x18, 0x80, 0x87, 0x99, 3))
    event = waiting.pop(random_.randrange(len(waiting))) if waiting and random_.random() < 0.9 else mqtt.Pingreq()
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
    assert connection_.should_close
    try:
        connection_.receive(b"", 0.0)
    except LocalProtocolError:
        pass
    else:
        raise AssertionError("a connection that is over receives")
    side: Any = role
    # a CONNECT that names no version known is answered in 3.1.1 or 5.0
    version = connection_.version or (4 if said[:2] == b"\x20\x02" else 5)
    packets = mqtt.Decoder(version=version, side=side).feed(said)  # whole and valid
    assert b"".join(packet.encode() for packet in packets) == said
