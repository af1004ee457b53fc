# AMQP 1.0 frames and messages -> rows of the message table. A row is one performative; for a transfer, with the sections of
# its message.
#
# Fields go to columns by name: AMQP10_COMMON has those of the common columns, the amqp10 struct all others. The functions below
# put values that need more than one column (sources, targets, delivery states, errors).
from wirefmt.amqp10.columns import FIELDS as AMQP10_STRUCT_FIELDS, OPERATIONS as AMQP10_OPERATION_ROWS


cdef enum:
    AMQP10_FIELD_COLUMNS = 10


cdef struct Amqp10Place:
    uint8_t form, common_form       # an Amqp10Form of each
    int16_t field                   # of the struct
    int16_t common                  # column of the table


# Fields that have a common column; delivery_id and first are also fields of the struct.
cdef dict AMQP10_COMMON = {
    ("transfer", "delivery_id"): T_SEQUENCE, ("disposition", "first"): T_SEQUENCE, ("sasl-outcome", "code"): T_CODE,
    ("header", "ttl"): T_TTL_MS, ("properties", "message_id"): T_MESSAGE_ID,
    ("properties", "correlation_id"): T_CORRELATION_ID, ("properties", "reply_to"): T_REPLY_TO,
    ("properties", "content_type"): T_CONTENT_TYPE,
}
# Fields with a column in the struct whose form does not follow from the type.
cdef tuple AMQP10_APART = ("role", "source", "target", "state", "error")

cdef Text AMQP10_PROTOCOL_TEXT = pad_text(b"amqp10")
cdef Text AMQP10_VERSION_TEXT = pad_text(b"1.0")
cdef Text AMQP10_CONNECT_TEXT = pad_text(AMQP10_OPERATION_ROWS["protocol-header"][0].encode())
cdef Text AMQP10_PING_TEXT = pad_text(AMQP10_OPERATION_ROWS["empty"][0].encode())
cdef Text[2] AMQP10_ROLE_TEXT       # 2.8.1: false, true
cdef Text[AMQP10_SHAPES][2] AMQP10_OPERATION_TEXT       # by shape and direction
cdef Amqp10Place[AMQP10_FIELD_ROWS] AMQP10_PLACES       # by row of amqp10_fields
cdef int[AMQP10_FIELD_COLUMNS] AMQP10_FIELD_COLUMN      # of the table, to which fields are put


cdef int fill_amqp10_rows() except -1:
    cdef dict fields = {column.name: i for i, column in enumerate(AMQP10_STRUCT_FIELDS)}
    cdef dict forms = {column.name: AMQP10_FORMS[column.type] for column in AMQP10_STRUCT_FIELDS}
    cdef dict common_forms = {column.name: AMQP10_FORMS.get(column.type, AMQP10_FORM_NONE) for column in SHARED_COLUMNS}
    cdef int i, k
    cdef Amqp10Place* place
    cdef set columns = {T_AMQP10, T_REDELIVERED, T_ATTEMPTS, *AMQP10_COMMON.values()}
    cdef set unknown = set(AMQP10_COMMON)
    if len(columns) != AMQP10_FIELD_COLUMNS:
        raise IndexError(f"AMQP10_FIELD_COLUMNS must be {len(columns)}")
    for i, k in enumerate(columns):
        AMQP10_FIELD_COLUMN[i] = k
    AMQP10_ROLE_TEXT[0] = pad_text(b"sender")
    AMQP10_ROLE_TEXT[1] = pad_text(b"receiver")
    fields["sasl_server_mechanisms"] = fields["mechanisms"]
    forms["sasl_server_mechanisms"] = forms["mechanisms"]
    for i in range(1, AMQP10_SHAPES):
        shape = (<bytes>amqp10_shape_name[i]).decode("ascii")
        if shape not in AMQP10_OPERATION_ROWS and shape not in ("header", "properties"):
            continue
        for k in range(2):
            AMQP10_OPERATION_TEXT[i][k] = pad_text(AMQP10_OPERATION_ROWS.get(shape, ("", ""))[k].encode())
        for k in range(amqp10_shapes[i].first, amqp10_shapes[i].first + amqp10_shapes[i].count):
            name = (<bytes>amqp10_field_name[k]).decode("ascii")
            unknown.discard((shape, name))
            place = &AMQP10_PLACES[k]
            place.common = <int16_t>AMQP10_COMMON.get((shape, name), -1)
            if place.common >= 0:
                place.common_form = <uint8_t>common_forms[SHARED_COLUMNS[place.common].name]
            if name in fields and name not in AMQP10_APART:
                place.field = <int16_t>fields[name]
                place.form = <uint8_t>forms[name]
    if unknown:
        raise KeyError(f"no such fields: {unknown}")
    return 0


