# AMQP 1.0: (checked) values in columns, each by the form of its column.


cdef enum Amqp10Form:               # how a field is put to its column
    AMQP10_FORM_NONE = 0            # no column, or another function puts it
    AMQP10_FORM_BOOLEAN
    AMQP10_FORM_I8
    AMQP10_FORM_I16
    AMQP10_FORM_I32
    AMQP10_FORM_I64
    AMQP10_FORM_TEXT
    AMQP10_FORM_BINARY
    AMQP10_FORM_LIST
    AMQP10_FORM_MAP


# The forms by the type of the column.
cdef dict AMQP10_FORMS = {
    "boolean": AMQP10_FORM_BOOLEAN, "int16": AMQP10_FORM_I16, "int32": AMQP10_FORM_I32,
    "int64": AMQP10_FORM_I64, "string": AMQP10_FORM_TEXT, "binary": AMQP10_FORM_BINARY,
    "list<string>": AMQP10_FORM_LIST, "map<string,string>": AMQP10_FORM_MAP,
}


# ------------------------------------------------------------------------------------------------ texts

cdef void amqp10_put_text(Col* c, int64_t row, const Amqp10ValueView* v) noexcept nogil:
    """Put a value to a string column."""
    cdef Octets o
    cdef uint8_t[512] start
    if not c.on:
        return
    if amqp10_is_text(v) and is_ascii(v.body, v.size):
        put_octets(c, row, v.body, v.size)
        return
    o = octets_over(start, sizeof(start))
    o.hides = not c.shared.exposed
    amqp10_add_text(&o, v)
    amqp10_put_written(c, row, &o)


cdef inline void amqp10_put_text_at(Col* c, int64_t row, const uint8_t* at, bint plain) noexcept nogil:
    """The (checked) value at `at` in a string column. plain: it is ASCII if it is a text."""
    cdef Amqp10ValueView v
    cdef Span text
    if not c.on:
        return
    if amqp10_ascii_at(at, plain, &text):
        put_octets(c, row, text.at, text.size)
        return
    amqp10_read(at, &v)
    amqp10_put_text(c, row, &v)


cdef void amqp10_put_written(Col* c, int64_t row, Octets* o) noexcept nogil:
    """Put the written text, and free it. The batch fails if memory has run out."""
    if o.failed:
        c.shared.no_memory = True
    else:
        put_octets(c, row, <const uint8_t*>o.at if o.size else <const uint8_t*>b"", <int64_t>o.size)
    free_octets(o)


# ------------------------------------------------------------------------------------------------ maps

cdef void amqp10_put_entry(Col* map, int64_t row, const Amqp10ValueView* key, const Amqp10ValueView* v) noexcept nogil:
    """An entry of the row's map<string,string>; a value that is null is empty."""
    cdef Octets o
    cdef uint8_t[512] start
    cdef uint8_t[AMQP10_SHORT_CAPACITY] short
    cdef size_t named
    cdef int n
    if not map.on:
        return
    if amqp10_is_text(key) and is_ascii(key.body, key.size):
        if amqp10_is_text(v):
            if is_ascii(v.body, v.size):
                put_map(map, row, key.body, key.size, v.body, v.size)
                return
        else:
            n = amqp10_short_text(v, short)
            if n or v.type == AMQP10_NULL:
                put_map(map, row, key.body, key.size, short, n)
                return
    o = octets_over(start, sizeof(start))
    o.hides = not map.shared.exposed
    amqp10_add_text(&o, key)
    named = o.size
    if o.hides and amqp10_is_secret_key(key):
        add_octets(&o, SECRET_SHOWN_TEXT.at, <size_t>SECRET_SHOWN_TEXT.size)
    else:
        amqp10_add_text(&o, v)
    if o.failed:
        map.shared.no_memory = True
    else:
        put_map(map, row, o.at, <int64_t>named, o.at + named, <int64_t>(o.size - named))
    free_octets(&o)


