"""Real peers on loopback: a mosquitto broker that reads what we write and whose octets we read under STRICT, and a
paho-mqtt client against a little server made of wirefmt."""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

from lib.kinds import checked
from lib.loopback import HOST
from lib.mosquitto import MOSQUITTO, PATIENCE, start_broker, stop
from lib.mqtt_cases import rebuilt
from wirefmt import mqtt

pytestmark = pytest.mark.live

SILENCE = 0.3  # seconds without anything, where nothing may come
needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None, reason="needs mosquitto (apt install mosquitto)")
needs_paho = pytest.mark.skipif(
    importlib.util.find_spec("paho") is None, reason="needs paho-mqtt (pip install paho-mqtt)"
)

VERSIONS = [3, 4, 5]
P = TypeVar("P")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    process, port = start_broker(tmp_path_factory.mktemp("mosquitto"))
    yield port
    stop(process)


class Peer:
    """One end of a connection: sends packets, gives those that come, all of them decoded under STRICT."""

    def __init__(self, connection: socket.socket, decoder: mqtt.Decoder) -> None:
        self.socket = connection
        self.socket.settimeout(PATIENCE)
        self.decoder = decoder
        self.waiting: list[Any] = []

    def send(self, *packets: Any) -> None:
        self.socket.sendall(b"".join(p.encode() for p in packets))

    def read(self) -> None:
        octets = self.socket.recv(65536)
        if not octets:
            self.decoder.close()
            raise EOFError("the other side closed")
        for packet in self.decoder.feed(octets):
            # what was decoded can be built from its values, octet by octet
            assert rebuilt(packet).encode() == packet.encode()
            self.waiting.append(packet)

    def receive(self) -> Any:
        while not self.waiting:
            self.read()
        return self.waiting.pop(0)

    def expect(self, kind: type[P]) -> P:
        """The next packet of a kind; only PUBLISH may come before it, and waits."""
        at = 0
        while True:
            while at == len(self.waiting):
                self.read()
            packet = self.waiting[at]
            if isinstance(packet, kind):
                return self.waiting.pop(at)
            assert isinstance(packet, mqtt.Publish), packet
            at += 1

    def closed(self) -> bool:
        try:
            self.receive()
        except (EOFError, ConnectionError):
            return True
        return False

    def silent(self) -> bool:
        self.socket.settimeout(SILENCE)
        try:
            self.receive()
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(PATIENCE)
        return False


class Client(Peer):
    def __init__(self, port: int, version: int, **connect: Any) -> None:
        super().__init__(
            socket.create_connection((HOST, port), timeout=PATIENCE), mqtt.Decoder(version=version, side="server")
        )
        self.version = version
        connect.setdefault("client_identifier", f"v{version}-{id(self)}"[:23])
        self.send(mqtt.Connect(version=version, keep_alive=60, **connect))
        self.connack = self.expect(mqtt.Connack)

    def subscribe(self, *filters: tuple[str, int], **more: Any) -> tuple[int, ...]:
        asked = [mqtt.Subscription(f, qos=q) for f, q in filters]
        self.send(mqtt.Subscribe(packet_identifier=77, subscriptions=asked, version=self.version, **more))
        suback = self.expect(mqtt.Suback)
        assert suback.packet_identifier == 77
        return suback.reason_codes

    def publish(self, topic: str, payload: bytes, qos: int = 0, identifier: int = 5, **more: Any) -> None:
        """Through to its last acknowledgement."""
        self.send(
            mqtt.Publish(
                topic_name=topic,
                payload=payload,
                qos=qos,
                packet_identifier=identifier if qos else None,
                version=self.version,
                **more,
            )
        )
        if qos == 1:
            assert self.expect(mqtt.Puback).packet_identifier == identifier
        if qos == 2:
            assert self.expect(mqtt.Pubrec).packet_identifier == identifier
            self.send(mqtt.Pubrel(packet_identifier=identifier, version=self.version))
            assert self.expect(mqtt.Pubcomp).packet_identifier == identifier

    def delivery(self) -> mqtt.Publish:
        """The next PUBLISH, acknowledged through to the end."""
        packet = self.expect(mqtt.Publish)
        if packet.qos == 1:
            self.send(mqtt.Puback(packet_identifier=checked(packet.packet_identifier, int), version=self.version))
        if packet.qos == 2:
            self.send(mqtt.Pubrec(packet_identifier=checked(packet.packet_identifier, int), version=self.version))
            assert self.expect(mqtt.Pubrel).packet_identifier == packet.packet_identifier
            self.send(mqtt.Pubcomp(packet_identifier=checked(packet.packet_identifier, int), version=self.version))
        return packet

    def disconnect(self) -> None:
        self.send(mqtt.Disconnect(version=self.version))
        assert self.closed()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


