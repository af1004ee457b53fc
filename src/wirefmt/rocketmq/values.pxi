# RocketMQ's texts and its JSON as Python values, and Python values as the Java code writes them: fastjson's escapes,
# members of objects in the order of a Java HashMap.
from cpython.memoryview cimport PyMemoryView_FromObject

from decimal import Decimal
from types import MappingProxyType


cdef enum:
    ROCKETMQ_STACK_TEXT = 1024      # octets that are unescaped without allocated memory


# ------------------------------------------------------------------------------------------------ octets -> values

cdef inline str rocketmq_utf8(const uint8_t* p, size_t n):
    """A str; ill-formed UTF-8 becomes U+FFFD."""
    cdef size_t bad
    if is_ascii(p, n):
        return shared_text(p, <uint32_t>n)
    if is_utf8(p, n, &bad):
        return PyUnicode_DecodeUTF8(<const char*>p, <Py_ssize_t>n, NULL)
    return rocketmq_replaced(p, n)


cdef str rocketmq_replaced(const uint8_t* p, size_t n):
    """Ill-formed UTF-8 as Java decodes it: like Python, except that a surrogate, or its first octets, is one U+FFFD."""
    cdef bytearray octets = bytearray(p[:n])
    cdef size_t i
    for i in range(n - 1):
        if p[i] == 0xED and 0xA0 <= p[i + 1] <= 0xBF:
            if n - i > 2 and p[i + 2] & 0xC0 == 0x80:
                octets[i], octets[i + 1], octets[i + 2] = 0xEF, 0xBF, 0xBD
            else:
                octets[i] = 0xEC                    # the beginning of a character whose end is missing
    return octets.decode("utf-8", "replace")


cdef object rocketmq_text(const RocketmqText* t):
    """The value of a text: str or None."""
    cdef uint8_t[ROCKETMQ_STACK_TEXT] scratch
    cdef uint8_t* more
    if t.form == ROCKETMQ_NULL:
        return None
    if t.form == ROCKETMQ_OCTETS:
        return rocketmq_utf8(t.at, t.size)
    if t.form == ROCKETMQ_VALUE:
        return java_text(rocketmq_build(t.at, t.size))
    if t.size <= ROCKETMQ_STACK_TEXT:
        return rocketmq_utf8(scratch, rocketmq_unescape(t.at, t.size, scratch))
    more = <uint8_t*>malloc(t.size)
    if more == NULL:
        raise MemoryError
    try:
        return rocketmq_utf8(more, rocketmq_unescape(t.at, t.size, more))
    finally:
        free(more)


cdef object rocketmq_build(const uint8_t* p, size_t n):
    """The value of JSON that rocketmq_json_value has accepted."""
    cdef RocketmqJson j
    cdef Fault f
    rocketmq_json_begin(&j, p, n, 0, &f)
    return rocketmq_build_value(&j)


cdef void rocketmq_json_begin(RocketmqJson* j, const uint8_t* p, size_t n, uint32_t max_elements, Fault* f) noexcept nogil:
    j.base = j.at = p
    j.end = p + n
    j.elements = 0
    j.max_elements = max_elements
    j.field = ROCKETMQ_FIELD_BODY
    j.f = f


cdef object rocketmq_build_value(RocketmqJson* j):
    """The value at the reader's position; it nests no deeper than the check before allowed."""
    cdef RocketmqText text
    cdef uint8_t first = j.at[0]
    if first == c"{":
        return rocketmq_build_object(j)
    if first == c"[":
        return rocketmq_build_array(j)
    rocketmq_json_scalar(j, &text)
    return rocketmq_scalar(first, &text)


cdef enum:
    INT_DIGITS = 4000               # longer numbers are Decimals: int() is slow for them, and Python refuses very long ones


cdef object rocketmq_scalar(uint8_t first, const RocketmqText* text):
    """The value of a scalar that began with the octet `first`."""
    if text.form == ROCKETMQ_NULL or first == c'"' or first == c"'":
        return rocketmq_text(text)
    if first == c"t" or first == c"f":
        return first == c"t"
    digits = text.at[:text.size].decode("ascii")
    if text.form == ROCKETMQ_OCTETS and 0 < len(digits) < INT_DIGITS and digits != "-":
        return int(digits)
    try:
        fraction = Decimal(digits)
        return fraction if fraction else fraction.copy_abs()        # there is no negative zero
    except ArithmeticError:
        return Decimal(0)


cdef dict rocketmq_build_object(RocketmqJson* j):
    cdef RocketmqText name
    cdef dict out = {}
    cdef uint8_t first
    j.at += 1
    while True:
        rocketmq_json_step(j)
        first = j.at[0]
        if first == c"}":
            j.at += 1
            return out
        rocketmq_json_name(j, True, &name)
        key = rocketmq_scalar(first, &name) if first == c"-" or c"0" <= first <= c"9" else rocketmq_text(&name)
        out[key] = rocketmq_build_value(j)


cdef list rocketmq_build_array(RocketmqJson* j):
    cdef list out = []
    j.at += 1
    while True:
        rocketmq_json_step(j)
        if j.at[0] == c"]":
            j.at += 1
            return out
        out.append(rocketmq_build_value(j))


