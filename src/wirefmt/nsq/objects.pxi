# decode, encode and the Decoder of NSQ.
from wirefmt.nsq.spec import ServerOptions

cdef int64_t[NSQ_OPTIONS] NSQ_SERVER_DEFAULTS


cdef int nsq_take_server(int64_t* out, object server) except -1:
    cdef int i
    for i, name in enumerate(ServerOptions.__dataclass_fields__):
        out[i] = getattr(server, name)
    return 0


nsq_take_server(NSQ_SERVER_DEFAULTS, ServerOptions())


cdef void nsq_plain_options(NsqOptions* o, int side, bint strict) noexcept nogil:
    memset(o, 0, sizeof(NsqOptions))
    o.common.side = <int8_t>side
    o.common.strict = strict
    o.magic = NSQ_MAGIC_PERHAPS


cdef int nsq_take_options(NsqOptions* o, object side, object strictness, object limits, object server) except -1:
    """Options of decode() and Decoder as C."""
    if server is not None and not isinstance(server, ServerOptions):
        raise TypeError(f"server must be a ServerOptions, not {type(server).__name__}")
    nsq_plain_options(o, NSQ_EITHER, 0)
    take_common_options(&o.common, side, strictness, limits)
    o.bounded = o.common.strict or server is not None
    if server is not None:
        nsq_take_server(o.server, server)
    elif o.common.strict:
        memcpy(o.server, NSQ_SERVER_DEFAULTS, sizeof(NSQ_SERVER_DEFAULTS))
    return 0


def decode(data, *, side=None, strictness=STRICT_MODE, limits=None, server=None):
    """Decode exactly one command, frame or magic, which must use all bytes.

    data: any contiguous buffer; bytes are kept, any other buffer is copied once.
    side: the sender, "client" (a command, the magic) or "server" (a frame); None: the first byte decides.
    strictness: "strict" accepts what an nsqd accepts, "lax" everything that can be framed (wirefmt.strictness).
    limits: wirefmt.framing.Limits. server: the ServerOptions of that nsqd; None: in STRICT its defaults, in LAX none.

    Returns the command or frame. Raises DecodeError, with the code that nsqd answers in `reply`; Truncated if bytes are
    missing.
    """
    cdef NsqOptions o
    cdef NsqUnitView m
    cdef Fault f
    cdef bytes block = take_block(data)
    nsq_take_options(&o, side, strictness, limits, server)
    if nsq_parse(<const uint8_t*>PyBytes_AS_STRING(block), <size_t>PyBytes_GET_SIZE(block), &o, &m, &f) != OK:
        raise_fault(&NSQ_TABLES, &f, 0)
    return make_nsq(block, &m)


def frame_size(data, *, side=None, strictness=STRICT_MODE, limits=None, server=None):
    """Size in bytes of the command or frame that `data` begins with, or NEED_DATA; it needs as few bytes as possible.

    Options as in decode(). Raises DecodeError if none can begin this way, or if nsqd would refuse its first line.
    """
    cdef Input octets = take_input(data)
    cdef NsqOptions o
    cdef NsqWalk walk
    cdef Fault f
    cdef size_t size = 0
    cdef int status
    nsq_take_options(&o, side, strictness, limits, server)
    status = nsq_frame_size(octets.at, <size_t>octets.size, &o, &size, &f)
    if status == OK and f.kind == NSQ_MPUB and size > <size_t>octets.size:
        memset(&walk, 0, sizeof(walk))
        status = nsq_look(octets.at, <size_t>octets.size, size, &o, &walk, &f)
    return size_found(&NSQ_TABLES, status, size, &f)


def encode(Message message not None, /):
    """The bytes of a command or frame, as `message.encode()`."""
    return message.encode()


def restore(bytes octets not None, bint of_server, bint noted):
    """Unpickle a command or frame."""
    cdef NsqOptions o
    nsq_plain_options(&o, NSQ_SERVER if of_server else NSQ_CLIENT, not noted)
    return read_message(&NSQ_OPS, octets, &o.common)


@cython.final
cdef class Decoder(FrameDecoder):
    """Decodes the bytes of one direction of a connection to commands or frames.

    side: "client" or "server"; None: the first byte of the stream decides. magic, for a client: True: the magic `  V2`
    must come first; False: it was read already; None: it may come first.
    strictness, limits, server: as in decode().
    """
    cdef NsqOptions options
    cdef bint looks             # at the messages of an MPUB that is incomplete
    cdef NsqWalk walk           # position in it
    cdef const uint8_t* seen    # the octets of a frame that were looked at last
    cdef size_t seen_size
    cdef readonly tuple _faulty

    def __init__(self, *, side=None, magic=None, strictness=STRICT_MODE, limits=None, server=None):
        self.tables = &NSQ_TABLES
        nsq_take_options(&self.options, side, strictness, limits, server)
        self.options.magic = NSQ_MAGIC_PERHAPS if magic is None else NSQ_MAGIC_NOW if magic else NSQ_MAGIC_BEFORE

    @property
    def side(self):
        """The sender; None: unknown before the first byte."""
        return ("client", "server")[self.options.common.side] if self.options.common.side >= 0 else None

    cdef int fail(self, const Fault* f, str reason, list out) except -1:
        cdef size_t at
        if reason is None:
            at = min(<size_t>max(f.offset, 0), self.seen_size)
            self._faulty = (octets_of(self.seen, <uint32_t>min(self.seen_size, <size_t>(NSQ_LINE_MAX + 4))),
                            octets_of(self.seen + at, <uint32_t>min(self.seen_size - at, <size_t>NSQ_NAME_CAPACITY)))
        return FrameDecoder.fail(self, f, reason, out)

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept:
        cdef int status
        self.seen = p
        self.seen_size = n
        if self.options.common.side == NSQ_EITHER and n:
            self.options.common.side = NSQ_SERVER if nsq_is_frame(&self.options, p[0]) else NSQ_CLIENT
        status = nsq_frame_size(p, n, &self.options, size, f)
        if status == OK and size[0] > n:
            self.looks = f.kind == NSQ_MPUB
            memset(&self.walk, 0, sizeof(self.walk))
        return status

    cdef int look(self, const uint8_t* p, size_t n, size_t size, Fault* f) noexcept:
        self.seen = p
        self.seen_size = n
        return nsq_look(p, n, size, &self.options, &self.walk, f) if self.looks else OK

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        cdef NsqUnitView m
        self.seen = p
        self.seen_size = n
        if self.options.common.side == NSQ_SERVER and n >= 8 + NSQ_MESSAGE_HEADER_SIZE and load_u32(p + 4) == 2:
            return make_nsq_message(block, p, n)
        if nsq_parse_whole(p, n, &self.options, &m, f) != OK:
            return None
        self.options.magic = NSQ_MAGIC_BEFORE
        return make_nsq(block, &m)
