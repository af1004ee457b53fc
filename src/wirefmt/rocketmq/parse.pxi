# RocketMQ remoting: the octets of one frame -> RocketmqFrameView; stored messages and batches within a body. Objects and
# columns both use this room.
#
# The only specification is the Java code; docs/rocketmq.md describes its behaviour, and section numbers refer to that
# page. STRICT and LAX alike accept what the real reader accepts, and refuse what it refuses.
#
#   offset 0  4 octets  L: octets that follow
#   offset 4  1 octet   how the header is written: 0 JSON, 1 ROCKETMQ (binary)
#   offset 5  3 octets  H: octets of the header
#   offset 8  H octets  header
#   then      L - 4 - H body

cdef enum RocketmqSerializeType:
    ROCKETMQ_JSON = 0
    ROCKETMQ_BINARY = 1


cdef enum RocketmqFlag:
    ROCKETMQ_RESPONSE = 1
    ROCKETMQ_ONEWAY = 2


cdef enum RocketmqForm:         # how the octets encode a text
    ROCKETMQ_NULL = 0
    ROCKETMQ_OCTETS = 1         # unchanged; in the binary header ill-formed UTF-8 is replaced, not refused
    ROCKETMQ_ESCAPED = 2        # a JSON string with escapes, without its quotes
    ROCKETMQ_VALUE = 3          # a JSON value that is not a string: fractions, objects, arrays


cdef enum:
    ROCKETMQ_NESTING = 64       # of JSON values
    ROCKETMQ_BINARY_LEAST = 21  # octets of a binary header without remark and fields
    ROCKETMQ_MAGIC_V1 = <int32_t>0xDAA320A7
    ROCKETMQ_MAGIC_V2 = <int32_t>0xDAA320AB


cdef struct RocketmqText:
    const uint8_t* at
    uint32_t size
    uint8_t form                # a RocketmqForm


cdef struct RocketmqFrameView:  # spans of the octets; it owns nothing
    const uint8_t* frame
    uint32_t size               # the whole frame, including its length word
    uint8_t serialize_type
    uint8_t has_opaque          # JSON may omit it: the real reader then generates one
    uint8_t ascii               # JSON: the size of the whole header
    uint32_t ext_count          # upper bound of the entries of extFields: of two entries of one name the last counts
    int32_t code, version, opaque, flag
    int16_t language            # number; -1: null or unknown
    RocketmqText remark
    Span header
    Span ext                    # JSON: the object after its `{`; binary: the map. at == NULL: null
    Span body                   # at == NULL: absent, which includes a body of no octets


cdef enum:
    ROCKETMQ_FIELDS_KEPT = 32


cdef struct RocketmqFields:     # the entries of extFields found while parsing, so that they need not be parsed again
    int count                   # of all; entries beyond ROCKETMQ_FIELDS_KEPT are not here
    RocketmqText[ROCKETMQ_FIELDS_KEPT] keys
    RocketmqText[ROCKETMQ_FIELDS_KEPT] values


cdef struct RocketmqMessageView:  # a stored message (7.1), or an item of a batch (7.2); spans, it owns nothing
    const uint8_t* at
    uint32_t size               # octets it occupies, whatever its total size says
    int32_t total_size, magic_code, body_crc, queue_id, flag, sys_flag, reconsume_times, born_port, store_port
    int64_t queue_offset, physical_offset, born_timestamp, store_timestamp, prepared_transaction_offset
    Span born_host, store_host  # 4 or 16 octets
    Span body, topic, properties        # at == NULL: none; the body may be compressed


cdef int rocketmq_frame_size(const uint8_t* p, size_t n, uint32_t max_frame_size, size_t* size,
                             Fault* f) noexcept nogil:
    """Size of the frame that begins at `p`, from its first four octets. max_frame_size 0: the protocol's own limit."""
    cdef uint32_t length
    cdef uint32_t limit = max_frame_size if max_frame_size else ROCKETMQ_FRAME_MAX
    if n < 4:
        return NEED_DATA
    length = load_u32(p)
    if limit < 4 or length > limit - 4:         # the limit includes the length word
        return fault(f, LIMIT, ROCKETMQ_CHECK_FRAME_TOO_LARGE, ROCKETMQ_FIELD_LENGTH, 0, <int64_t>length + 4, limit, 0)
    if length < 4:
        return fault(f, TRUNCATED, ROCKETMQ_CHECK_FRAME_TOO_SHORT, ROCKETMQ_FIELD_HEADER_LENGTH, 4, 4, length,
                     ROCKETMQ_FIELD_LENGTH)
    size[0] = <size_t>length + 4
    return OK


cdef int rocketmq_parse(const uint8_t* p, size_t n, uint32_t max_elements, RocketmqFrameView* out, RocketmqFields* fields,
                        Fault* f) noexcept nogil:
    """Read one whole frame. max_elements: limit on entries of extFields and of JSON values together; 0: no limit. fields: stores
    the entries of extFields; NULL: nowhere."""
    if n < 8 or <size_t>load_u32(p) + 4 > n:
        memset(out, 0, sizeof(RocketmqFrameView))
        return fault(f, TRUNCATED, ROCKETMQ_CHECK_FRAME_TRUNCATED, ROCKETMQ_FIELD_FRAME, <int64_t>n,
                     <int64_t>max(<size_t>8, <size_t>load_u32(p) + 4 if n >= 4 else 8), <int64_t>n, 0)
    if <size_t>load_u32(p) + 4 < n:
        memset(out, 0, sizeof(RocketmqFrameView))
        return fault(f, MALFORMED, ROCKETMQ_CHECK_FRAME_TRAILING, ROCKETMQ_FIELD_FRAME, <int64_t>load_u32(p) + 4, 0, 0, 0)
    return rocketmq_parse_cut(p, n, max_elements, out, fields, f)


cdef int rocketmq_parse_cut(const uint8_t* p, size_t n, uint32_t max_elements, RocketmqFrameView* out,
                            RocketmqFields* fields, Fault* f) noexcept nogil:
    """As rocketmq_parse, of a frame that may end early, in its body. n: 8 at least."""
    cdef size_t header = load_u32(p + 4) & 0xFFFFFF
    cdef size_t body
    memset(out, 0, sizeof(RocketmqFrameView))
    if header > n - 8:
        return fault(f, TRUNCATED, ROCKETMQ_CHECK_HEADER_LENGTH, ROCKETMQ_FIELD_HEADER, 8, <int64_t>header,
                     <int64_t>(n - 8), ROCKETMQ_FIELD_LENGTH)
    out.frame = p
    out.size = <uint32_t>n
    out.serialize_type = p[4]
    out.header.at = p + 8
    out.header.size = <uint32_t>header
    body = n - 8 - header
    if body:
        out.body.at = out.header.at + header
        out.body.size = <uint32_t>body
    if p[4] == ROCKETMQ_BINARY:
        return rocketmq_read_binary(out, max_elements, fields, f)
    if p[4] == ROCKETMQ_JSON:
        return rocketmq_read_json(out, max_elements, fields, f)
    return fault(f, UNSUPPORTED, ROCKETMQ_CHECK_SERIALIZE_TYPE, ROCKETMQ_FIELD_SERIALIZE_TYPE, 4, 0, 0, 0)


# ------------------------------------------------------------------------------------------------ 3: the binary header
#
#   0  2  code, signed        9   4  flag                     17 + r  4  octets of the map; <= 0: none
#   2  1  language           13   4  octets r of the remark   then: 2 key length, key, 4 value length, value, again
#   3  2  version, signed    17   r  remark
#   5  4  opaque

cdef int rocketmq_read_binary(RocketmqFrameView* m, uint32_t max_elements, RocketmqFields* fields, Fault* f) noexcept nogil:
    cdef const uint8_t* p = m.header.at
    cdef const uint8_t* end = p + m.header.size
    cdef int32_t size
    cdef int status
    if fields != NULL:
        fields.count = 0
    if m.header.size < ROCKETMQ_BINARY_LEAST:
        return fault(f, TRUNCATED, ROCKETMQ_CHECK_HEADER_TRUNCATED, ROCKETMQ_FIELD_HEADER, 8, ROCKETMQ_BINARY_LEAST,
                     m.header.size, ROCKETMQ_FIELD_HEADER_LENGTH)
    m.code = <int16_t>load_u16(p)
    m.language = p[2] if p[2] < ROCKETMQ_LANGUAGES else -1
    m.version = <int16_t>load_u16(p + 3)
    m.opaque = <int32_t>load_u32(p + 5)
    m.has_opaque = 1
    m.flag = <int32_t>load_u32(p + 9)
    p += 13
    status = rocketmq_take_text(m, &p, end - 4, 4, m.header.size, ROCKETMQ_FIELD_REMARK, -1, &m.remark, f)
    if status != OK:
        return status
    size = <int32_t>load_u32(p)
    p += 4
    if size > 0:
        if size > end - p:
            return fault(f, TRUNCATED, ROCKETMQ_CHECK_HEADER_TRUNCATED, ROCKETMQ_FIELD_EXT_FIELDS, p - m.frame, size,
                         end - p, ROCKETMQ_FIELD_HEADER_LENGTH)
        status = rocketmq_read_map(m, p, p + size, end, max_elements, fields, f)
        p = m.ext.at + m.ext.size
    if status == OK and p < end:
        # surplus octets of the header length begin the body; as many octets at its end are lost (3)
        if m.body.size:
            m.body.at = p
    return status


