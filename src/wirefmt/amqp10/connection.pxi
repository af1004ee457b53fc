# What a connection does for every message: transfers received and sent, deliveries, dispositions in both directions.
#
# The classes here hold the state of that, and are the only place where it is done. The classes of
# wirefmt/amqp10/{endpoint,sessions,links,sender,receiver}.py are derived from them and do what is rare: they are called where
# a rule is broken (`_broken`), a link has a Terminus, or a window is closed. Sections are those of AMQP 1.0, part 2.
from cpython.dict cimport PyDict_DelItem, PyDict_GetItemWithError, PyDict_Size
from operator import itemgetter


cdef extern from "Python.h":
    int set_slot "PyObject_GenericSetAttr"(object of, object name, object value) except -1
    PyObject* set_default "PyDict_SetDefault"(dict d, object key, object value) except NULL


cdef enum:                      # snd-settle-mode and rcv-settle-mode (2.8.2, 2.8.3)
    MODE_UNSETTLED = 0
    MODE_SETTLED = 1
    MODE_FIRST = 0
    MODE_SECOND = 1
    TAG_MOST = 32               # bytes of a delivery-tag (2.8.7)


cdef str HANDLE_SLOT = intern("handle"), MESSAGE_SLOT = intern("message"), CODE_SLOT = intern("code")
cdef tuple NO_ARGUMENTS = ()
cdef object CODE_ACCEPTED = 0, CODE_REJECTED = 0x25, CODE_RELEASED = 0x26, CODE_MODIFIED = 0x27
cdef Accepted PLAIN_ACCEPTED = Accepted()
cdef bytes NO_OCTETS = b""
cdef object FIRST_OF = itemgetter(0)


# ------------------------------------------------------------------------------------------------ forward

cdef class LinkFlows
cdef class SenderFlows(LinkFlows)
cdef class ReceiverFlows(LinkFlows)
cdef class SessionFlows


# ------------------------------------------------------------------------------------------------ deliveries

@cython.final
@cython.freelist(1024)
cdef class Outgoing:
    """The handle of a delivery of ours.

    Attributes:
        number: counts up with each delivery of the link's Terminus.
        link: the link that sends it; another one after a resumption.
        delivery_tag: what names it on the link.
        delivery_id: what names it in the session; None: nothing of it has been sent.
        settled: True: nothing is known, or needs to be known, of its end.
        state: the peer's latest state for it, or None.
    """
    cdef public SenderFlows link
    cdef readonly int64_t number
    cdef readonly bytes delivery_tag
    cdef public bint settled
    cdef public object local                # the state of its transfers: a transaction
    cdef public object payload              # bytes kept if it can be resumed, or None
    cdef public uint32_t message_format
    cdef public int64_t size                # bytes of its payload given so far
    cdef bytes tail                         # fields of its transfers from rcv-settle-mode on; empty: absent
    cdef object given                       # the peer's state, except for one told of a range that the session still knows
    cdef int64_t id                         # -1: none

    def __init__(self, SenderFlows link, number, bytes delivery_tag not None, settled):
        self.link = link
        self.number = number
        self.delivery_tag = delivery_tag
        self.settled = settled
        self.tail = NO_OCTETS
        self.id = -1

    @property
    def delivery_id(self):
        return None if self.id < 0 else self.id

    @delivery_id.setter
    def delivery_id(self, value):
        cdef int64_t id = -1 if value is None else <uint32_t>value
        self.id = id

    @property
    def state(self):
        return self.known()

    @state.setter
    def state(self, value):
        self.given = value

    cdef object known(self):
        """The peer's latest state."""
        if self.id >= 0 and not self.settled and self.link is not None and self.link.session is not None and \
                self.link.session.told is not None:
            found = self.link.session.told.find(self.id)
            if found is not None:
                return found
        return self.given

    def __repr__(self):
        return f"<Outgoing {self.delivery_tag.hex()}>"


@cython.final
@cython.freelist(1024)
cdef class Incoming:
    """A complete delivery of the peer. Unless it is settled, it waits for `accept`, `reject`, `release`, `modify` or
    `settle`, exactly once. An answer has no effect if the sender has settled the delivery (`Settled`), or its link
    is gone (`LinkDetached`, `SessionEnded`, `Disconnected`): the host may not have seen that yet.

    Attributes:
        link: the link it came on.
        transfer: its first frame.
        delivery_tag: what names it on the link.
        delivery_id: what names it in the session.
        settled: True: the sender wants no answer, or the delivery has been settled.
        state: our answer, or None.
        decided: True: the host has answered it.
    """
    cdef public ReceiverFlows link
    cdef public Transfer transfer
    cdef public uint32_t delivery_id
    cdef readonly bytes delivery_tag
    cdef public bint settled, decided
    cdef public object state
    cdef bint presettled                    # its first transfer says that no answer is wanted
    cdef bytes joined                       # None: the transfer's own payload
    cdef object decoded                     # the message, once it was requested

    @property
    def message_format(self):
        return self.transfer.message_format or 0

    @property
    def remote_state(self):
        """The sender's state for it: a TransactionalState if it belongs to a transaction."""
        return self.transfer.state

    @property
    def payload(self):
        """The bytes of the message: a read-only memoryview."""
        return PyMemoryView_FromObject(self.transfer if self.joined is None else self.joined)

    @property
    def message(self):
        """The message. Raises DecodeError if the payload is not a message: `reject` it then."""
        if self.decoded is None:
            self.decoded = self.transfer.message if self.joined is None else decode_message(self.joined)
        return self.decoded

    def __repr__(self):
        return f"<Incoming {self.delivery_tag.hex()}>"


