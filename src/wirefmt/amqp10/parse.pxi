# AMQP 1.0: the octets of one frame -> Amqp10FrameView, of one message -> Amqp10MessageView, checked. Objects, columns and
# conversions use this room.
#
# OASIS AMQP 1.0, parts 2 to 5  https://docs.oasis-open.org/amqp/core/v1.0/os/amqp-core-complete-v1.0-os.pdf
#
# One function reads every composite type: performatives, SASL frames, sections, delivery states, sources and targets are
# rows of amqp10_shapes, their fields rows of amqp10_fields. Rules beyond structure are rows of the CHECKS table, which says
# whether LAX accepts a violation with a note (docs/amqp10.md names the programs that violate each of these).


cdef enum Amqp10Kind:
    AMQP10_KIND_PROTOCOL_HEADER = 1
    AMQP10_KIND_EMPTY = 2           # only a frame header: a heartbeat
    AMQP10_KIND_PERFORMATIVE = 3    # or a SASL frame


cdef struct Amqp10FrameView:        # spans of the octets; it owns nothing
    const uint8_t* frame
    uint32_t size                   # whole frame, or protocol header
    uint8_t kind                    # an Amqp10Kind
    uint8_t type                    # 0 AMQP, 1 SASL
    uint8_t doff
    uint16_t channel                # octets 6 and 7; SASL ignores them
    uint8_t protocol_id, major, minor, revision     # of a protocol header
    Amqp10CompositeView performative
    Span extended_header            # between the header and `doff`; absent: none
    Span payload                    # of a transfer; absent: no octets follow
    Notes notes


# ------------------------------------------------------------------------------------------------ frames

cdef enum:
    AMQP10_PROTOCOL_HEADER = 0x414D5150     # "AMQP", where a frame has its size


cdef inline int amqp10_frame_size(const uint8_t* p, size_t n, uint32_t max_frame_size, size_t* size, Fault* f) noexcept nogil:
    """Size of the frame or protocol header that begins at `p`, from as few octets as possible (2.2, 2.3.1).

    octet 0-3   SIZE, which includes these octets; "AMQP" in a protocol header, which has eight
    octet 4     DOFF, in words of four octets
    octet 5     TYPE
    octet 6-7   CHANNEL
    """
    cdef uint32_t octets
    if n > 5:                               # a valid header needs no call
        octets = load_u32(p)
        if 2 <= p[4] <= octets // 4 and p[5] <= 1 and octets != AMQP10_PROTOCOL_HEADER and \
                (max_frame_size == 0 or octets <= max_frame_size):
            size[0] = octets
            return OK
    return amqp10_check_size(p, n, max_frame_size, size, f)


cdef int amqp10_check_size(const uint8_t* p, size_t n, uint32_t max_frame_size, size_t* size, Fault* f) noexcept nogil:
    cdef uint32_t octets
    if n < 4:
        return NEED_DATA
    octets = load_u32(p)
    if octets == AMQP10_PROTOCOL_HEADER:
        size[0] = 8
        return OK
    size[0] = octets
    if octets < 8:
        return amqp10_frame_fault(f, AMQP10_CHECK_FRAME_SIZE_BELOW_8, AMQP10_FIELD_SIZE, 0, 8, octets)
    if max_frame_size and octets > max_frame_size:
        return amqp10_frame_fault(f, AMQP10_CHECK_FRAME_SIZE, AMQP10_FIELD_SIZE, 0, octets, max_frame_size)
    if n > 4 and p[4] < 2:
        return amqp10_frame_fault(f, AMQP10_CHECK_DOFF_BELOW_2, AMQP10_FIELD_DOFF, 4, 2, p[4])
    if n > 4 and <uint32_t>p[4] * 4 > octets:
        return amqp10_frame_fault(f, AMQP10_CHECK_DOFF_BEYOND, AMQP10_FIELD_DOFF, 4, <int64_t>p[4] * 4, octets)
    if n > 5 and p[5] > 1:
        return amqp10_frame_fault(f, AMQP10_CHECK_FRAME_TYPE, AMQP10_FIELD_TYPE, 5, 0, 0)
    return OK


