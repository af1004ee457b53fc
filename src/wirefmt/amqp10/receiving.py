"""The end of a link of an AMQP 1.0 client on asyncio that receives."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wirefmt.amqp10._codec import Accepted, Error, Incoming, Source, TransactionalState
from wirefmt.amqp10.codes import ErrorCondition
from wirefmt.amqp10.ends import End, Parent, Transaction
from wirefmt.amqp10.events import Part, State
from wirefmt.amqp10.sessions import Session
from wirefmt.amqp10.sources import lacking
from wirefmt.connection import client as connecting
from wirefmt.connection.recovery import OnRefused
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

if TYPE_CHECKING:
    from typing import Self


#: A source that was asked for, and names of its filters: the server has to do both.
Checked = tuple[Source, frozenset[str]]


class Deliveries:
    """The deliveries of a receiver, one by one: `async for delivery in receiver`. Several iterators share them: each delivery
    goes to one."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        receiver = self._receiver
        try:
            return await receiver._next(id(self))
        except ConnectionLost:
            if receiver.closing is not None:
                raise StopAsyncIteration from None
            raise

    def __del__(self) -> None:
        self._receiver._let_go(id(self))


class _Held:
    """A delivery in hand: it is accepted when the one who has it asks for the next one.

    Attributes:
        delivery: the delivery.
        loop: the number of the loop over the deliveries; None: it comes from `receive`.
        task: the task that has received it.
        left: nobody has it any more: the loop is gone, or the task has ended.
    """

    __slots__ = ("delivery", "left", "loop", "task")

    def __init__(self, delivery: Incoming, loop: int | None, task: asyncio.Task[Any] | None) -> None:
        self.delivery = delivery
        self.loop = loop
        self.task = task
        self.left = False


