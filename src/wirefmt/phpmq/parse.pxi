# PHPMQ: the octets of one message -> PhpmqMessageView, checked. Objects and columns both use this room.
#
# https://github.com/php-mq/protocol, README and library; docs/phpmq.md lists their differences. No separators:
#
#     H  vv version  ttt message type  cc number of packets                     8 octets
#     P  tt packet type  29 digits: length of the content                      32 octets, then the content
#
# The message header decides the number of packets. LAX accepts the form with line breaks that the README prints, and
# numbers as PHP casts them.

cdef enum:
    PHPMQ_LENGTH_MAX = 0xFFFFFFFF   # octets of a message, whatever the caller's limit


cdef struct PhpmqOptions:
    CommonOptions common            # max_elements has no effect: a message has at most 99 packets


cdef struct PhpmqMessageView:       # spans of the octets; it owns nothing
    const uint8_t* frame
    uint32_t size                   # size of the whole
    int64_t version, type           # LAX: the number as PHP casts it
    uint32_t packet_count
    const uint8_t* packets          # the first packet's header, or a line break before it
    bint line_broken
    Span[PHPMQ_PACKET_TYPES] content    # by packet type; if a type is repeated, the first packet
    bint has_count, has_ttl
    int64_t message_count, ttl
    Notes notes


cdef struct PhpmqReader:            # state shared by the functions below
    const PhpmqOptions* o
    PhpmqMessageView* m
    Fault* f
    const uint8_t* at
    const uint8_t* end
    size_t need                     # NEED_DATA: octets of the message needed to continue
    bint is_sized                   # only contents of the last packet are missing, so this is the whole size


cdef struct PhpmqPacket:
    int64_t type
    Span content


# ------------------------------------------------------------------------------------------------ the walk

cdef int phpmq_frame_size(const uint8_t* p, size_t n, const PhpmqOptions* o, size_t* size, Fault* f) noexcept nogil:
    """Octets of the message that begins at `p`, according to its last packet header; the contents of that packet may be
    missing. With NEED_DATA `size` is the number of octets needed to continue."""
    cdef PhpmqMessageView m
    cdef PhpmqReader x
    cdef int status
    memset(&m, 0, sizeof(m))
    m.frame = p
    phpmq_begin(&x, o, &m, f, n)
    status = phpmq_walk(&x, False)
    size[0] = <size_t>(x.at - p) if status == OK else x.need
    return OK if status == NEED_DATA and x.is_sized else status


cdef inline void phpmq_begin(PhpmqReader* x, const PhpmqOptions* o, PhpmqMessageView* m, Fault* f, size_t n) noexcept nogil:
    x.o = o
    x.m = m
    x.f = f
    x.at = m.frame
    x.end = m.frame + n
    x.need = 0
    x.is_sized = False


cdef int phpmq_walk(PhpmqReader* x, bint keep) noexcept nogil:
    """Read message header and packets; `keep`: also their contents. Then `x.at` is after them."""
    cdef PhpmqPacket packet
    cdef uint32_t i
    cdef int status = phpmq_read_header(x)
    for i in range(x.m.packet_count if status == OK else 0):
        status = phpmq_read_packet(x, <int>i, &packet)
        if status == OK and keep:
            status = phpmq_keep_packet(x, <int>i, &packet)
        if status != OK:
            return status
    return status


cdef int phpmq_read_header(PhpmqReader* x) noexcept nogil:
    cdef PhpmqMessageView* m = x.m
    cdef int64_t count = 0
    cdef const uint8_t* p
    cdef int status = phpmq_leading_breaks(x)
    if status == OK:
        status = phpmq_check_header(x, PHPMQ_MESSAGE_HEADER, c"H", PHPMQ_CHECK_MESSAGE_IDENTIFIER, PHPMQ_FIELD_IDENTIFIER,
                                    PHPMQ_CHECK_MESSAGE_HEADER_DIGITS, PHPMQ_FIELD_VERSION, -1)
    if status != OK:
        return status
    p = x.at
    phpmq_cast(p + 1, 2, &m.version)
    phpmq_cast(p + 3, 3, &m.type)
    phpmq_cast(p + 6, 2, &count)
    m.packet_count = <uint32_t>count if count > 0 else 0
    if m.version != 1:
        status = phpmq_violation(x, PHPMQ_CHECK_VERSION, PHPMQ_FIELD_VERSION, -1, p + 1)
    if status == OK and x.o.common.side >= 0 and 0 < m.type < PHPMQ_MESSAGE_TYPES and \
            phpmq_messages[m.type].sender != x.o.common.side:
        status = phpmq_violation(x, PHPMQ_CHECK_SENDER, PHPMQ_FIELD_MESSAGE_TYPE, -1, p + 3)
    x.at = p + PHPMQ_MESSAGE_HEADER
    m.packets = x.at
    if status != OK or x.o.common.strict or m.packet_count == 0:
        return status
    if x.at == x.end:
        return phpmq_need(x, 1)
    m.line_broken = x.at[0] == 0x0A or x.at[0] == 0x0D
    return phpmq_violation(x, PHPMQ_CHECK_LINE_BREAKS, PHPMQ_FIELD_PACKETS, -1, x.at) if m.line_broken else OK


