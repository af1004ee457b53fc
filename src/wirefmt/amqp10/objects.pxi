# AMQP 1.0 frames and composite types as Python objects.
#
# Each exists only as its octets. A constructor writes them and reads them back in STRICT, so everything that can be built can be
# decoded, and encode() returns existing octets. Octets of plain values are not read back, because they are valid by construction.
# Fields become objects with their composite; a message's properties and body, and what lists and maps contain, on access. The
# classes of composite types get their attributes from the tables (amqp10_add_composite).
from cpython.memoryview cimport PyMemoryView_FromObject


# ------------------------------------------------------------------------------------------------ performatives

cdef class Performative(Composite):
    """Base of the nine performatives (2.7) and the five SASL frames (5.3.3): a composite type with its frame.

    In addition to its fields each has `channel` (0 to 65535; ignored in SASL frames) and `extended_header` (bytes
    between the frame header and the performative, which no specification defines: b"").
    """
    __match_args__ = ("channel",)

    def __init__(self, *, channel=0, extended_header=b"", **fields):
        cdef PyObject* values[AMQP10_FIELDS_MAX]
        cdef int shape = self.check_new()
        self.build_frame(shape, values, fields if amqp10_take_names(shape, fields, values) else None, channel,
                         extended_header, b"")

    cdef int build_frame(self, int shape, PyObject** values, dict surplus, object channel, object extended_header,
                         object payload) except -1:
        """Write a frame with these values, and adopt it. `surplus`: see amqp10_put_fields. `payload`: a buffer, or a message."""
        cdef uint8_t start[WRITER_START]
        cdef Octets o = octets_over(start, WRITER_START)
        cdef Amqp10Options options
        cdef Amqp10FrameView frame
        cdef Fault f
        cdef bytes octets, block
        cdef const uint8_t* p = NULL
        cdef size_t size = 0, opened
        cdef bint plain
        if isinstance(payload, Message):
            block = (<Message>payload).block
            p = (<Message>payload).m.octets
            size = (<Message>payload).m.size
        else:
            block = None
        self.shape = <uint8_t>shape
        try:
            amqp10_put_frame_header(&o, amqp10_shapes[shape].provides & AMQP10_PROVIDES_SASL_FRAME != 0, channel,
                             extended_header)
            opened = o.size
            plain = amqp10_put_fields(&o, shape, values, self.fields, surplus)
            if block is None:
                block = take_block(payload)
                p = <const uint8_t*>PyBytes_AS_STRING(block)
                size = <size_t>PyBytes_GET_SIZE(block)
            octets = amqp10_close_frame(&o, p, size)
        finally:
            free_octets(&o)
        if plain and (size == 0 or amqp10_shapes[shape].provides & AMQP10_PROVIDES_PAYLOAD):
            memset(&frame, 0, sizeof(frame))
            frame.frame = <const uint8_t*>PyBytes_AS_STRING(octets)
            frame.size = <uint32_t>PyBytes_GET_SIZE(octets)
            frame.channel = load_u16(frame.frame + 6)
            frame.performative.begin = frame.frame + opened
            frame.performative.shape = <uint8_t>shape
            if size:
                frame.payload.at = frame.frame + frame.size - size
                frame.payload.size = <uint32_t>size
            amqp10_hold_frame(self, octets, &frame, True)
            return 0
        amqp10_strict_options(&options)
        if amqp10_parse(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), &options, &frame,
                        &f) != OK:
            raise encode_error(&AMQP10_TABLES, &f)
        amqp10_hold_frame(self, octets, &frame, True)
        return 0 if plain else self.decode_fields()

    @property
    def extended_header(self):
        return octets_of(self.frame + 8, self.frame[4] * 4 - 8)

    @property
    def notes(self):
        """Violations that LAX accepted: a tuple of Note (strictness.py), in the order found; at most NOTES_SHOWN."""
        return amqp10_notes(&AMQP10_OPS, self.frame, self.frame_size) if self.noted else ()

    def detach(self):
        """An equal frame that holds only its own bytes, not the larger input block."""
        if self.frame_size == PyBytes_GET_SIZE(self.block):
            return self
        return restore_frame(self.encode(), self.strict)

    def __eq__(self, other):
        cdef Performative that
        if type(self) is not type(other):
            return NotImplemented
        that = <Performative>other
        if self.frame_size == that.frame_size and memcmp(self.frame, that.frame, self.frame_size) == 0:
            return True
        return (self.same(that) and self.channel_ == that.channel_ and self.extended_header == that.extended_header and
                self.payload_span.size == that.payload_span.size and
                (self.payload_span.size == 0 or
                 memcmp(self.payload_span.at, that.payload_span.at, self.payload_span.size) == 0))

    def __hash__(self):
        return hash((Composite.__hash__(self), self.channel_, self.payload_span.size))

    def __reduce__(self):
        return restore_frame, (self.encode(), bool(self.strict))

    cdef list shown(self):
        out = Composite.shown(self)
        if self.channel_:
            out.append(f"channel={self.channel_}")
        if self.extended_header:
            out.append(f"extended_header={shown_octets(self.extended_header)}")
        return out