cdef int amqp10_frame_fault(Fault* f, int check, int field, int64_t offset, int64_t need, int64_t have) noexcept nogil:
    return fault(f, amqp10_checks[check].status, check, field, offset, need, have, AMQP10_FIELD_SIZE if need else 0)


cdef int amqp10_parse(const uint8_t* p, size_t n, const Amqp10Options* o, Amqp10FrameView* out, Fault* f) noexcept nogil:
    """Read exactly one whole frame or protocol header. Returns OK or the fault's status."""
    cdef Amqp10Reader x
    cdef int status
    memset(out, 0, sizeof(Amqp10FrameView))
    amqp10_begin(&x, p, o, f)
    x.bound = AMQP10_FIELD_SIZE
    out.frame = p
    out.size = <uint32_t>n
    status = amqp10_read_frame(&x, p, n, out)
    out.notes = x.notes
    return status


cdef inline int amqp10_read_frame(Amqp10Reader* x, const uint8_t* p, size_t n, Amqp10FrameView* out) noexcept nogil:
    cdef size_t size = 0
    cdef const uint8_t* at
    cdef int status = amqp10_frame_size(p, n, x.o.common.max_frame_size, &size, x.f)
    if status == NEED_DATA or (status == OK and size > n and not (x.o.common.cut and n >= 8 and <size_t>p[4] * 4 <= n)):
        return amqp10_frame_fault(x.f, AMQP10_CHECK_FRAME_TRUNCATED, AMQP10_FIELD_SIZE, 0,
                                  <int64_t>size if status == OK else 4, <int64_t>n)
    if status != OK:
        return status
    if size < n:
        return amqp10_frame_fault(x.f, AMQP10_CHECK_FRAME_TRAILING, AMQP10_FIELD_SIZE, <int64_t>size, 0, 0)
    if p[0] == c"A":
        return amqp10_read_protocol_header(x, p, out)
    out.doff = p[4]
    out.type = p[5]
    out.channel = load_u16(p + 6)
    at = p + <size_t>out.doff * 4
    if out.doff > 2:
        out.extended_header.at = p + 8
        out.extended_header.size = <uint32_t>(at - p - 8)
    if at < p + n:
        return amqp10_read_performative(x, at, p + n, out)
    out.kind = AMQP10_KIND_EMPTY
    x.field = AMQP10_FIELD_PERFORMATIVE
    if out.type == 1 and amqp10_violation(x, AMQP10_CHECK_SASL_EMPTY, p):     # RabbitMQ reads them
        return x.f.status
    return OK


cdef int amqp10_read_protocol_header(Amqp10Reader* x, const uint8_t* p, Amqp10FrameView* out) noexcept nogil:
    """2.2: "AMQP", protocol id, major, minor, revision."""
    out.kind = AMQP10_KIND_PROTOCOL_HEADER
    out.protocol_id = p[4]
    out.major = p[5]
    out.minor = p[6]
    out.revision = p[7]
    x.field = AMQP10_FIELD_PROTOCOL_HEADER
    if (p[4] != 0 and p[4] != 2 and p[4] != 3) or p[5] != 1 or p[6] or p[7]:
        # a server answers an unsupported header with one that it supports (2.2), for example `AMQP 0 0 9 1`
        if amqp10_violation(x, AMQP10_CHECK_PROTOCOL_HEADER, p + 4):
            return x.f.status
    return OK


cdef int amqp10_read_performative(Amqp10Reader* x, const uint8_t* at, const uint8_t* end, Amqp10FrameView* out) noexcept nogil:
    cdef int provides = AMQP10_PROVIDES_SASL_FRAME if out.type else AMQP10_PROVIDES_FRAME
    out.kind = AMQP10_KIND_PERFORMATIVE
    x.field = AMQP10_FIELD_PERFORMATIVE
    at = amqp10_take_composite(x, at, end, 0, provides, True, &out.performative)
    if at == NULL:
        return x.f.status
    if at == end:
        return OK
    if amqp10_shapes[out.performative.shape].provides & AMQP10_PROVIDES_PAYLOAD:
        out.payload.at = at
        out.payload.size = <uint32_t>(end - at)
        return OK
    x.field = AMQP10_FIELD_PAYLOAD
    return x.f.status if amqp10_violation(x, AMQP10_CHECK_TRAILING, at) else OK


