# RocketMQ remoting: the octets of one frame -> RocketmqFrameView. Objects and columns both use this room.
#
# The only specification is the Java code; docs/rocketmq.md describes its behaviour, and section numbers refer to that
# page. STRICT and LAX alike accept what the real reader accepts, and refuse what it refuses.
#
#   offset 0  4 octets  L: octets that follow
#   offset 4  1 octet   how the header is written: 0 JSON, 1 ROCKETMQ (binary)
#   offset 5  3 octets  H: octets of the header
#   offset 8  H octets  header
#   then      L - 4 - H body

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
        rocketmq_no_fields(fields)
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


cdef int rocketmq_read_map(RocketmqFrameView* m, const uint8_t* p, const uint8_t* stop, const uint8_t* end,
                           uint32_t max_elements, RocketmqFields* fields, Fault* f) noexcept nogil:
    """Read the map whose length says that it ends at `stop`. An entry that begins before `stop` is read to its own end, but none
    of its texts may be longer than the stated size of the map."""
    cdef RocketmqText key, value
    cdef const uint8_t* begin = p
    cdef const uint8_t* unseen = p          # the octets that are not checked for ASCII yet begin here
    cdef bint ascii = True
    cdef uint32_t count = 0
    cdef int status = OK
    m.ext.at = begin
    rocketmq_set_text(&key, NULL, NULL, ROCKETMQ_NULL)
    rocketmq_set_text(&value, NULL, NULL, ROCKETMQ_NULL)
    while status == OK and p < stop:
        if max_elements and count == max_elements:
            return fault(f, LIMIT, ROCKETMQ_CHECK_ELEMENTS, ROCKETMQ_FIELD_EXT_FIELDS, p - m.frame,
                         <int64_t>count + 1, max_elements, 0)
        status = rocketmq_take_text(m, &p, end, 2, stop - begin, ROCKETMQ_FIELD_EXT_FIELDS_KEY, <int>count, &key, f)
        if status == OK:
            status = rocketmq_take_text(m, &p, end, 4, stop - begin, ROCKETMQ_FIELD_EXT_FIELDS_VALUE, <int>count, &value, f)
        if status == OK and fields != NULL:
            rocketmq_keep_field(fields, &key, &value)
        if status == OK and (key.size | value.size) & <uint32_t>0x80808080:       # an octet of a length is not ASCII
            ascii = (ascii and is_ascii(unseen, <size_t>(key.at - 2 - unseen)) and is_ascii(key.at, key.size)
                     and is_ascii(value.at, value.size))
            unseen = p
        count += 1
    m.ascii = status == OK and ascii and is_ascii(unseen, <size_t>(p - unseen))
    m.ext.size = <uint32_t>(p - begin)
    m.ext_count = count
    return status


cdef inline int rocketmq_take_text(const RocketmqFrameView* m, const uint8_t** at, const uint8_t* end, int width, int64_t most,
                                   int field, int index, RocketmqText* out, Fault* f) noexcept nogil:
    """A length of `width` octets, and as many octets, at most `most`; zero octets are null."""
    cdef const uint8_t* p = at[0]
    cdef int64_t left = end - p - width, size
    if left < 0:
        return rocketmq_refuse_text(m, p, left, width, most, field, index, f)
    size = <int16_t>load_u16(p) if width == 2 else <int32_t>load_u32(p)
    if not 0 <= size <= min(left, most):
        return rocketmq_refuse_text(m, p, left, width, most, field, index, f)
    out.at = p + width
    out.size = <uint32_t>size
    out.form = ROCKETMQ_OCTETS if size else ROCKETMQ_NULL
    at[0] = p + width + size
    return OK


cdef int rocketmq_refuse_text(const RocketmqFrameView* m, const uint8_t* p, int64_t left, int width, int64_t most,
                              int field, int index, Fault* f) noexcept nogil:
    """The fault of a text whose length is at `p`, with `left` octets after it."""
    cdef int64_t size = 0
    cdef int status
    if left >= 0:
        size = <int16_t>load_u16(p) if width == 2 else <int32_t>load_u32(p)
    if left < 0:
        status = fault(f, TRUNCATED, ROCKETMQ_CHECK_HEADER_TRUNCATED, field, p - m.frame, width, max(left + width, <int64_t>0),
                       ROCKETMQ_FIELD_HEADER_LENGTH)
    elif size < 0:
        status = fault(f, MALFORMED, ROCKETMQ_CHECK_LENGTH_NEGATIVE, field, p - m.frame, 0, 0, 0)
    elif size > left:
        status = fault(f, TRUNCATED, ROCKETMQ_CHECK_HEADER_TRUNCATED, field, p + width - m.frame, size, left,
                       ROCKETMQ_FIELD_HEADER_LENGTH)
    else:
        status = fault(f, TRUNCATED, ROCKETMQ_CHECK_HEADER_TRUNCATED, field, p + width - m.frame, size, most,
                       ROCKETMQ_FIELD_EXT_FIELDS)
    f.index = index
    return status


# ------------------------------------------------------------------------------------------------ for faults.pxi

cdef int rocketmq_reply_to(const Fault* f) noexcept nogil:
    """The response code to answer; -1: only close."""
    return rocketmq_checks[f.check].reply


cdef ProtocolTables ROCKETMQ_TABLES
ROCKETMQ_TABLES.name = "rocketmq"
ROCKETMQ_TABLES.names = rocketmq_check_name
ROCKETMQ_TABLES.text = rocketmq_check_text
ROCKETMQ_TABLES.path = rocketmq_field_path
ROCKETMQ_TABLES.spec = rocketmq_check_spec
ROCKETMQ_TABLES.reply_to = rocketmq_reply_to
ROCKETMQ_TABLES.replies = NULL
