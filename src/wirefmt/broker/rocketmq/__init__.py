"""A RocketMQ name server and broker in memory, the handler of `wirefmt.rocketmq.serve`. One port is both.

::

    broker = Broker()
    async with await rocketmq.serve(broker, "127.0.0.1", 9876) as server:
        broker.address = f"127.0.0.1:{server.port}"
        ...
    broker.close()

The parts of `Broker` are modules: `core` (topics, messages, waiting requests, requests to clients), `names` (routes), `groups`
(members, locks, offsets), `transactions`, `sending`, `selecting` (tags and filter expressions), `pulling`, `popping`, and
`relaying` (replies and questions to consumers). Sections are those of docs/rocketmq.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from wirefmt.broker.permissions import NOBODY, USER, Need
from wirefmt.broker.requests.rocketmq import REQUESTS, user_of
from wirefmt.broker.rocketmq.answers import FAULTS, Answer, Steps, failed
from wirefmt.broker.rocketmq.names import Names
from wirefmt.broker.rocketmq.options import DELAYS, MOST_RETRIES, BrokerOptions
from wirefmt.broker.rocketmq.popping import Popping
from wirefmt.broker.rocketmq.pulling import Pulling
from wirefmt.broker.rocketmq.relaying import Relaying
from wirefmt.connection.contract import Acknowledged, Disconnected
from wirefmt.rocketmq import RemotingCommand
from wirefmt.rocketmq.codes import RequestCode, ResponseCode
from wirefmt.rocketmq.events import Event, TimedOut, is_signed
from wirefmt.rocketmq.server import Peer

__all__ = ["DELAYS", "MOST_RETRIES", "Broker", "BrokerOptions"]

Serve = Callable[[Peer, RemotingCommand], Answer | Steps | None]


class Broker(Relaying, Pulling, Popping, Names):
    """A name server and broker in memory.

    Attributes:
        options: its policies and limits.
        address: "host:port" that routes tell clients.
        topics: name -> queues.
        offsets: (group, topic, queue id) -> what the group has consumed.
        consumers, producers: group -> client id -> member.
        shares: its bytes are those of all messages that are stored, delayed or undecided.
        dropped: messages that were dropped because their queue was full.
    """

    def __init__(self, options: BrokerOptions | None = None, address: str = "127.0.0.1:9876") -> None:
        super().__init__(options or BrokerOptions(), address)
        self._codes: dict[int, Serve] = {
            RequestCode.SEND_MESSAGE: self._send,
            RequestCode.PULL_MESSAGE: self._pull,
            RequestCode.QUERY_CONSUMER_OFFSET: self._query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._search_offset,
            RequestCode.GET_MAX_OFFSET: self._max_offset,
            RequestCode.GET_MIN_OFFSET: self._min_offset,
            RequestCode.VIEW_MESSAGE_BY_ID: self._view,
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.CONSUMER_SEND_MSG_BACK: self._send_back,
            RequestCode.END_TRANSACTION: self._end_transaction,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._members,
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: self._unlock,
            RequestCode.CHECK_CLIENT_CONFIG: self._check_client,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._ask_consumer,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._ask_to_consume,
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send,
            RequestCode.SEND_REPLY_MESSAGE: self._reply,
            RequestCode.SEND_REPLY_MESSAGE_V2: self._reply,
            RequestCode.LITE_PULL_MESSAGE: self._pull,
            RequestCode.POP_MESSAGE: self._pop,
            RequestCode.ACK_MESSAGE: self._ack,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self._change_invisible,
        }

    # ---- the host of all clients

    def handle(self, peer: Peer, event: Event) -> None:
        """An event of a client's connection."""
        if isinstance(event, RemotingCommand):
            self._serve(peer, event)
        elif isinstance(event, Acknowledged):
            self._outcome(event.handle, event.message)
        elif isinstance(event, TimedOut):
            self._outcome(event.handle, None)
        elif isinstance(event, Disconnected):
            for handle in event.lost:
                self._outcome(handle, None)
            self._stop_waiting(peer)
            self._gone(peer)

    def writable(self, peer: Peer) -> None:
        """Nothing waits for it: answers are bounded by requests."""

    def closed(self, peer: Peer) -> None:
        """`Disconnected` came before."""

    def _serve(self, peer: Peer, event: RemotingCommand) -> None:
        accounts, permissions = self.options.accounts, self.options.permissions
        serve = self._codes.get(event.code)
        answer: Answer | Steps | None
        if accounts is not None and not is_signed(event, accounts.get):
            answer = Answer(ResponseCode.NO_PERMISSION, remark="the request has no valid signature")
        else:
            try:
                user = user_of(event)
                if peer not in self._holders:
                    self._holders[peer] = self.shares.holder(user if accounts is not None else None)
                lacking = (
                    permissions.lacks(user, REQUESTS, event.code, event, self) if permissions is not None else None
                )
                if lacking is not None:
                    answer = Answer(ResponseCode.NO_PERMISSION, remark=_why(lacking, user, event.code))
                elif serve is None:
                    answer = Answer(
                        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {event.code} not supported"
                    )
                else:
                    answer = serve(peer, event)
            except FAULTS as error:
                answer = failed(error)
        if isinstance(answer, Answer):
            self._answer(peer, event, answer)
        elif answer is not None:
            peer.driver.later(self._in_steps(peer, event, answer))

    def _in_steps(self, peer: Peer, event: RemotingCommand, steps: Steps) -> Iterator[int]:
        try:
            answer = yield from steps
        except FAULTS as error:
            answer = failed(error)
        self._answer(peer, event, answer)


def _why(lacking: Need, user: str, code: int) -> str:
    """The remark of a refusal."""
    if lacking.action == NOBODY:
        return f"No permission for request {code}: {lacking.name}"
    if lacking.action == USER:
        return f"No permission for {user!r}: another user has this client id"
    what = "use group" if lacking.right == "group" else f"{lacking.right} topic"
    return f"No permission to {what} {lacking.name!r} for {user!r}"
