# AMQP 1.0 frames and messages -> the column `detail`. detail.py lists the fields and their order.
from wirefmt.amqp10.spec import SASL_CODES as AMQP10_SASL_CODE_NAMES
from wirefmt.amqp10.detail import KINDS as AMQP10_DETAIL_ROWS, MESSAGE as AMQP10_MESSAGE_ROW


cdef enum Amqp10Detail:             # how a field is written, times AMQP10_DETAIL_KIND; plus which field, or the enum below
    AMQP10_DETAIL_PLAIN = 0         # a value of the performative
    AMQP10_DETAIL_ROLE
    AMQP10_DETAIL_SND_SETTLE_MODE
    AMQP10_DETAIL_RCV_SETTLE_MODE
    AMQP10_DETAIL_CODE              # of sasl-outcome
    AMQP10_DETAIL_LIST              # of symbols
    AMQP10_DETAIL_TERMINUS          # source or target: its address
    AMQP10_DETAIL_STATE
    AMQP10_DETAIL_ERROR
    AMQP10_DETAIL_ENTRY             # row of AMQP10_DETAIL_ENTRY_NAME
    AMQP10_DETAIL_OTHER             # an Amqp10DetailOther
    AMQP10_DETAIL_HEADER            # a field of the message's header
    AMQP10_DETAIL_PROPERTIES        # ... of its properties


cdef enum:
    AMQP10_DETAIL_KIND = 32
    AMQP10_DETAIL_ENTRIES = 8       # at least the number of fields in detail.py


cdef enum Amqp10DetailOther:
    AMQP10_DETAIL_PROTOCOL = 0      # of a protocol header
    AMQP10_DETAIL_ADDRESS           # of the link
    AMQP10_DETAIL_TRANSFERS
    AMQP10_DETAIL_SIZE              # of the body
    AMQP10_DETAIL_APPLICATION_PROPERTIES


cdef struct Amqp10EntryName:
    Text name
    int field                       # of the performative: the map


cdef struct Amqp10DetailOf:         # the parts of a frame that fields refer to
    const Amqp10FrameView* f
    const Span* address
    const Amqp10MessageView* m      # NULL: absent or malformed
    int transfers


cdef dict AMQP10_DETAIL_KINDS = {
    "role": AMQP10_DETAIL_ROLE, "snd_settle_mode": AMQP10_DETAIL_SND_SETTLE_MODE,
    "rcv_settle_mode": AMQP10_DETAIL_RCV_SETTLE_MODE, "code": AMQP10_DETAIL_CODE,
    "sasl_server_mechanisms": AMQP10_DETAIL_LIST, "source": AMQP10_DETAIL_TERMINUS, "target": AMQP10_DETAIL_TERMINUS,
    "state": AMQP10_DETAIL_STATE, "error": AMQP10_DETAIL_ERROR,
}
cdef DetailForm[AMQP10_SHAPES] AMQP10_DETAIL_FORM       # by shape; 0: a protocol header
cdef DetailForm AMQP10_MESSAGE_FORM
cdef Amqp10EntryName[AMQP10_DETAIL_ENTRIES] AMQP10_DETAIL_ENTRY_NAME
cdef Text[5] AMQP10_SASL_CODE_TEXT
cdef Text[3] AMQP10_SND_SETTLE_TEXT                     # 2.8.2
cdef Text[2] AMQP10_RCV_SETTLE_TEXT                     # 2.8.3


cdef dict amqp10_detail_fields(int shape):
    """The fields of a composite by name, as numbers of DetailField, except those with SASL data."""
    cdef int i
    cdef dict found = {}
    for i in range(amqp10_shapes[shape].count):
        name = (<bytes>amqp10_field_name[amqp10_shapes[shape].first + i]).decode("ascii")
        if not AMQP10_SECRET[shape][i]:
            found[name] = AMQP10_DETAIL_KINDS.get(name, AMQP10_DETAIL_PLAIN) * AMQP10_DETAIL_KIND + i
    return found