cdef inline void rocketmq_keep_field(RocketmqFields* fields, const RocketmqText* key, const RocketmqText* value) noexcept nogil:
    if fields.count < ROCKETMQ_FIELDS_KEPT:
        fields.keys[fields.count] = key[0]
        fields.values[fields.count] = value[0]
    fields.count += 1


cdef int rocketmq_read_map(RocketmqFrameView* m, const uint8_t* p, const uint8_t* stop, const uint8_t* end,
                           uint32_t max_elements, RocketmqFields* fields, Fault* f) noexcept nogil:
    """Read the map whose length says that it ends at `stop`. An entry that begins before `stop` is read to its own end, but none
    of its texts may be longer than the stated size of the map."""
    cdef RocketmqText key, value
    cdef const uint8_t* begin = p
    cdef uint32_t count = 0
    cdef int status = OK
    m.ext.at = begin
    while status == OK and p < stop:
        if max_elements and count == max_elements:
            return fault(f, LIMIT, ROCKETMQ_CHECK_ELEMENTS, ROCKETMQ_FIELD_EXT_FIELDS, p - m.frame,
                         <int64_t>count + 1, max_elements, 0)
        status = rocketmq_take_text(m, &p, end, 2, stop - begin, ROCKETMQ_FIELD_EXT_FIELDS_KEY, <int>count, &key, f)
        if status == OK:
            status = rocketmq_take_text(m, &p, end, 4, stop - begin, ROCKETMQ_FIELD_EXT_FIELDS_VALUE, <int>count, &value, f)
        if status == OK and fields != NULL:
            rocketmq_keep_field(fields, &key, &value)
        count += 1
    m.ext.size = <uint32_t>(p - begin)
    m.ext_count = count
    return status


cdef int rocketmq_take_text(const RocketmqFrameView* m, const uint8_t** at, const uint8_t* end, int width, int64_t most,
                            int field, int index, RocketmqText* out, Fault* f) noexcept nogil:
    """A length of `width` octets, and as many octets, at most `most`; zero octets are null."""
    cdef const uint8_t* p = at[0]
    cdef int32_t size
    cdef int status = OK
    if width > end - p:
        status = fault(f, TRUNCATED, ROCKETMQ_CHECK_HEADER_TRUNCATED, field, p - m.frame, width, max(<int64_t>(end - p), 0),
                       ROCKETMQ_FIELD_HEADER_LENGTH)
    else:
        size = <int16_t>load_u16(p) if width == 2 else <int32_t>load_u32(p)
        if size < 0:
            status = fault(f, MALFORMED, ROCKETMQ_CHECK_LENGTH_NEGATIVE, field, p - m.frame, 0, 0, 0)
        elif size > end - p - width:
            status = fault(f, TRUNCATED, ROCKETMQ_CHECK_HEADER_TRUNCATED, field, p + width - m.frame, size, end - p - width,
                           ROCKETMQ_FIELD_HEADER_LENGTH)
        elif size > most:
            status = fault(f, TRUNCATED, ROCKETMQ_CHECK_HEADER_TRUNCATED, field, p + width - m.frame, size, most,
                           ROCKETMQ_FIELD_EXT_FIELDS)
    if status != OK:
        f.index = index
        return status
    out.at = p + width
    out.size = <uint32_t>size
    out.form = ROCKETMQ_OCTETS if size else ROCKETMQ_NULL
    at[0] = p + width + size
    return OK


# ------------------------------------------------------------------------------------------------ 2: JSON
#
# The real reader accepts more than JSON: single quotes, names without quotes, comments, any number of commas, numbers
# with a suffix. This code walks it without building objects; values nest ROCKETMQ_NESTING levels, without recursion.

cdef struct RocketmqJson:
    const uint8_t* base         # for offsets
    const uint8_t* at
    const uint8_t* end
    uint32_t elements, max_elements
    int field                   # the field that faults name
    bint quick                  # so far the header is as the Java code writes it: the real reader then takes a faster path
    int place                   # position of its last member in the order of the Java code; -1: not in order
    Fault* f


cdef int rocketmq_json_stop(RocketmqJson* j, int check) noexcept nogil:
    """The fault at the reader's position."""
    if j.at >= j.end and check == ROCKETMQ_CHECK_JSON_SYNTAX:
        check = ROCKETMQ_CHECK_JSON_TRUNCATED
    return fault(j.f, rocketmq_checks[check].status, check, j.field, j.at - j.base, 0, 0, 0)


cdef inline int rocketmq_json_space(RocketmqJson* j) noexcept nogil:
    """Skip blanks and comments, as before a name."""
    cdef uint8_t c
    cdef int status
    while j.at < j.end:
        c = j.at[0]
        if c > c"/":
            break
        if rocketmq_json_blank(c):
            j.at += 1
        elif c == c"/":
            status = rocketmq_json_comment(j)
            if status != OK:
                return status
        else:
            break
    return OK


cdef inline bint rocketmq_json_blank(uint8_t c) noexcept nogil:
    return c == c" " or c == c"\n" or c == c"\t" or c == c"\r" or c == c"\f" or c == c"\b"


cdef inline int rocketmq_json_gap(RocketmqJson* j) noexcept nogil:
    """Skip blanks, comments and control characters, as around values."""
    cdef uint8_t c
    cdef int status
    while j.at < j.end:
        c = j.at[0]
        if c <= c" " or c == 0x7F:
            j.at += 1
        elif c == c"/":
            status = rocketmq_json_comment(j)
            if status != OK:
                return status
        else:
            break
    return OK


cdef int rocketmq_json_comment(RocketmqJson* j) noexcept nogil:
    cdef const uint8_t* p = j.at + 1
    if p < j.end and p[0] == c"/":
        while p < j.end and p[0] != c"\n":
            p += 1
        j.at = p
        return OK
    if p < j.end and p[0] == c"*":
        p += 1
        while j.end - p >= 2:
            if p[0] == c"*" and p[1] == c"/":
                j.at = p + 2
                return OK
            p += 1
        j.at = j.end                # a comment that is not closed ends with the text
        return OK
    j.at = p
    return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)


cdef extern from *:
    """
    /* which octets of a word are 0: the top bit of each, right up to the first of them */
    #define ROCKETMQ_ZEROS(w) (((w) - 0x0101010101010101ULL) & ~(w) & 0x8080808080808080ULL)
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    #define ROCKETMQ_IN_ORDER(w) (w)
    #else
    #define ROCKETMQ_IN_ORDER(w) __builtin_bswap64(w)
    #endif
    #define ROCKETMQ_FIRST(zeros) (__builtin_ctzll(zeros) >> 3)
    """
    uint64_t ROCKETMQ_ZEROS(uint64_t w) nogil
    uint64_t ROCKETMQ_IN_ORDER(uint64_t w) nogil        # the first octet in memory is the lowest
    size_t ROCKETMQ_FIRST(uint64_t zeros) nogil


cdef inline const uint8_t* rocketmq_special(const uint8_t* p, const uint8_t* end, uint8_t quote) noexcept nogil:
    """The first quote or backslash; `end`: none."""
    cdef uint64_t w, zeros
    while end - p >= 8:
        memcpy(&w, p, 8)
        w = ROCKETMQ_IN_ORDER(w)
        zeros = ROCKETMQ_ZEROS(w ^ <uint64_t>0x0101010101010101ULL * quote) | ROCKETMQ_ZEROS(w ^ <uint64_t>0x5C5C5C5C5C5C5C5CULL)
        if zeros:
            return p + ROCKETMQ_FIRST(zeros)
        p += 8
    while p < end and p[0] != quote and p[0] != c"\\":
        p += 1
    return p


