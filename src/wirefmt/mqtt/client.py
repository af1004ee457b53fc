"""An MQTT client on asyncio.

docs/mqtt-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Unpack

from wirefmt import mqtt
from wirefmt.connection import aio
from wirefmt.connection import client as connecting
from wirefmt.connection.address import Address, Scheme, read_urls
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.connection.deflate import Deflate
from wirefmt.connection.recovery import OnRefused, check_on_refused
from wirefmt.errors import ConnectionLost, EncodeError, JournalError, LocalProtocolError, Refused, check_choice
from wirefmt.mqtt.client_connection import ClientConnection
from wirefmt.mqtt.codes import ReasonCode, ReturnCode
from wirefmt.mqtt.events import ConnectionOptions, Dropped, Negotiated, Pairs, Released, Request, find, without
from wirefmt.mqtt.inbox import Arrival, Inbox, Messages
from wirefmt.mqtt.journal import Journal
from wirefmt.mqtt.restoring import Restoration, Subscribed, shown
from wirefmt.mqtt.session import Delivery, Session, changed
from wirefmt.mqtt.spec import FAILURE

if TYPE_CHECKING:
    from typing_extensions import Buffer

SCHEMES: Final = {
    "mqtt": Scheme(1883),
    "mqtts": Scheme(8883, tls=True),
    "ws": Scheme(80, websocket=True),
    "wss": Scheme(443, tls=True, websocket=True),
    "mqtt+unix": Scheme(unix=True),
}

#: Codes of CONNACK (those before 5.0 are the first four) and DISCONNECT after which the client does not connect again: another
#: attempt would end alike, or throw out the client that has taken the session over.
FINAL_CODES: Final = frozenset(
    (
        ReturnCode.UNACCEPTABLE_PROTOCOL_VERSION,
        ReturnCode.IDENTIFIER_REJECTED,
        ReturnCode.BAD_USER_NAME_OR_PASSWORD,
        ReturnCode.NOT_AUTHORIZED,
        ReasonCode.MALFORMED_PACKET,
        ReasonCode.PROTOCOL_ERROR,
        ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
        ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
        ReasonCode.BAD_USER_NAME_OR_PASSWORD,
        ReasonCode.NOT_AUTHORIZED,
        ReasonCode.BANNED,
        ReasonCode.BAD_AUTHENTICATION_METHOD,
        ReasonCode.SESSION_TAKEN_OVER,
        ReasonCode.TOPIC_NAME_INVALID,
        ReasonCode.PACKET_TOO_LARGE,
        ReasonCode.PAYLOAD_FORMAT_INVALID,
        ReasonCode.RETAIN_NOT_SUPPORTED,
        ReasonCode.QOS_NOT_SUPPORTED,
        ReasonCode.USE_ANOTHER_SERVER,
        ReasonCode.SERVER_MOVED,
    )
)

#: QoS 1 and 2 messages that may be unfinished before 5.0, unless the host says otherwise.
IN_FLIGHT: Final = 20

#: Seconds that a session is asked to live after its connection, if there is a journal or reconnection and nothing is said.
SESSION_SECONDS: Final = 3600

Acknowledge = Literal["automatic", "manual"]


class Authenticator(Protocol):
    """One side of an authentication exchange (4.12).

    Attributes:
        method: the Authentication Method.
    """

    method: str

    async def respond(self, data: bytes | None) -> bytes | None:
        """The Authentication Data for the server's; None begins an exchange, with CONNECT or with AUTH 0x19."""
        ...

    def complete(self, data: bytes | None) -> None:
        """The server has accepted, with this data. An exception drops the connection."""
        ...


class Entry:
    """A packet of the host: it waits to be sent, or for its acknowledgement. `future`: the call that waits, if one does.
    `on_refused`: of the subscriptions."""

    __slots__ = ("future", "message", "on_refused")

    def __init__(
        self,
        message: mqtt.Publish | mqtt.Subscribe | mqtt.Unsubscribe,
        future: asyncio.Future[Any] | None,
        on_refused: OnRefused | None = None,
    ) -> None:
        self.message = message
        self.future = future
        self.on_refused = on_refused

    @property
    def given_up(self) -> bool:
        return self.future is not None and self.future.done()

    def succeed(self, result: Any) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(result)

    def fail(self, error: Exception) -> bool:
        """False: no call waits."""
        if self.future is None or self.future.done():
            return self.future is not None
        connecting.fail(self.future, error)
        return True


