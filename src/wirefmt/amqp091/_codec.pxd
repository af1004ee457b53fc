# AMQP 0.9.1: what other modules may use of the codec.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memcmp, memcpy

from wirefmt._core cimport CText, ProtocolTables
from wirefmt._core.be cimport load_u32, store_u32
from wirefmt._core.cursor cimport Cursor, Span, cursor_over
from wirefmt._core.octets cimport Octets, add_octets, add_u16, add_u32, add_u64, add_u8, extend_octets
from wirefmt._core.status cimport CommonOptions, Fault, Notes

# GENERATED from wirefmt/amqp091/spec.py and wirefmt/amqp091/columns.py
include "table.pxi"
include "columns.pxi"


# ---- parse

cdef struct Amqp091Options:
    CommonOptions common        # max_frame_size: frame-max; elements: entries of tables and arrays
    uint16_t channel_max        # 0: no limit


cdef struct Amqp091PropertiesView:  # general 4.2.6.1: property flags, then the values that are present
    const uint8_t* at           # the flags
    uint32_t size               # flags and values
    uint16_t flags              # amqp091_properties[i].flag: property i is present
    uint32_t value[AMQP091_PROPERTY_COUNT]      # octets from `at` to its value; undefined if it is absent


cdef struct Amqp091FrameView:   # spans of the octets; it owns nothing
    const uint8_t* frame
    uint32_t size               # whole frame
    uint8_t type                # an Amqp091FrameType, or AMQP091_PROTOCOL_HEADER
    uint8_t method              # an Amqp091MethodRowNumber, row of amqp091_methods; 0: no method
    uint16_t channel
    uint16_t class_id, method_id        # header: class_id alone
    uint32_t value[AMQP091_SLOTS]       # method: octets from `frame` to the value in each slot
    uint16_t weight             # header
    uint64_t body_size          # header
    Amqp091PropertiesView properties    # header
    Span payload                # between size and frame-end; of a body frame, the body
    Notes notes


cdef int amqp091_frame_size(const uint8_t* p, size_t n, uint32_t frame_max, bint strict, size_t* size,
                            Fault* f) noexcept nogil
cdef int amqp091_parse(const uint8_t* p, size_t n, const Amqp091Options* o, Amqp091FrameView* out,
                       Fault* f) noexcept nogil
cdef int amqp091_parse_properties(const uint8_t* p, size_t n, const Amqp091Options* o, Amqp091PropertiesView* out,
                                  Fault* f) noexcept nogil
cdef struct Amqp091Entry:       # an entry of a table, or an item of an array
    Span name                   # absent for an item
    const uint8_t* at           # the value, after its letter and, if it has one, its length
    uint32_t size               # octets of the value
    uint8_t letter


cdef inline Cursor amqp091_entries(const uint8_t* p) noexcept nogil:
    """A cursor over the entries of the table or array whose length is at `p`."""
    return cursor_over(p + 4, load_u32(p))


cdef inline bint amqp091_next_entry(Cursor* c, bint named, Amqp091Entry* out) noexcept nogil:
    """Read the next entry of a table (`named`) or item of an array. False: at the end."""
    cdef const uint8_t* p = c.at
    cdef uint32_t size
    if p >= c.end:
        return False
    out.name.at = NULL
    out.name.size = 0
    if named:
        out.name.at = p + 1
        out.name.size = p[0]
        p += 1 + p[0]
    out.letter = p[0]
    size = amqp091_letter_size[p[0]]
    p += 1
    if size == AMQP091_VARIABLE:
        size = load_u32(p)
        p += 4
    out.at = p
    out.size = size
    c.at = p + size
    return True


cdef inline bint amqp091_find_entry(const uint8_t* p, const char* name, size_t size, Amqp091Entry* out) noexcept nogil:
    """Find the first entry of a name, as RabbitMQ does, in the table whose length is at `p`. False: no entry has the name."""
    cdef Cursor c = amqp091_entries(p)
    while amqp091_next_entry(&c, True, out):
        if out.name.size == size and memcmp(out.name.at, name, size) == 0:
            return True
    return False


