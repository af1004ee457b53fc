"""Links: one direction of messages in a session (2.6)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from wirefmt.amqp10._codec import (
    Attach,
    Coordinator,
    Declared,
    Detach,
    Error,
    Flow,
    Map,
    Message,
    Received,
    TransactionalState,
    Transfer,
)
from wirefmt.amqp10.events import (
    CODES,
    FIRST,
    INVALID_FIELD,
    MASK,
    MESSAGE_SIZE_EXCEEDED,
    MIXED,
    NOT_ALLOWED,
    OUTCOMES,
    RESOURCE_LIMIT_EXCEEDED,
    SECOND,
    SETTLED,
    TRANSFER_LIMIT_EXCEEDED,
    UNSETTLED,
    Aborted,
    Attaching,
    Drained,
    DrainRequested,
    Event,
    Flowed,
    Incoming,
    LinkAttached,
    LinkDetached,
    Outgoing,
    Part,
    Settled,
    State,
    Updated,
    build,
)
from wirefmt.amqp10.states import LINK_RECEIVES, LINK_SENDS, LinkRole, LinkState, Outcome, Violation
from wirefmt.amqp10.terminus import Terminus, section_end
from wirefmt.connection.contract import Acknowledged, WindowOpened
from wirefmt.errors import LocalProtocolError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from wirefmt.amqp10.sessions import Session

#: Bytes that the other fields of an attach, and its unsettled map's frame, take at most: what remains is for the map.
ATTACH_ROOM: Final = 4096


class Fault(Exception):
    """The peer has broken a rule of a session or a link. The rest of the connection works on."""

    def __init__(self, condition: str, description: str, link: Link | None = None) -> None:
        super().__init__(description)
        self.link = link  # None: the session
        self.error = Error(condition=condition, description=description)


class Link:
    """One end of a link, in `session.links`. A `Sender` or a `Receiver`.

    Attributes:
        session: its session.
        name: its name; a sender and a receiver may have the same one.
        handle: our number for it; None: it is detached.
        state: the state (`LinkState`).
        source, target: the termini as attached: the one of the end that has it decides (2.6.3).
        snd_settle_mode, rcv_settle_mode: the modes agreed on.
        remote: the peer's attach, or None.
        terminus: what outlives the link, or None.
        incomplete: True: an unsettled map did not fit into a frame. No new messages can be sent; when the deliveries
            that are listed are settled, detach and attach again (2.7.3).
        available: messages that the sender has ready, as it says; None: it has not said.
        properties: of the last flow with some.
    """

    role: LinkRole
    sends: bool

    def __init__(self, session: Session, name: str) -> None:
        self.session = session
        self.name = name
        self.handle: int | None = None
        self.remote_handle: int | None = None
        self.source: Any = None
        self.target: Any = None
        self.snd_settle_mode = MIXED
        self.rcv_settle_mode = FIRST
        self.remote: Attach | None = None
        self.terminus: Terminus | None = None
        self.delivery_count = 0
        self.credit = 0
        self.available: int | None = None
        self.incomplete = False
        self.refused = False  # the peer's attach has no terminus: its detach follows
        self.attaching: Attaching | None = None
        self.gone = False  # LinkDetached has come, or has no need to come
        self.echo = False
        self.draining = False
        self.initial_delivery_count: int | None = None
        self.state = LinkState.DETACHED

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.state.value}>"

    def freeze(self) -> None:
        """Nothing more can be sent: the session or the connection is being ended."""
        self.attached = False

    @property
    def state(self) -> LinkState:
        return self._state

    @state.setter
    def state(self, state: LinkState) -> None:
        self._state = state
        self.attached = state is LinkState.ATTACHED

    # ---- for the host

    def detach(self, error: Error | None = None, *, closed: bool = True) -> None:
        """Detach the link. `LinkDetached` comes with the peer's answer.

        Args:
            error: why, if something is wrong.
            closed: False: the terminus stays, and the link may be attached again with it.

        Raises LocalProtocolError if the link is not attached.
        """
        self.check("detach")
        self.put_detach(error, closed)

    def check(self, kind: str) -> None:
        """Raises LocalProtocolError if this may not be sent now."""
        self.session.check(kind)
        transition = LINK_SENDS[self.role, self._state, kind]
        if isinstance(transition, Violation):
            raise LocalProtocolError(transition.rule, reply=transition.condition)

    def ask(self) -> None:
        """Ask the peer for its state of the link: a flow with echo."""
        self.check("flow")
        self.echo = True
        self.session.dirty[self] = None

    def take_handle(self, handle: int) -> None:
        self.handle = handle

    def wait(self, attaching: Attaching | None) -> None:
        """The host has to decide about an attach, or has decided."""
        self.session.connection.attaching += (attaching is not None) - (self.attaching is not None)
        self.attaching = attaching

    # ---- out

    def put_attach(self, fields: dict[str, Any], unsettled: Attach | None) -> None:
        """Attach, with the unsettled deliveries. `unsettled`: the peer's attach, if it has come."""
        session = self.session
        mine: dict[bytes, Any] | None = None
        if self.terminus is not None and (self.terminus.established or unsettled is not None):
            mine = self._unsettled_map()
        count: int | None = self.delivery_count if self.sends else None
        entries = mine
        while True:
            attach = build(
                Attach,
                name=self.name,
                handle=self.handle,
                role=not self.sends,
                initial_delivery_count=count,
                unsettled=None if entries is None else Map(entries),
                incomplete_unsettled=True if entries is not mine else None,
                channel=session.channel,
                **fields,
            )
            frame = attach.encode()
            limit = session.connection.frame_limit
            if len(frame) <= limit or not entries:
                break
            entries = dict(list(entries.items())[: len(entries) * limit // (2 * len(frame))])
        if len(frame) > session.connection.frame_limit:
            raise LocalProtocolError("the attach does not fit into a frame of the peer (2.7.1)")
        self.incomplete |= entries is not mine
        self.initial_delivery_count = self.delivery_count if self.sends else self.initial_delivery_count
        session.connection.put(frame)

    def _unsettled_map(self) -> dict[bytes, Any]:
        raise NotImplementedError

    def put_detach(self, error: Error | None, closed: bool) -> None:
        session = self.session
        session.flush()
        session.connection.put(
            build(Detach, handle=self.handle, closed=closed, error=error, channel=session.channel).encode()
        )
        if session.job is not None and session.job.link is self:
            session.job = None
        self.state = LinkState.DISCARDING if error is not None else LinkState.DETACH_SENT
        self.closed, self.error = closed, error

    closed = True
    error: Error | None = None

    def _fault(self, condition: str, description: str) -> Fault:
        return Fault(condition, description, self)

    # ---- in

    def receive(self, kind: str, message: Any, events: list[Event]) -> None:
        """A performative for this link, in any state."""
        transition = LINK_RECEIVES[self.role, self._state, kind]
        if isinstance(transition, Violation):
            of_link = transition.condition.startswith("amqp:link:")
            raise Fault(transition.condition, transition.rule, self if of_link else None)
        if transition is Outcome.DROPPED:
            if kind == "transfer":
                self.count_dropped(message)
            return
        match kind:
            case "flow":
                self.on_flow(message, events)
            case "transfer":
                self.on_transfer(message, events)
            case "detach":
                self.on_detach(message, events)

    def count_dropped(self, message: Transfer) -> None:
        """A transfer for a link that we have detached: its delivery-id is used up in any case."""
        if message.delivery_id is not None:
            self.session.last_remote_id = message.delivery_id

    def on_attach(self, message: Attach, events: list[Event]) -> None:
        """The peer's attach, ours has been sent."""
        self.remote = message
        self.remote_handle = message.handle
        if self._state is not LinkState.ATTACH_SENT:  # it has crossed our detach
            return
        self.state = LinkState.ATTACHED
        self.take_modes(message)
        self.source, self.target = message.source, message.target
        self.learn(message)
        if (message.target if self.sends else message.source) is None:
            self.refused = True  # 2.6.3: detach follows
            return
        events.append(LinkAttached(self, message))
        self.resume(message, events)

    def take_modes(self, message: Attach) -> None:
        """Each end decides about its own mode (2.7.3)."""
        if self.sends:
            self.rcv_settle_mode = message.rcv_settle_mode or FIRST
        else:
            self.snd_settle_mode = MIXED if message.snd_settle_mode is None else message.snd_settle_mode

    def learn(self, message: Attach) -> None:
        """What the peer's attach says of counting."""

    def resume(self, message: Attach, events: list[Event]) -> None:
        """Compare the unsettled maps (2.6.13)."""
        if self.terminus is not None:
            self.terminus.established = True
        self.incomplete |= bool(message.incomplete_unsettled)

    def on_flow(self, message: Flow, events: list[Event]) -> None:
        raise NotImplementedError

    def on_transfer(self, message: Transfer, events: list[Event]) -> None:
        raise Fault(NOT_ALLOWED, "a transfer to a sender (2.6.1)")

    def on_detach(self, message: Detach, events: list[Event]) -> None:
        session = self.session
        closed = bool(message.closed)
        if self._state is LinkState.ATTACH_RCVD:  # the host has not decided: the link is answered and over
            session.answer(self)
        if self.attached:
            session.flush()
            session.connection.put(Detach(handle=self.handle, closed=closed, channel=session.channel).encode())
            resumable, lost, returned = self.leave(closed, message.error)
            session.remove(self)
            events.append(LinkDetached(self, "peer", closed, message.error, message, resumable, lost, returned))
            return
        # ours has been sent: the two are answers to each other
        resumable, lost, returned = self.leave(self.closed or closed, self.error)
        session.remove(self)
        if not self.gone:
            events.append(
                LinkDetached(self, "local", self.closed or closed, self.error, message, resumable, lost, returned)
            )

    def fail(self, error: Error, events: list[Event]) -> None:
        """The peer has broken a rule of the link: detach it (2.6.5)."""
        if self._state is LinkState.ATTACH_RCVD:
            self.session.answer(self)
        self.put_detach(error, True)
        resumable, lost, returned = self.leave(True, error)
        self.gone = True
        events.append(LinkDetached(self, "local", True, error, None, resumable, lost, returned))

    def leave(
        self, closed: bool, error: Error | None
    ) -> tuple[tuple[Outgoing, ...], tuple[Outgoing, ...], tuple[Incoming, ...]]:
        """Take the link's deliveries out of the session: what is resumable, what is lost, what the host gets back."""
        raise NotImplementedError


class Sender(Link):
    """The end of a link that sends. Made by `session.sender`, or in an `Attaching` event.

    `WindowOpened` comes when `send` can go on; while the parts of a message are sent, when `send_more` can.

    `credit` is how many messages the receiver wants now; it can be negative after it has taken credit back.
    """

    role = LinkRole.SENDER
    sends = True

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(session, name)
        self.unsettled: dict[bytes, Outgoing] = {}
        self.open: Outgoing | None = None  # more parts of it will follow
        self.waiting = True  # the host has found the window closed, or will
        self.max_message_size = 0
        self._handle_bytes = b""
        self._number = 0
        self._resuming: deque[tuple[Outgoing, int, bool]] = deque()  # what is resumed: from where, and is it the end
        self._drained = False  # the answer to drain waits for transfers that are queued

    # ---- for the host

    @property
    def send_quota(self) -> int:
        """How many messages `send` takes now."""
        session = self.session
        if (
            not self.attached
            or self.credit <= 0
            or session.job is not None
            or session.remote_incoming_window <= 0
            or self.open is not None
            or self._resuming
            or self.incomplete
        ):
            return 0
        return max(min(self.credit, session.connection.options.unsettled - len(session.outgoing)), 0)

    def send(
        self,
        message: Message | Buffer,
        *,
        settled: bool | None = None,
        delivery_tag: bytes | None = None,
        message_format: int = 0,
        state: State = None,
        more: bool = False,
        batchable: bool = False,
    ) -> Outgoing:
        """Send a message, or with `more` the first part of it.

        Args:
            message: a message, or its encoded bytes.
            settled: True: no answer is wanted. None: as the link's mode says, and unsettled where both are possible.
            delivery_tag: up to 32 bytes, unique among the unsettled deliveries of the link; None: one is made.
            message_format: 0 for the messages of AMQP.
            state: a TransactionalState posts the message in a transaction (part 4, 4.4.1).
            more: True: `send_more` follows.
            batchable: the receiver need not hurry with its answer.

        Returns the handle. `Acknowledged` has it, unless it is settled; its message is the outcome, its code 0 if the
        delivery is accepted.

        Raises LocalProtocolError: there is no credit, the session's window is closed, the mode forbids it, or the message
        is larger than the receiver takes. Nothing was sent.
        """
        session = self.session
        payload = message.encode() if type(message) is Message else bytes(message)
        if not self.send_quota:
            self.check("transfer")
            self.waiting = True
            raise LocalProtocolError(self._why_not())
        if settled is None:
            settled = self.snd_settle_mode == SETTLED
        elif settled and self.snd_settle_mode == UNSETTLED:
            raise LocalProtocolError("the mode of the link is unsettled (2.8.2)")
        elif not settled and self.snd_settle_mode == SETTLED:
            raise LocalProtocolError("the mode of the link is settled (2.8.2)")
        if self.max_message_size and len(payload) > self.max_message_size:
            raise LocalProtocolError(
                f"the message has {len(payload)} bytes, the receiver takes {self.max_message_size} (2.7.3)",
                reply=MESSAGE_SIZE_EXCEEDED,
            )
        session.connection.check_pending(len(payload))
        terminus = self.terminus
        if delivery_tag is None:
            number, delivery_tag = terminus.take_number() if terminus is not None else self._take_number()
        else:
            if len(delivery_tag) > 32 or delivery_tag in self.unsettled:
                raise LocalProtocolError("a delivery-tag has up to 32 bytes and is unique (2.8.7, 2.7.5)")
            number, _ = terminus.take_number() if terminus is not None else self._take_number()
        delivery = Outgoing(self, number, delivery_tag, settled)
        delivery.message_format = message_format
        delivery.local = state
        delivery.size = len(payload)
        heads: bytes | Transfer
        if state is not None or batchable:
            heads = self._described_heads(delivery, batchable=batchable)  # checks the state
        else:
            heads = self._plain_heads(delivery)
        if not settled:
            self.unsettled[delivery_tag] = delivery
            if terminus is not None:
                delivery.payload = payload
                terminus.outgoing[delivery_tag] = delivery
                if not more:
                    session.connection.note(terminus, delivery_tag)
        if type(self.target) is Coordinator:
            session.flush()  # a discharge comes after the dispositions of its transaction (4.3)
        self._start(delivery, heads, payload, more)
        return delivery

    def send_more(self, delivery: Outgoing, payload: Buffer, *, more: bool) -> None:
        """The next part of a message that was begun with `more`, the last one with more=False.

        Raises LocalProtocolError if the message is not the open one of the link, or a part still waits for the window.
        """
        session = self.session
        self.check("transfer")
        if self.open is not delivery:
            raise LocalProtocolError("no part of this delivery is awaited")
        if session.job is not None:
            raise LocalProtocolError("the session's window is closed: a part still waits (2.5.6)")
        octets = bytes(payload)
        if self.max_message_size and delivery.size + len(octets) > self.max_message_size:
            raise LocalProtocolError(
                "the message is larger than the receiver takes (2.7.3)", reply=MESSAGE_SIZE_EXCEEDED
            )
        session.connection.check_pending(len(octets))
        delivery.size += len(octets)
        if delivery.payload is not None:
            delivery.payload += octets
        self._continue(delivery, octets, more)
        self.waiting |= session.job is not None
        if not more and self.terminus is not None and not delivery.settled:
            session.connection.note(self.terminus, delivery.delivery_tag)

    def abort(self, delivery: Outgoing) -> None:
        """Give up a message that was begun with `more`. Nothing is heard of it (2.7.5).

        Raises LocalProtocolError if it is not the open one, or a part still waits for the window.
        """
        session = self.session
        self.check("transfer")
        if self.open is not delivery or session.job is not None or session.remote_incoming_window <= 0:
            raise LocalProtocolError("no part of this delivery is awaited, or the window is closed")
        frame = Transfer(handle=self.handle, more=False, aborted=True, channel=session.channel).encode()
        session.connection.put(frame)
        session.count_sent()
        self._forget(delivery)
        self.open = None

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

    def _why_not(self) -> str:
        session = self.session
        if self.credit <= 0:
            return "the receiver has given no credit (2.6.7)"
        if self.open is not None:
            return "the parts of another message are not complete (2.6.14)"
        if self._resuming or self.incomplete:
            return "deliveries of an earlier link are being resumed (2.6.13)"
        if session.job is not None or session.remote_incoming_window <= 0:
            return "the session's window is closed (2.5.6)"
        return f"{len(session.outgoing)} deliveries are not settled"

    def _take_number(self) -> tuple[int, bytes]:
        while True:
            number = self._number
            self._number = number + 1
            tag = (number & MASK).to_bytes(4)
            if tag not in self.unsettled:
                return number, tag

    def _plain_heads(self, delivery: Outgoing) -> bytes:
        """The end of a first transfer's performative, from its tag on and without `more`."""
        tag, form = delivery.delivery_tag, delivery.message_format
        code = b"\x43" if not form else b"\x70" + form.to_bytes(4)
        return b"\xa0%c%b%b%b" % (len(tag), tag, code, b"\x41" if delivery.settled else b"\x42")

    def _described_heads(self, delivery: Outgoing, *, resume: bool = False, batchable: bool = False) -> Transfer:
        """A first transfer with fields that are rare; its delivery-id comes later."""
        made: Transfer = build(
            Transfer,
            handle=self.handle,
            delivery_id=MASK,
            delivery_tag=delivery.delivery_tag,
            message_format=delivery.message_format,
            settled=delivery.settled,
            more=True,
            state=delivery.local,
            resume=resume or None,
            batchable=batchable or None,
            channel=self.session.channel,
        )
        return made

    def _start(self, delivery: Outgoing, heads: bytes | Transfer, payload: bytes, more: bool) -> None:
        """The first frames of a delivery. It takes its delivery-id and its credit now."""
        session = self.session
        number = session.next_delivery_id
        session.next_delivery_id = (number + 1) & MASK
        delivery.delivery_id = number
        if not delivery.settled:
            session.outgoing.add(number, delivery)
        self.delivery_count = (self.delivery_count + 1) & MASK
        self.credit -= 1
        if isinstance(heads, bytes):
            fields = self._handle_bytes + b"\x70" + number.to_bytes(4) + heads
            head = b"\x00\x53\x14\xc0%c\x06%b" % (len(fields) + 2, fields)
            last, goes_on = head + b"\x42", head + b"\x41"
        else:
            last, goes_on = (self._again(heads, number, m) for m in (False, True))
        self.open = delivery if more else None
        session.write(self, delivery, payload, last, goes_on, more)
        if self.credit <= 0 or session.remote_incoming_window <= 0 or session.job is not None or more:
            self.waiting = True

    def _again(self, transfer: Transfer, number: int, more: bool) -> bytes:
        return Transfer(
            handle=transfer.handle,
            delivery_id=number,
            delivery_tag=transfer.delivery_tag,
            message_format=transfer.message_format,
            settled=transfer.settled,
            more=more,
            state=transfer.state,
            resume=transfer.resume,
            batchable=transfer.batchable,
        ).encode()[8:]

    def _continue(self, delivery: Outgoing, payload: bytes, more: bool) -> None:
        if not more:
            self.open = None
        last, goes_on = self.later_heads()
        self.session.write(self, delivery, payload, last, goes_on, more)

    def later_heads(self) -> tuple[bytes, bytes]:
        """Performatives of a later transfer: of the last one, and of those before it."""
        fields = self._handle_bytes + b"\x40\x40\x40\x40"
        head = b"\x00\x53\x14\xc0%c\x06%b" % (len(fields) + 2, fields)
        return head + b"\x42", head + b"\x41"

    def take_handle(self, handle: int) -> None:
        super().take_handle(handle)
        if handle == 0:
            self._handle_bytes = b"\x43"
        elif handle < 256:
            self._handle_bytes = b"\x52%c" % handle
        else:
            self._handle_bytes = b"\x70" + handle.to_bytes(4)

    def _put_drained(self) -> None:
        self._drained = False
        if self.credit > 0:
            self.delivery_count = (self.delivery_count + self.credit) & MASK
            self.credit = 0
        self.waiting = True
        self.session.dirty[self] = None

    def _unsettled_map(self) -> dict[bytes, Any]:
        assert self.terminus is not None
        return {tag: delivery.state for tag, delivery in self.terminus.outgoing.items()}

    def reopened(self, events: list[Event]) -> None:
        """Something that closes the window may have gone."""
        if self._resuming:
            self._resume_some()
        if self._drained and self.session.job is None and not self._resuming:
            self._put_drained()
        if not self.waiting:
            return
        # the next part of a message that has been begun needs no credit
        part = self.open is not None and self.session.job is None and self.attached
        if quota := 1 if part else self.send_quota:
            self.waiting = False
            events.append(WindowOpened(quota, self))

    # ---- in

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
        if not self.attached:
            return
        self.reopened(events)
        if self.draining:
            events.append(DrainRequested(self, max(self.credit, 0)))

    def on_disposition(self, delivery: Outgoing, settled: bool, state: State, events: list[Event]) -> bool:
        """The receiver tells the state of a delivery. True: we owe it a disposition that settles."""
        outcome = state.outcome if type(state) is TransactionalState else state
        if not settled and not (isinstance(outcome, OUTCOMES) or type(outcome) is Declared):
            if state == delivery.state:
                return False
            delivery.state = state
            if self.terminus is not None:
                self.session.connection.note(self.terminus, delivery.delivery_tag)
            events.append(Updated(delivery, state))
            return False
        if state is not None:
            delivery.state = state
        final = delivery.state.outcome if type(delivery.state) is TransactionalState else delivery.state
        delivery.settled = True
        self._forget(delivery)
        if self.open is delivery:  # the receiver knows enough: the rest need not be sent
            self.open = None
            if self.session.job is not None and self.session.job.delivery is delivery:
                self.session.job.more = False
            else:
                self.session.write(self, delivery, b"", *self.later_heads(), False)
        events.append(Acknowledged(delivery, delivery.state, CODES.get(type(final), 0)))
        return not settled

    def _forget(self, delivery: Outgoing) -> None:
        self.unsettled.pop(delivery.delivery_tag, None)
        if delivery.delivery_id is not None:
            self.session.outgoing.settle(delivery.delivery_id)
        if self.terminus is not None and self.terminus.outgoing.pop(delivery.delivery_tag, None) is not None:
            self.session.connection.unnote(self.terminus, delivery.delivery_tag)

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
                self._start(delivery, self._described_heads(delivery, resume=True), b"", False)
                self._forget(delivery)
                continue
            self.unsettled[delivery.delivery_tag] = delivery
            heads = self._described_heads(delivery, resume=True) if known else self._plain_heads(delivery)
            self._start(delivery, heads, delivery.payload[start:], False)

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


class Receiver(Link):
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
        self.unsettled: dict[bytes, Incoming] = {}
        self.window = 0
        self.streamed = False
        self.max_message_size = 0
        self._half = -1  # credit at which the window is renewed
        self._promised = 0  # messages that may still come: credit that was taken back may be used already
        self._partial: Incoming | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False  # the parts of this message are known
        self._resumed: dict[bytes, State] = {}  # deliveries of the terminus that the sender has to resume

    # ---- for the host

    def grant(self, credit: int) -> None:
        """Want so many messages from now on, in place of what was wanted before (2.6.7).

        Raises LocalProtocolError if the link is not attached or is being drained.
        """
        self.check("flow")
        if self.draining:
            raise LocalProtocolError("the sender has not answered drain (2.6.7)")
        if not 0 <= credit < 1 << 31:
            raise LocalProtocolError(f"credit is a number of 0 to 2147483647, not {credit}")
        self._grant(credit)

    def keep(self, window: int) -> None:
        """Give credit for so many messages, and renew it by itself as they are settled. 0: no more by itself."""
        self.check("flow")
        self.window = window
        self._half = window // 2 if window else -1
        if window and not self.draining:
            self.session.dirty[self] = None

    def drain(self) -> None:
        """Ask for what there is now; `Drained` follows, and the credit is 0. Until then no credit can be given.

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
        """Give credit again, if enough of the window is free."""
        want = self.window - len(self.unsettled)
        if self.draining or want <= self.credit or self.credit > self._half:
            return
        if want - self.credit > self.window // 2 or not self.credit:
            self.credit = want
            self._promised = max(self._promised, want)

    def _unsettled_map(self) -> dict[bytes, Any]:
        assert self.terminus is not None
        return dict(self.terminus.incoming)

    # ---- in

    def learn(self, message: Attach) -> None:
        if message.initial_delivery_count is None:
            raise Fault(INVALID_FIELD, "a sender gives initial-delivery-count (2.7.3)")
        self.delivery_count = self.initial_delivery_count = message.initial_delivery_count

    def on_flow(self, message: Flow, events: list[Event]) -> None:
        if message.available is not None:
            self.available = message.available
        count = message.delivery_count
        if count is not None:
            ahead = (count - self.delivery_count) & MASK
            if ahead < 1 << 31 and ahead:
                if ahead > self._promised + self.session.connection.options.overrun:
                    raise self._fault(TRANSFER_LIMIT_EXCEEDED, "delivery-count is beyond the credit given (2.6.7)")
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

    def on_transfer(self, message: Transfer, events: list[Event]) -> None:
        session = self.session
        partial = self._partial
        more = message.more
        if partial is None:
            number, tag = message.delivery_id, message.delivery_tag
            if number is None or tag is None or len(tag) > 32:
                raise Fault(INVALID_FIELD, "a first transfer has delivery-id and delivery-tag (2.7.5)")
            if session.last_remote_id is not None and number != (session.last_remote_id + 1) & MASK:
                raise Fault(INVALID_FIELD, "delivery-id does not follow the one before it (2.6.12)")
            session.last_remote_id = number
            if self._promised + session.connection.options.overrun <= 0:
                raise self._fault(TRANSFER_LIMIT_EXCEEDED, "a message without credit (2.6.7)")
            self._promised -= 1
            if self.credit > 0:
                self.credit -= 1
                if self.credit <= self._half:
                    session.dirty[self] = None
            self.delivery_count = (self.delivery_count + 1) & MASK
            if message.aborted:
                return  # all of it
            settled = message.settled is True
            if settled and self.snd_settle_mode == UNSETTLED:
                raise self._fault(NOT_ALLOWED, "a settled transfer, and the mode of the link is unsettled (2.8.2)")
            if message.rcv_settle_mode and self.rcv_settle_mode == FIRST:
                raise self._fault(INVALID_FIELD, "rcv-settle-mode second on a link of mode first (2.7.5)")
            delivery = Incoming(self, message, number, tag, settled)
            if message.resume:
                if tag not in self._resumed:
                    return  # 2.7.5: a resumed delivery that we do not know is ignored
                if self._resume_one(delivery, events):
                    return
            elif tag in self.unsettled:
                raise self._fault(NOT_ALLOWED, "the delivery-tag of an unsettled delivery (2.7.5)")
            if not more:
                if self.max_message_size and len(message.payload) > self.max_message_size:
                    raise self._fault(MESSAGE_SIZE_EXCEEDED, f"more than {self.max_message_size} bytes (2.7.3)")
                if not settled:
                    if self.snd_settle_mode == SETTLED:
                        raise self._fault(NOT_ALLOWED, "an unsettled transfer, and the mode is settled (2.8.2)")
                    self.unsettled[tag] = delivery
                    session.incoming.records[number] = delivery
                    if self.terminus is not None:
                        self._remember(delivery)
                if self.streamed:
                    events.append(Part(delivery, message.payload_bytes()))
                    delivery._joined = b""
                events.append(delivery)
                return
            self._partial = partial = delivery
            self._size = 0
            delivery.transfer = message.detach() if self.streamed else message
        else:
            number, tag = message.delivery_id, message.delivery_tag
            if (number is not None and number != partial.delivery_id) or (
                tag is not None and tag != partial.delivery_tag
            ):
                raise Fault(INVALID_FIELD, "another delivery-id or delivery-tag before the last part (2.7.5)")
            if self._skipping:
                if message.aborted or not more:
                    self._partial, self._skipping = None, False
                return
            if message.settled:
                partial.settled = True
        if message.aborted:
            self._drop_partial()
            events.append(Aborted(partial))
            return
        self._add(partial, message, events)
        if more:
            return
        self._partial = None
        if self.streamed:
            partial._joined = b""
        else:
            partial._joined = b"".join(self._parts)
            session.connection.unfinished -= self._size
            self._parts = []
        if not partial.settled:
            if partial.delivery_tag in self.unsettled:
                raise self._fault(NOT_ALLOWED, "the delivery-tag of an unsettled delivery (2.7.5)")
            self.unsettled[partial.delivery_tag] = partial
            session.incoming.records[partial.delivery_id] = partial
            if self.terminus is not None:
                self._remember(partial)
        events.append(partial)

    def _add(self, partial: Incoming, message: Transfer, events: list[Event]) -> None:
        """A part of a message."""
        connection = self.session.connection
        octets = message.payload_bytes()
        self._size += len(octets)
        if self.max_message_size and self._size > self.max_message_size:
            raise self._fault(MESSAGE_SIZE_EXCEEDED, f"more than {self.max_message_size} bytes (2.7.3)")
        if self.streamed:
            events.append(Part(partial, octets))
            return
        self._parts.append(octets)
        connection.unfinished += len(octets)
        if connection.unfinished > connection.options.unfinished_bytes:
            raise self._fault(RESOURCE_LIMIT_EXCEEDED, "more bytes of unfinished messages than are kept")

    def _drop_partial(self) -> None:
        if self._partial is not None:
            self._partial, self._skipping = None, False
            if not self.streamed:
                self.session.connection.unfinished -= sum(map(len, self._parts))
            self._parts = []

    def _remember(self, delivery: Incoming) -> None:
        terminus = self.terminus
        assert terminus is not None
        terminus.incoming[delivery.delivery_tag] = None
        terminus.undecided[delivery.delivery_tag] = delivery
        self.session.connection.note(terminus, delivery.delivery_tag)

    def settle(self, delivery: Incoming, state: State, settled: bool | None = None) -> None:
        """The host's answer to a delivery."""
        session = self.session
        if delivery.decided or delivery.transfer.settled:
            raise LocalProtocolError("the delivery has been answered, or wants no answer")
        if not self.attached or self.unsettled.get(delivery.delivery_tag) is not delivery:
            delivery.decided = True  # the sender has settled it, or its link is gone
            return
        if settled is None:
            mode = self.rcv_settle_mode
            if mode == SECOND and delivery.transfer.rcv_settle_mode is not None:
                mode = delivery.transfer.rcv_settle_mode
            settled = mode == FIRST
        delivery.decided = True
        delivery.state = state
        if settled:
            self.forget(delivery)
        elif self.terminus is not None:
            self.terminus.incoming[delivery.delivery_tag] = state
            self.terminus.undecided.pop(delivery.delivery_tag, None)
            session.connection.note(self.terminus, delivery.delivery_tag)
        session.decided.append((delivery.delivery_id, state, settled))

    def forget(self, delivery: Incoming) -> None:
        """A delivery is settled."""
        session = self.session
        delivery.settled = True
        del self.unsettled[delivery.delivery_tag]
        session.incoming.records.pop(delivery.delivery_id, None)
        if self.credit <= self._half:
            session.dirty[self] = None
        if self.terminus is not None:
            self.terminus.incoming.pop(delivery.delivery_tag, None)
            self.terminus.undecided.pop(delivery.delivery_tag, None)
            session.connection.unnote(self.terminus, delivery.delivery_tag)

    def settled_by_peer(self, delivery: Incoming, state: State, events: list[Event]) -> None:
        """The sender settles a delivery, in the state that it tells or in ours."""
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
        """The sender resumes a delivery. True: it is no event of its own."""
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
            session.decided.append((known.delivery_id, state, self.rcv_settle_mode == FIRST))
            if self.rcv_settle_mode == FIRST:
                self.forget(known)
        if delivery.transfer.more:
            self._partial, self._skipping = delivery, True
        return True

    def leave(
        self, closed: bool, error: Error | None
    ) -> tuple[tuple[Outgoing, ...], tuple[Outgoing, ...], tuple[Incoming, ...]]:
        session = self.session
        returned = [delivery for delivery in self.unsettled.values() if not delivery.decided]
        for delivery in self.unsettled.values():
            session.incoming.records.pop(delivery.delivery_id, None)
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
