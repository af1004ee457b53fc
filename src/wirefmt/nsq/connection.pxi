# What a connection does for every message: it is published, put in flight, finished, sent.
#
# `ClientFlows` and `ServerFlows` hold the state of that; `Inbox` holds what a consumer has not handed over. The connections
# of client_connection.py and server_connection.py, and the consumer of consumer.py, are derived from them and do all that is
# rare: a method here that meets a rare case changes nothing and leaves it to them.

from cpython.dict cimport PyDict_Contains, PyDict_DelItem, PyDict_GetItemWithError, PyDict_Size

from collections import deque
from sys import intern


cdef extern from "Python.h":
    int set_slot "PyObject_GenericSetAttr"(object of, object name, object value) except -1


cdef str HANDLE = intern("handle"), MESSAGE = intern("message"), CODE = intern("code")
cdef tuple NO_ARGUMENTS = ()
cdef object NO_CODE = 0                     # small integers are one object


cdef enum:
    FIN_LINE = 21                           # octets of a FIN: its word, a space, the id, the end of the line


cdef class Flows(EndpointFlows):
    """What both roles have: handles, and messages in flight."""
    cdef object in_flight
    cdef dict by_id                         # of `in_flight`
    cdef public bint _flowing, _subscribed
    cdef int64_t next_number                # of the next handle
    cdef int64_t most_pending
    cdef type acknowledged                  # the class of the event

    def __init__(self, *_, **__):
        self.by_id = {}
        self.next_number = 1
        self.acknowledged = object

    def _configure(self, most_pending, type acknowledged not None):
        """most_pending: octets queued above which nothing is sent; acknowledged: the class of the event."""
        self.most_pending = most_pending
        self.acknowledged = acknowledged

    def _number(self):
        """The number of a new handle."""
        self.next_number += 1
        return self.next_number - 1

    cdef object acknowledge_with(self, handle, message):
        """The event."""
        event = (<PyTypeObject*>self.acknowledged).tp_new(self.acknowledged, <PyObject*>NO_ARGUMENTS, NULL)
        set_slot(event, HANDLE, handle)
        set_slot(event, MESSAGE, message)
        set_slot(event, CODE, NO_CODE)
        return event

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


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Request:
    """The handle of a command that the server answers: AUTH, SUB, PUB, MPUB, DPUB, CLS.

    Attributes:
        number: counts up with each handle of the connection, or of the session if there is one.
        command: the command.
    """
    cdef readonly object number
    cdef readonly Command command

    def __init__(self, int number, Command command not None):
        self.number = number
        self.command = command

    def __repr__(self):
        return f"<Request {self.number}: {self.command.name}>"


cdef inline bint publishes(command):
    return type(command) is Publish or type(command) is MultiPublish or type(command) is DeferredPublish


cdef inline bint nsq_is_ok(const Span* data) noexcept nogil:
    return data.size == 2 and memcmp(data.at, b"OK", 2) == 0


cdef class ClientFlows(Flows):
    """Messages in flight at a client, and what it publishes. `ClientConnection` is derived from it.

    It calls these methods of the derived classes: `_watch` after messages, `_refuse_answer` for one that waits for none.
    """
    cdef bint takes_messages, takes_answers, publishes      # see `_allow`
    cdef public bint _window_closed, _watching
    cdef readonly object _requests          # a deque
    cdef public int64_t _most_ready
    cdef public object _moment
    cdef int64_t most_unanswered

    def __cinit__(self):
        self._requests = deque()

    def _answer_within(self, most_unanswered):
        """most_unanswered: commands that may await their answer."""
        self.most_unanswered = most_unanswered

    def _allow(self, bint messages, bint answers, bint publishing):
        """What may be done without a look at the state, which stays as it is.

        messages: the state takes messages. answers: it takes the answers of publishing commands, and there is no session.
        publishing: it allows publishing commands, AUTH is not missing, and there is no session.
        """
        self.takes_messages = messages
        self.takes_answers = answers
        self.publishes = publishing
        self._flowing = messages or answers

    def _flow(self, messages, Py_ssize_t at, list events not None):
        """Take frames from number `at` on, while they are messages for which RDY leaves space, or OK for a publishing command.
        Returns the number of the first other one."""
        cdef Py_ssize_t count = len(messages)
        cdef dict by_id = self.by_id
        cdef MessageFrame message
        cdef Arrival arrival
        cdef bint arrived = False
        while 0 <= at < count:
            item = messages[at]
            if type(item) is MessageFrame:
                message = <MessageFrame>item
                if not self.takes_messages or PyDict_Size(by_id) >= self._most_ready or \
                        PyDict_Contains(by_id, message.message_id):
                    break
                arrival = Arrival.__new__(Arrival)
                arrival.message = message
                arrival.moment = self._moment
                by_id[message.message_id] = arrival
                events.append(message)
                arrived = True
            elif type(item) is not Response or not self.answer(<Response>item, events):
                break
            at += 1
        if arrived and not self._watching:
            self._watch()
        return at

    cdef bint answer(self, Response response, list events) except -1:
        """OK for the first command that awaits an answer. False: it is something else."""
        cdef Request request
        if not self.takes_answers or self._window_closed or not nsq_is_ok(&response.body_span) or not self._requests:
            return False
        request = <Request?>self._requests[0]
        if not publishes(request.command):
            return False
        self._requests.popleft()
        events.append(self.acknowledge_with(request, response))
        return True

    def _publish(self, command):
        """Queue a publishing command. Returns its handle; None: it needs a further look, and nothing has changed."""
        cdef Outbox outbox = self._outbox
        cdef Request request
        cdef int64_t pending = outbox.position - outbox.taken
        if not self.publishes or not publishes(command) or len(self._requests) >= self.most_unanswered or \
                (pending and pending + (<Message>command).size > self.most_pending):
            return None
        if (<Message>command).size < KEEP_FROM:
            memcpy(outbox.grow((<Message>command).size), (<Message>command).frame, (<Message>command).size)
        else:
            outbox.put((<Message>command).encode())
        request = Request.__new__(Request)
        request.number = self.next_number
        request.command = <Command>command
        self.next_number += 1
        self._requests.append(request)
        return request

    def finish(self, message):
        """Answer a message: it is done.

        Raises LocalProtocolError if the message does not wait for an answer: it has had one, or its time is over.
        """
        if not self.holds(message):
            self._refuse_answer()
        self.put_fin(<MessageFrame>message)

    cdef int put_fin(self, MessageFrame message) except -1:
        """FIN for a message in flight."""
        cdef uint8_t* p
        PyDict_DelItem(self.by_id, message.message_id)
        p = self._outbox.grow(FIN_LINE)
        memcpy(p, b"FIN ", 4)
        memcpy(p + 4, message.frame + 18, NSQ_MESSAGE_ID_SIZE)
        p[FIN_LINE - 1] = 0x0A
        return 0

    cpdef bint holds(self, message) except -1:
        """Does this message wait for an answer? False: it has had one, or its time is over."""
        cdef PyObject* found
        if type(message) is not MessageFrame:
            return False
        found = PyDict_GetItemWithError(self.by_id, (<MessageFrame>message).message_id)
        return found != NULL and type(<object>found) is Arrival and (<Arrival>found).message is message


