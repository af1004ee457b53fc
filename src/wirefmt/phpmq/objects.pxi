# PHPMQ's six messages as Python objects, their encoders, and the Decoder.
#
# A message exists only as its octets. A constructor writes them and reads them back with phpmq_parse, so everything that can
# be built can be decoded. Objects keep the block (bytes) that contains them; other Python objects are made
# on access.
from cpython.memoryview cimport PyMemoryView_FromObject


cdef tuple PHPMQ_PROFILES = ("present", "early")


# ------------------------------------------------------------------------------------------------ values -> octets

cdef int phpmq_write_packet(Writer w, int type, object content, str field) except -1:
    """A packet's header, and the octets of a buffer."""
    cdef size_t at = w.out.size
    cdef size_t n
    cdef int i
    w.grow(PHPMQ_PACKET_HEADER)
    w.put_buffer(content, False, field)
    n = w.out.size - at - PHPMQ_PACKET_HEADER
    w.out.at[at] = c"P"
    w.out.at[at + 1] = <uint8_t>(48 + type // 10)
    w.out.at[at + 2] = <uint8_t>(48 + type % 10)
    for i in range(PHPMQ_PACKET_HEADER - 1, 2, -1):
        w.out.at[at + <size_t>i] = <uint8_t>(48 + n % 10)
        n //= 10
    return 0


cdef bytes phpmq_text(object value, str field):
    if not isinstance(value, str):
        raise TypeError(f"{field} must be a str, not {type(value).__name__}")
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise EncodeError(f"{field}: a surrogate has no UTF-8 form") from None


cdef bytes phpmq_number(object value, str field):
    if not PyIndex_Check(value):
        raise TypeError(f"{field} must be an int, not {type(value).__name__}")
    number = PyNumber_Index(value)
    if not -0x8000000000000000 <= number <= 0x7FFFFFFFFFFFFFFF:
        raise EncodeError(f"{field}: {number} is not a number of 64 bits")
    return b"%d" % number


cdef bytes phpmq_octets(int type, object packets):
    """A message of (packet type, content) pairs, in this order."""
    cdef Writer w = new_writer()
    cdef bytes header
    count = 0
    w.grow(PHPMQ_MESSAGE_HEADER)
    for kind, content in packets:
        kind = whole_number(kind, 99, "packets")
        phpmq_write_packet(w, kind, content, "packets")
        count += 1
    if count > 99:
        raise EncodeError(f"packets: {count}, the limit is 99")
    header = b"H01%03d%02d" % (type, count)
    memcpy(w.out.at, PyBytes_AS_STRING(header), PHPMQ_MESSAGE_HEADER)
    return PyBytes_FromStringAndSize(<const char*>w.out.at, <Py_ssize_t>w.out.size)


# ------------------------------------------------------------------------------------------------ messages

@cython.freelist(256)
@cython.no_gc
cdef class Message:
    """A message. The class itself is for unknown types; the six known types have their own classes.

    Immutable; equal by value; keeps the input block it was decoded from. `message_type` and `version` are numbers;
    `packets` are all (packet type, bytes) in their order; `notes` the violations that LAX accepted.
    """
    cdef bytes block
    cdef const uint8_t* frame
    cdef uint32_t size
    cdef uint8_t noted          # LAX accepted a violation
    cdef Span content_span

    __match_args__ = ("message_type", "packets")

    def __init__(self, *, message_type, packets):
        cdef int number = <int>whole_number(message_type, 999, "message_type")
        if 0 < number < PHPMQ_MESSAGE_TYPES:
            raise EncodeError(f"message_type: {number} has a class of its own")
        self.adopt(phpmq_octets(number, packets))

    # ---- octets

    def encode(self):
        """The bytes: those it was decoded from, or those that the library writes for a new message."""
        return message_octets(self.block, self.frame, self.size)

    def detach(self):
        """An equal message that holds only its own bytes, not the larger input block."""
        if self.size == PyBytes_GET_SIZE(self.block):
            return self
        return restore(self.encode(), self.noted)

    @property
    def notes(self):
        """Violations that LAX accepted: a tuple of Note (strictness.py), in the order found; at most NOTES_SHOWN."""
        cdef PhpmqOptions o
        if not self.noted:
            return ()
        phpmq_plain_options(&o, -1, 0)
        return message_notes(&PHPMQ_OPS, self.frame, self.size, &o.common)

    # ---- values

    @property
    def kind(self):
        cdef PhpmqMessageView m
        self.parsed(&m)
        return phpmq_message_name[m.type if 0 < m.type < PHPMQ_MESSAGE_TYPES else 0].decode("ascii")

    @property
    def version(self):
        cdef PhpmqMessageView m
        self.parsed(&m)
        return m.version

    @property
    def message_type(self):
        cdef PhpmqMessageView m
        self.parsed(&m)
        return m.type

    @property
    def packets(self):
        cdef PhpmqMessageView m
        cdef PhpmqReader x
        cdef PhpmqOptions o
        cdef PhpmqPacket packet
        cdef Fault f
        cdef list out = []
        self.parsed(&m)
        phpmq_plain_options(&o, -1, 0)
        phpmq_begin(&x, &o, &m, &f, self.size)
        x.at = m.packets
        for i in range(m.packet_count):
            phpmq_read_packet(&x, i, &packet)
            out.append((packet.type, octets_of(packet.content.at, packet.content.size)))
        return tuple(out)

    cdef str text(self, int type):
        """A packet as text; ill-formed UTF-8 is decoded as by os.fsdecode."""
        cdef PhpmqMessageView m
        self.parsed(&m)
        if m.content[type].at == NULL:
            return None
        return PyUnicode_DecodeUTF8(<const char*>m.content[type].at, m.content[type].size, "surrogateescape")

    cdef object ttl_or_none(self):
        cdef PhpmqMessageView m
        self.parsed(&m)
        return m.ttl if m.has_ttl else None

    cdef tuple values(self):
        return tuple([self.content_bytes() if name == "content" else getattr(self, name)
                      for name in type(self).__match_args__])

    cdef object content_bytes_of(self):
        return octets_of(self.content_span.at, self.content_span.size) if self.content_span.at != NULL else None

    def __eq__(self, other):
        cdef Message that
        if type(self) is not type(other):
            return NotImplemented
        that = <Message>other
        if self.size == that.size and (self.frame == that.frame or memcmp(self.frame, that.frame, self.size) == 0):
            return True
        return self.values() == that.values()

    def __hash__(self):
        return hash((type(self), self.values()))

    def __repr__(self):
        fields = [f"{name}={phpmq_shown(name, getattr(self, name))}" for name in type(self).__match_args__]
        return f"phpmq.{type(self).__name__}({', '.join(fields)})"

    def __reduce__(self):
        return restore, (self.encode(), self.noted)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    # ---- for the classes below

    cdef int parsed(self, PhpmqMessageView* m) except -1:
        cdef PhpmqOptions o
        cdef Fault f
        phpmq_plain_options(&o, -1, 0)
        if phpmq_parse(self.frame, self.size, &o, m, &f) != OK:
            raise_fault(&PHPMQ_TABLES, &f, 0)
        return 0

    cdef int adopt(self, bytes octets) except -1:
        """Adopt the octets that a constructor wrote, if STRICT accepts them."""
        cdef PhpmqOptions o
        cdef PhpmqMessageView m
        cdef Fault f
        phpmq_plain_options(&o, -1, 1)
        if phpmq_parse(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), &o, &m, &f) != OK:
            raise encode_error(&PHPMQ_TABLES, &f)
        phpmq_hold(self, octets, &m)
        return 0

    def content_bytes(self):
        """The content, copied; None if the message has no content."""
        return self.content_bytes_of()


