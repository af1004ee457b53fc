# AMQP 0.9.1 with RabbitMQ's extensions: the octets of one frame -> Amqp091FrameView, checked; reading and writing field tables;
# which frame a channel expects. Objects, columns and conversions use this room.
#
# Protocol specification ("general", sections 2.x, 4.x) and class and method reference (1.x):
# https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf, https://www.rabbitmq.com/amqp-0-9-1-reference.html
# RabbitMQ's types of field values: https://www.rabbitmq.com/amqp-0-9-1-errata.html
#
# All lengths are always checked, down to the last entry of a table. Every other rule is a row of CHECKS, which says whether
# LAX accepts a violation with a note.
from wirefmt._core.octets cimport (
    Octets, add_octets, add_u8, add_u16, add_u32, add_u64, free_octets, extend_octets, octets_over,
)


cdef uint64_t AMQP091_FRAME_TOP = 0xFFFFFFFFU       # octets of a frame that a size_t of any machine holds


# octets of a value by Amqp091DataType; 0: as many as it says
cdef uint8_t[9] AMQP091_TYPE_SIZE = [1, 1, 2, 4, 8, 8, 0, 0, 0]


cdef struct Amqp091Reader:      # state shared by the functions below
    const Amqp091Options* o
    Fault* f
    const uint8_t* base         # the origin of offsets
    Cursor c
    uint32_t elements
    Notes notes


# ------------------------------------------------------------------------------------------------ frames

cdef int amqp091_frame_size(const uint8_t* p, size_t n, uint32_t frame_max, bint strict, size_t* size,
                            Fault* f) noexcept nogil:
    """Size of the frame or protocol header that begins at `p`, from as few octets as possible (general 4.2.3).

    octet 0     type; "A": a protocol header, 8 octets
    octet 1-2   channel
    octet 3-6   size of the payload
    then the payload, and frame-end

    LAX accepts what RabbitMQ accepts: payloads of frame_max octets, from clients that do not count the eight octets around it.
    """
    cdef uint64_t whole
    cdef size_t i
    if n == 0:
        return NEED_DATA
    if p[0] == AMQP091_PROTOCOL_HEADER:
        for i in range(1, min(n, <size_t>4)):
            if p[i] != (<const uint8_t*>b"AMQP")[i]:
                return amqp091_fault(f, AMQP091_CHECK_PROTOCOL_HEADER, AMQP091_FIELD_PROTOCOL_HEADER,
                                     <int64_t>i, 0, 0, 0)
        if n < 4:
            return NEED_DATA        # it may still be invalid
        size[0] = 8
        return OK
    if p[0] == 0 or (p[0] > AMQP091_FRAME_BODY and p[0] != AMQP091_FRAME_HEARTBEAT):
        return amqp091_fault(f, AMQP091_CHECK_FRAME_TYPE, AMQP091_FIELD_TYPE, 0, 0, 0, 0)
    if n < 7:
        return NEED_DATA
    whole = <uint64_t>load_u32(p + 3) + AMQP091_OVERHEAD
    if whole > AMQP091_FRAME_TOP or (frame_max and whole > frame_max and
                              (strict or whole - frame_max > AMQP091_TOLERANCE)):
        return amqp091_fault(f, AMQP091_CHECK_FRAME_MAX, AMQP091_FIELD_SIZE, 3, <int64_t>whole,
                             <int64_t>(frame_max if frame_max else AMQP091_FRAME_TOP), 0)
    size[0] = <size_t>whole
    return OK


cdef int amqp091_parse(const uint8_t* p, size_t n, const Amqp091Options* o, Amqp091FrameView* out,
                       Fault* f) noexcept nogil:
    """Read exactly one whole frame or protocol header. Returns OK or the fault's status."""
    cdef Amqp091Reader x
    cdef int status
    x.o = o
    x.f = f
    x.base = p
    x.elements = 0
    memset(&x.notes, 0, sizeof(Notes))
    out.frame = p
    out.size = <uint32_t>n
    out.type = out.method = 0
    out.channel = out.class_id = out.method_id = out.weight = 0
    out.body_size = 0
    out.payload.at = NULL
    out.payload.size = 0
    out.properties.flags = 0
    status = amqp091_read_frame(&x, n, out)
    out.notes = x.notes
    if status != OK:
        f.kind = out.type
    return status


