# JSON objects as nsqd's decoder reads them: RFC 8259, without checking the bytes of strings. No object is built; a walk yields
# the members one by one.
#
# nsqd's rules (Go's encoding/json): names match in any case, the last of equal names counts, null changes
# nothing, and a number for an integer has neither fraction nor exponent.

cdef enum:
    NSQ_JSON_DEPTH = 64             # levels of nested arrays and objects
    NSQ_JSON_NUMBER_MAX = 1024      # octets of a number
    NSQ_NAME_CAPACITY = 32              # longer than any name of the tables


cdef enum NsqJsonType:
    NSQ_JSON_NONE = 0
    NSQ_JSON_STRING
    NSQ_JSON_TRUE
    NSQ_JSON_FALSE
    NSQ_JSON_NULL
    NSQ_JSON_INTEGER                # no fraction, no exponent
    NSQ_JSON_NUMBER
    NSQ_JSON_ARRAY
    NSQ_JSON_OBJECT


cdef struct NsqJson:
    const uint8_t* at
    const uint8_t* end
    int check                       # why it ended, a row of CHECKS; 0: no fault so far
    uint32_t members                # read so far


cdef struct NsqMember:
    Span name                       # between the quotes, including escapes
    Span value                      # as written; for a string, the text between the quotes
    uint8_t type
    bint in_range                       # INTEGER: `number` has it
    int64_t number


cdef inline bint nsq_json_stop(NsqJson* j, int check) noexcept nogil:
    j.check = check
    return False


cdef inline bint nsq_json_space(NsqJson* j) noexcept nogil:
    """Skip white space. False: the text ends too early."""
    while j.at < j.end and (j.at[0] == 0x20 or j.at[0] == 0x0A or j.at[0] == 0x0D or j.at[0] == 0x09):
        j.at += 1
    return True if j.at < j.end else nsq_json_stop(j, NSQ_CHECK_JSON_SYNTAX)


cdef int nsq_json_begin(NsqJson* j, const uint8_t* p, size_t n) noexcept nogil:
    """Start at a whole JSON text: NSQ_JSON_OBJECT, or NSQ_JSON_NULL, which nsqd treats as an empty object. NONE: see `check`."""
    cdef NsqMember m
    j.at = p
    j.end = p + n
    j.check = 0
    j.members = 0
    if not nsq_json_space(j):
        return NSQ_JSON_NONE
    if j.at[0] == c"{":
        j.at += 1
        return NSQ_JSON_OBJECT
    if nsq_json_value(j, &m) and nsq_json_is_over(j):
        if m.type == NSQ_JSON_NULL:
            return NSQ_JSON_NULL
        j.check = NSQ_CHECK_JSON_OBJECT
    return NSQ_JSON_NONE


cdef bint nsq_json_is_over(NsqJson* j) noexcept nogil:
    """Only white space follows."""
    nsq_json_space(j)
    j.check = 0
    return True if j.at == j.end else nsq_json_stop(j, NSQ_CHECK_JSON_SYNTAX)


cdef bint nsq_json_next(NsqJson* j, NsqMember* m) noexcept nogil:
    """The next member of the object. False: the end, or see `check`."""
    if not nsq_json_space(j):
        return False
    if j.at[0] == c"}":
        j.at += 1
        nsq_json_is_over(j)
        return False
    if j.members:
        if j.at[0] != c",":
            return nsq_json_stop(j, NSQ_CHECK_JSON_SYNTAX)
        j.at += 1
        if not nsq_json_space(j):
            return False
    j.members += 1
    return nsq_json_name(j, &m.name) and nsq_json_value(j, m)


cdef inline bint nsq_json_name(NsqJson* j, Span* name) noexcept nogil:
    """A name with its colon; the value begins after it."""
    if j.at[0] != c"\"":
        return nsq_json_stop(j, NSQ_CHECK_JSON_SYNTAX)
    if not nsq_json_string(j, name) or not nsq_json_space(j):
        return False
    if j.at[0] != c":":
        return nsq_json_stop(j, NSQ_CHECK_JSON_SYNTAX)
    j.at += 1
    return nsq_json_space(j)


