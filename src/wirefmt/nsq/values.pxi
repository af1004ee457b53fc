# Python values as octets, and the members of JSON objects as Python values.
from collections.abc import Mapping
from types import MappingProxyType

# ------------------------------------------------------------------------------------------------ JSON -> values

cdef str nsq_json_text(const Span* raw):
    """A checked string; ill-formed UTF-8 and unpaired surrogates become U+FFFD."""
    cdef Writer w
    cdef const uint8_t* p = raw.at
    cdef const uint8_t* end = p + raw.size
    cdef const uint8_t* stop
    cdef uint32_t c
    if raw.size == 0:
        return ""
    if memchr(p, 0x5C, raw.size) == NULL:
        return PyUnicode_DecodeUTF8(<const char*>p, raw.size, "replace")
    w = new_writer()
    while p < end:
        stop = <const uint8_t*>memchr(p, 0x5C, <size_t>(end - p))
        if stop == NULL:
            stop = end
        w.put_octets(p, <size_t>(stop - p))
        p = stop
        if p < end:
            c = nsq_json_escape(&p, end)
            octets = chr(c).encode()
            w.put_octets(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets))
    return PyUnicode_DecodeUTF8(<const char*>w.out.at, <Py_ssize_t>w.out.size, "replace")


cdef uint32_t nsq_json_escape(const uint8_t** at, const uint8_t* end) noexcept nogil:
    """The character of an escape; moves `at` after it."""
    cdef const uint8_t* p = at[0]
    cdef uint32_t c = p[1], low
    at[0] = p + 2
    if c != c"u":
        return 8 if c == c"b" else 12 if c == c"f" else 10 if c == c"n" else 13 if c == c"r" else 9 if c == c"t" else c
    c = hex4(p + 2)
    at[0] = p + 6
    if not 0xD800 <= c < 0xE000:
        return c
    if c < 0xDC00 and end - p >= 12 and p[6] == 0x5C and p[7] == c"u":
        low = hex4(p + 8)
        if 0xDC00 <= low < 0xE000:
            at[0] = p + 12
            return 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00)
    return 0xFFFD


cdef object nsq_json_object(const NsqMember* m):
    """A value as a Python object: str, bool, None, int, float, tuple, read-only mapping."""
    cdef NsqJson j
    if m.type == NSQ_JSON_STRING:
        return nsq_json_text(&m.value)
    if m.type <= NSQ_JSON_NULL:
        return m.type == NSQ_JSON_TRUE if m.type != NSQ_JSON_NULL else None
    if m.type == NSQ_JSON_INTEGER:
        return m.number if m.in_range else int(octets_of(m.value.at, m.value.size))
    if m.type == NSQ_JSON_NUMBER:
        return float(octets_of(m.value.at, m.value.size))
    j.at = m.value.at + 1
    j.end = m.value.at + m.value.size
    j.check = 0
    return nsq_json_items(&j, m.type == NSQ_JSON_OBJECT)


cdef object nsq_json_items(NsqJson* j, bint named):
    """The contents of a checked array or object, nested at most NSQ_JSON_DEPTH levels."""
    cdef NsqMember m
    cdef list out = []
    nsq_json_space(j)
    while j.at[0] != (c"}" if named else c"]"):
        if j.at[0] == c",":
            j.at += 1
            nsq_json_space(j)
        if named:
            nsq_json_name(j, &m.name)
        nsq_json_value(j, &m)
        value = nsq_json_object(&m)
        out.append(nsq_member_pair(nsq_json_text(&m.name), value) if named else value)
        nsq_json_space(j)
    return MappingProxyType(dict(out)) if named else tuple(out)


cdef tuple nsq_member_pair(str name, object value):
    """(name, value) of a member of an object."""
    return name, hidden(value) if is_secret_text(name) else value


cdef tuple nsq_members_of(const uint8_t* p, uint32_t n):
    """(name, value) of the members of a JSON object, in order, with repeats; None: not a JSON object."""
    cdef NsqJson j
    cdef NsqMember m
    cdef list out = []
    cdef int begun = nsq_json_begin(&j, p, n)
    while begun == NSQ_JSON_OBJECT and nsq_json_next(&j, &m):
        out.append(nsq_member_pair(nsq_json_text(&m.name), nsq_json_object(&m)))
    return None if j.check else tuple(out)


# ------------------------------------------------------------------------------------------------ values -> JSON

