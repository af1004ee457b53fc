"""A producer of RocketMQ on asyncio: all ways to send, with retries on another broker as the real client does."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from uuid import UUID

from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused, check_choice
from wirefmt.rocketmq._codec import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    Message,
    MessageExt,
    RemotingCommand,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
    compress,
    decode_message_id,
    decode_messages,
    encode_batch_messages,
    encode_properties,
    encode_unique_id,
)
from wirefmt.rocketmq.codes import RequestCode, ResponseCode
from wirefmt.rocketmq.journal import Journal
from wirefmt.rocketmq.remote import Link, check
from wirefmt.rocketmq.routes import DEFAULT_QUEUES, DEFAULT_TOPIC, Queue

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from wirefmt.rocketmq.client import Client


#: Codes of responses to a message that has been stored.
STATUS: Final = {0: "SEND_OK", 10: "FLUSH_DISK_TIMEOUT", 11: "SLAVE_NOT_AVAILABLE", 12: "FLUSH_SLAVE_TIMEOUT"}

#: Codes after which another broker is asked, as the real client does.
RETRIED: Final = frozenset((1, 2, 14, 16, 17, 204, 205, 1500))

COMPRESSED_ZLIB: Final = 0x301
PREPARED, COMMIT, ROLLBACK, UNKNOWN = 0x4, 8, 12, 0

Decision = Literal["commit", "rollback", "unknown"]
Select = Queue | Callable[[Sequence[Queue]], Queue] | None
_DECISIONS: Final[dict[Decision, int]] = {"commit": COMMIT, "rollback": ROLLBACK, "unknown": UNKNOWN}


def _decision(value: Decision | None) -> Decision:
    """What a function of the program has returned; None: "unknown"."""
    if value is None:
        return "unknown"
    check_choice("the decision", value, Decision)
    return value


def reply_topic(cluster: str) -> str:
    """The topic by which replies go to the brokers of a cluster."""
    return f"{cluster}_REPLY_TOPIC"


@dataclass(frozen=True, slots=True)
class SendResult:
    """The result of sending a message.

    Attributes:
        status: "SEND_OK"; the others mean that it is stored but not yet flushed, or not copied to a slave.
        message_id: the client's id (property UNIQ_KEY); of a batch: those of its messages, separated by commas.
        offset_message_id: the broker's id.
        queue, queue_offset: where it is stored.
        transaction_id: of a transactional message.
    """

    status: str
    message_id: str
    offset_message_id: str
    queue: Queue
    queue_offset: int
    transaction_id: str | None = None


class Producer:
    """Sends messages. `Client.producer` makes it.

    Args:
        client: the client.
        group: the producer group.
        check: decides about a transaction that the broker asks for: called with the half message, returns "commit",
            "rollback" or "unknown", or a coroutine that does.
        retries: further attempts after one that has failed, each on another broker if there is one. A message may then be
            stored twice.
        compress_from: bytes of a body from which it is compressed.
        journal: path of a SQLite database. `send` stores a message there before it is sent, and removes it when the call ends
            or fails. `resend` sends what a process has left that was killed.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        *,
        check: Callable[[MessageExt], Decision | Awaitable[Decision]] | None = None,
        retries: int = 2,
        compress_from: int = 4097,
        journal: str | Path | None = None,
    ) -> None:
        self.client = client
        self.group = group
        self._check = check
        self._retries = retries
        self._compress_from = compress_from
        self.journal = Journal(journal, group) if journal is not None else None
        self._turn = client.random.randrange(1 << 16)
        self._count = client.random.randrange(1 << 16)
        self._hash = client.random.randrange(1 << 31)

    async def send(
        self,
        topic: str,
        body: Buffer,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        delay_level: int = 0,
        queue: Select = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a message; return when a broker has stored it.

        Args:
            topic, body: of the message.
            tags: its tag; consumers filter by it.
            keys: by which it can be found, without blanks.
            properties: further ones, of the application.
            flag: the application's.
            delay_level: 1 to 18: the broker delivers it later (1 second, 5, 10, 30, 1 minute ...). 0: at once.
            queue: where to; or a function that chooses from the topic's queues, so that messages of one key stay in order.
                Then there are no retries. None: the queues in turn.
            timeout: seconds that one attempt may take.

        Raises:
            Refused: the broker does not take it; `code` says why.
            ConnectionLost, TimeoutError: not known whether it has been stored.
        """
        named = self._properties(tags, keys, properties, delay_level)
        if self.journal is None:
            return await self._send(topic, body, named, flag, queue, timeout, sys_flag=0)
        number = await self.journal.add(topic, bytes(body), named, flag)
        try:
            return await self._send(topic, body, named, flag, queue, timeout, sys_flag=0)
        finally:
            await self.journal.remove(number)

    async def resend(self) -> list[SendResult]:
        """Send what an earlier process has left in the journal, in order, to the queues in turn. Call it before `send`.

        A message that the earlier process had sent without learning of it is stored twice; its property UNIQ_KEY is the same.
        Raises as `send` does; what has not been sent stays in the journal.
        """
        if self.journal is None:
            raise LocalProtocolError("the producer has no journal")
        results: list[SendResult] = []
        for entry in await self.journal.left():
            results.append(
                await self._send(entry.topic, entry.body, entry.properties, entry.flag, None, None, sys_flag=0)
            )
            await self.journal.remove(entry.number)
        return results

    async def send_oneway(
        self,
        topic: str,
        body: Buffer,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        queue: Select = None,
    ) -> None:
        """Send a message without waiting for a response."""
        named = self._properties(tags, keys, properties, 0)
        target = await self._queue(topic, queue, None)
        header, data = self._request(target, bytes(body), named, flag, 0, RequestCode.SEND_MESSAGE_V2)
        remote = await self.client.broker(target.broker, topic)
        await remote.send_oneway(RequestCode.SEND_MESSAGE_V2, header, data)

    async def send_batch(
        self, topic: str, messages: Iterable[Message], *, queue: Select = None, timeout: float | None = None
    ) -> SendResult:
        """Send several messages of one topic as one, to one queue. They have no delay and are not compressed."""
        items: list[Message] = []
        identifiers: list[str] = []
        for message in messages:
            named = {"UNIQ_KEY": self._unique_id(), "WAIT": "true", **message.properties}
            if "DELAY" in named:
                raise ValueError("a message of a batch has no delay")
            identifiers.append(named["UNIQ_KEY"])
            items.append(Message(body=message.body, properties=named, flag=message.flag))
        if not items:
            raise ValueError("a batch has a message")
        named = {"UNIQ_KEY": self._unique_id(), "WAIT": "true"}
        result = await self._send(
            topic,
            encode_batch_messages(items),
            named,
            0,
            queue,
            timeout,
            sys_flag=0,
            code=RequestCode.SEND_BATCH_MESSAGE,
        )
        return SendResult(
            result.status, ",".join(identifiers), result.offset_message_id, result.queue, result.queue_offset
        )

    async def request(
        self,
        topic: str,
        body: Buffer,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        queue: Select = None,
        timeout: float = 3.0,
    ) -> MessageExt:
        """Send a message and wait for the reply that a consumer sends by `reply`.

        Args:
            topic, body, tags, keys, properties, flag, queue: as of `send`.
            timeout: seconds until the reply must have arrived.

        Returns the reply.

        Raises:
            TimeoutError: the message has been sent, and no reply has arrived in time.
            Refused, ConnectionLost: as `send`.
        """
        client = self.client
        correlation = str(UUID(int=client.random.getrandbits(128), version=4))
        asked = {
            **(properties or {}),
            "CORRELATION_ID": correlation,
            "REPLY_TO_CLIENT": client.client_id,
            "TTL": str(max(1, int(timeout * 1000))),
        }
        named = self._properties(tags, keys, asked, 0)
        waiter: asyncio.Future[MessageExt] = asyncio.get_running_loop().create_future()
        client.replies[correlation] = waiter
        try:
            async with asyncio.timeout(timeout):
                for broker in (await client.write_route(topic)).brokers:  # the reply may come by any of them
                    try:
                        await client.broker(broker, topic)
                    except ConnectionLost:
                        continue
                await self._send(topic, body, named, flag, queue, None, sys_flag=0)
                return await waiter
        finally:
            del client.replies[correlation]

    async def reply(self, message: MessageExt, body: Buffer, *, timeout: float | None = None) -> SendResult:
        """Reply to a message that was sent by `request`. The broker hands the reply on to its sender.

        Args:
            message: the request, as it was consumed.
            body: of the reply.
            timeout: seconds that one attempt may take.

        Raises:
            LocalProtocolError: the message is not a request, or lacks the cluster of its broker.
            Refused: with code 1: the sender of the request is gone.
            ConnectionLost, TimeoutError: not known whether the reply has been handed on.
        """
        asked = message.properties or {}
        if any(name not in asked for name in ("CLUSTER", "CORRELATION_ID", "REPLY_TO_CLIENT")):
            raise LocalProtocolError(
                "the message is not a request: it lacks CLUSTER, CORRELATION_ID or REPLY_TO_CLIENT"
            )
        named = {name: asked[name] for name in ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL") if name in asked}
        return await self._send(
            reply_topic(asked["CLUSTER"]),
            body,
            {"UNIQ_KEY": self._unique_id(), "WAIT": "true", "MSG_TYPE": "reply", **named},
            0,
            None,
            timeout,
            sys_flag=0,
            code=RequestCode.SEND_REPLY_MESSAGE_V2,
        )

    async def send_transaction(
        self,
        topic: str,
        body: Buffer,
        execute: Callable[[str], Decision | Awaitable[Decision]],
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a half message, call `execute` with its id, and tell the broker the decision.

        Consumers see the message only after "commit". With "unknown", or if `execute` raises, the broker asks `check` later.
        Raises what `execute` raises, and ValueError if it returns anything else.
        """
        named = self._properties(tags, keys, properties, 0)
        named |= {"TRAN_MSG": "true", "PGROUP": self.group}
        result = await self._send(topic, body, named, flag, None, timeout, sys_flag=PREPARED)
        decision: Decision = "unknown"
        try:
            if result.status == "SEND_OK":
                decided = execute(result.message_id)
                decision = _decision(await decided if inspect.isawaitable(decided) else decided)
            else:
                decision = "rollback"
        finally:
            _, _, offset = decode_message_id(result.offset_message_id)
            header = EndTransactionRequestHeader(
                topic=topic,
                producer_group=self.group,
                tran_state_table_offset=result.queue_offset,
                commit_log_offset=offset,
                commit_or_rollback=_DECISIONS[decision],
                msg_id=result.message_id,
                transaction_id=result.transaction_id,
                bname=result.queue.broker,
            )
            try:
                remote = await self.client.broker(result.queue.broker, topic)
                await remote.send_oneway(RequestCode.END_TRANSACTION, header)
            except (ConnectionLost, TimeoutError):
                pass  # the broker asks `check`
        return result

    async def checked(self, link: Link, request: RemotingCommand) -> bool:
        """A broker asks about a transaction. False: it is another group's."""
        (message,) = decode_messages(request.body_bytes() or b"")
        properties = message.properties or {}
        if properties.get("PGROUP") != self.group or self._check is None:
            return False
        asked = request.decode_header(CheckTransactionStateRequestHeader)
        decision: Decision = "unknown"
        try:
            decided = self._check(message)
            decision = _decision(await decided if inspect.isawaitable(decided) else decided)
        finally:
            header = EndTransactionRequestHeader(
                topic=asked.topic,
                producer_group=self.group,
                tran_state_table_offset=asked.tran_state_table_offset,
                commit_log_offset=asked.commit_log_offset,
                commit_or_rollback=_DECISIONS[decision],
                from_transaction_check=True,
                msg_id=properties.get("UNIQ_KEY") or asked.msg_id or "",
                transaction_id=asked.transaction_id,
                bname=asked.bname,
            )
            if link.usable:
                link.connection.request(RequestCode.END_TRANSACTION, header, oneway=True)
                link.driver.update()
        return True

    # ---- inside

    async def _send(
        self,
        topic: str,
        body: Buffer,
        properties: dict[str, str],
        flag: int,
        select: Select,
        timeout: float | None,
        *,
        sys_flag: int,
        code: int = RequestCode.SEND_MESSAGE_V2,
    ) -> SendResult:
        error: Exception | None = None
        last: str | None = None
        for _ in range(1 if select is not None else 1 + self._retries):
            try:
                target = await self._queue(topic, select, last)
                header, data = self._request(target, bytes(body), properties, flag, sys_flag, code)
                last = target.broker
                remote = await self.client.broker(target.broker, topic)
                response = check(await remote.call(code, header, data, timeout=timeout), *STATUS)
                return self._result(target, response, properties)
            except Refused as refused:
                error = refused
                if refused.code == ResponseCode.TOPIC_NOT_EXIST:
                    self.client.forget_route(topic)
                if refused.code not in RETRIED:
                    break
            except (ConnectionLost, TimeoutError) as failed:
                error = failed
                self.client.forget_route(topic)
        assert error is not None
        raise error

    def _result(self, target: Queue, response: RemotingCommand, properties: Mapping[str, str]) -> SendResult:
        header = response.decode_header(SendMessageResponseHeader)
        queue = Queue(target.topic, target.broker, header.queue_id)
        return SendResult(
            STATUS[response.code],
            properties["UNIQ_KEY"],
            header.msg_id,
            queue,
            header.queue_offset,
            (header.transaction_id or properties["UNIQ_KEY"]) if "TRAN_MSG" in properties else None,
        )

    async def _queue(self, topic: str, select: Select, avoided: str | None) -> Queue:
        if isinstance(select, Queue):
            await self.client.write_route(topic)
            return select
        queues = (await self.client.write_route(topic)).write
        if not queues:
            self.client.forget_route(topic)
            raise Refused(f"no queue of topic {topic} can be written to", ResponseCode.TOPIC_NOT_EXIST)
        if select is not None:
            return select(queues)
        self._turn += 1
        others = [q for q in queues if q.broker != avoided] or list(queues)
        resting = {name: self.client.resting(name, topic) for name in {q.broker for q in others}}
        others = [q for q in others if not resting[q.broker]] or others
        return others[self._turn % len(others)]

    def _request(
        self, queue: Queue, body: bytes, properties: Mapping[str, str], flag: int, sys_flag: int, code: int
    ) -> tuple[SendMessageRequestHeaderV2, bytes]:
        if len(body) >= self._compress_from and code != RequestCode.SEND_BATCH_MESSAGE:
            body, _ = compress(body)
            sys_flag |= COMPRESSED_ZLIB
        header = SendMessageRequestHeaderV2(
            a=self.group,
            b=queue.topic,
            c=DEFAULT_TOPIC,
            d=DEFAULT_QUEUES,
            e=queue.queue_id,
            f=sys_flag,
            g=int(time.time() * 1000),
            h=flag,
            i=encode_properties(properties),
            j=0,
            k=False,
            m=code == RequestCode.SEND_BATCH_MESSAGE,
            n=queue.broker,
        )
        return header, body

    def _properties(
        self,
        tags: str | None,
        keys: str | Iterable[str],
        properties: Mapping[str, str] | None,
        delay_level: int,
    ) -> dict[str, str]:
        named = {"UNIQ_KEY": self._unique_id(), "WAIT": "true", **(properties or {})}
        if tags:
            named["TAGS"] = tags
        joined = keys if isinstance(keys, str) else " ".join(keys)
        if joined:
            named["KEYS"] = joined
        if delay_level:
            named["DELAY"] = str(delay_level)
        for name, value in named.items():
            if not value or "\x01" in value or "\x02" in value or not name or "\x01" in name or "\x02" in name:
                raise LocalProtocolError(f"the property {name!r} is empty or has a separator in it (7.1)")
        return named

    def _unique_id(self) -> str:
        self._count = (self._count + 1) & 0x7FFF
        now = time.time()
        month = time.localtime(now)
        begin = time.mktime((month.tm_year, month.tm_mon, 1, 0, 0, 0, 0, 0, -1))
        return encode_unique_id(
            "127.0.0.1", os.getpid() & 0x7FFF, self._hash, max(int((now - begin) * 1000), 0), self._count
        )
