"""Messages from the peer: QoS flows, the order of acknowledgements, Receive Maximum, aliases (MQTT 5.0, 4.3, 4.6, 4.9)."""

from __future__ import annotations

from typing import Any

from wirefmt import mqtt
from wirefmt.connection.endpoint import EventT
from wirefmt.errors import EncodeError, LocalProtocolError, RemoteProtocolError
from wirefmt.mqtt.codes import ReasonCode
from wirefmt.mqtt.endpoint import Endpoint
from wirefmt.mqtt.events import ConnectionOptions, Event, Pairs, Released, find, without
from wirefmt.mqtt.session import Held, changed
from wirefmt.mqtt.spec import FAILURE


class Receiving(Endpoint[EventT]):
    """An endpoint that receives messages."""

    def __init__(self, now: float, options: ConnectionOptions | None) -> None:
        super().__init__(now, options)
        self._aliases_in: dict[int, str] = {}
        #: By packet identifier: content (its hash) and number of QoS 2 messages, if they are limited.
        self._copies: dict[int, tuple[int, int]] = {}
        self._released_bytes = 0  # of the session

    @property
    def undecided(self) -> int:
        return super().undecided + self._arrivals.undecided

    def _forget(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        self._aliases_in.clear()  # [MQTT-3.3.2-7]
        return super()._forget()

    def _resume_session(self, events: list[Event]) -> None:
        assert self._session is not None
        self._released_bytes = self._session.held_bytes
        super()._resume_session(events)

    def _acknowledge(self, message: mqtt.Publish, reason_code: int, properties: Pairs) -> list[EventT]:
        """`acknowledge`, with all that an answer may have."""
        if not self._up and not self._over:
            self._check_connected()
        identifier = (message.packet_identifier or 0) if isinstance(message, mqtt.Publish) else 0
        arrival = self._arrivals.get(identifier)
        if arrival is None or arrival.message is not message or arrival.decided:
            self._check_over()
            raise LocalProtocolError("this message does not wait for an acknowledgement")
        if self._over:
            self._answer_late(message, reason_code, properties)
            return []
        self._answer(message, reason_code, properties)
        return self._go_on()

    def _answer_late(self, message: mqtt.Publish, code: int, properties: Pairs) -> None:
        """The connection ended after it had read the message. The answer leaves if nothing has been taken since, before a closing
        packet; and a session that lives on remembers a message of QoS 2 [MQTT-4.3.3-10]. A connection that has gone on with the
        session has seen the message again."""
        session = self._session
        assert session is not None
        if session.held:
            self._check_over()
        self._answer(message, code, properties, silent=not self._answers_leave)
        if not session.established and message.packet_identifier in session.incoming:
            session.release(message.packet_identifier)  # it has ended with the connection

    def _answer(self, message: mqtt.Publish, code: int, properties: Pairs, *, silent: bool = False) -> None:
        kind = mqtt.Puback if message.qos == 1 else mqtt.Pubrec
        answer = self._acknowledgement(kind, message.packet_identifier or 0, code, properties)
        held = None
        if message.qos == 2 and self.options.qos2_event == "release" and code < FAILURE:
            held = Held(message.version, message.encode())
            self._released_bytes += len(held.packet)
        self._decide(message, answer, code if self.version == 5 else ReasonCode.SUCCESS, held, silent)

    def _forget_copies(self, identifier: int) -> None:
        self._copies.pop(identifier, None)

    def _on_publish(self, message: mqtt.Publish, events: list[Event]) -> None:
        """Handle a PUBLISH that the compiled class leaves."""
        self.publishes_in += 1
        self.payload_in += len(message.payload)
        if message.properties:
            message = self._resolve_alias(message)
        if self._restricted:
            self._check_publish(message)
            self._check_text(message.topic_name)
        if self.options.copies and message.qos == 2:
            self._count_copy(message, message.packet_identifier or 0)
        if not self._arrive(message):
            return
        events.append(message)
        if message.qos == 2 and self.options.qos2_event == "release":
            size = len(message.encode())
            if self._released_bytes + size > self.options.released_bytes:
                raise RemoteProtocolError("too many bytes wait for PUBREL", reply=ReasonCode.QUOTA_EXCEEDED)
            if self.options.automatic:
                self._answer(message, ReasonCode.SUCCESS, ())

    def _count_copy(self, message: mqtt.Publish, identifier: int) -> None:
        content = hash((message.topic_name, message.payload_bytes()))
        before, count = self._copies.get(identifier, (content, 0))
        count = count + 1 if before == content else 1
        if count > self.options.copies:
            raise RemoteProtocolError(
                f"PUBLISH {identifier} {count} times before PUBREL", reply=ReasonCode.PROTOCOL_ERROR
            )
        self._copies[identifier] = (content, count)

    def _too_many(self) -> RemoteProtocolError:
        """The error for a message beyond our Receive Maximum (3.3.4)."""
        return RemoteProtocolError(
            f"more than {self.options.receive_maximum} messages are unfinished [MQTT-3.3.4-7, MQTT-3.3.4-9]",
            reply=ReasonCode.RECEIVE_MAXIMUM_EXCEEDED,
        )

    def _check_publish(self, message: mqtt.Publish) -> None:
        """What this connection does not allow in a PUBLISH of the peer."""

    def _resolve_alias(self, message: mqtt.Publish) -> mqtt.Publish:
        """The message with its full topic and without the alias (3.3.2.3.4)."""
        properties = message.properties
        alias = find(properties, "topic_alias")
        if alias is None:
            return message
        if not 0 < alias <= self.options.topic_alias_maximum:
            raise RemoteProtocolError(
                f"Topic Alias {alias} is above our maximum [MQTT-3.3.2-9, MQTT-3.3.2-11]",
                reply=ReasonCode.TOPIC_ALIAS_INVALID,
            )
        topic = message.topic_name
        if topic:
            self._aliases_in[alias] = topic
        elif (known := self._aliases_in.get(alias)) is not None:
            topic = known
        else:
            raise RemoteProtocolError(f"Topic Alias {alias} has no topic (3.3.2.3.4)", reply=ReasonCode.PROTOCOL_ERROR)
        try:
            return changed(message, without(properties, "topic_alias"), topic_name=topic)
        except EncodeError as error:  # a violation that is tolerated, but that cannot be written
            raise RemoteProtocolError(str(error), reply=ReasonCode.MALFORMED_PACKET) from error

    def _on_pubrel(self, message: mqtt.Pubrel, events: list[Event]) -> None:
        assert self._session is not None
        identifier = message.packet_identifier
        if identifier in self._arrivals:
            raise self._wrong_kind("PUBREL before PUBREC", identifier)
        if identifier in self._session.incoming:
            held = self._session.release(identifier)
            if self._copies:
                self._copies.pop(identifier, None)
            self._releasing.discard(identifier)
            if held is not None:
                self._released_bytes -= len(held.packet)
                if self.options.qos2_event == "release":
                    events.append(Released(held.message))
            self._put(self._acknowledgement(mqtt.Pubcomp, identifier))  # [MQTT-4.3.3-11]
        else:
            self.strays += 1
            code = ReasonCode.PACKET_IDENTIFIER_NOT_FOUND if self.version == 5 else ReasonCode.SUCCESS
            self._put(self._acknowledgement(mqtt.Pubcomp, identifier, code))
