# Streams of AMQP 0.9.1: single frames, a Decoder of frames, and an Assembler that puts methods together with their
# contents, which come in frames of their own and interleaved over channels.
from wirefmt.amqp091.spec import BODY_MAX_DEFAULT as AMQP091_BODY_MAX_VALUE, FRAME_MAX_DEFAULT as AMQP091_FRAME_MAX_VALUE


cdef uint32_t AMQP091_FRAME_MAX_DEFAULT = AMQP091_FRAME_MAX_VALUE
cdef uint64_t AMQP091_BODY_MAX_DEFAULT = AMQP091_BODY_MAX_VALUE
cdef uint64_t AMQP091_PENDING_MAX_DEFAULT = 2 * AMQP091_BODY_MAX_DEFAULT
cdef object AMQP091_DEFAULT_LIMITS = Limits()


cdef uint32_t frame_max_of(object frame_max, object limits) except? 0:
    """The smaller of what was negotiated and what the caller bears. 0: no limit."""
    cdef uint32_t negotiated = <uint32_t>whole_number(frame_max, 0xFFFFFFFF, "frame_max")
    cdef uint32_t borne = limits.frame_size
    return max(negotiated, borne) if negotiated == 0 or borne == 0 else min(negotiated, borne)


cdef int take_amqp091_options(Amqp091Options* o, object side, object strictness, object frame_max, object channel_max,
                              object limits) except -1:
    """Options of decode() and the Decoders as C."""
    if side is not None and side != "client" and side != "server":
        raise ValueError(f"side must be 'client', 'server' or None, not {side!r}")
    if limits is None:
        limits = AMQP091_DEFAULT_LIMITS
    plain_amqp091_options(o, -1 if side is None else side == "server", is_strict(strictness))
    o.frame_max = frame_max_of(frame_max, limits)
    o.channel_max = <uint16_t>whole_number(channel_max, 0xFFFF, "channel_max")
    o.max_elements = limits.elements
    return 0


def decode(data, *, side=None, strictness=STRICT_MODE, frame_max=AMQP091_FRAME_MAX_VALUE, channel_max=0,
           limits=None):
    """Decode exactly one frame or protocol header, which must use all bytes.

    data: any contiguous buffer; bytes are kept, any other buffer is copied once.
    side: the sender, "client" or "server"; None: unknown, and rules on the sender are not checked.
    strictness: "strict" or "lax" (wirefmt.strictness).
    frame_max: bytes of a frame at most, as negotiated by tune-ok; 0: no limit. channel_max: the highest channel.
    limits: wirefmt.framing.Limits.

    Returns the frame: a method, ContentHeader, Body, Heartbeat or ProtocolHeader. Raises DecodeError;
    Truncated if bytes are missing.
    """
    cdef Amqp091Options o
    cdef Amqp091FrameView m
    cdef Fault f
    cdef bytes block = take_block(data)
    take_amqp091_options(&o, side, strictness, frame_max, channel_max, limits)
    if amqp091_parse(begin_of(block), <size_t>PyBytes_GET_SIZE(block), &o, &m, &f) != OK:
        raise_fault(&AMQP091_TABLES, &f, 0)
    return make_amqp091(block, &m, o.side)


def frame_size(data, *, strictness=STRICT_MODE, frame_max=AMQP091_FRAME_MAX_VALUE, limits=None):
    """Size in bytes of the frame that `data` begins with, or NEED_DATA; it needs as few bytes as possible (general 4.2.3).

    Raises DecodeError if no frame can begin this way, and LimitExceeded if it is larger than frame_max.
    """
    cdef uint8_t head[INPUT_HEAD]
    cdef size_t n = input_head(data, head)
    cdef Fault f
    cdef size_t size = 0
    cdef int status
    cdef bint strict = is_strict(strictness)
    cdef uint32_t limit = frame_max_of(frame_max, AMQP091_DEFAULT_LIMITS if limits is None else limits)
    status = amqp091_frame_size(head, n, limit, strict, &size, &f)
    if status == OK:
        return size
    if status == NEED_DATA:
        return NEED_DATA_VALUE
    raise_fault(&AMQP091_TABLES, &f, 0)