fill_amqp10_rows()


# ------------------------------------------------------------------------------------------------ fields

cdef void amqp10_put_composite_fields(MessageTable t, int64_t row, const Amqp10CompositeView* p) noexcept nogil:
    """Put the fields of a performative or section that go to a column unchanged."""
    cdef const Amqp10ShapeRow* shape = &amqp10_shapes[p.shape]
    cdef const Amqp10Place* place
    cdef Col* fields = t.cols[<int>T_AMQP10].children
    cdef bint apart = t.cols[<int>T_AMQP10].on
    cdef bint common
    cdef int i
    for i in range(shape.count):
        if p.at[i] == NULL:
            continue
        place = &AMQP10_PLACES[shape.first + i]
        common = place.common_form and t.cols[place.common].on
        if common:
            amqp10_put_as(t.cols + place.common, row, place.common_form, p.at[i], p.plain >> i & 1)
        if apart and place.form and (t.shared.exposed or not AMQP10_SECRET[p.shape][i]):
            amqp10_put_as(fields + place.field, row, place.form, p.at[i], p.plain >> i & 1)


cdef void amqp10_add_named(Octets* o, const uint8_t* at, bint typed) noexcept nogil:
    """A value as JSON. For a known composite type: its fields by name, without absent ones, after its type if `typed` is set. The
    parser limits the nesting."""
    cdef Amqp10CompositeView c
    cdef Amqp10ValueView v
    cdef bint first = not typed
    cdef int i
    if at[0] != 0 or not amqp10_open_composite(at, &c):
        amqp10_read(at, &v)
        amqp10_add_json(o, &v)
        return
    add_u8(o, c"{")
    if typed:
        amqp10_add_member(o, "type", True)
        add_u8(o, c'"')
        add_octets(o, <const uint8_t*>amqp10_shape_name[c.shape], strlen(amqp10_shape_name[c.shape]))
        add_u8(o, c'"')
    for i in range(amqp10_shapes[c.shape].count):
        if c.at[i] == NULL:
            continue
        amqp10_add_member(o, amqp10_field_name[amqp10_shapes[c.shape].first + i], first)
        first = False
        if o.hides and AMQP10_SECRET[c.shape][i]:
            amqp10_add_hidden(o)
        else:
            amqp10_add_named(o, c.at[i], True)
    add_u8(o, c"}")


cdef void amqp10_add_member(Octets* o, const char* name, bint first) noexcept nogil:
    if not first:
        add_u8(o, c",")
    add_u8(o, c'"')
    add_octets(o, <const uint8_t*>name, strlen(name))
    add_octets(o, <const uint8_t*>b'":', 2)


cdef void amqp10_put_json(Col* c, int64_t row, const uint8_t* at, bint typed) noexcept nogil:
    cdef Octets o
    cdef uint8_t[512] start
    if not c.on or at == NULL:
        return
    o = octets_over(start, sizeof(start))
    o.hides = not c.shared.exposed
    amqp10_add_named(&o, at, typed)
    amqp10_put_written(c, row, &o)


cdef void amqp10_put_role(Col* fields, int64_t row, const Amqp10CompositeView* p, int i) noexcept nogil:
    cdef bint role = False
    if amqp10_field_boolean(p, i, &role):
        put_text(fields + A10_ROLE, row, &AMQP10_ROLE_TEXT[role])


cdef void amqp10_put_address(Col* c, int64_t row, const uint8_t* terminus) noexcept nogil:
    cdef Amqp10CompositeView composite
    cdef Amqp10ValueView v
    if terminus != NULL and amqp10_open_composite(terminus, &composite) and \
            (composite.shape == AMQP10_SOURCE or composite.shape == AMQP10_TARGET) and \
            amqp10_field(&composite, AMQP10_SOURCE_ADDRESS, &v):
        amqp10_put_text(c, row, &v)