@cython.final
cdef class Job:
    """A message that the window has cut off: what remains of it to be sent.

    Attributes:
        link, delivery: whose it is.
        payload: bytes of the message, or of the part of it that the host has given.
        at: how many of them have been sent.
        more: the host has further parts.
    """
    cdef readonly SenderFlows link
    cdef readonly Outgoing delivery
    cdef readonly bytes payload
    cdef readonly size_t at
    cdef public bint more
    cdef bint first


# ------------------------------------------------------------------------------------------------ dispositions of a turn

@cython.final
cdef class Answers:
    """Dispositions of one role that are due, as few as there can be: neighbours with the same state are one."""
    cdef list runs              # (first, last, state, settled), without the latest one
    cdef bint some
    cdef uint32_t first, last
    cdef object state
    cdef bint settled

    def __init__(self):
        self.runs = []

    def __len__(self):
        """How many dispositions there are, if the order cannot be improved."""
        return len(self.runs) + self.some

    cpdef add(self, uint32_t number, state, bint settled):
        if self.some:
            if number == <uint32_t>(self.last + 1) and settled == self.settled and \
                    (state is self.state or state == self.state):
                self.last = number
                return
            self.runs.append((self.first, self.last, self.state, self.settled))
        self.some = True
        self.first = self.last = number
        self.state = state
        self.settled = settled

    cpdef clear(self):
        self.runs = []
        self.some = False
        self.state = None

    cpdef list take(self):
        """All of them, by delivery-id; then there are none."""
        cdef uint32_t origin
        cdef list runs, placed, merged
        cdef tuple before = None
        if not self.some:
            return []
        runs = self.runs
        runs.append((self.first, self.last, self.state, self.settled))
        self.clear()
        if len(runs) == 1:
            return runs
        origin = runs[0][0]
        placed = [(<int32_t>(<uint32_t>run[0] - origin), run) for run in runs]
        placed.sort(key=FIRST_OF)
        merged = []
        for _, run in placed:
            if before is not None and <uint32_t>run[0] == <uint32_t>(<uint32_t>before[1] + 1) and run[3] == before[3] and \
                    (run[2] is before[2] or run[2] == before[2]):
                before = (before[0], run[1], before[2], before[3])
                continue
            if before is not None:
                merged.append(before)
            before = run
        merged.append(before)
        return merged


# ------------------------------------------------------------------------------------------------ a connection

@cython.nonecheck(True)
cdef class ConnectionFlows:
    """What sessions and links need of their connection. `Endpoint` is derived from it.

    Attributes:
        frame_limit: bytes of a frame that the peer takes.
        unfinished: bytes of messages that have come in part.
    """
    cdef Outbox outbox
    cdef public dict _by_remote             # sessions by the peer's channel
    cdef public bint _opened                # both opens have been exchanged
    cdef public uint32_t frame_limit
    cdef public int64_t unfinished
    cdef readonly Py_ssize_t _at            # the message that `_flow` is at
    cdef int64_t most_unsettled, overrun, most_unfinished, most_pending
    cdef type acknowledged                  # the class of the event

    def __init__(self, *_, **__):
        self.outbox = Outbox()
        self._by_remote = {}
        self.acknowledged = object

    def _configure(self, options, type acknowledged not None):
        """options: a ConnectionOptions; acknowledged: the class of the event for a delivery that is settled."""
        self.most_unsettled = options.unsettled
        self.overrun = options.overrun
        self.most_unfinished = options.unfinished_bytes
        self.most_pending = options.pending_bytes
        self.acknowledged = acknowledged

    @property
    def _outbox(self):
        return self.outbox

    @_outbox.setter
    def _outbox(self, Outbox outbox not None):
        self.outbox = outbox

    def _flow(self, list messages not None, Py_ssize_t at, list events not None):
        """Take messages from number `at` on as far as they are transfers, dispositions and flows of sessions that are mapped.
        Returns the number of the first other one. If a rule is broken, `_at` is the number of the message."""
        cdef Py_ssize_t count = len(messages)
        cdef PyObject* found
        cdef Performative message
        cdef SessionFlows session
        cdef type kind
        while 0 <= at < count and self._opened:
            item = messages[at]
            kind = type(item)
            if kind is not Transfer and kind is not Disposition and kind is not Flow:
                break
            message = <Performative>item
            found = PyDict_GetItemWithError(self._by_remote, message.channel_)
            if found == NULL or not isinstance(<object>found, SessionFlows):
                break
            session = <SessionFlows>found
            if not session.mapped:
                break
            self._at = at
            if kind is Transfer:
                session.take_transfer(<Transfer>message, events)
            elif kind is Disposition:
                session.take_disposition(<Disposition>message, events)
            else:
                session.on_flow(message, events)
            at += 1
        self._at = at
        return at

    def accept(self, event, **answer):
        """Answer an event of the peer with yes.

        Args:
            event: an `Attaching`: the answer has `source` and `target` (None: as the peer has them, with the address it
                asks for), `terminus`, and fields of attach. An `Incoming`: the outcome accepted. A server's `Login` and
                `Open`: see `ServerConnection`.

        Returns the events of what was waiting behind it. Raises LocalProtocolError if the event does not wait for an
        answer.
        """
        if type(event) is Incoming:
            (<Incoming>event).link.settle(<Incoming>event, PLAIN_ACCEPTED, **answer)
            return []
        return self._accept(event, answer)


