# AMQP 0.9.1 methods and contents -> the column `detail`. detail.py lists the fields and their order.
from wirefmt.amqp091.detail import KINDS as AMQP091_DETAIL_ROWS, CONTENT as AMQP091_CONTENT_ROW


cdef enum Amqp091Detail:            # fields that are neither an argument nor a property, and the first numbers of the others
    AMQP091_DETAIL_VERSION = 0      # of a protocol header
    AMQP091_DETAIL_METHOD           # class_id and method_id of a close
    AMQP091_DETAIL_SIZE
    AMQP091_DETAIL_PERSISTENT
    AMQP091_DETAIL_ARGUMENT = 100   # + Amqp091ArgumentName
    AMQP091_DETAIL_PROPERTY = 200   # + Amqp091Property
    AMQP091_DETAIL_ENTRY = 300      # + row of AMQP091_DETAIL_ENTRY_NAME: an entry of a table


cdef enum:
    AMQP091_DETAIL_ENTRIES = 16     # at least the number of fields in detail.py


cdef struct Amqp091EntryName:
    Text name
    uint8_t argument                # Amqp091ArgumentName of the table


cdef DetailForm[AMQP091_METHOD_COUNT] AMQP091_DETAIL_FORM       # by method; 0: a protocol header
cdef DetailForm AMQP091_HEADER_FORM
cdef DetailForm AMQP091_CONTENT_FORM
cdef Amqp091EntryName[AMQP091_DETAIL_ENTRIES] AMQP091_DETAIL_ENTRY_NAME


cdef int fill_amqp091_detail() except -1:
    cdef int i, entries = 0
    cdef dict arguments = {AMQP091_ARGUMENT_NAMES[i].rstrip("_"): i for i in range(AMQP091_ARGUMENT_NAME_COUNT)}
    cdef dict fields = {"version": AMQP091_DETAIL_VERSION, "method": AMQP091_DETAIL_METHOD, "size": AMQP091_DETAIL_SIZE}
    cdef dict content = {"persistent": AMQP091_DETAIL_PERSISTENT}
    for name in AMQP091_SECRETS:
        arguments.pop(name, None)
    fields |= {name: AMQP091_DETAIL_ARGUMENT + number for name, number in arguments.items()}
    for words in AMQP091_DETAIL_ROWS.values():
        for word in words.split():
            path = word.rstrip("?!").rpartition("=")[2]
            if "." in path and path not in fields:
                if entries >= AMQP091_DETAIL_ENTRIES:
                    raise IndexError("AMQP091_DETAIL_ENTRIES is too small")
                table, _, name = path.partition(".")
                AMQP091_DETAIL_ENTRY_NAME[entries].name = pad_text(name.encode())
                AMQP091_DETAIL_ENTRY_NAME[entries].argument = <uint8_t>arguments[table]
                fields[path] = AMQP091_DETAIL_ENTRY + entries
                entries += 1
    for i in range(1, AMQP091_METHOD_COUNT):
        detail_form(AMQP091_DETAIL_ROWS[(<bytes>amqp091_methods[i].name).decode("ascii")], fields, &AMQP091_DETAIL_FORM[i])
    detail_form(AMQP091_DETAIL_ROWS["protocol-header"], fields, &AMQP091_DETAIL_FORM[0])
    detail_form(AMQP091_DETAIL_ROWS["header"], fields, &AMQP091_HEADER_FORM)
    content |= {AMQP091_PROPERTY_NAMES[i]: AMQP091_DETAIL_PROPERTY + i for i in range(AMQP091_PROPERTY_COUNT)}
    detail_form(AMQP091_CONTENT_ROW, content, &AMQP091_CONTENT_FORM)
    return 0


fill_amqp091_detail()


cdef void amqp091_line_value(DetailLine* l, const Amqp091Entry* e) noexcept nogil:
    """The value of an entry: text unchanged, other scalars in digits, nested values as an ellipsis."""
    cdef Octets o
    cdef uint8_t[64] start
    cdef Span s
    if e.letter == c"S" or e.letter == c"x":
        s = span_of(e.at, e.size)
        line_octets(l, &s)
    elif e.letter == c"F" or e.letter == c"A":
        line_piece(l, b"\xe2\x80\xa6", 3)
    else:
        o = octets_over(start, sizeof(start))
        amqp091_add_text(&o, e)
        if not o.failed:
            line_ascii(l, o.at, <int64_t>o.size)
        free_octets(&o)


cdef void amqp091_line_arguments(DetailLine* l, const uint8_t* p) noexcept nogil:
    """The entries of the table at `p` that have a meaning for RabbitMQ: their names begin with x-."""
    cdef Cursor c = amqp091_entries(p)
    cdef Amqp091Entry e
    while not l.cut and amqp091_next_entry(&c, True, &e):
        if e.name.size < 3 or e.name.at[0] != c"x" or e.name.at[1] != c"-":
            continue
        line_space(l)
        line_string(l, &e.name, LINE_VALUE)
        line_piece(l, b"=", 1)
        amqp091_line_value(l, &e)