# ---- mosquitto


@needs_mosquitto
@pytest.mark.parametrize("version", VERSIONS)
def test_connect_ping_disconnect(broker: int, version: int) -> None:
    with Client(broker, version) as client:
        assert client.connack.reason_code == 0
        assert not client.connack.session_present
        client.send(mqtt.Pingreq(version=version), mqtt.Pingreq(version=version))
        client.expect(mqtt.Pingresp)
        client.expect(mqtt.Pingresp)
        client.disconnect()


@needs_mosquitto
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_publish_both_ways(broker: int, version: int, qos: int) -> None:
    topic = f"both/{version}/{qos}/é"
    with Client(broker, version) as subscriber, Client(broker, version) as publisher:
        assert subscriber.subscribe((topic, qos), (f"other/{version}", 0)) == (qos, 0)
        for k, payload in enumerate((b"", b"\x00\xff", b"x" * 70_000)):
            publisher.publish(topic, payload, qos, identifier=k + 1)
            got = subscriber.delivery()
            assert (got.topic_name, got.payload_bytes(), got.qos, got.retain, got.dup) == (
                topic,
                payload,
                qos,
                False,
                False,
            )
        publisher.disconnect()
        subscriber.disconnect()


@needs_mosquitto
@pytest.mark.parametrize("version", VERSIONS)
def test_retained(broker: int, version: int) -> None:
    topic = f"retained/{version}"
    with Client(broker, version) as client:
        client.publish(topic, b"kept", qos=1, retain=True)
        client.subscribe((f"retained/{version}/#", 1))
        got = client.delivery()
        assert (got.topic_name, got.payload_bytes(), got.retain) == (topic, b"kept", True)
        client.publish(topic, b"", qos=1, retain=True)
        assert not client.delivery().retain
    with Client(broker, version) as client:
        client.subscribe((topic, 1))
        assert client.silent()


@needs_mosquitto
@pytest.mark.parametrize("version", VERSIONS)
def test_will(broker: int, version: int) -> None:
    topic = f"will/{version}"
    more: dict[str, Any] = {"properties": (("user_property", ("why", "gone")),)} if version == 5 else {}
    with Client(broker, version) as watcher:
        watcher.subscribe((topic, 2))
        Client(broker, version, will=mqtt.Will(topic, payload=b"gone\x00", qos=1, **more)).socket.close()
        got = watcher.delivery()
        assert (got.topic_name, got.payload_bytes(), got.qos, got.retain) == (topic, b"gone\x00", 1, False)
        assert got.properties == more.get("properties", ())
        with Client(broker, version, will=mqtt.Will(topic)) as leaver:
            leaver.disconnect()
        assert watcher.silent()


@needs_mosquitto
@pytest.mark.parametrize("version", VERSIONS)
def test_unsubscribe(broker: int, version: int) -> None:
    topic = f"unsubscribe/{version}"
    with Client(broker, version) as client:
        client.subscribe((topic, 0), (f"{topic}/+", 0))
        filters = [topic, f"{topic}/+"]
        client.send(mqtt.Unsubscribe(packet_identifier=9, topic_filters=filters, version=version))
        unsuback = client.expect(mqtt.Unsuback)
        assert unsuback.packet_identifier == 9
        assert unsuback.reason_codes == ((0, 0) if version == 5 else ())
        client.publish(topic, b"unheard", qos=1)
        assert client.silent()


@needs_mosquitto
@pytest.mark.parametrize("version", VERSIONS)
def test_session_goes_on(broker: int, version: int) -> None:
    name, topic = f"session-{version}", f"session/{version}"
    more: dict[str, Any] = {"properties": (("session_expiry_interval", 60),)} if version == 5 else {}
    with Client(broker, version, client_identifier=name, clean_start=True, **more) as client:
        client.disconnect()
    with Client(broker, version, client_identifier=name, clean_start=False, **more) as client:
        client.subscribe((topic, 1))
    with Client(broker, version) as other:
        other.publish(topic, b"meanwhile", qos=1)
    with Client(broker, version, client_identifier=name, clean_start=False, **more) as client:
        assert client.connack.session_present is (None if version == 3 else True)
        assert client.delivery().payload_bytes() == b"meanwhile"


@needs_mosquitto
@pytest.mark.parametrize("publisher", VERSIONS)
@pytest.mark.parametrize("subscriber", VERSIONS)
def test_versions_meet(broker: int, publisher: int, subscriber: int) -> None:
    topic = f"meet/{publisher}/{subscriber}"
    with Client(broker, subscriber) as one, Client(broker, publisher) as two:
        one.subscribe((topic, 2))
        two.publish(topic, b"hello", qos=2)
        assert one.delivery().payload_bytes() == b"hello"