def encode(message, /):
    """The bytes of a frame, or of the frames of a BasicMessage, as `message.encode()`."""
    if not isinstance(message, (Frame, BasicMessage)):
        raise TypeError(f"encode() takes a frame or a BasicMessage, not {type(message).__name__}")
    return message.encode()


# ------------------------------------------------------------------------------------------------ a method with its content

@cython.final
@cython.freelist(512)
@cython.no_gc
cdef class BasicMessage:
    """A method with its content: basic.publish, return, deliver or get-ok, the properties, and the whole body.

    BasicMessage(method, properties=None, body=b"", *, frame_max=131072): the body is split into as many frames as frame_max
    requires. `body` is a read-only memoryview, `body_bytes()` copies it; a BasicMessage is a buffer of its body.
    `body_sizes` are those of the body frames. Two are equal if method, properties and body are equal, however the body is split.
    """
    cdef Frame method_
    cdef bytes header_block     # where the content header lies; None: the message was built
    cdef const uint8_t* header_at
    cdef uint32_t header_size
    cdef Amqp091PropertiesView p  # the header's
    cdef ContentHeader header_                  # once asked for
    cdef BasicProperties properties_            # once asked for, or given
    cdef bytes block            # where the body lies, if it is of one frame
    cdef const uint8_t* at      # the body
    cdef uint64_t size, room    # room: of what `at` owns, in the case of several frames
    cdef list sizes             # of the body frames; None: one of `size`, or none if that is 0
    cdef Amqp091Channel state   # while it is being put together
    cdef uint64_t pending       # octets of its frames so far
    cdef bint is_touched        # it is among those that an Assembler has to let go of the block being read

    __match_args__ = ("method", "properties", "body")

    def __init__(self, Method method not None, BasicProperties properties=None, body=b"", *,
                 frame_max=AMQP091_FRAME_MAX_VALUE):
        if not amqp091_methods[method.method_].content:
            raise EncodeError(f"{method.name} has no content")
        self.block = take_block(body)
        self.at = begin_of(self.block)
        self.size = <uint64_t>PyBytes_GET_SIZE(self.block)
        self.sizes = cut_sizes(self.size, frame_max)
        self.properties_ = BasicProperties() if properties is None else properties
        self.method_ = method

    def __dealloc__(self):
        if self.room:
            free(<void*>self.at)

    @property
    def method(self):
        return self.method_

    @property
    def channel(self):
        return self.method_.channel_

    @property
    def header(self):
        """The content header."""
        cdef Octets o
        cdef uint8_t[WRITE_START] start
        if self.header_ is None:
            o = octets_over(start, WRITE_START)
            try:
                self.write_header(&o)
                self.header_ = read_amqp091(taken_octets(&o), self.method_.side, True)
            finally:
                free_octets(&o)
        return self.header_

    @property
    def properties(self):
        if self.properties_ is None:
            self.properties_ = properties_at(self.header_block, &self.p)
        return self.properties_

    @property
    def body(self):
        return PyMemoryView_FromObject(self)

    def body_bytes(self):
        """The body, copied."""
        return PyBytes_FromStringAndSize(<const char*>self.at, <Py_ssize_t>self.size)

    def __getbuffer__(self, Py_buffer* view, int flags):
        fill_view(view, self, self.at, <Py_ssize_t>self.size, flags)

    @property
    def body_sizes(self):
        """Bytes in each body frame."""
        if self.sizes is not None:
            return tuple(self.sizes)
        return (self.size,) if self.size else ()

    def encode(self, *, frame_max=None):
        """The bytes of all frames: the body is split as it was received, or by this frame_max."""
        cdef Octets o
        cdef bytes octets
        cdef uint64_t at = 0
        cdef size_t total
        cdef list sizes
        sizes = self.sizes if frame_max is None else cut_sizes(self.size, frame_max)
        total = self.method_.size + self.header_octets() + <size_t>self.size
        total += AMQP091_OVERHEAD * <size_t>(len(sizes) if sizes is not None else self.size != 0)
        octets = new_octets(total)
        o = octets_over(<uint8_t*>PyBytes_AS_STRING(octets), total)
        add_octets(&o, self.method_.frame, self.method_.size)
        self.write_header(&o)
        if sizes is None:
            if self.size:
                self.write_body(&o, 0, self.size)
        else:
            for size in sizes:
                self.write_body(&o, at, size)
                at += <uint64_t>size
        return octets

    cdef size_t header_octets(self) noexcept:
        """Octets of the content header's frame."""
        if self.header_block is not None:
            return self.header_size
        return AMQP091_OVERHEAD + 12 + <size_t>self.properties_.p.size

    cdef int write_header(self, Octets* o) except -1:
        cdef size_t opened
        if self.header_block is not None:
            add_octets(o, self.header_at, self.header_size)
            return 0
        opened = amqp091_open_frame(o, AMQP091_FRAME_HEADER, self.method_.channel_)
        add_u16(o, AMQP091_CLASS_BASIC)
        add_u16(o, 0)                       # weight
        add_u64(o, self.size)
        add_octets(o, self.properties_.p.at, self.properties_.p.size)
        amqp091_close_frame(o, opened)
        return 0

    cdef int write_body(self, Octets* o, uint64_t at, uint64_t size) except -1:
        cdef size_t opened = amqp091_open_frame(o, AMQP091_FRAME_BODY, self.method_.channel_)
        add_octets(o, self.at + at, <size_t>size)
        amqp091_close_frame(o, opened)
        return 0

    def detach(self):
        """An equal message that holds only its own bytes, not the larger input blocks."""
        cdef BasicMessage made = BasicMessage.__new__(BasicMessage)
        made.method_ = self.method_.detach()
        made.take_header(self.header.detach())
        made.take_body(self.body_bytes(), self.body_sizes)
        return made

    def __eq__(self, other):
        cdef BasicMessage that
        if not isinstance(other, BasicMessage):
            return NotImplemented
        that = <BasicMessage>other
        return self.size == that.size and self.method_ == that.method_ and self.properties == that.properties and \
            (self.size == 0 or memcmp(self.at, that.at, <size_t>self.size) == 0)

    def __hash__(self):
        return hash((self.method_, self.properties, self.body_bytes()))

    def __repr__(self):
        return f"amqp091.BasicMessage({self.method_!r}, {self.properties!r}, {shown_octets(self.body)})"

    def __reduce__(self):
        return restore_content, (self.method_, self.header, self.body_bytes(), self.body_sizes)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    # ---- putting together

    cdef int take_header(self, ContentHeader header) except -1:
        cdef Amqp091FrameView m
        header.parsed(&m)
        self.add_header(header.block, &m)
        self.header_ = header
        return 0

    cdef int take_body(self, bytes body, sizes) except -1:
        self.block = body
        self.at = begin_of(body)
        self.size = <uint64_t>PyBytes_GET_SIZE(body)
        self.sizes = list(sizes)
        return 0

    cdef void add_header(self, bytes block, const Amqp091FrameView* m) noexcept:
        self.header_block = block
        self.header_at = m.frame
        self.header_size = m.size
        self.p = m.properties

    cdef int add_body(self, bytes block, const Amqp091FrameView* m) except -1:
        """One more body frame. The only one of a body stays where it lies; of several the payloads are copied."""
        cdef uint64_t n = m.payload.size, room
        cdef uint8_t* bigger
        if self.sizes is None and n == self.state.body_size:
            self.block = block
            self.at = m.payload.at
            self.size = n
            return 0
        if self.sizes is None:
            self.sizes = []
        self.sizes.append(n)
        if n > self.room - self.size:
            # grows with what has come, whatever was announced
            room = min(max(self.room * 2, self.size + n), self.state.body_size)
            bigger = <uint8_t*>realloc(<void*>self.at if self.room else NULL, <size_t>room)
            if bigger == NULL:
                raise MemoryError
            self.at = bigger
            self.room = room
        if n:
            memcpy(<uint8_t*>self.at + self.size, m.payload.at, <size_t>n)
        self.size += n
        return 0

    cdef int let_go(self) except -1:
        """Hold no block while the rest is waited for."""
        self.method_ = self.method_.detach()
        if self.header_block is not None and self.header_size < PyBytes_GET_SIZE(self.header_block):
            self.take_header(read_amqp091(octets_of(self.header_at, self.header_size), self.method_.side, True))
        return 0