cdef inline int amqp091_read_frame(Amqp091Reader* x, size_t n, Amqp091FrameView* m) noexcept nogil:
    cdef const uint8_t* p = m.frame
    cdef size_t size = 0
    cdef int status = amqp091_frame_size(p, n, x.o.common.max_frame_size, x.o.common.strict, &size, x.f)
    if status == NEED_DATA or (status == OK and size > n):
        return amqp091_fault(x.f, AMQP091_CHECK_FRAME_TRUNCATED, AMQP091_FIELD_FRAME, <int64_t>n,
                             <int64_t>size if status == OK else 7, <int64_t>n, 0)
    if status != OK:
        return status
    if size < n:
        return amqp091_fault(x.f, AMQP091_CHECK_TRAILING_FRAME, AMQP091_FIELD_FRAME, <int64_t>size,
                             <int64_t>size, <int64_t>n, 0)
    m.type = p[0]
    if m.type == AMQP091_PROTOCOL_HEADER:
        return amqp091_read_protocol_header(x, m)
    if p[n - 1] != AMQP091_FRAME_END:
        return amqp091_fault(x.f, AMQP091_CHECK_FRAME_END, AMQP091_FIELD_FRAME_END, <int64_t>n - 1, 0, 0, 0)
    m.channel = load_u16(p + 1)
    m.payload.at = p + 7
    m.payload.size = <uint32_t>(n - AMQP091_OVERHEAD)
    x.c.base = p
    x.c.at = p + 7
    x.c.end = p + n - 1
    if x.o.channel_max and m.channel > x.o.channel_max:
        return amqp091_at(x, AMQP091_CHECK_CHANNEL_MAX, AMQP091_FIELD_CHANNEL, -1, p + 1, m.channel, x.o.channel_max, 0)
    if m.type == AMQP091_FRAME_METHOD:
        return amqp091_read_method(x, m)
    if m.type == AMQP091_FRAME_HEARTBEAT:
        return amqp091_read_heartbeat(x, m)
    if m.channel == 0:
        status = amqp091_violation(x, AMQP091_CHECK_CONTENT_CHANNEL, AMQP091_FIELD_CHANNEL, -1, p + 1)
    if status == OK and m.type == AMQP091_FRAME_HEADER:
        return amqp091_read_header(x, m)
    return status                           # a body is its payload


cdef int amqp091_read_protocol_header(Amqp091Reader* x, Amqp091FrameView* m) noexcept nogil:
    """general 4.2.2: "AMQP", 0, 0, 9, 1. A server answers with the version that it supports."""
    m.payload.at = m.frame + 4
    m.payload.size = 4
    if load_u32(m.frame + 4) != 0x00000901:
        return amqp091_violation(x, AMQP091_CHECK_PROTOCOL_VERSION, AMQP091_FIELD_PROTOCOL_HEADER, -1, m.frame + 4)
    return OK


cdef int amqp091_read_heartbeat(Amqp091Reader* x, Amqp091FrameView* m) noexcept nogil:
    """general 4.2.7: an empty payload, on channel 0."""
    cdef int status = OK
    if m.channel:
        status = amqp091_violation(x, AMQP091_CHECK_HEARTBEAT_CHANNEL, AMQP091_FIELD_CHANNEL, -1, m.frame + 1)
    if status == OK and m.payload.size:
        status = amqp091_violation(x, AMQP091_CHECK_HEARTBEAT_PAYLOAD, AMQP091_FIELD_PAYLOAD, -1, m.frame + 7)
    return status


cdef inline int amqp091_method_of(uint16_t class_id, uint16_t method_id) noexcept nogil:
    """Row of amqp091_methods; 0: no such method."""
    if class_id >= AMQP091_CLASS_TOP or method_id >= AMQP091_METHOD_TOP:
        return 0
    return amqp091_method_at[amqp091_class_at[class_id]][method_id]