cdef str phpmq_shown(str name, object value):
    if name == "content" and value is not None:
        return shown_octets(value)
    if name == "packets":
        shown = [f"({number}, {shown_octets(content)})" for number, content in value]
        return f"({', '.join(shown)}{',' if len(shown) == 1 else ''})"
    return repr(value)


cdef inline void phpmq_hold(Message self, bytes block, const PhpmqMessageView* m) noexcept:
    self.block = block
    self.frame = m.frame
    self.size = m.size
    self.noted = m.notes.count != 0
    self.content_span = m.content[<int>PHPMQ_PACKET_CONTENT]


cdef class Queued(Message):
    """Base class of the six known messages: the name of the queue."""

    @property
    def queue_name(self):
        return self.text(PHPMQ_PACKET_QUEUE_NAME)


cdef class Carrier(Queued):
    """Base class of the two messages with a content. Also a buffer: its content.

    `content` is a read-only memoryview into the bytes it was decoded from; `content_bytes()` copies it. `ttl` is in
    seconds; None: the early form, which has no TTL.
    """

    @property
    def content(self):
        return PyMemoryView_FromObject(self) if self.content_span.at != NULL else None

    @property
    def ttl(self):
        return self.ttl_or_none()

    def __getbuffer__(self, Py_buffer* view, int flags):
        fill_view(view, self, self.content_span.at, self.content_span.size, flags)


cdef list phpmq_with_ttl(list packets, object ttl):
    if ttl is not None:
        packets.append((PHPMQ_PACKET_TTL, phpmq_number(ttl, "ttl")))
    return packets