cdef int fill_amqp10_detail() except -1:
    cdef int i, entries = 0, other = AMQP10_DETAIL_OTHER * AMQP10_DETAIL_KIND
    cdef dict fields, message
    for i in range(1, AMQP10_SHAPES):
        words = AMQP10_DETAIL_ROWS.get((<bytes>amqp10_shape_name[i]).decode("ascii"))
        if words is None:
            continue
        fields = amqp10_detail_fields(i)
        for word in words.split():
            path = word.rpartition("=")[2]
            if "." in path:
                if entries >= AMQP10_DETAIL_ENTRIES:
                    raise IndexError("AMQP10_DETAIL_ENTRIES is too small")
                table, _, name = path.partition(".")
                AMQP10_DETAIL_ENTRY_NAME[entries].name = pad_text(name.encode())
                AMQP10_DETAIL_ENTRY_NAME[entries].field = fields[table]
                fields[path] = AMQP10_DETAIL_ENTRY * AMQP10_DETAIL_KIND + entries
                entries += 1
        fields |= {"address": other + AMQP10_DETAIL_ADDRESS, "transfers": other + AMQP10_DETAIL_TRANSFERS,
                   "size": other + AMQP10_DETAIL_SIZE}
        detail_form(words, fields, &AMQP10_DETAIL_FORM[i])
    detail_form(AMQP10_DETAIL_ROWS["protocol-header"], {"protocol": other + AMQP10_DETAIL_PROTOCOL}, &AMQP10_DETAIL_FORM[0])
    message = {"application_properties": other + AMQP10_DETAIL_APPLICATION_PROPERTIES}
    for i, kind in ((AMQP10_HEADER, AMQP10_DETAIL_HEADER), (AMQP10_PROPERTIES, AMQP10_DETAIL_PROPERTIES)):
        message |= {name: kind * AMQP10_DETAIL_KIND + number for name, number in amqp10_detail_fields(i).items()}
    detail_form(AMQP10_MESSAGE_ROW, message, &AMQP10_MESSAGE_FORM)
    for code, name in AMQP10_SASL_CODE_NAMES.items():
        AMQP10_SASL_CODE_TEXT[<int>code] = pad_text(name.encode())
    for i, name in enumerate((b"unsettled", b"settled", b"mixed")):
        AMQP10_SND_SETTLE_TEXT[i] = pad_text(name)
    for i, name in enumerate((b"first", b"second")):
        AMQP10_RCV_SETTLE_TEXT[i] = pad_text(name)
    return 0


fill_amqp10_detail()


# ------------------------------------------------------------------------------------------------ values

cdef void amqp10_line_value(DetailLine* l, const DetailField* f, const uint8_t* at) noexcept nogil:
    """A value by its type: a flag, a number, text, bytes; an ellipsis for lists, maps and arrays."""
    cdef Amqp10ValueView v
    cdef uint8_t[UUID_SIZE] uuid
    cdef Span s
    amqp10_read(at, &v)
    s = span_of(v.body, v.size)
    if v.type == AMQP10_BOOLEAN:
        line_flag(l, f, amqp10_unsigned(&v) != 0)
    elif AMQP10_UBYTE <= v.type <= AMQP10_ULONG:
        line_number(l, f, False, amqp10_unsigned(&v))
    elif AMQP10_BYTE <= v.type <= AMQP10_LONG or v.type == AMQP10_TIMESTAMP:
        line_signed(l, f, amqp10_signed(&v))
    elif amqp10_is_text(&v):
        line_text(l, f, &s)
    elif v.type == AMQP10_BINARY:
        line_binary(l, f, &s)
    elif v.type == AMQP10_UUID:
        line_field(l, f)
        write_uuid(v.body, uuid)
        line_ascii(l, uuid, UUID_SIZE)
    elif v.type != AMQP10_NULL:
        line_field(l, f)
        line_piece(l, b"\xe2\x80\xa6", 3)