cdef void amqp10_put_error(Col* fields, int64_t row, const uint8_t* at) noexcept nogil:
    cdef Amqp10CompositeView e
    cdef Amqp10ValueView v
    if at == NULL or not amqp10_open_composite(at, &e) or e.shape != AMQP10_ERROR:
        return
    if amqp10_field(&e, AMQP10_ERROR_CONDITION, &v):
        amqp10_put_text(fields + A10_ERROR_CONDITION, row, &v)
    if amqp10_field(&e, AMQP10_ERROR_DESCRIPTION, &v):
        amqp10_put_text(fields + A10_ERROR_DESCRIPTION, row, &v)
    if amqp10_field(&e, AMQP10_ERROR_INFO, &v) and v.type == AMQP10_MAP:
        amqp10_put_entries(fields + A10_ERROR_INFO, row, v.constructor, False, NULL)


cdef void amqp10_put_state(Col* fields, int64_t row, const uint8_t* at) noexcept nogil:
    """Put a delivery state: its name and fields, and the error of a rejected one."""
    cdef Amqp10CompositeView s
    cdef int i
    if at == NULL:
        return
    if not amqp10_open_composite(at, &s):
        amqp10_put_json(fields + A10_STATE_FIELDS, row, at, True)
        return
    put_text(fields + A10_STATE, row, &AMQP10_KIND_TEXT[s.shape])
    for i in range(amqp10_shapes[s.shape].count):
        if s.at[i] != NULL:
            amqp10_put_json(fields + A10_STATE_FIELDS, row, at, False)
            break
    if s.shape == AMQP10_REJECTED:
        amqp10_put_error(fields, row, s.at[<int>AMQP10_REJECTED_ERROR])


# ------------------------------------------------------------------------------------------------ frames

cdef void amqp10_put_kind(MessageTable t, int64_t row, const Amqp10FrameView* f, int direction) noexcept nogil:
    """Put the kind of a frame, which may be only partly readable."""
    cdef Col* c = t.cols
    cdef int shape = f.performative.shape
    put_text(c + T_PROTOCOL, row, &AMQP10_PROTOCOL_TEXT)
    put_text(c + T_VERSION, row, &AMQP10_VERSION_TEXT)
    if f.kind == AMQP10_KIND_PROTOCOL_HEADER:
        put_text(c + T_KIND, row, &AMQP10_PROTOCOL_HEADER_TEXT)
        put_text(c + T_OPERATION, row, &AMQP10_CONNECT_TEXT)
        return
    if f.type == 0:
        put_i32(c + T_CHANNEL, row, f.channel)
    if shape:
        put_text(c + T_KIND, row, &AMQP10_KIND_TEXT[shape])
        put_text(c + T_OPERATION, row, &AMQP10_OPERATION_TEXT[shape][direction])
    elif f.kind == AMQP10_KIND_EMPTY:
        put_text(c + T_KIND, row, &AMQP10_EMPTY_TEXT)
        put_text(c + T_OPERATION, row, &AMQP10_PING_TEXT)


