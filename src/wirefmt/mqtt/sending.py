"""Messages to the peer: QoS flows, send quota, aliases, and sending again (MQTT 5.0, 4.3, 4.4, 4.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wirefmt import mqtt
from wirefmt.connection.endpoint import EventT
from wirefmt.connection.states import Role
from wirefmt.errors import LocalProtocolError
from wirefmt.mqtt.aliases import OutgoingAliases
from wirefmt.mqtt.codes import ReasonCode
from wirefmt.mqtt.endpoint import Endpoint
from wirefmt.mqtt.events import ConnectionOptions, Dropped, Event, Negotiated, Pairs, Request, find, without
from wirefmt.mqtt.session import Delivery, changed, split_packet
from wirefmt.mqtt.spec import FAILURE

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Sending(Endpoint[EventT]):
    """An endpoint that sends messages."""

    def __init__(self, now: float, options: ConnectionOptions | None) -> None:
        super().__init__(now, options)
        self._aliases_out = OutgoingAliases(0)

    def _forget(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        self._replay.clear()
        return super()._forget()

    def _limit(self, negotiated: Negotiated) -> None:
        """Keep to what the peer has announced. Maximum QoS and Retain Available are the server's."""
        client, most = self.role is Role.CLIENT, self.options.topic_aliases
        if most is None:
            most = 0 if client else negotiated.topic_alias_maximum
        self._aliases_out = OutgoingAliases(negotiated.topic_alias_maximum, most)
        looks = client and (negotiated.maximum_qos < 2 or not negotiated.retain_available)
        self._keep_to(negotiated.receive_maximum, negotiated.maximum_packet_size, self._aliases_out.most > 0, looks)

    def _publish(self, topic_name: str, payload: Buffer, qos: int, retain: bool, properties: Pairs) -> Delivery | None:
        """`publish`, with all that a message may have."""
        self._check_connected()
        message = self._build(
            mqtt.Publish,
            topic_name=topic_name,
            payload=payload,
            qos=qos,
            retain=retain,
            packet_identifier=1 if qos else None,
            properties=properties,
        )
        handle = self.send(message)
        assert not isinstance(handle, Request)
        return handle

    def _send_publish(self, message: mqtt.Publish) -> Delivery | None:
        assert self._session is not None
        assert self.negotiated is not None
        if message.dup:
            raise LocalProtocolError("DUP is set by the connection when it sends again [MQTT-3.3.1-1]")
        qos = message.qos
        self._check_publish_out(message)
        packet, alias = message.encode(), None
        if self.version == 5:
            packet, wire, alias = self._with_alias(message, packet)
        else:
            wire = packet
        # The packet is kept with its full topic, since aliases end with the connection, so that form must fit, too.
        largest = max(len(packet), len(wire)) if qos else len(wire)
        if largest > self.negotiated.maximum_packet_size:
            raise LocalProtocolError(
                f"the packet has {largest} bytes, the peer accepts {self.negotiated.maximum_packet_size} "
                "[MQTT-3.1.2-24, MQTT-3.2.2-15]",
                reply=ReasonCode.PACKET_TOO_LARGE,
            )
        self._check_pending(len(wire))
        if qos == 0:
            self._put(wire)
            handle = None
        else:
            if not self.send_quota:
                self._window_closed = True
                raise LocalProtocolError(
                    "the window is closed: wait for WindowOpened [MQTT-4.9.0-2]",
                    reply=ReasonCode.RECEIVE_MAXIMUM_EXCEEDED,
                )
            handle = self._session.add(packet, message.version)
            head, tail = handle.buffers if wire is packet else split_packet(wire, handle.packet_identifier)
            self._send_delivery(handle, head, tail)
        if alias is not None:
            self._aliases_out.use(*alias)
        self.publishes_out += 1
        self.payload_out += len(message.payload)
        return handle

    def _check_publish_out(self, message: mqtt.Publish) -> None:
        """What this role must not publish."""

    def _with_alias(self, message: mqtt.Publish, packet: bytes) -> tuple[bytes, bytes, tuple[str, int] | None]:
        """The packet to keep, the packet to send, and the topic and alias it uses."""
        aliases = self._aliases_out
        properties = message.properties
        number = find(properties, "topic_alias") if properties else None
        topic = message.topic_name
        if number is not None:  # the host has chosen
            if number > aliases.maximum:
                raise LocalProtocolError(
                    f"Topic Alias {number} is above the peer's maximum, {aliases.maximum} [MQTT-3.2.2-17, MQTT-3.1.2-26]",
                    reply=ReasonCode.TOPIC_ALIAS_INVALID,
                )
            if not topic:
                known = aliases.topic_of(number)
                if known is None:
                    raise LocalProtocolError(
                        f"Topic Alias {number} has no topic (3.3.2.3.4)", reply=ReasonCode.PROTOCOL_ERROR
                    )
                topic = known
            kept = changed(message, without(properties, "topic_alias"), topic_name=topic).encode()
            return kept, packet, (topic, number)
        alias = aliases.choose(topic) if len(topic) > 2 else None
        if alias is None:
            return packet, packet, None
        wire = changed(
            message, (*properties, ("topic_alias", alias.number)), topic_name="" if alias.known else topic
        ).encode()
        assert self.negotiated is not None
        if len(wire) > self.negotiated.maximum_packet_size:
            return packet, packet, None
        return packet, wire, (topic, alias.number)

    def _on_pubrec(self, message: mqtt.Pubrec, events: list[Event]) -> None:
        assert self._session is not None
        identifier, code = message.packet_identifier, message.reason_code or 0
        delivery = self._session.outgoing.get(identifier)
        if delivery is None:
            self._stray("PUBREC", identifier)
            if code < FAILURE:
                answer = ReasonCode.PACKET_IDENTIFIER_NOT_FOUND if self.version == 5 else ReasonCode.SUCCESS
                self._put(self._acknowledgement(mqtt.Pubrel, identifier, answer))
        elif delivery.qos != 2:
            raise self._wrong_kind("PUBREC", identifier)
        elif code >= FAILURE:
            if not delivery.received:
                self._finish(delivery, message, code, events)  # [MQTT-4.4.0-2]
        else:
            if not delivery.received:
                self._session.receive_pubrec(delivery)
            if delivery.mark is not None:  # else `_send_again` comes to it
                self._put(self._acknowledgement(mqtt.Pubrel, identifier))  # [MQTT-4.3.3-4]

    def _on_pubcomp(self, message: mqtt.Pubcomp, events: list[Event]) -> None:
        assert self._session is not None
        delivery = self._session.outgoing.get(message.packet_identifier)
        if delivery is None:
            self._stray("PUBCOMP", message.packet_identifier)
        elif not delivery.received:
            raise self._wrong_kind("PUBCOMP", message.packet_identifier)
        else:
            self._finish(delivery, message, message.reason_code or 0, events)

    def _stray(self, kind: str, identifier: int) -> None:
        """An acknowledgement for nothing outstanding is ignored, but not one that answers a request."""
        self.strays += 1

    # ---- resumption (4.4)

    def _resume_session(self, events: list[Event]) -> None:
        """Send again what is not acknowledged, in the order first sent [MQTT-4.4.0-1, MQTT-4.6.0-1]."""
        super()._resume_session(events)
        assert self._session is not None
        self._replay.extend(self._session.outgoing.values())
        self._send_again(events)
        self._window_closed = not self.send_quota

    def _send_again(self, events: list[Event]) -> None:
        """As far as the window allows."""
        assert self._session is not None
        assert self.negotiated is not None
        while self._replay:
            delivery = self._replay[0]
            identifier = delivery.packet_identifier
            if self._session.outgoing.get(identifier) is not delivery:
                self._replay.popleft()  # finished meanwhile
                continue
            if delivery.received:
                self._replay.popleft()
                dup = self.version == 3  # 3.1, 3.6: DUP is meant for PUBREL, too
                self._put(mqtt.Pubrel(packet_identifier=identifier, dup=dup, version=self.version or 5).encode())
                delivery.mark = self._outbox.position
                continue
            if not self._quota.available:
                return
            self._replay.popleft()
            head, tail = self._again(delivery)
            if len(head) + len(tail) > self.negotiated.maximum_packet_size:
                self._session.finish(delivery)
                events.append(Dropped(delivery))
                continue
            self._send_delivery(delivery, head, tail)

    def _again(self, delivery: Delivery) -> tuple[bytes, bytes | memoryview]:
        """The packet as this connection sends it again: in its version, with DUP if it has left before [MQTT-3.3.1-1]."""
        head, tail = delivery.buffers
        if delivery.version != self.version:
            old = delivery.message
            assert old is not None
            head, tail = split_packet(changed(old, version=self.version).encode(), delivery.packet_identifier)
        if delivery.transmitted:
            head = bytes((head[0] | 0x08,)) + head[1:]
        return head, tail