# ------------------------------------------------------------------------------------------------ composites

cdef const uint8_t* amqp10_take_composite(Amqp10Reader* x, const uint8_t* at, const uint8_t* end, int depth,
                                          int provides, bint needed, Amqp10CompositeView* out) noexcept nogil:
    """Check the composite at `at`, whose type must provide one of `provides`. Returns where the next value begins; NULL: see
    x.f. If it is not `needed`, LAX accepts any value; `out` may be NULL."""
    cdef Amqp10CompositeView unwanted
    cdef const uint8_t* descriptor = at + 1
    cdef const uint8_t* after
    cdef bint irregular = False
    cdef int shape = 0
    cdef int check
    if out == NULL:
        out = &unwanted
    if at[0] != 0:
        return amqp10_take_any(x, at, end, depth, AMQP10_CHECK_NOT_DESCRIBED, needed)
    after = amqp10_check(x, descriptor, end, depth + 1)
    if after == NULL:
        return NULL
    shape = amqp10_shape_of(descriptor, &irregular)
    if shape == 0 or not amqp10_shapes[shape].provides & provides:
        check = AMQP10_CHECK_NOT_ALLOWED if shape else AMQP10_CHECK_DESCRIPTOR
        return amqp10_take_any(x, at, end, depth, check, needed)
    if irregular and amqp10_violation(x, AMQP10_CHECK_DESCRIPTOR_TYPE, descriptor):
        return NULL                         # RabbitMQ accepts any integer
    out.begin = at
    out.shape = <uint8_t>shape
    x.field = amqp10_shapes[shape].field
    return amqp10_take_list(x, after, end, depth + 1, out)


cdef const uint8_t* amqp10_take_any(Amqp10Reader* x, const uint8_t* at, const uint8_t* end, int depth, int check,
                                    bint needed) noexcept nogil:
    """A value that is another composite, or none: a fault if one is needed, otherwise a violation that LAX may accept."""
    if needed:
        return amqp10_fault(x, check, at, 0, 0)
    if amqp10_violation(x, AMQP10_CHECK_PROVIDES, at):
        return NULL
    return amqp10_check(x, at, end, depth)


cdef const uint8_t* amqp10_take_list(Amqp10Reader* x, const uint8_t* at, const uint8_t* end, int depth,
                                     Amqp10CompositeView* out) noexcept nogil:
    """The list of a composite's fields: its constructor, size and count, then the fields. The caller has set `out.at` to NULL, if
    it reads them."""
    cdef const Amqp10ConstructorRow* row
    cdef size_t size
    out.count = 0
    out.plain = 0
    if at >= end:
        return amqp10_cut(x, at, end, 1)
    row = &amqp10_constructors[at[0]]
    if row.type != AMQP10_LIST:
        return amqp10_fault(x, AMQP10_CHECK_NOT_A_LIST if row.category or at[0] == 0 else AMQP10_CHECK_CONSTRUCTOR,
                            at, 0, 0)
    at += 1
    if row.width == 0:
        return amqp10_take_fields(x, at, at, depth, out)
    if <size_t>(end - at) < row.width:
        return amqp10_cut(x, at, end, row.width)
    size = at[0] if row.width == 1 else load_u32(at)
    at += row.width
    if <size_t>(end - at) < size:
        return amqp10_cut(x, at, end, size)
    end = at + size
    if size < row.width:
        return amqp10_cut(x, at, end, row.width)
    out.count = at[0] if row.width == 1 else load_u32(at)
    if not amqp10_count_elements(x, out.count, at):
        return NULL
    at += row.width
    if out.count > <size_t>(end - at):
        return amqp10_fault(x, AMQP10_CHECK_ELEMENT_COUNT, at, out.count, <int64_t>(end - at))
    return amqp10_take_fields(x, at, end, depth, out)


