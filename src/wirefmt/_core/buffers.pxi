# Buffers: how octets come in, and how views of them go out.
#
# Nobody changes octets while they are read. Every walk over octets relies on what an earlier one has checked, and other
# threads and processes may write to a bytearray, an array or shared memory at any time, all the more while the GIL is
# released. So what a public function reads is bytes, a copy, or a view of bytes: take_block, take_input and input_head are the
# only ways in. That a view is read-only says nothing about the underlying buffer: only bytes never change.
from cpython.bytes cimport PyBytes_Check, PyBytes_CheckExact
from cpython.object cimport PyObject


cdef extern from "Python.h":
    bint PyMemoryView_Check(object o)
    PyObject* PyMemoryView_GET_BASE(object view)        # borrowed; NULL: of no object


@cython.final
@cython.freelist(8)
@cython.no_gc
cdef class Input:
    """Bytes that stay unchanged while it lives."""


cdef Input take_input(object data):
    """The bytes of a buffer. Bytes and memoryviews of bytes are read where they lie, any other buffer is copied once. Raises
    TypeError for no buffer, BufferError for one that is not contiguous."""
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


cdef size_t input_head(object data, uint8_t* room) except? 0:
    """Copy the first bytes of a buffer, INPUT_HEAD at most: how many."""
    cdef Py_buffer view
    cdef size_t n
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    n = min(<size_t>view.len, <size_t>INPUT_HEAD)
    memcpy(room, view.buf, n)
    PyBuffer_Release(&view)
    return n


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
