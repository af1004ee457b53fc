"""Recorded conversations, byte by byte: the client's against ClientConnection, the broker's against ServerConnection.

tests/vectors/mqtt_sequences holds them, made from the test data of eclipse-mosquitto. They were written for programs with
sockets; here bytes are handed over directly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wirefmt import mqtt
from wirefmt.mqtt.events import LARGEST_PACKET
from wirefmt.mqtt.states import State

FOLDER = Path(__file__).resolve().parents[1] / "vectors" / "mqtt_sequences"


def cases(name: str) -> list[Any]:
    rows = [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]
    return [pytest.param(row, id=row["id"]) for row in rows]


#: Codes that count as the same (5.0), by kind of packet.
SAME = {0x81: 0x82, 0x10: 0x00, 0x92: 0x00}


def normal(data: bytes, version: int, side: Any) -> list[Any]:
    """Packets as they are compared: what the standard leaves open is left out."""
    packets: list[Any] = []
    for packet in mqtt.Decoder(version=version, side=side, strictness="lax").feed(data):
        fields = {name: getattr(packet, name) for name in packet.__match_args__ if name != "form"}
        if version == 5 and "properties" in fields:
            left = {"topic_alias"} | (set() if isinstance(packet, mqtt.Publish) else {"reason_string", "user_property"})
            kept = left if isinstance(packet, mqtt.Subscribe | mqtt.Unsubscribe | mqtt.Connect) else set()
            fields["properties"] = sorted((k, str(v)) for k, v in packet.properties if k not in left - kept)
        if version == 5 and not isinstance(packet, mqtt.Connect | mqtt.Publish | mqtt.Subscribe | mqtt.Unsubscribe):
            code = fields.get("reason_code") or 0
            fields["reason_code"] = SAME.get(code, code)
        if isinstance(packet, mqtt.Publish):
            fields["payload"] = packet.payload_bytes()
        packets.append((type(packet).__name__, fields))
    return packets


# ---- clients

PROPERTIES = [
    ("payload_format_indicator", 1),
    ("message_expiry_interval", 4294967295),
    ("response_topic", "response/topic"),
    ("correlation_data", b"7deac5c5-8802-44ff-86ce-11479f337419"),
    ("content_type", "text/plain"),
    ("user_property", ("key", "value")),
]


#: Faults of servers that libmosquitto lets pass, and with it the sequences.
TOLERATED = frozenset(("CONNACK TRAILING_OCTETS", "UNSUBACK UNSUBACK_EMPTY"))


class Client:
    """The program that the sequences drive: it does its deed once it is connected, and acknowledges at once."""

    def __init__(self, case: Any) -> None:
        self.version: int = case["version"]
        self.deed: str | None = case["command"]
        options = mqtt.ConnectionOptions(
            receive_maximum=20,
            packet_size=LARGEST_PACKET,
            automatic=True,
            control_characters=False,
            tolerate=TOLERATED if self.version == 5 else frozenset(),
        )
        self.connection = mqtt.ClientConnection(0.0, mqtt.Session("fuzzish"), options)
        self.connection.send(
            mqtt.Connect(
                client_identifier="fuzzish", clean_start=case["clean_start"], keep_alive=60, version=self.version
            )
        )

    def receive(self, data: bytes) -> None:
        if self.connection.state is State.CLOSED:
            return
        events = self.connection.receive(data, 0.0)
        if self.connection.state is State.CONNECTED and self.deed and self.connection.negotiated and events:
            self.act(self.deed)
            self.deed = None

    def act(self, deed: str) -> None:
        five = self.version == 5
        if deed == "unsubscribe":
            self.connection.unsubscribe(["test/subscribe"], [("user_property", ("key", "value"))] if five else ())
        else:
            self.connection.publish(
                "test/publish", b"message", qos=int(deed[-1]), properties=PROPERTIES if five else ()
            )


PROBE = {v: mqtt.Publish(topic_name="probe", qos=1, packet_identifier=65535, version=v).encode() for v in (3, 4, 5)}


@pytest.mark.parametrize("case", cases("client.jsonl"))
def test_client_sequences(case: Any) -> None:
    client = Client(case)
    version = case["version"]
    first = case["steps"][0]
    if first["do"] != "expect":
        client.connection.data_to_send()
        client.receive(mqtt.Connack(version=version).encode())
    for step in case["steps"]:
        data = bytes.fromhex(step["hex"])
        if step["do"] == "send":
            client.receive(data)
        else:
            said = client.connection.data_to_send()
            assert normal(said, version, "client") == normal(data, version, "client"), step.get("comment")
    client.receive(PROBE[version])
    said = client.connection.data_to_send()
    acknowledged = b"\x40\x02\xff\xff" in said
    if case["finally"] == "connected":
        assert acknowledged
    else:
        assert client.connection.state is State.CLOSED
        assert not acknowledged
        assert normal(said, version, "client") == [] or said[0] == 0xE0  # a client may say why