cdef const uint8_t* amqp10_take_fields(Amqp10Reader* x, const uint8_t* at, const uint8_t* end, int depth,
                                       Amqp10CompositeView* out) noexcept nogil:
    """Check `out.count` fields of `out.shape`, which end at `end`."""
    cdef const Amqp10ShapeRow* shape = &amqp10_shapes[out.shape]
    cdef const Amqp10FieldRow* row = &amqp10_fields[shape.first]
    cdef const uint8_t* start
    cdef const uint8_t* after
    cdef uint32_t missing = shape.mandatory
    cdef uint32_t i
    for i in range(out.count):
        if i >= shape.count:
            return amqp10_take_surplus(x, at, end, depth, out.count - i)
        if at >= end:
            x.field = row[i].field
            return amqp10_cut(x, at, end, 1)
        if at[0] == AMQP10_CODE_NULL:
            at += 1
            continue
        start = at
        after = amqp10_plain(at, end)
        if after != NULL and amqp10_is_type(&row[i], amqp10_constructors[at[0]].type):
            at = after
            out.plain |= <uint32_t>1 << i
        else:
            at = amqp10_take_field(x, &row[i], at, end, depth)
        if at == NULL:
            return NULL
        out.at[i] = start
        missing &= ~(<uint32_t>1 << i)
    x.field = shape.field
    if at != end:
        return amqp10_fault(x, AMQP10_CHECK_REST, at, 0, 0)
    if missing:
        for i in range(shape.count):
            if missing >> i & 1:
                x.field = row[i].field
                if amqp10_violation(x, AMQP10_CHECK_FIELD_MANDATORY, end):
                    return NULL
        x.field = shape.field
    return end


cdef const uint8_t* amqp10_take_surplus(Amqp10Reader* x, const uint8_t* at, const uint8_t* end, int depth,
                                        uint32_t count) noexcept nogil:
    """Check undefined fields at the end of a list."""
    cdef uint32_t i
    if amqp10_violation(x, AMQP10_CHECK_FIELD_COUNT, at):
        return NULL
    for i in range(count):
        at = amqp10_check(x, at, end, depth + 1)
        if at == NULL:
            return NULL
    return at if at == end else amqp10_fault(x, AMQP10_CHECK_REST, at, 0, 0)


cdef enum:
    AMQP10_COMPOSITES_PROVIDE = (AMQP10_PROVIDES_ERROR | AMQP10_PROVIDES_SOURCE | AMQP10_PROVIDES_TARGET |
                                 AMQP10_PROVIDES_DELIVERY_STATE | AMQP10_PROVIDES_OUTCOME)


cdef inline const uint8_t* amqp10_take_field(Amqp10Reader* x, const Amqp10FieldRow* row, const uint8_t* at,
                                             const uint8_t* end, int depth) noexcept nogil:
    """One field that is not null."""
    cdef const uint8_t* after
    cdef int type = amqp10_constructors[at[0]].type if at[0] else AMQP10_DESCRIBED
    x.field = row.field
    if row.requires & AMQP10_COMPOSITES_PROVIDE:
        return amqp10_take_composite(x, at, end, depth, row.requires, False, NULL)
    after = amqp10_check(x, at, end, 0)             # depth begins at 0 again: a field's value may nest 64 levels
    if after == NULL or type == row.type:
        return after
    if not amqp10_fits(row, at, type) and amqp10_violation(x, AMQP10_CHECK_FIELD_TYPE, at):
        return NULL
    return after


cdef inline bint amqp10_is_type(const Amqp10FieldRow* row, int type) noexcept nogil:
    """Does a field's row name this type, or is it the field's own? If not, amqp10_fits decides."""
    if row.type != AMQP10_ANY:
        return type == row.type
    return type == AMQP10_STRING and row.requires & (AMQP10_PROVIDES_MESSAGE_ID | AMQP10_PROVIDES_ADDRESS) != 0