@needs_mosquitto
def test_missing_credentials_of_3_1(broker: int) -> None:
    """3.1, section 3.1: flags set and strings missing is valid, and mosquitto takes it too."""
    with Client(broker, 3, client_identifier="bare", connect_flags=0xC2) as client:
        assert client.connack.reason_code == 0


@needs_mosquitto
def test_properties_of_5_0(broker: int) -> None:
    pairs = (
        ("payload_format_indicator", 1),
        ("content_type", "text/plain"),
        ("response_topic", "answers/here"),
        ("correlation_data", b"\x00\xff"),
        ("user_property", ("k", "1")),
        ("user_property", ("k", "2")),
        ("user_property", ("a", "")),
    )
    with Client(broker, 5, client_identifier="") as client:
        given = dict(client.connack.properties)
        assert given["assigned_client_identifier"]
        client.subscribe(("p/+", 1), properties=(("subscription_identifier", 268_435_455),))
        client.publish("p/1", "grüße".encode(), qos=1, properties=pairs)
        got = client.delivery()
        assert [p for p in got.properties if p[0] == "user_property"] == [p for p in pairs if p[0] == "user_property"]
        assert set(got.properties) == {*pairs, ("subscription_identifier", 268_435_455)}


@needs_mosquitto
def test_topic_alias(broker: int) -> None:
    """mosquitto grants aliases to clients: the second PUBLISH bears an empty Topic Name (3.3.2.3.4)."""
    with Client(broker, 5) as client:
        assert dict(client.connack.properties).get("topic_alias_maximum", 0) >= 1
        client.subscribe(("alias/t", 0))
        client.publish("alias/t", b"1", properties=(("topic_alias", 1),))
        client.publish("", b"2", properties=(("topic_alias", 1),))
        assert [client.delivery().payload_bytes() for _ in range(2)] == [b"1", b"2"]


@needs_mosquitto
def test_shared_subscription(broker: int) -> None:
    with Client(broker, 5) as one, Client(broker, 5) as two:
        for client in (one, two):
            assert client.subscribe(("$share/g/shared/+", 0)) == (0,)
        for k in range(4):
            one.publish(f"shared/{k}", b"")
        time.sleep(SILENCE)
        counts = []
        for client in (one, two):
            count = 0
            while not client.silent():
                count += 1
            counts.append(count)
        assert sum(counts) == 4


@needs_mosquitto
@pytest.mark.parametrize(
    ("version", "octets"),
    [(4, "3606 0001 61 0001 21"), (5, "8006 0001 00 0001 61 00"), (4, "8205 0001 0000 00"), (5, "30 80808080 01")],
)
def test_mosquitto_closes_on_what_we_refuse(broker: int, version: int, octets: str) -> None:
    from wirefmt.errors import DecodeError

    with pytest.raises(DecodeError):
        mqtt.decode(bytes.fromhex(octets), version=version)
    with Client(broker, version) as client:
        client.socket.sendall(bytes.fromhex(octets))
        with contextlib.suppress(EOFError, ConnectionError):
            client.expect(mqtt.Disconnect)  # 5.0: with a reason
        assert client.closed()


# ---- paho