cdef inline int amqp10_hold_frame(Performative self, bytes block, const Amqp10FrameView* frame, bint strict) except -1:
    self.block = block
    self.begin = frame.performative.begin
    self.shape = frame.performative.shape
    self.frame = frame.frame
    self.frame_size = frame.size
    self.channel_ = frame.channel
    self.channel_number = frame.channel
    self.noted = frame.notes.count != 0
    self.strict = strict
    self.payload_span = frame.payload
    return 0


cdef PyMemberDef AMQP10_CHANNEL_MEMBER


cdef int add_amqp10_channel() except -1:
    sample = Performative.__new__(Performative)
    number = object()
    (<Performative>sample).channel_number = number
    return add_member(Performative, &AMQP10_CHANNEL_MEMBER, "channel", place_in(sample, number))


add_amqp10_channel()


cdef void amqp10_review(const uint8_t* p, size_t n, const CommonOptions* o, Notes* notes, Fault* f) noexcept nogil:
    cdef Amqp10FrameView frame
    amqp10_parse(p, n, <const Amqp10Options*>o, &frame, f)
    notes[0] = frame.notes


cdef object amqp10_object_of(bytes block, const uint8_t* p, size_t n, const CommonOptions* o, Fault* f):
    cdef Amqp10FrameView frame
    if amqp10_parse(p, n, <const Amqp10Options*>o, &frame, f) != OK:
        return None
    return amqp10_frame_of(block, &frame, o.strict)


cdef MessageOps AMQP10_OPS
AMQP10_OPS.tables = &AMQP10_TABLES
AMQP10_OPS.review = amqp10_review
AMQP10_OPS.read = amqp10_object_of


cdef tuple amqp10_notes(const MessageOps* ops, const uint8_t* p, size_t n):
    """The violations of a frame or a message."""
    cdef Amqp10Options o
    memset(&o, 0, sizeof(Amqp10Options))
    return message_notes(ops, p, n, &o.common)


cdef int amqp10_put_frame_header(Octets* o, bint sasl, object channel, object extended_header) except -1:
    """Write the frame header. amqp10_close_frame sets SIZE."""
    cdef bytes extended = take_block(extended_header)
    cdef Py_ssize_t words = PyBytes_GET_SIZE(extended) // 4
    if PyBytes_GET_SIZE(extended) % 4 or words > 253:
        raise EncodeError("extended_header: its size must be a multiple of four bytes, at most 1012 [2.3.1]")
    add_u32(o, 0)
    add_u8(o, <uint8_t>(words + 2))
    add_u8(o, sasl)
    add_u16(o, <uint16_t>whole_number(channel, 0xFFFF, "channel"))
    add_octets(o, <const uint8_t*>PyBytes_AS_STRING(extended), <size_t>PyBytes_GET_SIZE(extended))
    return 0


