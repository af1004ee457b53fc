# What a connection does for every request and response: making, sending and taking them.
#
# `Flows` has the state of that. The connections of wirefmt/rocketmq/connection.py are derived from it and do all that is rare: a
# method here that meets a rare case changes nothing and leaves it to them. What they use of it is in the stub, with its
# meaning. Numbers and times of requests are given here alone. Sections are those of docs/rocketmq.md.
from cpython.bytes cimport PyBytes_CheckExact
from cpython.dict cimport PyDict_Contains, PyDict_DelItem, PyDict_Size
from cpython.float cimport PyFloat_CheckExact
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyTypeObject

from heapq import heapify, heappop, heappush
from sys import intern


cdef extern from "Python.h":
    int set_slot "PyObject_GenericSetAttr"(object of, object name, object value) except -1


cdef str HANDLE = intern("handle"), MESSAGE = intern("message"), CODE = intern("code")
cdef tuple NO_ARGUMENTS = ()


cdef enum:
    GO_AWAY_CODE = 1500
    LAST_OPAQUE = 0x7FFFFFFF
    BINARY_CODES = 0x7FFF                   # larger ones have no space in the ROCKETMQ header


@cython.final
@cython.freelist(1024)
@cython.no_gc
cdef class Request:
    """The handle of a request.

    Its one outcome is `Acknowledged` (the response, whatever its code), `TimedOut`, or `Disconnected.lost`. A request that the
    host cancels has none.

    Attributes:
        number: counts up with each request of the connection.
        opaque: the number on the wire, used again after 2**31 requests.
        code: the request's code.
        timeout: seconds it may take.
        deadline: when its time is over; None: its time has not begun (see `next_timeout`).
    """
    cdef readonly int64_t number
    cdef readonly int32_t opaque, code
    cdef readonly double timeout
    cdef double end
    cdef bint begun

    def __init__(self, number, opaque, code, timeout, deadline):
        self.number = number
        self.opaque = opaque
        self.code = code
        self.timeout = timeout
        self.deadline = deadline

    @property
    def deadline(self):
        return self.end if self.begun else None

    @deadline.setter
    def deadline(self, value):
        if value is not None:
            self.end = value
        self.begun = value is not None

    def __repr__(self):
        return f"<Request {self.number}: code {self.code}, opaque {self.opaque}>"


