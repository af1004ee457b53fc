# Field values of AMQP 0.9.1 as text, for columns: strings unchanged, numbers in digits, tables and arrays as JSON.
#
# Octets that are not text are shown in hexadecimal, as in all columns (text_or_hex).
from libc.stdio cimport snprintf
from wirefmt._core.floats cimport FLOAT_SIZE, write_float


cdef void amqp091_put_text(Col* c, int64_t row, const Span* s) noexcept nogil:
    """A string column. An absent span leaves the row null."""
    cdef uint8_t[HEX_SIZE] scratch
    cdef Span shown
    if not c.on or s.at == NULL:
        return
    if is_plain_text(s.at, s.size):
        put_octets(c, row, s.at, s.size)
        return
    text_or_hex(s, scratch, &shown)
    put_octets(c, row, shown.at, shown.size)


cdef void amqp091_add_plain(Octets* o, const uint8_t* p, uint32_t size) noexcept nogil:
    """A string as text."""
    cdef uint8_t[HEX_SIZE] scratch
    cdef Span octets, shown
    octets.at = p
    octets.size = size
    text_or_hex(&octets, scratch, &shown)
    add_octets(o, shown.at, shown.size)


cdef void amqp091_add_entry(MapWriter* w, const Span* name, const Amqp091Entry* e) noexcept nogil:
    """Add an entry of a table to a map. Most are strings or integers, whose text needs no memory."""
    cdef uint8_t[DIGITS_CAPACITY] digits
    cdef const uint8_t* text = NULL
    cdef int64_t size = 0, number = 0
    cdef size_t bad = 0
    if check_utf8(name.at, name.size, &bad) == UTF8_OK:
        if e.letter == c"S":
            if check_utf8(e.at, e.size, &bad) == UTF8_OK:
                text = e.at
                size = e.size
        elif amqp091_entry_number(e, &number):
            text = digits
            size = write_signed(number, digits)
    if text != NULL:
        add_entry_of(w, name.at, name.size, text, size)
    else:
        amqp091_add_made(w, name, e)


cdef void amqp091_add_made(MapWriter* w, const Span* name, const Amqp091Entry* e) noexcept nogil:
    """Add an entry whose text must be written."""
    cdef Octets o
    cdef uint8_t[512] start
    cdef size_t named
    o = octets_over(start, sizeof(start))
    o.hides = not w.map.shared.exposed
    amqp091_add_plain(&o, name.at, name.size)
    named = o.size
    if not amqp091_add_hidden(&o, name, False):
        amqp091_add_text(&o, e)
    if o.failed:
        w.map.shared.no_memory = True
    else:
        add_entry_of(w, o.at, <int64_t>named, o.at + named, <int64_t>(o.size - named))
    free_octets(&o)


cdef void amqp091_put_table(Col* map, int64_t row, const uint8_t* p) noexcept nogil:
    """Put the table whose length is at `p` to the row's map: names and texts, in order, with repeats."""
    cdef MapWriter w
    cdef Amqp091Entry e
    cdef Cursor c = amqp091_entries(p)
    cdef int64_t entries
    if not map.on:
        return
    if c.at == c.end:                       # an empty table is an empty map, not null
        entries = open_list(map, row)
        if entries >= 0:
            close_list(map, entries)
        return
    begin_map(&w, map, row, NULL)
    while amqp091_next_entry(&c, True, &e):
        amqp091_add_entry(&w, &e.name, &e)
    end_map(&w)


cdef inline bint amqp091_entry_number(const Amqp091Entry* e, int64_t* out) noexcept nogil:
    """The value of an entry that is an integer: b B s u I i l L."""
    if e.letter == c"b":
        out[0] = <int8_t>e.at[0]
    elif e.letter == c"B":
        out[0] = e.at[0]
    elif e.letter == c"s":
        out[0] = <int16_t>load_u16(e.at)
    elif e.letter == c"u":
        out[0] = load_u16(e.at)
    elif e.letter == c"I":
        out[0] = <int32_t>load_u32(e.at)
    elif e.letter == c"i":
        out[0] = load_u32(e.at)
    elif e.letter == c"l" or e.letter == c"L":
        out[0] = <int64_t>load_u64(e.at)
    else:
        return False
    return True


cdef void amqp091_add_text(Octets* o, const Amqp091Entry* e) noexcept nogil:
    """A value as the text of a column: void is empty, octets (x) are hex."""
    if e.letter == c"S":
        amqp091_add_plain(o, e.at, e.size)
    elif e.letter == c"x":
        add_hex(o, e.at, e.size)
    elif e.letter != c"V":
        amqp091_add_json(o, e)


