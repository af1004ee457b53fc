# AMQP 1.0 values as text, for columns: strings and symbols unchanged, numbers in digits, lists, maps, arrays and
# described values as JSON. Octets that are not text (binaries, and strings that only LAX accepts) are hexadecimal.
#
# The text of a value has at most 48 times the size of the value. Therefore no text is quoted twice: a map with a key that is a
# list, map, array or described value is an array of pairs, [[key, value], ...], not an object. And values in the head of an array
# are written once: the descriptor of its elements ({"descriptor": ..., "values": [...]}), and elements without
# octets ({"repeat": n, "of": ...}).
from wirefmt._core.floats cimport FLOAT_SIZE, write_float
from wirefmt._core.octets cimport Octets, add_octets, add_u8, free_octets, octets_over


cdef enum:
    AMQP10_SHOWN_REPEATS = 16       # more elements without octets are counted, not written
    AMQP10_SHORT_CAPACITY = FLOAT_SIZE  # octets of a number as text


# ------------------------------------------------------------------------------------------------ text

cdef void amqp10_add_text(Octets* o, const Amqp10ValueView* v) noexcept nogil:
    """A value as text of its own column: null is empty."""
    cdef uint8_t[UUID_SIZE] uuid
    if amqp10_is_text(v):
        amqp10_add_octets_text(o, v.body, v.size, True)
    elif v.type == AMQP10_BINARY:
        amqp10_add_octets_text(o, v.body, v.size, False)
    elif AMQP10_DECIMAL32 <= v.type <= AMQP10_DECIMAL128:
        add_hex(o, v.body, v.size)
    elif v.type == AMQP10_UUID:
        write_uuid(v.body, uuid)
        add_octets(o, uuid, UUID_SIZE)
    elif v.type == AMQP10_CHAR:
        amqp10_add_char(o, <uint32_t>amqp10_unsigned(v))
    elif v.type != AMQP10_NULL:
        amqp10_add_json(o, v)


cdef void amqp10_add_json(Octets* o, const Amqp10ValueView* v) noexcept nogil:
    """A value as JSON. Nested as deep as the parser lets be."""
    cdef uint8_t[AMQP10_SHORT_CAPACITY] short
    if v.type >= AMQP10_LIST:
        amqp10_add_compound_json(o, v)
    elif v.type == AMQP10_NULL:
        add_octets(o, <const uint8_t*>b"null", 4)
    elif amqp10_is_short(v.type):
        add_octets(o, short, <size_t>amqp10_short_text(v, short))
    else:
        amqp10_add_quoted(o, v)


cdef void amqp10_add_compound_json(Octets* o, const Amqp10ValueView* v) noexcept nogil:
    cdef Amqp10ValueView item
    if v.type == AMQP10_ARRAY:
        amqp10_add_array_json(o, v)
    elif v.type == AMQP10_MAP:
        amqp10_add_map_json(o, v)
    elif v.type == AMQP10_DESCRIBED:
        add_octets(o, <const uint8_t*>b'{"descriptor":', 14)
        amqp10_read(amqp10_descriptor(v), &item)
        amqp10_add_json(o, &item)
        add_octets(o, <const uint8_t*>b',"value":', 9)
        amqp10_described(v, &item)
        amqp10_add_json(o, &item)
        add_u8(o, c"}")
    else:
        amqp10_add_elements_json(o, v)


cdef void amqp10_add_elements_json(Octets* o, const Amqp10ValueView* v) noexcept nogil:
    """The elements of a list or array."""
    cdef Amqp10Items items = amqp10_items(v)
    cdef Amqp10ValueView item
    cdef bint first = True
    add_u8(o, c"[")
    while amqp10_next(&items, &item):
        if not first:
            add_u8(o, c",")
        first = False
        amqp10_add_json(o, &item)
    add_u8(o, c"]")


cdef void amqp10_add_array_json(Octets* o, const Amqp10ValueView* v) noexcept nogil:
    cdef Amqp10ValueView item = v[0]
    cdef Amqp10Items items
    cdef uint8_t[AMQP10_SHORT_CAPACITY] short
    if v.inner[0] == 0:                     # one descriptor for all elements
        add_octets(o, <const uint8_t*>b'{"descriptor":', 14)
        amqp10_read(v.inner + 1, &item)
        amqp10_add_json(o, &item)
        add_octets(o, <const uint8_t*>b',"values":', 10)
        item = v[0]
        item.inner = amqp10_skip(v.inner + 1)
        amqp10_add_array_json(o, &item)
        add_u8(o, c"}")
    elif v.size == 0 and v.count > AMQP10_SHOWN_REPEATS:
        items = amqp10_items(v)
        amqp10_next(&items, &item)
        add_octets(o, <const uint8_t*>b'{"repeat":', 10)
        add_octets(o, short, <size_t>write_digits(False, v.count, short))
        add_octets(o, <const uint8_t*>b',"of":', 6)
        amqp10_add_json(o, &item)
        add_u8(o, c"}")
    else:
        amqp10_add_elements_json(o, v)