# ------------------------------------------------------------------------------------------------ a session

@cython.nonecheck(True)
cdef class SessionFlows:
    """The windows of a session (2.5.6), and its deliveries that are not settled. `Session` is derived from it."""
    cdef public ConnectionFlows connection
    cdef public Job job                     # what the window has cut off; None: nothing
    cdef public dict dirty                  # links whose flow is due
    cdef public dict _remote_links          # by the peer's handle
    cdef public bint mapped, flow_due
    cdef public int64_t incoming_window, remote_incoming_window, remote_outgoing_window
    cdef public int64_t _half               # incoming-window at which it is renewed
    cdef public uint32_t next_outgoing_id, next_delivery_id
    cdef public uint16_t channel
    cdef public object told                 # states that are no outcomes, told of ranges; None: none
    cdef readonly Answers decided, settling  # answers of this turn; deliveries of ours that we have to settle
    cdef object outgoing_, incoming_
    cdef dict sent, arrived                 # their records
    cdef uint32_t next_in, latest
    cdef bint has_next, has_latest

    def __init__(self, *_, **__):
        self.dirty = {}
        self._remote_links = {}
        self.sent = {}
        self.arrived = {}
        self.decided = Answers()
        self.settling = Answers()

    @property
    def outgoing(self):
        """Our deliveries that are not settled, by delivery-id: an Outstanding."""
        return self.outgoing_

    @outgoing.setter
    def outgoing(self, value):
        self.sent = <dict?>value.records
        self.outgoing_ = value

    @property
    def incoming(self):
        """Deliveries of the peer that are not settled, by delivery-id: an Outstanding."""
        return self.incoming_

    @incoming.setter
    def incoming(self, value):
        self.arrived = <dict?>value.records
        self.incoming_ = value

    @property
    def next_incoming_id(self):
        """The transfer-id expected next; None: the peer's begin has not come."""
        return self.next_in if self.has_next else None

    @next_incoming_id.setter
    def next_incoming_id(self, value):
        cdef uint32_t next_in = 0 if value is None else value
        self.next_in = next_in
        self.has_next = value is not None

    @property
    def last_remote_id(self):
        """The latest delivery-id of the peer; None: there has been none."""
        return self.latest if self.has_latest else None

    @last_remote_id.setter
    def last_remote_id(self, value):
        cdef uint32_t latest = 0 if value is None else value
        self.latest = latest
        self.has_latest = value is not None

    # ---- in

    def on_transfer(self, Transfer message not None, list events not None):
        """A transfer, in a session that is mapped."""
        self.take_transfer(message, events)

    cdef int take_transfer(self, Transfer message, list events) except -1:
        cdef Amqp10CompositeView v
        cdef uint64_t handle = 0
        cdef PyObject* found
        if self.incoming_window <= 0:
            raise self._broken("window")
        self.incoming_window -= 1
        self.next_in += 1
        self.remote_outgoing_window -= 1
        if self.incoming_window <= self._half:
            self.flow_due = True
        amqp10_open_composite(message.begin, &v)
        amqp10_field_unsigned(&v, AMQP10_TRANSFER_HANDLE, &handle)
        found = PyDict_GetItemWithError(self._remote_links, handle)
        if found == NULL:
            raise self._broken("transfer without link")
        link = <object>found
        if isinstance(link, ReceiverFlows) and (<ReceiverFlows>link).attached:
            (<ReceiverFlows>link).take(message, &v, events)
        else:
            link.receive("transfer", message, events)
        return 0

    def on_disposition(self, Disposition message not None, list events not None):
        """A disposition, in a session that is mapped."""
        self.take_disposition(message, events)

    cdef int take_disposition(self, Disposition message, list events) except -1:
        cdef Amqp10CompositeView v
        cdef uint64_t first = 0, last
        cdef bint role = False, settled = False, full
        cdef PyObject* found
        amqp10_open_composite(message.begin, &v)
        amqp10_field_boolean(&v, AMQP10_DISPOSITION_ROLE, &role)
        amqp10_field_unsigned(&v, AMQP10_DISPOSITION_FIRST, &first)
        last = first
        amqp10_field_unsigned(&v, AMQP10_DISPOSITION_LAST, &last)
        amqp10_field_boolean(&v, AMQP10_DISPOSITION_SETTLED, &settled)
        if <uint32_t>(last - first) > <uint32_t>1 << 31:
            raise self._broken("range")
        state = state_in(message, v.at[<int>AMQP10_DISPOSITION_STATE])
        if not settled and (state is None or not role):
            return 0                        # it changes nothing, however many deliveries it names
        if not role:
            if first == last:
                found = PyDict_GetItemWithError(self.arrived, first)
                if found != NULL:
                    delivery = <object>found            # the dict may give up its reference
                    self.end_arrived(delivery, state, events)
            else:
                for number in self.incoming_.range(first, last):
                    self.end_arrived(self.arrived[number], state, events)
            if self.incoming_window <= self._half:
                self.flow_due = True
            return 0
        if not settled and not is_final(state):
            self._tell(first, last, state, events)
            return 0
        full = PyDict_Size(self.sent) >= self.connection.most_unsettled
        if first == last:
            found = PyDict_GetItemWithError(self.sent, first)
            if found != NULL:
                delivery = <object>found                # the dict gives up its reference
                self.end_sent(delivery, settled, state, events)
        else:
            for number in self.outgoing_.range(first, last):
                self.end_sent(self.sent[number], settled, state, events)
        if full:
            self.reopen(events)
        return 0

    cdef int end_arrived(self, Incoming delivery, object state, list events) except -1:
        delivery.link.settled_by_peer(delivery, state, events)
        return 0

    cdef int end_sent(self, Outgoing delivery, bint settled, object state, list events) except -1:
        if delivery.link is not None:
            delivery.link.end(delivery, settled, state, events)
        return 0

    # ---- out

    cdef int write(self, SenderFlows link, Outgoing delivery, bytes payload, bint first, bint more) except -1:
        """Transfers with this payload, as many as the window lets through now."""
        cdef size_t head = head_size(link, delivery, first)
        cdef size_t size = <size_t>PyBytes_GET_SIZE(payload)
        cdef Job job
        if self.job is None and self.remote_incoming_window > 0 and head + size <= self.connection.frame_limit:
            self.put_frame(link, delivery, first, more, head, payload, 0, size)
            return 0
        job = Job.__new__(Job)
        job.link = link
        job.delivery = delivery
        job.payload = payload
        job.first = first
        job.more = more
        self.go_on(job)
        return 0

    def _go_on_with(self, Job job not None):
        """Send more of what the window has cut off."""
        self.go_on(job)

    cdef int go_on(self, Job job) except -1:
        cdef size_t limit = self.connection.frame_limit
        cdef size_t head, n
        cdef bint over = False
        while not over:
            if self.remote_incoming_window <= 0:
                self.job = job
                return 0
            head = head_size(job.link, job.delivery, job.first)
            n = <size_t>PyBytes_GET_SIZE(job.payload) - job.at
            over = head + n <= limit
            if not over:
                if head >= limit:
                    raise ValueError("a transfer without its payload is larger than a frame")
                n = limit - head
            self.put_frame(job.link, job.delivery, job.first, job.more or not over, head, job.payload, job.at, n)
            job.at += n
            job.first = False
        return 0

    cdef int put_frame(self, SenderFlows link, Outgoing delivery, bint first, bint more, size_t head, bytes payload, size_t at,
                       size_t n) except -1:
        """One transfer frame with `n` octets of the payload from `at` on."""
        cdef Outbox outbox = self.connection.outbox
        cdef uint8_t* p = outbox.grow(head + n if n < KEEP_FROM else head)
        store_u32(p, <uint32_t>(head + n))
        p[4] = 2
        p[5] = 0
        store_u16(p + 6, self.channel)
        put_head(p + 8, link, delivery, first, more)
        if n < KEEP_FROM:
            memcpy(p + head, PyBytes_AS_STRING(payload) + at, n)
        elif n == <size_t>PyBytes_GET_SIZE(payload):
            outbox.put(payload)
        else:
            outbox.put(PyMemoryView_FromObject(payload)[at:at + n])
        self.next_outgoing_id += 1
        self.remote_incoming_window -= 1
        if delivery.local is None:
            delivery.tail = NO_OCTETS       # part 4, 4.4.1: all transfers of a delivery name its transaction
        return 0

    def _put_answers(self):
        """Write the dispositions of this turn."""
        if self.decided.some:
            for first, last, state, settled in self.decided.take():
                self.put_disposition(True, first, last, state, settled)
            if self.incoming_window <= self._half:
                self.flow_due = True
        if self.settling.some:
            for first, last, state, settled in self.settling.take():
                self.put_disposition(False, first, last, state, settled)

    cdef int put_disposition(self, bint role, uint32_t first, uint32_t last, object state, bint settled) except -1:
        cdef bytes encoded = NO_OCTETS if state is None else (<Composite?>state).encode()
        cdef size_t n = <size_t>PyBytes_GET_SIZE(encoded)
        cdef size_t fields = 2 + uint_size(first) + (1 if first == last else uint_size(last)) + n
        cdef size_t size = 8 + list_size(fields) + fields
        cdef uint8_t* p = self.connection.outbox.grow(size)
        store_u32(p, <uint32_t>size)
        p[4] = 2
        p[5] = 0
        store_u16(p + 6, self.channel)
        p = put_list(p + 8, 0x15, fields, 4 if state is None else 5)
        p[0] = AMQP10_CODE_TRUE if role else AMQP10_CODE_FALSE
        p = put_uint(p + 1, first)
        if first == last:
            p[0] = AMQP10_CODE_NULL
            p += 1
        else:
            p = put_uint(p, last)
        p[0] = AMQP10_CODE_TRUE if settled else AMQP10_CODE_FALSE
        memcpy(p + 1, PyBytes_AS_STRING(encoded), n)
        return 0