cdef int nsq_write_json(Writer w, object value, int depth) except -1:
    """As Go's encoder writes: no spaces, `<`, `>`, `&` escaped."""
    cdef bytes text
    if depth > NSQ_JSON_DEPTH:
        raise EncodeError("members: nested deeper than 64 levels")
    if isinstance(value, str):
        return nsq_write_json_text(w, str(value))
    if isinstance(value, Mapping):
        return nsq_write_json_members(w, value.items(), depth)
    if isinstance(value, (list, tuple)):
        w.put_u8(c"[")
        for i, item in enumerate(value):
            if i:
                w.put_u8(c",")
            nsq_write_json(w, item, depth + 1)
        w.put_u8(c"]")
        return 0
    if value is None:
        text = b"null"
    elif value is True or value is False:
        text = b"true" if value else b"false"
    elif isinstance(value, float):
        if not value - value == 0:
            raise EncodeError(f"members: JSON cannot hold {value!r}")
        text = float.__repr__(value).encode()
    elif PyIndex_Check(value):
        text = int.__repr__(PyNumber_Index(value)).encode()
    else:
        raise TypeError(f"members: JSON cannot hold {type(value).__name__}")
    return w.put_octets(<const uint8_t*>PyBytes_AS_STRING(text), <size_t>PyBytes_GET_SIZE(text))


cdef int nsq_write_json_members(Writer w, object members, int depth) except -1:
    cdef bint first = True
    w.put_u8(c"{")
    for name, value in members:
        if not isinstance(name, str):
            raise TypeError(f"members: a name must be a str, not {type(name).__name__}")
        if not first:
            w.put_u8(c",")
        first = False
        nsq_write_json_text(w, name)
        w.put_u8(c":")
        nsq_write_json(w, value, depth + 1)
    return w.put_u8(c"}")


cdef int nsq_write_json_text(Writer w, str text) except -1:
    cdef Py_UCS4 c
    w.put_u8(c"\"")
    for c in text:
        if c == 0x22 or c == 0x5C:
            octets = b"\\" + chr(c).encode()
        elif c == 0x0A or c == 0x0D or c == 0x09:
            octets = b"\\n" if c == 0x0A else b"\\r" if c == 0x0D else b"\\t"
        elif c < 0x20 or c == 0x3C or c == 0x3E or c == 0x26 or c == 0x2028 or c == 0x2029:
            octets = b"\\u%04x" % <int>c
        elif 0xD800 <= c < 0xE000:
            raise EncodeError("members: a surrogate has no UTF-8 form")
        else:
            octets = chr(c).encode()
        w.put_octets(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets))
    return w.put_u8(c"\"")


# ------------------------------------------------------------------------------------------------ values -> octets

cdef Writer nsq_begin_line(int kind):
    cdef Writer w = new_writer()
    w.put_octets(<const uint8_t*>nsq_kind_name[kind], strlen(nsq_kind_name[kind]))
    return w


cdef const uint8_t* nsq_name_octets(object name, Py_ssize_t* size, str field) except NULL:
    """The octets of a topic's or channel's name. They live as long as `name`."""
    cdef const uint8_t* p = ascii_octets(<PyObject*>name, size)
    if p == NULL:
        if not isinstance(name, str):
            raise TypeError(f"{field} must be a str, not {type(name).__name__}")
        if name.isascii():
            p = <const uint8_t*>PyUnicode_AsUTF8AndSize(name, size)
    if p == NULL or nsq_name_fault(p, <size_t>size[0]) != NULL:
        raise EncodeError(f"{field}: {name!r} is not a valid name, [.a-zA-Z0-9_-]+(#ephemeral)? of 1 to 64 characters")
    return p


cdef int nsq_write_name(Writer w, object name, str field) except -1:
    """A space and a topic's or channel's name."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* p = nsq_name_octets(name, &size, field)
    w.put_u8(c" ")
    return w.put_octets(p, <size_t>size)


cdef int nsq_write_id(Writer w, object message_id) except -1:
    cdef bytes octets = take_block(message_id)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(octets)
    if size != NSQ_MESSAGE_ID_SIZE or b" " in octets or b"\n" in octets:
        raise EncodeError("message_id must be 16 bytes without space and newline")
    w.put_u8(c" ")
    return w.put_octets(<const uint8_t*>PyBytes_AS_STRING(octets), NSQ_MESSAGE_ID_SIZE)


cdef int nsq_write_number(Writer w, object value, str field) except -1:
    cdef bytes text = b" %d" % whole_number(value, 0x7FFFFFFFFFFFFFFF, field)
    return w.put_octets(<const uint8_t*>PyBytes_AS_STRING(text), <size_t>PyBytes_GET_SIZE(text))


cdef int nsq_write_sized(Writer w, object data, str field) except -1:
    """Write the size of a buffer and its octets."""
    cdef size_t at = w.out.size
    w.grow(4)
    w.put_buffer(data, False, field)
    return nsq_close_size(w, at, field)


cdef int nsq_close_size(Writer w, size_t at, str field) except -1:
    """Store the number of octets that follow the four at `at`."""
    nsq_bound_size(w.out.size - at - 4, field)
    store_u32(w.out.at + at, <uint32_t>(w.out.size - at - 4))
    return 0


cdef inline int nsq_bound_size(size_t size, str field) except -1:
    if size > 0x7FFFFFFF:
        raise EncodeError(f"{field}: {size} bytes, the limit is 2147483647")
    return 0


cdef bytes nsq_close(Writer w):
    return PyBytes_FromStringAndSize(<const char*>w.out.at, <Py_ssize_t>w.out.size)