cdef inline int phpmq_leading_breaks(PhpmqReader* x) noexcept nogil:
    """LAX: skip the line breaks that end the message before."""
    cdef int i = 0
    while not x.o.common.strict and i < PHPMQ_LINE_BREAKS_MAX and x.at < x.end and (x.at[0] == 0x0A or x.at[0] == 0x0D):
        x.at += 1
        i += 1
    return OK


cdef int phpmq_read_packet(PhpmqReader* x, int index, PhpmqPacket* out) noexcept nogil:
    cdef int64_t length = 0
    cdef int64_t limit = x.o.common.max_frame_size if x.o.common.max_frame_size else PHPMQ_LENGTH_MAX
    cdef const uint8_t* p
    cdef int status = phpmq_line_break(x)
    if status == OK:
        status = phpmq_check_header(x, PHPMQ_PACKET_HEADER, c"P", PHPMQ_CHECK_PACKET_IDENTIFIER,
                                    PHPMQ_FIELD_PACKETS_IDENTIFIER, PHPMQ_CHECK_PACKET_HEADER_DIGITS,
                                    PHPMQ_FIELD_PACKETS_PACKET_TYPE, index)
    if status != OK:
        return status
    p = x.at
    phpmq_cast(p + 1, 2, &out.type)
    phpmq_cast(p + 3, 29, &length)
    x.at = p + PHPMQ_PACKET_HEADER
    if length < 0:
        return phpmq_fault(x, PHPMQ_CHECK_CONTENT_LENGTH, PHPMQ_FIELD_PACKETS_CONTENT_LENGTH, index, p + 3, 0, 0)
    if length > limit - (x.at - x.m.frame):
        return phpmq_fault(x, PHPMQ_CHECK_FRAME_SIZE, PHPMQ_FIELD_PACKETS_CONTENT_LENGTH, index, p + 3, length, limit)
    status = phpmq_line_break(x)
    if status != OK:
        return status
    if length > x.end - x.at:
        x.is_sized = <uint32_t>index + 1 == x.m.packet_count
        return phpmq_need(x, <size_t>length)
    out.content.at = x.at
    out.content.size = <uint32_t>length
    x.at += length
    return OK


cdef inline int phpmq_line_break(PhpmqReader* x) noexcept nogil:
    """Skip the line break that a line-broken message has here."""
    if not x.m.line_broken:
        return OK
    if x.at < x.end and x.at[0] == 0x0D:
        x.at += 1
    if x.at == x.end:
        return phpmq_need(x, 1)
    if x.at[0] == 0x0A:
        x.at += 1
    return OK


cdef int phpmq_check_header(PhpmqReader* x, size_t size, uint8_t letter, int letter_check, int letter_field, int digits_check,
                            int digits_field, int index) noexcept nogil:
    """Read a letter, then digits, as far as they are available. LAX accepts one deviation, as PHP does, not both."""
    cdef size_t there = min(size, <size_t>(x.end - x.at))
    cdef size_t i
    cdef const uint8_t* bad = NULL
    for i in range(1, there):
        if not c"0" <= x.at[i] <= c"9":
            bad = x.at + i
            break
    if there and x.at[0] != letter:
        if bad != NULL:
            return phpmq_fault(x, letter_check, letter_field, index, x.at, 0, 0)
        if phpmq_violation(x, letter_check, letter_field, index, x.at) != OK:
            return x.f.status
    if bad != NULL:
        if size == PHPMQ_MESSAGE_HEADER:
            digits_field += 0 if bad < x.at + 3 else 1 if bad < x.at + 6 else 2
        else:
            digits_field += 0 if bad < x.at + 3 else 1
        if phpmq_violation(x, digits_check, digits_field, index, bad) != OK:
            return x.f.status
    return OK if there == size else phpmq_need(x, size)


