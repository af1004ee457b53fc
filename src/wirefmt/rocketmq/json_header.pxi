# 2: a header in JSON -> RocketmqFrameView.

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


cdef inline int rocketmq_spelt_member(const RocketmqText* name) noexcept nogil:
    """Which member it is, if it is written as the Java code writes it."""
    cdef uint32_t n = name.size
    cdef uint8_t c
    cdef int member
    if name.form != ROCKETMQ_OCTETS or n < 4:
        return ROCKETMQ_OTHER
    c = name.at[0]
    member = ((ROCKETMQ_CODE if c == c"c" else ROCKETMQ_FLAG if c == c"f" else ROCKETMQ_BODY) if n == 4 else
              (ROCKETMQ_OPAQUE if c == c"o" else ROCKETMQ_REMARK) if n == 6 else
              ROCKETMQ_VERSION if n == 7 else ROCKETMQ_LANGUAGE if n == 8 else
              (ROCKETMQ_EXT_FIELDS if c == c"e" else ROCKETMQ_SUSPENDED) if n == 9 else
              ROCKETMQ_SERIALIZE if n == 23 else ROCKETMQ_OTHER)
    return member if member and same_octets(name.at, <const uint8_t*>ROCKETMQ_MEMBER_NAMES[member], n) else ROCKETMQ_OTHER


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
        rocketmq_no_fields(fields)
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
    if rocketmq_written_header(&j, m, fields):
        return OK
    j.at += 1
    while True:
        status = rocketmq_json_next(&j)
        if status != OK or j.at[0] == c"}":
            break
        begin = j.at
        if not rocketmq_plain_member(&j, &name):
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
            status = rocketmq_json_after(&j, rocketmq_may_be_parted(&j, member))
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


cdef bint rocketmq_written_header(RocketmqJson* j, RocketmqFrameView* m, RocketmqFields* fields) noexcept nogil:
    """Read a header exactly as the Java code writes it: its members in its order, no blank, numbers of digits. False: another
    one, which rocketmq_read_json reads; nothing has changed. This function finds no fault."""
    cdef const uint8_t* begin = j.at
    cdef RocketmqText language, remark
    cdef int32_t code = 0, flag = 0, opaque = 0, version = 0
    remark.form = ROCKETMQ_NULL
    if (ROCKETMQ_WRITTEN(&j.at, j.end, b'{"code":', 8) and rocketmq_digits(j, &code) and rocketmq_written_ext(j, m, fields)
            and ROCKETMQ_WRITTEN(&j.at, j.end, b',"flag":', 8) and rocketmq_digits(j, &flag)
            and ROCKETMQ_WRITTEN(&j.at, j.end, b',"language":"', 13) and rocketmq_written_text(j, &language)
            and ROCKETMQ_WRITTEN(&j.at, j.end, b',"opaque":', 10) and rocketmq_digits(j, &opaque)
            and (not ROCKETMQ_WRITTEN(&j.at, j.end, b',"remark":"', 11) or rocketmq_written_text(j, &remark))
            and ROCKETMQ_WRITTEN(&j.at, j.end, b',"serializeTypeCurrentRPC":"JSON"', 33)
            and ROCKETMQ_WRITTEN(&j.at, j.end, b',"version":', 11) and rocketmq_digits(j, &version)
            and j.at + 1 == j.end and j.at[0] == c"}"
            and (j.max_elements == 0 or j.elements + 8 <= j.max_elements)
            and rocketmq_take_language(j, language.at, True, &language, &m.language) == OK):
        m.code = code
        m.flag = flag
        m.opaque = opaque
        m.has_opaque = True
        m.version = version
        m.written = True
        if remark.form != ROCKETMQ_NULL:
            m.remark = remark
        return True
    j.at = begin
    j.elements = 0
    m.ext.at = NULL
    m.ext.size = m.ext_count = 0
    if fields != NULL:
        fields.count = 0
    return False


cdef inline bint rocketmq_written_text(RocketmqJson* j, RocketmqText* out) noexcept nogil:
    """Read a string without escapes up to the next quote."""
    cdef const uint8_t* end = rocketmq_special(j.at, j.end, c'"')
    rocketmq_set_text(out, j.at, end, ROCKETMQ_OCTETS)
    if end == j.end or end[0] != c'"':
        return False
    j.at = end + 1
    return True


cdef inline bint rocketmq_written_ext(RocketmqJson* j, RocketmqFrameView* m, RocketmqFields* fields) noexcept nogil:
    """extFields, or nothing."""
    if not ROCKETMQ_WRITTEN(&j.at, j.end, b',"extFields":{', 14):
        return True
    m.ext.at = j.at
    rocketmq_plain_fields(j, m, fields)
    m.ext.size = <uint32_t>(j.at - m.ext.at)
    if j.at == j.end or j.at[0] != c"}":
        return False
    j.at += 1
    return True


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


