"""Captures as witnesses: recorded conversations of mosquitto and RabbitMQ with paho go through an observing pair, a client and a
server connection that hear what the other side said and do what their own side did. A good conversation has no violation. In a
bad one they see the first fault that a count over its packets shows, and nothing else: RabbitMQ 3.10 answers QoS 2 with PUBACK,
mosquitto 2.0.11 goes beyond the client's Receive Maximum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from lib.captures import name_of, octets_of, parameters, recorded
from lib.conversations import CLIENT, SERVER, segments
from wirefmt import mqtt
from wirefmt.connection import Disconnected
from wirefmt.errors import LocalProtocolError
from wirefmt.mqtt.events import find, without
from wirefmt.mqtt.states import State

#: What ConnectionOptions announce, with the value of a peer that announces nothing (5.0, 3.1.2.11 and 3.2.2.3).
ANNOUNCED = {"receive_maximum": 65535, "topic_alias_maximum": 0}


#: Recorded, and with whole packets.
CONVERSATIONS = parameters([row for row in recorded() if row["protocols"] == ["mqtt"] and "snaplen" not in row["file"]])


def options_of(properties: Any) -> Any:
    return mqtt.ConnectionOptions(
        packet_size=find(properties, "maximum_packet_size", mqtt.ConnectionOptions().packet_size),
        undecided=65535,
        **{name: find(properties, name, value) for name, value in ANNOUNCED.items()},
    )


def others(properties: Any) -> Any:
    return without(properties, *ANNOUNCED, "maximum_packet_size")


RECEIVE_MAXIMUM, WRONG_ANSWER = "Receive Maximum exceeded", "PUBACK for QoS 2"


class Count:
    """The faults of a conversation, by a count over its packets that knows nothing of our connections."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.identifiers: list[int | None] = []  # of the packets at fault
        self.maximum = [65535, 65535]  # what each side accepts
        self.unfinished: tuple[dict[int, int], dict[int, int]] = ({}, {})  # packet identifier: QoS, by sender

    def note(self, fault: str, number: int | None) -> None:
        self.faults.append(fault)
        self.identifiers.append(number)

    def hear(self, speaker: int, message: Any) -> None:
        number: Any = getattr(message, "packet_identifier", None)
        sent, heard = self.unfinished[speaker], self.unfinished[1 - speaker]
        match message:
            case mqtt.Connect() | mqtt.Connack():
                self.maximum[speaker] = dict(message.properties).get("receive_maximum", 65535)
            case mqtt.Publish() if message.qos:
                sent[number] = message.qos
                if len(sent) > self.maximum[1 - speaker]:
                    self.note(RECEIVE_MAXIMUM, number)
            case mqtt.Puback():
                if heard.pop(number, 1) == 2:
                    self.note(WRONG_ANSWER, number)
            case mqtt.Pubcomp():
                heard.pop(number, None)


class Host:
    """What both sides keep from one connection to the next: sessions by Client Identifier."""

    def __init__(self) -> None:
        self.sessions: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        self.pairs: dict[str, Pair] = {}