cdef inline int amqp091_read_method(Amqp091Reader* x, Amqp091FrameView* m) noexcept nogil:
    """general 4.2.4: class-id, method-id, arguments; neighbouring bits share octets."""
    cdef const Amqp091MethodRow* row
    cdef const Amqp091ArgumentRow* a
    cdef const Amqp091ArgumentRow* end
    cdef const uint8_t* p
    cdef const uint8_t* next
    cdef int status, slot = -1
    if left(&x.c) < 4:
        return amqp091_cut(x, AMQP091_CHECK_FIELD_TRUNCATED,
                           AMQP091_FIELD_CLASS_ID if left(&x.c) < 2 else AMQP091_FIELD_METHOD_ID, -1, x.c.at, 4,
                           x.c.end, AMQP091_FIELD_SIZE)
    m.class_id = load_u16(x.c.at)
    m.method_id = load_u16(x.c.at + 2)
    m.method = <uint8_t>amqp091_method_of(m.class_id, m.method_id)
    if m.method == 0:
        if m.class_id >= AMQP091_CLASS_TOP or not amqp091_class_at[m.class_id]:
            return amqp091_fault(x.f, AMQP091_CHECK_CLASS_UNKNOWN, AMQP091_FIELD_CLASS_ID, 7, 0, 0, 0)
        return amqp091_fault(x.f, AMQP091_CHECK_METHOD_UNKNOWN, AMQP091_FIELD_METHOD_ID, 9, 0, 0, 0)
    row = &amqp091_methods[m.method]
    status = amqp091_check_method(x, row, m)
    if status != OK:
        return status
    p = x.c.at + 4
    a = amqp091_arguments + row.first
    end = a + row.count
    while a < end:
        if a.slot != slot:                  # not a bit in the octet of the previous one
            slot = a.slot
            m.value[slot] = <uint32_t>(p - m.frame)
            next = amqp091_after_plain(p, x.c.end, a.type)
            if next == NULL or (a.utf8 and not is_plain_text(p + 1, p[0])):
                x.c.at = p
                status = amqp091_take_argument(x, a)
                if status != OK:
                    return status
                next = x.c.at
            p = next
        a += 1
    x.c.at = p
    if p != x.c.end:
        return amqp091_violation(x, AMQP091_CHECK_TRAILING_ARGUMENTS, AMQP091_FIELD_PAYLOAD, -1, x.c.at)
    return OK


cdef inline const uint8_t* amqp091_after_plain(const uint8_t* p, const uint8_t* end, int type) noexcept nogil:
    """Where a value other than a table or long string ends. NULL: amqp091_take_value must decide."""
    cdef size_t size = AMQP091_TYPE_SIZE[type]
    if size == 0:
        if type != AMQP091_SHORTSTR or p == end:
            return NULL
        size = <size_t>1 + p[0]
    return p + size if size <= <size_t>(end - p) else NULL


cdef inline int amqp091_check_method(Amqp091Reader* x, const Amqp091MethodRow* row, const Amqp091FrameView* m) noexcept nogil:
    """general 4.3: methods of class connection, and no others, are on channel 0; and the sender of the method."""
    cdef int status = OK
    if (m.channel == 0) != (row.class_id == AMQP091_CLASS_CONNECTION):
        status = amqp091_violation(x, AMQP091_CHECK_METHOD_CHANNEL if m.channel == 0 else
                                AMQP091_CHECK_METHOD_CHANNEL_ZERO, AMQP091_FIELD_CHANNEL, -1, m.frame + 1)
    if status == OK and x.o.common.side >= 0 and not row.senders & (1 << x.o.common.side):
        status = amqp091_violation(x, AMQP091_CHECK_METHOD_SENDER, AMQP091_FIELD_METHOD_ID, -1, x.c.at + 2)
    return status


