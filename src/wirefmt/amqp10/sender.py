"""The end of a link that sends (2.6)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NoReturn

from wirefmt.amqp10._codec import (
    Attach,
    Error,
    Flow,
    Incoming,
    Map,
    Outgoing,
    Received,
    SenderFlows,
    Transfer,
    encode_value,
)
from wirefmt.amqp10.codes import ErrorCondition
from wirefmt.amqp10.events import CODES, MASK, OUTCOMES, SETTLED, DrainRequested, Event, Flowed, State, build
from wirefmt.amqp10.links import Fault, Link
from wirefmt.amqp10.states import LinkRole
from wirefmt.amqp10.terminus import section_end
from wirefmt.connection.contract import Acknowledged, WindowOpened
from wirefmt.errors import LocalProtocolError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from wirefmt.amqp10.sessions import Session

#: Bytes of a transfer before its payload, without its state, at most.
HEAD_CAPACITY: Final = 128


class Sender(Link, SenderFlows):
    """The end of a link that sends. Made by `session.sender`, or in an `Attaching` event.

    `WindowOpened` comes when `send` can go on, after `send_quota` was 0; while the parts of a message are sent, when `send_more`
    can, after `takes_part` was false.

    `credit` is how many messages the receiver wants now; it can be negative after it has taken credit back.
    """

    role = LinkRole.SENDER
    sends = True

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(session, name)
        self.waiting = True
        self._resuming = deque()  # (delivery, from which byte on, does the receiver know it); -1: it is only settled
        self._drained = False  # the answer to drain waits for transfers that are queued

    # ---- for the host

    @property
    def takes_part(self) -> bool:
        """True: `send_more` takes the next part of the open message now. False: `WindowOpened` comes once it does."""
        if self.open is not None and self.session.job is None and self.attached:
            return True
        self.waiting = True
        return False

    def send_more(self, delivery: Outgoing, payload: Buffer, *, more: bool) -> None:
        """The next part of a message that was begun with `more`, the last one with more=False.

        Raises LocalProtocolError if the message is not the open one of the link, or a part still waits for the window.
        """
        session = self.session
        self.check("transfer")
        if self.open is not delivery:
            raise LocalProtocolError("no part of this delivery is awaited")
        if not self.takes_part:
            raise LocalProtocolError("the session's window is closed: a part still waits (2.5.6)")
        octets = bytes(payload)
        if self.max_message_size and delivery.size + len(octets) > self.max_message_size:
            raise LocalProtocolError(
                "the message is larger than the receiver takes (2.7.3)", reply=ErrorCondition.LINK_MESSAGE_SIZE_EXCEEDED
            )
        session.connection.check_pending(len(octets))
        delivery.size += len(octets)
        if delivery.payload is not None:
            delivery.payload += octets
        self._continue(delivery, octets, more)
        _ = self.takes_part if more else self.send_quota
        if not more and self.terminus is not None and not delivery.settled:
            session.connection.note(self.terminus, delivery.delivery_tag)

    def abort(self, delivery: Outgoing) -> list[Event]:
        """Abort a message that was begun with `more`. It has no outcome (2.7.5).

        Returns `WindowOpened` of the links that waited for the quota of deliveries that are not settled.

        Raises LocalProtocolError if it is not the open one, or a part still waits for the window.
        """
        session = self.session
        self.check("transfer")
        if self.open is not delivery or session.job is not None or session.remote_incoming_window <= 0:
            self.waiting = True
            raise LocalProtocolError("no part of this delivery is awaited, or the window is closed")
        full = session.full
        frame = Transfer(
            handle=self.handle, more=False, aborted=True, state=delivery.local, channel=session.channel
        ).encode()
        session.connection.put(frame)
        session.next_outgoing_id = (session.next_outgoing_id + 1) & MASK
        session.remote_incoming_window -= 1
        self._forget(delivery)
        self.open = None
        events: list[Event] = []
        if full:
            session.reopen(events)
        return events

    def drained(self, available: int = 0) -> None:
        """Answer `drain`: there are no more messages now (2.6.7). The credit is used up.

        Args:
            available: messages that are ready in any case, for the receiver's information.
        """
        self.check("flow")
        self.available = available
        self._drained = True
        if self.session.job is None and not self._resuming:
            self._put_drained()

    def offer(self, available: int) -> None:
        """Tell the receiver how many messages are ready (2.6.7)."""
        self.check("flow")
        self.available = available
        self.session.dirty[self] = None

    # ---- out

    def _refuse_send(self) -> NoReturn:
        """`send` is refused: the state forbids it, or a window is closed."""
        self.check("transfer")
        session = self.session
        if self.credit <= 0:
            reason = "the receiver has given no credit (2.6.7)"
        elif self.open is not None:
            reason = "the parts of another message are not complete (2.6.14)"
        elif self._resuming or self.incomplete:
            reason = "deliveries of an earlier link are being resumed (2.6.13)"
        elif session.job is not None or session.remote_incoming_window <= 0:
            reason = "the session's window is closed (2.5.6)"
        else:
            reason = f"{len(session.outgoing)} deliveries are not settled"
        raise LocalProtocolError(reason)

    def _refuse_mode(self) -> NoReturn:
        mode = "settled" if self.snd_settle_mode == SETTLED else "unsettled"
        raise LocalProtocolError(f"the mode of the link is {mode} (2.8.2)")

    def _refuse_settled(self) -> NoReturn:
        raise LocalProtocolError(
            "a message to a coordinator is sent unsettled: its outcome is needed (part 4, 4.2, 4.3)"
        )

    def _refuse_size(self, size: int) -> NoReturn:
        raise LocalProtocolError(
            f"the message has {size} bytes, the receiver takes {self.max_message_size} (2.7.3)",
            reply=ErrorCondition.LINK_MESSAGE_SIZE_EXCEEDED,
        )

    def _refuse_tag(self) -> NoReturn:
        raise LocalProtocolError("a delivery-tag has up to 32 bytes and is unique (2.8.7, 2.7.5)")

    def _checked_tail(self, state: State, resume: bool, batchable: bool) -> bytes:
        """The fields of a first transfer from rcv-settle-mode on (2.7.5).

        Raises LocalProtocolError if the value is not a delivery state, or does not fit into a frame of the peer.
        """
        made = build(Transfer, handle=0, state=state, resume=resume or None, batchable=batchable or None)
        flags = [encode_value(flag or None) for flag in (resume, False, batchable)]
        encoded = encode_value(None) if made.state is None else made.state.encode()
        tail = b"".join((encode_value(None), encoded, *flags))
        if len(tail) + HEAD_CAPACITY > self.session.connection.frame_limit:
            raise LocalProtocolError("the state does not fit into a frame of the peer (2.7.1)")
        return tail

    def _keep(self, delivery: Outgoing, payload: bytes, more: bool) -> None:
        """Keep a new delivery in the Terminus."""
        terminus = self.terminus
        assert terminus is not None
        delivery.payload = payload
        terminus.outgoing[delivery.delivery_tag] = delivery
        if not more:
            self.session.connection.note(terminus, delivery.delivery_tag)

    def _forget_kept(self, delivery: Outgoing) -> None:
        """Remove a settled delivery from the Terminus."""
        terminus = self.terminus
        assert terminus is not None
        if terminus.outgoing.pop(delivery.delivery_tag, None) is not None:
            self.session.connection.unnote(terminus, delivery.delivery_tag)

    def _cut_short(self, delivery: Outgoing) -> None:
        """End a message whose parts are being sent: the receiver has settled it."""
        job = self.session.job
        if job is not None and job.delivery is delivery:
            self.open = None
            job.more = False
        else:
            self._continue(delivery, b"", False)

    def take_handle(self, handle: int) -> None:
        super().take_handle(handle)
        self._number_is(handle)

    def _put_drained(self) -> None:
        self._drained = False
        if self.credit > 0:
            self.delivery_count = (self.delivery_count + self.credit) & MASK
            self.credit = 0
        _ = self.send_quota  # there is none: the host waits
        self.session.dirty[self] = None

    def _unsettled_map(self) -> dict[bytes, Any]:
        assert self.terminus is not None
        return {tag: delivery.state for tag, delivery in self.terminus.outgoing.items()}

    def reopened(self, events: list[Event]) -> None:
        """Report `WindowOpened` if the host waits for it and messages can be sent again."""
        if self._resuming:
            self._resume_some()
        if self._drained and self.session.job is None and not self._resuming:
            self._put_drained()
        if not self.waiting:
            return
        # the next part of a message that has been begun needs no credit
        if quota := int(self.takes_part) or self.send_quota:
            self.waiting = False
            events.append(WindowOpened(quota, self))

    # ---- in

    def report(self, events: list[Event]) -> None:
        """Report what the receiver asks for. Its flow may have arrived before the attach was answered."""
        self.reopened(events)
        if self.draining:
            events.append(DrainRequested(self, max(self.credit, 0)))

    def learn(self, message: Attach) -> None:
        self.max_message_size = message.max_message_size or 0

    def on_flow(self, message: Flow, events: list[Event]) -> None:
        """2.6.7: link-credit := delivery-count(rcv) + link-credit(rcv) - delivery-count(snd)."""
        given = message.link_credit
        if given is not None:
            count = message.delivery_count
            base = self.initial_delivery_count or 0 if count is None else count
            ahead = (self.delivery_count - base) & MASK  # what the receiver had not seen when it wrote
            self.credit = given - (ahead if ahead < 1 << 31 else ahead - (1 << 32))
        self.draining = bool(message.drain)
        if message.properties is not None:
            events.append(Flowed(self, message))
        if message.echo:
            self.session.dirty[self] = None
        if self.attached:
            self.report(events)

    def on_transfer(self, message: Transfer, events: list[Event]) -> None:
        raise Fault(ErrorCondition.NOT_ALLOWED, "a transfer to a sender (2.6.1)")

    def resume(self, message: Attach, events: list[Event]) -> None:
        super().resume(message, events)
        terminus = self.terminus
        if terminus is None:
            return
        theirs: dict[bytes, Any] = {bytes(tag): state for tag, state in (message.unsettled or Map()).pairs}
        for tag, delivery in list(terminus.outgoing.items()):
            delivery.link = self
            if delivery.payload is None:
                delivery.payload = b""
            known = tag in theirs
            state = theirs.get(tag)
            if type(state) in OUTCOMES or type(delivery.state) in OUTCOMES:
                # The receiver has decided: only the settlement is missing, if it still waits for that.
                if type(delivery.state) not in OUTCOMES:
                    delivery.state = state
                    events.append(Acknowledged(delivery, state, CODES.get(type(state), 0)))
                self.session.connection.note(terminus, tag)
                if known:
                    self._resuming.append((delivery, -1, True))
                else:
                    del terminus.outgoing[tag]
                    delivery.settled = True
            elif known:
                start = 0
                if type(state) is Received:
                    start = section_end(delivery.payload, state.section_number or 0) + (state.section_offset or 0)
                self._resuming.append((delivery, min(start, len(delivery.payload)), True))
            elif not message.incomplete_unsettled:  # it has never arrived
                self._resuming.append((delivery, 0, False))
        self._resume_some()

    def _resume_some(self) -> None:
        """Send again what the receiver does not have, in order, as credit and window allow."""
        session = self.session
        while self._resuming and self.attached and self.credit > 0 and session.job is None:
            if session.remote_incoming_window <= 0 or len(session.outgoing) >= session.connection.options.unsettled:
                return
            delivery, start, known = self._resuming.popleft()
            assert delivery.payload is not None
            if start < 0:
                delivery.settled = True
                delivery.local = delivery.state
            else:
                self.unsettled[delivery.delivery_tag] = delivery
            tail = b""
            if known:
                try:
                    tail = self._checked_tail(delivery.local, True, False)
                except (
                    LocalProtocolError
                ):  # the state is too large; the receiver has sent it to us, so it can be left out
                    tail = self._checked_tail(None, True, False)
            self._start(delivery, tail, delivery.payload[max(start, 0) :] if start >= 0 else b"", False)
            if start < 0:
                self._forget(delivery)

    def leave(
        self, closed: bool, error: Error | None
    ) -> tuple[tuple[Outgoing, ...], tuple[Outgoing, ...], tuple[Incoming, ...]]:
        session = self.session
        if session.job is not None and session.job.link is self:
            session.job = None
        mine = list(self.unsettled.values())
        for delivery in mine:
            if delivery.delivery_id is not None:
                session.outgoing.settle(delivery.delivery_id)
                delivery.state = delivery.state  # the session may hold it as a range
                delivery.delivery_id = None
        self.unsettled.clear()
        self._resuming.clear()
        begun, self.open = self.open, None
        self.credit = 0
        terminus = self.terminus
        if terminus is not None:
            terminus.held = False
            lost: tuple[Outgoing, ...] = ()
            if begun is not None and terminus.outgoing.pop(begun.delivery_tag, None) is not None:
                lost = (begun,)  # its end is not known
            if not closed:
                return tuple(terminus.outgoing.values()), lost, ()
            mine = list(terminus.outgoing.values())
            for tag in list(terminus.outgoing):
                del terminus.outgoing[tag]
                session.connection.unnote(terminus, tag)
            terminus.established = False
            mine += lost
        return (), tuple(mine), ()