cdef bint amqp10_fits(const Amqp10FieldRow* row, const uint8_t* at, int type) noexcept nogil:
    """Check the type of a (checked) value that is not the type in the field's row."""
    cdef Amqp10ValueView v
    if row.type == AMQP10_ANY:
        return not row.requires & AMQP10_PROVIDES_MESSAGE_ID or type == AMQP10_ULONG or type == AMQP10_UUID or \
            type == AMQP10_BINARY or type == AMQP10_STRING
    if not row.multiple or type != AMQP10_ARRAY:
        return False
    amqp10_read(at, &v)
    return v.inner[0] != 0 and amqp10_constructors[v.inner[0]].type == row.type


# ------------------------------------------------------------------------------------------------ fields, once checked
#
# Each returns False if the field is absent, null or (in LAX) of another type.

cdef inline bint amqp10_field_unsigned(const Amqp10CompositeView* c, int i, uint64_t* out) noexcept nogil:
    """A field that is a ubyte, ushort, uint or ulong."""
    cdef Amqp10ValueView v
    if not amqp10_field(c, i, &v) or v.type < AMQP10_UBYTE or v.type > AMQP10_ULONG:
        return False
    out[0] = amqp10_unsigned(&v)
    return True


cdef inline bint amqp10_field_boolean(const Amqp10CompositeView* c, int i, bint* out) noexcept nogil:
    cdef Amqp10ValueView v
    if not amqp10_field(c, i, &v) or v.type != AMQP10_BOOLEAN:
        return False
    out[0] = amqp10_unsigned(&v) != 0
    return True


cdef inline bint amqp10_field_text(const Amqp10CompositeView* c, int i, Span* out) noexcept nogil:
    """A field that is a string or a symbol. In LAX it may not be UTF-8: use check_utf8."""
    cdef Amqp10ValueView v
    if not amqp10_field(c, i, &v) or not amqp10_is_text(&v):
        return False
    out[0] = amqp10_octets(&v)
    return True


cdef inline bint amqp10_field_binary(const Amqp10CompositeView* c, int i, Span* out) noexcept nogil:
    cdef Amqp10ValueView v
    if not amqp10_field(c, i, &v) or v.type != AMQP10_BINARY:
        return False
    out[0] = amqp10_octets(&v)
    return True


cdef bint amqp10_open_composite(const uint8_t* at, Amqp10CompositeView* out) noexcept nogil:
    """The composite in a (checked) value: a field, an amqp-value. False: an unknown composite, or not a list."""
    cdef Amqp10ValueView v
    cdef Amqp10ValueView inner
    cdef bint irregular = False
    out.begin = at
    out.shape = 0
    if at[0] != 0:
        return False
    amqp10_read(at, &v)
    out.shape = <uint8_t>amqp10_shape_of(amqp10_descriptor(&v), &irregular)
    amqp10_described(&v, &inner)
    if out.shape == 0 or inner.type != AMQP10_LIST:
        out.shape = 0
        return False
    amqp10_fields_of(&inner, out)
    return True


cdef void amqp10_fields_of(const Amqp10ValueView* list, Amqp10CompositeView* out) noexcept nogil:
    """Find the fields of `out.shape` in a checked list."""
    cdef Amqp10Items items = amqp10_items(list)
    cdef Amqp10ValueView v
    cdef uint32_t i = 0
    memset(out.at, 0, sizeof(out.at))
    out.count = list.count
    out.plain = 0
    while i < amqp10_shapes[out.shape].count and amqp10_next(&items, &v):
        if v.type != AMQP10_NULL:
            out.at[i] = v.constructor
        i += 1


# ------------------------------------------------------------------------------------------------ messages

cdef int amqp10_parse_message(const uint8_t* p, size_t n, const Amqp10Options* o, Amqp10MessageView* out,
                              Fault* f) noexcept nogil:
    """Read exactly one whole message: the payload of a transfer, or of all transfers of a delivery (3.2)."""
    memset(out, 0, sizeof(Amqp10MessageView))
    return amqp10_fill_message(p, n, o, out, f)