cdef inline int rocketmq_json_string(RocketmqJson* j, RocketmqText* out) noexcept nogil:
    """Read a string whose opening quote, `"` or `'`, is at the reader's position."""
    cdef const uint8_t* p = j.at + 1
    cdef uint8_t quote = j.at[0]
    cdef int n
    out.at = p
    out.form = ROCKETMQ_OCTETS
    while True:
        p = rocketmq_special(p, j.end, quote)
        if p >= j.end:
            j.at = p
            return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
        if p[0] == quote:
            out.size = <uint32_t>(p - out.at)
            j.at = p + 1
            return OK
        p += 1
        out.form = ROCKETMQ_ESCAPED
        n = rocketmq_json_escape(p, j.end)
        if n < 0:
            j.at = p
            return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
        p += n


cdef inline bint rocketmq_plain_name(RocketmqJson* j, RocketmqText* out) noexcept nogil:
    """Read a member's name exactly as the Java code writes it, `"name":"`; False: anything else."""
    cdef const uint8_t* p = j.at
    if j.end - p < 4 or p[0] != c'"' or (j.max_elements and j.elements == j.max_elements):
        return False
    p = rocketmq_special(p + 1, j.end, c'"')
    if j.end - p < 3 or p[0] != c'"' or p[1] != c":" or p[2] != c'"':
        return False
    out.at = j.at + 1
    out.size = <uint32_t>(p - out.at)
    out.form = ROCKETMQ_OCTETS
    j.elements += 1
    j.at = p + 2
    return True


cdef inline bint rocketmq_is_hex(uint8_t c) noexcept nogil:
    return c"0" <= c <= c"9" or c"a" <= (c | 0x20) <= c"f"


cdef inline int rocketmq_json_escape(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Octets of an escape after its backslash; -1: not an escape."""
    cdef int digits, i
    cdef uint8_t c
    if p >= end:
        return -1
    c = p[0]
    if c == c"u" or c == c"x":
        digits = 4 if c == c"u" else 2
        if end - p <= digits:
            return -1
        for i in range(1, digits + 1):
            if not rocketmq_is_hex(p[i]):
                return -1
        return digits + 1
    if c"0" <= c <= c"7" or c == c"b" or c == c"t" or c == c"n" or c == c"v" or c == c"f" or c == c"F" or c == c"r" or \
            c == c'"' or c == c"'" or c == c"/" or c == c"\\":
        return 1
    return -1


cdef inline bint rocketmq_is_name(uint8_t c, bint first) noexcept nogil:
    """May an octet occur in a name without quotes?"""
    return c"a" <= (c | 0x20) <= c"z" or c == c"_" or c >= 0x80 or (c == c"$" if first else c"0" <= c <= c"9")


cdef int rocketmq_json_name(RocketmqJson* j, bint inner, RocketmqText* out) noexcept nogil:
    """Read a member's name and its colon; `inner`: in a nested object, where the name may be a bare number."""
    cdef const uint8_t* p = j.at
    cdef int status
    if p < j.end and (p[0] == c'"' or p[0] == c"'"):
        status = rocketmq_json_string(j, out)
    elif p < j.end and inner and (c"0" <= p[0] <= c"9" or p[0] == c"-"):
        status = rocketmq_json_scalar(j, out)
    else:
        if p >= j.end or not rocketmq_is_name(p[0], True):
            return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
        while p < j.end and rocketmq_is_name(p[0], p == j.at):
            p += 1
        out.at = j.at
        out.size = <uint32_t>(p - j.at)
        out.form = ROCKETMQ_NULL if not inner and rocketmq_is(out, b"null", 4) else ROCKETMQ_OCTETS
        j.at = p
        status = OK
    if status == OK:
        status = rocketmq_json_space(j)
    if status == OK and (j.at >= j.end or j.at[0] != c":"):
        status = rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
    if status != OK:
        return status
    j.at += 1
    if j.max_elements and j.elements == j.max_elements:
        return rocketmq_json_stop(j, ROCKETMQ_CHECK_ELEMENTS)
    j.elements += 1
    return rocketmq_json_gap(j)


cdef inline bint rocketmq_json_word(RocketmqJson* j, const char* word, int size) noexcept nogil:
    """Skip a word if it stands here and ends there."""
    if j.end - j.at < size or memcmp(j.at, word, <size_t>size) != 0 or \
            (j.end - j.at > size and rocketmq_is_name(j.at[size], False)):
        return False
    j.at += size
    return True


cdef inline bint rocketmq_json_literal(RocketmqJson* j, const char* word, int size, bint commented) noexcept nogil:
    """Skip null, true or false. The real reader requires a blank, a comma or a bracket directly after it; `commented`: it
    also accepts a comment. It accepts neither a semicolon nor a control character."""
    cdef uint8_t c
    if j.end - j.at < size or memcmp(j.at, word, <size_t>size) != 0:
        return False
    if j.end - j.at > size:
        c = j.at[size]
        if not rocketmq_json_blank(c) and c != c"," and c != c"}" and c != c"]" and not (commented and c == c"/"):
            return False
    j.at += size
    return True


cdef inline bint rocketmq_is_word(const RocketmqText* text) noexcept nogil:
    """Is a text that began as a scalar true or false?"""
    return text.size and (text.at[0] == c"t" or text.at[0] == c"f")


cdef int rocketmq_json_scalar(RocketmqJson* j, RocketmqText* out) noexcept nogil:
    """A string, a number, true, false, or null, for which undefined and NaN are also accepted. Numbers without fraction, true and
    false are their own text."""
    cdef const uint8_t* p = j.at
    if p < j.end and (p[0] == c'"' or p[0] == c"'"):
        return rocketmq_json_string(j, out)
    out.at = p
    out.form = ROCKETMQ_OCTETS
    if p < j.end and (p[0] == c"-" or p[0] == c"+" or c"0" <= p[0] <= c"9"):
        return rocketmq_json_number(j, out)
    if rocketmq_json_literal(j, b"null", 4, False) or rocketmq_json_word(j, b"undefined", 9) or \
            rocketmq_json_word(j, b"NaN", 3):
        out.form = ROCKETMQ_NULL
    elif not rocketmq_json_literal(j, b"true", 4, True) and not rocketmq_json_literal(j, b"false", 5, True):
        return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
    out.size = <uint32_t>(j.at - p)
    return OK


cdef int rocketmq_json_number(RocketmqJson* j, RocketmqText* out) noexcept nogil:
    """[+-]?digits(.digits)?([eE][+-]?digits)?[LSBFD]?: anything beyond a whole number makes it a ROCKETMQ_VALUE."""
    cdef const uint8_t* p = j.at + (1 if j.at[0] == c"-" else 0)
    if j.at[0] == c"+":                 # not part of the number
        j.at = out.at = p = p + 1
    while p < j.end and c"0" <= p[0] <= c"9":
        p += 1
    out.size = <uint32_t>(p - j.at)
    if p < j.end and p[0] == c".":
        out.form = ROCKETMQ_VALUE
        p += 1
        while p < j.end and c"0" <= p[0] <= c"9":
            p += 1
    if p < j.end and (p[0] == c"e" or p[0] == c"E"):
        out.form = ROCKETMQ_VALUE
        p += 1
        if p < j.end and (p[0] == c"+" or p[0] == c"-"):
            p += 1
        while p < j.end and c"0" <= p[0] <= c"9":
            p += 1
    if out.form == ROCKETMQ_VALUE:
        out.size = <uint32_t>(p - j.at)
    if p < j.end and (p[0] == c"F" or p[0] == c"D"):
        out.form = ROCKETMQ_VALUE
        p += 1
    elif p < j.end and (p[0] == c"L" or p[0] == c"S" or p[0] == c"B") and out.form == ROCKETMQ_OCTETS:
        p += 1
    if p < j.end and rocketmq_is_name(p[0], True):
        j.at = p
        return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
    j.at = p
    return OK


cdef int rocketmq_json_value(RocketmqJson* j, RocketmqText* out) noexcept nogil:
    """Any value; objects and arrays are a ROCKETMQ_VALUE."""
    cdef const uint8_t* begin = j.at
    cdef RocketmqText inner
    cdef uint64_t objects = 0           # bit n: the container at depth n + 1 is an object
    cdef int depth = 0
    cdef bint value = True              # a value is expected
    cdef bint comma = False             # a comma or the end is expected
    cdef int status
    cdef uint8_t c
    if begin >= j.end or (begin[0] != c"{" and begin[0] != c"["):
        return rocketmq_json_scalar(j, out)
    while True:
        status = rocketmq_json_gap(j)
        if status != OK:
            return status
        c = j.at[0] if j.at < j.end else 0
        if value and (c == c"{" or c == c"["):
            if depth == ROCKETMQ_NESTING:
                return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_NESTING)
            objects = objects << 1 | (c == c"{")
            depth += 1
            j.at += 1
            value = comma = False
        elif value:
            status = rocketmq_json_scalar(j, &inner)
            value = False
            comma = True
        elif c == c",":
            j.at += 1
            comma = False
        elif c == (c"}" if objects & 1 else c"]"):
            j.at += 1
            objects >>= 1
            depth -= 1
            comma = True
            if depth == 0:
                out.at = begin
                out.size = <uint32_t>(j.at - begin)
                out.form = ROCKETMQ_VALUE
                return OK
        elif comma and objects & 1:
            return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
        elif objects & 1:
            status = rocketmq_json_name(j, True, &inner)
            value = True
        else:
            if j.at >= j.end:
                return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
            if j.max_elements and j.elements == j.max_elements:
                return rocketmq_json_stop(j, ROCKETMQ_CHECK_ELEMENTS)
            j.elements += 1
            value = True
        if status != OK:
            return status