cdef void amqp091_add_json(Octets* o, const Amqp091Entry* e) noexcept nogil:
    """A value as JSON: octets (x) are a string of hex, NaN and infinities strings. The parser limits the nesting."""
    if e.letter == c"S":
        amqp091_add_string(o, e.at, e.size)
    elif e.letter == c"F" or e.letter == c"A":
        amqp091_add_members(o, e.at - 4, e.letter == c"F")
    elif e.letter == c"x":
        add_u8(o, c'"')
        add_hex(o, e.at, e.size)
        add_u8(o, c'"')
    elif e.letter == c"V":
        add_octets(o, <const uint8_t*>b"null", 4)
    elif e.letter == c"t":
        add_octets(o, <const uint8_t*>(b"true" if e.at[0] else b"false"), 4 if e.at[0] else 5)
    elif e.letter == c"D":
        amqp091_add_decimal(o, e.at[0], load_u32(e.at + 1))
    elif e.letter == c"d" or e.letter == c"f":
        amqp091_add_float(o, e)
    else:
        amqp091_add_integer(o, e)


cdef void amqp091_add_members(Octets* o, const uint8_t* p, bint named) noexcept nogil:
    """The table or array whose length is at `p`."""
    cdef Cursor c = amqp091_entries(p)
    cdef Amqp091Entry e
    cdef bint first = True
    add_u8(o, c"{" if named else c"[")
    while amqp091_next_entry(&c, named, &e):
        if not first:
            add_u8(o, c",")
        first = False
        if named:
            amqp091_add_string(o, e.name.at, e.name.size)
            add_u8(o, c":")
        if not amqp091_add_hidden(o, &e.name, True):
            amqp091_add_json(o, &e)
    add_u8(o, c"}" if named else c"]")


cdef inline bint amqp091_add_hidden(Octets* o, const Span* name, bint quoted) noexcept nogil:
    """Write the placeholder if an entry of this name is secret and secrets are hidden."""
    if not o.hides or name.at == NULL or not is_secret_name(name.at, name.size):
        return False
    if quoted:
        add_u8(o, c'"')
    add_octets(o, SECRET_SHOWN_TEXT.at, <size_t>SECRET_SHOWN_TEXT.size)
    if quoted:
        add_u8(o, c'"')
    return True


cdef bint amqp091_holds_secret(const uint8_t* p, bint named) noexcept nogil:
    """Is an entry of the table or array whose length is at `p` secret, or a nested one?"""
    cdef Cursor c = amqp091_entries(p)
    cdef Amqp091Entry e
    while amqp091_next_entry(&c, named, &e):
        if named and is_secret_name(e.name.at, e.name.size):
            return True
        if (e.letter == c"F" or e.letter == c"A") and amqp091_holds_secret(e.at - 4, e.letter == c"F"):
            return True
    return False


cdef void amqp091_add_string(Octets* o, const uint8_t* p, uint32_t size) noexcept nogil:
    """A JSON string."""
    cdef uint8_t[HEX_SIZE] scratch
    cdef Span octets, s
    octets.at = p
    octets.size = size
    text_or_hex(&octets, scratch, &s)
    add_json_string(o, s.at, s.size, False)


cdef void amqp091_add_integer(Octets* o, const Amqp091Entry* e) noexcept nogil:
    """An integer or a timestamp in digits."""
    cdef uint8_t[DIGITS_CAPACITY] text
    cdef int64_t v = 0
    if amqp091_entry_number(e, &v):
        add_octets(o, text, <size_t>write_signed(v, text))
    else:
        add_octets(o, text, <size_t>write_digits(False, load_u64(e.at), text))


cdef void amqp091_add_decimal(Octets* o, int scale, uint32_t unscaled) noexcept nogil:
    """Write `unscaled` with all `scale` decimals."""
    cdef char[272] text
    cdef int n = snprintf(text, sizeof(text), "%0*u", scale + 1, <unsigned int>unscaled)
    add_octets(o, <const uint8_t*>text, <size_t>(n - scale))
    if scale:
        add_u8(o, c".")
        add_octets(o, <const uint8_t*>text + n - scale, <size_t>scale)


cdef void amqp091_add_float(Octets* o, const Amqp091Entry* e) noexcept nogil:
    cdef uint8_t[FLOAT_SIZE] text
    cdef bint wide = e.letter == c"d"
    add_octets(o, text, <size_t>write_float(load_u64(e.at) if wide else load_u32(e.at), wide, text))
