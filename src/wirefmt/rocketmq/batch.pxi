# RocketMQ frames -> columns: decode_batch for one stream, and what rows of the message table share with it.
#
# Both use rocketmq_parse, so they agree with the objects.
from wirefmt.rocketmq.spec import LANGUAGES as ROCKETMQ_LANGUAGE_NAMES
from wirefmt.rocketmq.columns import BATCH as ROCKETMQ_BATCH_COLUMNS


cdef struct RocketmqScratch:        # holds unescaped text; grows; its owner frees it
    uint8_t* p
    size_t capacity
    uint8_t* start                  # the caller's memory that it began with, not to be freed; NULL: none
    bint failed                     # memory ran out


cdef Text[2] ROCKETMQ_SERIALIZE_TEXT
cdef Text[ROCKETMQ_LANGUAGES] ROCKETMQ_LANGUAGE_TEXT


cdef int fill_rocketmq_names() except -1:
    cdef int i
    ROCKETMQ_SERIALIZE_TEXT[0] = pad_text(b"JSON")
    ROCKETMQ_SERIALIZE_TEXT[1] = pad_text(b"ROCKETMQ")
    for i in range(ROCKETMQ_LANGUAGES):
        ROCKETMQ_LANGUAGE_TEXT[i] = pad_text(ROCKETMQ_LANGUAGE_NAMES[i].encode())
    return 0


fill_rocketmq_names()


# ------------------------------------------------------------------------------------------------ texts as UTF-8

cdef bint rocketmq_reserve(RocketmqScratch* scratch, size_t n) noexcept nogil:
    cdef void* p
    if n <= scratch.capacity:
        return True
    n = max(n, 2 * scratch.capacity, <size_t>4096)
    p = realloc(NULL if scratch.p == scratch.start else scratch.p, n)       # discards the contents
    if p == NULL:
        scratch.failed = True
        return False
    scratch.p = <uint8_t*>p
    scratch.capacity = n
    return True


cdef inline void rocketmq_lend(RocketmqScratch* scratch, uint8_t* start, size_t capacity) noexcept nogil:
    """Begin with the caller's memory, which lives until rocketmq_drop_scratch."""
    scratch.p = scratch.start = start
    scratch.capacity = capacity


cdef inline void rocketmq_drop_scratch(RocketmqScratch* scratch) noexcept nogil:
    if scratch.p != scratch.start:
        free(scratch.p)
    memset(scratch, 0, sizeof(RocketmqScratch))


cdef inline bint rocketmq_plain(const RocketmqText* t, RocketmqScratch* scratch, Span* out) noexcept nogil:
    """A text as valid UTF-8: in place, or in `scratch`, which the next text overwrites. False: null."""
    if t.form == ROCKETMQ_OCTETS and is_ascii(t.at, t.size):
        out.at = t.at
        out.size = t.size
        return True
    return rocketmq_make_plain(t, scratch, out)


cdef inline bint rocketmq_plain_of(const RocketmqFrameView* m, const RocketmqText* t, RocketmqScratch* scratch,
                                   Span* out) noexcept nogil:
    """rocketmq_plain for a text of a header, which may be known to be ASCII as a whole."""
    if m.ascii and t.form == ROCKETMQ_OCTETS:
        out.at = t.at
        out.size = t.size
        return True
    return rocketmq_plain(t, scratch, out)


cdef bint rocketmq_make_plain(const RocketmqText* t, RocketmqScratch* scratch, Span* out) noexcept nogil:
    """rocketmq_plain for texts that must be rewritten."""
    cdef size_t bad = 0
    if t.form == ROCKETMQ_NULL:
        return False
    if t.form == ROCKETMQ_VALUE:
        return rocketmq_java_plain(t, scratch, out)
    out.at = t.at
    out.size = t.size
    if t.form == ROCKETMQ_ESCAPED:
        if not rocketmq_reserve(scratch, t.size):
            return False
        out.size = <uint32_t>rocketmq_unescape(t.at, t.size, scratch.p)
        out.at = scratch.p
    if is_ascii(out.at, out.size) or is_utf8(out.at, out.size, &bad):
        return True
    return rocketmq_replace(scratch, out)


cdef bint rocketmq_replace(RocketmqScratch* scratch, Span* out) noexcept with gil:
    """Ill-formed UTF-8, as Python decodes it. It is rare."""
    try:
        octets = PyUnicode_DecodeUTF8(<const char*>out.at, out.size, "replace").encode("utf-8")
        return rocketmq_keep(octets, scratch, out)
    except Exception:
        return False