# ------------------------------------------------------------------------------------------------ links

@cython.nonecheck(True)
cdef class LinkFlows:
    """What both ends of a link count. `Link` has the rest."""
    cdef public SessionFlows session
    cdef public object terminus, target
    cdef public bint attached
    cdef public int snd_settle_mode, rcv_settle_mode
    cdef public uint32_t delivery_count
    cdef public int64_t credit
    cdef public uint64_t max_message_size
    cdef public int64_t _available          # messages that the sender has ready; -1: it has not said
    cdef dict pending                       # deliveries that are not settled, by delivery-tag

    def __init__(self, *_, **__):
        self.pending = {}
        self._available = -1

    @property
    def available(self):
        """Messages that the sender has ready, as it has said, without those that have come since (2.6.7); None: it has not
        said."""
        return None if self._available < 0 else self._available

    @available.setter
    def available(self, value):
        cdef uint32_t available = 0 if value is None else value
        self._available = -1 if value is None else available

    @property
    def unsettled(self):
        """The deliveries of the link that are not settled, by delivery-tag."""
        return self.pending


@cython.nonecheck(True)
cdef class SenderFlows(LinkFlows):
    """Messages that we send on a link. `Sender` is derived from it."""
    cdef public Outgoing open               # more parts of it will follow
    cdef public bint waiting                # the host has found the window closed, or will
    cdef public bint incomplete
    cdef public object _resuming            # what is resumed
    cdef int64_t number                     # of the link's next delivery, without a Terminus
    cdef uint32_t handle_                   # ours

    def _number_is(self, uint32_t handle):
        """Our handle."""
        self.handle_ = handle

    @property
    def send_quota(self):
        """How many messages `send` takes now."""
        return self.quota()

    cdef int64_t quota(self) except -1:
        cdef SessionFlows session = self.session
        if not self.attached or self.credit <= 0 or session.job is not None or session.remote_incoming_window <= 0 or \
                self.open is not None or self.incomplete or self._resuming:
            return 0
        return max(min(self.credit, session.connection.most_unsettled - PyDict_Size(session.sent)), 0)

    def send(self, message, *, settled=None, delivery_tag=None, message_format=0, state=None, more=False, batchable=False):
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
        cdef SessionFlows session = self.session
        cdef ConnectionFlows connection = session.connection
        cdef bytes payload = (<Message>message).encode() if type(message) is Message else take_block(message)
        cdef int64_t size = PyBytes_GET_SIZE(payload), queued
        cdef uint32_t format_ = message_format
        cdef bytes tag = delivery_tag, tail = NO_OCTETS
        cdef bint done = self.snd_settle_mode == MODE_SETTLED if settled is None else settled
        cdef bint goes_on = more
        cdef Outgoing delivery
        cdef int64_t number
        if not self.quota():
            self._refuse_send()
        if done and type(self.target) is Coordinator:
            self._refuse_settled()          # part 4, 4.2 and 4.3
        if done != (self.snd_settle_mode == MODE_SETTLED) and self.snd_settle_mode <= MODE_SETTLED:
            self._refuse_mode()
        if self.max_message_size and <uint64_t>size > self.max_message_size:
            self._refuse_size(size)
        queued = connection.outbox.position - connection.outbox.taken
        if queued and queued + size > connection.most_pending:
            connection.check_pending(size)
        if tag is not None and (PyBytes_GET_SIZE(tag) > TAG_MOST or tag in self.pending):
            self._refuse_tag()
        if state is not None or batchable:
            tail = self._checked_tail(state, False, batchable)
        if self.terminus is None:
            number = self.number
            self.number += 1
            if tag is None:
                tag = tag_of(<uint32_t>number)
                while tag in self.pending:
                    number = self.number
                    self.number += 1
                    tag = tag_of(<uint32_t>number)
        else:
            number, made = self.terminus.take_number()
            if tag is None:
                tag = made
        delivery = Outgoing.__new__(Outgoing)
        delivery.link = self
        delivery.number = number
        delivery.delivery_tag = tag
        delivery.settled = done
        delivery.message_format = format_
        delivery.local = state
        delivery.size = size
        delivery.tail = tail
        delivery.id = -1
        if not done:
            self.pending[tag] = delivery
            if self.terminus is not None:
                self._keep(delivery, payload, goes_on)
        if type(self.target) is Coordinator:
            session.flush()                 # a discharge comes after the dispositions of its transaction (4.3)
        self.start(delivery, payload, goes_on)
        return delivery

    def _start(self, Outgoing delivery not None, bytes tail not None, bytes payload not None, bint more):
        """The first frames of a delivery. `tail`: fields of transfer from rcv-settle-mode on."""
        delivery.tail = tail
        self.start(delivery, payload, more)

    cdef int start(self, Outgoing delivery, bytes payload, bint more) except -1:
        """The first frames of a delivery. It takes its delivery-id and its credit now."""
        cdef SessionFlows session = self.session
        delivery.id = session.next_delivery_id
        session.next_delivery_id += 1
        if not delivery.settled and <object>set_default(session.sent, delivery.id, delivery) is not delivery:
            raise KeyError(delivery.id)
        self.delivery_count += 1
        self.credit -= 1
        self.open = delivery if more else None
        session.write(self, delivery, payload, True, more)
        if more or self.credit <= 0 or session.remote_incoming_window <= 0 or session.job is not None:
            self.waiting = True
        return 0

    def _continue(self, Outgoing delivery not None, bytes payload not None, bint more):
        """The next part of a delivery that has begun."""
        if not more:
            self.open = None
        self.session.write(self, delivery, payload, False, more)

    cdef int end(self, Outgoing delivery, bint settled, object state, list events) except -1:
        """The receiver has decided about a delivery, or settles it."""
        cdef SessionFlows session = self.session
        cdef uint32_t number = <uint32_t>delivery.id
        if state is None:
            state = delivery.known()
        delivery.given = state
        delivery.settled = True
        self._forget(delivery)
        if self.open is delivery:
            self._cut_short(delivery)
        events.append(acknowledged(session.connection.acknowledged, delivery, state))
        if not settled:
            session.settling.add(number, None, True)
        return 0

    cpdef _forget(self, Outgoing delivery):
        """A delivery is settled, or its end does not matter."""
        self.pending.pop(delivery.delivery_tag, None)
        if delivery.id >= 0:
            self.session.sent.pop(delivery.id, None)
        if self.terminus is not None:
            self._forget_kept(delivery)