def decode_json(data, *, limits=None):
    """Decode a JSON body as the Java reader does: with members without quotes and bare numbers as names.

    Objects are dicts (a bare number as a name is an int; of equal names the last one counts), fractions are Decimals.
    Raises DecodeError if it is not JSON, or nests deeper than 64 levels.
    """
    cdef bytes block = take_block(data)
    cdef RocketmqJson j
    cdef RocketmqText text
    cdef Fault f
    cdef const uint8_t* begin
    cdef int status
    rocketmq_json_begin(&j, <const uint8_t*>PyBytes_AS_STRING(block), <size_t>PyBytes_GET_SIZE(block),
                        DEFAULT_ROCKETMQ_ELEMENTS if limits is None else limits.elements, &f)
    status = rocketmq_json_gap(&j)
    begin = j.at
    if status == OK:
        status = rocketmq_json_value(&j, &text)
    if status == OK:
        status = rocketmq_json_gap(&j)
    if status == OK and j.at < j.end:
        status = rocketmq_json_stop(&j, ROCKETMQ_CHECK_JSON_TRAILING)
    if status != OK:
        raise_fault(&ROCKETMQ_TABLES, &f, 0)
    j.at = begin
    return rocketmq_build_value(&j)


cdef uint32_t DEFAULT_ROCKETMQ_ELEMENTS = Limits().elements


# ------------------------------------------------------------------------------------------------ the order of a HashMap

cdef uint32_t ascii_java_hash(const uint8_t* p, Py_ssize_t size) noexcept nogil:
    cdef uint32_t h = 0
    cdef Py_ssize_t i
    for i in range(size):
        h = h * 31 + p[i]
    return h


cdef uint32_t java_hash(str text):
    """String.hashCode: over UTF-16 units."""
    cdef uint32_t h = 0
    cdef Py_UCS4 c
    cdef Py_ssize_t size = 0
    cdef const uint8_t* p = ascii_octets(<PyObject*>text, &size)
    if p != NULL:
        return ascii_java_hash(p, size)
    for c in text:
        if c > 0xFFFF:
            h = h * 31 + (0xD800 + ((<uint32_t>c - 0x10000) >> 10))
            h = h * 31 + (0xDC00 + ((<uint32_t>c - 0x10000) & 0x3FF))
        else:
            h = h * 31 + <uint32_t>c
    return h


def hash_code(str text not None, /):
    """Java's hash code of a string, signed 32 bits: the value of a tag in the codeSet of a subscription."""
    return <int32_t>java_hash(text)


cdef inline uint32_t java_capacity(Py_ssize_t count, uint32_t capacity) noexcept nogil:
    """Buckets of a HashMap that began with `capacity`: they double when three quarters are full."""
    while count > capacity * 3 // 4:
        capacity *= 2
    return capacity


cdef list java_order(object names, uint32_t capacity):
    """Names in the iteration order of a HashMap that began with `capacity` buckets."""
    cdef list out = list(names)
    capacity = java_capacity(len(out), capacity)
    placed = []
    for i, name in enumerate(out):
        h = java_hash(name)
        placed.append(((h ^ h >> 16) & (capacity - 1), i, name))
    placed.sort()
    return [name for _, _, name in placed]


# ------------------------------------------------------------------------------------------------ values -> JSON

cdef int write_java_string(Writer w, object value, str field) except -1:
    """A str in quotes, with fastjson's escapes."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* p = utf8_view(value, &size, field)
    return write_java_octets(w, p, <size_t>size)


cdef enum:
    JAVA_STEP = 8               # most octets that one step of write_java_octets writes
    JAVA_CAPACITY = 4096            # octets for which it makes space at a time


cdef int write_java_octets(Writer w, const uint8_t* p, size_t size) except -1:
    """UTF-8 in quotes, with fastjson's escapes: quotes, backslash, control characters (0x7F to 0x9F too), U+2028, U+2029."""
    cdef const uint8_t* end = p + size
    cdef uint8_t* out = NULL
    cdef uint8_t* limit = NULL
    cdef size_t capacity
    w.put_u8(c'"')
    while p < end:
        if limit - out < JAVA_STEP:
            w.out.size -= <size_t>(limit - out)
            capacity = min(6 * <size_t>(end - p), <size_t>JAVA_CAPACITY) + JAVA_STEP
            out = w.grow(capacity)
            limit = out + capacity
        write_java_step(&p, end, &out)
    w.out.size -= <size_t>(limit - out)
    return w.put_u8(c'"')