@cython.final
cdef class MessageClientToServer(Carrier):
    """Type 001: a message from a client to a queue."""
    __match_args__ = ("queue_name", "content", "ttl")

    def __init__(self, *, queue_name, content, ttl=0):
        self.adopt(phpmq_octets(PHPMQ_MESSAGE_CLIENT_TO_SERVER, phpmq_with_ttl([
            (PHPMQ_PACKET_QUEUE_NAME, phpmq_text(queue_name, "queue_name")),
            (PHPMQ_PACKET_CONTENT, content),
        ], ttl)))


@cython.final
cdef class ConsumeRequest(Queued):
    """Type 002: a client accepts up to `message_count` unacknowledged messages."""
    __match_args__ = ("queue_name", "message_count")

    def __init__(self, *, queue_name, message_count):
        self.adopt(phpmq_octets(PHPMQ_CONSUME_REQUEST, [
            (PHPMQ_PACKET_QUEUE_NAME, phpmq_text(queue_name, "queue_name")),
            (PHPMQ_PACKET_MESSAGE_COUNT, phpmq_number(message_count, "message_count")),
        ]))

    @property
    def message_count(self):
        cdef PhpmqMessageView m
        self.parsed(&m)
        return m.message_count if m.has_count else None


@cython.final
cdef class MessageServerToClient(Carrier):
    """Type 003: a message from the server to a client."""
    __match_args__ = ("queue_name", "content", "message_id", "ttl")

    def __init__(self, *, queue_name, content, message_id, ttl):
        self.adopt(phpmq_octets(PHPMQ_MESSAGE_SERVER_TO_CLIENT, phpmq_with_ttl([
            (PHPMQ_PACKET_QUEUE_NAME, phpmq_text(queue_name, "queue_name")),
            (PHPMQ_PACKET_CONTENT, content),
            (PHPMQ_PACKET_MESSAGE_ID, phpmq_text(message_id, "message_id")),
        ], ttl)))

    @property
    def message_id(self):
        return self.text(PHPMQ_PACKET_MESSAGE_ID)


cdef class Answer(Queued):
    """Base class of the messages that name a message: its id."""
    __match_args__ = ("queue_name", "message_id")

    cdef int build(self, int type, object queue_name, object message_id, object ttl) except -1:
        return self.adopt(phpmq_octets(type, phpmq_with_ttl([
            (PHPMQ_PACKET_QUEUE_NAME, phpmq_text(queue_name, "queue_name")),
            (PHPMQ_PACKET_MESSAGE_ID, phpmq_text(message_id, "message_id")),
        ], ttl)))

    @property
    def message_id(self):
        return self.text(PHPMQ_PACKET_MESSAGE_ID)


@cython.final
cdef class Acknowledgement(Answer):
    """Type 004: the message was processed."""

    def __init__(self, *, queue_name, message_id):
        self.build(PHPMQ_ACKNOWLEDGEMENT, queue_name, message_id, None)


@cython.final
cdef class ReQueue(Answer):
    """Type 005: the message goes to the end of its queue, with a new TTL in seconds."""
    __match_args__ = ("queue_name", "message_id", "ttl")

    def __init__(self, *, queue_name, message_id, ttl):
        self.build(PHPMQ_REQUEUE, queue_name, message_id, ttl)

    @property
    def ttl(self):
        return self.ttl_or_none()


@cython.final
cdef class DeadLetter(Answer):
    """Type 006: the message is removed from its queue, whatever its TTL."""

    def __init__(self, *, queue_name, message_id):
        self.build(PHPMQ_DEAD_LETTER, queue_name, message_id, None)


cdef Factory[PHPMQ_MESSAGE_TYPES] PHPMQ_FACTORIES      # by message type
set_factories(PHPMQ_FACTORIES, (
    Message, MessageClientToServer, ConsumeRequest, MessageServerToClient, Acknowledgement,
    ReQueue, DeadLetter,
))


cdef inline object make_phpmq(bytes block, const PhpmqMessageView* m):
    cdef Message message = <Message>bare_object(&PHPMQ_FACTORIES[m.type if 0 < m.type < PHPMQ_MESSAGE_TYPES else 0])
    phpmq_hold(message, block, m)
    return message


cdef void phpmq_review(const uint8_t* p, size_t n, const CommonOptions* o, Notes* notes, Fault* f) noexcept nogil:
    cdef PhpmqMessageView m
    phpmq_parse(p, n, <const PhpmqOptions*>o, &m, f)
    notes[0] = m.notes


cdef object phpmq_object_of(bytes block, const uint8_t* p, size_t n, const CommonOptions* o, Fault* f):
    cdef PhpmqMessageView m
    return make_phpmq(block, &m) if phpmq_parse(p, n, <const PhpmqOptions*>o, &m, f) == OK else None


cdef MessageOps PHPMQ_OPS
PHPMQ_OPS.tables = &PHPMQ_TABLES
PHPMQ_OPS.review = phpmq_review
PHPMQ_OPS.read = phpmq_object_of