cdef int amqp10_fill_message(const uint8_t* p, size_t n, const Amqp10Options* o, Amqp10MessageView* out,
                             Fault* f) noexcept nogil:
    """amqp10_parse_message for a view that is all zero."""
    cdef Amqp10Reader x
    cdef int status
    if p == NULL:
        p = <const uint8_t*>b""
    amqp10_begin(&x, p, o, f)
    out.octets = p
    out.size = <uint32_t>n
    status = amqp10_read_sections(&x, p, p + n, out)
    out.notes = x.notes
    return status


cdef int amqp10_read_sections(Amqp10Reader* x, const uint8_t* at, const uint8_t* end, Amqp10MessageView* out) noexcept nogil:
    cdef const uint8_t* start
    cdef int before = 0, index = 0
    cdef int code
    while at < end:
        x.field = AMQP10_FIELD_SECTION_ITEM
        x.index = index
        start = at
        at = amqp10_take_descriptor(x, at, end, &code)
        if at == NULL:
            return x.f.status
        if code == 0:
            at = amqp10_check(x, at, end, 1)
        elif not amqp10_check_order(x, code, before, start):
            return x.f.status
        else:
            at = amqp10_take_section(x, code, start, at, end, out)
            before = max(before, code)
        if at == NULL:
            return x.f.status
        index += 1
    x.field = 0
    x.index = -1
    # python-qpid-proton sends messages without a body
    if out.body == 0 and amqp10_violation(x, AMQP10_CHECK_BODY_MISSING, end):
        return x.f.status
    if out.body_count > 1:
        out.payload.at = NULL
        out.payload.size = 0
    return OK


cdef const uint8_t* amqp10_take_descriptor(Amqp10Reader* x, const uint8_t* at, const uint8_t* end,
                                           int* code) noexcept nogil:
    """The code of the section at `at`, and where its value is. Code 0: an unknown section, which LAX skips."""
    cdef const uint8_t* descriptor = at + 1
    cdef bint irregular = False
    if end - at > 3 and at[0] == 0 and descriptor[0] == AMQP10_CODE_SMALLULONG and \
            AMQP10_SECTION_FIRST <= descriptor[1] <= AMQP10_SECTION_LAST:
        code[0] = descriptor[1]
        return at + 3
    if at[0] != 0:
        return amqp10_fault(x, AMQP10_CHECK_NOT_DESCRIBED, at, 0, 0)
    at = amqp10_check(x, descriptor, end, 1)
    if at == NULL:
        return NULL
    code[0] = amqp10_section_of(descriptor, &irregular)
    if irregular and amqp10_violation(x, AMQP10_CHECK_DESCRIPTOR_TYPE, descriptor):
        return NULL
    if code[0] == 0 and amqp10_violation(x, AMQP10_CHECK_SECTION_UNKNOWN, descriptor):
        return NULL
    return at if at < end else amqp10_cut(x, at, end, 1)


cdef int amqp10_section_of(const uint8_t* descriptor, bint* irregular) noexcept nogil:
    """The code of the section that a (checked) descriptor names; 0: none."""
    cdef Amqp10ValueView v
    cdef uint64_t code
    cdef int i
    irregular[0] = False
    amqp10_read(descriptor, &v)
    if v.type == AMQP10_SYMBOL:
        for i in range(AMQP10_SECTION_LAST - AMQP10_SECTION_FIRST + 1):
            if v.size == strlen(amqp10_section_symbol[i]) and memcmp(v.body, amqp10_section_symbol[i], v.size) == 0:
                return AMQP10_SECTION_FIRST + i
        return 0
    if v.type < AMQP10_UBYTE or v.type > AMQP10_ULONG:
        return 0
    code = amqp10_unsigned(&v)
    if code < AMQP10_SECTION_FIRST or code > AMQP10_SECTION_LAST:
        return 0
    irregular[0] = v.type != AMQP10_ULONG
    return <int>code


