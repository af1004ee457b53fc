# AMQP 1.0 frames, composite types and messages as Python objects, and the Decoder.
#
# There is one form of each: its octets. A constructor writes them and reads them back as STRICT does, so what can be
# built is what can be decoded, and encode() hands out octets that exist; what it wrote of plain values is not read back.
# Fields, sections, lists and maps become objects when they are asked for. The classes of composite types get their attributes
# from the tables (amqp10_add_composite).
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
        """Be a frame of these values. `surplus`: as amqp10_put_fields has it. `payload`: a buffer, or a message."""
        cdef uint8_t start[WRITER_START]
        cdef Octets o = octets_over(start, WRITER_START)
        cdef Amqp10Options options
        cdef Amqp10FrameView frame
        cdef Fault f
        cdef bytes octets, block
        cdef const uint8_t* p
        cdef size_t size, opened
        cdef bint plain
        if isinstance(payload, Message):
            block = (<Message>payload).block
            p = (<Message>payload).m.octets
            size = (<Message>payload).m.size
        else:
            block = None
        try:
            amqp10_put_frame_header(&o, amqp10_shapes[shape].provides & AMQP10_PROVIDES_SASL_FRAME != 0, channel,
                             extended_header)
            opened = o.size
            plain = amqp10_put_fields(&o, shape, values, NULL, surplus)
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
            raise amqp10_encode_error(&f)
        amqp10_hold_frame(self, octets, &frame, True)
        return 0

    @property
    def channel(self):
        return self.channel_

    @property
    def extended_header(self):
        return octets_of(self.frame + 8, self.frame[4] * 4 - 8)

    @property
    def notes(self):
        """Violations that LAX accepted: a tuple of Note (strictness.py), in the order found; at most NOTES_SHOWN."""
        cdef Amqp10Note found[NOTES_SHOWN]
        cdef Amqp10Options o
        cdef Amqp10FrameView frame
        cdef Fault f
        if not self.noted:
            return ()
        amqp10_lax_options(&o, found)
        amqp10_parse(self.frame, self.frame_size, &o, &frame, &f)
        return amqp10_notes(found, frame.note_count)

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


cdef void amqp10_hold_frame(Performative self, bytes block, const Amqp10FrameView* frame, bint strict) noexcept:
    self.block = block
    self.begin = frame.performative.begin
    self.shape = frame.performative.shape
    self.frame = frame.frame
    self.frame_size = frame.size
    self.channel_ = frame.channel
    self.noted = frame.note_count != 0
    self.strict = strict
    self.payload_span = frame.payload


cdef void amqp10_lax_options(Amqp10Options* o, Amqp10Note* found) noexcept nogil:
    memset(o, 0, sizeof(Amqp10Options))
    o.notes = found
    o.notes_room = NOTES_SHOWN


cdef tuple amqp10_notes(const Amqp10Note* found, int count):
    cdef int i
    out = []
    for i in range(min(count, NOTES_SHOWN)):
        out.append(Note(
            amqp10_check_name[found[i].check].decode("ascii"),
            field_path(&AMQP10_TABLES, found[i].field, found[i].index), found[i].offset,
            amqp10_check_text[found[i].check].decode("utf-8"), amqp10_check_spec[found[i].check].decode("ascii")))
    return tuple(out)


cdef int amqp10_put_frame_header(Octets* o, bint sasl, object channel, object extended_header) except -1:
    """SIZE is put in when the frame is closed."""
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
    """The frame of a header and a performative that were written, and a payload."""
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


@cython.final
cdef class Transfer(Performative):
    """transfer (2.7.5): a message, or a part of one. Also a buffer: that of its payload.

    In addition to its fields it has `payload`: a read-only memoryview into the octets it was decoded from;
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
        message, or only a part of one."""
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
        cdef Amqp10Note found[NOTES_SHOWN]
        cdef Amqp10Options o
        cdef Amqp10FrameView frame
        cdef Fault f
        amqp10_lax_options(&o, found)
        amqp10_parse(<const uint8_t*>PyBytes_AS_STRING(self.octets), 8, &o, &frame, &f)
        return amqp10_notes(found, frame.note_count)

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
        cdef Amqp10Note found[NOTES_SHOWN]
        cdef Amqp10Options o
        cdef Amqp10FrameView frame
        cdef Fault f
        amqp10_lax_options(&o, found)
        amqp10_parse(<const uint8_t*>PyBytes_AS_STRING(self.octets), <size_t>PyBytes_GET_SIZE(self.octets), &o, &frame, &f)
        return amqp10_notes(found, frame.note_count)

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