cdef void amqp10_add_map_json(Octets* o, const Amqp10ValueView* v) noexcept nogil:
    """An object, if all keys are scalars; else an array of pairs."""
    cdef Amqp10Items items = amqp10_items(v)
    cdef Amqp10ValueView key, item
    cdef bint pairs = False, first = True
    while amqp10_next(&items, &key) and amqp10_next(&items, &item):
        pairs = pairs or key.type >= AMQP10_LIST
    items = amqp10_items(v)
    add_u8(o, c"[" if pairs else c"{")
    while amqp10_next(&items, &key) and amqp10_next(&items, &item):
        if not first:
            add_u8(o, c",")
        first = False
        if pairs:
            add_u8(o, c"[")
            amqp10_add_json(o, &key)
            add_u8(o, c",")
        else:
            amqp10_add_quoted(o, &key)
            add_u8(o, c":")
        if o.hides and amqp10_is_secret_key(&key):
            amqp10_add_hidden(o)
        else:
            amqp10_add_json(o, &item)
        if pairs:
            add_u8(o, c"]")
    add_u8(o, c"]" if pairs else c"}")


cdef inline bint amqp10_is_secret_key(const Amqp10ValueView* key) noexcept nogil:
    return amqp10_is_text(key) and is_secret_name(key.body, key.size)


cdef bint amqp10_holds_secret(const Amqp10ValueView* v) noexcept nogil:
    """Is an entry of a map in the (checked) value secret?"""
    cdef Amqp10Items items
    cdef Amqp10ValueView item
    cdef bint key = True
    if v.type == AMQP10_DESCRIBED:
        amqp10_described(v, &item)
        return amqp10_holds_secret(&item)
    if v.type < AMQP10_LIST or v.size == 0:
        return False
    items = amqp10_items(v)
    while amqp10_next(&items, &item):
        if v.type == AMQP10_MAP and key and amqp10_is_secret_key(&item):
            return True
        key = not key
        if item.type >= AMQP10_LIST and amqp10_holds_secret(&item):
            return True
    return False


cdef bint amqp10_secret_message(const Amqp10MessageView* m) noexcept nogil:
    """Does a message hold a secret outside its body?"""
    cdef const uint8_t* at
    cdef Amqp10ValueView v
    cdef int code
    for code in range(AMQP10_SECTION_FIRST, AMQP10_SECTION_FIRST + 9):
        at = m.at[code - AMQP10_SECTION_FIRST]
        if at != NULL and (code < AMQP10_SECTION_DATA or code > AMQP10_SECTION_AMQP_VALUE):
            amqp10_read(at, &v)
            if amqp10_holds_secret(&v):
                return True
    return False


cdef void amqp10_add_hidden(Octets* o) noexcept nogil:
    """The placeholder of a secret, in JSON."""
    add_u8(o, c'"')
    add_octets(o, SECRET_SHOWN_TEXT.at, <size_t>SECRET_SHOWN_TEXT.size)
    add_u8(o, c'"')


cdef void amqp10_add_quoted(Octets* o, const Amqp10ValueView* v) noexcept nogil:
    """The text of a scalar as a JSON string."""
    cdef uint8_t[512] start
    cdef Octets text = octets_over(start, sizeof(start))
    text.hides = o.hides
    amqp10_add_text(&text, v)
    amqp10_add_json_string(o, &text)
    free_octets(&text)


cdef void amqp10_add_json_string(Octets* o, const Octets* text) noexcept nogil:
    """A JSON string of UTF-8."""
    if text.failed:
        o.failed = True
    else:
        add_json_string(o, text.at, text.size, False)


cdef void amqp10_add_octets_text(Octets* o, const uint8_t* p, size_t n, bint nul) noexcept nogil:
    """Octets as they are if they are text (U+0000 is if `nul`), else hex_text of them."""
    cdef uint8_t[HEX_SIZE] scratch
    cdef size_t bad = 0, at = 0
    cdef int found = check_utf8(p, n, &bad)
    while found == UTF8_NUL and nul:
        at += bad + 1
        found = check_utf8(p + at, n - at, &bad)
    if found == UTF8_OK:
        add_octets(o, p, n)
    else:
        add_octets(o, scratch, hex_text(p, <uint32_t>n, scratch))


cdef void amqp10_add_char(Octets* o, uint32_t c) noexcept nogil:
    """As UTF-8; a surrogate (LAX) has none."""
    cdef uint8_t[4] scratch
    if 0xD800 <= c < 0xE000:
        c = 0xFFFD
    add_octets(o, scratch, store_utf8(c, scratch))


cdef inline bint amqp10_is_short(int type) noexcept nogil:
    """Booleans and numbers: their text is short, and the same in JSON."""
    return AMQP10_BOOLEAN <= type <= AMQP10_LONG or type == AMQP10_TIMESTAMP or type == AMQP10_FLOAT or type == AMQP10_DOUBLE


cdef int amqp10_short_text(const Amqp10ValueView* v, uint8_t* out) noexcept nogil:
    """The text of a boolean or number in `out` (AMQP10_SHORT_ROOM); octets written. 0: another type."""
    cdef bint true
    if not amqp10_is_short(v.type):
        return 0
    if v.type == AMQP10_BOOLEAN:
        true = amqp10_unsigned(v) != 0
        memcpy(out, b"true" if true else b"false", 4 if true else 5)
        return 4 if true else 5
    if v.type == AMQP10_FLOAT or v.type == AMQP10_DOUBLE:
        return write_float(amqp10_unsigned(v), v.type == AMQP10_DOUBLE, out)
    if v.type < AMQP10_BYTE:
        return write_digits(False, amqp10_unsigned(v), out)
    return write_signed(amqp10_signed(v), out)