class Receiver(End):
    """A link that receives, made by `Client.receiver`: `async for delivery in receiver`. Several tasks may receive: each
    delivery goes to one of them.

    With `settle="automatic"` a delivery that has no answer is accepted when the task that has it asks for the next one, or
    leaves the block of `async with` of the receiver or the client without an exception. What a loop had that was left, or a
    task that has ended, is accepted when the next one is asked for, or at once if another task waits. What a task has that ends
    with an exception is given back: `modified` with delivery-failed; if it was cancelled, `released`.

    A receiver with `streamed` gives `Part` objects before each delivery.
    """

    def __init__(
        self,
        client: Parent,
        name: str,
        source: Any,
        target: Any,
        credit: int,
        automatic: bool,
        streamed: bool,
        fields: dict[str, Any],
        on_refused: OnRefused | None = None,
        checked: Checked | None = None,
    ) -> None:
        super().__init__(client, name, on_refused)
        self._source = source
        self._checked = checked
        self._ignored: Refused | None = None  # the server has attached another link than was asked for
        self._target = target
        self._credit = credit
        self._automatic = automatic
        self._streamed = streamed
        self._fields = fields
        self._inbox: deque[Incoming | Part] = deque()
        self._receivers = connecting.Receivers()
        self._in_hand: list[_Held] = []
        self._watched: set[asyncio.Task[Any]] = set()
        self._granted = 0  # credit of `grant` that is not used
        self._drained: asyncio.Future[None] | None = None

    # ---- receiving

    def __aiter__(self) -> Deliveries:
        return Deliveries(self)

    async def receive(self) -> Any:
        """The next delivery. Raises what has ended the link."""
        return await self._next(None)

    async def _next(self, loop: int | None) -> Any:
        task = asyncio.current_task()
        self._accept_of(task)
        while not self._inbox:
            self.check()
            await self._receivers.wait()
        item = self._inbox.popleft()
        if self._automatic and isinstance(item, Incoming) and not item.settled:
            self._in_hand.append(_Held(item, loop, task))
            if task is not None and task not in self._watched:
                self._watched.add(task)
                task.add_done_callback(self._task_ended)
        return item

    def finish(self) -> None:
        self._accept_of(asyncio.current_task())

    def _accept_of(self, task: asyncio.Task[Any] | None) -> None:
        """Accept what this task has had, and what nobody has any more."""
        in_hand = self._in_hand
        if len(in_hand) == 1 and in_hand[0].task is task:  # one task, as in most programs
            delivery = in_hand.pop().delivery
            if not delivery.decided and not delivery.settled:
                self.accept(delivery)
        elif in_hand:
            for ended in [one for one in self._watched if one.done()]:
                self._task_ended(ended)  # its callbacks have not run yet
            for delivery in self._take_in_hand(lambda held: held.left or held.task is task):
                self.accept(delivery)

    def _take_in_hand(self, chosen: Callable[[_Held], bool]) -> list[Incoming]:
        """Remove some deliveries from those in hand. Returns those that have no answer."""
        taken = [held for held in self._in_hand if chosen(held)]
        if taken:
            self._in_hand = [held for held in self._in_hand if held not in taken]
        return [held.delivery for held in taken if not held.delivery.decided and not held.delivery.settled]

    def _leave_in_hand(self, chosen: Callable[[_Held], bool]) -> None:
        """Nobody has these deliveries any more. A task that waits has asked for the next one already."""
        for held in self._in_hand:
            held.left |= chosen(held)
        if self._receivers and any(held.left for held in self._in_hand):
            try:
                asyncio.get_running_loop().call_soon(self._accept_of, None)
            except RuntimeError:  # the garbage collector is outside of the event loop
                pass

    def _let_go(self, loop: int) -> None:
        """A loop over the deliveries has been left."""
        self._leave_in_hand(lambda held: held.loop == loop)

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._watched.discard(task)
        # not `task.exception()`: asyncio would not report the exception any more
        if task.cancelled():
            for delivery in self._take_in_hand(lambda held: held.task is task):
                self.release(delivery)
        elif getattr(task, "_exception", None) is not None:
            for delivery in self._take_in_hand(lambda held: held.task is task):
                self.modify(delivery, delivery_failed=True)
        else:
            self._leave_in_hand(lambda held: held.task is task)

    # ---- answers

    def accept(self, delivery: Incoming, *, transaction: Transaction | None = None) -> bool:
        """Accept a delivery. False: its link is gone, and the server delivers it again."""
        if transaction is not None:
            return self.settle(delivery, TransactionalState(txn_id=transaction.txn_id, outcome=Accepted()))
        return self._answer(delivery, lambda c: c.accept(delivery))

    def reject(self, delivery: Incoming, error: Error | None = None) -> bool:
        """Answer `rejected`: the message is invalid."""
        return self._answer(delivery, lambda c: c.reject(delivery, error))

    def release(self, delivery: Incoming) -> bool:
        """Answer `released`: the message was not processed and can be delivered again."""
        return self._answer(delivery, lambda c: c.release(delivery))

    def modify(self, delivery: Incoming, **fields: Any) -> bool:
        """Answer `modified`, with the fields `delivery_failed`, `undeliverable_here`, `message_annotations`."""
        return self._answer(delivery, lambda c: c.modify(delivery, **fields))

    def settle(self, delivery: Incoming, state: State, *, settled: bool | None = None) -> bool:
        """Answer with any state."""
        return self._answer(delivery, lambda c: c.settle(delivery, state, settled=settled))

    def _answer(self, delivery: Incoming, call: Any) -> bool:
        there: bool = delivery.link.attached
        call(delivery.link.session.connection)
        self.client._update()
        return there

    # ---- credit

    def grant(self, credit: int) -> None:
        """Set the credit: the number of messages that may arrive from now on. For receivers made with credit 0.

        What is left of it is given again when the link is attached again, also if it was given while there was no link.

        Raises LocalProtocolError while the sender has not answered `drain`, and for an invalid number; what has ended the link.
        """
        self.check()
        if self._drained is not None and not self._drained.done():
            raise LocalProtocolError("the sender has not answered drain (2.6.7)")
        if not 0 <= credit < 1 << 31:
            raise LocalProtocolError(f"credit is a number of 0 to 2147483647, not {credit}")
        self._granted = credit
        if self._is_up:
            self.link.grant(credit)
            self.client._update()

    async def drain(self) -> None:
        """Wait until the server has sent what it has for the credit given; then the credit is 0, or the window's again.

        If the link is attached again meanwhile, it is asked again, with the credit that is left. Raises what has ended the link.
        """
        self.check()
        if self._drained is None or self._drained.done():
            self._drained = asyncio.get_running_loop().create_future()
            self._ask_to_drain()
        await asyncio.shield(self._drained)

    @property
    def _is_up(self) -> bool:
        """True: credit can be given now; otherwise it is given when the link is attached."""
        return self.link is not None and self.link.attached and self.usable("flow")

    def _ask_to_drain(self) -> None:
        if self._drained is not None and not self._drained.done() and self._is_up:
            self.link.drain()
            self.client._update()

    def drained(self) -> None:
        self._granted = 0
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # ---- the link

    def attach(self, session: Session) -> None:
        self.link = session.receiver(
            self.name, self._source, self._target, window=self._credit, streamed=self._streamed, **self._fields
        )

    def attached(self) -> None:
        if self._checked is not None and (what := lacking(*self._checked, self.link.source)):
            self._ignored = Refused(
                f"{ErrorCondition.NOT_IMPLEMENTED}: the server ignores {what}",
                ErrorCondition.NOT_IMPLEMENTED,
                self.link.source,
            )
            self.leave()
            return
        super().attached()
        if self._granted and self._is_up:
            self.link.grant(self._granted)
            self.client._update()
        self._ask_to_drain()

    def arrive(self, item: Incoming | Part) -> None:
        if isinstance(item, Incoming) and self._granted:
            self._granted -= 1
        self._inbox.append(item)
        self._receivers.wake()

    def leave(self, closed: bool = True) -> asyncio.Future[None]:
        left = super().leave(closed)
        self._receivers.wake_all()
        return left

    def lost(self, error: Exception, *, final: bool) -> None:
        if self._ignored is not None:
            error, final = self._ignored, True
        self._in_hand.clear()
        if not final:  # they are delivered again
            again = [item for item in self._inbox if isinstance(item, Incoming) and not item.transfer.settled]
            if not self._credit:  # the program has not had what they have used
                self._granted += len(again)
            self._inbox = deque(item for item in self._inbox if isinstance(item, Incoming) and item.transfer.settled)
        super().lost(error, final=final)
        if final:
            if self._drained is not None:
                connecting.fail(self._drained, error)
            self._receivers.wake_all()