cdef void amqp10_line_coded(DetailLine* l, const DetailField* f, const uint8_t* at, const Text* names,
                            uint64_t count) noexcept nogil:
    """A small number by its name, or as digits if it has none."""
    cdef Amqp10ValueView v
    amqp10_read(at, &v)
    if AMQP10_UBYTE <= v.type <= AMQP10_ULONG and amqp10_unsigned(&v) < count:
        line_name(l, f, &names[amqp10_unsigned(&v)])
    else:
        amqp10_line_value(l, f, at)


cdef void amqp10_line_list(DetailLine* l, const DetailField* f, const uint8_t* at) noexcept nogil:
    """A symbol or an array of them (1.4), with commas between."""
    cdef Amqp10ValueView v, item
    cdef Amqp10Items items
    cdef Span s
    cdef bint first = True
    amqp10_read(at, &v)
    if v.type != AMQP10_ARRAY:
        amqp10_line_value(l, f, at)
        return
    line_field(l, f)
    if v.size == 0:                         # its elements have no octets, so they are not symbols
        return
    items = amqp10_items(&v)
    while not l.cut and amqp10_next(&items, &item):
        if not first:
            line_piece(l, b",", 1)
        first = False
        s = span_of(item.body, item.size)
        if amqp10_is_text(&item):
            line_string(l, &s, LINE_VALUE)
        else:
            line_piece(l, b"\xe2\x80\xa6", 3)


cdef void amqp10_line_terminus(DetailLine* l, const DetailField* f, const uint8_t* at) noexcept nogil:
    """A source or target: its address; without one, its kind."""
    cdef Amqp10CompositeView c
    cdef bint dynamic = False
    if not amqp10_open_composite(at, &c):
        amqp10_line_value(l, f, at)
    elif c.shape != AMQP10_SOURCE and c.shape != AMQP10_TARGET:
        line_name(l, f, &AMQP10_KIND_TEXT[c.shape])
    elif c.at[<int>AMQP10_SOURCE_ADDRESS] != NULL:
        amqp10_line_value(l, f, c.at[<int>AMQP10_SOURCE_ADDRESS])
    else:
        amqp10_field_boolean(&c, AMQP10_SOURCE_DYNAMIC if c.shape == AMQP10_SOURCE else AMQP10_TARGET_DYNAMIC, &dynamic)
        line_field(l, f)
        line_words(l, b"(dynamic)" if dynamic else b"(null)")


cdef void amqp10_line_error(DetailLine* l, const DetailField* f, const uint8_t* at) noexcept nogil:
    """The condition, and its description as explanatory text."""
    cdef Amqp10CompositeView e
    cdef Span s
    if not amqp10_open_composite(at, &e) or e.shape != AMQP10_ERROR:
        amqp10_line_value(l, f, at)
        return
    line_field(l, f)
    if amqp10_field_text(&e, AMQP10_ERROR_CONDITION, &s):
        line_string(l, &s, LINE_VALUE)
    if amqp10_field_text(&e, AMQP10_ERROR_DESCRIPTION, &s):
        line_space(l)
        line_string(l, &s, LINE_MAX)


cdef void amqp10_line_state(DetailLine* l, const DetailField* f, const uint8_t* at) noexcept nogil:
    """A delivery state: its name, then its error, flags, position in the delivery, or transaction."""
    cdef Amqp10CompositeView s
    cdef DetailField bare = f[0]
    cdef bint set_ = False
    cdef uint64_t number = 0
    if not amqp10_open_composite(at, &s):
        amqp10_line_value(l, f, at)
        return
    line_name(l, f, &AMQP10_KIND_TEXT[s.shape])
    bare.label = NO_TEXT
    if s.shape == AMQP10_REJECTED and s.at[<int>AMQP10_REJECTED_ERROR] != NULL:
        amqp10_line_error(l, &bare, s.at[<int>AMQP10_REJECTED_ERROR])
    elif s.shape == AMQP10_MODIFIED:
        if amqp10_field_boolean(&s, AMQP10_MODIFIED_DELIVERY_FAILED, &set_) and set_:
            line_words(l, b" delivery_failed")
        set_ = False
        if amqp10_field_boolean(&s, AMQP10_MODIFIED_UNDELIVERABLE_HERE, &set_) and set_:
            line_words(l, b" undeliverable_here")
    elif s.shape == AMQP10_RECEIVED:
        if amqp10_field_unsigned(&s, AMQP10_RECEIVED_SECTION_OFFSET, &number):
            line_words(l, b" section_offset=")
            line_digits(l, False, number)
    elif s.shape == AMQP10_TRANSACTIONAL_STATE and s.at[<int>AMQP10_TRANSACTIONAL_STATE_OUTCOME] != NULL and \
            amqp10_open_composite(s.at[<int>AMQP10_TRANSACTIONAL_STATE_OUTCOME], &s):
        line_name(l, &bare, &AMQP10_KIND_TEXT[s.shape])