cdef inline int rocketmq_json_after(RocketmqJson* j, bint semicolon) noexcept nogil:
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
    cdef int32_t number = 0
    cdef bint quoted
    cdef int status
    if member == ROCKETMQ_EXT_FIELDS:
        return rocketmq_take_ext(j, m, fields)
    if rocketmq_digits(j, &number):
        if member == ROCKETMQ_CODE:
            m.code = number
            return OK
        if member == ROCKETMQ_FLAG:
            m.flag = number
            return OK
        if member == ROCKETMQ_VERSION:
            m.version = number
            return OK
        if member == ROCKETMQ_OPAQUE:
            m.opaque = number
            m.has_opaque = True
            return OK
        j.at = at
    quoted = at < j.end and (at[0] == c'"' or at[0] == c"'")
    status = rocketmq_json_string(j, &value) if quoted else rocketmq_json_value(j, &value)
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
        return rocketmq_take_ordinal(j, at, &value, 2, ROCKETMQ_CHECK_JSON_SYNTAX, &number)
    if member == ROCKETMQ_REMARK:
        m.remark = value
    elif (member == ROCKETMQ_BODY and not rocketmq_is_octets(&value, quoted)) or \
            (member == ROCKETMQ_SUSPENDED and not rocketmq_is_boolean(&value, quoted)):
        j.at = at
        return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
    return OK


cdef inline bint rocketmq_digits(RocketmqJson* j, int32_t* out) noexcept nogil:
    """Read a number of one to nine digits that the next member or the end follows; False: anything else."""
    cdef const uint8_t* p = j.at
    cdef const uint8_t* stop = p + min(<size_t>(j.end - p), <size_t>10)
    cdef uint32_t v = 0, digit
    while p < stop:
        digit = <uint32_t>p[0] - c"0"
        if digit > 9:
            break
        v = v * 10 + digit
        p += 1
    if p == j.at or p == stop or (p[0] != c"," and p[0] != c"}"):
        return False
    out[0] = <int32_t>v
    j.at = p
    return True


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
    rocketmq_plain_fields(j, m, fields)
    while True:
        status = rocketmq_json_next(j)
        if status == OK and j.at[0] == c"}":
            break
        if status == OK:
            status = rocketmq_json_field(j, &key, &text)
        if status == OK:
            status = rocketmq_json_after(j, True)
        if status != OK:
            return status
        m.ext_count += 1
        if fields != NULL:
            rocketmq_keep_field(fields, &key, &text)
    m.ext.size = <uint32_t>(j.at - m.ext.at)
    j.at += 1
    return OK


cdef inline void rocketmq_plain_fields(RocketmqJson* j, RocketmqFrameView* m, RocketmqFields* fields) noexcept nogil:
    """Read entries of extFields as long as they are as the Java code writes them: `"name":"value"` before a comma or the closing
    brace, without a blank. rocketmq_take_ext reads all others, and finds every fault."""
    cdef const uint8_t* p = j.at
    cdef const uint8_t* end = j.end
    cdef const uint8_t* name_end
    cdef const uint8_t* value
    cdef uint32_t count = 0, left_ = j.max_elements - j.elements if j.max_elements else 0xFFFFFFFF
    cdef int kept = ROCKETMQ_FIELDS_KEPT if fields == NULL else fields.count
    cdef uint8_t form
    cdef int n
    while count < left_ and p < end and p[0] == c'"':
        name_end = rocketmq_special(p + 1, end, c'"')
        if end - name_end < 5 or name_end[0] != c'"' or name_end[1] != c":" or name_end[2] != c'"':
            break
        form = ROCKETMQ_OCTETS
        value = rocketmq_special(name_end + 3, end, c'"')
        while value < end and value[0] == c"\\":
            form = ROCKETMQ_ESCAPED
            n = 5 if rocketmq_is_split(value + 1, end) else rocketmq_json_escape(value + 1, end)
            if n < 0:
                break
            value = rocketmq_special(value + 1 + n, end, c'"')
        if end - value < 2 or value[0] != c'"' or (value[1] != c"," and value[1] != c"}"):
            break
        if kept < ROCKETMQ_FIELDS_KEPT:
            rocketmq_set_text(&fields.held_keys[kept], p + 1, name_end, ROCKETMQ_OCTETS)
            rocketmq_set_text(&fields.values[kept], name_end + 3, value, form)
            kept += 1
        count += 1
        p = value + (2 if value[1] == c"," else 1)
    j.elements += count
    m.ext_count += count
    if count:
        j.at = p if (p - 1)[0] == c'"' else p - 1       # before the comma
        if fields != NULL:
            fields.count += count


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


cdef uint8_t[ROCKETMQ_LANGUAGES] ROCKETMQ_LANGUAGE_SIZE


cdef int fill_rocketmq_languages() except -1:
    cdef int k
    for k in range(ROCKETMQ_LANGUAGES):
        ROCKETMQ_LANGUAGE_SIZE[k] = <uint8_t>strlen(rocketmq_languages[k])
    return 0


fill_rocketmq_languages()


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
        if ROCKETMQ_LANGUAGE_SIZE[k] != value.size:
            continue
        if same_octets(value.at, <const uint8_t*>rocketmq_languages[k], value.size):
            out[0] = <int16_t>k
            return OK
        for i in range(value.size):
            c = value.at[i]
            if (c - 0x20 if c"a" <= c <= c"z" else c) != <uint8_t>rocketmq_languages[k][i]:
                break
        else:
            out[0] = <int16_t>k
            return OK
    return OK