# ---- escapes

cdef size_t rocketmq_store_utf8(uint32_t c, uint8_t* out) noexcept nogil:
    if c < 0x80:
        out[0] = <uint8_t>c
        return 1
    if c < 0x800:
        out[0] = <uint8_t>(0xC0 | c >> 6)
        out[1] = <uint8_t>(0x80 | (c & 0x3F))
        return 2
    if c < 0x10000:
        out[0] = <uint8_t>(0xE0 | c >> 12)
        out[1] = <uint8_t>(0x80 | (c >> 6 & 0x3F))
        out[2] = <uint8_t>(0x80 | (c & 0x3F))
        return 3
    out[0] = <uint8_t>(0xF0 | c >> 18)
    out[1] = <uint8_t>(0x80 | (c >> 12 & 0x3F))
    out[2] = <uint8_t>(0x80 | (c >> 6 & 0x3F))
    out[3] = <uint8_t>(0x80 | (c & 0x3F))
    return 4


cdef inline uint32_t rocketmq_hex(const uint8_t* p, int digits) noexcept nogil:
    cdef uint32_t v = 0
    cdef int i
    for i in range(digits):
        v = v << 4 | ((p[i] & 15) + (9 if p[i] & 0x40 else 0))
    return v


cdef size_t rocketmq_unescape(const uint8_t* p, size_t n, uint8_t* out) noexcept nogil:
    """The octets of a string with checked escapes, in UTF-8; `out` has room for `n`. An unpaired surrogate
    becomes U+FFFD."""
    cdef const uint8_t* end = p + n
    cdef const uint8_t* run
    cdef uint8_t* o = out
    cdef uint32_t u, low
    cdef uint8_t c
    while p < end:
        if p[0] != c"\\":
            run = <const uint8_t*>memchr(p, c"\\", <size_t>(end - p))
            if run == NULL:
                run = end
            memcpy(o, p, <size_t>(run - p))
            o += run - p
            p = run
            continue
        c = p[1]
        p += 2
        if c == c"u" or c == c"x":
            u = rocketmq_hex(p, 4 if c == c"u" else 2)
            p += 4 if c == c"u" else 2
            if 0xD800 <= u < 0xE000:
                low = 0
                if u < 0xDC00 and end - p >= 6 and p[0] == c"\\" and p[1] == c"u":
                    low = rocketmq_hex(p + 2, 4)
                if 0xDC00 <= low < 0xE000:
                    u = 0x10000 + ((u - 0xD800) << 10) + (low - 0xDC00)
                    p += 6
                else:
                    u = 0xFFFD
            o += rocketmq_store_utf8(u, o)
            continue
        if c"0" <= c <= c"7":
            c -= c"0"
        elif c == c"b":
            c = 8
        elif c == c"t":
            c = 9
        elif c == c"n":
            c = 10
        elif c == c"v":
            c = 11
        elif c == c"f" or c == c"F":
            c = 12
        elif c == c"r":
            c = 13
        o[0] = c
        o += 1
    return <size_t>(o - out)


# ---- the header

cdef enum RocketmqMember:
    ROCKETMQ_OTHER = 0
    ROCKETMQ_CODE, ROCKETMQ_FLAG, ROCKETMQ_LANGUAGE, ROCKETMQ_OPAQUE, ROCKETMQ_REMARK, ROCKETMQ_VERSION
    ROCKETMQ_EXT_FIELDS
    ROCKETMQ_BODY, ROCKETMQ_SUSPENDED, ROCKETMQ_SERIALIZE       # unused, but their types are checked


cdef int rocketmq_member(const RocketmqText* name) noexcept nogil:
    """Which member it is. The real reader ignores case, `_` and `-`."""
    cdef uint8_t[64] raw
    cdef uint8_t[24] word
    cdef const uint8_t* p = name.at
    cdef size_t n = name.size, i
    cdef int size = 0
    if n > sizeof(raw):
        return ROCKETMQ_OTHER
    if name.form == ROCKETMQ_ESCAPED:
        n = rocketmq_unescape(p, n, raw)
        p = raw
    for i in range(n):
        if p[i] == c"_" or p[i] == c"-":
            continue
        if size == 24:
            return ROCKETMQ_OTHER
        word[size] = p[i] | 0x20 if c"A" <= p[i] <= c"Z" else p[i]
        size += 1
    if size == 4:
        return (ROCKETMQ_CODE if memcmp(word, b"code", 4) == 0 else
                ROCKETMQ_FLAG if memcmp(word, b"flag", 4) == 0 else
                ROCKETMQ_BODY if memcmp(word, b"body", 4) == 0 else ROCKETMQ_OTHER)
    if size == 6:
        return (ROCKETMQ_OPAQUE if memcmp(word, b"opaque", 6) == 0 else
                ROCKETMQ_REMARK if memcmp(word, b"remark", 6) == 0 else ROCKETMQ_OTHER)
    if size == 7:
        return ROCKETMQ_VERSION if memcmp(word, b"version", 7) == 0 else ROCKETMQ_OTHER
    if size == 8:
        return ROCKETMQ_LANGUAGE if memcmp(word, b"language", 8) == 0 else ROCKETMQ_OTHER
    if size == 9:
        return (ROCKETMQ_EXT_FIELDS if memcmp(word, b"extfields", 9) == 0 else
                ROCKETMQ_SUSPENDED if memcmp(word, b"suspended", 9) == 0 else ROCKETMQ_OTHER)
    if size == 23:
        return ROCKETMQ_SERIALIZE if memcmp(word, b"serializetypecurrentrpc", 23) == 0 else ROCKETMQ_OTHER
    return ROCKETMQ_OTHER


cdef CText[11] ROCKETMQ_MEMBER_NAMES      # as the Java code writes them
ROCKETMQ_MEMBER_NAMES = [
    "", "code", "flag", "language", "opaque", "remark", "version", "extFields", "body", "suspended", "serializeTypeCurrentRPC",
]


cdef uint8_t[11] ROCKETMQ_MEMBER_SIZE     # octets of these names
ROCKETMQ_MEMBER_SIZE = [255, 4, 4, 8, 6, 6, 7, 9, 4, 9, 23]


cdef inline int rocketmq_spelt_member(const RocketmqText* name) noexcept nogil:
    """Which member it is, if it is written as the Java code writes it."""
    cdef int member
    if name.form == ROCKETMQ_OCTETS:
        for member in range(1, 11):
            if name.size == ROCKETMQ_MEMBER_SIZE[member] and memcmp(name.at, ROCKETMQ_MEMBER_NAMES[member], name.size) == 0:
                return member
    return ROCKETMQ_OTHER


cdef int[11] ROCKETMQ_MEMBER_PLACE       # member -> its position in the order of the Java code, which is alphabetical
ROCKETMQ_MEMBER_PLACE = [-1, 2, 4, 5, 6, 7, 10, 3, 1, 9, 8]

cdef int[11] ROCKETMQ_MEMBER_FIELD       # member -> FIELDS row
ROCKETMQ_MEMBER_FIELD = [
    ROCKETMQ_FIELD_HEADER, ROCKETMQ_FIELD_CODE, ROCKETMQ_FIELD_FLAG, ROCKETMQ_FIELD_LANGUAGE, ROCKETMQ_FIELD_OPAQUE,
    ROCKETMQ_FIELD_REMARK, ROCKETMQ_FIELD_VERSION, ROCKETMQ_FIELD_EXT_FIELDS, ROCKETMQ_FIELD_HEADER, ROCKETMQ_FIELD_HEADER,
    ROCKETMQ_FIELD_HEADER,
]