@cython.nonecheck(True)
cdef class ReceiverFlows(LinkFlows):
    """Messages that come on a link. `Receiver` is derived from it."""
    cdef public int64_t _half               # credit at which the window is renewed; -1: it is not
    cdef public int64_t _promised           # messages that may still come: credit that was taken back may be used already
    cdef public bint streamed
    cdef public bint _only_resumed          # our unsettled map was incomplete
    cdef public dict _resumed               # deliveries of the terminus that the sender has to resume
    cdef Incoming partial
    cdef list parts
    cdef uint64_t size                      # of the parts of `partial` so far
    cdef bint skipping                      # the parts of this message are known, or not wanted

    def __init__(self, *_, **__):
        self.pending = {}
        self._available = -1
        self._half = -1
        self._resumed = {}
        self.parts = []

    def on_transfer(self, Transfer message not None, list events not None):
        """A transfer on this link, which is attached."""
        cdef Amqp10CompositeView v
        amqp10_open_composite(message.begin, &v)
        self.take(message, &v, events)

    cdef int take(self, Transfer message, const Amqp10CompositeView* v, list events) except -1:
        cdef Incoming partial = self.partial
        cdef uint64_t number = 0
        cdef bint more = False, aborted = False, settled = False, has_number
        cdef Span tag
        amqp10_field_boolean(v, AMQP10_TRANSFER_MORE, &more)
        amqp10_field_boolean(v, AMQP10_TRANSFER_ABORTED, &aborted)
        if partial is None:
            partial = self.begin(message, v, more, aborted, events)
            if partial is None:
                return 0
            if not more:
                self.check_size(message.payload_span.size)
                if self.streamed:
                    partial.joined = NO_OCTETS
                    self._put_part(partial, message.payload_bytes(), events)
                self.complete(partial, events)
                return 0
            self.partial = partial
            self.size = 0
            if self.streamed:
                partial.transfer = message.detach()
        else:
            has_number = amqp10_field_unsigned(v, AMQP10_TRANSFER_DELIVERY_ID, &number)
            if has_number and number != partial.delivery_id:
                raise self._broken("another delivery")
            if amqp10_field_binary(v, AMQP10_TRANSFER_DELIVERY_TAG, &tag) and not same_octets(partial.delivery_tag, &tag):
                raise self._broken("another delivery")
            if self.skipping:
                if aborted or not more:
                    self.partial = None
                    self.skipping = False
                return 0
            amqp10_field_boolean(v, AMQP10_TRANSFER_SETTLED, &settled)
            if settled:
                partial.settled = True
        if aborted:
            self._drop_partial()
            self._put_aborted(partial, events)
            return 0
        self.add(partial, message, events)
        if more:
            return 0
        self.partial = None
        if self.streamed:
            partial.joined = NO_OCTETS
        else:
            partial.joined = NO_OCTETS.join(self.parts)
            self.session.connection.unfinished -= <int64_t>self.size
            self.parts = []
        self.complete(partial, events)
        return 0

    cdef Incoming begin(self, Transfer message, const Amqp10CompositeView* v, bint more, bint aborted, list events):
        """The first transfer of a delivery. Returns None if nothing else has to be done with it."""
        cdef SessionFlows session = self.session
        cdef uint64_t number = 0, mode = 0
        cdef bint settled = False, resume = False
        cdef Incoming delivery
        cdef Span tag
        if not amqp10_field_unsigned(v, AMQP10_TRANSFER_DELIVERY_ID, &number) or \
                not amqp10_field_binary(v, AMQP10_TRANSFER_DELIVERY_TAG, &tag) or tag.size > TAG_MOST:
            raise self._broken("no delivery-id")
        if session.has_latest and <uint32_t>number != <uint32_t>(session.latest + 1):
            raise self._broken("delivery-id")
        session.latest = <uint32_t>number
        session.has_latest = True
        if self._promised + session.connection.overrun <= 0:
            raise self._broken("credit")
        self._promised -= 1
        if self.credit > 0:
            self.credit -= 1
            if self.credit <= self._half:
                session.dirty[self] = None
        self.delivery_count += 1
        if self._available > 0:
            self._available -= 1
        if aborted:
            return None                     # all of it
        amqp10_field_boolean(v, AMQP10_TRANSFER_SETTLED, &settled)
        if settled and self.snd_settle_mode == MODE_UNSETTLED:
            raise self._broken("settled")
        if self.rcv_settle_mode == MODE_FIRST and \
                amqp10_field_unsigned(v, AMQP10_TRANSFER_RCV_SETTLE_MODE, &mode) and mode != MODE_FIRST:
            raise self._broken("rcv-settle-mode")
        delivery = Incoming.__new__(Incoming)
        delivery.link = self
        delivery.transfer = message
        delivery.delivery_id = <uint32_t>number
        delivery.delivery_tag = octets_of(tag.at, tag.size)
        delivery.settled = delivery.presettled = settled
        amqp10_field_boolean(v, AMQP10_TRANSFER_RESUME, &resume)
        if resume:
            if delivery.delivery_tag not in self._resumed:      # 2.7.5: a resumed delivery that we do not know is ignored
                if more:
                    self._skip(delivery)
                return None
            if self._resume_one(delivery, events):
                return None
        elif self._only_resumed:
            raise self._broken("resume")
        elif more and delivery.delivery_tag in self.pending:
            raise self._broken("delivery-tag")
        return delivery

    def _skip(self, Incoming delivery not None):
        """The rest of this delivery is not needed."""
        self.partial = delivery
        self.skipping = True

    cdef int check_size(self, uint64_t size) except -1:
        if self.max_message_size and size > self.max_message_size:
            raise self._broken("size")
        return 0

    cdef int add(self, Incoming partial, Transfer message, list events) except -1:
        """A part of a message."""
        cdef ConnectionFlows connection = self.session.connection
        self.size += message.payload_span.size
        self.check_size(self.size)
        if self.streamed:
            self._put_part(partial, message.payload_bytes(), events)
            return 0
        self.parts.append(message.payload_bytes())
        connection.unfinished += message.payload_span.size
        if connection.unfinished > connection.most_unfinished:
            raise self._broken("unfinished")
        return 0

    cdef int complete(self, Incoming delivery, list events) except -1:
        """All of a delivery has come."""
        cdef SessionFlows session = self.session
        if not delivery.settled:
            if self.snd_settle_mode == MODE_SETTLED:
                raise self._broken("unsettled")
            if <object>set_default(self.pending, delivery.delivery_tag, delivery) is not delivery:
                raise self._broken("delivery-tag")
            session.arrived[delivery.delivery_id] = delivery
            if self.terminus is not None:
                self._remember(delivery)
        events.append(delivery)
        return 0

    def _drop_partial(self):
        """No more of a message that has come in part is wanted."""
        if self.partial is not None:
            for part in self.parts:
                self.session.connection.unfinished -= len(part)
            self.partial = None
            self.skipping = False
            self.parts = []

    cpdef settle(self, Incoming delivery, state, settled=None):
        """The host's answer to a delivery."""
        cdef SessionFlows session = self.session
        cdef PyObject* found
        cdef bint done
        if delivery.decided or delivery.presettled:
            self._refuse_answer()
        if type(state) is not Accepted and state is not None:
            self._check_state(state)
        delivery.decided = True
        found = PyDict_GetItemWithError(self.pending, delivery.delivery_tag)
        if not self.attached or found != <PyObject*>delivery:
            return                          # the sender has settled it, or its link is gone
        if settled is not None:
            done = settled
        elif self.rcv_settle_mode == MODE_SECOND and delivery.transfer.rcv_settle_mode is not None:
            done = delivery.transfer.rcv_settle_mode == MODE_FIRST
        else:
            done = self.rcv_settle_mode == MODE_FIRST
        delivery.state = state
        if done:
            self.forget(delivery)
        elif self.terminus is not None:
            self._note_state(delivery)
        session.decided.add(delivery.delivery_id, state, done)

    cpdef forget(self, Incoming delivery):
        """A delivery is settled."""
        delivery.settled = True
        PyDict_DelItem(self.pending, delivery.delivery_tag)
        self.session.arrived.pop(delivery.delivery_id, None)
        if self.credit <= self._half:
            self.session.dirty[self] = None
        if self.terminus is not None:
            self._forget_kept(delivery)


