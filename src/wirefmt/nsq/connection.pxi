# What a connection does for every message: a message that comes is put in flight, finished, sent.
#
# `ClientFlows` and `ServerFlows` hold the state of that. The connections of client_connection.py and server_connection.py are
# derived from them and do all that is rare: a method here that meets something unusual changes nothing and leaves it to them.

from cpython.dict cimport PyDict_Contains, PyDict_DelItem, PyDict_GetItemWithError, PyDict_Size

from sys import intern


cdef extern from "Python.h":
    int set_slot "PyObject_GenericSetAttr"(object of, object name, object value) except -1


cdef str HANDLE = intern("handle"), MESSAGE = intern("message"), CODE = intern("code")
cdef tuple NO_ARGUMENTS = ()
cdef object NO_CODE = 0                     # small integers are one object


cdef enum:
    FIN_LINE = 21                           # octets of a FIN: its word, a space, the id, the end of the line


cdef class Flows:
    """What both roles have: bytes for the peer, and messages in flight."""
    cdef Outbox outbox
    cdef object in_flight
    cdef dict by_id                         # of `in_flight`
    cdef public bint _flowing               # the state takes the most frequent message and stays as it is
    cdef public bint _subscribed            # the state is SUBSCRIBED

    def __init__(self, *_, **__):
        self.begin()

    cdef int begin(self) except -1:
        self.outbox = Outbox()
        self.by_id = {}
        return 0

    @property
    def _outbox(self):
        return self.outbox

    @_outbox.setter
    def _outbox(self, Outbox outbox not None):
        self.outbox = outbox

    @property
    def _in_flight(self):
        return self.in_flight

    @_in_flight.setter
    def _in_flight(self, flight):
        cdef dict by_id = flight.by_id
        if by_id is None:
            raise TypeError("messages in flight are a dict by id")
        self.by_id = by_id
        self.in_flight = flight


# ------------------------------------------------------------------------------------------------ a client

@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class Arrival:
    """A message in flight, at the client.

    Attributes:
        message: the message.
        moment: when it came: see inflight.py.
        until: None, or what TOUCH has made of its end.
    """
    cdef readonly MessageFrame message
    cdef readonly object moment             # of nothing that can be part of a cycle
    cdef public object until

    def __init__(self, MessageFrame message not None, moment):
        self.message = message
        self.moment = moment


cdef class ClientFlows(Flows):
    """Messages in flight at a client. `ClientConnection` is derived from it."""
    cdef public bint _watching              # the timer "in flight" runs
    cdef public int64_t _most_ready         # the largest RDY so far
    cdef public object _moment              # of the call that runs

    def _flow(self, messages, Py_ssize_t at, list events not None):
        """Take messages from number `at` on, while they are messages for which RDY leaves room. Returns the number of the first
        other one."""
        cdef Py_ssize_t first = at, count = len(messages)
        cdef dict by_id = self.by_id
        cdef MessageFrame message
        cdef Arrival arrival
        while 0 <= at < count:
            item = messages[at]
            if type(item) is not MessageFrame or PyDict_Size(by_id) >= self._most_ready:
                break
            message = <MessageFrame>item
            if PyDict_Contains(by_id, message.message_id):
                break
            arrival = Arrival.__new__(Arrival)
            arrival.message = message
            arrival.moment = self._moment
            by_id[message.message_id] = arrival
            events.append(message)
            at += 1
        if at > first and not self._watching:
            self._watch()
        return at

    def finish(self, message):
        """Answer a message: it is done.

        Raises LocalProtocolError if the message does not wait for an answer: it has had one, or its time is over.
        """
        cdef uint8_t* p
        if not self.holds(message):
            self._refuse_answer()
        PyDict_DelItem(self.by_id, (<MessageFrame>message).message_id)
        p = self.outbox.grow(FIN_LINE)
        memcpy(p, b"FIN ", 4)
        memcpy(p + 4, (<MessageFrame>message).frame + 18, NSQ_MESSAGE_ID_SIZE)
        p[FIN_LINE - 1] = 0x0A

    cpdef bint holds(self, message) except -1:
        """Does this message wait for an answer? False: it has had one, or its time is over."""
        cdef PyObject* found
        if type(message) is not MessageFrame:
            return False
        found = PyDict_GetItemWithError(self.by_id, (<MessageFrame>message).message_id)
        return found != NULL and type(<object>found) is Arrival and (<Arrival>found).message is message


# ------------------------------------------------------------------------------------------------ a server

