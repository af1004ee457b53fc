# Fault -> exception, or text. The only room that raises DecodeError.
from libc.stdio cimport snprintf
from libc.string cimport strlen, strstr

from wirefmt.errors import DecodeError, EncodeError, LimitExceeded, Malformed, Truncated, Unsupported
from wirefmt.framing import NEED_DATA as NEED_DATA_VALUE


cdef tuple FAULT_CLASSES = (DecodeError, DecodeError, Truncated, Malformed, LimitExceeded, Unsupported)


cdef int write_path(const ProtocolTables* t, int field, int index, char* out, size_t capacity) noexcept nogil:
    """The path of a field with its index in the brackets. Octets written, without the closing NUL."""
    cdef const char* path = t.path[field]
    cdef const char* brackets = strstr(path, "[]")
    cdef int n
    if brackets == NULL or index < 0:
        n = snprintf(out, capacity, "%.*s", <int>(strlen(path) if brackets == NULL else brackets - path), path)
        if brackets != NULL and n >= 0 and <size_t>n < capacity:
            n += snprintf(out + n, capacity - <size_t>n, "%s", brackets + 2)
    else:
        n = snprintf(out, capacity, "%.*s[%d]%s", <int>(brackets - path), path, index, brackets + 2)
    return printed(n, capacity)


cdef int fault_text(const ProtocolTables* t, const Fault* f, int64_t base_offset, char* out,
                    size_t capacity) noexcept nogil:
    """One line, as str(DecodeError) gives it without the protocol: `topic_name: ill-formed UTF-8 at offset 7
    [MQTT-1.5.4-1]`. `capacity` is at least 1. Octets written, without the closing NUL."""
    cdef char path[128]
    cdef const char* spec = spec_of(t, f)
    cdef int n
    write_path(t, f.field, f.index, path, sizeof(path))
    if f.need:
        n = snprintf(out, capacity, "%s%s%s (needs %lld, has %lld%s%s) at offset %lld%s%s%s", path, ": " if path[0] else "",
                     t.text[f.check], <long long>f.need, <long long>f.have, ", bounded by " if f.limited_by else "",
                     t.path[f.limited_by], <long long>(base_offset + f.offset),
                     " [" if spec[0] else "", spec, "]" if spec[0] else "")
    else:
        n = snprintf(out, capacity, "%s%s%s at offset %lld%s%s%s", path, ": " if path[0] else "", t.text[f.check],
                     <long long>(base_offset + f.offset), " [" if spec[0] else "", spec, "]" if spec[0] else "")
    return printed(n, capacity)


cdef int note_text(const ProtocolTables* t, const Notes* notes, int64_t base_offset, char* out, size_t capacity) noexcept nogil:
    """One line about the first violation that LAX accepted. Octets written, without the closing NUL."""
    cdef int n = snprintf(out, capacity, "%s at offset %lld", t.text[notes.check], <long long>(base_offset + notes.offset))
    return printed(n, capacity)


cdef int violation(const CommonOptions* o, Notes* notes, Fault* f, int status, bint lax, int check, int field, int index,
                   int64_t offset) noexcept nogil:
    """Report a violation of a check of this `status`, which LAX accepts if `lax` is set. OK: it is in `notes`, continue;
    otherwise the status: it is in `f`."""
    cdef Violation* note
    if o.strict or not lax:
        fault(f, status, check, field, offset, 0, 0, 0)
        f.index = index
        return status
    if notes.count == 0:
        notes.check = check
        notes.offset = offset
    if o.notes != NULL and notes.count < o.notes_capacity:
        note = &o.notes[notes.count]
        note.check = check
        note.field = field
        note.index = index
        note.offset = offset
    notes.count += 1
    return OK


cdef str field_path(const ProtocolTables* t, int field, int index):
    cdef char path[128]
    return path[:write_path(t, field, index, path, sizeof(path))].decode("ascii")


cdef object make_fault(const ProtocolTables* t, const Fault* f, int64_t base_offset):
    """The exception for a fault, with `offset` counted from the start of the input."""
    cdef int reply = t.reply_to(f) if t.reply_to != NULL else -1
    return FAULT_CLASSES[f.status](
        t.text[f.check].decode("utf-8"),
        protocol=t.name.decode("ascii"),
        offset=base_offset + f.offset,
        path=field_path(t, f.field, f.index),
        need=f.need if f.need else None,
        have=f.have if f.need else None,
        limited_by=t.path[f.limited_by].decode("ascii"),
        spec=spec_of(t, f).decode("ascii"),
        reply=None if reply < 0 else reply if t.replies == NULL else t.replies[reply].decode("ascii"),
    )


cdef int raise_fault(const ProtocolTables* t, const Fault* f, int64_t base_offset) except -1:
    raise make_fault(t, f, base_offset)


cdef object size_found(const ProtocolTables* t, int status, size_t size, const Fault* f):
    """What `frame_size` of a package returns: the size, or NEED_DATA. Raises the fault if there is one."""
    if status == OK:
        return size
    if status == NEED_DATA:
        return NEED_DATA_VALUE
    raise_fault(t, f, 0)


cdef object encode_error(const ProtocolTables* t, const Fault* f):
    """The exception for a fault that STRICT finds in what a constructor wrote."""
    cdef char text[256]
    return EncodeError(text[:fault_text(t, f, 0, text, sizeof(text))].decode("utf-8"))