cdef inline int phpmq_need(PhpmqReader* x, size_t more) noexcept nogil:
    x.need = <size_t>(x.at - x.m.frame) + more
    return NEED_DATA


cdef void phpmq_cast(const uint8_t* p, size_t n, int64_t* out) noexcept nogil:
    """A number as PHP casts a string: white space, a sign, digits, a fraction that is truncated, an exponent. The rest of the
    text is ignored, a number above 64 bits is clamped, and one that is too large for a float is 0."""
    cdef const uint8_t* end = p + n
    cdef const uint8_t* at = p
    cdef const uint8_t* digits
    cdef const uint8_t* point
    cdef bint negative = False
    cdef int64_t value = 0
    cdef int whole, exponent
    while at < end and (at[0] == 0x20 or 0x09 <= at[0] <= 0x0D):
        at += 1
    if at < end and (at[0] == c"-" or at[0] == c"+"):
        negative = at[0] == c"-"
        at += 1
    digits = at
    at = phpmq_digits(at, end)
    point = at
    if at < end and at[0] == c"." and (at > digits or phpmq_digits(at + 1, end) > at + 1):
        at = phpmq_digits(at + 1, end)
    exponent = phpmq_exponent(at, end) if at > digits else 0
    while digits < at and (digits[0] == c"0" or digits == point):       # 0 stays 0 with any exponent
        exponent -= digits > point
        digits += 1
    whole = (<int>(point - digits) if digits < point else 0) + exponent     # the number of digits before the point
    if digits == at or whole > 309:
        whole = 0
    while whole > 0:
        if digits == point:
            digits += 1
        value = phpmq_times_ten(value, digits[0] - 48 if digits < at else 0)
        digits += 1
        whole -= 1
    out[0] = -value if negative else value


cdef inline const uint8_t* phpmq_digits(const uint8_t* at, const uint8_t* end) noexcept nogil:
    while at < end and c"0" <= at[0] <= c"9":
        at += 1
    return at


