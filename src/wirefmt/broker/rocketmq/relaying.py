"""What the broker hands on to a client: replies to requests of producers, and questions to consumers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from wirefmt import rocketmq
from wirefmt.broker.rocketmq.answers import Answer
from wirefmt.broker.rocketmq.clients import Clients
from wirefmt.broker.rocketmq.groups import Groups
from wirefmt.broker.rocketmq.log import ENTRY, Log
from wirefmt.broker.rocketmq.options import BrokerOptions
from wirefmt.broker.rocketmq.sending import NAME, sent
from wirefmt.rocketmq import RemotingCommand, ReplyMessageRequestHeader, SendMessageRequestHeader
from wirefmt.rocketmq.codes import RequestCode, ResponseCode
from wirefmt.rocketmq.server import Peer


def _text(address: tuple[str, int] | None) -> str:
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "127.0.0.1:0"


class Relaying:
    """A request is answered when the client to which it was handed on has answered."""

    def __init__(self, options: BrokerOptions, clients: Clients, log: Log, groups: Groups) -> None:
        self.options = options
        self._clients = clients
        self._log = log
        self._groups = groups

    # ---- replies

    def reply(self, peer: Peer, event: RemotingCommand) -> Answer | None:
        """A consumer replies to a request: push the reply to its sender, and store it, as the real broker does."""
        header: SendMessageRequestHeader
        if event.code == RequestCode.SEND_REPLY_MESSAGE:
            header = event.decode_header(SendMessageRequestHeader)
        else:
            header = rocketmq.send_v1(event.decode_header(rocketmq.SendMessageRequestHeaderV2))
        if not NAME.match(header.topic):
            return Answer(
                ResponseCode.SYSTEM_ERROR, remark="the topic has characters that are not of ^[%|a-zA-Z0-9_-]+$"
            )
        properties = rocketmq.decode_properties(header.properties or "")
        sender = properties.get("REPLY_TO_CLIENT")
        if sender is None:
            return Answer(ResponseCode.SYSTEM_ERROR, remark="reply message properties[REPLY_TO_CLIENT] is null")
        asker = next((member.peer for member in self._groups.producing.get(sender, {}).values()), None)
        gone = Answer(ResponseCode.SYSTEM_ERROR, remark=f"push reply message fail, channel of <{sender}> not found.")
        if asker is None:
            return gone
        now = int(time.time() * 1000)
        address = peer.address
        properties["PUSH_REPLY_TIME"] = str(now)
        pushed = ReplyMessageRequestHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=rocketmq.encode_properties(properties),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
            born_host=_text((address[0], address[1]) if isinstance(address, tuple) else None),
            store_host=self._log.address,
            store_timestamp=now,
        )
        body = event.body_bytes() or b""
        kept = self._keep_reply(header, properties, body, peer)

        def then(response: RemotingCommand | None) -> None:
            if response is None or response.code != ResponseCode.SUCCESS:
                self._clients.answer(
                    peer, event, Answer(ResponseCode.SYSTEM_ERROR, remark=f"push reply message to {sender}fail.")
                )
            else:
                self._clients.answer(peer, event, kept)

        return None if self._clients.ask(asker, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed, body, then) else gone

    def _keep_reply(
        self, header: SendMessageRequestHeader, properties: Mapping[str, str], body: bytes, peer: Peer
    ) -> Answer:
        """Store the reply if there is space, and say where it is."""
        holder = self._clients.holders[peer]
        queues = self._log.topic(header.topic, 1, holder)
        fits = len(body) <= self.options.message_bytes
        fits = fits and self._log.has_capacity(len(body) + len(header.properties or "") + ENTRY, holder)
        if queues is None or not fits:
            return Answer(header=rocketmq.SendMessageResponseHeader(msg_id="0", queue_id=0, queue_offset=0))
        address = peer.address
        fields: dict[str, Any] = {
            "topic": header.topic,
            "queue_id": header.queue_id if 0 <= header.queue_id < len(queues) else 0,
            "body": body,
            "properties": properties,
            "flag": header.flag,
            "sys_flag": header.sys_flag,
            "born_timestamp": header.born_timestamp,
            "born_host": (address[0], address[1]) if isinstance(address, tuple) else ("127.0.0.1", 0),
            "reconsume_times": header.reconsume_times or 0,
        }
        message = self._log.store(fields, holder)
        return sent(message, self._log.id_of(message), properties.get("UNIQ_KEY"))

    # ---- questions to consumers

    def ask_consumer(
        self,
        peer: Peer,
        event: RemotingCommand,
        *,
        more: Mapping[str, str | None] | None = None,
        body: bytes | None = None,
    ) -> Answer | None:
        """Hand a question on to a consumer that the fields name, and its answer back."""
        fields = event.ext_fields or {}
        group, client = fields["consumerGroup"] or "", fields["clientId"] or ""
        member = self._groups.consumers.get(group, {}).get(client)
        if member is None:
            return Answer(ResponseCode.SYSTEM_ERROR, remark=f"The Consumer <{group}> <{client}> not online")

        def then(response: RemotingCommand | None) -> None:
            if response is None:
                answer = Answer(ResponseCode.CONSUME_MSG_TIMEOUT, remark=f"consumer <{group}> <{client}> Timeout")
            else:
                answer = Answer(response.code, None, response.body_bytes(), response.remark)
            self._clients.answer(peer, event, answer)

        asked = {k: v for k, v in fields.items() if k not in ("AccessKey", "Signature", "SecurityToken")}
        if self._clients.ask(member.peer, event.code, None, body, then, ext_fields={**asked, **(more or {})}):
            return None
        return Answer(
            ResponseCode.SYSTEM_ERROR, remark=f"invoke consumer <{group}> <{client}> Exception: its connection ends"
        )

    def ask_to_consume(self, peer: Peer, event: RemotingCommand) -> Answer | None:
        """CONSUME_MESSAGE_DIRECTLY: with the message that the fields name."""
        _, _, offset = rocketmq.decode_message_id((event.ext_fields or {})["msgId"] or "")
        message = self._log.find(offset)
        if message is None:
            return Answer(ResponseCode.SYSTEM_ERROR, remark="can not find message by the offset")
        return self.ask_consumer(peer, event, more={"brokerName": self.options.name}, body=message.encode())