cdef void amqp10_put_row(MessageTable t, int64_t row, const Amqp10FrameView* f, int direction) noexcept nogil:
    """Fill AMQP's part of a row that begin_row began, except the message. The caller sets status and error."""
    cdef Col* fields = t.cols[<int>T_AMQP10].children
    cdef const Amqp10CompositeView* p = &f.performative
    amqp10_put_kind(t, row, f, direction)
    put_struct(t.cols + T_AMQP10, row)
    if f.kind == AMQP10_KIND_PROTOCOL_HEADER:
        put_i16(fields + A10_PROTOCOL_ID, row, f.protocol_id)
        put_i16(fields + A10_VERSION_MAJOR, row, f.major)
        put_i16(fields + A10_VERSION_MINOR, row, f.minor)
        put_i16(fields + A10_VERSION_REVISION, row, f.revision)
    if p.shape == 0:
        return
    amqp10_put_composite_fields(t, row, p)
    if p.shape == AMQP10_ATTACH:
        amqp10_put_role(fields, row, p, AMQP10_ATTACH_ROLE)
        amqp10_put_address(fields + A10_SOURCE_ADDRESS, row, p.at[<int>AMQP10_ATTACH_SOURCE])
        amqp10_put_address(fields + A10_TARGET_ADDRESS, row, p.at[<int>AMQP10_ATTACH_TARGET])
        amqp10_put_json(fields + A10_SOURCE, row, p.at[<int>AMQP10_ATTACH_SOURCE], False)
        amqp10_put_json(fields + A10_TARGET, row, p.at[<int>AMQP10_ATTACH_TARGET], True)
    elif p.shape == AMQP10_TRANSFER:
        amqp10_put_state(fields, row, p.at[<int>AMQP10_TRANSFER_STATE])
    elif p.shape == AMQP10_DISPOSITION:
        amqp10_put_role(fields, row, p, AMQP10_DISPOSITION_ROLE)
        amqp10_put_state(fields, row, p.at[<int>AMQP10_DISPOSITION_STATE])
    elif p.shape == AMQP10_DETACH:
        amqp10_put_error(fields, row, p.at[<int>AMQP10_DETACH_ERROR])
    elif p.shape == AMQP10_END or p.shape == AMQP10_CLOSE:
        amqp10_put_error(fields, row, p.at[<int>AMQP10_END_ERROR])


# ------------------------------------------------------------------------------------------------ messages

cdef inline void amqp10_put_message_of(MessageTable t, int64_t row, const Amqp10FastView* u, int direction,
                                       bint addressed) noexcept nogil:
    """Fill AMQP's part of a row that begin_row began. addressed: its destination is known."""
    cdef Col* c = t.cols
    cdef Col* fields = c[<int>T_AMQP10].children
    cdef const uint8_t* to
    put_text(c + T_PROTOCOL, row, &AMQP10_PROTOCOL_TEXT)
    put_text(c + T_KIND, row, &AMQP10_KIND_TEXT[<int>AMQP10_TRANSFER])
    if c[<int>T_VERSION].on:                # a test here costs less than the call
        put_text(c + T_VERSION, row, &AMQP10_VERSION_TEXT)
    if c[<int>T_OPERATION].on:
        put_text(c + T_OPERATION, row, &AMQP10_OPERATION_TEXT[<int>AMQP10_TRANSFER][direction])
    if c[<int>T_CHANNEL].on:
        put_i32(c + T_CHANNEL, row, u.channel)
    if amqp10_shows_fields(c):
        amqp10_put_fast_fields(t, row, u)
    if not addressed and c[<int>T_DESTINATION].on:
        to = amqp10_fast_field(u, AMQP10_PROPERTIES, AMQP10_PROPERTIES_TO)
        if to != NULL:
            amqp10_put_text_at(c + T_DESTINATION, row, to, True)
    if u.map[3] != NULL:
        amqp10_put_entries(c + T_HEADERS, row, u.map[3], True, u.end)
    t.put_payload(row, u.payload.at, u.payload.size)
    if not c[<int>T_AMQP10].on:
        return
    put_struct(c + T_AMQP10, row)
    put_i32(fields + A10_TRANSFERS, row, 1)
    if u.map[0] != NULL:
        amqp10_put_entries(fields + A10_DELIVERY_ANNOTATIONS, row, u.map[0], True, u.end)
    if u.map[1] != NULL:
        amqp10_put_entries(fields + A10_MESSAGE_ANNOTATIONS, row, u.map[1], True, u.end)
    put_text(fields + A10_BODY, row, &AMQP10_BODY_TEXT[0])
    put_i32(fields + A10_BODY_SECTIONS, row, 1)


cdef inline bint amqp10_shows_fields(const Col* cols) noexcept nogil:
    """Is a column on that fields are put to?"""
    cdef int i
    for i in range(AMQP10_FIELD_COLUMNS):
        if cols[AMQP10_FIELD_COLUMN[i]].on:
            return True
    return False