cdef int rocketmq_read_json(RocketmqFrameView* m, uint32_t max_elements, RocketmqFields* fields, Fault* f) noexcept nogil:
    cdef RocketmqJson j
    cdef RocketmqText name
    cdef const uint8_t* begin
    cdef const uint8_t* value
    cdef size_t bad = 0
    cdef int status, member = ROCKETMQ_OTHER
    cdef bint spelt
    j.base = m.frame
    j.at = m.header.at
    j.end = j.at + m.header.size
    j.elements = 0
    j.max_elements = max_elements
    j.field = ROCKETMQ_FIELD_HEADER
    j.quick = True
    j.place = 0
    j.f = f
    if fields != NULL:
        fields.count = 0
    m.ascii = is_ascii(j.at, m.header.size)
    if not m.ascii and not is_utf8(j.at, m.header.size, &bad):
        j.at += bad
        return rocketmq_json_stop(&j, ROCKETMQ_CHECK_JSON_UTF8)
    if m.header.size >= 3 and j.at[0] == 0xEF and j.at[1] == 0xBB and j.at[2] == 0xBF:      # a byte order mark
        j.at += 3
    status = rocketmq_json_gap(&j)
    if status != OK:
        return status
    if j.at >= j.end:
        return rocketmq_json_stop(&j, ROCKETMQ_CHECK_JSON_EMPTY)
    if j.at[0] != c"{":
        return rocketmq_json_stop(&j, ROCKETMQ_CHECK_JSON_OBJECT)
    j.at += 1
    while True:
        status = rocketmq_json_next(&j)
        if status != OK or j.at[0] == c"}":
            break
        begin = j.at
        status = rocketmq_json_name(&j, False, &name)
        if status == OK and rocketmq_comment_before_colon(&name, j.at):
            j.at = name.at + name.size
            status = rocketmq_json_stop(&j, ROCKETMQ_CHECK_JSON_SYNTAX)
        if status == OK:
            member = rocketmq_spelt_member(&name)
            spelt = member != ROCKETMQ_OTHER and begin[0] == c'"' and name.at[name.size + 1] == c":"
            if member == ROCKETMQ_OTHER:
                member = rocketmq_member(&name)
            j.field = ROCKETMQ_MEMBER_FIELD[member]
            j.place = ROCKETMQ_MEMBER_PLACE[member] if spelt and 0 <= j.place < ROCKETMQ_MEMBER_PLACE[member] else -1
            j.quick = j.quick and spelt and j.at - begin == name.size + 3
            value = j.at
            status = rocketmq_take_member(&j, m, member, fields)
            j.field = ROCKETMQ_FIELD_HEADER
            if member == ROCKETMQ_CODE and not (value == name.at + name.size + 2 and rocketmq_is_plain(value, &j)):
                j.place = -1
        if status == OK:
            status = rocketmq_json_behind(&j, rocketmq_may_be_parted(&j, member))
        if status != OK:
            break
        j.quick = j.quick and j.end - j.at >= 2 and j.at[0] == c"," and j.at[1] == c'"'
    if status != OK:
        return status
    j.at += 1
    status = rocketmq_json_gap(&j)
    if status == OK and j.at < j.end:
        return rocketmq_json_stop(&j, ROCKETMQ_CHECK_JSON_TRAILING)
    return status


cdef bint rocketmq_is_plain(const uint8_t* p, const RocketmqJson* j) noexcept nogil:
    """Are the octets from `p` to the reader a number of digits, with or without quotes, followed only by blanks up to
    the comma or the end?"""
    cdef const uint8_t* at = j.at
    if j.at - p >= 2 and (p[0] == c'"' or p[0] == c"'"):
        p += 1
        at -= 1
    if p < at and p[0] == c"-":
        p += 1
    if p == at:
        return False
    while p < at and c"0" <= p[0] <= c"9":
        p += 1
    if p < at:
        return False
    at = j.at
    while at < j.end and rocketmq_json_blank(at[0]):
        at += 1
    return at < j.end and (at[0] == c"," or at[0] == c"}")


cdef inline bint rocketmq_may_be_parted(const RocketmqJson* j, int member) noexcept nogil:
    """Does the real reader accept a semicolon after this member's value? If the members are in order, it does not
    after extFields and body; it never does after the text null for extFields."""
    if member == ROCKETMQ_EXT_FIELDS:
        return j.place < 0 and (j.at - 1)[0] != c'"' and (j.at - 1)[0] != c"'"
    return member != ROCKETMQ_BODY or j.place < 0


cdef inline bint rocketmq_comment_before_colon(const RocketmqText* name, const uint8_t* end) noexcept nogil:
    """Does the real reader accept a comment there? It does for fields, not for the header's own members."""
    cdef const uint8_t* p = name.at + name.size
    if p < end and (p[0] == c'"' or p[0] == c"'"):
        p += 1
    while p < end and rocketmq_json_blank(p[0]):
        p += 1
    return p < end and p[0] == c"/"


cdef inline int rocketmq_json_next(RocketmqJson* j) noexcept nogil:
    """Go to the next member of an object, or to its end, over any number of commas."""
    cdef int status
    while True:
        status = rocketmq_json_space(j)
        if status != OK:
            return status
        if j.at >= j.end:
            return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
        if j.at[0] != c",":
            return OK
        j.at += 1


cdef inline int rocketmq_json_behind(RocketmqJson* j, bint semicolon) noexcept nogil:
    """After a member's value: a comma, one semicolon where the real reader accepts one, or the end."""
    cdef int status = rocketmq_json_gap(j)
    if status == OK and semicolon and j.at < j.end and j.at[0] == c";":
        j.at += 1
    elif status == OK and (j.at >= j.end or (j.at[0] != c"," and j.at[0] != c"}")):
        return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
    return status


cdef inline int rocketmq_take_member(RocketmqJson* j, RocketmqFrameView* m, int member,
                                     RocketmqFields* fields) noexcept nogil:
    cdef RocketmqText value
    cdef const uint8_t* at = j.at
    cdef int32_t ignored = 0
    cdef bint quoted
    cdef int status
    if member == ROCKETMQ_EXT_FIELDS:
        return rocketmq_take_ext(j, m, fields)
    quoted = at < j.end and (at[0] == c'"' or at[0] == c"'")
    status = rocketmq_json_value(j, &value)
    if status != OK:
        return status
    if member == ROCKETMQ_CODE:
        return rocketmq_take_int(j, at, quoted, &value, &m.code)
    if member == ROCKETMQ_FLAG:
        return rocketmq_take_int(j, at, quoted, &value, &m.flag)
    if member == ROCKETMQ_VERSION:
        return rocketmq_take_int(j, at, quoted, &value, &m.version)
    if member == ROCKETMQ_OPAQUE:
        # the real reader generates a missing number; here it is absent, and 0
        status = rocketmq_take_int(j, at, quoted, &value, &m.opaque)
        m.has_opaque |= value.form != ROCKETMQ_NULL and not (quoted and rocketmq_is_no_number(&value))
        return status
    if member == ROCKETMQ_LANGUAGE:
        return rocketmq_take_language(j, at, quoted, &value, &m.language)
    if member == ROCKETMQ_SERIALIZE and not quoted and not rocketmq_is_null(&value):
        return rocketmq_take_ordinal(j, at, &value, 2, ROCKETMQ_CHECK_JSON_SYNTAX, &ignored)
    if member == ROCKETMQ_REMARK:
        m.remark = value
    elif (member == ROCKETMQ_BODY and not rocketmq_is_octets(&value, quoted)) or \
            (member == ROCKETMQ_SUSPENDED and not rocketmq_is_boolean(&value, quoted)):
        j.at = at
        return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
    return OK


cdef bint rocketmq_is_octets(const RocketmqText* value, bint quoted) noexcept nogil:
    """A string, null, or an array of numbers."""
    cdef uint32_t i
    if quoted or rocketmq_is_null(value):
        return True
    if value.form != ROCKETMQ_VALUE or value.at[0] != c"[":
        return False
    for i in range(1, value.size):
        if value.at[i] == c'"' or value.at[i] == c"'" or value.at[i] == c"[" or value.at[i] == c"{":
            return False
    return True