cdef inline int amqp091_take_argument(Amqp091Reader* x, const Amqp091ArgumentRow* a) noexcept nogil:
    cdef int status
    cdef size_t bad = 0
    cdef const uint8_t* p = x.c.at
    if a.type == AMQP091_TABLE:
        return amqp091_take_table(x, a.field, a.item_field)
    status = amqp091_take_value(x, a.type, a.field, AMQP091_CHECK_FIELD_TRUNCATED)
    # U+0000 is allowed, because RabbitMQ accepts it
    if status == OK and a.utf8 and not is_utf8(p + 1, p[0], &bad):
        return amqp091_violation(x, AMQP091_CHECK_SHORT_STRING_UTF8, a.field, -1, p + 1 + bad)
    return status


cdef inline int amqp091_take_value(Amqp091Reader* x, int type, int field, int truncated) noexcept nogil:
    """A value of any type except table (general 4.2.5)."""
    cdef size_t capacity = left(&x.c), size
    if type == AMQP091_SHORTSTR:
        size = <size_t>1 + x.c.at[0] if capacity else 1
    elif type == AMQP091_LONGSTR:
        size = <size_t>4 + load_u32(x.c.at) if capacity >= 4 else 4
    else:
        size = AMQP091_TYPE_SIZE[type]
    if capacity < size:
        return amqp091_cut(x, truncated, field, -1, x.c.at, <int64_t>size, x.c.end, AMQP091_FIELD_SIZE)
    x.c.at += size
    return OK


cdef inline int amqp091_read_header(Amqp091Reader* x, Amqp091FrameView* m) noexcept nogil:
    """general 4.2.6.1

    octet 0-1   class-id
    octet 2-3   weight, 0
    octet 4-11  body size
    then property flags and properties
    """
    cdef const uint8_t* p = x.c.at
    cdef int status = OK
    cdef size_t capacity = left(&x.c)
    if capacity < 12:
        return amqp091_cut(x, AMQP091_CHECK_FIELD_TRUNCATED, AMQP091_FIELD_CLASS_ID if capacity < 2 else
                           AMQP091_FIELD_WEIGHT if capacity < 4 else AMQP091_FIELD_BODY_SIZE, -1, p, 12, x.c.end,
                           AMQP091_FIELD_SIZE)
    m.class_id = load_u16(p)
    m.weight = load_u16(p + 2)
    m.body_size = load_u64(p + 4)
    if m.class_id != AMQP091_CLASS_BASIC:
        return amqp091_fault(x.f, AMQP091_CHECK_CONTENT_CLASS, AMQP091_FIELD_CLASS_ID, 7, 0, 0, 0)
    if m.weight:
        status = amqp091_violation(x, AMQP091_CHECK_WEIGHT, AMQP091_FIELD_WEIGHT, -1, p + 2)
    x.c.at += 12
    return amqp091_take_properties(x, &m.properties) if status == OK else status


cdef inline int amqp091_take_properties(Amqp091Reader* x, Amqp091PropertiesView* out) noexcept nogil:
    """Property flags and values, up to the end of the reader's octets."""
    cdef const Amqp091PropertyRow* row
    cdef const uint8_t* next
    cdef int status = OK, i = -1
    cdef uint32_t flags
    out.at = x.c.at
    out.size = <uint32_t>left(&x.c)
    if out.size < 2:
        return amqp091_cut(x, AMQP091_CHECK_FIELD_TRUNCATED, AMQP091_FIELD_PROPERTY_FLAGS, -1, x.c.at, 2, x.c.end,
                           AMQP091_FIELD_SIZE)
    out.flags = load_u16(x.c.at)
    if out.flags & AMQP091_FLAGS_UNASSIGNED:
        # LAX continues like RabbitMQ: there is one word of flags, even if its last bit announces another
        status = amqp091_violation(x, AMQP091_CHECK_PROPERTY_FLAGS, AMQP091_FIELD_PROPERTY_FLAGS, -1, x.c.at)
    x.c.at += 2
    flags = out.flags & ~<uint32_t>AMQP091_FLAGS_UNASSIGNED
    while flags and status == OK:           # the highest bit is that of the first property
        i += 1
        if flags & 0x8000:
            row = &amqp091_properties[i]
            out.value[i] = <uint32_t>(x.c.at - out.at)
            next = amqp091_after_plain(x.c.at, x.c.end, row.type)
            if next != NULL:
                x.c.at = next
            elif row.type == AMQP091_TABLE:
                status = amqp091_take_table(x, row.field, AMQP091_FIELD_PROPERTIES_HEADERS_ITEM)
            else:
                status = amqp091_take_value(x, row.type, row.field, AMQP091_CHECK_PROPERTY_TRUNCATED)
        flags = flags << 1 & 0xFFFF
    if status == OK and x.c.at != x.c.end:
        return amqp091_violation(x, AMQP091_CHECK_TRAILING_PROPERTIES, AMQP091_FIELD_PROPERTIES, -1, x.c.at)
    return status


