"""The end of a link that receives (2.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from wirefmt.amqp10._codec import Attach, Disposition, Error, Flow, Incoming, Map, Outgoing, ReceiverFlows
from wirefmt.amqp10.codes import ErrorCondition
from wirefmt.amqp10.events import FIRST, MASK, OUTCOMES, Aborted, Drained, Event, Flowed, Part, Settled, State, build
from wirefmt.amqp10.links import Fault, Link
from wirefmt.amqp10.states import LinkRole
from wirefmt.errors import LocalProtocolError

if TYPE_CHECKING:
    from wirefmt.amqp10.sessions import Session

#: Rules of transfers whose violation detaches the link: the error condition, and the rule.
RULES: Final[dict[str, tuple[str, str]]] = {
    "credit": (ErrorCondition.LINK_TRANSFER_LIMIT_EXCEEDED, "a message without credit (2.6.7)"),
    "settled": (ErrorCondition.NOT_ALLOWED, "a settled transfer, and the mode of the link is unsettled (2.8.2)"),
    "unsettled": (ErrorCondition.NOT_ALLOWED, "an unsettled transfer, and the mode is settled (2.8.2)"),
    "rcv-settle-mode": (ErrorCondition.INVALID_FIELD, "rcv-settle-mode second on a link of mode first (2.7.5)"),
    "resume": (ErrorCondition.NOT_ALLOWED, "a new delivery, and our unsettled map was incomplete (2.7.3)"),
    "delivery-tag": (ErrorCondition.NOT_ALLOWED, "the delivery-tag of an unsettled delivery (2.7.5)"),
    "size": (ErrorCondition.LINK_MESSAGE_SIZE_EXCEEDED, "more bytes than max-message-size (2.7.3)"),
    "unfinished": (ErrorCondition.RESOURCE_LIMIT_EXCEEDED, "more bytes of unfinished messages than are kept"),
}
#: ... and those whose violation ends the session, because it counts deliveries.
RULES_OF_SESSIONS: Final[dict[str, tuple[str, str]]] = {
    "no delivery-id": (ErrorCondition.INVALID_FIELD, "a first transfer has delivery-id and delivery-tag (2.7.5)"),
    "delivery-id": (ErrorCondition.INVALID_FIELD, "delivery-id does not follow the one before it (2.6.12)"),
    "another delivery": (
        ErrorCondition.INVALID_FIELD,
        "another delivery-id or delivery-tag before the last part (2.7.5)",
    ),
}


class Receiver(Link, ReceiverFlows):
    """The end of a link that receives. Made by `session.receiver`, or in an `Attaching` event.

    `credit` is how many more messages we want.

    Attributes:
        window: credit that is renewed by itself as deliveries are settled (or come settled); 0: `grant` gives it.
        streamed: True: messages come in parts (`Part`) and are not held whole.
    """

    role = LinkRole.RECEIVER
    sends = False

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(session, name)
        self.window = 0

    # ---- for the host

    def grant(self, credit: int) -> None:
        """Set the credit: the number of messages that may arrive from now on (2.6.7).

        Raises LocalProtocolError if the link is not attached or is being drained.
        """
        self.check("flow")
        if self.draining:
            raise LocalProtocolError("the sender has not answered drain (2.6.7)")
        if not 0 <= credit < 1 << 31:
            raise LocalProtocolError(f"credit is a number of 0 to 2147483647, not {credit}")
        self._grant(credit)

    def keep(self, window: int) -> None:
        """Set the credit to `window` and renew it automatically as deliveries are settled. 0: stop renewing."""
        self.check("flow")
        self.window = window
        self._half = window // 2 if window else -1
        if window and not self.draining:
            self.session.dirty[self] = None

    def drain(self) -> None:
        """Ask the sender to use or return all credit; `Drained` follows, and the credit is 0. Until then no credit can be given.

        Raises LocalProtocolError if the link is not attached.
        """
        self.check("flow")
        self.draining = True
        self.session.dirty[self] = None

    # ---- out

    def _grant(self, credit: int) -> None:
        self.credit = credit
        self._promised = max(self._promised, credit)
        self.session.dirty[self] = None

    def renew(self) -> None:
        """Renew the credit if enough of the window is free."""
        want = self.window - len(self.unsettled)
        if self.draining or want <= self.credit or self.credit > self._half:
            return
        if want - self.credit > self.window // 2 or not self.credit:
            self.credit = want
            self._promised = max(self._promised, want)

    def note_incomplete(self, incomplete: bool) -> None:
        self._only_resumed = incomplete

    def _unsettled_map(self) -> dict[bytes, Any]:
        assert self.terminus is not None
        return dict(self.terminus.incoming)

    # ---- in

    def _broken(self, rule: str) -> Fault:
        """The Fault for a transfer that violates a rule."""
        if rule in RULES:
            return Fault(*RULES[rule], self)
        return Fault(*RULES_OF_SESSIONS[rule])

    def learn(self, message: Attach) -> None:
        if message.initial_delivery_count is None:
            raise Fault(ErrorCondition.INVALID_FIELD, "a sender gives initial-delivery-count (2.7.3)")
        self.delivery_count = self.initial_delivery_count = message.initial_delivery_count

    def on_flow(self, message: Flow, events: list[Event]) -> None:
        if message.available is not None:
            self.available = message.available
        count = message.delivery_count
        if count is not None:
            ahead = (count - self.delivery_count) & MASK
            if ahead < 1 << 31 and ahead:
                if ahead > self._promised + self.session.connection.options.overrun:
                    raise self._fault(
                        ErrorCondition.LINK_TRANSFER_LIMIT_EXCEEDED, "delivery-count is beyond the credit given (2.6.7)"
                    )
                self.delivery_count = count
                self.credit = max(self.credit - ahead, 0)
                self._promised -= ahead
        if message.properties is not None:
            events.append(Flowed(self, message))
        if message.echo:
            self.session.dirty[self] = None
        if self.draining and message.drain and not self.credit:
            self.draining = False
            events.append(Drained(self))
            if self.window:
                self.session.dirty[self] = None

    def _put_part(self, delivery: Incoming, octets: bytes, events: list[Event]) -> None:
        events.append(Part(delivery, octets))

    def _put_aborted(self, delivery: Incoming, events: list[Event]) -> None:
        events.append(Aborted(delivery))

    def _remember(self, delivery: Incoming) -> None:
        terminus = self.terminus
        assert terminus is not None
        terminus.incoming[delivery.delivery_tag] = None
        terminus.undecided[delivery.delivery_tag] = delivery
        self.session.connection.note(terminus, delivery.delivery_tag)

    def _refuse_answer(self) -> NoReturn:
        raise LocalProtocolError("the delivery has been answered, or wants no answer")

    def _check_state(self, state: State) -> None:
        """Raise LocalProtocolError if this is not a delivery-state, or is too large for a frame of the peer."""
        made = build(Disposition, role=True, first=MASK, last=MASK, settled=True, state=state)
        if len(made.encode()) > self.session.connection.frame_limit:
            raise LocalProtocolError("the state does not fit into a frame of the peer (2.7.1)")

    def _note_state(self, delivery: Incoming) -> None:
        """Keep the host's answer in the Terminus until the sender settles."""
        terminus = self.terminus
        assert terminus is not None
        terminus.incoming[delivery.delivery_tag] = delivery.state
        terminus.undecided.pop(delivery.delivery_tag, None)
        self.session.connection.note(terminus, delivery.delivery_tag)

    def _forget_kept(self, delivery: Incoming) -> None:
        """Remove a settled delivery from the Terminus."""
        terminus = self.terminus
        assert terminus is not None
        terminus.incoming.pop(delivery.delivery_tag, None)
        terminus.undecided.pop(delivery.delivery_tag, None)
        self.session.connection.unnote(terminus, delivery.delivery_tag)

    def settled_by_peer(self, delivery: Incoming, state: State, events: list[Event]) -> None:
        """The sender settles a delivery, with the state that it sends or else with ours."""
        self.forget(delivery)
        events.append(Settled(delivery, self, delivery.delivery_tag, delivery.state if state is None else state))

    def resume(self, message: Attach, events: list[Event]) -> None:
        super().resume(message, events)
        terminus = self.terminus
        if terminus is None:
            return
        theirs = {bytes(tag) for tag, _ in (message.unsettled or Map()).pairs}
        for tag, state in list(terminus.incoming.items()):
            if tag in theirs:
                self._resumed[tag] = state
            elif not message.incomplete_unsettled:  # 2.6.13: the sender has settled it
                del terminus.incoming[tag]
                delivery = terminus.undecided.pop(tag, None)
                self.session.connection.unnote(terminus, tag)
                events.append(Settled(delivery, self, tag, state))

    def _resume_one(self, delivery: Incoming, events: list[Event]) -> bool:
        """Handle a resumed delivery. True: it makes no `Incoming` event."""
        terminus, session = self.terminus, self.session
        assert terminus is not None
        tag = delivery.delivery_tag
        state = self._resumed.pop(tag)
        if delivery.settled:
            terminus.incoming.pop(tag, None)
            before = terminus.undecided.pop(tag, None)
            session.connection.unnote(terminus, tag)
            events.append(Settled(before, self, tag, state if state is not None else delivery.remote_state))
            return True
        before = terminus.undecided.get(tag)
        if before is None and type(state) not in OUTCOMES:
            return False  # it comes anew
        # The host has it: it goes on under its new delivery-id, and what comes again is not needed.
        known = before if before is not None else delivery
        known.link, known.delivery_id, known.transfer = self, delivery.delivery_id, known.transfer
        self.unsettled[tag] = known
        session.incoming.records[known.delivery_id] = known
        if before is None:
            known.decided, known.state = True, state
            session.decided.add(known.delivery_id, state, self.rcv_settle_mode == FIRST)
            if self.rcv_settle_mode == FIRST:
                self.forget(known)
        if delivery.transfer.more:
            self._skip(delivery)
        return True

    def leave(
        self, closed: bool, error: Error | None
    ) -> tuple[tuple[Outgoing, ...], tuple[Outgoing, ...], tuple[Incoming, ...]]:
        session = self.session
        returned = [delivery for delivery in self.unsettled.values() if not delivery.decided]
        for delivery in self.unsettled.values():
            session.incoming.records.pop(delivery.delivery_id, None)
        if self.unsettled:
            session.flow_due = True  # the session's window may open again
        self.unsettled.clear()
        self._drop_partial()
        self.credit = self._promised = 0
        self._resumed.clear()
        terminus = self.terminus
        if terminus is not None:
            terminus.held = False
            if closed:
                for tag in list(terminus.incoming):
                    del terminus.incoming[tag]
                    session.connection.unnote(terminus, tag)
                terminus.undecided.clear()
                terminus.established = False
            else:
                returned = []  # they wait in the terminus
        return (), (), tuple(returned)