cdef bint rocketmq_is_boolean(const RocketmqText* value, bint quoted) noexcept nogil:
    """true, false, null, a number, or one of these as text; null as text is lower case or upper case."""
    cdef uint8_t[5] word
    cdef uint32_t i
    if not quoted:
        return value.form != ROCKETMQ_VALUE or (value.at[0] != c"{" and value.at[0] != c"[")
    if value.size == 0:
        return True
    if value.form != ROCKETMQ_OCTETS or value.size > 5:
        return False
    for i in range(value.size):
        word[i] = value.at[i] | 0x20
    if value.size == 1:
        return value.at[0] == c"1" or value.at[0] == c"0" or word[0] == c"y" or word[0] == c"f" or \
            value.at[0] == c"T" or value.at[0] == c"N"
    return ((value.size == 4 and (memcmp(word, b"true", 4) == 0 or memcmp(value.at, b"null", 4) == 0 or
                                memcmp(value.at, b"NULL", 4) == 0)) or
            (value.size == 5 and memcmp(word, b"false", 5) == 0))


cdef int rocketmq_take_ext(RocketmqJson* j, RocketmqFrameView* m, RocketmqFields* fields) noexcept nogil:
    """extFields: an object whose values are texts, or null; if members are not in order, also the text null."""
    cdef RocketmqText text, key
    cdef const uint8_t* at = j.at
    cdef int status
    if at >= j.end or at[0] != c"{":
        status = rocketmq_json_value(j, &text)
        if status != OK:
            return status
        if not rocketmq_is_null(&text) and (j.place > 0 or text.at == at or not rocketmq_is(&text, b"null", 4)):
            j.at = at
            return rocketmq_json_stop(j, ROCKETMQ_CHECK_EXT_FIELDS_OBJECT)
        m.ext.at = NULL
        m.ext.size = 0
        return OK
    j.at += 1
    m.ext.at = j.at
    m.ext_count = 0
    if fields != NULL:
        fields.count = 0                # of two entries of one name the last counts
    while True:
        status = rocketmq_json_next(j)
        if status == OK and j.at[0] == c"}":
            break
        if status == OK:
            status = rocketmq_json_field(j, &key, &text)
        if status == OK:
            status = rocketmq_json_behind(j, True)
        if status != OK:
            return status
        m.ext_count += 1
        if fields != NULL:
            rocketmq_keep_field(fields, &key, &text)
    m.ext.size = <uint32_t>(j.at - m.ext.at)
    j.at += 1
    return OK


cdef inline int rocketmq_json_field(RocketmqJson* j, RocketmqText* key, RocketmqText* value) noexcept nogil:
    cdef int status
    if rocketmq_plain_name(j, key):
        return rocketmq_json_string(j, value)
    status = rocketmq_json_name(j, False, key)
    return rocketmq_json_value(j, value) if status == OK else status


cdef inline bint rocketmq_is_no_number(const RocketmqText* value) noexcept nogil:
    """Text that means null where a number is expected."""
    return value.size == 0 or (value.size == 4 and (
        memcmp(value.at, b"null", 4) == 0 or memcmp(value.at, b"NULL", 4) == 0))


cdef int rocketmq_take_int(RocketmqJson* j, const uint8_t* at, bint quoted, const RocketmqText* value,
                           int32_t* out) noexcept nogil:
    """A number of 32 bits: as a number, as text, with a fraction (truncated), or as true and false. Null leaves it unchanged."""
    cdef const uint8_t* p = value.at
    cdef const uint8_t* end = p + value.size
    cdef const uint8_t* digits
    cdef int64_t v = 0
    cdef bint minus
    if value.form == ROCKETMQ_NULL:
        return OK
    if value.form == ROCKETMQ_VALUE and p[0] != c"{" and p[0] != c"[" and rocketmq_cut(p, end, &v):
        out[0] = <int32_t>v
        return OK
    if not quoted and rocketmq_is_word(value):
        out[0] = p[0] == c"t"
        return OK
    if quoted:
        if rocketmq_is_no_number(value):
            return OK
        end = rocketmq_without_zeros(p, end)
    minus = p < end and p[0] == c"-"
    if minus or (quoted and p < end and p[0] == c"+"):
        p += 1
    digits = p
    if p == end or value.form != ROCKETMQ_OCTETS:
        j.at = at
        return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_NUMBER)
    while p < end:
        if c"0" <= p[0] <= c"9":
            v = v * 10 + (p[0] - c"0")
        elif not (quoted and p[0] == c","):             # text may contain thousands separators
            v = <int64_t>1 << 40
        if v > <int64_t>0x80000000:
            break
        p += 1
    if v > <int64_t>0x7FFFFFFF + minus:
        if j.quick and rocketmq_is_plain(at, j) and rocketmq_wraps(digits, end, &v):
            out[0] = <int32_t>(-v if minus else v)
            return OK
        j.at = at
        return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_NUMBER)
    out[0] = <int32_t>(-v if minus else v)
    return OK


cdef bint rocketmq_wraps(const uint8_t* p, const uint8_t* end, int64_t* out) noexcept nogil:
    """The real reader's fast path compares each product with its factor, and so does not detect some numbers of more than
    32 bits. Computes its result for them. False: it detects the overflow."""
    cdef uint32_t v = 0
    if end - p > 13:
        return False
    while p < end:
        if not c"0" <= p[0] <= c"9" or <int32_t>(v * 10) < <int32_t>v:
            return False
        v = v * 10 + (p[0] - c"0")
        p += 1
    out[0] = v
    return v <= 0x7FFFFFFF


