"""Faults that the clients had once, to be planted again: the simulation of liveness must notice each.

`python -m lib.liveness_faults`, in the folder `tests`, plants all of them, one after the other, and writes which seed finds it
after how many steps; names as arguments: these only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

from .liveness_runs import violation_of, world_of


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault.

    Attributes:
        protocol: of the client that has it, or in whose simulation it is looked for.
        what: is wrong.
        plant: a context manager in which it is there.
        runs: it is found within so many.
        quick: within a second or two.
    """

    protocol: str
    what: str
    plant: Callable[[], AbstractContextManager[Any]]
    runs: int = 40
    quick: bool = False


def _instead(
    owner: Callable[[], Any], name: str, make: Callable[[Any], Any]
) -> Callable[[], AbstractContextManager[Any]]:
    """Plant: `make`, called with what the owner has under this name, returns what it has in its place. `owner` imports it."""

    @contextmanager
    def planted() -> Iterator[None]:
        there = owner()
        with patch.object(there, name, make(getattr(there, name))):
            yield

    return planted


def _both(*plants: Callable[[], AbstractContextManager[Any]]) -> Callable[[], AbstractContextManager[Any]]:
    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            for plant in plants:
                stack.enter_context(plant())
            yield

    return planted


def _module(name: str) -> Any:
    __import__(name)
    return sys.modules[name]


def _of(module: str, *path: str) -> Callable[[], Any]:
    def owner() -> Any:
        found = _module(module)
        for name in path:
            found = getattr(found, name)
        return found

    return owner


def _nothing(before: Any) -> Any:
    return lambda *_, **__: None


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda before: lambda *_, **__: value


# ---- all protocols


def _first_delay(before: Any) -> Any:
    return lambda self, attempt, random: before(self, 0, random)


def _one_waiter(before: Any) -> Any:
    async def wait(self: Any) -> None:
        self._waiters.clear()
        await before(self)

    return wait


# ---- AMQP 1.0


def _silent_quota(before: Any) -> Any:
    def send_quota(self: Any) -> int:
        waiting = self.waiting
        quota: int = before.__get__(self)
        self.waiting = waiting
        return quota

    return property(send_quota)


def _end_of_all(before: Any) -> Any:
    def session_ended(self: Any, host: Any, event: Any) -> None:
        if event.error is not None:
            host.driver.update(host.connection.close())

    return session_ended


def _accept_everything(before: Any) -> Any:
    def accept_of(self: Any, task: Any) -> None:
        for delivery in self._take_in_hand(lambda held: True):
            self.accept(delivery)

    return accept_of


def _wrong_error(before: Any) -> Any:
    def lost(self: Any) -> Exception:
        from wirefmt.errors import LocalProtocolError

        refused = (
            self.up.done() and not self.up.exception() and self.client._link is not self and self.event.by == "peer"
        )
        found: Exception = before(self)
        return LocalProtocolError("the connection is over") if refused else found

    return lost


def _without_credit(before: Any) -> Any:
    from wirefmt.amqp10.ends import End

    return lambda self: End.attached(self)


# ---- AMQP 0.9.1


def _limit_is_final(before: Any) -> Any:
    return lambda self, refused: refused.code == 530 or before(self, refused)


# ---- NSQ


def _no_touch(before: Any) -> Any:
    def init(self: Any, *args: Any, **more: Any) -> None:
        before(self, *args, **{**more, "touch": False})

    return init


def _found_once(before: Any) -> Any:
    def init(self: Any, consumer: Any, address: Any, found: bool = False) -> None:
        before(self, consumer, address)

    return init


def _ready_only(before: Any) -> Any:
    return lambda self, link: link.connection.ready_count


def _endless(before: Any) -> Any:
    return lambda self, messages, size: before(self, 1 << 62, 1 << 62)


# ---- MQTT


def _ends(before: Any) -> Any:
    async def restore_one(self: Any, link: Any, *_: Any, **__: Any) -> bool:
        self._reconnect = None
        link.driver.abort()
        return False

    return restore_one


def _keeps(before: Any) -> Any:
    def acknowledged(self: Any, event: Any) -> None:
        self.__dict__.setdefault("_kept", []).append(event.code)
        before(self, event)

    return acknowledged


# ---- RocketMQ, PHPMQ


def _waits_on(before: Any) -> Any:
    def handle(self: Any, event: Any) -> None:
        if type(event).__name__ != "TimedOut":
            before(self, event)

    return handle


def _consumes_once(before: Any) -> Any:
    def handle(self: Any, link: Any, event: Any) -> None:
        if type(event).__name__ == "Disconnected":
            self._consuming = None
        before(self, link, event)

    return handle