# ------------------------------------------------------------------------------------------------ octets

cdef object acknowledged(type cls, object handle, object state):
    """The event Acknowledged, without a call of its constructor."""
    event = (<PyTypeObject*>cls).tp_new(cls, <PyObject*>NO_ARGUMENTS, NULL)
    final = state.outcome if type(state) is TransactionalState else state
    set_slot(event, HANDLE_SLOT, handle)
    set_slot(event, MESSAGE_SLOT, state)
    set_slot(event, CODE_SLOT, CODE_REJECTED if type(final) is Rejected else CODE_RELEASED if type(final) is Released
             else CODE_MODIFIED if type(final) is Modified else CODE_ACCEPTED)
    return event


cdef object state_in(Disposition message, const uint8_t* at):
    """The state of a disposition. Those that say `accepted` in the shortest way share an object."""
    if at == NULL:
        return None
    if at[0] == 0 and at[1] == AMQP10_CODE_SMALLULONG and at[2] == 0x24 and at[3] == AMQP10_CODE_LIST0:
        return PLAIN_ACCEPTED
    return message.state


cdef bint is_final(object state) except -1:
    """Is it an outcome (3.4), or has it one?"""
    if type(state) is TransactionalState:
        state = state.outcome
    return type(state) in (Accepted, Rejected, Released, Modified, Declared)


