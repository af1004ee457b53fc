"""Sessions: two windows, and the links inside (2.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

from wirefmt.amqp10._codec import (
    Attach,
    Begin,
    Coordinator,
    End,
    Error,
    Flow,
    Incoming,
    Outgoing,
    SessionFlows,
    Source,
    Target,
)
from wirefmt.amqp10.codes import ErrorCondition
from wirefmt.amqp10.events import (
    MASK,
    UNLIMITED,
    Attaching,
    Event,
    Flowed,
    SessionBegun,
    SessionEnded,
    State,
    Updated,
    build,
)
from wirefmt.amqp10.links import Fault, Link
from wirefmt.amqp10.receiver import Receiver
from wirefmt.amqp10.reported import Named, Reported
from wirefmt.amqp10.sender import Sender
from wirefmt.amqp10.states import SESSION_RECEIVES, SESSION_SENDS, LinkState, SessionState
from wirefmt.amqp10.terminus import Terminus
from wirefmt.connection.outstanding import Outstanding
from wirefmt.connection.states import Outcome, Violation
from wirefmt.errors import LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    from wirefmt.amqp10.endpoint import Endpoint


#: Rules of transfers and dispositions whose violation ends the session: the error condition, and the rule.
RULES: Final[dict[str, tuple[str, str]]] = {
    "window": (ErrorCondition.SESSION_WINDOW_VIOLATION, "a transfer beyond the incoming-window (2.5.6)"),
    "transfer without link": (
        ErrorCondition.SESSION_UNATTACHED_HANDLE,
        "a transfer on a handle without a link (2.6.2)",
    ),
    "range": (ErrorCondition.SESSION_WINDOW_VIOLATION, "a disposition whose last comes before its first (2.7.6)"),
}


class Session(SessionFlows):
    """One session, in `connection.sessions`. Made by `connection.begin`, or by the peer (`SessionBegun`).

    Attributes:
        connection: its connection.
        channel: our number for it.
        remote_channel: the peer's; None: its begin has not arrived.
        links: our links by our handle.
        remote: the peer's begin, or None.
        state: the state (`SessionState`).
        next_outgoing_id, next_incoming_id, incoming_window, remote_incoming_window, remote_outgoing_window: of 2.5.6.
    """

    connection: Endpoint[Any]

    def __init__(self, connection: Endpoint[Any], channel: int, next_outgoing_id: int) -> None:
        self.connection = connection
        self.channel = channel
        self.remote_channel: int | None = None
        self.links: dict[int, Link] = {}
        self.remote: Begin | None = None
        self.error: Error | None = None
        self.gone = False
        self.initial_outgoing_id = self.next_outgoing_id = next_outgoing_id
        self.next_delivery_id = next_outgoing_id
        self.incoming_window = min(connection.options.incoming_window, connection.options.unsettled)
        self.outgoing: Outstanding[int, Outgoing] = Outstanding(32)
        self.incoming: Outstanding[int, Incoming] = Outstanding(32)
        self.handle_max = connection.options.links - 1
        self._half = self.incoming_window // 2
        self._turn = 0
        self._names: dict[tuple[str, bool], Link] = {}
        self.state = SessionState.UNMAPPED

    def __repr__(self) -> str:
        return f"<Session {self.channel}: {self.state.value}>"

    @property
    def state(self) -> SessionState:
        return self._state

    @state.setter
    def state(self, state: SessionState) -> None:
        self._state = state
        self.mapped = state is SessionState.MAPPED

    # ---- for the host

    def sender(
        self,
        name: str,
        target: str | Target | Coordinator | None,
        source: Source | None = None,
        *,
        snd_settle_mode: int = 2,
        rcv_settle_mode: int = 0,
        terminus: Terminus | None = None,
        **fields: Any,
    ) -> Sender:
        """Attach a link that we send on. `LinkAttached` follows, or `LinkDetached`.

        Args:
            name: unique among the senders between the two containers.
            target: where messages go: an address, a Target, or a Coordinator for transactions.
            source: where they come from; None: a Source without an address.
            snd_settle_mode: 0 unsettled, 1 settled, 2 mixed (2.8.2).
            rcv_settle_mode: 0 first, 1 second (2.8.3); it is the receiver's to decide.
            terminus: keeps what is not settled, and resumes it.
            fields: further fields of attach.

        Raises LocalProtocolError if the session does not take a link now, or the name is in use.
        """
        link = Sender(self, name)
        target = Target(address=target) if isinstance(target, str) else target
        self._attach(link, source or Source(), target, snd_settle_mode, rcv_settle_mode, terminus, fields)
        return link

    def receiver(
        self,
        name: str,
        source: str | Source | None,
        target: Target | None = None,
        *,
        window: int = 0,
        streamed: bool = False,
        snd_settle_mode: int = 2,
        rcv_settle_mode: int = 0,
        terminus: Terminus | None = None,
        **fields: Any,
    ) -> Receiver:
        """Attach a link that we receive on. `LinkAttached` follows, or `LinkDetached`.

        Args:
            name, terminus, fields: as of `sender`.
            source: where messages come from: an address or a Source.
            target: None: a Target without an address.
            window: credit that is given at once and renewed; 0: `grant` gives it.
            streamed: messages come in parts.
            snd_settle_mode, rcv_settle_mode: the modes wished and decided.

        Raises LocalProtocolError as `sender` does.
        """
        link = Receiver(self, name)
        source = Source(address=source) if isinstance(source, str) else source
        link.streamed = streamed
        self._attach(link, source, target or Target(), snd_settle_mode, rcv_settle_mode, terminus, fields)
        if window:
            link.keep(window)
        return link

    def end(self, error: Error | None = None) -> None:
        """End the session, and its links with it. `SessionEnded` comes with the peer's answer.

        Raises LocalProtocolError if it has not begun or has been ended.
        """
        self.check("end")
        self._put_end(error)

    def ask(self) -> None:
        """Request the peer's state of the session with a flow that has `echo`."""
        self.check("flow")
        self.connection.put(self._flow(echo=True))

    @property
    def undecided(self) -> int:
        """The number of attaches and deliveries that wait for the host or for settlement."""
        return sum(link.attaching is not None for link in self._remote_links.values()) + len(self.incoming)

    def check(self, kind: str) -> None:
        """Raise LocalProtocolError if this performative is not legal now."""
        self.connection.check(kind)
        transition = SESSION_SENDS[self.connection.role, self._state, kind]
        if isinstance(transition, Violation):
            raise LocalProtocolError(transition.rule, reply=transition.reply)

    # ---- links

    def _attach(
        self,
        link: Link,
        source: Any,
        target: Any,
        snd_settle_mode: int,
        rcv_settle_mode: int,
        terminus: Terminus | None,
        fields: dict[str, Any],
    ) -> None:
        self.check("attach")
        if (link.name, link.sends) in self._names or self.connection.find(link.name, link.sends) is not None:
            raise LocalProtocolError(f"the name {link.name!r} is in use (2.6.1)")
        self._hold(link, terminus)
        handle = self._free_handle()
        link.snd_settle_mode, link.rcv_settle_mode = snd_settle_mode, rcv_settle_mode
        given = self._given(link, fields)
        link.terminus = terminus
        self._take(link, handle)
        link.source, link.target = source, target
        given.update(source=source, target=target, snd_settle_mode=snd_settle_mode, rcv_settle_mode=rcv_settle_mode)
        try:
            link.put_attach(given, None)
        except LocalProtocolError:
            self._drop(link)
            raise
        if terminus is not None:
            terminus.held = True
        link.state = LinkState.ATTACH_SENT

    @staticmethod
    def _hold(link: Link, terminus: Terminus | None) -> None:
        if terminus is not None and (terminus.held or terminus.name != link.name or terminus.role != link.role.value):
            raise LocalProtocolError("the terminus belongs to another link, name or role")

    def _given(self, link: Link, fields: dict[str, Any]) -> dict[str, Any]:
        given = dict(fields)
        link.delivery_count = given.pop("initial_delivery_count", link.delivery_count)
        if not link.sends:
            size = given.setdefault("max_message_size", self.connection.options.message_size or None)
            assert isinstance(link, Receiver)
            link.max_message_size = size or 0
        return given

    def _free_handle(self) -> int:
        handle = 0
        while handle in self.links:
            handle += 1
        if handle > self.handle_max:
            raise LocalProtocolError(f"all {handle} handles are in use (2.7.2)")
        return handle

    def _take(self, link: Link, handle: int) -> None:
        link.take_handle(handle)
        self.links[handle] = link
        self._names[link.name, link.sends] = link

    def _drop(self, link: Link) -> None:
        assert link.handle is not None
        del self.links[link.handle]
        if self._names.get((link.name, link.sends)) is link:
            del self._names[link.name, link.sends]

    def find(self, name: str, sends: bool) -> Link | None:
        return self._names.get((name, sends))

    def accept(self, event: Attaching, fields: dict[str, Any], terminus: Terminus | None, events: list[Event]) -> None:
        """Accept a link of the peer."""
        link, message = event.link, event.message
        self.check("attach")
        self._hold(link, terminus)
        handle = self._free_handle()
        link.terminus = terminus
        given = self._given(link, fields)
        before = link.snd_settle_mode, link.rcv_settle_mode
        link.snd_settle_mode = given.setdefault("snd_settle_mode", before[0])
        link.rcv_settle_mode = given.setdefault("rcv_settle_mode", before[1])
        link.take_modes(message)
        self._take(link, handle)
        try:
            link.put_attach(given, message)
        except LocalProtocolError:
            self._drop(link)
            link.handle = None
            link.snd_settle_mode, link.rcv_settle_mode = before
            raise
        link.wait(None)
        link.source, link.target = given.get("source"), given.get("target")
        if terminus is not None:
            terminus.held = True
        link.state = LinkState.ATTACHED
        link.resume(message, events)
        if isinstance(link, Sender):
            link.report(events)

    def refuse(self, link: Link, error: Error) -> None:
        """2.6.3: an attach without the terminus, then a detach that says why."""
        self.answer(link)
        link.put_detach(error, True, refused=True)
        link.gone = True

    def answer(self, link: Link) -> None:
        """An attach without termini; a detach follows. Ours has to be null (2.6.3); go-amqp, and Azure's services, take a link
        as refused only if both are."""
        link.wait(None)
        self._take(link, self._free_handle())
        link.put_attach({}, None)
        link.state = LinkState.ATTACHED

    def remove(self, link: Link) -> None:
        """Both sides have detached: the handles are free."""
        if link.handle is not None and self.links.get(link.handle) is link:
            self._drop(link)
        if link.remote_handle is not None and self._remote_links.get(link.remote_handle) is link:
            del self._remote_links[link.remote_handle]
        self.dirty.pop(link, None)
        link.state = LinkState.DETACHED
        link.handle = link.remote_handle = None

    # ---- in

    def receive(self, kind: str, message: Any, events: list[Event]) -> None:
        """Handle a performative for this session."""
        transition = SESSION_RECEIVES[self.connection.role, self._state, kind]
        if isinstance(transition, Violation):
            raise RemoteProtocolError(transition.rule, reply=transition.reply)
        if transition is Outcome.DROPPED:
            return
        if kind == "begin":
            self._on_begin(message, events)
        elif kind == "end":
            self._on_end(message, events)
        else:
            _HANDLERS[kind](self, message, events)

    def begun_by_peer(self, message: Begin, events: list[Event]) -> None:
        self._learn(message)
        self._put_begin(remote_channel=message.channel)
        self.state = SessionState.MAPPED
        events.append(SessionBegun(self, "peer", message))

    def put_begin(self, fields: dict[str, Any]) -> None:
        self._put_begin(**fields)
        self.state = SessionState.BEGIN_SENT

    def _put_begin(self, **fields: Any) -> None:
        self.connection.put(
            build(
                Begin,
                next_outgoing_id=self.next_outgoing_id,
                incoming_window=self.incoming_window,
                outgoing_window=UNLIMITED,
                handle_max=self.connection.options.links - 1,
                channel=self.channel,
                **fields,
            ).encode()
        )

    def _learn(self, message: Begin) -> None:
        self.remote = message
        self.remote_channel = message.channel
        self.next_incoming_id = message.next_outgoing_id
        self.remote_incoming_window = message.incoming_window or 0
        self.remote_outgoing_window = message.outgoing_window or 0
        if message.handle_max is not None:
            self.handle_max = min(self.handle_max, message.handle_max)

    def _on_begin(self, message: Begin, events: list[Event]) -> None:
        """Handle the answer to our begin."""
        self._learn(message)
        if self._state is SessionState.BEGIN_SENT:
            self.state = SessionState.MAPPED
            events.append(SessionBegun(self, "local", message))
            self.flow_due = bool(self.links)  # flows before it had no next-incoming-id

    def freeze(self) -> None:
        """Stop sending: the session or the connection is ending."""
        self.mapped = False
        self.job = None
        for link in self.links.values():
            link.freeze()

    def _on_end(self, message: End, events: list[Event]) -> None:
        if self._state is SessionState.MAPPED:
            self.flush()
            self.connection.put(End(channel=self.channel).encode())
            by: Literal["local", "peer"] = "peer"
            error = message.error
        else:
            by, error = "local", self.error
        self.state = SessionState.UNMAPPED
        self.connection.remove(self)
        if not self.gone:
            events.append(SessionEnded(self, by, error, *self.leave(error)))

    def fail(self, error: Error, events: list[Event]) -> None:
        """End the session because of a violation by the peer (2.5.4)."""
        self._put_end(error)
        self.gone = True
        events.append(SessionEnded(self, "local", error, *self.leave(error)))

    def _put_end(self, error: Error | None) -> None:
        self.flush()
        self.error = error
        self.connection.put(build(End, error=error, channel=self.channel).encode())
        self.state = SessionState.END_SENT if error is None else SessionState.DISCARDING
        self.freeze()

    def leave(self, error: Error | None) -> tuple[tuple[Outgoing, ...], tuple[Outgoing, ...], tuple[Incoming, ...]]:
        """Remove all links. Returns the deliveries that are resumable, lost, and returned to the host."""
        found: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
        links = {id(link): link for link in (*self.links.values(), *self._remote_links.values())}
        for link in links.values():
            for kept, some in zip(found, link.leave(False, error), strict=True):
                kept += some
            link.state = LinkState.DETACHED
            link.gone = True
            link.wait(None)
        resumable, lost, returned = found
        self.links.clear()
        self._remote_links.clear()
        self._names.clear()
        self.dirty.clear()
        self.decided.clear()
        self.settling.clear()
        self.job = None
        return tuple(resumable), tuple(lost), tuple(returned)

    def _broken(self, rule: str) -> Fault:
        """The Fault for a transfer or disposition that violates a rule."""
        return Fault(*RULES[rule])

    def on_attach(self, message: Attach, events: list[Event]) -> None:
        name, handle = message.name, message.handle
        assert name is not None
        assert handle is not None
        sends = bool(message.role)  # the peer receives
        if message.unsettled is not None and not all(isinstance(tag, bytes) for tag, _ in message.unsettled.pairs):
            raise Fault(ErrorCondition.INVALID_FIELD, "a key of unsettled is not a delivery-tag (2.7.3)")
        if handle > self.connection.options.links - 1:
            raise RemoteProtocolError(
                "a handle above handle-max (2.7.2)", reply=ErrorCondition.CONNECTION_FRAMING_ERROR
            )
        busy = self._remote_links.get(handle)
        if busy is not None:
            busy.receive("attach", message, events)
            raise Fault(ErrorCondition.SESSION_HANDLE_IN_USE, "the handle has a link (2.6.2)")
        link = self._names.get((name, sends))
        if link is not None and link.remote is None:
            self._remote_links[handle] = link
            link.on_attach(message, events)
            return
        old = self.connection.find(name, sends)
        if old is not None and old.attached:
            # 2.6.1: a name belongs to one link. The newer one has it.
            old.fail(Error(condition=ErrorCondition.LINK_STOLEN, description="another link has this name"), events)
        if old is not None and old.session is self and self._names.get((name, sends)) is old:
            del self._names[name, sends]
        new: Link = Sender(self, name) if sends else Receiver(self, name)
        new.remote = message
        new.remote_handle = handle
        self._remote_links[handle] = new
        new.learn(message)
        new.snd_settle_mode = 2 if message.snd_settle_mode is None else message.snd_settle_mode
        new.rcv_settle_mode = message.rcv_settle_mode or 0
        new.source, new.target = message.source, message.target
        new.state = LinkState.ATTACH_RCVD
        if self.connection.attaching >= self.connection.options.undecided:
            self.refuse(new, Error(condition=ErrorCondition.RESOURCE_LIMIT_EXCEEDED, description="too many links wait"))
            return
        attaching = Attaching(new, message)
        new.wait(attaching)
        events.append(attaching)

    def on_flow(self, message: Flow, events: list[Event]) -> None:
        """2.5.6: remote-incoming-window := next-incoming-id(flow) + incoming-window(flow) - next-outgoing-id."""
        base = self.initial_outgoing_id if message.next_incoming_id is None else message.next_incoming_id
        under_way = (self.next_outgoing_id - base) & MASK
        if under_way >= 1 << 31:
            raise Fault(ErrorCondition.SESSION_WINDOW_VIOLATION, "next-incoming-id is ahead of what was sent (2.5.6)")
        closed = self.remote_incoming_window <= 0 or self.job is not None
        self.remote_incoming_window = max((message.incoming_window or 0) - under_way, 0)
        self.next_incoming_id = message.next_outgoing_id
        self.remote_outgoing_window = message.outgoing_window or 0
        if message.handle is not None:
            link = self._remote_links.get(message.handle)
            if link is None:
                raise Fault(ErrorCondition.SESSION_UNATTACHED_HANDLE, "a flow on a handle without a link (2.6.2)")
            if link.attached:
                link.on_flow(message, events)
            else:
                link.receive("flow", message, events)
        else:
            if message.echo:
                self.flow_due = True
            if message.properties is not None:
                events.append(Flowed(self, message))
        if closed and self.remote_incoming_window > 0:
            self._go_on(events)

    def _go_on(self, events: list[Event]) -> None:
        """The window is open again."""
        if self.job is not None:
            job, self.job = self.job, None
            self._go_on_with(job)
        if self.job is None:
            self.reopen(events)

    @property
    def full(self) -> bool:
        """True: no more deliveries of ours can be unsettled."""
        return len(self.outgoing) >= self.connection.options.unsettled

    def reopen(self, events: list[Event]) -> None:
        """The window, or the quota of deliveries that are not settled, is open again. It may not suffice for all
        senders, so each time another one is first."""
        senders = [link for link in self.links.values() if isinstance(link, Sender)]
        first = self._turn % len(senders) if senders else 0
        self._turn += 1
        for link in senders[first:] + senders[:first]:
            link.reopened(events)

    def _tell(self, first: int, last: int, state: State, events: list[Event]) -> None:
        """Store a state that is not an outcome (3.4.1)."""
        span = self.outgoing.span(first, last)
        if span is None:
            return
        if self.reported is None:
            self.reported = Reported(self)
        if self.reported.store(*span, state):
            events.append(Updated(Named(self, *span), state))

    def on_detach(self, message: Any, events: list[Event]) -> None:
        link = self._remote_links.get(message.handle)
        if link is None:
            raise Fault(ErrorCondition.SESSION_UNATTACHED_HANDLE, "a detach of a handle without a link (2.6.2)")
        link.receive("detach", message, events)

    # ---- out

    def flush(self) -> None:
        """Write the merged dispositions and flows of this turn."""
        self._put_answers()
        if self.reported is not None and not self.reported.renew():
            self.reported = None
        if not self.mapped and self._state is not SessionState.BEGIN_SENT:
            return
        if self.flow_due or self.dirty:
            capacity = min(
                self.connection.options.incoming_window, self.connection.options.unsettled - len(self.incoming)
            )
            if capacity > self.incoming_window:
                self.incoming_window = capacity
            elif not self.dirty and not self.flow_due:
                return
        if self.dirty:
            links, self.dirty = self.dirty, {}
            for link in links:
                if link.state in (LinkState.ATTACHED, LinkState.ATTACH_SENT):
                    self._put_link_flow(link)
                    self.flow_due = False
        if self.flow_due:
            self.flow_due = False
            self.connection.put(self._flow())

    def _put_link_flow(self, link: Link) -> None:
        if isinstance(link, Receiver):
            if link.window:
                link.renew()
            count = link.delivery_count if link.initial_delivery_count is not None else None
            available = None
        else:
            count, available = link.delivery_count, link.available
        echo, link.echo = link.echo, False
        self.connection.put(
            self._flow(
                handle=link.handle,
                delivery_count=count,
                link_credit=max(link.credit, 0),
                available=available,
                drain=link.draining or None,
                echo=echo or None,
            )
        )

    def _flow(self, **fields: Any) -> bytes:
        return Flow(
            next_incoming_id=self.next_incoming_id,
            incoming_window=self.incoming_window,
            next_outgoing_id=self.next_outgoing_id,
            outgoing_window=UNLIMITED,
            channel=self.channel,
            **fields,
        ).encode()


_HANDLERS: dict[str, Callable[[Session, Any, list[Event]], None]] = {
    "attach": Session.on_attach,
    "flow": Session.on_flow,
    "transfer": Session.on_transfer,
    "disposition": Session.on_disposition,
    "detach": Session.on_detach,
}