# ------------------------------------------------------------------------------------------------ field tables

cdef int amqp091_take_table(Amqp091Reader* x, int field, int item_field) noexcept nogil:
    """Check a table: four octets of length, then entries (general 4.2.5.5), including those of nested tables and arrays.

    An entry is a name (a short string), a letter and a value; an item of an array has no name. The stack of open tables
    is an array, not the C stack, so deep nesting is harmless.
    """
    cdef const uint8_t* ends[AMQP091_NESTING_MAX + 1]
    cdef bint named[AMQP091_NESTING_MAX + 1]
    cdef const uint8_t* p = x.c.at
    cdef const uint8_t* end = x.c.end
    cdef size_t size
    cdef uint8_t letter
    cdef int depth = 0, index = -1
    if end - p < 4 or <size_t>(end - p) - 4 < load_u32(p):
        return amqp091_cut(x, AMQP091_CHECK_FIELD_TRUNCATED, field, -1, p,
                           <int64_t>4 + load_u32(p) if end - p >= 4 else 4, end, AMQP091_FIELD_SIZE)
    ends[0] = p + 4 + load_u32(p)
    named[0] = True
    p += 4
    while True:
        end = ends[depth]
        if p == end:
            if depth == 0:
                x.c.at = p
                return OK
            depth -= 1
            continue
        if depth == 0:
            index += 1
        x.elements += 1
        if x.o.common.max_elements and x.elements > x.o.common.max_elements:
            return amqp091_at(x, AMQP091_CHECK_ELEMENTS, item_field, index, p, x.elements, x.o.common.max_elements, 0)
        if named[depth]:
            size = <size_t>p[0] + 1
            if <size_t>(end - p) <= size:           # the name and the letter
                return amqp091_cut(x, AMQP091_CHECK_TABLE_TRUNCATED, item_field, index, p, <int64_t>size + 1, end, field)
            p += size
        letter = p[0]
        size = amqp091_letter_size[letter]
        if size == AMQP091_NO_LETTER:
            return amqp091_at(x, AMQP091_CHECK_FIELD_TYPE, item_field, index, p, 0, 0, 0)
        p += 1
        if size == AMQP091_VARIABLE:
            if end - p < 4:
                return amqp091_cut(x, AMQP091_CHECK_TABLE_TRUNCATED, item_field, index, p, 4, end, field)
            size = load_u32(p)
            if <size_t>(end - p) - 4 < size:
                return amqp091_cut(x, AMQP091_CHECK_TABLE_TRUNCATED, item_field, index, p, <int64_t>size + 4, end, field)
            p += 4
            if letter == c"F" or letter == c"A":
                if depth == AMQP091_NESTING_MAX:
                    return amqp091_at(x, AMQP091_CHECK_NESTING, item_field, index, p - 5, depth + 1,
                                      AMQP091_NESTING_MAX, 0)
                depth += 1
                ends[depth] = p + size
                named[depth] = letter == c"F"
                continue
        elif <size_t>(end - p) < size:
            return amqp091_cut(x, AMQP091_CHECK_TABLE_TRUNCATED, item_field, index, p, <int64_t>size, end, field)
        p += size


cdef inline void amqp091_reader_over(Amqp091Reader* x, const Amqp091Options* o, const uint8_t* p, size_t n,
                                     Fault* f) noexcept nogil:
    x.o = o
    x.f = f
    x.base = p
    x.c = cursor_over(p, n)
    x.elements = 0
    memset(&x.notes, 0, sizeof(Notes))


