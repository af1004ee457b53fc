"""The broker: its parts, put together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from wirefmt.broker.parts import Assembly
from wirefmt.broker.permissions import NOBODY, USER, Need
from wirefmt.broker.requests.rocketmq import REQUESTS, user_of
from wirefmt.broker.rocketmq.answers import FAULTS, Answer, Steps, failed
from wirefmt.broker.rocketmq.clients import Clients, Timers
from wirefmt.broker.rocketmq.groups import Groups, Members
from wirefmt.broker.rocketmq.locks import Locks
from wirefmt.broker.rocketmq.log import Log, Queue
from wirefmt.broker.rocketmq.names import Names
from wirefmt.broker.rocketmq.offsets import Offsets
from wirefmt.broker.rocketmq.options import BrokerOptions
from wirefmt.broker.rocketmq.popping import Popping
from wirefmt.broker.rocketmq.pulling import Pulling
from wirefmt.broker.rocketmq.relaying import Relaying
from wirefmt.broker.rocketmq.sending import Sending
from wirefmt.broker.rocketmq.transactions import Transactions
from wirefmt.broker.rocketmq.waits import Waits
from wirefmt.broker.shares import Shares
from wirefmt.connection.contract import Acknowledged, Disconnected
from wirefmt.rocketmq import RemotingCommand
from wirefmt.rocketmq.codes import RequestCode, ResponseCode
from wirefmt.rocketmq.events import Event, TimedOut, is_signed
from wirefmt.rocketmq.server import Peer

Serve = Callable[[Peer, RemotingCommand], Answer | Steps | None]


class Broker(Assembly[BrokerOptions]):
    """A name server and broker in memory.

    Attributes:
        options: policies and limits.
        address: "host:port" that routes tell clients.
        topics: name -> queues.
        offsets: (group, topic, queue id) -> what the group has consumed.
        consumers, producers: group -> client id -> member.
        shares: its bytes are those of all messages that are stored, delayed or undecided.
        dropped: messages that were dropped because their queue was full.
    """

    def __init__(self, options: BrokerOptions | None = None, address: str = "127.0.0.1:9876") -> None:
        self._options = options or BrokerOptions()
        self._start(address)

    def _start(self, address: str) -> None:
        """Reset to the state without messages and members."""
        options = self._options
        self._timers = timers = Timers()
        self._clients = clients = Clients(options)
        self._waits = waits = Waits(options, timers, clients)
        self._log = log = Log(options, address, timers, clients, waits)
        self._locks = locks = Locks(options, clients, log)
        self._groups = groups = Groups(options, clients, log, locks)
        self._offsets = offsets = Offsets(options, clients, log, groups)
        self._transactions = transactions = Transactions(options, timers, log, groups)
        self._popping = popping = Popping(options, timers, clients, log, waits, groups)
        self._names = names = Names(options, log)
        pulling = Pulling(clients, log, waits, groups, offsets)
        sending = Sending(options, clients, log, groups, transactions)
        relaying = Relaying(options, clients, log, groups)
        self._parts = (clients, waits, log, locks, groups, offsets, transactions, popping, names, sending, relaying)
        self._codes: dict[int, Serve] = {
            RequestCode.SEND_MESSAGE: sending.send,
            RequestCode.PULL_MESSAGE: pulling.pull,
            RequestCode.QUERY_CONSUMER_OFFSET: offsets.query,
            RequestCode.UPDATE_CONSUMER_OFFSET: offsets.update,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offsets.search,
            RequestCode.GET_MAX_OFFSET: offsets.maximum,
            RequestCode.GET_MIN_OFFSET: offsets.minimum,
            RequestCode.VIEW_MESSAGE_BY_ID: sending.view,
            RequestCode.HEART_BEAT: groups.heartbeat,
            RequestCode.UNREGISTER_CLIENT: groups.unregister,
            RequestCode.CONSUMER_SEND_MSG_BACK: sending.send_back,
            RequestCode.END_TRANSACTION: transactions.end,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: groups.members,
            RequestCode.LOCK_BATCH_MQ: locks.lock,
            RequestCode.UNLOCK_BATCH_MQ: locks.unlock,
            RequestCode.CHECK_CLIENT_CONFIG: groups.check_client,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: names.route,
            RequestCode.GET_CONSUMER_RUNNING_INFO: relaying.ask_consumer,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: relaying.ask_to_consume,
            RequestCode.SEND_MESSAGE_V2: sending.send,
            RequestCode.SEND_BATCH_MESSAGE: sending.send,
            RequestCode.SEND_REPLY_MESSAGE: relaying.reply,
            RequestCode.SEND_REPLY_MESSAGE_V2: relaying.reply,
            RequestCode.LITE_PULL_MESSAGE: pulling.pull,
            RequestCode.POP_MESSAGE: popping.pop,
            RequestCode.ACK_MESSAGE: popping.ack,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: popping.change_invisible,
        }

    @property
    def address(self) -> str:
        return self._log.address

    @address.setter
    def address(self, address: str) -> None:
        self._log.address = address

    @property
    def topics(self) -> dict[str, list[Queue]]:
        return self._log.topics

    @property
    def offsets(self) -> dict[tuple[str, str, int], int]:
        return self._offsets.offsets

    @property
    def consumers(self) -> Members:
        return self._groups.consumers

    @property
    def producers(self) -> Members:
        return self._groups.producers

    @property
    def shares(self) -> Shares:
        return self._log.shares

    @property
    def dropped(self) -> int:
        return self._log.dropped

    def topic(self, name: str, queues: int | None = None) -> list[Queue] | None:
        """The queues of a topic, which is made at first use; None: there are too many topics."""
        return self._log.topic(name, queues)

    def close(self) -> None:
        """Drop all state and stop the timers. Close the servers first, or drop their clients."""
        self._timers.close()
        self._waits.close()
        self._groups.close()
        self._start(self.address)

    # ---- what permissions ask: `requests.rocketmq.Knowing`

    @property
    def reply_topic(self) -> str:
        return self._names.reply_topic

    def topic_at(self, physical: int) -> str | None:
        return self._log.topic_at(physical)

    def half_topic(self, physical: int) -> str | None:
        return self._transactions.half_topic(physical)

    def topics_of(self, group: str) -> Collection[str]:
        return self._groups.topics_of(group)

    def owner_of(self, client: str) -> str | None:
        return self._groups.owner_of(client)

    # ---- the host of all clients

    def handle(self, peer: Peer, event: Event) -> None:
        """An event of a client's connection."""
        if isinstance(event, RemotingCommand):
            self._serve(peer, event)
        elif isinstance(event, Acknowledged):
            self._clients.outcome(event.handle, event.message)
        elif isinstance(event, TimedOut):
            self._clients.outcome(event.handle, None)
        elif isinstance(event, Disconnected):
            for handle in event.lost:
                self._clients.outcome(handle, None)
            self._waits.stop(peer)
            self._clients.holders.pop(peer, None)
            self._groups.gone(peer)

    def writable(self, peer: Peer) -> None:
        """Nothing waits for it: answers are bounded by requests."""

    def closed(self, peer: Peer) -> None:
        """`Disconnected` came before."""

    def _serve(self, peer: Peer, event: RemotingCommand) -> None:
        accounts, permissions = self._options.accounts, self._options.permissions
        serve = self._codes.get(event.code)
        answer: Answer | Steps | None
        if accounts is not None and not is_signed(event, accounts.get):
            answer = Answer(ResponseCode.NO_PERMISSION, remark="the request has no valid signature")
        else:
            try:
                user = user_of(event)
                if peer not in self._clients.holders:
                    self._clients.greet(peer, user if accounts is not None else None)
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
            self._clients.answer(peer, event, answer)
        elif answer is not None:
            peer.driver.later(self._in_steps(peer, event, answer))

    def _in_steps(self, peer: Peer, event: RemotingCommand, steps: Steps) -> Iterator[int]:
        try:
            answer = yield from steps
        except FAULTS as error:
            answer = failed(error)
        self._clients.answer(peer, event, answer)


def _why(lacking: Need, user: str, code: int) -> str:
    """The remark of a refusal."""
    if lacking.action == NOBODY:
        return f"No permission for request {code}: {lacking.name}"
    if lacking.action == USER:
        return f"No permission for {user!r}: another user has this client id"
    what = "use group" if lacking.right == "group" else f"{lacking.right} topic"
    return f"No permission to {what} {lacking.name!r} for {user!r}"