cdef inline void write_java_step(const uint8_t** at, const uint8_t* end, uint8_t** to) noexcept nogil:
    """One character, or eight that need no escape; at most JAVA_STEP octets."""
    cdef const uint8_t* p = at[0]
    cdef uint8_t* out = to[0]
    cdef uint32_t c = p[0]
    if end - p >= 8 and is_plain_json(word_at(p)):
        memcpy(out, p, 8)
        at[0] = p + 8
        to[0] = out + 8
        return
    if c == 0xC2 and p[1] < 0xA0:
        c = p[1]
        p += 2
    elif c == 0xE2 and p[1] == 0x80 and (p[2] == 0xA8 or p[2] == 0xA9):
        c = 0x2000 | (p[2] & 0x7F)
        p += 3
    else:
        p += 1
        if c >= 0x20 and c != c'"' and c != c"\\" and c != 0x7F:
            out[0] = <uint8_t>c
            at[0] = p
            to[0] = out + 1
            return
    at[0] = p
    out[0] = c"\\"
    if c == c'"' or c == c"\\":
        out[1] = <uint8_t>c
        to[0] = out + 2
    elif 8 <= c <= 13 and c != 11:
        out[1] = <uint8_t>b"btnvfr"[c - 8]
        to[0] = out + 2
    else:
        out[1] = c"u"
        out[2] = <uint8_t>b"0123456789ABCDEF"[c >> 12]
        out[3] = <uint8_t>b"0123456789ABCDEF"[c >> 8 & 15]
        out[4] = <uint8_t>b"0123456789ABCDEF"[c >> 4 & 15]
        out[5] = <uint8_t>b"0123456789ABCDEF"[c & 15]
        to[0] = out + 6


cdef inline bint is_plain_json(uint64_t w) noexcept nogil:
    """Are these eight octets of ASCII that need no escape? A borrow can only produce a false no."""
    cdef uint64_t ones = <uint64_t>0x0101010101010101ULL
    cdef uint64_t quotes = w ^ ones * 0x22, slashes = w ^ ones * 0x5C, deletes = w ^ ones * 0x7F
    return not (w | (w - ones * 0x20) | (quotes - ones) | (slashes - ones) | (deletes - ones)) & ones * 0x80


cdef int write_ascii(Writer w, str text) except -1:
    cdef Py_ssize_t size = 0
    cdef const uint8_t* p = ascii_octets(<PyObject*>text, &size)
    if p == NULL:
        p = <const uint8_t*>PyUnicode_AsUTF8AndSize(text, &size)
    return w.put_octets(p, <size_t>size)


cdef int write_decimal(Writer w, int64_t number) except -1:
    """A number in decimal digits."""
    cdef uint8_t[DIGITS_CAPACITY] digits
    return w.put_octets(digits, <size_t>write_signed(number, digits))


cdef enum:
    JAVA_SORTED = 1             # members in the order of their names, as in Java classes; otherwise that of a HashMap
    JAVA_LOOSE = 2              # numbers as names are not quoted


cdef int write_java(Writer w, object value, int how, int depth) except -1:
    """Write a value as fastjson does, without null members."""
    cdef bint first = True
    if depth > ROCKETMQ_NESTING:
        raise EncodeError(f"JSON nested deeper than {ROCKETMQ_NESTING} levels")
    if value is None:
        return write_ascii(w, "null")
    if value is True or value is False:
        return write_ascii(w, "true" if value else "false")
    if isinstance(value, str):
        return write_java_string(w, value, "body")
    if isinstance(value, int):
        return write_ascii(w, int.__repr__(value))      # not an instance of a derived class
    if isinstance(value, (float, Decimal)):
        if not (value.is_finite() if isinstance(value, Decimal) else value - value == 0):
            raise EncodeError(f"body: JSON has no number {value}")
        return write_ascii(w, float.__repr__(value) if isinstance(value, float) else str(value))
    if isinstance(value, (list, tuple, set, frozenset)):
        w.put_u8(c"[")
        for item in value:
            if not first:
                w.put_u8(c",")
            first = False
            write_java(w, item, how, depth + 1)
        return w.put_u8(c"]")
    if not hasattr(value, "items"):
        raise TypeError(f"body: JSON has no {type(value).__name__}")
    w.put_u8(c"{")
    members = {str(name): (name, item) for name, item in value.items() if item is not None}
    for text in sorted(members) if how & JAVA_SORTED else java_order(members, 16):
        name, item = members[text]
        if not first:
            w.put_u8(c",")
        first = False
        if how & JAVA_LOOSE and not isinstance(name, str):
            write_ascii(w, text)
        else:
            write_java_string(w, text, "body")
        w.put_u8(c":")
        write_java(w, item, how, depth + 1)
    return w.put_u8(c"}")


cdef str java_text(object value):
    """A JSON value where the real reader expects text."""
    cdef Writer w
    if value is None or isinstance(value, str):
        return value
    w = new_writer()
    write_java(w, value, 0, 0)
    return PyUnicode_DecodeUTF8(<const char*>w.out.at, <Py_ssize_t>w.out.size, NULL)


def encode_json(value, /, *, bint loose=False):
    """A JSON body as the Java code writes one: no blanks, members sorted by name, without those that are None.

    loose: numbers as names are not quoted, as name servers write them by default (7.3).

    Raises EncodeError for NaN, infinities and values nested too deeply, TypeError for objects that JSON cannot represent.
    """
    cdef Writer w = new_writer()
    write_java(w, value, JAVA_SORTED | (JAVA_LOOSE if loose else 0), 0)
    return PyBytes_FromStringAndSize(<const char*>w.out.at, <Py_ssize_t>w.out.size)