# ------------------------------------------------------------------------------------------------ sections of the body

@cython.final
cdef class Data(Value):
    """A data section (3.2.6): `Data(b"bytes")`. A buffer of its bytes."""
    __match_args__ = ("payload",)

    def __init__(self, payload, /):
        cdef Octets o
        memset(&o, 0, sizeof(Octets))
        try:
            amqp10_put_binary(&o, payload)
            self.settle(&o, AMQP10_BINARY)
        finally:
            free_octets(&o)

    @property
    def payload(self):
        """The bytes, a read-only memoryview."""
        return PyMemoryView_FromObject(self)

    def __len__(self):
        return self.v.size

    def __bytes__(self):
        return octets_of(self.v.body, self.v.size)

    def __getbuffer__(self, Py_buffer* view, int flags):
        fill_view(view, self, self.v.body, self.v.size, flags)

    def __eq__(self, other):
        if not isinstance(other, Data):
            return NotImplemented
        return self.same(<Value>other)

    def __hash__(self):
        return hash(bytes(self))

    def __repr__(self):
        return f"amqp10.Data({shown_octets(self.payload)})"

    def __reduce__(self):
        return Data, (bytes(self),)


@cython.final
cdef class AmqpSequence(Value):
    """An amqp-sequence section (3.2.7): `AmqpSequence([1, "a"])`. `items` is a List."""
    __match_args__ = ("items",)

    def __init__(self, items, /):
        cdef List of = items if isinstance(items, List) else List(items)
        self.block = of.block
        self.v = of.v

    @property
    def items(self):
        if self.cached is None:
            self.cached = amqp10_value_of(self.block, &self.v, False)
        return self.cached

    def __eq__(self, other):
        if not isinstance(other, AmqpSequence):
            return NotImplemented
        return self.same(<Value>other)

    def __hash__(self):
        return hash(self.items)

    def __repr__(self):
        return f"amqp10.AmqpSequence({list(self.items)!r})"

    def __reduce__(self):
        return AmqpSequence, (self.items,)


@cython.final
cdef class AmqpValue(Value):
    """The amqp-value section (3.2.8): `AmqpValue("text")`, of any type."""
    __match_args__ = ("value",)

    def __init__(self, value, /):
        cdef Amqp10ValueView v
        cdef bytes octets = encode_value(value)
        restore_value(octets)
        amqp10_read(<const uint8_t*>PyBytes_AS_STRING(octets), &v)
        amqp10_hold_value(self, octets, &v)

    @property
    def value(self):
        if self.cached is None:
            self.cached = amqp10_value_of(self.block, &self.v, False)
        return self.cached

    def __eq__(self, other):
        if not isinstance(other, AmqpValue):
            return NotImplemented
        return self.same(<Value>other)

    def __hash__(self):
        return amqp10_hash_of((self.value,))

    def __repr__(self):
        return f"amqp10.AmqpValue({self.value!r})"

    def __reduce__(self):
        return AmqpValue, (self.value,)


cdef tuple AMQP10_BODY_CLASSES = (Data, AmqpSequence, AmqpValue)                          # by code - AMQP10_SECTION_DATA
cdef Factory[3] AMQP10_BODY_FACTORIES
set_factories(AMQP10_BODY_FACTORIES, AMQP10_BODY_CLASSES)


# ------------------------------------------------------------------------------------------------ messages