cdef const uint8_t* rocketmq_without_zeros(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """The end of the text without a final `.000`."""
    cdef const uint8_t* at = end
    while at > p and (at - 1)[0] == c"0":
        at -= 1
    return at - 1 if at > p and (at - 1)[0] == c"." else end


cdef bint rocketmq_cut(const uint8_t* p, const uint8_t* end, int64_t* out) noexcept nogil:
    """A number without its fraction; of larger numbers the low bits, as in the real reader. False: refused, because
    its point is more than a hundred places from its last digit."""
    cdef uint64_t v = 0
    cdef int64_t exponent = 0, places = 0, scale = 0
    cdef bint minus = p < end and p[0] == c"-"
    cdef bint down
    cdef const uint8_t* at = p + minus
    cdef const uint8_t* digits = at
    while at < end and (c"0" <= at[0] <= c"9" or at[0] == c"."):
        at += 1
    if at < end and (at[0] == c"e" or at[0] == c"E"):
        p = at + 1
        down = p < end and p[0] == c"-"
        if p < end and (p[0] == c"-" or p[0] == c"+"):
            p += 1
        while p < end and exponent < 100000:
            exponent = exponent * 10 + (p[0] - c"0")
            p += 1
        if down:
            exponent = -exponent
    p = digits
    while p < at and p[0] != c".":
        places += 1
        p += 1
    if p < at:
        scale = at - p - 1
    if not -100 <= scale - exponent <= 100:
        return False
    places += exponent                                  # digits before the point
    p = digits
    while p < at and places > 0:
        if p[0] != c".":
            v = v * 10 + (p[0] - c"0")
            places -= 1
        p += 1
    while places > 0:
        v *= 10
        places -= 1
    out[0] = <int64_t>(0 - v if minus else v)
    return True


cdef inline bint rocketmq_is_null(const RocketmqText* value) noexcept nogil:
    """null itself, which is accepted in more places than the words that mean the same."""
    return value.form == ROCKETMQ_NULL and value.at[0] == c"n"


cdef int rocketmq_take_ordinal(RocketmqJson* j, const uint8_t* at, const RocketmqText* value, int count, int check,
                               int32_t* out) noexcept nogil:
    """The index in an enumeration of `count`, a whole number."""
    cdef int status
    if value.form == ROCKETMQ_OCTETS and not rocketmq_is_word(value):
        status = rocketmq_take_int(j, at, False, value, out)
        if status != OK or 0 <= out[0] < count:
            return status
    j.at = at
    return rocketmq_json_stop(j, check)


cdef int rocketmq_take_language(RocketmqJson* j, const uint8_t* at, bint quoted, const RocketmqText* value,
                                int16_t* out) noexcept nogil:
    """A language by name, in any case, or by number; an unknown name is null."""
    cdef int32_t number = 0
    cdef size_t i
    cdef int k, status
    cdef uint8_t c
    if not quoted and not rocketmq_is_null(value):
        status = rocketmq_take_ordinal(j, at, value, ROCKETMQ_LANGUAGES, ROCKETMQ_CHECK_JSON_LANGUAGE, &number)
        if status == OK:
            out[0] = <int16_t>number
        return status
    out[0] = -1
    if value.form != ROCKETMQ_OCTETS:
        return OK
    for k in range(ROCKETMQ_LANGUAGES):
        if strlen(rocketmq_languages[k]) != value.size:
            continue
        for i in range(value.size):
            c = value.at[i]
            if (c - 0x20 if c"a" <= c <= c"z" else c) != <uint8_t>rocketmq_languages[k][i]:
                break
        else:
            out[0] = <int16_t>k
            return OK
    return OK


# ------------------------------------------------------------------------------------------------ extFields, one by one

cdef inline void rocketmq_json_step(RocketmqJson* j) noexcept nogil:
    """Skip the text between members, which has been checked."""
    rocketmq_json_gap(j)
    while j.at < j.end and (j.at[0] == c"," or j.at[0] == c";"):
        j.at += 1
        rocketmq_json_gap(j)


cdef const uint8_t* rocketmq_next_field(const RocketmqFrameView* m, const uint8_t* at, RocketmqText* key,
                                        RocketmqText* value) noexcept nogil:
    """The entry of extFields at `at` (begin with m.ext.at), which rocketmq_parse has checked. Returns the position of the next
    one, NULL after the last."""
    cdef const uint8_t* end = m.ext.at + m.ext.size
    cdef RocketmqJson j
    cdef Fault f
    if at == NULL:
        return NULL
    if m.serialize_type == ROCKETMQ_BINARY:
        if at >= end:
            return NULL
        key.size = load_u16(at)
        key.at = at + 2
        key.form = ROCKETMQ_OCTETS if key.size else ROCKETMQ_NULL
        at += 2 + key.size
        value.size = load_u32(at)
        value.at = at + 4
        value.form = ROCKETMQ_OCTETS if value.size else ROCKETMQ_NULL
        return at + 4 + value.size
    j.field = ROCKETMQ_FIELD_HEADER
    j.base = m.frame
    j.at = at
    j.end = end + 1                     # the closing brace
    j.elements = j.max_elements = 0
    j.f = &f
    rocketmq_json_step(&j)
    if j.at >= end:
        return NULL
    rocketmq_json_field(&j, key, value)
    return j.at


cdef struct RocketmqWalk:       # walks the entries of extFields
    const RocketmqFrameView* m
    const RocketmqFields* fields
    const uint8_t* at
    int i


cdef inline bint rocketmq_step(RocketmqWalk* w, RocketmqText* key, RocketmqText* value) noexcept nogil:
    """The next entry. False: no more."""
    if w.fields != NULL and w.fields.count <= ROCKETMQ_FIELDS_KEPT:
        if w.i >= w.fields.count or w.m.ext.at == NULL:
            return False
        key[0] = w.fields.keys[w.i]
        value[0] = w.fields.values[w.i]
        w.i += 1
        return True
    w.at = rocketmq_next_field(w.m, w.m.ext.at if w.i == 0 else w.at, key, value)
    w.i = 1
    return w.at != NULL


cdef inline void rocketmq_walk(RocketmqWalk* w, const RocketmqFrameView* m, const RocketmqFields* fields) noexcept nogil:
    w.m = m
    w.fields = fields
    w.at = NULL
    w.i = 0


cdef inline bint rocketmq_is(const RocketmqText* text, const char* word, uint32_t size) noexcept nogil:
    return text.size == size and memcmp(text.at, word, size) == 0


# ------------------------------------------------------------------------------------------------ 7.1: stored messages
#
#    0  4  total size          28  8  physical offset        then  4  reconsume times
#    4  4  magic code          36  4  sysFlag                      8  prepared transaction offset
#    8  4  CRC of the body     40  8  born time, ms                4  body length, body
#   12  4  queue id            48  8  born host (or 20: IPv6)    1|2  topic length (2: magic code v2), topic
#   16  4  flag                then 8  store time, ms              2  properties length, properties
#   20  8  queue offset             8  store host (or 20)

cdef int rocketmq_message_cut(const uint8_t* base, const uint8_t* p, const uint8_t* end, int64_t need, int field,
                              int limited_by, int index, Fault* f) noexcept nogil:
    fault(f, TRUNCATED, ROCKETMQ_CHECK_MESSAGE_TRUNCATED, field, p - base, need, end - p, limited_by)
    f.index = index
    return f.status


cdef int rocketmq_message_bad(const uint8_t* base, const uint8_t* p, int check, int field, int index,
                              Fault* f) noexcept nogil:
    fault(f, rocketmq_checks[check].status, check, field, p - base, 0, 0, 0)
    f.index = index
    return f.status


cdef int rocketmq_read_message(const uint8_t* base, const uint8_t* p, const uint8_t* end, int index,
                               RocketmqMessageView* out, Fault* f) noexcept nogil:
    """Parse the stored message at `p`. Offsets of faults count from `base`; `index`: its position in the body."""
    cdef uint32_t born, store
    cdef int64_t n
    memset(out, 0, sizeof(RocketmqMessageView))
    out.at = p
    if end - p < 48:
        return rocketmq_message_cut(base, p, end, 48, ROCKETMQ_FIELD_MESSAGES_ITEM, 0, index, f)
    out.total_size = <int32_t>load_u32(p)
    out.magic_code = <int32_t>load_u32(p + 4)
    out.body_crc = <int32_t>load_u32(p + 8)
    out.queue_id = <int32_t>load_u32(p + 12)
    out.flag = <int32_t>load_u32(p + 16)
    out.queue_offset = <int64_t>load_u64(p + 20)
    out.physical_offset = <int64_t>load_u64(p + 28)
    out.sys_flag = <int32_t>load_u32(p + 36)
    out.born_timestamp = <int64_t>load_u64(p + 40)
    if out.magic_code != ROCKETMQ_MAGIC_V1 and out.magic_code != ROCKETMQ_MAGIC_V2:
        return rocketmq_message_bad(base, p + 4, ROCKETMQ_CHECK_MESSAGE_MAGIC, ROCKETMQ_FIELD_MESSAGES_MAGIC_CODE, index, f)
    born = 16 if out.sys_flag & 0x10 else 4
    store = 16 if out.sys_flag & 0x20 else 4
    n = 48 + born + 4 + 8 + store + 4 + 4 + 8 + 4
    if end - p < n:
        return rocketmq_message_cut(base, p, end, n, ROCKETMQ_FIELD_MESSAGES_ITEM, 0, index, f)
    p += 48
    p = rocketmq_take_host(p, born, &out.born_host, &out.born_port)
    out.store_timestamp = <int64_t>load_u64(p)
    p = rocketmq_take_host(p + 8, store, &out.store_host, &out.store_port)
    if not 0 <= out.born_port <= 65535:
        return rocketmq_message_bad(base, out.born_host.at + born, ROCKETMQ_CHECK_MESSAGE_PORT,
                                    ROCKETMQ_FIELD_MESSAGES_BORN_HOST, index, f)
    if not 0 <= out.store_port <= 65535:
        return rocketmq_message_bad(base, out.store_host.at + store, ROCKETMQ_CHECK_MESSAGE_PORT,
                                    ROCKETMQ_FIELD_MESSAGES_STORE_HOST, index, f)
    out.reconsume_times = <int32_t>load_u32(p)
    out.prepared_transaction_offset = <int64_t>load_u64(p + 4)
    return rocketmq_read_contents(base, p + 12, end, index, out, f)


cdef inline const uint8_t* rocketmq_take_host(const uint8_t* p, uint32_t size, Span* host, int32_t* port) noexcept nogil:
    host.at = p
    host.size = size
    port[0] = <int32_t>load_u32(p + size)
    return p + size + 4


cdef int rocketmq_read_contents(const uint8_t* base, const uint8_t* p, const uint8_t* end, int index,
                                RocketmqMessageView* out, Fault* f) noexcept nogil:
    """Body, topic and properties, each after its length; `p` points to the length of the first."""
    cdef int64_t n = <int32_t>load_u32(p)
    cdef int width = 2 if out.magic_code == ROCKETMQ_MAGIC_V2 else 1
    p += 4
    if n > 0:
        if end - p < n:
            return rocketmq_message_cut(base, p, end, n, ROCKETMQ_FIELD_MESSAGES_BODY,
                                        ROCKETMQ_FIELD_MESSAGES_BODY_LENGTH, index, f)
        if out.sys_flag & 1 and (out.sys_flag >> 8 & 7) > 3:
            return rocketmq_message_bad(base, out.at + 36, ROCKETMQ_CHECK_MESSAGE_COMPRESSION,
                                        ROCKETMQ_FIELD_MESSAGES_SYS_FLAG, index, f)
        out.body.at = p
        out.body.size = <uint32_t>n
        p += n
    if end - p < width:
        return rocketmq_message_cut(base, p, end, width, ROCKETMQ_FIELD_MESSAGES_TOPIC_LENGTH, 0, index, f)
    n = <int8_t>p[0] if width == 1 else <int16_t>load_u16(p)
    if n < 0:
        return rocketmq_message_bad(base, p, ROCKETMQ_CHECK_MESSAGE_TOPIC_LENGTH, ROCKETMQ_FIELD_MESSAGES_TOPIC_LENGTH,
                                    index, f)
    p += width
    if end - p < n:
        return rocketmq_message_cut(base, p, end, n, ROCKETMQ_FIELD_MESSAGES_TOPIC, ROCKETMQ_FIELD_MESSAGES_TOPIC_LENGTH,
                                    index, f)
    out.topic.at = p
    out.topic.size = <uint32_t>n
    p += n
    if end - p < 2:
        return rocketmq_message_cut(base, p, end, 2, ROCKETMQ_FIELD_MESSAGES_PROPERTIES_LENGTH, 0, index, f)
    n = <int16_t>load_u16(p)
    p += 2
    if n > 0:
        if end - p < n:
            return rocketmq_message_cut(base, p, end, n, ROCKETMQ_FIELD_MESSAGES_PROPERTIES,
                                        ROCKETMQ_FIELD_MESSAGES_PROPERTIES_LENGTH, index, f)
        out.properties.at = p
        out.properties.size = <uint32_t>n
        p += n
    out.size = <uint32_t>(p - out.at)
    return OK


# ---- 7.2: batches: total size, magic code, CRC (both 0), flag, body length, body, 2 octets properties length, properties

cdef int rocketmq_read_batch_item(const uint8_t* base, const uint8_t* p, const uint8_t* end, int index,
                                  RocketmqMessageView* out, Fault* f) noexcept nogil:
    """Parse the item of a batch at `p`."""
    cdef int64_t n
    memset(out, 0, sizeof(RocketmqMessageView))
    out.at = p
    if end - p < 20:
        return rocketmq_message_cut(base, p, end, 20, ROCKETMQ_FIELD_MESSAGES_ITEM, 0, index, f)
    out.total_size = <int32_t>load_u32(p)
    out.magic_code = <int32_t>load_u32(p + 4)
    out.body_crc = <int32_t>load_u32(p + 8)
    out.flag = <int32_t>load_u32(p + 12)
    n = <int32_t>load_u32(p + 16)
    if n < 0:
        return rocketmq_message_bad(base, p + 16, ROCKETMQ_CHECK_BATCH_LENGTH, ROCKETMQ_FIELD_MESSAGES_BODY_LENGTH, index, f)
    p += 20
    if end - p < n:
        return rocketmq_message_cut(base, p, end, n, ROCKETMQ_FIELD_MESSAGES_BODY, ROCKETMQ_FIELD_MESSAGES_BODY_LENGTH,
                                    index, f)
    out.body.at = p
    out.body.size = <uint32_t>n
    p += n
    if end - p < 2:
        return rocketmq_message_cut(base, p, end, 2, ROCKETMQ_FIELD_MESSAGES_PROPERTIES_LENGTH, 0, index, f)
    n = <int16_t>load_u16(p)
    if n < 0:
        return rocketmq_message_bad(base, p, ROCKETMQ_CHECK_BATCH_LENGTH, ROCKETMQ_FIELD_MESSAGES_PROPERTIES_LENGTH, index,
                                    f)
    p += 2
    if end - p < n:
        return rocketmq_message_cut(base, p, end, n, ROCKETMQ_FIELD_MESSAGES_PROPERTIES,
                                    ROCKETMQ_FIELD_MESSAGES_PROPERTIES_LENGTH, index, f)
    out.properties.at = p
    out.properties.size = <uint32_t>n
    out.size = <uint32_t>(p + n - out.at)
    return OK


cdef const uint8_t* rocketmq_next_property(const uint8_t* p, const uint8_t* end, Span* name, Span* value) noexcept nogil:
    """The property at `p` of a properties string: name 0x01 value 0x02. Returns the position of the next one, NULL after the
    last. An entry without name or value is skipped."""
    cdef const uint8_t* stop
    cdef const uint8_t* split
    while p < end:
        stop = <const uint8_t*>memchr(p, 2, <size_t>(end - p))
        if stop == NULL:
            stop = end
        split = <const uint8_t*>memchr(p, 1, <size_t>(stop - p))
        if split != NULL and split > p and split < stop - 1:
            name.at = p
            name.size = <uint32_t>(split - p)
            value.at = split + 1
            value.size = <uint32_t>(stop - split - 1)
            return stop + 1 if stop < end else end
        p = stop + 1
    return NULL


# ------------------------------------------------------------------------------------------------ for faults.pxi

cdef int rocketmq_reply_to(const Fault* f) noexcept nogil:
    """The response code to answer; -1: only close."""
    return rocketmq_checks[f.check].reply


cdef ProtocolTables ROCKETMQ_TABLES
ROCKETMQ_TABLES.name = "rocketmq"
ROCKETMQ_TABLES.text = rocketmq_check_text
ROCKETMQ_TABLES.path = rocketmq_field_path
ROCKETMQ_TABLES.spec = rocketmq_check_spec
ROCKETMQ_TABLES.reply_to = rocketmq_reply_to
ROCKETMQ_TABLES.replies = NULL


# ------------------------------------------------------------------------------------------------ secrets

cdef inline bint rocketmq_letters(int code) noexcept nogil:
    """Do the fields of a request have single letters? SEND_MESSAGE_V2, SEND_BATCH_MESSAGE, SEND_REPLY_MESSAGE_V2."""
    return code == 310 or code == 320 or code == 325


cdef inline bint rocketmq_carries_message(int code) noexcept nogil:
    """Is the body of a request a message? SEND_MESSAGE, SEND_REPLY_MESSAGE, PUSH_REPLY_MESSAGE_TO_CLIENT, and the requests
    of rocketmq_letters."""
    return code == 10 or code == 324 or code == 326 or rocketmq_letters(code)


cdef bint rocketmq_secret_properties(const uint8_t* p, size_t n) noexcept nogil:
    """Does a properties string contain a secret? A name ends before 0x01 and begins after 0x02."""
    cdef const uint8_t* end = p + n
    cdef const uint8_t* split
    cdef const uint8_t* name
    while p < end:
        split = <const uint8_t*>memchr(p, 1, <size_t>(end - p))
        if split == NULL:
            return False
        name = split
        while name > p and (name - 1)[0] != 2:
            name -= 1
        if is_secret_name(name, <size_t>(split - name)):
            return True
        p = split + 1
    return False


cdef inline bint rocketmq_secret_field(int code, const uint8_t* name, size_t name_size, const uint8_t* p,
                                       size_t n) noexcept nogil:
    """Is a field of extFields the properties of a message, and does it contain a secret?"""
    if rocketmq_letters(code):
        return name_size == 1 and name[0] == c"i" and rocketmq_secret_properties(p, n)
    return name_size == 10 and memcmp(name, b"properties", 10) == 0 and rocketmq_secret_properties(p, n)


cdef bint rocketmq_secret_messages(const Span* body, bint batch) noexcept nogil:
    """Do the properties of stored messages, or of the messages of a SEND_BATCH_MESSAGE, contain a secret?"""
    cdef const uint8_t* p = body.at
    cdef const uint8_t* end = p + body.size
    cdef RocketmqMessageView m
    cdef Fault f
    cdef int status
    while p < end:
        if batch:
            status = rocketmq_read_batch_item(body.at, p, end, 0, &m, &f)
        else:
            status = rocketmq_read_message(body.at, p, end, 0, &m, &f)
        if status != OK:                    # unreadable properties may contain anything
            return holds_secret_word(p, <size_t>(end - p))
        if m.properties.at != NULL and rocketmq_secret_properties(m.properties.at, m.properties.size):
            return True
        p += m.size
    return False


cdef bint rocketmq_secret_body(const RocketmqFrameView* m) noexcept nogil:
    """Does the body contain a secret: as JSON, as `name=value`, or among the properties of messages? The bodies of messages
    belong to the application and are not searched."""
    cdef int code = m.code
    if m.body.at == NULL:
        return False
    if m.flag & ROCKETMQ_RESPONSE:
        if m.body.at[0] >= c"\t":           # otherwise it begins with the size of a stored message
            return holds_secret_member(m.body.at, m.body.size)
        return rocketmq_secret_messages(&m.body, False)
    if code == 39 or code == 309 or code == 320:        # CHECK_TRANSACTION_STATE, CONSUME_MESSAGE_DIRECTLY, SEND_BATCH_MESSAGE
        return rocketmq_secret_messages(&m.body, code == 320)
    return not rocketmq_carries_message(code) and holds_secret_member(m.body.at, m.body.size)