cdef bytes amqp10_close_frame(const Octets* o, const uint8_t* payload, size_t size):
    """The frame of the written header and performative, and of a payload."""
    cdef bytes octets
    cdef uint8_t* p
    if o.failed:
        raise MemoryError
    if o.size + size > 0xFFFFFFFF:
        raise EncodeError(f"a frame of {o.size + size} bytes, the limit is 4294967295 [2.3.1]")
    octets = new_octets(o.size + size)
    p = <uint8_t*>PyBytes_AS_STRING(octets)
    memcpy(p, o.at, o.size)
    memcpy(p + o.size, payload, size)
    store_u32(p, <uint32_t>(o.size + size))
    return octets


@cython.final
cdef class Open(Performative):
    """open (2.7.1): negotiates a connection. `idle_time_out` is in milliseconds."""


@cython.final
cdef class Begin(Performative):
    """begin (2.7.2): a session on a channel."""


@cython.final
cdef class Attach(Performative):
    """attach (2.7.3): a link to a session. `role` is False for a sender, True for a receiver; `source` a Source, `target`
    a Target or Coordinator."""


@cython.final
cdef class Flow(Performative):
    """flow (2.7.4): credit and windows."""


cdef int amqp10_check_format(Transfer transfer) except -1:
    """2.7.5, 3.2.16: only a payload of message-format 0 is made of the sections of part 3."""
    cdef Fault f
    if transfer.message_format:
        amqp10_delivery_fault(&f, AMQP10_CHECK_MESSAGE_FORMAT, AMQP10_FIELD_TRANSFER_MESSAGE_FORMAT, 0, 0)
        raise_fault(&AMQP10_TABLES, &f, 0)
    return 0


@cython.final
cdef class Transfer(Performative):
    """transfer (2.7.5): a message, or a part of one. Also a buffer: that of its payload.

    In addition to its fields it has `payload`: a read-only memoryview into the bytes it was decoded from;
    `payload_bytes()` copies it. `message` decodes it if the transfer is a complete delivery; an Assembler assembles others.
    """
    __match_args__ = ("payload", "channel")

    def __init__(self, *, channel=0, extended_header=b"", payload=b"", **fields):
        cdef PyObject* values[AMQP10_FIELDS_MAX]
        cdef int shape = self.check_new()
        self.build_frame(shape, values, fields if amqp10_take_names(shape, fields, values) else None, channel,
                         extended_header, payload)

    @property
    def payload(self):
        return PyMemoryView_FromObject(self)

    def payload_bytes(self):
        """The payload, copied."""
        return octets_of(self.payload_span.at, self.payload_span.size)

    @property
    def message(self):
        """The Message in the payload, decoded as strictly as the transfer. Raises DecodeError if the payload is not a
        message, or only a part of one, or if `message_format` is not 0."""
        amqp10_check_format(self)
        return amqp10_read_message(self.block, self.payload_span.at if self.payload_span.at != NULL else self.frame,
                            self.payload_span.size, self.strict, 0)

    def __getbuffer__(self, Py_buffer* view, int flags):
        fill_view(view, self, self.payload_span.at if self.payload_span.size else self.frame, self.payload_span.size, flags)

    cdef list shown(self):
        out = Performative.shown(self)
        if self.payload_span.size:
            out.append(f"payload={shown_encoded(self.payload)}")
        return out


@cython.final
cdef class Disposition(Performative):
    """disposition (2.7.6): the state of deliveries `first` to `last`."""


@cython.final
cdef class Detach(Performative):
    """detach (2.7.7)."""


@cython.final
cdef class End(Performative):
    """end (2.7.8): of a session."""


@cython.final
cdef class Close(Performative):
    """close (2.7.9): of a connection."""


@cython.final
cdef class SaslMechanisms(Performative):
    """sasl-mechanisms (5.3.3.1): `sasl_server_mechanisms` is one symbol, or several."""


@cython.final
cdef class SaslInit(Performative):
    """sasl-init (5.3.3.2). A repr shows no initial response."""


@cython.final
cdef class SaslChallenge(Performative):
    """sasl-challenge (5.3.3.3)."""


@cython.final
cdef class SaslResponse(Performative):
    """sasl-response (5.3.3.4). A repr shows no response."""


@cython.final
cdef class SaslOutcome(Performative):
    """sasl-outcome (5.3.3.5): `code` is a key of wirefmt.amqp10.spec.SASL_CODES."""