cdef void amqp10_put_entries(Col* map, int64_t row, const uint8_t* at, bint plain, const uint8_t* end) noexcept nogil:
    """The (checked) map at `at` as the row's map, in order; an empty one is an empty map, not null. plain: all its texts are
    ASCII. `end` of the readable memory; NULL: not known."""
    cdef MapWriter w
    cdef Amqp10ValueView v, key
    cdef Span name, text
    cdef uint8_t[AMQP10_SHORT_CAPACITY] short
    cdef const uint8_t* value
    cdef int64_t entries
    cdef uint32_t left_
    cdef int n
    if not map.on:
        return
    amqp10_read(at, &v)
    at = v.body
    left_ = v.count >> 1
    if left_ == 0:
        entries = open_list(map, row)
        if entries >= 0:
            close_list(map, entries)
        return
    begin_map(&w, map, row, end)
    while left_:
        left_ -= 1
        if amqp10_ascii_at(at, plain, &name):
            value = name.at + name.size
            if amqp10_ascii_at(value, plain, &text):
                add_entry(&w, name.at, name.size, text.at, text.size)
                at = text.at + text.size
                continue
            if value[0] == AMQP10_CODE_SMALLLONG or value[0] == AMQP10_CODE_LONG:       # as most numbers are
                n = write_signed(<int8_t>value[1] if value[0] == AMQP10_CODE_SMALLLONG else <int64_t>load_u64(value + 1), short)
                v.end = amqp10_skip(value)
            else:
                amqp10_read(value, &v)
                n = amqp10_short_text(&v, short)
            if n:
                add_entry_of(&w, name.at, name.size, short, n)
                at = v.end
                continue
        end_map(&w)
        amqp10_read(at, &key)
        amqp10_read(key.end, &v)
        amqp10_put_entry(map, row, &key, &v)
        begin_map(&w, map, row, end)
        at = v.end
    end_map(&w)


# ------------------------------------------------------------------------------------------------ any

cdef void amqp10_put_symbols_at(Col* c, int64_t row, const uint8_t* symbols) noexcept nogil:
    """A field that may be one symbol or an array of them (1.4), in a list."""
    cdef Amqp10Items items
    cdef Amqp10ValueView v, item
    cdef int64_t at
    amqp10_read(symbols, &v)
    if v.type != AMQP10_ARRAY and v.type != AMQP10_SYMBOL:
        return
    at = open_list(c, row)
    if at < 0:
        return
    if v.type == AMQP10_SYMBOL:
        amqp10_put_text(c.children, at, &v)
        at += 1
    elif v.size:                            # otherwise its elements have no octets, so they are not symbols
        items = amqp10_items(&v)
        while amqp10_next(&items, &item):
            amqp10_put_text(c.children, at, &item)
            at += 1
    close_list(c, at)


cdef void amqp10_put_any_as(Col* c, int64_t row, int form, const uint8_t* at, bint plain) noexcept nogil:
    """amqp10_put_as to a column that is on."""
    cdef const Amqp10ConstructorRow* read = &amqp10_constructors[at[0]]     # of no type: a described value
    cdef size_t head
    if form == AMQP10_FORM_TEXT:
        amqp10_put_text_at(c, row, at, plain)
    elif form == AMQP10_FORM_I64:
        if AMQP10_UBYTE <= read.type <= AMQP10_ULONG or read.type == AMQP10_TIMESTAMP:
            put_i64(c, row, <int64_t>amqp10_fixed_at(read, at))
    elif form == AMQP10_FORM_BOOLEAN:
        if read.type == AMQP10_BOOLEAN:
            put_bool(c, row, at[0] == AMQP10_CODE_TRUE or amqp10_fixed_at(read, at) != 0)
    elif form == AMQP10_FORM_BINARY:
        if AMQP10_BINARY <= read.type <= AMQP10_SYMBOL:
            head = <size_t>1 + read.width
            put_octets(c, row, at + head, at[1] if read.width == 1 else load_u32(at + 1))
    elif form == AMQP10_FORM_I16:
        if read.type == AMQP10_UBYTE:
            put_i16(c, row, at[1])
    elif form == AMQP10_FORM_I32:
        if read.type == AMQP10_UBYTE or read.type == AMQP10_USHORT:
            put_i32(c, row, <int32_t>amqp10_fixed_at(read, at))
    elif form == AMQP10_FORM_LIST:
        amqp10_put_symbols_at(c, row, at)
    elif form == AMQP10_FORM_MAP and read.type == AMQP10_MAP:
        amqp10_put_entries(c, row, at, False, NULL)


cdef inline void amqp10_put_as(Col* c, int64_t row, int form, const uint8_t* at, bint plain) noexcept nogil:
    """Put the (checked) value at `at` to a column; null if it is of a type (LAX) that the column cannot have. plain: it is ASCII
    if it is a text. The usual constructors need no row of their table."""
    cdef uint8_t code = at[0]
    if not c.on:
        return
    if (form == AMQP10_FORM_TEXT and plain and (code == AMQP10_CODE_STR8 or code == AMQP10_CODE_SYM8)) or \
            (form == AMQP10_FORM_BINARY and code == AMQP10_CODE_VBIN8):
        put_octets(c, row, at + 2, at[1])
    elif form == AMQP10_FORM_BOOLEAN and (code == AMQP10_CODE_TRUE or code == AMQP10_CODE_FALSE):
        put_bool(c, row, code == AMQP10_CODE_TRUE)
    elif form == AMQP10_FORM_I64 and AMQP10_CODE_SMALLUINT <= code <= AMQP10_CODE_SMALLULONG:
        put_i64(c, row, at[1])
    else:
        amqp10_put_any_as(c, row, form, at, plain)
