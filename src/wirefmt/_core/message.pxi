# What message classes of all protocols share: the block of octets they lie in, their repr, their public name.
#
# A message holds the immutable block (bytes) that it was decoded from and decodes from it on first use. Message
# classes have no common base: a freelist needs a class without one.
#
# Uses: writer (its buffer functions). Included by _core.pyx.
from cpython.bytes cimport PyBytes_CheckExact
from cpython.object cimport PyTypeObject

from wirefmt.framing import NEED_DATA as NEED_DATA_VALUE, Limits
from wirefmt.strictness import Note, Strictness


cdef enum:
    SHOWN_OCTETS = 32           # of a payload in a repr


cdef bytes take_block(object data):
    """The octets of a buffer as bytes: bytes themselves, all else is copied once."""
    cdef Py_buffer view
    if PyBytes_CheckExact(data):
        return <bytes>data
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return PyBytes_FromStringAndSize(<const char*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef str shown_octets(object octets):
    """Octets as Python literals, cut after SHOWN_OCTETS: `b'first' b'... 968 more'` is still an expression."""
    cdef bytes head = bytes(octets[:SHOWN_OCTETS])
    cdef Py_ssize_t more = len(octets) - len(head)
    return repr(head) if more <= 0 else f"{head!r} b'... {more} more'"


cdef int name_class(object cls, const char* name) except -1:
    """Give a class of the core the module and name that users see. `name` lives for ever."""
    (<PyTypeObject*>cls).tp_name = name
    return 0


cdef bint is_strict(object strictness) except? -1:
    return Strictness(strictness) is Strictness.STRICT
