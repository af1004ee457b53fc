"""The faults of one broker: those that are active, and their beginning and end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, Final

from wirefmt.broker.faults.connection import FaultyConnection
from wirefmt.broker.faults.fault import Fault
from wirefmt.broker.faults.protocols import PROTOCOLS
from wirefmt.errors import LocalProtocolError

if TYPE_CHECKING:
    from wirefmt.connection.aio import Driver

#: Seconds for which `reorder` waits for other clients.
REORDER_WAIT: Final = 0.5


class Active:
    """A fault that has begun and has not ended.

    Attributes:
        fault: its values.
        taken: messages that clients have published since it began.
        happened: how often it has had an effect.
        waiting: `reorder`: the connections that wait, in the order in which they have sent data.
        kept: `full`, AMQP 0.9.1: events that wait for the end of the fault, by peer. The first one is a message.
    """

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.taken = 0
        self.happened = 0
        self.waiting: list[FaultyConnection] = []
        self.kept: dict[Any, list[Any]] = {}
        self.timer: asyncio.TimerHandle | None = None


class Faults:
    """The faults of a broker.

    Attributes:
        active: active faults, by protocol.
        seed: the seed of all randomness. It is printed to standard error when it is first used, if it was chosen at random.
        random: the generator with this seed.

    Args:
        drivers: returns the drivers of a protocol's connections.
        seed: None: chosen at random.
    """

    def __init__(self, drivers: Callable[[str], Iterable[Driver]], seed: int | None = None) -> None:
        self.active: dict[str, list[Active]] = {name: [] for name in PROTOCOLS}
        self._drivers = drivers
        self._reported = seed is not None
        self.sow(SystemRandom().randrange(1 << 32) if seed is None else seed)

    def sow(self, seed: int) -> None:
        """Start the generator again with this seed."""
        self.seed = seed
        self.random = Random(seed)

    def accept(self, name: str, driver: Driver) -> None:
        """Called for each new driver."""
        if self.active[name]:
            self._connection(name, driver)

    def _connection(self, name: str, driver: Driver) -> FaultyConnection:
        """Put a FaultyConnection between driver and connection, once. It stays."""
        connection: Any = driver.connection
        if isinstance(connection, FaultyConnection):
            return connection
        driver.connection = made = FaultyConnection(connection, name, driver, self)
        return made

    def start(self, fault: Fault) -> Active:
        """Begin a fault."""
        if (fault.reorder or fault.corrupt) and not self._reported:
            self._reported = True
            print(f"wirefmt: the seed of faults is {self.seed}", file=sys.stderr)
        active = Active(fault)
        for name in self._names(fault):
            self.active[name].append(active)
            for connection in self._of(name):
                connection.begin()
        return active

    def stop(self, active: Active) -> None:
        """End a fault. What it held goes on; a connection that it dropped stays dropped."""
        if active.timer is not None:
            active.timer.cancel()
        for name in self._names(active.fault):
            if active not in self.active[name]:
                continue
            self.active[name].remove(active)
            for connection in self._of(name):
                if active.fault.full and PROTOCOLS[name].full is None:
                    self._unblock(name, connection.driver)
                connection.end(active)
        kept, active.kept = active.kept, {}
        for peer, events in kept.items():
            peer.driver.update(events)
            if not any(peer in other.kept for others in self.active.values() for other in others):
                peer.driver.resume()

    def _unblock(self, name: str, driver: Driver) -> None:
        """Tell a client that it may publish again, unless another fault blocks it."""
        if any(other.fault.full for other in self.active[name]):
            return
        connection: Any = driver.connection
        try:
            connection.unblock()
            driver.update()
        except LocalProtocolError:
            pass  # the connection is not open

    @contextmanager
    def fault(self, protocol: str = "*", **values: Any) -> Iterator[Active]:
        """Faults that are active while the block runs. Raises ValueError for an invalid value."""
        active = self.start(Fault.of({"protocol": protocol, **values}))
        try:
            yield active
        finally:
            self.stop(active)

    def hold(self, active: Active, connection: FaultyConnection) -> None:
        """`reorder`: let a connection wait until enough others have sent data."""
        if connection not in active.waiting:
            active.waiting.append(connection)
        if len(active.waiting) >= (active.fault.reorder or 0):
            self._hear(active)
        elif active.timer is None:
            active.timer = asyncio.get_running_loop().call_later(REORDER_WAIT, self._hear, active)

    def _hear(self, active: Active) -> None:
        """Pass on what the waiting connections have received, in another order."""
        if active.timer is not None:
            active.timer.cancel()
            active.timer = None
        arrived, active.waiting = active.waiting, []
        order = list(arrived)
        while len(order) > 1 and order == arrived:
            self.random.shuffle(order)
        active.happened += len(order) > 1
        now = asyncio.get_running_loop().time()
        for connection in order:
            try:
                connection.driver.update(connection.hear(now))
            except LocalProtocolError:
                pass  # the connection has ended meanwhile

    def _names(self, fault: Fault) -> tuple[str, ...]:
        return tuple(PROTOCOLS) if fault.protocol == "*" else (fault.protocol,)

    def _of(self, name: str) -> list[FaultyConnection]:
        return [self._connection(name, driver) for driver in list(self._drivers(name))]


def block(driver: Driver, active: Active) -> None:
    """AMQP 0.9.1, an extension of RabbitMQ: tell a client that it should not publish."""
    connection: Any = driver.connection
    try:
        if connection.block(f"low on {active.fault.full}"):
            driver.update()
    except LocalProtocolError:
        pass  # the connection is not open