class Pair:
    """One connection. `found`: the violations that ours have seen; `ended`: the code of a CONNACK that refuses."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.decoders: list[Any] = [mqtt.Decoder(side="client"), None]
        self.client: Any = None
        self.server: Any = mqtt.ServerConnection(0.0)
        self.waiting: list[Any] = []  # events of the server that its host has not answered
        self.arrived: list[Any] = []  # and those of the client
        self.found: list[Any] = []
        self.refused: list[LocalProtocolError] = []  # what the server of ours would not have sent
        self.count = Count()
        self.ended: int | None = None
        self.heard_end: int | None = None  # the same, as our client says it
        self.said: Counter[str] = Counter()

    def hear(self, speaker: int, octets: bytes) -> None:
        if not octets:
            self.end(speaker)
            return
        if speaker == SERVER and self.decoders[SERVER] is None:
            self.decoders[SERVER] = mqtt.Decoder(version=self.client.version, side="server")
        for message in self.decoders[speaker].feed(octets):
            self.said[type(message).__name__] += 1
            self.count.hear(speaker, message)
            (self.client_says if speaker == CLIENT else self.server_says)(message)

    def end(self, speaker: int) -> None:
        """One side has closed."""
        hearer, own = (self.server, self.client) if speaker == CLIENT else (self.client, self.server)
        if own.state is not State.CLOSED:
            own.close(immediate=True)
        if hearer.state is not State.CLOSED:
            hearer.receive_eof(0.0)

    def note(self, events: list[Any]) -> list[Any]:
        for event in events:
            if isinstance(event, Disconnected) and event.error is not None:
                self.found.append(event)
            elif isinstance(event, Disconnected) and event.by == "peer" and isinstance(event.message, mqtt.Connack):
                self.heard_end = event.code  # type: ignore[assignment]
        return events

    def client_says(self, message: Any) -> None:
        if isinstance(message, mqtt.Connect):
            self.connect(message)
        elif self.client.state is not State.CLOSED:
            self.client_did(message)
        if self.client.state is not State.CLOSED:
            self.client.data_to_send()
        if self.server.state is not State.CLOSED:
            self.waiting += self.note(self.server.receive(message.encode(), 0.0))

    def connect(self, message: Any) -> None:
        name = message.client_identifier
        before = self.host.pairs.pop(name, None)
        if before is not None and name:
            before.end(CLIENT)
        self.host.pairs[name] = self
        if message.clean_start:
            self.host.sessions[CLIENT].pop(name, None)
        session = self.host.sessions[CLIENT].setdefault(name, mqtt.Session(name))
        self.client = mqtt.ClientConnection(0.0, session, options_of(message.properties))
        fields = {
            field: getattr(message, field)
            for field in ("client_identifier", "clean_start", "keep_alive", "will", "user_name", "password", "version")
        }
        self.client.send(mqtt.Connect(**fields, properties=others(message.properties)))

    def client_did(self, message: Any) -> None:
        client = self.client
        match message:
            case mqtt.Publish() | mqtt.Subscribe() | mqtt.Unsubscribe():
                self.send(client, message)
            case mqtt.Puback() | mqtt.Pubrec():
                self.acknowledge(client, self.arrived, message)
            case mqtt.Disconnect():
                client.close(message.reason_code or 0, message.properties)
            case mqtt.Pingreq():
                client.send(message)
            case mqtt.Pubrel() | mqtt.Pubcomp():
                pass  # the machine sends them by itself
            case _:
                raise AssertionError(f"no packet of a client: {message}")

    def send(self, machine: Any, message: Any) -> None:
        if getattr(message, "dup", False):
            return  # the machine sends again by itself
        if message.packet_identifier:
            machine.session.identifiers.next = message.packet_identifier
        handle = machine.send(message)
        assert getattr(handle, "packet_identifier", 0) == (message.packet_identifier or 0)

    def acknowledge(self, machine: Any, arrived: list[Any], message: Any) -> None:
        for event in arrived:
            if isinstance(event, mqtt.Publish) and event.packet_identifier == message.packet_identifier and event.qos:
                arrived.remove(event)
                arrived += self.note(machine.acknowledge(event, message.reason_code or 0, message.properties))
                return

    def server_says(self, message: Any) -> None:
        if isinstance(message, mqtt.Connack) and message.reason_code:
            self.ended = message.reason_code
        if self.server.state is not State.CLOSED:
            self.server_did(message)
        if self.server.state is not State.CLOSED:
            self.server.data_to_send()
        if self.client.state is not State.CLOSED:
            self.arrived += self.note(self.client.receive(message.encode(), 0.0))

    def request(self, kind: Any) -> Any:
        event = next(e for e in self.waiting if isinstance(e, kind))
        self.waiting.remove(event)
        return event

    def server_did(self, message: Any) -> None:
        server = self.server
        match message:
            case mqtt.Connack() if message.reason_code:
                self.waiting += server.refuse(self.request(mqtt.Connect), message.reason_code, message.properties)
            case mqtt.Connack():
                self.accept(message)
            case mqtt.Publish():
                try:
                    self.send(server, message)
                except LocalProtocolError as error:
                    self.refused.append(error)
                    server.close(immediate=True)
            case mqtt.Puback() | mqtt.Pubrec():
                self.acknowledge(server, self.waiting, message)
            case mqtt.Suback():
                self.waiting += server.grant(self.request(mqtt.Subscribe), message.reason_codes, message.properties)
            case mqtt.Unsuback():
                asked = self.request(mqtt.Unsubscribe)
                self.waiting += server.grant(asked, message.reason_codes or (), message.properties)
            case mqtt.Disconnect():
                server.close(message.reason_code or 0, message.properties)
            case mqtt.Pubrel() | mqtt.Pubcomp() | mqtt.Pingresp():
                pass
            case _:
                raise AssertionError(f"no packet of a server: {message}")

    def accept(self, message: Any) -> None:
        connect = self.request(mqtt.Connect)
        name = connect.client_identifier
        sessions = self.host.sessions[SERVER]
        kept = sessions.get(name) if message.session_present or message.version == 3 else None
        self.server.options = options_of(message.properties)
        if connect.clean_start:
            kept = None
        self.waiting += self.note(self.server.accept(connect, kept, others(message.properties)))
        sessions[name] = self.server.session


#: What the client says of the first fault.
FAULTS: dict[str, Callable[[Pair], str]] = {
    RECEIVE_MAXIMUM: lambda pair: (
        f"more than {pair.count.maximum[CLIENT]} messages are unfinished [MQTT-3.3.4-7, MQTT-3.3.4-9]"
    ),
    WRONG_ANSWER: lambda pair: f"PUBACK does not fit the state of packet identifier {pair.count.identifiers[0]} (4.3)",
}
#: The captures in which the server breaks a rule.
BAD = {"mosquitto-paho-v5.pcap": [RECEIVE_MAXIMUM], "rabbitmq-paho-v31.pcap": [WRONG_ANSWER]}


@pytest.mark.parametrize("row", CONVERSATIONS)
def test_recorded_conversations(row: dict[str, Any]) -> None:
    host = Host()
    pairs: dict[int, Pair] = {}
    for port, speaker, payload in segments(octets_of(row), 1883):
        if port not in pairs:
            pairs[port] = Pair(host)
        pairs[port].hear(speaker, payload)
    said = sum((pair.said for pair in pairs.values()), Counter())
    assert said.total() == row["messages"]
    for pair in pairs.values():
        fault = pair.count.faults[0] if pair.count.faults else None
        assert [str(error.error) for error in pair.found] == ([FAULTS[fault](pair)] if fault else [])
        assert [error.reply for error in pair.refused] == ([0x93] if fault == RECEIVE_MAXIMUM else [])
        assert pair.heard_end == pair.ended
    bad = [pair.count.faults[0] for pair in pairs.values() if pair.count.faults]
    assert bad == BAD.get(name_of(row), [])
