# What connections of all protocols do for every message: bytes queued for the peer, identifiers, windows.
# wirefmt/connection exports them.


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


cdef class EndpointFlows:
    """What every connection has for its bytes. `Endpoint` of connection/endpoint.py is derived from it, and so is the class in
    which a codec keeps what its connections do for every message: both work with one outbox.

    Attributes:
        _outbox: bytes for the peer.
        _reading: True: nothing is left to be read, so there is nothing to go on with. Only `Endpoint` changes it.
    """

    def __cinit__(self):
        self._outbox = Outbox()
        self._reading = True

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