cdef bint amqp10_check_order(Amqp10Reader* x, int code, int before, const uint8_t* at) noexcept nogil:
    """Check that a section may follow one of code `before` (0: it is the first): 3.2. False: see x.f."""
    cdef bint is_body = AMQP10_SECTION_DATA <= code <= AMQP10_SECTION_AMQP_VALUE
    cdef int check = 0
    if is_body and AMQP10_SECTION_DATA <= before <= AMQP10_SECTION_AMQP_VALUE:
        if code != before or code == AMQP10_SECTION_AMQP_VALUE:
            check = AMQP10_CHECK_BODY_MIXED
    elif code <= before:
        check = AMQP10_CHECK_SECTION_ORDER
    return not (check and amqp10_violation(x, check, at))


cdef const uint8_t* amqp10_take_section(Amqp10Reader* x, int code, const uint8_t* begin, const uint8_t* at,
                                        const uint8_t* end, Amqp10MessageView* out) noexcept nogil:
    """Check one section, whose value is at `at`, and keep its position. Returns where the next one begins."""
    cdef const Amqp10SectionRow* row = &amqp10_sections[code - AMQP10_SECTION_FIRST]
    cdef const uint8_t* value = at
    cdef Amqp10CompositeView again
    cdef Amqp10CompositeView* composite
    cdef Amqp10ValueView v
    cdef uint64_t elements
    cdef bint first = out.at[code - AMQP10_SECTION_FIRST] == NULL
    cdef int type = amqp10_constructors[at[0]].type if at[0] else AMQP10_DESCRIBED
    x.field = row.field
    x.index = -1
    if type != row.type and row.type != AMQP10_ANY:
        return amqp10_fault(x, AMQP10_CHECK_SECTION_TYPE if type else AMQP10_CHECK_CONSTRUCTOR, at, 0, 0)
    if first:
        out.at[code - AMQP10_SECTION_FIRST] = value
    if row.shape:
        composite = &out.header if code == AMQP10_SECTION_HEADER else &out.properties
        if not first:
            composite = &again
        composite.begin = begin
        composite.shape = row.shape
        return amqp10_take_list(x, at, end, 1, composite)
    if row.type == AMQP10_MAP:
        elements = x.elements
        at = amqp10_plain_entries(code, value, end, &elements)
        if at != NULL and (x.o.common.max_elements == 0 or elements <= x.o.common.max_elements):
            x.elements = elements
            if first:
                out.plain |= <uint8_t>(1 << (code - AMQP10_SECTION_FIRST))
            return at
    at = amqp10_check(x, value, end, 0)
    if at == NULL:
        return NULL
    if not (AMQP10_SECTION_DATA <= code <= AMQP10_SECTION_AMQP_VALUE):
        if not amqp10_check_entries(x, code, value):
            return NULL
        return at
    out.body_count += 1
    if out.body == 0:
        out.body = <uint8_t>code
    if code == AMQP10_SECTION_DATA:
        amqp10_read(value, &v)
        out.payload = amqp10_octets(&v)
    return at


cdef const uint8_t* amqp10_plain_entries(int code, const uint8_t* at, const uint8_t* end, uint64_t* elements) noexcept nogil:
    """Accept the map of a section that cannot violate a rule: few short keys, all different, and plain values. Returns where
    the next value begins, and counts the elements; NULL: amqp10_check and amqp10_check_entries must decide."""
    cdef const uint8_t* keys[AMQP10_FEW_KEYS]
    cdef const uint8_t* key
    cdef uint64_t mark, seen = 0
    cdef size_t head = 1 if at[0] == AMQP10_CODE_MAP8 else 4
    cdef uint32_t size, count, i
    cdef int named = AMQP10_CODE_STR8 if code == AMQP10_SECTION_APPLICATION_PROPERTIES else AMQP10_CODE_SYM8
    at += 1
    if <size_t>(end - at) < 2 * head:
        return NULL
    size = at[0] if head == 1 else load_u32(at)
    count = at[head] if head == 1 else load_u32(at + head)
    if size < head or <size_t>(end - at) - head < size or count & 1 or count > 2 * AMQP10_FEW_KEYS:
        return NULL
    end = at + head + size
    at += 2 * head
    for i in range(count >> 1):
        key = at
        if end - key < 2 or key[0] != named:
            return NULL
        at = amqp10_plain_text(key, end)
        if at == NULL:
            return NULL
        # most keys have a bit of their own; keys of one size that end alike are compared
        mark = <uint64_t>1 << ((key[1] + 8 * <uint32_t>(at - 1)[0]) & 63)
        if seen & mark and amqp10_is_among(keys, i, key):
            return NULL
        seen |= mark
        keys[i] = key
        at = amqp10_plain(at, end)
        if at == NULL:
            return NULL
    if at != end:
        return NULL
    elements[0] += count
    return at


