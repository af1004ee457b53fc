# AMQP 1.0 messages as Python objects: the sections of a body, and the annotated message (part 3, section 3.2).


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
            self.adopt(&o, AMQP10_BINARY)
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
    cdef Amqp10MessageView m    # spans of the block
    cdef object header_, delivery_annotations_, message_annotations_, application_properties_, footer_      # members
    cdef object properties_, body_      # after the first access

    __match_args__ = ("header", "delivery_annotations", "message_annotations", "properties", "application_properties",
                      "body", "footer")

    def __init__(self, *, Header header=None, delivery_annotations=None, message_annotations=None,
                 Properties properties=None, application_properties=None, body, footer=None):
        cdef uint8_t start[1024]
        cdef Octets o = octets_over(start, sizeof(start))
        cdef Amqp10Options options
        cdef Fault f
        cdef bytes octets
        # True if the octets are valid by construction; then the positions of all sections are known
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
            self.header_ = header
            self.application_properties_ = self.section(AMQP10_SECTION_APPLICATION_PROPERTIES)
            return
        amqp10_strict_options(&options)
        if amqp10_fill_message(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), &options,
                               &self.m, &f) != OK:
            raise encode_error(&AMQP10_TABLES, &f)
        self.keep_members()

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
    def properties(self):
        if self.properties_ is None and self.m.properties.shape:
            self.properties_ = amqp10_composite_of(self.block, self.m.properties.begin, AMQP10_PROPERTIES)
        return self.properties_

    @property
    def body(self):
        if self.body_ is None:
            self.body_ = self.read_body()
        return self.body_

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
        return amqp10_notes(&AMQP10_MESSAGE_OPS, self.m.octets, self.m.size) if self.m.notes.count else ()

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
        return (self.header_, self.delivery_annotations_, self.message_annotations_, self.properties,
                self.application_properties_, self.body, self.footer_)

    cdef int keep_members(self) except -1:
        """Make the objects that Python reads as members."""
        if self.m.header.shape:
            self.header_ = amqp10_header_of(self.block, self.m.header.begin)
        self.delivery_annotations_ = self.section(AMQP10_SECTION_DELIVERY_ANNOTATIONS)
        self.message_annotations_ = self.section(AMQP10_SECTION_MESSAGE_ANNOTATIONS)
        self.application_properties_ = self.section(AMQP10_SECTION_APPLICATION_PROPERTIES)
        self.footer_ = self.section(AMQP10_SECTION_FOOTER)
        return 0

    cdef object section(self, int code):
        cdef Amqp10ValueView v
        cdef Map made
        cdef const uint8_t* at = self.m.at[code - AMQP10_SECTION_FIRST]
        if at == NULL:
            return None
        amqp10_read(at, &v)
        made = Map.__new__(Map)
        amqp10_hold_value(made, self.block, &v)
        made.plain = self.m.plain >> (code - AMQP10_SECTION_FIRST) & 1
        return made

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


cdef PyMemberDef[5] AMQP10_MESSAGE_MEMBERS


cdef int add_amqp10_members() except -1:
    cdef Message sample = Message.__new__(Message)
    cdef const char** names = ["header", "delivery_annotations", "message_annotations", "application_properties", "footer"]
    cdef int i
    places = [object() for _ in range(5)]
    sample.header_, sample.delivery_annotations_, sample.message_annotations_ = places[:3]
    sample.application_properties_, sample.footer_ = places[3:]
    for i in range(5):
        add_member(Message, &AMQP10_MESSAGE_MEMBERS[i], names[i], place_in(sample, places[i]))
    return 0


add_amqp10_members()


cdef inline void amqp10_place_section(Amqp10MessageView* m, int code, const uint8_t* begin,
                                      Amqp10CompositeView* composite) noexcept:
    """Keep the position of a section that was written, after the three octets of its descriptor."""
    m.at[code - AMQP10_SECTION_FIRST] = begin + 3
    if composite != NULL:
        composite.begin = begin
        composite.shape = amqp10_sections[code - AMQP10_SECTION_FIRST].shape


cdef int amqp10_put_annotations(Octets* o, int code, object annotations) except -1:
    """Write annotations, or the footer: keys are symbols or ulongs (3.2.10)."""
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
    """The message of these octets of `block`."""
    cdef Message message = Message.__new__(Message)
    cdef Amqp10Options o
    cdef Fault f
    memset(&o, 0, sizeof(Amqp10Options))
    o.common.strict = strict
    o.common.max_elements = max_elements
    if amqp10_fill_message(p, n, &o, &message.m, &f) != OK:
        raise_fault(&AMQP10_TABLES, &f, 0)
    message.block = block
    message.keep_members()
    return message


cdef void amqp10_review_message(const uint8_t* p, size_t n, const CommonOptions* o, Notes* notes, Fault* f) noexcept nogil:
    cdef Amqp10MessageView m
    amqp10_parse_message(p, n, <const Amqp10Options*>o, &m, f)
    notes[0] = m.notes


cdef MessageOps AMQP10_MESSAGE_OPS
AMQP10_MESSAGE_OPS.tables = &AMQP10_TABLES
AMQP10_MESSAGE_OPS.review = amqp10_review_message