class Server(threading.Thread):
    """A broker for one client: acknowledges, and sends each PUBLISH back with the QoS it came with."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server((HOST, 0))
        self.listener.settimeout(PATIENCE)
        self.port = self.listener.getsockname()[1]
        self.seen: list[Any] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            connection, _ = self.listener.accept()
            with connection:
                self.talk(Peer(connection, mqtt.Decoder(side="client")))
        except BaseException as error:
            self.error = error
        finally:
            self.listener.close()

    def talk(self, peer: Peer) -> None:
        while True:
            packet = peer.receive()
            self.seen.append(packet)
            if isinstance(packet, mqtt.Disconnect):
                return
            peer.send(*self.answers(packet))

    def answers(self, packet: Any) -> Iterator[Any]:
        v = packet.version
        number: Any = getattr(packet, "packet_identifier", None)
        if isinstance(packet, mqtt.Connect):
            present: Any = None if v == 3 else False
            yield mqtt.Connack(version=v, session_present=present)
        elif isinstance(packet, mqtt.Subscribe):
            yield mqtt.Suback(packet_identifier=number, reason_codes=[s.qos for s in packet.subscriptions], version=v)
        elif isinstance(packet, mqtt.Unsubscribe):
            codes = [0] * len(packet.topic_filters) if v == 5 else []
            yield mqtt.Unsuback(packet_identifier=number, reason_codes=codes, version=v)
        elif isinstance(packet, mqtt.Pingreq):
            yield mqtt.Pingresp(version=v)
        elif isinstance(packet, mqtt.Pubrel):
            yield mqtt.Pubcomp(packet_identifier=number, version=v)
        elif isinstance(packet, mqtt.Pubrec):
            yield mqtt.Pubrel(packet_identifier=number, version=v)
        elif isinstance(packet, mqtt.Publish):
            if packet.qos == 1:
                yield mqtt.Puback(packet_identifier=number, version=v)
            if packet.qos == 2:
                yield mqtt.Pubrec(packet_identifier=number, version=v)
            yield mqtt.Publish(
                topic_name=packet.topic_name,
                payload=packet.payload_bytes(),
                qos=packet.qos,
                packet_identifier=number and number + 1000,
                properties=packet.properties,
                version=v,
            )


@needs_paho
@pytest.mark.parametrize("version", VERSIONS)
def test_paho_client_and_our_octets(version: int) -> None:
    from paho.mqtt.client import Client as Paho
    from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    server = Server()
    server.start()
    protocol = {3: MQTTProtocolVersion.MQTTv31, 4: MQTTProtocolVersion.MQTTv311, 5: MQTTProtocolVersion.MQTTv5}[version]
    paho = Paho(CallbackAPIVersion.VERSION2, client_id="paho", protocol=protocol)
    paho.username_pw_set("user", "word")
    paho.will_set("will/t", b"gone", qos=1, retain=True)
    events: dict[str, Any] = {}
    came: list[Any] = []
    happened = threading.Condition()

    def note(name: str, value: Any) -> None:
        with happened:
            events[name] = value
            happened.notify_all()

    def wait(name: str) -> Any:
        with happened:
            assert happened.wait_for(lambda: name in events, PATIENCE), f"no {name}; server: {server.error!r}"
        return events[name]

    def message(_: Any, __: Any, m: Any) -> None:
        came.append(m)
        note(f"message {m.topic}", m)

    paho.on_connect = lambda _c, _u, _f, code, _p: note("connect", code)
    paho.on_subscribe = lambda _c, _u, _m, codes, _p: note("subscribe", codes)
    paho.on_unsubscribe = lambda _c, _u, _m, _codes, _p: note("unsubscribe", True)
    paho.on_message = message
    paho.connect(HOST, server.port, keepalive=30)
    paho.loop_start()
    try:
        assert wait("connect") == 0
        paho.subscribe([("a/#", 2), ("b", 0)] if version < 5 else [("a/#", options(2)), ("b", options(0))])
        assert [int(c.value) for c in wait("subscribe")] == [2, 0]
        props = None
        if version == 5:
            props = Properties(PacketTypes.PUBLISH)
            props.UserProperty = [("k", "1"), ("k", "2")]
            props.CorrelationData = b"\x00\xff"
            props.MessageExpiryInterval = 60
        for qos in (0, 1, 2):
            info = paho.publish(f"a/{qos}", b"\x00payload\xff", qos=qos, properties=props)
            got = wait(f"message a/{qos}")
            assert (got.payload, got.qos, got.retain) == (b"\x00payload\xff", qos, False)
            info.wait_for_publish(PATIENCE)
            if version == 5:
                assert got.properties.UserProperty == [("k", "1"), ("k", "2")]
                assert got.properties.CorrelationData == b"\x00\xff"
                assert got.properties.MessageExpiryInterval == 60
        paho.unsubscribe(["a/#", "b"])
        wait("unsubscribe")
    finally:
        paho.disconnect()
        paho.loop_stop()
        server.join(PATIENCE)
    assert server.error is None
    connect = server.seen[0]
    assert (connect.version, connect.protocol_version) == (version, version)
    assert connect.protocol_name == ("MQIsdp" if version == 3 else "MQTT")
    assert (connect.client_identifier, connect.keep_alive) == ("paho", 30)
    assert (connect.user_name, connect.password) == ("user", b"word")
    assert (connect.will.topic, connect.will.payload, connect.will.qos, connect.will.retain) == (
        "will/t",
        b"gone",
        1,
        True,
    )
    kinds = [type(p).__name__ for p in server.seen]
    for kind in ("Subscribe", "Publish", "Pubrel", "Puback", "Pubrec", "Pubcomp", "Unsubscribe", "Disconnect"):
        assert kind in kinds, kind
    assert [s.topic_filter for s in server.seen[1].subscriptions] == ["a/#", "b"]


def options(qos: int) -> Any:
    from paho.mqtt.subscribeoptions import SubscribeOptions

    return SubscribeOptions(qos=qos, retainHandling=1)
