# What connections of all protocols do for every message: bytes queued for the peer, identifiers, windows.
# wirefmt/connection exports them.
from wirefmt.errors import RemoteProtocolError


cdef class Outbox:
    """Bytes for the peer, in order. `pending` counts what has not been taken.

    `position` counts all bytes ever queued and `taken` all bytes ever taken, so a message has been handed to the
    transport once `taken` has reached the `position` noted after it was queued.
    """

    def __init__(self):
        self.buffers = []

    def __dealloc__(self):
        free(self.at)

    @property
    def pending(self):
        return self.position - self.taken

    def put(self, data):
        """Queue bytes. A memoryview must have items of one byte, and its object must not change any more."""
        cdef Py_ssize_t size = len(data)
        if size < KEEP_FROM:
            self.put_block(take_block(data))
        else:
            self.close_tail()
            self.buffers.append(data)
            self.position += size

    def take(self):
        """Everything queued, joined."""
        if self.buffers:
            return b"".join(self.take_buffers())
        self.taken = self.position
        return self.take_tail()

    def take_buffers(self):
        """Everything queued, large buffers as they were given."""
        cdef list buffers
        self.close_tail()
        buffers = self.buffers
        self.buffers = []
        self.taken = self.position
        return buffers

    def clear(self):
        """Drop what is queued. It does not count as taken."""
        self.position = self.taken
        self.buffers = []
        self.size = 0

    cdef int put_block(self, bytes block) except -1:
        """Queue a copy of the bytes."""
        cdef size_t size = <size_t>PyBytes_GET_SIZE(block)
        if size:
            memcpy(self.grow(size), PyBytes_AS_STRING(block), size)
        return 0

    cdef bytes take_tail(self):
        """The small buffers at the end."""
        cdef bytes tail = PyBytes_FromStringAndSize(<const char*>self.at, <Py_ssize_t>self.size)
        self.size = 0
        if self.capacity > OUTBOX_KEPT:         # a large queue does not keep its memory permanently
            free(self.at)
            self.at = NULL
            self.capacity = 0
        return tail

    cdef int close_tail(self) except -1:
        if self.size:
            self.buffers.append(self.take_tail())
        return 0

    cdef int enlarge(self, size_t n) except -1:
        cdef size_t capacity = max(self.capacity * 2, self.size + n)
        cdef uint8_t* bigger = <uint8_t*>realloc(self.at, capacity)
        if bigger == NULL:
            raise MemoryError
        self.at = bigger
        self.capacity = capacity
        return 0


cdef class Identifiers:
    """Numbers of a small range, each used by one message at a time.

    They are assigned in ascending order, so a number that was freed is not used again at once. Those in use are skipped.
    """

    def __init__(self, last=65535):
        self.last = last
        self.following = 1
        self.used = set()

    def __contains__(self, identifier):
        return identifier in self.used

    def __len__(self):
        """How many are in use."""
        return len(self.used)

    @property
    def free(self):
        """How many are not in use."""
        return self.last - len(self.used)

    @property
    def next(self):
        """The number from which the search for a free one continues. It may be set to any number of the range."""
        return self.following

    @next.setter
    def next(self, value):
        if not 1 <= value <= self.last:
            raise ValueError(f"the next identifier must be 1 to {self.last}, not {value}")
        self.following = value

    def peek(self):
        """The number that `take` will give; None: all are in use."""
        cdef uint32_t identifier = self.following
        if len(self.used) >= self.last:
            return None
        number = identifier
        while number in self.used:
            identifier = identifier + 1 if identifier < self.last else 1
            number = identifier
        return number

    cpdef object take(self):
        """Take a free number; None: all are in use."""
        cdef uint32_t identifier
        number = self.peek()
        if number is not None:
            self.used.add(number)
            identifier = number
            self.following = identifier + 1 if identifier < self.last else 1
        return number

    def reserve(self, identifier):
        """Mark a number as used that was chosen earlier."""
        self.used.add(identifier)

    cpdef release(self, identifier):
        """Free a number, if it is in use."""
        self.used.discard(identifier)


cdef class Window:
    """A limit and how much of it is used. Receive Maximum, prefetch and link credit are windows.

    `limit` may be changed at any time, also to less than what is used.
    """

    def __init__(self, limit, used=0):
        self.limit = limit
        self.used = used

    @property
    def available(self):
        """What may still be taken; never negative."""
        return max(self.limit - self.used, 0)

    cpdef bint take(self, int64_t count=1) except -1:
        """Use `count`. False, and nothing changes, if less is available."""
        if self.used + count > self.limit:
            return False
        self.used += count
        return True

    cpdef bint give(self, int64_t count=1) except -1:
        """Free `count`, at most what is used. True if the window was closed and is open now."""
        cdef bint closed = self.used >= self.limit
        self.used = max(self.used - count, 0)
        return closed and self.used < self.limit


cdef inline Py_ssize_t size_of_buffer(object data) except -1:
    """Octets of a buffer."""
    if PyBytes_CheckExact(data):
        return PyBytes_GET_SIZE(data)
    return (data if type(data) is memoryview else memoryview(data)).nbytes


cdef inline bint decoder_is_carried(object decoder) except -1:
    """Do its bytes come through a compression?"""
    return not isinstance(decoder, FrameDecoder) and hasattr(decoder, "spent")