# ------------------------------------------------------------------------------------------------ other composite types

@cython.final
cdef class Error(Composite):
    """error (2.8.14): `condition` is one of wirefmt.amqp10.spec.ERROR_CONDITIONS, or one of an extension."""


@cython.final
cdef class Header(Composite):
    """The header section (3.2.1). `ttl` is in milliseconds."""


@cython.final
cdef class Properties(Composite):
    """The properties section (3.2.4). Times are milliseconds since 1970."""


@cython.final
cdef class Received(Composite):
    """received (3.4.1): how much of a delivery arrived."""


@cython.final
cdef class Accepted(Composite):
    """accepted (3.4.2)."""


@cython.final
cdef class Rejected(Composite):
    """rejected (3.4.3)."""


@cython.final
cdef class Released(Composite):
    """released (3.4.4)."""


@cython.final
cdef class Modified(Composite):
    """modified (3.4.5)."""


@cython.final
cdef class Source(Composite):
    """source (3.5.3). `timeout` is in seconds."""


@cython.final
cdef class Target(Composite):
    """target (3.5.4). `timeout` is in seconds."""


@cython.final
cdef class DeleteOnClose(Composite):
    """delete-on-close (3.5.10), a lifetime policy."""


@cython.final
cdef class DeleteOnNoLinks(Composite):
    """delete-on-no-links (3.5.11)."""


@cython.final
cdef class DeleteOnNoMessages(Composite):
    """delete-on-no-messages (3.5.12)."""


@cython.final
cdef class DeleteOnNoLinksOrMessages(Composite):
    """delete-on-no-links-or-messages (3.5.13)."""


@cython.final
cdef class Coordinator(Composite):
    """coordinator (4.5.1): the target of a link that controls transactions."""


@cython.final
cdef class Declare(Composite):
    """declare (4.5.2): the value of a message to a coordinator."""


@cython.final
cdef class Discharge(Composite):
    """discharge (4.5.3): the value of a message to a coordinator."""


@cython.final
cdef class Declared(Composite):
    """declared (4.5.5)."""


@cython.final
cdef class TransactionalState(Composite):
    """transactional-state (4.5.8)."""


amqp10_add_composite(Open, AMQP10_OPEN)
amqp10_add_composite(Begin, AMQP10_BEGIN)
amqp10_add_composite(Attach, AMQP10_ATTACH)
amqp10_add_composite(Flow, AMQP10_FLOW)
amqp10_add_composite(Transfer, AMQP10_TRANSFER)
amqp10_add_composite(Disposition, AMQP10_DISPOSITION)
amqp10_add_composite(Detach, AMQP10_DETACH)
amqp10_add_composite(End, AMQP10_END)
amqp10_add_composite(Close, AMQP10_CLOSE)
amqp10_add_composite(SaslMechanisms, AMQP10_SASL_MECHANISMS)
amqp10_add_composite(SaslInit, AMQP10_SASL_INIT)
amqp10_add_composite(SaslChallenge, AMQP10_SASL_CHALLENGE)
amqp10_add_composite(SaslResponse, AMQP10_SASL_RESPONSE)
amqp10_add_composite(SaslOutcome, AMQP10_SASL_OUTCOME)
amqp10_add_composite(Error, AMQP10_ERROR)
amqp10_add_composite(Header, AMQP10_HEADER)
amqp10_add_composite(Properties, AMQP10_PROPERTIES)
amqp10_add_composite(Received, AMQP10_RECEIVED)
amqp10_add_composite(Accepted, AMQP10_ACCEPTED)
amqp10_add_composite(Rejected, AMQP10_REJECTED)
amqp10_add_composite(Released, AMQP10_RELEASED)
amqp10_add_composite(Modified, AMQP10_MODIFIED)
amqp10_add_composite(Source, AMQP10_SOURCE)
amqp10_add_composite(Target, AMQP10_TARGET)
amqp10_add_composite(DeleteOnClose, AMQP10_DELETE_ON_CLOSE)
amqp10_add_composite(DeleteOnNoLinks, AMQP10_DELETE_ON_NO_LINKS)
amqp10_add_composite(DeleteOnNoMessages, AMQP10_DELETE_ON_NO_MESSAGES)
amqp10_add_composite(DeleteOnNoLinksOrMessages, AMQP10_DELETE_ON_NO_LINKS_OR_MESSAGES)
amqp10_add_composite(Coordinator, AMQP10_COORDINATOR)
amqp10_add_composite(Declare, AMQP10_DECLARE)
amqp10_add_composite(Discharge, AMQP10_DISCHARGE)
amqp10_add_composite(Declared, AMQP10_DECLARED)
amqp10_add_composite(TransactionalState, AMQP10_TRANSACTIONAL_STATE)