cdef void amqp091_line_typed(DetailLine* l, const DetailField* f, int type, int bit, const uint8_t* p) noexcept nogil:
    """An argument or property. Long strings, and short ones called reply_text or reason, are explanatory texts."""
    cdef Span s
    if type == AMQP091_BIT:
        line_flag(l, f, p[0] >> bit & 1)
    elif type == AMQP091_OCTET:
        line_number(l, f, False, p[0])
    elif type == AMQP091_SHORT:
        line_number(l, f, False, load_u16(p))
    elif type == AMQP091_LONG:
        line_number(l, f, False, load_u32(p))
    elif type == AMQP091_TABLE:
        amqp091_line_arguments(l, p)
    elif type == AMQP091_SHORTSTR or type == AMQP091_LONGSTR:
        s = amqp091_shortstr_at(p) if type == AMQP091_SHORTSTR else amqp091_longstr_at(p)
        if f.label.size:
            line_text(l, f, &s)
        else:
            line_prose(l, f, &s)
    else:
        line_number(l, f, False, load_u64(p))


cdef void amqp091_line_method(DetailLine* l, const DetailField* f, const Amqp091FrameView* m) noexcept nogil:
    """The method that a close is about, if it names one."""
    cdef const Amqp091ArgumentRow* class_ = amqp091_find_argument(m, AMQP091_ARGUMENT_CLASS_ID)
    cdef const Amqp091ArgumentRow* method = amqp091_find_argument(m, AMQP091_ARGUMENT_METHOD_ID)
    cdef uint16_t class_id, method_id
    cdef int row
    if class_ == NULL or method == NULL:
        return
    class_id = load_u16(m.frame + m.value[class_.slot])
    method_id = load_u16(m.frame + m.value[method.slot])
    if class_id == 0 and method_id == 0:
        return
    row = amqp091_method_of(class_id, method_id)
    if row:
        line_name(l, f, &AMQP091_KIND_TEXT[row])
        return
    line_number(l, f, False, class_id)
    line_piece(l, b".", 1)
    line_digits(l, False, method_id)


cdef void amqp091_line_field(DetailLine* l, const DetailField* f, const Amqp091FrameView* m) noexcept nogil:
    """A field of a method."""
    cdef const Amqp091ArgumentRow* a
    cdef const Amqp091EntryName* named
    cdef Amqp091Entry e
    if f.what == AMQP091_DETAIL_METHOD:
        amqp091_line_method(l, f, m)
    elif f.what >= AMQP091_DETAIL_ENTRY:
        named = &AMQP091_DETAIL_ENTRY_NAME[f.what - AMQP091_DETAIL_ENTRY]
        a = amqp091_find_argument(m, named.argument)
        if a != NULL and amqp091_find_entry(m.frame + m.value[a.slot], <const char*>named.name.at,
                                            <uint32_t>named.name.size, &e):
            line_field(l, f)
            amqp091_line_value(l, &e)
    else:
        a = amqp091_find_argument(m, f.what - AMQP091_DETAIL_ARGUMENT)
        if a != NULL:
            amqp091_line_typed(l, f, a.type, a.bit, m.frame + m.value[a.slot])


cdef void amqp091_line_version(DetailLine* l, const DetailForm* form, const uint8_t* p) noexcept nogil:
    """The version of a protocol header: `p` has 0, major, minor and revision."""
    cdef int i
    line_field(l, &DETAIL_FIELD[form.first])
    for i in range(1, 4):
        if i > 1:
            line_piece(l, b"-", 1)
        line_digits(l, False, p[i])


cdef void amqp091_line_content(DetailLine* l, const Amqp091FrameView* h) noexcept nogil:
    """A field of a content header."""
    cdef const DetailField* f
    cdef const uint8_t* p
    cdef Cursor c
    cdef Amqp091Entry e
    cdef uint64_t count = 0
    cdef int i, property_
    for i in range(AMQP091_CONTENT_FORM.first, AMQP091_CONTENT_FORM.first + AMQP091_CONTENT_FORM.count):
        f = &DETAIL_FIELD[i]
        property_ = AMQP091_PROPERTY_DELIVERY_MODE if f.what == AMQP091_DETAIL_PERSISTENT else \
            f.what - AMQP091_DETAIL_PROPERTY
        p = amqp091_property(&h.properties, property_)
        if p == NULL:
            continue
        if f.what == AMQP091_DETAIL_PERSISTENT:
            line_flag(l, f, p[0] == 2)
        elif property_ == AMQP091_PROPERTY_HEADERS:
            c = amqp091_entries(p)
            while amqp091_next_entry(&c, True, &e):
                count += 1
            line_number(l, f, False, count)
        else:
            amqp091_line_typed(l, f, amqp091_properties[property_].type, 0, p)


cdef void amqp091_put_detail(MessageTable t, int64_t row, const Amqp091FrameView* m, const Amqp091FrameView* h) noexcept nogil:
    """`m`: a frame that was read, or NULL; `h`: the header of its content, or NULL."""
    cdef const DetailForm* form = &AMQP091_HEADER_FORM
    cdef const DetailField* f
    cdef DetailLine l
    cdef int i
    line_begin(&l)
    if m != NULL and m.type == AMQP091_PROTOCOL_HEADER:
        amqp091_line_version(&l, &AMQP091_DETAIL_FORM[0], m.payload.at)
    elif m == NULL or m.method:
        if m != NULL:
            form = &AMQP091_DETAIL_FORM[m.method]
        for i in range(form.first, form.first + form.count):
            f = &DETAIL_FIELD[i]
            if f.what != AMQP091_DETAIL_SIZE:
                amqp091_line_field(&l, f, m)
            elif h != NULL:
                line_number(&l, f, False, h.body_size)
    if h != NULL:
        amqp091_line_content(&l, h)
    put_line(t, row, &l)