cdef bint nsq_json_value(NsqJson* j, NsqMember* m) noexcept nogil:
    """A value of any type; at least one octet is left."""
    m.value.at = j.at
    if j.at[0] == c"[" or j.at[0] == c"{":
        m.type = NSQ_JSON_ARRAY if j.at[0] == c"[" else NSQ_JSON_OBJECT
        if not nsq_json_skip(j):
            return False
        m.value.size = <uint32_t>(j.at - m.value.at)
        return True
    return nsq_json_scalar(j, m)


cdef bint nsq_json_skip(NsqJson* j) noexcept nogil:
    """Skip an array or object with its contents."""
    cdef uint64_t objects = 0           # bit d: the container at depth d, from the innermost, is an object
    cdef int depth = 0
    cdef NsqMember m
    cdef bint object_
    while True:                         # a value begins
        if j.at[0] == c"[" or j.at[0] == c"{":
            if depth == NSQ_JSON_DEPTH - 1:
                return nsq_json_stop(j, NSQ_CHECK_JSON_NESTING)
            object_ = j.at[0] == c"{"
            objects = objects << 1 | object_
            depth += 1
            j.at += 1
            if not nsq_json_space(j):
                return False
            if j.at[0] != (c"}" if object_ else c"]"):
                if object_ and not nsq_json_name(j, &m.name):
                    return False
                continue
        elif not nsq_json_scalar(j, &m):
            return False
        while True:                     # a value ended, or an empty array or object ends
            if not nsq_json_space(j):
                return False
            object_ = objects & 1
            if j.at[0] == (c"}" if object_ else c"]"):
                j.at += 1
                objects >>= 1
                depth -= 1
                if depth == 0:
                    return True
                continue
            if j.at[0] != c",":
                return nsq_json_stop(j, NSQ_CHECK_JSON_SYNTAX)
            j.at += 1
            if not nsq_json_space(j) or (object_ and not nsq_json_name(j, &m.name)):
                return False
            break


cdef bint nsq_json_scalar(NsqJson* j, NsqMember* m) noexcept nogil:
    m.value.at = j.at
    if j.at[0] == c"\"":
        m.type = NSQ_JSON_STRING
        return nsq_json_string(j, &m.value)
    if j.at[0] == c"-" or c"0" <= j.at[0] <= c"9":
        return nsq_json_number(j, m)
    m.type = NSQ_JSON_TRUE if j.at[0] == c"t" else NSQ_JSON_FALSE if j.at[0] == c"f" else NSQ_JSON_NULL
    return nsq_json_word(j, b"true" if m.type == NSQ_JSON_TRUE else b"false" if m.type == NSQ_JSON_FALSE else b"null")


cdef bint nsq_json_word(NsqJson* j, const char* word) noexcept nogil:
    cdef size_t n = strlen(word)
    if <size_t>(j.end - j.at) < n or memcmp(j.at, word, n) != 0:
        return nsq_json_stop(j, NSQ_CHECK_JSON_SYNTAX)
    j.at += n
    return True


cdef bint nsq_json_string(NsqJson* j, Span* out) noexcept nogil:
    """Read a string that begins at a quote; checks its escapes."""
    cdef const uint8_t* p = j.at + 1
    cdef int i
    out.at = p
    while p < j.end and p[0] >= 0x20:
        if p[0] == c"\"":
            out.size = <uint32_t>(p - out.at)
            j.at = p + 1
            return True
        if p[0] != c"\\":
            p += 1
            continue
        if j.end - p < 2 or memchr(b"\"\\/bfnrtu", p[1], 9) == NULL:
            break
        p += 2
        if (p - 1)[0] == c"u":
            if j.end - p < 4:
                break
            for i in range(4):
                if hex_digit(p[i]) == NOT_HEX:
                    j.at = p
                    return nsq_json_stop(j, NSQ_CHECK_JSON_SYNTAX)
            p += 4
    j.at = p
    return nsq_json_stop(j, NSQ_CHECK_JSON_SYNTAX)