cdef bint rocketmq_java_plain(const RocketmqText* t, RocketmqScratch* scratch, Span* out) noexcept with gil:
    """A JSON value that is not a string: the same text as in the object. It is rare."""
    try:
        return rocketmq_keep(rocketmq_text(t).encode("utf-8"), scratch, out)
    except Exception:
        return False


cdef bint rocketmq_keep(bytes octets, RocketmqScratch* scratch, Span* out) except -1:
    cdef size_t n = <size_t>PyBytes_GET_SIZE(octets)
    if not rocketmq_reserve(scratch, n):
        return False
    memcpy(scratch.p, PyBytes_AS_STRING(octets), n)
    out.at = scratch.p
    out.size = <uint32_t>n
    return True


cdef inline void rocketmq_put_text(Col* c, int64_t row, const RocketmqText* t, RocketmqScratch* scratch) noexcept nogil:
    cdef Span plain
    if t.form == ROCKETMQ_NULL or not c.on:
        return
    if rocketmq_plain(t, scratch, &plain):
        put_octets(c, row, plain.at, plain.size)
    elif scratch.failed:
        c.shared.no_memory = True


cdef inline bint rocketmq_is_near(const RocketmqFrameView* m, const RocketmqText* key, const RocketmqText* value) noexcept nogil:
    """Are name and value of an entry valid UTF-8 where they stand?"""
    return (key.form == ROCKETMQ_OCTETS and value.form == ROCKETMQ_OCTETS
            and (m.ascii or (is_ascii(key.at, key.size) and is_ascii(value.at, value.size))))


cdef MapWriter rocketmq_put_field(MapWriter map, bint letters, const Span* name, Span* text) noexcept nogil:
    """Put an entry of extFields into a map. `letters`: rocketmq_letters of the code. A properties string with a secret is hidden;
    `text` is shown in its place."""
    if (rocketmq_is_properties(letters, name.at, name.size) and not map.exposed
            and rocketmq_secret_properties(text.at, text.size)):
        text.at = SECRET_SHOWN_TEXT.at
        text.size = <uint32_t>SECRET_SHOWN_TEXT.size
    if map.map.on:
        add_entry_of(&map, name.at, name.size, text.at, text.size)
    return map


# ------------------------------------------------------------------------------------------------ decode_batch

