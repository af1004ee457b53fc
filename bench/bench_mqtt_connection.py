"""What does an MQTT connection cost beside its codec, and beside other state machines in Python?

    python bench/bench_mqtt_connection.py

CPU time. Peers that need no socket: paho-mqtt's client, gmqtt's (`pip install gmqtt`), each with an object in place of the
socket, and the state machine of mqttproto (`pip install mqttproto`), which does no input or output itself. The last two are
left out where they are absent. All hold the same conversation: PUBLISHes of QoS 1 go out, their PUBACKs come back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from ratios import compare, versions

from wirefmt import mqtt
from wirefmt.mqtt import Delivery

COUNT = 1000
TOPIC = "plant/line-1/temperature"
PAYLOAD = bytes(64)
CONNACK = bytes.fromhex("20020000")

#: PUBACKs for all packet identifiers, twice: COUNT of them from any identifier on are one slice.
PUBACKS = b"".join(b"\x40\x02" + identifier.to_bytes(2) for identifier in range(1, 65536)) * 2


def publishes(version: int, qos: int) -> bytes:
    return b"".join(
        mqtt.Publish(
            topic_name=TOPIC, payload=PAYLOAD, qos=qos, packet_identifier=i if qos else None, version=version
        ).encode()
        for i in range(1, COUNT + 1)
    )


def feed(version: int, data: bytes) -> Callable[[], object]:
    decoder = mqtt.Decoder(version=version, side="client")
    return lambda: decoder.feed(data)


def server(version: int, options: mqtt.ConnectionOptions | None = None) -> mqtt.ServerConnection:
    connection = mqtt.ServerConnection(0.0, options)
    (connect,) = connection.receive(mqtt.Connect(client_identifier="c", version=version).encode(), 0.0)
    assert isinstance(connect, mqtt.Connect)
    connection.accept(connect)
    connection.data_to_send()
    return connection


def receives(version: int, data: bytes) -> Callable[[], object]:
    connection = server(version)

    def run() -> None:
        events = connection.receive(data, 0.0)
        assert len(events) == COUNT

    return run


def acknowledges(version: int, data: bytes) -> Callable[[], object]:
    connection = server(version)

    def run() -> None:
        acknowledge: Callable[..., object] = connection.acknowledge
        for message in connection.receive(data, 0.0):
            acknowledge(message)
        assert len(connection.data_to_send()) == 4 * COUNT

    return run


def automatic(version: int, data: bytes) -> Callable[[], object]:
    connection = server(version, mqtt.ConnectionOptions(automatic=True))

    def run() -> None:
        connection.receive(data, 0.0)
        assert len(connection.data_to_send()) == 4 * COUNT

    return run


def ours(version: int) -> Callable[[], object]:
    """COUNT messages of QoS 1 published, then acknowledged."""
    client = mqtt.ClientConnection(0.0)
    client.send(mqtt.Connect(client_identifier="c", version=version))
    client.data_to_send()
    client.receive(mqtt.Connack(version=version).encode(), 0.0)

    def run() -> None:
        publish = client.publish
        first = publish(TOPIC, PAYLOAD, qos=1)
        assert isinstance(first, Delivery)
        at = 4 * (first.packet_identifier - 1)
        for _ in range(COUNT - 1):
            publish(TOPIC, PAYLOAD, qos=1)
        client.data_to_send()
        events = client.receive(PUBACKS[at : at + 4 * COUNT], 0.0)
        assert len(events) == COUNT

    return run


class Socket:
    """Takes what is sent, and gives what `incoming` holds."""

    def __init__(self) -> None:
        self.incoming = b""

    def send(self, data: bytes) -> int:
        return len(data)

    def recv(self, size: int) -> bytes:
        if not self.incoming:
            raise BlockingIOError
        data, self.incoming = self.incoming[:size], self.incoming[size:]
        return data

    def fileno(self) -> int:
        return -1

    def close(self) -> None: ...


def pahos() -> Callable[[], object]:
    """Its own calls: publish, and loop_read for each packet that has arrived."""
    client: Any = paho.Client(CallbackAPIVersion.VERSION2, client_id="c")
    client.max_inflight_messages_set(65535)
    socket = client._sock = Socket()
    client._send_connect(60)
    socket.incoming = CONNACK
    client.loop_read()
    assert client.is_connected()

    def run() -> None:
        at = 4 * (client.publish(TOPIC, PAYLOAD, qos=1).mid - 1)
        for _ in range(COUNT - 1):
            client.publish(TOPIC, PAYLOAD, qos=1)
        assert len(client._out_messages) == COUNT
        # a piece for each packet, since copying what is left of the rest would be this stand-in's cost
        for start in range(at, at + 4 * COUNT, 4):
            socket.incoming = PUBACKS[start : start + 4]
            client.loop_read()
        assert not client._out_messages

    return run


class Transport:
    def write(self, data: bytes) -> None: ...

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...


def gmqtts(loop: asyncio.AbstractEventLoop) -> Callable[[], object]:
    """Client.publish, and its protocol's reading of packets."""
    import gmqtt
    from gmqtt.mqtt.connection import MQTTConnection
    from gmqtt.mqtt.protocol import MQTTProtocol

    async def make() -> tuple[Any, Any]:
        client = gmqtt.Client("c")
        handler: Any = client._package_handler
        protocol = MQTTProtocol(connection_state=client._connection_state, id_generator=handler.id_generator)
        protocol._transport = Transport()
        client._connection = MQTTConnection(protocol._transport, protocol, True, 60, handler)
        return client, protocol

    client, protocol = loop.run_until_complete(make())

    def run() -> None:
        stored: list[int] = []
        keep = client._persistent_storage.push_message
        client._persistent_storage.push_message = lambda mid, package: (stored.append(mid), keep(mid, package))  # type: ignore[func-returns-value]
        for _ in range(COUNT):
            client.publish(TOPIC, PAYLOAD, qos=1)
        client._persistent_storage.push_message = keep
        protocol._read_packet(b"".join(b"\x40\x02" + mid.to_bytes(2) for mid in stored))
        assert client._persistent_storage.is_empty

    return run