cdef int phpmq_exponent(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Read `e5`, `E-5`; 0: no exponent; at most 1000."""
    cdef bint negative = False
    cdef int value = 0
    if end - at < 2 or at[0] | 32 != c"e":
        return 0
    at += 1
    if end - at >= 2 and (at[0] == c"-" or at[0] == c"+"):
        negative = at[0] == c"-"
        at += 1
    while at < end and c"0" <= at[0] <= c"9":
        value = min(value * 10 + (at[0] - 48), 1000)
        at += 1
    return -value if negative else value


cdef inline int64_t phpmq_times_ten(int64_t value, int digit) noexcept nogil:
    cdef int64_t most = 0x7FFFFFFFFFFFFFFF
    return most if value > (most - digit) // 10 else value * 10 + digit


# ------------------------------------------------------------------------------------------------ what does it say?

cdef int phpmq_parse(const uint8_t* p, size_t n, const PhpmqOptions* o, PhpmqMessageView* out, Fault* f) noexcept nogil:
    """Read exactly one whole message. OK, or the fault's status."""
    cdef PhpmqReader x
    cdef int status
    memset(out, 0, sizeof(PhpmqMessageView))
    out.frame = p
    phpmq_begin(&x, o, out, f, n)
    status = phpmq_walk(&x, True)
    if status == NEED_DATA:
        return phpmq_fault(&x, PHPMQ_CHECK_FIELD_TRUNCATED, PHPMQ_FIELD_FRAME, -1, x.end, <int64_t>x.need, <int64_t>n)
    if status != OK:
        return status
    if out.line_broken:
        phpmq_leading_breaks(&x)                    # line breaks belong to the message they end
    if x.at != x.end:
        return phpmq_fault(&x, PHPMQ_CHECK_TRAILING_OCTETS, PHPMQ_FIELD_FRAME, -1, x.at, x.at - p, <int64_t>n)
    out.size = <uint32_t>n
    return phpmq_check_packets(&x)


cdef int phpmq_keep_packet(PhpmqReader* x, int index, const PhpmqPacket* packet) noexcept nogil:
    cdef PhpmqMessageView* m = x.m
    if not 0 < packet.type < PHPMQ_PACKET_TYPES:
        return OK                                   # a packet of an unknown type
    if m.content[packet.type].at != NULL:
        return phpmq_violation(x, PHPMQ_CHECK_PACKET_TWICE, PHPMQ_FIELD_PACKETS_PACKET_TYPE, index, packet.content.at)
    m.content[packet.type] = packet.content
    if 0 < m.type < PHPMQ_MESSAGE_TYPES and not phpmq_messages[m.type].packets >> packet.type & 1:
        return phpmq_violation(x, PHPMQ_CHECK_PACKET_NOT_ALLOWED, PHPMQ_FIELD_PACKETS_PACKET_TYPE, index, packet.content.at)
    return OK


cdef int phpmq_check_packets(PhpmqReader* x) noexcept nogil:
    """Check that all packets of the message are present and that numbers are valid."""
    cdef PhpmqMessageView* m = x.m
    cdef int i, status
    for i in range(1, PHPMQ_PACKET_TYPES):
        if m.content[i].at == NULL and 0 < m.type < PHPMQ_MESSAGE_TYPES and phpmq_messages[m.type].required >> i & 1:
            status = phpmq_violation(x, PHPMQ_CHECK_PACKET_MISSING, phpmq_packet_field[i], -1, x.end)
            if status != OK:
                return status
    status = phpmq_take_number(x, PHPMQ_PACKET_MESSAGE_COUNT, &m.message_count, &m.has_count)
    return phpmq_take_number(x, PHPMQ_PACKET_TTL, &m.ttl, &m.has_ttl) if status == OK else status


cdef int phpmq_take_number(PhpmqReader* x, int type, int64_t* out, bint* has) noexcept nogil:
    """Decimal digits, with an optional minus, that fit 64 bits."""
    cdef const Span* v = &x.m.content[type]
    cdef bint negative
    cdef uint64_t n = 0
    cdef uint64_t most
    cdef uint32_t i
    if v.at == NULL:
        return OK
    negative = v.size > 1 and v.at[0] == c"-"
    most = <uint64_t>0x7FFFFFFFFFFFFFFF + negative
    for i in range(negative, v.size):
        if not c"0" <= v.at[i] <= c"9" or n > (most - (v.at[i] - 48)) // 10:
            return phpmq_violation(x, PHPMQ_CHECK_NUMBER, phpmq_packet_field[type], -1, v.at + i)
        n = n * 10 + (v.at[i] - 48)
    if v.size == 0:
        return phpmq_violation(x, PHPMQ_CHECK_NUMBER, phpmq_packet_field[type], -1, v.at)
    out[0] = <int64_t>(0 - n) if negative else <int64_t>n
    has[0] = True
    return OK


# ------------------------------------------------------------------------------------------------ faults and notes

cdef int phpmq_fault(PhpmqReader* x, int check, int field, int index, const uint8_t* at, int64_t need,
                     int64_t have) noexcept nogil:
    fault(x.f, phpmq_checks[check].status, check, field, <int64_t>(at - x.m.frame), need, have, 0)
    x.f.index = index
    x.f.kind = phpmq_kind_of(x.m)
    return x.f.status


cdef int phpmq_violation(PhpmqReader* x, int check, int field, int index, const uint8_t* at) noexcept nogil:
    """Report a violation at `at`. OK: LAX noted it, continue."""
    cdef const PhpmqCheckRow* row = &phpmq_checks[check]
    cdef int status = violation(&x.o.common, &x.m.notes, x.f, row.status, row.lax, check, field, index,
                                <int64_t>(at - x.m.frame))
    if status != OK:
        x.f.kind = phpmq_kind_of(x.m)
    return status


cdef inline int phpmq_kind_of(const PhpmqMessageView* m) noexcept nogil:
    return <int>m.type if 0 < m.type < PHPMQ_MESSAGE_TYPES else 0


cdef ProtocolTables PHPMQ_TABLES
PHPMQ_TABLES.name = "phpmq"
PHPMQ_TABLES.names = phpmq_check_name
PHPMQ_TABLES.text = phpmq_check_text
PHPMQ_TABLES.path = phpmq_field_path
PHPMQ_TABLES.spec = phpmq_check_spec