cdef int amqp091_parse_table(const uint8_t* p, size_t n, const Amqp091Options* o, Fault* f) noexcept nogil:
    """Check that the octets are exactly one table: its length and its entries."""
    cdef Amqp091Reader x
    cdef int status
    amqp091_reader_over(&x, o, p, n, f)
    status = amqp091_take_table(&x, AMQP091_FIELD_TABLE, AMQP091_FIELD_TABLE_ITEM)
    if status == OK and x.c.at != x.c.end:
        return amqp091_at(&x, AMQP091_CHECK_TRAILING_TABLE, AMQP091_FIELD_TABLE, -1, x.c.at, 0, 0, 0)
    return status


cdef int amqp091_parse_properties(const uint8_t* p, size_t n, const Amqp091Options* o, Amqp091PropertiesView* out,
                                  Fault* f) noexcept nogil:
    """Check that the octets are exactly property flags and properties, as at the end of a content header."""
    cdef Amqp091Reader x
    amqp091_reader_over(&x, o, p, n, f)
    return amqp091_take_properties(&x, out)


# ---- walking: only over octets that have been checked

cdef inline Span amqp091_longstr_at(const uint8_t* p) noexcept nogil:
    """A long string, or the entries of a table or array."""
    cdef Span s
    s.at = p + 4
    s.size = load_u32(p)
    return s


cdef inline const Amqp091ArgumentRow* amqp091_find_argument(const Amqp091FrameView* m, int name) noexcept nogil:
    """The row of the method's argument with this Amqp091ArgumentName; its value is at `m.frame + m.value[row.slot]`.
    NULL: the method has none."""
    cdef const Amqp091MethodRow* row = &amqp091_methods[m.method]
    cdef int i
    for i in range(row.count):
        if amqp091_arguments[row.first + i].name == name:
            return &amqp091_arguments[row.first + i]
    return NULL


# ---- writing

cdef inline size_t amqp091_open_frame(Octets* o, uint8_t type, uint16_t channel) noexcept nogil:
    """Begin a frame. Pass the result to amqp091_close_frame."""
    cdef uint8_t* p = extend_octets(o, 7)
    if p != NULL:
        p[0] = type
        store_u16(p + 1, channel)
    return o.size


cdef inline void amqp091_close_frame(Octets* o, size_t opened) noexcept nogil:
    amqp091_close(o, opened)
    add_u8(o, AMQP091_FRAME_END)


cdef void amqp091_add_content(Octets* o, uint16_t channel, const uint8_t* properties, size_t n, const uint8_t* body,
                              uint64_t size, uint32_t frame_max) noexcept nogil:
    """Write a content header with these property flags and properties, and a body, in frames of at most `frame_max` octets."""
    cdef size_t opened = amqp091_open_frame(o, AMQP091_FRAME_HEADER, channel)
    cdef size_t part
    add_u16(o, AMQP091_CLASS_BASIC)
    add_u16(o, 0)
    add_u64(o, size)
    add_octets(o, properties, n)
    amqp091_close_frame(o, opened)
    while size:
        part = <size_t>min(size, <uint64_t>(frame_max - AMQP091_OVERHEAD))
        opened = amqp091_open_frame(o, AMQP091_FRAME_BODY, channel)
        add_octets(o, body, part)
        amqp091_close_frame(o, opened)
        body += part
        size -= part


# ------------------------------------------------------------------------------------------------ contents