class Link(connecting.Link):
    """The host of one connection of a client."""

    connection: ClientConnection

    def __init__(self, client: Client, *, passing: bool = False) -> None:
        super().__init__()
        self.client = client
        self.passing = passing  # only there to end a session of the server

    def handle(self, event: Any) -> None:
        self.client._handle(self, event)

    def writable(self) -> None:
        self.client._pump()

    def _refused(self, event: Disconnected) -> Refused:
        code = event.code or 0
        return Refused(f"the server has ended the connection: {shown(code)} {event.reason}", code, event)


@connecting.complete
class Client(connecting.Client[Link]):
    """An MQTT client, made by `mqtt.connect`. `async with` connects and closes it; so do its methods `open` and `close`.

    ::

        async with mqtt.connect("mqtts://broker:8883", client_identifier="meter-7") as client:
            await client.subscribe("plant/+", qos=1)
            await client.publish("plant/line-1", b"21.5", qos=1)      # returns when acknowledged
            async for message in client.messages(): ...

    Args:
        url: `mqtt://host:1883`, `mqtts://` (TLS), `ws://host/mqtt`, `wss://` (WebSocket), `mqtt+unix:///path`. User name and
            password may be in it. Several: they are tried in turn.
        client_identifier: "": the server gives one (5.0).
        version: 5: MQTT 5.0; 4: 3.1.1; 3: 3.1.
        clean_start: None: the session goes on if there is one. True: the first connection begins a new one. False: the
            session that the server has under this identifier goes on, with its subscriptions.
        keep_alive: seconds; 0: none.
        session_expiry_interval: seconds that the session lives without a connection. Before 5.0: 0 ends it with the
            connection, any other number keeps it. None: 0, with `journal` or `reconnect` SESSION_SECONDS.
        user_name, password: credentials.
        will: what the server publishes when the connection ends without DISCONNECT.
        properties: further properties of CONNECT.
        authenticator: enhanced authentication (4.12).
        session: state of an earlier client.
        journal: path of a SQLite database that keeps the session (`Journal`).
        reconnect: connect again when the connection is lost. The session goes on; if the server has lost it, subscriptions
            are made again and QoS 1 messages are sent again. None: the end of the connection ends the client.
        in_flight: QoS 1 and 2 messages of ours that may be unfinished; above it `publish` waits. None: what the server
            announces, and before 5.0, where it announces nothing, IN_FLIGHT: mosquitto loses what exceeds its own limit.
        acknowledge: "automatic": when the host asks for the next message. "manual": by `Client.acknowledge`.
        inbox, inbox_bytes: messages, and bytes of their payloads, that may wait for the host before reading stops.
        options: limits and times of each connection.
        deflate: offer compression (permessage-deflate) over WebSocket; None: do not.

    Raises ValueError for a URL that cannot be used, and for arguments that exclude each other.

    Every coroutine can be cancelled; the client stays usable. A call that is cancelled after its packet has been sent takes
    nothing back.

    Attributes:
        session: what outlives the connection; with a journal it also outlives the process.
        journal: the journal, while the client is open; None without one.
        late: replies that came after their `request` had ended.
        lost: QoS 1 and 2 messages of which it is not known whether they have arrived and for which no call waits.
        connections: how many connections there have been.
    """

    def __init__(
        self,
        url: str | Iterable[str],
        *,
        client_identifier: str = "",
        version: int = 5,
        clean_start: bool | None = None,
        keep_alive: int = 60,
        session_expiry_interval: int | None = None,
        user_name: str | None = None,
        password: bytes | str | None = None,
        will: mqtt.Will | None = None,
        properties: Pairs = (),
        authenticator: Authenticator | None = None,
        session: Session | None = None,
        journal: str | Path | None = None,
        in_flight: int | None = None,
        acknowledge: Acknowledge = "automatic",
        inbox: int = 1000,
        inbox_bytes: int = 1 << 24,
        options: ConnectionOptions | None = None,
        deflate: Deflate | None = None,
        **more: Unpack[connecting.Connecting],
    ) -> None:
        super().__init__(read_urls(url, SCHEMES), deflate=deflate, **more)
        check_choice("acknowledge", acknowledge, Acknowledge)
        if session is not None and journal is not None:
            raise ValueError("a session or a journal: a journal has its session")
        if session_expiry_interval is None:
            session_expiry_interval = SESSION_SECONDS if journal is not None or self._reconnect is not None else 0
        self._expiry = session_expiry_interval
        self._identifier = client_identifier
        self._version = version
        self._clean_start = clean_start
        self._keep_alive = keep_alive
        self._user_name = user_name
        self._password = password
        self._will = will
        self._properties = tuple(properties)
        self._authenticator = authenticator
        self._journal_path = journal
        self._in_flight = in_flight if in_flight is not None else 65535 if version == 5 else IN_FLIGHT
        self._inbox = Inbox(inbox, inbox_bytes, acknowledge == "automatic", self._note)
        self._options = options or ConnectionOptions()
        if self._options.automatic:
            raise ValueError("options.automatic: messages are acknowledged when the host is done with them")

        self.session = session if session is not None else Session(client_identifier)
        self.journal: Journal | None = None
        self.late = 0
        self.lost = 0
        self._queue: deque[Entry] = deque()  # not sent
        self._waiting: dict[Delivery | Request, Entry] = {}  # sent, in that order
        self._subscriptions: dict[str, Subscribed] = {}
        self._refusals: deque[Refused] = deque()  # of subscriptions that are over, for `messages`
        self._response_information = ""
        self._response_topic = ""
        self._responses = asyncio.Lock()  # while a request subscribes to it
        self._replies: dict[bytes, asyncio.Future[mqtt.Publish]] = {}  # awaited, by Correlation Data
        self._reauthentication: asyncio.Future[None] | None = None
        self._fresh_start = True  # no connection of this opening has arrived up
        self._doubtful = False  # CONNECT was sent and CONNACK was not seen: the server may have begun a new session

    # ---- opening and closing

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._inbox.settle_all(self._link is not None)
        await super().__aexit__(kind)

    async def _begin(self) -> Link:
        if self._journal_path is not None:
            self._store = self.journal = Journal(self._journal_path, self._identifier)
            restored = await self.journal.open()
            self.session = restored or Session(self._identifier, journaled=True)
        if self._clean_start is False:
            self.session.established = True  # the host says that it wants what the server has
        self._fresh_start = True
        return await self._try_servers()

    async def close(self, reason_code: int = ReasonCode.SUCCESS, properties: Pairs = ()) -> None:
        """Send DISCONNECT, and wait until transport, tasks and journal are closed. Calls that wait raise ConnectionLost.

        0x04 asks the server to publish the will.
        """
        await self._close(lambda link: link.driver.update(link.connection.close(reason_code, properties)))

    async def _close_journal(self) -> None:
        self.journal = None
        await super()._close_journal()

    def _not_kept(self, numbers: set[int], error: JournalError) -> None:
        for delivery in [d for d in self.session.outgoing.values() if d.number in numbers]:
            self.session.discard(delivery)
            entry = self._waiting.pop(delivery, None)
            if entry is not None:
                entry.fail(error)
        for entry in self._queue:
            if isinstance(entry.message, mqtt.Publish) and entry.message.qos:
                entry.fail(error)

    @property
    def dropped(self) -> int:
        """QoS 0 messages that came while the inbox was full and a call waited for its answer."""
        return self._inbox.dropped

    @property
    def negotiated(self) -> Negotiated | None:
        """What this connection has agreed on; None: there is no connection."""
        return self._link.connection.negotiated if self._link is not None else None

    # ---- requests

    async def publish(
        self,
        topic_name: str,
        payload: Buffer | str = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Pairs = (),
    ) -> int:
        """Publish a message.

        Returns when the message is acknowledged (QoS 1: PUBACK, QoS 2: PUBCOMP), QoS 0: when it is given to the transport.
        Waits while the server's window is closed, and, with `reconnect`, for the next connection. Messages leave in the order
        of the calls.

        Args:
            payload: text is written in UTF-8.

        Returns the reason code: 0x00, or 0x10 if there is no subscriber.

        Raises:
            Refused: the server refuses the message.
            LocalProtocolError: it cannot be sent to this server. Nothing was sent.
            ConnectionLost: the connection has ended, and the message is not sent again by this client (if it is in the
                session, the next client with the session sends it again).
            JournalError: the journal cannot keep the message. It was not sent.
        """
        if qos:
            self._check_journal()
        message = self._build(
            mqtt.Publish,
            topic_name=topic_name,
            payload=payload.encode() if isinstance(payload, str) else payload,
            qos=qos,
            retain=retain,
            packet_identifier=1 if qos else None,
            properties=properties,
        )
        code: int = await self._request(message)
        return code

    async def request(
        self,
        topic_name: str,
        payload: Buffer | str = b"",
        *,
        timeout: float | None = 30.0,
        qos: int = 1,
        properties: Pairs = (),
    ) -> mqtt.Publish:
        """Publish a request, and wait for the reply (4.10). Any number of requests may wait at a time.

        The request has a Response Topic, the same for all requests of this client, and Correlation Data of its own, which the
        reply must repeat. The client subscribes to the topic with the first request. Its name is random behind the Response
        Information of the server, which is asked for with `properties=[("request_response_information", 1)]` of the client, or
        else behind "reply". Replies do not come to `messages`; one that comes too late is dropped and counted (`late`).

        Args:
            timeout: seconds that the whole call may take; None: no limit.
            qos: of the request, and the largest of the reply.
            properties: further properties of the request.

        Returns the reply.

        Raises:
            TimeoutError: no reply has arrived in time. Whether somebody has the request is not known.
            Refused: the server refuses the request, or the subscription to the Response Topic.
            LocalProtocolError, ConnectionLost: as `publish`; before 5.0 there are no Response Topics. With `reconnect` the call
                goes on waiting over the end of a connection; a request that was acknowledged is not sent again.
        """
        if self._version != 5:
            raise LocalProtocolError("a Response Topic needs MQTT 5.0 (4.10)")
        correlation = self._random.randbytes(16)
        reply: asyncio.Future[mqtt.Publish] = asyncio.get_running_loop().create_future()
        sent: asyncio.Future[Any] | None = None
        try:
            async with asyncio.timeout(timeout):
                topic = await self._ready_for_replies(qos)
                message = self._build(
                    mqtt.Publish,
                    topic_name=topic_name,
                    payload=payload.encode() if isinstance(payload, str) else payload,
                    qos=qos,
                    packet_identifier=1 if qos else None,
                    properties=(*properties, ("response_topic", topic), ("correlation_data", correlation)),
                )
                self._replies[correlation] = reply
                sent = self._ask(message)
                sent.add_done_callback(lambda sent: self._request_sent(sent, reply))
                return await reply
        finally:
            self._replies.pop(correlation, None)
            if sent is not None and (reply.cancelled() or not reply.done()):
                self._give_up(sent)
            self._check_reading()

    async def _ready_for_replies(self, qos: int) -> str:
        """The Response Topic, once the client is subscribed to it."""
        async with self._responses:
            if not self._response_topic:
                base = self._response_information or "reply"
                self._response_topic = f"{base.rstrip('/')}/{self._random.randbytes(16).hex()}"
            known = self._subscriptions.get(self._response_topic)
            if known is None or known.subscription.qos < qos:
                (code,) = await self.subscribe(mqtt.Subscription(self._response_topic, qos=qos, retain_handling=2))
                if code >= FAILURE:
                    raise Refused(f"the server does not grant the Response Topic: {shown(code)}", code)
            return self._response_topic

    @staticmethod
    def _request_sent(sent: asyncio.Future[Any], reply: asyncio.Future[mqtt.Publish]) -> None:
        if not sent.cancelled() and (error := sent.exception()) is not None:
            assert isinstance(error, Exception)
            connecting.fail(reply, error)

    async def subscribe(
        self,
        *filters: str | mqtt.Subscription,
        qos: int = 0,
        properties: Pairs = (),
        on_refused: OnRefused | None = None,
    ) -> tuple[int, ...]:
        """Subscribe to topic filters.

        Args:
            filters: topic filters, which get `qos`, or Subscriptions with options of their own.
            qos: the largest QoS wanted.
            properties: as `subscription_identifier`.
            on_refused: what becomes of a filter that the server refuses when it is restored: "retry", with the waits of the
                back-off; "skip" until the next connection; "fail": the subscription is over, and `messages` raises the refusal
                once. None: "retry" after PASSING_CODES, "fail" after others. `on_event` gets a NotRestored in any case.

        Returns the code for each filter: the granted QoS, or 0x80 and above: not subscribed. What is granted is restored
        with `reconnect` if the server has lost the session.

        Raises LocalProtocolError, ConnectionLost as `publish` does.
        """
        check_on_refused(on_refused)
        asked = [mqtt.Subscription(f, qos=qos) if isinstance(f, str) else f for f in filters]
        message = self._build(mqtt.Subscribe, packet_identifier=1, subscriptions=asked, properties=properties)
        codes: tuple[int, ...] = await self._request(message, on_refused)
        return codes

    async def unsubscribe(self, *filters: str, properties: Pairs = ()) -> tuple[int, ...]:
        """End subscriptions. Returns the code for each filter: 0x00, 0x11 if there was none, 0x80 and above; before 5.0
        nothing.

        Raises LocalProtocolError, ConnectionLost as `publish` does.
        """
        message = self._build(mqtt.Unsubscribe, packet_identifier=1, topic_filters=filters, properties=properties)
        codes: tuple[int, ...] = await self._request(message)
        return codes

    async def reauthenticate(self) -> None:
        """Authenticate again with the method of CONNECT (4.12.1); other traffic goes on.

        Raises LocalProtocolError if the connection has no method or an exchange runs, ConnectionLost or Refused if the
        server ends it.
        """
        if self._authenticator is None:
            raise LocalProtocolError("there is no authenticator")
        link = self._link
        if link is None:
            raise ConnectionLost("there is no connection")
        data = await self._authenticator.respond(None)
        if self._link is not link:
            raise link.lost()
        own: list[tuple[str, Any]] = [("authentication_method", self._authenticator.method)]
        if data is not None:
            own.append(("authentication_data", data))
        link.connection.send(mqtt.Auth(reason_code=ReasonCode.RE_AUTHENTICATE, properties=own, version=5))
        future = self._reauthentication = asyncio.get_running_loop().create_future()
        self._check_reading()
        link.driver.update()
        await future

    # ---- messages

    def messages(self) -> Messages:
        """Messages of the server. The iterator ends when the client is closed, and raises what ended the connection.

        Back-pressure: QoS 1 and 2 are acknowledged when the host is done with them, so the server stops at Receive Maximum.
        With `inbox` messages waiting the client also stops to read, unless a call waits for an answer.
        """
        return Messages(self._inbox, self._next)

    def acknowledge(
        self,
        message: mqtt.Publish,
        reason_code: int = ReasonCode.SUCCESS,
        properties: Pairs = (),
        *,
        record: tuple[str, Sequence[Any]] | None = None,
    ) -> bool:
        """Acknowledge a message of QoS 1 or 2 that `messages` has returned. Needed with `acknowledge="manual"`; possible,
        once, in any case. A code of 0x80 and above refuses the message.

        Args:
            record: a statement of SQL and its parameters, for the database of the journal. It and the acknowledgement are on
                disk together, so what it notes about a message of QoS 2 is noted once, whenever the process dies.

        Returns False if the connection it came on is over: the server sends it again if the session goes on, and the client
        acknowledges it then, without the host.

        Raises LocalProtocolError if the message does not wait for it, or there is no journal for the record.
        """
        if record is not None and self.journal is None:
            raise LocalProtocolError("a record needs a journal")
        return self._inbox.acknowledge(message, reason_code, properties, record)

    def _note(self, record: tuple[str, Sequence[Any]]) -> None:
        if self.journal is not None:
            self.journal.add(*record)

    async def _next(self, iterator: Messages) -> mqtt.Publish | None:
        inbox = self._inbox
        inbox.settle(iterator)
        while not inbox:
            if self._refusals:
                raise self._refusals.popleft()
            if self._ended:
                if self._error is not None:
                    raise self._error
                return None
            await inbox.receivers.wait()
        message = inbox.take(iterator)
        link = self._link
        if link is not None and link.driver.paused and not inbox.full:
            link.driver.resume()
        return message

    def _arrive(self, link: Link, message: mqtt.Publish) -> None:
        if self._response_topic and message.topic_name == self._response_topic:
            waiting = self._replies.get(find(message.properties, "correlation_data", b""))
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
            else:
                self.late += 1
            if message.qos:
                self._inbox.answer(Arrival(message, link.driver), ReasonCode.SUCCESS, ())
            return
        self._inbox.arrive(message, link.driver)
        self._check_reading()

    def _check_reading(self) -> None:
        """Stop reading while the inbox is full, but never while a call waits for an answer, or for the place of one: that would
        wait for ever."""
        link = self._link
        if link is None:
            return
        awaited = self._waiting or self._queue or self._replies or self._reauthentication is not None
        stop = self._inbox.full and not awaited
        if stop and not link.driver.paused:
            link.driver.pause()
        elif not stop and link.driver.paused:
            link.driver.resume()

    # ---- requests, below

    def _build(self, cls: Any, **fields: Any) -> Any:
        try:
            return cls(version=self._version, **fields)
        except (EncodeError, TypeError, ValueError) as error:
            raise LocalProtocolError(str(error)) from error

    async def _request(
        self, message: mqtt.Publish | mqtt.Subscribe | mqtt.Unsubscribe, on_refused: OnRefused | None = None
    ) -> Any:
        future = self._ask(message, on_refused)
        try:
            return await future
        except asyncio.CancelledError:
            self._give_up(future)
            raise

    def _ask(
        self, message: mqtt.Publish | mqtt.Subscribe | mqtt.Unsubscribe, on_refused: OnRefused | None = None
    ) -> asyncio.Future[Any]:
        """Send a packet in its turn. Returns a future for the answer."""
        if self._ended or self._closing:
            raise self._error or ConnectionLost("the client is not open")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append(Entry(message, future, on_refused))
        self._pump()
        return future

    def _ask_first(self, message: mqtt.Subscribe, on_refused: OnRefused | None) -> asyncio.Future[Any]:
        """As `_ask`, before all that waits, once `_pump` is called."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.appendleft(Entry(message, future, on_refused))
        return future

    def _give_up(self, future: asyncio.Future[Any]) -> None:
        """Nobody waits for the answer: do not send the packet, if it has not been sent."""
        future.cancel()
        for entry in self._queue:
            if entry.future is future:
                self._queue.remove(entry)
                break

    def _pump(self) -> None:
        """Send what waits, as far as the window and the transport allow."""
        link = self._link
        if link is None:
            return
        driver, connection, queue = link.driver, link.connection, self._queue
        if connection.state is mqtt.State.CLOSED:  # the event is among those that wait
            return
        while queue and driver.ready:
            entry = queue[0]
            if entry.given_up:
                queue.popleft()
                continue
            message = entry.message
            if isinstance(message, mqtt.Publish):
                if message.qos and (not connection.send_quota or len(self.session.outgoing) >= self._in_flight):
                    break
            elif not self.session.identifiers.free:
                break
            queue.popleft()
            try:
                handle = connection.send(message)
            except LocalProtocolError as error:
                if (
                    connection.pending_bytes and error.reply == ReasonCode.QUOTA_EXCEEDED
                ):  # it fits once the transport has taken some
                    queue.appendleft(entry)
                    driver.want()
                    break
                if not entry.fail(error):
                    self.lost += 1
                continue
            if handle is None:
                entry.succeed(ReasonCode.SUCCESS)
            else:
                self._waiting[handle] = entry
        self._check_reading()
        driver.update()

    def _acknowledged(self, event: Acknowledged) -> None:
        entry = self._waiting.pop(event.handle, None)  # type: ignore[call-overload]
        message = entry.message if entry is not None else None
        if isinstance(message, mqtt.Subscribe):
            codes = event.message.reason_codes
            assert entry is not None
            for subscription, code in zip(message.subscriptions, codes, strict=True):
                if code < FAILURE:
                    granted = Subscribed(subscription, message, entry.on_refused)
                    self._subscriptions[subscription.topic_filter] = granted
            entry.succeed(codes)
        elif isinstance(message, mqtt.Unsubscribe):
            codes = event.message.reason_codes
            for topic_filter, code in zip(
                message.topic_filters, codes or (0,) * len(message.topic_filters), strict=True
            ):
                if code < FAILURE:
                    self._subscriptions.pop(topic_filter, None)
            assert entry is not None
            entry.succeed(codes)
        elif isinstance(event.message, mqtt.Pubcomp):  # the server has the message since PUBREC, whatever the code says
            if entry is not None:
                entry.succeed(ReasonCode.SUCCESS)
        elif entry is not None:
            if event.code < FAILURE:
                entry.succeed(event.code)
            elif not entry.fail(
                Refused(f"the server refuses the message: {shown(event.code)}", event.code, event.message)
            ):
                self.lost += 1
        elif event.code >= FAILURE:
            self.lost += 1
        self._pump()

    def _forget(self, handles: Iterable[Any], reason: Exception) -> None:
        """Handles whose end is not known and that are not sent again by the connection: queue them again, first of all, if
        a copy does no harm; the others fail."""
        again: list[Entry] = []
        for handle in sorted(handles, key=lambda handle: int(handle.number)):
            entry = self._waiting.pop(handle, None)
            if entry is not None and entry.given_up:
                continue
            if isinstance(handle, Delivery):
                harmless = handle.qos == 1 or not handle.transmitted
                message = handle.message if entry is None and harmless else None
                if entry is None and message is not None:
                    entry = Entry(changed(message, packet_identifier=1, version=self._version), None)
                if harmless and entry is not None:
                    again.append(entry)
                    continue
            elif entry is not None:
                again.append(entry)
                continue
            if entry is None or not entry.fail(reason):
                self.lost += 1
        self._queue.extendleft(reversed(again))

    # ---- events

    def _handle(self, link: Link, event: Any) -> None:
        match event:
            case mqtt.Publish():
                self._arrive(link, event)
            case Acknowledged():
                self._acknowledged(event)
            case WindowOpened():
                self._pump()
            case Connected():
                self._connected(link, event)
            case mqtt.Auth():
                self._authenticate(link, event)
            case Dropped():
                entry = self._waiting.pop(event.handle, None)
                error = LocalProtocolError("the message is larger than the server accepts now")
                if entry is None or not entry.fail(error):
                    self.lost += 1
            case Released():
                pass
            case Disconnected():
                self._disconnected(link, event)

    def _connected(self, link: Link, event: Connected) -> None:
        if self._authenticator is not None:
            self._authenticator.complete(find(event.message.properties, "authentication_data"))
        self.connections += 1
        link.accepted()
        if link.passing:
            return
        self._link = link
        self._response_information = event.negotiated.response_information
        self._inbox.begin(event.resumed)
        self._forget(event.lost, ConnectionLost("the server has lost the session: a QoS 2 message may have arrived"))
        if not event.resumed or self._doubtful or self._version == 3:  # 3.1 does not say whether there is a session
            for subscribed in self._subscriptions.values():
                subscribed.missing = True
        self._doubtful = False
        Restoration(self, link).begin()
        self._pump()

    def _disconnected(self, link: Link, event: Disconnected) -> None:
        link.ended(event)
        if self._link is not link:
            return
        self._link = None
        if self._reauthentication is not None:
            connecting.fail(self._reauthentication, link.lost())
        self._reauthentication = None
        comes_back = self._comes_back(link)
        self._inbox.end(link.driver, comes_back)
        if comes_back:
            self._forget(event.lost, link.lost())

    def _comes_back(self, link: Link) -> bool:
        event = link.event
        assert event is not None
        final = event.by == "peer" and event.code in FINAL_CODES
        return super()._comes_back(link) and not final

    def _is_final(self, refused: Refused) -> bool:
        return refused.code in FINAL_CODES

    def _authenticate(self, link: Link, event: mqtt.Auth) -> None:
        authenticator = self._authenticator
        data = find(event.properties, "authentication_data")
        if authenticator is None:  # CONNECT had the method in its properties
            raise LocalProtocolError("the server asks for authentication and there is no authenticator")
        if not event.reason_code:
            authenticator.complete(data)
            if self._reauthentication is not None and not self._reauthentication.done():
                self._reauthentication.set_result(None)
            self._reauthentication = None
            self._check_reading()
            return

        async def respond() -> None:
            try:
                answer = await authenticator.respond(data)
                if link.event is None:
                    link.driver.update(link.connection.continue_authentication(event, answer))
            except Exception as error:
                link.driver.abort(error)

        link.spawn(respond())

    # ---- connections

    async def _connect(self, address: Address) -> Link:
        clean = self._fresh_start and bool(self._clean_start)
        if (
            self._fresh_start
            and self._version < 5
            and self._expiry
            and not self.session.established
            and not self._clean_start
        ):
            # Before 5.0 a session that begins empty and goes on takes two connections (3.1.1, 3.1.2.4).
            passing = await self._attempt(address, clean=True, passing=True)
            passing.driver.close()
            try:
                await passing.driver.wait_closed()
            except BaseException:
                passing.driver.abort()
                raise
            self.session.established = True
        link = await self._attempt(address, clean=clean or not self.session.established)
        self._fresh_start = False
        return link

    async def _attempt(self, address: Address, *, clean: bool, passing: bool = False) -> Link:
        """One attempt: transport, CONNECT, CONNACK."""
        properties = self._properties
        if self._version == 5 and self._expiry:
            properties = (*without(properties, "session_expiry_interval"), ("session_expiry_interval", self._expiry))
        if self._authenticator is not None:
            data = await self._authenticator.respond(None)
            properties = (*properties, ("authentication_method", self._authenticator.method))
            if data is not None:
                properties = (*properties, ("authentication_data", data))
        password = self._password if self._password is not None else address.password
        connect = self._build(
            mqtt.Connect,
            client_identifier=self._identifier or self.session.client_identifier,
            clean_start=clean,
            keep_alive=self._keep_alive,
            will=None if passing else self._will,
            user_name=self._user_name if self._user_name is not None else address.user,
            password=password.encode() if isinstance(password, str) else password,
            properties=properties,
        )
        link = Link(self, passing=passing)
        loop = asyncio.get_running_loop()
        link.connection = ClientConnection(loop.time(), Session() if passing else self.session, self._options)
        store = self.journal.put if self.journal is not None and not passing else None
        link.driver = aio.Driver(link.connection, link, store=store, **self._websocket(address, "mqtt", "/mqtt"))
        async with link.attempt(self._timeout):
            link.connection.send(connect)
            await self._dial(link, address)
            link.driver.update()
            try:
                await link.up
            except Refused:
                raise
            except BaseException:
                self._doubtful |= not passing
                raise
        return link

    def _finish(self, error: Exception | None, reason: Exception) -> None:
        for entry in [*self._waiting.values(), *self._queue]:
            if not entry.fail(reason):
                self.lost += 1
        self._waiting.clear()
        self._queue.clear()
        for reply in self._replies.values():
            connecting.fail(reply, reason)
        self._inbox.finish()


connect = connecting.verb(Client, 'mqtt.connect("mqtts://broker:8883", client_identifier="meter-7")')