# ------------------------------------------------------------------------------------------------ frames without fields

@cython.final
@cython.freelist(16)
@cython.no_gc
cdef class ProtocolHeader:
    """A protocol header (2.2): `ProtocolHeader()` is the header of AMQP, `ProtocolHeader(2)` of TLS, `ProtocolHeader(3)` of
    SASL (wirefmt.amqp10.spec.PROTOCOL_IDS)."""
    cdef bytes octets

    __match_args__ = ("protocol_id", "major", "minor", "revision")

    def __init__(self, protocol_id=0, major=1, minor=0, revision=0):
        self.octets = b"AMQP" + bytes([
            whole_number(protocol_id, 255, "protocol_id"), whole_number(major, 255, "major"),
            whole_number(minor, 255, "minor"), whole_number(revision, 255, "revision")])

    @property
    def protocol_id(self):
        return self.octets[4]

    @property
    def major(self):
        return self.octets[5]

    @property
    def minor(self):
        return self.octets[6]

    @property
    def revision(self):
        return self.octets[7]

    @property
    def notes(self):
        """Violations that LAX accepted: a tuple of Note."""
        return amqp10_notes(&AMQP10_OPS, <const uint8_t*>PyBytes_AS_STRING(self.octets), 8)

    def encode(self):
        return self.octets

    def __eq__(self, other):
        if not isinstance(other, ProtocolHeader):
            return NotImplemented
        return self.octets == (<ProtocolHeader>other).octets

    def __hash__(self):
        return hash(self.octets)

    def __repr__(self):
        return f"amqp10.ProtocolHeader({', '.join(str(n) for n in self.octets[4:])})"

    def __reduce__(self):
        return ProtocolHeader, tuple(self.octets[4:])


@cython.final
@cython.freelist(16)
@cython.no_gc
cdef class EmptyFrame:
    """A frame without a body (2.4.1): a heartbeat. `type` is 0, or in LAX 1 (SASL)."""
    cdef bytes octets

    __match_args__ = ("channel", "extended_header", "type")

    def __init__(self, channel=0, extended_header=b"", type=0):
        cdef Octets o
        memset(&o, 0, sizeof(Octets))
        try:
            amqp10_put_frame_header(&o, whole_number(type, 1, "type") != 0, channel, extended_header)
            self.octets = amqp10_close_frame(&o, <const uint8_t*>b"", 0)
        finally:
            free_octets(&o)

    @property
    def channel(self):
        return load_u16(<const uint8_t*>PyBytes_AS_STRING(self.octets) + 6)

    @property
    def extended_header(self):
        return self.octets[8:]

    @property
    def type(self):
        return self.octets[5]

    @property
    def notes(self):
        """Violations that LAX accepted: a tuple of Note."""
        return amqp10_notes(&AMQP10_OPS, <const uint8_t*>PyBytes_AS_STRING(self.octets), <size_t>PyBytes_GET_SIZE(self.octets))

    def encode(self):
        return self.octets

    def __eq__(self, other):
        if not isinstance(other, EmptyFrame):
            return NotImplemented
        return self.octets == (<EmptyFrame>other).octets

    def __hash__(self):
        return hash(self.octets)

    def __repr__(self):
        return f"amqp10.EmptyFrame({self.channel}, {self.extended_header!r}, {self.type})"

    def __reduce__(self):
        return EmptyFrame, (self.channel, self.extended_header, self.type)
