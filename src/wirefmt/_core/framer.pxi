# The framing loop of all protocols: octets in pieces of any size -> messages, each in one immutable block.


cdef enum:
    KEPT_CAPACITY = 1 << 16


cdef object NO_MESSAGE = object()       # decode_frame: the frame was taken, but its message is not complete


cdef class FrameDecoder:
    """Base of the protocols' Decoders. A Decoder belongs to one stream; a call during another one raises RuntimeError.

    A frame inside one piece of input is decoded in place, and its message shares the piece. Any other frame
    is collected first: every byte is moved at most twice, however small the pieces.
    """

    def __init__(self):
        raise TypeError("FrameDecoder is a base class: use the Decoder of a protocol")

    def __dealloc__(self):
        free(self.kept)

    # ---- what a protocol adds

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept:
        """The size of the frame at `p`. Returns a Status; with NEED_DATA `size` may be the octets that are needed to continue."""
        return UNSUPPORTED

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        """The message of one whole frame in `block`. NO_MESSAGE: the frame is part of a message and was kept; None: a fault, in
        `f`."""
        return None

    cdef int look(self, const uint8_t* p, size_t n, size_t size, Fault* f) noexcept:
        """Check the first `n` octets of a frame of `size` octets. Returns OK or the status of a fault. It is called whenever
        octets arrive, so a fault is reported at the same octet however the stream is split."""
        return OK

    cdef int leave_block(self) except -1:
        """The fed block has been read: keep no reference to it while waiting for more."""
        return 0

    # ---- the same for all

    @property
    def offset(self):
        """Bytes of the stream that have become messages."""
        return self.begin

    @property
    def pending(self):
        """Bytes of the incomplete frame."""
        return self.kept_size

    @property
    def unread(self):
        """Bytes that a `feed` with a count has left unread."""
        if self.unread_block is None:
            return 0
        return PyBytes_GET_SIZE(self.unread_block) - <Py_ssize_t>self.unread_at

    def feed(self, data, /, count=None):
        """Decode the next bytes of the stream. Returns the list of messages that they complete.

        With `count`, decoding stops after that many messages. What follows stays unread, and the next `feed` begins
        with it; `feed(b"")` reads it without further bytes.

        Raises DecodeError at the first error; `offset` counts from the start of the stream, and `messages` has the
        messages that this call completed before it. Every later call raises the same error, since the bytes after a
        malformed frame cannot be interpreted.
        """
        cdef list out = []
        cdef Py_ssize_t most = PY_SSIZE_T_MAX if count is None else count
        cdef bytes block = take_block(data)
        cdef const uint8_t* p
        cdef const uint8_t* end
        if most < 0:
            raise ValueError(f"count is a number of messages, not {most}")
        begin_call(&self.busy)
        try:
            self.check_open()
            if self.unread_block is None:
                self.unread_at = 0
            elif PyBytes_GET_SIZE(block) == 0:
                block = self.unread_block
            else:
                block = self.unread_block[self.unread_at:] + block
                self.unread_at = 0
            self.unread_block = None
            p = <const uint8_t*>PyBytes_AS_STRING(block) + self.unread_at
            end = <const uint8_t*>PyBytes_AS_STRING(block) + PyBytes_GET_SIZE(block)
            if most > 0:
                if self.kept_size:
                    p = self.complete(p, end, out)
                p = self.decode_whole(block, p, end, out, most)
            if PyList_GET_SIZE(out) < most:
                self.keep(p, <size_t>(end - p))
            elif p < end:
                self.unread_block = block
                self.unread_at = <size_t>(p - <const uint8_t*>PyBytes_AS_STRING(block))
            self.leave_block()
        finally:
            self.busy = False
        return out

    def rest(self):
        """Return the bytes after the last message: those of an incomplete frame and those left unread. The decoder drops
        them. Use it when a stream changes to TLS, compression or another decoder."""
        begin_call(&self.busy)
        try:
            rest = PyBytes_FromStringAndSize(<const char*>self.kept, <Py_ssize_t>self.kept_size)
            if self.unread_block is not None:
                rest += self.unread_block[self.unread_at:]
            self.kept_size = 0
            self.frame_octets = 0
            self.unread_block = None
        finally:
            self.busy = False
        return rest

    def close(self):
        """End the stream. Raises DecodeError if it ends inside a frame, ValueError while bytes are unread."""
        if self.unread_block is not None:
            raise ValueError("bytes are unread: feed(b\"\") first")
        begin_call(&self.busy)
        try:
            self.check_end()
        finally:
            self.busy = False

    cdef int check_end(self) except -1:
        cdef Fault f
        self.check_open()
        if self.kept_size:
            fault(&f, TRUNCATED, 0, 0, <int64_t>self.kept_size, <int64_t>self.frame_octets, <int64_t>self.kept_size, 0)
            self.fail(&f, "the stream ends inside a frame", [])
        return 0

    cdef int check_open(self) except -1:
        if self.error is not None:
            raise self.error
        return 0

    cdef const uint8_t* decode_whole(self, bytes block, const uint8_t* p, const uint8_t* end, list out,
                                     Py_ssize_t most) except NULL:
        """Decode the frames that are complete, until `out` has `most` messages. Returns where the rest begins."""
        cdef Fault f
        cdef size_t size = 0
        cdef int status
        while p < end and PyList_GET_SIZE(out) < most:
            status = self.frame_size(p, <size_t>(end - p), &size, &f)
            if status == NEED_DATA or (status == OK and size > <size_t>(end - p)):
                self.frame_octets = size if status == OK else 0
                if status == OK and self.look(p, <size_t>(end - p), size, &f) != OK:
                    self.fail(&f, None, out)
                break
            message = self.decode_frame(block, p, size, &f) if status == OK else None
            if message is None:
                self.fail(&f, None, out)
            if message is not NO_MESSAGE:
                out.append(message)
            p += size
            self.begin += <int64_t>size
        return p

    cdef const uint8_t* complete(self, const uint8_t* p, const uint8_t* end, list out) except NULL:
        """Add octets to the incomplete frame, and decode it when it is complete. Returns where the next frame begins."""
        cdef Fault f
        cdef size_t size = 0, more
        cdef int status
        cdef bytes block
        while self.frame_octets == 0:           # few octets at a time until the frame's size is known
            size = 0
            status = self.frame_size(self.kept, self.kept_size, &size, &f)
            if status == OK:
                self.frame_octets = size
            elif status != NEED_DATA:
                self.fail(&f, None, out)
            elif p == end:
                return p
            else:                               # frame_size may return how many it needs to continue
                more = min(max(size, self.kept_size + 1) - self.kept_size, <size_t>(end - p))
                self.keep(p, more)
                p += more
        more = min(self.frame_octets - self.kept_size, <size_t>(end - p))
        self.keep(p, more)
        p += more
        if self.kept_size < self.frame_octets:
            if self.look(self.kept, self.kept_size, self.frame_octets, &f) != OK:
                self.fail(&f, None, out)
            return p
        block = PyBytes_FromStringAndSize(<const char*>self.kept, <Py_ssize_t>self.kept_size)
        self.kept_size = 0
        self.frame_octets = 0
        if self.kept_capacity > KEPT_CAPACITY:          # one large frame does not keep its memory permanently
            free(self.kept)
            self.kept = NULL
            self.kept_capacity = 0
        self.decode_whole(block, <const uint8_t*>PyBytes_AS_STRING(block),
                          <const uint8_t*>PyBytes_AS_STRING(block) + PyBytes_GET_SIZE(block), out, PY_SSIZE_T_MAX)
        return p

    cdef int keep(self, const uint8_t* p, size_t n) except -1:
        cdef uint8_t* bigger
        cdef size_t capacity
        if n == 0:
            return 0
        if n > self.kept_capacity - self.kept_size:
            capacity = max(self.kept_capacity * 2, self.kept_size + n)
            bigger = <uint8_t*>realloc(self.kept, capacity)
            if bigger == NULL:
                raise MemoryError
            self.kept = bigger
            self.kept_capacity = capacity
        memcpy(self.kept + self.kept_size, p, n)
        self.kept_size += n
        return 0

    cdef int fail(self, const Fault* f, str reason, list out) except -1:
        """Raise the fault in this call and in every later one."""
        error = make_fault(self.tables, f, self.begin)
        if reason is not None:
            error.reason = reason
        error.messages = tuple(out)
        self.error = error
        raise error
