"""Queues of AMQP 0.9.1 and 1.0: messages by priority and place, and their consumers.

What the specification leaves open is done as RabbitMQ does it. Sections are those of AMQP 0.9.1.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from wirefmt.amqp091.codes import ReplyCode
from wirefmt.broker.limits import ENTRY, Refusal, check_equal
from wirefmt.broker.messages import Item, Published
from wirefmt.broker.shares import UNOWNED, Holder
from wirefmt.broker.waiting import Entry, View, Waiting
from wirefmt.errors import ConversionError

if TYPE_CHECKING:
    from wirefmt.broker.routing import Router

#: Messages that a consumer is given together, at most, and bytes of them from which on there are no more.
TOGETHER: Final = 256
TOGETHER_BYTES: Final = 1 << 18

#: Messages that consumers with filters look at in one iteration of the event loop, all together and one of them.
LOOKS_TOGETHER: Final = 512
LOOKS: Final = 128

#: The longest time that a message or a queue may have, in milliseconds: ten years (RabbitMQ).
LONGEST: Final = 315_360_000_000

#: How often a message of a quorum queue may go back to it, unless x-delivery-limit says otherwise (RabbitMQ 4).
DELIVERY_LIMIT: Final = 20

#: Arguments of queues that are numbers: the smallest and the largest value.
NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "x-max-length": (0, 1 << 63),
    "x-max-length-bytes": (0, 1 << 63),
    "x-message-ttl": (0, LONGEST),
    "x-expires": (1, LONGEST),
    "x-max-priority": (0, 255),
    "x-delivery-limit": (-(1 << 63), 1 << 63),
}

#: Types of queues.
QUEUE_TYPES: Final = ("classic", "quorum")

_BOTH = (
    "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-expires", "x-max-length", "x-max-length-bytes", "x-message-ttl",
    "x-overflow", "x-queue-leader-locator", "x-queue-type", "x-single-active-consumer",
)  # fmt: skip

#: The arguments that a second declaration of a queue is compared in, by its type. All others have no meaning (RabbitMQ).
COMPARED: Final[Mapping[str, tuple[str, ...]]] = {
    "classic": (*_BOTH, "x-max-priority", "x-queue-master-locator", "x-queue-mode", "x-queue-version"),
    "quorum": (
        *_BOTH, "x-dead-letter-strategy", "x-delivery-limit", "x-max-in-memory-bytes", "x-max-in-memory-length",
        "x-quorum-initial-group-size",
    ),
}  # fmt: skip

#: Messages that expire, at most, before the event loop goes on.
EXPIRED: Final = 2000

#: Values of x-overflow.
OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")


class Consumer(Protocol):
    """A consumer of a queue, as a protocol's broker makes it.

    Attributes:
        exclusive: it wants to be the queue's only one.
        priority: consumers with a higher one come first.
    """

    exclusive: bool
    priority: int

    def credit(self) -> int:
        """Messages that it takes now. If there are none, the broker of its protocol calls `Queue.wake` when there may be."""
        ...

    def deliver(self, queue: Queue, items: Sequence[Item], at: int) -> int:
        """Give it message number `at` and the following ones, as far as it takes them together. There is space for one.

        Returns how many it has taken; 0: it takes none now, and the broker of its protocol calls `Queue.wake`. Raises
        ConversionError if message number `at` is not for its protocol; then it has taken none.
        """
        ...

    def cancelled(self, queue: Queue) -> None:
        """Its queue has been deleted."""
        ...


class Queue:
    """A queue: messages by priority and place, and its consumers.

    Attributes:
        consumers: in no order.
        owner: the connection that alone may use it; None: it is not exclusive.
        holder: who has made it.
        dropped: messages that were lost: those that died here (rejected, expired, or too many) and went to no other queue, and
            dead letters from other queues that were refused here.
    """

    def __init__(
        self,
        router: Router,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        owner: object | None = None,
        holder: Holder = UNOWNED,
    ) -> None:
        self.router = router
        self.name = name
        self.holder = holder
        self.durable = durable
        self.exclusive = owner is not None
        self.auto_delete = auto_delete
        self.owner = owner
        self.arguments = dict(arguments or {})
        self._waiting = Waiting()
        self._keep = router.shares.keep
        self.bytes = self.body_bytes = 0
        self.consumers: dict[Consumer, None] = {}
        self._views: dict[Consumer, View] = {}  # of consumers that do not just take the next message
        self._looking: dict[Consumer, None] = {}  # those of them that go on in the next turn
        self._able: dict[int, OrderedDict[Consumer, None]] = {}  # those that may have space, by priority, in turn
        self._ranks: list[int] = []  # the priorities of these, negated: the highest comes first
        self.dropped = 0
        self.gone = False
        self._place = 0  # of the next message
        self._timer: asyncio.TimerHandle | None = None
        self._pumping = False
        limits = router.limits
        self.most = min(self._number("x-max-length", limits.queue_messages), limits.queue_messages)
        self.most_bytes = self._number("x-max-length-bytes", limits.queue_bytes)  # of bodies, as RabbitMQ counts
        self.ttl = self._number("x-message-ttl", -1)
        self.expiry = self._number("x-expires", 0)
        self.priorities = self._number("x-max-priority", 0)
        self.type = self._text("x-queue-type") or "classic"
        if self.type == "stream":
            raise Refusal(
                ReplyCode.NOT_IMPLEMENTED, f"queue '{name}' in vhost '{router.name}': this broker has no streams"
            )
        if self.type not in QUEUE_TYPES:
            raise self.invalid("x-queue-type", f"unsupported queue type '{self.type}'")
        limit = self._number("x-delivery-limit", DELIVERY_LIMIT)
        self.delivery_limit = limit if self.type == "quorum" and limit >= 0 else None
        self.dead_letter_exchange = self._text("x-dead-letter-exchange")
        self.dead_letter_key = self._text("x-dead-letter-routing-key")
        if self.dead_letter_key is not None and self.dead_letter_exchange is None:
            raise self.invalid("x-dead-letter-routing-key", "without x-dead-letter-exchange")
        overflow = self._text("x-overflow")
        if overflow not in (None, *OVERFLOWS):
            raise self.invalid("x-overflow", repr(overflow))
        limited = "x-max-length" in self.arguments or "x-max-length-bytes" in self.arguments
        self.dead_letters_refused = overflow == "reject-publish-dlx"
        self.rejects = overflow in ("reject-publish", "reject-publish-dlx") or (
            overflow is None and not limited and limits.overflow == "refuse"
        )
        self._unused: asyncio.TimerHandle | None = None
        self.used()

    def _number(self, name: str, otherwise: int) -> int:
        if name not in self.arguments:
            return otherwise
        value = self.arguments[name]
        least, most = NUMBERS[name]
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.invalid(name, f"{value!r}, expected an integer from {least} to {most}")
        return value

    def _text(self, name: str) -> str | None:
        value = self.arguments.get(name)
        if name in self.arguments and not isinstance(value, str):
            raise self.invalid(name, repr(value))
        return value

    def invalid(self, name: str, why: str) -> Refusal:
        """The refusal of an argument."""
        return Refusal(
            ReplyCode.PRECONDITION_FAILED,
            f"invalid arg '{name}' for queue '{self.name}' in vhost '{self.router.name}': {why}",
        )

    def check_same(self, durable: bool, auto_delete: bool, arguments: Mapping[str, Any]) -> None:
        """The queue is declared again. Raises Refusal if it is not the same (1.7.2.1, "equivalent")."""
        what = f"queue '{self.name}' in vhost '{self.router.name}'"
        check_equal(what, "durable", durable, self.durable)
        check_equal(what, "auto_delete", auto_delete, self.auto_delete)
        for name in COMPARED[self.type]:
            otherwise = "classic" if name == "x-queue-type" else None
            check_equal(what, name, arguments.get(name, otherwise), self.arguments.get(name, otherwise))

    def full_for(self, *messages: Published) -> bool:
        """Would the queue have to drop messages to take these?"""
        size = body_size = 0
        for published in messages:
            size += published.size
            body_size += published.body_size
        return self._exceeds(len(messages), size, body_size)

    @property
    def count(self) -> int:
        """How many messages wait."""
        return self._waiting.count

    @property
    def messages(self) -> list[Item]:
        """What waits, in the order in which it will be delivered."""
        return list(self._waiting)

    def _exceeds(self, messages: int = 0, size: int = 0, body_size: int = 0) -> bool:
        """Is the queue above its limits, or would it be with so much more?"""
        return (
            self._waiting.count + messages > self.most
            or self.bytes + size > self.router.limits.queue_bytes
            or self.body_bytes + body_size > self.most_bytes
        )

    def used(self) -> None:
        """x-expires: the queue is deleted when nobody has used it for this time."""
        if self._unused is not None:
            self._unused.cancel()
            self._unused = None
        if self.expiry and not self.consumers and not self.gone:
            loop = asyncio.get_running_loop()
            self._unused = loop.call_later(self.expiry / 1000, self.router.delete_queue, self)

    def put(self, *items: Item) -> None:
        """Add messages that go the same way, in order. What exceeds the limits drops the oldest ones."""
        envelope = items[0].published.envelope
        ttl = envelope.ttl
        if self.ttl >= 0:
            ttl = self.ttl if ttl is None else min(ttl, self.ttl)
        priority = min(envelope.priority, self.priorities)
        for place, item in enumerate(items, self._place):
            item.priority = priority
            item.where = place
        self._place += len(items)
        waiting = items if self._views or self._waiting.count else self._hand_over(items)
        for item in waiting:
            self._push(item)
        if self._views:
            self._show(waiting)
        if self._waiting.count:  # also what was dead-lettered to this queue meanwhile
            self.pump()
        if ttl is not None:  # after the pump: what a consumer takes at once has not expired, even with 0
            expires = self.router.now() + ttl / 1000
            for item in items:
                item.expires = expires
        while self._waiting.count and self._exceeds():
            self.router.dead_letter(self, self._pop(), "maxlen")
        self._watch()

    def back(self, items: Iterable[Item]) -> None:
        """Put messages that were delivered and are not acknowledged back to their places. Beyond a limit the oldest are dropped,
        as in `put`, unless the queue refuses what exceeds a limit."""
        returned: list[Item] = []
        for item in items:
            item.redelivered = True
            if self.type == "quorum":
                item.returns += 1
                if self.delivery_limit is not None and item.returns > self.delivery_limit:
                    self.router.dead_letter(self, item, "delivery_limit")
                    continue
            self._push(item)
            returned.append(item)
        if self._views:
            self._show(returned, returned=True)
        while not self.rejects and self._waiting.count and self._exceeds():
            self.router.dead_letter(self, self._pop(), "maxlen")
        self.pump()
        self._watch()

    def take(self) -> Item | None:
        """The next message. None, too, while more messages before it have expired than one step of `expire` takes."""
        return self._pop() if self.expire() and self._waiting.count else None

    def requeue(self, item: Item) -> None:
        """A message that was taken and not delivered: to its place."""
        self._push(item)
        self._watch()

    def expire(self) -> bool:
        """Messages at the head whose time is over. False: there are more than one step takes; `_watch` comes back for them."""
        if not self._waiting.count or self._waiting.first.expires is None:
            return True
        now, left = self.router.now(), EXPIRED
        while self._waiting.count and (expires := self._waiting.first.expires) is not None and expires <= now:
            if not left:
                self._watch()
                return False
            left -= 1
            self.router.dead_letter(self, self._pop(), "expired")
        return True

    def purge(self) -> int:
        """Drop what waits. Returns how many there were."""
        count = self._waiting.count
        for item in self._waiting:
            self.router.discount(item.published)
        self._waiting.clear()
        self.bytes = self.body_bytes = 0
        return count

    def pump(self) -> None:
        """Deliver what there is to consumers that have space: higher priorities first, others in turns."""
        if self._pumping or not self._ranks:
            return
        self._pumping = True
        try:
            while self._waiting.count and (found := self._next()) is not None:
                consumer, most = found
                if self._views and (view := self._views.get(consumer)) is not None:
                    self._look(consumer, view)
                    if self.gone:
                        return
                    continue
                items: list[Item] = []
                size = 0
                while len(items) < most and size < TOGETHER_BYTES and (item := self.take()) is not None:
                    items.append(item)
                    size += item.published.size
                if not items:
                    return
                taken = self._give(consumer, items)
                if self.gone:
                    return
                for item in items[taken:]:
                    self._push(item)
        finally:
            self._pumping = False

    def _look(self, consumer: Consumer, view: View) -> None:
        """Look for a message for a consumer with a view, and deliver it. What is too much for one turn waits for the next."""
        router = self.router
        for _ in range(LOOKS):
            if router.looks <= 0:
                break
            entry = view.next(self._waiting)
            if entry is None:
                self._park(consumer)
                view.idle = True
                view.caught_up()
                return
            item = entry[2]
            router.looked(view.cost + (item.published.size >> 14))
            if item.expires is not None and item.expires <= router.now():
                self._remove(entry)
                router.dead_letter(self, item, "expired")
            elif view.wants is None or view.wants(item):
                if not view.takes:
                    if not self._let_see(consumer, item):
                        view.undo(entry)
                    return
                self._remove(entry)
                if not self._give(consumer, (item,)) and not self.gone:
                    self._push(item)
                    view.undo(entry)
                return
        self._park(consumer)
        self._looking[consumer] = None
        router.look_later(self)

    def look_on(self) -> None:
        """The next turn of those who look for messages."""
        looking, self._looking = self._looking, {}
        for consumer in looking:
            if consumer in self.consumers:
                self._enable(consumer)
        self.pump()

    def _let_see(self, consumer: Consumer, item: Item) -> bool:
        """Deliver a message to a consumer that browses. Returns False if it takes none now."""
        try:
            if not consumer.deliver(self, (item,), 0):
                self._park(consumer)
                return False
        except ConversionError:
            return True  # it is for others
        self._rotate(consumer)
        return True

    def looks(self, consumer: Consumer) -> bool:
        """Does a consumer with a view wait for its next turn to look for messages?"""
        return consumer in self._looking

    def _show(self, items: Iterable[Item], *, returned: bool = False) -> None:
        """Messages have arrived: those who have seen everything look again."""
        for consumer, view in self._views.items():
            for item in items:
                view.miss((-item.priority, item.where, item), returned=returned)
            if view.idle:
                view.idle = False
                self._enable(consumer)

    def _hand_over(self, items: Sequence[Item]) -> Sequence[Item]:
        """Deliver messages to consumers at once: nothing waits before them. Returns those that have to wait."""
        if self._pumping or not self._ranks:
            return items
        self._pumping = True
        at = 0
        try:
            while at < len(items) and (found := self._next()) is not None:
                consumer, most = found
                at += self._give(consumer, items[at : at + most])
                if self.gone:
                    return ()
            return items[at:]
        finally:
            self._pumping = False

    def _give(self, consumer: Consumer, items: Sequence[Item]) -> int:
        """Deliver messages, in order, to a consumer that has space for one. Returns how many are done with: those that it has
        taken, and those that are not for its protocol, which are dead letters."""
        at = given = 0
        while at < len(items):
            if at and (consumer not in self.consumers or consumer.credit() <= 0):
                break  # if it is still there, `_next` lets it rest
            try:
                taken = consumer.deliver(self, items, at)
            except ConversionError:
                self.router.dead_letter(self, items[at], "rejected", unfit=True)
                at += 1
                continue
            if not taken:
                self._park(consumer)
                break
            at += taken
            given += taken
        if given:
            self._rotate(consumer)
        return at

    def _rotate(self, consumer: Consumer) -> None:
        """It is another one's turn."""
        turns = self._able.get(consumer.priority)
        if turns is not None and len(turns) > 1 and consumer in turns:
            turns.move_to_end(consumer)

    def _next(self) -> tuple[Consumer, int] | None:
        """The consumer whose turn it is, and how many messages it may be given: one, if others wait for theirs. Those that have
        no space are not asked again until `wake`."""
        while self._ranks:
            turns = self._able[-self._ranks[0]]
            consumer = next(iter(turns))
            capacity = consumer.credit()
            if capacity > 0:
                return consumer, min(capacity, TOGETHER) if len(turns) == 1 else 1
            self._park(consumer)
        return None

    def _park(self, consumer: Consumer) -> None:
        """Ask the consumer for nothing until `wake`."""
        turns = self._able.get(consumer.priority)
        if turns is not None and consumer in turns:
            del turns[consumer]
            if not turns:
                del self._able[consumer.priority]
                self._ranks.remove(-consumer.priority)

    def wake(self, consumer: Consumer) -> None:
        """A consumer may have space: deliver what there is. Each of them has to say so when it has had none."""
        if consumer not in self.consumers:
            return
        self._enable(consumer)
        if self._waiting.count:
            self.pump()

    def _enable(self, consumer: Consumer) -> None:
        turns = self._able.get(consumer.priority)
        if turns is None:
            turns = self._able[consumer.priority] = OrderedDict()
            insort(self._ranks, -consumer.priority)
        turns[consumer] = None  # one that is there already keeps its turn

    def insert(self, consumer: Consumer, view: View | None = None) -> None:
        """A new consumer, after those of its priority. `view`: it does not just take the next message."""
        self.consumers[consumer] = None
        if view is not None:
            self._views[consumer] = view
            self.router.shares.keep(UNOWNED, view.size)
        if self._unused is not None:
            self.used()
        self.wake(consumer)

    def check(self, consumer: Consumer, view: View | None = None) -> None:
        """Raises Refusal if the consumer must not be inserted."""
        if view is not None and not self.router.shares.fits(UNOWNED, self.router.limits.memory, view.size):
            raise Refusal(ReplyCode.PRECONDITION_FAILED, "no space for another filter")
        first = next(iter(self.consumers), None)  # an exclusive one is alone
        if first is not None and (first.exclusive or consumer.exclusive):
            raise Refusal(
                ReplyCode.ACCESS_REFUSED, f"queue '{self.name}' in vhost '{self.router.name}' in exclusive use"
            )

    def leave(self, consumer: Consumer) -> None:
        """A consumer is gone. The last one takes a queue with auto-delete along."""
        if consumer in self.consumers:
            del self.consumers[consumer]
            view = self._views.pop(consumer, None)
            if view is not None:
                self.router.shares.keep(UNOWNED, -view.size)
            self._park(consumer)
            browsed = view is not None and not view.takes
            if self.auto_delete and not self.consumers and not self.gone and not browsed:
                self.router.delete_queue(self)
            self.used()

    def _push(self, item: Item) -> None:
        self._waiting.add((-item.priority, item.where, item))
        published = item.published
        self.body_bytes += published.body_size
        self.bytes += published.size
        self._keep(published.envelope.holder, published.cost + ENTRY)

    def _pop(self) -> Item:
        item = self._waiting.take()
        self._left(item)
        return item

    def _left(self, item: Item) -> None:
        published = item.published
        self.body_bytes -= published.body_size
        self.bytes -= published.size
        self._keep(published.envelope.holder, -published.cost - ENTRY)

    def _watch(self) -> None:
        """Come back when the first message is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting.count and self._waiting.first.expires is not None and not self.gone:
            self._timer = asyncio.get_running_loop().call_at(self._waiting.first.expires, self._due)

    def _due(self) -> None:
        self._timer = None
        if self.expire():
            self._watch()
            self.pump()

    def _remove(self, entry: Entry) -> None:
        self._waiting.remove(entry)
        self._left(entry[2])

    def end(self) -> None:
        self.gone = True
        self.purge()
        self.router.shares.keep(UNOWNED, -sum(view.size for view in self._views.values()))
        self._views.clear()
        self._able.clear()
        self._looking.clear()
        self._ranks.clear()
        for timer in (self._timer, self._unused):
            if timer is not None:
                timer.cancel()