FAULTS: Final[dict[str, Fault]] = {
    "amqp10-window": Fault(
        "amqp10", "a sender that finds the window of its session closed does not learn that it is open again",
        _instead(_of("wirefmt.amqp10.sender", "Sender"), "send_quota", _silent_quota),
    ),
    "amqp10-session": Fault(
        "amqp10", "a server that ends a session for a bad link ends the connection",
        _instead(_of("wirefmt.amqp10.client", "Client"), "_session_ended", _end_of_all),
    ),
    "amqp10-workers": Fault(
        "amqp10", "of several tasks that wait at one receiver one is woken",
        _instead(_of("wirefmt.connection.client", "Receivers"), "wait", _one_waiter),
    ),
    "amqp10-settle": Fault(
        "amqp10", "a delivery is accepted when another task asks for the next one",
        _instead(_of("wirefmt.amqp10.client", "Receiver"), "_accept_of", _accept_everything),
        quick=True,
    ),
    "amqp10-refused-open": Fault(
        "amqp10", "open and close in one piece count as a mistake of the program",
        _instead(_of("wirefmt.amqp10.client", "_Host"), "lost", _wrong_error),
        quick=True,
    ),
    "amqp10-credit": Fault(
        "amqp10", "credit that the program has given is not given again on the next connection",
        _instead(_of("wirefmt.amqp10.client", "Receiver"), "attached", _without_credit),
    ),
    "amqp10-detached": Fault(
        "amqp10", "a link that the server refuses or detaches for a while is over",
        _instead(_of("wirefmt.amqp10.client", "Client"), "_can_pass", _always(False)),
    ),
    "amqp091-refusal": Fault(
        "amqp091", "a consumer whose queue is locked for a while is over",
        _instead(_of("wirefmt.amqp091.restoring"), "judge", _always(lambda refused: False)),
        quick=True,
    ),
    "amqp091-limit": Fault(
        "amqp091", "a virtual host at its limit of connections ends the client",
        _instead(_of("wirefmt.amqp091.client", "Client"), "_is_final", _limit_is_final),
        runs=100,
    ),
    "amqp091-auto-delete": Fault(
        "amqp091", "an auto-delete queue comes back without its consumer",
        _instead(_of("wirefmt.amqp091.topology", "Topology"), "_forget_unused", _nothing),
        runs=150,
    ),
    "amqp091-method": Fault(
        "amqp091", "a method that is larger than a frame is sent",
        _instead(_of("wirefmt.amqp091.endpoint", "Endpoint"), "_check_size", _nothing),
        quick=True,
    ),
    "amqp091-poison": Fault(
        "amqp091", "the consumer of a message that is larger than the client takes does not learn of it",
        _instead(_of("wirefmt.amqp091.client", "Client"), "_unreadable", _nothing),
        runs=100,
    ),
    "mqtt-refused-filter": Fault(
        "mqtt", "a subscription that is not granted again ends the client",
        _instead(_of("wirefmt.connection.client", "Client"), "_restore_one", _ends),
        runs=100,
    ),
    "mqtt-memory": Fault(
        "mqtt", "something is kept of each message",
        _instead(_of("wirefmt.mqtt.client", "Client"), "_acknowledged", _keeps),
    ),
    "nsq-touch": Fault(
        "nsq", "no TOUCH is sent, so a slow handler gets its message again",
        _instead(_of("wirefmt.nsq.consumer", "Consumer"), "__init__", _no_touch),
    ),
    "nsq-in-flight": Fault(
        "nsq", "max_in_flight holds for each connection by itself",
        _both(
            _instead(_of("wirefmt.nsq.consumer", "Consumer"), "_in_flight", _always(0)),
            _instead(_of("wirefmt.nsq.consumer", "Consumer"), "_held", _ready_only),
        ),
        runs=100,
        quick=True,
    ),
    "nsq-topic": Fault(
        "nsq", "a consumer makes a topic again that was deleted",
        _instead(_of("wirefmt.nsq.consumer", "_Server"), "__init__", _found_once),
    ),
    "nsq-deflate": Fault(
        "nsq", "what one read inflates to is worked off in one turn",
        _instead(_of("wirefmt.connection.carriers", "CarriedDecoder"), "begin", _endless),
    ),
    "back-off-amqp10": Fault(
        "amqp10", "waits do not grow while connections come up and end at once",
        _instead(_of("wirefmt.connection.aio", "Backoff"), "delay", _first_delay),
    ),
    "back-off-mqtt": Fault(
        "mqtt", "the same", _instead(_of("wirefmt.connection.aio", "Backoff"), "delay", _first_delay),
        quick=True,
    ),
    "journal": Fault(
        "mqtt", "a call whose message cannot be kept waits for ever",
        _instead(_of("wirefmt.mqtt.client", "Client"), "_not_kept", _nothing),
        quick=True,
    ),
    "rocketmq-timeout": Fault(
        "rocketmq", "a request that gets no response waits for ever",
        _instead(_of("wirefmt.rocketmq.remote", "Link"), "handle", _waits_on),
        quick=True,
    ),
    "phpmq-consume": Fault(
        "phpmq", "nothing is consumed after a reconnection",
        _instead(_of("wirefmt.phpmq.client", "Client"), "_handle", _consumes_once),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """Attributes:
    seed: of the run that noticed the fault.
    steps: of that run; and `all_steps`, with those of the runs before it.
    violation: what it says.
    """

    seed: int
    steps: int
    all_steps: int
    violation: str


def look_for(fault: Fault, first: int = 0) -> Found | None:
    """Plant it, and simulate until it is noticed. None: it is not."""
    make = world_of(fault.protocol)
    steps = 0
    with fault.plant():
        for seed in range(first, first + fault.runs):
            world = make(seed)
            error = violation_of(world)
            steps += world.steps
            if error is not None:
                return Found(seed, world.steps, steps, f"{type(error).__name__}: {error}".partition("\n")[0])
    return None


def main() -> int:
    missed = 0
    print("| fault | what is wrong | seed | steps |\n|---|---|---|---|")
    for name in sys.argv[1:] or FAULTS:
        fault = FAULTS[name]
        found = look_for(fault)
        missed += found is None
        seed, steps = (str(found.seed), f"{found.steps:,}") if found is not None else ("none", f"{fault.runs} runs")
        print(f"| {name} | {fault.what} | {seed} | {steps} |", flush=True)
        if found is not None:
            print(f"  {found.violation[:200]}", file=sys.stderr, flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