cdef inline bint same_octets(bytes octets, const Span* s) noexcept:
    return <size_t>PyBytes_GET_SIZE(octets) == s.size and memcmp(PyBytes_AS_STRING(octets), s.at, s.size) == 0


cdef bytes tag_of(uint32_t number):
    """A delivery-tag of ours: a number, as four octets."""
    cdef bytes tag = new_octets(4)
    store_u32(<uint8_t*>PyBytes_AS_STRING(tag), number)
    return tag


cdef inline size_t uint_size(uint32_t v) noexcept:
    return 1 if v == 0 else 2 if v < 256 else 5


cdef inline uint8_t* put_uint(uint8_t* p, uint32_t v) noexcept:
    """A uint in its smallest encoding. Returns where the next value begins."""
    if v == 0:
        p[0] = AMQP10_CODE_UINT0
        return p + 1
    if v < 256:
        p[0] = AMQP10_CODE_SMALLUINT
        p[1] = <uint8_t>v
        return p + 2
    p[0] = AMQP10_CODE_UINT
    store_u32(p + 1, v)
    return p + 5


cdef inline size_t list_size(size_t fields) noexcept:
    """Octets of a performative before its fields."""
    return 6 if fields < 255 else 12


cdef inline uint8_t* put_list(uint8_t* p, uint8_t descriptor, size_t fields, uint8_t count) noexcept:
    """The begin of a performative whose fields take so many octets. Returns where the first of them goes."""
    p[0] = 0
    p[1] = AMQP10_CODE_SMALLULONG
    p[2] = descriptor
    if fields < 255:
        p[3] = AMQP10_CODE_LIST8
        p[4] = <uint8_t>(fields + 1)
        p[5] = count
        return p + 6
    p[3] = AMQP10_CODE_LIST32
    store_u32(p + 4, <uint32_t>(fields + 4))
    store_u32(p + 8, count)
    return p + 12


