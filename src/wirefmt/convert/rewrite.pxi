# Values encoded again, as RabbitMQ does after reading them.

# ------------------------------------------------------------------------------------------------ AMQP 1.0 encoded again

cdef void convert_rewrite(const Converter* x, Octets* o, const Amqp10ValueView* v) noexcept nogil:
    """Encode a value as RabbitMQ does after reading it: in the smallest encoding, but elements of arrays have the
    largest constructors."""
    cdef Amqp10Items items
    cdef Amqp10ValueView inner
    cdef size_t mark
    if v.type == AMQP10_BOOLEAN:
        amqp10_add_boolean(o, amqp10_unsigned(v) != 0)
    elif v.type == AMQP10_DESCRIBED:
        amqp10_add_value(o, v)
    elif v.type == AMQP10_ARRAY:
        convert_rewrite_array(x, o, v)
    elif v.type >= AMQP10_LIST:
        mark = amqp10_open(o)
        items = amqp10_items(v)
        while amqp10_next(&items, &inner):
            convert_rewrite(x, o, &inner)
        amqp10_close(o, mark, amqp10_narrow_code(v.type), v.count)
    elif v.type == AMQP10_UINT or v.type == AMQP10_ULONG:
        convert_add_number(o, v.type, amqp10_unsigned(v))
    elif v.type == AMQP10_INT or v.type == AMQP10_LONG:
        convert_add_number(o, v.type, <uint64_t>amqp10_signed(v))
    elif AMQP10_BINARY <= v.type <= AMQP10_SYMBOL:
        convert_add_variable(x, o, amqp10_narrow_code(v.type), v.body, v.size)
    else:
        amqp10_add_value(o, v)


cdef void convert_rewrite_array(const Converter* x, Octets* o, const Amqp10ValueView* v) noexcept nogil:
    cdef Amqp10Items items = amqp10_items(v)
    cdef Amqp10ValueView inner
    cdef size_t mark
    cdef uint8_t code = v.inner[0]
    if code == 0 or amqp10_constructors[code].zero:
        amqp10_add_value(o, v)
        return
    mark = amqp10_open(o)
    if amqp10_narrow_code(amqp10_constructors[code].type):
        code = amqp10_wide_code(amqp10_narrow_code(amqp10_constructors[code].type))
    add_u8(o, code)
    while amqp10_next(&items, &inner):
        convert_rewrite_element(x, o, code, &inner)
    amqp10_close(o, mark, AMQP10_CODE_ARRAY8, v.count)


cdef void convert_rewrite_element(const Converter* x, Octets* o, uint8_t code, const Amqp10ValueView* v) noexcept nogil:
    """The content of an element under a wide constructor: the values in a list or map are encoded again, too."""
    cdef Amqp10Items items
    cdef Amqp10ValueView inner
    cdef size_t at
    if v.type != AMQP10_LIST and v.type != AMQP10_MAP:
        amqp10_add_element(o, code, v)
        return
    extend_octets(o, 4)
    at = o.size
    add_u32(o, v.count)
    items = amqp10_items(v)
    while amqp10_next(&items, &inner):
        convert_rewrite(x, o, &inner)
    if not o.failed:
        store_u32(o.at + at - 4, <uint32_t>(o.size - at))


cdef inline void convert_add_section(Octets* o, int code) noexcept nogil:
    cdef uint8_t* p = extend_octets(o, 3)
    if p != NULL:
        p[0] = 0
        p[1] = AMQP10_CODE_SMALLULONG
        p[2] = <uint8_t>code


cdef void convert_rewrite_section(const Converter* x, Octets* o, int code, const Span* section) noexcept nogil:
    """A section that was given whole. Empty sections except a header, and nulls at the end of a list, are omitted."""
    cdef Amqp10Items items
    cdef Amqp10ValueView v, inner
    cdef size_t mark, end, before
    cdef uint32_t fields = 0, i = 0
    if section.at == NULL:
        return
    amqp10_read(section.at, &v)
    if code >= AMQP10_SECTION_DATA and code <= AMQP10_SECTION_AMQP_VALUE:
        convert_add_section(o, code)
        convert_rewrite(x, o, &v)
        return
    if v.type != AMQP10_LIST:
        if v.count:
            convert_add_section(o, code)
            convert_rewrite(x, o, &v)
        return
    before = o.size
    convert_add_section(o, code)
    mark = amqp10_open(o)
    end = o.size
    items = amqp10_items(&v)
    while amqp10_next(&items, &inner):
        convert_rewrite(x, o, &inner)
        i += 1
        if inner.type != AMQP10_NULL:
            fields = i
            end = o.size
    if fields == 0 and code != AMQP10_SECTION_HEADER:
        o.size = before
        return
    o.size = end
    amqp10_close(o, mark, AMQP10_CODE_LIST8, fields)


cdef void convert_rewrite_sections(const Converter* x, Octets* o, Span body) noexcept nogil:
    """Body sections."""
    cdef const uint8_t* at = body.at
    cdef Amqp10Section section
    cdef Span s
    while amqp10_next_section(&at, body.at + body.size, &section):
        s.at = section.at
        s.size = <uint32_t>(section.end - section.at)
        if AMQP10_SECTION_DATA <= section.code <= AMQP10_SECTION_AMQP_VALUE:
            convert_rewrite_section(x, o, section.code, &s)


# ------------------------------------------------------------------------------------------------ AMQP 0.9.1 encoded again

cdef void convert_rewrite_entry(Octets* o, const Amqp091Entry* e) noexcept nogil:
    """Encode a value as RabbitMQ does after reading it: L becomes l, and any value other than false is 1."""
    cdef Cursor c = cursor_over(e.at, e.size)
    cdef Amqp091Entry inner
    cdef bint named = e.letter == c"F"
    cdef size_t opened
    add_u8(o, c"l" if e.letter == c"L" else e.letter)
    if named or e.letter == c"A":
        opened = amqp091_open(o)
        while amqp091_next_entry(&c, named, &inner):
            if named:
                amqp091_add_name(o, inner.name.at, <uint8_t>inner.name.size)
            convert_rewrite_entry(o, &inner)
        amqp091_close(o, opened)
    elif e.letter == c"t":
        add_u8(o, e.at[0] != 0)
    else:
        if amqp091_letter_size[e.letter] == AMQP091_VARIABLE:
            add_u32(o, e.size)
        add_octets(o, e.at, e.size)