@cython.final
@cython.freelist(256)
@cython.no_gc
cdef class Message:
    """A message with all its sections (3.2).

    header: Header or None. delivery_annotations, message_annotations, footer: Map or None; a constructor also takes dicts,
    whose keys become symbols (str) or ulongs (int). properties: Properties or None.
    application_properties: Map or None. body: a tuple of Data, of AmqpSequence, or of one AmqpValue; a constructor takes
    one of them, several, or bytes for one Data. `payload` is the bytes of a single Data.
    """
    cdef bytes block
    cdef Amqp10MessageView m    # views into the block
    cdef object header_, delivery_annotations_, message_annotations_, properties_, application_properties_, body_, footer_

    __match_args__ = ("header", "delivery_annotations", "message_annotations", "properties", "application_properties",
                      "body", "footer")

    def __init__(self, *, Header header=None, delivery_annotations=None, message_annotations=None,
                 Properties properties=None, application_properties=None, body, footer=None):
        cdef uint8_t start[1024]
        cdef Octets o = octets_over(start, sizeof(start))
        cdef Amqp10Options options
        cdef Fault f
        cdef bytes octets
        # whether parsing would find no fault; then it is known where all sections are
        cdef bint plain = (delivery_annotations is None and message_annotations is None and footer is None and
                           (header is None or header.built) and (properties is None or properties.built) and
                           PyBytes_CheckExact(body))
        cdef size_t of_properties = 0, of_application = 0, of_body
        try:
            if header is not None:
                amqp10_put_composite(&o, header)
            amqp10_put_annotations(&o, AMQP10_SECTION_DELIVERY_ANNOTATIONS, delivery_annotations)
            amqp10_put_annotations(&o, AMQP10_SECTION_MESSAGE_ANNOTATIONS, message_annotations)
            of_properties = o.size
            if properties is not None:
                amqp10_put_composite(&o, properties)
            of_application = o.size
            if application_properties is not None:
                amqp10_add_descriptor(&o, AMQP10_SECTION_APPLICATION_PROPERTIES)
                if not PyDict_CheckExact(application_properties) or not amqp10_put_plain_entries(&o, application_properties):
                    plain = False
                    amqp10_put_value(&o, application_properties, 0)
            of_body = o.size
            amqp10_put_body(&o, body)
            amqp10_put_annotations(&o, AMQP10_SECTION_FOOTER, footer)
            octets = amqp10_written_octets(&o)
        finally:
            free_octets(&o)
        self.block = octets
        if plain:
            self.m.octets = <const uint8_t*>PyBytes_AS_STRING(octets)
            self.m.size = <uint32_t>PyBytes_GET_SIZE(octets)
            if header is not None:
                amqp10_place_section(&self.m, AMQP10_SECTION_HEADER, self.m.octets, &self.m.header)
            if properties is not None:
                amqp10_place_section(&self.m, AMQP10_SECTION_PROPERTIES, self.m.octets + of_properties, &self.m.properties)
            if application_properties is not None:
                amqp10_place_section(&self.m, AMQP10_SECTION_APPLICATION_PROPERTIES, self.m.octets + of_application, NULL)
            amqp10_place_section(&self.m, AMQP10_SECTION_DATA, self.m.octets + of_body, NULL)
            self.m.body = AMQP10_SECTION_DATA
            self.m.body_count = 1
            self.m.payload.at = self.m.octets + self.m.size - PyBytes_GET_SIZE(body)
            self.m.payload.size = <uint32_t>PyBytes_GET_SIZE(body)
            return
        amqp10_strict_options(&options)
        if amqp10_parse_message(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), &options,
                                &self.m, &f) != OK:
            raise amqp10_encode_error(&f)

    @staticmethod
    def decode(data, /, *, strictness=STRICT_MODE, limits=None):
        """Decode exactly one message: the payload of a transfer, or of all transfers of a delivery."""
        return decode_message(data, strictness=strictness, limits=limits)

    def encode(self):
        """The bytes: those it was decoded from, or the smallest encoding of a new message (decoded parts keep theirs)."""
        if self.m.size == PyBytes_GET_SIZE(self.block):
            return self.block
        return octets_of(self.m.octets, self.m.size)

    def detach(self):
        """An equal message that holds only its own bytes, not the larger input block."""
        if self.encode() is self.block:
            return self
        return restore_message(self.encode())

    @property
    def header(self):
        if self.header_ is None and self.m.header.shape:
            self.header_ = amqp10_composite_of(self.block, self.m.header.begin, AMQP10_HEADER)
        return self.header_

    @property
    def delivery_annotations(self):
        if self.delivery_annotations_ is None:
            self.delivery_annotations_ = self.section(AMQP10_SECTION_DELIVERY_ANNOTATIONS)
        return self.delivery_annotations_

    @property
    def message_annotations(self):
        if self.message_annotations_ is None:
            self.message_annotations_ = self.section(AMQP10_SECTION_MESSAGE_ANNOTATIONS)
        return self.message_annotations_

    @property
    def properties(self):
        if self.properties_ is None and self.m.properties.shape:
            self.properties_ = amqp10_composite_of(self.block, self.m.properties.begin, AMQP10_PROPERTIES)
        return self.properties_

    @property
    def application_properties(self):
        if self.application_properties_ is None:
            self.application_properties_ = self.section(AMQP10_SECTION_APPLICATION_PROPERTIES)
        return self.application_properties_

    @property
    def body(self):
        if self.body_ is None:
            self.body_ = self.read_body()
        return self.body_

    @property
    def footer(self):
        if self.footer_ is None:
            self.footer_ = self.section(AMQP10_SECTION_FOOTER)
        return self.footer_

    @property
    def payload(self):
        """The bytes of the body if it is a single Data, as a read-only memoryview; otherwise None."""
        if self.m.payload.at == NULL:
            return None
        return PyMemoryView_FromObject(self)

    def __getbuffer__(self, Py_buffer* view, int flags):
        if self.m.payload.at == NULL:
            raise BufferError("the body is not one Data")
        fill_view(view, self, self.m.payload.at, self.m.payload.size, flags)

    @property
    def notes(self):
        """Violations that LAX accepted: a tuple of Note (strictness.py), in the order found; at most NOTES_SHOWN."""
        cdef Amqp10Note found[NOTES_SHOWN]
        cdef Amqp10Options o
        cdef Amqp10MessageView m
        cdef Fault f
        if self.m.note_count == 0:
            return ()
        amqp10_lax_options(&o, found)
        amqp10_parse_message(self.m.octets, self.m.size, &o, &m, &f)
        return amqp10_notes(found, m.note_count)

    def __eq__(self, other):
        cdef Message that
        if not isinstance(other, Message):
            return NotImplemented
        that = <Message>other
        if self.m.size == that.m.size and (self.m.size == 0 or memcmp(self.m.octets, that.m.octets, self.m.size) == 0):
            return True
        return self.values() == that.values()

    def __hash__(self):
        return hash(self.values())

    def __repr__(self):
        shown = [f"{name}={value!r}" for name, value in zip(self.__match_args__, self.values()) if value is not None]
        return f"amqp10.Message({', '.join(shown)})"

    def __reduce__(self):
        return restore_message, (self.encode(),)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    cdef tuple values(self):
        return (self.header, self.delivery_annotations, self.message_annotations, self.properties,
                self.application_properties, self.body, self.footer)

    cdef object section(self, int code):
        cdef Amqp10ValueView v
        cdef const uint8_t* at = self.m.at[code - AMQP10_SECTION_FIRST]
        if at == NULL:
            return None
        amqp10_read(at, &v)
        return amqp10_hold_value(Map.__new__(Map), self.block, &v)

    cdef tuple read_body(self):
        cdef const uint8_t* at = self.m.octets
        cdef const uint8_t* end = at + self.m.size
        cdef Amqp10Section section
        cdef Amqp10ValueView v
        cdef Value held
        cdef list out = []
        if self.m.body_count == 0:
            return ()
        while amqp10_next_section(&at, end, &section):
            if AMQP10_SECTION_DATA <= section.code <= AMQP10_SECTION_AMQP_VALUE:
                amqp10_read(section.at, &v)
                held = <Value>bare_object(&AMQP10_BODY_FACTORIES[section.code - AMQP10_SECTION_DATA])
                out.append(amqp10_hold_value(held, self.block, &v))
        return tuple(out)