cdef bint nsq_json_number(NsqJson* j, NsqMember* m) noexcept nogil:
    """RFC 8259, 6: no leading zeros, digits on both sides of a point."""
    cdef const uint8_t* p = j.at
    cdef bint negative = p[0] == c"-"
    cdef uint64_t n = 0
    m.type = NSQ_JSON_INTEGER
    m.in_range = True
    p += negative
    if not nsq_digits(&p, j.end, &n, &m.in_range) or (p - j.at > 1 + negative and j.at[negative] == c"0"):
        return nsq_json_stop(j, NSQ_CHECK_JSON_SYNTAX)
    if n > <uint64_t>0x7FFFFFFFFFFFFFFF + negative:
        m.in_range = False
    m.number = <int64_t>(0 - n) if negative else <int64_t>n
    if p < j.end and p[0] == c".":
        p += 1
        m.type = NSQ_JSON_NUMBER
        if not nsq_digits(&p, j.end, &n, &m.in_range):
            return nsq_json_stop(j, NSQ_CHECK_JSON_SYNTAX)
    if p < j.end and p[0] | 32 == c"e":
        p += 1
        m.type = NSQ_JSON_NUMBER
        if p < j.end and (p[0] == c"-" or p[0] == c"+"):
            p += 1
        if not nsq_digits(&p, j.end, &n, &m.in_range):
            return nsq_json_stop(j, NSQ_CHECK_JSON_SYNTAX)
    if p - j.at > NSQ_JSON_NUMBER_MAX:
        return nsq_json_stop(j, NSQ_CHECK_JSON_NUMBER)
    m.value.size = <uint32_t>(p - j.at)
    j.at = p
    return True


cdef inline bint nsq_digits(const uint8_t** p, const uint8_t* end, uint64_t* n, bint* in_range) noexcept nogil:
    """Digits as a number; False: no digits. `in_range` becomes False if the number needs more than 64 bits."""
    cdef const uint8_t* at = p[0]
    cdef bint some
    while at < end and c"0" <= at[0] <= c"9":
        if n[0] > (<uint64_t>0xFFFFFFFFFFFFFFFF - 9) // 10:
            in_range[0] = False
        n[0] = n[0] * 10 + (at[0] - 48)
        at += 1
    some = at > p[0]
    p[0] = at
    return some


cdef int nsq_fold_name(const Span* name, char* folded) noexcept nogil:
    """A member's name without escapes, in lower case, in NSQ_NAME_ROOM octets; -1: not a known name."""
    cdef const uint8_t* p = name.at
    cdef const uint8_t* end = p + name.size
    cdef int n = 0
    cdef int c
    while p < end:
        c = nsq_next_letter(&p)
        if n == NSQ_NAME_CAPACITY or c >= 0x80:
            return -1
        folded[n] = <char>(c | 32 if c"A" <= c <= c"Z" else c)
        n += 1
    return n


cdef int nsq_member_row(const Span* name) noexcept nogil:
    """The row of nsq_members with this name, in any case and with any escapes; -1: none."""
    cdef char folded[NSQ_NAME_CAPACITY]
    cdef int n = nsq_fold_name(name, folded)
    cdef int i
    for i in range(NSQ_MEMBERS):
        if n == <int>strlen(nsq_member_name[i]) and memcmp(nsq_member_name[i], folded, <size_t>n) == 0:
            return i
    return -1


cdef int nsq_next_letter(const uint8_t** p) noexcept nogil:
    """One letter of a checked string. Beyond ASCII, only U+212A and U+017F fold to ASCII letters."""
    cdef const uint8_t* at = p[0]
    cdef int c = at[0]
    cdef int i
    at += 1
    if c == c"\\":
        c = at[0]
        at += 1
        if c == c"u":
            c = <int>hex4(at)
            at += 4
        elif c == c"b" or c == c"f" or c == c"n" or c == c"r" or c == c"t":
            c = 0                           # a control character, which no name contains
    elif c == 0xE2 and at[0] == 0x84 and at[1] == 0xAA:
        c = 0x212A
        at += 2
    elif c == 0xC5 and at[0] == 0xBF:
        c = 0x17F
        at += 1
    p[0] = at
    return c"k" if c == 0x212A else c"s" if c == 0x17F else c
