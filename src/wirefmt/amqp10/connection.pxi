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
    cdef object given                       # the peer's state, except for one reported for a range that the session still knows
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
                self.link.session.reported is not None:
            found = self.link.session.reported.find(self.id)
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
        """The message, read as `strictness="lax"` does: it has crossed a broker, and nobody can change it any more. Its `notes`
        say which rules it violates. Raises DecodeError if the payload is not a message, or `message_format` is not 0: `reject`
        it then, or read `payload`."""
        cdef Transfer transfer = self.transfer
        if self.decoded is None:
            amqp10_check_format(transfer)
            if self.joined is not None:
                self.decoded = decode_message(self.joined, strictness="lax")
            else:
                self.decoded = amqp10_read_message(
                    transfer.block, transfer.payload_span.at if transfer.payload_span.size else transfer.frame,
                    transfer.payload_span.size, False, 0)
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
cdef class ConnectionFlows(EndpointFlows):
    """What sessions and links need of their connection. `Endpoint` is derived from it.

    It calls these methods of that: `_accept` for what is not a delivery, `_flush` when its bytes are taken.

    Attributes:
        frame_limit: bytes of a frame that the peer takes.
        unfinished: bytes of messages that have arrived in part.
    """
    cdef public dict _by_remote             # sessions by the peer's channel
    cdef public bint _opened                # both opens have been exchanged
    cdef public uint32_t frame_limit
    cdef public int64_t unfinished
    cdef readonly Py_ssize_t _at            # the message that `_flow` is at
    cdef int64_t most_unsettled, overrun, most_unfinished, most_pending
    cdef type acknowledged                  # the class of the event

    def __init__(self, *_, **__):
        self._by_remote = {}
        self.acknowledged = object

    def _configure(self, options, type acknowledged not None):
        """options: a ConnectionOptions; acknowledged: the class of the event for a delivery that is settled."""
        self.most_unsettled = options.unsettled
        self.overrun = options.overrun
        self.most_unfinished = options.unfinished_bytes
        self.most_pending = options.pending_bytes
        self.acknowledged = acknowledged

    cdef int gather(self) except -1:
        """Write the answers and flows of this turn."""
        if self._opened:
            self._flush()
        return 0

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

        Returns the events of what was waiting after it. Raises LocalProtocolError if the event does not wait for an
        answer.
        """
        if type(event) is Incoming:
            (<Incoming>event).link.settle(<Incoming>event, PLAIN_ACCEPTED, **answer)
            return []
        return self._accept(event, answer)


# ------------------------------------------------------------------------------------------------ a session

@cython.nonecheck(True)
cdef class SessionFlows:
    """The windows of a session (2.5.6), and its deliveries that are not settled. `Session` is derived from it.

    It calls these methods of that: `_broken` for the error of a rule, `_tell` for a state that is not an outcome.
    """
    cdef public ConnectionFlows connection
    cdef public Job job                     # what the window has cut off; None: nothing
    cdef public dict dirty                  # links whose flow is due
    cdef public dict _remote_links          # by the peer's handle
    cdef public bint mapped, flow_due
    cdef public int64_t incoming_window, remote_incoming_window, remote_outgoing_window
    cdef public int64_t _half               # incoming-window at which it is renewed
    cdef public uint32_t next_outgoing_id, next_delivery_id
    cdef public uint16_t channel
    cdef public object reported             # states other than outcomes, by ranges; None: none
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
        """The transfer-id expected next; None: the peer's begin has not arrived."""
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
        cdef Outbox outbox = self.connection._outbox
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
        cdef uint8_t* p = self.connection._outbox.grow(size)
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