cdef inline void amqp10_place_section(Amqp10MessageView* m, int code, const uint8_t* begin,
                                      Amqp10CompositeView* composite) noexcept:
    """Note where a section is that was written: its descriptor takes three octets."""
    m.at[code - AMQP10_SECTION_FIRST] = begin + 3
    if composite != NULL:
        composite.begin = begin
        composite.shape = amqp10_sections[code - AMQP10_SECTION_FIRST].shape


cdef int amqp10_put_annotations(Octets* o, int code, object annotations) except -1:
    """A section of annotations, or the footer: keys are symbols or ulongs (3.2.10)."""
    cdef size_t mark, count = 0
    if annotations is None:
        return 0
    amqp10_add_descriptor(o, <uint64_t>code)
    if isinstance(annotations, Map):
        return amqp10_put_value(o, annotations, 0)
    mark = amqp10_open(o)
    for key, value in annotations.items() if hasattr(annotations, "items") else annotations:
        if isinstance(key, str):
            amqp10_put_symbol(o, key)
        else:
            amqp10_put_scalar(o, AMQP10_ULONG, key)
        amqp10_put_value(o, value, 1)
        count += 2
    amqp10_close(o, mark, AMQP10_CODE_MAP8, count)
    return 0


cdef int amqp10_put_body(Octets* o, object body) except -1:
    if isinstance(body, Value):
        amqp10_put_section(o, body)
    elif isinstance(body, (tuple, list)):
        for section in body:
            amqp10_put_section(o, section)
    else:
        amqp10_add_descriptor(o, AMQP10_SECTION_DATA)
        amqp10_put_binary(o, body)
    return 0


