# A method with its content as one Python object, made by an Assembler or by its constructor.
from wirefmt.amqp091.spec import FRAME_MAX_DEFAULT as AMQP091_FRAME_MAX_VALUE


cdef uint32_t AMQP091_FRAME_MAX_DEFAULT = AMQP091_FRAME_MAX_VALUE


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
    cdef bytes header_block     # contains the content header; None: a constructor made the message
    cdef const uint8_t* header_at
    cdef uint32_t header_size
    cdef Amqp091PropertiesView p  # the header's
    cdef ContentHeader header_                  # after the first access
    cdef BasicProperties properties_            # after the first access, or from the constructor
    cdef bytes block            # contains the body, if it is in one frame
    cdef const uint8_t* at      # the body
    cdef uint64_t size, capacity    # capacity: the size of the memory at `at`, if the body has several frames
    cdef list sizes             # of the body frames; None: one frame of `size` octets, or none if it is 0
    cdef uint64_t number        # on the channel of a server in confirm mode: of its confirm

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
        if self.capacity:
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


cdef BasicMessage message_of(bytes block, Amqp091Content* k, int side):
    """The message of a complete content. `block` contains the frames that were not copied."""
    cdef BasicMessage made = BasicMessage.__new__(BasicMessage)
    cdef bytes head = block
    cdef size_t properties
    if k.head.size:
        head = octets_of(k.head.at, k.head.size)
        k.method.frame = begin_of(head)
    made.method_ = <Frame>make_amqp091(head, &k.method, side)
    if k.head.size > k.method.size:             # the header is copied, too
        properties = <size_t>(k.header.properties.at - k.header.frame)
        k.header.frame = begin_of(head) + k.method.size
        k.header.properties.at = k.header.frame + properties
    else:
        head = block
    made.add_header(head, &k.header)
    if k.part.at != NULL:
        made.block = block
        made.at = k.part.at
        made.size = k.part.size
    else:                                       # the message takes over the memory
        made.at = k.body.at
        made.size = k.body.size
        made.capacity = k.body.capacity
        memset(&k.body, 0, sizeof(Octets))
    if k.bodies > 1:
        made.sizes = [(<const uint32_t*>k.sizes.at)[i] for i in range(k.bodies)]
    return made


cdef list cut_sizes(uint64_t size, object frame_max):
    """The octets in each frame of a body; None: it is in one frame, or empty."""
    cdef uint64_t most = <uint64_t>whole_number(frame_max, 0xFFFFFFFF, "frame_max")
    if most and most <= AMQP091_OVERHEAD:
        raise EncodeError(f"frame_max: {most} bytes leave no space for a body")
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