# ------------------------------------------------------------------------------------------------ a consumer

cdef class Taken:
    """A message of a consumer. `Message` of consumer.py is derived from it.

    Attributes:
        frame: what the server has sent: its `body`, `attempts`, `timestamp`, `message_id`.
    """
    cdef readonly MessageFrame frame
    cdef public object _link                # None: it is answered
    cdef ClientFlows flows                  # the link's connection
    cdef readonly Inbox _consumer

    def finish(self):
        """Answer FIN: the message is done. False: it is not in flight any more."""
        cdef ClientFlows flows = self.flows
        cdef Inbox consumer = self._consumer
        cdef bint idle
        link = self._link
        self._link = None
        if link is None or flows is None or not flows.holds(self.frame):
            return False
        idle = flows._outbox.position == flows._outbox.taken
        flows.put_fin(self.frame)
        if idle:                            # otherwise the driver is going to write already
            link.driver.queued()
        if consumer is not None and consumer._watched:
            consumer._answered()
        return True


cdef Factory TAKEN = factory_of(Taken)


@cython.final
cdef class Run:
    """Messages that have arrived together from one server."""
    cdef object link
    cdef ClientFlows flows
    cdef list events
    cdef Py_ssize_t at, end                 # of those that the host has not taken


cdef class Inbox:
    """Messages that have arrived and that the host has not taken. `Consumer` is derived from it.

    It calls `_answered` of the derived class after each message that is done, if `_watched` says so.
    """
    cdef public bint _watched
    cdef public object _last
    cdef type made                          # the class of messages, derived from Taken
    cdef list runs
    cdef Py_ssize_t first                   # the number of the first run that is not over

    def __init__(self, *_, **__):
        self.made = Taken
        self.runs = []

    def _hand_over(self, type made not None):
        """made: the class of messages."""
        if not issubclass(made, Taken):
            raise TypeError(f"{made.__name__} is not derived from Taken")
        self.made = made

    def _put(self, link, list events not None, Py_ssize_t at):
        """Keep messages of a link from number `at` on. Returns the number of the first other event."""
        cdef Py_ssize_t end = at, count = len(events)
        cdef ClientFlows flows = link.connection
        cdef Run run
        if flows is None:
            raise TypeError("the link has no connection")
        while 0 <= end < count and type(events[end]) is MessageFrame:
            end += 1
        if end > at:
            run = Run.__new__(Run)
            run.link = link
            run.flows = flows
            run.events = events
            run.at = at
            run.end = end
            self.runs.append(run)
        return end

    cpdef object _next(self):
        """The first message that is still in flight, or None."""
        cdef Taken taken
        cdef Run run
        while self.first < len(self.runs):
            run = <Run>self.runs[self.first]
            while run.at < run.end:
                frame = run.events[run.at]
                run.at += 1
                if run.flows.holds(frame):
                    taken = <Taken>TAKEN.make(self.made, <PyObject*>NO_ARGUMENTS, NULL)
                    taken.frame = <MessageFrame>frame
                    taken._link = run.link
                    taken.flows = run.flows
                    taken._consumer = self
                    return taken
            self.runs[self.first] = None
            self.first += 1
            if self.first >= 64 or self.first == len(self.runs):
                del self.runs[:self.first]
                self.first = 0
        return None

    def _following(self):
        """Finish what the iterator has handed over last, and hand over the next one, or None."""
        last = self._last
        if last is not None:
            self._last = None
            last.finish()
        self._last = self._next()
        return self._last


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

    It calls these methods of the derived class: `_deliver` with what is not plain, `_note_window` when a place is free.

    Attributes:
        ready_count: the last RDY.
    """
    cdef public int64_t ready_count

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
            events.append(self.acknowledge_with(delivery, message))
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
        cdef Outbox outbox = self._outbox
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
        delivery.number = self.next_number
        delivery.message_id = message_id
        delivery.attempts = attempts
        delivery.moment = self.in_flight.moment()
        delivery.host = host
        self.next_number += 1
        by_id[message_id] = delivery
        return delivery


def size_of(Message message not None):
    """Bytes of a command or frame, without a copy of them."""
    return message.size
