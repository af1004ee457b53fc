# Growable output for encoders. A length that precedes its contents is inserted afterwards.
#
# `utf8_view` and `whole_number` (objects_head.pxi) turn arguments of constructors into C values. Exact str of ASCII and exact
# int need no call into another module; the functions here handle all other values and raise the errors.
cimport cython
from cpython.bytes cimport PyBytes_CheckExact
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.number cimport PyIndex_Check, PyNumber_Index
from cpython.unicode cimport PyUnicode_AsUTF8AndSize


# ------------------------------------------------------------------------------------------------ arguments

cdef const uint8_t* any_utf8_view(object text, Py_ssize_t* size, str field) except NULL:
    if not isinstance(text, str):
        raise TypeError(f"{field} must be a str, not {type(text).__name__}")
    try:
        return <const uint8_t*>PyUnicode_AsUTF8AndSize(text, size)
    except UnicodeEncodeError:
        raise EncodeError(f"{field}: a surrogate has no UTF-8 form") from None


cdef int refuse_size16(Py_ssize_t size, str field) except -1:
    raise EncodeError(f"{field}: {size} bytes, the limit is 65535")


# ------------------------------------------------------------------------------------------------ output

@cython.final
@cython.freelist(8)
@cython.no_gc
cdef class Writer:
    """Octets with an interface for constructors: methods raise. The first WRITER_START octets need no allocation."""

    def __cinit__(self):
        self.out = octets_over(self.start, WRITER_START)

    def __dealloc__(self):
        free_octets(&self.out)

    cdef int enlarge(self, size_t n) except -1:
        """Make space for `n` more octets by allocating."""
        if extend_octets(&self.out, n) == NULL:
            raise MemoryError
        self.out.size -= n
        return 0

    cdef int put_buffer(self, object data, bint sized, str field) except -1:
        """Write the contents of a buffer; `sized`: after two octets with their length."""
        cdef Py_buffer view
        if PyBytes_CheckExact(data):
            if sized:
                self.put_size16(PyBytes_GET_SIZE(data), field)
            return self.put_octets(<const uint8_t*>PyBytes_AS_STRING(data), <size_t>PyBytes_GET_SIZE(data))
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if sized:
                self.put_size16(view.len, field)
            self.put_octets(<const uint8_t*>view.buf, <size_t>view.len)
        finally:
            PyBuffer_Release(&view)
        return 0

    cdef int put_text16(self, object text, str field) except -1:
        """Write a str as UTF-8 after two octets with its length."""
        cdef Py_ssize_t size = 0
        cdef const uint8_t* p = utf8_view(text, &size, field)
        self.put_size16(size, field)
        return self.put_octets(p, <size_t>size)

    cdef int insert_varint(self, size_t at) except -1:
        """Insert the number of octets from `at` on before them."""
        cdef size_t n = self.out.size - at
        cdef size_t used
        if n > VARINT_MAX:
            raise EncodeError(f"{n} bytes, the limit is {VARINT_MAX}")
        used = <size_t>varint_size(<uint32_t>n)
        self.grow(used)
        memmove(self.out.at + at + used, self.out.at + at, n)
        store_varint(self.out.at + at, <uint32_t>n)
        return 0


cdef Writer new_writer():
    return Writer.__new__(Writer)


cdef int64_t any_whole_number(object value, int64_t top, str field) except -1:
    cdef int overflow = 0
    cdef long long plain
    if PyLong_CheckExact(value):
        plain = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0 and 0 <= plain <= top:
            return plain
    if not PyIndex_Check(value):
        raise TypeError(f"{field} must be an int, not {type(value).__name__}")
    number = PyNumber_Index(value)
    if not 0 <= number <= top:
        raise EncodeError(f"{field}: {number} is out of range (0 to {top})")
    return number
