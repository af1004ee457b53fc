"""Consumers with filters and browsers of a queue: who gets what, and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.loopback import run
from wirefmt import amqp091
from wirefmt.broker.limits import Limits, Refusal
from wirefmt.broker.messages import Envelope, Item, Published
from wirefmt.broker.queues import LOOKS_TOGETHER, Queue
from wirefmt.broker.routing import Router
from wirefmt.broker.waiting import AGAIN, PART, VIEW, View, Waiting
from wirefmt.errors import ConversionError

PROPERTIES = amqp091.BasicProperties()


def item(body: bytes, priority: int = 0, ttl: int | None = None) -> Item:
    envelope = Envelope(PROPERTIES.encode(), "", "q", ttl, priority, PROPERTIES, "documented")
    return Item(Published(envelope, body))


class Taker:
    """A consumer that counts at how many messages it looks. `wants`: by body; None: it has no view."""

    exclusive = False

    def __init__(self, wants: Callable[..., bool] | None, takes: bool = True, room: int = 1 << 30) -> None:
        self.priority = 0
        self.left = room
        self.got: list[Item] = []
        self.looked = self.caught_up = 0
        self.wants = wants
        self.view: View | None = None
        if wants is not None:
            self.view = View(self.look, takes=takes, caught_up=self.done)

    def look(self, item: Item) -> bool:
        self.looked += 1
        assert self.wants is not None
        return self.wants(item.body)

    def done(self) -> None:
        self.caught_up += 1

    def credit(self) -> int:
        return self.left

    def deliver(self, queue: Queue, items: Sequence[Item], at: int) -> int:
        self.left -= 1
        self.got.append(items[at])
        return 1

    def cancelled(self, queue: Queue) -> None: ...

    @property
    def bodies(self) -> list[bytes]:
        return [item.body for item in self.got]


async def settled(router: Router) -> None:
    """Wait until nobody looks for messages."""
    await asyncio.sleep(0)
    while router._looking:
        await asyncio.sleep(0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "add", "add", "take", "remove", "after"]), st.integers(0, 2), st.integers(0, 400)
        )
    )
)
def test_waiting_is_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    waiting = Waiting()
    model: list[Any] = []
    for step, priority, number in steps * 4:
        entry = (-priority, number, item(b""))
        found = next((one for one in model if one[:2] == entry[:2]), None)
        if step == "add" and found is None:
            waiting.add(entry)
            model = sorted([*model, entry], key=lambda one: one[:2])
        elif step == "take" and model:
            assert waiting.take() is model.pop(0)[2]
        elif step == "remove" and found is not None:
            waiting.remove(found)
            model.remove(found)
        elif step == "after":
            later = [one for one in model if one[:2] > entry[:2]]
            assert waiting.after(entry[:2]) == (later[0] if later else None)
        assert (entry in waiting) is any(one[2] is entry[2] for one in model)
        assert list(waiting) == [one[2] for one in model]
        assert waiting.count == len(model)


def test_waiting_cuts_its_parts() -> None:
    waiting = Waiting()
    entries = [(0, number, item(b"")) for number in range(10 * PART)]
    for entry in reversed(entries):
        waiting.add(entry)
    assert list(waiting) == [entry[2] for entry in entries]
    assert max(len(part) for part in waiting.parts) <= 2 * PART
    for entry in entries[::2]:
        waiting.remove(entry)
    assert [waiting.take() for _ in range(waiting.count)] == [entry[2] for entry in entries[1::2]]
    assert not waiting.parts


def test_messages_go_to_those_who_want_them_and_others_wait() -> None:
    async def test() -> None:
        router = Router()
        queue = router.make_queue("q")
        red, blue = Taker(lambda body: body[:1] == b"r"), Taker(lambda body: body[:1] == b"b")
        for taker in (red, blue):
            queue.insert(taker, taker.view)
        queue.put(*(item(body) for body in (b"x1", b"r1", b"b1", b"r2", b"x2", b"b2")))
        assert red.bodies == [b"r1", b"r2"]
        assert blue.bodies == [b"b1", b"b2"]
        assert [one.body for one in queue.messages] == [b"x1", b"x2"]
        every = Taker(None)
        queue.insert(every)
        assert every.bodies == [b"x1", b"x2"]
        queue.put(item(b"x3"), item(b"r3"))
        assert every.bodies[2:] + red.bodies[2:] in ([b"x3", b"r3"], [b"x3", b"r3"])
        router.close()

    run(test())


def test_each_message_is_looked_at_once() -> None:
    """Also with many of them in the queue that nobody wants: no publish looks at those."""

    async def test() -> None:
        router = Router()
        queue = router.make_queue("q")
        takers = [Taker(lambda body, n=n: body == b"%d" % n) for n in range(10)]
        for taker in takers:
            queue.insert(taker, taker.view)
        for _ in range(300):
            queue.put(item(b"x"))
            await settled(router)
        for n in range(10):
            queue.put(item(b"%d" % n))
            await settled(router)
        assert queue.count == 300
        assert [len(taker.got) for taker in takers] == [1] * 10
        assert all(taker.looked <= 310 for taker in takers)
        assert sum(taker.looked for taker in takers) >= 3000
        for taker in takers:
            queue.wake(taker)  # more credit makes nobody look again
        assert all(taker.looked <= 310 for taker in takers)
        router.close()

    run(test())


def test_looking_is_bounded_in_each_turn_and_others_go_on() -> None:
    async def test() -> None:
        router = Router()
        queue, other = router.make_queue("q"), router.make_queue("other")
        queue.put(*(item(b"x") for _ in range(5000)), item(b"last"))
        takers = [Taker(lambda body: body == b"last") for _ in range(3)]
        for taker in takers:
            queue.insert(taker, taker.view)
        every = Taker(None)
        other.insert(every)
        turns = 0
        while sum(len(taker.got) for taker in takers) == 0:
            before = sum(taker.looked for taker in takers)
            await asyncio.sleep(0)
            assert sum(taker.looked for taker in takers) - before <= LOOKS_TOGETHER
            other.put(item(b"%d" % turns))
            assert every.bodies[-1] == b"%d" % turns
            turns += 1
        assert turns >= 5
        assert min(taker.looked for taker in takers) > 1000  # they look in turns
        await settled(router)
        assert [taker.caught_up > 0 for taker in takers] == [True] * 3
        router.close()

    run(test())


def test_a_consumer_without_a_filter_does_not_wait_for_one_that_looks() -> None:
    async def test() -> None:
        router = Router()
        queue = router.make_queue("q")
        queue.put(*(item(b"x") for _ in range(5000)))
        looks, every = Taker(lambda body: False), Taker(None)
        queue.insert(looks, looks.view)
        queue.insert(every)
        assert looks.looked < 1000
        assert len(every.got) > 4000
        router.close()

    run(test())


def test_a_large_message_is_more_work() -> None:
    async def test() -> None:
        router = Router()
        queue = router.make_queue("q")
        queue.put(*(item(bytes(1 << 20)) for _ in range(50)))
        taker = Taker(lambda body: False)
        queue.insert(taker, taker.view)
        assert taker.looked < 20
        await settled(router)
        assert taker.looked == 50
        router.close()

    run(test())


@pytest.mark.parametrize("count", [10, AGAIN + 10])
def test_messages_that_come_back_go_to_those_who_want_them(count: int) -> None:
    async def test() -> None:
        router = Router()
        queue = router.make_queue("q")
        first, second = Taker(lambda body: body == b"r"), Taker(lambda body: body == b"r", room=0)
        queue.insert(first, first.view)
        queue.put(*(item(body) for _ in range(count) for body in (b"x", b"r")))
        await settled(router)
        assert len(first.got) == count
        queue.insert(second, second.view)
        second.left = 1
        queue.wake(second)
        await settled(router)  # it has seen all that there is: nothing for it
        assert not second.got
        second.left = 1 << 30
        queue.leave(first)
        for one in reversed(first.got):
            queue.back([one])
        await settled(router)
        assert len(second.got) == count
        assert queue.count == count
        queue.leave(second)
        router.close()

    run(test())


def test_a_browser_sees_everything_in_order_and_takes_nothing() -> None:
    async def test() -> None:
        router = Router()
        queue = router.make_queue("q", {"x-max-priority": 9})
        queue.put(item(b"1"))
        queue.put(item(b"9", priority=9))
        browser, filtered = Taker(lambda body: True, takes=False), Taker(lambda body: body > b"5", takes=False)
        for taker in (browser, filtered):
            queue.insert(taker, taker.view)
        assert browser.bodies == [b"9", b"1"]
        assert filtered.bodies == [b"9"]
        queue.put(item(b"2"))
        queue.put(item(b"8", priority=8))  # before what it has seen
        assert browser.bodies == [b"9", b"1", b"2", b"8"]
        assert filtered.bodies == [b"9", b"8"]
        assert queue.count == 4
        every = Taker(None)
        queue.insert(every)
        assert every.bodies == [b"9", b"8", b"1", b"2"]
        assert not any(one.redelivered for one in every.got)
        queue.put(item(b"7"))
        assert b"7" in every.bodies
        router.close()

    run(test())


def test_a_browser_goes_on_when_it_has_room() -> None:
    async def test() -> None:
        router = Router()
        queue = router.make_queue("q")
        queue.put(*(item(b"%d" % n) for n in range(10)))
        browser = Taker(lambda body: True, takes=False, room=3)
        queue.insert(browser, browser.view)
        assert browser.bodies == [b"0", b"1", b"2"]
        queue.take()
        queue.take()
        every = Taker(None, room=4)
        queue.insert(every)  # takes 2 to 5
        browser.left = 100
        queue.wake(browser)
        assert browser.bodies == [b"0", b"1", b"2", b"6", b"7", b"8", b"9"]
        router.close()

    run(test())


def test_what_a_consumer_does_not_take_comes_again() -> None:
    class Refusing(Taker):
        refuses = 2

        def deliver(self, queue: Queue, items: Sequence[Item], at: int) -> int:
            if self.refuses:
                self.refuses -= 1
                return 0
            return super().deliver(queue, items, at)

    async def test() -> None:
        for takes in (True, False):
            router = Router()
            queue = router.make_queue("q")
            queue.put(item(b"x"), item(b"1"), item(b"2"))
            taker = Refusing(lambda body: body != b"x", takes=takes)
            queue.insert(taker, taker.view)
            assert not taker.got
            assert queue.count == 3
            queue.wake(taker)
            queue.wake(taker)
            assert taker.bodies == [b"1", b"2"]
            assert queue.count == (1 if takes else 3)
            router.close()

    run(test())


def test_what_is_not_for_its_protocol() -> None:
    """A consumer with a filter: a dead letter, as without one. A browser: it stays."""

    class Unfit(Taker):
        def deliver(self, queue: Queue, items: Sequence[Item], at: int) -> int:
            if items[at].body == b"unfit":
                raise ConversionError("not for this protocol", rule="test")
            return super().deliver(queue, items, at)

    async def test() -> None:
        for takes, left in ((True, 0), (False, 2)):
            router = Router()
            queue = router.make_queue("q")
            taker = Unfit(lambda body: True, takes=takes)
            queue.insert(taker, taker.view)
            queue.put(item(b"unfit"), item(b"fit"))
            assert taker.bodies == [b"fit"]
            assert queue.count == left
            assert queue.dropped == (1 if takes else 0)
            router.close()

    run(test())


def test_expired_messages_are_not_delivered_from_the_middle() -> None:
    async def test() -> None:
        router = Router()
        queue = router.make_queue("q")
        queue.put(item(b"x"))
        queue.put(item(b"r", ttl=1))
        await asyncio.sleep(0.05)
        assert queue.count == 2  # only the head expires by itself
        taker = Taker(lambda body: body == b"r")
        queue.insert(taker, taker.view)
        assert not taker.got
        assert queue.count == queue.dropped == 1
        router.close()

    run(test())


def test_views_count_as_memory() -> None:
    async def test() -> None:
        router = Router(Limits(memory=100_000))
        queue = router.make_queue("q")
        takers = []
        while router.shares.bytes + VIEW <= 100_000:
            takers.append(Taker(lambda body: False))
            queue.check(takers[-1], takers[-1].view)
            queue.insert(takers[-1], takers[-1].view)
        with pytest.raises(Refusal, match="no space"):
            queue.check(takers[0], takers[0].view)
        assert 50 < len(takers) < 101
        for taker in takers[:10]:
            queue.leave(taker)
        router.delete_queue(queue)
        assert router.shares.bytes == 0
        router.close()

    run(test())


def test_a_browser_does_not_delete_a_queue_with_auto_delete() -> None:
    async def test() -> None:
        router = Router()
        queue = router.make_queue("q", auto_delete=True)
        browser = Taker(lambda body: True, takes=False)
        queue.insert(browser, browser.view)
        queue.leave(browser)
        assert not queue.gone
        taker = Taker(lambda body: True)
        queue.insert(taker, taker.view)
        queue.leave(taker)
        assert queue.gone
        router.close()

    run(test())


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.sampled_from(b"abcx"), min_size=1, max_size=5), st.integers(0, 2)),
        st.tuples(st.just("room"), st.integers(0, 5), st.integers(0, 4)),
        st.tuples(st.just("back"), st.integers(0, 5), st.integers(1, 4)),
        st.tuples(st.just("take"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@given(STEPS)
def test_nobody_misses_what_he_wants(steps: list[Any]) -> None:
    """Whatever comes, goes back and is taken: who has space has no message before him that he wants, and each message is in one
    place. A browser sees no message twice."""

    async def test() -> None:
        router = Router()
        queue = router.make_queue("q", {"x-max-priority": 2})
        takers = [
            Taker(lambda body: body[:1] in b"ab", room=0),
            Taker(lambda body: body[:1] in b"bc", room=0),
            Taker(lambda body: body[:1] == b"a", room=0),
            Taker(lambda body: body[:1] in b"ac", takes=False, room=0),
            Taker(lambda body: True, takes=False, room=1000),
        ]
        for taker in takers:
            queue.insert(taker, taker.view)
        sent: list[Item] = []
        gone = 0
        for step, what, number in steps:
            if step == "put":
                made = [item(bytes([letter]), priority=number) for letter in what]
                sent += made
                queue.put(*made)
            elif step == "take":
                gone += queue.take() is not None
            elif step == "room" and what < len(takers):
                takers[what].left += number
                queue.wake(takers[what])
            elif step == "back" and what < 3:
                returned, takers[what].got = takers[what].got[:number], takers[what].got[number:]
                queue.back(returned)
            await settled(router)
            held = [one for taker in takers[:3] for one in taker.got]
            assert len(held) + queue.count + gone == len(sent)
            assert len({id(one) for one in [*held, *queue.messages]}) == len(held) + queue.count
            for taker in takers[:3]:
                assert taker.wants is not None
                assert taker.left == 0 or not any(taker.wants(one.body) for one in queue.messages)
            for taker in takers[3:]:
                assert len({id(one) for one in taker.got}) == len(taker.got)
        assert [one.body for one in takers[4].got].count(b"x") == [one.body for one in sent].count(b"x")
        router.close()

    asyncio.run(test())