cdef class Flows(EndpointFlows):
    """Requests of one connection, in both directions. `Endpoint` is derived from it.

    It calls these methods of the derived classes: `_request` and `_respond` with what is not plain, `_read_on` with
    what needs the table of states, `_answer` with a response, `_advance` with the time.

    Attributes:
        late: responses to requests that had timed out or were cancelled.
        strays: responses to no request of ours. They are ignored, as real peers do.
    """
    cdef readonly dict _pending             # requests of ours, by opaque
    cdef readonly dict _undecided           # requests of the peer, by identity
    cdef readonly dict _gone                # opaques that have timed out or were cancelled, the oldest first
    cdef readonly list _begun               # (deadline, number, request), a heap; finished ones are left in it
    cdef list waiting                       # requests whose time begins with the next call that brings it
    cdef double latest                      # the largest deadline there has been
    cdef int64_t sent                       # the last number of a handle
    cdef public int64_t _opaque, late, strays
    cdef public bint _open                  # the state is OPEN
    cdef public object _deadlines, _keepalive, _serialize_type
    cdef bint server, signs
    cdef object language, version, timeout
    cdef int64_t most_pending, most_bytes, most_undecided, most_gone
    cdef type acknowledged                  # the class of the event

    def __init__(self, *_, **__):
        self._pending, self._undecided, self._gone = {}, {}, {}
        self._begun, self.waiting = [], []
        self.acknowledged = object

    def _configure(self, options, bint server, type acknowledged not None):
        """options: ConnectionOptions; acknowledged: the class of the event for a response."""
        self._serialize_type = options.serialize_type
        self.server = server
        self.signs = options.credentials is not None
        self.language, self.version, self.timeout = options.language, options.version, options.timeout
        self.most_pending, self.most_bytes = options.pending, options.pending_bytes
        self.most_undecided, self.most_gone = options.undecided, options.remembered
        self.acknowledged = acknowledged

    # ---- in

    def receive(self, data, now):
        """Take bytes from the peer; return the events they complete, in order."""
        cdef Py_ssize_t capacity = self.most_undecided - PyDict_Size(self._undecided), at
        cdef Outbox outbox = self._outbox
        cdef list events = []
        if not self._open or not self._reading or capacity <= 0:
            return EndpointFlows.receive(self, data, now)
        if PyList_GET_SIZE(self.waiting) or now != self._deadlines.clock:
            self._advance(now)
        if (PyBytes_GET_SIZE(data) if PyBytes_CheckExact(data) else memoryview(data).nbytes):
            self._keepalive.received()
        try:
            messages = self._decoder.feed(data, capacity)
        except DecodeError as error:
            self._read_on(list(error.messages), error, events)
            return events
        at = self._flow(messages, 0, events)
        if at < PyList_GET_SIZE(messages) or (<Decoder>self._decoder).unread_block is not None or \
                PyDict_Size(self._undecided) >= self.most_undecided or outbox.position - outbox.taken > self.most_bytes:
            self._read_on(messages[at:], None, events)
        return events

    def _flow(self, messages, Py_ssize_t at, list events not None):
        """Take commands from number `at` on, as long as there is nothing special about them. Returns the number of the first
        other one."""
        cdef Py_ssize_t count = len(messages)
        cdef RemotingCommand message
        while 0 <= at < count:
            item = messages[at]
            if not self._open or type(item) is not RemotingCommand:
                break
            message = <RemotingCommand>item
            if not message.m.flag & ROCKETMQ_RESPONSE:
                if not message.m.flag & ROCKETMQ_ONEWAY:
                    self._undecided[<size_t><PyObject*>message] = message
                events.append(message)
            elif message.m.code != GO_AWAY_CODE or self.server:
                self._settle(message, events)
            else:
                break
            at += 1
        return at

    cpdef int _settle(self, RemotingCommand message, list events) except -1:
        """A response has arrived."""
        cdef PyObject* found
        opaque = message.m.opaque if message.m.has_opaque else None
        found = PyDict_GetItemWithError(self._pending, opaque)
        if found != NULL:
            event = (<PyTypeObject*>self.acknowledged).tp_new(self.acknowledged, <PyObject*>NO_ARGUMENTS, NULL)
            set_slot(event, HANDLE, <object>found)
            set_slot(event, MESSAGE, message)
            set_slot(event, CODE, message.m.code)
            PyDict_DelItem(self._pending, opaque)
            events.append(event)
        elif PyDict_Contains(self._gone, opaque):
            PyDict_DelItem(self._gone, opaque)
            self.late += 1
        else:
            self.strays += 1
        return 0

    # ---- out

    def request(self, code, header=None, body=None, *, ext_fields=None, oneway=False, timeout=None, now=None):
        """Queue a request that is made here, with our opaque, language, version and form of header, signed if there are
        credentials.

        Args:
            code: of the request.
            header: its typed header; or `ext_fields`.
            body: its body.
            oneway: True: there is no response.
            timeout: seconds until the response must have arrived; None: the options'.
            now: the time, if the caller knows it. Without it the request's time begins with the next call that brings the
                time, and `next_timeout` asks for one at once.

        Returns:
            the request's handle; None for a one-way request.

        Raises:
            LocalProtocolError: not legal now, a limit is reached, or the command cannot be written. Nothing has changed.
        """
        cdef int64_t opaque = self._opaque + 1
        cdef Outbox outbox = self._outbox
        cdef bytes octets
        cdef double seconds
        if not self._open or self.signs or oneway is not False or ext_fields is not None or opaque > LAST_OPAQUE or \
                PyDict_Size(self._pending) >= self.most_pending or not PyLong_CheckExact(code) or \
                not (timeout is None or PyFloat_CheckExact(timeout)) or not (now is None or PyFloat_CheckExact(now)):
            return self._request(code, header, body, ext_fields, oneway, timeout, now)
        number = opaque
        if PyDict_Contains(self._pending, number) or PyDict_Contains(self._gone, number):
            return self._request(code, header, body, ext_fields, oneway, timeout, now)
        seconds = self.timeout if timeout is None else timeout
        try:
            octets = command_octets(code, 0, number, None, None, header, body, self.language, self.version,
                                    self._serialize_type if code <= BINARY_CODES else "JSON")
        except (EncodeError, TypeError, ValueError, OverflowError):
            return self._request(code, header, body, ext_fields, oneway, timeout, now)
        if seconds <= 0 or (outbox.position != outbox.taken and
                            outbox.position - outbox.taken + PyBytes_GET_SIZE(octets) > self.most_bytes):
            return self._request(code, header, body, ext_fields, oneway, timeout, now)
        return self.put_request(octets, code, number, seconds, now)

    def _free_opaque(self):
        """The next number on the wire that is not in use; `_put_request` takes it."""
        cdef int64_t opaque = self._opaque
        while True:
            opaque = opaque + 1 if opaque < LAST_OPAQUE else 0
            number = opaque
            if not PyDict_Contains(self._pending, number) and not PyDict_Contains(self._gone, number):
                return number

    def _put_request(self, bytes frame not None, int code, opaque, bint oneway, double seconds, now):
        """Queue a request with this number on the wire. Returns its handle; None: it is one-way."""
        if not oneway:
            return self.put_request(frame, code, opaque, seconds, now)
        self._outbox.put(frame)
        self._opaque = opaque

    cdef Request put_request(self, bytes frame, int code, object opaque, double seconds, object now):
        cdef Request request = Request.__new__(Request)
        self._outbox.put(frame)
        self._opaque = opaque
        self.sent += 1
        request.number = self.sent
        request.opaque = opaque
        request.code = code
        request.timeout = seconds
        self._pending[opaque] = request
        if now is None:
            self.waiting.append(request)
            return request
        if PyList_GET_SIZE(self.waiting) or now != self._deadlines.clock:
            self._advance(now)
        self.begin(request, self._deadlines.clock)
        return request

    # ---- the time of requests

    cdef int begin(self, Request request, double clock) except -1:
        """The time of a request begins."""
        cdef double end = clock + request.timeout
        request.end = end
        request.begun = True
        if end >= self.latest:
            self.latest = end
            self._begun.append((end, request.number, request))       # a heap stays one: this is the largest
        else:
            heappush(self._begun, (end, request.number, request))
        if PyList_GET_SIZE(self._begun) > 1024 + 2 * PyDict_Size(self._pending):     # finished ones are no more than the others
            self._begun = [item for item in self._begun if self._pending.get((<Request?>item[2]).opaque) is item[2]]
            heapify(self._begun)
        return 0

    def _begin_waiting(self):
        """A call has brought the time: that of requests sent without it begins."""
        cdef double clock
        cdef Request request
        if PyList_GET_SIZE(self.waiting):
            clock = self._deadlines.clock
            for request in self.waiting:
                self.begin(request, clock)
            self.waiting.clear()

    def _first_deadline(self):
        """The earliest time at which a request is over; now, if the time of one has not begun; None: none is pending."""
        if PyList_GET_SIZE(self.waiting):
            return self._deadlines.clock
        while PyList_GET_SIZE(self._begun) and self._pending.get((<Request?>self._begun[0][2]).opaque) is not self._begun[0][2]:
            heappop(self._begun)
        return self._begun[0][0] if PyList_GET_SIZE(self._begun) else None

    def _take_overdue(self):
        """Requests whose time is over. They are pending no more."""
        cdef list overdue = []
        clock = self._deadlines.clock
        while PyList_GET_SIZE(self._begun) and self._begun[0][0] <= clock:
            request = heappop(self._begun)[2]
            if self._give_up_on(request):
                overdue.append(request)
        return overdue

    def _give_up_on(self, Request request not None):
        """A request is pending no more; a response that comes counts as late. False: it had been finished."""
        if self._pending.get(request.opaque) is not request:
            return False
        PyDict_DelItem(self._pending, request.opaque)
        self._gone[request.opaque] = None
        if PyDict_Size(self._gone) > self.most_gone:
            del self._gone[next(iter(self._gone))]
        return True

    def _drop_all(self):
        """Forget all requests. Returns those of ours that are lost."""
        cdef tuple lost = tuple(self._pending.values())
        for kept in (self._pending, self._begun, self.waiting, self._gone, self._undecided):
            kept.clear()
        return lost

    def respond(self, event, code=0, header=None, body=None, *, ext_fields=None, remark=None):
        """Answer a request, in the form of its header. Returns the events that were waiting for space.

        Raises LocalProtocolError if the request does not wait for an answer, or the response cannot be written.
        """
        cdef RemotingCommand asked
        cdef bytes octets
        cdef object key = <size_t><PyObject*>event
        if not self._open or ext_fields is not None or type(event) is not RemotingCommand or \
                not PyDict_Contains(self._undecided, key):
            return self._respond(event, code, header, body, ext_fields, remark)
        asked = <RemotingCommand>event
        try:
            octets = command_octets(code, ROCKETMQ_RESPONSE, asked.m.opaque if asked.m.has_opaque else None, remark, None,
                                    header, body, self.language, self.version, asked.serialize_type)
        except (EncodeError, TypeError, ValueError, OverflowError):
            return self._respond(event, code, header, body, ext_fields, remark)
        return self._answer(event, octets)