cdef int amqp10_put_section(Octets* o, object section) except -1:
    if type(section) not in AMQP10_BODY_CLASSES:
        raise TypeError(f"body must consist of Data, AmqpSequence or AmqpValue, not {type(section).__name__}")
    amqp10_add_descriptor(o, <uint64_t>(AMQP10_SECTION_DATA + AMQP10_BODY_CLASSES.index(type(section))))
    amqp10_add_value(o, &(<Value>section).v)
    return 0


cdef object amqp10_read_message(bytes block, const uint8_t* p, size_t n, bint strict, uint32_t max_elements):
    """The message of octets that lie in `block`."""
    cdef Message message = Message.__new__(Message)
    cdef Amqp10Options o
    cdef Fault f
    memset(&o, 0, sizeof(Amqp10Options))
    o.strict = strict
    o.max_elements = max_elements
    if amqp10_parse_message(p, n, &o, &message.m, &f) != OK:
        raise_fault(&AMQP10_TABLES, &f, 0)
    message.block = block
    return message


# ------------------------------------------------------------------------------------------------ decode, encode

cdef object amqp10_frame_of(bytes block, const Amqp10FrameView* frame, bint strict):
    """The object of a frame that was parsed `strict` or not, and lies in `block`."""
    cdef Performative performative
    cdef ProtocolHeader header
    cdef EmptyFrame empty
    if frame.kind == AMQP10_KIND_PERFORMATIVE:
        performative = <Performative>bare_object(&AMQP10_COMPOSITE_FACTORIES[frame.performative.shape])
        amqp10_hold_frame(performative, block, frame, strict)
        return performative
    if frame.kind == AMQP10_KIND_EMPTY:
        empty = EmptyFrame.__new__(EmptyFrame)
        empty.octets = octets_of(frame.frame, frame.size)
        return empty
    header = ProtocolHeader.__new__(ProtocolHeader)
    header.octets = octets_of(frame.frame, frame.size)
    return header


def decode(data, /, *, strictness=STRICT_MODE, limits=None):
    """Decode exactly one frame or protocol header (2.2, 2.3), which must use all bytes.

    data: any contiguous buffer; bytes are kept, any other buffer is copied once. strictness: "strict" or "lax".
    limits: wirefmt.framing.Limits.

    Returns a ProtocolHeader, an EmptyFrame, a performative or a SASL frame. Raises DecodeError;
    Truncated if bytes are missing.
    """
    cdef Amqp10Options o
    cdef Amqp10FrameView frame
    cdef Fault f
    cdef bytes block = take_block(data)
    take_amqp10_options(&o, strictness, limits)
    if amqp10_parse(<const uint8_t*>PyBytes_AS_STRING(block), <size_t>PyBytes_GET_SIZE(block), &o, &frame, &f) != OK:
        raise_fault(&AMQP10_TABLES, &f, 0)
    return amqp10_frame_of(block, &frame, o.strict)