cdef int amqp091_assemble(Amqp091Channel* c, const Amqp091FrameView* m, uint64_t body_max, Fault* f) noexcept nogil:
    """What a frame means for its channel (general 4.2.6). `body_max` 0: bodies of any size.

    Heartbeats and protocol headers belong to no channel: they are ALONE in every state of `c`.
    """
    cdef int check = 0, field = AMQP091_FIELD_TYPE
    if m.type == AMQP091_FRAME_METHOD:
        if c.stage == AMQP091_IDLE:
            if not amqp091_methods[m.method].content:
                return AMQP091_ALONE
            c.stage = AMQP091_AWAITS_HEADER
            c.class_id = m.class_id
            return AMQP091_BEGINS
        check = AMQP091_CHECK_METHOD_UNEXPECTED
    elif m.type == AMQP091_FRAME_HEADER:
        if c.stage != AMQP091_AWAITS_HEADER:
            check = AMQP091_CHECK_HEADER_UNEXPECTED
        elif m.class_id != c.class_id:
            check = AMQP091_CHECK_HEADER_CLASS
        elif body_max and m.body_size > body_max:
            check = AMQP091_CHECK_BODY_MAX
            field = AMQP091_FIELD_BODY_SIZE
        else:
            c.body_size = m.body_size
            c.body_have = 0
            c.stage = AMQP091_AWAITS_BODY if m.body_size else AMQP091_IDLE
            return AMQP091_GOES_ON if m.body_size else AMQP091_COMPLETES
    elif m.type == AMQP091_FRAME_BODY:
        if c.stage != AMQP091_AWAITS_BODY:
            check = AMQP091_CHECK_BODY_UNEXPECTED
        elif m.payload.size > c.body_size - c.body_have:
            check = AMQP091_CHECK_BODY_EXCEEDS
        else:
            c.body_have += m.payload.size
            if c.body_have < c.body_size:
                return AMQP091_GOES_ON
            c.stage = AMQP091_IDLE
            return AMQP091_COMPLETES
    else:
        return AMQP091_ALONE
    c.stage = AMQP091_IDLE
    amqp091_fault(f, check, field, 0, 0, 0, 0)
    if check == AMQP091_CHECK_BODY_MAX:
        f.offset = 11
        f.need = <int64_t>min(m.body_size, <uint64_t>0x7FFFFFFFFFFFFFFF)
        f.have = <int64_t>body_max
    elif check == AMQP091_CHECK_BODY_EXCEEDS:
        f.need = m.payload.size
        f.have = <int64_t>(c.body_size - c.body_have)
    f.kind = m.type
    return AMQP091_UNEXPECTED


# ------------------------------------------------------------------------------------------------ faults and notes

cdef int amqp091_fault(Fault* f, int check, int field, int64_t offset, int64_t need, int64_t have,
                       int limited_by) noexcept nogil:
    return fault(f, amqp091_checks[check].status, check, field, offset, need, have, limited_by)


cdef int amqp091_at(Amqp091Reader* x, int check, int field, int index, const uint8_t* at, int64_t need, int64_t have,
                    int limited_by) noexcept nogil:
    """Report a fault at `at` that neither strictness accepts."""
    amqp091_fault(x.f, check, field, <int64_t>(at - x.base), need, have, limited_by)
    x.f.index = index
    return x.f.status


cdef int amqp091_cut(Amqp091Reader* x, int check, int field, int index, const uint8_t* at, int64_t need,
                     const uint8_t* end, int limited_by) noexcept nogil:
    """Report a field at `at` that needs more octets than it has up to `end`, which the field `limited_by` determines."""
    return amqp091_at(x, check, field, index, at, need, <int64_t>(end - at), limited_by)


cdef int amqp091_violation(Amqp091Reader* x, int check, int field, int index, const uint8_t* at) noexcept nogil:
    """Report a violation at `at`. OK: LAX noted it, continue."""
    cdef const Amqp091CheckRow* row = &amqp091_checks[check]
    return violation(&x.o.common, &x.notes, x.f, row.status, row.lax, check, field, index, <int64_t>(at - x.base))


cdef int amqp091_reply_to(const Fault* f) noexcept nogil:
    """The reply code of the connection.close that is the answer; -1: only close."""
    return amqp091_checks[f.check].reply


cdef ProtocolTables AMQP091_TABLES
AMQP091_TABLES.name = "amqp091"
AMQP091_TABLES.names = amqp091_check_name
AMQP091_TABLES.text = amqp091_check_text
AMQP091_TABLES.path = amqp091_field_path
AMQP091_TABLES.spec = amqp091_check_spec
AMQP091_TABLES.reply_to = amqp091_reply_to
AMQP091_TABLES.replies = NULL