# ------------------------------------------------------------------------------------------------ decode, encode

cdef void phpmq_plain_options(PhpmqOptions* o, int side, bint strict) noexcept nogil:
    memset(o, 0, sizeof(PhpmqOptions))
    o.common.side = <int8_t>side
    o.common.strict = strict


cdef int phpmq_take_options(PhpmqOptions* o, object side, object strictness, object limits) except -1:
    """Options of decode() and Decoder as C."""
    phpmq_plain_options(o, -1, 0)
    return take_common_options(&o.common, side, strictness, limits)


def decode(data, *, side=None, strictness=STRICT_MODE, limits=None):
    """Decode exactly one message, which must use all bytes.

    data: any contiguous buffer; bytes are kept, any other buffer is copied once.
    side: the sender, "client" or "server"; None: unknown, and the sender is not checked.
    strictness: "strict" or "lax" (wirefmt.strictness); LAX accepts line breaks between the parts, and numbers as PHP casts
    them. limits: wirefmt.framing.Limits.

    Returns the message. Raises DecodeError; Truncated if bytes are missing.
    """
    cdef PhpmqOptions o
    cdef PhpmqMessageView m
    cdef Fault f
    cdef bytes block = take_block(data)
    phpmq_take_options(&o, side, strictness, limits)
    if phpmq_parse(<const uint8_t*>PyBytes_AS_STRING(block), <size_t>PyBytes_GET_SIZE(block), &o, &m, &f) != OK:
        raise_fault(&PHPMQ_TABLES, &f, 0)
    return make_phpmq(block, &m)


def frame_size(data, *, strictness=STRICT_MODE, limits=None):
    """Size in bytes of the message that `data` begins with, or NEED_DATA before its last packet header.

    Raises DecodeError if no message can begin this way, and LimitExceeded if it is too large.
    """
    cdef Input octets = take_input(data)
    cdef PhpmqOptions o
    cdef Fault f
    cdef size_t size = 0
    cdef int status
    phpmq_take_options(&o, None, strictness, limits)
    status = phpmq_frame_size(octets.at, <size_t>octets.size, &o, &size, &f)
    return size_found(&PHPMQ_TABLES, status, size, &f)


def encode(Message message not None, /, *, profile=None):
    """The bytes of a message. profile: None: as it is; "present": with a TTL (0 if it has none), as in the README and
    the present library; "early": without a TTL, as the existing PHP server and client use.

    Raises EncodeError for a message that the profile does not have.
    """
    cdef PhpmqMessageView m
    if profile is None:
        return message.encode()
    if profile not in PHPMQ_PROFILES:
        raise ValueError(f"profile must be 'present' or 'early', not {profile!r}")
    message.parsed(&m)
    if not 0 < m.type < PHPMQ_MESSAGE_TYPES:
        raise EncodeError(f"no profile has message type {m.type}")
    wanted = phpmq_messages[m.type].early if profile == "early" else phpmq_messages[m.type].packets
    if not wanted:
        raise EncodeError(f"the early form has no {message.kind}")
    packets = dict(reversed(message.packets))
    packets.setdefault(PHPMQ_PACKET_TTL, b"0")
    missing = [number for number in range(PHPMQ_PACKET_TYPES) if wanted >> number & 1 and number not in packets]
    if missing:
        raise EncodeError(f"{message.kind} has no packet {missing[0]:02}")
    return phpmq_octets(<int>m.type, [(number, packets[number]) for number in range(PHPMQ_PACKET_TYPES) if wanted >> number & 1])


def restore(bytes octets not None, bint noted):
    """Unpickle a message."""
    cdef PhpmqOptions o
    phpmq_plain_options(&o, -1, not noted)
    return read_message(&PHPMQ_OPS, octets, &o.common)


@cython.final
cdef class Decoder(FrameDecoder):
    """Decodes the bytes of one direction of a connection to messages. Options: as in decode()."""
    cdef PhpmqOptions options

    def __init__(self, *, side=None, strictness=STRICT_MODE, limits=None):
        self.tables = &PHPMQ_TABLES
        phpmq_take_options(&self.options, side, strictness, limits)

    cdef int check_end(self) except -1:
        """LAX: the stream may end with line breaks."""
        cdef size_t i = 0
        while not self.options.common.strict and i < self.kept_size and (self.kept[i] == 0x0A or self.kept[i] == 0x0D):
            i += 1
        if self.kept_size and i == self.kept_size and self.error is None:
            return 0
        return FrameDecoder.check_end(self)

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept:
        return phpmq_frame_size(p, n, &self.options, size, f)

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        cdef PhpmqMessageView m
        return make_phpmq(block, &m) if phpmq_parse(p, n, &self.options, &m, f) == OK else None
