"""How an MQTT client subscribes again to what its server has no more. docs/mqtt-asyncio.md has the order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from wirefmt import mqtt
from wirefmt.connection import client as connecting
from wirefmt.connection.recovery import OnRefused
from wirefmt.errors import LocalProtocolError, Refused
from wirefmt.mqtt.codes import ReasonCode
from wirefmt.mqtt.inbox import Inbox
from wirefmt.mqtt.spec import FAILURE

#: Codes of SUBACK whose cause can pass (before 5.0 each failure is the first). A subscription that is to be restored is asked
#: for again after them.
PASSING_CODES: Final = frozenset(
    (
        ReasonCode.UNSPECIFIED_ERROR,
        ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
        ReasonCode.PACKET_IDENTIFIER_IN_USE,
        ReasonCode.QUOTA_EXCEEDED,
    )
)


class Subscribed:
    """A subscription that the server has granted, as it was asked for with `message`. `missing`: the server has lost it."""

    __slots__ = ("message", "missing", "on_refused", "subscription")

    def __init__(self, subscription: mqtt.Subscription, message: mqtt.Subscribe, on_refused: OnRefused | None) -> None:
        self.subscription = subscription
        self.message = message
        self.on_refused = on_refused
        self.missing = False


class Parent(Protocol):
    """What `Restoration` may ask of its client.

    Attributes:
        _subscriptions: what the server has granted, by filter.
        _response_topic: where replies come; "": there are no requests.
        _replies: those awaited, by Correlation Data.
        _refusals: of subscriptions that are over, for the program.
        _inbox: where messages wait for the program.
    """

    _subscriptions: dict[str, Subscribed]
    _response_topic: str
    _replies: dict[bytes, asyncio.Future[mqtt.Publish]]
    _refusals: deque[Refused]
    _inbox: Inbox

    def _ask_first(self, message: mqtt.Subscribe, on_refused: OnRefused | None) -> asyncio.Future[Any]:
        """Send a packet before all that waits. Returns a future for the answer."""

    async def _request(self, message: mqtt.Subscribe, on_refused: OnRefused | None) -> Any:
        """Send a packet in its turn. Returns the answer."""

    async def _restore_one(
        self,
        link: Any,
        entity: Any,
        ask: Callable[[], Awaitable[Any]],
        policy: OnRefused | None,
        passes: Callable[[Refused], bool],
    ) -> bool:
        """Ask for one thing until it is granted. Raises Refused."""


class Restoration:
    """What is subscribed to again on one connection."""

    def __init__(self, client: Parent, link: connecting.Link) -> None:
        self.client = client
        self.link = link

    def begin(self) -> None:
        """Subscribe again to what the server has no more: before all else, in packets like those of the program."""
        client, link = self.client, self.link
        groups: dict[int, list[Subscribed]] = {}
        for subscribed in client._subscriptions.values():
            if subscribed.missing:
                groups.setdefault(id(subscribed.message), []).append(subscribed)
        for group in reversed(groups.values()):
            answer = client._ask_first(_subscribe(group), group[0].on_refused)
            link.spawn(self._restored(group, answer))

    async def _restored(self, group: list[Subscribed], answer: asyncio.Future[Any]) -> None:
        refusals: list[Refused | None]
        try:
            refusals = [_refusal(each, code) for each, code in zip(group, await answer, strict=True)]
        except LocalProtocolError as error:  # this server takes smaller packets, or does not offer something
            if len(group) == 1:
                refusals = [_refusal(group[0], error)]
            else:
                for each in group:
                    self.link.spawn(self._insist(each, None))
                return
        for each, refused in zip(group, refusals, strict=True):
            if refused is not None:
                self.link.spawn(self._insist(each, refused))

    async def _insist(self, subscribed: Subscribed, refused: Refused | None) -> None:
        """Subscribe to one filter again, until it is granted or its policy ends that. `refused`: what the server has said."""
        client, link = self.client, self.link
        topic_filter = subscribed.subscription.topic_filter

        async def ask() -> None:
            nonlocal refused
            if (
                refused is None and client._subscriptions.get(topic_filter) is subscribed
            ):  # the program may have unsubscribed
                try:
                    (code,) = await client._request(_subscribe([subscribed]), subscribed.on_refused)
                    refused = _refusal(subscribed, code)
                except LocalProtocolError as error:
                    refused = _refusal(subscribed, error)
            if refused is not None:
                said, refused = refused, None
                raise said

        try:
            await client._restore_one(link, topic_filter, ask, subscribed.on_refused, _passes)
        except Refused as error:
            if link.event is None and client._subscriptions.get(topic_filter) is subscribed:
                del client._subscriptions[topic_filter]
                if topic_filter == client._response_topic:
                    for reply in client._replies.values():
                        connecting.fail(reply, error)
                else:
                    client._refusals.append(error)
                    client._inbox.receivers.wake()


def _subscribe(group: list[Subscribed]) -> mqtt.Subscribe:
    """The SUBSCRIBE for these, which were asked for with one packet."""
    message = group[0].message
    return mqtt.Subscribe(
        packet_identifier=1,
        subscriptions=[each.subscription for each in group],
        properties=message.properties,
        version=message.version,
    )


def _refusal(subscribed: Subscribed, answer: int | LocalProtocolError) -> Refused | None:
    """The refusal of a subscription that was to be restored: by the server's code, or since it cannot be asked for. None: it is
    granted."""
    if isinstance(answer, int) and answer < FAILURE:
        return None
    code = answer if isinstance(answer, int) else answer.reply
    text = f"the server does not grant {subscribed.subscription.topic_filter!r} again"
    refused = Refused(
        f"{text}: {answer if code is None else shown(code)}", code if code is not None else ReasonCode.UNSPECIFIED_ERROR
    )
    if isinstance(answer, LocalProtocolError):
        refused.__cause__ = answer
    return refused


def _passes(refused: Refused) -> bool:
    return refused.code in PASSING_CODES


def shown(code: int | str) -> str:
    return f"0x{code:02X}" if isinstance(code, int) else code