cdef size_t fields_size(SenderFlows link, Outgoing delivery, bint first) noexcept:
    """Octets of a transfer's fields."""
    cdef size_t size = uint_size(link.handle_) + 2 + <size_t>PyBytes_GET_SIZE(delivery.tail)
    if not first:
        return size + 3
    return size + uint_size(<uint32_t>delivery.id) + 2 + <size_t>PyBytes_GET_SIZE(delivery.delivery_tag) + \
        uint_size(delivery.message_format)


cdef size_t head_size(SenderFlows link, Outgoing delivery, bint first) noexcept:
    """Octets of a transfer before its payload."""
    cdef size_t fields = fields_size(link, delivery, first)
    return 8 + list_size(fields) + fields


cdef void put_head(uint8_t* p, SenderFlows link, Outgoing delivery, bint first, bint more) noexcept:
    """The performative of a transfer: of the first one of a delivery, or of a later one, which names only its link."""
    cdef size_t n
    p = put_list(p, 0x14, fields_size(link, delivery, first), 6 if PyBytes_GET_SIZE(delivery.tail) == 0 else 11)
    p = put_uint(p, link.handle_)
    if first:
        p = put_uint(p, <uint32_t>delivery.id)
        n = <size_t>PyBytes_GET_SIZE(delivery.delivery_tag)
        p[0] = AMQP10_CODE_VBIN8
        p[1] = <uint8_t>n
        memcpy(p + 2, PyBytes_AS_STRING(delivery.delivery_tag), n)
        p = put_uint(p + 2 + n, delivery.message_format)
        p[0] = AMQP10_CODE_TRUE if delivery.settled else AMQP10_CODE_FALSE
    else:
        memset(p, AMQP10_CODE_NULL, 4)
        p += 3
    p[1] = AMQP10_CODE_TRUE if more else AMQP10_CODE_FALSE
    memcpy(p + 2, PyBytes_AS_STRING(delivery.tail), <size_t>PyBytes_GET_SIZE(delivery.tail))