def mqttprotos() -> Callable[[], object]:
    """MQTT 5.0, the one version it has: publish, and feed_bytes of all PUBACKs."""
    from mqttproto import QoS
    from mqttproto.client_state_machine import MQTTClientStateMachine

    client = MQTTClientStateMachine("c")
    client.connect()
    client.get_outbound_data()
    client.feed_bytes(mqtt.Connack(version=5).encode())

    def run() -> None:
        publish = client.publish
        at = 4 * (publish(TOPIC, PAYLOAD, qos=QoS.AT_LEAST_ONCE) - 1)
        for _ in range(COUNT - 1):
            publish(TOPIC, PAYLOAD, qos=QoS.AT_LEAST_ONCE)
        client.get_outbound_data()
        assert len(client.feed_bytes(PUBACKS[at : at + 4 * COUNT])) == COUNT
        assert not client._pending_packets

    return run


def main() -> None:
    print(versions("wirefmt", "paho-mqtt", "gmqtt", "mqttproto"))
    clock = time.process_time
    for version in (4, 5):
        data = publishes(version, 0)
        compare(
            f"MQTT {version} QoS 0 PUBLISH received",
            {"Decoder.feed": feed(version, data), "ServerConnection.receive": receives(version, data)},
            units=COUNT,
            clock=clock,
        )
        data = publishes(version, 1)
        compare(
            f"MQTT {version} QoS 1 PUBLISH received and acknowledged",
            {
                "Decoder.feed": feed(version, data),
                "receive, acknowledge each": acknowledges(version, data),
                "receive, automatic": automatic(version, data),
            },
            units=COUNT,
            clock=clock,
        )
    contestants: dict[str, Callable[[], object]] = {
        "wirefmt, 3.1.1": ours(4),
        "wirefmt, 5.0": ours(5),
        "paho-mqtt": pahos(),
    }
    loop = asyncio.new_event_loop()
    peers: dict[str, Callable[[], Callable[[], object]]] = {"gmqtt": lambda: gmqtts(loop), "mqttproto": mqttprotos}
    for name, make in peers.items():
        try:
            contestants[name] = make()
        except ImportError:
            print(f"{name} is not here: pip install {name}")
    compare("MQTT QoS 1 published and acknowledged, client side", contestants, units=COUNT, clock=clock)
    loop.close()


if __name__ == "__main__":
    main()