cdef void amqp10_put_fast_fields(MessageTable t, int64_t row, const Amqp10FastView* u) noexcept nogil:
    cdef Col* c = t.cols
    cdef Col* fields = c[<int>T_AMQP10].children
    cdef bint apart = c[<int>T_AMQP10].on
    cdef const Amqp10Place* place
    cdef const uint8_t* at
    cdef int i
    for i in range(u.count):
        at = u.at[i]
        place = &AMQP10_PLACES[u.field[i]]
        if apart:
            amqp10_put_as(fields + place.field, row, place.form, at, True)
        if place.common_form:
            amqp10_put_as(c + place.common, row, place.common_form, at, True)
        elif u.field[i] == amqp10_shapes[<int>AMQP10_HEADER].first + AMQP10_HEADER_DELIVERY_COUNT:
            amqp10_put_attempts(t, row, amqp10_fixed_at(&amqp10_constructors[at[0]], at))


cdef inline void amqp10_put_attempts(MessageTable t, int64_t row, uint64_t failed) noexcept nogil:
    """Put what the delivery-count of a header says."""
    if failed < 0x7FFFFFFF:
        put_bool(t.cols + T_REDELIVERED, row, failed > 0)
        put_i32(t.cols + T_ATTEMPTS, row, <int32_t>failed + 1)


cdef void amqp10_put_sections(MessageTable t, int64_t row, const Amqp10MessageView* m) noexcept nogil:
    """Put all sections of a message except its body."""
    cdef Col* fields = t.cols[<int>T_AMQP10].children
    cdef uint64_t count = 0
    if m.header.shape:
        amqp10_put_composite_fields(t, row, &m.header)
        if amqp10_field_unsigned(&m.header, AMQP10_HEADER_DELIVERY_COUNT, &count):
            amqp10_put_attempts(t, row, count)
    if m.properties.shape:
        amqp10_put_composite_fields(t, row, &m.properties)
    amqp10_put_map_section(fields + A10_DELIVERY_ANNOTATIONS, row, m, AMQP10_SECTION_DELIVERY_ANNOTATIONS)
    amqp10_put_map_section(fields + A10_MESSAGE_ANNOTATIONS, row, m, AMQP10_SECTION_MESSAGE_ANNOTATIONS)
    amqp10_put_map_section(t.cols + T_HEADERS, row, m, AMQP10_SECTION_APPLICATION_PROPERTIES)
    amqp10_put_map_section(fields + A10_FOOTER, row, m, AMQP10_SECTION_FOOTER)


cdef inline void amqp10_put_map_section(Col* map, int64_t row, const Amqp10MessageView* m, int code) noexcept nogil:
    if m.at[code - AMQP10_SECTION_FIRST] != NULL:
        amqp10_put_entries(map, row, m.at[code - AMQP10_SECTION_FIRST], m.plain >> (code - AMQP10_SECTION_FIRST) & 1,
                           m.octets + m.size)


cdef void amqp10_put_payload(MessageTable t, int64_t row, const Amqp10MessageView* m) noexcept nogil:
    """Put the body as payload: data sections joined, a value's text or octets, sequences as JSON, with a line for each."""
    cdef Col* fields = t.cols[<int>T_AMQP10].children
    cdef const uint8_t* at = m.octets
    cdef Amqp10Section section
    cdef Amqp10ValueView v
    cdef Octets o
    if m.body == 0:
        return
    put_text(fields + A10_BODY, row, &AMQP10_BODY_TEXT[m.body - AMQP10_SECTION_DATA])
    put_i32(fields + A10_BODY_SECTIONS, row, <int32_t>m.body_count)
    if m.payload.at != NULL:
        t.put_payload(row, m.payload.at, m.payload.size)
        return
    memset(&o, 0, sizeof(o))
    while amqp10_next_section(&at, m.octets + m.size, &section):
        if section.code < AMQP10_SECTION_DATA or section.code > AMQP10_SECTION_AMQP_VALUE:
            continue
        amqp10_read(section.at, &v)
        if section.code == AMQP10_SECTION_DATA or v.type == AMQP10_BINARY:
            add_octets(&o, v.body, v.size)
            continue
        if o.size:
            add_u8(&o, c"\n")
        amqp10_add_text(&o, &v)
    if o.failed:
        t.shared.no_memory = True
    else:
        t.put_payload(row, <const uint8_t*>o.at if o.size else <const uint8_t*>b"", <int64_t>o.size)
    free_octets(&o)