def decode_message(data, /, *, strictness=STRICT_MODE, limits=None):
    """Decode exactly one message (3.2): the payload of a transfer, or of all transfers of a delivery.

    data, strictness: as in decode(). limits: `elements` limits the elements of all lists, maps and arrays. Raises DecodeError.
    """
    cdef Amqp10Options o
    cdef bytes block = take_block(data)
    take_amqp10_options(&o, strictness, limits)
    return amqp10_read_message(block, <const uint8_t*>PyBytes_AS_STRING(block), <size_t>PyBytes_GET_SIZE(block), o.strict,
                        o.max_elements)


def frame_size(data, /, *, limits=None):
    """Size in bytes of the frame or protocol header that `data` begins with, or NEED_DATA; it needs as few bytes as possible.

    Raises DecodeError if no frame can begin this way, and LimitExceeded if it is too large.
    """
    cdef uint8_t head[INPUT_HEAD]
    cdef size_t n = input_head(data, head)
    cdef Fault f
    cdef size_t size = 0
    cdef int status
    cdef uint32_t limit = DEFAULT_FRAME_SIZE if limits is None else limits.frame_size
    status = amqp10_frame_size(head, n, limit, &size, &f)
    if status == OK:
        return size
    if status == NEED_DATA:
        return NEED_DATA_VALUE
    raise_fault(&AMQP10_TABLES, &f, 0)


def encode(message, /):
    """The bytes of a frame, message or composite, as `message.encode()`."""
    if not isinstance(message, (Composite, Message, ProtocolHeader, EmptyFrame)):
        raise TypeError(f"{type(message).__name__} is not a frame, composite or message; use encode_value() for values")
    return message.encode()


def restore_frame(bytes octets not None, bint strict):
    """Unpickle a performative that was built, or decoded `strict` or not."""
    cdef Amqp10Options o
    cdef Amqp10FrameView frame
    cdef Fault f
    memset(&o, 0, sizeof(Amqp10Options))
    o.strict = strict
    if amqp10_parse(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), &o, &frame, &f) != OK:
        raise_fault(&AMQP10_TABLES, &f, 0)
    return amqp10_frame_of(octets, &frame, strict)


def restore_message(bytes octets not None):
    """Unpickle a message."""
    return decode_message(octets, strictness="lax", limits=Limits(0, 0))


cdef inline int amqp10_stream_size(const uint8_t* p, size_t n, const Amqp10Options* o, size_t* size, Fault* f) noexcept:
    """amqp10_frame_size for a stream: DOFF and TYPE are looked at before a frame is waited for, to refuse it at once."""
    cdef int status = amqp10_frame_size(p, n, o.max_frame_size, size, f)
    return NEED_DATA if status == OK and n < 6 else status


@cython.final
cdef class Decoder(FrameDecoder):
    """Bytes of one direction of a connection -> frames and protocol headers.

    strictness, limits: as in decode(). Deliveries in several transfers: Assembler.
    """
    cdef Amqp10Options options

    def __init__(self, *, strictness=STRICT_MODE, limits=None):
        self.tables = &AMQP10_TABLES
        take_amqp10_options(&self.options, strictness, limits)

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept:
        return amqp10_stream_size(p, n, &self.options, size, f)

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        cdef Amqp10FrameView frame
        if amqp10_parse(p, n, &self.options, &frame, f) != OK:
            return None
        return amqp10_frame_of(block, &frame, self.options.strict)


# ------------------------------------------------------------------------------------------------ deliveries