cdef inline int64_t unread_of(object decoder) except -1:
    """What `FrameDecoder.unread` says."""
    cdef FrameDecoder plain
    if not isinstance(decoder, FrameDecoder):
        return decoder.unread
    plain = <FrameDecoder>decoder
    return 0 if plain.unread_block is None else PyBytes_GET_SIZE(plain.unread_block) - <int64_t>plain.unread_at


cdef enum:                      # what ends a turn of reading
    ROUNDS = 1000               # reads of the decoder
    INFLATED_MESSAGES = 1024    # of what a compression has brought, messages, and octets
    INFLATED_OCTETS = 1 << 23
    ANSWER_OCTETS = 1 << 20     # by which answers may exceed the limit on queued octets: then the peer does not read them


ANSWER_CAPACITY = <int>ANSWER_OCTETS


cdef class EndpointFlows:
    """What every connection does for its bytes: it reads them, and has an outbox. `Endpoint` of connection/endpoint.py is derived
    from it, and so is the class in which a codec keeps what its connections do for every message: both work with one outbox.

    It calls these methods of the derived classes: `_advance` with the time, `_heard` when bytes have arrived, `_capacity` for the
    number of messages that may be read, `_handle` with messages, `_fault` and `_give_up` for the end, `_unread` for what is kept
    while we do not read, `_note_reading` if that begins or ends, `_finish_eof` after the peer's last bytes, `_wait_for_turn` if a
    turn of reading is over, `_check_over` when the connection is.

    What a call reads is bounded, whatever its bytes inflate to (ROUNDS, INFLATED_MESSAGES, INFLATED_OCTETS).

    Attributes:
        _outbox: bytes for the peer.
        _reading: True: nothing is left to be read, so there is nothing to go on with. `Endpoint` changes it.
    """

    def __cinit__(self):
        self._outbox = Outbox()
        self._reading = True
        self._trailing = b""

    def __init__(self, *_, **__):
        pass

    def data_to_send(self):
        """Take everything queued, as one bytes object."""
        self.gather()
        return self._outbox.take()

    def buffers_to_send(self):
        """Take everything queued, as a list of buffers in order. Large payloads are not copied."""
        self.gather()
        return self._outbox.take_buffers()

    # ---- in

    def receive(self, data, now):
        """Take bytes from the peer; return the events they complete, in order."""
        cdef list events = []
        if self._over:
            self._check_over()
        self._advance(now)
        if size_of_buffer(data):
            self._heard()
        self._read(data, events)
        return events

    def _read(self, data, list events not None):
        """Read as many messages as there is space for."""
        cdef object decoder = self._decoder
        cdef bint carried = decoder_is_carried(decoder)
        cdef int rounds = 0
        cdef list messages
        if self._trailing:
            data, self._trailing = self._trailing + bytes(data), b""
        if carried:
            decoder.begin(INFLATED_MESSAGES, INFLATED_OCTETS)
        while True:
            fault = None
            try:
                messages = decoder.feed(data, 0 if self._turn_over else self._capacity())
            except DecodeError as error:
                messages, fault = list(error.messages), error
            data = b""
            try:
                self._handle(messages, events)
            except (DecodeError, RemoteProtocolError) as error:
                self._fault(error, events)
            if self._over:
                return
            if fault is not None:
                self._fault(fault, events)
                return
            decoder = self._decoder         # the host may have changed the version
            carried = decoder_is_carried(decoder)
            if self._turn_over or not unread_of(decoder) or not self._capacity():
                break
            rounds += 1
            if rounds == ROUNDS or (carried and decoder.spent):
                self._turn_over = True
                self._wait_for_turn()
                self._check_limits(events, False)
                return
        self._check_limits(events)

    def _check_limits(self, list events not None, bint kept=True):
        """All that can be read has been read. Ends the connection if the peer costs more memory than it may. `kept`: what is left
        counts; it does not if it has arrived while we read."""
        cdef Outbox outbox = self._outbox
        cdef bint reading = not self._turn_over and self._capacity() > 0
        cdef object options = self.options
        if outbox.position - outbox.taken > <int64_t>options.pending_bytes + ANSWER_OCTETS:
            self._give_up("the peer does not take its answers", events)
        elif not reading and kept and self._unread() > options.unread_bytes:
            self._give_up("more bytes than are kept while the host decides", events)
        elif self._eof:
            self._finish_eof(events)
        elif reading != self._reading:
            self._note_reading()

    @property
    def unfinished_bytes(self):
        """Bytes of what has arrived in part, and of what is not read yet."""
        cdef int64_t pending = self._decoder.pending
        return pending + unread_of(self._decoder) + PyBytes_GET_SIZE(self._trailing)

    @property
    def wants_read(self):
        return self._reading and not self._over

    # ---- out

    @property
    def pending_bytes(self):
        """Bytes queued and not taken, and at least as many as `_flush` would queue."""
        return self._outbox.position - self._outbox.taken + self.gathered()

    def _flush(self):
        """Queue what the endpoint gathers while it reads and writes when its bytes are taken."""
        self.gather()

    cdef int gather(self) except -1:
        """`_flush`, for classes derived from this one."""
        return 0

    cdef int64_t gathered(self) except -1:
        """Bytes that `gather` would queue."""
        return 0
