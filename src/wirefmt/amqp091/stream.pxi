# Octets -> objects: single frames, a Decoder of frames, and an Assembler of methods with their contents.
from wirefmt.amqp091.spec import BODY_MAX_DEFAULT as AMQP091_BODY_MAX_VALUE


cdef uint64_t AMQP091_BODY_MAX_DEFAULT = AMQP091_BODY_MAX_VALUE
cdef uint64_t AMQP091_PENDING_MAX_DEFAULT = 2 * AMQP091_BODY_MAX_DEFAULT


cdef uint32_t frame_max_of(object frame_max, object limits) except? 0:
    """The smaller of the negotiated size and that of `limits`; 0: no limit."""
    cdef uint32_t negotiated = <uint32_t>whole_number(frame_max, 0xFFFFFFFF, "frame_max")
    cdef uint32_t limit = DEFAULT_FRAME_SIZE if limits is None else limits.frame_size
    return max(negotiated, limit) if negotiated == 0 or limit == 0 else min(negotiated, limit)


cdef int take_amqp091_options(Amqp091Options* o, object side, object strictness, object frame_max, object channel_max,
                              object limits) except -1:
    """Options of decode() and the Decoders as C."""
    plain_amqp091_options(o, -1, False)
    take_common_options(&o.common, side, strictness, limits)
    o.common.max_frame_size = frame_max_of(frame_max, limits)
    o.channel_max = <uint16_t>whole_number(channel_max, 0xFFFF, "channel_max")
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
    return make_amqp091(block, &m, o.common.side)


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
    cdef uint32_t limit = frame_max_of(frame_max, limits)
    status = amqp091_frame_size(head, n, limit, strict, &size, &f)
    return size_found(&AMQP091_TABLES, status, size, &f)


def encode(message, /):
    """The bytes of a frame, or of the frames of a BasicMessage, as `message.encode()`."""
    if not isinstance(message, (Frame, BasicMessage)):
        raise TypeError(f"encode() takes a frame or a BasicMessage, not {type(message).__name__}")
    return message.encode()


# ------------------------------------------------------------------------------------------------ Decoders

cdef class BaseDecoder(FrameDecoder):
    """Base class of Decoder and Assembler. `frame_max` and `channel_max` may be set after tune-ok."""
    cdef Amqp091Options options
    cdef object limits

    cdef int begin_with(self, object side, object strictness, object frame_max, object channel_max,
                        object limits) except -1:
        self.limits = limits
        take_amqp091_options(&self.options, side, strictness, frame_max, channel_max, limits)
        self.tables = &AMQP091_TABLES
        return 0

    @property
    def frame_max(self):
        """Bytes of a frame at most; 0: no limit."""
        return self.options.common.max_frame_size

    @frame_max.setter
    def frame_max(self, value):
        self.check_open()
        self.options.common.max_frame_size = frame_max_of(value, self.limits)

    @property
    def channel_max(self):
        """The highest channel; 0: no limit."""
        return self.options.channel_max

    @channel_max.setter
    def channel_max(self, value):
        self.options.channel_max = <uint16_t>whole_number(value, 0xFFFF, "channel_max")

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept:
        cdef int status = amqp091_frame_size(p, n, self.options.common.max_frame_size, self.options.common.strict, size, f)
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
        return make_amqp091(block, &m, self.options.common.side)


@cython.final
cdef class Assembler(BaseDecoder):
    """Bytes of one direction of a connection -> methods, those that have a content as BasicMessage.

    Messages are returned in the order of completion, with heartbeats and protocol headers. A frame that its channel
    does not expect (general 4.2.6) raises DecodeError in STRICT and in LAX.

    side, strictness, frame_max, channel_max, limits: as in decode(). body_max: bytes of a body at most, pending_max: of
    all frames of pending contents together; 0: no limit.
    """
    cdef Amqp091Contents contents
    cdef bytes block            # where frames of pending contents lie
    cdef int32_t faulty         # the channel of the frame that has ended it; -1: none

    def __init__(self, *, side=None, strictness=STRICT_MODE, frame_max=AMQP091_FRAME_MAX_VALUE, channel_max=0,
                 body_max=AMQP091_BODY_MAX_VALUE, pending_max=AMQP091_PENDING_MAX_DEFAULT, limits=None):
        self.begin_with(side, strictness, frame_max, channel_max, limits)
        self.contents.max_body = <uint64_t>whole_number(body_max, 0x7FFFFFFFFFFFFFFF, "body_max")
        self.contents.max_octets = <uint64_t>whole_number(pending_max, 0x7FFFFFFFFFFFFFFF, "pending_max")
        self.faulty = -1

    def __dealloc__(self):
        amqp091_drop_contents(&self.contents)

    @property
    def faulty_content(self):
        """The method of the content that the frame belongs to which has ended the Assembler; None: it belongs to none."""
        cdef const Amqp091Content* k = NULL
        if self.faulty >= 0:
            k = amqp091_content_on(&self.contents, <uint16_t>self.faulty)
            if k == NULL and self.contents.done != NULL and self.contents.done.channel == self.faulty:
                k = self.contents.done
        if k == NULL or k.method.type == 0:
            return None
        method = PyBytes_FromStringAndSize(<const char*>k.method.frame, <Py_ssize_t>k.method.size)
        return decode(method, strictness="lax", frame_max=0)

    @property
    def pending(self):
        """Bytes of the incomplete frame, and of the frames of pending contents."""
        return self.kept_size + self.contents.octets

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept:
        cdef int status = BaseDecoder.frame_size(self, p, n, size, f)
        if status > NEED_DATA and n >= 3:
            self.faulty = load_u16(p + 1)
        return status

    cdef int leave_block(self) except -1:
        if self.block is not None:
            if not amqp091_leave_input(&self.contents):
                raise MemoryError
            self.block = None
        return 0

    cdef int check_end(self) except -1:
        """The stream may end neither inside a frame nor inside a content."""
        cdef const Amqp091Content* oldest = amqp091_oldest(&self.contents)
        cdef Fault f
        FrameDecoder.check_end(self)
        if oldest != NULL:
            amqp091_unfinished(oldest, &f)
            self.fail(&f, None, [])
        return 0

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        cdef Amqp091FrameView m
        cdef Amqp091Content* kept = NULL
        cdef int answer
        if amqp091_parse(p, n, &self.options, &m, f) != OK:
            self.faulty = load_u16(p + 1)
            return None
        if self.block is not block:
            self.leave_block()
            self.block = block
        answer = amqp091_join(&self.contents, &m, &kept, f)
        if answer == AMQP091_JOIN_ALONE:
            return make_amqp091(block, &m, self.options.common.side)
        if answer == AMQP091_JOIN_PART:
            if m.type == AMQP091_FRAME_BODY:
                self.add_size(kept, m.payload.size)
            return NO_MESSAGE
        if answer == AMQP091_JOIN_LAST:
            kept = self.contents.done
            if kept.bodies > 1:
                self.add_size(kept, m.payload.size)
            return message_of(block, kept, self.options.common.side)
        if answer == AMQP091_JOIN_NO_MEMORY:
            raise MemoryError
        self.faulty = m.channel
        return None

    cdef int add_size(self, Amqp091Content* k, uint32_t size) except -1:
        """Octets of one more body frame."""
        add_octets(&k.sizes, <const uint8_t*>&size, sizeof(size))
        if k.sizes.failed:
            raise MemoryError
        return 0
