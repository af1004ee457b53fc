# Buffers: input from callers, and views for callers.
#
# Octets must not change while they are read: each pass over them relies on the checks of earlier passes, and other threads and
# processes may write to a bytearray, an array or shared memory at any time, above all while the GIL is released. Public
# functions therefore read bytes, views of bytes, or copies, and take input only by take_block, take_input and input_head.
# A read-only view may be of a buffer that changes; only bytes are immutable.
from cpython.bytes cimport PyBytes_Check, PyBytes_CheckExact
from cpython.object cimport PyObject


cdef extern from "Python.h":
    bint PyMemoryView_Check(object o)
    PyObject* PyMemoryView_GET_BASE(object view)        # borrowed; NULL: the view has no object


@cython.final
@cython.freelist(8)
@cython.no_gc
cdef class Input:
    """Bytes that stay unchanged while it lives."""


cdef Input take_input(object data):
    """The bytes of a buffer. Bytes and memoryviews of bytes are read in place, any other buffer is copied once. Raises
    TypeError if `data` is not a buffer, BufferError if it is not contiguous."""
    cdef Input taken = Input.__new__(Input)
    cdef PyObject* base = PyMemoryView_GET_BASE(data) if PyMemoryView_Check(data) else NULL
    cdef Py_buffer view
    if base != NULL and PyBytes_Check(<object>base):
        taken.held = <bytes>base
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        taken.at = <const uint8_t*>view.buf
        taken.size = view.len
        PyBuffer_Release(&view)
    else:
        taken.held = take_block(data)
        taken.at = <const uint8_t*>PyBytes_AS_STRING(taken.held)
        taken.size = PyBytes_GET_SIZE(taken.held)
    return taken


cdef size_t input_head(object data, uint8_t* scratch) except? 0:
    """Copy the first bytes of a buffer, at most INPUT_HEAD. Returns their number."""
    cdef Py_buffer view
    cdef size_t n
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    n = min(<size_t>view.len, <size_t>INPUT_HEAD)
    memcpy(scratch, view.buf, n)
    PyBuffer_Release(&view)
    return n


cdef bytes take_block(object data):
    """The contents of a buffer as bytes. Bytes are returned unchanged, any other buffer is copied once."""
    cdef Py_buffer view
    if PyBytes_CheckExact(data):
        return <bytes>data
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return PyBytes_FromStringAndSize(<const char*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