cdef bint amqp10_is_among(const uint8_t** keys, uint32_t count, const uint8_t* key) noexcept nogil:
    """Is one of the keys, all with one octet of size, this one?"""
    cdef uint32_t i
    for i in range(count):
        if keys[i][1] == key[1] and memcmp(keys[i] + 2, key + 2, key[1]) == 0:
            return True
    return False


cdef bint amqp10_check_entries(Amqp10Reader* x, int code, const uint8_t* at) noexcept nogil:
    """Check the types of keys and values of annotations, footer (3.2.10) and application properties (3.2.5). False: see x.f."""
    cdef Amqp10ValueView v
    cdef Amqp10Items items
    amqp10_read(at, &v)
    items = amqp10_items(&v)
    x.index = 0
    while amqp10_next(&items, &v):
        if code == AMQP10_SECTION_APPLICATION_PROPERTIES:
            if v.type != AMQP10_STRING and amqp10_violation(x, AMQP10_CHECK_PROPERTY_KEY, v.constructor):
                return False
        elif v.type != AMQP10_SYMBOL and v.type != AMQP10_ULONG and \
                amqp10_violation(x, AMQP10_CHECK_ANNOTATION_KEY, v.constructor):
            return False
        amqp10_next(&items, &v)
        if code == AMQP10_SECTION_APPLICATION_PROPERTIES and v.type >= AMQP10_LIST and \
                amqp10_violation(x, AMQP10_CHECK_PROPERTY_VALUE, v.constructor):
            return False
        x.index += 1
    x.index = -1
    return True


cdef bint amqp10_next_section(const uint8_t** at, const uint8_t* end, Amqp10Section* out) noexcept nogil:
    """Walk the sections of a parsed message: begin at `octets`. False: at the end."""
    cdef bint irregular = False
    cdef Amqp10ValueView v
    if at[0] >= end:
        return False
    out.code = <uint8_t>amqp10_section_of(at[0] + 1, &irregular)
    out.at = amqp10_skip(at[0] + 1)
    out.end = amqp10_skip(out.at)
    at[0] = out.end
    return True


# ------------------------------------------------------------------------------------------------ single values

cdef int amqp10_parse_value(const uint8_t* p, size_t n, const Amqp10Options* o, Fault* f) noexcept nogil:
    """Check exactly one value, so that amqp10_read(p, ...) can read it."""
    cdef Amqp10Reader x
    cdef const uint8_t* at
    amqp10_begin(&x, p, o, f)
    x.field = AMQP10_FIELD_VALUE_ITEM
    at = amqp10_check(&x, p, p + n, 0)
    if at == NULL:
        return f.status
    if at != p + n:
        amqp10_fault(&x, AMQP10_CHECK_TRAILING, at, 0, 0)
        return f.status
    return OK


# ------------------------------------------------------------------------------------------------ for faults.pxi

cdef int amqp10_reply_to(const Fault* f) noexcept nogil:
    """The error condition of the answer, a row of REPLIES; -1: only close."""
    return amqp10_checks[f.check].reply


cdef ProtocolTables AMQP10_TABLES
AMQP10_TABLES.name = "amqp10"
AMQP10_TABLES.names = amqp10_check_name
AMQP10_TABLES.text = amqp10_check_text
AMQP10_TABLES.path = amqp10_field_path
AMQP10_TABLES.spec = amqp10_check_spec
AMQP10_TABLES.reply_to = amqp10_reply_to
AMQP10_TABLES.replies = amqp10_replies
