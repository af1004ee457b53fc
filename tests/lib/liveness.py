"""Liveness, simulated: a client on asyncio under a virtual clock, beside a network and a server that do what they like.

A `World` is one run: a script of actions (of the program, the server and the network) that its seed makes, then everything is
well again, and the program must be served: `World.run` has the invariants. A protocol derives from `World`: it has the tables
of actions, the model server and the probes.

A step is one action of the script or one callback of the event loop.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

from wirefmt.connection.aio import Backoff
from wirefmt.connection.recovery import ConnectionDown, ConnectionUp, NotRestored, RecoveryEvent
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

from .held import held_by
from .virtual_disk import Disk
from .virtual_loop import Stuck, VirtualLoop, run_virtually
from .virtual_network import WHO, Dial, Wire

#: Seconds of the script, and how many actions it has.
SECONDS: Final = 20.0
ACTIONS: Final = 60
#: Seconds in which everything must go on once the server is well: a dead connection is noticed, back-off ends, calls return.
BOUND: Final = 90.0
#: What a call may raise beside a server, a network and a disk that fail.
FAILURES: Final = (Refused, ConnectionLost, OSError, asyncio.CancelledError)
#: Waits of the clients. They are short, so that a script sees several.
BACKOFF: Final = Backoff(first=0.1, most=2.0, stable=5.0)
#: Messages that must leave nothing behind.
MANY: Final = 100
#: Seconds without an attempt to connect, when all is well.
QUIET: Final = 20.0


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Action:
    """One line of a script: when, what, and the seed of its choices."""

    at: float
    name: str
    seed: int


class Call:
    """A call of the client that has not ended.

    Attributes:
        text: what it is.
        since: when it was made.
        task: what waits for it.
    """

    def __init__(self, text: str, since: float, task: asyncio.Task[Any]) -> None:
        self.text = text
        self.since = since
        self.task = task

    @property
    def place(self) -> str:
        """Where it waits, in wirefmt."""
        where: Any = self.task.get_coro()
        found = "?"
        while where is not None:
            frame = getattr(where, "cr_frame", None) or getattr(where, "gi_frame", None)
            if frame is not None and "wirefmt" in frame.f_code.co_filename:
                found = f"{frame.f_code.co_filename.rpartition('wirefmt/')[2]}:{frame.f_lineno}"
            where = getattr(where, "cr_await", None) or getattr(where, "gi_yieldfrom", None)
        return found


class World:
    """One run.

    Args:
        seed: of everything that is random.
        script: the actions; None: those that the seed makes.

    Attributes:
        log: what has happened, one line each.
        calls: those that have not ended.
        outcomes: message -> what the program knows of it: "waiting", "confirmed", "refused", "lost", "cancelled".
        arrivals: message -> how often the server has taken it.
        got: message -> how often the program has got it.
    """

    PROTOCOL: ClassVar[str]
    #: Action -> weight. `do_NAME` does it.
    HOST: ClassVar[dict[str, float]] = {}
    SERVER: ClassVar[dict[str, float]] = {}
    NETWORK: ClassVar[dict[str, float]] = {
        "reset": 2, "eof": 1, "freeze": 1.5, "vanish": 1, "refuse": 1, "silent": 0.5, "chop": 1, "slow": 1,
    }  # fmt: skip
    #: Ports of the servers.
    PORTS: ClassVar[tuple[int, ...]] = (7000,)
    #: Ports of one server that has several, if the client may have several URLs.
    CLUSTER: ClassVar[tuple[int, ...]] = ()

    def __init__(self, seed: int, script: Sequence[Action] | None = None) -> None:
        self.seed = seed
        self.random = Random(f"{self.PROTOCOL} {seed}")
        self.loop = VirtualLoop(Random(f"{self.PROTOCOL} {seed} loop"))
        self.network = self.loop.network
        self.network.high = self.random.choice((200, 3000, 1 << 16, 1 << 16))
        self.script = list(script) if script is not None else self._make_script()
        self.log: list[str] = []
        self.calls: list[Call] = []
        self.outcomes: dict[bytes, str] = {}
        self.arrivals: Counter[bytes] = Counter()
        self.got: Counter[bytes] = Counter()
        self.violations: list[str] = []
        self.healed = False
        self.done: Counter[str] = Counter()
        self.tasks: set[asyncio.Task[Any]] = set()  # of the program, beside its calls
        self._opened = False  # the last one has succeeded
        self._openings: list[list[float]] = []  # when the program has opened a client: from, to
        self._numbers = 0
        self._passing: set[Wire] = set()  # frozen for a time
        self.reconnect = BACKOFF if self.random.random() < 0.8 else None
        self.ports = self.CLUSTER if self.CLUSTER and self.random.random() < 0.4 else self.PORTS
        self.may_end = False  # the server refuses the client permanently
        self.disk = Disk()
        self.folder = Path()
        self.journal = self.random.random() < 0.3
        self.client: Any = None
        self.models: list[Any] = []  # by port

    def _make_script(self) -> list[Action]:
        table = {**self.HOST, **self.SERVER, **self.NETWORK}
        names = self.random.choices(list(table), list(table.values()), k=ACTIONS)
        times = sorted(self.random.random() * SECONDS for _ in names)
        return [Action(at, name, self.random.getrandbits(32)) for at, name in zip(times, names, strict=True)]

    # ---- what a protocol adds

    def make_client(self) -> Any:
        """A client that is not open."""
        raise NotImplementedError

    def urls(self, scheme: str) -> list[str]:
        """What the client gets."""
        return [f"{scheme}://127.0.0.1:{port}" for port in self.ports]

    def serves(self, client: Any) -> bool:
        """True: the client is open."""
        return not (client._ended or client._closing)

    async def open(self, client: Any) -> None:
        """Open the client."""
        await client.open()

    async def serve(self) -> None:
        """Start the servers."""
        raise NotImplementedError

    def begin(self) -> None:
        """The first client is open: the program begins."""

    def forget(self) -> None:
        """The program gives up what it has at a client that it closes."""

    async def prove(self) -> None:
        """Everything that the program has is usable: probe it."""

    async def prove_new(self) -> None:
        """New things can be made."""

    async def closed(self) -> None:
        """The client is closed: what waited at it has ended."""

    async def end_of(self, tasks: Iterable[asyncio.Task[Any]], seconds: float = 5.0) -> None:
        """Those that wait for messages of the client end, since it is closed."""
        if waiting := list(tasks):
            _, late = await asyncio.wait(waiting, timeout=seconds)
            if late:
                self.violate(f"{len(late)} tasks still wait for messages, and the client is closed")

    def check(self) -> None:
        """Further invariants, when all is closed."""

    # ---- the run

    @property
    def steps(self) -> int:
        return self.loop.steps + sum(self.done.values())

    def run(self) -> int:
        """Run it. Returns the number of steps. Raises Violation."""
        try:
            try:
                with self.disk.used(), self.loop.wall_clock(), TemporaryDirectory(prefix="wirefmt-") as folder:
                    self.folder = Path(folder)
                    run_virtually(self.loop, self._main())
            except Stuck as error:
                raise Violation(f"{error}; calls: {[call.text for call in self.calls]}") from error
            gc.collect(1)
            for context in self.loop.complaints:
                raise Violation(f"the exception handler was called: {context}") from context.get("exception")
        except Violation as error:
            # what the run holds would be reported as never retrieved
            self.calls.clear()
            error.add_note(f"{self.PROTOCOL}, seed {self.seed}, second {self.loop.now:.3f}, step {self.steps}")
            raise
        return self.steps

    async def _main(self) -> None:
        await self.serve()
        self.client = self.make_client()
        await self.within(self._open(), "to open the first client")
        self.begin()
        for action in self.script:
            wait = action.at - self.loop.now
            if wait > 0:
                await asyncio.sleep(wait)
            self.note(action.name)
            self.done[action.name] += 1
            getattr(self, f"do_{action.name}")(Random(action.seed))
            self._raise()
        self.note("heal")
        self.healed = True
        self.network.heal()
        for wire in self._passing:
            wire.thaw()
        self.disk.full = False
        for model in self.models:
            model.heal()
        await self.settle()
        await asyncio.sleep(QUIET)  # a connection that is dead is noticed, what was refused is asked for again
        await self._prove()
        self._check_dials()
        self.note("stop")
        await self.within(self.client.close(), "to close the client")
        await self.closed()
        for model in self.models:
            for server in model.servers:
                await self.within(server.close(), "to close the server")
            model.stop()
        for task in self.tasks:
            task.cancel()
        await asyncio.sleep(5.0)  # what is pending arrives
        self._check_messages()
        self.check()
        self._check_left()
        self._raise()

    async def _prove(self) -> None:
        if not self.serves(self.client):
            if self.reconnect is not None and self._opened and not self.may_end and self.client._error is not None:
                raise Violation(f"the client has ended: {self.client._error!r}") from self.client._error
            await self.within(self.open_again(), "to open again")
        self.note("prove")
        await self.prove()
        self._raise()
        await self.prove_new()
        await self.settle()
        before = len(self.network.dials)
        await asyncio.sleep(QUIET)
        self._raise()
        dials = [dial for dial in self.network.dials[before:] if dial.port in self.ports]
        if dials:
            raise Violation(f"{len(dials)} connections in {QUIET:g} s when all is well")

    async def open_again(self) -> None:
        """Close the client, and open a new one."""
        client = self.client
        self.forget()
        await client.close()
        if client is self.client:  # no other call has been faster
            self.client = self.make_client()
            await self._open()

    async def _open(self) -> None:
        opening = [self.loop.now, float("inf")]
        self._openings.append(opening)
        WHO.set(f"client {len(self._openings)}")
        self._opened = False
        try:
            await self.open(self.client)
            self._opened = True
        finally:
            opening[1] = self.loop.now

    def do_reopen(self, random: Random) -> None:
        """Close the client at any moment, and open a new one."""
        self.call("reopen", self.open_again())

    def _raise(self) -> None:
        if self.violations:
            raise Violation(self.violations[0])
        for context in self.loop.complaints:
            raise Violation(f"the exception handler was called: {context}") from context.get("exception")

    def violate(self, text: str) -> None:
        self.note(f"VIOLATION {text}")
        self.violations.append(text)

    def told(self, event: RecoveryEvent) -> None:
        """What the client says of its connections."""
        match event:
            case ConnectionDown():
                self.note(f"down, {event.wait if event.wait is None else round(event.wait, 3)} s: {event.error!r}")
            case NotRestored():
                self.note(f"not restored, {event.action}: {event.error!r}")
            case ConnectionUp():
                self.note(f"up, number {event.connections}")

    def note(self, text: str) -> None:
        if self.journal:
            text = text.replace(str(self.folder), "FOLDER")
        self.log.append(f"{self.loop.now:9.4f} {text}")

    async def settle(self) -> None:
        """Wait until all calls have ended."""
        until = self.loop.now + BOUND
        while self.calls and self.loop.now < until:
            await asyncio.wait([call.task for call in self.calls], timeout=until - self.loop.now)
            await asyncio.sleep(0)
            self._raise()
        if self.calls:
            late = ", ".join(f"{call.text} of second {call.since:.3f} at {call.place}" for call in self.calls[:5])
            raise Violation(f"{len(self.calls)} calls have not ended in {BOUND:g} s: {late}")

    async def within(self, work: Coroutine[Any, Any, Any], what: str, seconds: float = BOUND) -> Any:
        """The result, which must be there in time."""
        task = self.loop.create_task(work)
        done, _ = await asyncio.wait([task], timeout=seconds)
        self._raise()
        if not done:
            task.cancel()
            raise Violation(f"it takes more than {seconds:g} s {what}")
        if (error := task.exception()) is not None:
            raise Violation(f"{error!r} {what}") from error
        return task.result()

    async def sooner_or_later(
        self, make: Callable[[], Coroutine[Any, Any, Any]], what: str, seconds: float = BOUND
    ) -> Any:
        """The result of one of several calls, where a call may fail as the client's documentation says."""
        end = self.loop.now + seconds
        while True:
            try:
                async with asyncio.timeout(seconds):
                    return await make()
            except FAILURES as error:
                self.note(f"{error!r} {what}")
                if isinstance(error, asyncio.CancelledError) or self.loop.now > end:
                    raise Violation(f"{error!r} for {seconds:g} s {what}") from error
                await asyncio.sleep(1.0)

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = BOUND) -> None:
        """Wait until it is so."""
        end = self.loop.now + seconds
        wait = 0.01
        while not condition():
            self._raise()
            if self.loop.now > end:
                raise Violation(f"not within {seconds:g} s: {what}")
            await asyncio.sleep(wait)
            wait = min(wait * 2, 1.0)

    # ---- calls

    def call(
        self,
        text: str,
        work: Coroutine[Any, Any, Any],
        ended: Callable[[Any], None] | None = None,
        *,
        allowed: tuple[type[BaseException], ...] = FAILURES,
    ) -> Call:
        """Let the program make a call. `ended` gets its result, or its exception."""
        task = self.loop.create_task(work)
        call = Call(text, self.loop.now, task)
        self.calls.append(call)

        def done(task: asyncio.Task[Any]) -> None:
            if call in self.calls:
                self.calls.remove(call)
            result: Any = asyncio.CancelledError() if task.cancelled() else task.exception() or task.result()
            if isinstance(result, BaseException) and not isinstance(result, allowed):
                self.violate(f"{text} raises {result!r}")
            elif ended is not None:
                ended(result)

        task.add_done_callback(done)
        return call

    @property
    def journal_path(self) -> Path | None:
        return self.folder / "journal.db" if self.journal else None

    def program(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of the program that runs until it is cancelled."""
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.violate(f"a task of the program ends with {task.exception()!r}")

    def do_cancel_call(self, random: Random) -> None:
        if self.calls:
            call = random.choice(self.calls)
            self.note(f"cancel {call.text}")
            call.task.cancel()

    # ---- messages

    def message(self, random: Random, kind: str = "m") -> bytes:
        """The payload of a new message: its name comes first."""
        self._numbers += 1
        name = b"%s%d " % (kind.encode(), self._numbers)
        return name + bytes(random.choice((0, 0, 0, 20, 900)))

    @staticmethod
    def name(payload: Any) -> bytes:
        """Which message it is."""
        return bytes(payload).partition(b" ")[0]

    def _publish(self, random: Random) -> None:
        """Publish one message. Of a protocol that has `publish` and `burst` among its HOST."""
        raise NotImplementedError

    def do_publish(self, random: Random) -> None:
        for _ in range(random.randint(1, 5)):
            self._publish(random)

    def do_burst(self, random: Random) -> None:
        for _ in range(random.randint(10, 40)):
            self._publish(random)

    def publish(
        self, payload: bytes, text: str, work: Coroutine[Any, Any, Any], over: Callable[[], bool] = lambda: True
    ) -> None:
        """Let the program publish a message and wait for its outcome. `over`: may the outcome be unknown, though the client
        connects again?"""
        name = self.name(payload)
        self.outcomes[name] = "waiting"

        def ended(result: Any) -> None:
            if isinstance(result, asyncio.CancelledError):
                self.outcomes[name] = "cancelled"
            elif isinstance(result, Refused):
                self.outcomes[name] = "refused"
            elif isinstance(result, Exception):
                self.outcomes[name] = "lost"
                if self.reconnect is not None and isinstance(result, ConnectionLost) and not over():
                    self.violate(f"{text} {name!r} raises {result!r}, and the client connects again")
            else:
                self.outcomes[name] = "confirmed"
                if not self.arrivals[name]:
                    self.violate(f"{name!r} is confirmed, and the server has not taken it")

        self.call(f"{text} {name.decode()}", work, ended)

    def _check_messages(self) -> None:
        waiting = [name for name, outcome in self.outcomes.items() if outcome == "waiting"]
        if waiting:
            raise Violation(f"no outcome of {waiting[:5]}")

    async def prove_bounded(self, publish: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Nothing is left at the client of messages that are done."""
        before = held_by(self.client)
        for _ in range(MANY // 10):
            results = await asyncio.gather(*(publish() for _ in range(10)), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    self.violate(f"{result!r} for a message when all is well")
                    return
        await asyncio.sleep(1.0)
        more = held_by(self.client) - before
        if more > MANY // 2:
            self.violate(f"the client holds {more} things more after {MANY} messages")

    async def prove_full_disk(self, publish: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """While the journal cannot keep a message, its call raises; afterwards all goes on."""
        if not self.journal or self.reconnect is None:
            return
        self.note("the disk is full")
        self.disk.full = True
        task = self.loop.create_task(publish())
        done, _ = await asyncio.wait([task], timeout=30.0)
        if not done:
            task.cancel()
            self.violate("a message that the journal cannot keep waits for ever")
        elif task.exception() is None:
            self.violate("a message is published that the journal could not keep")
        self.disk.full = False
        self.note("the disk is well")
        await self.sooner_or_later(publish, "to publish when the disk is well")

    # ---- connections

    def _check_dials(self) -> None:
        """Nobody connects again before its back-off allows it."""
        backoff = self.reconnect
        if backoff is None:
            return
        last: dict[tuple[str, int], Dial] = {}
        attempts: Counter[tuple[str, int]] = Counter()
        useful: dict[str, list[float]] = {}  # when connections that have lasted had ended
        for dial in self.network.dials:
            if not dial.who:
                continue
            key = dial.who, dial.port
            before, last[key] = last.get(key), dial
            if dial.ended is not None and dial.ended - dial.time >= backoff.stable:
                useful.setdefault(dial.who, []).append(dial.ended)
            if before is None or before.ended is None or any(a <= dial.time <= b for a, b in self._openings):
                attempts[key] = -1
                continue
            lasted = any(before.time <= ended <= dial.time for ended in useful.get(dial.who, ()))
            attempts[key] = 0 if lasted else attempts[key] + 1
            least = min(backoff.most, backoff.first * backoff.factor ** attempts[key]) * (1 - backoff.jitter)
            if dial.time - before.ended < least - 1e-6:
                raise Violation(
                    f"connects again at second {dial.time:.3f}, {dial.time - before.ended:.3f} s after the end of the "
                    f"connection of {before.ended - before.time:.3f} s: back-off is at {least:g} s (attempt {attempts[key]})"
                )

    def _check_left(self) -> None:
        """Nothing is left of clients and servers."""
        if self.calls:
            raise Violation(f"calls are left: {[call.text for call in self.calls]}")
        mine = {asyncio.current_task(), *self.tasks}
        tasks = [task for task in asyncio.all_tasks() if task not in mine]
        if tasks:
            raise Violation(f"tasks are left: {tasks[:3]}")
        wires = [wire for wire in self.network.wires if not wire.client.lost]
        if wires:
            raise Violation(f"{len(wires)} transports are left")
        if self.network.open_sockets():
            raise Violation(f"{self.network.open_sockets()} sockets are left")
        timers = self.loop.timers()
        if timers:
            raise Violation(f"timers are left: {timers[:3]}")

    # ---- the network's actions

    def wire(self, random: Random) -> Wire | None:
        wires = [wire for wire in self.network.wires if wire.alive]
        return random.choice(wires) if wires else None

    def do_reset(self, random: Random) -> None:
        if wire := self.wire(random):
            wire.reset()

    def do_eof(self, random: Random) -> None:
        """The server's side ends its stream, after any byte."""
        if wire := self.wire(random):
            out = wire.server.out
            del out.buffer[random.randint(0, len(out.buffer)) :]
            wire.server.write_eof()

    def do_freeze(self, random: Random) -> None:
        """What one or both sides write stays where it is, for a time."""
        if wire := self.wire(random):
            wire.freeze(random.choice(("client", "server", "both")))
            self._passing.add(wire)

            def thaw() -> None:
                wire.thaw()
                self._passing.discard(wire)

            self.loop.call_later(random.choice((0.1, 1.0, 5.0)), thaw)

    def do_vanish(self, random: Random) -> None:
        """The network between both is gone, and nobody knows it."""
        if wire := self.wire(random):
            wire.freeze()

    def _for_a_while(self, random: Random, how: Any) -> None:
        port = random.choice(self.ports)
        self.network.refusing[port] = how
        self.loop.call_later(random.choice((0.3, 2.0, 5.0)), self.network.refusing.pop, port, None)

    def do_refuse(self, random: Random) -> None:
        self._for_a_while(random, "refuse")

    def do_silent(self, random: Random) -> None:
        self._for_a_while(random, "silent")

    def do_chop(self, random: Random) -> None:
        self.network.chop = random.choice((1, 3, 50, None, None))

    def do_slow(self, random: Random) -> None:
        self.network.slowness = random.choice((0.0, 0.002, 0.05, 0.5))

    # ---- the server's actions, as far as they are the same for all

    def model(self, random: Random) -> Any:
        return random.choice(self.models)

    def _until_later(self, random: Random, model: Any, **moods: Any) -> None:
        """The model is in this mood for a time."""
        for name, value in moods.items():
            before = getattr(type(model), name)
            setattr(model, name, value)
            self.loop.call_later(random.choice((0.5, 3.0)), setattr, model, name, before)

    def do_hold(self, random: Random) -> None:
        """Nothing is answered, for a time."""
        model = self.model(random)
        model.holding = True
        self.loop.call_later(random.choice((0.2, 2.0, 6.0)), model.release)

    def do_release(self, random: Random) -> None:
        self.model(random).release()

    def do_accept_and_drop(self, random: Random) -> None:
        """Connections are accepted, and dropped soon after."""
        self._until_later(random, self.model(random), drop_after=random.choice((0.0, 0.01, 0.1)))

    def do_swallow(self, random: Random) -> None:
        """Messages get no answer. Their connection does not live long."""
        self.model(random).swallow = random.randint(1, 3)

    def do_full_disk(self, random: Random) -> None:
        """Nothing can be written to the journal, for a time."""
        self.disk.full = True
        self.loop.call_later(random.choice((0.5, 3.0)), setattr, self.disk, "full", False)

    def do_restart(self, random: Random) -> None:
        """The server dies, and comes back with what it has kept, or with nothing."""
        model = self.model(random)
        for peer in model.peers():
            peer.driver.abort()
        wait = random.choice((0.1, 1.0, 3.0))
        for port in self.ports if len(self.models) == 1 else (self.ports[self.models.index(model)],):
            self.network.refusing[port] = "refuse"
            self.loop.call_later(wait, self.network.refusing.pop, port, None)
        if random.random() < 0.3:
            self.loop.call_later(0.05, model.lose_all)


class ModelServer:
    """The handler of a model server: a broker of `wirefmt.broker`, and what a script makes of it.

    Attributes:
        broker: the handler that serves.
        servers: those that run, one for each port.
        holding: True: events wait, so nothing is answered.
        drop_after: seconds until a connection that was accepted is dropped; None: it stays.
        swallow: messages that get no answer.
        tainted: peers that wait for an answer that never comes.
    """

    drop_after: float | None = None
    swallow = 0

    def __init__(self, world: Any, make: Callable[[], Any]) -> None:
        self.world = world
        self._make = make
        self.broker = make()
        self.servers: list[Any] = []
        self.holding = False
        self.tainted: set[Any] = set()
        self._held: deque[tuple[Any, Any]] = deque()  # the event None: the transport is gone
        self._behind: Counter[Any] = Counter()  # how many of them each peer has

    def handle(self, peer: Any, event: Any) -> None:
        if self.holding or self._behind[peer]:
            self._hold(peer, event)
        else:
            self.take(peer, event)

    def _hold(self, peer: Any, event: Any) -> None:
        self._held.append((peer, event))
        self._behind[peer] += 1

    def take(self, peer: Any, event: Any) -> None:
        """Do what the script wants, or let the broker serve."""
        self.broker.handle(peer, event)

    def writable(self, peer: Any) -> None:
        if not self.holding:
            self.broker.writable(peer)

    def closed(self, peer: Any) -> None:
        if self.holding or self._behind[peer]:
            self._hold(peer, None)
        else:
            self.broker.closed(peer)

    def accepted(self, peer: Any) -> None:
        """A connection is about to be accepted."""
        if self.drop_after is not None:
            self.world.loop.call_later(self.drop_after, peer.driver.abort)

    def swallows(self, peer: Any) -> bool:
        """True: this message gets no answer."""
        if not self.swallow:
            return False
        self.swallow -= 1
        self.tainted.add(peer)
        self.world.loop.call_later(3.0, peer.driver.abort)
        return True

    def release(self) -> None:
        self.holding = False
        while self._held and not self.holding:
            peer, event = self._held.popleft()
            self._behind[peer] -= 1
            if event is None:
                del self._behind[peer]
                self.broker.closed(peer)
                continue
            try:
                self.take(peer, event)
            except LocalProtocolError as error:
                if not any(
                    words in str(error) for words in ("is over", "has been sent")
                ):  # else nobody is there to answer
                    raise
        for peer in self.peers():
            self.broker.writable(peer)

    def lose_all(self) -> None:
        """Start again with nothing. There are no connections."""
        for peer in self.peers():
            peer.driver.abort()
        self.world.loop.call_later(0.01, self._begin_again)

    def _begin_again(self) -> None:
        self.release()
        if not self.peers():
            self.stop()
            self.broker = self._make()

    def heal(self) -> None:
        self.release()
        for name in vars(type(self)):
            if name in self.__dict__:
                delattr(self, name)
        for name in ("drop_after", "swallow"):
            self.__dict__.pop(name, None)
        for peer in self.peers():
            if peer in self.tainted:
                peer.driver.abort()

    def stop(self) -> None:
        """The server is closed, and does not come back."""
        close = getattr(self.broker, "close", None)
        if close is not None:
            close()

    def peers(self) -> list[Any]:
        """Those that are connected, in order."""
        drivers = [driver for server in self.servers for driver in server.drivers]
        found = [driver.host for driver in drivers if driver.transport is not None]
        return sorted(found, key=lambda peer: peer.address)