@cython.final
@cython.freelist(64)
@cython.no_gc
cdef class Delivery:
    """A delivery (2.6.12): the assembled transfers of one message.

    `transfer` is the first of them, which has delivery-id, delivery-tag and message-format; `settled` is True if any of
    them settled it; `transfers` is their number. `payload` (read-only memoryview) is that of all, `message` decodes it.
    """
    cdef readonly Transfer transfer
    cdef readonly int transfers
    cdef readonly bint settled
    cdef bytes joined           # None: the transfer's own payload
    cdef bint strict
    cdef uint32_t max_elements

    def __init__(self):
        raise TypeError("a Delivery comes from an Assembler")

    @property
    def payload(self):
        return self.transfer.payload if self.joined is None else memoryview(self.joined)

    @property
    def message(self):
        """The Message. Raises DecodeError."""
        cdef Transfer transfer = self.transfer
        if self.joined is not None:
            return amqp10_read_message(self.joined, <const uint8_t*>PyBytes_AS_STRING(self.joined),
                                <size_t>PyBytes_GET_SIZE(self.joined), self.strict, self.max_elements)
        return amqp10_read_message(transfer.block, transfer.payload_span.at if transfer.payload_span.size else transfer.frame,
                            transfer.payload_span.size, self.strict, self.max_elements)

    def __reduce__(self):
        return restore_delivery, (self.transfer, self.joined, self.transfers, self.settled, self.strict,
                                  self.max_elements)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return f"<amqp10.Delivery in {self.transfers} transfers, {len(self.payload)} bytes, {self.transfer!r}>"


def restore_delivery(Transfer transfer not None, bytes joined, int transfers, bint settled, bint strict,
                     uint32_t max_elements):
    """Unpickle a delivery."""
    cdef Delivery made = Delivery.__new__(Delivery)
    made.transfer = transfer
    made.joined = joined
    made.transfers = transfers
    made.settled = settled
    made.strict = strict
    made.max_elements = max_elements
    return made


@cython.final
cdef class Assembler(FrameDecoder):
    """Bytes of one direction of a connection -> deliveries, and all frames that are not transfers.

    Transfers are assembled per link (2.6.14); a Delivery is returned in the place of its last transfer. An aborted delivery is
    dropped; detach, end and close drop those of their link, session, connection.

    strictness, limits: as in decode(). STRICT also compares later transfers with the first (2.7.5). `limits.frame_size` also
    limits the bytes kept of all pending deliveries; at most 1024 may be pending.
    """
    cdef Amqp10Deliveries deliveries
    cdef Amqp10Options options

    def __init__(self, *, strictness=STRICT_MODE, limits=None):
        self.tables = &AMQP10_TABLES
        take_amqp10_options(&self.options, strictness, limits)
        self.deliveries.max_octets = self.options.max_frame_size
        self.deliveries.max_count = AMQP10_MAX_DELIVERIES

    def __dealloc__(self):
        amqp10_drop_deliveries(&self.deliveries)

    @property
    def unfinished(self):
        """The number of pending deliveries."""
        return self.deliveries.count

    @property
    def pending(self):
        """Bytes of the incomplete frame, and of the transfers of pending deliveries."""
        return self.kept_size + self.deliveries.octets

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept:
        return amqp10_stream_size(p, n, &self.options, size, f)

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        cdef Amqp10FrameView frame
        cdef Amqp10Delivery* kept
        cdef Amqp10Delivery* done
        cdef int answer
        if amqp10_parse(p, n, &self.options, &frame, f) != OK:
            return None
        answer = amqp10_join(&self.deliveries, &frame, self.options.strict, &kept, f)
        if answer == AMQP10_JOIN_FAULT:
            return None
        if answer == AMQP10_JOIN_OTHER:
            return amqp10_frame_of(block, &frame, self.options.strict)
        if answer == AMQP10_JOIN_WHOLE:
            return self.delivery_of(amqp10_frame_of(block, &frame, self.options.strict), None)
        if answer != AMQP10_JOIN_LAST:
            return NO_MESSAGE
        done = self.deliveries.done
        return self.delivery_of(restore_frame(amqp10_written_octets(&done.first), False), amqp10_written_octets(&done.payload))

    cdef object delivery_of(self, Transfer transfer, bytes joined):
        cdef Delivery delivery = Delivery.__new__(Delivery)
        delivery.transfer = transfer
        delivery.joined = joined
        delivery.transfers = 1 if joined is None else <int>self.deliveries.done.transfers
        delivery.settled = bool(transfer.settled) if joined is None else self.deliveries.done.settled
        delivery.strict = self.options.strict
        delivery.max_elements = self.options.max_elements
        return delivery