cdef list cut_sizes(uint64_t size, object frame_max):
    """Octets in each frame of a body; None: one frame holds it, or it is empty."""
    cdef uint64_t most = <uint64_t>whole_number(frame_max, 0xFFFFFFFF, "frame_max")
    if most and most <= AMQP091_OVERHEAD:
        raise EncodeError(f"frame_max: {most} bytes leave no room for a body")
    most = (most if most else AMQP091_FRAME_TOP) - AMQP091_OVERHEAD
    if size <= most:
        return None
    return [most] * <Py_ssize_t>(size // most) + ([size % most] if size % most else [])


def restore_content(Method method not None, ContentHeader header not None, bytes body not None,
                    sizes):
    """Unpickle a method with its content; `sizes` are those of the body frames."""
    cdef BasicMessage made = BasicMessage.__new__(BasicMessage)
    sizes = [whole_number(size, 0xFFFFFFFF, "body_sizes") for size in sizes]
    if not method.has_content or header.channel_ != method.channel_ or header.body_size != len(body) or \
            sum(sizes) != len(body):
        raise ValueError("method, header and body are not of one message")
    made.method_ = method
    made.take_header(header)
    made.take_body(body, sizes)
    return made


# ------------------------------------------------------------------------------------------------ Decoders

cdef class BaseDecoder(FrameDecoder):
    """Base class of Decoder and Assembler. `frame_max` and `channel_max` may be set after tune-ok."""
    cdef Amqp091Options options
    cdef object limits

    cdef int begin_with(self, object side, object strictness, object frame_max, object channel_max,
                        object limits) except -1:
        self.limits = AMQP091_DEFAULT_LIMITS if limits is None else limits
        take_amqp091_options(&self.options, side, strictness, frame_max, channel_max, self.limits)
        self.tables = &AMQP091_TABLES
        return 0

    @property
    def frame_max(self):
        """Bytes of a frame at most; 0: no limit."""
        return self.options.frame_max

    @frame_max.setter
    def frame_max(self, value):
        self.check_open()
        self.options.frame_max = frame_max_of(value, self.limits)

    @property
    def channel_max(self):
        """The highest channel; 0: no limit."""
        return self.options.channel_max

    @channel_max.setter
    def channel_max(self, value):
        self.options.channel_max = <uint16_t>whole_number(value, 0xFFFF, "channel_max")

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept:
        cdef int status = amqp091_frame_size(p, n, self.options.frame_max, self.options.strict, size, f)
        if status > NEED_DATA:
            f.kind = p[0]
        return status


@cython.final
cdef class Decoder(BaseDecoder):
    """Bytes of one direction of a connection -> frames.

    side, strictness, frame_max, channel_max, limits: as in decode(). The order of frames is not checked:
    an Assembler checks it.
    """

    def __init__(self, *, side=None, strictness=STRICT_MODE, frame_max=AMQP091_FRAME_MAX_VALUE, channel_max=0,
                 limits=None):
        self.begin_with(side, strictness, frame_max, channel_max, limits)

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        cdef Amqp091FrameView m
        if amqp091_parse(p, n, &self.options, &m, f) != OK:
            return None
        return make_amqp091(block, &m, self.options.side)


@cython.final
cdef class Assembler(BaseDecoder):
    """Bytes of one direction of a connection -> methods, those that have a content as BasicMessage.

    Messages are returned in the order of completion, with heartbeats and protocol headers. A frame that its channel
    does not expect (general 4.2.6) raises DecodeError in STRICT and in LAX.

    side, strictness, frame_max, channel_max, limits: as in decode(). body_max: bytes of a body at most, pending_max: of
    all frames of pending contents together; 0: no limit.
    """
    cdef uint64_t body_max, pending_max, pending_
    cdef list under_way         # by channel: a BasicMessage, or None
    cdef list touched           # messages that hold the block being read
    cdef Amqp091Channel idle

    def __init__(self, *, side=None, strictness=STRICT_MODE, frame_max=AMQP091_FRAME_MAX_VALUE, channel_max=0,
                 body_max=AMQP091_BODY_MAX_VALUE, pending_max=AMQP091_PENDING_MAX_DEFAULT, limits=None):
        self.begin_with(side, strictness, frame_max, channel_max, limits)
        self.body_max = <uint64_t>whole_number(body_max, 0x7FFFFFFFFFFFFFFF, "body_max")
        self.pending_max = <uint64_t>whole_number(pending_max, 0x7FFFFFFFFFFFFFFF, "pending_max")
        self.under_way = []
        self.touched = []

    @property
    def pending(self):
        """Bytes of the incomplete frame, and of the frames of pending contents."""
        return self.kept_size + self.pending_

    cdef int leave_block(self) except -1:
        cdef BasicMessage message
        for message in self.touched:
            message.is_touched = False
            if message.state.stage != AMQP091_IDLE:
                message.let_go()
        self.touched.clear()
        return 0

    cdef int check_end(self) except -1:
        """The stream may end neither inside a frame nor inside a content."""
        cdef BasicMessage message
        cdef Fault f
        FrameDecoder.check_end(self)
        for message in self.under_way:
            if message is not None:
                amqp091_fault(&f, AMQP091_CHECK_CONTENT_UNFINISHED, AMQP091_FIELD_PAYLOAD, 0,
                              <int64_t>message.state.body_size, <int64_t>message.state.body_have, 0)
                self.fail(&f, None, [])
        return 0

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        cdef Amqp091FrameView m
        cdef BasicMessage message = None
        cdef int fold
        if amqp091_parse(p, n, &self.options, &m, f) != OK:
            return None
        if m.channel < len(self.under_way):
            message = <BasicMessage>self.under_way[m.channel]
        fold = amqp091_fold(&self.idle if message is None else &message.state, &m, self.body_max, f)
        if fold == AMQP091_ALONE:
            return make_amqp091(block, &m, self.options.side)
        if fold == AMQP091_UNEXPECTED:
            return None
        if fold == AMQP091_BEGINS:
            message = BasicMessage.__new__(BasicMessage)
            message.state = self.idle
            message.method_ = make_amqp091(block, &m, self.options.side)
            memset(&self.idle, 0, sizeof(self.idle))
            while len(self.under_way) <= m.channel:
                self.under_way.append(None)
            self.under_way[m.channel] = message
            self.touched.append(message)
            message.is_touched = True
        elif m.type == AMQP091_FRAME_BODY:
            message.add_body(block, &m)
        else:
            message.add_header(block, &m)
            if not message.is_touched:
                self.touched.append(message)
                message.is_touched = True
        return self.counted(message, &m, fold, f)

    cdef inline object counted(self, BasicMessage message, const Amqp091FrameView* m, int fold, Fault* f):
        """The message if this frame completed it; None if too much is pending."""
        if fold == AMQP091_COMPLETES:
            self.pending_ -= message.pending
            self.under_way[m.channel] = None
            return message
        message.pending += m.size
        self.pending_ += m.size
        if self.pending_max and self.pending_ > self.pending_max:
            amqp091_fault(f, AMQP091_CHECK_PENDING_MAX, AMQP091_FIELD_FRAME, 0, <int64_t>self.pending_,
                          <int64_t>self.pending_max, 0)
            return None
        return NO_MESSAGE