# ------------------------------------------------------------------------------------------------ frames

cdef void amqp10_line_protocol(DetailLine* l, const DetailField* f, const Amqp10FrameView* frame) noexcept nogil:
    """The protocol and version of a protocol header (2.2, 5.2.1, 5.3.1)."""
    line_field(l, f)
    line_words(l, b"AMQP " if frame.protocol_id == 0 else b"TLS " if frame.protocol_id == 2 else
               b"SASL " if frame.protocol_id == 3 else b"? ")
    line_digits(l, False, frame.major)
    line_piece(l, b".", 1)
    line_digits(l, False, frame.minor)
    line_piece(l, b".", 1)
    line_digits(l, False, frame.revision)


cdef bint amqp10_body_size(const Amqp10MessageView* m, uint64_t* size) noexcept nogil:
    """The size of the body's data sections, or of a value that is text or binary. False: another body."""
    cdef const uint8_t* at = m.octets
    cdef Amqp10Section section
    cdef Amqp10ValueView v
    size[0] = m.payload.size
    if m.payload.at != NULL or m.body == 0:
        return m.body != 0
    while amqp10_next_section(&at, m.octets + m.size, &section):
        if AMQP10_SECTION_DATA <= section.code <= AMQP10_SECTION_AMQP_VALUE:
            amqp10_read(section.at, &v)
            if section.code == AMQP10_SECTION_AMQP_SEQUENCE or not AMQP10_BINARY <= v.type <= AMQP10_SYMBOL:
                return False
            size[0] += v.size
    return True


