"""`wirefmt.broker.routing` against a plain model of the rules: every message lands where they say, or is counted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.routing_model import Copy, Model, ModelExchange, ModelQueue
from wirefmt import amqp091
from wirefmt.broker.limits import ENTRY
from wirefmt.broker.messages import Envelope, Item, Published
from wirefmt.broker.queues import Queue
from wirefmt.broker.routing import PREDECLARED, Exchange, Router
from wirefmt.convert import Container, Wire

EXCHANGES = ("e0", "e1", "e2")
QUEUES = ("q0", "q1", "q2", "q3")
KEYS = ("", "a", "b", "a.b", "a.b.c", "b.b", "q0", "q1", "q2")
PATTERNS = ("", "a", "*", "#", "a.*", "*.b", "#.b", "a.#", "*.b.#", "a.#.c", "#.#", "#.b.#", "#.*", "#.a.#.c.#")
HEADERS = st.dictionaries(st.sampled_from(["h", "i", "x-h"]), st.sampled_from([1, 2, "1"]), max_size=2)
ARGUMENTS = st.fixed_dictionaries({}, optional={
    "x-match": st.sampled_from(["all", "any", "all-with-x", "any-with-x"]),
    "h": st.sampled_from([1, 2, "1", None]), "i": st.sampled_from([1, None]), "x-h": st.sampled_from([1, None]),
})  # fmt: skip
LIMITS = {
    "x-max-length": st.integers(0, 3), "x-max-length-bytes": st.integers(0, 12),
    "x-overflow": st.sampled_from(["drop-head", "reject-publish", "reject-publish-dlx"]),
    "x-message-ttl": st.integers(0, 5000), "x-max-priority": st.integers(0, 3),
}  # fmt: skip
DEAD = st.sampled_from(["amq.fanout", "amq.topic", *EXCHANGES])
QUEUE_ARGUMENTS = st.one_of(
    st.fixed_dictionaries({}, optional=LIMITS),
    st.fixed_dictionaries({"x-dead-letter-exchange": DEAD}, optional=LIMITS),
    st.fixed_dictionaries(
        {"x-dead-letter-exchange": DEAD, "x-dead-letter-routing-key": st.sampled_from(KEYS)}, optional=LIMITS
    ),
    st.fixed_dictionaries(
        {"x-dead-letter-exchange": st.just(""), "x-dead-letter-routing-key": st.sampled_from(QUEUES)}, optional=LIMITS
    ),
)
SOURCES = st.sampled_from([name for name in PREDECLARED if name] + [*EXCHANGES] * 3)


def exchange(name: str) -> Any:
    kinds = st.sampled_from(["direct", "fanout", "topic", "headers"])
    return st.tuples(st.just("exchange"), st.just(name), kinds, st.sampled_from([None, *EXCHANGES]), st.booleans())


def queue(name: str) -> Any:
    return st.tuples(st.just("queue"), st.just(name), QUEUE_ARGUMENTS)


BIND = st.tuples(
    st.just("bind"), SOURCES, st.sampled_from(QUEUES * 2 + EXCHANGES), st.sampled_from(PATTERNS), ARGUMENTS
)
PUBLISH = st.tuples(
    st.just("publish"), st.just("") | SOURCES, st.sampled_from(KEYS), HEADERS,
    st.none() | st.lists(st.sampled_from(KEYS), max_size=2), st.none() | st.lists(st.sampled_from(KEYS), max_size=2),
    st.integers(0, 4), st.none() | st.integers(0, 5000), st.integers(0, 6),
)  # fmt: skip
TAKE = st.tuples(st.sampled_from(["reject", "accept", "requeue"]), st.sampled_from(QUEUES))
CHANGE = st.one_of(
    st.sampled_from(EXCHANGES).flatmap(exchange),
    st.sampled_from(QUEUES).flatmap(queue),
    BIND,
    st.tuples(st.just("unbind"), st.integers(0, 8)),
    st.tuples(st.just("delete exchange"), st.sampled_from(EXCHANGES)),
    st.tuples(st.sampled_from(["delete queue", "purge"]), st.sampled_from(QUEUES)),
)
WAIT = st.tuples(st.just("wait"), st.integers(0, 3000))


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """First everything is made and bound, then messages come and go, and something changes."""
    steps = [draw(exchange(name)) for name in EXCHANGES] + [draw(queue(name)) for name in QUEUES]
    steps += draw(st.lists(BIND, min_size=6, max_size=12))
    for _ in range(draw(st.integers(1, 4))):
        steps += draw(st.lists(PUBLISH, min_size=2, max_size=6))
        steps += draw(st.lists(TAKE | WAIT, max_size=4))
        steps += draw(st.lists(CHANGE, max_size=2))
    return steps


class Ordered(Router):
    """A router with a clock of its own that gives messages to queues in the order of their names, as the model does."""

    clock = 0.0

    def now(self) -> float:
        return self.clock

    def route(self, exchange: Exchange, *messages: Published, besides: Any = None, quiet: bool = False) -> list[Any]:
        return sorted(super().route(exchange, *messages, besides=besides, quiet=quiet), key=lambda queue: queue.name)


class Run:
    """The same steps for both."""

    def __init__(self) -> None:
        self.router = Ordered()
        self.model = Model(PREDECLARED)
        self.number = self.unroutable = 0

    def step(self, kind: str, *values: Any) -> None:
        getattr(self, kind.replace(" ", "_"))(*values)
        self.compare()

    def exchange(self, name: str, kind: str, alternate: str | None, auto_delete: bool) -> None:
        if name not in self.router.exchanges:
            arguments = {} if alternate is None else {"alternate-exchange": alternate}
            self.router.exchanges[name] = Exchange(name, kind, False, auto_delete, False, arguments)
            self.model.exchanges[name] = ModelExchange(kind, alternate, auto_delete)

    def queue(self, name: str, arguments: dict[str, Any]) -> None:
        if name not in self.router.queues:
            self.router.make_queue(name, {"x-overflow": "drop-head", **arguments})
            self.model.queues[name] = ModelQueue({"x-overflow": "drop-head", **arguments})

    def bind(self, source: str, destination: str, key: str, arguments: dict[str, Any]) -> None:
        router, model = self.router, self.model
        kind = "queue" if destination in QUEUES else "exchange"
        target: Any = (router.queues if kind == "queue" else router.exchanges).get(destination)
        if target is None or source not in router.exchanges:
            return
        router.bind(router.exchanges[source], (target, key, repr(arguments).encode()), arguments)
        binding = (source, kind, destination, key, arguments)
        if binding not in model.bindings:
            model.bindings.append(binding)

    def unbind(self, at: int) -> None:
        if at < len(self.model.bindings):
            gone = self.model.bindings[at]
            source, kind, destination, key, arguments = gone
            target: Any = (self.router.queues if kind == "queue" else self.router.exchanges)[destination]
            self.router.unbind(self.router.exchanges[source], (target, key, repr(arguments).encode()))
            self.model.unbind(lambda binding: binding != gone)

    def publish(
        self,
        exchange: str,
        key: str,
        headers: dict[str, Any],
        cc: list[str] | None,
        bcc: list[str] | None,
        priority: int,
        ttl: int | None,
        size: int,
    ) -> None:
        if exchange not in self.router.exchanges:
            return
        self.number += 1
        body = b"%d" % self.number + b"." * size
        given = {**headers, **({"CC": cc} if cc is not None else {}), **({"BCC": bcc} if bcc is not None else {})}
        properties = amqp091.BasicProperties(
            headers=given or None, priority=priority, expiration=None if ttl is None else str(ttl)
        )
        wire = Wire("amqp091", properties.encode(), body)
        container = Container(wire, exchange=exchange, routing_key=key)
        known = None if bcc is not None else properties
        published = Published(
            Envelope(properties.encode(), exchange, key, ttl, priority, known, "documented"), body, container
        )
        copy = Copy(self.number, len(body), exchange, [key, *(cc or ())], bcc or [], given, priority, ttl)
        queues = self.router.route(self.router.exchanges[exchange], published)
        names = [queue.name for queue in queues]
        assert names == self.model.order(self.model.route(exchange, copy))
        refused = self.router.refuses(queues, published)
        self.router.put(queues, published)
        assert self.model.publish(exchange, copy, names) is not refused

    def wait(self, ms: int) -> None:
        self.router.clock += ms / 1000
        self.model.now = self.router.clock
        for _ in range(3):
            for name in sorted(self.router.queues):
                self.router.queues[name].expire()
                self.model.expire(name)

    def take(self, name: str) -> tuple[Queue, Item, Copy] | None:
        if name not in self.router.queues:
            return None
        queue = self.router.queues[name]
        item = queue.take()
        self.model.expire(name)
        waiting = self.model.queues[name].waiting
        assert (item is None) is (not waiting)
        return (queue, item, waiting.pop(0)) if item is not None else None

    def accept(self, name: str) -> None:
        self.take(name)

    def reject(self, name: str) -> None:
        if (taken := self.take(name)) is not None:
            self.router.dead_letter(*taken[:2], "rejected")
            self.model.die(name, taken[2], "rejected")

    def requeue(self, name: str) -> None:
        if (taken := self.take(name)) is not None:
            taken[0].back([taken[1]])
            self.model.insert(name, taken[2])

    def delete_exchange(self, name: str) -> None:
        if name in self.router.exchanges:
            self.router.delete_exchange(self.router.exchanges[name])
            self.model.delete_exchange(name)

    def delete_queue(self, name: str) -> None:
        if name in self.router.queues:
            self.router.delete_queue(self.router.queues[name])
            self.model.delete_queue(name)

    def purge(self, name: str) -> None:
        if name in self.router.queues:
            assert self.router.queues[name].purge() == len(self.model.queues[name].waiting)
            self.model.queues[name].waiting.clear()

    def compare(self) -> None:
        router, model = self.router, self.model
        assert router.exchanges.keys() == model.exchanges.keys()
        assert sum(len(exchange.bindings) for exchange in router.exchanges.values()) == len(model.bindings)
        assert router.queues.keys() == model.queues.keys()
        for name, queue in router.queues.items():
            numbers = [int(item.body.rstrip(b".")) for item in sorted(queue.messages)]
            assert numbers == [copy.number for copy in model.queues[name].waiting], name
            assert queue.dropped == model.queues[name].dropped, name
            for item, copy in zip(sorted(queue.messages), model.queues[name].waiting, strict=True):
                assert [(d.queue, d.reason) for d in item.published.container.annotations.deaths] == copy.deaths
        assert router.shares.bytes == sum(
            item.published.cost + ENTRY for q in router.queues.values() for item in q.messages
        )


@given(runs())
def test_against_the_model(steps: list[tuple[Any, ...]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Queue, "_watch", lambda self: None)  # time is the router's; `wait` looks after what expires
        run = Run()
        for step in steps:
            run.step(*step)