cdef class BatchColumns(FrameBatch):
    """The columns of decode_batch while they are built."""

    cdef uint32_t max_frame_size, max_elements
    cdef bint payload
    cdef RocketmqScratch names, values

    def __dealloc__(self):
        free(self.names.p)
        free(self.values.p)

    cdef void put(self, int64_t offset, const RocketmqFrameView* m, const RocketmqFields* fields) noexcept nogil:
        cdef Col* c = self.cols
        cdef int64_t row = self.row
        self.put_place(offset, m.size)
        put_i32(c + RB_CODE, row, m.code)
        put_i32(c + RB_FLAG, row, m.flag)
        if m.has_opaque:
            put_i32(c + RB_SEQUENCE, row, m.opaque)
        if m.language >= 0:
            put_text(c + RB_LANGUAGE, row, &ROCKETMQ_LANGUAGE_TEXT[m.language])
        put_i32(c + RB_VERSION, row, m.version)
        put_text(c + RB_SERIALIZE_TYPE, row, &ROCKETMQ_SERIALIZE_TEXT[m.serialize_type])
        if m.remark.form != ROCKETMQ_NULL:
            rocketmq_put_text(c + RB_REMARK, row, &m.remark, &self.values)
        if m.ext.at != NULL and (c[<int>RB_EXT_FIELDS].on or c[<int>RB_DESTINATION].on or c[<int>RB_PROPERTIES].on):
            self.put_fields(row, m, fields)
        if self.payload and m.body.at != NULL and (self.shared.exposed or not rocketmq_secret_body(m)):
            put_octets(c + RB_PAYLOAD, row, m.body.at, m.body.size)

    cdef void put_fields(self, int64_t row, const RocketmqFrameView* m, const RocketmqFields* fields) noexcept nogil:
        """ext_fields, and the fields that have their own column."""
        cdef Col* c = self.cols
        cdef MapWriter map
        cdef RocketmqWalk walk
        cdef Span name, text
        cdef bint letters = rocketmq_letters(m.code)
        cdef int64_t entries = open_list(c + RB_EXT_FIELDS, row)        # makes an empty map instead of a null
        if entries >= 0:
            close_list(c + RB_EXT_FIELDS, entries)
        begin_map(&map, c + RB_EXT_FIELDS, row, m.frame + m.size)
        if fields.plain and (self.shared.exposed or not rocketmq_secret_parts(fields)) and \
                (not map.map.on or rocketmq_add_fields(&map, m, fields)):
            if map.map.on:
                end_map(&map)
            self.put_known(row, fields)
            return
        rocketmq_walk(&walk, m, fields)
        while rocketmq_step(&walk):
            if rocketmq_is_near(m, walk.key, walk.value) and not rocketmq_is_properties(letters, walk.key.at, walk.key.size):
                name.at = walk.key.at
                name.size = walk.key.size
                text.at = walk.value.at
                text.size = walk.value.size
                if map.map.on:
                    add_entry(&map, name.at, name.size, text.at, text.size)
            elif rocketmq_plain_of(m, walk.key, &self.names, &name) and rocketmq_plain_of(m, walk.value, &self.values, &text):
                map = rocketmq_put_field(map, letters, &name, &text)        # hides a secret of the columns below, too
            else:
                if self.names.failed or self.values.failed:
                    self.shared.no_memory = True
                continue
            if rocketmq_is_properties(letters, name.at, name.size):
                put_span(c + RB_PROPERTIES, row, &text)
            elif name.size == 1 and name.at[0] == c"b" if letters else name.size == 5 and memcmp(name.at, b"topic", 5) == 0:
                put_span(c + RB_DESTINATION, row, &text)
        end_map(&map)

    cdef void put_known(self, int64_t row, const RocketmqFields* fields) noexcept nogil:
        """Topic and properties of a header of a known shape, without a secret."""
        cdef Col* c = self.cols
        cdef const RocketmqText* value
        if fields.shape.topic >= 0:
            value = &fields.values[fields.shape.topic]
            put_octets(c + RB_DESTINATION, row, value.at, value.size)
        if fields.shape.properties < 0 or not c[<int>RB_PROPERTIES].on:
            return
        value = &fields.values[fields.shape.properties]
        if fields.parts == 0:
            put_octets(c + RB_PROPERTIES, row, value.at, value.size)
        elif rocketmq_reserve(&self.values, value.size + AHEAD_OCTETS):
            put_octets(c + RB_PROPERTIES, row, self.values.p, rocketmq_join(fields, self.values.p) - self.values.p)
        else:
            self.shared.no_memory = True

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept nogil:
        return rocketmq_frame_size(p, n, self.max_frame_size, size, f)

    cdef int put_frame(self, int64_t at, const uint8_t* p, size_t n, Fault* f) noexcept nogil:
        cdef RocketmqFrameView m
        cdef RocketmqFields fields
        cdef int status = rocketmq_read(&self.shapes, p, n, self.max_elements, &m, &fields, f)
        if status != OK:
            return status
        self.put(at, &m, &fields)
        self.row += 1
        return OK


def decode_batch(data, *, strictness="lax", columns=None, bint payload=True, bint expose_credentials=False,
                 limits=None):
    """Decode a buffer of frames, one after another, to columns at once.

    data: any contiguous buffer; bytes and views of bytes are read in place, any other buffer is copied once. columns:
    names to keep, in order (wirefmt.rocketmq.columns.BATCH has all). payload=False omits bodies. Secrets
    (docs/secrets.md) are hidden unless expose_credentials. strictness: frames have no violation that LAX accepts.

    Raises ValueError for an invalid option, BufferError for data that is not contiguous, OverflowError if a
    column would exceed 2 GiB.

    Returns a Batch of one row per frame. A malformed frame is a row with `error`, which gives field, offset in
    `data` and reason; decoding continues with the next frame. If the length of a frame is invalid, the rest of `data`
    is one such row. The bytes of an incomplete last frame have no row: `batch.rest` counts them.
    """
    cdef Input octets = take_input(data)
    cdef BatchColumns columns_set = BatchColumns(ROCKETMQ_BATCH_COLUMNS, columns)
    is_strict(strictness)
    rocketmq_limits(limits, &columns_set.max_frame_size, &columns_set.max_elements)
    columns_set.payload = payload
    columns_set.expose(expose_credentials)
    return columns_set.decode(&ROCKETMQ_TABLES, octets, RB_PAYLOAD if payload else -1)