@cython.final
@cython.freelist(1024)
cdef class Delivery:
    """The handle of a message that a server has sent. `Acknowledged` with Finish or Requeue, `TimedOut` or the end of the
    connection finishes it, exactly one of them.

    Attributes:
        number: counts up with each message of the connection.
        message_id: 16 bytes.
        attempts: which attempt it is.
        moment: when it was sent: see inflight.py.
        host: what the host wants to find here.
        until: None, or what TOUCH has made of its end.
    """
    cdef readonly int64_t number
    cdef readonly bytes message_id
    cdef readonly object attempts, moment
    cdef public object host, until

    def __init__(self, number, bytes message_id not None, attempts, moment, host=None):
        self.number = number
        self.message_id = message_id
        self.attempts = attempts
        self.moment = moment
        self.host = host

    def __repr__(self):
        return f"<Delivery {self.number}: {self.message_id!r}, attempt {self.attempts}>"


cdef class ServerFlows(Flows):
    """Messages in flight at the client of a server. `ServerConnection` is derived from it.

    Attributes:
        ready_count: the last RDY.
    """
    cdef public int64_t ready_count
    cdef public int64_t _next_number        # of the next handle
    cdef int64_t most_pending
    cdef type acknowledged                  # the class of the event

    def __init__(self, *_, **__):
        self.begin()
        self.acknowledged = object

    def _configure(self, most_pending, type acknowledged not None):
        """most_pending: octets queued above which nothing is sent; acknowledged: the class of the event for FIN."""
        self.most_pending = most_pending
        self.acknowledged = acknowledged

    def _flow(self, messages, Py_ssize_t at, list events not None):
        """Take commands from number `at` on, while they are FINs of messages in flight. Returns the number of the first other
        one."""
        cdef Py_ssize_t count = len(messages), left
        cdef dict by_id = self.by_id
        cdef PyObject* found
        cdef Message message
        while 0 <= at < count:
            item = messages[at]
            if type(item) is not Finish:
                break
            message = <Message>item
            if message.noted or message.size < FIN_LINE:
                break
            message_id = octets_of(message.frame + 4, NSQ_MESSAGE_ID_SIZE)
            found = PyDict_GetItemWithError(by_id, message_id)
            if found == NULL:
                break
            delivery = <object>found
            PyDict_DelItem(by_id, message_id)
            event = (<PyTypeObject*>self.acknowledged).tp_new(self.acknowledged, <PyObject*>NO_ARGUMENTS, NULL)
            set_slot(event, HANDLE, delivery)
            set_slot(event, MESSAGE, message)
            set_slot(event, CODE, NO_CODE)
            events.append(event)
            left = PyDict_Size(by_id)
            if left + 1 == self.ready_count:
                self._note_window(True, events)
            at += 1
        return at

    def deliver(self, message_id, body, timestamp=0, attempts=1, host=None):
        """Send a message: `send` without an object for the frame.

        Args:
            message_id: 16 bytes, not in flight on this connection.
            timestamp: nanoseconds.
            attempts: 1 at the first delivery; above 65535 it begins at 0 again, as with nsqd.
            host: what the handle holds for the host.
        """
        cdef Outbox outbox = self.outbox
        cdef dict by_id = self.by_id
        cdef Delivery delivery
        cdef Py_ssize_t size
        cdef uint8_t* p
        cdef int64_t when
        cdef uint32_t attempt
        if not self._subscribed or not PyBytes_CheckExact(body) or not PyBytes_CheckExact(message_id) or \
                PyBytes_GET_SIZE(message_id) != NSQ_MESSAGE_ID_SIZE or PyDict_Size(by_id) >= self.ready_count or \
                PyDict_Contains(by_id, message_id):
            return self._deliver(message_id, body, timestamp, attempts, host)
        size = PyBytes_GET_SIZE(body)
        if size >= KEEP_FROM or outbox.position - outbox.taken + size > self.most_pending:
            return self._deliver(message_id, body, timestamp, attempts, host)
        try:
            when = timestamp
            attempt = attempts & 0xFFFF
        except (OverflowError, TypeError):
            return self._deliver(message_id, body, timestamp, attempts, host)
        p = outbox.grow(8 + NSQ_MESSAGE_HEADER_SIZE + <size_t>size)
        store_u32(p, <uint32_t>(4 + NSQ_MESSAGE_HEADER_SIZE + size))
        store_u32(p + 4, 2)
        store_u32(p + 8, <uint32_t>(<uint64_t>when >> 32))
        store_u32(p + 12, <uint32_t>when)
        store_u16(p + 16, <uint16_t>attempt)
        memcpy(p + 18, PyBytes_AS_STRING(message_id), NSQ_MESSAGE_ID_SIZE)
        memcpy(p + 8 + NSQ_MESSAGE_HEADER_SIZE, PyBytes_AS_STRING(body), <size_t>size)
        delivery = Delivery.__new__(Delivery)
        delivery.number = self._next_number
        delivery.message_id = message_id
        delivery.attempts = attempts
        delivery.moment = self.in_flight.moment()
        delivery.host = host
        self._next_number += 1
        by_id[message_id] = delivery
        return delivery


def size_of(Message message not None):
    """Bytes of a command or frame, without a copy of them."""
    return message.size
