# One framing loop for any protocol: octets in pieces of any size -> messages, each lying in one immutable block.


cdef enum:
    KEPT_ROOM = 1 << 16


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
        """A Status. With NEED_DATA `size` may say how many octets of the frame are needed to know more."""
        return UNSUPPORTED

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        """The message of one whole frame that lies in `block`; NO_MESSAGE: a part of one that is kept; None: see `f`."""
        return None

    cdef int look(self, const uint8_t* p, size_t n, size_t size, Fault* f) noexcept:
        """Of a frame of `size` octets, of which `n` are there: OK, or the fault that these show already. It is asked
        each time that more have come, so that a fault is found as early however the stream is cut."""
        return OK

    cdef int leave_block(self) except -1:
        """The block that was fed has been read: hold none of it while more is waited for."""
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
        """Take the next bytes of the stream, and return the list of messages they complete.

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
        """Hand over what follows the last message: the bytes of an unfinished frame and those left unread. The decoder
        has none of them afterwards. This is how a stream goes over to TLS, compression or another decoder."""
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
        """Decode frames that are all there, until `out` has `most` messages; where the rest begins."""
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
        """Add to the unfinished frame; decode it once it is whole. What follows it begins at the pointer returned."""
        cdef Fault f
        cdef size_t size = 0, more
        cdef int status
        cdef bytes block
        while self.frame_octets == 0:           # few octets at a time until the frame says how long it is
            size = 0
            status = self.frame_size(self.kept, self.kept_size, &size, &f)
            if status == OK:
                self.frame_octets = size
            elif status != NEED_DATA:
                self.fail(&f, None, out)
            elif p == end:
                return p
            else:                               # a frame may know how many it needs to say more
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
        if self.kept_room > KEPT_ROOM:          # one large frame does not hold its memory for ever
            free(self.kept)
            self.kept = NULL
            self.kept_room = 0
        self.decode_whole(block, <const uint8_t*>PyBytes_AS_STRING(block),
                          <const uint8_t*>PyBytes_AS_STRING(block) + PyBytes_GET_SIZE(block), out, PY_SSIZE_T_MAX)
        return p

    cdef int keep(self, const uint8_t* p, size_t n) except -1:
        cdef uint8_t* bigger
        cdef size_t room
        if n == 0:
            return 0
        if n > self.kept_room - self.kept_size:
            room = max(self.kept_room * 2, self.kept_size + n)
            bigger = <uint8_t*>realloc(self.kept, room)
            if bigger == NULL:
                raise MemoryError
            self.kept = bigger
            self.kept_room = room
        memcpy(self.kept + self.kept_size, p, n)
        self.kept_size += n
        return 0

    cdef int fail(self, const Fault* f, str reason, list out) except -1:
        """Raise the fault, now and from now on."""
        error = make_fault(self.tables, f, self.begin)
        if reason is not None:
            error.reason = reason
        error.messages = tuple(out)
        self.error = error
        raise error