cdef void amqp10_line_other(DetailLine* l, const DetailField* f, const Amqp10DetailOf* x) noexcept nogil:
    """A field that is not a field of a composite."""
    cdef int which = f.what % AMQP10_DETAIL_KIND
    cdef const uint8_t* at
    cdef Amqp10ValueView v
    cdef uint64_t number = 0
    if which == AMQP10_DETAIL_PROTOCOL:
        amqp10_line_protocol(l, f, x.f)
    elif which == AMQP10_DETAIL_ADDRESS:
        line_text(l, f, x.address)
    elif which == AMQP10_DETAIL_TRANSFERS:
        if x.transfers > 1:
            line_number(l, f, False, <uint64_t>x.transfers)
    elif which == AMQP10_DETAIL_SIZE:
        if x.m != NULL and amqp10_body_size(x.m, &number):
            line_number(l, f, False, number)
    else:
        at = x.m.at[AMQP10_SECTION_APPLICATION_PROPERTIES - AMQP10_SECTION_FIRST]
        if at != NULL:
            amqp10_read(at, &v)
            line_number(l, f, False, v.count // 2)


cdef void amqp10_line_entry(DetailLine* l, const DetailField* f, const Amqp10CompositeView* p) noexcept nogil:
    """An entry of a map of the performative."""
    cdef const Amqp10EntryName* named = &AMQP10_DETAIL_ENTRY_NAME[f.what % AMQP10_DETAIL_KIND]
    cdef Amqp10ValueView v, key
    cdef Amqp10Items items
    if p.at[named.field] == NULL:
        return
    amqp10_read(p.at[named.field], &v)
    if v.type != AMQP10_MAP:
        return
    items = amqp10_items(&v)
    while amqp10_next(&items, &key) and amqp10_next(&items, &v):
        if amqp10_is_text(&key) and key.size == <uint32_t>named.name.size and memcmp(key.body, named.name.at, key.size) == 0:
            amqp10_line_value(l, f, v.constructor)
            return


cdef void amqp10_line_field(DetailLine* l, const DetailField* f, const Amqp10DetailOf* x) noexcept nogil:
    cdef int kind = f.what // AMQP10_DETAIL_KIND
    cdef int i = f.what % AMQP10_DETAIL_KIND
    cdef const Amqp10CompositeView* p = &x.f.performative
    cdef bint role = False
    if kind == AMQP10_DETAIL_OTHER:
        amqp10_line_other(l, f, x)
        return
    if kind == AMQP10_DETAIL_ENTRY:
        amqp10_line_entry(l, f, p)
        return
    if kind == AMQP10_DETAIL_HEADER or kind == AMQP10_DETAIL_PROPERTIES:
        p = &x.m.header if kind == AMQP10_DETAIL_HEADER else &x.m.properties
        if p.shape and p.at[i] != NULL:
            amqp10_line_value(l, f, p.at[i])
        return
    if p.at[i] == NULL:
        return
    if kind == AMQP10_DETAIL_ROLE:
        if amqp10_field_boolean(p, i, &role):
            line_name(l, f, &AMQP10_ROLE_TEXT[role])
    elif kind == AMQP10_DETAIL_SND_SETTLE_MODE:
        amqp10_line_coded(l, f, p.at[i], AMQP10_SND_SETTLE_TEXT, 3)
    elif kind == AMQP10_DETAIL_RCV_SETTLE_MODE:
        amqp10_line_coded(l, f, p.at[i], AMQP10_RCV_SETTLE_TEXT, 2)
    elif kind == AMQP10_DETAIL_CODE:
        amqp10_line_coded(l, f, p.at[i], AMQP10_SASL_CODE_TEXT, 5)
    elif kind == AMQP10_DETAIL_LIST:
        amqp10_line_list(l, f, p.at[i])
    elif kind == AMQP10_DETAIL_TERMINUS:
        amqp10_line_terminus(l, f, p.at[i])
    elif kind == AMQP10_DETAIL_STATE:
        amqp10_line_state(l, f, p.at[i])
    elif kind == AMQP10_DETAIL_ERROR:
        amqp10_line_error(l, f, p.at[i])
    else:
        amqp10_line_value(l, f, p.at[i])


cdef inline void amqp10_line_form(DetailLine* l, const DetailForm* form, const Amqp10DetailOf* x) noexcept nogil:
    cdef int i
    for i in range(form.first, form.first + form.count):
        amqp10_line_field(l, &DETAIL_FIELD[i], x)


cdef void amqp10_put_detail(MessageTable t, int64_t row, const Amqp10FrameView* f, const Span* address, const uint8_t* p,
                            size_t n, int transfers) noexcept nogil:
    """`address`: of the link, absent if unknown. p[:n]: the message of a delivery in `transfers` transfers."""
    cdef Amqp10DetailOf x
    cdef Amqp10Options o
    cdef Amqp10MessageView m
    cdef Fault fault
    cdef DetailLine l
    x.f = f
    x.address = address
    x.m = NULL
    x.transfers = transfers
    line_begin(&l)
    if f.performative.shape == AMQP10_TRANSFER and n and p != NULL:
        memset(&o, 0, sizeof(o))
        if not amqp10_is_opaque(&f.performative) and amqp10_parse_message(p, n, &o, &m, &fault) == OK:
            x.m = &m
    if f.kind == AMQP10_KIND_PROTOCOL_HEADER:
        amqp10_line_form(&l, &AMQP10_DETAIL_FORM[0], &x)
    elif f.performative.shape:
        amqp10_line_form(&l, &AMQP10_DETAIL_FORM[f.performative.shape], &x)
    if x.m != NULL:
        amqp10_line_form(&l, &AMQP10_MESSAGE_FORM, &x)
    put_line(t, row, &l)
