"""Links: one direction of messages in a session (2.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wirefmt.amqp10._codec import Attach, Detach, Error, Flow, Incoming, Map, Outgoing, Transfer
from wirefmt.amqp10.events import FIRST, MIXED, Attaching, Event, LinkAttached, LinkDetached, build
from wirefmt.amqp10.states import LINK_RECEIVES, LINK_SENDS, LinkRole, LinkState
from wirefmt.amqp10.terminus import Terminus
from wirefmt.connection.states import Outcome, Violation
from wirefmt.errors import LocalProtocolError

if TYPE_CHECKING:
    from wirefmt.amqp10.sessions import Session


class Fault(Exception):
    """A violation by the peer that ends a session or a link. The rest of the connection continues."""

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
        available: messages that the sender has ready, as it has said, without those that arrived since; None: it has not said.
        properties: of the last flow with some.
    """

    role: LinkRole
    sends: bool
    available: int | None
    on_transfer: Callable[[Transfer, list[Event]], None]

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
        self.incomplete = False
        self.refused = False  # the peer's attach has no terminus: its detach follows
        self.attaching: Attaching | None = None
        self.gone = False  # LinkDetached has arrived, or will not come
        self.echo = False
        self.draining = False
        self.initial_delivery_count: int | None = None
        self.state = LinkState.DETACHED

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.state.value}>"

    def freeze(self) -> None:
        """Stop sending: the session or the connection is ending."""
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
        """Raise LocalProtocolError if this performative is not legal now."""
        self.session.check(kind)
        transition = LINK_SENDS[self.role, self._state, kind]
        if isinstance(transition, Violation):
            raise LocalProtocolError(transition.rule, reply=transition.reply)

    def ask(self) -> None:
        """Request the peer's state of the link with a flow that has `echo`."""
        self.check("flow")
        self.echo = True
        self.session.dirty[self] = None

    def take_handle(self, handle: int) -> None:
        self.handle = handle

    def wait(self, attaching: Attaching | None) -> None:
        """Store the event that waits for the host's decision; None: the host has decided."""
        self.session.connection.attaching += (attaching is not None) - (self.attaching is not None)
        self.attaching = attaching

    # ---- out

    def put_attach(self, fields: dict[str, Any], unsettled: Attach | None) -> None:
        """Send attach with the unsettled deliveries. `unsettled`: the peer's attach if it was received."""
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
        self.note_incomplete(entries is not mine)
        self.initial_delivery_count = self.delivery_count if self.sends else self.initial_delivery_count
        session.connection.put(frame)

    def note_incomplete(self, incomplete: bool) -> None:
        """Our attach was sent. `incomplete`: its unsettled map lists only some of the deliveries."""

    def _unsettled_map(self) -> dict[bytes, Any]:
        raise NotImplementedError

    def put_detach(self, error: Error | None, closed: bool, *, refused: bool = False) -> None:
        """Send detach. `refused`: the link was never attached: what the peer has sent after its attach is dropped."""
        session = self.session
        session.flush()
        session.connection.put(
            build(Detach, handle=self.handle, closed=closed, error=error, channel=session.channel).encode()
        )
        if session.job is not None and session.job.link is self:
            session.job = None
        failed = error is not None and self._state is LinkState.ATTACHED and not refused
        self.state = LinkState.ERRORED if failed else LinkState.DETACH_SENT
        self.closed, self.error = closed, error

    closed = True
    error: Error | None = None

    def _fault(self, condition: str, description: str) -> Fault:
        return Fault(condition, description, self)

    # ---- in

    def receive(self, kind: str, message: Any, events: list[Event]) -> None:
        """Handle a performative for this link in any state."""
        transition = LINK_RECEIVES[self.role, self._state, kind]
        if isinstance(transition, Violation):
            condition = str(transition.reply)
            of_link = condition.startswith("amqp:link:")
            raise Fault(condition, transition.rule, self if of_link else None)
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
        """Count a transfer for a link that we have detached: its delivery-id is used."""
        if message.delivery_id is not None:
            self.session.last_remote_id = message.delivery_id

    def on_attach(self, message: Attach, events: list[Event]) -> None:
        """Handle the peer's attach after ours was sent."""
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
        """Take the initial values of counters and limits from the peer's attach."""

    def resume(self, message: Attach, events: list[Event]) -> None:
        """Compare the unsettled maps (2.6.13)."""
        if self.terminus is not None:
            self.terminus.established = True
        self.incomplete |= bool(message.incomplete_unsettled)

    def on_flow(self, message: Flow, events: list[Event]) -> None:
        raise NotImplementedError

    def on_detach(self, message: Detach, events: list[Event]) -> None:
        full = self.session.full
        self._on_detach(message, events)
        if full:  # its deliveries do not count any more
            self.session.reopen(events)

    def _on_detach(self, message: Detach, events: list[Event]) -> None:
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
        """Detach the link because of a violation by the peer (2.6.5)."""
        session = self.session
        if self._state is LinkState.ATTACH_RCVD:
            session.answer(self)
        full = session.full
        self.put_detach(error, True)
        resumable, lost, returned = self.leave(True, error)
        self.gone = True
        events.append(LinkDetached(self, "local", True, error, None, resumable, lost, returned))
        if full:
            session.reopen(events)

    def leave(
        self, closed: bool, error: Error | None
    ) -> tuple[tuple[Outgoing, ...], tuple[Outgoing, ...], tuple[Incoming, ...]]:
        """Remove the link's deliveries from the session. Returns those that are resumable, lost, and returned to the host."""
        raise NotImplementedError