cdef inline Span amqp091_shortstr_at(const uint8_t* p) noexcept nogil:
    cdef Span s
    s.at = p + 1
    s.size = p[0]
    return s


cdef inline const uint8_t* amqp091_property(const Amqp091PropertiesView* p, int i) noexcept nogil:
    """Where the value of an Amqp091Property begins; NULL: the property is absent."""
    return p.at + p.value[i] if p.flags & amqp091_properties[i].flag else NULL


cdef inline size_t amqp091_open(Octets* o) noexcept nogil:
    """Begin a table or array with space for its length. Pass the result to amqp091_close."""
    extend_octets(o, 4)
    return o.size


cdef inline void amqp091_close(Octets* o, size_t opened) noexcept nogil:
    """End a table or array that amqp091_open began."""
    if not o.failed:
        store_u32(o.at + opened - 4, <uint32_t>(o.size - opened))


cdef inline void amqp091_add_name(Octets* o, const uint8_t* name, uint8_t size) noexcept nogil:
    """The name of an entry, or any short string."""
    cdef uint8_t* p = extend_octets(o, <size_t>size + 1)
    if p != NULL:
        p[0] = size
        memcpy(p + 1, name, size)


cdef inline void amqp091_add_value(Octets* o, uint8_t letter, const uint8_t* p, uint32_t size) noexcept nogil:
    """A letter and the value's octets, which are the entries for a table or array."""
    add_u8(o, letter)
    if amqp091_letter_size[letter] == AMQP091_VARIABLE:
        add_u32(o, size)
    add_octets(o, p, size)


cdef inline void amqp091_add_number(Octets* o, int size, uint64_t v) noexcept nogil:
    """The low `size` octets of a number: 1, 2, 4 or 8."""
    if size == 1:
        add_u8(o, <uint8_t>v)
    elif size == 2:
        add_u16(o, <uint16_t>v)
    elif size == 4:
        add_u32(o, <uint32_t>v)
    else:
        add_u64(o, v)


cdef inline void amqp091_add_i64(Octets* o, uint8_t letter, int64_t v) noexcept nogil:
    """A letter and a number of this type of integer, timestamp or boolean."""
    add_u8(o, letter)
    amqp091_add_number(o, amqp091_letter_size[letter], <uint64_t>v)


cdef void amqp091_add_content(Octets* o, uint16_t channel, const uint8_t* properties, size_t n, const uint8_t* body,
                              uint64_t size, uint32_t frame_max) noexcept nogil
cdef enum Amqp091Stage:
    AMQP091_IDLE = 0            # no pending content
    AMQP091_AWAITS_HEADER = 1
    AMQP091_AWAITS_BODY = 2


cdef struct Amqp091Channel:     # what one direction of a channel expects; all zero for a new channel
    uint8_t stage
    uint16_t class_id
    uint64_t body_size, body_have


cdef enum Amqp091Fold:
    AMQP091_ALONE = 0           # a whole message: a method without content, a heartbeat, a protocol header
    AMQP091_BEGINS = 1          # a method whose content follows
    AMQP091_GOES_ON = 2         # a part of the content; more follows
    AMQP091_COMPLETES = 3       # the last part: a body, or the header of an empty content
    AMQP091_UNEXPECTED = 4      # not what the channel expects: `f` has the reason, and the channel is idle


cdef int amqp091_assemble(Amqp091Channel* c, const Amqp091FrameView* m, uint64_t body_max, Fault* f) noexcept nogil
cdef int amqp091_fault(Fault* f, int check, int field, int64_t offset, int64_t need, int64_t have,
                       int limited_by) noexcept nogil
cdef ProtocolTables AMQP091_TABLES

# ---- values

cdef bytes taken_octets(Octets* o)
cdef inline const uint8_t* begin_of(bytes block) noexcept:
    return <const uint8_t*>PyBytes_AS_STRING(block)


# ---- content

cdef uint32_t AMQP091_FRAME_MAX_DEFAULT
